"""Random messages: every field that a version has, set to something."""

from __future__ import annotations

import random
import struct
from typing import Any, TypeVar, cast
from uuid import UUID

from pykafka.protocol.fields import Field
from pykafka.protocol.schema import Message, Struct

S = TypeVar("S", bound=Struct)

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
_LETTERS = "abcdefghijklmnopqrstuvwxyz.-_0123456789äß漢字🦜"


class Instances:
    """Make random messages.

    Texts and numbers do not repeat within a list: Kafka's own client keeps some lists as sets.

    :param seed: the same gives the same messages
    :param nulls: how likely None is where it may be
    """

    def __init__(self, seed: int, nulls: float = 0.2) -> None:
        self.random = random.Random(seed)
        self.nulls = nulls
        self.serial = 0

    def make(self, cls: type[S], version: int, flexible: bool | None = None) -> S:
        """Make one.

        :param cls: its class
        :param version: whose fields to set
        :param flexible: whether that is a flexible version; None asks the message
        """
        if flexible is None:
            flexible = issubclass(cls, Message) and cls.is_flexible(version)
        values = {field.name: self.value(field, version, flexible) for field in cls.fields if version in field.versions}
        made = cls(**values)
        if flexible and self.random.random() < 0.2:
            made.__dict__["unknown_tags"] = {self.random.randint(40, 4000): self.random.randbytes(5)}
        return made

    def value(self, field: Field, version: int, flexible: bool) -> Any:
        """Return a random value for a field, or its default."""
        if version in field.nullable and self.random.random() < self.nulls:
            return None
        if field.is_tagged_in(version) and self.random.random() < 0.3:
            return field.default_value()
        if field.is_array:
            return [self.element(field, version, flexible) for _ in range(self.random.randint(0, 3))]
        return self.element(field, version, flexible)

    def element(self, field: Field, version: int, flexible: bool) -> Any:
        """Return a random value of a field's type."""
        self.serial += 1
        kind, chance = field.kind, self.random
        if kind in _BITS:
            bits = _BITS[kind]
            spread = chance.choice((2 ** (bits - 1), 100))
            # Its remainder is the serial number's, so that no two in a list are the same.
            return (chance.randrange(-spread, spread) & -0x20 | self.serial % 0x20) if bits > 8 else self.serial % 128
        if kind in _UNSIGNED_BITS:
            return chance.randrange(2 ** _UNSIGNED_BITS[kind])
        if kind == "bool":
            return chance.random() < 0.5
        if kind == "float64":
            return struct.unpack(">d", struct.pack(">d", chance.uniform(-1e9, 1e9)))[0]
        if kind == "uuid":
            return UUID(int=chance.getrandbits(128))
        if kind == "string":
            return f"{self.serial}" + "".join(chance.choices(_LETTERS, k=chance.choice((0, 3, 200))))
        if kind in {"bytes", "records"}:
            return chance.randbytes(chance.choice((0, 5, 300)))
        return self.make(cast("type[Struct]", field.struct), version, flexible)
