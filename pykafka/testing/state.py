"""`ClusterState`: what all brokers of a fake cluster know. The holder of its lock owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID
from zlib import crc32

from pykafka.testing.features import Features
from pykafka.testing.groups.groups import Groups
from pykafka.testing.offsets import Offsets
from pykafka.testing.transactions import Transactions
from pykafka.testing.waiters import Waiters

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler
    from pykafka.testing.topics import Topic

HOST = "127.0.0.1"


class Node:
    """What a broker is, to others.

    :param node_id: its number
    :param rack: None: it says none
    """

    __slots__ = ("epoch", "host", "is_up", "node_id", "port", "rack")

    def __init__(self, node_id: int, rack: str | None = None) -> None:
        self.node_id = node_id
        self.rack = rack
        self.host = HOST
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
        self.groups = Groups(self.waiters, self.topics, self.offsets, self.new_uuid)
        self.features = Features()
        self.transactions = Transactions(self.waiters, self.partition, self.is_up, self.offsets.end_transaction)

    @property
    def group_initial_rebalance_delay_ms(self) -> int:
        """How long an empty group waits for more members before its first rebalance ends (ms)."""
        return self.groups.settings.initial_rebalance_delay_ms

    @group_initial_rebalance_delay_ms.setter
    def group_initial_rebalance_delay_ms(self, delay_ms: int) -> None:
        self.groups.settings.initial_rebalance_delay_ms = delay_ms

    def now_ms(self) -> int:
        """Return the cluster's time (ms since 1970)."""
        return self.waiters.now_ms()

    def coordinator(self, kind: str, key: str) -> Node | None:
        """Return the broker that coordinates a group or a transactional id; None if none is up.

        :param kind: "group", "transaction" or "share"
        :param key: the group's name, or the transactional id
        """
        number = self.coordinators.get((kind, key))
        up = [node for node in self.nodes.values() if node.is_up]
        if number is not None:
            return next((node for node in up if node.node_id == number), None)
        return up[crc32(key.encode()) % len(up)] if up else None

    def new_uuid(self) -> UUID:
        """Return an id for a topic or a member, from the handler's randomness."""
        return UUID(int=self.handler.random.getrandbits(128), version=4)
