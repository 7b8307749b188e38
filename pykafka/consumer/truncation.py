"""Asking a leader whether its log still has what was fetched, for brokers whose Fetch does not compare logs (before 2.7).

Kafka calls this truncation detection (KIP-320): a consumer names the epoch of the last record before its position, and the
leader the end of that epoch in its log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    ClusterAuthorizationFailed,
    IncompleteResponseError,
    KafkaException,
    LogTruncationError,
    TopicAuthorizationFailed,
    error_for,
)
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.network.node import Node

#: From this version on brokers compare leader epochs, and name the epoch of the end that they name.
ASK_FROM = 2
#: The channel for the question.
CHANNEL = "main"


def find_truncations(broker: Node, parts: Collection[OwnedPartition]) -> dict[OwnedPartition, KafkaException]:
    """Ask a leader whether its log has what was fetched; return the error of each partition that cannot be fetched on.

    :param broker: the leader of all of them
    :param parts: partitions whose leader_epochs is known
    :raises KafkaException: the broker did not answer
    """
    if not broker.has(wire.OffsetForLeaderEpochRequest):
        return {}
    version = broker.api_version(wire.OffsetForLeaderEpochRequest)
    if version < ASK_FROM:
        return {}
    kind = wire.OffsetForLeaderEpochRequest.Topic
    by_topic: dict[str, list[wire.OffsetForLeaderEpochRequest.Topic.Partition]] = defaultdict(list)
    asked: dict[tuple[str, int], tuple[OwnedPartition, int]] = {}
    for owned in parts:
        epoch = owned.leader_epochs.before(owned.fetch_offset)
        asked[owned.key.topic, owned.partition_id] = owned, epoch
        by_topic[owned.key.topic].append(
            kind.Partition(partition=owned.partition_id, current_leader_epoch=owned.leader_epoch, leader_epoch=epoch)
        )
    request = wire.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[kind(topic=topic, partitions=wanted) for topic, wanted in by_topic.items()]
    )
    response = broker.call(request, CHANNEL, version=version)
    errors: dict[OwnedPartition, KafkaException] = {}
    for topic in response.topics:
        for part in topic.partitions:
            found = asked.pop((topic.topic, part.partition), None)
            if found is None:
                continue
            owned, epoch = found
            context: dict[str, Any] = {
                "broker": broker.address,
                "topic": topic.topic,
                "partition": part.partition,
                "api": "OffsetForLeaderEpoch",
            }
            error: KafkaException | None = error_for(part.error_code, **context) if part.error_code else None
            if isinstance(error, (ClusterAuthorizationFailed, TopicAuthorizationFailed)):
                continue  # brokers before 2.3 let only each other ask: fetching continues without
            if error is None and part.end_offset < 0:
                error = LogTruncationError(owned.fetch_offset, None, **context)
            elif error is None and (part.end_offset < owned.fetch_offset or part.leader_epoch < epoch):
                divergent = owned.leader_epochs.divergence(part.leader_epoch, part.end_offset)
                error = LogTruncationError(owned.fetch_offset, divergent, **context)
            if error is not None:
                errors[owned] = error
    for (name, id_), (owned, _) in asked.items():
        errors[owned] = IncompleteResponseError(
            broker=broker.address, topic=name, partition=id_, api="OffsetForLeaderEpoch"
        )
    return errors
