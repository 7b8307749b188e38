"""Topics: creation, deletion, description, more partitions, deletion of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several, topic_partition
from pykafka.admin.releases import need, version_of
from pykafka.admin.results import (
    AclOperation,
    Results,
    checked,
    operations,
    outcome,
    partition_error,
    partitions_in,
)
from pykafka.admin.routing import AnyBroker, CertainBrokers, Controller, Leaders, RequestFactory, SameBroker
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition, UnsupportedVersion
from pykafka.metadata.group_offsets import by_topic
from pykafka.protocol import wire
from pykafka.utils import get_string

if TYPE_CHECKING:
    from pykafka.metadata.topic_pages import Topic
    from pykafka.network.node import Node

#: How long created topics may take to be known to the brokers, and deleted ones to be gone, before the call returns (s).
TOPIC_WAIT_S = 5.0
_PAUSE_S = 0.05
#: The least that an update of metadata gets at the end of a call (ms).
_LEAST_MS = 100
_ZERO = UUID(int=0)


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
    """A topic that was created; None for values that brokers before Kafka 2.4 do not return.

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
    :param replicas: the most that one of its partitions has
    :param without_leader: how many partitions have no leader
    :param under_replicated: how many partitions have replicas that are not in sync
    """

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: int
    replicas: int = 0
    without_leader: int = 0
    under_replicated: int = 0

    def with_more(self, partitions: Sequence[Any]) -> TopicListing:
        """Return the same topic with more partitions, as a response has them."""
        return replace(
            self,
            partitions=self.partitions + len(partitions),
            replicas=max([self.replicas, *(len(part.replica_nodes) for part in partitions)]),
            without_leader=self.without_leader + sum(part.leader_id < 0 for part in partitions),
            under_replicated=self.under_replicated
            + sum(len(part.isr_nodes) < len(part.replica_nodes) for part in partitions),
        )


@dataclass(frozen=True)
class PartitionDescription:
    """A partition; brokers by id.

    :param partition: its number
    :param leader: None while there is none
    :param leader_epoch: None if brokers do not return it (before Kafka 2.1)
    :param replicas: the preferred leader first
    :param isr: the replicas that are in sync
    :param offline: the replicas that are not there
    :param elr: the replicas out of sync that have all committed records, and so may lead (KIP-966); None if brokers do not
        report them (before Kafka 3.8, and with ZooKeeper), and empty if the cluster has the feature switched off
    :param last_known_elr: those of the last time that there was no leader; None likewise
    """

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


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


class TopicsAdmin(AdminBase):
    """The topics of the cluster."""

    def list_topics(self, *, internal: bool = False, timeout_ms: int = TIMEOUT_MS) -> list[TopicListing]:
        """Return all topics by name.

        Brokers answer page by page, if they can (since Kafka 3.8 without ZooKeeper): so large clusters take no more memory
        than their list.

        :param internal: also topics that Kafka keeps for itself, as `__consumer_offsets`
        :param timeout_ms: of the whole call
        """
        deadline = self._deadline(timeout_ms)
        found: dict[str, TopicListing] = {}
        try:
            for page in self._pages(None, deadline, SameBroker(self._cluster)):
                _list(found, page)
        except UnsupportedVersion:
            found.clear()
            request = wire.MetadataRequest(topics=None, allow_auto_topic_creation=False)
            response: wire.MetadataResponse = self._ask_one(
                wire.MetadataRequest,
                lambda broker, left: request,
                lambda response: response,
                self._left_ms(deadline),
            )
            _list(found, response.topics)
        return [
            found[name] for name in sorted(found) if internal or not (found[name].internal or name.startswith("__"))
        ]

    def _pages(self, names: Sequence[str] | None, deadline: float, target: SameBroker) -> Iterator[Sequence[Topic]]:
        """Yield pages of topics; see `topic_pages`.

        :param target: finds the broker, and then names it
        :raises UnsupportedVersion: the brokers have no pages
        """
        from pykafka.metadata.topic_pages import topic_pages

        def ask(request: wire.DescribeTopicPartitionsRequest) -> wire.DescribeTopicPartitionsResponse:
            response: wire.DescribeTopicPartitionsResponse = self._ask_one(
                wire.DescribeTopicPartitionsRequest,
                lambda broker, left: request,
                lambda response: response,
                self._left_ms(deadline),
                target,
            )
            target.keep()
            return response

        return topic_pages(ask, names)

    def describe_topics(
        self,
        topics: str | Iterable[str],
        *,
        authorized_operations: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, TopicDescription]:
        """Return partitions, leaders and replicas of topics. This creates no topic.

        Brokers answer page by page, and report eligible leader replicas, if they can (since Kafka 3.8 without ZooKeeper).

        :param topics: a name, or several
        :param authorized_operations: also what this user may do with them (since Kafka 2.3)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for topics that failed, see `Results`
        :raises UnknownTopicOrPartition: there is no such topic
        """
        names = list(dict.fromkeys(several(topics, "topics", str)))
        deadline = self._deadline(timeout_ms)
        try:
            paged: dict[str, TopicDescription | KafkaException] = {
                name: UnknownTopicOrPartition(topic=name) for name in names
            }
            target = SameBroker(self._cluster)
            for page in self._pages(names, deadline, target):
                _describe(paged, page, authorized_operations, None if target.last is None else target.last.address)
            return checked(Results(paged), raise_errors)
        except UnsupportedVersion:
            return self._described_by_metadata(names, authorized_operations, self._left_ms(deadline), raise_errors)

    def _described_by_metadata(
        self, names: Sequence[str], authorized_operations: bool, timeout_ms: int, raise_errors: bool
    ) -> Results[str, TopicDescription]:
        def request(items: Sequence[str], broker: Node, left: int) -> wire.MetadataRequest:
            made = _metadata_request(items)
            if authorized_operations:
                need(broker, wire.MetadataRequest, 8, "authorized_operations", "2.3")
                made.include_topic_authorized_operations = True
            return made

        def read(response: wire.MetadataResponse, items: Sequence[str], broker: Node) -> Mapping[str, Any]:
            found: dict[str, TopicDescription | KafkaException] = {
                name: UnknownTopicOrPartition(topic=name) for name in items
            }
            for topic in response.topics:
                if topic.name in found:
                    error = outcome(topic.error_code, topic=topic.name)
                    found[topic.name] = error or _described(topic.name, topic)
            return found

        factory: RequestFactory[str, TopicDescription] = RequestFactory(wire.MetadataRequest, request, read)
        return self._ask(names, AnyBroker(self._cluster), factory, timeout_ms, raise_errors)

    def create_topics(
        self,
        topics: NewTopic | Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, CreatedTopic]:
        """Create topics, and wait a moment until the brokers know them (since Kafka 0.10.1).

        :param topics: a NewTopic, or several
        :param validate_only: check everything, and create nothing
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for topics that failed, see `Results`
        :raises TopicAlreadyExists: there is a topic of this name
        """
        wanted: dict[str, NewTopic] = {get_string(topic.name): topic for topic in several(topics, "topics", NewTopic)}

        def request(items: Sequence[str], broker: Node, left: int) -> wire.CreateTopicsRequest:
            if any(wanted[name].wants_defaults for name in items):
                need(broker, wire.CreateTopicsRequest, 4, "a topic without a number of partitions or replicas", "2.4")
            if validate_only:
                need(broker, wire.CreateTopicsRequest, 1, "validate_only", "0.10.2")
            return wire.CreateTopicsRequest(
                topics=[wanted[name].wire() for name in items], timeout_ms=left, validate_only=validate_only
            )

        def read(response: wire.CreateTopicsResponse, items: Sequence[str], broker: Node) -> Mapping[str, Any]:
            return {topic.name: _topic_error(topic) or _created(topic) for topic in response.topics}

        factory: RequestFactory[str, CreatedTopic] = RequestFactory(
            wire.CreateTopicsRequest, request, read, once=True, waits=True
        )
        deadline = self._deadline(timeout_ms)
        results = self._ask(wanted, Controller(self._cluster), factory, timeout_ms, False)
        if results and not validate_only:
            self._await_topics({name: one.partitions or 0 for name, one in results.items()}, deadline)
        return checked(results, raise_errors)

    def delete_topics(
        self, topics: str | UUID | Iterable[str | UUID], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str | UUID, None]:
        """Delete topics with all their messages, and wait a moment until they are gone (since Kafka 0.10.1).

        :param topics: a name or an id, or several; ids since Kafka 2.8
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for topics that failed, see `Results`
        :raises UnknownTopicOrPartition: there is no such topic
        """
        wanted: list[str | UUID] = several(topics, "topics", (str, UUID))

        def request(items: Sequence[str | UUID], broker: Node, left: int) -> wire.DeleteTopicsRequest:
            if version_of(broker, wire.DeleteTopicsRequest) < 6:
                if any(isinstance(item, UUID) for item in items):
                    need(broker, wire.DeleteTopicsRequest, 6, "deletion of topics by id", "2.8")
                return wire.DeleteTopicsRequest(topic_names=[str(item) for item in items], timeout_ms=left)
            make = wire.DeleteTopicsRequest.Topic
            named = [make(name=None, topic_id=one) if isinstance(one, UUID) else make(name=one) for one in items]
            return wire.DeleteTopicsRequest(topics=named, timeout_ms=left)

        def read(response: wire.DeleteTopicsResponse, items: Sequence[str | UUID], broker: Node) -> Mapping[Any, Any]:
            found: dict[str | UUID, KafkaException | None] = {}
            for topic in response.responses:
                error = _topic_error(topic)
                for key in (topic.name, topic.topic_id):
                    if key is not None:
                        found[key] = error
            return found

        factory: RequestFactory[str | UUID, None] = RequestFactory(
            wire.DeleteTopicsRequest, request, read, once=True, waits=True
        )
        deadline = self._deadline(timeout_ms)
        results = self._ask(wanted, Controller(self._cluster), factory, timeout_ms, False)
        names = [item for item in results if isinstance(item, str)]
        if names:
            self._await_topics(dict.fromkeys(names), deadline)
        return checked(results, raise_errors)

    def _await_topics(self, wanted: Mapping[str, int | None], deadline: float) -> None:
        """Wait a moment until the connected brokers know of a change, then refresh the client's own metadata.

        :param wanted: {topic: the number of partitions that it has now, 0 for any, or None for a topic that is gone}
        """
        handler = self._cluster.handler
        end = min(deadline, handler.now() + TOPIC_WAIT_S)
        factory: RequestFactory[int, bool] = RequestFactory(
            wire.MetadataRequest,
            lambda items, broker, left: _metadata_request(wanted),
            lambda response, items, broker: {items[0]: _is_known(response, wanted)},
        )
        while True:
            brokers = [id_ for id_, broker in self._cluster.brokers.items() if broker.stands]
            target: CertainBrokers[int] = CertainBrokers(self._cluster, int)
            answers = self._router.ask(brokers, target, factory, self._left_ms(end))
            if False not in answers.values() or handler.now() >= end:
                break
            handler.sleep(_PAUSE_S)
        with suppress(KafkaException):  # the change itself has been made
            self._cluster.update(wanted, max(_LEAST_MS, self._left_ms(end)))

    def create_partitions(
        self,
        partitions: Mapping[str, int] | NewPartitions | Iterable[NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Give topics more partitions (since Kafka 1.0).

        :param partitions: {topic: number of partitions that it shall have}, or NewPartitions
        :param validate_only: check everything, and change nothing
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for topics that failed, see `Results`
        :raises InvalidPartitions: the topic has as many partitions already, or more
        """
        if isinstance(partitions, Mapping):
            partitions = [NewPartitions(topic, total) for topic, total in partitions.items()]
        wanted: dict[str, NewPartitions] = {
            get_string(one.topic): one for one in several(partitions, "partitions", NewPartitions)
        }

        def request(items: Sequence[str], broker: Node, left: int) -> wire.CreatePartitionsRequest:
            return wire.CreatePartitionsRequest(
                topics=[wanted[name].wire() for name in items], timeout_ms=left, validate_only=validate_only
            )

        factory: RequestFactory[str, None] = RequestFactory(
            wire.CreatePartitionsRequest,
            request,
            lambda response, items, broker: {topic.name: _topic_error(topic) for topic in response.results},
            once=True,
            waits=True,
        )
        deadline = self._deadline(timeout_ms)
        results = self._ask(wanted, Controller(self._cluster), factory, timeout_ms, False)
        if results and not validate_only:
            self._await_topics({name: wanted[name].total for name in results}, deadline)
        return checked(results, raise_errors)

    def delete_records(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, int]:
        """Delete the messages before an offset, in each partition (since Kafka 0.11).

        :param offsets: {(topic, partition): offset}; -1 deletes all that are there
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :return: the first offset that is left, of each partition
        :raises OffsetOutOfRangeError: the partition ends before the offset
        """
        wanted = {topic_partition(key): offset for key, offset in offsets.items()}

        def request(items: Sequence[TopicPartition], broker: Node, left: int) -> wire.DeleteRecordsRequest:
            topic = wire.DeleteRecordsRequest.Topic
            topics = [
                topic(
                    name=name, partitions=[topic.Partition(partition_index=id_, offset=at) for id_, at in parts.items()]
                )
                for name, parts in by_topic({item: wanted[item] for item in items}).items()
            ]
            return wire.DeleteRecordsRequest(topics=topics, timeout_ms=left)

        def read(
            response: wire.DeleteRecordsResponse, items: Sequence[TopicPartition], broker: Node
        ) -> Mapping[TopicPartition, int | KafkaException]:
            found = partitions_in(response.topics)
            return {key: partition_error(key, part) or part.low_watermark for key, part in found}

        factory: RequestFactory[TopicPartition, int] = RequestFactory(
            wire.DeleteRecordsRequest, request, read, waits=True
        )
        return self._ask(wanted, Leaders(self._cluster), factory, timeout_ms, raise_errors)


def _topic_error(topic: Any) -> KafkaException | None:
    return outcome(topic.error_code, topic.error_message, topic=topic.name)


def _metadata_request(names: Iterable[str]) -> wire.MetadataRequest:
    topic = wire.MetadataRequest.Topic
    return wire.MetadataRequest(topics=[topic(name=name) for name in names], allow_auto_topic_creation=False)


def _is_known(response: wire.MetadataResponse, wanted: Mapping[str, int | None]) -> bool:
    known = {topic.name: topic for topic in response.topics if not topic.error_code}
    for name, count in wanted.items():
        topic = known.get(name)
        if topic is None or count is None:
            if (topic is None) != (count is None):
                return False
        elif (count and len(topic.partitions) != count) or any(part.leader_id < 0 for part in topic.partitions):
            return False
    return True


def _id(topic_id: UUID) -> UUID | None:
    return None if topic_id == _ZERO else topic_id


def _list(found: dict[str, TopicListing], topics: Iterable[Any]) -> None:
    """Add topics of a response to a list; one that is there already has more partitions now."""
    for topic in topics:
        if topic.name is not None:
            listed = found.get(topic.name) or TopicListing(topic.name, _id(topic.topic_id), topic.is_internal, 0)
            found[topic.name] = listed.with_more(topic.partitions)


def _describe(
    found: dict[str, TopicDescription | KafkaException],
    page: Sequence[Topic],
    authorized_operations: bool,
    address: str | None,
) -> None:
    """Add a page to descriptions; a topic that is there already has more partitions now.

    :param address: of the broker, for errors
    """
    for topic in page:
        if topic.name is None or topic.name not in found:
            continue
        error = outcome(topic.error_code, topic=topic.name)
        if error is not None:
            found[topic.name] = error.with_context(broker=address, api="DescribeTopicPartitions")
            continue
        described, before = _described(topic.name, topic), found[topic.name]
        if isinstance(before, TopicDescription):
            described = replace(described, partitions=before.partitions + described.partitions)
        found[topic.name] = described if authorized_operations else replace(described, authorized_operations=None)


def _described(name: str, topic: wire.MetadataResponse.Topic | Topic) -> TopicDescription:
    listed: Sequence[Any] = topic.partitions
    parts = [_partition(part) for part in sorted(listed, key=lambda partition: partition.partition_index)]
    may: frozenset[AclOperation] | None = operations(topic.topic_authorized_operations)
    return TopicDescription(name, _id(topic.topic_id), topic.is_internal, tuple(parts), may)


def _partition(part: Any) -> PartitionDescription:
    elr, last = getattr(part, "eligible_leader_replicas", None), getattr(part, "last_known_elr", None)
    return PartitionDescription(
        part.partition_index,
        part.leader_id if part.leader_id >= 0 else None,
        part.leader_epoch if part.leader_epoch >= 0 else None,
        tuple(part.replica_nodes),
        tuple(part.isr_nodes),
        tuple(part.offline_replicas),
        None if elr is None else tuple(elr),
        None if last is None else tuple(last),
    )


def _created(topic: wire.CreateTopicsResponse.Topic) -> CreatedTopic:
    configs = None
    if topic.configs:
        configs = {config.name: None if config.is_sensitive else config.value for config in topic.configs}
    return CreatedTopic(
        topic.name,
        _id(topic.topic_id),
        topic.num_partitions if topic.num_partitions > 0 else None,
        topic.replication_factor if topic.replication_factor > 0 else None,
        configs,
    )
