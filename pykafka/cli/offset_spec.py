"""Places in a topic in users' notation: EARLIEST, LATEST, a time, @ and a time in ms, an offset."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pykafka.common import OffsetType
from pykafka.exceptions import OffsetOutOfRangeError
from pykafka.utils import milliseconds

if TYPE_CHECKING:
    from pykafka.client import KafkaClient

_NAMES = {"EARLIEST": OffsetType.EARLIEST, "LATEST": OffsetType.LATEST}
_NUMBER = re.compile(r"[+-]?\d+")
_MILLISECONDS = re.compile(r"@\d+")
#: Times are 64 bits.
_TIME_MAX = 2**63 - 1


class OffsetSpec(NamedTuple):
    """A place in a partition: by time, or by offset.

    :param timestamp: ms since 1970, -1 for the end, -2 for the start; unused with an offset
    :param offset: this offset; a negative one counts from the end
    """

    timestamp: int = OffsetType.EARLIEST
    offset: int | None = None


def parse_offset_spec(text: str, numbers: bool = True) -> OffsetSpec:
    """Return the place that a text names; a time without a zone is UTC.

    :param numbers: whether offsets are allowed
    :raises ValueError: the text has another form
    """
    name = _NAMES.get(text.upper())
    if name is not None:
        return OffsetSpec(int(name))
    if numbers and _NUMBER.fullmatch(text):
        return OffsetSpec(offset=int(text))
    if _MILLISECONDS.fullmatch(text) and int(text[1:]) <= _TIME_MAX:
        return OffsetSpec(int(text[1:]))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        also = " nor an offset" if numbers else ""
        raise ValueError(
            f"{text!r} is neither EARLIEST nor LATEST nor a time (YYYY-MM-DDTHH:MM:SS, in UTC if it names no zone; or @ and "
            f"milliseconds since 1970){also}"
        ) from None
    # Not below zero: negative times stand for the start and the end.
    return OffsetSpec(max(0, milliseconds(time)))


def limits(client: KafkaClient, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return the first and the next offset of each partition: {partition: (first, next)}."""
    ids = list(partitions)
    first = client.cluster.list_offsets({(topic, id_): OffsetType.EARLIEST for id_ in ids})
    last = client.cluster.list_offsets({(topic, id_): OffsetType.LATEST for id_ in ids})
    return {id_: (first[topic, id_].offset, last[topic, id_].offset) for id_ in ids}


def resolve(
    client: KafkaClient, topic: str, spec: OffsetSpec, partitions: Iterable[int], clip: bool = False
) -> dict[int, int]:
    """Return the offset of each partition at a place; the end if all messages are older.

    Brokers before 0.10.1 know times of segments only: the result is then the start of a segment written before.

    :param clip: return the nearest existing offset for one that does not exist, if a partition has it
    :raises OffsetOutOfRangeError: a partition does not have the given offset; with `clip`, it is beyond the end of all
    """
    ids = list(partitions)
    if spec.offset is None:
        listed = client.cluster.list_offsets({(topic, id_): spec.timestamp for id_ in ids})
        offsets = {id_: listed[topic, id_].offset for id_ in ids}
        if spec.timestamp < 0:
            return offsets
        bounds = limits(client, topic, ids)
        return {
            id_: offset if offset >= 0 else bounds[id_][0 if listed[topic, id_].by_segment else 1]
            for id_, offset in offsets.items()
        }
    bounds = limits(client, topic, ids)
    if clip:
        _check_reached(topic, spec.offset, bounds)
    return {id_: _within(topic, id_, spec.offset, bounds[id_], clip) for id_ in ids}


def _check_reached(topic: str, offset: int, bounds: dict[int, tuple[int, int]]) -> None:
    ends = [last for _, last in bounds.values()]
    if ends and offset > max(ends):
        there = f"{min(ends)}" if min(ends) == max(ends) else f"{min(ends)} to {max(ends)}"
        raise OffsetOutOfRangeError(
            f"there is no offset {offset}: the partitions end at {there}{_as_time(offset)}", topic=topic
        )


def _as_time(offset: int) -> str:
    return f"; a number is an offset, and a time in milliseconds is written @{offset}"


def _within(topic: str, partition: int, offset: int, bounds: tuple[int, int], clip: bool) -> int:
    first, last = bounds
    if offset < 0:
        return max(first, last + offset)
    if not clip and not first <= offset <= last:
        raise OffsetOutOfRangeError(
            f"there is no offset {offset}: choose one from {first} to {last}{_as_time(offset) if offset > last else ''}",
            topic=topic,
            partition=partition,
        )
    return min(max(offset, first), last)
