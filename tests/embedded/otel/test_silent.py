"""Instrumentation without an SDK, and of traces that a sampler drops: it does as little as there is to do."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from opentelemetry import baggage, propagate, trace
from opentelemetry import context as contexts
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from pykafka import KafkaClient, otel
from pykafka.exceptions import TopicAuthorizationFailed
from pykafka.otel import providers
from tests.support.spans import Telemetry, id_of, parent_of

pytestmark = pytest.mark.on_asyncio

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


def attached(carrier: dict[str, str]) -> Any:
    """Make a context current that has come from elsewhere, as from a request over HTTP."""
    return contexts.attach(propagate.extract(carrier))


def workers() -> set[str]:
    return {one.name for one in threading.enumerate() if "otel" in one.name or "on_delivery" in one.name}


def test_messages_without_an_sdk(client: KafkaClient, topic: str) -> None:
    """They are plain, unless there is a context to pass on."""
    made = otel.instrument(client)
    called: list[Any] = []
    before = workers()
    with client.producer() as producer:
        plain = producer.produce(topic, b"1").get(20)
        assert plain.headers is None
        assert plain.delivery_report_q is None
        assert producer.produce(topic, b"1", headers={"own": b"1"}).get(20).headers == [("own", b"1")]
        assert workers() == before
        token = attached({"traceparent": PARENT, "baggage": "a=1"})
        try:
            carried = producer.produce(topic, b"2", on_delivery=lambda *_: called.append(baggage.get_all()))
        finally:
            contexts.detach(token)
        assert dict(carried.get(20).headers or ()) == {"traceparent": PARENT.encode(), "baggage": b"a=1"}
        producer.flush()
    assert called == [{"a": "1"}]
    assert not made._spans.finisher._waiting


def test_records_without_an_sdk(client: KafkaClient, topic: str) -> None:
    """A context that came with a record is current in the body, and goes with what is sent there."""
    otel.instrument(client)
    with client.producer() as producer:
        producer.produce(topic, b"1").get(20)
        producer.produce(topic, b"2", headers={"traceparent": PARENT.encode()}).get(20)
        sent = []
        with client.consumer(topic, group=topic, consumer_timeout_ms=5000) as consumer:
            for record in consumer:
                sent.append(dict(producer.produce(topic, b"3").get(20).headers or ()))
                if record.offset == 1:
                    break
            assert trace.get_current_span() is trace.INVALID_SPAN
            (third,) = consumer.poll(max_records=1, timeout=5)
            with otel.process(third, consumer) as span:
                assert span is not None
                assert not span.is_recording()
            consumer.commit(third)
    assert sent == [{}, {"traceparent": PARENT.encode()}]


def test_an_sdk_that_comes_later(
    client: KafkaClient, telemetry: Telemetry, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = otel.instrument(client)
    with client.producer() as producer:
        producer.produce(topic, b"1").get(20)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", telemetry.tracer_provider)
        client.cluster.handler.sleep(2 * providers.LOOK_S)
        producer.produce(topic, b"2").get(20)
        producer.flush()
    with client.consumer(topic, consumer_timeout_ms=5000) as consumer:
        for record in consumer:
            if record.offset == 1:
                break
    assert made.flush(10)
    sent, *processed = telemetry.exported()
    assert sent.name == "send " + topic
    assert sent.attributes["messaging.kafka.offset"] == 1
    assert [parent_of(span) for span in processed] == [None, id_of(sent)]


class Always:
    """A propagator that writes something for an empty context, too."""

    fields = {"always"}

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        setter.set(carrier, "always", "1")

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        return context


def test_a_propagator_that_always_writes(client: KafkaClient, topic: str) -> None:
    otel.instrument(client, propagator=Always())  # it has all that is called
    with client.producer() as producer:
        assert producer.produce(topic, b"1").get(20).headers == [("always", b"1")]


def test_dropped_traces(client: KafkaClient, topic: str) -> None:
    """The decision travels; no worker has anything to do at the acknowledgement or behind a record."""
    made = otel.instrument(client, tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    before = workers()
    with client.producer() as producer:
        delivery = producer.produce(topic, b"1").get(20)
        assert dict(delivery.headers or ())["traceparent"][-2:] in (b"00", b"02")  # type: ignore[index]
        assert delivery.delivery_report_q is None
    with client.consumer(topic, group=topic, consumer_timeout_ms=5000) as consumer:
        for record in consumer:
            context = trace.get_current_span().get_span_context()
            assert f"{context.trace_id:032x}".encode() in dict(record.headers)["traceparent"]  # type: ignore[operator]
            assert not context.trace_flags.sampled
            break
    assert workers() == before
    assert not made._spans.finisher._waiting


def test_metrics_of_dropped_traces(client: KafkaClient, telemetry: Telemetry, cluster: Any, topic: str) -> None:
    made = otel.instrument(
        client, tracer_provider=TracerProvider(sampler=ALWAYS_OFF), meter_provider=telemetry.meter_provider
    )
    with client.producer(max_retries=0, enable_idempotence=False) as producer:
        producer.produce_many(topic, [b"1"] * 10)
        producer.flush()
        cluster.inject_errors("Produce", TopicAuthorizationFailed)
        failed = producer.produce(topic, b"2", on_delivery=lambda *_: None)
        producer.flush()
        assert failed.error is not None
    with client.consumer(topic, consumer_timeout_ms=5000) as consumer:
        for record in consumer:
            if record.offset == 9:
                break
    assert made.flush(10)
    sent = {one.attributes.get("error.type"): one.value for one in telemetry.points("messaging.client.sent.messages")}
    assert sent == {None: 10, "TOPIC_AUTHORIZATION_FAILED": 1}
    assert sum(one.count for one in telemetry.points("messaging.client.operation.duration")) == 11
    assert [one.value for one in telemetry.points("messaging.client.consumed.messages")] == [10]
    assert [one.count for one in telemetry.points("messaging.process.duration")] == [10]


def test_the_api_that_is_disabled(client: KafkaClient, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    made = otel.instrument(client, tracer_provider=TracerProvider(), meter_provider=Telemetry().meter_provider)
    monkeypatch.delenv("OTEL_SDK_DISABLED")
    assert not made._spans.providers.traces
    with client.producer() as producer:
        assert producer.produce(topic, b"1").get(20).headers is None
