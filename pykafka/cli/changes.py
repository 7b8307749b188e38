"""Changes of the cluster: creation and deletion of topics, and reset of groups' offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykafka.admin import NewTopic
from pykafka.cli.groups import active_members
from pykafka.cli.listing import committed_offsets, group_offsets, known_topic, partition_ids
from pykafka.cli.offset_spec import OffsetSpec, resolve
from pykafka.common import TopicPartition
from pykafka.exceptions import NonEmptyGroup, ResponseTimeoutError, UnsupportedVersion

if TYPE_CHECKING:
    from pykafka.cli.zookeeper import ZooKeeperTopics
    from pykafka.cli.zookeeper_groups import ZooKeeperGroups
    from pykafka.client import KafkaClient

#: Pause between checks whether a change has taken effect (s).
_PAUSE_S = 0.1


class OffsetChange(NamedTuple):
    """The offset committed before (None for nothing), and the new one."""

    partition: int
    before: int | None
    after: int


class CreatedTopic(NamedTuple):
    """A topic that was created."""

    topic: str
    partitions: int
    replicas: int


def reset_offsets(
    client: KafkaClient,
    topic: str,
    group: str,
    spec: OffsetSpec,
    dry_run: bool = False,
    zookeeper: ZooKeeperGroups | None = None,
    warn: Callable[[str], object] | None = None,
) -> list[OffsetChange]:
    """Commit for a group, without joining it, the offset of each partition at a place.

    :param dry_run: return what would be committed, and commit nothing
    :param zookeeper: where to look for members that the brokers do not know; None does not look
    :param warn: called with the reason if that look fails
    :raises UnknownTopicOrPartition: there is no such topic
    :raises NonEmptyGroup: the group has members, which would keep their own positions
    :raises OffsetOutOfRangeError: a partition does not have the given offset
    :raises OffsetsNotCommitted: the coordinator refused the offsets
    """
    ids = partition_ids(client, topic)
    members = active_members(client, group)
    if members:
        raise NonEmptyGroup(
            f"group {group} has {members} member{'' if members == 1 else 's'} that would keep their positions; stop them first"
        )
    unknown = ""
    if zookeeper is not None:
        owners, unknown = zookeeper.members(client, topic, group)
        if owners:
            raise NonEmptyGroup(
                f"group {group} has {len(owners)} member{'' if len(owners) == 1 else 's'} in ZooKeeper "
                f"({', '.join(owners[:3])}{', ...' if len(owners) > 3 else ''}) that would overwrite it; stop them first"
            )
    if unknown and warn is not None:
        warn(
            f"kafka-tools could not look for members of group {group} in ZooKeeper; such members would overwrite what is "
            f"committed here. Give --zookeeper HOST:PORT to look there ({unknown})"
        )
    before = committed_offsets(client, topic, group, ids)
    after = resolve(client, topic, spec, ids)
    if not dry_run:
        offsets = {TopicPartition(topic, id_): offset for id_, offset in after.items()}
        group_offsets(client, group).commit(offsets, "kafka-tools")
    return [OffsetChange(id_, before[id_], after[id_]) for id_ in ids]


def create_topic(
    client: KafkaClient,
    topic: str,
    num_partitions: int,
    replication_factor: int,
    replica_assignment: Mapping[int, Sequence[int]],
    config_entries: Mapping[str, str],
    timeout_ms: int,
    zookeeper: ZooKeeperTopics | None = None,
) -> CreatedTopic:
    """Create a topic and wait until it is usable.

    :param num_partitions: -1 with `replica_assignment`, or for the brokers' default (since 2.4)
    :param replication_factor: likewise
    :param replica_assignment: {partition: broker ids}
    :param config_entries: settings that differ from the brokers'
    :param timeout_ms: timeout of the whole operation
    :param zookeeper: creates the topic if the brokers do not support the request
    :raises UnsupportedVersion: the brokers do not support the request (before 0.10.1), and `zookeeper` is None
    :raises ProtocolClientError: the brokers did not create the topic, and why
    :raises ResponseTimeoutError: the topic exists, but is not usable in time
    """
    wanted = NewTopic(
        topic,
        num_partitions if num_partitions >= 0 else None,
        replication_factor if replication_factor >= 0 else None,
        config_entries,
        replica_assignment or None,
    )
    try:
        client.admin.create_topics(wanted, timeout_ms=timeout_ms)
    except UnsupportedVersion:
        if zookeeper is None:
            raise
        zookeeper.create(topic, num_partitions, replication_factor, replica_assignment, config_entries)
    _wait_until(
        client, lambda: _is_led(client, topic), timeout_ms, f"topic {topic} was created, but has no leaders yet"
    )
    parts = known_topic(client, topic).partitions
    return CreatedTopic(topic, len(parts), max(len(part.replicas) for part in parts.values()))


def delete_topic(client: KafkaClient, topic: str, timeout_ms: int, zookeeper: ZooKeeperTopics | None = None) -> None:
    """Delete a topic and wait until it is gone.

    :param timeout_ms: timeout of the whole operation
    :param zookeeper: deletes the topic if the brokers do not support the request
    :raises UnknownTopicOrPartition: there is no such topic
    :raises UnsupportedVersion: the brokers do not support the request (before 0.10.1), and `zookeeper` is None
    :raises ProtocolClientError: the brokers did not delete the topic, and why
    :raises ResponseTimeoutError: the topic is marked for deletion, but still there
    """
    known_topic(client, topic)
    try:
        client.admin.delete_topics(topic, timeout_ms=timeout_ms)
    except UnsupportedVersion:
        if zookeeper is None:
            raise
        zookeeper.delete(topic, timeout_ms)
    _wait_until(
        client,
        lambda: client.cluster.topic_metadata(topic) is None,
        timeout_ms,
        f"topic {topic} is marked for deletion (before Kafka 1.0 that takes delete.topic.enable=true), but still there",
    )


def _is_led(client: KafkaClient, topic: str) -> bool:
    found = client.cluster.topic_metadata(topic)
    return found is not None and bool(found.partitions) and all(part.leader >= 0 for part in found.partitions.values())


def _wait_until(client: KafkaClient, done: Callable[[], bool], timeout_ms: int, otherwise: str) -> None:
    handler = client.cluster.handler
    deadline = handler.now() + timeout_ms / 1000
    client.update_cluster()
    while not done():
        if handler.now() > deadline:
            raise ResponseTimeoutError(f"{otherwise} after {timeout_ms} ms; look again with `kafka-tools topics list`")
        handler.sleep(_PAUSE_S)
        client.update_cluster()
