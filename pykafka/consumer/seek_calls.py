"""`Seeking`: the part of `KafkaConsumer` that is about partitions and positions: pause, seek, position, lag, starts."""

from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetAndMetadata, OffsetType, TopicPartition
from pykafka.consumer.startrules import NEAREST, RAISE, Start, position_of, rule_text
from pykafka.exceptions import KafkaException, LeaderNotFoundError, OffsetResetNeededError, ResponseTimeoutError
from pykafka.metrics.listener import COMMITTED_READ
from pykafka.utils import INT64_MAX, get_string, milliseconds
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.consumer.startrules import Position, Start
    from pykafka.exceptions import KafkaException


log = logging.getLogger(__name__)

#: How long `subscribe()` and `assign()` wait for partitions whose leader is away: an election takes less (s).
ELECTION_S = 1.0


def explained(
    engine: ConsumerEngine, keys: Collection[TopicPartition], deadline: float
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


def _standing(engine: ConsumerEngine, key: TopicPartition) -> Start | None:
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

    def __init__(self, engine: ConsumerEngine, keys: Collection[TopicPartition], deadline: float) -> None:
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
        found, errors = self._engine.find_each_offset(wanted, left_ms(self._deadline, self._engine.handler.now()))
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
        return Start(*key, self._offset(key, rule), "out_of_range", f"{why} {rule_text(rule)}")

    def _by_rule(self, key: TopicPartition) -> Start:
        rules = self._engine.rules
        group = self._engine.options.consumer_group
        why = "there is no group" if group is None else f"group {group} has committed nothing"
        if key in self._engine.added:
            rule = rules.new_partition
            said = f"{why}, and the partition came while the consumer read; new_partition is {rule_text(rule)}"
            return Start(*key, self._offset(key, rule), "new_partition", said)
        rule = rules.no_commit
        return Start(*key, self._offset(key, rule), "no_commit", f"{why}; no_commit is {rule_text(rule)}")

    def _offset(self, key: TopicPartition, rule: object) -> int | None:
        if rule == RAISE:
            return None
        position: Position | None = position_of(rule, self._now_ms)
        if position == OffsetType.EARLIEST:
            return self._first[key]
        if position is None or position == OffsetType.LATEST:
            return self._end[key]
        return self._find({key: position}).get(key)


class Seeking:
    """The calls about partitions and positions. Other workers may make them while one reads.

    After `close()` they raise ConsumerStoppedException; `assignment()` and `paused()` do not.
    """

    _engine: ConsumerEngine

    if TYPE_CHECKING:

        def _check_reads(self) -> None: ...

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read now."""
        return sorted(self._engine.partitions)

    # -- pausing ---------------------------------------------------------------------------------------------------

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no more records of partitions until `resume()`; buffered records stay. It also lasts over rebalances.

        :param partitions: by default all
        :raises KafkaException: a partition is not read by this consumer
        """
        for key in self._own(partitions):
            self._engine.buffers.pause(self._engine.partitions[key])

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of paused partitions again.

        :param partitions: by default all
        :raises KafkaException: a partition is not read by this consumer
        """
        for key in self._own(partitions):
            self._engine.buffers.resume(self._engine.partitions[key])
        self._engine.arrived()

    def paused(self) -> list[TopicPartition]:
        """Return the partitions that are paused."""
        return sorted(key for key, owned in self._engine.partitions.items() if owned.paused)

    # -- seeking ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset of a partition, or to the next one that exists. Records that were returned stay returned.

        :param partition: one that is read
        :param offset: 0 or more
        :raises KafkaException: the partition is not read by this consumer
        :raises ValueError: the offset is negative, or too large
        """
        (key,) = self._own([partition])
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise TypeError(f"offset must be an int, not {type(offset).__name__}: {offset!r}")
        if not 0 <= offset < INT64_MAX:
            raise ValueError(f"offset must be from 0 to 2**63 - 2, not {offset}; seek_to_end() goes to the end")
        self._engine.seek(key, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first message of partitions. A worker asks for it: this returns at once, and `position()` waits.

        :param partitions: by default all
        :raises KafkaException: a partition is not read by this consumer
        """
        self._go(partitions, OffsetType.EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last message of partitions, as `seek_to_beginning` goes to the first one.

        :param partitions: by default all
        :raises KafkaException: a partition is not read by this consumer
        """
        self._go(partitions, OffsetType.LATEST)

    def seek_to_time(self, moment: datetime.datetime | int, *partitions: TopicPartition) -> None:
        """Go to the first message that is not older than a time, or to the end where all are; else as `seek_to_beginning`.

        :param moment: a datetime (a naive one is UTC), or milliseconds since 1970
        :param partitions: by default all
        :raises KafkaException: a partition is not read by this consumer
        :raises ValueError: the time is before 1970
        """
        if milliseconds(moment, "moment") < 0:
            raise ValueError(
                f"moment must not be before 1970: {moment!r}; seek_to_beginning() goes to the first message"
            )
        self._go(partitions, milliseconds(moment))

    def _go(self, partitions: Iterable[TopicPartition], position: Position) -> None:
        self._engine.go(dict.fromkeys(self._own(partitions), position))

    # -- positions -------------------------------------------------------------------------------------------------

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the offset of the next record of a partition; wait until it is known.

        :param partition: one that is read
        :param timeout: how long to wait (s); None for the socket timeout of the client
        :raises ResponseTimeoutError: it was not known in time
        :raises OffsetResetNeededError: it is for the application to say, by `seek()`
        :raises KafkaException: the partition is not read by this consumer, or the brokers refuse
        """
        (key,) = self._own([partition])
        engine = self._engine
        self._await_starts([key], self._deadline(timeout))
        owned = engine.partitions.get(key)
        if owned is not None and owned.position >= 0:
            return int(owned.position)
        if owned is not None and not engine.start_lookup.waiting([key]):
            raise OffsetResetNeededError(topic=key.topic, partition=key.partition)
        raise ResponseTimeoutError(
            "the position is not known yet: the brokers have not said where the partition begins",
            topic=key.topic,
            partition=key.partition,
        )

    def lag(self, *partitions: TopicPartition, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return how many offsets there are between the position of each partition and its end; this asks the leaders.

        With `isolation_level="read_committed"` the end is where the first open transaction begins.

        :param partitions: by default all whose position is known; of these, one whose leader is away, or does not answer in
            time, is left out with a warning, as long as one leader answers
        :param timeout: for all of it (s); None for the socket timeout of the client
        :raises KafkaException: a partition is not read by this consumer; or no leader answered; or that of a partition that
            was named did not
        """
        deadline = self._deadline(timeout)
        keys = self._own(partitions) if partitions else []
        if partitions:
            positions = {key: self.position(key, max(deadline - self._engine.handler.now(), 0.0)) for key in keys}
        else:
            positions = self._engine.positions()
        ends, errors = self._engine.find_each_offset(
            dict.fromkeys(positions, OffsetType.LATEST), left_ms(deadline, self._engine.handler.now())
        )
        self._heed(errors, bool(partitions) or (bool(errors) and not ends), "lag() leaves out")
        if not partitions and (in_vain := self._engine.start_lookup.in_vain()):
            unknown = LeaderNotFoundError("no broker has said yet where to begin")
            self._heed(dict.fromkeys(in_vain, unknown), False, "lag() leaves out, as their position is not known,")
        return {key: max(ends[key] - position, 0) for key, position in positions.items() if key in ends}

    def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed for each partition; None if that is nothing.

        :param partitions: any; by default those that are read; of these, one of which the coordinator says nothing is left out
            with a warning, as long as it returns others
        :param timeout: for all attempts (s); by default, and at the most, twice the client's `socket_timeout_ms`
        :raises KafkaException: there is no group, or its coordinator did not answer in time
        """
        self._check_reads()
        keys = valid_keys(partitions) if partitions else list(self._engine.partitions)
        deadline = self._engine.deadline(timeout)
        group = self._engine.commits_of("committed()").group
        with self._engine.timed(COMMITTED_READ):
            found, errors = group.fetch_known(keys, deadline)
        self._heed(errors, bool(partitions) or not found, "committed() leaves out")
        return {
            key: OffsetAndMetadata(one.offset, one.metadata) if one.offset >= 0 else None for key, one in found.items()
        }

    def explain_start(self, *partitions: TopicPartition, timeout: float | None = None) -> list[Start]:
        """Return for each partition its start or position, and the reason; this asks the brokers, and moves nothing.

        :param partitions: any; by default those that are read; of these, one whose leader is away, or does not answer in time,
            has the rule "unknown", and the error as reason
        :param timeout: for all of it (s); None for the socket timeout of the client
        :raises KafkaException: a broker did not answer for a partition that was named, or the coordinator of the group
        """
        deadline = self._deadline(timeout)
        keys = valid_keys(partitions) if partitions else list(self._engine.partitions)
        found, errors = explained(self._engine, keys, deadline)
        self._heed(errors, bool(partitions), "explain_start() does not know")
        return found

    def _deadline(self, timeout: float | None) -> float:
        self._check_reads()
        return self._engine.call_deadline(timeout)

    def _heed(self, errors: Mapping[TopicPartition, KafkaException], raises: bool, text: str) -> None:
        """Raise the first error, or log a warning now and then."""
        for key, error in errors.items():
            if raises:
                raise error
            engine = self._engine
            about = f"{engine.name} {text}"
            engine.cluster.limiter.warn(log, about, "%s %d partitions, first %s: %s", text, len(errors), key, error)
            return

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _await_starts(self, keys: Collection[TopicPartition], deadline: float, once: bool = False) -> None:
        """Wait until partitions have a position, or an error says why not.

        :param deadline: of the handler's clock (s)
        :param once: whether to wait for a moment only for partitions that were looked for in vain: their leader is away
        :raises KafkaException: an error of a partition without a position
        """
        engine = self._engine
        lookup, wanted = engine.start_lookup, set(keys)
        patient_until = engine.handler.now() + ELECTION_S if once else math.inf

        def waits() -> bool:
            is_patient = engine.handler.now() < patient_until
            return bool((lookup.waiting if is_patient else lookup.untried)(wanted)) and engine.running

        while waits():
            engine.has_arrived.clear()
            if not waits():
                return
            engine.raise_errors(wanted)
            left = deadline - engine.handler.now()
            if left <= 0:
                return
            engine.start_lookup.revive()
            engine.has_arrived.wait(min(left, 0.1))

    def _own(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return partitions that are read; all for none."""
        self._check_reads()
        keys = valid_keys(partitions)
        mine = self._engine.partitions
        for key in keys:
            if key not in mine:
                raise KafkaException(
                    "this consumer does not read that partition", topic=key.topic, partition=key.partition
                )
        return keys or list(mine)


def valid_keys(param: Any) -> list[TopicPartition]:
    """Return partitions, each given as a TopicPartition or as a pair of topic and number.

    :raises TypeError: one is neither
    """
    found: list[TopicPartition] = []
    for one in param if isinstance(param, Iterable) and not isinstance(param, (str, bytes)) else [param]:
        if not (
            isinstance(one, tuple)
            and len(one) == 2
            and isinstance(one[0], str)
            and isinstance(one[1], int)
            and not isinstance(one[1], bool)
        ):
            wanted = f"a partition must be a TopicPartition(topic, number), not {one!r}"
            if isinstance(one, (list, set)):
                wanted += "; unpack the list: write *partitions"
            elif isinstance(param, TopicPartition):
                wanted = f"partitions must be a list: write [{param!r}]"
            raise TypeError(wanted)
        found.append(TopicPartition(get_string(one[0]), one[1]))
    return list(dict.fromkeys(found))
