"""`StartRules`: where a consumer begins without a commit, in a new partition, and out of range. No I/O."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, Self

from pykafka.common import OffsetType, TopicPartition
from pykafka.exceptions import KafkaException

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
#: Names of rules in librdkafka, for errors.
ELSEWHERE = {"smallest": EARLIEST, "beginning": EARLIEST, "largest": LATEST, "end": LATEST, "error": RAISE}
#: How the Java client names a duration (KIP-1106), in ISO 8601.
BY_DURATION = "by_duration:"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class Return(NamedTuple):
    """A partition goes back to its commit; without one, to an offset.

    :param offset: where reading began
    """

    offset: int


@dataclass(frozen=True)
class StartRules:
    """Where reading begins; a rule that is None follows `auto_offset_reset`.

    Each is "earliest", "latest", "raise" (`OffsetResetNeededError`: the application has to name a position, by `seek()`), or a
    `timedelta`: the first message that is not older (KIP-1106); `out_of_range` may also be "nearest" (KIP-842).

    :param no_commit: without a group, and for a partition of which the group has committed nothing
    :param new_partition: a partition, or a topic, that has come while this consumer read: by default "earliest" where
        `auto_offset_reset` is "latest", since all that is in it is newer than the consumer
    :param out_of_range: the offset to continue at is not in the log (any more)
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
    ours = ELSEWHERE.get(param) if isinstance(param, str) else None
    instead = "seek() goes to an offset" if ours is None else f"{param!r} is {ours!r} here"
    allowed = f"{name} must be {', '.join(map(repr, names))}, or a timedelta, not {param!r}; {instead}"
    raise (ValueError if isinstance(param, (str, int)) else TypeError)(allowed)


def _duration(text: str) -> datetime.timedelta | str:
    """Return the duration that Java's text names; the text itself if it names none."""
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


def rule_text(rule: Any) -> str:
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
