"""Spans of `parallel()`: current in each handler; tries and dead letters are linked to the first try."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace

from pykafka import KafkaClient
from pykafka.parallel.retry import Retry
from pykafka.record import Record
from tests.support.spans import Telemetry, id_of, links_of, parent_of

pytestmark = pytest.mark.on_asyncio


def test_each_handler_has_the_span_of_its_record(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    with client.producer() as producer:
        producer.produce_many(topic, [b"%d" % number for number in range(40)])
    inside: dict[int, tuple[int, int]] = {}
    handler = client.cluster.handler

    def handle(record: Record) -> None:
        before = trace.get_current_span().get_span_context().span_id
        handler.sleep(0.01)
        inside[record.offset] = before, trace.get_current_span().get_span_context().span_id

    with client.consumer(topic, group=topic) as consumer:
        consumer.parallel(handle, workers=8, order=None, idle_timeout=0.5).run()
    spans = telemetry.spans("process " + topic)
    assert {span.attributes["messaging.kafka.offset"]: (id_of(span),) * 2 for span in spans} == inside
    sent = {span.attributes["messaging.kafka.offset"]: id_of(span) for span in telemetry.spans("send " + topic)}
    assert {span.attributes["messaging.kafka.offset"]: parent_of(span) for span in spans} == sent
    polls = telemetry.spans("poll " + topic)
    assert sum(span.attributes["messaging.batch.message_count"] for span in polls) == 40
    assert telemetry.spans("commit " + topic)


def test_dead_letters_are_linked_to_the_first_try(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    with client.producer() as producer:
        producer.produce(topic, b"bad").get(20)

    def handle(record: Record) -> None:
        raise ValueError("secret")

    with client.consumer(topic, group=topic) as consumer:
        run = consumer.parallel(
            handle, retry=Retry(times=2, backoff=0.01), dead_letters=topic + ".dlq", idle_timeout=0.5
        )
        run.run()
    (sent,) = telemetry.spans("send " + topic)
    first, *others = telemetry.spans("process " + topic)
    assert [span.attributes["error.type"] for span in (first, *others)] == ["ValueError"] * 3
    assert [links_of(span) for span in others] == [{id_of(first)}] * 2
    (letter,) = telemetry.spans(f"send {topic}.dlq")
    assert parent_of(letter) == id_of(others[-1])
    assert links_of(letter) == {id_of(first), id_of(sent)}
    assert letter.context.trace_id == sent.context.trace_id


def test_records_that_are_refused_by_hand(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    with client.producer() as producer:
        producer.produce(topic, b"bad").get(20)
    with client.consumer(topic, group=topic) as consumer:
        run = consumer.parallel(
            lambda record: record.nack(), manual_ack=True, dead_letters=topic + ".dlq", idle_timeout=0.5
        )
        run.run()
    (tried,) = telemetry.spans("process " + topic)
    (letter,) = telemetry.spans(f"send {topic}.dlq")
    assert id_of(tried) in links_of(letter)


def test_records_that_cannot_be_read(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """No handler sees them: their dead letters are linked to what has sent them."""
    from pykafka import DeadLetters
    from pykafka.serialization import JsonDeserializer

    telemetry.instrument(client)
    with client.producer() as producer:
        producer.produce(topic, b"{").get(20)
        producer.produce(topic, b"{}").get(20)
    letters = DeadLetters(client)
    options: dict[str, Any] = {
        "value_deserializer": JsonDeserializer(),
        "on_bad_record": letters,
        "consumer_timeout_ms": 5000,
    }
    with client.consumer(topic, **options) as consumer:
        for record in consumer:
            assert record.value == {}
            break
    (letter,) = telemetry.spans(f"send {topic}.dlq")
    assert links_of(letter) == {id_of(telemetry.spans("send " + topic)[0])}
    assert len(telemetry.spans("process " + topic)) == 1
