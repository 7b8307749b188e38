"""Transactions: lists, descriptions, and those that hang."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from pykafka import KafkaClient
from pykafka.admin import NewTopic, OffsetSpec, TransactionState
from pykafka.common import CompressionType, TopicPartition
from pykafka.exceptions import InvalidTxnState, TransactionalIdNotFound
from pykafka.protocol import wire
from pykafka.protocol.records import RecordBatchBuilder
from tests.brokers import KafkaCluster
from tests.integration.admin.conftest import unique
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest")]


def test_transactions_are_listed_and_described(keeper: KafkaClient, guarded: KafkaCluster) -> None:
    admin, topic, name = keeper.admin, unique("t"), unique("x")
    admin.create_topics(NewTopic(topic, 1, 1))
    producer = Producer({"bootstrap.servers": guarded.hosts, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush()
    listed = {one.transactional_id: one for one in admin.list_transactions()}
    assert (listed[name].state, listed[name].coordinator) == (TransactionState.ONGOING, 1)
    described = admin.describe_transactions(name)[name]
    assert described.partitions == (TopicPartition(topic, 0),)
    assert described.start_ms is not None
    assert name in {one.transactional_id for one in admin.list_transactions(states=TransactionState.ONGOING)}
    assert [one.transactional_id for one in admin.list_transactions(pattern=name)] == [name]
    assert name not in {one.transactional_id for one in admin.list_transactions(longer_than_ms=3_600_000)}
    assert [one.transactional_id for one in admin.list_transactions(producer_ids=described.producer_id)] == [name]
    known = admin.describe_producers([(topic, 0)])[TopicPartition(topic, 0)]
    assert [(one.producer_id, one.txn_start_offset) for one in known] == [(described.producer_id, 0)]
    assert admin.find_hanging_transactions([(topic, 0)], max_timeout_ms=0) == []  # its coordinator will end it
    producer.commit_transaction()
    until(
        keeper.cluster.handler,
        lambda: admin.describe_transactions(name)[name].state == TransactionState.COMPLETE_COMMIT,
    )
    with pytest.raises(TransactionalIdNotFound, match="no-such-id"):
        admin.describe_transactions("no-such-id")
    admin.delete_topics(topic)


def hang(client: KafkaClient, topic: str, producer_id: int) -> None:
    """Write a batch of a transaction that no coordinator knows."""
    builder = RecordBatchBuilder()
    builder.append(-1, None, b"x", None)
    batch = builder.build(CompressionType.NONE, None, producer_id, 0, 0, transactional=True)
    data = wire.ProduceRequest.Topic
    partition = data.Partition(index=0, records=batch)
    request = wire.ProduceRequest(
        transactional_id=unique("x"),
        acks=-1,
        timeout_ms=10_000,
        topic_data=[data(name=topic, partition_data=[partition])],
    )
    response = client.cluster.leader(topic, 0).call(request, "produce", version=9)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_a_hanging_transaction_is_found_and_aborted(keeper: KafkaClient) -> None:
    admin, topic = keeper.admin, unique("t")
    part = TopicPartition(topic, 0)
    admin.create_topics(NewTopic(topic, 1, 1))
    hang(keeper, topic, 777_000)

    def stable_end() -> int | None:
        return admin.list_offsets({part: OffsetSpec.latest()}, read_committed=True)[part].offset

    assert stable_end() == 0
    found = [one for one in admin.find_hanging_transactions(max_timeout_ms=0) if one.partition == part]
    assert [(one.partition, one.producer.producer_id, one.transactional_id) for one in found] == [(part, 777_000, None)]
    with pytest.raises(InvalidTxnState, match="offset 5"):
        admin.abort_transaction(part, start_offset=5)
    admin.abort_transaction(part, found[0].producer)
    until(keeper.cluster.handler, lambda: stable_end() == 2)  # the message, and the marker
    assert admin.find_hanging_transactions([part], max_timeout_ms=0) == []
    hang(keeper, topic, 777_001)
    admin.abort_transaction(part, start_offset=2)
    until(keeper.cluster.handler, lambda: stable_end() == 4)
    with pytest.raises(ValueError, match="either the producer"):
        admin.abort_transaction(part)
    admin.delete_topics(topic)
