"""`StartRules`: where a consumer begins without a commit, in a new partition, and out of range. No I/O."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

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

EARLIEST: Literal["earliest"] = "earliest"
LATEST: Literal["latest"] = "latest"
RAISE: Literal["raise"] = "raise"
NEAREST: Literal["nearest"] = "nearest"
#: The first message, the end, an error, or the first message that is not older than a duration.
Rule = Literal["earliest", "latest", "raise"] | datetime.timedelta
#: As `Rule`; and "nearest": the first message if the offset is before it, else the end (KIP-842).
RangeRule = Literal["earliest", "latest", "raise", "nearest"] | datetime.timedelta
#: What `auto_offset_reset` takes: a rule, an `OffsetType`, or a name of the Java client ("none", "by_duration:PT1H").
Reset = int | str | datetime.timedelta
NAMES = (EARLIEST, LATEST, RAISE)
#: Other names of rules: those of the Java client, and of old code.
OTHERS: dict[Any, str] = {"none": RAISE, OffsetType.EARLIEST: EARLIEST, OffsetType.LATEST: LATEST}
#: How the Java client names a duration (KIP-1106), in ISO 8601.
BY_DURATION = "by_duration:"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


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


@dataclass(frozen=True)
class StartRules:
    """Where reading begins; a rule that is None follows `auto_offset_reset`.

    Each is "earliest", "latest", "raise" (`OffsetResetNeededError`: the application has to name a position, by `seek()`), or a
    `timedelta`: the first message that is not older (KIP-1106); `out_of_range` may also be "nearest" (KIP-842).

    :param no_commit: without a group, and for a partition of which the group has committed nothing
    :param new_partition: a partition, or a topic, that has come while this consumer read: by default "earliest" where
        `auto_offset_reset` is "latest", since all that is in it is newer than the consumer
    :param out_of_range: where the offset to go on at is not in the log (any more)
    :raises TypeError, ValueError: there is no such rule
    """

    no_commit: Rule | None = None
    new_partition: Rule | None = None
    out_of_range: RangeRule | None = None

    def __post_init__(self) -> None:
        """Check the rules."""
        for one in fields(self):
            rule = getattr(self, one.name)
            if rule is not None:
                names = (*NAMES, NEAREST) if one.name == "out_of_range" else NAMES
                object.__setattr__(self, one.name, valid_rule(rule, one.name, names))

    @classmethod
    def of(cls, reset: Reset, rules: Self | None = None) -> Self:
        """Return rules without a None: those of `rules`, else what `auto_offset_reset` says.

        :raises TypeError, ValueError: there is no such `auto_offset_reset`
        """
        rule: Any = valid_rule(reset, "auto_offset_reset")
        given = rules or cls()
        return cls(
            rule if given.no_commit is None else given.no_commit,
            (EARLIEST if rule == LATEST else rule) if given.new_partition is None else given.new_partition,
            rule if given.out_of_range is None else given.out_of_range,
        )

    def position(self, is_new: bool, now_ms: int) -> Position | None:
        """Return where a partition without a commit begins; None: the application has to say it.

        :param is_new: whether it came while the consumer read
        :param now_ms: the time (ms since 1970)
        """
        return position_of(self.new_partition if is_new else self.no_commit, now_ms)


def valid_rule(param: Any, name: str, names: tuple[str, ...] = NAMES) -> Any:
    """Return a rule: one of some names, or a duration.

    :raises TypeError, ValueError: it is something else
    """
    found = param
    if isinstance(param, (str, int)) and not isinstance(param, bool):
        found = OTHERS.get(param, param)
    if isinstance(found, str) and found.startswith(BY_DURATION):
        found = _duration(found)
    if isinstance(found, datetime.timedelta):
        if found < datetime.timedelta(0):
            raise ValueError(f"{name} must not be a negative duration: {param!r}")
        return found
    if isinstance(found, str) and found in names:
        return found
    allowed = f"{name} must be {', '.join(map(repr, names))}, or a timedelta, not {param!r}; seek() goes to an offset"
    raise (ValueError if isinstance(param, (str, int)) else TypeError)(allowed)


def _duration(text: str) -> datetime.timedelta | str:
    """Return the duration that Java's text names; the text itself where it names none."""
    found = _DURATION.fullmatch(text.removeprefix(BY_DURATION))
    if found is None or not any(found.groups()):
        return text
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def position_of(rule: Any, now_ms: int) -> Position | None:
    """Return the position that a rule names; None for one that names none by itself."""
    if isinstance(rule, datetime.timedelta):
        return datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC) - rule
    return {EARLIEST: OffsetType.EARLIEST, LATEST: OffsetType.LATEST}.get(rule)


def told(rule: Any) -> str:
    """Return a rule as a text, for logs and reasons."""
    return f"by duration, {rule} back" if isinstance(rule, datetime.timedelta) else str(rule)


class Start(NamedTuple):
    """Where a partition will begin, or is, and why.

    :param topic: the topic's name
    :param partition: the partition's number
    :param offset: of the first message to read; None: a read would raise `OffsetResetNeededError`, or it is not known
    :param rule: what decides: "position", "committed", "no_commit", "new_partition" or "out_of_range"; "unknown": its leader is
        away, or does not answer
    :param reason: one sentence for people
    """

    topic: str
    partition: int
    offset: int | None
    rule: str
    reason: str
