"""Outcomes of messages reach `on_delivery`, `flush()`, `stop()`, or `produce()` after too many failures."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    InvalidRecord,
    KafkaException,
    MessagesNotDelivered,
    ProducerQueueFullError,
    ResponseTimeoutError,
)
from pykafka.producer import Producer
from pykafka.producer.batch import ProducerBatch
from pykafka.protocol.message import Message
from tests.support.inside import engine_of, worker_of
from tests.support.waiting import until

Told = list[tuple[KafkaException | None, Message]]
Make = Callable[..., Producer]

REFUSED = "INVALID_RECORD"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        yield cluster


@pytest.fixture
def make(client: KafkaClient) -> Make:
    """Return a function that makes a producer which sends each message at once."""
    return lambda **options: client.topics["t"].get_producer(**{"linger_ms": 0, "pending_timeout_ms": 20_000} | options)


rdkafka_too = pytest.mark.parametrize("use_rdkafka", [False, True], ids=["own", "rdkafka"])


# -- failures that nobody was told of ------------------------------------------------------------------------------------


@rdkafka_too
def test_produce_raises_what_has_failed_where_it_is_too_much(
    cluster: EmbeddedCluster, client: KafkaClient, make: Make, use_rdkafka: bool
) -> None:
    """Messages that failed were kept until stop(), however many."""
    producer = make(use_rdkafka=use_rdkafka, max_failed_messages=100)
    cluster.inject_errors("Produce", *[REFUSED] * 5000)
    handler = client.cluster.handler
    taken, told, raised = 0, [], 0
    while raised < 3:
        try:
            producer.produce(b"%d" % taken)
            taken += 1
            handler.sleep(0.001)
        except MessagesNotDelivered as error:
            raised += len(error.failures) >= 100
            told += error.failures
        assert engine_of(producer).completion.failures.count < 1000
    with pytest.raises(MessagesNotDelivered) as caught:
        while True:
            producer.produce(b"%d" % taken)
            taken += 1
            producer.flush()
    told += caught.value.failures
    try:
        producer.stop()
    except MessagesNotDelivered as error:
        told += error.failures
    assert sorted(int(message.value or b"-1") for message, _ in told) == list(range(taken))  # each of them, once
    assert {type(error) for _, error in told} == {InvalidRecord}
    producer.stop()  # which has nothing left to tell


def test_what_has_failed_takes_no_more_memory_than_it_may(cluster: EmbeddedCluster, make: Make) -> None:
    """250 MB that failed took 242 MB until stop()."""
    cluster.inject_errors("Produce", *[REFUSED] * 500)
    producer = make(max_failed_bytes=4 * 1024 * 1024, max_queued_bytes=4 * 1024 * 1024)
    value, taken, failed = bytes(500_000), 0, 0
    gc.collect()
    gc.disable()  # what has been told goes by itself
    try:
        most = 0
        for number in range(120):
            try:
                producer.produce(value)
                taken += 1
            except MessagesNotDelivered as error:
                failed += len(error.failures)
            if number % 8 == 7:
                most = max(most, sum(type(thing) is ProducerBatch for thing in gc.get_objects()))
        try:
            producer.stop()
        except MessagesNotDelivered as error:
            failed += len(error.failures)
        assert failed == taken
        assert most <= 40  # of half a megabyte each: what failed, what is queued, and what is just raised
    finally:
        gc.enable()


def test_flush_raises_what_has_failed_once(cluster: EmbeddedCluster, make: Make) -> None:
    producer = make()
    cluster.inject_errors("Produce", REFUSED)
    producer.produce(b"refused")
    with pytest.raises(MessagesNotDelivered, match="1 messages") as caught:
        producer.flush()
    assert [message.value for message, _ in caught.value.failures] == [b"refused"]
    assert producer.produce(b"fine") is not None
    producer.flush()
    producer.stop()


def test_what_failed_before_a_restart_is_not_forgotten(
    cluster: EmbeddedCluster, client: KafkaClient, make: Make
) -> None:
    producer = make()
    cluster.inject_errors("Produce", REFUSED)
    producer.produce(b"refused")
    until(client.cluster.handler, lambda: engine_of(producer).completion.failures.count)
    engine_of(producer).worker_exception = RuntimeError("a sender has ended")
    engine_of(producer)._end()
    producer.start()
    producer.produce(b"fine")
    with pytest.raises(MessagesNotDelivered, match="1 messages"):
        producer.stop()


def test_other_threads_go_on_when_one_was_told(cluster: EmbeddedCluster, client: KafkaClient, make: Make) -> None:
    producer = make(max_failed_messages=20, max_queued_messages=50)
    cluster.inject_errors("Produce", *[REFUSED] * 300)
    handler, taken, told = client.cluster.handler, [], []

    def run() -> None:
        for _ in range(200):
            try:
                taken.append(producer.produce(b"x"))
            except MessagesNotDelivered as error:
                told.extend(error.failures)

    workers = [handler.spawn(run) for _ in range(4)]
    assert all(worker.join(60) for worker in workers)
    try:
        producer.stop()
    except MessagesNotDelivered as error:
        told += error.failures
    assert len(taken) >= 200
    assert len(told) == sum(message.error is not None for message in taken)


# -- on_delivery ---------------------------------------------------------------------------------------------------------


@rdkafka_too
def test_each_message_is_told_in_order(cluster: EmbeddedCluster, make: Make, use_rdkafka: bool) -> None:
    told: Told = []
    producer = make(
        use_rdkafka=use_rdkafka, linger_ms=5, on_delivery=lambda error, message: told.append((error, message))
    )
    sent = [producer.produce(b"%d" % number) for number in range(2000)]
    producer.flush()
    assert [message.offset for _, message in told] == list(range(2000))
    assert all(error is None for error, _ in told)
    assert all(one is other for one, (_, other) in zip(sent, told, strict=True))
    cluster.inject_errors("Produce", REFUSED)
    bad = producer.produce(b"refused")
    producer.flush()  # raises nothing: it was told
    error, message = told[-1]
    assert isinstance(error, InvalidRecord)
    assert message is bad
    producer.stop()
    assert len(told) == 2001


@rdkafka_too
def test_a_function_of_one_message(cluster: EmbeddedCluster, make: Make, use_rdkafka: bool) -> None:
    usual, special = [], []
    producer = make(use_rdkafka=use_rdkafka, on_delivery=lambda _, message: usual.append(message.value))
    producer.produce(b"a")
    producer.produce(b"b", on_delivery=lambda _, message: special.append(message.value))
    producer.produce(b"c", b"key", on_delivery=lambda _, message: special.append(message.value))
    producer.stop()
    assert (usual, special) == ([b"a"], [b"b", b"c"])


def test_beside_messages_without_one(cluster: EmbeddedCluster, make: Make) -> None:
    told: Told = []
    producer = make(linger_ms=60_000, min_queued_messages=100_000)
    cluster.inject_errors("Produce", REFUSED)
    for number in range(10):
        mine: dict[str, Any] = (
            {"on_delivery": lambda error, message: told.append((error, message))} if number % 3 == 0 else {}
        )
        producer.produce(b"%d" % number, **mine)
    with pytest.raises(MessagesNotDelivered) as caught:
        producer.stop()
    assert [message.value for _, message in told] == [b"0", b"3", b"6", b"9"]
    assert [message.value for message, _ in caught.value.failures] == [b"1", b"2", b"4", b"5", b"7", b"8"]


def test_beside_reports(make: Make) -> None:
    told: Told = []
    producer = make(delivery_reports=True)
    producer.produce(b"reported")
    producer.produce(b"told", on_delivery=lambda error, message: told.append((error, message)))
    producer.flush()
    assert producer.get_delivery_report(timeout=5)[0].value == b"reported"
    assert [message.value for _, message in told] == [b"told"]
    producer.stop()


@rdkafka_too
def test_who_does_not_read_reports_is_told_once(
    make: Make, use_rdkafka: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """They were kept for ever, and nothing said so."""
    producer = make(delivery_reports=True, max_queued_messages=20, use_rdkafka=use_rdkafka)
    for number in range(60):
        producer.produce(b"%d" % number)
        if number == 10:
            producer.flush()
            assert "unread" not in caplog.text
    producer.flush()
    assert caplog.text.count("delivery reports of messages to t are unread") == 1
    reports = [producer.get_delivery_report(block=False) for _ in range(60)]  # none is dropped
    assert sorted(int(message.value or b"") for message, _ in reports) == list(range(60))
    assert not any(error for _, error in reports)
    producer.stop()


def test_who_does_not_read_reports_of_large_messages_is_told(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    producer = make(delivery_reports=True, max_queued_bytes=1_000_000)
    for _ in range(12):
        producer.produce(bytes(100_000))
    producer.flush()
    assert caplog.text.count("delivery reports of messages to t are unread") == 1
    producer.stop()


@rdkafka_too
def test_failures_whose_reports_nobody_has_read_are_told_at_stop(
    cluster: EmbeddedCluster, make: Make, use_rdkafka: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """They counted as told, and stop() said nothing."""
    producer = make(delivery_reports=True, use_rdkafka=use_rdkafka)
    cluster.inject_errors("Produce", REFUSED)
    producer.produce(b"refused")
    producer.flush()
    producer.stop()
    assert "1 messages to t were not delivered, and nobody has read the reports" in caplog.text
    caplog.clear()
    producer.start()
    assert type(producer.get_delivery_report(timeout=5)[1]) is InvalidRecord
    producer.stop()
    assert "nobody has read" not in caplog.text


def test_of_a_batch_that_is_split(cluster: EmbeddedCluster, make: Make) -> None:
    told: Told = []
    producer = make(linger_ms=60_000, min_queued_messages=100_000)
    cluster.inject_errors("Produce", "MESSAGE_TOO_LARGE", "NO_ERROR", REFUSED)
    for number in range(10):
        mine: dict[str, Any] = (
            {"on_delivery": lambda error, message: told.append((error, message))} if number % 2 == 0 else {}
        )
        producer.produce(b"%d" % number, **mine)
    with pytest.raises(MessagesNotDelivered) as caught:
        producer.stop()
    assert [(message.value, error is None) for error, message in told] == [
        (b"0", True),
        (b"2", True),
        (b"4", True),
        (b"6", False),
        (b"8", False),
    ]
    assert [message.value for message, _ in caught.value.failures] == [b"5", b"7", b"9"]


def test_what_it_raises_is_logged(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    told = []

    def tell(error: KafkaException | None, message: Message) -> None:
        told.append(message.value)
        if message.value == b"bad":
            raise ValueError("a user's mistake")

    with make(on_delivery=tell) as producer:
        for value in (b"good", b"bad", b"better"):
            producer.produce(value)
    assert told == [b"good", b"bad", b"better"]
    assert caplog.text.count("on_delivery of a message to t failed: a user's mistake") == 1


@pytest.mark.parametrize("way_out", [gevent.Timeout, gevent.GreenletExit, KeyboardInterrupt, SystemExit])
def test_what_ends_its_worker_keeps_nobody_from_being_told(
    client: KafkaClient, make: Make, way_out: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function's exit, or a signal that hits its worker, is raised where the handler has such things raised."""
    if client.cluster.handler.name == "asyncio" and issubclass(way_out, (KeyboardInterrupt, SystemExit)):
        return  # it ends the loop: tests/unit/handlers/test_aio.py
    raised: list[Any] = []
    monkeypatch.setattr("pykafka.handlers.greenlets.raise_in_main", raised.append)
    monkeypatch.setattr(gevent.get_hub(), "handle_error", lambda *args: raised.append(args))
    told = []

    def tell(error: KafkaException | None, message: Message) -> None:
        told.append(message.value)
        if message.value == b"5":
            raise way_out

    with make(on_delivery=tell, linger_ms=5) as producer:
        for number in range(50):
            producer.produce(b"%d" % number)
    assert told == [b"%d" % number for number in range(50)]


def test_it_holds_up_no_sender(client: KafkaClient, make: Make) -> None:
    handler = client.cluster.handler
    go_on, told = handler.Event(), []

    def tell(error: KafkaException | None, message: Message) -> None:
        go_on.wait(30)
        told.append(message)

    producer = make(on_delivery=tell)
    sent = []
    for number in range(20):
        sent.append(producer.produce(b"%d" % number))
        until(handler, lambda: sent[-1].offset >= 0)
    assert told == []
    with pytest.raises(ResponseTimeoutError, match="on_delivery returns"):
        producer.flush(timeout_ms=100)
    go_on.set()
    producer.flush()
    assert told == sent
    producer.stop()


@rdkafka_too
def test_a_slow_one_holds_up_produce(client: KafkaClient, make: Make, use_rdkafka: bool) -> None:
    handler = client.cluster.handler
    go_on, told = handler.Event(), []

    def tell(error: KafkaException | None, message: Message) -> None:
        go_on.wait(30)
        told.append(message)

    options = {"max_queued_messages": 50, "min_queued_messages": 1, "on_delivery": tell, "use_rdkafka": use_rdkafka}
    producer = make(**options, block_on_queue_full=False)
    taken = 0
    with pytest.raises(ProducerQueueFullError, match="wait for on_delivery"):
        for _ in range(1000):
            try:
                producer.produce(b"x")
            except ProducerQueueFullError as error:
                if "on_delivery" in str(error):
                    raise
            else:
                taken += 1
            handler.sleep(0.01)
    assert taken <= 200
    go_on.set()
    producer.stop()
    assert len(told) == taken
    with make(**options) as patient:
        for _ in range(500):
            patient.produce(b"x")
    assert len(told) == taken + 500


@pytest.mark.parametrize("queue", [100_000, 4])
def test_it_may_produce_and_flush(client: KafkaClient, make: Make, queue: int) -> None:
    told = []

    def tell(error: KafkaException | None, message: Message) -> None:
        number = int(message.value or b"")
        told.append(number)
        if number % 10:
            producer.produce(b"%d" % (number + 1))
        elif number == 50:
            producer.flush()

    producer = make(on_delivery=tell, max_queued_messages=queue)
    for number in range(1, 100, 10):
        producer.produce(b"%d" % number)
    until(client.cluster.handler, lambda: len(told) == 100)
    producer.stop()
    assert sorted(told) == list(range(1, 101))


def test_it_may_stop_the_producer(client: KafkaClient, make: Make) -> None:
    told = []

    def tell(error: KafkaException | None, message: Message) -> None:
        told.append(message.value)
        if message.value == b"0":
            producer.stop()

    producer = make(on_delivery=tell, linger_ms=100)
    for number in range(10):
        producer.produce(b"%d" % number)
    until(client.cluster.handler, lambda: len(told) == 10)
    until(client.cluster.handler, lambda: not producer._running)
    producer.stop()


def test_one_that_never_returns_does_not_keep_stop(
    cluster: EmbeddedCluster, client: KafkaClient, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    handler = client.cluster.handler
    go_on, told = handler.Event(), []

    def tell(error: KafkaException | None, message: Message) -> None:
        told.append(message.value)
        go_on.wait(60)

    producer = make(on_delivery=tell, pending_timeout_ms=300)
    producer.produce(b"delivered")
    until(handler, lambda: told)
    producer.produce(b"delivered too")
    until(handler, lambda: not producer._owned_brokers[1].broker_queue.messages)
    cluster.inject_errors("Produce", REFUSED)
    producer.produce(b"refused")
    with pytest.raises(MessagesNotDelivered) as caught:
        producer.stop()
    assert [message.value for message, _ in caught.value.failures] == [b"refused"]
    assert "on_delivery has not returned for 300 ms: on_delivery is not called for 2 messages to t" in caplog.text
    go_on.set()
    worker = worker_of(engine_of(producer).completion.callbacks)
    assert worker is not None
    assert worker.join(20)
    assert told == [b"delivered"]


def test_with_sync(cluster: EmbeddedCluster, make: Make) -> None:
    told: Told = []
    producer = make(sync=True, on_delivery=lambda error, message: told.append((error, message)))
    producer.produce(b"fine")
    cluster.inject_errors("Produce", REFUSED)
    with pytest.raises(InvalidRecord):
        producer.produce(b"refused")
    producer.stop()
    assert [(error is None, message.value) for error, message in told] == [(True, b"fine"), (False, b"refused")]


def test_stop_waits_for_the_settlement_that_has_woken_a_sync_produce(
    client: KafkaClient, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that settles a batch may be slow between the two."""
    told: Told = []
    producer = make(sync=True, on_delivery=lambda error, message: told.append((error, message)))
    deliveries = engine_of(producer).completion.callbacks
    report = deliveries.report

    def slowly(*arguments: Any) -> None:
        client.cluster.handler.sleep(0.3)
        report(*arguments)

    monkeypatch.setattr(deliveries, "report", slowly)
    producer.produce(b"fine")
    producer.stop()
    assert [message.value for _, message in told] == [b"fine"]


def test_its_worker_comes_and_goes(client: KafkaClient, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka.producer.delivery_callbacks.IDLE_S", 0.05)
    handler, told = client.cluster.handler, []
    producer = make(on_delivery=lambda _, message: told.append(message.value))
    for number in range(3):
        producer.produce(b"%d" % number)
        until(handler, lambda: told[-1:] == [b"%d" % number])  # noqa: B023 - called at once
        worker = worker_of(engine_of(producer).completion.callbacks)
        assert worker is not None
        assert worker.join(20)
    producer.stop()
    producer.start()
    producer.produce(b"again")
    producer.stop()
    assert told == [b"0", b"1", b"2", b"again"]


def test_a_worker_that_cannot_be_started_is_started_later(
    client: KafkaClient, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handler, told = client.cluster.handler, []
    producer = make(on_delivery=lambda _, message: told.append(message.value))
    spawn = handler.spawn

    def fail(*args: Any, name: str, **kwargs: Any) -> Any:
        if "on_delivery" in name:
            raise RuntimeError("can't start new thread")
        return spawn(*args, name=name, **kwargs)

    monkeypatch.setattr(handler, "spawn", fail)
    producer.produce(b"x")
    until(handler, lambda: "starting the worker that calls on_delivery failed" in caplog.text)
    monkeypatch.setattr(handler, "spawn", spawn)
    producer.stop()
    assert told == [b"x"]


def test_what_is_refused(client: KafkaClient, make: Make) -> None:
    with pytest.raises(TypeError, match="^on_delivery must be a function"):
        make(on_delivery=5)
    with pytest.raises(ValueError, match="on_delivery or delivery_reports=True, not both"):
        make(on_delivery=print, delivery_reports=True)
    with make() as producer, pytest.raises(TypeError, match="^on_delivery must be a function"):
        producer.produce(b"x", on_delivery="no")  # type: ignore[arg-type]


def test_its_thread_is_no_senders() -> None:
    names = []
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        with client.topics["t"].get_producer(
            linger_ms=0, on_delivery=lambda *_: names.append(threading.current_thread().name)
        ) as producer:
            producer.produce(b"x")
    assert names == ["pykafka.on_delivery.t"]
