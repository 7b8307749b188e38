"""Spans of records: each is current in the body of its loop, and ends with it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry import trace

from pykafka import EmbeddedCluster, KafkaClient, KafkaConsumer, otel
from tests.support.spans import Telemetry, id_of, links_of, parent_of

pytestmark = pytest.mark.on_asyncio


@pytest.fixture
def consumer(client: KafkaClient, telemetry: Telemetry, topic: str) -> KafkaConsumer:
    """Return a consumer of three traced messages, whose client is instrumented after it was made."""
    found = client.consumer(topic, group=topic, consumer_timeout_ms=5000)
    telemetry.instrument(client)
    with client.producer() as producer:
        for number in range(3):
            producer.produce(topic, b"%d" % number).get(20)
    return found


def current() -> int:
    return int(trace.get_current_span().get_span_context().span_id)


def test_iteration(consumer: KafkaConsumer, telemetry: Telemetry, topic: str) -> None:
    """The span is a child of the one that has sent the record; it is current until the loop asks for the next record."""
    tracer = telemetry.tracer_provider.get_tracer("test")
    inside = []
    for record in consumer:
        inside.append(current())
        with tracer.start_as_current_span("work"):
            pass
        consumer.commit(record)
        if record.offset == 2:
            break
    assert current() == 0
    sent, processed = telemetry.spans("send " + topic), telemetry.spans("process " + topic)
    assert [id_of(span) for span in processed] == inside
    assert [parent_of(span) for span in processed] == [id_of(span) for span in sent]
    assert [parent_of(span) for span in telemetry.spans("work")] == inside
    commits = telemetry.spans("commit " + topic)
    assert [parent_of(span) for span in commits] == inside
    assert {span.kind for span in commits} == {trace.SpanKind.CLIENT}
    assert {span.attributes["messaging.operation.type"] for span in commits} == {"settle"}
    first = processed[0]
    assert first.kind is trace.SpanKind.CONSUMER
    assert first.attributes["messaging.kafka.offset"] == 0
    assert first.attributes["messaging.consumer.group.name"] == topic
    assert not telemetry.spans("poll " + topic)
    (consumed,) = telemetry.points("messaging.client.consumed.messages")
    assert (consumed.value, consumed.attributes["messaging.destination.name"]) == (3, topic)
    (duration,) = telemetry.points("messaging.process.duration")
    assert duration.count == 3


def test_an_error_in_the_body_ends_the_span(consumer: KafkaConsumer, telemetry: Telemetry, topic: str) -> None:
    class OwnError(Exception):
        pass

    with pytest.raises(OwnError), consumer:
        for _record in consumer:
            raise OwnError("secret")
    assert current() == 0
    (span,) = telemetry.spans("process " + topic)
    assert span.attributes["error.type"].endswith("OwnError")
    assert not span.status.is_ok
    assert not span.status.description
    assert not span.events


def test_a_loop_that_is_left_and_begun_again(consumer: KafkaConsumer, telemetry: Telemetry, topic: str) -> None:
    records = iter(consumer)
    assert next(records).offset == 0
    first = current()
    assert first
    records.close()  # type: ignore[attr-defined]  # it is a generator
    assert current() == 0
    for record in consumer:
        assert record.offset == 1
        assert current() not in (0, first)
        break
    assert current() == 0
    assert all(span.status.is_ok or span.status.status_code.name == "UNSET" for span in telemetry.spans())


def test_a_generator_that_ends_elsewhere(consumer: KafkaConsumer, telemetry: Telemetry, topic: str) -> None:
    """Another context lets a loop go: what is current there stays as it is, and nothing is raised or logged."""
    records = [iter(consumer)]
    copy_context().run(next, records[0])
    assert current() == 0
    tracer = telemetry.tracer_provider.get_tracer("test")
    with tracer.start_as_current_span("other") as other:
        records.pop().close()  # type: ignore[attr-defined]
        assert trace.get_current_span() is other
    assert len(telemetry.spans("process " + topic)) == 1


def test_batches_have_one_span_with_links(consumer: KafkaConsumer, telemetry: Telemetry, topic: str) -> None:
    records: list[Any] = []
    while len(records) < 3:
        records += consumer.poll(timeout=5)
    assert consumer.poll(timeout=0) == []
    assert current() == 0
    with otel.process(records[0], consumer) as span:
        assert trace.get_current_span() is span
    with pytest.raises(ZeroDivisionError), otel.process(records[1]):
        raise ZeroDivisionError
    sent = {id_of(span) for span in telemetry.spans("send " + topic)}
    polls = telemetry.spans("poll " + topic)
    assert sum(span.attributes["messaging.batch.message_count"] for span in polls) == 3
    assert set().union(*map(links_of, polls)) == sent
    assert {(span.kind, parent_of(span)) for span in polls} == {(trace.SpanKind.CLIENT, None)}
    one, two = telemetry.spans("process " + topic)
    assert one.attributes["messaging.consumer.group.name"] == topic
    assert two.attributes["error.type"] == "ZeroDivisionError"
    (consumed,) = telemetry.points("messaging.client.consumed.messages")
    assert consumed.value == 3


def test_one_record_and_a_table(consumer: KafkaConsumer, telemetry: Telemetry, topic: str) -> None:
    assert consumer.one(5) is not None
    rows = 0
    while rows < 2:
        table = consumer.arrow(timeout=5)
        assert table is not None
        rows += table.num_rows
    polls = telemetry.spans("poll " + topic)
    assert polls[0].attributes["messaging.kafka.offset"] == 0
    assert sum(span.attributes["messaging.batch.message_count"] for span in polls[1:]) == 2


def test_links_only(client: KafkaClient, consumer: KafkaConsumer, telemetry: Telemetry, topic: str) -> None:
    sent = telemetry.spans("send " + topic)[0]
    telemetry.instrument(client, links_only=True)
    tracer = telemetry.tracer_provider.get_tracer("test")
    with tracer.start_as_current_span("outer") as outer:
        assert next(iter(consumer)).offset == 0
    (span,) = telemetry.spans("process " + topic)
    assert links_of(span) == {id_of(sent)}
    assert parent_of(span) == outer.get_span_context().span_id


def test_commits_by_a_worker_and_failed_ones(
    consumer: KafkaConsumer, cluster: EmbeddedCluster, telemetry: Telemetry, topic: str
) -> None:
    """A commit of `commit_async()` belongs to the record in whose body it was asked for."""
    for record in consumer:
        inside = current()
        consumer.commit_async(record)
        break
    consumer.close()
    (commit,) = telemetry.spans("commit " + topic)
    assert parent_of(commit) == inside


def test_automatic_commits(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    with client.producer() as producer:
        producer.produce(topic, b"1").get(20)
    with client.consumer(topic, group=topic, auto_commit=True, consumer_timeout_ms=5000) as consumer:
        next(iter(consumer))
    (commit,) = telemetry.spans("commit " + topic)
    assert parent_of(commit) is None
    (processed,) = telemetry.spans("process " + topic)
    assert not commit.links
    assert processed.context.trace_id != commit.context.trace_id


def test_what_runs_beside(client: KafkaClient, consumer: KafkaConsumer, telemetry: Telemetry, topic: str) -> None:
    """Each worker has its own current span: one that is spawned in the body has the record's, and keeps it."""
    handler = client.cluster.handler
    seen: list[Any] = []
    go = handler.Event()

    def beside(expected: int) -> None:
        before = current()
        go.wait(10)
        seen.append((expected, before, current()))

    workers = []
    for record in consumer:
        spawn: Callable[..., Any] = handler.spawn_in
        workers.append(spawn(copy_context(), beside, current(), name="beside"))
        if record.offset == 2:
            break
    outside = handler.spawn(beside, 0, name="outside")
    go.set()
    for worker in [*workers, outside]:
        worker.join(10)
    assert len(seen) == 4
    assert all(expected == before == after for expected, before, after in seen)
