"""`Resets`: where partitions go whose position is not in the log: back, to the start, to `auto_offset_reset`, or nowhere."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetType
from pykafka.consumer.startrules import NEAREST, RAISE, position_of, rule_text
from pykafka.exceptions import (
    KafkaException,
    LogTruncationError,
    OffsetOutOfRangeError,
    OffsetResetNeededError,
    TopicRecreatedError,
)

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.failed_partitions import ErrorsToRaise, FailedPartition, FailedPartitions
    from pykafka.consumer.fetching_consumer import FetchingConsumer
    from pykafka.consumer.startrules import Position

log = logging.getLogger(__name__)

#: How long to ask the brokers for the offsets that an error names, before other partitions have their turn (ms).
RANGES_TIMEOUT_MS = 1000


class Resets:
    """The moves of one consumer's partitions; the recovery worker calls it, as it may wait for brokers.

    :param failed_partitions: those partitions, and when to try again what could not be moved
    :param errors_to_raise: reports errors to the consumer
    """

    def __init__(self, failed_partitions: FailedPartitions, errors_to_raise: ErrorsToRaise) -> None:
        self._failed_partitions = failed_partitions
        self._errors_to_raise = errors_to_raise

    def move(self, consumer: FetchingConsumer, lost: list[FailedPartition]) -> Iterator[list[FailedPartition]]:
        """Move partitions whose positions are not in the log (any more).

        They go where the rule for positions out of range says; if a log was truncated, to the offset from which on it differs;
        in a topic that was created again, to its start. If the application moves a partition meanwhile, as by `seek()`,
        that stands.

        :returns: those that can be fetched again, in groups: a leader that does not answer delays its own partitions alone
        """
        if consumer.rules.out_of_range == RAISE:
            self.ask_the_user(consumer, lost)
            return
        by_leader: dict[Any, list[FailedPartition]] = defaultdict(list)
        truncated = []
        for failed in lost:
            if isinstance(failed.error, LogTruncationError) and failed.error.divergent_offset is not None:
                self._go_back(consumer, failed, failed.error.divergent_offset)
                truncated.append(failed)
                continue
            if isinstance(failed.error, (TopicRecreatedError, LogTruncationError)):
                self._errors_to_raise.note_trouble(failed.owned)
            elif not failed.asked:
                self._errors_to_raise.judge(consumer, failed.owned, failed.error, failed.moves)
            by_leader[failed.owned.partition.leader].append(failed)
        yield truncated
        for parts in by_leader.values():
            yield self._move_by_rule(consumer, parts)

    def _move_by_rule(self, consumer: FetchingConsumer, parts: list[FailedPartition]) -> list[FailedPartition]:
        """Ask a leader for offsets, once, and move its partitions there; return those that it gave an offset."""
        rule = consumer.rules.out_of_range
        position = position_of(rule, consumer.handler.time_ms())
        wanted: dict[TopicPartition, Position] = {
            failed.owned.key: OffsetType.EARLIEST
            if position is None or isinstance(failed.error, TopicRecreatedError)
            else position
            for failed in parts
        }
        offsets, errors = consumer.find_each_offset(wanted)
        if rule == NEAREST:
            self._stay_near(consumer, parts, offsets, errors)
        moved = []
        for failed in parts:
            error = errors.get(failed.owned.key)
            if error is None:
                self._move(consumer, failed, offsets[failed.owned.key])
                moved.append(failed)
            else:
                self._errors_to_raise.judge(consumer, failed.owned, error)
                self._failed_partitions.again(failed, error)
        return moved

    @staticmethod
    def _move(consumer: FetchingConsumer, failed: FailedPartition, offset: int) -> None:
        owned, error, before = failed.owned, failed.error, failed.owned.position
        if not consumer.buffers.move(owned, offset, offset - 1, failed.moves):
            return
        if isinstance(error, TopicRecreatedError) and error.old_id is not None:
            owned.former = error.old_id, offset  # until a record of the new one is handed out
        owned.topic_id = None
        if isinstance(error, TopicRecreatedError):
            log.warning(
                "topic %s was deleted and recreated (its id was %s and is %s now): this consumer goes from offset %d of "
                "partition %d to the start of the new one",
                *(owned.key.topic, error.old_id, error.new_id, before, owned.partition_id),
            )
        else:
            log.warning("%s; going to auto_offset_reset (%s)", error, rule_text(consumer.rules.out_of_range))
        log.debug("%s goes to offset %d", owned.key, offset)

    @staticmethod
    def _stay_near(
        consumer: FetchingConsumer,
        parts: list[FailedPartition],
        offsets: dict[TopicPartition, int],
        errors: dict[TopicPartition, KafkaException],
    ) -> None:
        """Put the end in the place of the first offset for partitions whose position is behind the end."""
        behind = {
            failed.owned.key: failed.owned.position
            for failed in parts
            if not isinstance(failed.error, TopicRecreatedError)
            and failed.owned.position > offsets.get(failed.owned.key, failed.owned.position)
        }
        ends, end_errors = consumer.find_each_offset(dict.fromkeys(behind, OffsetType.LATEST))
        offsets.update({key: min(end, behind[key]) for key, end in ends.items()})
        errors.update(end_errors)

    def _go_back(self, consumer: FetchingConsumer, failed: FailedPartition, divergent: int) -> None:
        """Move a partition whose log was truncated to where the leader's log begins to differ from what was read."""
        owned = failed.owned
        position = owned.position
        start = min(divergent, position)
        self._errors_to_raise.note_trouble(owned)
        if (
            consumer.buffers.move(owned, start, start - 1, failed.moves, owned.leader_epochs.until(start))
            and start < position
        ):
            log.warning(
                "%s: offsets %d to %d (%d of them), which this consumer has read, are lost: the leader's log differs from "
                "offset %d on, as after an unclean leader election. The consumer goes from offset %d back to %d",
                *(owned.key, start, position - 1, position - start, start, position, start),
            )

    def ask_the_user(self, consumer: FetchingConsumer, parts: list[FailedPartition]) -> None:
        """Report to `consume()` that the application must name the next position; until then try the offset now and then."""
        asked = consumer.errors.asks_for
        errors = reset_needed(consumer, [one.owned for one in parts if not asked(one.owned.key) and not one.moved])
        for failed in parts:
            needed = errors.get(failed.owned.key)
            if needed is not None:
                error: KafkaException = needed
                if isinstance(failed.error, TopicRecreatedError):
                    error = failed.error.again()
                elif isinstance(failed.error, LogTruncationError):
                    where = needed.offset, failed.error.divergent_offset, needed.earliest, needed.latest
                    error = LogTruncationError(*where, **needed.context)
                elif isinstance(failed.error, OffsetOutOfRangeError):
                    error.__cause__ = failed.error.again()
                self._errors_to_raise.judge(consumer, failed.owned, error, failed.moves)
            if failed.is_lost:
                failed.error = _needs_reset(failed.owned)
                self._failed_partitions.again(failed)


def reset_needed(
    consumer: FetchingConsumer, parts: Iterable[OwnedPartition]
) -> dict[TopicPartition, OffsetResetNeededError]:
    """Return the error for each partition whose next position only the application can name."""
    stuck = {owned.key: owned for owned in parts}
    ranges = _ranges(consumer, stuck)
    return {key: _needs_reset(owned, *ranges.get(key, (None, None))) for key, owned in stuck.items()}


def _needs_reset(
    owned: OwnedPartition, earliest: int | None = None, latest: int | None = None
) -> OffsetResetNeededError:
    offset = owned.position if owned.position >= 0 else None
    return OffsetResetNeededError(offset, earliest, latest, topic=owned.key.topic, partition=owned.partition_id)


def _ranges(consumer: FetchingConsumer, keys: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Return each partition's offsets as (first, behind the last), without those that the brokers do not report."""
    first, errors = consumer.find_each_offset(dict.fromkeys(keys, OffsetType.EARLIEST), RANGES_TIMEOUT_MS)
    end, end_errors = consumer.find_each_offset(dict.fromkeys(first, OffsetType.LATEST), RANGES_TIMEOUT_MS)
    for key, error in (errors | end_errors).items():
        log.info("the range of offsets of %s is not known: %s", key, error)
    return {key: (first[key], end[key]) for key in end}
