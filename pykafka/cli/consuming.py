"""The messages that `consume` writes: the offsets to begin and to end at, and the search for the newest. Prints nothing."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.cli.listing import partition_ids
from pykafka.cli.offset_spec import Moment, limits, resolve
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.protocol.message import Message

#: Bytes per fetch of a partition when only some messages are wanted: the consumers' default would fetch a thousand
#: times what is shown.
_FETCH_FOR_FEW = 64 * 1024
_FEW = 1000
#: By how much the search for the last messages goes further back, if offsets without messages were there.
_FURTHER = 4


class Span(NamedTuple):
    """A part of each partition.

    :param positions: {partition: the first offset}
    :param ends: {partition: the offset behind the last one}
    """

    positions: dict[int, int]
    ends: dict[int, int]

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return sum(max(end - self.positions[id_], 0) for id_, end in self.ends.items())


def chosen(client: KafkaClient, topic: str, partitions: Iterable[int]) -> list[int]:
    """Return the partitions in order: these, or all if there are none.

    :raises UnknownTopicOrPartition: there is no such topic or partition
    """
    there, wanted = partition_ids(client, topic), sorted(set(partitions))
    for id_ in wanted:
        if id_ not in there:
            raise UnknownTopicOrPartition(f"the topic has the partitions 0 to {there[-1]}", topic=topic, partition=id_)
    return wanted or there


def span(client: KafkaClient, topic: str, ids: list[int], start: Moment, stop: Moment | None) -> Span:
    """Return the part of a topic between two places; it ends at the present end at the latest.

    :param start: the place of the first messages
    :param stop: the place behind the last ones; None for the end
    :raises OffsetOutOfRangeError: a place is an offset beyond the end of all partitions
    """
    positions = resolve(client, topic, start, ids, clip=True)
    ends = {id_: last for id_, (_, last) in limits(client, topic, ids).items()}
    if stop is not None:
        stops = resolve(client, topic, stop, ids, clip=True)
        ends = {id_: min(end, stops[id_]) for id_, end in ends.items()}
    return Span(positions, ends)


@contextmanager
def consumer_at(
    client: KafkaClient, topic: str, positions: Mapping[int, int], timeout_ms: int, count: int = 0
) -> Iterator[SimpleConsumer]:
    """Yield a consumer that starts at these positions.

    :param timeout_ms: how long it waits for a message
    :param count: how many messages are wanted; 0 for all
    """
    found = client.topics[topic]
    options: dict[str, Any] = {"fetch_message_max_bytes": _FETCH_FOR_FEW} if 0 < count <= _FEW else {}
    consumer = found.get_simple_consumer(
        partitions=[found.partitions[id_] for id_ in positions],
        consumer_timeout_ms=timeout_ms,
        auto_start=False,
        **options,
    )
    for id_, offset in positions.items():
        consumer.seek(found.partitions[id_], offset)
    with consumer:
        yield consumer


def messages(
    consumer: SimpleConsumer, limit: int, positions: dict[int, int], ends: dict[int, int] | None, follow: bool = False
) -> Iterator[Message]:
    """Yield messages until the limit, the end, or the timeout.

    :param limit: number of messages; 0 for all
    :param positions: the next offset of each partition; kept up to date
    :param ends: stop when all partitions have reached these; None: stop only when no message arrives
    :param follow: never stop
    :raises KafkaException: no message arrives, although not all partitions have reached their end
    """
    count = 0
    ahead = set() if ends is None else {id_ for id_, end in ends.items() if positions[id_] < end}
    while ends is None or ahead:
        message = consumer.consume()
        if message is None:
            if follow:
                continue
            _check_all_came(consumer, ends or {})
            return
        id_ = message.partition_id
        positions[id_] = message.offset + 1
        if ends is not None and positions[id_] >= ends[id_]:
            ahead.discard(id_)
        if ends is None or message.offset < ends[id_]:  # otherwise it was written after the start
            yield message
            count += 1
        if limit and count == limit:
            return


def _check_all_came(consumer: SimpleConsumer, ends: dict[int, int]) -> None:
    # By the fetched offset: the last offsets may have no message, for example markers of transactions.
    for partition, owned in consumer._partitions.items():
        end = ends.get(partition.id, 0)
        if owned.next_offset < end:
            raise KafkaException(
                f"messages are missing: none has arrived within --timeout, and of those before offset {end} "
                f"the next would be {owned.next_offset}; raise --timeout, and check the brokers with `kafka-tools "
                "doctor`",
                topic=consumer.topic.name,
                partition=partition.id,
            )


def newest(client: KafkaClient, topic: str, whole: Span, count: int, timeout_ms: int) -> list[Message]:
    """Return the newest messages of a part of a topic, by time, the oldest of them first.

    Each partition is read from its last `count` messages on.

    :param whole: that part
    :param count: how many messages
    :param timeout_ms: how long to wait for one
    :raises KafkaException: messages are missing
    """
    found: list[tuple[int, int, int, Message]] = []
    left, back = whole, count
    while left.ends:
        part = Span({id_: max(first, left.ends[id_] - back) for id_, first in left.positions.items()}, left.ends)
        kept, counts = _newest_of(client, topic, part, count, timeout_ms)
        # Offsets may have no message, for example in compacted topics: then the partition is read from further back.
        again = {id_ for id_, first in part.positions.items() if counts[id_] < count and whole.positions[id_] < first}
        found += [entry for entry in kept if entry[1] not in again]
        left = Span(*({id_: offsets[id_] for id_ in again} for offsets in left))
        back *= _FURTHER
    return [entry[-1] for entry in sorted(heapq.nlargest(count, found))]


def _newest_of(
    client: KafkaClient, topic: str, part: Span, count: int, timeout_ms: int
) -> tuple[list[tuple[int, int, int, Message]], dict[int, int]]:
    """Return the newest messages of each partition, with time, partition and offset; and how many each partition has."""
    kept: dict[int, list[tuple[int, int, int, Message]]] = {id_: [] for id_ in part.positions}
    counts = dict.fromkeys(part.positions, 0)
    if not part.size:
        return [], counts
    with consumer_at(client, topic, part.positions, timeout_ms, count) as consumer:
        for message in messages(consumer, 0, dict(part.positions), part.ends):
            id_ = message.partition_id
            counts[id_] += 1
            entry = (-1 if message.timestamp is None else int(message.timestamp), id_, message.offset, message)
            (heapq.heappush if len(kept[id_]) < count else heapq.heappushpop)(kept[id_], entry)
    return [entry for entries in kept.values() for entry in entries], counts
