"""Errors, and what they carry, reach another process: each class of the package is pickled and copied, with real contents."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

import pykafka
from pykafka.admin import ConfigResource, Results
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import (
    AdminError,
    ConnectTimeoutError,
    DeadLetterError,
    KafkaException,
    MessageSizeTooLarge,
    MessagesNotDelivered,
    OffsetsNotCommitted,
    PartitionOwnedError,
    ProducerStoppedException,
    TopicAlreadyExists,
    UnknownErrorCode,
)
from pykafka.handlers import ThreadingHandler
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.delivery import Delivery
from pykafka.protocol.message import Message
from pykafka.record import Record
from pykafka.spark.pipeline.errors import DeclarationError
from pykafka.spark.pipeline.tables import Problem
from tests.support.inside import await_acknowledgement, deserialize


def pickled(protocol: int) -> Callable[[Any], Any]:
    """Return what pickles and unpickles a value."""
    return lambda value: pickle.loads(pickle.dumps(value, protocol))


COPIES: dict[str, Callable[[Any], Any]] = {
    **{f"pickle {protocol}": pickled(protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
CONTEXT: dict[str, Any] = {"broker": "b:9092", "topic": "t", "partition": 1, "api": "Produce"}


def batch_of(count: int) -> ProducerBatch:
    """Return a producer's batch, which is under way."""
    batch = ProducerBatch("t", 1, BrokerQueue(ThreadingHandler().Event(), 10, 10_000, 1), 0.0, lambda: 0)
    for number in range(count):
        batch.builder.append(1000, b"k", b"%d" % number, [("a", b"b")])
        batch.count += 1
    return batch


def failures() -> list[tuple[Any, Exception]]:
    """Return what was not delivered, as both kinds of producers report it."""
    batch = batch_of(2)
    batch.done, batch.error = True, MessageSizeTooLarge("too large", **CONTEXT)
    messages: list[Any] = [*batch.deliveries(), *batch.messages()]
    return [(message, message.error or ValueError()) for message in messages]


def results() -> Results[Any, Any]:
    """Return the outcome of several items."""
    error = TopicAlreadyExists("there", topic="b")
    return Results({"b": error, ConfigResource.topic("c"): {"x": "y"}, TopicPartition("t", 1): error})


#: A value for each parameter of the constructors.
ARGUMENTS: dict[str, Any] = {
    **{"message": "what the client reads", "records": ((0, "is too old"),)},
    **{"text": "what happened", "reason": "is refused", "what": "the key", "source": "pipeline.toml", "part": "key"},
    **{"key": "sasl.login.callback.handler.class", "similar": "topics", "topic": "t", "partition": 1},
    **{
        "offset": 7,
        "earliest": 3,
        "latest": 9,
        "divergent_offset": 5,
        "attempts": 2,
        "count": 3,
        "code": 999,
        "status": 404,
    },
    **{"value": b"v", "partition_key": b"k", "mechanisms": ["PLAIN"], "path": ["topics", "name"]},
    **{
        "codec": "zstd",
        "limit": 5,
        "unpacked": 7,
        "old_id": UUID(int=1),
        "new_id": UUID(int=2),
        "lasting": True,
        "in_version": True,
        "field": "topics.name",
        "ranges": {17: (0, 1)},
    },
    "error": ZeroDivisionError("of the user"),
    "problems": [Problem("sink", "is missing")],
    "results": results(),
}


def _failures_of(cls: type[BaseException]) -> Any:
    if issubclass(cls, OffsetsNotCommitted):
        return {TopicPartition("t", 1): OffsetAndMetadata(5, "text"), ("u", 0): 7}
    return failures()


def made(cls: type[BaseException]) -> BaseException:
    """Return an error with all that its class can carry."""
    if not inspect.isfunction(cls.__init__):
        return cls("what happened")  # one of Python's own constructors
    parameters = inspect.signature(cls).parameters.values()
    known = {**ARGUMENTS, "failures": _failures_of(cls)}
    fixed = [known[one.name] for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    taken = {one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD}
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        fixed.append("what happened")
    named = {one.name: known[one.name] for one in parameters if one.kind is one.KEYWORD_ONLY and one.name in known}
    if any(one.kind is one.VAR_KEYWORD or one.name == "ledger" for one in parameters):
        ledger = [("b:9092", ConnectTimeoutError("too late")), ("c:9092", OSError(111, "refused"))]
        named |= {name: value for name, value in {**CONTEXT, "ledger": ledger}.items() if name not in taken}
    error = cls(*fixed, **named)
    error.add_note("a note")
    return error


def classes() -> Iterator[type[BaseException]]:
    """Yield all classes of errors of the package."""
    for module in pkgutil.walk_packages(pykafka.__path__, "pykafka."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == module.name:
                    yield value


def contents(value: Any) -> Any:
    """Return everything that a value has, in a form that can be compared."""
    if isinstance(value, BaseException):
        return type(value), str(value), repr(value), contents(value.args), contents(vars(value))
    if isinstance(value, Delivery):
        names: tuple[str, ...] = (
            "topic",
            "partition",
            "done",
            "error",
            "offset",
            "timestamp",
            "key",
            "value",
            "headers",
        )
        return [contents(getattr(value, name)) for name in names]
    if isinstance(value, Message):
        names = ("value", "partition_key", "partition_id", "offset", "timestamp", "headers", "error", "response_code")
        return [contents(getattr(value, name)) for name in names]
    if isinstance(value, Results):
        return [(outcome.item, outcome.value, contents(outcome.error)) for outcome in value.outcomes]
    if isinstance(value, dict):
        return [(contents(key), contents(held)) for key, held in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [contents(held) for held in value]
    return value


@pytest.mark.parametrize("way", COPIES)
def test_each_error_of_the_package_keeps_its_class_text_and_contents(way: str) -> None:
    found = set(classes())
    assert {KafkaException, AdminError, MessagesNotDelivered, UnknownErrorCode, DeclarationError} < found
    for cls in found:
        error = made(cls)
        again = COPIES[way](error)
        assert again is not error
        assert contents(again) == contents(error), cls
        assert getattr(again, "context", None) == getattr(error, "context", None)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("kind", ["deliveries", "messages"])
def test_produced_messages_keep_their_outcome(way: str, kind: str) -> None:
    batch = batch_of(3)
    batch.record_errors = {1: MessageSizeTooLarge("too large", topic="t")}
    messages = list(getattr(batch, kind)())
    under_way = [COPIES[way](message) for message in messages]
    batch.base_offset, batch.done = 100, True
    settled = [COPIES[way](message) for message in messages]
    assert [message.offset for message in settled] == [100, 101, 102]
    assert contents(settled) == contents(messages)
    # Only a copy within the process still sees its batch.
    known = [message.offset for message in under_way]
    assert known == ([100, 101, 102] if way == "copy" and kind == "deliveries" else [-1, -1, -1])
    for message in settled:
        message.delivery_report_q = None  # an attribute of the original that holds what belongs to the process
        assert contents(COPIES[way](message)) == contents(message)


def test_a_pickled_delivery_answers_get() -> None:
    batch = batch_of(2)
    first, second = batch.deliveries()
    unknown = pickle.loads(pickle.dumps(first))
    assert not unknown.done
    with pytest.raises(ProducerStoppedException, match="produce"):
        unknown.get(1)
    batch.record_errors, batch.done, batch.base_offset = {1: MessageSizeTooLarge("too large")}, True, 5
    delivered, failed = pickle.loads(pickle.dumps((first, second)))
    assert delivered.get() is delivered
    with pytest.raises(MessageSizeTooLarge, match="too large"):
        failed.get()


def test_the_error_of_a_message_and_that_beside_it_are_one_object() -> None:
    again = pickle.loads(pickle.dumps(MessagesNotDelivered("t", failures())))
    assert all(message.error is error for message, error in again.failures)


class Torn(Exception):
    """An error of an application that can be pickled, but not unpickled."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def test_what_an_application_put_in_keeps_no_error_back() -> None:
    """An object that cannot be pickled would break the whole pool, in the worst case."""
    batch = batch_of(1)
    batch.done, batch.error = True, MessageSizeTooLarge("too large")
    for key in (threading.Lock(), lambda: None):
        delivery = Delivery(batch, 0, key, {"id": 1}, [("a", b"b")], 1000)
        error = pickle.loads(pickle.dumps(MessagesNotDelivered("t", [*failures(), (delivery, batch.error)])))
        assert contents(error.failures[:4]) == contents(failures())
        copied, _ = error.failures[4]
        assert (copied.topic, copied.partition, copied.value, copied.headers) == ("t", 1, {"id": 1}, [("a", b"b")])
        assert "cannot be pickled" in copied.key
    letter = pickle.loads(pickle.dumps(DeadLetterError("not written", 7, Torn(1, 2), topic="t")))
    assert (letter.offset, letter.topic) == (7, "t")
    assert "Torn" in str(letter.error)
    assert "1 and 2" in str(letter.error)
    owned = pickle.loads(
        pickle.dumps(PartitionOwnedError(type("Partition", (), {"id": 3, "lock": threading.Lock()})()))
    )
    assert owned.partition == 3
    assert pickle.loads(pickle.dumps(KafkaException("what", threading.Lock()))).args[0] == "what"


@pytest.mark.parametrize("way", COPIES)
def test_consumed_ones_keep_their_contents(way: str) -> None:
    record = Record[Any, Any]("t", 1, 5, b"k", b"v", [("a", None)], 1000, 1, 3)
    deserialize(record, "k", {"v": 1})
    again = COPIES[way](record)
    names = ("topic", "partition", "offset", "key", "value", "headers", "timestamp", "timestamp_type", "leader_epoch")
    assert [getattr(again, name) for name in names] == [getattr(record, name) for name in names]
    assert (again.raw_key, again.raw_value, again.delivery_count) == (b"k", b"v", None)
    await_acknowledgement(record, types.SimpleNamespace(delivery_count=3, lock=threading.Lock()))
    counted = COPIES[way](COPIES[way](record))
    assert (counted.delivery_count, counted.value) == (3, {"v": 1})
    assert counted._held() is None
    with pytest.raises(KafkaException, match="nothing waits"):
        counted.ack()
    message = Message(b"v", b"k", 1, 5, 2, 0, 1, 1000, None, [("a", None)])
    assert contents(COPIES[way](message)) == contents(message)
