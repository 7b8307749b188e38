"""Where a read starts and ends: offsets of partitions as Spark keeps them, and arithmetic on them without any I/O.

Offsets travel in the shape that Spark's Kafka connector puts into checkpoints: ``{"topic": {"0": 23}}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from pykafka.spark.errors import OptionError

#: In place of an offset: the oldest record that the broker has.
EARLIEST = -2
#: In place of an offset: the end of the partition.
LATEST = -1

EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
MAX_OFFSET = 2**63 - 1


class TopicPartition(NamedTuple):
    """One partition of a topic.

    :param topic: name
    :param partition: number
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets = dict[TopicPartition, int]
JsonOffsets = dict[str, dict[str, int]]
#: EARLIEST or LATEST for all partitions, or an offset (or either) for each.
Position = int | Offsets


class Bounds(NamedTuple):
    """What a broker has of one partition.

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


#: Takes a sentence about records that are gone: raises it or logs it, as failOnDataLoss wants.
ReportLoss = Callable[[str], None]


def to_json(offsets: Mapping[TopicPartition, int]) -> JsonOffsets:
    """Return offsets in the checkpoint's shape, in the order of topics and partition numbers."""
    found: JsonOffsets = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return the offsets that `to_json` wrote.

    :raises OptionError: they have another shape, as when the checkpoint is another source's
    """
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(
            f"the checkpoint holds the offset {offsets!r}, which is not of the shape {EXAMPLE}; it was written by "
            "another source, so give this query a checkpointLocation of its own"
        ) from error


def parse_offsets(text: str, option: str) -> Offsets:
    """Read offsets that a user wrote as JSON.

    :param text: like ``{"topicA":{"0":23,"1":-1}}``; -2 stands for earliest, -1 for latest
    :param option: its name, for the error
    :raises OptionError: the text is something else
    """
    offsets: Offsets = {}
    for topic, partitions in _object(text, option, EXAMPLE).items():
        if not isinstance(partitions, dict):
            raise _malformed(option, text, EXAMPLE, f"topic {topic!r} has no object of partitions")
        for partition, offset in partitions.items():
            if not partition.isdecimal():
                raise _malformed(option, text, EXAMPLE, f"partition {partition!r} of {topic!r} is not a number")
            if isinstance(offset, bool) or not isinstance(offset, int) or not EARLIEST <= offset <= MAX_OFFSET:
                raise _malformed(
                    option, text, EXAMPLE, f"{offset!r} of {topic}-{partition} is neither an offset nor -1 nor -2"
                )
            offsets[TopicPartition(topic, int(partition))] = offset
    if not offsets:
        raise _malformed(option, text, EXAMPLE, "it names no partition")
    return offsets


def parse_partitions(text: str, option: str) -> frozenset[TopicPartition]:
    """Read partitions that a user wrote as JSON.

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
    except ValueError as error:
        raise _malformed(option, text, example, f"it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise _malformed(option, text, example, "it is not a JSON object")
    return found


def _malformed(option: str, text: str, example: str, why: str) -> OptionError:
    return OptionError(f"option {option!r} is {text!r}: {why}; write it like {example}")


def resolve(position: Position, bounds: Mapping[TopicPartition, Bounds], option: str) -> Offsets:
    """Return the offset of each partition that a position stands for.

    :param position: as the option says
    :param bounds: the partitions read, and what the brokers have of them
    :param option: its name, for the error
    :raises OptionError: a position by partition leaves one out, or names one that is not read
    """
    if isinstance(position, int):
        position = dict.fromkeys(bounds, position)
    elif set(position) != set(bounds):
        missing, extra = _names(set(bounds) - set(position)), _names(set(position) - set(bounds))
        raise OptionError(
            f"option {option!r} must name exactly the partitions that are read (-1 for latest, -2 for earliest): "
            + " and ".join(
                filter(None, [missing and f"it lacks {missing}", extra and f"{extra} is not read or does not exist"])
            )
        )
    special: dict[int, Callable[[Bounds], int]] = {EARLIEST: lambda b: b.earliest, LATEST: lambda b: b.latest}
    return {tp: special[at](bounds[tp]) if (at := position[tp]) in special else at for tp in bounds}


def is_pinned(position: Position) -> bool:
    """Tell whether a position stands for the same records however late it is resolved."""
    return position == EARLIEST if isinstance(position, int) else LATEST not in position.values()


def clamp_start(
    start: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], report: ReportLoss
) -> Offsets:
    """Return start offsets within what the brokers have; report those that were not.

    :param start: offsets asked for, each of a partition in `bounds`
    :param bounds: what the brokers have
    :param report: told of records that are gone
    """
    found = {}
    for tp, offset in start.items():
        earliest, latest = bounds[tp]
        if offset < earliest:
            report(f"{tp} was to be read from offset {offset}, but its oldest record left is {earliest}")
        elif offset > latest:
            report(f"{tp} was to be read from offset {offset}, but it ends at {latest}")
        found[tp] = min(max(offset, earliest), latest)
    return found


def clamp_end(
    end: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], report: ReportLoss
) -> Offsets:
    """Return end offsets that the brokers have reached; report those that they have not.

    :param end: offsets asked for, each of a partition in `bounds`
    :param bounds: what the brokers have
    :param report: told of records that are not there
    """
    found = {}
    for tp, offset in end.items():
        latest = bounds[tp].latest
        if offset > latest:
            report(f"{tp} was to be read up to offset {offset}, but it ends at {latest}")
        found[tp] = min(offset, latest)
    return found


def advance(
    start: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], report: ReportLoss
) -> Offsets:
    """Return the ends that a micro-batch may reach: all that the brokers have now.

    A partition that is new since `start` is in the answer; one that is gone is not. A partition that ends before
    `start` was made anew or truncated; where that is only reported, it is read on from its present end.

    :param start: offsets that the last micro-batch ended at
    :param bounds: what the brokers have now
    :param report: told of partitions that are gone, and of those that end before `start`
    """
    report_gone(start, bounds, report)
    end = {}
    for tp, (_, latest) in bounds.items():
        reached = start.get(tp, 0)
        if latest < reached:
            report(f"{tp} was read up to offset {reached}, but it ends at {latest} now; was the topic made anew?")
        end[tp] = latest
    return end


def report_gone(start: Collection[TopicPartition], now: Collection[TopicPartition], report: ReportLoss) -> None:
    """Report the partitions of `start` that are not there `now`."""
    gone = _names(tp for tp in start if tp not in now)
    if gone:
        report(f"{gone} cannot be read any more: the topic was deleted, or its partitions are no longer subscribed to")


def limit_rows(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    limit: int,
) -> Offsets:
    """Return ends so that about `limit` offsets lie between start and end, in proportion to what each partition has.

    Shares are rounded down, but a share below one offset is one, so that a small partition is not starved by large ones
    (the rounding of Spark's Kafka connector; a batch may exceed the limit by one a partition at most).

    :param start: where the micro-batch starts
    :param end: the ends that it may reach
    :param earliest: where partitions start that are not in `start`
    :param limit: offsets a micro-batch
    """
    begin = {tp: start.get(tp, earliest.get(tp, 0)) for tp in end}
    sizes = {tp: max(0, end[tp] - begin[tp]) for tp in end}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    found = {}
    for tp, size in sizes.items():
        share = limit * (size / total)
        rows = math.ceil(share) if share < 1 else math.floor(share)
        found[tp] = min(end[tp], begin[tp] + rows) if size else end[tp]
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
    :param earliest: where partitions start that are in `end` only, as they were made since
    :param report: told of records that are gone
    """
    report_gone(start, end, report)
    ranges = []
    for tp in sorted(end):
        begin = start.get(tp)
        if begin is None:
            begin = earliest[tp]
            if begin > 0:
                report(f"the new partition {tp} starts at offset {begin} instead of 0: its first records are gone")
        if end[tp] < begin:
            report(f"{tp} was read up to offset {begin}, but is to be read up to {end[tp]} now")
        elif end[tp] > begin:
            ranges.append(OffsetRange(tp, begin, end[tp]))
    return ranges


def _names(partitions: Iterable[TopicPartition]) -> str:
    names = sorted(map(str, partitions))
    shown = ", ".join(names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown
