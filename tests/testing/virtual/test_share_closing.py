"""Share consumers that close while brokers do not answer, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException, ShareSessionNotFound
from pykafka.sharegroups.acquired_records import State
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

TOPIC, GROUP = "jobs", "workers"
#: How long `close()` may take (s).
CLOSE_S = 3.0
Silence = Callable[[FakeCluster], object]


def _hold(cluster: FakeCluster) -> None:
    cluster.hold("ShareAcknowledge")


def _pause(cluster: FakeCluster) -> None:
    cluster.pause(1)


def _stop(cluster: FakeCluster) -> None:
    cluster.stop(1, noticed=False)


@pytest.mark.parametrize("silence", [_hold, _pause, _stop], ids=lambda fn: fn.__name__.strip("_"))
@pytest.mark.parametrize("begins_before", [False, True], ids=["close sends it", "commit sends it"])
def test_each_acknowledgement_has_an_outcome_when_close_returns(
    scheduler: Scheduler, virtual: VirtualHandler, silence: Silence, begins_before: bool
) -> None:
    """Also without the answer: the client gives the request up, and does not send it again on another connection."""

    def program() -> tuple[list[Any], list[KafkaException | None], float]:
        outcomes: list[Any] = []
        committed: list[KafkaException | None] = []
        with (
            FakeCluster(brokers=1, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.create_topic(TOPIC, 1)
            consumer = client.share_consumer(group=GROUP, acknowledgement="explicit", on_acknowledge=outcomes.append)
            consumer.subscribe(TOPIC)
            with client.producer() as producer:
                until = virtual.now() + 30
                while not consumer.assignment() and virtual.now() < until:
                    consumer.poll(timeout=0.1)
                producer.produce(TOPIC, b"1").get()
            (record,) = consumer.poll(timeout=5)
            silence(cluster)
            consumer.accept(record)
            if begins_before:
                consumer.commit_async(lambda found: committed.extend(found.values()))
                virtual.sleep(0.5)
            began = virtual.now()
            consumer.close(CLOSE_S)
            took_s = virtual.now() - began
            cluster.clear_faults()
            if silence is _pause:
                cluster.resume(1)
        return outcomes, committed, took_s

    outcomes, committed, took_s = scheduler.run(program)
    assert [(one.offsets, isinstance(one.error, KafkaException)) for one in outcomes] == [((0,), True)]
    assert [isinstance(error, KafkaException) for error in committed] == [True] * begins_before
    assert took_s < CLOSE_S + 0.5


def _read_one(cluster: FakeCluster, client: KafkaClient, handler: VirtualHandler, **options: Any) -> tuple[Any, Any]:
    """Return a member that has read one record, and the record."""
    cluster.create_topic(TOPIC, 1)
    consumer: Any = client.share_consumer(TOPIC, group=GROUP, **options)
    until = handler.now() + 30
    while not consumer.assignment() and handler.now() < until:
        consumer.poll(timeout=0.1)
    with client.producer() as producer:
        producer.produce(TOPIC, b"1").get()
    (record,) = consumer.poll(timeout=5)
    return consumer, record


def _members(cluster: FakeCluster) -> list[str]:
    with cluster._locked() as state:
        return list(state.groups._groups[GROUP].members)


@pytest.mark.parametrize("is_unknown", [False, True], ids=["it has moved", "it is not known"])
def test_a_member_leaves_also_if_it_has_to_look_for_its_coordinator(
    scheduler: Scheduler, virtual: VirtualHandler, is_unknown: bool
) -> None:
    """It stayed until its session had ended, and others did not get its partitions."""

    def program() -> tuple[list[str], float]:
        with (
            FakeCluster(brokers=2, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_coordinator(GROUP, 1)
            consumer, _ = _read_one(cluster, client, virtual)
            cluster.set_coordinator(GROUP, 2)
            if is_unknown:
                consumer._engine.member.connection.mark_unknown("of the test")
            began = virtual.now()
            consumer.close(CLOSE_S)
            return _members(cluster), virtual.now() - began

    left, took_s = scheduler.run(program)
    assert left == []
    assert took_s < CLOSE_S


def test_a_member_whose_worker_waits_for_brokers_leaves(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """The worker that looked for the coordinator had the whole time of `close()`, and none was left for leaving."""

    def program() -> tuple[list[str], float]:
        with (
            FakeCluster(brokers=2, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_coordinator(GROUP, 1)
            consumer, _ = _read_one(cluster, client, virtual)
            member = consumer._engine.member
            first = iter([True])
            with cluster.hold("FindCoordinator", when=lambda _: next(first, False)):
                member.connection.mark_unknown("of the test")
                client.cluster.coordinators.forget(GROUP, client.brokers[1])
                member._wake.set()
                virtual.sleep(0.1)
                began = virtual.now()
                consumer.close(CLOSE_S)
                took_s = virtual.now() - began
            return _members(cluster), took_s

    left, took_s = scheduler.run(program)
    assert left == []
    assert took_s < CLOSE_S + 0.5


def test_a_record_that_is_accepted_after_close_does_not_count(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """`accept()` returned True, and the record, which `close()` had released, came again."""

    def program() -> tuple[bool, Any]:
        with (
            FakeCluster(brokers=1, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            consumer, record = _read_one(cluster, client, virtual, acknowledgement="explicit")
            consumer.close(CLOSE_S)
            return consumer.accept(record), record._held().error

    counts, error = scheduler.run(program)
    assert not counts
    assert isinstance(error, ShareSessionNotFound)


@pytest.mark.parametrize("is_answered", [False, True], ids=["at once", "when it is renewed"])
def test_the_next_call_accepts_a_record_whose_lock_was_renewed(
    scheduler: Scheduler, virtual: VirtualHandler, is_answered: bool
) -> None:
    """With implicit acknowledgement; it did not if the broker had not answered yet, and the record came again."""

    def program() -> list[Any]:
        outcomes: list[Any] = []
        with (
            FakeCluster(brokers=1, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            consumer, record = _read_one(cluster, client, virtual)
            consumer.renew(record)
            if is_answered:
                virtual.sleep(1)
            assert consumer.poll(timeout=0.1) == []
            consumer.commit()
            outcomes.append(record._held().state)
            consumer.close(CLOSE_S)
        return outcomes

    assert scheduler.run(program) == [State.DONE]
