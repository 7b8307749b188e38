"""The CPU that spans cost, by hand and by `pykafka.otel`: `python -m benchmarks.tracing --help`."""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import propagate
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, set_span_in_context

from pykafka import KafkaClient, otel
from pykafka.otel import names

WORK = ("lone", "produce", "consume")
#: What is measured: the client alone; with the API alone; with an SDK that drops 99 % or records all; the SDK called by
#: hand around the client's calls, without `pykafka.otel`; with the SDK's metrics, too; with the SDK's batches of spans, whose
#: exporter does nothing; and that SDK called in a loop, without a client.
MODES = ("off", "api", "hand-1%", "1%", "hand-all", "all", "all+metrics", "hand-export", "export")
ALONE = ("sdk-1%", "sdk-all")
#: Messages of a step, and steps: the lower quartile of the steps counts, as other work on the machine only adds.
STEPS = {"lone": (100, 30), "produce": (2000, 25), "consume": (2000, 24)}
VALUE = b"x" * 100


def main() -> None:
    """Measure, each in a process of its own, and print a line of JSON for each."""
    program = argparse.ArgumentParser(description=__doc__)
    program.add_argument("--hosts", help="brokers to use; by default a Kafka 4.3.1 is started")
    program.add_argument("--modes", nargs="+", default=[*ALONE, *MODES])
    program.add_argument("--work", nargs="+", default=WORK)
    program.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = program.parse_args()
    if options.one:
        mode, work, topic = options.one
        us = alone(mode) if mode in ALONE else measure(options.hosts, mode, work, topic)
        print(json.dumps({"mode": mode, "work": work, "us": round(us, 2)}), flush=True)
        return
    with kafka() if options.hosts is None else nullcontext(options.hosts) as hosts:
        for mode in options.modes:
            topic = f"tracing-{uuid.uuid4().hex[:8]}"
            for work in ["span"] if mode in ALONE else options.work:
                command = [sys.executable, "-m", "benchmarks.tracing", "--hosts", hosts, "--one", mode, work, topic]
                subprocess.run(command, check=True)


@contextmanager
def kafka() -> Iterator[str]:
    """Start a broker; yield its address."""
    from tests.brokers import KafkaCluster

    with KafkaCluster(brokers=1) as cluster:
        yield cluster.hosts


class Nowhere(SpanExporter):  # type: ignore[misc]  # the SDK is Any here
    """An exporter that does nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def tracer_provider(mode: str) -> TracerProvider:
    """Return an SDK, without exporters or with one that does nothing."""
    made = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.01) if mode.endswith("1%") else ALWAYS_ON))
    if mode.endswith("export"):
        made.add_span_processor(BatchSpanProcessor(Nowhere()))
    return made


def attributes() -> dict[str, Any]:
    """Return those that a span `send` has at its end."""
    return {
        names.SYSTEM: "kafka",
        names.CLIENT_ID: "pykafka",
        names.OPERATION_NAME: "send",
        names.OPERATION_TYPE: "send",
        names.TOPIC: "orders",
        names.PARTITION: "0",
        names.OFFSET: 12,
        names.SERVER_ADDRESS: "127.0.0.1",
        names.SERVER_PORT: 9092,
    }


class Pairs:
    """Reads and writes headers."""

    def set(self, carrier: list[Any], key: str, value: str) -> None:
        carrier.append((key, value.encode()))

    def get(self, carrier: Any, key: str) -> list[str] | None:
        return next(([value.decode()] for name, value in carrier if name == key), None)

    def keys(self, carrier: Any) -> list[str]:
        return [name for name, _ in carrier]


PAIRS = Pairs()


class ByHand:
    """The least that an application does that calls OpenTelemetry itself.

    :param mode: of the SDK
    """

    def __init__(self, mode: str) -> None:
        self._tracer = tracer_provider(mode).get_tracer("by hand")

    def send(self) -> Any:
        """Begin the span of a message; return it, and the headers."""
        span = self._tracer.start_span("send orders", None, SpanKind.PRODUCER, attributes())
        headers: list[Any] = []
        propagate.inject(headers, set_span_in_context(span), PAIRS)
        return span, headers

    def process(self, record: Any) -> None:
        """Make the span of a record current, and end it."""
        parent = propagate.extract(record.headers, None, PAIRS)
        span = self._tracer.start_span("process orders", parent, SpanKind.CONSUMER, attributes())
        token = contexts.attach(set_span_in_context(span, parent))
        contexts.detach(token)
        span.end()


def quartile(step: Callable[[], object], count: int, steps: int) -> float:
    """Return the lower quartile of the steps' CPU (us a message)."""
    times = []
    for _ in range(steps):
        began = time.process_time()
        step()
        times.append((time.process_time() - began) / count * 1e6)
    return sorted(times)[steps // 4]


def alone(mode: str) -> float:
    """Return what a span costs in a loop: its start with attributes, and its end."""
    tracer = tracer_provider(mode).get_tracer("alone")

    def step() -> None:
        for _ in range(2000):
            tracer.start_span("send orders", None, SpanKind.PRODUCER, attributes()).end()

    return quartile(step, 2000, 24)


def measure(hosts: str, mode: str, work: str, topic: str) -> float:
    """Return what a message costs in one way (us of CPU)."""
    by_hand = ByHand(mode) if mode.startswith("hand") else None
    with KafkaClient(hosts) as client:
        made: Any = None
        if mode == "api":
            made = otel.instrument(client)
        elif mode != "off" and by_hand is None:
            meters = MeterProvider([InMemoryMetricReader()]) if "metrics" in mode else None
            made = otel.instrument(
                client, tracer_provider=tracer_provider(mode.removesuffix("+metrics")), meter_provider=meters
            )
        flush = (lambda: None) if made is None else made.flush
        count, steps = STEPS[work]
        gc.collect()
        if work == "consume":
            with client.consumer(topic, group=None, auto_offset_reset="earliest") as consumer:
                return quartile(reading(iter(consumer), by_hand, count, flush), count, steps)
        with client.producer(linger_ms=0 if work == "lone" else 5) as producer:
            return quartile(sending(producer, topic, work == "lone", by_hand, count, flush), count, steps)


def sending(
    producer: Any, topic: str, lone: bool, by_hand: ByHand | None, count: int, flush: Callable[[], object]
) -> Callable[[], object]:
    """Return a step that sends messages.

    :param lone: whether each waits for its acknowledgement
    """

    def step() -> None:
        for _ in range(count):
            if by_hand is None:
                delivery = producer.produce(topic, VALUE)
                if lone:
                    delivery.get()
            else:
                span, headers = by_hand.send()
                delivery = producer.produce(topic, VALUE, headers=headers)
                if lone:
                    delivery.get()
                span.end()
        producer.flush()
        flush()

    return step


def reading(
    records: Iterator[Any], by_hand: ByHand | None, count: int, flush: Callable[[], object]
) -> Callable[[], object]:
    """Return a step that reads records."""

    def step() -> None:
        for _ in range(count):
            record = next(records)
            if by_hand is not None:
                by_hand.process(record)
        flush()

    return step


if __name__ == "__main__":
    main()
