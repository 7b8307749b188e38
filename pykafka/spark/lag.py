# ruff: noqa: N802 - the names of methods are Spark's
"""The lag of streaming queries behind their topics, from Spark's progress reports."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pykafka.common import TopicPartition
from pykafka.spark.errors import OptionError
from pykafka.spark.offsets import Offsets, from_json

log = logging.getLogger("pykafka.spark.lag")

# PySpark 4.0 and 4.1 report the end of the micro-batch as latestOffset.
_KNOWN = find_spec("pyspark.sql.streaming.datasource") is not None


@dataclass(frozen=True, slots=True)
class QueryLag:
    """The records that a query had not read when Spark planned its last micro-batch.

    :param query: its name, or its id if it has none
    :param batch: number of the micro-batch
    :param partitions: records not read, by partition
    """

    query: str
    batch: int
    partitions: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """Records not read, of all partitions."""
        return sum(self.partitions.values())

    def __str__(self) -> str:
        worst = sorted(self.partitions.items(), key=lambda item: -item[1])[:3]
        shown = ", ".join(f"{tp}: {lag}" for tp, lag in worst if lag)
        return f"query {self.query}, micro-batch {self.batch}: {self.total} records behind" + (
            f" ({shown})" if shown else ""
        )


def query_lag(progress: Any) -> QueryLag | None:
    """Return the lag in a progress report, or None if the report has none.

    PySpark 4.2 and later report it. Earlier ones do not (see the option commitProgressTo), nor do queries that read another
    source.

    :param progress: `query.lastProgress`, or `.progress` of an event
    """
    partitions: dict[TopicPartition, int] = {}
    for source in progress["sources"] if _KNOWN else ():
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if end is not None and latest is not None:
            partitions |= {tp: max(0, offset - end.get(tp, 0)) for tp, offset in latest.items()}
    if not partitions:
        return None
    return QueryLag(str(progress["name"] or progress["id"]), int(progress["batchId"]), partitions)


def _offsets(text: Any) -> Offsets | None:
    # Other sources have other forms, or none: "null", "None" or the text of a Java object.
    try:
        found = json.loads(text) if isinstance(text, str) else text
        return from_json(found) if found else None
    except (OptionError, ValueError, RecursionError):
        return None


class LagListener(StreamingQueryListener):
    """A listener that reports the lag of a session's streaming queries: `spark.streams.addListener(LagListener())`.

    Each micro-batch's lag is logged, by the logger `pykafka.spark.lag`, and kept in `lags` while the query runs.

    :param on_lag: called with each `QueryLag`, on a thread of PySpark
    """

    def __init__(self, on_lag: Callable[[QueryLag], None] | None = None) -> None:
        self._on_lag = on_lag
        #: The last lag of each running query, by the id of its run.
        self.lags: dict[str, QueryLag] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Log the lag of a progress report, and pass it on."""
        lag = query_lag(event.progress)
        if lag is None:
            return
        self.lags[str(event.progress.runId)] = lag
        log.info("%s", lag)
        if self._on_lag is not None:
            self._on_lag(lag)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query."""
        self.lags.pop(str(event.runId), None)
