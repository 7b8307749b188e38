# ruff: noqa: N802 - the names of methods and arguments are Spark's
"""The base of the readers of streams, for each version of PySpark; and the limits of micro-batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pykafka.common import TopicPartition
from pykafka.spark import session
from pykafka.spark.batch import KafkaInputPartition, as_partitions, read_partition
from pykafka.spark.cluster import OffsetReader
from pykafka.spark.data_loss import ASK_AGAIN_S, SURE_AFTER, LossReporter, TopicIds
from pykafka.spark.offsets import (
    LATEST,
    Bounds,
    ByTime,
    JsonOffsets,
    Offsets,
    advance,
    at_offsets,
    clamp_start,
    from_json,
    is_pinned,
    limit_rows,
    plan_ranges,
    report_gone,
    resolve,
    to_json,
)
from pykafka.spark.options import ReadOptions
from pykafka.spark.parquetfiles import ParquetFiles
from pykafka.spark.shipping import Shipped

if TYPE_CHECKING:
    from uuid import UUID

    import pyarrow as pa

    from pykafka.spark.progress import Progress, ProgressCommitter

# The progress of a group is imported on use: few queries have commitProgressTo, and the start of each waits for imports.

#: A mark in the end of an empty first micro-batch, in the place of a topic. No topic can have this name, and as it has no
#: partitions, Spark's own connector reads the offsets as if it were not there.
NOTHING_READ = "pykafka:nothing-read"


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
        if (
            may_wait
            and self._least is not None
            and self._admitted_at is not None
            and now - self._admitted_at < self._delay_s
            and sum(max(0, at - start.get(tp, earliest.get(tp, 0))) for tp, at in end.items()) < self._least
        ):
            return dict(start)
        self._admitted_at = now
        return dict(end) if self._most is None else limit_rows(start, end, earliest, self._most)


class MicroBatchReader(Shipped, DataSourceStreamReader):
    """A reader of topics in micro-batches.

    State, used by the query's one driver process alone: the start of a fresh query (Spark asks twice), the ends for
    Trigger.AvailableNow, whether the first micro-batch is still to come and must be empty, the ends last seen, the time of the
    last admitted micro-batch, the ids of the topics, those that the group has, whether the query may continue an earlier run,
    the offsets of the last reset, and the committer of progress.

    :param options: the options of the read
    :param columns: names, in the order of the schema
    :param files: what tasks write instead of handing rows to Spark; None for rows
    """

    def __init__(self, options: ReadOptions, columns: tuple[str, ...], files: ParquetFiles | None = None) -> None:
        self._options = options
        self._columns = columns
        self._files = files
        self._offsets = OffsetReader(options)
        self._report = LossReporter(options.fail_on_data_loss)
        self._admission = Admission(
            options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms / 1000
        )
        self._initial: JsonOffsets | None = None
        self._is_first = False
        self._hold_start = False
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._progress: ProgressCommitter | None = None
        self._ids = TopicIds()
        self._anchored: dict[str, UUID] = {}
        self._may_continue = True
        self._reset: Offsets = {}

    def initialOffset(self) -> JsonOffsets:
        """Return the start of a fresh query.

        :raises OptionError: topics that do not exist; offsets for other partitions than those read
        :raises DataLossError: offsets that are not in Kafka (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        if self._initial is None:
            self._may_continue = False
            partitions = self._offsets.first_partitions()
            self._ids.learn(self._offsets.ids)
            starting = self._offsets.located(self._options.starting, partitions)
            bounds = self._offsets.bounds(partitions)
            if self._target is not None:
                bounds = {tp: Bounds(at.earliest, self._target[tp]) for tp, at in bounds.items() if tp in self._target}
                if isinstance(self._options.starting, ByTime) and isinstance(starting, dict):
                    # The first record of that time may have been written since: this query then reads none.
                    starting = {tp: LATEST if starting[tp] > at.latest else starting[tp] for tp, at in bounds.items()}
            self._seen = {tp: at.latest for tp, at in bounds.items()}
            start = resolve(starting, bounds, "startingOffsets")
            ends = self._waiting(start, {tp: at.latest for tp, at in bounds.items()})
            bounds = {tp: Bounds(at.earliest, ends[tp]) for tp, at in bounds.items()}
            self._initial = to_json(clamp_start(start, bounds, self._report))
            # Spark's checkpoint has the ends of micro-batches, but not the query's start. After a crash in the first one,
            # `latest` would be another offset; so the first micro-batch ends where it starts, and the checkpoint has that end.
            self._is_first, self._hold_start = True, not is_pinned(self._options.starting, starting)
        return self._initial

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """Return one range of offsets per partition of Kafka.

        :raises DataLossError: records between start and end are gone (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        # Planned by an earlier run, which did not do it, unless this one has planned it just now.
        is_repeated, self._is_first = self._is_first, False
        begin, until = from_json(start), from_json(end)
        if start == self._initial:
            # Spark may repeat the first micro-batch after a crash, and the start that it has just asked for may have more
            # partitions, or higher offsets. Records beyond the end in the checkpoint belong to the next micro-batch.
            begin = {tp: offset for tp, offset in begin.items() if tp in until}
            if self._may_move():
                if is_repeated and NOTHING_READ not in end:
                    self._check_foreign_start(begin, until)
                begin = {tp: min(offset, until[tp]) for tp, offset in begin.items()}
        report_gone(begin, until, self._report)
        reset = {tp for tp in until if self._is_reset(tp, begin, until)}
        if reset:
            # Spark's checkpoint has the new offsets by now, and this run may end before its next micro-batch.
            self._anchor(until, [])
        moving = [tp for tp in until if begin.get(tp) != until[tp] and tp not in reset]
        if not moving:
            return []
        present = self._offsets.present(moving)
        self._continue_from(begin)
        recreated = self._recreated_topics({tp: begin[tp] for tp in moving if tp in begin})
        moving = [tp for tp in moving if tp.topic not in recreated]
        report_gone(moving, present, self._report)
        ends = {tp: until[tp] for tp in moving if tp in present}
        earliest = self._offsets.earliest(ends)
        starts = clamp_start(
            {tp: begin[tp] for tp in ends if tp in begin},
            {tp: Bounds(earliest[tp], max(end_at, begin.get(tp, 0))) for tp, end_at in ends.items()},
            self._report,
        )
        return as_partitions(plan_ranges(starts, ends, earliest, self._report), self._options, self._ids.known)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range as columns, on an executor; errors as in `pykafka.spark.reader.read_range`."""
        batches = read_partition(partition, self._options, self._columns)
        if self._files is None or not isinstance(partition, KafkaInputPartition):
            return batches
        return self._files.written(batches, partition.partition, partition.start, session.handler.random)

    def commit(self, end: JsonOffsets) -> None:
        """Do nothing: Spark's checkpoint keeps the offsets, and `end` is one micro-batch old."""

    def stop(self) -> None:
        """Close the connections of the query's driver process."""
        self._close_progress()
        self._offsets.close()

    def _next_end(self, start: JsonOffsets, unlimited: bool = False) -> JsonOffsets:
        # `start` is the end of the last micro-batch, which is complete when Spark asks for the next one.
        begin = from_json(start)
        present = self._offsets.present(begin)
        self._continue_from(begin)
        first, self._is_first = self._is_first, False
        if first and self._hold_start:
            self._anchor(begin, [])
            return {**start, NOTHING_READ: {}}
        if recreated := self._recreated_topics(begin):
            end = self._resets(begin, [tp for tp in present if tp.topic in recreated])
            if end != begin:
                return to_json(end)
        self._commit_progress(begin)
        latest = self._target if self._target is not None else self._offsets.latest(present)
        self._seen = latest
        ends = self._waiting(begin, latest)
        end = advance(begin, {tp: Bounds(0, offset) for tp, offset in ends.items()}, self._report)
        if first and self._may_move():
            # A new partition is read from its first record; after a crash now, Spark would ask for its start by time.
            end = {tp: offset for tp, offset in end.items() if tp in begin}
        if not unlimited:
            earliest = self._offsets.earliest([tp for tp in end if tp not in begin])
            end = self._admission.end(begin, end, earliest, session.handler.now(), may_wait=self._target is None)
        self._anchor(begin, end)
        if self._target is not None and end == begin:
            # Trigger.AvailableNow asks no more, and Spark may end this process without a call of stop()
            self._close_progress()
        # The same text for the same offsets: Spark would take another one for new records.
        return start if end == begin else to_json(end)

    def _check_foreign_start(self, begin: Offsets, until: Offsets) -> None:
        """Report a first micro-batch with records whose start only the connector that planned it knew."""
        behind = [tp for tp, offset in begin.items() if offset >= until[tp]]
        earliest = self._offsets.earliest(behind) if behind else {}
        unknown = [tp for tp in behind if earliest[tp] < until[tp]]
        if unknown:
            self._report.start_unknown(unknown)

    def _may_move(self) -> bool:
        # Whether a second search may find the start of a fresh query at another offset.
        starting = self._options.starting
        return isinstance(starting, ByTime) or not is_pinned(starting, starting)

    def _waiting(self, start: Offsets, latest: Offsets) -> Offsets:
        # A partition whose start lies behind an open transaction waits there until the transaction ends.
        uncommitted = self._offsets.behind_transactions({tp: at for tp, at in start.items() if tp in latest}, latest)
        return latest | {tp: start[tp] for tp in uncommitted}

    def _close_progress(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.close()

    def _commit_progress(self, offsets: Offsets) -> None:
        committer = self._committer()
        if committer is not None:
            committer.offer(self._progress_at(offsets))

    def _committer(self) -> ProgressCommitter | None:
        if self._progress is None and self._options.commit_progress_to is not None:
            from pykafka.spark.progress import ProgressCommitter

            self._progress = ProgressCommitter(self._options.client, self._options.commit_progress_to)
        return self._progress

    def _progress_at(self, offsets: Offsets) -> Progress:
        from pykafka.spark.progress import Progress

        return Progress(offsets, self._ids.known)

    def _anchor(self, begin: Offsets, end: Collection[TopicPartition]) -> None:
        # The group knows a topic's id before Spark's checkpoint has an offset of it: else a crash in between would look as if
        # the topic had been deleted since, and the group's offsets with it.
        read = {tp.topic for tp in begin}
        self._ids.begin({tp.topic: id_ for tp in end if (id_ := self._id(tp)) is not None and tp.topic not in read})
        named = {tp.topic for tp in (*begin, *end)}
        ids = {topic: id_ for topic, id_ in self._ids.known.items() if topic in named}
        if self._options.commit_progress_to is None or ids.items() <= self._anchored.items():
            return
        committer = self._committer()
        assert committer is not None
        first = self._offsets.earliest([tp for tp in end if tp not in begin])
        committer.anchor(self._progress_at(begin | first))
        self._anchored |= ids  # tried once: a group that takes no commits must not hold up each micro-batch

    def _continue_from(self, begin: Offsets) -> None:
        # Of a query that continues an earlier run: what the group knows of its topics, once per process.
        if self._may_continue and self._options.commit_progress_to is not None and begin:
            from pykafka.spark.progress import read_anchors

            found = read_anchors(self._options.client, self._options.commit_progress_to, begin)
            if found is not None:
                self._ids.learn(found.ids)
                self._anchored |= found.ids
                for topic in found.missing:
                    self._report_absent(topic, {tp: at for tp, at in begin.items() if tp.topic == topic})
        self._may_continue = False
        self._ids.learn({tp.topic: id_ for tp in begin if (id_ := self._id(tp)) is not None})

    def _id(self, tp: TopicPartition) -> UUID | None:
        return self._offsets.ids.get(tp.topic)

    def _report_absent(self, topic: str, read: Offsets) -> None:
        id_ = self._offsets.ids.get(topic)
        if id_ is None:  # it is gone, which is reported elsewhere, or the brokers have no ids
            return
        self._report(
            f"the group {self._options.commit_progress_to!r} (commitProgressTo) has no offset of topic {topic}, and the "
            f"checkpoint has {at_offsets(read)}: the topic may have been deleted and recreated since (its id is {id_} now), as "
            "brokers delete the offsets of groups with their topic. Or the query had no such group before, could not commit to "
            "it, or its offsets have expired (offsets.retention.minutes). If it is a new topic, start with another "
            "checkpointLocation; if it is the same, run the query once with failOnDataLoss = false, which continues at the "
            "checkpoint's offsets"
        )

    def _recreated_topics(self, read: Offsets) -> set[str]:
        # The topics that were deleted and recreated since their offsets were read. One warning reports it.
        topics = {tp.topic for tp in read}
        found = self._ids.recreated(topics, self._offsets.ids)
        for _ in range(1, SURE_AFTER):
            if not found:
                break
            # A broker that lags behind reports the former id of a topic that the query began with.
            session.handler.sleep(ASK_AGAIN_S)
            self._offsets.partitions()
            found = self._ids.recreated(topics, self._offsets.ids)
        for one in found:
            if self._options.fail_on_data_loss or self._ids.is_news(one):
                at = at_offsets({tp: offset for tp, offset in read.items() if tp.topic == one.topic})
                self._report.recreated(
                    one,
                    f"It was read up to {at}",
                    "Continuing from the start of the new topic with the next micro-batch",
                )
        return {one.topic for one in found}

    def _is_reset(self, tp: TopicPartition, begin: Offsets, until: Offsets) -> bool:
        return until[tp] == self._reset.get(tp) and (tp not in begin or begin[tp] > until[tp])

    def _resets(self, begin: Offsets, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the ends of a micro-batch without rows: where it starts, and the start of topics that were recreated."""
        topics = {tp.topic for tp in begin} & {partition.topic for partition in partitions}
        for one in self._ids.recreated(topics, self._offsets.ids):
            self._ids.move_on(one)
        self._reset = self._offsets.earliest(partitions)
        if self._target is not None:
            self._target = {tp: at for tp, at in self._target.items() if tp not in begin or tp.topic not in topics}
            self._target |= self._offsets.latest(partitions)
        return {tp: at for tp, at in begin.items() if tp.topic not in topics} | self._reset
