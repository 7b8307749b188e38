"""Encoders and decoders of whole messages in straight lines of code, written from their declarations.

`compiler` makes one closure per field, and names the field that it cannot write or read. A message that is sent again and again
costs half of that as one function without calls. This module writes the source of such a function. It knows the usual values
alone: it raises `Unusual` or another of `GIVES_UP` for all else, and the caller takes the closures.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pykafka.protocol import compiler, primitives
from pykafka.protocol.primitives import FIXED, Append, Cursor, Malformed, Unfit, uvarint

if TYPE_CHECKING:
    from pykafka.protocol.fields import Field, StructType


class Unusual(Exception):
    """Raised for a value that only the closures can write or read."""


#: What the functions of this module raise where the closures have to say what is wrong.
GIVES_UP = (Unusual, Unfit, Malformed, struct.error, LookupError, ValueError, TypeError, AttributeError)
_SMALL = [bytes((number,)) for number in range(0x80)]


def _varint(number: int) -> bytes:
    return _SMALL[number] if number < 0x80 else uvarint(number)


def _read_varint(buffer: memoryview, pos: int) -> tuple[int, int]:
    cursor = Cursor(buffer)
    cursor.pos = pos
    return cursor.uvarint(), cursor.pos


class _Source:
    """The lines of one function, and the objects that they name.

    :param version: of the message
    :param flexible: whether it is a flexible one
    """

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = compiler.VersionOf(version, flexible)
        self._lines: list[str] = []
        self._indent = 1
        self._numbers = 0
        self.names: dict[str, Any] = {"varint": _varint, "read_varint": _read_varint, "UUID": UUID, "Unusual": Unusual}

    def line(self, text: str) -> None:
        """Add a line."""
        self._lines.append("    " * self._indent + text)

    def begin(self, text: str) -> None:
        """Add the line that begins a block."""
        self.line(text)
        self._indent += 1

    def end(self) -> None:
        """End a block."""
        self._indent -= 1

    def fresh(self, prefix: str) -> str:
        """Return a name that is not in use."""
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    def constant(self, value: Any) -> str:
        """Return the name of an object."""
        name = self.fresh("c")
        self.names[name] = value
        return name

    def function(self, head: str) -> Any:
        """Return the function with these parameters."""
        # From declarations of this package alone: no part of the text comes from outside.
        text = "\n".join([head, *self._lines])
        exec(compile(text, "<a message of pykafka.protocol>", "exec"), self.names)
        return self.names["made"]


def encoder(cls: StructType, version: int, flexible: bool) -> Callable[[Any, Append], None]:
    """Return a function (value, append) for a message; parameters as of `compiler.encoder`."""
    source = _Source(version, flexible)
    _write_struct(source, cls, "value")
    found: Callable[[Any, Append], None] = source.function("def made(value, append):")
    return found


def _write_struct(source: _Source, cls: StructType, value: str) -> None:
    number = source.version.number
    held = source.fresh("d")
    source.line(f"{held} = {value}.__dict__")
    for field in cls.fields:
        if not field.ignorable and number not in field.versions:
            default = source.constant(field.default_value())
            source.begin(f"if {field.name!r} in {held} and {held}[{field.name!r}] != {default}:")
            source.line("raise Unusual")
            source.end()
    for group in compiler.groups_of(cls, source.version):
        _write_group(source, group, value)
    if source.version.flexible:
        tagged = [field for field in cls.fields if field.is_tagged_in(number)]
        names = source.constant({"unknown_tags", *(field.name for field in tagged)})
        source.begin(f"if {held}.keys().isdisjoint({names}):")
        source.line("append(b'\\0')")
        source.end()
        source.begin("else:")
        tags = source.constant(compiler.tags_encoder(tagged, source.version))
        source.line(f"{tags}({value}, append)")
        source.end()


def _write_group(source: _Source, group: list[Field], value: str) -> None:
    field = group[0]
    compact = source.version.flexible and not field.rigid
    if field.is_array and field.kind == "struct":
        _write_array(source, field, value, compact)
    elif field.is_array or field.kind not in (*FIXED, "uuid", "string"):
        writer = source.constant(compiler.field_writer(field, source.version))
        source.line(f"{writer}({value}.{field.name}, append)")
    elif field.kind == "uuid":
        source.line(f"append({value}.{field.name}.bytes)")
    elif field.kind == "string":
        _write_string(source, field, value, compact)
    else:
        pack = source.constant(struct.Struct(">" + "".join(FIXED[one.kind] for one in group)).pack)
        source.line(f"append({pack}({', '.join(f'{value}.{one.name}' for one in group)}))")


def _write_string(source: _Source, field: Field, value: str, compact: bool) -> None:
    text = source.fresh("s")
    source.line(f"{text} = {value}.{field.name}")
    source.begin(f"if {text} is None:")
    if source.version.number in field.nullable:
        source.line(r"append(b'\0')" if compact else r"append(b'\xff\xff')")
    else:
        source.line("raise Unusual")
    source.end()
    source.begin("else:")
    source.line(f"{text} = {text}.encode()")  # bytes have no such method: the closures take them
    source.begin(f"if len({text}) > {primitives.STRING_MAX}:")
    source.line("raise Unusual")
    source.end()
    source.line(
        f"append(varint(len({text}) + 1) + {text})" if compact else f"append(len({text}).to_bytes(2, 'big') + {text})"
    )
    source.end()


def _write_array(source: _Source, field: Field, value: str, compact: bool) -> None:
    items, item = source.fresh("a"), source.fresh("i")
    source.line(f"{items} = {value}.{field.name}")
    source.begin(f"if {items} is None:")
    source.line("raise Unusual")
    source.end()
    source.line(f"append(varint(len({items}) + 1))" if compact else f"append(len({items}).to_bytes(4, 'big'))")
    source.begin(f"for {item} in {items}:")
    _write_struct(source, field.struct, item)
    source.end()


def decoder(cls: StructType, version: int, flexible: bool) -> Callable[[Cursor], Any]:
    """Return a function (cursor) for a message, which returns an instance; parameters as of `compiler.decoder`."""
    source = _Source(version, flexible)
    source.names["new"] = object.__new__
    source.line("buffer, pos, end, breathe = cursor.buffer, cursor.pos, cursor.end, cursor.breathe")
    found = _read_struct(source, cls)
    source.line("cursor.pos = pos")
    source.line(f"return {found}")
    made: Callable[[Cursor], Any] = source.function("def made(cursor):")
    return made


def _read_struct(source: _Source, cls: StructType) -> str:
    found, held = source.fresh("v"), source.fresh("d")
    source.line(f"{found} = new({source.constant(cls)})")
    source.line(f"{held} = {found}.__dict__")
    for group in compiler.groups_of(cls, source.version):
        _read_group(source, group, held)
    if source.version.flexible:
        tagged = [field for field in cls.fields if field.is_tagged_in(source.version.number)]
        source.begin("if buffer[pos]:")
        _delegate(source, f"{source.constant(compiler.tags_decoder(tagged, source.version))}(cursor, {held})")
        source.end()
        source.begin("else:")
        source.line("pos += 1")
        source.end()
    return found


def _delegate(source: _Source, call: str) -> None:
    """Read on by a closure."""
    source.line("cursor.pos = pos")
    source.line(call)
    source.line("pos = cursor.pos")


def _read_group(source: _Source, group: list[Field], held: str) -> None:
    field = group[0]
    place = f"{held}[{field.name!r}]"
    compact = source.version.flexible and not field.rigid
    nullable = source.version.number in field.nullable
    if field.is_array and field.kind == "struct":
        _read_array(source, field, place, compact, nullable)
    elif field.is_array or field.kind not in (*FIXED, "uuid", "string", "records"):
        reader = source.constant(compiler.field_reader(field, source.version))
        _delegate(source, f"{place} = {reader}(cursor)")
    elif field.kind == "uuid":
        _stop(source, "16")
        source.line(f"{place} = UUID(bytes=bytes(buffer[pos:stop]))")
        source.line("pos = stop")
    elif field.kind in ("string", "records"):
        _read_text(source, field, place, compact, nullable)
    else:
        packed = struct.Struct(">" + "".join(FIXED[one.kind] for one in group))
        places = ", ".join(f"{held}[{one.name!r}]" for one in group)
        source.line(f"{places}, = {source.constant(packed.unpack_from)}(buffer, pos)")
        source.line(f"pos += {packed.size}")


def _stop(source: _Source, size: str) -> None:
    source.line(f"stop = pos + {size}")
    source.begin("if stop > end:")
    source.line("raise Unusual")
    source.end()


def _size(source: _Source, size: str, compact: bool, width: int) -> None:
    """Read a length; what is not a usual one is left to the closures, but for null, which is -1."""
    if not compact:
        source.line(f"{size} = int.from_bytes(buffer[pos : pos + {width}], 'big', signed=True)")
        source.line(f"pos += {width}")
    else:
        source.line(f"{size} = buffer[pos] - 1")
        source.line("pos += 1")
        source.begin(f"if {size} > 126:")
        source.line(f"{size}, pos = read_varint(buffer, pos - 1)")
        source.line(f"{size} -= 1")
        source.end()
    source.begin(f"if {size} < -1 or pos > end:")
    source.line("raise Unusual")
    source.end()


def _read_text(source: _Source, field: Field, place: str, compact: bool, nullable: bool) -> None:
    is_text = field.kind == "string"
    _size(source, "size", compact, 2 if is_text else 4)
    source.begin("if size == -1:")
    source.line(f"{place} = {None if nullable or not is_text else repr('')}")
    source.end()
    source.begin("else:")
    _stop(source, "size")
    source.line(f"{place} = str(buffer[pos:stop], 'utf-8')" if is_text else f"{place} = buffer[pos:stop]")
    source.line("pos = stop")
    source.end()


def _read_array(source: _Source, field: Field, place: str, compact: bool, nullable: bool) -> None:
    count, items = source.fresh("n"), source.fresh("a")
    _size(source, count, compact, 4)
    source.begin(f"if {count} * {compiler.least_size(field, source.version)} > end - pos:")
    source.line("raise Unusual")
    source.end()
    source.line(f"{items} = {place} = []")
    source.begin(f"for _ in range({count}):")
    found = _read_struct(source, field.struct)
    source.line(f"{items}.append({found})")
    source.begin("if breathe is not None:")
    source.line("breathe()")
    source.end()
    source.end()
    if nullable:
        source.begin(f"if {count} < 0:")
        source.line(f"{place} = None")
        source.end()
