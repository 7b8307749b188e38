"""The times of records at given offsets, from the headers of their batches: few requests, and few bytes of each partition."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykafka.admin.results import partition_error
from pykafka.admin.routing import Leaders, RequestFactory, Router
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.network.node import Node

#: Later versions of Fetch name topics by id.
_CEILING = 12
#: So much of each partition, of so many partitions in a request. Brokers answer an incomplete batch with nothing, unless it
#: is the first of the answer: what did not fit is asked for again, more of it, at last alone.
_LEVELS = ((16 * 1024 + 512, 400), (1024 * 1024 + 512, 8), (1, 1))
#: So many offsets of one partition are looked up at most; the times of others between them are interpolated.
LOOKED_UP_MAX = 16
#: Offset, length, leader epoch, magic; then of format 2: checksum, attributes, last offset delta, first and latest time.
_HEAD = struct.Struct(">qiib")
_BATCH = struct.Struct(">qiibIhiqq")
_MESSAGE = struct.Struct(">qiIbbq")
_LOG_APPEND_TIME = 8

Place = tuple[TopicPartition, int]


class RecordTimes(NamedTuple):
    """Times of records.

    :param found: {(partition, offset): ms since 1970}; those without a time are missing
    :param errors: {partition: why its records could not be read}
    """

    found: dict[Place, float]
    errors: dict[TopicPartition, KafkaException]


def record_times(client: KafkaClient, wanted: Mapping[TopicPartition, Iterable[int]], timeout_ms: int) -> RecordTimes:
    """Return the times of the records at offsets.

    A record within a batch of several gets its time from those of the first and the latest record of the batch. So does an
    offset between two that were looked up, if a partition has more than `LOOKED_UP_MAX`.

    :param wanted: {partition: offsets}
    :param timeout_ms: of each round of requests
    """
    offsets = {item: sorted(set(places)) for item, places in wanted.items()}
    samples = {item: _sampled(places) for item, places in offsets.items()}
    times = RecordTimes({}, {})
    for turn in range(max(map(len, samples.values()), default=0)):
        these = {item: places[turn] for item, places in samples.items() if turn < len(places)}
        _look_up(client, these, times, timeout_ms)
    for item, places in offsets.items():
        _interpolate(item, places, times.found)
    return times


def _sampled(places: Sequence[int]) -> Sequence[int]:
    """Return some of the offsets, the first and the last among them, evenly spread."""
    if len(places) <= LOOKED_UP_MAX:
        return places
    last = len(places) - 1
    return [places[round(number * last / (LOOKED_UP_MAX - 1))] for number in range(LOOKED_UP_MAX)]


def _look_up(client: KafkaClient, places: Mapping[TopicPartition, int], times: RecordTimes, timeout_ms: int) -> None:
    """Add the times of one record of each partition."""
    left = {item: offset for item, offset in places.items() if item not in times.errors}
    for size, most in _LEVELS:
        if not left:
            return
        factory = _factory(client, left, size, most)
        for item, time in Router(client.cluster).ask(left, Leaders(client.cluster), factory, timeout_ms).items():
            if isinstance(time, KafkaException):
                times.errors[item] = time
            elif time.known:
                times.found[item, left[item]] = time.ms
            if isinstance(time, KafkaException) or not time.is_incomplete:
                del left[item]


class _Time(NamedTuple):
    """The time of a record (ms); negative if it has none. Incomplete: more bytes are needed."""

    ms: float
    is_incomplete: bool = False

    @property
    def known(self) -> bool:
        return self.ms >= 0


def _factory(
    client: KafkaClient, places: Mapping[TopicPartition, int], size: int, most: int
) -> RequestFactory[TopicPartition, _Time]:
    def request(items: Sequence[TopicPartition], broker: Node, left_ms: int) -> wire.FetchRequest:
        topic = wire.FetchRequest.Topic
        by_topic: dict[str, list[wire.FetchRequest.Topic.Partition]] = {}
        for item in items:
            part = topic.Partition(
                partition=item.partition,
                current_leader_epoch=client.cluster.leader_epoch(*item),
                fetch_offset=places[item],
                partition_max_bytes=size,
            )
            by_topic.setdefault(item.topic, []).append(part)
        topics = [topic(topic=name, partitions=parts) for name, parts in by_topic.items()]
        return wire.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=size * len(items), topics=topics)

    def read(
        response: wire.FetchResponse, items: Sequence[TopicPartition], broker: Node
    ) -> dict[TopicPartition, _Time | KafkaException]:
        found: dict[TopicPartition, _Time | KafkaException] = {}
        for topic in response.responses:
            for part in topic.partitions:
                key = TopicPartition(topic.topic, part.partition_index)
                error = partition_error(key, part)
                found[key] = error or time_in(part.records, places[key], part.high_watermark)
        return found

    return RequestFactory(wire.FetchRequest, request, read, ceiling=_CEILING, most=lambda version: most)


def time_in(records: memoryview | bytes | None, offset: int, end: int) -> _Time:
    """Return the time of the record at an offset from the first batch of an answer.

    :param end: of the partition: there is nothing to read there
    """
    if not records or len(records) < _HEAD.size:
        return _Time(-1, is_incomplete=offset < end)
    magic = _HEAD.unpack_from(records)[-1]
    if magic < 2:
        # The offset of compressed messages is that of the last one, whose time is the latest.
        has_time = magic == 1 and len(records) >= _MESSAGE.size
        return _Time(_MESSAGE.unpack_from(records)[-1] if has_time else -1)
    if len(records) < _BATCH.size:
        return _Time(-1, is_incomplete=True)
    base, _, _, _, _, attributes, delta, first, latest = _BATCH.unpack_from(records)
    if attributes & _LOG_APPEND_TIME or first < 0:
        return _Time(latest)
    part = min(max(offset - base, 0) / delta, 1) if delta > 0 else 0
    return _Time(first + (latest - first) * part)


def _interpolate(item: TopicPartition, places: Sequence[int], found: dict[Place, float]) -> None:
    """Add the times of offsets between two that were looked up."""
    known = [offset for offset in places if (item, offset) in found]
    if len(places) <= LOOKED_UP_MAX or len(known) < 2:
        return
    for offset in places:
        above = bisect_left(known, offset)
        if (item, offset) in found or not 0 < above < len(known):
            continue
        low, high = known[above - 1], known[above]
        start, end = found[item, low], found[item, high]
        found[item, offset] = start + (end - start) * (offset - low) / (high - low)
