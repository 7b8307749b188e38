"""What changes the cluster: topics made and deleted, offsets of groups set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykafka.cli.groups import active_members
from pykafka.cli.listing import committed_offsets, group_offsets, known_topic, partition_ids
from pykafka.cli.moments import Moment, resolve
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    LeaderNotFoundError,
    NonEmptyGroup,
    NotController,
    ResponseTimeoutError,
    UnsupportedVersion,
)
from pykafka.protocol import documented

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.cli.zookeeper_groups import ZooKeeperGroups
    from pykafka.cli.zookeeper_topics import ZooKeeperTopics
    from pykafka.client import KafkaClient

#: Pause between looks at whether a change has come through (s).
_PAUSE_S = 0.1
_ATTEMPTS = 10


class OffsetChange(NamedTuple):
    """Tell what was committed before, None for nothing, and what is now."""

    partition: int
    before: int | None
    after: int


class CreatedTopic(NamedTuple):
    """Tell of a topic that was made."""

    topic: str
    partitions: int
    replicas: int


def reset_offsets(
    client: KafkaClient,
    topic: str,
    group: str,
    moment: Moment,
    dry_run: bool = False,
    zookeeper: ZooKeeperGroups | None = None,
    warn: Callable[[str], object] | None = None,
) -> list[OffsetChange]:
    """Commit for a group, without joining it, the offset of each partition that a moment means.

    :param dry_run: only tell what would be committed
    :param zookeeper: where to look for members whom the brokers do not know; None does not look
    :param warn: told why that could not be found out
    :raises UnknownTopicOrPartition: there is no such topic
    :raises NonEmptyGroup: the group has members, which would go on where they are
    :raises OffsetOutOfRangeError: a partition does not have the offset given
    :raises OffsetsNotCommitted: the coordinator did not take them
    """
    ids = partition_ids(client, topic)
    members = active_members(client, group)
    if members:
        raise NonEmptyGroup(
            f"group {group} has {members} member{'' if members == 1 else 's'} that would not notice; stop them first"
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
            f"whether group {group} has members in ZooKeeper could not be found out: such members would overwrite what is "
            f"committed here. Give --zookeeper HOST:PORT to have that looked at ({unknown})"
        )
    before = committed_offsets(client, topic, group, ids)
    after = resolve(client, topic, moment, ids)
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
    """Make a topic and wait until it can be used.

    :param num_partitions: -1 where `replica_assignment` says it, or for the brokers' default (since 2.4)
    :param replication_factor: likewise
    :param replica_assignment: {partition: broker ids}
    :param config_entries: settings that differ from the brokers'
    :param timeout_ms: for all of it
    :param zookeeper: where to do it if the brokers take no such request
    :raises UnsupportedVersion: the brokers take no such request (before 0.10.1), and there is no `zookeeper`
    :raises ProtocolClientError: it was not made, and why
    :raises ResponseTimeoutError: it was made, and cannot be used in time
    """
    request = documented.CreateTopicRequest(
        topic, num_partitions, replication_factor, replica_assignment, list(config_entries.items())
    )
    try:
        _at_controller(client, lambda broker: broker.create_topics([request], timeout_ms))
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

    :param timeout_ms: for all of it
    :param zookeeper: where to do it if the brokers take no such request
    :raises UnknownTopicOrPartition: there is no such topic
    :raises UnsupportedVersion: the brokers take no such request (before 0.10.1), and there is no `zookeeper`
    :raises ProtocolClientError: it was not deleted, and why
    :raises ResponseTimeoutError: it is marked for deletion, and not gone in time
    """
    known_topic(client, topic)
    try:
        _at_controller(client, lambda broker: broker.delete_topics([topic], timeout_ms))
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


def _at_controller(client: KafkaClient, ask: Callable[[Broker], object]) -> None:
    """Ask the controller, again where it is no longer that."""
    for attempt in range(1, _ATTEMPTS + 1):
        # Brokers that do not say which it is (before 0.10) lack the request too: any one's error says so.
        broker = client.cluster.controller_broker or next(iter(client.brokers.values()), None)
        try:
            if broker is None:
                raise LeaderNotFoundError("the cluster names no brokers at present; check that they are up")
            ask(broker)
            return
        except (NotController, LeaderNotFoundError):
            if attempt == _ATTEMPTS:
                raise
        client.cluster.handler.sleep(_PAUSE_S * attempt)
        client.update_cluster()


def _is_led(client: KafkaClient, topic: str) -> bool:
    found = client.cluster.topic_metadata(topic)
    return found is not None and bool(found.partitions) and all(part.leader >= 0 for part in found.partitions.values())


def _wait_until(client: KafkaClient, done: Callable[[], bool], timeout_ms: int, otherwise: str) -> None:
    handler = client.cluster.handler
    deadline = handler.now() + timeout_ms / 1000
    client.update_cluster()
    while not done():
        if handler.now() > deadline:
            raise ResponseTimeoutError(f"{otherwise} after {timeout_ms} ms; look again with print_topics")
        handler.sleep(_PAUSE_S)
        client.update_cluster()
