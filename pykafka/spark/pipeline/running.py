"""Execution of a pipeline: its streaming queries, watched until they end or a stop request comes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pykafka.handlers import Handler, ThreadingHandler
from pykafka.spark.cluster import OffsetReader
from pykafka.spark.lag import query_lag
from pykafka.spark.offsets import Offsets, from_json
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import first_line
from pykafka.spark.pipeline.events import BATCH, LAG, QUERY_FAILED, STOPPING, Journal, Progress, batch_facts
from pykafka.spark.pipeline.frames import Frames, build, read_stream
from pykafka.spark.pipeline.landing import start
from pykafka.spark.pipeline.model import Sink, Source
from pykafka.spark.pipeline.storage import Storage
from pykafka.spark.pythons import limits_micro_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


#: Options that limit a micro-batch, in lower case.
_LIMITS = {"maxoffsetspertrigger", "minoffsetspertrigger"}

log = logging.getLogger("pykafka.spark.pipeline")

#: Pause between polls of the queries (s); shorter if one must stop before its next micro-batch.
_POLL_INTERVAL_S, _CLOSE_POLL_INTERVAL_S = 0.2, 0.05
AVAILABLE_NOW: Mapping[str, Any] = {"availableNow": True}


class Goal:
    """The ends that a query is to reach; it is run again until it has.

    :param ends: of the partitions of its sources
    """

    def __init__(self, ends: Offsets) -> None:
        self._ends = ends
        self._before: list[Offsets] | None = None

    @classmethod
    def of_queries(cls, ends: Iterable[str]) -> Goal:
        """Return the ends that other queries have reached.

        :param ends: the end of each of their sources, as in Spark's progress
        """
        furthest: Offsets = {}
        for end in parsed(ends):
            furthest |= {tp: max(offset, furthest.get(tp, 0)) for tp, offset in end.items()}
        return cls(furthest)

    def needs_more(self, ends: Sequence[str]) -> bool:
        """Return whether one more micro-batch is to run. Ask after each.

        :param ends: the end of each of the query's sources after the last one, as in Spark's progress
        """
        reached = parsed(ends)
        if reached == self._before:
            # A partition is gone, or waits for a transaction: it does not come to this end.
            return False
        self._before = reached
        return self._is_before(reached)

    def _is_before(self, reached: list[Offsets]) -> bool:
        # Topics that it does not read are in the goal of all queries, too.
        topics = {tp.topic for end in reached for tp in end}
        wanted = {tp: offset for tp, offset in self._ends.items() if tp.topic in topics or not topics}
        seen = {tp for end in reached for tp in end}
        return any(offset > 0 for tp, offset in wanted.items() if tp not in seen) or any(
            end[tp] < offset for tp, offset in wanted.items() for end in reached if tp in end
        )


def present_ends(sources: Iterable[Source]) -> Offsets:
    """Return the present ends of sources.

    :raises OptionError: an option of a source is wrong
    :raises NoBrokersAvailableError: no broker answered
    """
    ends: Offsets = {}
    for source in sources:
        with closing(OffsetReader(read_options(source.options, Mode.STREAM_READ))) as reader:
            ends |= reader.latest(reader.partitions())
    return ends


def without_limits(source: Source) -> Source:
    """Return a source whose micro-batches are not limited, for Trigger.Once."""
    options: Mapping[str, str] = {name: text for name, text in source.options.items() if name.lower() not in _LIMITS}
    return replace(source, options=options)


def parsed(ends: Iterable[str]) -> list[Offsets]:
    """Return the ends of sources as in Spark's progress, as offsets."""
    return [from_json(json.loads(end) or {}) for end in ends]


class StopRequest:
    """A request to end a pipeline: the first after the micro-batch, the second at once.

    :param grace_s: how long a micro-batch may continue (s)
    """

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self.asked = 0

    def ask(self) -> None:
        """Request a stop; signal handlers may call it."""
        self.asked += 1


@dataclass
class _Query:
    """One streaming query of the pipeline."""

    frame: DataFrame
    sink: Sink
    checkpoint: str
    progress: Progress
    mode: str = "append"
    running: StreamingQuery | None = None
    seen: tuple[int, str] | None = None
    ends: Sequence[str] = ()
    #: Where Spark ends a query after one micro-batch: what it is to reach.
    goal: Goal | None = None


class Pipeline:
    """A declaration in execution.

    :param declaration: the pipeline to run
    :param spark: the session that runs it
    :param show: called with each new progress of the records
    :param stop: ends the pipeline
    :param journal: gets each micro-batch
    :raises DeclarationError: Spark refuses a part of the declaration
    """

    def __init__(
        self,
        declaration: Declaration,
        spark: SparkSession,
        show: Callable[[Progress], None],
        stop: StopRequest,
        journal: Journal | None = None,
    ) -> None:
        self._handler: Handler = ThreadingHandler()
        self._journal = journal or Journal(declaration.name, self._handler)
        self._show = show
        self._stop = stop
        self._trigger = trigger(declaration)
        self._declaration = declaration
        self._spark = spark
        storage = Storage(spark)
        self._sources: list[Source] = []
        self._is_alone = not limits_micro_batches()
        self._repeats = self._is_alone and declaration.trigger == "available_now"
        self._has_run = False
        frames = self._built()
        self._rows = [
            _Query(
                frame,
                output.sink,
                declaration.checkpoint_of(output.directory),
                Progress(declaration.query_of(output)),
                output.mode,
            )
            for output, frame in frames.rows
        ]
        self._malformed = [
            _Query(
                frame,
                one.malformed,
                declaration.checkpoint_of(one.malformed_directory),
                Progress(f"{declaration.name}-{one.malformed_directory}"),
            )
            for one, frame in frames.malformed
            if one.malformed is not None
        ]
        self._is_new = any(storage.last_number(f"{query.checkpoint}/offsets") is None for query in self._rows)

    def _built(self) -> Frames:
        """Return the streams, with the schemas that a registry has now.

        :raises DeclarationError: Spark, or the registry, refuses a part of the declaration
        """
        self._sources.clear()

        def read(source: Source) -> DataFrame:
            self._sources.append(source)
            limited = not (self._is_alone and self._declaration.trigger == "once")
            return read_stream(self._spark, source if limited else without_limits(source))

        return build(self._declaration, read)

    def _renew(self) -> None:
        """Build the streams again; what has been counted stays."""
        frames = self._built()
        for query, (_, frame) in zip(self._rows, frames.rows, strict=True):
            query.frame = frame
        for query, (_, frame) in zip(self._malformed, frames.malformed, strict=True):
            query.frame = frame

    def run(self) -> tuple[Progress, ...]:
        """Run until the trigger is done, or until a stop request; may be called again after a failure.

        Another run asks a schema registry again, as the start of another process does.

        :returns: the progress of each sink in all runs, in the order of the declaration
        :raises DeclarationError: Spark, or the registry, refuses a part of the declaration now
        :raises pyspark.errors.StreamingQueryException: a query failed; the others are stopped then
        """
        if self._has_run:
            self._renew()
        self._has_run = True
        for one in self._queries():
            one.running = None
        if self._repeats:
            ends = present_ends(self._sources)
            for each in self._queries():
                each.goal = Goal(ends)
        with stopped_at_the_end(lambda: [one.running for one in self._queries() if one.running is not None]):
            # First, and until their start is noted: if all start at `latest`, one would leave out malformed records between
            # the starts, and the other would not keep them.
            if not self._stop.asked:
                self._start(self._malformed)
            if self._malformed and self._is_new:
                self._watch(until=lambda: all(map(_has_begun, self._malformed)))
            if not self._stop.asked:
                self._start_rows()
                self._watch(until=lambda: False)
            if not self._stop.asked:
                behind = [query for query in self._malformed if self._is_behind(query)]
                if behind:
                    if self._repeats:
                        for each in behind:
                            each.goal = Goal.of_queries(end for row in self._rows for end in row.ends)
                    self._start(behind)
                    self._watch(until=lambda: False)
        return self.progress

    @property
    def progress(self) -> tuple[Progress, ...]:
        """The progress of each sink in all runs so far, in the order of the declaration."""
        return tuple(query.progress for query in self._rows)

    def _start(self, queries: Iterable[_Query]) -> None:
        for query in queries:
            try:
                query.running = start(
                    query.frame, query.sink, query.checkpoint, query.progress.query, self._trigger, query.mode
                )
            except Exception:
                self._publish_failure(query)
                raise

    def _publish_failure(self, query: _Query) -> None:
        self._journal.publish(QUERY_FAILED, {"query": query.progress.query})

    def _start_rows(self) -> None:
        """Start each query when the one before has begun: the processes that plan many at once would wait too long."""
        for query in self._rows:
            if not self._stop.asked:
                self._start([query])
                if query is not self._rows[-1]:
                    self._watch(until=partial(_has_begun, query))

    def _queries(self) -> list[_Query]:
        return [*self._malformed, *self._rows]

    def _active(self) -> list[StreamingQuery]:
        running = [query.running for query in self._queries()]
        return [query for query in running if query is not None and query.isActive]

    def _start_again(self, active: list[StreamingQuery]) -> bool:
        """Start the queries again that have ended and are to read more; return whether there are any."""
        ended = [query for query in self._queries() if query.running is not None and query.running not in active]
        again = [query for query in ended if query.goal is not None and query.goal.needs_more(query.ends)]
        self._start(again)
        return bool(again)

    def _watch(self, until: Callable[[], bool]) -> None:
        """Poll the queries until all have ended, `until` returns True, or a stop request comes; then stop them."""
        while True:
            active = self._active()
            self._look()
            if self._stop.asked:
                self._end()
                return
            if until() or not (self._start_again(active) or active):
                return
            self._handler.sleep(_POLL_INTERVAL_S)

    def _look(self) -> None:
        """Process new progress reports, and failures.

        :raises pyspark.errors.StreamingQueryException: a query failed
        """
        for query in self._queries():
            if query.running is None:
                continue
            failure = query.running.exception()
            if failure is not None:
                self._publish_failure(query)
                raise failure
            last = query.running.lastProgress
            if last is None or _stamp(last) == query.seen:
                continue
            for report in query.running.recentProgress:  # it may have more reports by now
                if query.seen is None or _stamp(report) > query.seen:
                    query.seen = _stamp(report)
                    lag = query_lag(report)
                    parsed_report, batches = json.loads(report.json), query.progress.batches
                    # Not from the report's attributes: PySpark 4.0 and 4.1 have Python's text of a dict there.
                    query.ends = [_as_json(source["endOffset"]) for source in parsed_report["sources"]]
                    query.progress = query.progress.after(parsed_report, None if lag is None else lag.total)
                    facts = batch_facts(query.progress.query, parsed_report, lag)
                    self._journal.publish(BATCH if query.progress.batches > batches else LAG, facts)
            if query in self._rows:
                self._show(query.progress)

    def _end(self) -> None:
        """Stop each query when its micro-batch has ended; at once after the grace period, or on a second request."""
        self._journal.publish(STOPPING, {"grace_s": self._stop.grace_s})
        for row in self._rows:
            self._show(row.progress)
        deadline = self._handler.now() + self._stop.grace_s
        waiting = {query: _stamp_of(query) for query in self._active()}
        while waiting:
            hurried = self._stop.asked > 1 or self._handler.now() > deadline
            for query, stamp in list(waiting.items()):
                if hurried or not query.status["isTriggerActive"] or _stamp_of(query) != stamp:
                    query.stop()
                    del waiting[query]
            self._look()
            self._handler.sleep(_CLOSE_POLL_INTERVAL_S)

    def _is_behind(self, malformed: _Query) -> bool:
        """Return whether rows went further than the malformed records: each query has its own end of the topics."""
        if not malformed.ends:
            return any(query.ends for query in self._rows)
        (own,) = parsed(malformed.ends)
        ends = [end for query in self._rows for end in parsed(query.ends)]
        return any(_topics(end) & _topics(own) and end != own for end in ends)


@contextmanager
def stopped_at_the_end(queries: Callable[[], Iterable[StreamingQuery]]) -> Iterator[None]:
    """Stop queries at the end of the block, each of them, also if one does not stop in time or Spark is gone.

    :param queries: returns them
    :raises PySparkException: one did not stop; an error of the block comes before it
    :raises Py4JError: the same
    """
    try:
        yield
    except BaseException:
        for error in _stop(queries()):
            log.warning("a query did not stop: %s", first_line(error))
        raise
    for error in _stop(queries()):
        raise error


def _stop(queries: Iterable[StreamingQuery]) -> list[Exception]:
    """Stop queries; return the errors of those that do not."""
    errors: list[Exception] = []
    for query in queries:
        try:
            if query.isActive:
                query.stop()
        except (PySparkException, Py4JError, OSError) as error:  # py4j lets a refused connection through
            errors.append(error)
    return errors


def trigger(declaration: Declaration) -> Mapping[str, Any]:
    """Return a declaration's trigger in Spark's form."""
    known = {"available_now": AVAILABLE_NOW, "once": {"once": True}}
    return known.get(declaration.trigger, {"processingTime": declaration.trigger})


def _as_json(end: Any) -> str:
    return end if isinstance(end, str) else json.dumps(end)


def _stamp(report: Any) -> tuple[int, str]:
    # A query without new records reports the same micro-batch again, with another time.
    return report.batchId, report.timestamp


def _stamp_of(query: StreamingQuery) -> tuple[int, str] | None:
    last = query.lastProgress
    return None if last is None else _stamp(last)


def _has_begun(query: _Query) -> bool:
    """Return whether a query has noted its start."""
    assert query.running is not None
    if not query.running.isActive:
        return True
    return query.running.lastProgress is not None or query.running.status["isDataAvailable"]


def _topics(offsets: Offsets) -> set[str]:
    return {tp.topic for tp in offsets}
