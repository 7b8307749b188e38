"""`ClusterState`: what all brokers of a fake cluster know. The holder of its lock owns it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID
from zlib import crc32

from pykafka.exceptions import PolicyViolation
from pykafka.protocol.schema import Struct
from pykafka.testing.acls import Authorizer
from pykafka.testing.behaviour import AdminPath, DataPath
from pykafka.testing.configs import Configs
from pykafka.testing.features import Features
from pykafka.testing.fetch_sessions import FetchSessions
from pykafka.testing.groups.groups import Groups
from pykafka.testing.offsets import Offsets
from pykafka.testing.quotas import Quotas
from pykafka.testing.releases import NEWEST
from pykafka.testing.replicas import Replicas
from pykafka.testing.sasl import Sasl
from pykafka.testing.share_sessions import ShareSessions
from pykafka.testing.topics import Partition, Topic
from pykafka.testing.transactions import Transactions
from pykafka.testing.waiters import Waiters

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler
    from pykafka.testing.tls import ServerContext

E = TypeVar("E", bound=Struct)
HOST = "127.0.0.1"
#: How often brokers look for records that are too old (ms): log.retention.check.interval.ms.
_RETENTION_CHECK_MS = 300_000
#: How many partitions one request may create: the limit of controllers since Kafka 4.0, here of all releases.
PARTITIONS_MAX = 10_000


@dataclass(eq=False, slots=True, repr=False)
class Node:
    """A broker as the others see it.

    :param node_id: its number
    :param rack: None: it says none
    """

    node_id: int
    rack: str | None = None
    #: Where it listens; `host` is where clients connect.
    bind: str = HOST
    host: str = HOST
    port: int = 0
    #: Whether the others take it for running: it is in the metadata, and may lead.
    is_up: bool = False
    #: Whether its port is open, and whether it answers nothing all the same.
    is_listening: bool = False
    is_paused: bool = False
    #: Counts its starts: fetch sessions do not outlive one.
    epoch: int = 0

    def __repr__(self) -> str:
        return f"<Node {self.node_id} {self.host}:{self.port}{'' if self.is_up else ' down'}>"


class ClusterState:
    """Brokers, topics, groups, transactions.

    :param handler: makes the workers, locks and events, and has the clock
    """

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.lock = handler.Lock()
        self.waiters = Waiters(handler, self.lock)
        #: The release that is played.
        self.release = NEWEST
        #: The versions that the brokers speak, by API key.
        self.versions: dict[int, range] = {}
        self.nodes: dict[int, Node] = {}
        self.controller_id = 1
        self.cluster_id = ""
        #: By kind ("group", "transaction", "share") and key: where a test has put a coordinator.
        self.coordinators: dict[tuple[str, str], int] = {}
        self.topics: dict[str, Topic] = {}
        self.topic_ids: dict[UUID, Topic] = {}
        self.replicas = Replicas(self.waiters, self.topics, self.is_up)
        self.offsets = Offsets(self.waiters, self.topics)
        #: What clients of old brokers keep in ZooKeeper.
        self.zookeeper_offsets = Offsets(self.waiters, self.topics)
        self.configs = Configs()
        self.groups = Groups(self.waiters, self.topics, self.offsets, self.new_uuid, self.configs.group_setting)
        self.groups.settings.configs = self.configs.groups
        self.features = Features()
        self.transactions = Transactions(
            self.waiters,
            self.partition,
            self.serves,
            lambda name: self._serving("transaction", name)[0],
            self.offsets.end_transaction,
        )
        self._expires = False
        #: Users, and how they log in: they do not if there are no mechanisms.
        self.sasl = Sasl(mechanisms=())
        #: What makes connections TLS; None: they are plain.
        self.tls: ServerContext | None = None
        self.quotas = Quotas(self.now_ms)
        #: The ACLs; None: all clients may do everything.
        self.authorizer: Authorizer | None = None
        #: Whether a request for metadata may create a topic, and how.
        self.auto_create = True
        self.default_partitions = 4
        self.default_replication = 1
        #: How the release that is played writes and reads (`data_path`).
        self.data_path = DataPath()
        self.admin_path = AdminPath()
        #: Whether leaders send consumers to a replica in their rack (KIP-392).
        self.reads_by_rack = False
        #: By node id: the count of its starts, and its fetch sessions since the last one.
        self.fetch_sessions: dict[int, tuple[int, FetchSessions]] = {}
        #: By node id: partitions as a broker has them that leads on, though others lead them by now (`outdated.Isolated`).
        self.forks: dict[int, dict[Partition, Partition]] = {}
        #: By node id; a session ends with its connection.
        self.share_sessions: dict[int, ShareSessions] = {}

    def topic(self, name_or_id: str | UUID) -> Topic | None:
        """Return a topic by its name or id; None if there is none."""
        return self.topics.get(name_or_id) if isinstance(name_or_id, str) else self.topic_ids.get(name_or_id)

    def partition(self, topic: str | UUID, index: int) -> Partition | None:
        """Return a partition; None if there is none.

        :param topic: name or id
        :param index: its number
        """
        found = self.topic(topic)
        return None if found is None else found.partition(index)

    def held_by(self, node_id: int, partition: Partition) -> Partition:
        """Return a partition as a broker has it."""
        forks = self.forks.get(node_id)
        return partition if forks is None else forks.get(partition, partition)

    def place(self, partitions: int, replication_factor: int = 1, first: int = 0) -> list[list[int]]:
        """Return replicas for the partitions of a topic: one broker after another leads them.

        :param partitions: how many
        :param replication_factor: how many replicas each has: not more than there are brokers
        :param first: the number of the first partition
        :raises PolicyViolation: they are more than one request may create
        """
        if partitions > PARTITIONS_MAX:
            raise PolicyViolation("Excessively large number of partitions per request.")
        nodes = list(self.nodes)
        return [
            [nodes[(index + follower) % len(nodes)] for follower in range(replication_factor)]
            for index in range(first, first + partitions)
        ]

    def add_topic(self, name: str, replicas: list[list[int]], configs: dict[str, str] | None = None) -> Topic:
        """Create a topic, which does not exist.

        :param name: of the topic
        :param replicas: of each partition: node ids, the preferred leader first (`place`)
        :param configs: what differs from the defaults
        """
        topic = Topic(name, self.new_uuid(), replicas)
        topic.configs.update(configs or {})
        topic.broker_value = self.configs.topic_default
        self.topics[name] = self.topic_ids[topic.id] = topic
        self.replicas.begin(topic.partitions)
        if not self._expires:
            self._expires = True
            self.waiters.after(_RETENTION_CHECK_MS, self._expire_records)
        return topic

    def _expire_records(self) -> None:
        for topic in self.topics.values():
            if "delete" in topic.setting("cleanup.policy"):
                retention_ms = int(topic.setting("retention.ms"))
                for partition in topic.partitions:
                    log = partition.log
                    if partition.last_stable == log.end and log.expire(self.now_ms(), retention_ms):
                        self.waiters.wake(partition)
        self.waiters.after(_RETENTION_CHECK_MS, self._expire_records)

    def add_partitions(self, topic: Topic, replicas: list[list[int]]) -> None:
        """Add partitions to a topic.

        :param topic: that exists
        :param replicas: of each new partition: node ids, the preferred leader first (`place`)
        """
        present = len(topic.partitions)
        added = [Partition(topic.name, present + number, nodes) for number, nodes in enumerate(replicas)]
        topic.partitions += added
        self.replicas.begin(added)

    def remove_topic(self, topic: Topic) -> None:
        """Delete a topic; who waits for its partitions looks again, and finds none."""
        del self.topics[topic.name], self.topic_ids[topic.id]
        for partition in topic.partitions:
            partition.leader = -1
            self.waiters.wake(partition)

    def is_up(self, node_id: int) -> bool:
        """Return whether a broker listens."""
        node = self.nodes.get(node_id)
        return node is not None and node.is_up

    def serves(self, node: Node | int | None) -> bool:
        """Return whether a broker answers: it runs, and is not paused."""
        found = self.nodes.get(node) if isinstance(node, int) else node
        return found is not None and found.is_listening and not found.is_paused

    def on_stop(self, node: Node) -> None:
        """Note that a broker is down: others lead its partitions, and the cluster, if there are any."""
        if not node.is_up:
            return
        node.is_up = False
        if self.controller_id == node.node_id:
            self.controller_id = next((one.node_id for one in self.nodes.values() if one.is_up), node.node_id)
        self.replicas.on_stop(node.node_id)

    def on_start(self, node: Node) -> None:
        """Note that a broker is up."""
        if not node.is_up:
            node.is_up = True
            self.replicas.on_start(node.node_id)

    def endpoints(self, kind: type[E], node_ids: Container[int] | None = None) -> list[E]:
        """Return where brokers that are up listen, as parts of an answer.

        :param kind: the class of the parts
        :param node_ids: of which brokers; None: of all
        """
        return [
            kind(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in self.nodes.values()
            if node.is_up and (node_ids is None or node.node_id in node_ids)
        ]

    def now_ms(self) -> int:
        """Return the cluster's time (ms since 1970)."""
        return self.waiters.now_ms()

    def coordinator(self, kind: str, key: str) -> Node | None:
        """Return the broker that coordinates a group or a transactional id; None if none is up.

        :param kind: "group", "transaction" or "share"
        :param key: the group's name, or the transactional id
        """
        number = self.coordinators.get((kind, key))
        nodes = [node for node in self.nodes.values() if number in (None, node.node_id)]
        first = crc32(key.encode()) % max(len(nodes), 1)
        return next((node for node in nodes[first:] + nodes[:first] if node.is_up), None)

    @contextmanager
    def moving_coordinators(self) -> Iterator[None]:
        """Change brokers, with the lock held. Nothing times out while its coordinator is away.

        As brokers do, one that has started again, or is new, gives members their whole sessions. Transactions have the rest of
        their time, and so has everything after a pause.
        """
        groups, transactions = list(self.groups), list(self.transactions.by_id.values())
        before = [self._serving("group", group.name)[1] for group in groups]
        yield
        for group, was in zip(groups, before, strict=True):
            works, now = self._serving("group", group.name)
            for deadline in list(group.deadlines()):
                deadline.suspend() if not works else deadline.resume() if now == was else deadline.renew()
        for transaction in transactions:
            works, _ = self._serving("transaction", transaction.transactional_id)
            transaction.deadline.resume() if works else transaction.deadline.suspend()

    def _serving(self, kind: str, key: str) -> tuple[bool, tuple[int, int] | None]:
        # Whether the coordinator works; and which broker it is, in which of its starts.
        node = self.coordinator(kind, key)
        if node is None:
            return False, None
        return self.serves(node), (node.node_id, node.epoch)

    def new_uuid(self) -> UUID:
        """Return an id for a topic or a member, from the handler's randomness."""
        return UUID(int=self.handler.random.getrandbits(128), version=4)
