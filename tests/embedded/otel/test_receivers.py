"""Span processors, propagators and meters that raise or block: they neither break nor delay the client."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from pykafka import EmbeddedCluster, KafkaClient, otel
from pykafka.otel import finisher
from tests.support.spans import Telemetry


class Raising(SpanProcessor):  # type: ignore[misc]  # mypy does not see the SDK
    """A span processor that raises."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise OSError("on_start")

    def on_end(self, span: Any) -> None:
        raise OSError("on_end")


class RaisingAtTheEnd(Raising):
    """Raises at the end only."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        return None


class Blocking(SpanExporter):  # type: ignore[misc]  # likewise
    """An exporter that blocks until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.go.wait(30)
        return SpanExportResult.SUCCESS


class BadPropagator:
    """A propagator that raises."""

    fields: set[str] = set()

    def inject(self, *_args: Any, **_options: Any) -> None:
        raise OSError("inject")

    extract = inject


def round_trip(client: KafkaClient, topic: str) -> None:
    with client.producer() as producer:
        for number in range(3):
            producer.produce(topic, b"%d" % number, headers={"own": b"1"}).get(20)
    with client.consumer(topic, group=topic, consumer_timeout_ms=5000) as consumer:
        for record in consumer:
            consumer.commit(record)
            if record.offset == 1:
                break
        assert len(consumer.poll(timeout=5)) == 1


@pytest.mark.parametrize("kind", [Raising, RaisingAtTheEnd])
def test_processors_that_raise(
    client: KafkaClient, telemetry: Telemetry, topic: str, kind: type[SpanProcessor], caplog: pytest.LogCaptureFixture
) -> None:
    telemetry.tracer_provider.add_span_processor(kind())
    made = telemetry.instrument(client)
    with caplog.at_level(logging.WARNING):
        round_trip(client, topic)
        assert made.flush(10)
        client.cluster.handler.sleep(0.05)
    logged = [one for one in caplog.records if "OpenTelemetry: " in one.getMessage()]
    assert len(logged) == 1
    assert "logged once" in logged[0].getMessage()


def test_propagators_that_raise(
    client: KafkaClient, telemetry: Telemetry, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = telemetry.instrument(client, propagator=BadPropagator())
    with caplog.at_level(logging.WARNING):
        round_trip(client, topic)
        assert made.flush(10)
        client.cluster.handler.sleep(0.05)
    logged = [one.getMessage().partition(": ")[2] for one in caplog.records if "OpenTelemetry: " in one.getMessage()]
    assert sorted(one.partition(" (")[0] for one in logged) == [
        "reading a context from headers",
        "writing a context into headers",
    ]
    assert len(telemetry.spans("send " + topic)) == 3  # a trace that does not travel is recorded all the same
    assert len(telemetry.spans("process " + topic)) == 2
    assert sum(one.count for one in telemetry.points("messaging.process.duration")) == 2


@pytest.fixture
def blocking(telemetry: Telemetry) -> Iterator[Blocking]:
    """Give the SDK an exporter that blocks until the end of the test."""
    exporter = Blocking()
    telemetry.tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    exporter.go.set()


def test_an_exporter_that_blocks(
    client: KafkaClient,
    telemetry: Telemetry,
    topic: str,
    blocking: Blocking,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(finisher, "STOP_S", 0.2)
    monkeypatch.setattr(finisher, "WAITING_MAX", 5)
    made = telemetry.instrument(client)
    round_trip(client, topic)
    began = time.monotonic()
    assert not made.flush(0.1)
    client.close()
    assert time.monotonic() - began < 5
    assert any("a span processor blocks" in str(one.exc_info or one.getMessage()) for one in caplog.records)
    blocking.go.set()
    assert made.flush(10)


def test_a_worker_that_has_ended_starts_again(
    client: KafkaClient, telemetry: Telemetry, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finisher, "IDLE_S", 0.02)
    telemetry.instrument(client)
    producer = client.producer()
    for count in range(1, 4):
        producer.produce(topic, b"1").get(20)
        producer.flush()
        assert len(telemetry.spans()) == count
        client.cluster.handler.sleep(0.1)


def test_a_client_that_is_dropped_is_freed(telemetry: Telemetry, client: KafkaClient, topic: str) -> None:
    import gc
    import weakref

    with KafkaClient(client.cluster._seeds.first_addresses[0]) as other:
        made = telemetry.instrument(other)
        round_trip(other, topic)
        dropped = weakref.ref(other.cluster)
    del other
    made.flush(5)
    gc.collect()
    assert dropped() is None
    made.remove()


def test_a_forked_child_has_its_own_spans(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    producer = client.producer()
    producer.produce(topic, b"1").get(20)
    producer.flush()
    assert len(telemetry.spans()) == 1
    child = os.fork()
    if not child:
        status = 1
        try:
            producer.produce(topic, b"2").get(20)
            producer.flush()
            status = 0 if len(telemetry.spans()) == 2 else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    producer.produce(topic, b"3").get(20)
    producer.flush()
    assert len(telemetry.spans()) == 2


PROGRAM = """
import sys
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from pykafka import KafkaClient
from pykafka.otel import instrument

class Printing(SpanProcessor):
    def on_end(self, span):
        print(span.name, flush=True)

provider = TracerProvider()
provider.add_span_processor(Printing())
client = KafkaClient(sys.argv[1], use_greenlets=sys.argv[3] == "greenlets")
instrument(client, tracer_provider=provider)
client.producer().produce(sys.argv[2], b"1").get(20)
records = iter(client.consumer(sys.argv[2], consumer_timeout_ms=5000))
next(records)
if sys.argv[4] == "closed":
    client.close()
"""


@pytest.mark.parametrize("end", ["open", "closed"])
@pytest.mark.parametrize("kind", ["threads", "greenlets"])
def test_the_interpreter_ends_within_a_loop(cluster: EmbeddedCluster, topic: str, kind: str, end: str) -> None:
    """The last span ends when Python lets go of the loop: threads cannot start any more, and it waited for one for ever."""
    command = [sys.executable, "-c", PROGRAM, cluster.hosts, topic, kind, end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[0] == "send " + topic
    assert done.stderr == ""


def test_what_is_no_client() -> None:
    with pytest.raises(TypeError, match="KafkaClient, not str"):
        otel.instrument("localhost:9092")
