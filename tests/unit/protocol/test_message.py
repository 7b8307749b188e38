"""`Message`: its fields, and what it reads through its batch."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import InvalidMessageError, MessageSizeTooLarge
from pykafka.protocol.message import Message


class Batch:
    """A producer's batch, as its messages see it."""

    def __init__(self) -> None:
        self.base_offset = -1
        self.log_append_time = -1
        self.done = False
        self.errors: dict[int, Any] = {}

    def error_of(self, index: int) -> Any:
        return self.errors.get(index)

    def offset_of(self, index: int) -> int:
        return self.base_offset + index if self.base_offset >= 0 else -1


def test_fields_and_their_documented_names() -> None:
    message = Message(b"v", b"k", 2, 7, 3, 1, 1, 1234, "queue", [("h", None)])
    assert (message.value, message.payload, message.partition_key, message.key) == (b"v", b"v", b"k", b"k")
    assert (message.compression_type, message.offset, message.partition_id, message.produce_attempt) == (2, 7, 3, 1)
    assert (message.protocol_version, message.timestamp, message.delivery_report_q) == (1, 1234, "queue")
    assert message.headers == [("h", None)]
    assert (message.partition, message.topic, message.error, message.response_code) == (None, None, None, 0)


@pytest.mark.parametrize("make", [lambda: Message(None), lambda: Message.__new__(Message)])
def test_defaults(make: Any) -> None:
    message = make()
    assert (message.value, message.partition_key, message.headers, message.partition) == (None, None, None, None)
    assert (message.offset, message.partition_id, message.timestamp, message.timestamp_dt) == (-1, -1, None, None)
    assert (message.compression_type, message.produce_attempt, message.protocol_version) == (0, 0, 0)


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        (None, None),
        (0, 0),
        (1_700_000_000_123.9, 1_700_000_000_123),
        (1_700_000_000_123, 1_700_000_000_123),
        (datetime(2013, 1, 1, 5, tzinfo=UTC), 1_357_016_400_000),
        (datetime(2013, 1, 1, 5), 1_357_016_400_000),
        (datetime(2013, 1, 1, 0, tzinfo=timezone(timedelta(hours=-5))), 1_357_016_400_000),
    ],
)
def test_timestamps(given: Any, milliseconds: int | None) -> None:
    for message in (Message(b"", timestamp=given), Message(b"")):
        message.timestamp = given
        assert message.timestamp == milliseconds
    message.timestamp_dt = given if isinstance(given, datetime) else None
    if milliseconds is not None:
        message.timestamp = milliseconds
        # As PyKafka 2: naive, in UTC.
        expected = datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)
        assert message.timestamp_dt == (expected if milliseconds else None)


def test_what_was_produced_is_read_through_its_batch() -> None:
    batch = Batch()
    message = Message(b"v", timestamp=5)
    message._batch = batch
    message._index = 4
    assert (message.offset, message.timestamp, message.error) == (-1, 5, None)
    batch.base_offset = 100
    assert message.offset == 104
    batch.log_append_time = 9
    assert message.timestamp == 9
    batch.errors[4] = MessageSizeTooLarge("too large")
    assert message.error is batch.errors[4]
    assert message.response_code == 10


def test_equal_is_only_itself() -> None:
    one, other = Message(b"v"), Message(b"v")
    assert one == one
    assert one != other
    assert len({one, other}) == 2
    assert bool(Message(None))


def test_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Message(b"v").valeu = b""  # type: ignore[attr-defined]


def test_pickled_it_keeps_its_facts() -> None:
    batch = Batch()
    batch.base_offset = 100
    message = Message(b"v", b"k", timestamp=5, headers=[("a", b"b")], partition_id=2)
    message._batch = batch
    message.partition = SimpleNamespace(topic="t")
    copy = pickle.loads(pickle.dumps(message))
    assert (copy.value, copy.partition_key, copy.offset, copy.timestamp) == (b"v", b"k", 100, 5)
    assert (copy.partition_id, copy.headers, copy.partition) == (2, [("a", b"b")], None)


def test_repr_says_where_and_what() -> None:
    message = Message(b"x" * 100, b"k", offset=5, partition_id=2, timestamp=3)
    message.partition = SimpleNamespace(topic=SimpleNamespace(name="flights"))
    said = repr(message)
    for word in ("flights", "partition=2", "offset=5", "timestamp=3", "b'k'", "100 bytes"):
        assert word in said
    assert len(said) < 250


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("key", "value"), [(b"k", b"v"), (None, b""), (b"", None), (None, None)])
def test_documented_packing(magic: int, key: bytes | None, value: bytes | None) -> None:
    message = Message(value, key, protocol_version=magic, timestamp=77)
    buffer = bytearray(b"\xaa" * (len(message) + 6))
    message.pack_into(buffer, 3)
    assert bytes(buffer[:3] + buffer[-3:]) == b"\xaa" * 6
    copy = Message.decode(memoryview(buffer)[3:-3], 12, 4)
    assert (copy.value, copy.partition_key, copy.offset, copy.partition_id) == (value, key, 12, 4)
    assert (copy.protocol_version, copy.timestamp) == (magic, 77 if magic else 0)
    buffer[10] ^= 1
    with pytest.raises(InvalidMessageError):
        Message.decode(memoryview(buffer)[3:-3])


def test_golden_bytes_of_format_0() -> None:
    # Checksum, format, attributes, size and bytes of key and value, from the protocol guide of Kafka 0.8.
    message = Message(b"value", b"key")
    buffer = bytearray(len(message))
    message.pack_into(buffer, 0)
    assert buffer[4:] == b"\x00\x00" + b"\x00\x00\x00\x03key" + b"\x00\x00\x00\x05value"
    assert buffer[:4] == (0x2356C137).to_bytes(4, "big")


@pytest.mark.parametrize("data", [b"", b"\0" * 13, b"\0" * 30])
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        Message.decode(data)
