"""Generate one function that encodes, and one that decodes, each version of a message, from the message's declaration.

All structs of a message are written into its one function; neighbours of fixed size are packed and unpacked at once. Each
line of a function has a path to its field ("topics", loop 3, "name"), so a field costs nothing until an error has to name it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pykafka.protocol import primitives
from pykafka.protocol.primitives import (
    BYTES_PER_ELEMENT,
    ELEMENTS_MAX,
    FIXED,
    NUMBERS_PER_ELEMENT,
    TAGS_MAX,
    WIDTHS,
    Append,
    Malformed,
    Unfit,
    read_uvarint,
    refuse_elements,
    uvarint,
)

if TYPE_CHECKING:
    from pykafka.protocol.fields import Field, StructType

Encoder = Callable[[Any, Append], None]
#: Takes a buffer, a position, the buffer's end and `breathe`, and returns the value and the position behind it.
Decoder = Callable[[memoryview, int, int, Callable[[], object] | None], tuple[Any, int]]

#: Errors of an encoder: a value has the wrong type or size.
ENCODING_ERRORS = (Unfit, struct.error, ValueError, TypeError, AttributeError)
#: Errors of a decoder: the buffer is cut off, or has another message.
DECODING_ERRORS = (Malformed, struct.error, IndexError, UnicodeDecodeError)
_Part = str | Callable[[dict[str, Any]], str]
_FILE = "<a message of pykafka.protocol>"


def encoder(cls: StructType, version: int, flexible: bool) -> Encoder:
    """Return the function that appends the bytes of a struct to a list; it raises ENCODING_ERRORS.

    :param cls: the struct
    :param version: version of the message that it is part of
    :param flexible: whether that version has compact types and tagged fields
    """
    source = _Source("value, append", version, flexible)
    source.write_struct(cls, "value")
    return source.function()


def decoder(cls: StructType, version: int, flexible: bool) -> Decoder:
    """Return the function that reads a struct; it raises DECODING_ERRORS. For parameters see `encoder`."""
    source = _Source("buffer, pos, end, breathe", version, flexible)
    source.line("total = 0")
    # As `primitives.elements_max`, without a call.
    source.line(f"most = {ELEMENTS_MAX} if end < {ELEMENTS_MAX * BYTES_PER_ELEMENT} else end // {BYTES_PER_ELEMENT}")
    source.line(f"return {source.read_struct(cls)}, pos")
    return source.function()


@cache
def _tag_encoder(field: Field, version: int) -> Encoder:
    source = _Source("value, append", version, True)
    with source.at(field.name):
        source.write_field(field, "value")
    return source.function()


@cache
def _tag_decoder(field: Field, version: int) -> Callable[..., Any]:
    source = _Source("buffer, pos, end, breathe, total, most", version, True)
    with source.at(field.name):
        source.read_field(field, "value")
    source.line("return value, pos, total")
    return source.function()


def _tags_writer(tagged: dict[str, Field], version: int) -> Callable[[Any], bytes]:
    def write(value: Any) -> bytes:
        contents: dict[int, bytes] = dict(value.unknown_tags)
        for field in tagged.values():
            content = getattr(value, field.name)
            if content != field.default_value():
                pieces: list[Any] = []
                _tag_encoder(field, version)(content, pieces.append)
                contents[field.tag or 0] = b"".join(pieces)
        written = [uvarint(tag) + uvarint(len(contents[tag])) + contents[tag] for tag in sorted(contents)]
        return uvarint(len(written)) + b"".join(written)

    return write


def _tags_reader(tagged: dict[str, Field], version: int) -> Callable[..., tuple[int, int]]:
    fields: dict[int | None, Field] = {}
    for field in tagged.values():
        fields[field.tag] = field

    def read(
        buffer: memoryview, pos: int, end: int, breathe: Any, values: dict[str, Any], total: int, most: int
    ) -> tuple[int, int]:
        count, pos = read_uvarint(buffer, pos, end)
        if count > TAGS_MAX:
            raise Malformed(f"{count} tagged fields, where {TAGS_MAX} are the most")
        total += count
        if total > most:
            refuse_elements(total, most)
        unknown: dict[int, bytes] = {}
        for _ in range(count):
            tag, pos = read_uvarint(buffer, pos, end)
            size, pos = read_uvarint(buffer, pos, end)
            stop = pos + size
            if stop > end:
                raise Malformed(f"a length of {size} bytes where {end - pos} remain")
            known = fields.get(tag)
            if known is None:
                unknown[tag] = bytes(buffer[pos:stop])
            else:
                content = buffer[pos:stop]
                values[known.name], used, total = _tag_decoder(known, version)(content, 0, size, breathe, total, most)
                if used != size:
                    raise Malformed(f"tag {tag} ({known.name}) has {size - used} bytes too many")
            pos = stop
        if unknown:
            values["unknown_tags"] = unknown
        return pos, total

    return read


def _refuse(value: Any, lacking: dict[str, Field]) -> None:
    """Raise Unfit if a field is set that this version lacks and that is not ignorable."""
    for field in lacking.values():
        content = getattr(value, field.name)
        if content != field.default_value():
            raise Unfit(f"is {content!r}, which this version cannot express", in_version=True, field=field.name)


class _Source:
    """The lines of one function, and the objects that they name.

    :param parameters: of the function
    :param version: of the message
    :param flexible: whether it is a flexible one
    """

    def __init__(self, parameters: str, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._lines = [f"def made({parameters}):"]
        self._paths: list[tuple[_Part, ...]] = [()]  # one a line
        self._path: list[_Part] = []
        self._indent = "    "
        self._names = 0
        self._globals: dict[str, Any] = {"paths": self._paths, "new": object.__new__, "refuse": refuse_elements}

    def line(self, text: str) -> None:
        """Add a line."""
        self._lines.append(self._indent + text)
        self._paths.append(tuple(self._path))

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._indent += "    "
        yield
        self._indent = self._indent[4:]

    @contextmanager
    def at(self, part: _Part) -> Iterator[None]:
        """Lines added within are about this part of the path."""
        self._path.append(part)
        yield
        self._path.pop()

    def _variable(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _constant(self, value: Any) -> str:
        name = self._variable("c")
        self._globals[name] = value
        return name

    def function(self) -> Callable[..., Any]:
        """Return the function."""
        # From declarations of this package alone: no part of the text comes from outside.
        exec(compile("\n".join(self._lines), _FILE, "exec"), self._globals)
        made: Callable[..., Any] = self._globals["made"]
        return made

    def _fields(self, cls: StructType) -> tuple[list[list[Field]], dict[str, Field]]:
        """Return the untagged fields of the version, neighbours of fixed size as one group, and the tagged ones by name."""
        groups: list[list[Field]] = []
        tagged: dict[str, Field] = {}
        after_fixed = False
        for field in cls.fields:
            if field.is_tagged_in(self._version):
                tagged[field.name] = field
            if self._version not in field.versions or field.name in tagged:
                continue
            fixed = field.kind in FIXED and not field.is_array
            if fixed and after_fixed:
                groups[-1].append(field)
            else:
                groups.append([field])
            after_fixed = fixed
        return groups, tagged

    def _traits(self, field: Field) -> tuple[bool, bool]:
        """Return whether a field is compact, and whether it may be null."""
        return self._flexible and not field.rigid, self._version in field.nullable

    def write_struct(self, cls: StructType, value: str) -> None:
        """Add the lines that write a struct."""
        set_ones = self._variable("d")
        self.line(f"{set_ones} = {value}.__dict__")
        lacking: dict[str, Field] = {}
        for field in cls.fields:
            if not field.ignorable and self._version not in field.versions:
                lacking[field.name] = field
        if lacking:
            names = self._constant(lacking)
            self.line(f"if not {set_ones}.keys().isdisjoint({names}): {self._constant(_refuse)}({value}, {names})")
        groups, tagged = self._fields(cls)
        for group in groups:
            if group[0].kind in FIXED and not group[0].is_array:
                pack = self._constant(struct.Struct(_format(group)).pack)
                with self.at(partial(_misfit, group, value)):
                    numbers = ""
                    for field in group:
                        numbers += f"{value}.{field.name}, "
                    self.line(f"append({pack}({numbers}))")
            else:
                with self.at(group[0].name):
                    self.write_field(group[0], f"{value}.{group[0].name}")
        if self._flexible:
            names = self._constant({"unknown_tags", *tagged})
            write = self._constant(_tags_writer(tagged, self._version))
            self.line(f"append(b'\\0' if {set_ones}.keys().isdisjoint({names}) else {write}({value}))")

    def write_field(self, field: Field, value: str) -> None:
        """Add the lines that write the value of a field."""
        compact, nullable = self._traits(field)
        if not field.is_array:
            self._write_element(field, value, compact, nullable)
        elif field.kind in FIXED:
            self.line(f"append({self._constant(primitives.numbers_writer(field.kind, compact, nullable))}({value}))")
        else:
            items, item, index = self._variable("a"), self._variable("i"), self._variable("n")
            self.line(f"{items} = {value}")
            write = self._constant(primitives.length_writer(4, compact, nullable))
            self.line(f"append({write}(None if {items} is None else len({items})))")
            with self._block(f"for {index}, {item} in enumerate({items} or ()):"), self.at(_index(index)):
                self._write_element(field, item, compact, False)

    def _write_element(self, field: Field, value: str, compact: bool, nullable: bool) -> None:
        if field.kind == "struct" and nullable:
            with self._block(f"if {value} is None:"):
                self.line(r"append(b'\xff')")
            with self._block("else:"):
                self.line(r"append(b'\1')")
                self.write_struct(field.struct, value)
        elif field.kind == "struct":
            self.write_struct(field.struct, value)
        elif field.kind == "uuid":
            self.line(f"append({value}.bytes)")
        elif field.kind == "records":
            self.line(f"{self._constant(primitives.records_writer(compact))}({value}, append)")
        elif field.kind in WIDTHS:
            make = primitives.string_writer if field.kind == "string" else primitives.bytes_writer
            self.line(f"append({self._constant(make(compact, nullable))}({value}))")
        else:
            self.line(f"append({self._constant(struct.Struct(_format([field])).pack)}({value}))")

    def read_struct(self, cls: StructType) -> str:
        """Add the lines that read a struct; return its variable."""
        value, values = self._variable("v"), self._variable("d")
        self.line(f"{value} = new({self._constant(cls)})")
        self.line(f"{values} = {value}.__dict__")
        groups, tagged = self._fields(cls)
        for group in groups:
            if group[0].kind in FIXED and not group[0].is_array:
                packed = struct.Struct(_format(group))
                with self.at(partial(_cut_off, group)):
                    targets = ""
                    for field in group:
                        targets += f"{values}[{field.name!r}], "
                    self.line(f"{targets}= {self._constant(packed.unpack_from)}(buffer, pos)")
                self.line(f"pos += {packed.size}")
            else:
                with self.at(group[0].name):
                    self.read_field(group[0], f"{values}[{group[0].name!r}]")
        if self._flexible:
            read = self._constant(_tags_reader(tagged, self._version))
            with self.at("tagged fields"):
                with self._block("if buffer[pos]:"):
                    self.line(f"pos, total = {read}(buffer, pos, end, breathe, {values}, total, most)")
                with self._block("else:"):
                    self.line("pos += 1")
        return value

    def read_field(self, field: Field, target: str) -> None:
        """Add the lines that read the value of a field."""
        compact, nullable = self._traits(field)
        if not field.is_array:
            self._read_element(field, target, compact, nullable)
        elif field.kind in FIXED:
            read = self._constant(primitives.numbers_reader(field.kind, compact, nullable))
            self.line(f"{target}, pos = {read}(buffer, pos, end)")
            with self._block(f"if {target}:"):
                self._count(f"len({target}) // {NUMBERS_PER_ELEMENT}")
        else:
            items, count, index = self._variable("a"), self._variable("n"), self._variable("n")
            read = self._constant(primitives.array_length_reader(compact, nullable, self._least_size(field)))
            self.line(f"{count}, pos = {read}(buffer, pos, end)")
            with self._block(f"if {count} > 0:"):  # a null must not give back what others took
                self._count(count)
            self.line(f"{items} = {target} = []" + (f" if {count} >= 0 else None" if nullable else ""))
            with self._block(f"for {index} in range({count}):"):
                with self.at(_index(index)):
                    item = self._read_element(field, self._variable("i"), compact, False)
                self.line(f"{items}.append({item})")
                self.line("if breathe is not None: breathe()")

    def _count(self, count: str) -> None:
        self.line(f"total += {count}")
        self.line("if total > most: refuse(total, most)")

    def _read_element(self, field: Field, target: str, compact: bool, nullable: bool) -> str:
        if field.kind == "struct" and nullable:
            self.line("pos += 1")
            with self._block("if buffer[pos - 1] == 0xFF:"):
                self.line(f"{target} = None")
            with self._block("else:"):
                self.line(f"{target} = {self.read_struct(field.struct)}")
        elif field.kind == "struct":
            value = self.read_struct(field.struct)
            if not field.is_array:
                self.line(f"{target} = {value}")
            return value
        elif field.kind in FIXED:
            packed = struct.Struct(_format([field]))
            self.line(f"{target}, = {self._constant(packed.unpack_from)}(buffer, pos)")
            self.line(f"pos += {packed.size}")
        else:
            is_uuid = field.kind == "uuid"
            read = primitives.read_uuid if is_uuid else primitives.bytes_reader(field.kind, compact, nullable)
            self.line(f"{target}, pos = {self._constant(read)}(buffer, pos, end)")
        return target

    def _least_size(self, field: Field) -> int:
        """Return the fewest bytes that one value (of an array: one element) takes, at least 1."""
        if field.kind in FIXED:
            return struct.calcsize(_format([field]))
        if field.kind == "uuid":
            return 16
        if field.kind != "struct":
            return 1 if self._traits(field)[0] else WIDTHS[field.kind]
        size = 1 if self._flexible else 0
        for group in self._fields(field.struct)[0]:
            for inner in group:
                if inner.is_array:
                    size += 1 if self._flexible else 4
                elif inner.kind == "struct" and self._version in inner.nullable:
                    size += 1
                else:
                    size += self._least_size(inner)
        return max(size, 1)


def _format(group: list[Field]) -> str:
    text = ">"
    for field in group:
        text += FIXED[field.kind]
    return text


def _index(variable: str) -> Callable[[dict[str, Any]], str]:
    return lambda variables: f"[{variables[variable]}]"


def _misfit(group: list[Field], value: str, variables: dict[str, Any]) -> str:
    """Return the name of the field of a group that cannot be packed."""
    for field in group:
        try:
            struct.pack(_format([field]), getattr(variables[value], field.name))
        except struct.error:
            return field.name
    return ", ".join(field.name for field in group)


def _cut_off(group: list[Field], variables: dict[str, Any]) -> str:
    """Return the name of the field of a group at which the buffer ends."""
    remaining = variables["end"] - variables["pos"]
    for field in group:
        remaining -= struct.calcsize(_format([field]))
        if remaining < 0:
            return field.name
    return group[-1].name


def explain(error: Exception) -> tuple[str, str]:
    """Return the path of the field that a generated function failed at, like "topics[3].name", and the reason."""
    path: list[str] = []
    text = str(error)
    traceback = error.__traceback__
    while traceback is not None:
        frame, line = traceback.tb_frame, traceback.tb_lineno
        if frame.f_code.co_filename == _FILE:
            variables = frame.f_locals
            path += [part if isinstance(part, str) else part(variables) for part in frame.f_globals["paths"][line - 1]]
            if isinstance(error, (struct.error, IndexError)) and "end" in variables:
                text = f"{variables['end'] - variables['pos']} bytes remain, which is too few"
        traceback = traceback.tb_next
    if isinstance(error, UnicodeDecodeError):
        text = f"no UTF-8 ({error.reason})"
    if isinstance(error, Unfit) and error.field:
        path.append(error.field)
    return ".".join(path).replace(".[", "["), text
