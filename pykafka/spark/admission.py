"""How much a micro-batch may read: maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay, without any I/O."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka.common import TopicPartition
from pykafka.spark.offsets import Offsets, limit_rows


class Admission:
    """Decide where micro-batches end; used by the driver process of one query alone.

    :param most: records that a micro-batch may have, about; None: all there are
    :param least: records that it waits for; None: any
    :param delay_s: how long it waits for them
    """

    def __init__(self, most: int | None, least: int | None, delay_s: float) -> None:
        self._most = most
        self._least = least
        self._delay_s = delay_s
        self._admitted_at: float | None = None

    def end(
        self,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        earliest: Mapping[TopicPartition, int],
        now: float,
        may_wait: bool = True,
    ) -> Offsets:
        """Return where the next micro-batch ends: at `start` to wait for more records.

        The first micro-batch of a run never waits, as in Spark's connector.

        :param start: where it starts
        :param end: the ends that it may reach
        :param earliest: where partitions start that are not in `start`
        :param now: s of the handler's clock
        :param may_wait: False where nothing more is to come
        """
        if may_wait and self._waits(start, end, earliest, now):
            return dict(start)
        self._admitted_at = now
        return dict(end) if self._most is None else limit_rows(start, end, earliest, self._most)

    def _waits(
        self,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        earliest: Mapping[TopicPartition, int],
        now: float,
    ) -> bool:
        if self._least is None or self._admitted_at is None or now - self._admitted_at >= self._delay_s:
            return False
        there = sum(max(0, offset - start.get(tp, earliest.get(tp, 0))) for tp, offset in end.items())
        return there < self._least
