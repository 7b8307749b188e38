"""The positions at which partitions are read: the offsets that an `OffsetType` or a time means."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pykafka.common import OffsetType, TopicPartition
from pykafka.exceptions import KafkaException, OffsetRequestFailedError
from pykafka.metadata.listoffsets import Search
from pykafka.utils import milliseconds

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster

#: A position is given as an OffsetType, a datetime, or the offset of the last message consumed.
Position = int | datetime.datetime


#: Offsets, and the errors of the partitions that have none.
Outcome = tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaException]]


def find_offsets(
    cluster: BaseCluster, wanted: Mapping[TopicPartition, Position], isolation_level: int, timeout_ms: int | None = None
) -> dict[TopicPartition, int]:
    """Ask the leaders which offset an OffsetType or a time means, for each partition.

    :param cluster: that has the partitions
    :param wanted: {TopicPartition: an OffsetType, or a time}; if all messages are older than the time, the offset behind the
        last one is returned
    :param isolation_level: 1: the end is where the first open transaction begins
    :param timeout_ms: how long to look for leaders (ms); by default the socket timeout
    :raises KafkaException: no leader told an offset
    """

    def ask(timestamps: Mapping[tuple[str, int], int]) -> Search:
        return Search(cluster.list_offsets(timestamps, timeout_ms=timeout_ms, isolation_level=isolation_level), {})

    offsets, errors = _meant(wanted, ask)
    for error in errors.values():
        raise error
    return offsets


def search_offsets(
    cluster: BaseCluster, wanted: Mapping[TopicPartition, Position], isolation_level: int, timeout_ms: int = 0
) -> Outcome:
    """Ask the leaders as `find_offsets` does, and return the errors of the partitions that have no offset.

    :param timeout_ms: how long to repeat errors that may pass (ms); 0 asks each leader once
    """

    def ask(timestamps: Mapping[tuple[str, int], int]) -> Search:
        return cluster.search_offsets(timestamps, timeout_ms=timeout_ms, isolation_level=isolation_level)

    return _meant(wanted, ask)


def _meant(
    wanted: Mapping[TopicPartition, Position], ask: Callable[[Mapping[tuple[str, int], int]], Search]
) -> Outcome:
    """Ask what positions mean; a time later than all messages means the end."""
    if not wanted:
        return {}, {}
    found, errors = ask({key: milliseconds(position) for key, position in wanted.items()})
    beyond: dict[tuple[str, int], int] = {
        key: OffsetType.EARLIEST if one.by_segment else OffsetType.LATEST
        for key, one in found.items()
        if one.offset < 0
    }
    if beyond:
        ends = ask(beyond)
        found, errors = found | ends.found, errors | ends.errors
    offsets: dict[TopicPartition, int] = {}
    failed: dict[TopicPartition, KafkaException] = {}
    for key in wanted:
        if key in errors:
            failed[key] = errors[key]
        elif found[key].offset < 0:
            failed[key] = OffsetRequestFailedError(
                "the broker names no offset", topic=key.topic, partition=key.partition
            )
        else:
            offsets[key] = found[key].offset
    return offsets, failed
