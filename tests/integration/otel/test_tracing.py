"""Spans against a real broker: transactions, share groups, and a trace that goes from one client to the next."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from opentelemetry import trace

from pykafka import KafkaClient, exactly_once
from pykafka.admin import ConfigResource, ConfigType, NewTopic
from pykafka.aio import KafkaClient as AsyncClient
from pykafka.aio import exactly_once as exactly_once_async
from pykafka.producer.producer_record import ProducerRecord
from pykafka.record import Record
from tests.brokers import KafkaCluster
from tests.support import loops
from tests.support.spans import Telemetry, id_of, links_of, parent_of


@pytest.fixture
def telemetry() -> Telemetry:
    """Return an SDK with exporters in memory."""
    return Telemetry()


@pytest.fixture
def topic(client: KafkaClient) -> str:
    """Return a topic of the test's own; beside it is one for results."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    client.admin.create_topics([NewTopic(name, 1), NewTopic(name + "-out", 1)])
    return name


def fill(client: KafkaClient, topic: str) -> None:
    with client.producer() as producer:
        producer.produce_many(topic, [b"%d" % number for number in range(3)])


def check_exactly_once(spans: list[Any], topic: str, inside: list[int]) -> None:
    """Check that each result was sent in the span of its record, and that offsets were committed with them."""

    def named(name: str) -> list[Any]:
        return [span for span in spans if span.name == name]

    processed = named("process " + topic)
    assert [id_of(span) for span in processed] == inside
    assert len(inside) == 3
    assert {parent_of(span) for span in processed} == {id_of(span) for span in named("send " + topic)}
    assert [parent_of(span) for span in named(f"send {topic}-out")] == inside
    commits = named("commit " + topic)
    assert commits
    assert all(span.attributes["messaging.consumer.group.name"] == topic for span in commits)
    assert sum(span.attributes["messaging.batch.message_count"] for span in named("poll " + topic)) == 3


def test_exactly_once(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    fill(client, topic)
    inside = []

    def handle(record: Record) -> ProducerRecord:
        inside.append(trace.get_current_span().get_span_context().span_id)
        return ProducerRecord(record.value, topic=topic + "-out", headers=record.headers)

    options: dict[str, Any] = {"group": topic, "isolation_level": "read_committed", "consumer_timeout_ms": 5000}
    with client.consumer(topic, **options) as consumer, client.producer(transactional_id=topic) as producer:
        assert exactly_once(consumer, producer, handle) == 3
    check_exactly_once(telemetry.spans(), topic, inside)


def test_exactly_once_of_coroutines(kafka: KafkaCluster, client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    inside = []

    async def handle(record: Any) -> Any:
        inside.append(trace.get_current_span().get_span_context().span_id)
        return ProducerRecord(record.value, topic=topic + "-out")

    async def main() -> None:
        async with AsyncClient(kafka.hosts) as other:
            telemetry.instrument(other)
            async with other.producer() as producer:
                for number in range(3):
                    await producer.produce(topic, b"%d" % number)
            options: dict[str, Any] = {"group": topic, "isolation_level": "read_committed", "consumer_timeout_ms": 5000}
            async with other.consumer(topic, **options) as consumer, other.producer(transactional_id=topic) as producer:
                assert await exactly_once_async(consumer, producer, handle) == 3

    loops.run_coroutine("asyncio", main(), debug=False)
    check_exactly_once(telemetry.exported(), topic, inside)


def test_a_transaction_that_is_aborted(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """A message that was acknowledged has its offset, one that was not sent any more has the error."""
    telemetry.instrument(client)
    with client.producer(transactional_id=topic, linger_ms=60_000) as producer:
        producer.init_transactions()
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.produce(topic, b"1").get(20)
            producer.produce(topic, b"2")
            raise ZeroDivisionError
    first, second = telemetry.spans("send " + topic)
    assert first.attributes["messaging.kafka.offset"] == 0
    assert first.status.is_ok or first.status.status_code.name == "UNSET"
    assert second.attributes["error.type"]
    assert "messaging.kafka.offset" not in second.attributes


def test_old_classes(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """A trace goes from PyKafka 2's producer by its consumer to the next topic, while another member takes a partition."""
    telemetry.instrument(client)
    client.admin.create_partitions({topic: 2})
    client.update_cluster()
    old, out = client.topics[topic], client.topics[topic + "-out"]
    inside: dict[tuple[int, int], int] = {}
    options: dict[str, Any] = {"consumer_group": topic, "managed": True, "consumer_timeout_ms": 3000}
    with old.get_producer(required_acks=-1, linger_ms=1) as producer:
        for number in range(20):
            producer.produce(b"%d" % number)
    with out.get_sync_producer() as results, old.get_balanced_consumer(**options) as consumer:
        other = None
        for message in consumer:
            current = trace.get_current_span().get_span_context().span_id
            inside[message.partition_id, message.offset] = current
            results.produce(message.value, headers=message.headers)
            if other is None:
                other = old.get_balanced_consumer(**options)
                client.cluster.handler.sleep(1.0)
            assert trace.get_current_span().get_span_context().span_id == current
            consumer.commit_offsets()
        assert other is not None
        for message in other:
            inside[message.partition_id, message.offset] = trace.get_current_span().get_span_context().span_id
        other.stop()
    sent = {id_of(span) for span in telemetry.spans("send " + topic)}
    processed = telemetry.spans("process " + topic)
    assert len(inside) == len(sent) == 20
    assert set(inside.values()) <= {id_of(span) for span in processed}
    assert {parent_of(span) for span in processed} == sent
    results_sent = telemetry.spans(f"send {topic}-out")
    assert results_sent
    assert {parent_of(span) for span in results_sent} <= {id_of(span) for span in processed}
    assert all(links_of(span) <= sent and links_of(span) for span in results_sent)


def test_a_rebalance_in_the_body(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """Another member joins while a record is handled: each span ends once, and the body keeps the span that it has."""
    telemetry.instrument(client)
    client.admin.create_partitions({topic: 2})
    with client.producer() as producer:
        for number in range(20):
            producer.produce(topic, b"x", partition=number % 2)
    handler = client.cluster.handler
    options: dict[str, Any] = {"group": topic, "consumer_timeout_ms": 3000}
    seen: list[int] = []
    beside: list[int] = []

    def join() -> None:
        with client.consumer(topic, **options) as other:
            beside.extend(trace.get_current_span().get_span_context().span_id for _ in other)

    with client.consumer(topic, **options) as consumer:
        worker = None
        for _ in consumer:
            inside = trace.get_current_span().get_span_context().span_id
            seen.append(inside)
            if worker is None:
                worker = handler.spawn(join, name="other")
                handler.sleep(1.0)
            assert trace.get_current_span().get_span_context().span_id == inside
        assert worker is not None
        worker.join(60)
    processed = [id_of(span) for span in telemetry.spans("process " + topic)]
    assert sorted(processed) == sorted([*seen, *beside])
    assert len(set(processed)) == len(processed) >= 20


@pytest.mark.needs("share groups")
@pytest.mark.parametrize("acknowledgement", ["implicit", "explicit"])
def test_share_group(client: KafkaClient, telemetry: Telemetry, topic: str, acknowledgement: str) -> None:
    """Each acknowledgement is a span until the broker has taken it; it belongs to the record, or is linked to it."""
    client.admin.alter_configs({ConfigResource(ConfigType.GROUP, topic): {"share.auto.offset.reset": "earliest"}})
    telemetry.instrument(client)
    fill(client, topic)
    inside = []
    with client.share_consumer(topic, group=topic, acknowledgement=acknowledgement) as consumer:
        for record in consumer:
            inside.append(trace.get_current_span().get_span_context().span_id)
            if acknowledgement == "explicit":
                [consumer.accept, consumer.release, consumer.reject][len(inside) - 1](record)
            if len(inside) == 3:
                break
        assert set(consumer.commit().values()) == {None}
    processed = telemetry.spans("process " + topic)
    assert [id_of(span) for span in processed] == inside
    settled = [span for span in telemetry.spans() if span.attributes["messaging.operation.type"] == "settle"]
    assert len(settled) == 3
    assert all(span.end_time > span.start_time for span in settled)
    if acknowledgement == "explicit":
        assert {parent_of(span): span.name for span in settled} == {
            inside[0]: "accept " + topic,
            inside[1]: "release " + topic,
            inside[2]: "reject " + topic,
        }
    else:
        assert {span.name for span in settled} == {"accept " + topic}
        assert set().union(*map(links_of, settled)) == set(inside)


@pytest.mark.needs("share groups")
def test_share_group_of_coroutines(kafka: KafkaCluster, client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    client.admin.alter_configs({ConfigResource(ConfigType.GROUP, topic): {"share.auto.offset.reset": "earliest"}})
    fill(client, topic)
    inside = []

    async def main() -> None:
        async with AsyncClient(kafka.hosts) as other:
            telemetry.instrument(other)
            async with other.share_consumer(topic, group=topic, acknowledgement="explicit") as consumer:
                async for record in consumer:
                    inside.append(trace.get_current_span().get_span_context().span_id)
                    await consumer.accept(record)
                    if len(inside) == 3:
                        break
                assert trace.get_current_span() is trace.INVALID_SPAN
                assert set((await consumer.commit()).values()) == {None}

    loops.run_coroutine("asyncio", main(), debug=False)
    spans = telemetry.exported()
    assert [id_of(span) for span in spans if span.name == "process " + topic] == inside
    assert [parent_of(span) for span in spans if span.name == "accept " + topic] == inside
