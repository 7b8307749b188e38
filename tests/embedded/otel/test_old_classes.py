"""Spans of PyKafka 2's producers and consumers."""

from __future__ import annotations

import gc
import os
import queue
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import trace

from pykafka import EmbeddedCluster, KafkaClient, otel
from pykafka.exceptions import MessageSizeTooLarge, MessagesNotDelivered, TopicAuthorizationFailed
from pykafka.partitioners import Murmur2Partitioner
from pykafka.protocol.message import Message
from tests.support.loops import Concurrency
from tests.support.spans import Broken, Telemetry, check_first_span, id_of, links_of, parent_of
from tests.support.waiting import until

pytestmark = pytest.mark.on_asyncio

#: How a consumer of each class is made, and whether it has a group.
CONSUMERS: dict[str, Callable[[Any], Any]] = {
    "simple": lambda topic: topic.get_simple_consumer(consumer_timeout_ms=5000),
    "of a group": lambda topic: topic.get_simple_consumer(consumer_group=topic.name, consumer_timeout_ms=5000),
    "deserializing": lambda topic: topic.get_simple_consumer(
        deserializer=lambda value, key: (value.decode(), key), consumer_timeout_ms=5000
    ),
    "managed": lambda topic: topic.get_balanced_consumer(
        consumer_group=topic.name, managed=True, consumer_timeout_ms=5000
    ),
}


def current() -> int:
    return int(trace.get_current_span().get_span_context().span_id)


def fill(client: KafkaClient, name: str, count: int = 3) -> None:
    with client.topics[name].get_producer(linger_ms=1) as producer:
        for number in range(count):
            producer.produce(b"%d" % number)


@pytest.fixture
def old_topic(client: KafkaClient, telemetry: Telemetry, topic: str) -> Any:
    """Return a topic with three traced messages."""
    telemetry.instrument(client)
    fill(client, topic)
    return client.topics[topic]


# -- producing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_span_ends_at_the_acknowledgement(
    client: KafkaClient, telemetry: Telemetry, topic: str, before: bool
) -> None:
    producer = telemetry.instrument_around(client, lambda: client.topics[topic].get_producer(linger_ms=60_000), before)
    message = producer.produce(b"secret value", b"secret key", headers={"own": b"1"})
    assert not telemetry.spans("send " + topic)
    producer.flush()
    check_first_span(telemetry, client, topic, message.headers)
    otel.uninstrument(client)
    assert producer.produce(b"plain").headers is None
    assert producer._plain
    producer.stop()
    assert len(telemetry.spans()) == 1


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "by key": {"partitioner": Murmur2Partitioner()},
    "serialized": {"serializer": lambda value, key: (value, key)},
    "synchronous": {"sync": True},
    "reported": {"delivery_reports": True},
    "idempotent": {"required_acks": -1},
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_produce(client: KafkaClient, telemetry: Telemetry, topic: str, way: str) -> None:
    """The caller's span is the parent, and is current in the callback; reports come as they do without a trace."""
    with client.topics[topic].get_producer(linger_ms=1, **WAYS[way]) as producer:
        untraced = producer.produce(b"0", b"k")
        telemetry.instrument(client)
        seen: list[Any] = []
        tracer = telemetry.tracer_provider.get_tracer("test")
        with tracer.start_as_current_span("outer") as outer:
            first = producer.produce(b"1", b"k", on_delivery=lambda *_: seen.append(trace.get_current_span()))
            second = producer.produce(b"2", b"k")
        producer.flush()
        if way == "reported":
            assert [producer.get_delivery_report(timeout=10) for _ in range(2)] == [(untraced, None), (second, None)]
            with pytest.raises(queue.Empty):
                producer.get_delivery_report(block=False)
    spans = telemetry.spans("send " + topic)
    assert [parent_of(span) for span in spans] == [outer.get_span_context().span_id] * 2
    assert {span.attributes["messaging.kafka.offset"] for span in spans} == {first.offset, second.offset} == {1, 2}
    assert seen == [outer]


def test_errors_end_spans(client: KafkaClient, cluster: EmbeddedCluster, telemetry: Telemetry, topic: str) -> None:
    """A broker refuses, a message does not fit, a serializer fails: each span ends with its error."""
    telemetry.instrument(client)
    old_topic = client.topics[topic]
    with old_topic.get_sync_producer(max_retries=0, max_request_size=2000) as producer:
        cluster.inject_errors("Produce", TopicAuthorizationFailed)
        with pytest.raises(TopicAuthorizationFailed):
            producer.produce(b"refused")
        with pytest.raises(MessageSizeTooLarge):
            producer.produce(b"x" * 4000)
        with pytest.raises(TypeError):
            producer.produce("text")  # type: ignore[arg-type]  # the test's point

    def serialize(*_: Any) -> Any:
        raise ZeroDivisionError

    with old_topic.get_producer(serializer=serialize) as other, pytest.raises(ZeroDivisionError):
        other.produce(b"1")
    spans = telemetry.spans("send " + topic)
    names = ["TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE", "TypeError", "ZeroDivisionError"]
    assert [span.attributes["error.type"] for span in spans] == names
    assert not any(span.status.description or span.events for span in spans)


def test_reports_of_failed_messages(
    client: KafkaClient, cluster: EmbeddedCluster, telemetry: Telemetry, topic: str
) -> None:
    """They come as they do without traces, and `flush()` raises none of them again."""
    telemetry.instrument(client)
    with client.topics[topic].get_producer(linger_ms=1, max_retries=0, delivery_reports=True) as producer:
        cluster.inject_errors("Produce", TopicAuthorizationFailed)
        message = producer.produce(b"refused")
        producer.flush()
        reported, error = producer.get_delivery_report(timeout=10)
        assert reported is message
        assert isinstance(error, TopicAuthorizationFailed)
    (span,) = telemetry.spans("send " + topic)
    assert span.attributes["error.type"] == "TOPIC_AUTHORIZATION_FAILED"


def test_messages_that_are_given_up(
    client: KafkaClient, cluster: EmbeddedCluster, telemetry: Telemetry, topic: str
) -> None:
    telemetry.instrument(client)
    producer = client.topics[topic].get_producer(linger_ms=1, pending_timeout_ms=50)
    cluster.set_latency(1, 2000)
    try:
        producer.produce(b"1")
        with pytest.raises(MessagesNotDelivered):
            producer.stop()
    finally:
        cluster.set_latency(1, 0)
    (span,) = telemetry.spans("send " + topic)
    assert span.attributes["error.type"]


def test_a_synchronous_wait_that_is_cut_off(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """The message is on its way all the same: its span ends at the acknowledgement."""
    telemetry.instrument(client)
    with client.topics[topic].get_sync_producer() as producer:

        def cut(*_: Any) -> None:
            raise KeyboardInterrupt

        engine: Any = producer._engine
        wait, engine._wait_for = engine._wait_for, cut
        with pytest.raises(KeyboardInterrupt):
            producer.produce(b"1")
        engine._wait_for = wait
        producer.flush()
    (span,) = telemetry.spans("send " + topic)
    assert span.attributes["messaging.kafka.offset"] == 0
    assert "error.type" not in span.attributes


@pytest.mark.parametrize("way", ["plain", "reported", "synchronous"])
def test_librdkafka_sends(client: KafkaClient, telemetry: Telemetry, topic: str, way: str) -> None:
    pytest.importorskip("confluent_kafka")
    telemetry.instrument(client)
    called: list[Any] = []
    with client.topics[topic].get_producer(use_rdkafka=True, linger_ms=1, **WAYS[way]) as producer:
        tracer = telemetry.tracer_provider.get_tracer("test")
        with tracer.start_as_current_span("outer") as outer:
            producer.produce(b"1", on_delivery=lambda *_: called.append(trace.get_current_span()))
            second = producer.produce(b"2")
        producer.flush()
        if way == "reported":
            assert producer.get_delivery_report(timeout=10) == (second, None)
    spans = telemetry.spans("send " + topic)
    assert [span.attributes["messaging.kafka.offset"] for span in spans] == [0, 1]
    assert [parent_of(span) for span in spans] == [outer.get_span_context().span_id] * 2
    assert called == [outer]


@pytest.mark.parametrize("dies", [False, True])
def test_librdkafka_reports_no_more(
    client: KafkaClient, telemetry: Telemetry, topic: str, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """Neither in the time that it has at the end, nor if the worker that takes reports ends by an error: the spans end."""
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr("pykafka.compat.rdkafka.producer_engine.PURGE_S", 0.2)
    telemetry.instrument(client)

    class Silent:
        """A producer of librdkafka that reports on nothing."""

        fails = False

        def produce(self, *args: Any, **kwargs: Any) -> None:
            pass

        def poll(self, seconds: float) -> None:
            time.sleep(min(seconds, 0.02))
            if self.fails:
                raise ZeroDivisionError

        flush = poll

        def purge(self) -> None:
            pass

    producer = client.topics[topic].get_producer(use_rdkafka=True, pending_timeout_ms=200)
    engine: Any = producer._engine
    engine._rdk_producer = Silent()
    producer.produce(b"1")
    engine._rdk_producer.fails = dies
    until(client.cluster.handler, lambda: not dies or engine.worker_exception is not None)
    assert not telemetry.spans("send " + topic)
    with suppress(ZeroDivisionError):
        producer.stop()
    (span,) = telemetry.spans("send " + topic)
    assert span.attributes["error.type"] == ("ZeroDivisionError" if dies else "ProducerStoppedException")
    assert not engine._traced


# -- consuming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CONSUMERS)
def test_iteration(old_topic: Any, telemetry: Telemetry, kind: str) -> None:
    """As that of `client.consumer()`: the span is a child of the sender's, and current until the loop asks for more."""
    tracer = telemetry.tracer_provider.get_tracer("test")
    consumer, inside = CONSUMERS[kind](old_topic), []
    with consumer:
        for message in consumer:
            inside.append(current())
            with tracer.start_as_current_span("work"):
                pass
            if kind in ("of a group", "managed"):
                consumer.commit_offsets()
            if message.offset == 2:
                break
        assert current() == 0
    name = old_topic.name
    sent, processed = telemetry.spans("send " + name), telemetry.spans("process " + name)
    assert [id_of(span) for span in processed] == inside
    assert [parent_of(span) for span in processed] == [id_of(span) for span in sent]
    assert [parent_of(span) for span in telemetry.spans("work")] == inside
    assert {span.kind for span in processed} == {trace.SpanKind.CONSUMER}
    group = None if kind in ("simple", "deserializing") else name
    assert {span.attributes.get("messaging.consumer.group.name") for span in processed} == {group}
    assert [span.attributes["messaging.kafka.offset"] for span in processed] == [0, 1, 2]
    assert not telemetry.spans("poll " + name)
    commits = [span for span in telemetry.spans("commit " + name) if parent_of(span) is not None]
    assert [parent_of(span) for span in commits] == ([] if group is None else inside)
    (consumed,) = telemetry.points("messaging.client.consumed.messages")
    assert consumed.value == 3


@pytest.mark.parametrize("kind", CONSUMERS)
def test_calls_that_return_messages(old_topic: Any, telemetry: Telemetry, kind: str) -> None:
    """Each has a span, linked to what has sent the messages; `process()` makes the message's own."""
    with CONSUMERS[kind](old_topic) as consumer:
        message = consumer.consume()
        assert current() == 0
        with pytest.raises(ZeroDivisionError), otel.process(message, consumer):
            assert current() != 0
            raise ZeroDivisionError
        rest: list[Message] = []
        while len(rest) < 2:
            rest += consumer.consume_batch()
        assert consumer.consume(block=False) is None
        assert consumer.consume_batch(block=False) == []
    name = old_topic.name
    sent = telemetry.spans("send " + name)
    polls = telemetry.spans("poll " + name)
    assert polls[0].attributes["messaging.kafka.offset"] == 0
    assert links_of(polls[0]) == {id_of(sent[0])}
    assert sum(span.attributes["messaging.batch.message_count"] for span in polls[1:]) == 2
    assert set().union(*map(links_of, polls[1:])) == {id_of(span) for span in sent[1:]}
    (processed,) = telemetry.spans("process " + name)
    assert (parent_of(processed), processed.attributes["error.type"]) == (id_of(sent[0]), "ZeroDivisionError")
    assert sum(point.value for point in telemetry.points("messaging.client.consumed.messages")) == 3


def test_librdkafka_fetches(old_topic: Any, telemetry: Telemetry) -> None:
    pytest.importorskip("confluent_kafka")
    inside = []
    with old_topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=5000) as consumer:
        for message in consumer:
            inside.append(current())
            if message.offset == 1:
                break
        assert consumer.consume().offset == 2
    name = old_topic.name
    sent = [id_of(span) for span in telemetry.spans("send " + name)]
    processed = telemetry.spans("process " + name)
    assert [id_of(span) for span in processed] == inside
    assert [parent_of(span) for span in processed] == sent[:2]
    (poll,) = telemetry.spans("poll " + name)
    assert links_of(poll) == {sent[2]}


def test_a_dropped_consumer_is_not_kept(old_topic: Any, telemetry: Telemetry) -> None:
    """Neither the tracer nor a loop that was left keeps it."""
    consumers = [CONSUMERS["simple"](old_topic)]
    assert next(iter(consumers[0])).offset == 0
    assert consumers[0].consume().offset == 1
    reference = weakref.ref(consumers.pop())
    gc.collect()  # consumer and engine refer to each other
    assert reference() is None
    assert len(telemetry.spans("process " + old_topic.name)) == 1


@pytest.mark.parametrize("kind", ["simple", "managed"])
def test_columns(old_topic: Any, telemetry: Telemetry, kind: str) -> None:
    rows = 0
    with CONSUMERS[kind](old_topic) as consumer:
        while rows < 3:
            rows += consumer.consume_arrow().num_rows
    polls = telemetry.spans("poll " + old_topic.name)
    assert sum(span.attributes["messaging.batch.message_count"] for span in polls) == 3


@pytest.mark.parametrize("kind", ["simple", "managed"])
def test_an_error_in_the_body(old_topic: Any, telemetry: Telemetry, kind: str) -> None:
    with pytest.raises(ZeroDivisionError), CONSUMERS[kind](old_topic) as consumer:
        for _ in consumer:
            raise ZeroDivisionError
    assert current() == 0
    (span,) = telemetry.spans("process " + old_topic.name)
    assert span.attributes["error.type"] == "ZeroDivisionError"


@pytest.mark.parametrize("kind", ["simple", "managed"])
def test_instrumented_and_not(client: KafkaClient, telemetry: Telemetry, topic: str, kind: str) -> None:
    """A loop that has begun stays as it is; what is asked for after `instrument()` has spans, until `uninstrument()`."""
    with client.topics[topic].get_producer(linger_ms=1) as producer:
        for number in range(5):
            producer.produce(b"%d" % number)
    with CONSUMERS[kind](client.topics[topic]) as consumer:
        messages = iter(consumer)
        assert next(messages).offset == 0
        telemetry.instrument(client)
        assert next(messages).offset == 1
        assert current() == 0
        assert consumer.consume().offset == 2
        assert next(iter(consumer)).offset == 3
        otel.uninstrument(client)
        assert consumer.consume().offset == 4
    names = [span.name for span in telemetry.spans() if not span.name.startswith("commit")]
    assert names == ["poll " + topic, "process " + topic]


def test_an_overridden_consume_is_called(old_topic: Any, telemetry: Telemetry) -> None:
    """Programs override it; the loops of group consumers call it for each message, traced or not."""
    with CONSUMERS["managed"](old_topic) as consumer:
        own, calls = consumer.consume, []

        def consume(*args: Any, **options: Any) -> Any:
            calls.append(1)
            return own(*args, **options)

        consumer.consume = consume
        for message in consumer:
            assert current() != 0
            if message.offset == 2:
                break
    assert len(calls) == 3


def test_a_broker_that_takes_no_headers(telemetry: Telemetry, concurrency: Concurrency) -> None:
    """The trace ends there; nothing fails but a header of the application's own."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        cluster.set_api_versions("Produce", 0, 2)
        with KafkaClient(cluster.hosts, **concurrency()) as client:
            telemetry.instrument(client)
            with client.topics["t"].get_sync_producer() as producer:
                assert producer.produce(b"1").offset == 0
                with pytest.raises(RuntimeError, match="takes no headers"):
                    producer.produce(b"2", headers={"own": b"1"})
            with CONSUMERS["simple"](client.topics["t"]) as consumer:
                next(iter(consumer))
    one, two = telemetry.spans("send t")
    assert (one.attributes["messaging.kafka.offset"], two.attributes["error.type"]) == (0, "RuntimeError")
    (processed,) = telemetry.spans("process t")
    assert processed.context.trace_id not in (one.context.trace_id, two.context.trace_id)


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
def test_a_forked_child_has_spans_of_its_own(
    cluster: EmbeddedCluster, telemetry: Telemetry, topic: str, greenlets: bool
) -> None:
    """Its producer and its consumer start anew there, traced as in the parent."""
    client = KafkaClient(cluster.hosts, use_greenlets=greenlets)
    telemetry.instrument(client)
    producer, consumer = client.topics[topic].get_sync_producer(), CONSUMERS["simple"](client.topics[topic])
    producer.produce(b"0")
    assert consumer.consume().offset == 0
    assert len(telemetry.spans("send " + topic)) == 1  # it has ended, and the child has a copy
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            assert producer.produce(b"1").headers
            for message in consumer:
                if message.offset == 1:
                    assert current()
                    os.write(write, b"%d" % (len(telemetry.spans("send " + topic)) - 1))
                    break
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 10) == b"1"
    os.close(read)
    os.waitpid(child, 0)
    client.close()
    assert len(telemetry.spans("send " + topic)) == 1


def test_without_an_sdk(client: KafkaClient, topic: str) -> None:
    """Nothing is made, and contexts are passed on."""
    made = otel.instrument(client)
    parent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    with client.topics[topic].get_producer(linger_ms=1) as producer:
        assert producer.produce(b"1").headers is None
        producer.produce(b"2", headers={"traceparent": parent.encode()})
        producer.flush()
        with CONSUMERS["simple"](client.topics[topic]) as consumer:
            for message in consumer:
                assert current() == (0 if message.offset == 0 else int("b" * 16, 16))
                if message.offset == 1:
                    break
    assert not made._spans.finisher._waiting


# -- what writing raises ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["producer", "of a topic"])
def test_a_trace_ends_if_writing_raises(client: KafkaClient, telemetry: Telemetry, topic: str, kind: str) -> None:
    with client.producer() as producer, client.topics[topic].get_producer() as old:
        producer.produce(topic, b"1").get(20)
        telemetry.instrument(client, propagator=Broken())
        with pytest.raises(TypeError):
            _ = producer.produce(topic, b"2") if kind == "producer" else old.produce(b"2")
    (span,) = telemetry.spans("send " + topic)
    assert span.attributes["error.type"] == "TypeError"
