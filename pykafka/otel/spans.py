"""`Spans`: makes the spans of one client, and their metrics; `Ending` is the end of one, for the worker that ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.trace import INVALID_SPAN, Link, SpanKind, Status, StatusCode

from pykafka._version import __version__
from pykafka.otel import names
from pykafka.otel.finisher import SpanFinisher

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, SpanContext, TracerProvider

    from pykafka.handlers import Handler

Attributes = dict[str, Any]
Counted = Mapping[str | None, int]
NOTHING: Counted = {}


class Ending:
    """The end of a span.

    :param spans: of the client
    :param span: to be ended
    :param end_ns: when it ended (ns since 1970); None for now
    :param seconds: how long it took
    :param attributes: all that are for metrics, and those that the span does not have yet
    :param error: that has ended it
    :param counted: {topic: messages}; None for several topics
    """

    __slots__ = ("attributes", "counted", "done", "due", "end_ns", "error", "seconds", "span", "spans")

    def __init__(
        self,
        spans: Spans,
        span: Span,
        end_ns: int | None,
        seconds: float,
        attributes: Attributes,
        error: BaseException | None,
        counted: Counted,
    ) -> None:
        self.spans = spans
        self.span = span
        self.end_ns = end_ns
        self.seconds = seconds
        self.attributes = attributes
        self.error = error
        self.counted = counted
        #: Until when the error of a block may still come, of the handler's clock (s).
        self.due = 0.0
        self.done = False

    def end(self) -> None:
        """End the span, and record the measurements."""
        self.done = True
        span, attributes, error = self.span, self.attributes, self.error
        if error is not None:
            attributes[names.ERROR_TYPE] = names.error_type(error)
        if span.is_recording():
            shown = getattr(span, "attributes", None) or {}  # the SDK's: setting what is there already costs as much
            span.set_attributes({name: value for name, value in attributes.items() if name not in shown})
            if error is not None:
                # Without a description: texts of errors may quote records.
                span.set_status(Status(StatusCode.ERROR))
            span.end(self.end_ns)
        self.spans.measure(attributes, self.seconds, self.counted)


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
        self._common = common
        self._reported: set[str] = set()
        self._tracer = trace.get_tracer("pykafka.otel", __version__, tracer_provider)
        meter = metrics.get_meter("pykafka.otel", __version__, meter_provider)
        advice = {"explicit_bucket_boundaries_advisory": names.BOUNDS}
        self._durations = meter.create_histogram(
            names.OPERATION_DURATION, "s", "Duration of send, receive and settle operations of the client.", **advice
        )
        self._process_durations = meter.create_histogram(
            names.PROCESS_DURATION, "s", "Duration of processing a record.", **advice
        )
        self._sent = meter.create_counter(names.SENT, "{message}", "Messages that were to be sent to a broker.")
        self._consumed = meter.create_counter(names.CONSUMED, "{message}", "Messages that the application has got.")
        self.finisher = SpanFinisher(handler, self.failed)

    def now(self) -> float:
        """Return the time of the handler's clock (s)."""
        return self._handler.now()

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
        operation: str,
        kind: str,
        topic: str | None,
        attributes: Attributes,
        *,
        context: Context | None = None,
        links: Sequence[SpanContext | None] = (),
        start_ns: int | None = None,
        of: SpanKind = SpanKind.CLIENT,
    ) -> Span:
        """Start a span, and complete its attributes; a processor that raises makes it one that records nothing.

        :param operation: as "poll"
        :param kind: the type of the operation, as "receive"
        :param topic: None for several
        :param attributes: of the span and its metrics; changed
        :param context: with its parent; None for the present one
        :param links: contexts of spans, or None
        :param start_ns: ns since 1970; None for now
        :param of: the kind of the span
        """
        attributes |= {names.OPERATION_NAME: operation, names.OPERATION_TYPE: kind}
        if topic is not None:
            attributes[names.TOPIC] = topic
        try:
            return self._tracer.start_span(
                operation if topic is None else f"{operation} {topic}",
                context,
                of,
                {**self._common, **attributes},
                [Link(one) for one in links if one is not None],
                start_ns,
                record_exception=False,
                set_status_on_exception=False,
            )
        except Exception as error:  # noqa: BLE001 - of a span processor or a sampler
            self.failed("starting a span", error)
            return INVALID_SPAN

    def end(
        self,
        span: Span,
        began: float,
        attributes: Attributes,
        error: BaseException | None = None,
        counted: Counted = NOTHING,
        *,
        grace_s: float = 0.0,
    ) -> Ending:
        """End a span now; the finisher does the work.

        :param began: when it began, of the handler's clock (s)
        :param attributes: see `Ending`
        :param error: that has ended it
        :param counted: see `Ending`
        :param grace_s: how long the error may still come (s)
        """
        seconds = self.now() - began
        start_ns = getattr(span, "start_time", None)  # the SDK's: its clock is finer than ours
        end_ns = None if start_ns is None else start_ns + round(seconds * 1e9)
        ending = Ending(self, span, end_ns, seconds, attributes, error, counted)
        if grace_s:
            ending.due = self.now() + grace_s
        self.finisher.add(ending)
        return ending

    def measure(self, attributes: Attributes, seconds: float, counted: Counted) -> None:
        """Record the metrics of an operation; the finisher calls this."""
        labels = {name: attributes[name] for name in names.OF_METRICS if name in attributes}
        labels[names.SYSTEM] = "kafka"
        kind = attributes[names.OPERATION_TYPE]
        if kind == names.PROCESS:
            self._process_durations.record(seconds, labels)
        else:
            self._durations.record(seconds, {**labels, names.OPERATION_TYPE: kind})
        for topic, count in counted.items():
            place = {} if topic is None else {names.TOPIC: topic}
            if kind == names.SEND:
                self._sent.add(count, {**labels, **place})
            else:
                shown = {name: value for name, value in labels.items() if name != names.ERROR_TYPE}
                self._consumed.add(count, {**shown, **place, names.OPERATION_NAME: "poll"})
