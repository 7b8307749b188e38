"""`ClusterState`: what all brokers of a fake cluster know. The holder of its lock owns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID
from zlib import crc32

from pykafka.exceptions import PolicyViolation
from pykafka.testing.behaviour import AdminPath, DataPath
from pykafka.testing.configs import Configs
from pykafka.testing.features import Features
from pykafka.testing.fetch_sessions import FetchSessions
from pykafka.testing.groups.groups import Groups
from pykafka.testing.offsets import Offsets
from pykafka.testing.releases import NEWEST
from pykafka.testing.topics import Partition, Topic
from pykafka.testing.transactions import Transactions
from pykafka.testing.waiters import Waiters

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

HOST = "127.0.0.1"
#: The most partitions that one request may create, as with Kafka's controllers.
_PARTITIONS_MAX = 10_000


class Node:
    """A broker as the others see it.

    :param node_id: its number
    :param rack: None: it says none
    """

    __slots__ = ("bind", "epoch", "host", "is_up", "node_id", "port", "rack")

    def __init__(self, node_id: int, rack: str | None = None) -> None:
        self.node_id = node_id
        self.rack = rack
        #: Where it listens; `host` is where clients connect.
        self.bind = self.host = HOST
        self.port = 0
        #: Whether the others take it for running: it is in the metadata, and may lead.
        self.is_up = False
        #: Counts its starts: fetch sessions do not outlive one.
        self.epoch = 0

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
        self.offsets = Offsets(self.waiters, self.topics)
        #: What clients of old brokers keep in ZooKeeper.
        self.zookeeper_offsets = Offsets(self.waiters, self.topics)
        self.groups = Groups(self.waiters, self.topics, self.offsets, self.new_uuid)
        self.configs = Configs()
        self.features = Features()
        self.transactions = Transactions(self.waiters, self.partition, self.is_up, self.offsets.end_transaction)
        #: Whether a request for metadata may create a topic, and how.
        self.auto_create = True
        self.default_partitions = 4
        self.default_replication = 1
        #: How the release that is played writes and reads (`data_path`).
        self.data_path = DataPath()
        self.admin_path = AdminPath()
        #: Whether partitions keep their leader if its broker stops; otherwise `elect_leaders` gives them another.
        self.keeps_leaders = False
        #: Whether leaders send consumers to a replica in their rack (KIP-392).
        self.reads_by_rack = False
        #: By node id: the count of its starts, and its fetch sessions since the last one.
        self.fetch_sessions: dict[int, tuple[int, FetchSessions]] = {}
        #: What transactions ask for each transactional batch: (partition, transactional id, producer id, producer epoch,
        #: version of Produce) -> error code, 0 if the batch may be written.
        self.check_transactional: Callable[[Partition, str | None, int, int, int], int] = (
            self.transactions.check_produce
        )

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

    def place(self, partitions: int, replication_factor: int = 1, first: int = 0) -> list[list[int]]:
        """Return replicas for the partitions of a topic: one broker after another leads them.

        :param partitions: how many
        :param replication_factor: how many replicas each has: not more than there are brokers
        :param first: the number of the first partition
        :raises PolicyViolation: they are more than one request may create
        """
        if partitions > _PARTITIONS_MAX:
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
        self.topics[name] = self.topic_ids[topic.id] = topic
        self._elect_first(topic.partitions)
        return topic

    def add_partitions(self, topic: Topic, replicas: list[list[int]]) -> None:
        """Add partitions to a topic.

        :param topic: that exists
        :param replicas: of each new partition: node ids, the preferred leader first (`place`)
        """
        present = len(topic.partitions)
        added = [Partition(topic.name, present + number, nodes) for number, nodes in enumerate(replicas)]
        topic.partitions += added
        self._elect_first(added)

    def remove_topic(self, topic: Topic) -> None:
        """Delete a topic; who waits for its partitions looks again, and finds none."""
        del self.topics[topic.name], self.topic_ids[topic.id]
        for partition in topic.partitions:
            partition.leader = -1
            self.waiters.wake(partition)

    def _elect_first(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            if not self.is_up(partition.leader) and not self.keeps_leaders:
                self._elect(partition)

    def is_up(self, node_id: int) -> bool:
        """Return whether a broker listens."""
        node = self.nodes.get(node_id)
        return node is not None and node.is_up

    def elect_leaders(self) -> None:
        """Give partitions whose leader is down another one of their replicas in sync, or none."""
        for topic in self.topics.values():
            for partition in topic.partitions:
                if not self.is_up(partition.leader):
                    self._elect(partition)

    def _elect(self, partition: Partition) -> None:
        candidates = (node for node in partition.replicas if node in partition.isr and self.is_up(node))
        leader = next(candidates, -1)
        if leader == partition.leader:
            return
        partition.isr = [node for node in partition.isr if self.is_up(node)] or partition.isr
        partition.elect(leader)
        self.waiters.wake(partition)

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

    def new_uuid(self) -> UUID:
        """Return an id for a topic or a member, from the handler's randomness."""
        return UUID(int=self.handler.random.getrandbits(128), version=4)
