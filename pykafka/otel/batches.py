"""`batch_span`: one span for a batch of many rows, as tasks of Spark read and write them, with a count of the traces in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanKind

from pykafka.otel import names
from pykafka.otel.spans import Spans

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka.handlers import Handler

#: The header of the W3C's trace context, and where the id of the trace stands in it.
TRACEPARENT, TRACE_ID = "traceparent", slice(3, 35)
#: How long the end of a task waits for its span, while a span processor blocks (s).
END_S = 1.0

#: One for the process: its tasks come one after the other.
_spans: Spans | None = None


class BatchCounts:
    """The counts of the rows that have gone by.

    State: of the task that looks.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._traces: set[bytes] = set()
        self._is_known = False

    def look(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches, and count their rows and, by a column of headers, their traces."""
        for batch in batches:
            self.rows += batch.num_rows
            if "headers" in batch.schema.names:
                self._is_known = True
                self._count(batch.column("headers"))
            yield batch

    def _count(self, headers: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        pairs = headers.flatten()
        key, value = pairs.field(0), pairs.field(1)
        chosen = value.filter(pc.equal(key.cast(pa.string()), TRACEPARENT))
        self._traces.update(bytes(one)[TRACE_ID] for one in chosen.to_pylist() if one is not None)

    @property
    def traces(self) -> int | None:
        """How many traces the rows belong to; None if they have no column of headers."""
        return len(self._traces) if self._is_known else None


@contextmanager
def batch_span(
    handler: Handler, operation: str, topic: str | None, partition: int | None = None
) -> Iterator[Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]]:
    """Make one span of a task, by the global providers; the value is a function through which its batches go.

    :param handler: of the process
    :param operation: "poll" or "send"
    :param topic: None for several
    :param partition: None for several
    """
    global _spans
    spans = _spans = _spans or Spans(handler, None, None, {names.SYSTEM: "kafka"})
    began, began_ms, counts = spans.now(), spans.now_ms(), BatchCounts()
    failure: BaseException | None = None
    try:
        yield counts.look
    except GeneratorExit:  # Spark wants no more rows
        raise
    except BaseException as error:
        failure = error
        raise
    finally:
        if counts.rows or failure is not None:  # many a task has no rows
            attributes: dict[str, Any] = {names.COUNT: counts.rows}
            if partition is not None:
                attributes[names.PARTITION] = str(partition)
            if counts.traces is not None:
                attributes[names.TRACES] = counts.traces
            sends = operation == "send"
            kind, of = (names.SEND, SpanKind.PRODUCER) if sends else (names.RECEIVE, SpanKind.CLIENT)
            span = spans.start(operation, kind, topic, attributes, of=of, start_ns=began_ms * 1_000_000)
            spans.end(span, began, attributes, failure, {topic: counts.rows})
            spans.finisher.join(END_S)
