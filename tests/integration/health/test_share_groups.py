"""Share consumers in reports and in the watch: membership, records, workers that have ended, brokers that hang."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import GroupAuthorizationFailed, KafkaException
from pykafka.health import Stalled, Why, wsgi_app
from pykafka.health import watch as module
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster
from tests.integration.sharegroups.test_share_consumer import filled, new_group, taken
from tests.support.features import KAFKA_VERSION
from tests.support.inside import engine_of
from tests.support.loops import Concurrency
from tests.support.waiting import until

pytestmark = [
    pytest.mark.needs("share groups"),
    pytest.mark.on_asyncio,
    pytest.mark.timeout(120),
]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the events that clients get."""
    events: list[Any] = []
    monkeypatch.setattr(module, "tell", lambda _, event: events.append(event))
    return events


@pytest.fixture
def watchful(brokers: KafkaCluster | FakeCluster, concurrency: Concurrency) -> Iterator[KafkaClient]:
    """Yield a client that reports stalls after a second."""
    with KafkaClient(brokers.hosts, stall_report_ms=1000, **concurrency()) as client:
        yield client


def some(consumer: Any, count: int) -> list[Any]:
    """Return so many records, of those that have come in one batch."""
    found: list[Any] = consumer.poll(count, timeout=20)
    assert len(found) == count
    return found


def status(client: KafkaClient, path: str) -> int:
    found: list[str] = []
    wsgi_app(client)({"PATH_INFO": path}, lambda line, _: found.append(line))
    return int(found[0][:3])


def test_a_report_has_membership_and_records(watchful: KafkaClient) -> None:
    topic, group = filled(watchful, 10), new_group(watchful)
    with watchful.share_consumer(topic, group=group, acknowledgement="explicit") as consumer:
        before = consumer.health()
        assert before.last_poll_s is None
        records = some(consumer, 4)
        report = watchful.health()
        (found,) = report.share_consumers
        assert report.ready
        assert (found.name, found.group, found.buffered, found.unacknowledged) == (topic, group, 6, 4)
        assert found.partitions == (f"{topic}-0",)
        assert found.last_poll_s is not None
        assert found.member is not None
        assert (found.member.stable, found.member.protocol, found.member.member_id) == (
            True,
            "share",
            consumer.member_id,
        )
        assert found.member.heartbeat_s is not None
        assert json.loads(json.dumps(report.to_dict()))["share_consumers"][0]["group"] == group
        for record in records:
            consumer.accept(record)
        consumer.commit()
        assert consumer.health().unacknowledged == 0
        assert consumer.explain().of(f"{topic}-0").why is Why.READS_ON
    assert watchful.health().share_consumers == ()
    assert [problem.kind for problem in consumer.health().problems] == ["closed"]


def test_records_that_the_application_does_not_take(watchful: KafkaClient, heard: list[Any]) -> None:
    topic = filled(watchful, 10)
    with watchful.share_consumer(topic, group=new_group(watchful)) as consumer:
        some(consumer, 4)
        assert consumer.health().ready
        until(watchful.cluster.handler, lambda: heard, 15)
        (stalled,) = heard
        assert isinstance(stalled, Stalled)
        assert (stalled.topic, stalled.why) == ("", Why.NOT_POLLED)
        (problem,) = consumer.health().problems
        assert "6 records are acquired" in problem.text
        assert status(watchful, "/livez") == 200
        some(consumer, 6)
        assert consumer.health().ready


def test_a_stall_is_a_metric(watchful: KafkaClient) -> None:
    topic = filled(watchful, 10)
    with watchful.share_consumer(topic, group=new_group(watchful)) as consumer:
        some(consumer, 4)

        def shown() -> list[float]:
            found = {one.name.name: one.value for one in consumer.metrics().values() if "reason" in dict(one.name.tags)}
            return list(found.values())  # the metrics are there once something has stood still

        until(watchful.cluster.handler, lambda: shown() == [1, 1], 15)
        some(consumer, 6)
        consumer.commit()
        until(watchful.cluster.handler, lambda: shown() == [0, 1], 15)


def test_a_session_whose_worker_has_ended(
    watchful: KafkaClient, heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(watchful, 1)
    with watchful.share_consumer(topic, group=new_group(watchful)) as consumer:
        taken(consumer, 1)
        (session,) = engine_of(consumer)._sessions.values()

        def broken(idle: bool) -> None:
            raise ValueError("broken")

        monkeypatch.setattr(session, "_next_request", broken)
        session.wake.set()
        until(watchful.cluster.handler, lambda: status(watchful, "/livez") == 503)
        report = consumer.health()
        assert report.problems[0].kind == "worker-ended"
        assert "ValueError: broken" in report.problems[0].text
        assert len(report.errors) == 1
        until(watchful.cluster.handler, lambda: heard, 15)
        assert heard[0].why is Why.WORKER_ENDED
        with pytest.raises(KafkaException, match="broken"):
            consumer.poll(timeout=1)
        assert not consumer.health().alive  # the error was raised, and the worker stays away
        assert consumer.health().errors == ()


def test_a_member_whose_worker_has_ended(watchful: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = filled(watchful, 1)
    with watchful.share_consumer(topic, group=new_group(watchful)) as consumer:
        taken(consumer, 1)
        member = engine_of(consumer).member

        def broken() -> None:
            raise ValueError("broken")

        monkeypatch.setattr(member, "_send_heartbeat", broken)
        member._wake.set()
        until(watchful.cluster.handler, lambda: not consumer.health().alive)
        assert "sends heartbeats has ended by ValueError" in consumer.health().problems[0].text


def test_a_group_that_refuses_its_member(watchful: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = filled(watchful, 1)
    with watchful.share_consumer(topic, group=new_group(watchful)) as consumer:
        taken(consumer, 1)
        member: Any = engine_of(consumer).member
        send = member._send

        def denied(*args: Any) -> None:
            raise GroupAuthorizationFailed("denied")

        monkeypatch.setattr(member, "_send", denied)
        member._wake.set()
        until(watchful.cluster.handler, lambda: not consumer.health().ready)
        assert {problem.kind for problem in consumer.health().problems} == {"not-authorized"}
        assert len(consumer.health().errors) == 1
        with pytest.raises(GroupAuthorizationFailed):
            consumer.poll(timeout=1)
        assert [problem.kind for problem in watchful.health().problems] == ["not-authorized"]  # it still is
        assert watchful.health().alive
        monkeypatch.setattr(member, "_send", send)

        def is_well() -> bool:
            try:
                consumer.poll(timeout=0.1)
            except GroupAuthorizationFailed:
                return False
            return consumer.health().ready

        until(watchful.cluster.handler, is_well)


@pytest.mark.kafka
@pytest.mark.later("greenlets")
def test_a_broker_that_hangs(concurrency: Concurrency, heard: list[Any]) -> None:
    with (
        KafkaCluster(KAFKA_VERSION) as kafka,
        KafkaClient(kafka.hosts, stall_report_ms=1000, socket_timeout_ms=30_000, **concurrency()) as client,
    ):
        topic, handler = filled(client, 3), client.cluster.handler
        with client.share_consumer(topic, group=new_group(client)) as consumer:
            taken(consumer, 3)
            kafka.pause(1)
            reader = handler.spawn(consumer.poll, 1, timeout=6)
            try:
                until(handler, lambda: consumer.explain().of(f"{topic}-0").why is Why.UNREACHABLE, 15)
                assert "has not answered" in consumer.explain().of(f"{topic}-0").text
                assert status(client, "/livez") == 200
                assert status(client, "/readyz") == 503
                report = client.health(probe=True, timeout=0.5)
                assert [broker.reachable for broker in report.brokers] == [False]
            finally:
                kafka.resume(1)
            assert reader.join(60)
            until(handler, lambda: (consumer.poll(timeout=0.1), consumer.health().ready)[1], 60)
