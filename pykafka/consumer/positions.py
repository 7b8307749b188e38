"""The positions at which partitions are read: the offsets that an `OffsetType` or a time means."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykafka.common import OffsetType, TopicPartition
from pykafka.exceptions import OffsetRequestFailedError
from pykafka.utils import milliseconds

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster

#: A position is given as an OffsetType, a datetime, or the offset of the last message consumed.
Position = int | datetime.datetime


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
    if not wanted:
        return {}
    found = cluster.list_offsets(
        {key: milliseconds(position) for key, position in wanted.items()},
        timeout_ms=timeout_ms,
        isolation_level=isolation_level,
    )
    beyond: dict[tuple[str, int], int] = {
        key: OffsetType.EARLIEST if found[key].by_segment else OffsetType.LATEST
        for key in wanted
        if found[key].offset < 0
    }
    ends = cluster.list_offsets(beyond, timeout_ms=timeout_ms, isolation_level=isolation_level) if beyond else {}
    offsets = {key: (ends if key in beyond else found)[key].offset for key in wanted}
    for (topic, id_), offset in offsets.items():
        if offset < 0:
            raise OffsetRequestFailedError("the broker names no offset", topic=topic, partition=id_)
    return offsets
