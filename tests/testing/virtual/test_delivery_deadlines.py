"""The end of a message, above all by the worker of delivery time-outs: in time, and seen by `flush()` and commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import (
    KafkaException,
    MessagesNotDelivered,
    ProducerQueueFullError,
    TransactionAbortableError,
    WorkerNotStartedError,
)
from pykafka.producer.delivery_deadlines import GRACE_S, DeliveryDeadlines, fail
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

TIMEOUT_S, QUICK_S = 1.0, 0.3


@contextmanager
def _cluster(
    virtual: VirtualHandler, network: Network
) -> Iterator[tuple[FakeCluster, KafkaClient, Callable[[], None]]]:
    """Yield a cluster, a client of it, and what makes brokers silent: also to those that connect."""
    with FakeCluster(2, {"orders": 4}, handler=virtual) as cluster:
        client = KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=20_000)

        def silence() -> None:
            for broker in cluster.broker_ids:
                cluster.pause(broker)
            network.cut_all()

        yield cluster, client, silence
        cluster.heal()
        client.close()


def _producer(client: KafkaClient, **options: Any) -> Any:
    """Return a producer that has delivered a message to each partition."""
    producer: Any = client.producer(delivery_timeout_ms=int(TIMEOUT_S * 1000), **options)
    if "transactional_id" in options:
        producer.begin_transaction()
    for partition in range(4):
        producer.produce("orders", b"first", partition=partition)
    producer.flush()
    return producer


def _time_of_report(producer: Any, virtual: VirtualHandler) -> float:
    """Return how long a message takes to fail (s)."""
    began, reported = virtual.now(), virtual.Event()
    producer.produce("orders", b"x", partition=0, on_delivery=lambda *_: reported.set())
    reported.wait(30)
    return virtual.now() - began


def test_a_message_that_has_waited_for_room_has_all_of_its_time(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch was as old as the first message that found no room; and the worker looked at it without a pause."""
    looks: list[float] = []
    look = DeliveryDeadlines.look

    def counted(self: DeliveryDeadlines) -> float | None:
        looks.append(virtual.now())
        return look(self)

    monkeypatch.setattr(DeliveryDeadlines, "look", counted)

    def program() -> int:
        with _cluster(virtual, network) as (cluster, client, _silence):
            producer = _producer(client, buffer_memory=40_000, max_block_ms=300)
            for broker in cluster.broker_ids:
                cluster.pause(broker)
            producer.produce("orders", b"x" * 39_000, partition=0)
            with pytest.raises(ProducerQueueFullError):
                producer.produce("orders", b"y" * 5_000, partition=1)
            virtual.sleep(3 * TIMEOUT_S)
            with pytest.raises(MessagesNotDelivered):
                producer.flush(timeout=0)
            for broker in cluster.broker_ids:
                cluster.resume(broker)
            return int(producer.produce("orders", b"y" * 5_000, partition=1).get(5).offset)

    assert scheduler.run(program) == 1
    assert len(looks) < 20


def test_a_message_behind_a_reported_one_is_reported_in_time(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler
) -> None:
    """The worker slept for five seconds while its sender connected and nothing was queued."""

    def program() -> list[float]:
        with _cluster(virtual, network) as (_, client, silence):
            producer = _producer(client)
            silence()
            took: list[float] = []
            for _ in range(3):
                took.append(_time_of_report(producer, virtual))
                virtual.sleep(0.05)
            return took

    took = scheduler.run(program)
    assert all(TIMEOUT_S <= seconds < TIMEOUT_S + QUICK_S for seconds in took), took


@pytest.mark.parametrize("options", [{}, {"acks": 1}], ids=["five requests at a time", "one at a time"])
def test_a_message_behind_an_unanswered_request_is_reported_in_time(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, options: dict[str, Any]
) -> None:
    """The worker ended when nothing was queued; what came later waited for the request before: seed 1000107302."""

    def program() -> list[float]:
        with _cluster(virtual, network) as (cluster, client, _silence):
            producer = _producer(client, **options)
            virtual.sleep(1)
            for broker in cluster.broker_ids:
                cluster.pause(broker)
            took: list[float] = []
            for _ in range(7):
                took.append(_time_of_report(producer, virtual))
                virtual.sleep(0.05)
            return took

    took = scheduler.run(program)
    assert all(TIMEOUT_S <= seconds < TIMEOUT_S + QUICK_S for seconds in took), took


@pytest.mark.parametrize("count", [1, 4])
def test_a_flush_reports_what_is_being_failed(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, count: int
) -> None:
    """While the worker wrote its log, `flush()` saw neither what it had done nor what it was about to do."""

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            virtual.sleep(0.1)

    def program() -> int:
        with _cluster(virtual, network) as (_, client, silence):
            producer = _producer(client)
            silence()
            for partition in range(count):
                producer.produce("orders", b"x", partition=partition)
            virtual.sleep(TIMEOUT_S + 0.15)
            with pytest.raises(MessagesNotDelivered) as caught:
                producer.flush()
            return len(caught.value.failures)

    log, slow = logging.getLogger("pykafka.producer.completion"), Slow()
    log.addHandler(slow)
    try:
        assert scheduler.run(program) == count
    finally:
        log.removeHandler(slow)


def test_a_transaction_whose_message_is_being_failed_is_not_committed(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message was in no queue any more, and the transaction not marked yet: the commit left it out."""
    reason = DeliveryDeadlines._reason

    def slow(self: DeliveryDeadlines, batch: Any) -> KafkaException:
        virtual.sleep(0.1)
        return reason(self, batch)

    def program() -> None:
        with _cluster(virtual, network) as (_, client, _silence):
            producer = _producer(client, transactional_id="t", linger_ms=60_000)
            producer._engine.routing.deadlines.start()
            producer.produce("orders", b"lingers", partition=0)
            monkeypatch.setattr(DeliveryDeadlines, "_reason", slow)
            virtual.sleep(TIMEOUT_S + GRACE_S + 0.05)
            with pytest.raises(TransactionAbortableError):
                producer.commit_transaction()
            producer.abort_transaction()
            producer.begin_transaction()
            producer.produce("orders", b"next", partition=0)
            producer.commit_transaction()

    scheduler.run(program)


@pytest.mark.parametrize("transactional", [False, True])
def test_what_a_response_is_about_to_fail_is_seen(
    scheduler: Scheduler,
    network: Network,
    virtual: VirtualHandler,
    monkeypatch: pytest.MonkeyPatch,
    transactional: bool,
) -> None:
    """The batch had left its window: `flush()` returned without its error, and a commit left its message out."""

    def slow(*args: Any) -> None:
        virtual.sleep(0.2)
        fail(*args)

    def program() -> None:
        with _cluster(virtual, network) as (cluster, client, _silence):
            producer = _producer(client, **{"transactional_id": "t"} if transactional else {})
            monkeypatch.setattr("pykafka.producer.sender.fail", slow)
            cluster.fail("Produce", "INVALID_REQUIRED_ACKS")
            producer.produce("orders", b"x", partition=0)
            virtual.sleep(0.1)
            if transactional:
                with pytest.raises(TransactionAbortableError):
                    producer.commit_transaction()
                producer.abort_transaction()
            else:
                with pytest.raises(MessagesNotDelivered):
                    producer.flush()

    scheduler.run(program)


@pytest.mark.parametrize("error", [WorkerNotStartedError("no more threads"), None], ids=["not started", "ended"])
def test_without_its_worker_messages_are_sent_and_reported(
    scheduler: Scheduler,
    network: Network,
    virtual: VirtualHandler,
    monkeypatch: pytest.MonkeyPatch,
    error: KafkaException | None,
) -> None:
    """One that was not started ended the sender, which lost its batches; one that an error had ended was never replaced."""
    spawn, look = VirtualHandler.spawn, DeliveryDeadlines.look

    def refused(self: VirtualHandler, target: Any, *args: Any, name: str | None = None, **kwargs: Any) -> Any:
        if error is not None and (name or "").startswith("pykafka.DeliveryDeadlines"):
            raise error
        return spawn(self, target, *args, name=name, **kwargs)

    def fails(self: DeliveryDeadlines) -> float | None:
        monkeypatch.setattr(DeliveryDeadlines, "look", look)
        raise RuntimeError("look")

    monkeypatch.setattr(VirtualHandler, "spawn", refused)
    if error is None:
        monkeypatch.setattr(DeliveryDeadlines, "look", fails)

    def program() -> float:
        with _cluster(virtual, network) as (_, client, silence):
            producer = _producer(client)
            virtual.sleep(0.1)
            silence()
            return _time_of_report(producer, virtual)

    took = scheduler.run(program)
    assert took < (TIMEOUT_S + QUICK_S if error is None else 15.0)
