"""Share consumers that look leaders up again, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import ConfigResource
from pykafka.exceptions import (
    KafkaException,
    NoBrokersAvailableError,
    TopicRecreatedError,
    UnknownTopicId,
    UnsupportedVersion,
)
from pykafka.sharegroups import session_worker
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, NetworkFaults, Scheduler, VirtualHandler

TOPIC = "jobs"
#: How many lookups fail, and how long one takes (ms).
FAILURES, LOOKUP_MS = 3, 50


class SlowLookups:
    """Lookups of leaders of which the first ones fail, as do those without the time that one takes.

    :param engine: of a share consumer
    """

    def __init__(self, engine: Any) -> None:
        self._assign = engine._assign_sessions
        #: The time that each has had (ms).
        self.left_ms: list[int] = []
        engine._assign_sessions = self.assign

    def assign(self, left_ms: int) -> bool:
        self.left_ms.append(left_ms)
        if len(self.left_ms) <= FAILURES or left_ms < LOOKUP_MS:
            raise NoBrokersAvailableError("no broker has answered in time")
        return bool(self._assign(left_ms))


@pytest.mark.parametrize("timeout", [0.1, 0.5, 3.0])
def test_short_polls_leave_lookups_their_time(scheduler: Scheduler, virtual: VirtualHandler, timeout: float) -> None:
    """However short the calls are, a lookup comes when it is due, and not as the last act of each of them."""

    def program() -> list[Any]:
        with FakeCluster(brokers=1, handler=virtual) as cluster, KafkaClient(cluster.hosts, handler=virtual) as client:
            cluster.create_topic(TOPIC, 1)
            consumer = client.share_consumer(group="workers")
            consumer.subscribe(TOPIC)
            lookups = SlowLookups(consumer._engine)
            until = virtual.now() + 60
            while not consumer.assignment() and virtual.now() < until:
                consumer.poll(timeout=timeout)
            assigned = list(consumer.assignment())
            consumer.close()
            assert len(lookups.left_ms) < 4 * FAILURES
            return assigned

    assert scheduler.run(program) == [(TOPIC, 0)]


@pytest.mark.parametrize("timeout", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("latency_ms", [0.1, 30.0, 120.0])
def test_polls_shorter_than_the_way_to_the_brokers_read(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, latency_ms: float, timeout: float
) -> None:
    """A poll that waits for nothing leaves a look-up 1 ms: what it began has to be there for a later one."""

    def program() -> int:
        with (
            FakeCluster(3, {TOPIC: 4}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            producer = client.producer()
            for partition in range(4):
                producer.produce(TOPIC, b"x", partition=partition)
            producer.flush()
            client.admin.alter_configs({ConfigResource.group("workers"): {"share.auto.offset.reset": "earliest"}})
            consumer = client.share_consumer(group="workers")
            consumer.subscribe(TOPIC)
            network.faults = NetworkFaults(latency_ms=(latency_ms, latency_ms + 1))
            network.cut_all()
            read, end = 0, virtual.now() + 60
            while read < 4 and virtual.now() < end:
                read += len(consumer.poll(timeout=timeout))
                virtual.sleep(0.02)
            network.faults = NetworkFaults()
            consumer.close()
            return read

    assert scheduler.run(program) == 4


@pytest.mark.parametrize("knows_renewals", [True, False])
def test_a_lock_is_renewed_beside_a_broker_that_is_down(
    scheduler: Scheduler, virtual: VirtualHandler, knows_renewals: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the broker that has given the record has to know renewals: another one, which was never reached, was asked."""
    if not knows_renewals:
        monkeypatch.setattr(session_worker, "RENEWS_FROM", 99)

    def program() -> set[KafkaException | None]:
        with (
            FakeCluster(2, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=1_000) as client,
        ):
            for partition in (0, 1):
                cluster.set_leader(TOPIC, partition, 1 + partition)
            client.producer().produce(TOPIC, b"x", partition=0).get()
            client.admin.alter_configs({ConfigResource.group("workers"): {"share.auto.offset.reset": "earliest"}})
            cluster.stop(2, noticed=False)
            with client.share_consumer(TOPIC, group="workers", acknowledgement="explicit") as consumer:
                (record,) = consumer.poll(timeout=20)
                if not knows_renewals:
                    with pytest.raises(UnsupportedVersion, match=r"from Kafka 4\.2 on"):
                        consumer.renew(record)
                    assert consumer.accept(record)
                    return set()
                assert consumer.renew(record)
                outcome = set(consumer.commit().values())
                assert consumer.accept(record)
                return outcome

    assert scheduler.run(program) == ({None} if knows_renewals else set())


def test_records_of_a_topic_that_was_made_anew_are_not_acknowledged(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """The new topic has the same offsets: to accept an old record accepted the new one there, which nobody had handled."""

    def program() -> tuple[list[bool], list[KafkaException | None], list[tuple[bytes | None, int]]]:
        with (
            FakeCluster(1, {TOPIC: 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            client.producer() as producer,
            client.share_consumer(TOPIC, group="workers", acknowledgement="explicit") as consumer,
        ):

            def taken(*values: bytes) -> list[Any]:
                for value in values:
                    producer.produce(TOPIC, value).get()
                found: list[Any] = []
                until = virtual.now() + 60
                while len(found) < 2 and virtual.now() < until:
                    found += consumer.poll(timeout=1)
                return found

            client.admin.alter_configs({ConfigResource.group("workers"): {"share.auto.offset.reset": "earliest"}})
            former, known = taken(b"old 0", b"old 1")
            consumer.accept(former)
            client.admin.delete_topics([TOPIC])
            cluster.create_topic(TOPIC, 1)
            present = taken(b"new 0", b"new 1")
            counts = [consumer.accept(former), consumer.accept(known)]
            errors = list(consumer.commit().values())
            virtual.sleep(2)
            for record in present:
                consumer.release(record)
            again = [(record.value, record.delivery_count) for record in taken()]
            return counts, errors, again

    counts, (error,), again = scheduler.run(program)
    assert counts == [False, False]
    assert isinstance(error, TopicRecreatedError | UnknownTopicId)
    assert again == [(b"new 0", 2), (b"new 1", 2)]


class Interrupted(BaseException):
    """Ctrl-C, or a cancellation."""


@pytest.mark.parametrize("error", [Interrupted, NoBrokersAvailableError])
def test_a_look_for_new_leaders_that_was_cut_off_is_made_again(
    scheduler: Scheduler, virtual: VirtualHandler, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call went to the leader that had just refused, by metadata as old as before."""

    def program() -> tuple[int, list[Any]]:
        with (
            FakeCluster(2, {TOPIC: 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_leader(TOPIC, 0, 1)
            consumer = client.share_consumer(TOPIC, group="workers")
            while not consumer.assignment():
                consumer.poll(timeout=0.1)
            refresh, calls = client.cluster.refresh, 0

            def cut_off(*args: Any) -> None:
                nonlocal calls
                calls += 1
                if calls == 1:
                    raise error("of the test")
                refresh(*args)

            monkeypatch.setattr(client.cluster, "refresh", cut_off)
            cluster.track_requests()
            cluster.set_leader(TOPIC, 0, 2)
            try:
                consumer.poll(timeout=2)
            except Interrupted:
                pass
            consumer.poll(timeout=2)
            fetched = [one.broker for one in cluster.requests("ShareFetch")]
            consumer.close()
            return calls, fetched

    calls, fetched = scheduler.run(program)
    assert calls == 2
    assert set(fetched) == {2}
