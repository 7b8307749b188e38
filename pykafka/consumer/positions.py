"""The positions at which partitions are read: the offsets that an `OffsetType` or a time means."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykafka.common import OffsetType, TopicPartition
from pykafka.exceptions import KafkaException, OffsetRequestFailedError
from pykafka.utils import milliseconds

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.protocol.message import Message

#: How long a search beside others may take at first, and at most, when it was cut off before (ms).
EACH_MS, EACH_MOST_MS = 1000, 8000

#: A position is given as an OffsetType, a datetime, or the offset of the last message consumed.
Position = int | datetime.datetime
#: Offsets, and an error for each partition without one.
Outcome = tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaException]]


def key_of(message: Message) -> TopicPartition:
    """Return the partition that a consumed message is from."""
    return TopicPartition(message.partition.topic_name, message.partition_id)


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


def find_each_offset(
    cluster: BaseCluster,
    wanted: Mapping[TopicPartition, Position],
    isolation_level: int,
    timeout_ms: int,
    once: bool = False,
) -> Outcome:
    """Ask the leaders as `find_offsets`; return the offsets, and an error for each partition without one.

    :param timeout_ms: how long all of it may take (ms); partitions without a leader are not waited for
    :param once: return the errors that may pass instead of asking again
    """
    deadline = cluster.handler.now() + timeout_ms / 1000
    times: dict[tuple[str, int], int] = {key: milliseconds(position) for key, position in wanted.items()}
    found, errors = cluster.list_each_offset(times, timeout_ms=timeout_ms, isolation_level=isolation_level, once=once)
    beyond: dict[tuple[str, int], int] = {
        key: OffsetType.EARLIEST if one.by_segment else OffsetType.LATEST
        for key, one in found.items()
        if one.offset < 0
    }
    if beyond:
        left_ms = max(1, round((deadline - cluster.handler.now()) * 1000))
        ends, more = cluster.list_each_offset(beyond, timeout_ms=left_ms, isolation_level=isolation_level, once=once)
        found = {key: one for key, one in found.items() if key not in beyond} | ends
        errors |= more
    for topic, id_ in [key for key, one in found.items() if one.offset < 0]:
        errors[topic, id_] = OffsetRequestFailedError("the broker names no offset", topic=topic, partition=id_)
    offsets = {TopicPartition(*key): one.offset for key, one in found.items() if one.offset >= 0}
    return offsets, {TopicPartition(*key): error for key, error in errors.items()}


class Searches:
    """The searches of one consumer that its partitions make beside each other, each leader asked once.

    A search has a short time, and a longer one after each that was cut off: a broker may be slow rather than silent.

    State: `_limit_ms` by single stores.

    :param cluster: has the leaders
    :param isolation_level: as for `find_offsets`
    """

    def __init__(self, cluster: BaseCluster, isolation_level: int) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level
        self._limit_ms = EACH_MS

    def find(self, wanted: Mapping[TopicPartition, Position]) -> Outcome:
        """Return offsets, and an error for each partition without one."""
        if not wanted:
            return {}, {}
        now, limit_ms = self._cluster.handler.now, self._limit_ms
        began = now()
        found = find_each_offset(self._cluster, wanted, self._isolation_level, limit_ms, once=True)
        is_cut_off = bool(found[1]) and now() - began >= limit_ms / 1000
        self._limit_ms = min(2 * limit_ms, EACH_MOST_MS) if is_cut_off else EACH_MS
        return found
