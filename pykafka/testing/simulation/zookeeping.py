"""Groups that ZooKeeper keeps: their members, on brokers of 0.8 and 0.9, and what goes wrong with ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from pykafka.client import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.handlers.base import Handler
from pykafka.testing.history import Assigned, Commit, OpenConsumer, Owner, Place, Poll, Read, Revoked, Subscribe
from pykafka.testing.simulation.consumers import AUTO_COMMIT_MS, Member, Reading
from pykafka.testing.simulation.plan import MORE_FAULTS, PlannedFault, Undo
from pykafka.testing.simulation.producers import Producing
from pykafka.testing.simulation.world import CALL_MS, World
from pykafka.testing.virtual import Network
from pykafka.testing.virtual.process import VirtualProcess

if TYPE_CHECKING:
    from pykafka.testing.virtual.zookeeper import Session, ZooKeeper

#: The releases of brokers that such groups are for.
RELEASES = ("0.8.2", "0.9.0")
#: Where the clients think that ZooKeeper is.
HOSTS = "zookeeper:2181"
GROUP = "keepers"
#: How long ZooKeeper waits for a silent member (ms), and how long a member waits for an answer of it in one call (ms).
SESSION_MS, ANSWER_MS = 4_000, 6_000
#: How long `stop()` and `close()` may take (ms): to leave is a few requests to ZooKeeper.
LEAVE_MS = 4 * SESSION_MS + 20_000
_OWNERS = "owners"


def keep(world: World, network: Network) -> ZooKeeper:
    """Start a ZooKeeper, whose owners of partitions are in the history."""
    from pykafka.testing.virtual.zookeeper import ZooKeeper  # needs kazoo

    history = world.history
    owners: dict[str, str] = {}

    def on_owner(path: str, session: Session | None) -> None:
        _, _, group, kind, topic, *slug = (path + "/").split("/")
        if kind != _OWNERS or topic.startswith("b'"):  # each owner has two nodes; see groups/zookeeper/group.py
            return
        partition = TopicPartition(topic, int(slug[0].rpartition("-")[2]))
        if session is not None:
            owners[path] = session.owner.name_of_process if isinstance(session.owner, VirtualProcess) else ""
            history.note("zookeeper", Owner(group, partition, owners[path], is_owner=True))
        else:
            history.note("zookeeper", Owner(group, partition, owners.pop(path, ""), False, server.is_forced))

    server = network.zookeeper = ZooKeeper(world.handler, on_owner)
    for broker in world.cluster.broker_ids:
        server.put(f"/brokers/ids/{broker}")
    return server


class KeptMember(Member):
    """A member by `KafkaConsumer`."""

    def __init__(self, world: World, name: str, topic: str, restarts: float, **habits: Any) -> None:
        options: dict[str, Any] = {
            "protocol": "zookeeper",
            "zookeeper_hosts": HOSTS,
            "assignor": "range",
            "session_timeout_ms": SESSION_MS,
        }
        super().__init__(world, name, topic, GROUP, False, restarts, **habits, **options)
        self.poll_ms += 2 * ANSWER_MS

    def _generation(self) -> int:
        """Return a number that grows: members of such a group have no generation in common."""
        return len(self.world.history)

    def close(self, consumer: Any) -> None:
        """Close a consumer."""
        self.world.call(self.name, "close consumer", lambda: consumer.close(CALL_MS / 1000), CALL_MS + LEAVE_MS)


class BalancedMember(Reading):
    """A member by `BalancedConsumer`.

    :param restarts: how likely it is stopped and starts again, after a message (0 to 1)
    :param auto_commit: it commits by itself, and not by hand
    """

    def __init__(self, world: World, name: str, topic: str, restarts: float, auto_commit: bool) -> None:
        super().__init__(world, name, topic, committed=False)
        self.restarts = restarts
        self.auto_commit = auto_commit
        self.group = GROUP
        self.poll_ms += CALL_MS
        self._held: set[TopicPartition] = set()
        # Since which operation of the history it has them.
        self._since = 0

    @property
    def reader(self) -> str:
        """The group."""
        return self.group

    def open(self, client: KafkaClient) -> Any:
        """Make a consumer, and have it join."""
        history = self.world.history
        history.note(self.name, OpenConsumer(self.group, auto_commit=self.auto_commit))
        self._held.clear()
        begun = history.invoke(self.name, Subscribe((self.topic,)), LEAVE_MS + CALL_MS)
        try:
            consumer = client.topics[self.topic].get_balanced_consumer(
                self.group,
                zookeeper_hosts=HOSTS,
                zookeeper_connection_timeout_ms=SESSION_MS,
                consumer_timeout_ms=self.poll_ms - CALL_MS,
                auto_commit_enable=self.auto_commit,
                auto_commit_interval_ms=AUTO_COMMIT_MS,
                post_rebalance_callback=self._rebalanced,
            )
        except KafkaException as error:
            history.fail(begun, type(error).__name__)
            raise
        history.ok(begun)
        return consumer

    def _rebalanced(self, consumer: Any, old: dict[int, int], new: dict[int, int]) -> None:
        held = {TopicPartition(self.topic, number) for number in new}
        lost = {
            one.action.partition
            for one in self.world.history.operations[self._since :]
            if isinstance(one.action, Owner) and not one.action.is_owner and one.action.owner == self.name
        }
        self._give_up((self._held - held) | lost)
        self._held = held
        # The consumer commits these with the others: after an outage of ZooKeeper it goes on where it was.
        for number, offset in new.items():
            if offset >= 0:
                self.positions.setdefault(TopicPartition(self.topic, number), offset + 1)
        self._since = len(self.world.history)
        self.world.history.note(self.name, Assigned(self.group, self._since, tuple(sorted(held))))

    def _give_up(self, gone: set[TopicPartition]) -> None:
        """Note what the member has no more: the consumer does not report what it loses."""
        if gone:
            self.world.history.note(self.name, Revoked(self.group, 0, tuple(sorted(gone))))
        for key in gone:
            self.positions.pop(key, None)
        self._held -= gone

    def poll(self, consumer: Any) -> None:
        """Take one message."""
        history, offsets = self.world.history, consumer.held_offsets
        self._give_up({key for key in self._held if key.partition not in offsets})
        begun = history.invoke(self.name, Poll(), self.poll_ms)
        try:
            message = consumer.consume()
        except KafkaException as error:
            history.fail(begun, type(error).__name__)
            self.world.pause()
            return
        if message is None:
            history.ok(begun)
            return
        key = TopicPartition(self.topic, message.partition_id)
        read = Read(*key, (message.offset,), (int(message.value),))
        history.ok(begun, Poll((read,)))
        self.positions[key] = message.offset + 1
        self.world.saw(self.reader, int(message.value))

    def work(self, consumer: Any) -> None:
        """Read until the simulation ends, or it is time to start again."""
        while not self.world.stopping.is_set():
            self.poll(consumer)
            if self.positions and not self.auto_commit and self.random.random() < 0.3:
                self._commit(consumer)
            if self.random.random() < self.restarts:
                return

    def _commit(self, consumer: Any) -> None:
        history, is_midway = self.world.history, not consumer.held_offsets
        # While the consumer changes its assignment it reports no offsets, and may commit all that are its own yet.
        places = tuple(Place(*key, offset) for key, offset in sorted(self.positions.items()))
        begun = history.invoke(self.name, Commit(self.group, places), 6 * (CALL_MS + self.world.socket_ms))
        try:
            consumer.commit_offsets()
        except KafkaException as error:
            history.unknown(begun, type(error).__name__)
        else:
            # its worker may have released partitions before the request went out; it is not known whether these are committed
            offsets = {} if is_midway else consumer.held_offsets
            kept = [
                place for place in places if place.partition in offsets and TopicPartition(*place[:2]) in self.positions
            ]
            history.ok(begun, Commit(self.group, tuple(kept)))

    def close(self, consumer: Any) -> None:
        """Stop a consumer."""
        self.world.call(self.name, "stop consumer", consumer.stop, LEAVE_MS)


def programs(world: World, chance: Random, topic: str, lasts_ms: int) -> tuple[list[Any], list[Any]]:
    """Return the programs that write, and those that read."""
    options: dict[str, Any] = chance.choice(({}, {}, {"acks": 1}))
    count = chance.randint(5, 40)
    writers = [Producing(world, "p1", topic, count, lasts_ms, enable_idempotence=False, **options)]
    readers: list[Any] = [Reading(world, "c1", topic, False, chance.choice((0.0, 0.05)))]
    auto_commit = chance.random() < 0.4
    for number in range(chance.randint(1, 3)):
        restarts = chance.choice((0.0, 0.02))
        if chance.random() < 0.6:
            deaths = chance.choice((0, 0, 2))
            readers.append(KeptMember(world, f"z{number}", topic, restarts, deaths=deaths, auto_commit=auto_commit))
        else:
            readers.append(BalancedMember(world, f"z{number}", topic, restarts, auto_commit))
    return writers, readers


# -- faults --------------------------------------------------------------------------------------------------------------


def _server(world: World) -> ZooKeeper:
    assert world.network is not None
    assert world.network.zookeeper is not None
    return world.network.zookeeper


def _stop(world: World) -> Undo:
    _server(world).stop()
    return _server(world).start


def _pause(world: World) -> Undo:
    _server(world).pause()
    return _server(world).start


def _cut(world: World) -> None:
    _server(world).cut()


def _expire(world: World, number: int) -> None:
    """End a session at once, as ZooKeeper itself never does: its member cannot know that yet."""
    _server(world).expire(number)


def _isolate(world: World, number: int) -> Undo:
    server = _server(world)
    isolated: Handler | None = server.isolate(number)
    return lambda: server.rejoin(isolated)


FAULTS: dict[str, Callable[..., Undo | None]] = {
    "zookeeper_stop": _stop,
    "zookeeper_pause": _pause,
    "zookeeper_cut": _cut,
    "zookeeper_expire": _expire,
    "zookeeper_isolate": _isolate,
}
MORE_FAULTS.update(FAULTS)


def draw_faults(chance: Random, count: int, until_ms: int) -> list[PlannedFault]:
    """Return faults of ZooKeeper.

    :param count: how many
    :param until_ms: when all have begun (ms)
    """
    plan = []
    for _ in range(count):
        name = chance.choice(sorted(FAULTS))
        arguments = (chance.randrange(6),) if name in ("zookeeper_expire", "zookeeper_isolate") else ()
        lasts_ms = chance.choice((300, 1_000, 3_000, 6_000, 12_000))
        plan.append(PlannedFault(chance.randrange(until_ms), lasts_ms, name, arguments))
    return plan
