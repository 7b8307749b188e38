"""`Processing`: a record in the hands of the application, with its span current; and loops that go from one to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from opentelemetry import context as contexts
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanKind, get_current_span, set_span_in_context

from pykafka.otel import names
from pykafka.otel.records import fields_of
from pykafka.otel.spans import close

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

    from pykafka.otel.finisher import Tally
    from pykafka.otel.records import Place, RecordSpans

R = TypeVar("R")

#: How long the span of a loop that was left waits for the error that may have ended it (s).
GRACE_S = 0.05


class Processing:
    """The handling of one record: a span `process`, which is current from `begin()` to `end()`; then its end, for the finisher.

    :param tracer: of the client
    :param record: that is handled
    :param group: of the consumer; None for none
    :param links: contexts of other spans of the record
    :param counts: whether it counts the record as consumed; else the `poll` does that returned it
    """

    __slots__ = (
        *("_began", "_context", "_counts", "_group", "_links", "_place", "_previous", "_record", "_seconds", "_tracer"),
        # `due`: until when the error of a block may still come, of the handler's clock (s); 0.0 for none.
        *("done", "due", "error", "span"),
    )

    span: Span
    error: BaseException | None
    due: float
    done: bool

    def __init__(
        self,
        tracer: RecordSpans,
        record: Any,
        group: str | None,
        links: Sequence[SpanContext | None] = (),
        counts: bool = False,
    ) -> None:
        # Nothing more: this is made for each record, and a field costs.
        self._tracer = tracer
        self._record = record
        self._group = group
        self._links = links
        self._counts = counts
        self._context: Context | None = None
        #: None while no span is to be ended.
        self._place: Place | None = None

    def begin(self) -> None:
        """Start the span, and make it current."""
        try:
            self._start()
        except Exception as error:  # noqa: BLE001 - it must not cost the record
            self.span = INVALID_SPAN
            self._tracer.spans.failed("starting a span", error)

    def _start(self) -> None:
        tracer, record = self._tracer, fields_of(self._record)
        self._record = None  # it need not wait for the finisher
        spans = tracer.spans
        began = self._began = spans.now()
        previous = self._previous = parent = contexts.get_current()
        headers, links = record.headers, self._links
        if headers:
            parent = tracer.headers.extracted(headers, previous)
            if tracer.links_only:
                links = (*links, tracer.headers.creation(headers))
                parent = set_span_in_context(get_current_span(previous), parent)
        if spans.is_silent(began):
            if parent is not previous:
                self._make_current(parent)
            self.span = NonRecordingSpan(get_current_span(parent).get_span_context())
            return
        place = tracer.place_of(record, self._group, began)
        attributes = place.attributes.copy()
        attributes[names.OFFSET] = record.offset
        if record.raw_value is None:
            attributes[names.TOMBSTONE] = True
        if tracer.record_keys:
            tracer.add_key(attributes, record.raw_key)
        span = self.span = spans.start(place.name, SpanKind.CONSUMER, attributes, parent, links)
        held = record._held()
        if held is not None and hasattr(held, "trace") and held.trace is None:
            held.trace = span.get_span_context()
        if spans.providers.instruments is not None or span.is_recording():
            self._place = place
        context = self._context = set_span_in_context(span, parent)
        contexts.attach(context)

    def _make_current(self, context: Context) -> None:
        self._context = context
        contexts.attach(context)

    def finish(self, error: BaseException | None = None, grace_s: float = 0.0) -> Processing | None:
        """End the span; return what the finisher ends, if there is something.

        What was current before is so again, unless this runs elsewhere, or the application has made something else current.
        Tokens would have to be given back in the same context, which a loop cannot promise.

        :param error: that has ended the handling
        :param grace_s: how long the error may still come (s)
        """
        context = self._context
        if context is not None:
            if contexts.get_current() is context:
                contexts.attach(self._previous)
            self._context = self._previous = None  # they need not wait for the finisher
        if self._place is None:
            return None
        spans = self._tracer.spans
        now = spans.now()
        self._seconds = now - self._began
        self.error = error
        self.due = now + grace_s if grace_s else 0.0
        self.done = False
        spans.finisher.add(self)
        return self

    def end(self, tally: Tally) -> None:
        """End the span, and record the measurements; the finisher calls this."""
        self.done = True
        place, error = self._place, self.error
        assert place is not None
        close(self.span, self._seconds, {}, error)
        instruments = self._tracer.spans.providers.instruments
        if instruments is not None:
            labels = place.durations
            if error is not None:
                labels = {**labels, names.ERROR_TYPE: names.error_type(error)}
            instruments.process_durations.record(self._seconds, labels)
            if self._counts:
                tally.count(instruments.consumed, place.consumed)

    def __enter__(self) -> Span:
        self.begin()
        return self.span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(None if isinstance(error, GeneratorExit) else error)


def each(tracer: RecordSpans, consumer: Any, records: Iterator[R], group: str | None) -> Iterator[R]:
    """Yield records, the span of each being current until the loop asks for the next one, or ends."""
    providers = tracer.spans.providers
    for record in records:
        if providers.is_silent and tracer.passes(record):
            yield record
            continue
        step = Processing(tracer, record, group, (), True)
        step.begin()
        try:
            yield record
        except GeneratorExit:
            tracer.park(consumer, step.finish(grace_s=GRACE_S))
            raise
        except BaseException as error:  # by `throw()`
            step.finish(error)
            raise
        step.finish()


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
            step.finish()
        record = await self._records.__anext__()
        if not self._tracer.passes(record):
            self._step = step = Processing(self._tracer, record, self._group, (), True)
            step.begin()
        return record

    def __del__(self) -> None:
        if self._step is not None:
            self._tracer.park(self._consumer, self._step.finish(grace_s=GRACE_S))
