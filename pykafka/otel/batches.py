"""`batch_span`: one span for a batch of many rows, as tasks of Spark read and write them, with a count of the traces in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
#: How many hashes of traces a task keeps, and how many hashes there are.
KEPT_MAX, HASHES = 2048, 1 << 61
#: How long the end of a task waits for its span, while a span processor blocks (s).
END_S = 1.0

#: One for the process: its tasks come one after the other.
_spans: Spans | None = None


class DistinctCount:
    """The number of distinct things that were added: exact up to `KEPT_MAX`, beyond that an estimate, within some 5 %.

    It keeps the lowest hashes of all: the more distinct things there are, the lower is the highest of these (KMV).
    """

    def __init__(self) -> None:
        self._lowest: set[int] = set()
        #: Hashes from this one on are not among the lowest.
        self._bound = HASHES

    def add(self, things: Iterable[bytes]) -> None:
        """See some."""
        bound = self._bound
        self._lowest.update(hashed for one in things if (hashed := hash(one) % HASHES) < bound)
        if len(self._lowest) > KEPT_MAX:
            kept = sorted(self._lowest)[:KEPT_MAX]
            self._lowest, self._bound = set(kept), kept[-1] + 1

    @property
    def value(self) -> int:
        """The number."""
        if self._bound == HASHES:
            return len(self._lowest)
        return round((KEPT_MAX - 1) * HASHES / self._bound)


class BatchCounts:
    """The counts of the rows that have gone by.

    State: of the task that looks.

    :param failed: called with what has failed, and the error
    """

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self.rows = 0
        self._failed = failed
        self._traces: DistinctCount | None = None

    def look(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches, and count their rows and, by a column of headers, their traces."""
        for batch in batches:
            self.rows += batch.num_rows
            try:
                if "headers" in batch.schema.names:
                    self._count(batch.column("headers"))
            except Exception as error:  # noqa: BLE001 - of a column of another shape, which must not cost the rows
                self._failed("counting the traces of rows", error)
            yield batch

    def _count(self, headers: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        pairs = headers.flatten()
        key, value = pairs.field(0), pairs.field(1)
        chosen = value.filter(pc.equal(key.cast(pa.string()), TRACEPARENT)).cast(pa.binary())
        ids = pc.unique(pc.binary_slice(chosen, TRACE_ID.start, TRACE_ID.stop))
        self._traces = self._traces or DistinctCount()
        self._traces.add(one for one in ids.to_pylist() if one is not None)

    @property
    def traces(self) -> int | None:
        """How many traces the rows belong to; None if they have no column of headers."""
        return None if self._traces is None else self._traces.value


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
    began, began_ms, counts = spans.now(), spans.now_ms(), BatchCounts(spans.failed)
    if spans.is_silent(began):
        yield iter
        return
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
            span = spans.start_operation(operation, kind, topic, attributes, of=of, start_ns=began_ms * 1_000_000)
            spans.end(span, began, attributes, failure, {topic: counts.rows})
            spans.finisher.join(END_S)
