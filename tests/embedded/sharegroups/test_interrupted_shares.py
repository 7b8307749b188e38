"""Calls of share consumers that Ctrl-C ends at any step: no record is lost, no worker and no member stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import TopicAuthorizationFailed
from pykafka.sharegroups.consumer import ShareConsumer
from pykafka.testing import FakeCluster
from tests.support.interrupts import Interrupted, interrupted_starts, interrupting
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

TOPIC = "jobs"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=1, topics={TOPIC: 1}) as found:
        yield found


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts) as found:
        yield found


def workers() -> list[str]:
    """Return the names of the workers of share consumers that run; a thread that never began is none."""
    return [one.name for one in threading.enumerate() if one.ident is not None and one.name.startswith("pykafka.Share")]


def members(cluster: FakeCluster, group: str) -> list[Any]:
    with cluster._state.lock:
        found = cluster._state.groups._groups.get(group)
        return [] if found is None else list(found.members)


def assigned(consumer: ShareConsumer[Any, Any]) -> None:
    while not consumer.assignment():
        assert consumer.poll(timeout=0.05) == []


def test_an_interrupted_poll_loses_no_record(cluster: FakeCluster, client: KafkaClient) -> None:
    """The next call accepted records that the application had not got, or left them locked in nobody's hands."""
    got: list[bytes | None] = []
    with (
        client.share_consumer(TOPIC, group="workers", value_deserializer=bytes) as consumer,
        client.producer() as producer,
    ):
        assigned(consumer)
        for step, call in enumerate(interrupting("sharegroups/consumer.py", "sharegroups/engine.py")):
            producer.produce(TOPIC, b"%d" % step)
            producer.flush()
            with suppress(Interrupted):
                got += [one.value for one in call(lambda: consumer.poll(1, timeout=10))]
            while len(got) <= step:
                found = consumer.poll(timeout=10)
                assert found, f"interrupted at step {step}"
                got += [one.value for one in found]
    assert step > 20
    assert got == [b"%d" % number for number in range(step + 1)]


def test_a_member_whose_start_was_interrupted_leaves(cluster: FakeCluster, client: KafkaClient) -> None:
    """Its heartbeats went on, and the next call began others beside them."""
    consumer: ShareConsumer[Any, Any]
    with client.share_consumer(group="workers") as consumer:
        with interrupted_starts("pykafka.Share"), pytest.raises(Interrupted):
            consumer.subscribe(TOPIC)
        first = consumer._engine.member._worker
        consumer.subscribe(TOPIC)
        assert consumer._engine.member._worker is first
        assigned(consumer)
    assert workers() == []
    assert members(cluster, "workers") == []


def test_a_session_whose_start_was_interrupted_ends(client: KafkaClient) -> None:
    """Nobody knew it, so its thread ran for the life of the process."""
    consumer: ShareConsumer[Any, Any]
    with client.share_consumer(TOPIC, group="workers") as consumer:
        until(consumer._handler, lambda: bool(consumer._engine._assignment))
        with interrupted_starts("pykafka.Share"), pytest.raises(Interrupted):
            consumer.poll(timeout=10)
        assigned(consumer)
    assert workers() == []


def test_an_interrupted_look_for_leaders_is_made_again(client: KafkaClient) -> None:
    """The partitions of a new assignment were never read if Ctrl-C came before the look had begun."""
    consumer: ShareConsumer[Any, Any]
    with client.share_consumer(TOPIC, group="workers") as consumer:
        assigned(consumer)
        engine = consumer._engine
        for step, call in enumerate(interrupting("sharegroups/engine.py")):
            engine._changed = True
            try:
                call(lambda: engine.assign_sessions(engine.handler.now() + 10))
            except Interrupted:
                assert engine._changed, f"interrupted at step {step}"
            engine._next_attempt = 0.0


def test_a_look_for_leaders_that_has_failed_for_good_is_made_again(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call raised the error, and the consumer read nothing from then on, also when the right was there again."""
    consumer: ShareConsumer[Any, Any]
    with client.share_consumer(TOPIC, group="workers") as consumer:
        assigned(consumer)
        engine = consumer._engine
        with monkeypatch.context() as patch:
            patch.setattr(
                engine, "_assign_sessions", lambda _: (_ for _ in ()).throw(TopicAuthorizationFailed(topic=TOPIC))
            )
            for _ in range(2):
                engine._changed = True
                with pytest.raises(TopicAuthorizationFailed):
                    consumer.poll(timeout=0.1)
                assert engine._changed


def test_outcomes_behind_one_whose_function_raises_are_reported_later(client: KafkaClient) -> None:
    """They were dropped with it."""
    outcomes: list[int] = []

    def report(one: Any) -> None:
        outcomes.append(one)
        if len(outcomes) == 1:
            raise ZeroDivisionError("of the test")

    with client.share_consumer(TOPIC, group="workers", on_acknowledge=report) as consumer:
        engine = consumer._engine
        engine._outcomes.extend([1, 2, 3])  # type: ignore[list-item]
        with pytest.raises(ZeroDivisionError):
            consumer.poll(timeout=0)
        consumer.poll(timeout=0)
    assert outcomes == [1, 2, 3]
