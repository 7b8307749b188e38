"""The requests of a fetch worker: how topics are named within a session, and how it ends one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import UUID

import pytest

from pykafka.common import TopicPartition
from pykafka.consumer.fetch_plan import Asked, Plan
from pykafka.consumer.fetch_request import REFUSED_AT_MOST, FetchRequests, FetchSettings
from pykafka.consumer.fetcher import Fetcher
from pykafka.exceptions import FetchSessionIdNotFound
from pykafka.handlers import ThreadingHandler
from pykafka.protocol import wire

OLD, NEW = UUID(int=1), UUID(int=2)
KEY = TopicPartition("t", 0)
OTHER = TopicPartition("other", 0)


class FakeBroker:
    """Takes requests, and answers nothing."""

    id = 0
    address = "127.0.0.1:9092"
    socket_timeout_ms = 1000

    def __init__(self, version: int) -> None:
        self.version = version
        self.requests: list[tuple[wire.FetchRequest, int]] = []

    def api_version(self, kind: object, ceiling: int | None = None) -> int:
        return self.version if ceiling else min(self.version, 12)

    def channel(self, name: str) -> Any:
        return SimpleNamespace(requests=None)

    def send(self, request: wire.FetchRequest, channel: str, **how: Any) -> None:
        self.requests.append((request, how["version"]))


def asked(topic_id: UUID | None, offset: int = 0) -> Asked:
    member: Any = SimpleNamespace(owned=SimpleNamespace(max_bytes=1000))
    return Asked(offset, -1, -1, 1000, topic_id, [(member, 0)])


def last_request(version: int, *plans: dict[TopicPartition, Asked]) -> wire.FetchRequest:
    """Return the request for the last plan, in a session that the broker has given the number 7."""
    requests = FetchRequests(FetchSettings())
    for plan in plans:
        request, _ = requests.next(Plan(plan), version)
        requests.session.answered(7)
    return request


@pytest.mark.parametrize(
    ("version", "session", "log_epoch"), [(6, (0, -1), -1), (7, (0, 0), -1), (11, (0, 0), -1), (12, (0, 0), 3)]
)
def test_a_request_has_what_its_version_knows(version: int, session: tuple[int, int], log_epoch: int) -> None:
    plan = Plan({KEY: asked(OLD, 5)._replace(log_epoch=3, leader_epoch=4)}, max_bytes=500)
    request, full = FetchRequests(FetchSettings(max_wait_ms=100, min_bytes=2, rack="r")).next(plan, version)
    assert full
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.rack_id) == (100, 2, 500, "r")
    assert (request.session_id, request.session_epoch) == session
    ((part,),) = [topic.partitions for topic in request.topics]
    assert (part.fetch_offset, part.last_fetched_epoch, part.current_leader_epoch) == (5, log_epoch, 4)
    assert part.partition_max_bytes == 1000


@pytest.mark.parametrize(("version", "id_"), [(12, None), (13, OLD)])
def test_partitions_of_a_topic_are_named_and_forgotten_together(version: int, id_: UUID | None) -> None:
    keys = [TopicPartition(topic, partition) for topic, partition in (("t", 0), ("u", 0), ("t", 4))]
    all_of_them = {key: asked(UUID(int=3) if id_ and key.topic == "u" else id_) for key in keys}
    request = last_request(version, all_of_them)
    named = [(topic.topic, [part.partition for part in topic.partitions]) for topic in request.topics]
    assert named == [("t", [0, 4]), ("u", [0])]
    request = last_request(version, all_of_them, {keys[1]: all_of_them[keys[1]]})
    ((forgotten),) = request.forgotten_topics_data
    assert (forgotten.topic, forgotten.topic_id, forgotten.partitions) == ("t", id_ or UUID(int=0), [0, 4])


def test_the_last_request_ends_the_session_at_once() -> None:
    requests = FetchRequests(FetchSettings())
    requests.next(Plan({KEY: asked(OLD)}), 12)
    requests.session.answered(7)
    last = requests.last()
    assert (last.session_id, last.session_epoch, last.min_bytes, last.topics) == (7, -1, 0, [])


def test_the_broker_waits_longer_each_time_while_a_partition_is_held_back() -> None:
    requests = FetchRequests(FetchSettings(max_wait_ms=15))
    held_back = [True, True, True, True, False, True]
    waits = [requests.next(Plan({KEY: asked(OLD)}, held_back=held), 12)[0].max_wait_ms for held in held_back]
    assert waits == [5, 10, 15, 15, 15, 5]


def test_a_plan_that_stands_is_asked_for_again_without_naming_it() -> None:
    requests, plan = FetchRequests(FetchSettings()), Plan({KEY: asked(OLD)}, max_bytes=7)
    found = []
    for _ in range(4):
        request, full = requests.next(plan, 13)
        found.append((full, len(request.topics), request.session_id, request.session_epoch, request.max_bytes))
        requests.session.answered(9)
    assert found == [(True, 1, 0, 0, 7), (False, 0, 9, 1, 7), (False, 0, 9, 2, 7), (False, 0, 9, 3, 7)]
    moved, _ = requests.next(Plan({KEY: asked(OLD, 5)}), 13)
    assert [part.fetch_offset for topic in moved.topics for part in topic.partitions] == [5]


@pytest.mark.parametrize("version", [7, 11, 12, 13, 14, 15, 17, 18])
def test_a_repeated_request_has_the_bytes_of_a_new_one(version: int) -> None:
    """It is encoded once, and has another epoch each time."""
    settings = FetchSettings(max_wait_ms=123, min_bytes=2, isolation_level=1, rack="r")
    requests, plan = FetchRequests(settings), Plan({KEY: asked(OLD)}, max_bytes=7)
    requests.next(plan, version)
    for session_id, first in ((9, 1), (1 << 30, 4), (10, 2**31 - 2)):
        requests.session.answered(session_id)
        requests.session._epoch = first
        for epoch in (first, first + 1, first + 2 if first < 4 else 1 if first > 4 else 6):
            request, full = requests.next(plan, version)
            fresh = wire.FetchRequest(
                max_wait_ms=123,
                min_bytes=2,
                max_bytes=7,
                isolation_level=1,
                session_id=session_id,
                session_epoch=epoch,
                rack_id="r",
            )
            assert not full
            assert b"".join(request.chunks(version)) == fresh.encode(version)
            assert (request.session_id, request.session_epoch) == (session_id, epoch)


def test_a_plan_that_stands_is_named_again_in_another_version() -> None:
    """A broker that was replaced knows no session; the plan may stand all the same."""
    requests, plan = FetchRequests(FetchSettings()), Plan({KEY: asked(OLD)})
    for _ in range(2):
        requests.next(plan, 13)
        requests.session.answered(9)
    request, _ = requests.next(plan, 12)
    assert (len(request.topics), request.session_id, request.session_epoch) == (1, 9, 0)
    assert request.encode(12) == wire.FetchRequest.decode(request.encode(12), 12).encode(12)


@pytest.mark.parametrize("ends", ["refused", "failed"])
def test_a_plan_that_stands_is_named_again_after_the_end_of_its_session(ends: str) -> None:
    requests, plan = FetchRequests(FetchSettings()), Plan({KEY: asked(OLD)})
    for _ in range(2):
        requests.next(plan, 13)
        requests.session.answered(9)
    getattr(requests.session, ends)()
    request, full = requests.next(plan, 13)
    assert (full, len(request.topics), request.session_epoch) == (True, 1, 0)


def test_without_sessions_each_request_names_its_partitions() -> None:
    requests, plan = FetchRequests(FetchSettings()), Plan({KEY: asked(OLD)})
    for version in (6, 6):
        request, full = requests.next(plan, version)
        assert (full, len(request.topics)) == (True, 1)
    for _ in range(2):  # the broker has no room for a session
        request, full = requests.next(plan, 13)
        requests.session.answered(0)
        assert (full, len(request.topics)) == (True, 1)


@pytest.mark.parametrize("other", [None, OLD])
@pytest.mark.parametrize("before", [None, OLD])
def test_a_session_by_name_does_not_forget_a_topic_that_was_made_anew(before: UUID | None, other: UUID | None) -> None:
    """A broker forgets last: it would fetch the partition no more, and this client would think it does."""
    plans = {OTHER: asked(other), KEY: asked(before, 9)}, {OTHER: asked(other), KEY: asked(NEW)}
    request = last_request(12, *plans)
    assert request.session_id == 7
    assert not request.forgotten_topics_data
    ((topic, part),) = [(topic.topic, part) for topic in request.topics for part in topic.partitions]
    assert (topic, part.fetch_offset) == ("t", 0)


def test_a_session_by_id_forgets_the_former_topic() -> None:
    plans = {OTHER: asked(OLD), KEY: asked(OLD, 9)}, {OTHER: asked(OLD), KEY: asked(NEW)}
    request = last_request(13, *plans)
    assert [one.topic_id for one in request.forgotten_topics_data] == [OLD]
    assert [one.topic_id for one in request.topics] == [NEW]


def test_a_broker_that_refuses_requests_without_a_session_fails_the_fetch() -> None:
    """It would be asked again and again without a pause."""
    broker: Any = FakeBroker(13)
    fetcher = Fetcher(broker, ThreadingHandler(), FetchSettings())
    plan = Plan({KEY: asked(OLD)})
    refusal = wire.FetchResponse(error_code=FetchSessionIdNotFound.ERROR_CODE)
    for _ in range(REFUSED_AT_MOST):
        fetcher._send(plan)
        assert fetcher._read(plan, refusal, full=True) == []
    fetcher._send(plan)
    with pytest.raises(FetchSessionIdNotFound):
        fetcher._read(plan, refusal, full=True)
    assert [request.session_epoch for request, _ in broker.requests] == [0] * REFUSED_AT_MOST + [-1]


def test_a_worker_that_is_interrupted_as_it_ends_the_session_leaves_the_next_worker_alone() -> None:
    """It would fail the partitions of that one, and have a third worker started beside it."""
    failures: list[object] = []
    workers: list[object] = []
    consumer: Any = SimpleNamespace(fetch_failed=lambda owned, error: failures.append(error), tick=lambda: None)
    ref: Any = lambda: consumer  # noqa: E731
    owned: Any = mock.Mock(fetcher=None)

    class Interrupting(FakeBroker):
        def throttled_for(self, channel: str) -> float:
            return 0.0

        def channel(self, name: str) -> SimpleNamespace:
            return SimpleNamespace(connected=True)

        def forget_versions(self) -> None:
            pass

        def send(self, request: wire.FetchRequest, channel: str, **how: Any) -> None:
            fetcher.attach(owned, ref)  # by another thread, at this moment
            raise KeyboardInterrupt

    def spawn(run: object, name: str) -> object:
        workers.append(name)
        return SimpleNamespace(is_alive=lambda: True)

    handler: Any = mock.Mock(wraps=ThreadingHandler(), spawn=spawn)
    broker: Any = Interrupting(13)
    fetcher = Fetcher(broker, handler, FetchSettings())
    fetcher._requests.session.answered(7)
    with pytest.raises(KeyboardInterrupt):
        fetcher._run()
    assert failures == []
    assert owned.fetcher is fetcher
    fetcher.attach(mock.Mock(fetcher=None), ref)
    assert len(workers) == 1


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("since", [None, 100.0])
def test_the_time_of_a_throttled_answer_is_none_of_trouble(full: bool, since: float | None) -> None:
    """The first error behind it would count as one that lasts."""
    broker: Any = FakeBroker(13)
    fetcher = Fetcher(broker, ThreadingHandler(), FetchSettings())
    plan = Plan({KEY: asked(OLD)})
    owned = plan.partitions[KEY].members[0][0].owned
    owned.trouble_since = since
    answer = wire.FetchResponse(session_id=7, throttle_time_ms=30_000, responses=[])
    assert fetcher._read(plan, answer, full) == []
    assert owned.trouble_since == (None if since is None else 130.0)
