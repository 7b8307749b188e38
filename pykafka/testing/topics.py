"""`Topic` and `Partition`: what a fake cluster stores, and which brokers have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final
from uuid import UUID

from pykafka.testing.log import PartitionLog
from pykafka.testing.settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from pykafka.protocol.message import Message

#: Topics of the brokers themselves.
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class Partition:
    """One partition: its log, its leader, its replicas. It is a key of `Waiters`: whoever changes it wakes it.

    :param topic: the name
    :param index: its number
    :param replicas: node ids, the preferred leader first
    """

    __slots__ = ("copied_to", "index", "isr", "leader", "leader_epoch", "log", "replicas", "topic")

    def __init__(self, topic: str, index: int, replicas: list[int]) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.isr = list(replicas)
        #: The node id of the leader; -1: there is none.
        self.leader = replicas[0]
        self.leader_epoch = 0
        self.log = PartitionLog()
        self.log.begin_epoch(0)
        #: How far each follower that lags has copied the log (its next offset); the others have all of it.
        self.copied_to: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<Partition {self.topic}/{self.index} led by {self.leader} in epoch {self.leader_epoch}>"

    @property
    def high_watermark(self) -> int:
        """The offset behind the last record that all replicas in sync have."""
        if not self.copied_to:
            return self.log.end
        return min((self.copied_to[node] for node in self.isr if node in self.copied_to), default=self.log.end)

    @property
    def last_stable(self) -> int:
        """The offset below which all transactions have ended: what committed readers may read."""
        return self.log.stable_below(self.high_watermark)

    def copied_by(self, node_id: int) -> int:
        """Return how far a replica has the log (its next offset)."""
        return self.copied_to.get(node_id, self.log.end)

    def records(self) -> Iterator[Message]:
        """Yield all records with their partition, of open and aborted transactions too."""
        for record in self.log.records():
            record.partition_id = self.index
            yield record

    def elect(self, node_id: int) -> None:
        """Make a replica the leader, in a new epoch; what it has not copied is lost, as all follow it.

        :param node_id: -1: there is no leader
        """
        self.leader = node_id
        self.leader_epoch += 1
        if node_id in self.copied_to:
            self.log.truncate(self.copied_to.pop(node_id))
        # Replicas that are out of sync lag even if they have all of the log by now.
        self.copied_to = {
            node: min(offset, self.log.end)
            for node, offset in self.copied_to.items()
            if offset < self.log.end or node not in self.isr
        }
        if node_id >= 0:
            if node_id not in self.isr:
                self.isr = [node_id]
            self.log.begin_epoch(self.leader_epoch)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the latest epoch up to the given one, and the offset behind its last record; -1 and -1 if it is not known."""
        self.log.begin_epoch(self.leader_epoch)
        return self.log.end_of_epoch(epoch)


class Topic:
    """One topic.

    :param name: of the topic
    :param topic_id: KIP-516
    :param replicas: of each partition: node ids, the preferred leader first
    """

    def __init__(self, name: str, topic_id: UUID, replicas: list[list[int]]) -> None:
        self.name = name
        self.id = topic_id
        self.is_internal = name in INTERNAL_TOPICS
        #: What differs from the defaults (`pykafka.testing.configs`).
        self.configs: dict[str, str] = {}
        #: Returns what a broker (None: all) gives topics for a setting, if an administrator has said so.
        self.broker_value: Callable[[str, int | None], str | None] = lambda _name, _broker: None
        self.partitions = [Partition(name, index, nodes) for index, nodes in enumerate(replicas)]

    def __repr__(self) -> str:
        return f"<Topic {self.name} {len(self.partitions)} partitions>"

    def partition(self, index: int) -> Partition | None:
        """Return a partition; None if there is none with this number."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def setting(self, name: str, broker: int | None = None) -> str:
        """Return the effective value of a setting, such as max.message.bytes: the topic's, the brokers' or Kafka's own.

        :param name: of the setting
        :param broker: the broker that asks, as it may have a value of its own
        """
        return self.configs.get(name) or self.broker_value(name, broker) or TOPIC_SETTINGS[name].default or ""

    def message_format(self, newest: int) -> int:
        """Return the message format of the topic's logs (message.format.version of Kafka 0.10 to 3): 0, 1 or 2.

        :param newest: the newest one that the brokers have
        """
        release = self.configs.get("message.format.version")
        if release is None:
            return newest
        parts = [int(part) for part in release.split("-")[0].split(".")[:2]]
        return min(newest, 0 if parts < [0, 10] else 1 if parts < [0, 11] else 2)
