"""Dead letters in a single pass: a tap in the plan of a query, which sends records that failed and lets the others through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql
from pyspark.sql.pandas import functions

from pykafka.spark.pipeline.model import DEAD_LETTERS, KAFKA, METRICS, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NAME = "dead_letters_of_"


class Taps:
    """The taps of one query.

    Spark evaluates a tap once a row, as it is not deterministic, and cannot leave it out, as a filter needs its result. Good
    rows give it a null, so it costs them little. The letters of an Arrow batch are acknowledged before its good rows continue.

    :param sink: the topic
    :param pipeline: name of the pipeline, for a header
    :param sent: the views whose dead letters other queries send already: several queries read a view that several sinks need
    """

    def __init__(self, sink: TopicSink, pipeline: str, sent: frozenset[str]) -> None:
        self._sink = sink
        self._pipeline = pipeline
        self._sent = sent

    def through(self, rows: DataFrame, view: str, reason: Column) -> DataFrame:
        """Return the rows without a reason; the others go to the topic.

        :param rows: with the struct `kafka`
        :param view: what they become; the tap has its name
        :param reason: text or null
        """
        if view in self._sent:
            return rows.where(reason.isNull())
        counted = rows.observe(f"{METRICS}_{DEAD_LETTERS}_{view}", sql.count(reason).alias(DEAD_LETTERS))
        return counted.where(_tap(self._sink, self._pipeline, view)(sql.when(reason.isNotNull(), _letter(reason))))


def is_supported() -> bool:
    """Return whether this PySpark has what taps are made of."""
    return hasattr(functions, "arrow_udf")


def taps_in(rows: DataFrame, views: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the views whose taps the query of a sink has, and those whose taps it evaluates.

    Spark leaves out a tap with a part of the plan that no row can come from, as behind `WHERE false`.

    :param rows: of the sink
    :param views: all that may have one
    """
    query = rows._jdf.queryExecution().analyzed()
    # A stream has no optimized plan before it runs.
    left = rows._jdf.sparkSession().sessionState().optimizer().execute(query)
    plans = str(query.toString()), str(left.toString())
    declared, evaluated = (frozenset(view for view in views if f"{_NAME}{view}(" in plan) for plan in plans)
    return declared, evaluated


def _tap(sink: TopicSink, pipeline: str, view: str) -> Any:
    import pyarrow as pa

    options = dict(sink.options)

    def tap(letters: Any) -> Any:
        from pykafka.spark.pipeline.letters import send

        return send(letters, options, pipeline)

    tap.__name__ = f"{_NAME}{view}"
    tap.__annotations__ = {
        "letters": pa.Array,
        "return": pa.Array,
    }  # Spark takes its kind from them, and has no text resolved
    make: Any = functions.arrow_udf  # its types know only the way that it warns of
    return make(tap, "boolean").asNondeterministic()


def _letter(reason: Column) -> Column:
    """Return a record as JSON: one text costs rows without one less than a struct of as many columns does."""
    kafka = sql.col(KAFKA)
    headers = sql.transform(
        kafka["headers"], lambda one: sql.struct(one["key"].alias("key"), sql.base64(one["value"]).alias("value"))
    )
    return sql.to_json(
        sql.struct(
            sql.base64(kafka["key"]).alias("key"),
            sql.base64(kafka["value"]).alias("value"),
            *(kafka[name].alias(name) for name in ("topic", "partition", "offset")),
            sql.unix_millis(kafka["timestamp"]).alias("timestamp"),
            headers.alias("headers"),
            reason.cast("string").alias("reason"),
        )
    )
