"""Spans and metrics of messages that are sent: from `produce()` to the acknowledgement, or the error."""

from __future__ import annotations

import pytest
from opentelemetry import trace

from pykafka import EmbeddedCluster, KafkaClient, otel
from pykafka.exceptions import (
    KafkaException,
    MessageSizeTooLarge,
    MessagesNotDelivered,
    SerializationError,
    TopicAuthorizationFailed,
)
from pykafka.serialization import StringSerializer
from tests.support.loops import Concurrency
from tests.support.spans import Telemetry, check_first_span, id_of, links_of, parent_of

pytestmark = pytest.mark.on_asyncio


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_span_ends_at_the_acknowledgement(
    client: KafkaClient, telemetry: Telemetry, topic: str, before: bool
) -> None:
    producer = telemetry.instrument_around(client, lambda: client.producer(linger_ms=60_000), before)
    headers = [("own", b"1")]
    delivery = producer.produce(topic, b"secret value", key=b"secret key", headers=headers)
    assert not telemetry.spans("send " + topic)
    delivery.get(20)
    producer.flush()
    span = check_first_span(telemetry, client, topic, delivery.headers)
    assert headers == [("own", b"1")]
    (duration,) = telemetry.points("messaging.client.operation.duration")
    assert duration.count == 1
    assert duration.sum == pytest.approx((span.end_time - span.start_time) / 1e9)


def test_keys_by_choice_and_tombstones(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client, record_keys=True)
    producer = client.producer()
    producer.produce(topic, None, key=b"k\xff").get(20)
    producer.flush()
    (span,) = telemetry.spans()
    assert span.attributes["messaging.kafka.message.key"] == "k\\xff"
    assert span.attributes["messaging.kafka.message.tombstone"] is True


def test_a_refused_message_has_the_name_of_its_error(
    client: KafkaClient, cluster: EmbeddedCluster, telemetry: Telemetry, topic: str
) -> None:
    telemetry.instrument(client)
    called = []
    producer = client.producer(max_retries=0, enable_idempotence=False)
    producer.produce(topic, b"first").get(20)
    cluster.inject_errors("Produce", TopicAuthorizationFailed)
    producer.produce(topic, b"refused", on_delivery=lambda error, _: called.append(error))
    producer.flush()
    assert len(called) == 1
    cluster.inject_errors("Produce", TopicAuthorizationFailed)
    producer.produce(topic, b"nobody hears of it")
    with pytest.raises(MessagesNotDelivered):  # a span observes, and reports nothing to the application
        producer.flush()
    failed = [span for span in telemetry.spans() if not span.status.is_ok]
    assert [span.attributes["error.type"] for span in failed] == ["TOPIC_AUTHORIZATION_FAILED"] * 2
    assert not any(span.status.description or span.events for span in failed)
    counts = {
        point.attributes.get("error.type"): point.value for point in telemetry.points("messaging.client.sent.messages")
    }
    assert counts == {None: 1, "TOPIC_AUTHORIZATION_FAILED": 2}


def test_what_produce_does_not_take_ends_its_span(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    with client.producer(value_serializer=StringSerializer(), max_request_size=2000) as producer:
        with pytest.raises(SerializationError):
            producer.produce(topic, 1)  # type: ignore[arg-type]  # the test's point
        with pytest.raises(MessageSizeTooLarge):
            producer.produce(topic, "x" * 4000)
    assert [span.attributes["error.type"] for span in telemetry.spans()] == ["SerializationError", "MESSAGE_TOO_LARGE"]


def test_parents_links_and_callbacks(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """The caller's span is the parent, and is current in the callback; headers of a record that is passed on make a link."""
    telemetry.instrument(client)
    tracer = telemetry.tracer_provider.get_tracer("test")
    seen = []
    producer = client.producer()
    with tracer.start_as_current_span("outer") as outer:
        first = producer.produce(topic, b"1", on_delivery=lambda *_: seen.append(trace.get_current_span()))
    first.get(20)
    second = producer.produce(topic, b"2", headers=first.headers)
    second.get(20)
    producer.flush()
    one, two = telemetry.spans("send " + topic)
    assert seen == [outer]
    assert parent_of(one) == outer.get_span_context().span_id
    assert links_of(two) == {id_of(one)}
    assert two.context.trace_id != one.context.trace_id
    assert [name for name, _ in second.headers or ()].count("traceparent") == 1


def test_uninstrument(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    producer = client.producer()
    producer.produce(topic, b"1").get(20)
    otel.uninstrument(client)
    assert producer._plain
    delivery = producer.produce(topic, b"2").get(20)
    assert delivery.headers is None
    producer.flush()
    assert len(telemetry.spans()) == 1
    otel.uninstrument(client)


def test_batches_of_messages_and_closing(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    made = telemetry.instrument(client)
    producer = client.producer()
    assert producer.produce_many(topic, [b"%d" % number for number in range(500)]) == 500
    client.close()
    assert made.flush(0.1)
    spans = telemetry.exported()
    assert sorted(span.attributes["messaging.kafka.offset"] for span in spans) == list(range(500))


def test_a_broker_that_takes_no_headers(telemetry: Telemetry, concurrency: Concurrency) -> None:
    """The trace ends there. Headers of the application's own are refused, before the version is known as after that."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        cluster.set_api_versions("Produce", 0, 2)
        with KafkaClient(cluster.hosts, **concurrency()) as client:
            telemetry.instrument(client)
            with client.producer(linger_ms=50) as producer:
                assert [one.get(20).offset for one in [producer.produce("t", b"x") for _ in range(3)]] == [0, 1, 2]
                with pytest.raises(RuntimeError, match="takes no headers"):
                    producer.produce("t", b"x", headers={"own": b"1"})
                assert producer.produce("t", b"x").get(20).offset == 3
            offsets = [span.attributes.get("messaging.kafka.offset") for span in telemetry.spans("send t")]
            assert sorted(offsets, key=lambda one: -1 if one is None else one) == [None, 0, 1, 2, 3]
        with KafkaClient(cluster.hosts, **concurrency()) as other:
            telemetry.instrument(other)
            with other.producer() as producer:
                with pytest.raises(KafkaException, match="headers"):
                    producer.produce("t", b"x", headers={"own": b"1"}).get(20)
                assert producer.produce("t", b"x").get(20).offset == 4
