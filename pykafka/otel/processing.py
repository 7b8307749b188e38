"""`Processing`: a record in the hands of the application, with its span current; and loops that go from one to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from opentelemetry import context as contexts
from opentelemetry.trace import INVALID_SPAN, SpanKind, get_current_span, set_span_in_context

from pykafka.otel import names
from pykafka.otel.spans import NOTHING

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

    from pykafka.otel.records import RecordSpans
    from pykafka.otel.spans import Ending

R = TypeVar("R")

#: How long the span of a loop that was left waits for the error that may have ended it (s).
GRACE_S = 0.05


class Processing:
    """The handling of one record: a span `process`, which is current from `begin()` to `end()`.

    :param tracer: of the client
    :param record: that is handled
    :param group: of the consumer; None for none
    :param links: contexts of other spans of the record
    :param counts: whether it counts the record as consumed; else the `poll` does that returned it
    """

    __slots__ = (
        *("_attributes", "_began", "_context", "_counted", "_group", "_links", "_previous", "_record", "_tracer"),
        "span",
    )

    def __init__(
        self,
        tracer: RecordSpans,
        record: Any,
        group: str | None,
        links: Sequence[SpanContext | None] = (),
        counts: bool = False,
    ) -> None:
        self._tracer = tracer
        self._record = record
        self._group = group
        self._links = links
        self._counted = {record.topic: 1} if counts else NOTHING
        self._context: Context | None = None
        self._attributes: dict[str, Any] = {}
        self.span: Span = INVALID_SPAN

    def begin(self) -> None:
        """Start the span, and make it current."""
        tracer = self._tracer
        self._began = tracer.spans.now()
        try:
            self._start()
        except Exception as error:  # noqa: BLE001 - of a propagator
            tracer.spans.failed("starting a span", error)

    def _start(self) -> None:
        tracer, record = self._tracer, self._record
        attributes = self._attributes = tracer.of_record(record, self._group)
        self._previous = contexts.get_current()
        parent, links = tracer.headers.extracted(record.headers, self._previous), list(self._links)
        if tracer.links_only:
            links.append(tracer.headers.creation(record.headers))
            parent = set_span_in_context(get_current_span(self._previous), parent)
        self.span = tracer.spans.start(
            "process", names.PROCESS, record.topic, attributes, context=parent, links=links, of=SpanKind.CONSUMER
        )
        held = record._held()
        if hasattr(held, "trace") and held.trace is None:
            held.trace = self.span.get_span_context()
        self._context = set_span_in_context(self.span, parent)
        contexts.attach(self._context)

    def leave(self) -> None:
        """Make current what was before, unless this runs elsewhere, or the application has made something else current.

        Tokens would have to be given back in the same context, which a loop cannot promise.
        """
        if self._context is not None and contexts.get_current() is self._context:
            contexts.attach(self._previous)
        self._context = None

    def end(self, error: BaseException | None = None, grace_s: float = 0.0) -> Ending | None:
        """End the span, and make current what was before.

        :param error: that has ended the handling
        :param grace_s: how long the error may still come (s)
        """
        self.leave()
        if not self._attributes:  # it could not begin
            return None
        spans = self._tracer.spans
        return spans.end(self.span, self._began, self._attributes, error, self._counted, grace_s=grace_s)

    def __enter__(self) -> Span:
        self.begin()
        return self.span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(None if isinstance(error, GeneratorExit) else error)


def each(tracer: RecordSpans, consumer: Any, records: Iterator[R], group: str | None) -> Iterator[R]:
    """Yield records, the span of each being current until the loop asks for the next one, or ends."""
    for record in records:
        step = Processing(tracer, record, group, counts=True)
        step.begin()
        try:
            yield record
        except GeneratorExit:
            tracer.park(consumer, step.end(grace_s=GRACE_S))
            raise
        except BaseException as error:  # by `throw()`
            step.end(error)
            raise
        step.end()


class EachAsync(AsyncIterator[R]):
    """The same for `async for`, which holds it, and lets it go when it is left.

    :param tracer: of the client
    :param consumer: that has the records
    :param records: the facade of that
    :param group: of the consumer
    """

    def __init__(self, tracer: RecordSpans, consumer: Any, records: AsyncIterator[R], group: str | None) -> None:
        self._tracer = tracer
        self._consumer = consumer
        self._records = records
        self._group = group
        self._step: Processing | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        step, self._step = self._step, None
        if step is not None:
            step.end()
        record = await self._records.__anext__()
        self._step = step = Processing(self._tracer, record, self._group, counts=True)
        step.begin()
        return record

    def __del__(self) -> None:
        if self._step is not None:
            self._tracer.park(self._consumer, self._step.end(grace_s=GRACE_S))
