"""A call keeps its timeout although it gives partitions up, whose commits take longer: the next calls finish the rebalance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from greenlet import GreenletExit

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.consumer.commits import Commits
from pykafka.exceptions import OffsetsNotCommitted
from pykafka.groups.kip848.membership import ConsumerGroupMembership
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper
from tests.support.interrupts import Interrupted, interrupting

GROUP, TOPIC, PARTITIONS, RECORDS = "readers", "orders", 2, 3
CLASSIC: dict[str, Any] = {"protocol": "classic", "heartbeat_interval_ms": 200, "session_timeout_ms": 60_000}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": CLASSIC,
    "cooperative": {**CLASSIC, "assignor": "cooperative-sticky"},
    "consumer": {"protocol": "consumer"},
    "zookeeper": {"protocol": "zookeeper", "zookeeper_hosts": "zookeeper:2181", "session_timeout_ms": 60_000},
}
EACH = pytest.mark.parametrize("protocol", PROTOCOLS)
#: The timeout of the calls, how much longer one may take, and how long commits take unless a test says so (s).
CALL_S, LATE_S, COMMIT_S = 0.1, 0.05, 4.0

Run = Callable[[Callable[[FakeCluster, KafkaClient], None]], None]


@pytest.fixture
def run(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> Run:
    """Return a function that runs a program with a cluster of one broker, a ZooKeeper and a client."""

    def begin(program: Callable[[FakeCluster, KafkaClient], None]) -> None:
        def main() -> None:
            network.zookeeper = server = ZooKeeper(virtual)
            with (
                FakeCluster(brokers=1, topics={TOPIC: PARTITIONS, "other": 1}, handler=virtual) as cluster,
                KafkaClient(cluster.hosts, handler=virtual) as client,
            ):
                cluster.set_group_settings(consumer_heartbeat_interval_ms=200, initial_rebalance_delay_ms=0)
                with client.producer() as producer:
                    for number in range(PARTITIONS * RECORDS):
                        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                program(cluster, client)
            server.close()

        scheduler.run(main)
        assert scheduler.errors == []

    return begin


class Reader:
    """A member, and what its calls and its listener have got."""

    def __init__(self, client: KafkaClient, protocol: str, **options: Any) -> None:
        self.heard: list[tuple[str, int]] = []
        self.values: list[bytes | None] = []
        self.longest = 0.0
        self._now = client.cluster.handler.now
        options = {"auto_commit": True, "auto_commit_interval_ms": 10**7, **PROTOCOLS[protocol], **options}
        self.consumer: KafkaConsumer[Any, Any] = client.consumer(
            TOPIC, group=GROUP, auto_offset_reset="earliest", listener=self, **options
        )

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("assigned", len(partitions)))

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("revoked", len(partitions)))

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("lost", len(partitions)))

    def poll(self) -> None:
        began = self._now()
        self.values += [record.value for record in self.consumer.poll(timeout=CALL_S)]
        self.longest = max(self.longest, self._now() - began)

    def poll_for(self, seconds: float) -> None:
        ends = self._now() + seconds
        while self._now() < ends:
            self.poll()

    def poll_until(self, is_over: Callable[[], object], seconds: float = 20.0) -> None:
        ends = self._now() + seconds
        while not is_over() and self._now() < ends:
            self.poll()
        assert is_over(), self.heard

    @property
    def commits(self) -> Commits:
        commits = self.consumer._engine.commits
        assert commits is not None
        return commits

    def is_revoked(self) -> bool:
        return "revoked" in dict(self.heard)


@contextmanager
def reading(client: KafkaClient, protocol: str, **options: Any) -> Iterator[Reader]:
    """Yield a member that has read all records, and committed none of them."""
    reader = Reader(client, protocol, **options)
    reader.poll_until(lambda: len(reader.values) == PARTITIONS * RECORDS)
    reader.heard.clear()
    reader.longest = 0.0
    yield reader


@contextmanager
def another(virtual: VirtualHandler, client: KafkaClient, protocol: str) -> Iterator[Reader]:
    """Yield a second member, which a worker polls."""
    reader, over = Reader(client, protocol), virtual.Event()

    def poll() -> None:
        while not over.is_set():
            reader.poll()
        reader.consumer.close()

    worker = virtual.spawn(poll)
    yield reader
    over.set()
    assert worker.join(20.0)
    assert worker.error is None


@contextmanager
def releasing(virtual: VirtualHandler, release: Callable[[], object]) -> Iterator[None]:
    """Release what is held after a second in this context."""

    def wait() -> None:
        virtual.sleep(1.0)
        release()

    worker = virtual.spawn(wait)
    yield
    assert worker.join(5.0)


@EACH
@pytest.mark.parametrize("how", ["auto-commit", "commit_async"])
def test_calls_keep_their_timeout_while_commits_take_longer(
    run: Run, virtual: VirtualHandler, protocol: str, how: str
) -> None:
    """They took as long as the commits, at most a socket timeout; records come once all the same."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol, auto_commit=how == "auto-commit") as first:
            hold = cluster.hold("OffsetCommit")
            if how == "commit_async":
                first.consumer.commit_async()
            with another(virtual, client, protocol) as second:
                first.poll_until(first.is_revoked)
                first.poll_for(COMMIT_S)
                assert [name for name, _ in first.heard] == ["revoked"]
                assert not [name for name, parts in second.heard if parts]
                hold.release()
                first.poll_until(lambda: len(first.consumer.assignment()) == len(second.consumer.assignment()) == 1)
                first.poll_for(1.0)
                names = [name for name, _ in first.heard]
                assert set(names[1:]) == {"assigned"}
                assert names[0] == "revoked"
                assert second.values == []
                assert len(first.values) == PARTITIONS * RECORDS
                assert first.longest <= CALL_S + LATE_S
                first.consumer.close()

    run(program)


@EACH
def test_the_time_of_a_rebalance_ends_the_wait(run: Run, virtual: VirtualHandler, protocol: str) -> None:
    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol, max_poll_interval_ms=2_000) as first:
            hold = cluster.hold("OffsetCommit")
            with another(virtual, client, protocol) as second:
                first.poll_until(first.is_revoked)
                began = virtual.now()
                first.poll_until(lambda: len(second.consumer.assignment()) == 1)
                assert 1.0 <= virtual.now() - began < 4.0
                assert [name for name, _ in first.heard].count("revoked") == 1
                assert first.longest <= CALL_S + LATE_S
                hold.release()
            first.consumer.close()

    run(program)


@EACH
@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize("way", ["close", "unsubscribe"])
def test_a_member_that_leaves_finishes_the_commit(
    run: Run, virtual: VirtualHandler, protocol: str, way: str, is_made: bool
) -> None:
    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first, another(virtual, client, protocol):
            hold = cluster.hold("OffsetCommit")
            first.poll_until(first.is_revoked)
            leave = getattr(first.consumer, way)
            if is_made:
                with releasing(virtual, hold.release):
                    leave(timeout=3.0)
                committed = client.admin.list_group_offsets(GROUP)[GROUP]
                assert {one.offset for one in committed.values()} == {RECORDS}
            else:
                began = virtual.now()
                with pytest.raises(OffsetsNotCommitted):
                    leave(timeout=1.0)
                assert virtual.now() - began < 7.0
                hold.release()
            revoked = [parts for name, parts in first.heard if name == "revoked"]
            assert sum(revoked) == PARTITIONS
            assert len(revoked) == (1 if protocol == "eager" else 2)
            first.consumer.close()

    run(program)


@EACH
def test_topics_may_change_meanwhile(run: Run, virtual: VirtualHandler, protocol: str) -> None:
    """Partitions that the listener has heard of stay revoked, and come back by an assignment."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first:
            with cluster.hold("OffsetCommit"):
                first.consumer.subscribe("other")
                first.poll_until(first.is_revoked)
                first.poll()
                first.consumer.subscribe(TOPIC)
                first.poll_for(1.0)
                assert first.heard == [("revoked", PARTITIONS)]
            first.poll_until(lambda: ("assigned", PARTITIONS) in first.heard)
            assert first.longest <= CALL_S + LATE_S
            with client.producer() as producer:
                producer.produce(TOPIC, b"last", partition=0).get()
            first.poll_until(lambda: first.values[-1] == b"last")
            assert len(first.values) == PARTITIONS * RECORDS + 1
            first.consumer.close()

    run(program)


@EACH
def test_the_error_of_the_listener_comes_at_the_end(run: Run, virtual: VirtualHandler, protocol: str) -> None:
    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first:
            plain = first.on_revoked

            def fail(partitions: list[TopicPartition]) -> None:
                plain(partitions)
                raise ValueError("of the listener")

            first.consumer._follower._listener.on_revoked = fail
            hold = cluster.hold("OffsetCommit")
            first.consumer.subscribe("other")
            first.poll_until(first.is_revoked)
            first.poll_for(1.0)
            hold.release()
            with pytest.raises(ValueError, match="of the listener"):
                first.poll_for(5.0)
            first.consumer._follower._listener.on_revoked = plain
            assert [name for name, _ in first.heard].count("revoked") == 1
            first.consumer.close()

    run(program)


@EACH
def test_the_time_of_the_listener_is_no_time_of_commits(run: Run, virtual: VirtualHandler, protocol: str) -> None:
    """The wait for `commit_async()` of a slow listener was over before it began: its records came twice."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol, auto_commit=False) as first:
            plain = first.on_revoked
            slow_s = client.cluster.socket_timeout_ms / 1000 + 5.0

            def finish(partitions: list[TopicPartition]) -> None:
                plain(partitions)
                virtual.sleep(slow_s)
                first.consumer.commit_async()

            first.consumer._follower._listener.on_revoked = finish
            hold = cluster.hold("OffsetCommit")
            first.consumer.subscribe("other")
            first.poll_until(first.is_revoked)
            first.poll_for(1.0)
            assert first.heard == [("revoked", PARTITIONS)]
            assert len(first.consumer._engine.partitions) == PARTITIONS
            hold.release()
            first.poll_until(lambda: first.heard[-1] == ("assigned", 1))
            first.consumer.close()

    run(program)


@EACH
def test_a_commit_that_the_member_leaves_behind_is_not_tried_again(
    run: Run, virtual: VirtualHandler, protocol: str
) -> None:
    """It could come after commits of the partitions' next owner, if nothing fences it as in ZooKeeper."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first, another(virtual, client, protocol):
            cluster.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=10**6)
            first.poll_until(first.is_revoked)
            with pytest.raises(OffsetsNotCommitted):
                first.consumer.close(timeout=0.5)
            cluster.clear_faults()
            virtual.sleep(client.cluster.socket_timeout_ms / 1000)
            assert {one.offset for one in client.admin.list_group_offsets(GROUP)[GROUP].values()} <= {-1}

    run(program)


@EACH
def test_an_error_of_the_worker_ends_the_revocation(
    run: Run, virtual: VirtualHandler, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next calls raised it again, and yielded no records."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("of the worker")

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first:
            with monkeypatch.context() as patch:
                patch.setattr(first.commits, "_note", fail)
                with cluster.hold("OffsetCommit"):
                    first.consumer.subscribe("other")
                    first.poll_until(first.is_revoked)
                with pytest.raises(MemoryError, match="of the worker"):
                    first.poll_for(5.0)
            first.poll_until(lambda: ("assigned", 1) in first.heard)
            with client.producer() as producer:
                producer.produce("other", b"last").get()
            first.poll_until(lambda: first.values[-1] == b"last")
            assert {key.topic for key in first.consumer._engine.partitions} == {"other"}
            first.consumer.close()

    run(program)


@EACH
@pytest.mark.parametrize("is_held", [False, True])
def test_an_interrupt_costs_no_revocation(run: Run, virtual: VirtualHandler, protocol: str, is_held: bool) -> None:
    """The listener was called twice, or the coordinator waited for a member that had given its partitions up."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first, client.producer() as producer:
            for call in interrupting("groups/assignment_change.py", "groups/polled_membership.py"):
                producer.produce(TOPIC, b"again", partition=0).get()
                first.values.clear()
                first.poll_until(lambda: first.values)
                first.heard.clear()
                hold = cluster.hold("OffsetCommit")
                first.consumer.subscribe("other")
                if is_held:
                    first.poll_until(first.is_revoked)
                hold.release()
                with suppress(Interrupted):
                    call(first.poll)
                first.poll_until(lambda: "other" in {key.topic for key in first.consumer.assignment()})
                calls = [name for name, _ in first.heard].count("revoked")
                assert calls == 1 or (calls == 2 and not is_held)  # twice if its first hook was interrupted
                first.consumer.subscribe(TOPIC)
                first.poll_until(lambda: len(first.consumer.assignment()) == PARTITIONS)
            first.consumer.close()

    run(program)


@EACH
@pytest.mark.parametrize("has_worker", [True, False])
def test_an_interrupt_before_its_worker_begins_costs_no_commit(
    run: Run, virtual: VirtualHandler, protocol: str, has_worker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next calls waited for a worker that was never there, and yielded no records."""

    def refuse(*_: object, **__: object) -> None:
        if has_worker:
            raise Interrupted
        raise RuntimeError("can't start new thread")

    def interrupt(*_: object, **__: object) -> None:
        raise Interrupted

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first:
            hold = cluster.hold("OffsetCommit")
            first.consumer.commit_async({TopicPartition(TOPIC, 0): 1})
            first.consumer.subscribe("other")
            first.poll_until(first.is_revoked)
            with monkeypatch.context() as patch:
                patch.setattr(first.commits, "commit_at_stop", interrupt)
                patch.setattr(virtual, "spawn", refuse)
                hold.release()
                with pytest.raises(Interrupted):
                    first.poll_for(5.0)
            first.poll_until(lambda: "other" in {key.topic for key in first.consumer.assignment()})
            keys = [TopicPartition(TOPIC, id_) for id_ in range(PARTITIONS)]
            committed = first.consumer.committed(*keys)
            assert [getattr(committed[key], "offset", None) for key in keys] == [RECORDS] * PARTITIONS
            first.consumer.close()

    run(program)


@EACH
def test_a_worker_that_is_ended_from_outside_has_not_committed(
    run: Run, virtual: VirtualHandler, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partitions were given up as if it had: the next owner read the records again, and nobody had heard of it."""

    def end(*_: object, **__: object) -> None:
        raise GreenletExit

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first:
            with monkeypatch.context() as patch:
                patch.setattr(first.commits, "commit_at_stop", end)
                first.consumer.subscribe("other")
                with pytest.raises(OffsetsNotCommitted, match=f"group {GROUP}: the worker that commits .* was ended"):
                    first.poll_for(5.0)
            first.poll_until(lambda: "other" in {key.topic for key in first.consumer.assignment()})
            first.consumer.close()

    run(program)


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_a_member_that_is_put_out_meanwhile_reads_again(run: Run, virtual: VirtualHandler, protocol: str) -> None:
    """Also if an interrupt has come between the two notes of the revocation."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        for is_interrupted in (False, True):
            with reading(client, protocol) as first:
                heartbeat = "ConsumerGroupHeartbeat" if protocol == "consumer" else "Heartbeat"
                with cluster.hold("OffsetCommit"):
                    first.consumer.subscribe("other")
                    first.poll_until(first.is_revoked)
                    if is_interrupted:
                        first.consumer._follower.membership._change._unfinished = None  # type: ignore[union-attr]
                    cluster.fail(heartbeat, "UNKNOWN_MEMBER_ID")
                    virtual.sleep(4.0)
                first.poll_until(lambda: ("assigned", 1) in first.heard, 90.0)  # the session of the former member
                with client.producer() as producer:
                    producer.produce("other", b"last").get()
                first.poll_until(lambda: first.values[-1] == b"last")
                first.consumer.close()
            cluster.clear_faults()
            client.admin.delete_groups([GROUP])

    run(program)


@EACH
def test_commits_that_are_asked_for_meanwhile_are_made(run: Run, virtual: VirtualHandler, protocol: str) -> None:
    """The partitions were given up before, and the coordinator refused these commits."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, protocol) as first:
            results: list[object] = []
            hold = cluster.hold("OffsetCommit")
            first.consumer.subscribe("other")
            first.poll_until(first.is_revoked)
            for key in first.consumer.assignment():
                first.consumer.commit_async({key: 1}, lambda error, offsets: results.append(error))
            with releasing(virtual, hold.release):
                first.poll_until(lambda: ("assigned", 1) in first.heard)
            assert results == [None] * PARTITIONS
            assert first.longest <= CALL_S + LATE_S
            first.consumer.close()

    run(program)


def test_a_newer_assignment_replaces_the_one_that_waits(run: Run, virtual: VirtualHandler) -> None:
    """The member took partitions that the coordinator had assigned to others meanwhile."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with reading(client, "consumer") as first:
            first.consumer.subscribe([TOPIC, "other"])
            first.poll_until(lambda: len(first.consumer.assignment()) == PARTITIONS + 1)
            membership = first.consumer._follower.membership
            assert isinstance(membership, ConsumerGroupMembership)
            ids = membership._ids

            def assign(*keys: tuple[str, int]) -> None:
                assignment = ids.assignment([TopicPartition(*key) for key in keys])
                answer = membership.heartbeats.present
                assert answer is not None
                membership.heartbeats.answer = answer._replace(assignment=assignment)

            with cluster.hold("ConsumerGroupHeartbeat"):
                assign((TOPIC, 0), (TOPIC, 1))
                first.poll()
                first.heard.clear()
                with cluster.hold("OffsetCommit"):
                    assign((TOPIC, 0), ("other", 0))
                    first.poll()
                    assert first.heard == [("revoked", 1)]
                    assign((TOPIC, 0))
                first.poll()
                assert first.heard == [("revoked", 1), ("assigned", 0)]
            first.consumer.close()

    run(program)
