"""Offsets of a topic that was deleted and recreated inside a transaction are never committed to the new one (KIP-1319)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import TopicRecreatedError, TransactionAbortableError
from pykafka.handlers import Handler
from pykafka.network.node import Node
from pykafka.protocol import wire
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic, make_anew
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("topic ids", "transactions"), pytest.mark.timeout(120)]


def filled(client: KafkaClient, values: list[bytes]) -> str:
    """Return the name of a new topic with messages."""
    name = create_topic(client).name
    with client.producer() as producer:
        producer.produce_many(name, values)
    return name


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.needs("assigning"))])
@pytest.mark.parametrize(
    "knows", ["client", "consumer", pytest.param("broker", marks=pytest.mark.needs("transactions by id"))]
)
def test_the_commit_says_that_the_topic_was_made_anew(
    kafka: KafkaCluster, handler: Handler, knows: str, protocol: str
) -> None:
    """Without ids the group skipped as many records of the new topic as it had read of the former one.

    The client knows by the metadata of another call, its consumer has gone to the new topic, or only the broker knows.
    """
    with KafkaClient(kafka.hosts, handler=handler) as client, KafkaClient(kafka.hosts) as other:
        given, made, group = filled(other, [b"former"] * 9), create_topic(client).name, f"g-{uuid.uuid4().hex[:8]}"
        key = TopicPartition(given, 0)
        with (
            client.producer(transactional_id=f"t-{uuid.uuid4().hex[:8]}") as producer,
            client.consumer(given, group=group, protocol=protocol, auto_offset_reset="earliest") as consumer,
        ):
            records = consumer.poll(9, timeout=30)
            assert len(records) == 9
            former = client.cluster.topic_id(given)
            with pytest.raises(TransactionAbortableError, match="was deleted and recreated") as caught:
                with producer.transaction(consumer):
                    producer.produce(made, records[0].value).get(20)
                    make_anew(other, given)
                    if knows != "broker":
                        client.cluster.update([given])
                    if knows == "consumer":
                        until(handler, lambda: consumer.position(key) == 0)
                    producer.send_offsets(consumer, {key: 9})
            cause = caught.value.__cause__
            assert isinstance(cause, TopicRecreatedError)
            assert (cause.topic, cause.partition, cause.api) == (given, 0, "TxnOffsetCommit")
            assert (cause.old_id, cause.new_id) == (former, client.cluster.topic_id(given))
            with other.producer() as plain:
                plain.produce_many(given, [b"new"] * 3)
            with producer.transaction(consumer):
                found: list[Any] = []
                while len(found) < 3:
                    found += consumer.poll(3, timeout=30)
                assert [record.value for record in found] == [b"new"] * 3
                producer.send_offsets(consumer)
            committed = consumer.committed()[key]
            assert committed is not None
            assert committed.offset == 3


@pytest.mark.needs("transactions by id")
def test_offsets_name_the_topic_by_its_id(
    kafka: KafkaCluster, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[wire.TxnOffsetCommitRequest, int]] = []
    really = Node.call

    def call(self: Node, request: Any, *args: Any, **options: Any) -> Any:
        if isinstance(request, wire.TxnOffsetCommitRequest):
            sent.append((request, self.api_version(type(request), options["ceiling"])))
        return really(self, request, *args, **options)

    monkeypatch.setattr(Node, "call", call)
    with KafkaClient(kafka.hosts, handler=handler) as client:
        given = filled(client, [b"one"])
        with (
            client.producer(transactional_id=f"t-{uuid.uuid4().hex[:8]}") as producer,
            client.consumer(given, group=f"g-{uuid.uuid4().hex[:8]}", auto_offset_reset="earliest") as consumer,
        ):
            assert consumer.poll(1, timeout=30)
            with producer.transaction(consumer):
                producer.send_offsets(consumer)
            ((request, version),) = sent
            assert version == 6
            assert [topic.topic_id for topic in request.topics] == [client.cluster.topic_id(given)]
            committed = consumer.committed()[TopicPartition(given, 0)]
            assert committed is not None
            assert committed.offset == 1
