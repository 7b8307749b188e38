"""Start and end of a read: offsets of partitions as Spark stores them, and arithmetic on them. No I/O.

Offsets travel in the form that Spark's Kafka connector writes to checkpoints: ``{"topic": {"0": 23}}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pykafka.common import TopicPartition
from pykafka.spark.errors import OptionError
from pykafka.utils import PARTITION_DIGITS, is_number

#: In place of an offset: the oldest record of the broker.
EARLIEST = -2
#: In place of an offset: the end of the partition.
LATEST = -1

EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
MAX_OFFSET = 2**63 - 1
#: A sentence about partitions names so many.
SHOWN = 10

Offsets = dict[TopicPartition, int]
JsonOffsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class ByTime:
    """The first record of each partition that is not older than a time.

    :param timestamps: ms since 1970, for all partitions or for each
    :param ago: the time is so many ms before planning
    :param latest_where_none: True: a partition without such a record starts at its end; False: that is an error
    :param option: the option's name, for errors
    """

    timestamps: int | Offsets
    ago: bool = False
    latest_where_none: bool = False
    option: str = field(default="startingOffsets", compare=False)


#: EARLIEST or LATEST for all partitions, an offset (or either) for each, or a time.
Position = int | Offsets | ByTime


class Bounds(NamedTuple):
    """The first and the next offset of one partition.

    :param earliest: offset of its oldest record
    :param latest: offset that its next record will get
    """

    earliest: int
    latest: int


class OffsetRange(NamedTuple):
    """Records of one partition, from `start` on and before `end`.

    :param tp: the partition
    :param start: first offset
    :param end: offset after the last
    """

    tp: TopicPartition
    start: int
    end: int


#: Takes a sentence about missing records, and raises it or logs it (failOnDataLoss).
ReportLoss = Callable[[str], None]


def to_json(offsets: Mapping[TopicPartition, int]) -> JsonOffsets:
    """Return offsets in the form of checkpoints, in the order of topics and partition numbers."""
    found: JsonOffsets = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return the offsets of a checkpoint, the inverse of `to_json`.

    :raises OptionError: they have another form, for example that of another source's checkpoint
    """
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise OptionError(
            f"the checkpoint holds the offset {offsets!r}, which is not of the shape {EXAMPLE}; it was written by "
            "another source, so give this query a checkpointLocation of its own"
        ) from error


def parse_offsets(text: str, option: str) -> Offsets:
    """Return the offsets in a user's JSON.

    :param text: like ``{"topicA":{"0":23,"1":-1}}``; -2 stands for earliest, -1 for latest
    :param option: its name, for the error
    :raises OptionError: the text is something else
    """
    return _by_partition(text, option, EXAMPLE, EARLIEST, "neither an offset nor -1 nor -2")


def parse_timestamps(text: str, option: str) -> Offsets:
    """Return the times per partition (ms since 1970) in a user's JSON; errors as in `parse_offsets`."""
    example = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
    return _by_partition(text, option, example, 0, "not a time in ms since 1970")


def _by_partition(text: str, option: str, example: str, lowest: int, problem: str) -> Offsets:
    found: Offsets = {}
    for topic, partitions in _object(text, option, example).items():
        if not isinstance(partitions, dict):
            raise _malformed(option, text, example, f"topic {topic!r} has no object of partitions")
        for partition, value in partitions.items():
            if not is_number(partition, PARTITION_DIGITS):
                raise _malformed(option, text, example, f"partition {partition!r} of {topic!r} is not a number")
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= MAX_OFFSET:
                raise _malformed(option, text, example, f"{value!r} of {topic}-{partition} is {problem}")
            found[TopicPartition(topic, int(partition))] = value
    if not found:
        raise _malformed(option, text, example, "it names no partition")
    return found


def parse_partitions(text: str, option: str) -> frozenset[TopicPartition]:
    """Return the partitions in a user's JSON.

    :param text: like ``{"topicA":[0,1],"topicB":[2]}``
    :param option: its name, for the error
    :raises OptionError: the text is something else
    """
    example = '{"topicA":[0,1],"topicB":[2,4]}'
    found = set()
    for topic, partitions in _object(text, option, example).items():
        if not isinstance(partitions, list):
            raise _malformed(option, text, example, f"topic {topic!r} has no list of partitions")
        for partition in partitions:
            if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
                raise _malformed(option, text, example, f"{partition!r} of topic {topic!r} is not a partition number")
            found.add(TopicPartition(topic, partition))
    if not found:
        raise _malformed(option, text, example, "it names no partition")
    return frozenset(found)


def _object(text: str, option: str, example: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(option, text, example, f"it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise _malformed(option, text, example, "it is not a JSON object")
    return found


def _malformed(option: str, text: str, example: str, why: str) -> OptionError:
    return OptionError(f"option {option!r} is {text!r}: {why}; write it like {example}")


def resolve(position: int | Offsets, bounds: Mapping[TopicPartition, Bounds], option: str) -> Offsets:
    """Return the offset of each partition for a position.

    :param position: the value of the option, with times already resolved
    :param bounds: the partitions of the read, with their bounds
    :param option: its name, for the error
    :raises OptionError: a position per partition leaves one out, or names one that is not read
    """
    if isinstance(position, int):
        position = dict.fromkeys(bounds, position)
    else:
        check_named(position, bounds, option, " (-1 for latest, -2 for earliest)")
    special: dict[int, Callable[[Bounds], int]] = {EARLIEST: lambda b: b.earliest, LATEST: lambda b: b.latest}
    return {tp: special[at](bounds[tp]) if (at := position[tp]) in special else at for tp in bounds}


def check_named(
    position: Collection[TopicPartition], partitions: Collection[TopicPartition], option: str, hint: str = ""
) -> None:
    """Check that an option names exactly the partitions of the read.

    :param hint: an addition to the error's sentence
    :raises OptionError: the option leaves a partition out, or names one that is not read
    """
    if set(position) == set(partitions):
        return
    missing, extra = _names(set(partitions) - set(position)), _names(set(position) - set(partitions))
    raise OptionError(
        f"option {option!r} must name exactly the partitions that are read{hint}: "
        + " and ".join(
            filter(None, [missing and f"it lacks {missing}", extra and f"{extra} is not read or does not exist"])
        )
    )


def check_order(start: Position, end: Position) -> None:
    """Refuse a start behind the end, as far as the options alone show it.

    :raises OptionError: a partition, or all of them, would end before they start
    """
    if isinstance(start, ByTime) and isinstance(end, ByTime) and start.ago == end.ago:
        pairs = _paired(start.timestamps, end.timestamps)
        wrong = [(tp, first, last) for tp, first, last in pairs if (first < last if start.ago else first > last)]
        unit = "ms before now" if start.ago else "ms"
    elif isinstance(start, dict) and isinstance(end, dict):
        wrong = [(tp, first, last) for tp, first, last in _paired(start, end) if first > last >= 0]
        unit = "(offset)"
    else:
        return
    if wrong:
        tp, first, last = wrong[0]
        raise OptionError(
            f"{tp or 'the read'} is to start at {first} {unit} and to end at {last}, which is before it: correct the "
            "starting or the ending options"
        )


def _paired(start: int | Offsets, end: int | Offsets) -> list[tuple[TopicPartition | None, int, int]]:
    # Both positions of each partition that either side names; None stands for all partitions.
    named = dict.fromkeys(tp for each in (start, end) if isinstance(each, dict) for tp in each)
    pairs = ((tp, _of(start, tp), _of(end, tp)) for tp in named or [None])
    return [(tp, first, last) for tp, first, last in pairs if first is not None and last is not None]


def _of(position: int | Offsets, tp: TopicPartition | None) -> int | None:
    return position if isinstance(position, int) else None if tp is None else position.get(tp)


def refuse_backwards(start: Offsets, end: Offsets) -> None:
    """Refuse a read that would end before it starts, as Spark's connector does.

    :param start: the start of each partition, found from the options
    :param end: of the same partitions
    :raises OptionError: a partition would end before it starts
    """
    for tp, offset in start.items():
        if offset > end[tp]:
            raise OptionError(
                f"{tp} is to be read from offset {offset} to {end[tp]}, which is before it: correct the starting or the "
                "ending options; a partition without records since a starting time starts at its end"
            )


def is_pinned(position: Position, located: int | Offsets) -> bool:
    """Return whether a position means the same records at every later resolution.

    The first record of a given time stays at its offset, as later records are appended behind it. The offset of a relative
    time, or of a time without a record yet, moves on; so does a time without a partition yet.

    :param position: the value of the option
    :param located: the same, with offsets in place of times
    """
    if isinstance(position, ByTime) and position.ago:
        return False
    return located == EARLIEST if isinstance(located, int) else bool(located) and LATEST not in located.values()


def clamp_start(
    start: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], report: ReportLoss
) -> Offsets:
    """Return start offsets within the brokers' bounds; report those outside.

    :param start: requested offsets, each of a partition in `bounds`
    :param bounds: the bounds of the partitions
    :param report: called for records that are gone
    """
    return _clamped(start, bounds, report, "from")


def clamp_end(
    end: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], report: ReportLoss
) -> Offsets:
    """Return end offsets that are not beyond the brokers' ends; report those beyond. Parameters as in `clamp_start`."""
    return _clamped(end, {tp: Bounds(0, bounds[tp].latest) for tp in end}, report, "up to")


def _clamped(
    offsets: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], report: ReportLoss, what: str
) -> Offsets:
    clamped, losses = {}, []
    for tp, offset in offsets.items():
        earliest, latest = bounds[tp]
        if offset < earliest:
            losses.append(
                f"{tp} was to be read {what} offset {offset}, but its oldest record left is {earliest}: "
                + gone_between(offset, earliest)
            )
        elif offset > latest:
            losses.append(f"{tp} was to be read {what} offset {offset}, but it ends at {latest}")
        clamped[tp] = min(max(offset, earliest), latest)
    _report_all(losses, report)
    return clamped


def advance(
    start: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], report: ReportLoss
) -> Offsets:
    """Return the ends that a micro-batch may reach: all records that the brokers have now.

    The result has partitions that are new since `start`, and leaves out those that are gone. A partition that ends before
    `start` was recreated or truncated; if `report` does not raise, the read continues at its present end.

    :param start: the ends of the last micro-batch
    :param bounds: the present bounds of the partitions
    :param report: called for partitions that are gone, and for those that end before `start`
    """
    report_gone(start, bounds, report)
    end, losses = {}, []
    for tp, (_, latest) in bounds.items():
        reached = start.get(tp, 0)
        if latest < reached:
            losses.append(
                f"{tp} was read up to offset {reached}, but it ends at {latest} now; was the topic recreated?"
            )
        end[tp] = latest
    _report_all(losses, report)
    return end


def gone_between(first: int, end: int) -> str:
    """Return the words for offsets that are gone, from the first one to before the end; there may have been fewer records."""
    count = end - first
    return f"offset {first} is gone" if count == 1 else f"offsets {first} to {end - 1} are gone ({count} offsets)"


def _report_all(losses: list[str], report: ReportLoss) -> None:
    # One report has all partitions: the first one would hide the others.
    if losses:
        more = f"; and {len(losses) - SHOWN} more partitions" if len(losses) > SHOWN else ""
        report("; ".join(losses[:SHOWN]) + more)


def report_gone(start: Collection[TopicPartition], now: Collection[TopicPartition], report: ReportLoss) -> None:
    """Report the partitions of `start` that are not in `now`."""
    gone = _names(tp for tp in start if tp not in now)
    if gone:
        report(
            f"{gone} cannot be read any more: the topic was deleted, or its partitions are no longer subscribed to. If the "
            "query is to read other topics, give it a checkpointLocation of its own"
        )


def limit_rows(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    limit: int,
) -> Offsets:
    """Return ends with `limit` offsets between start and end, in proportion to each partition's offsets.

    Shares are rounded down, but a share below one offset is one, so that large partitions do not starve a small one. Spark's
    Kafka connector rounds so, too, and a batch may exceed the limit by one offset per partition at most. The connector leaves
    the rest of the limit unused; here it goes to the partitions that lost most by rounding: a stream of a million records in
    batches of 100,000 has ten batches, and not an eleventh of a few records.

    :param start: where the micro-batch starts
    :param end: the ends that it may reach
    :param earliest: the first offsets of partitions that are not in `start`
    :param limit: offsets per micro-batch
    """
    begin = {tp: start.get(tp, earliest.get(tp, 0)) for tp in end}
    sizes = {tp: max(0, end[tp] - begin[tp]) for tp in end}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    found, lost = {}, {}
    for tp, size in sizes.items():
        rows, rest = divmod(limit * size, total)
        if size and not rows:
            rows, rest = 1, 0
        found[tp], lost[tp] = begin[tp] + rows if size else end[tp], rest
    left = limit - sum(found[tp] - begin[tp] for tp, size in sizes.items() if size)
    for tp in sorted(lost, key=lambda tp: -lost[tp])[: max(left, 0)]:
        found[tp] = min(end[tp], found[tp] + 1)
    return found


def plan_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    report: ReportLoss,
) -> list[OffsetRange]:
    """Return the ranges between two offsets, in the order of topics and partition numbers, without empty ones.

    :param start: where the read starts
    :param end: where it ends
    :param earliest: the first offsets of partitions that are in `end` only, as they are new
    :param report: called for records that are gone
    """
    report_gone(start, end, report)
    ranges, losses = [], []
    for tp in sorted(end):
        begin = start.get(tp)
        if begin is None:
            begin = earliest[tp]
            if begin > 0:
                losses.append(f"the new partition {tp} starts at offset {begin} instead of 0: {gone_between(0, begin)}")
        if end[tp] < begin:
            losses.append(f"{tp} was read up to offset {begin}, but is to be read up to {end[tp]} now")
        elif end[tp] > begin:
            ranges.append(OffsetRange(tp, begin, end[tp]))
    _report_all(losses, report)
    return ranges


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Return ranges cut so that there are enough and none is too large, as Spark's Kafka connector cuts them.

    First each range is cut into equal parts of at most `max_records` offsets. If there are then fewer than
    `min_partitions`, the large ones are cut further, each into as many parts as its share of all offsets. Ranges whose share
    is one part or less stay whole and do not count in the shares. Rounding may give a few ranges more or fewer.

    :param ranges: ranges, none of them empty
    :param min_partitions: the smallest number of ranges
    :param max_records: the most offsets of a range
    """
    found = list(ranges)
    if max_records is not None:
        found = [part for one in found for part in _parts(one, -(-_size(one) // max_records))]
    if min_partitions is None or min_partitions <= len(found):
        return found
    total = sum(map(_size, found))
    large = {one for one in found if _share(one, total, min_partitions) > 1}
    wanted = max(min_partitions - (len(found) - len(large)), 1)
    total = sum(map(_size, large))
    return [part for one in found for part in (_parts(one, _share(one, total, wanted)) if one in large else [one])]


def _size(one: OffsetRange) -> int:
    return one.end - one.start


def _share(one: OffsetRange, total: int, parts: int) -> int:
    return max(math.floor(_size(one) / total * parts + 0.5), 1)


def _parts(one: OffsetRange, count: int) -> list[OffsetRange]:
    # The last parts get the remainders.
    found = []
    begin = one.start
    for left in range(count, 0, -1):
        end = begin + (one.end - begin) // left
        if end > begin:
            found.append(OffsetRange(one.tp, begin, end))
        begin = end
    return found


def at_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the words for the offsets of some partitions."""
    return _shortened([f"{tp} at {offsets[tp]}" for tp in sorted(offsets)])


def _names(partitions: Iterable[TopicPartition]) -> str:
    return _shortened(sorted(map(str, partitions)))


def _shortened(words: list[str]) -> str:
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")
