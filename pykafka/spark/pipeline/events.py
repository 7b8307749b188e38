"""The events of a pipeline: micro-batches, failures, restarts; published to its watchers, as facts in the form of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pykafka.spark.pipeline.model import DEAD_LETTERS, MALFORMED, METRICS, ROWS

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.spark.lag import QueryLag

#: Kinds of events.
STARTED, BATCH, LAG, FAILED, RESTARTING = "started", "batch", "lag", "failed", "restarting"
RECOVERED, STOPPING, ENDED = "recovered", "stopping", "ended"
#: Of one query, before the pipeline fails; as lags, for those that watch from within.
QUERY_FAILED = "query_failed"


@dataclass(frozen=True)
class Counts:
    """The records of one micro-batch.

    :param rows: number of records read
    :param malformed: number of malformed records among them
    :param dead_letters: number of records that went to the dead letters
    """

    rows: int
    malformed: int
    dead_letters: int


def counted(report: Mapping[str, Any]) -> Counts:
    """Return the counts in a progress report.

    :param report: StreamingQueryProgress, parsed from its JSON
    """
    # Several sources and steps have metrics of several names.
    found = [counts or {} for name, counts in report.get("observedMetrics", {}).items() if name.startswith(METRICS)]
    rows, malformed, dead = (
        sum(int(counts.get(name) or 0) for counts in found) for name in (ROWS, MALFORMED, DEAD_LETTERS)
    )
    # Spark counts a topic twice that a step reads twice, as in a join with itself.
    return Counts(rows or int(report["numInputRows"]), malformed, dead)


@dataclass(frozen=True)
class Progress:
    """The progress of a query in this run.

    :param query: its name
    :param batch: number of the last micro-batch with records, counted since the checkpoint began; -1 before the first
    :param batches: number of micro-batches with records
    :param records: number of records read
    :param malformed: number of malformed records among them
    :param dead_letters: number of records, malformed ones among them, that went to the dead letters
    :param records_per_s: rate of the last micro-batch
    :param lag: records in Kafka beyond it when it began; None if Spark does not report them
    """

    query: str
    batch: int = -1
    batches: int = 0
    records: int = 0
    malformed: int = 0
    dead_letters: int = 0
    records_per_s: float = 0.0
    lag: int | None = None

    def after(self, report: Mapping[str, Any], lag: int | None) -> Progress:
        """Return the progress after one more report of Spark.

        :param report: StreamingQueryProgress, parsed from its JSON
        :param lag: its lag
        """
        counts = counted(report)
        # PySpark 4.0 reports the metrics of a micro-batch once more when the next trigger finds nothing.
        if not counts.rows or int(report["batchId"]) == self.batch:
            return replace(self, lag=self.lag if lag is None else lag)
        return replace(
            self,
            batch=int(report["batchId"]),
            batches=self.batches + 1,
            records=self.records + counts.rows,
            malformed=self.malformed + counts.malformed,
            dead_letters=self.dead_letters + counts.dead_letters,
            records_per_s=float(report.get("processedRowsPerSecond") or 0.0),
            lag=lag,
        )


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    :param kind: "started", "batch", "lag", "failed", "restarting", "recovered", "stopping", "ended" or
        "query_failed"
    :param pipeline: name of the pipeline
    :param at_ms: when (ms since 1970)
    :param facts: the rest, in types of JSON
    """

    kind: str
    pipeline: str
    at_ms: int
    facts: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the event as one object."""
        at = datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"event": self.kind, "pipeline": self.pipeline, "at": at, **self.facts}

    def as_json(self) -> str:
        """Return the event as a line of JSON, without the end of the line."""
        return json.dumps(self.as_dict())


Watcher = Callable[[Event], None]


class Journal:
    """The watchers of a pipeline, in the worker that runs it.

    :param pipeline: its name
    :param handler: has the clock
    :param watchers: called with each event
    """

    def __init__(self, pipeline: str, handler: Handler, watchers: Iterable[Watcher] = ()) -> None:
        self._pipeline = pipeline
        self._handler = handler
        self._watchers = list(watchers)

    def add(self, watcher: Watcher) -> None:
        """Add one that gets all further events."""
        self._watchers.append(watcher)

    def publish(self, kind: str, facts: Mapping[str, Any] | None = None) -> None:
        """Publish an event that happens now to all watchers, also if one fails, as at a closed output."""
        event = Event(kind, self._pipeline, self._handler.time_ms(), facts or {})
        errors: list[Exception] = []
        for watcher in self._watchers:
            try:
                watcher(event)
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
        if errors:
            raise errors[0]


def batch_facts(query: str, report: Mapping[str, Any], lag: QueryLag | None) -> dict[str, Any]:
    """Return the facts of a progress report of Spark.

    :param query: name of the query
    :param report: StreamingQueryProgress, parsed from its JSON
    :param lag: its lag; None if Spark does not report it
    """
    counts = counted(report)
    return {
        "query": query,
        "batch": int(report["batchId"]),
        "rows": counts.rows,
        "malformed": counts.malformed,
        "dead_letters": counts.dead_letters,
        "rows_per_s": round(float(report.get("processedRowsPerSecond") or 0.0), 1),
        "lag": None if lag is None else lag.total,
        "lags": {} if lag is None else _by_topic({(tp.topic, tp.partition): n for tp, n in lag.partitions.items()}),
        "offsets": _offsets(report),
        "state": {
            "rows": sum(int(one.get("numRowsTotal") or 0) for one in report.get("stateOperators") or ()),
            "bytes": sum(int(one.get("memoryUsedBytes") or 0) for one in report.get("stateOperators") or ()),
        },
        "durations_ms": {name: int(ms) for name, ms in (report.get("durationMs") or {}).items()},
    }


def _by_topic(numbers: Mapping[tuple[str, int], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), number in sorted(numbers.items()):
        found.setdefault(topic, {})[str(partition)] = number
    return found


def _offsets(report: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the ends of a micro-batch, of all sources."""
    found: dict[str, dict[str, int]] = {}
    for source in report.get("sources") or ():
        end = source.get("endOffset")
        if isinstance(end, str):  # of other sources it may be any text
            try:
                end = json.loads(end)
            except (ValueError, RecursionError):
                continue
        if isinstance(end, dict):
            for topic, partitions in end.items():
                if isinstance(partitions, dict):
                    found.setdefault(topic, {}).update(partitions)
    return found
