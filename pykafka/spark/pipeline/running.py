"""Execution of a pipeline: its streaming queries, watched until they end or a stop request comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykafka.handlers import Handler, ThreadingHandler
from pykafka.spark.lag import query_lag
from pykafka.spark.pipeline.declaration import Declaration, ParquetSink, Sink
from pykafka.spark.pipeline.frames import build, read_stream
from pykafka.spark.pipeline.progress import Progress
from pykafka.spark.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Pause between polls of the queries (s); shorter if one must stop before its next micro-batch.
_LOOK_S, _LOOK_CLOSELY_S = 0.2, 0.05
#: The queries' directories in the checkpoint.
RECORDS, MALFORMED = "records", "malformed"
AVAILABLE_NOW: Mapping[str, Any] = {"availableNow": True}


class StopRequest:
    """A request to end a pipeline: the first after the micro-batch, the second at once.

    :param grace_s: how long a micro-batch may go on (s)
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
    running: StreamingQuery | None = None
    seen: tuple[int, str] | None = None
    ends: Any = None


class Pipeline:
    """A declaration in execution.

    :param declaration: the pipeline to run
    :param spark: the session that runs it
    :param show: called with each new progress of the records
    :param stop: ends the pipeline
    :raises DeclarationError: Spark refuses a part of the declaration
    """

    def __init__(
        self, declaration: Declaration, spark: SparkSession, show: Callable[[Progress], None], stop: StopRequest
    ) -> None:
        self._handler: Handler = ThreadingHandler()
        self._show = show
        self._stop = stop
        self._trigger = trigger(declaration)
        root, name = declaration.checkpoint.rstrip("/"), declaration.name
        self._is_new = Storage(spark).last_number(f"{root}/{RECORDS}/offsets") is None
        frames = build(declaration, lambda source: read_stream(spark, source))
        self._records = _Query(frames.rows, declaration.sink, f"{root}/{RECORDS}", Progress(name))
        self._malformed: _Query | None = None
        if frames.malformed is not None and declaration.malformed is not None:
            kept = Progress(f"{name}-malformed")
            self._malformed = _Query(frames.malformed, declaration.malformed, f"{root}/{MALFORMED}", kept)

    def run(self) -> Progress:
        """Run until the trigger is done, or until a stop request.

        :returns: the progress of this run
        :raises pyspark.errors.StreamingQueryException: a query failed; the other one is stopped then
        """
        try:
            if self._malformed is not None:
                # First, and until its start is noted: if both start at `latest`, one would leave out malformed records between
                # the two starts, and the other would not keep them.
                self._start(self._malformed)
                if self._is_new:
                    self._watch(until=lambda: _has_begun(self._malformed))
            if not self._stop.asked:
                self._start(self._records)
                self._watch(until=lambda: False)
            if self._malformed is not None and not self._stop.asked and self._is_behind():
                self._start(self._malformed)
                self._watch(until=lambda: False)
        finally:
            for query in self._active():
                query.stop()
        return self._records.progress

    def _start(self, query: _Query) -> None:
        query.running = start(query.frame, query.sink, query.checkpoint, query.progress.query, self._trigger)

    def _active(self) -> list[StreamingQuery]:
        running = [query.running for query in (self._records, self._malformed) if query is not None]
        return [query for query in running if query is not None and query.isActive]

    def _watch(self, until: Callable[[], bool]) -> None:
        """Poll the queries until all have ended, `until` returns True, or a stop request comes; then stop them."""
        while True:
            active = self._active()
            self._look()
            if self._stop.asked:
                self._end()
                return
            if not active or until():
                return
            self._handler.sleep(_LOOK_S)

    def _look(self) -> None:
        """Process new progress reports, and failures.

        :raises pyspark.errors.StreamingQueryException: a query failed
        """
        for query in (self._malformed, self._records):
            if query is None or query.running is None:
                continue
            failure = query.running.exception()
            if failure is not None:
                raise failure
            last = query.running.lastProgress
            if last is None or _stamp(last) == query.seen:
                continue
            before, query.seen = query.seen, _stamp(last)
            for report in query.running.recentProgress:
                if before is None or _stamp(report) > before:
                    lag = query_lag(report)
                    query.ends = [source.endOffset for source in report.sources]
                    query.progress = query.progress.after(json.loads(report.json), None if lag is None else lag.total)
            if query is self._records:
                self._show(query.progress)

    def _end(self) -> None:
        """Stop each query when its micro-batch has ended; at once after the grace period, or on a second request."""
        self._show(self._records.progress)
        deadline = self._handler.now() + self._stop.grace_s
        waiting = {query: _stamp_of(query) for query in self._active()}
        while waiting:
            hurried = self._stop.asked > 1 or self._handler.now() > deadline
            for query, stamp in list(waiting.items()):
                if hurried or not query.status["isTriggerActive"] or _stamp_of(query) != stamp:
                    query.stop()
                    del waiting[query]
            self._look()
            self._handler.sleep(_LOOK_CLOSELY_S)

    def _is_behind(self) -> bool:
        """Return whether the rows went further than the malformed records: each query has its own end of the topic."""
        return (
            self._records.ends is not None
            and self._malformed is not None
            and self._records.ends != self._malformed.ends
        )


def trigger(declaration: Declaration) -> Mapping[str, Any]:
    """Return a declaration's trigger in Spark's form."""
    known = {"available_now": AVAILABLE_NOW, "once": {"once": True}}
    return known.get(declaration.trigger, {"processingTime": declaration.trigger})


def start(frame: DataFrame, sink: Sink, checkpoint: str, name: str, when: Mapping[str, Any]) -> StreamingQuery:
    """Start a query that writes a stream.

    :param frame: the stream
    :param sink: its destination
    :param checkpoint: directory of its progress
    :param name: name of the query
    :param when: arguments of Spark's trigger()
    """
    writer = frame.writeStream.queryName(name).outputMode("append").trigger(**when)
    writer = writer.options(**sink.options).option("checkpointLocation", checkpoint)
    if isinstance(sink, ParquetSink):
        return writer.format("parquet").partitionBy(*sink.partition_by).start(sink.path)
    return writer.format("pykafka").start()


def _stamp(report: Any) -> tuple[int, str]:
    # A query without new records reports the same micro-batch again, with another time.
    return report.batchId, report.timestamp


def _stamp_of(query: StreamingQuery) -> tuple[int, str] | None:
    last = query.lastProgress
    return None if last is None else _stamp(last)


def _has_begun(query: _Query | None) -> bool:
    """Return whether a query has noted its start."""
    assert query is not None
    assert query.running is not None
    return query.running.lastProgress is not None or query.running.status["isDataAvailable"]
