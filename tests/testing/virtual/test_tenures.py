"""Members of groups in ZooKeeper whose session ends while their worker, or a commit, waits for brokers.

What they had in that session is neither handed out nor committed any more, also if there is another session by then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient, TopicPartition
from pykafka.exceptions import ShareLostError, ZooKeeperError
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper

GROUP, TOPIC = "readers", "orders"
SESSION_MS, CALL_MS = 4_000, 300
COUNT = 20


class Place(NamedTuple):
    """Virtual time, its ZooKeeper and its brokers."""

    virtual: VirtualHandler
    server: ZooKeeper
    cluster: FakeCluster
    client: KafkaClient
    #: The offsets of each commit that a broker was asked for.
    commits: list[int]

    def write(self, count: int = 1) -> None:
        with self.client.producer() as producer:
            for number in range(count):
                producer.produce(TOPIC, b"%d" % number).get()

    def balanced(self, timeout_ms: int = CALL_MS, **options: Any) -> Any:
        return self.client.topics[TOPIC].get_balanced_consumer(
            GROUP,
            zookeeper_hosts="anywhere:2181",
            zookeeper_connection_timeout_ms=SESSION_MS,
            consumer_timeout_ms=timeout_ms,
            **options,
        )

    def end_session(self, consumer: Any) -> None:
        """End the session of a balanced consumer, and wait until it has noticed that."""
        state = consumer._nodes.session
        before = state.session
        self.server.expire(0)
        self.until(lambda: state.session is not before)

    def until(self, is_so: Callable[[], object], within_s: float = 60.0) -> None:
        ends = self.virtual.now() + within_s
        while not is_so():
            assert self.virtual.now() < ends
            self.virtual.sleep(0.01)


@pytest.fixture
def run(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> Callable[[Callable[[Place], object]], None]:
    """Return what runs a program with a cluster and a ZooKeeper."""

    def run(program: Callable[[Place], object]) -> None:
        def inner() -> None:
            network.zookeeper = server = ZooKeeper(virtual)
            with (
                FakeCluster(brokers=1, topics={TOPIC: 1}, handler=virtual) as cluster,
                KafkaClient(cluster.hosts, handler=virtual) as client,
            ):
                commits: list[int] = []

                def note(call: Any) -> None:
                    if isinstance(call.request, wire.OffsetCommitRequest):
                        commits.extend(one.committed_offset for each in call.request.topics for one in each.partitions)

                cluster.on_request(note)
                program(Place(virtual, server, cluster, client, commits))
                server.close()

        scheduler.run(inner)

    return run


def commit_in_another_worker(place: Place, consumer: Any) -> Callable[[], object]:
    committing = place.virtual.spawn(consumer.commit_offsets, name="committing")
    return lambda: committing.join(60)


#: What keeps the worker of a balanced consumer: a commit, which has the lock; its own question to a broker.
KEPT_BY: dict[str, Callable[[Place, Any], Callable[[], object]]] = {
    "OffsetCommit": commit_in_another_worker,
    "Metadata": lambda place, consumer: lambda: None,
}
#: How an application takes messages.
TAKEN_BY: dict[str, Callable[[Any], object]] = {
    "consume": lambda consumer: consumer.consume(),
    "at once": lambda consumer: consumer.consume(block=False),
    "batch": lambda consumer: consumer.consume_batch(5),
    "iteration": lambda consumer: next(iter(consumer), None),
}


@pytest.mark.parametrize("options", [{}, {"deserializer": lambda value, key: (value, key)}], ids=["bytes", "values"])
@pytest.mark.parametrize("taken_by", TAKEN_BY)
@pytest.mark.parametrize("kept_by", KEPT_BY)
def test_buffered_messages_of_an_ended_session_are_not_handed_out(
    run: Any, kept_by: str, taken_by: str, options: dict[str, Any]
) -> None:
    """The worker could not stop the consumer, as it waited; so calls returned what others have by then."""

    def program(place: Place) -> None:
        place.write(COUNT)
        consumer = place.balanced(metadata_max_age_ms=1_000, **options)
        assert [consumer.consume().offset for _ in range(2)] == [0, 1]
        hold = place.cluster.hold(kept_by)
        place.server.isolate(0)
        end = KEPT_BY[kept_by](place, consumer)
        place.until(lambda: not place.server.sessions, 10)
        assert consumer._consumer is not None, "the worker was meant to wait"
        for _ in range(3):
            assert not TAKEN_BY[taken_by](consumer)
        hold.release()
        end()
        assert not TAKEN_BY[taken_by](consumer)
        place.server.heal()
        ends = place.virtual.now() + 60
        while (message := consumer.consume()) is None:
            assert place.virtual.now() < ends
        assert message.offset == (2 if kept_by == "OffsetCommit" else 0)  # which reached the broker before
        consumer.stop()

    run(program)


@pytest.mark.parametrize("taken_by", [one for one in TAKEN_BY if one != "at once"])
def test_a_call_that_waits_gets_no_message_of_an_ended_session(run: Any, taken_by: str) -> None:
    """The fetcher still had the partition."""

    def program(place: Place) -> None:
        producer = place.client.producer()
        producer.produce(TOPIC, b"0").get()
        consumer = place.balanced(20_000, metadata_max_age_ms=1_000)
        assert consumer.consume().offset == 0
        with place.cluster.hold("Metadata"):
            place.server.isolate(0)
            taken: list[object] = []
            taking = place.virtual.spawn(lambda: taken.append(TAKEN_BY[taken_by](consumer)), name="taking")
            place.until(lambda: not place.server.sessions, 10)
            producer.produce(TOPIC, b"1").get()
            assert taking.join(60)
            assert consumer._consumer is not None, "the worker was meant to wait"
            assert not taken[0]
        consumer.stop()
        producer.close()

    run(program)


def test_positions_of_an_ended_session_are_not_committed_in_the_next_one(run: Any) -> None:
    """A commit between the new session and its first assignment put the group back behind those who had the partitions."""

    def program(place: Place) -> None:
        place.write(COUNT)
        consumer = place.balanced()
        assert [consumer.consume().offset for _ in range(2)] == [0, 1]
        place.server.isolate(0)
        place.until(lambda: not place.server.sessions, 10)
        place.until(lambda: consumer._consumer is None, 10)
        with place.cluster.hold("Metadata"):
            place.server.heal()
            place.until(lambda: place.server.sessions and not consumer._nodes.session.lost)
            assert consumer._consumer is None
            consumer.commit_offsets()
            assert not place.commits
        place.until(lambda: consumer._consumer is not None)
        assert consumer.consume().offset == 0
        consumer.commit_offsets()
        assert place.commits == [1]
        consumer.stop()

    run(program)


@pytest.mark.parametrize("queued", [False, True], ids=["tried again", "behind another one"])
def test_a_commit_by_a_worker_belongs_to_the_session_of_its_call(run: Any, queued: bool) -> None:
    """Its next attempt, or its turn, came in the next session, in which others may have committed further."""

    def program(place: Place) -> None:
        place.write(COUNT)
        consumer = place.client.consumer(
            TOPIC,
            group=GROUP,
            protocol="zookeeper",
            zookeeper_hosts="anywhere:2181",
            session_timeout_ms=SESSION_MS,
            auto_commit=False,
        )
        while not consumer.poll(1, timeout=1.0):
            pass
        place.cluster.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=1)
        results: list[Any] = []
        for _ in range(1 + queued):
            consumer.commit_async({TopicPartition(TOPIC, 0): 1}, lambda error, offsets: results.append(error))
        place.until(lambda: place.commits)
        place.server.expire(0)
        membership: Any = consumer._follower.membership
        before = membership._generations
        while membership._generations == before or not consumer.assignment():
            consumer.poll(1, timeout=0.01)
        assert not results, "the next session was meant to come first"
        place.until(lambda: len(results) == 1 + queued)
        assert [type(error) for error in results] == [ShareLostError] * len(results)
        assert place.commits == [1]
        consumer.close()

    run(program)


def read_until_error(consumer: Any) -> list[int]:
    """Return the offsets of the messages that a consumer has buffered: they come before the error of its assignment."""
    offsets: list[int] = []
    with pytest.raises(ZooKeeperError, match="no answer"):
        while True:
            message = consumer.consume()
            offsets += [] if message is None else [message.offset]
    return offsets


def use(consumer: Any) -> object:
    """Take a message without a wait, and commit; return the message."""
    message = consumer.consume(block=False)
    with suppress(ShareLostError):
        consumer.commit_offsets()
    return message


#: The steps of a balanced consumer that takes its assignment, in their order.
STEPS = ["_set_watches", "_get_participants", "_get_held_partitions", "_forget_positions", "_add_partitions"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_session_that_ends_amid_an_assignment_leaves_nothing_to_the_next_one(
    run: Any, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    """Whichever session the assignment was begun in: what it has is read and committed in that one alone."""

    def program(place: Place) -> None:
        place.write(COUNT)
        consumer = place.balanced()
        assert [consumer.consume().offset for _ in range(2)] == [0, 1]
        take_step, set_up = getattr(consumer, step), consumer._setup_internal_consumer
        seen: list[object] = []

        def end_session() -> None:
            place.end_session(consumer)
            place.until(lambda: place.server.sessions and not consumer._nodes.session.is_silent)
            seen.append(use(consumer))

        def stepping(*args: Any) -> Any:
            patched.undo()
            if not after:
                end_session()
            result = take_step(*args)
            if after:
                end_session()
            return result

        def setting_up(*args: Any) -> Any:
            result = set_up(*args)
            if consumer._nodes.session.lost:  # the assignment that the end of the session came between
                seen.append(use(consumer))
            return result

        with monkeypatch.context() as patched:
            patched.setattr(consumer, step, stepping)
            monkeypatch.setattr(consumer, "_setup_internal_consumer", setting_up)
            consumer._wanted.set()
            place.until(lambda: seen)
            place.until(lambda: consumer._readable is not None)
        assert not any(seen)
        assert not place.commits
        assert consumer.consume().offset == 0
        consumer.commit_offsets()
        assert place.commits == [1]
        consumer.stop()

    run(program)


@pytest.mark.parametrize("ends", [False, True], ids=["the session lasts", "the session ends"])
def test_an_assignment_that_fails_before_its_first_change_leaves_the_former_one(
    run: Any, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """The consumer reads on what its nodes in ZooKeeper say that it owns, and nothing once they are gone; a call raises why."""

    def program(place: Place) -> None:
        place.write(COUNT)
        consumer = place.balanced(rebalance_backoff_ms=200)
        assert consumer.consume().offset == 0
        tries: list[None] = []

        def fail() -> None:
            tries.append(None)
            raise ZooKeeperError("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(consumer, "_get_participants", fail)
            consumer._wanted.set()
            place.until(lambda: len(tries) > 2)
            assert consumer.consume().offset == 1
            if ends:
                place.end_session(consumer)
            assert read_until_error(consumer) == ([] if ends else list(range(2, COUNT)))
            with suppress(ShareLostError):
                consumer.commit_offsets()
            assert place.commits == ([] if ends else [COUNT])
        place.until(lambda: consumer._readable is not None)
        place.write()
        message = None
        while message is None:
            with suppress(ZooKeeperError):
                message = consumer.consume()
        assert message.offset == (0 if ends else COUNT)
        consumer.stop()

    run(program)
