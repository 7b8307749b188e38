"""`Spans`: makes the spans of one client, and their metrics; `Ending` is the end of one, for the worker that ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import INVALID_SPAN, Link, SpanKind, Status, StatusCode

from pykafka.otel import names
from pykafka.otel.finisher import SpanFinisher
from pykafka.otel.providers import Providers

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, SpanContext, TracerProvider

    from pykafka.handlers import Handler
    from pykafka.otel.finisher import Tally

Attributes = dict[str, Any]
Counted = Mapping[str | None, int]
NOTHING: Counted = {}


class Ending:
    """The end of a span.

    :param spans: of the client
    :param span: to be ended
    :param seconds: how long it took
    :param attributes: all that are for metrics, and those that the span does not have yet
    :param error: that has ended it
    :param counted: {topic: messages}; None for several topics
    """

    __slots__ = ("attributes", "counted", "due", "error", "seconds", "span", "spans")

    def __init__(
        self,
        spans: Spans,
        span: Span,
        seconds: float,
        attributes: Attributes,
        error: BaseException | None,
        counted: Counted,
    ) -> None:
        self.spans = spans
        self.span = span
        self.seconds = seconds
        self.attributes = attributes
        self.error = error
        self.counted = counted
        self.due = 0.0

    def end(self, tally: Tally) -> None:
        """End the span, and record the measurements."""
        span, attributes, error = self.span, self.attributes, self.error
        shown = getattr(span, "attributes", None) or {}  # the SDK's: setting what is there already costs as much
        late = {name: value for name, value in attributes.items() if name not in shown}
        close(span, self.seconds, late, error)
        if error is not None:
            attributes[names.ERROR_TYPE] = names.error_type(error)
        self.spans.measure(attributes, self.seconds, self.counted)


def close(span: Span, seconds: float, attributes: Attributes, error: BaseException | None) -> None:
    """End a span at its start and what it took.

    :param attributes: those that it does not have yet; changed
    :param error: that has ended it
    """
    if not span.is_recording():
        return
    if error is not None:
        attributes[names.ERROR_TYPE] = names.error_type(error)
        span.set_status(Status(StatusCode.ERROR))  # without a description: texts of errors may quote records
    if attributes:
        span.set_attributes(attributes)
    start_ns = getattr(span, "start_time", None)  # the SDK's: its clock is finer than ours
    span.end(None if start_ns is None else start_ns + round(seconds * 1e9))


class Spans:
    """The spans and metrics of one client.

    :param handler: of the client
    :param tracer_provider: None for the global one
    :param meter_provider: None for the global one
    :param common: attributes of each span
    """

    def __init__(
        self,
        handler: Handler,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        common: Attributes,
    ) -> None:
        self._handler = handler
        self.common = common
        self._reported: set[str] = set()
        #: Returns the time of the handler's clock (s).
        self.now = handler.now
        self.providers = Providers(tracer_provider, meter_provider)
        self.providers.look(self.now())
        self.finisher = SpanFinisher(handler, self.failed)

    def is_silent(self, now: float) -> bool:
        """Return whether there is no SDK: contexts are passed on, and nothing else happens.

        :param now: by the handler's clock (s)
        """
        providers = self.providers
        if now >= providers.look_at:
            try:
                providers.look(now)
            except Exception as error:  # noqa: BLE001 - of the application's provider
                self.failed("making a tracer or a meter", error)
        return providers.is_silent

    def now_ms(self) -> int:
        """Return the date (ms since 1970)."""
        return self._handler.time_ms()

    def failed(self, what: str, error: BaseException) -> None:
        """Log what has failed, the first time; any thread may call this."""
        if what not in self._reported:
            self._reported.add(what)
            self._handler.native.report(f"OpenTelemetry: {what} (logged once)", error)

    def start(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        context: Context | None = None,
        links: Sequence[SpanContext | None] = (),
        start_ns: int | None = None,
    ) -> Span:
        """Start a span; a processor that raises makes it one that records nothing.

        :param attributes: all, those of `common` included; the SDK copies them
        :param context: with its parent; None for the present one
        :param links: contexts of spans, or None
        :param start_ns: ns since 1970; None for now
        """
        try:
            linked = [Link(one) for one in links if one is not None] if links else None
            return self.providers.tracer.start_span(name, context, kind, attributes, linked, start_ns, False, False)
        except Exception as error:  # noqa: BLE001 - of a span processor or a sampler
            self.failed("starting a span", error)
            return INVALID_SPAN

    def start_operation(
        self,
        operation: str,
        kind: str,
        topic: str | None,
        attributes: Attributes,
        *,
        links: Sequence[SpanContext | None] = (),
        start_ns: int | None = None,
        of: SpanKind = SpanKind.CLIENT,
    ) -> Span:
        """Start the span of an operation, and complete its attributes.

        :param operation: as "poll"
        :param kind: the type of the operation, as "receive"
        :param topic: None for several
        :param attributes: of the span and its metrics; changed
        :param links: as of `start`, and so `start_ns`
        :param of: the kind of the span
        """
        attributes |= {names.OPERATION_NAME: operation, names.OPERATION_TYPE: kind}
        if topic is not None:
            attributes[names.TOPIC] = topic
        name = operation if topic is None else f"{operation} {topic}"
        return self.start(name, of, {**self.common, **attributes}, None, links, start_ns)

    def end(
        self,
        span: Span,
        began: float,
        attributes: Attributes,
        error: BaseException | None = None,
        counted: Counted = NOTHING,
    ) -> None:
        """End the span of an operation now; the finisher does the work.

        :param began: when it began, of the handler's clock (s)
        :param attributes: see `Ending`
        :param error: that has ended it
        :param counted: see `Ending`
        """
        self.finisher.add(Ending(self, span, self.now() - began, attributes, error, counted))

    def measure(self, attributes: Attributes, seconds: float, counted: Counted) -> None:
        """Record the metrics of an operation; the finisher calls this."""
        instruments = self.providers.instruments
        if instruments is None:
            return
        labels, kind = names.labels(attributes), attributes[names.OPERATION_TYPE]
        instruments.durations.record(seconds, {**labels, names.OPERATION_TYPE: kind})
        for topic, count in counted.items():
            place = {} if topic is None else {names.TOPIC: topic}
            if kind == names.SEND:
                instruments.sent.add(count, {**labels, **place})
            else:
                shown = {name: value for name, value in labels.items() if name != names.ERROR_TYPE}
                instruments.consumed.add(count, {**shown, **place, names.OPERATION_NAME: "poll"})
