"""Fetch sessions (KIP-227): full requests, incremental ones, partitions that are forgotten, errors, eviction."""

from __future__ import annotations

import pytest

from pykafka.exceptions import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from pykafka.protocol import wire
from pykafka.testing import fetch_sessions
from pykafka.testing.fetch_sessions import EVICTION_MS, FetchSessions
from tests.testing.datapath import Brokers, batch

VERSIONS = [7, 12, 13, 18]


class Reader:
    """A client with a session."""

    def __init__(self, brokers: Brokers, version: int) -> None:
        self.brokers = brokers
        self.version = version
        self.session_id = 0
        self.epoch = 0

    def full(self, *indices: int) -> list[int]:
        return self.send(self.brokers.fetch_request(0, self.version, indices))

    def next(self, *indices: int, offset: int = 0, forgets: tuple[int, ...] = ()) -> list[int]:
        request = self.brokers.fetch_request(offset, self.version, indices)
        named = request.topics[0]
        if not indices:
            request.topics = []
        if forgets:
            forgotten = wire.FetchRequest.ForgottenTopic(partitions=list(forgets))
            forgotten.topic, forgotten.topic_id = named.topic, named.topic_id
            request.forgotten_topics_data = [forgotten]
        return self.send(request)

    def send(self, request: wire.FetchRequest) -> list[int]:
        request.session_id, request.session_epoch = self.session_id, self.epoch
        response = self.brokers.ask(request, self.version)
        self.error = response.error_code
        self.session_id = response.session_id
        self.epoch += 1
        return [part.partition_index for topic in response.responses for part in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_has_what_changed(version: int) -> None:
    brokers = Brokers(partitions=3)
    reader = Reader(brokers, version)
    assert reader.full(0, 1, 2) == [0, 1, 2]
    assert reader.session_id > 0
    assert reader.next() == []
    brokers.produce(batch("a"), index=1)
    assert reader.next() == [1]
    assert reader.next() == [1]  # it comes again until the reader asks for what is behind it
    assert reader.next(1, offset=1) == []
    brokers.topic.partitions[0].log.begin_epoch(1)
    brokers.topic.partitions[2].log.append(batch("b"), 0, 0)
    assert reader.next(forgets=(2,)) == []
    assert reader.next(2) == [2]
    assert reader.error == 0


def test_partitions_with_records_are_last_the_next_time() -> None:
    brokers = Brokers(partitions=3)
    for index in range(3):
        brokers.produce(batch("a" * 100), index=index)
    reader = Reader(brokers, 18)
    reader.full(0, 1, 2)
    request = brokers.fetch_request(0, 18, (0,), max_bytes=1)
    request.topics = []
    # A limit has room for one partition at a time.
    assert [reader.send(request)[0] for _ in range(4)] == [0, 1, 2, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_come_each_time(version: int) -> None:
    reader = Reader(Brokers(), version)
    assert reader.full(0, 7) == [0, 7]
    assert [reader.next() for _ in range(2)] == [[7], [7]]


@pytest.mark.parametrize(
    ("session_id", "epoch", "version", "error"),
    [
        (None, 9, 18, InvalidFetchSessionEpoch.ERROR_CODE),
        (12345, 1, 18, FetchSessionIdNotFound.ERROR_CODE),
        (None, 1, 12, FetchSessionTopicIdError.ERROR_CODE),
    ],
)
def test_sessions_that_do_not_fit(session_id: int | None, epoch: int, version: int, error: int) -> None:
    brokers = Brokers()
    reader = Reader(brokers, 18)
    reader.full(0)
    reader.session_id = reader.session_id if session_id is None else session_id
    reader.epoch, reader.version = epoch, version
    assert reader.next() == []
    assert (reader.error, reader.session_id) == (error, 0)


@pytest.mark.parametrize("ends", ["close", "anew", "restart", "nothing left"])
def test_what_ends_a_session(ends: str) -> None:
    brokers = Brokers(2)
    reader = Reader(brokers, 18)
    reader.full(0)
    first = reader.session_id
    if ends == "close":
        reader.epoch = -1
        reader.next()
        assert reader.session_id == 0
    elif ends == "anew":
        reader.epoch = 0
        assert reader.full(0) == [0]
        assert reader.session_id not in (0, first)
    elif ends == "restart":
        brokers.state.nodes[1].epoch += 1
    else:
        assert reader.next(forgets=(0,)) == []
        assert reader.session_id == 0
    reader.session_id, reader.epoch = first, 1
    reader.next()
    assert reader.error == FetchSessionIdNotFound.ERROR_CODE


def test_no_session_is_made_for_readers_that_want_none() -> None:
    brokers = Brokers()
    reader = Reader(brokers, 18)
    reader.epoch = -1
    assert reader.full(0) == [0]
    assert reader.session_id == 0


def test_eviction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "SLOTS", 2)
    numbers = iter((0, 1, 1, 2, 3, 4, 5))
    sessions = FetchSessions(lambda: next(numbers))
    brokers = Brokers(partitions=2)
    small, large = brokers.fetch_request(0, 18, (0,)), brokers.fetch_request(0, 18, (0, 1))
    small.session_epoch = large.session_epoch = 0

    def opened(request: wire.FetchRequest, now_ms: int) -> int:
        return sessions.context(request, 18, now_ms).session_id

    assert [opened(small, 0), opened(large, 10)] == [1, 2]
    assert opened(large, 20) == 0  # all are new
    used = brokers.fetch_request(0, 18, (0,))
    used.session_id, used.session_epoch = 1, 1
    assert sessions.context(used, 18, EVICTION_MS).error == 0
    used.session_id = 2
    assert sessions.context(used, 18, EVICTION_MS).error == 0
    assert opened(small, EVICTION_MS + 1) == 0  # none is smaller
    assert opened(large, EVICTION_MS + 1) == 3
    assert sorted(sessions.by_id) == [2, 3]
    assert opened(small, 3 * EVICTION_MS) == 4  # the oldest one is stale
    assert sorted(sessions.by_id) == [3, 4]
