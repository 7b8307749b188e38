"""`Telemetry`: the SDK of OpenTelemetry with exporters in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pykafka import KafkaClient, otel

T = TypeVar("T")


class Telemetry:
    """Spans and metrics of one test."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self._reader])
        self._made: otel.Instrumentation | None = None

    def instrument(self, client: Any, **options: Any) -> otel.Instrumentation:
        """Instrument a client."""
        made = otel.instrument(
            client, tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **options
        )
        self._made = made
        return made

    def instrument_around(self, client: Any, make: Callable[[], T], before: bool) -> T:
        """Make something of a client, which is instrumented before or after that."""
        if before:
            self.instrument(client)
        made = make()
        if not before:
            self.instrument(client)
        return made

    def spans(self, name: str = "") -> list[Any]:
        """Return the ended spans of a name, or all, in the order of their ends."""
        assert self._made is None or self._made.flush(10)
        return [span for span in self.exported() if name in ("", span.name)]

    def exported(self) -> list[Any]:
        """Return the spans that have come so far, without waiting."""
        return list(self._exporter.get_finished_spans())

    def points(self, name: str) -> list[Any]:
        """Return the data points of a metric."""
        data = self._reader.get_metrics_data()
        found = data.resource_metrics if data is not None else []
        return [
            point
            for resource in found
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def check_first_span(telemetry: Telemetry, client: KafkaClient, topic: str, headers: Any) -> Any:
    """Check the span of the first message of a topic, which has a header `own`; return it.

    :param headers: (name, value) pairs of the message
    """
    (span,) = telemetry.spans("send " + topic)
    assert span.kind is trace.SpanKind.PRODUCER
    broker = client.cluster.leader(topic, 0)
    assert dict(span.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "pykafka",
        "messaging.kafka.offset": 0,
        "server.address": broker.host,
        "server.port": broker.port,
    }
    sent = dict(headers or ())
    assert sent["own"] == b"1"
    assert f"{span.context.trace_id:032x}-{span.context.span_id:016x}".encode() in (sent["traceparent"] or b"")
    (count,) = telemetry.points("messaging.client.sent.messages")
    assert count.value == 1
    return span


class Broken:
    """A propagator that writes a header which cannot be sent."""

    def inject(self, carrier: Any, context: Context | None = None, setter: Any = None) -> None:
        carrier.append(("broken", 5))

    def extract(self, carrier: Any, context: Context | None = None, getter: Any = None) -> Context:
        return context or Context()


def links_of(span: Any) -> set[int]:
    """Return the ids of the spans that a span is linked to."""
    return {link.context.span_id for link in span.links}


def id_of(span: Any) -> int:
    """Return the id of a span."""
    return int(span.context.span_id)


def parent_of(span: Any) -> int | None:
    """Return the id of the parent of a span."""
    return None if span.parent is None else int(span.parent.span_id)
