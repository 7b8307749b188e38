"""Descriptions of the cluster as data: topics, partitions, offsets and lag. Tables and JSON are made of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykafka import admin
from pykafka.admin import Results
from pykafka.cli.data import time_text
from pykafka.cli.offset_spec import OffsetSpec, limits
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition, UnsupportedVersion

if TYPE_CHECKING:
    from pykafka.admin import ConfigEntry, ConfigResource
    from pykafka.client import KafkaClient
    from pykafka.compat import messages
    from pykafka.consumer.committed_offsets import GroupOffsets

#: Requests to a group's coordinator: pause (ms) and number of retries.
BACKOFF_MS = 200
MAX_RETRIES = 10
#: How long a topic is asked for if the broker does not know it, and how often (s).
NEW_TOPIC_S, ASK_AGAIN_S = 1.0, 0.1
_INTERNAL = "__"


class TopicSummary(NamedTuple):
    """A topic in one line."""

    topic: str
    partitions: int
    replicas: int
    internal: bool
    without_leader: int
    under_replicated: int


class PartitionInfo(NamedTuple):
    """A partition; brokers by id."""

    partition: int
    leader: int | None
    leader_address: str | None
    replicas: list[int]
    isr: list[int]
    earliest: int | None
    latest: int | None


class TopicDescription(NamedTuple):
    """A complete topic; `settings` are those that differ from the brokers', None if the brokers do not report them."""

    topic: str
    internal: bool
    partitions: list[PartitionInfo]
    settings: dict[str, str | None] | None


class PartitionOffset(NamedTuple):
    """The offset at a place; None if all messages are older."""

    partition: int
    offset: int | None
    timestamp: str | None


class PartitionLag(NamedTuple):
    """The lag in a partition; `committed` is the offset that the group reads next, None for none."""

    partition: int
    earliest: int
    latest: int
    committed: int | None
    lag: int


class Lag(NamedTuple):
    """The lag of a group in a topic."""

    topic: str
    group: str
    total: int
    partitions: list[PartitionLag]


def known_topic(client: KafkaClient, topic: str, end: float | None = None) -> messages.TopicMetadata:
    """Return the cluster's metadata of a topic; never creates one.

    The broker that is asked may not know a topic yet that another one has just created: it is asked again for a second.

    :param end: of asking again, of the handler's clock (s); None: a second from now
    :raises UnknownTopicOrPartition: there is none
    """
    cluster = client.cluster
    end = cluster.handler.now() + NEW_TOPIC_S if end is None else end
    found = cluster.find_topic(topic)
    while found is None:
        if cluster.handler.now() >= end:
            raise UnknownTopicOrPartition(
                "the cluster has no such topic; `kafka-tools topics list` lists those it has", topic=topic
            )
        cluster.handler.sleep(ASK_AGAIN_S)
        cluster.update([topic])
        found = cluster.topic_metadata(topic)
    return found


def partition_ids(client: KafkaClient, topic: str) -> list[int]:
    """Return the partitions of a topic in order.

    :raises UnknownTopicOrPartition: there is no such topic
    """
    return sorted(known_topic(client, topic).partitions)


def list_topics(client: KafkaClient, internal: bool = False) -> list[TopicSummary]:
    """Return all topics by name.

    :param internal: also those whose names begin with "__"
    """
    return [
        TopicSummary(
            one.name,
            one.partitions,
            one.replicas,
            one.name.startswith(_INTERNAL),
            one.without_leader,
            one.under_replicated,
        )
        for one in client.admin.list_topics(internal=True)
        if internal or not one.name.startswith(_INTERNAL)
    ]


def ends_of(client: KafkaClient, topics: Iterable[str]) -> dict[str, dict[Hashable, float]]:
    """Return the end of each partition with a leader, by topic; topics that were deleted meanwhile are left out."""
    there = [one for name in topics if (one := client.cluster.find_topic(name)) is not None]
    led = [TopicPartition(one.name, id_) for one in there for id_, part in one.partitions.items() if part.leader >= 0]
    found = client.admin.list_offsets(dict.fromkeys(led, admin.OffsetSpec.latest()), raise_errors=False)
    ends: dict[str, dict[Hashable, float]] = {}
    for item, end in found.items():
        if end.offset is not None:
            ends.setdefault(item.topic, {})[item.partition] = end.offset
    return ends


def describe_topic(client: KafkaClient, topic: str) -> TopicDescription:
    """Return partitions, replicas, offsets and settings of a topic.

    :raises UnknownTopicOrPartition: there is no such topic
    """
    return describe_topics(client, [topic])[topic]


def describe_topics(client: KafkaClient, topics: Iterable[str]) -> Results[str, TopicDescription]:
    """Return partitions, replicas, offsets and settings of topics, in a few requests for all of them."""
    names = list(dict.fromkeys(topics))
    client.cluster.update(names)
    there: dict[str, Mapping[int, messages.PartitionMetadata]] = {}
    errors: dict[str, KafkaException] = {}
    end = client.cluster.handler.now() + NEW_TOPIC_S
    for name in names:
        try:
            there[name] = known_topic(client, name, end).partitions
        except UnknownTopicOrPartition as error:
            errors[name] = error
    led = [TopicPartition(name, id_) for name, its in there.items() for id_, part in its.items() if part.leader >= 0]
    first = client.admin.list_offsets(dict.fromkeys(led, admin.OffsetSpec.earliest()), raise_errors=False)
    last = client.admin.list_offsets(dict.fromkeys(led, admin.OffsetSpec.latest()), raise_errors=False)
    errors |= {item.topic: error for item, error in (first.errors | last.errors).items()}
    settings = _settings(client, [name for name in there if name not in errors])
    errors |= {resource.name: error for resource, error in settings.errors.items()} if settings is not None else {}
    found: dict[str, TopicDescription | KafkaException] = dict(errors)
    for name in there.keys() - errors.keys():
        parts = []
        for id_, part in sorted(there[name].items()):
            leader, item = client.brokers.get(part.leader), TopicPartition(name, id_)
            parts.append(
                PartitionInfo(
                    id_,
                    part.leader if part.leader >= 0 else None,
                    leader.address if leader is not None else None,
                    list(part.replicas),
                    list(part.isr),
                    first[item].offset if item in first else None,
                    last[item].offset if item in last else None,
                )
            )
        own = None if settings is None else _own(settings[admin.ConfigResource.topic(name)])
        found[name] = TopicDescription(name, name.startswith(_INTERNAL), parts, own)
    return Results({name: found[name] for name in names})


def _settings(client: KafkaClient, topics: Sequence[str]) -> Results[ConfigResource, dict[str, ConfigEntry]] | None:
    """Return the settings of topics; None if the brokers do not report them."""
    try:
        return client.admin.describe_configs([admin.ConfigResource.topic(name) for name in topics], raise_errors=False)
    except UnsupportedVersion:
        return None


def _own(settings: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    return {name: entry.value for name, entry in settings.items() if entry.source == admin.ConfigSource.TOPIC}


def list_offsets(client: KafkaClient, topic: str, spec: OffsetSpec) -> list[PartitionOffset]:
    """Return the offset of each partition at a place.

    :raises UnknownTopicOrPartition: there is no such topic
    """
    ids = partition_ids(client, topic)
    found = client.cluster.list_offsets({(topic, id_): spec.timestamp for id_ in ids})
    answers = [(id_, found[topic, id_]) for id_ in ids]
    return [
        PartitionOffset(id_, answer.offset if answer.offset >= 0 else None, time_text(answer.timestamp))
        for id_, answer in answers
    ]


def group_offsets(client: KafkaClient, group: str) -> GroupOffsets:
    """Return the access to a group's committed offsets; it joins nothing."""
    from pykafka.consumer.committed_offsets import GroupOffsets

    return GroupOffsets(client.cluster, group, BACKOFF_MS, MAX_RETRIES)


def committed_offsets(client: KafkaClient, topic: str, group: str, ids: Iterable[int]) -> dict[int, int | None]:
    """Return the committed offsets of a group: {partition: offset to read next, or None}."""
    found = group_offsets(client, group).fetch([TopicPartition(topic, id_) for id_ in ids])
    return {key.partition: one.offset if one.offset >= 0 else None for key, one in found.items()}


def consumer_lag(client: KafkaClient, topic: str, group: str) -> Lag:
    """Return the lag of a group from its committed offsets; 0 when it has read all.

    A partition without a committed offset, or with one that no longer exists, counts with all its messages. Commits
    nothing, joins nothing.

    :raises UnknownTopicOrPartition: there is no such topic
    """
    ids = partition_ids(client, topic)
    # Ask for committed offsets first: in the other order, a group that reads meanwhile would be ahead of the ends.
    committed = committed_offsets(client, topic, group, ids)
    parts = []
    for id_, (first, last) in limits(client, topic, ids).items():
        reached = committed[id_]
        parts.append(PartitionLag(id_, first, last, reached, max(last - max(reached or 0, first), 0)))
    return Lag(topic, group, sum(part.lag for part in parts), parts)
