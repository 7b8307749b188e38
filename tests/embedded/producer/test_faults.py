"""Producers in rare moments: interrupted, stopped meanwhile, with leaders and topics that come and go."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.compat.producer import OwnedBroker
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    ClientClosedError,
    DeliveryUnknownError,
    KafkaException,
    MessagesNotDelivered,
    ProducerStoppedException,
    ResponseTimeoutError,
)
from pykafka.producer.batch import ProducerBatch
from pykafka.producer.batch_results import BatchResults
from pykafka.producer.in_flight_window import InFlightWindow
from pykafka.producer.leader_requests import LeaderRequests
from pykafka.producer.produce_request import Request
from pykafka.topic import Topic
from tests.support.inside import engine_of
from tests.support.waiting import until


class Interrupted(BaseException):
    """The exception that Ctrl-C raises in a worker."""


Start = Callable[..., KafkaClient]


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Yield a function that makes a client of a cluster of its own, with topic t of so many partitions."""
    made: list[tuple[EmbeddedCluster, KafkaClient]] = []

    def start(brokers: int = 1, partitions: int = 1, **options: Any) -> KafkaClient:
        cluster = EmbeddedCluster(brokers=brokers, topics={"t": partitions})
        client = KafkaClient(cluster.hosts, use_greenlets=request.param, **options)
        client.embedded = cluster  # type: ignore[attr-defined]
        made.append((cluster, client))
        return client

    yield start
    for cluster, client in made:
        client.close()
        cluster.close()


def _embedded(client: KafkaClient) -> EmbeddedCluster:
    cluster: EmbeddedCluster = client.embedded  # type: ignore[attr-defined]
    return cluster


def test_timeouts_in_sync_produce_leave_the_producer_well() -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, use_greenlets=True) as client,
    ):
        with client.topics["t"].get_sync_producer(ack_timeout_ms=3_000) as producer:
            for turn in range(400):
                with pytest.raises(gevent.Timeout), gevent.Timeout(0.0002 * (turn % 10 + 1)):
                    while True:
                        producer.produce(b"x")
            with gevent.Timeout(20):
                assert producer.produce(b"after").offset > 0


@pytest.mark.parametrize(
    ("cls", "step", "made_by"),
    [
        (Request, "is_written", "leader_requests"),
        (Request, "results", "leader_requests"),
        (InFlightWindow, "acknowledge", "accumulator"),
        (BatchResults, "acknowledged", "leader_requests"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_response_whose_reading_is_interrupted_is_read_again(
    start: Start, cls: Any, step: str, made_by: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start()
    run, interrupts, here = getattr(cls, step), [1, 2], client.cluster.handler.local()

    def interrupted(one: Any, *args: Any) -> Any:
        result = None if before else run(one, *args)
        if interrupts and getattr(here, "armed", False):  # not in the reader of the connection
            here.armed = False
            interrupts.pop()
            raise Interrupted
        return run(one, *args) if before else result

    monkeypatch.setattr(f"pykafka.producer.{made_by}.{cls.__name__}", type(cls.__name__, (cls,), {step: interrupted}))
    with client.topics["t"].get_sync_producer() as producer:
        producer.produce(b"first")
        started, sent = time.monotonic(), 1
        while interrupts and sent < 50:
            here.armed = True
            sent += 1
            with suppress(Interrupted):
                producer.produce(b"interrupted")
        assert producer.produce(b"after").offset == sent  # nothing was sent twice
        assert time.monotonic() - started < 20


def test_ctrl_c_behind_the_taking_of_a_step_does_not_keep_it(start: Start) -> None:
    """A signal comes between a lock's `acquire` and the `try` behind it: the sender waited for ever."""

    class Signalled:
        def __init__(self, lock: Any) -> None:
            self._lock = lock
            self.locked, self.release = lock.locked, lock.release

        def acquire(self, *args: Any, **kwargs: Any) -> bool:
            self._lock.acquire(*args, **kwargs)
            raise Interrupted

        def __enter__(self) -> object:
            return self._lock.__enter__()

        def __exit__(self, *args: Any) -> None:
            self._lock.__exit__(*args)

    client = start()
    with client.topics["t"].get_sync_producer(delivery_timeout_ms=2000, ack_timeout_ms=1000) as producer:
        for owned in producer._owned_brokers.values():
            owned._stepping = Signalled(owned._stepping)
        with suppress(Interrupted):
            producer.produce(b"interrupted")
        assert producer.produce(b"after").offset >= 0


def test_ctrl_c_behind_the_begin_of_a_batch_ends_no_sender(start: Start) -> None:
    """The batch was under way and did not know of it: settling it ended in an AttributeError, as did each later produce()."""
    interrupts = [1]

    client = start()
    here = client.cluster.handler.local()

    class InterruptedWindow(InFlightWindow):
        def begin(self, batch: Any, count: int) -> Any:
            in_flight = super().begin(batch, count)
            if interrupts and getattr(here, "armed", False):  # not in the sender, which nobody interrupts
                interrupts.pop()
                raise Interrupted
            return in_flight

    with client.topics["t"].get_sync_producer(required_acks=-1) as producer:
        for queue in producer._engine.routing.queues.values():
            queue.window = InterruptedWindow()
        here.armed = True
        for _ in range(100):
            with suppress(Interrupted):
                producer.produce(b"interrupted")
            if not interrupts:
                break
        assert not interrupts
        assert producer.produce(b"after").offset >= 0


def test_an_interrupted_taking_is_made_up_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start()
    here = client.cluster.handler.local()
    with client.topics["t"].get_sync_producer() as producer:
        producer.produce(b"first")
        take, interrupts = OwnedBroker._take, [1]

        def interrupted(owned: OwnedBroker, queue: Any) -> Any:
            batch = take(owned, queue)
            if interrupts and batch is not None and getattr(here, "armed", False):  # not in the sender
                interrupts.pop()
                raise Interrupted
            return batch

        monkeypatch.setattr(OwnedBroker, "_take", interrupted)
        here.armed = True
        sent = 1
        for _ in range(100):
            sent += 1
            with suppress(Interrupted):
                producer.produce(b"interrupted")
            if not interrupts:
                break
        assert not interrupts
        assert producer.produce(b"after").offset == sent


def test_what_stop_has_given_up_is_not_sent_afterwards(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start()
    handler = client.cluster.handler
    go_on = handler.Event()
    go_on.set()

    class Late(LeaderRequests):
        def _close(self, batch: ProducerBatch, version: int) -> bool:
            go_on.wait(30)
            return super()._close(batch, version)

    monkeypatch.setattr("pykafka.producer.sender.LeaderRequests", Late)
    producer = client.topics["t"].get_producer(linger_ms=1, pending_timeout_ms=100)
    producer.produce(b"first")
    producer.flush(20_000)  # by itself it would wait no longer than stop() is to
    go_on.clear()
    monkeypatch.setattr("pykafka.producer.engine.JOIN_TIMEOUT_S", 0.1)
    owned = producer._owned_brokers[1]
    producer.produce(b"given up")
    with pytest.raises(MessagesNotDelivered) as caught:
        producer.stop()
    # Its sender had taken it: nobody knows any more whether it goes out.
    assert isinstance(caught.value.failures[0][1], DeliveryUnknownError)
    go_on.set()
    owned.join(10)
    assert client.topics["t"].latest_available_offsets()[0].offset == [1]


@pytest.mark.later("greenlets")
def test_one_flush_does_not_end_the_flushing_of_another(start: Start) -> None:
    client = start()
    handler = client.cluster.handler
    _embedded(client).set_latency(1, 500)
    producer = client.topics["t"].get_producer(linger_ms=60_000)
    message = producer.produce(b"first")
    with pytest.raises(ResponseTimeoutError):
        producer.flush(timeout_ms=0)
    worker = handler.spawn(producer.stop)
    handler.sleep(0.05)
    with pytest.raises((ResponseTimeoutError, ProducerStoppedException)):
        producer.flush(timeout_ms=1)
        raise ProducerStoppedException("it had ended by then")
    assert worker.join(20)
    assert message.offset == 0


@pytest.mark.parametrize("call", ["flush", "stop"])
def test_flush_and_stop_end_while_others_go_on_producing(start: Start, call: str) -> None:
    client = start()
    handler = client.cluster.handler
    producer = client.topics["t"].get_producer(linger_ms=1, pending_timeout_ms=2_000)
    done, ended = handler.Event(), []

    def go_on() -> None:
        try:
            while not done.is_set():
                producer.produce(b"x")
                handler.sleep(0.0005)
        except KafkaException as error:
            ended.append(error)

    worker = handler.spawn(go_on)
    handler.sleep(0.2)
    started = time.monotonic()
    getattr(producer, call)()
    assert time.monotonic() - started < 10
    if call == "flush":
        done.set()
    assert worker.join(10)
    assert [type(error) for error in ended] == ([ProducerStoppedException] if call == "stop" else [])
    producer.stop()


def test_waiting_for_room_across_a_restart_is_told(start: Start) -> None:
    client = start()
    handler = client.cluster.handler
    _embedded(client).set_latency(1, 300)
    producer = client.topics["t"].get_producer(max_queued_messages=1, linger_ms=0)
    producer.produce(b"fills it")
    waits = handler.Event()
    outcome: list[Any] = []

    def wait() -> None:
        waits.set()
        try:
            outcome.append(producer.produce(b"waits"))
        except ProducerStoppedException as error:
            outcome.append(error)

    worker = handler.spawn(wait)
    waits.wait(10)
    producer.stop()
    producer.start()
    assert worker.join(10)
    (found,) = outcome
    producer.flush()
    assert isinstance(found, ProducerStoppedException) or found.offset == 1
    producer.stop()


def test_a_closed_client_takes_no_messages(start: Start) -> None:
    client = start()
    topic = client.topics["t"]
    producer = topic.get_producer()
    client.close()
    for make in (topic.get_producer, producer.start):
        with pytest.raises(ClientClosedError):
            make()


def test_a_timeout_in_stop_leaves_nothing_untold() -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, use_greenlets=True) as client,
    ):
        producer = client.topics["t"].get_producer(linger_ms=1, pending_timeout_ms=60_000)
        cluster.broker_down(1)
        producer.produce(b"stays")
        with pytest.raises(gevent.Timeout), gevent.Timeout(0.3):
            producer.stop()
        with pytest.raises(MessagesNotDelivered):
            producer.stop()
        producer.stop()


def test_reports_are_there_when_flush_returns(start: Start) -> None:
    producer = start().topics["t"].get_producer(linger_ms=0, delivery_reports=True)
    for _ in range(100):
        producer.produce(b"x")
        producer.flush()
        assert producer.get_delivery_report(block=False)[1] is None
    producer.stop()


def test_lingering_for_ever(start: Start) -> None:
    producer = start().topics["t"].get_producer(linger_ms=2**63 - 1)
    message = producer.produce(b"x")
    producer.flush()
    assert message.offset == 0
    producer.stop()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"partitioner": lambda partitions, key: None}, "the partitioner must return one of the partitions"),
        ({"partitioner": lambda partitions, key: 0}, "the partitioner must return one of the partitions"),
        ({"serializer": lambda value, key: value}, "the serializer must return a pair"),
    ],
)
def test_what_users_functions_return(start: Start, options: dict[str, Any], text: str) -> None:
    with start().topics["t"].get_producer(**options) as producer, pytest.raises(TypeError, match=text):
        producer.produce(b"x")


# -- topics and metadata ---------------------------------------------------------------------------------------------


def test_a_topic_is_one_object_whoever_looks_it_up_first(start: Start) -> None:
    client = start()
    found: list[Topic] = []
    factory_delay = client.cluster.topic_metadata

    def slowly(name: str) -> Any:
        metadata = factory_delay(name)
        client.cluster.handler.sleep(0.05)
        return metadata

    client.cluster.topic_metadata = slowly  # type: ignore[method-assign]
    workers = [client.cluster.handler.spawn(lambda: found.append(client.topics["t"])) for _ in range(4)]
    assert all(worker.join(10) for worker in workers)
    assert len(found) == 4
    assert len({id(topic) for topic in found}) == 1


def test_a_topic_that_was_away_is_kept_up_to_date(start: Start) -> None:
    client = start(brokers=2)
    topic = client.topics["t"]
    partition = topic.partitions[0]
    client.topics._update_topics({})  # a broker that does not know the topic yet
    (leader,) = (partition.leader.id for _ in "x" if partition.leader is not None)
    _embedded(client).set_leader("t", 0, 3 - leader)
    client.update_cluster()
    assert partition.leader is not None
    assert partition.leader.id == 3 - leader
    gone = weakref.ref(topic)
    del topic, partition
    until(client.cluster.handler, lambda: gone() is None, 10)
    assert client.topics["t"].partitions[0].leader is not None


def test_partitions_that_come_back_are_the_same(start: Start) -> None:
    client = start(partitions=2)
    topic = client.topics["t"]
    both = dict(topic.partitions)
    metadata = client.cluster.topic_metadata("t")
    assert metadata is not None
    topic.update(metadata._replace(partitions={0: metadata.partitions[0]}))
    assert list(topic.partitions) == [0]
    client.update_cluster()
    assert topic.partitions == both
    assert topic.partitions[1] is both[1]


def test_one_topics_metadata_does_not_stand_for_anothers(start: Start) -> None:
    cluster = start().cluster
    cluster.topics["u"]
    seen, ask = cluster.generation, cluster.ask_metadata
    asked: list[list[str] | None] = []

    def counted(topics: list[str] | None, timeout_ms: int | None = None) -> Any:
        asked.append(topics)
        return ask(topics, timeout_ms)

    cluster.ask_metadata = counted  # type: ignore[method-assign]
    cluster.refresh(seen, ["t"])
    cluster.refresh(seen, [b"t"])
    cluster.refresh(seen, ["u"])
    assert asked == [["t"], ["u"]]
    cluster.refresh(seen)
    cluster.refresh(seen, ["t", "u"])
    assert [sorted(names or ()) for names in asked] == [["t"], ["u"], ["t", "u"]]  # those in use


def test_a_topic_that_has_lost_its_partitions_ends_no_sender(start: Start) -> None:
    client = start()
    topic = client.topics["t"]
    producer = topic.get_producer(linger_ms=0)
    producer.produce(b"first")
    producer.flush()
    metadata = client.cluster.topic_metadata("t")
    assert metadata is not None
    client.cluster.refresh_schedule.generation += 1
    client.cluster.refresh_schedule.complete_generation = client.cluster.generation
    topic.update(metadata._replace(partitions={}))
    producer._owned_brokers[1].wake.set()
    until(client.cluster.handler, lambda: topic.partitions and producer._accumulator.queues, 10)  # the sender has asked
    message = producer.produce(b"second")
    producer.flush()
    assert message.offset == 1
    producer.stop()


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_a_signal_that_hits_the_sender_loses_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch, signal: type[BaseException]
) -> None:
    client = start()
    producer = client.topics["t"].get_producer(linger_ms=1)
    producer.produce(b"first")
    producer.flush()
    take, hits = OwnedBroker._take_ready, [signal()]

    def hit(owned: OwnedBroker, now: float) -> Any:
        if hits:
            raise hits.pop()
        return take(owned, now)

    monkeypatch.setattr(OwnedBroker, "_take_ready", hit)
    message = producer.produce(b"second")
    until(client.cluster.handler, lambda: engine_of(producer).worker_exception is not None, 10)
    producer.stop()
    assert message.offset == 1
