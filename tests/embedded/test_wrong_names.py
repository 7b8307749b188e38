"""Calls as programs for other clients make them raise an error that says what to write here: blocking and by coroutines."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pykafka.aio
from pykafka import KafkaClient, TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import SerializationError
from pykafka.producer import fastpath
from pykafka.utils import hints

SECRET = "sword" + "fish"
A0 = TopicPartition("a", 0)
#: The pure source of `produce()` has Python's own errors: a wrapper would cost each message.
COMPILED = not fastpath.__file__.endswith(".py")
CONFIG = "KafkaClient.from_config({"
LISTENS = "client.consumer(listener=) takes an object with"


class Theirs:
    """A listener as kafka-python and aiokafka have them."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None: ...


#: (call of client, producer and consumer, what the error says)
CASES: dict[str, list[tuple[Callable[[Any, Any, Any], Any], str]]] = {
    "produce": [
        (lambda client, p, c: p.produce("a", b"1", callback=print), "callback is on_delivery(error, delivery) here"),
        (lambda client, p, c: p.produce("a", b"1", timestamp_ms=1), "timestamp_ms is timestamp here"),
        (lambda client, p, c: p.produce("a", b"1", partition_key=b"k"), "partition_key is key here"),
        (lambda client, p, c: p.produce("a", message=b"1"), "message is value here"),
        (lambda client, p, c: p.produce("a", b"1", header={}), "did you mean headers?"),
        (lambda client, p, c: p.produce("a", b"1", 5, nothing=1), "produce() has no argument nothing"),
        (
            lambda client, p, c: p.produce("a", b"1", b"k"),
            "topic and value by position, and key=, headers=, timestamp=",
        ),
        (lambda client, p, c: p.produce(**{"topic": "a", "on.delivery": print}), "did you mean on_delivery?"),
    ],
    "producer": [
        (lambda client, p, c: p.send("a", value=b"1", key=b"k"), "it is produce() here"),
        (lambda client, p, c: p.poll(0), "needs none: a worker calls on_delivery"),
        (lambda client, p, c: p.flush(timeout_ms=1000), "timeout_ms is timeout (s) here"),
        (lambda client, p, c: p.flush(1, 2), "flush() takes timeout by position"),
        (lambda client, p, c: p.close(timeout_ms=1000), "timeout_ms is timeout (s) here"),
        (lambda client, p, c: p.send_offsets_to_transaction({}, None), "it is send_offsets(consumer) here"),
        (lambda client, p, c: p.set_sasl_credentials("u", SECRET), "client.set_credentials(Plain("),
        (lambda client, p, c: p.bootstrap_connected(), "it is client.health() here"),
    ],
    "subscribe": [
        (lambda client, p, c: c.subscribe(["a"], on_assign=print), f"on_assign: {LISTENS} on_assigned(partitions)"),
        (lambda client, p, c: c.subscribe(["a"], on_revoke=print), f"on_revoke: {LISTENS} on_revoked(partitions)"),
        (lambda client, p, c: c.subscribe(["a"], on_lost=print), f"on_lost: {LISTENS} on_lost(partitions)"),
        (lambda client, p, c: c.subscribe(["a"], listener=object()), "listener: write client.consumer(listener=)"),
        (lambda client, p, c: c.subscribe(pattern="^a"), 'pattern: write subscribe("^PATTERN")'),
        (lambda client, p, c: c.subscribe(topics=["a"]), "topics: write subscribe(*topics)"),
        (lambda client, p, c: c.subscribe({"group.id": SECRET}), CONFIG),
        (lambda client, p, c: c.assign([A0], incremental=True), "incremental: partitions that stay keep"),
        (lambda client, p, c: c.assign(A0), "partitions must be a list: write [TopicPartition("),
        (lambda client, p, c: c.incremental_assign([A0]), "assign() keeps partitions that stay"),
        (lambda client, p, c: c.unassign(), "it is unsubscribe() here"),
    ],
    "commit": [
        (lambda client, p, c: c.commit(asynchronous=True), "asynchronous: commit() waits, and commit_async() does not"),
        (lambda client, p, c: c.commit(message=None), "message: write commit(record)"),
        (lambda client, p, c: c.commit(offsets={}), "offsets: write commit({TopicPartition(topic, number): offset})"),
        (lambda client, p, c: c.commit(timeout_ms=5), "timeout_ms is timeout (s) here"),
        (
            lambda client, p, c: c.commit(None, False),
            "commit() takes what by position, and metadata=, timeout= by name",
        ),
        (lambda client, p, c: c.commit_async(callback=print), "callback is on_commit(error, offsets) here"),
        (lambda client, p, c: c.commit_async(offsets={}), "offsets: write commit_async({TopicPartition("),
        (lambda client, p, c: c.store_offsets(message=None), "commit(record), or auto_commit=True"),
        (lambda client, p, c: c.committed([A0]), "unpack the list"),
        (lambda client, p, c: c.committed(partitions=[A0]), "partitions: write committed(*partitions)"),
        (lambda client, p, c: c.close(autocommit=False), "autocommit: write client.consumer(auto_commit=)"),
    ],
    "poll": [
        (lambda client, p, c: c.poll(0), "write poll(timeout=0) for seconds"),
        (lambda client, p, c: c.poll(1.0), "write poll(timeout=1.0) for seconds"),
        (lambda client, p, c: c.poll(timeout_ms=1000), "timeout_ms is timeout (s) here"),
        (lambda client, p, c: c.poll(update_offsets=False), "update_offsets: seek() makes the next call"),
        (lambda client, p, c: c.consume(num_messages=5, timeout=1), "poll(max_records, timeout=seconds)"),
        (lambda client, p, c: c.getone(), "one() here"),
        (lambda client, p, c: c.getmany(timeout_ms=5), "poll() here"),
        (lambda client, p, c: c.pause([A0]), "unpack the list"),
        (lambda client, p, c: c.seek_to_committed(), "write seek(partition, offset) with an offset of committed()"),
        (lambda client, p, c: c.highwater(A0), "client.admin.list_offsets("),
        (lambda client, p, c: c.start(), "needs none"),
        (lambda client, p, c: c.stop(), "it is close() here"),
    ],
    "consumer": [
        (lambda client, p, c: client.consumer({"group.id": SECRET}), CONFIG),
        (lambda client, p, c: client.consumer("a", {"group.id": SECRET}), CONFIG),
        (lambda client, p, c: client.consumer("a", **{"group.id": "g"}), "group.id is group here"),
        (lambda client, p, c: client.consumer("a", group_id="g"), "group_id is group here"),
        (lambda client, p, c: client.consumer("a", enable_auto_commit=True), "enable_auto_commit is auto_commit here"),
        (lambda client, p, c: client.consumer("a", auto_offset_reset="smallest"), "'smallest' is 'earliest' here"),
        (lambda client, p, c: client.consumer("a", auto_offset_reset="largest"), "'largest' is 'latest' here"),
        (lambda client, p, c: client.consumer("a", start="earliest"), "write auto_offset_reset='earliest'"),
        (
            lambda client, p, c: client.consumer("a", on_assign=print),
            "on_assign: listener= takes an object with on_assigned",
        ),
        (lambda client, p, c: client.consumer("a", listener=Theirs()), "on_partitions_revoked is on_revoked here"),
        (lambda client, p, c: client.consumer("a", pattern="^a"), 'pattern: write consumer("^PATTERN")'),
        (lambda client, p, c: client.consumer(topics=["a"]), "topics is consumer(*topics) here"),
        (lambda client, p, c: client.consumer(topic="a"), "topic is consumer(*topics) here"),
        (lambda client, p, c: client.consumer(["a"]), "unpack the list: consumer(*names)"),
    ],
    "client": [
        (lambda client, p, c: client.producer({"sasl.password": SECRET}), CONFIG),
        (lambda client, p, c: client.producer("a"), "producer() takes nothing by position, and options by name"),
        (lambda client, p, c: client.producer(**{"linger.ms": 5}), "did you mean linger_ms?"),
        (lambda client, p, c: client.producer(retries=3), "retries is max_retries here"),
        (lambda client, p, c: client.producer(loop=None), "loop: pykafka.aio takes the loop that runs"),
        (lambda client, p, c: client.subscribe(["a"]), 'client.consumer("TOPIC", group="GROUP")'),
        (lambda client, p, c: client.send("a", b"1"), "client.producer().produce()"),
        (lambda client, p, c: client.list_topics(), "client.admin.list_topics()"),
        (lambda client, p, c: client.stop(), "it is close() here"),
        (lambda client, p, c: client.start(), "needs none: "),
    ],
}
CALLS = [
    pytest.param(call, said, id=f"{subject}-{number}")
    for subject, cases in CASES.items()
    for number, (call, said) in enumerate(cases)
]
Made = tuple[Any, Any, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, topics={"a": 1}) as found:
        yield found


@pytest.fixture(scope="module")
def blocking(cluster: EmbeddedCluster) -> Iterator[Made]:
    with KafkaClient(cluster.hosts) as client:
        yield client, client.producer(), client.consumer("a", group="wrong-names")


@pytest.fixture(scope="module")
def awaited(cluster: EmbeddedCluster) -> Iterator[tuple[asyncio.Runner, Made]]:
    async def make() -> Made:
        client = await pykafka.aio.KafkaClient(cluster.hosts)
        return client, await client.producer(), await client.consumer("a", group="wrong-names")

    with asyncio.Runner() as runner:
        made = runner.run(make())
        yield runner, made
        runner.run(made[0].close())


def check(raised: pytest.ExceptionInfo[Exception], said: str, is_produce: bool) -> None:
    text = str(raised.value)
    if COMPILED or not is_produce:
        assert said in text
    assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_a_call_says_what_to_write(
    call: Callable[[Any, Any, Any], Any], said: str, blocking: Made, request: pytest.FixtureRequest
) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)) as raised:
        call(*blocking)
    check(raised, said, "[produce-" in request.node.name)


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_a_coroutine_says_what_to_write(
    call: Callable[[Any, Any, Any], Any],
    said: str,
    awaited: tuple[asyncio.Runner, Made],
    request: pytest.FixtureRequest,
) -> None:
    runner, made = awaited

    async def run() -> None:
        found = call(*made)
        if inspect.isawaitable(found):
            await found

    with pytest.raises((TypeError, ValueError, AttributeError)) as raised:
        runner.run(run())
    check(raised, said, "[produce-" in request.node.name)


def test_errors_of_a_call_itself_stay(blocking: Made) -> None:
    """Also those of functions that it calls, and those about values."""
    client, producer, consumer = blocking

    def fails(data: Any) -> bytes:
        raise TypeError("no such thing")

    with pytest.raises(TypeError, match="value must be bytes or None, not str"):
        producer.produce("a", "text")
    with pytest.raises(TypeError, match="topic must be"):
        producer.produce(5)
    with pytest.raises(TypeError, match="missing|takes at least|positional argument"):
        producer.produce()
    with pytest.raises(TypeError, match="metadata must be a text"):
        consumer.commit(metadata=5)
    with client.producer(value_serializer=fails) as failing:
        with pytest.raises(SerializationError, match="failed by TypeError") as raised:
            failing.produce("a", b"1", key=b"k")
        assert str(raised.value.__cause__) == "no such thing"


def test_a_call_with_the_right_names_does_not_change(cluster: EmbeddedCluster) -> None:
    with KafkaClient(cluster.hosts) as client, client.producer() as producer:
        delivery = producer.produce(topic="a", value=b"1", key=b"k", headers={"h": b"1"}, timestamp=5, partition=0)
        assert (delivery.get(timeout=10).partition, delivery.key) == (0, b"k")
        assert producer.produce(*("a", b"2"), on_delivery=print).get(timeout=10).value == b"2"
        assert list(inspect.signature(producer.flush).parameters) == ["timeout"]
    assert inspect.iscoroutinefunction(pykafka.aio.KafkaConsumer.commit_async)


def test_wrong_calls_keep_nothing_alive(blocking: Made) -> None:
    """A compiled function that replaces its error gives back all that it took."""
    _, producer, _ = blocking
    value, wrong = b"a value of its own %d" % id(blocking), {"callback": print}
    before = sys.getrefcount(value)
    for _ in range(1000):
        with pytest.raises(TypeError):
            producer.produce("a", value, **wrong)
    assert sys.getrefcount(value) - before < 10


class Interrupted(BaseException):
    """Stands in for KeyboardInterrupt and gevent.Timeout."""


@pytest.mark.parametrize("raised", [Interrupted, ValueError])
def test_an_interrupt_of_the_explanation_is_kept(
    blocking: Made, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    """An exception of the explanation itself is dropped: Python's error about the arguments says more."""
    _, producer, _ = blocking

    def fail(*_: Any) -> Any:
        raise raised

    monkeypatch.setattr(hints, "wrong_arguments", fail)
    wrong: dict[str, Any] = {"callback": print}
    with pytest.raises(raised if COMPILED and raised is Interrupted else TypeError):
        producer.produce("a", b"1", **wrong)
