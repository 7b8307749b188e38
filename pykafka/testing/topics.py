"""`Topic` and `Partition`: what a fake cluster stores, and which brokers have it."""

from __future__ import annotations

from uuid import UUID

from pykafka.testing.log import PartitionLog


class Partition:
    """One partition: its log, its leader, its replicas. It is a key of `Waiters`: whoever changes it wakes it.

    :param topic: the name
    :param index: its number
    :param replicas: node ids, the preferred leader first
    """

    def __init__(self, topic: str, index: int, replicas: list[int]) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.isr = list(replicas)
        #: The node id of the leader; -1: there is none.
        self.leader = replicas[0]
        self.leader_epoch = 0
        self.log = PartitionLog()
        #: How far each follower that lags has copied the log (its next offset); the others have all of it.
        self.copied_to: dict[int, int] = {}

    @property
    def high_watermark(self) -> int:
        """The offset behind the last record that all replicas in sync have."""
        return min((self.copied_to[node] for node in self.isr if node in self.copied_to), default=self.log.end)


class Topic:
    """One topic.

    :param name: of the topic
    :param topic_id: KIP-516
    :param replicas: of each partition: node ids, the preferred leader first
    """

    def __init__(self, name: str, topic_id: UUID, replicas: list[list[int]]) -> None:
        self.name = name
        self.id = topic_id
        self.is_internal = name.startswith("__")
        #: What differs from the defaults (`pykafka.testing.configs`).
        self.configs: dict[str, str] = {}
        self.partitions = [Partition(name, index, nodes) for index, nodes in enumerate(replicas)]
