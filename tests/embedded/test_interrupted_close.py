"""A `close()` that an interrupt ends: the next one, dropping the object, or the end of the interpreter ends the rest."""

from __future__ import annotations

import asyncio
import gc
import signal
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.broker import Broker
from pykafka.compat import group_consumer
from pykafka.consumer import commits, recovery
from pykafka.embedded import EmbeddedCluster
from pykafka.groups.classic import coordinator
from pykafka.groups.coordinator_connection import CoordinatorConnection
from pykafka.handlers import Handler
from pykafka.handlers.bridge import await_in_bridge, bridged
from pykafka.handlers.interrupts import FinalSteps
from pykafka.metadata import lifecycle
from pykafka.network import turns
from pykafka.producer import delivery_callbacks, sender
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from tests.support.inside import engine_of, membership_of, transactions_of
from tests.support.interrupts import Interrupted, interrupting
from tests.support.leftovers import Belongings, left_since
from tests.support.loops import Concurrency
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

#: How often workers look whether somebody holds what they work for (s): not once in a second, which each test would wait.
OFTEN_S = 0.1
#: The longest time that a worker whose connection is gone takes to notice (s).
PATIENCE_S = 15.0
#: How long a member waits for the id with which it leaves (s): 5, if tests do not change it.
LEAVING_S = 2.0


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the intervals at which workers look around."""
    for module, name in (
        (sender, "IDLE_POLL_INTERVAL_S"),
        (delivery_callbacks, "IDLE_S"),
        (group_consumer, "OWNER_POLL_INTERVAL_S"),
        (commits, "OWNER_POLL_INTERVAL_S"),
        (recovery, "OWNER_POLL_INTERVAL_S"),
        (turns, "LASTING_GRACE_S"),
    ):
        monkeypatch.setattr(module, name, OFTEN_S)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, topics={"t": 2}) as cluster:
        yield cluster


@contextmanager
def cut_off(handler: Handler, seconds: float) -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Yield what calls a function and interrupts it after a time, as applications do on each kind of concurrency."""

    def by_signal(function: Callable[[], Any]) -> None:
        def interrupt(*_: object) -> None:
            raise Interrupted

        former = signal.signal(signal.SIGALRM, interrupt)
        try:
            with suppress(Interrupted):
                try:
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                    function()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, former)

    def by_timeout(function: Callable[[], Any]) -> None:
        import gevent

        with gevent.Timeout(seconds, False):
            function()

    def by_cancellation(function: Callable[[], Any]) -> None:
        with suppress(TimeoutError):
            await_in_bridge(asyncio.wait_for(bridged(function), seconds))

    yield {"threads": by_signal, "gevent": by_timeout, "asyncio": by_cancellation}[handler.name]


def _little_work(client: KafkaClient) -> tuple[Any, ...]:
    producer = client.producer(linger_ms=0)
    producer.produce("t", b"x").get()
    consumer = client.consumer("t", auto_offset_reset="earliest")
    assert consumer.one(20) is not None
    return producer, consumer


def _work(client: KafkaClient) -> tuple[Any, ...]:
    """Return a producer and consumers of each kind, all at work."""
    producer = client.producer(linger_ms=0)
    producer.produce("t", b"x").get()
    old = client.topics["t"].get_producer(linger_ms=0)
    old.produce(b"x")
    consumer = client.consumer("t", auto_offset_reset="earliest", fetch_max_wait_ms=600)
    assert consumer.one(20) is not None
    member = client.consumer("t", group=str(uuid.uuid4()), auto_offset_reset="earliest", session_timeout_ms=6000)
    member.poll(1, 0.2)
    simple = client.topics["t"].get_simple_consumer("h", auto_commit_enable=True, fetch_wait_max_ms=400)
    return producer, old, consumer, member, simple


def _close(holder: list[Any]) -> None:
    holder[0].close()


def _drop(holder: list[Any]) -> None:
    holder.clear()
    gc.collect()


def _exit(holder: list[Any]) -> None:
    lifecycle._close_at_exit()


WAYS = (_close, _drop, _exit)


@pytest.mark.on_asyncio
@pytest.mark.parametrize("way", WAYS)
def test_after_an_interrupt_the_rest_ends(
    cluster: EmbeddedCluster, concurrency: Concurrency, way: Callable[[list[Any]], None]
) -> None:
    """11 of 11 clients on asyncio and 18 of 18 on gevent and threads kept their connections and workers for good."""
    before = Belongings()
    for number in range(5):
        holder: list[Any] = [KafkaClient(cluster.hosts, **concurrency())]
        holder.append(_work(holder[0]))
        with cut_off(holder[0].cluster.handler, 0.01 * 3**number) as call:
            call(holder[0].close)
        way(holder)
        holder.clear()
        assert not left_since(before, PATIENCE_S), f"interrupt {number}"


@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_at_each_step_leaves_nothing_for_good(
    cluster: EmbeddedCluster, way: Callable[[list[Any]], None]
) -> None:
    before = Belongings()
    for call in interrupting("metadata/cluster.py", "metadata/brokers.py", "network/channel.py", "network/channel.py"):
        holder: list[Any] = [KafkaClient(cluster.hosts)]
        holder.append(_little_work(holder[0]))
        with suppress(Interrupted):
            call(holder[0].close)
        way(holder)
        holder.clear()
        assert not left_since(before, PATIENCE_S)


@pytest.mark.on_asyncio
def test_a_close_that_was_interrupted_behind_its_messages_waits_for_their_functions(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one did nothing: a worker outlived it, and an event loop that ended then called no function."""
    reported: list[object] = []

    def interrupt(_: float) -> None:
        raise Interrupted

    with FakeCluster(1, {"t": 1}) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:

        def report(error: object, _: object) -> None:
            client.cluster.handler.sleep(2 * OFTEN_S)
            reported.append(error)

        producer = client.producer(linger_ms=0)
        with cluster.hold("Produce"):
            producer.produce("t", b"x", on_delivery=report)
            with monkeypatch.context() as patch:
                patch.setattr(engine_of(producer).routing.deadlines, "join", interrupt)
                with pytest.raises(Interrupted):
                    producer.close(OFTEN_S)
            assert not reported
            producer.close(PATIENCE_S)
            assert len(reported) == 1


@pytest.mark.on_asyncio
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_close_that_is_cut_off_while_the_group_holds_a_join_back_ends_at_once(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch, assignor: str
) -> None:
    """A member waits for the id with which it leaves. The interrupt ended that wait, and the call began another one."""
    monkeypatch.setattr(coordinator, "LEAVE_TIMEOUT_MS", int(LEAVING_S * 1000))
    options: dict[str, Any] = {"protocol": "classic", "assignor": assignor, "session_timeout_ms": 30_000}
    with FakeCluster(1, {"t": 2}, as_version="1.1") as cluster:  # releases before 2.2 send the id when all have joined
        cluster.set_group_settings(initial_rebalance_delay_ms=0)
        with KafkaClient(cluster.hosts, **concurrency()) as client, client.consumer("t", group="g", **options) as first:
            while not first.assignment():
                first.poll(timeout=0.2)
            second = client.consumer("t", group="g", **options)
            second.poll(timeout=0.3)
            handler = client.cluster.handler
            with cut_off(handler, OFTEN_S) as call:
                began = handler.now()
                call(second.close)
                assert handler.now() - began < LEAVING_S / 2
            second.close()
            assert handler.now() - began > LEAVING_S / 2


def test_a_broker_that_was_dropped_ends_its_connection(cluster: EmbeddedCluster, handler: Handler) -> None:
    """The connection's reader held the broker, and so the broker its connection."""
    before = Belongings()
    host, _, port = cluster.hosts.split(",")[0].partition(":")
    broker = Broker(1, host, int(port), handler, 5000, 5000)
    broker.call(wire.MetadataRequest())
    gone = weakref.ref(broker)
    del broker
    until(handler, lambda: gc.collect() is not None and gone() is None)
    assert not left_since(before, PATIENCE_S)


def _interrupt_once(patch: pytest.MonkeyPatch, target: Any, name: str) -> None:
    """Interrupt the next call of a method."""
    really = getattr(target, name)

    def interrupted(*_: Any, **__: Any) -> None:
        patch.setattr(target, name, really)
        raise Interrupted

    patch.setattr(target, name, interrupted)


def test_a_stop_that_was_interrupted_commits_when_it_is_called_again(
    cluster: EmbeddedCluster, concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = str(uuid.uuid4())
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        client.producer().produce("t", b"x").get()
        options: dict[str, Any] = {
            "auto_commit_enable": True,
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": 20_000,
        }
        consumer = client.topics["t"].get_simple_consumer(group, **options)
        message = consumer.consume()
        assert message is not None
        _interrupt_once(monkeypatch, engine_of(consumer).recovery, "join")
        with pytest.raises(Interrupted):
            consumer.stop()
        consumer.stop()
        again = client.topics["t"].get_simple_consumer(group, auto_start=False)
        again.fetch_offsets()
        assert again.held_offsets[message.partition_id] == message.offset
        again.stop()


@pytest.mark.parametrize("step", ["_later.join", "_follower.leave", "_engine.stop"])
def test_a_member_whose_close_was_interrupted_leaves_when_it_is_called_again(
    cluster: EmbeddedCluster, concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The second call did nothing, so that heartbeats went on for as long as the client lived."""
    part, name = step.split(".")
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        client.producer().produce("t", b"x").get()
        consumer = client.consumer("t", group=str(uuid.uuid4()), auto_offset_reset="earliest", session_timeout_ms=6000)
        assert consumer.one(20) is not None
        shares = membership_of(consumer)
        assert shares is not None
        _interrupt_once(monkeypatch, getattr(consumer, part), name)
        with pytest.raises(Interrupted):
            consumer.close()
        consumer.close()
        consumer.close()
        assert membership_of(consumer) is None
        assert not engine_of(consumer).running


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_close_that_was_interrupted_while_a_member_left_lets_it_leave_when_it_is_called_again(
    cluster: EmbeddedCluster, concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """The second call closed the connections meanwhile, and the group waited for the member until its session had ended."""
    client = KafkaClient(cluster.hosts, **concurrency())
    client.producer().produce("t", b"x").get()
    consumer = client.consumer("t", group=str(uuid.uuid4()), protocol=protocol, auto_offset_reset="earliest")
    assert consumer.one(20) is not None
    begun, left = client.cluster.handler.Event(), []
    leave_at = CoordinatorConnection._leave_at

    def slowly(connection: CoordinatorConnection, once: Any, deadline: float) -> None:
        begun.set()
        client.cluster.handler.Event().wait(0.5)
        leave_at(connection, once, deadline)
        left.append(connection.group_id)

    def interrupted(_ending: FinalSteps, _timeout: float | None = None) -> bool:
        monkeypatch.setattr(FinalSteps, "wait", wait)
        begun.wait(10)
        raise Interrupted

    wait = FinalSteps.wait
    monkeypatch.setattr(CoordinatorConnection, "_leave_at", slowly)
    monkeypatch.setattr(FinalSteps, "wait", interrupted)
    with pytest.raises(Interrupted):
        client.close()
    client.close()
    assert len(left) == 1


def test_a_share_consumer_whose_close_was_interrupted_ends_when_it_is_called_again(
    cluster: EmbeddedCluster, concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        consumer = client.share_consumer(group="g")
        _interrupt_once(monkeypatch, engine_of(consumer), "stop")
        with pytest.raises(Interrupted):
            consumer.close()
        stops: list[float] = []
        monkeypatch.setattr(engine_of(consumer), "stop", stops.append)
        client.close()
        consumer.close()
        assert len(stops) == 1


def test_a_transaction_whose_abort_was_interrupted_is_aborted_when_close_is_called_again(
    cluster: EmbeddedCluster, concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        producer = client.producer(transactional_id=str(uuid.uuid4()))
        producer.begin_transaction()
        producer.produce("t", b"x")
        transactions = transactions_of(producer)
        assert transactions is not None
        aborts: list[float] = []
        really = transactions._abort

        def abort(deadline: float) -> None:
            aborts.append(deadline)
            really(deadline)

        monkeypatch.setattr(transactions, "_abort", abort)
        _interrupt_once(monkeypatch, transactions, "_abort")
        with pytest.raises(Interrupted):
            producer.close()
        assert engine_of(producer).running
        producer.close()
        assert len(aborts) == 1
