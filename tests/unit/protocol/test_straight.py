"""Straight encoders and decoders give what the closures of `compiler` give, for each version of each message."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from pykafka.exceptions import CorruptResponseError, FieldValueError
from pykafka.protocol import codegen, wire
from pykafka.protocol.fields import Field
from pykafka.protocol.primitives import Cursor
from pykafka.protocol.schema import STRAIGHT_FROM, Message, Struct

DECLARED: list[Any] = [getattr(wire, name) for name in wire.__all__]
MESSAGES = sorted(
    {one for one in DECLARED if one.versions} | {one.response for one in DECLARED if hasattr(one, "response")},
    key=lambda one: one.__name__,
)
NUMBERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32}


def filled(cls: Any, version: int, chance: random.Random) -> Any:
    """Return an instance with values of all kinds in the fields of a version."""
    made = cls()
    for field in cls.fields:
        if version in field.versions and chance.random() < 0.9:
            one = version not in field.nullable or chance.random() < 0.7
            if field.is_array:
                value: Any = [content(field, version, chance) for _ in range(chance.choice((0, 1, 3)))] if one else None
            else:
                value = content(field, version, chance) if one else None
            setattr(made, field.name, value)
    return made


def content(field: Field, version: int, chance: random.Random) -> Any:
    if field.kind == "struct":
        return filled(field.struct, version, chance)
    if field.kind in NUMBERS:
        bits = NUMBERS[field.kind]
        return chance.randrange(0 if field.kind.startswith("u") else -(1 << bits), 1 << bits)
    size = chance.choice((0, 1, 126, 127, 128, 300))
    return {
        "bool": True,
        "float64": 1.5,
        "uuid": UUID(int=chance.getrandbits(128)),
        "string": "é" * size,
        "bytes": b"b" * size,
        "records": memoryview(b"r" * size),
    }[field.kind]


def plain(value: Any) -> Any:
    """Return a value with its structs as dicts, so that what is compared is what was stored."""
    if isinstance(value, Struct):
        return {name: plain(one) for name, one in value.__dict__.items()}
    if isinstance(value, memoryview):
        return ("view", bytes(value))
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_both_ways_agree(cls: Any) -> None:
    chance = random.Random(cls.__name__)
    for version in cls.versions:
        flexible = cls.is_flexible(version)
        encode, decode = codegen.encoder(cls, version, flexible), codegen.decoder(cls, version, flexible)
        for _ in range(4):
            message = filled(cls, version, chance).prepared(version)
            expected: list[Any] = []
            cls.encoder(version, flexible)(message, expected.append)
            found: list[Any] = []
            try:
                encode(message, found.append)
            except codegen.Unusual:  # null arrays
                found = expected
            frame = b"".join(expected)
            assert b"".join(found) == frame
            closures, lines = Cursor(memoryview(frame)), Cursor(memoryview(frame))
            assert plain(decode(lines)) == plain(cls.decoder(version, flexible)(closures))
            assert lines.pos == closures.pos == len(frame)
            for cut in range(0, len(frame), 7):
                with pytest.raises(codegen.GIVES_UP):
                    decode(Cursor(memoryview(frame[:cut])))


def often(cls: type[Message], frame: bytes, version: int) -> None:
    for _ in range(STRAIGHT_FROM + 2):
        cls.decode(frame, version)


def test_errors_name_the_field_as_before() -> None:
    message = wire.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[])
    for _ in range(STRAIGHT_FROM + 2):
        message.encode(9)
    message.timeout_ms = 1 << 40
    with pytest.raises(FieldValueError, match="timeout_ms"):
        message.encode(9)
    message.timeout_ms = 1
    message.topic_data = [wire.ProduceRequest.Topic(name=b"bytes", partition_data=[])]  # type: ignore[arg-type]
    assert b"bytes" in message.encode(9)
    frame = wire.ProduceResponse(responses=[]).encode(9)
    often(wire.ProduceResponse, frame, 9)
    with pytest.raises(CorruptResponseError, match="throttle_time_ms"):
        wire.ProduceResponse.decode(frame[:3], 9)


def test_an_interruption_between_elements_leaves_the_decoder() -> None:
    class Interruption(Exception):
        """As somebody's own timeout on a greenlet may be."""

    def breathe() -> None:
        raise Interruption

    frame = wire.MetadataResponse(brokers=[wire.MetadataResponse.Broker(node_id=1, host="h", port=1)]).encode(9)
    often(wire.MetadataResponse, frame, 9)
    with pytest.raises(Interruption):
        wire.MetadataResponse.read(Cursor(memoryview(frame), breathe), 9)
