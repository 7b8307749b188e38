# ruff: noqa: N802 - the names of methods are Spark's
"""How far streaming queries are behind their topics, by what Spark tells of their progress."""

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

# What PySpark 4.0 and 4.1 call latestOffset is where the micro-batch ends.
_KNOWN = find_spec("pyspark.sql.streaming.datasource") is not None


@dataclass(frozen=True, slots=True)
class QueryLag:
    """What a query had not read when its last micro-batch was planned.

    :param query: its name, or its id where it has none
    :param batch: number of the micro-batch
    :param partitions: records not read, by partition
    """

    query: str
    batch: int
    partitions: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """Records not read of all partitions."""
        return sum(self.partitions.values())

    def __str__(self) -> str:
        worst = sorted(self.partitions.items(), key=lambda item: -item[1])[:3]
        shown = ", ".join(f"{tp}: {lag}" for tp, lag in worst if lag)
        return f"query {self.query}, micro-batch {self.batch}: {self.total} records behind" + (
            f" ({shown})" if shown else ""
        )


def query_lag(progress: Any) -> QueryLag | None:
    """Return the lag that a progress tells of, or None where it tells of none.

    PySpark 4.2 or later has it; of earlier ones (see the option commitProgressTo), and of queries that read something
    else, there is nothing to tell.

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
    # Other sources have other shapes, or say nothing: "null", "None" or the text of a Java object.
    try:
        found = json.loads(text) if isinstance(text, str) else text
        return from_json(found) if found else None
    except (OptionError, ValueError):
        return None


class LagListener(StreamingQueryListener):
    """Tell how far the streaming queries of a session are behind: `spark.streams.addListener(LagListener())`.

    Each micro-batch's lag is logged, by the logger `pykafka.spark.lag`, and kept in `lags` while the query runs.

    :param on_lag: called with each `QueryLag`, on a thread of PySpark's
    """

    def __init__(self, on_lag: Callable[[QueryLag], None] | None = None) -> None:
        self._on_lag = on_lag
        #: The last lag of each query that runs, by the id of its run.
        self.lags: dict[str, QueryLag] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take the lag from the progress, log it and hand it over."""
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
