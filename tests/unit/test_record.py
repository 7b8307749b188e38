"""`Record`: what it holds, that it cannot be changed, and that the collector finds circles through it."""

from __future__ import annotations

import ast
import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import pytest

import pykafka
from pykafka.exceptions import KafkaException
from pykafka.record import Record
from tests.support.inside import await_acknowledgement, deserialize

FIELDS = ("topic", "partition", "offset", "key", "value", "headers", "timestamp", "timestamp_type", "leader_epoch")
FULL = ("orders", 3, 2**62, b"k", b"v", [("trace", b"1"), ("none", None)], 1_700_000_000_000, 1, 7)


def contents(record: Record[Any, Any]) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in FIELDS)


def test_it_has_what_it_was_given() -> None:
    record = Record(*FULL)
    assert contents(record) == FULL
    assert (record.raw_key, record.raw_value) == (b"k", b"v")


def test_what_a_record_lacks_is_none() -> None:
    record: Record = Record("orders", 0, 5)
    assert contents(record) == ("orders", 0, 5, None, None, (), None, 0, None)


@pytest.mark.parametrize("name", [*FIELDS, "raw_key", "raw_value", "other"])
def test_it_cannot_be_changed(name: str) -> None:
    record = Record(*FULL)
    with pytest.raises(AttributeError):
        setattr(record, name, 1)
    assert contents(record) == FULL


def test_equality_is_identity() -> None:
    one, other = Record(*FULL), Record(*FULL)
    assert one == one
    assert one != other
    assert len({one, other, one}) == 2


def test_deserialized_records_keep_their_bytes() -> None:
    record: Record[Any, Any] = Record(*FULL)
    deserialize(record, "k", {"v": 1})
    deserialize(record, "k", {"v": 2})
    assert (record.key, record.value, record.raw_key, record.raw_value) == ("k", {"v": 2}, b"k", b"v")


@pytest.mark.parametrize("deserialized", [False, True])
@pytest.mark.parametrize(
    "copied", [copy.copy, lambda record: pickle.loads(pickle.dumps(record))], ids=["copy", "pickle"]
)
def test_copies_have_the_same_contents_and_no_acknowledgement(copied: Any, deserialized: bool) -> None:
    record: Record[Any, Any] = Record(*FULL)
    await_acknowledgement(record, object())
    if deserialized:
        deserialize(record, "k", [1])
    made = copied(record)
    assert contents(made) == contents(record)
    assert (made.raw_key, made.raw_value) == (b"k", b"v")
    with pytest.raises(KafkaException):
        made.ack()


class Waiting:
    """A run that waits for a record's acknowledgement."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def acknowledge(self) -> bool:
        self.told.append("ack")
        return True

    def refuse(self, error: BaseException | None) -> bool:
        self.told.append(error)
        return False


def test_ack_and_nack_call_what_waits_for_them() -> None:
    waiting = Waiting()
    record = Record(*FULL)
    await_acknowledgement(record, waiting)
    error = ValueError()
    assert record.ack()
    assert not record.nack(error)
    assert not record.nack()
    assert waiting.told == ["ack", error, None]


def test_ack_without_anything_that_waits_says_where_it_belongs() -> None:
    with pytest.raises(KafkaException, match=r"consumer.parallel\(.*manual_ack=True") as caught:
        Record(*FULL).ack()
    assert (caught.value.topic, caught.value.partition) == ("orders", 3)
    with pytest.raises(KafkaException, match=r"consumer.parallel\(.*manual_ack=True"):
        Record(*FULL).nack()


@pytest.mark.parametrize("way", ["ack", "value"])
def test_circles_through_a_record_are_freed(way: str) -> None:
    class Referred(dict[str, Any]):
        """A value that a weak reference can follow."""

    referred = Referred()
    record: Record[Any, Any] = Record("orders", 0, 1, b"k", b"v")
    if way == "ack":
        await_acknowledgement(record, referred)
    else:
        deserialize(record, None, referred)
    referred["record"] = record
    gone = weakref.ref(referred)
    del referred, record
    gc.collect()
    assert gone() is None


def test_its_repr_is_short_and_says_where_it_is_from() -> None:
    record: Record[Any, Any] = Record("orders", 3, 17, b"k", b"x" * 1000, timestamp=5)
    assert repr(record) == (
        f"<Record topic='orders', partition=3, offset=17, timestamp=5, key=b'k', value={b'x' * 40!r}... (1000 bytes)>"
    )
    deserialize(record, "y" * 50, list(range(1000)))
    assert f"key='{'y' * 40}'... (50 characters), value=[0, 1, 2" in repr(record)
    assert len(repr(record)) < 250
    assert "headers=[('trace', b'1'), ('none', None)]" in repr(Record(*FULL))


def test_the_class_takes_types() -> None:
    assert "Record[" in repr(Record[str, int])


def test_the_types_are_those_of_the_class() -> None:
    """They stand in a file of their own, since a compiled class cannot be generic."""
    (folder,) = pykafka.__path__
    (shown,) = (
        node for node in ast.parse((Path(folder) / "record.pyi").read_text()).body if isinstance(node, ast.ClassDef)
    )
    (made,) = (
        node
        for node in ast.parse((Path(folder) / "record.py").read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    def signatures(cls: ast.ClassDef) -> dict[str, tuple[list[str], int]]:
        return {
            node.name: ([one.arg for one in node.args.args], len(node.args.defaults))
            for node in cls.body
            if isinstance(node, ast.FunctionDef)
        }

    internal = {"__cinit__", "__reduce__", "__setstate__", "__repr__", "_track", "_awaited"}
    assert signatures(shown) == {name: found for name, found in signatures(made).items() if name not in internal}
