"""Transactions whose requests, answers or records get lost, on fake brokers with version 1 and version 2 of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.admin.transactions import TransactionState
from pykafka.common import OffsetType, TopicPartition
from pykafka.exceptions import (
    InvalidProducerEpoch,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
    TransactionUnfinishedError,
)
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.kafkaproducer import KafkaProducer
from pykafka.network.channel import SILENT_S
from pykafka.protocol import wire
from pykafka.spark import session
from pykafka.spark.decisions import Decisions
from pykafka.spark.epochs import Record
from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.testing import FakeCluster
from pykafka.testing.transactions import Transaction
from pykafka.transactions.exactly_once import TransactionRetries
from tests.support.inside import coordinator_of, transactions_of
from tests.support.logins import eventually

NAME = "billing"

Version = pytest.mark.parametrize("cluster", [1, 2], indirect=True, ids=["version1", "version2"])


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    with FakeCluster(brokers=1, topics={"orders": 2, "copies": 1}) as cluster:
        with cluster._locked() as state:
            state.features.set("transaction.version", getattr(request, "param", 1))
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=cluster.hosts) as client:
        yield client


@pytest.fixture
def producer(client: KafkaClient) -> Iterator[KafkaProducer[Any, Any]]:
    with client.producer(transactional_id=NAME) as producer:
        yield producer


@pytest.fixture
def consumer(client: KafkaClient) -> Iterator[KafkaConsumer[Any, Any]]:
    """A consumer of orders, of which each partition has two."""
    with client.producer() as plain:
        for number in range(4):
            plain.produce("orders", b"%d" % number, partition=number % 2)
    options: dict[str, Any] = {"group": "copiers", "auto_commit": False, "auto_offset_reset": OffsetType.EARLIEST}
    with client.consumer("orders", **options) as consumer:
        yield consumer


def read(consumer: KafkaConsumer[Any, Any], count: int) -> list[Any]:
    """Poll until so many records have come."""
    found: list[Any] = []
    while len(found) < count:
        records = consumer.poll(count - len(found), timeout=10)
        assert records, f"{found} have come, and then none"
        found += records
    return found


def committed(client: KafkaClient) -> list[bytes]:
    with client.consumer("copies", isolation_level="read_committed", auto_offset_reset=OffsetType.EARLIEST) as reader:
        return [record.value or b"" for record in reader.poll(100, timeout=1)]


def coordinated(cluster: FakeCluster) -> Transaction:
    with cluster._locked() as state:
        return state.transactions.by_id[NAME]


def lose_an_answer(cluster: FakeCluster, producer: KafkaProducer[Any, Any]) -> wire.AddPartitionsToTxnRequest:
    """Commit a transaction, one answer of which was lost; return the request, which could come once more."""
    lost: list[wire.AddPartitionsToTxnRequest] = []
    end = cluster.on_request(
        lambda call: lost.append(call.request) if isinstance(call.request, wire.AddPartitionsToTxnRequest) else None
    )
    cluster.cut("AddPartitionsToTxn", "after")
    with producer.transaction():
        producer.produce("copies", b"first", partition=0)
    end()
    return lost[0]


def again(client: KafkaClient, request: wire.AddPartitionsToTxnRequest) -> int:
    """Send a request that has come late, and return its error code."""
    (broker,) = client.cluster.brokers.values()
    answer = broker.call(request, version=3)
    (topic,) = answer.results_by_topic_v3_and_below
    return topic.results_by_partition[0].partition_error_code


@Version
def test_an_aborted_transactions_records_are_read_again(
    producer: KafkaProducer[Any, Any], consumer: KafkaConsumer[Any, Any]
) -> None:
    with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
        before = {(record.partition, record.offset) for record in read(consumer, 4)}
        raise ZeroDivisionError
    assert {(record.partition, record.offset) for record in read(consumer, 4)} == before


@Version
def test_a_transaction_that_lost_a_message_is_not_committed(
    cluster: FakeCluster, client: KafkaClient, producer: KafkaProducer[Any, Any]
) -> None:
    producer.begin_transaction()
    producer.produce("copies", b"kept", partition=0)
    producer.flush()
    cluster.fail("Produce", "INVALID_RECORD")
    producer.produce("copies", b"refused", partition=0)
    with pytest.raises(TransactionAbortableError):
        producer.commit_transaction()
    producer.abort_transaction()
    assert committed(client) == []


def test_a_late_request_does_not_count_for_the_next_transaction(
    cluster: FakeCluster, client: KafkaClient, producer: KafkaProducer[Any, Any]
) -> None:
    late = lose_an_answer(cluster, producer)
    producer.begin_transaction()
    assert again(client, late) != 0
    producer.produce("copies", b"second", partition=0)
    producer.commit_transaction()
    assert committed(client) == [b"first", b"second"]


def test_a_coordinator_that_is_not_found_at_once_is_looked_for_again(
    cluster: FakeCluster, client: KafkaClient, producer: KafkaProducer[Any, Any]
) -> None:
    """The producer asks for its versions before it sends a request; that was not tried again."""
    lose_an_answer(cluster, producer)
    coordinator_of(transactions_of(producer))._found = None
    cluster.cut("FindCoordinator", times=2)
    with producer.transaction():
        producer.produce("copies", b"second", partition=0)
    assert committed(client) == [b"first", b"second"]


@pytest.mark.parametrize("release", ["2.8", "3.9"])
def test_a_late_batch_does_not_count_for_the_next_transaction(release: str) -> None:
    """Brokers before Kafka 3.6 do not ask whether its transaction is open; the markers of a new epoch make them refuse it."""
    late: list[wire.ProduceRequest] = []
    with (
        FakeCluster(brokers=1, topics={"copies": 1}, as_version=release) as cluster,
        KafkaClient(cluster.hosts) as client,
    ):
        end = cluster.on_request(
            lambda call: late.append(call.request) if isinstance(call.request, wire.ProduceRequest) else None
        )
        cluster.cut("Produce", "before", times=1000)
        with client.producer(transactional_id=NAME) as producer:
            producer.begin_transaction()
            producer.produce("copies", b"aborted", partition=0)
            eventually(lambda: bool(late))
            producer.abort_transaction()
            end()
            cluster.heal()
            (broker,) = client.cluster.brokers.values()
            answer = broker.call(late[0], version=9)
            assert answer.responses[0].partition_responses[0].error_code == InvalidProducerEpoch.ERROR_CODE
            with producer.transaction():
                producer.produce("copies", b"second", partition=0)
            assert committed(client) == [b"second"]


@pytest.fixture
def lost_offsets() -> Iterator[LostOffsets]:
    """A consumer and a producer on Kafka 2.8, and a TxnOffsetCommit whose answer was lost before it succeeded."""
    with (
        FakeCluster(brokers=1, topics={"orders": 1}, as_version="2.8") as cluster,
        KafkaClient(cluster.hosts) as client,
    ):
        options: dict[str, Any] = {"group": "copiers", "auto_commit": False, "auto_offset_reset": OffsetType.EARLIEST}
        with (
            client.producer() as plain,
            client.consumer("orders", isolation_level="read_committed", **options) as consumer,
            client.producer(transactional_id=NAME, max_block_ms=2_000) as producer,
        ):
            plain.produce("orders", b"1").get(10)
            cluster.cut("TxnOffsetCommit", "before")
            late: list[wire.TxnOffsetCommitRequest] = []
            cluster.on_request(
                lambda call: (
                    late.append(call.request) if isinstance(call.request, wire.TxnOffsetCommitRequest) else None
                )
            )
            read(consumer, 1)
            producer.begin_transaction()
            producer.send_offsets(consumer)
            yield LostOffsets(cluster, client, producer, consumer, late)


class LostOffsets(NamedTuple):
    """See the fixture.

    :param late: the requests, of which the first one comes late
    """

    cluster: FakeCluster
    client: KafkaClient
    producer: KafkaProducer[Any, Any]
    consumer: KafkaConsumer[Any, Any]
    late: list[wire.TxnOffsetCommitRequest]

    def come(self) -> int:
        """Send the first one late, and return the error code."""
        (broker,) = self.client.cluster.brokers.values()
        return broker.call(self.late[0], version=3).topics[0].partitions[0].error_code

    def committed(self) -> int | None:
        """Return the offset of the group; wait until no transaction can change it."""
        found = self.consumer.committed()[TopicPartition("orders", 0)]
        return None if found is None else found.offset


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_late_offsets_do_not_hold_up_those_who_read_the_groups_offsets(lost_offsets: LostOffsets, end: str) -> None:
    """Brokers before Kafka 3.6 do not ask whether their transaction is open; markers of a new epoch make them refuse it."""
    getattr(lost_offsets.producer, f"{end}_transaction")()
    assert lost_offsets.come() == InvalidProducerEpoch.ERROR_CODE
    assert lost_offsets.committed() == (1 if end == "commit" else None)


def test_late_offsets_that_came_before_the_new_epoch_go(lost_offsets: LostOffsets) -> None:
    """The commit has succeeded, though it got no epoch in time: the next begin, init or close asks again."""
    failure = lost_offsets.cluster.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", 1000)
    lost_offsets.producer.commit_transaction(timeout=1)
    failure.end()
    assert lost_offsets.come() == 0
    lost_offsets.producer.init_transactions()
    assert lost_offsets.committed() == 1
    assert lost_offsets.come() == InvalidProducerEpoch.ERROR_CODE


def test_exactly_once_settles_late_offsets_before_it_reads_on(lost_offsets: LostOffsets) -> None:
    """The commit got no epoch in time; the consumer would wait for offsets of its own if they came now."""
    producer, cluster = lost_offsets.producer, lost_offsets.cluster
    failure = cluster.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", 1000)
    producer.commit_transaction(timeout=0.5)
    attempts = TransactionRetries(lost_offsets.consumer, producer)
    assert attempts.is_unsettled
    cluster.on_request(lambda call: failure.end() if isinstance(call.request, wire.InitProducerIdRequest) else None)
    attempts.settle()
    assert lost_offsets.come() == InvalidProducerEpoch.ERROR_CODE


def is_abort(request: Any) -> bool:
    return not request.committed


@pytest.mark.parametrize(("api", "when"), [("InitProducerId", None), ("EndTxn", is_abort)], ids=["no epoch", "no end"])
def test_close_refuses_late_offsets_by_a_new_epoch(lost_offsets: LostOffsets, api: str, when: Any) -> None:
    """Offsets of the same epoch would be taken behind the markers, also if the commit got no further than to its end."""
    failure = lost_offsets.cluster.fail(api, "COORDINATOR_LOAD_IN_PROGRESS", 1000, when=when)
    lost_offsets.producer.commit_transaction(timeout=0.5)
    failure.end()
    lost_offsets.producer.close()
    assert lost_offsets.come() == InvalidProducerEpoch.ERROR_CODE
    assert lost_offsets.committed() == 1


@pytest.mark.parametrize("how", ["lost a batch", "unknown"])
def test_late_offsets_are_known_before_an_epoch_comes(lost_offsets: LostOffsets, how: str) -> None:
    """A transaction has ended, and no epoch comes: `exactly_once` does not read on, and `close` asks for one."""
    producer, cluster = lost_offsets.producer, lost_offsets.cluster
    if how == "unknown":
        cluster.cut("EndTxn")
        cluster.fail("EndTxn", "INVALID_TXN_STATE")
        with pytest.raises(TransactionOutcomeUnknownError):
            producer.commit_transaction()
    else:
        cluster.fail("Produce", "INVALID_RECORD")
        producer.produce("copies", b"refused", partition=0)
        with pytest.raises(TransactionAbortableError):
            producer.commit_transaction()
    failure = cluster.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", 1000)
    call = producer.begin_transaction if how == "unknown" else producer.abort_transaction
    with pytest.raises(TransactionUnfinishedError):
        call(timeout=0.5)
    assert TransactionRetries(lost_offsets.consumer, producer).is_unsettled
    failure.end()
    producer.close()
    assert lost_offsets.come() == InvalidProducerEpoch.ERROR_CODE
    assert lost_offsets.committed() is None


@pytest.mark.parametrize("is_closed", [False, True], ids=["aborts", "consumer closed"])
def test_exactly_once_finishes_an_abort_before_it_reads_on(lost_offsets: LostOffsets, is_closed: bool) -> None:
    """The consumer waits for what becomes of its offsets; the coordinator would end them, and fence the producer."""
    producer, cluster = lost_offsets.producer, lost_offsets.cluster
    failure = cluster.fail("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", 1000)
    with pytest.raises(TransactionUnfinishedError) as unfinished:
        producer.abort_transaction(timeout=0.3)
    attempts = TransactionRetries(lost_offsets.consumer, producer)
    if is_closed:
        lost_offsets.consumer.close()
    else:
        cluster.on_request(lambda call: failure.end() if isinstance(call.request, wire.EndTxnRequest) else None)
    assert attempts.resolve(unfinished.value, 1) is False
    assert attempts.is_unsettled is is_closed
    failure.end()
    if not is_closed:
        assert lost_offsets.committed() is None


def test_a_producer_refuses_what_one_has_left_that_it_has_fenced(lost_offsets: LostOffsets) -> None:
    """It has its epoch before the other one hears of that, and may not need another."""
    failure = lost_offsets.cluster.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", 1000)
    lost_offsets.producer.commit_transaction(timeout=0.5)
    failure.end()
    with lost_offsets.client.producer(transactional_id=NAME) as following:
        following.init_transactions()
        with pytest.raises(ProducerFencedError):
            lost_offsets.producer.begin_transaction()
        assert lost_offsets.come() == 0
        following.begin_transaction()
        assert lost_offsets.committed() == 1
        assert lost_offsets.come() == InvalidProducerEpoch.ERROR_CODE


def test_the_next_producer_refuses_what_a_fenced_one_has_left(lost_offsets: LostOffsets) -> None:
    """A fenced producer gets no epoch, whose markers would make the coordinator refuse its late offsets."""
    failure = lost_offsets.cluster.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", 1000)
    lost_offsets.producer.commit_transaction(timeout=1)
    failure.end()
    (broker,) = lost_offsets.client.cluster.brokers.values()
    broker.call(wire.InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000), version=4)
    with pytest.raises(ProducerFencedError):
        lost_offsets.producer.begin_transaction()
    assert lost_offsets.come() == 0
    with lost_offsets.client.producer(transactional_id=NAME) as following:
        following.init_transactions()
        assert lost_offsets.committed() == 1
        assert lost_offsets.come() == InvalidProducerEpoch.ERROR_CODE


def test_a_decision_of_spark_whose_offsets_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next plan would wait without an end for what becomes of them."""
    with FakeCluster(brokers=1, topics={"orders": 1}, as_version="3.9") as cluster:
        with cluster._locked() as state:
            monkeypatch.setattr(state.transactions.path, "verifies", False)  # as before Kafka 3.6
        raw = {"kafka.bootstrap.servers": cluster.hosts, "topic": "orders", "transactionalIdPrefix": NAME}
        driver = Decisions(write_options(raw, Mode.STREAM_WRITE))
        at = driver.plan().at
        cluster.cut("TxnOffsetCommit", "before")
        late: list[wire.TxnOffsetCommitRequest] = []
        cluster.on_request(
            lambda call: late.append(call.request) if isinstance(call.request, wire.TxnOffsetCommitRequest) else None
        )
        found = session.cluster_for(driver._write.client)
        driver._recorded(found, at, Record("query", 3))
        (broker,) = found.brokers.values()
        assert broker.call(late[0], version=3).topics[0].partitions[0].error_code == InvalidProducerEpoch.ERROR_CODE
        assert driver._last(found) == Record("query", 3)
        session.close_all()


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "EndTxn"])
def test_a_late_batch_is_refused_at_the_latest_by_the_next_begin(
    cluster: FakeCluster, client: KafkaClient, api: str
) -> None:
    """The abort has succeeded by then; the transaction without messages that it lacks is aborted before the next one."""
    with client.producer(transactional_id=NAME, delivery_timeout_ms=1_000, max_block_ms=5_000) as producer:
        producer.begin_transaction()
        cut = cluster.cut("Produce", "before", times=1000)
        producer.produce("copies", b"aborted", partition=0)
        with pytest.raises(TransactionAbortableError):
            producer.commit_transaction()
        renewed: list[object] = []

        def fail_when_renewed(call: Any) -> None:
            if isinstance(call.request, wire.InitProducerIdRequest):
                renewed.append(cluster.fail(api, "COORDINATOR_LOAD_IN_PROGRESS", 1000))

        stop = cluster.on_request(fail_when_renewed)
        producer.abort_transaction(timeout=2)
        assert len(renewed) == 1
        stop()
        cut.end()
        cluster.heal()
        asked: list[type[Any]] = []
        cluster.on_request(lambda call: asked.append(type(call.request)))
        producer.begin_transaction()
        assert wire.EndTxnRequest in asked
        producer.produce("copies", b"second", partition=0)
        producer.commit_transaction()
        assert committed(client) == [b"second"]


def test_what_a_late_request_has_opened_is_ended_before_the_next_transaction(
    cluster: FakeCluster, client: KafkaClient, producer: KafkaProducer[Any, Any]
) -> None:
    late = lose_an_answer(cluster, producer)
    assert again(client, late) == 0
    assert coordinated(cluster).state is TransactionState.ONGOING
    asked: list[type[Any]] = []
    cluster.on_request(lambda call: asked.append(type(call.request)))
    with producer.transaction():
        producer.produce("copies", b"second", partition=0)
    # most releases give the new epoch all the same, and then refuse who has asked for it
    assert asked.index(wire.EndTxnRequest) < asked.index(wire.InitProducerIdRequest)
    assert committed(client) == [b"first", b"second"]


@Version
def test_a_commit_without_a_clear_answer_leaves_nothing_open(
    cluster: FakeCluster, producer: KafkaProducer[Any, Any]
) -> None:
    producer.begin_transaction()
    producer.produce("copies", b"one", partition=0)
    producer.flush()
    cluster.cut("EndTxn")
    cluster.fail("EndTxn", "INVALID_TXN_STATE")
    with pytest.raises(TransactionOutcomeUnknownError):
        producer.commit_transaction()
    assert coordinated(cluster).state is TransactionState.COMPLETE_ABORT


@Version
def test_close_finishes_a_commit_that_was_sent(cluster: FakeCluster, client: KafkaClient) -> None:
    with client.producer(transactional_id=NAME) as producer:
        producer.begin_transaction()
        producer.produce("copies", b"one", partition=0)
        producer.flush()
        with cluster.hold("EndTxn") as held:
            with pytest.raises(TransactionUnfinishedError):
                producer.commit_transaction(timeout=0.3)
            held.await_met()
    assert committed(client) == [b"one"]


@Version
def test_a_producer_does_not_fence_itself_behind_an_end_without_an_answer(
    cluster: FakeCluster, client: KafkaClient
) -> None:
    """Its InitProducerId waited behind that end, and came when the client had given the connection up and asked again."""
    asked: list[wire.InitProducerIdRequest] = []
    first = client.producer(transactional_id=NAME)
    first.begin_transaction()
    first.produce("copies", b"one", partition=0)
    first.flush()
    with cluster.hold("EndTxn") as held:
        with pytest.raises(TransactionUnfinishedError):
            first.commit_transaction(timeout=SILENT_S + 0.2)
        held.await_met()
        cluster.on_request(
            lambda call: asked.append(call.request) if isinstance(call.request, wire.InitProducerIdRequest) else None
        )
        second = client.producer(transactional_id=NAME)
        second.init_transactions(timeout=5)
    with second.transaction():
        second.produce("copies", b"two", partition=0)
    second.close()
    with pytest.raises(ProducerFencedError):
        first.close()
    assert committed(client) == [b"one", b"two"]
    assert len(asked) == 1


@pytest.mark.parametrize("seconds", [5.0, 0.3], ids=["interrupt", "timeout"])
def test_another_attempt_to_get_an_epoch_does_not_overtake_the_first(cluster: FakeCluster, seconds: float) -> None:
    """The broker could read the first one later, and would then fence the producer that has the second one's epoch."""
    asked: list[Any] = []
    with KafkaClient(cluster.hosts, use_greenlets=True) as client:
        first = client.producer(transactional_id=NAME)
        first.begin_transaction()
        first.produce("copies", b"one", partition=0)
        first.flush()
        second = client.producer(transactional_id=NAME)
        with cluster.hold("InitProducerId"):
            with cluster.hold("EndTxn"):
                with pytest.raises(TransactionUnfinishedError):
                    first.commit_transaction(timeout=SILENT_S + 0.2)
                cluster.on_request(
                    lambda call: (
                        asked.append(call.session) if isinstance(call.request, wire.InitProducerIdRequest) else None
                    )
                )
                with pytest.raises((gevent.Timeout, TransactionUnfinishedError)), gevent.Timeout(0.8):
                    second.init_transactions(timeout=seconds)
            with pytest.raises(ProducerFencedError):  # its connection is well again
                first.commit_transaction()
            with pytest.raises(TransactionUnfinishedError):
                second.init_transactions(timeout=0.3)
        second.init_transactions()
        with second.transaction():
            second.produce("copies", b"two", partition=0)
        assert len(asked) == 3
        assert len(set(map(id, asked))) == 1


@Version
def test_offsets_of_a_partition_that_went_are_not_committed(
    producer: KafkaProducer[Any, Any], consumer: KafkaConsumer[Any, Any]
) -> None:
    consumer.unsubscribe()
    consumer.assign([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    producer.begin_transaction()
    read(consumer, 4)
    consumer.assign([TopicPartition("orders", 1)])
    with pytest.raises(TransactionAbortableError):
        producer.send_offsets(consumer)
    producer.abort_transaction()


@Version
def test_offsets_of_an_open_transaction_are_awaited(
    client: KafkaClient, producer: KafkaProducer[Any, Any], consumer: KafkaConsumer[Any, Any]
) -> None:
    partition = [TopicPartition("orders", 0)]
    consumer.assign(partition)
    producer.begin_transaction()
    read(consumer, 2)
    producer.send_offsets(consumer)
    with client.consumer(group="copiers", auto_commit=False, auto_offset_reset=OffsetType.EARLIEST) as next_one:
        next_one.assign(partition)
        assert next_one.poll(10, timeout=0.5) == []  # else it reads what is about to be committed
        producer.commit_transaction()
        assert next_one.poll(10, timeout=2) == []
        assert next_one.position(partition[0]) == 2


@Version
def test_offsets_name_the_member_that_has_read(
    cluster: FakeCluster, producer: KafkaProducer[Any, Any], consumer: KafkaConsumer[Any, Any]
) -> None:
    sent: list[Any] = []
    cluster.on_request(
        lambda call: sent.append(call.request) if isinstance(call.request, wire.TxnOffsetCommitRequest) else None
    )
    with producer.transaction(consumer):
        read(consumer, 4)
        producer.send_offsets(consumer)
    (request,) = sent
    assert request.member_id
    assert request.generation_id_or_member_epoch > 0
