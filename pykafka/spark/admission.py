"""Limits of micro-batches: maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka.common import TopicPartition
from pykafka.spark.offsets import Offsets, limit_rows


class Admission:
    """The limits of a query's micro-batches; used by the driver process of one query alone.

    :param most: the most records of a micro-batch, approximately; None: no limit
    :param least: the records that a micro-batch waits for; None: it does not wait
    :param delay_s: the longest wait for them (s)
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
        """Return where the next micro-batch ends; `start` means that it waits for more records.

        The first micro-batch of a run never waits, as in Spark's connector.

        :param start: where the micro-batch starts
        :param end: the ends that it may reach
        :param earliest: the first offsets of partitions that are not in `start`
        :param now: the handler's clock (s)
        :param may_wait: False if no more records will be read
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
