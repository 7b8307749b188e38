"""Aborts of transactions whose batches may come late: the client makes brokers before Kafka 3.6 refuse them."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import (
    ConcurrentTransactions,
    KafkaException,
    ProducerFencedError,
    ResponseTimeoutError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionStateError,
    TransactionUnfinishedError,
)
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler
from pykafka.transactions.coordinator import Coordinator

#: A release whose leaders take a batch that comes behind the end of its transaction.
RELEASE = "3.5"
SOCKET_MS = 2_000
ID = "late"


def _with_late_batch(client: KafkaClient, cluster: FakeCluster, topics: tuple[str, ...]) -> Any:
    """Return a producer with an open transaction, of which the answers about batches for some topics are held back."""
    producer: Any = client.producer(transactional_id=ID, delivery_timeout_ms=500)
    producer.begin_transaction()
    for topic in topics:
        producer.produce(topic, b"fine", partition=0).get(5)
    with cluster.hold("Produce"):
        sent = [producer.produce(topic, b"late", partition=0) for topic in topics]
        for delivery in sent:
            with pytest.raises(KafkaException):
                delivery.get(5)
    return producer


@pytest.mark.parametrize("topics", [("orders",), ("orders", "others")], ids=len)
def test_an_abort_ends_though_a_topic_was_deleted(
    scheduler: Scheduler, virtual: VirtualHandler, topics: tuple[str, ...]
) -> None:
    """It asked the coordinator to add the partitions of that topic until its timeout, a minute by default."""

    def program() -> float:
        with (
            FakeCluster(3, dict.fromkeys(topics, 1), handler=virtual, as_version=RELEASE) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=SOCKET_MS) as client,
        ):
            producer = _with_late_batch(client, cluster, topics)
            client.admin.delete_topics("orders")
            began = virtual.now()
            producer.abort_transaction()
            took = virtual.now() - began
            producer.begin_transaction(timeout=1.0)
            producer.commit_transaction(timeout=1.0)
            producer.close()
            return took

    assert scheduler.run(program) < 1.0


@pytest.mark.parametrize("again", [False, True], ids=["begin", "abort-again"])
def test_an_abort_that_gets_no_epoch_in_time_says_so(
    scheduler: Scheduler, virtual: VirtualHandler, again: bool
) -> None:
    """The coordinator writes the markers of the transaction before: the abort has no new epoch in time, the next call has.

    The abort raised a bare ConcurrentTransactions, and TransactionStateError when it was called again.
    """

    def program() -> Any:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual, as_version="2.8") as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=SOCKET_MS) as client,
        ):
            producer: Any = client.producer(transactional_id=ID, delivery_timeout_ms=500)
            producer.begin_transaction()
            producer.produce("orders", b"before")
            cluster.hold_markers()
            producer.commit_transaction()
            producer.begin_transaction()
            producer.produce("orders", b"not sent")
            virtual.sleep(6)  # the sender adds the partition no longer
            for _ in range(2 if again else 1):
                with pytest.raises(TransactionUnfinishedError, match="is aborted, and lacks the epoch") as raised:
                    producer.abort_transaction(timeout=1.0)
                assert isinstance(raised.value.__cause__, ConcurrentTransactions)
                assert raised.value.retriable
            cluster.release_markers()
            if again:
                producer.abort_transaction(timeout=1.0)
                with pytest.raises(TransactionStateError, match="no transaction is open"):
                    producer.abort_transaction(timeout=1.0)
            producer.begin_transaction()
            producer.produce("orders", b"behind")
            producer.flush()  # it raised MessagesNotDelivered for the one that was not sent
            producer.commit_transaction()
            producer.close()
            return [record.value for record in cluster.records("orders") if record.value is not None]

    assert scheduler.run(program) == [b"before", b"behind"]


def test_an_abort_without_a_clear_answer_that_loses_its_coordinator_says_so(
    scheduler: Scheduler, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raised the error of the look-up for the coordinator's versions as it was."""

    def program() -> None:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=SOCKET_MS) as client,
        ):
            producer: Any = client.producer(transactional_id=ID)
            producer.begin_transaction()
            producer.produce("orders", b"taken back").get(5)

            def lost(*_: Any) -> bool:
                raise ResponseTimeoutError("connect: no answer", broker="127.0.0.1:9092")

            with monkeypatch.context() as patch:
                patch.setattr(Coordinator, "can_bump_epoch", lost)
                cluster.fail("EndTxn", "UNKNOWN_SERVER_ERROR", 1)
                with pytest.raises(TransactionUnfinishedError, match="may be made or not"):
                    producer.abort_transaction(timeout=3.0)
            producer.abort_transaction(timeout=3.0)
            producer.close()

    scheduler.run(program)


def test_close_ends_the_transaction_of_an_abort_that_was_cut_off(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """It stayed open at the coordinator until `transaction_timeout_ms`, and read_committed readers waited there."""
    ends: list[int] = []

    def program() -> list[str]:
        with (
            FakeCluster(3, {"orders": 1}, handler=virtual, as_version=RELEASE) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=SOCKET_MS) as client,
        ):
            producer = _with_late_batch(client, cluster, ("orders",))

            def second_end(call: Any) -> bool:
                ends.append(1)
                return len(ends) > 1

            refused = cluster.fail("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", 1_000, when=second_end)
            with suppress(KafkaException):
                producer.abort_transaction(timeout=3.0)
            refused.end()
            asked: list[str] = []
            cluster.on_request(lambda call: asked.append(type(call.request).__name__))
            producer.close(timeout=3.0)
            return asked

    assert "EndTxnRequest" in scheduler.run(program)


def test_a_refused_message_that_an_abort_takes_back_says_so(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """The abort came while a sender took the message to send it again: its outcome was said to be unknown."""

    def program() -> Any:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=SOCKET_MS) as client,
        ):
            producer: Any = client.producer(transactional_id=ID, retry_backoff_ms=50)
            producer.begin_transaction()
            producer.produce("orders", b"fine").get(5)
            transactions = producer._engine.transactions
            number, aborts = transactions.number, []

            def late(batches: Any, queue_of: Any) -> None:
                if batches[0].in_flight.outcome_unknown:
                    aborts.append(virtual.spawn(producer.abort_transaction))
                    while transactions.status.may_send:
                        virtual.sleep(0.01)
                number(batches, queue_of)

            transactions.number = late
            cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", 1)
            delivery = producer.produce("orders", b"refused")
            with suppress(KafkaException):
                delivery.get(5)
            (abort,) = aborts
            assert abort.join(5)
            producer.close()
            return delivery.error

    assert isinstance(scheduler.run(program), TransactionAbortedError)


@pytest.mark.parametrize("how", ["close", "purge"])
@pytest.mark.parametrize("release", ["2.8", "4.3"])
def test_a_commit_does_not_leave_out_what_another_worker_gives_up(
    scheduler: Scheduler, virtual: VirtualHandler, how: str, release: str
) -> None:
    """It waited for its messages; `close(timeout)` gave them up, and it committed the transaction without them."""

    def program() -> Any:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual, as_version=release) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=SOCKET_MS) as client,
        ):
            producer: Any = client.producer(transactional_id=ID, max_block_ms=10_000, batch_size=100)
            producer.begin_transaction()
            producer.produce("orders", b"kept").get(5)
            raised: list[KafkaException] = []

            def commit() -> None:
                try:
                    producer.commit_transaction()
                except KafkaException as error:
                    raised.append(error)

            held = cluster.hold("Produce")
            for _ in range(8):  # more batches than may be on their way
                producer.produce("orders", b"given up" * 10)
            committing = virtual.spawn(commit)
            virtual.sleep(0.2)
            if how == "close":
                with pytest.raises(KafkaException):
                    producer.close(1)
            else:
                producer.purge()
            held.end()
            assert committing.join(20)
            with suppress(KafkaException):
                producer.close(5)
            options: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
            with client.consumer("orders", consumer_timeout_ms=2_000, **options) as reader:
                return [type(error) for error in raised], [record.value for record in reader]

    assert scheduler.run(program) == ([TransactionAbortableError], [])


def test_an_abort_whose_producer_is_fenced_by_then_says_what_the_next_begin_raises(
    scheduler: Scheduler, virtual: VirtualHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """It logged that the next begin would ask again, which it does not."""
    caplog.set_level(logging.INFO, "pykafka.transactions")

    def program() -> None:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual, as_version=RELEASE) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=SOCKET_MS) as client,
        ):
            producer = _with_late_batch(client, cluster, ("orders",))
            cluster.fail("AddPartitionsToTxn", "PRODUCER_FENCED")
            producer.abort_transaction()
            with pytest.raises(ProducerFencedError):
                producer.begin_transaction()
            with suppress(KafkaException):
                producer.close()

    scheduler.run(program)
    assert "the next begin raises" in caplog.text
    assert "asks again" not in caplog.text
