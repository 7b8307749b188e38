"""The process of a producer died after a transaction, and its offsets come late: the next one of its transactional id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient, ProducerRecord, aio, exactly_once
from pykafka.common import OffsetType, TopicPartition
from pykafka.exceptions import InvalidProducerEpoch, TransactionAbortableError, TransactionUnfinishedError
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.kafkaproducer import KafkaProducer
from pykafka.protocol import wire
from pykafka.spark import session
from pykafka.spark.decisions import Decisions
from pykafka.spark.epochs import Record
from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.testing import FakeCluster
from tests.support.dead_producer import DeadProducer

NAME, GROUP, ORDERS = "billing", "copiers", TopicPartition("orders", 0)
OPTIONS: dict[str, Any] = {
    "group": GROUP,
    "auto_commit": False,
    "auto_offset_reset": OffsetType.EARLIEST,
    "isolation_level": "read_committed",
    "consumer_timeout_ms": 1_000,
}
REFUSED = InvalidProducerEpoch.ERROR_CODE


class Following(NamedTuple):
    """The next process.

    :param dead: the producer of the last one
    """

    cluster: FakeCluster
    dead: DeadProducer
    producer: KafkaProducer[Any, Any]
    consumer: KafkaConsumer[Any, Any]


@pytest.fixture
def following() -> Iterator[Following]:
    """A producer that died after it had committed offset 1 of two, and the next process, which reads offset 1."""
    with (
        FakeCluster(brokers=1, topics={"orders": 1, "copies": 1}, as_version="2.8") as cluster,
        KafkaClient(cluster.hosts, socket_timeout_ms=2_000) as client,
    ):
        with client.producer() as plain:
            for number in range(2):
                plain.produce("orders", b"%d" % number).get(10)
        dead = DeadProducer(client, NAME, GROUP, ORDERS, 1)
        with (
            client.consumer("orders", **OPTIONS) as consumer,
            client.producer(transactional_id=NAME, max_block_ms=3_000) as producer,
        ):
            yield Following(cluster, dead, producer, consumer)


def copy(following: Following) -> None:
    exactly_once(following.consumer, following.producer, lambda record: ProducerRecord(record.value, topic="copies"))


def init(following: Following) -> None:
    following.producer.init_transactions(consumer=following.consumer)


def begin(following: Following) -> None:
    with following.producer.transaction(following.consumer):
        pass


@pytest.mark.parametrize("start", [copy, init, begin])
@pytest.mark.parametrize("comes", ["before", "after"])
def test_offsets_of_a_dead_process_hold_up_no_reader(
    following: Following, start: Callable[[Following], None], comes: str
) -> None:
    """Coordinators of groups before Kafka 3.6 take them, and all readers of the group's offsets would wait for ever."""
    if comes == "before":
        assert following.dead.come() == 0
    start(following)
    assert following.dead.come() == REFUSED
    committed = following.consumer.committed(ORDERS)[ORDERS]
    assert committed is not None
    assert committed.offset == (2 if start is copy else 1)


def test_it_is_done_once(following: Following) -> None:
    init(following)
    asked: list[type[Any]] = []
    following.cluster.on_request(lambda call: asked.append(type(call.request)))
    init(following)
    begin(following)
    assert asked == []


@pytest.mark.parametrize(("release", "known"), [("2.8", False), ("3.9", True), ("4.3", True)])
def test_it_is_done_if_need_be(release: str, known: bool) -> None:
    """A new transactional id has no predecessor, and later releases ask whether the transaction is open."""
    asked: list[type[Any]] = []
    with (
        FakeCluster(brokers=1, topics={"orders": 1}, as_version=release) as cluster,
        KafkaClient(cluster.hosts) as client,
    ):
        if known:
            DeadProducer(client, NAME, GROUP, ORDERS, 1)
        cluster.on_request(lambda call: asked.append(type(call.request)))
        with client.consumer("orders", **OPTIONS) as consumer, client.producer(transactional_id=NAME) as producer:
            producer.init_transactions(consumer=consumer)
    assert wire.InitProducerIdRequest in asked
    assert wire.AddOffsetsToTxnRequest not in asked


def test_an_end_that_gets_no_answer_is_finished_by_the_next_call(following: Following) -> None:
    failure = following.cluster.fail("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", 1000)
    with pytest.raises(TransactionUnfinishedError):
        following.producer.init_transactions(timeout=0.5, consumer=following.consumer)
    failure.end()
    following.producer.begin_transaction()
    assert following.dead.come() == REFUSED


def test_a_denied_group_is_reported_by_the_call_that_commits_its_offsets(following: Following) -> None:
    following.cluster.fail("AddOffsetsToTxn", "GROUP_AUTHORIZATION_FAILED", 2)
    with pytest.raises(TransactionAbortableError), following.producer.transaction(following.consumer):
        following.consumer.poll(1, timeout=5)
        following.producer.send_offsets(following.consumer)


@pytest.mark.parametrize("broken", ["no group", "auto commit"])
def test_a_consumer_that_does_not_fit_is_refused(following: Following, broken: str) -> None:
    options: dict[str, Any] = {"no group": {}, "auto commit": {"group": GROUP, "auto_commit": True}}[broken]
    with (
        KafkaClient(following.cluster.hosts) as client,
        client.consumer("orders", **options) as consumer,
        pytest.raises(ValueError, match="init_transactions"),
    ):
        following.producer.init_transactions(consumer=consumer)


def test_on_asyncio(following: Following) -> None:
    async def program() -> int:
        client = await aio.KafkaClient(following.cluster.hosts)
        async with (
            client,
            client.consumer("orders", **OPTIONS) as consumer,
            client.producer(transactional_id=NAME) as producer,
        ):
            await producer.init_transactions(consumer=consumer)
            assert following.dead.come() == REFUSED
            found: int = await aio.exactly_once(consumer, producer, lambda record: None)
            return found

    assert following.dead.come() == 0
    following.consumer.close()
    assert asyncio.run(program()) == 1


def test_a_driver_of_spark_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next plan reads the record of the last decision, and would wait for the offsets that came late."""
    late: list[wire.TxnOffsetCommitRequest] = []

    def keep(call: Any) -> None:
        if isinstance(call.request, wire.TxnOffsetCommitRequest):
            late.append(call.request)

    with (
        FakeCluster(brokers=1, topics={"orders": 1}, as_version="3.9") as cluster,
        KafkaClient(cluster.hosts) as client,
    ):
        raw = {"kafka.bootstrap.servers": cluster.hosts, "topic": "orders", "transactionalIdPrefix": NAME}
        options = write_options(raw, Mode.STREAM_WRITE)
        with cluster._locked() as state:
            monkeypatch.setattr(state.transactions.path, "verifies", False)  # as before Kafka 3.6
        monkeypatch.setattr("pykafka.transactions.coordinator.REFUSES_LATE", 5)
        broker = client.cluster.get_group_coordinator(NAME)
        cluster.on_request(keep)
        try:
            dead = Decisions(options)
            dead._recorded(session.cluster_for(options.client), dead.plan().at, Record("query", 3))
            assert broker.call(late[0], version=3).topics[0].partitions[0].error_code == 0
            assert Decisions(options).plan().record == Record("query", 3)
            assert broker.call(late[0], version=3).topics[0].partitions[0].error_code == REFUSED
        finally:
            session.close_all()
