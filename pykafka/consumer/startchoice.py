"""`explained`: where partitions will begin, and why; it asks the brokers, and moves nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pykafka.common import OffsetType, TopicPartition
from pykafka.consumer.startrules import NEAREST, RAISE, Start, position_of, told
from pykafka.utils.error_handlers import LONGEST_S

if TYPE_CHECKING:
    from pykafka.consumer.changing import ChangingEngine
    from pykafka.consumer.positions import Position
    from pykafka.exceptions import KafkaException

#: Brokers are asked for at least so long (ms), also when the time is up.
LEAST_MS = 50


def explained(
    engine: ChangingEngine, keys: Collection[TopicPartition], deadline: float
) -> tuple[list[Start], dict[TopicPartition, KafkaException]]:
    """Return where partitions stand, or will begin, and the errors of those for which a broker did not answer.

    :param deadline: of the handler's clock (s)
    :raises KafkaException: the coordinator of the group did not answer
    """
    found = [_standing(engine, key) for key in keys]
    unknown = [key for key, start in zip(keys, found, strict=True) if start is None]
    choice = _Choice(engine, unknown, deadline)
    starts = dict(zip(unknown, choice.starts(), strict=True))
    return [start or starts[key] for key, start in zip(keys, found, strict=True)], choice.errors


def left_ms(engine: ChangingEngine, deadline: float) -> int:
    """Return what is left of a time (ms): enough for one quick answer at least, and some days at most."""
    return max(LEAST_MS, round(min(deadline - engine.handler.now(), LONGEST_S) * 1000))


def _standing(engine: ChangingEngine, key: TopicPartition) -> Start | None:
    owned = engine.partitions.get(key)
    if owned is None or owned.position < 0:
        return None
    return Start(
        *key, int(owned.position), "position", "the consumer reads it, and this is the offset of the next record"
    )


class _Choice:
    """The choice of starts for partitions without a position.

    :param engine: that would read them
    :param keys: the partitions
    :param deadline: of all questions, of the handler's clock (s)
    """

    def __init__(self, engine: ChangingEngine, keys: Collection[TopicPartition], deadline: float) -> None:
        self._engine = engine
        self._keys = list(keys)
        self._deadline = deadline
        self._now_ms = engine.handler.time_ms()
        #: Why a broker did not answer for a partition.
        self.errors: dict[TopicPartition, KafkaException] = {}
        self._first = self._find(dict.fromkeys(keys, OffsetType.EARLIEST))
        self._end = self._find(dict.fromkeys(self._first, OffsetType.LATEST))
        commits = engine.commits
        found, errors = commits.group.fetch_known(self._keys, deadline) if commits is not None and keys else ({}, {})
        self.errors |= errors
        self._committed = {key: one.offset for key, one in found.items() if one.offset >= 0}

    def _find(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        found, errors = self._engine.find_each_offset(wanted, left_ms(self._engine, self._deadline))
        self.errors |= errors
        return found

    def starts(self) -> list[Start]:
        """Return one start for each partition."""
        return [self._start(key) for key in self._keys]

    def _start(self, key: TopicPartition) -> Start:
        if key not in self.errors:
            start = self._by_commit(key) if key in self._committed else self._by_rule(key)
            if key not in self.errors:
                return start
        return Start(*key, None, "unknown", f"brokers do not say where it begins: {self.errors[key]}")

    def _by_commit(self, key: TopicPartition) -> Start:
        offset, first, end = self._committed[key], self._first[key], self._end[key]
        group = self._engine.options.consumer_group
        if first <= offset <= end:
            return Start(*key, offset, "committed", f"group {group} has committed offset {offset}")
        rule = self._engine.rules.out_of_range
        why = f"group {group} has committed offset {offset}, and the partition has {first} to {end}; out_of_range is"
        if rule == NEAREST:
            return Start(*key, min(max(offset, first), end), "out_of_range", f"{why} nearest")
        return Start(*key, self._offset(key, rule), "out_of_range", f"{why} {told(rule)}")

    def _by_rule(self, key: TopicPartition) -> Start:
        rules = self._engine.rules
        group = self._engine.options.consumer_group
        why = "there is no group" if group is None else f"group {group} has committed nothing"
        if key in self._engine.added:
            rule = rules.new_partition
            said = f"{why}, and the partition came while the consumer read; new_partition is {told(rule)}"
            return Start(*key, self._offset(key, rule), "new_partition", said)
        rule = rules.no_commit
        return Start(*key, self._offset(key, rule), "no_commit", f"{why}; no_commit is {told(rule)}")

    def _offset(self, key: TopicPartition, rule: object) -> int | None:
        if rule == RAISE:
            return None
        position: Position | None = position_of(rule, self._now_ms)
        if position == OffsetType.EARLIEST:
            return self._first[key]
        if position is None or position == OffsetType.LATEST:
            return self._end[key]
        return self._find({key: position}).get(key)
