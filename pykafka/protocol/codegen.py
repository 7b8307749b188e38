"""Compilation of a message's declaration to an encoder and a decoder per version; neighbours of fixed size form one step."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pykafka.protocol import primitives
from pykafka.protocol.primitives import FIXED, Append, Cursor, Malformed, Reader, Unfit, Writer, uvarint

if TYPE_CHECKING:
    from pykafka.protocol.fields import Field, StructType


Encoder = Callable[[Any, Append], None]
Decoder = Callable[[Cursor], Any]
EncodeStep = Callable[[Any, Append], None]
DecodeStep = Callable[[Cursor, dict[str, Any]], None]

_MIN_SIZES = {"uuid": 16, "string": 2, "bytes": 4, "records": 4}
_NO_TAGS = b"\x00"
#: What a writer raises for a value of the wrong type or size.
_MISFITS = (struct.error, ValueError, TypeError, AttributeError)

_SMALL = [bytes((number,)) for number in range(0x80)]


class VersionOf:
    """The version that is compiled, and whether it is a flexible one."""

    __slots__ = ("flexible", "number")

    def __init__(self, number: int, flexible: bool) -> None:
        self.number = number
        self.flexible = flexible


def encoder(cls: StructType, number: int, flexible: bool) -> Encoder:
    """Return the encoder of a struct.

    :param cls: the struct
    :param number: version of the message that it is part of
    :param flexible: whether that is a flexible version
    :return: appends the bytes of an instance to a list; it raises Unfit
    """
    version = VersionOf(number, flexible)
    steps = [_encode_group(group, version) for group in groups_of(cls, version)]
    refusals = [field for field in cls.fields if not field.ignorable and number not in field.versions]
    tagged = sorted((field for field in cls.fields if field.is_tagged_in(number)), key=lambda field: field.tag or 0)

    def encode(value: Any, append: Append) -> None:
        if refusals:
            _refuse(value, refusals)
        blame: Callable[[Any], str] = _no_blame
        try:
            for step, blame in steps:  # noqa: B007  (the handlers below want it)
                step(value, append)
        except Unfit as unfit:
            unfit.path.append(blame(value))
            raise
        except _MISFITS as error:
            raise Unfit(str(error), path=[blame(value)]) from error

    if not flexible:
        return encode
    write_tags = tags_encoder(tagged, version)

    def encode_flexible(value: Any, append: Append) -> None:
        encode(value, append)
        write_tags(value, append)

    return encode_flexible


def _no_blame(_: Any) -> str:
    return "?"


def _refuse(value: Any, refusals: Sequence[Field]) -> None:
    """Raise Unfit if a field is set that this version lacks and that is not ignorable."""
    for field in refusals:
        found = getattr(value, field.name)
        if found != field.default_value():
            raise Unfit(f"is {found!r}, which this version cannot express", in_version=True, path=[field.name])


def groups_of(cls: StructType, version: VersionOf) -> list[list[Field]]:
    """Return the untagged fields of a version; neighbours of fixed size form one group."""
    groups: list[list[Field]] = []
    last_fixed = False
    for field in cls.fields:
        if version.number not in field.versions or field.is_tagged_in(version.number):
            continue
        fixed = field.kind in primitives.FIXED and not field.is_array
        if fixed and last_fixed:
            groups[-1].append(field)
        else:
            groups.append([field])
        last_fixed = fixed
    return groups


def _encode_group(group: list[Field], version: VersionOf) -> tuple[EncodeStep, Callable[[Any], str]]:
    names = [field.name for field in group]
    get = attrgetter(*names)
    first = group[0]
    if first.kind not in primitives.FIXED or first.is_array:
        write = field_writer(first, version)

        def step(value: Any, append: Append) -> None:
            write(get(value), append)

        return step, lambda _: first.name
    pack = struct.Struct(">" + "".join(primitives.FIXED[field.kind] for field in group)).pack
    if len(group) == 1:

        def step_one(value: Any, append: Append) -> None:
            append(pack(get(value)))

        return step_one, lambda _: first.name

    def step_all(value: Any, append: Append) -> None:
        append(pack(*get(value)))

    def blame(value: Any) -> str:
        for field in group:
            try:
                struct.pack(">" + primitives.FIXED[field.kind], getattr(value, field.name))
            except struct.error:
                return field.name
        return ", ".join(names)

    return step_all, blame


def tags_encoder(tagged: list[Field], version: VersionOf) -> Encoder:
    writers = [(field, field_writer(field, version)) for field in tagged]

    def write(value: Any, append: Append) -> None:
        unknown = value.unknown_tags
        if not writers and not unknown:
            append(_NO_TAGS)
            return
        found: dict[int, bytes] = dict(unknown)
        for field, write_field in writers:
            content = getattr(value, field.name)
            if content == field.default_value():
                continue
            pieces: list[Any] = []
            try:
                write_field(content, pieces.append)
            except Unfit as unfit:
                unfit.path.append(field.name)
                raise
            except _MISFITS as error:
                raise Unfit(str(error), path=[field.name]) from error
            found[field.tag or 0] = b"".join(pieces)
        append(primitives.uvarint(len(found)))
        for tag in sorted(found):
            append(primitives.uvarint(tag) + primitives.uvarint(len(found[tag])) + found[tag])

    return write


def field_writer(field: Field, version: VersionOf) -> Writer:
    """Return the writer of one field's value."""
    compact = version.flexible and not field.rigid
    nullable = version.number in field.nullable
    if not field.is_array:
        return _element_writer(field, version, compact, nullable)
    return primitives.array_writer(_element_writer(field, version, compact, False), compact, nullable)


def _element_writer(field: Field, version: VersionOf, compact: bool, nullable: bool) -> Writer:
    if field.kind in primitives.FIXED:
        return primitives.fixed_writer(field.kind)
    if field.kind == "uuid":
        return primitives.uuid_writer
    if field.kind == "string":
        return primitives.string_writer(compact, nullable)
    if field.kind == "bytes":
        return primitives.bytes_writer(compact, nullable)
    if field.kind == "records":
        return primitives.records_writer(compact)
    write: Encoder = field.struct.encoder(version.number, version.flexible)
    if not nullable:
        return write

    def write_nullable(value: Any, append: Append) -> None:
        if value is None:
            append(b"\xff")
        else:
            append(b"\x01")
            write(value, append)

    return write_nullable


def decoder(cls: StructType, number: int, flexible: bool) -> Decoder:
    """Return the decoder of a struct; parameters as for `encoder`.

    :return: reads an instance at a cursor; it raises Malformed
    """
    version = VersionOf(number, flexible)
    steps = [_decode_group(group, version) for group in groups_of(cls, version)]
    if flexible:
        tagged = [field for field in cls.fields if field.is_tagged_in(number)]
        steps.append((tags_decoder(tagged, version), lambda _: "tagged fields"))
    new: Callable[[Any], Any] = object.__new__

    def decode(cursor: Cursor) -> Any:
        value = new(cls)
        found = value.__dict__
        blame: Callable[[int], str] = _no_blame
        try:
            for step, blame in steps:  # noqa: B007  (the handlers below want it)
                step(cursor, found)
        except Malformed as malformed:
            malformed.path.append(blame(cursor.end - cursor.pos))
            raise
        except struct.error as error:
            remaining = cursor.end - cursor.pos
            raise Malformed(f"{remaining} bytes remain, which is too few", path=[blame(remaining)]) from error
        except UnicodeDecodeError as error:
            raise Malformed(f"no UTF-8 ({error.reason})", path=[blame(0)]) from error
        return value

    return decode


def _decode_group(group: list[Field], version: VersionOf) -> tuple[DecodeStep, Callable[[int], str]]:
    names = [field.name for field in group]
    name = names[0]
    if group[0].kind not in primitives.FIXED or group[0].is_array:
        read = field_reader(group[0], version)

        def step(cursor: Cursor, found: dict[str, Any]) -> None:
            found[name] = read(cursor)

        return step, lambda _: name
    packed = struct.Struct(">" + "".join(primitives.FIXED[field.kind] for field in group))
    unpack, size = packed.unpack_from, packed.size
    if len(group) == 1:

        def step_one(cursor: Cursor, found: dict[str, Any]) -> None:
            start = cursor.pos
            found[name] = unpack(cursor.buffer, start)[0]
            cursor.pos = start + size

        return step_one, lambda _: name

    def step_all(cursor: Cursor, found: dict[str, Any]) -> None:
        start = cursor.pos
        found.update(zip(names, unpack(cursor.buffer, start), strict=True))
        cursor.pos = start + size

    def blame(remaining: int) -> str:
        for field in group:
            remaining -= struct.calcsize(">" + primitives.FIXED[field.kind])
            if remaining < 0:
                return field.name
        return names[-1]

    return step_all, blame


def tags_decoder(tagged: list[Field], version: VersionOf) -> DecodeStep:
    readers = {field.tag: (field.name, field_reader(field, version)) for field in tagged}

    def step(cursor: Cursor, found: dict[str, Any]) -> None:
        count = cursor.uvarint()
        if not count:
            return
        unknown: dict[int, bytes] = {}
        for _ in range(count):
            tag = cursor.uvarint()
            content = cursor.take(cursor.uvarint())
            known = readers.get(tag)
            if known is None:
                unknown[tag] = bytes(content)
                continue
            name, read = known
            inner = Cursor(content, cursor.breathe)
            try:
                found[name] = read(inner)
            except struct.error as error:
                raise Malformed(f"tag {tag} ({name}) is cut off") from error
            if inner.pos != inner.end:
                raise Malformed(f"tag {tag} ({name}) has {inner.end - inner.pos} bytes too many")
        if unknown:
            found["unknown_tags"] = unknown

    return step


def field_reader(field: Field, version: VersionOf) -> Reader:
    """Return the reader of one field's value."""
    compact = version.flexible and not field.rigid
    nullable = version.number in field.nullable
    if not field.is_array:
        return _element_reader(field, version, compact, nullable)
    if field.kind in primitives.FIXED:
        return primitives.fixed_array_reader(field.kind, compact, nullable)
    element = _element_reader(field, version, compact, False)
    return primitives.array_reader(element, compact, nullable, least_size(field, version))


def _element_reader(field: Field, version: VersionOf, compact: bool, nullable: bool) -> Reader:
    if field.kind in primitives.FIXED:
        return primitives.fixed_reader(field.kind)
    if field.kind == "uuid":
        return primitives.uuid_reader
    if field.kind == "string":
        return primitives.string_reader(compact, nullable)
    if field.kind == "bytes":
        return primitives.bytes_reader(compact, nullable)
    if field.kind == "records":
        return primitives.records_reader(compact)
    read: Decoder = field.struct.decoder(version.number, version.flexible)
    if not nullable:
        return read

    def read_nullable(cursor: Cursor) -> Any:
        return None if cursor.take(1)[0] == 0xFF else read(cursor)

    return read_nullable


def least_size(field: Field, version: VersionOf) -> int:
    """Return the fewest bytes that one value (of an array: one element) takes, at least 1."""
    if field.kind in primitives.FIXED:
        return struct.calcsize(primitives.FIXED[field.kind])
    if field.kind != "struct":
        compact = version.flexible and not field.rigid and field.kind != "uuid"
        return 1 if compact else _MIN_SIZES[field.kind]
    size = 1 if version.flexible else 0
    for inner in field.struct.fields:
        if version.number not in inner.versions or inner.is_tagged_in(version.number):
            continue
        if inner.is_array:
            size += 1 if version.flexible else 4
        elif inner.kind == "struct" and version.number in inner.nullable:
            size += 1
        else:
            size += least_size(inner, version)
    return max(size, 1)


class Unusual(Exception):
    """Raised for a value that only the closures can write or read."""


#: What the functions of this module raise where the closures have to say what is wrong.
GIVES_UP = (Unusual, Unfit, Malformed, struct.error, LookupError, ValueError, TypeError, AttributeError)


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
        self.version = VersionOf(version, flexible)
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


def straight_encoder(cls: StructType, version: int, flexible: bool) -> Callable[[Any, Append], None]:
    """Return a function (value, append) for a message; parameters as of `encoder`."""
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
    for group in groups_of(cls, source.version):
        _write_group(source, group, value)
    if source.version.flexible:
        tagged = [field for field in cls.fields if field.is_tagged_in(number)]
        names = source.constant({"unknown_tags", *(field.name for field in tagged)})
        source.begin(f"if {held}.keys().isdisjoint({names}):")
        source.line("append(b'\\0')")
        source.end()
        source.begin("else:")
        tags = source.constant(tags_encoder(tagged, source.version))
        source.line(f"{tags}({value}, append)")
        source.end()


def _write_group(source: _Source, group: list[Field], value: str) -> None:
    field = group[0]
    compact = source.version.flexible and not field.rigid
    if field.is_array and field.kind == "struct":
        _write_array(source, field, value, compact)
    elif field.is_array or field.kind not in (*FIXED, "uuid", "string"):
        writer = source.constant(field_writer(field, source.version))
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


def straight_decoder(cls: StructType, version: int, flexible: bool) -> Callable[[Cursor], Any]:
    """Return a function (cursor) for a message, which returns an instance; parameters as of `decoder`."""
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
    for group in groups_of(cls, source.version):
        _read_group(source, group, held)
    if source.version.flexible:
        tagged = [field for field in cls.fields if field.is_tagged_in(source.version.number)]
        source.begin("if buffer[pos]:")
        _delegate(source, f"{source.constant(tags_decoder(tagged, source.version))}(cursor, {held})")
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
        reader = source.constant(field_reader(field, source.version))
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
    source.begin(f"if {count} * {least_size(field, source.version)} > end - pos:")
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
