"""Topics as callers want them, and as brokers describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pykafka.admin.operations import AclOperation
from pykafka.protocol import wire


@dataclass(frozen=True)
class NewTopic:
    """A topic to create.

    :param name: 1 to 249 of a-z A-Z 0-9 . _ -
    :param partitions: how many; None for the brokers' default (since Kafka 2.4)
    :param replication: how many replicas each has; None for the brokers' default (since Kafka 2.4)
    :param configs: {name: value} of settings that differ from the brokers'; numbers and booleans are taken, too
    :param assignments: {partition: broker ids of its replicas}, instead of `partitions` and `replication`
    """

    name: str
    partitions: int | None = None
    replication: int | None = None
    configs: Mapping[str, Any] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.assignments is not None and (self.partitions is not None or self.replication is not None):
            raise ValueError(f"topic {self.name}: give either assignments, or partitions and replication")
        for name, value in (("partitions", self.partitions), ("replication", self.replication)):
            if value is not None and value < 1:
                raise ValueError(f"topic {self.name}: {name} must be at least 1, or None; not {value!r}")

    @property
    def wants_defaults(self) -> bool:
        """Whether the brokers choose the number of partitions or replicas."""
        return self.assignments is None and (self.partitions is None or self.replication is None)

    def wire(self) -> wire.CreateTopicsRequest.Topic:
        """Return the topic as the request has it."""
        topic = wire.CreateTopicsRequest.Topic
        return topic(
            name=self.name,
            num_partitions=-1 if self.partitions is None else self.partitions,
            replication_factor=-1 if self.replication is None else self.replication,
            assignments=[
                topic.Assignment(partition_index=id_, broker_ids=list(brokers))
                for id_, brokers in (self.assignments or {}).items()
            ],
            configs=[topic.Config(name=name, value=config_text(value)) for name, value in self.configs.items()],
        )


@dataclass(frozen=True)
class NewPartitions:
    """More partitions for a topic.

    :param topic: its name
    :param total: how many partitions it shall have
    :param assignments: the broker ids of the replicas of each new partition; None leaves that to the cluster
    """

    topic: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None

    def wire(self) -> wire.CreatePartitionsRequest.Topic:
        """Return the partitions as the request has them."""
        topic = wire.CreatePartitionsRequest.Topic
        assignments = None
        if self.assignments is not None:
            assignments = [topic.Assignment(broker_ids=list(brokers)) for brokers in self.assignments]
        return topic(name=self.topic, count=self.total, assignments=assignments)


@dataclass(frozen=True)
class CreatedTopic:
    """A topic that was created; None for what brokers before Kafka 2.4 do not tell.

    :param name: of the topic
    :param topic_id: its id, since Kafka 2.8
    :param partitions: how many
    :param replication: how many replicas each has
    :param configs: {name: value} of all its settings; None for values that brokers keep secret
    """

    name: str
    topic_id: UUID | None
    partitions: int | None
    replication: int | None
    configs: Mapping[str, str | None] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class TopicListing:
    """A topic in one line.

    :param name: of the topic
    :param topic_id: its id, since Kafka 2.8
    :param internal: whether Kafka keeps it for itself
    :param partitions: how many
    """

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: int


@dataclass(frozen=True)
class PartitionDescription:
    """A partition; brokers by id.

    :param partition: its number
    :param leader: None while there is none
    :param leader_epoch: None where brokers do not tell it (before Kafka 2.1)
    :param replicas: the preferred leader first
    :param isr: the replicas that are in sync
    :param offline: the replicas that are not there
    """

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True)
class TopicDescription:
    """A topic.

    :param name: of the topic
    :param topic_id: its id, since Kafka 2.8
    :param internal: whether Kafka keeps it for itself
    :param partitions: in order
    :param authorized_operations: what this user may do; None if that was not asked for
    """

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


def config_text(value: Any) -> str | None:
    """Return a setting's value as Kafka's text: true for True, 1,2 for [1, 2]."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(config_text(one)) for one in value)
    return str(value)
