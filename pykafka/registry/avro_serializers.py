"""`AvroSerializer` and `AvroDeserializer`: keys and values in Avro, whose schemas a registry keeps, in Confluent's framing.

fastavro's compiled reader calls itself for each level of a type that contains itself, so a record of some megabytes would end
the process: such types are read by its Python source, which raises an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from pykafka.registry.avro import check_bounded, is_recursive, parsed, written
from pykafka.registry.avro_exactness import exactness
from pykafka.registry.schemas import AVRO, HEADERS, Reference, Schema, read_header, read_id, topic_subject, with_id

if TYPE_CHECKING:
    from pykafka.registry.client import Registry

T = TypeVar("T")

_Test: TypeAlias = Callable[[Any], bool]
#: Reads the value of a record behind its framing.
_Read = Callable[[BytesIO], Any]
_SchemaLike: TypeAlias = str | Mapping[str, Any] | Sequence[Any] | None
_HEADER_NAMES = {side: name.decode() for side, name in HEADERS.items()}


class AvroSerializer(Generic[T]):
    """A serializer of keys or values in Avro, for producers.

    The id of the schema stands before each value. A schema is registered, or looked up, when the first value of a subject is
    written; no request follows for that subject.

    :param registry: the schema registry
    :param schema: of the values, as text or as JSON's objects; None for the version that is the subject's newest at the first
        value
    :param register: True adds the schema to the subject if it is not there; False raises an error then
    :param subject: returns the subject, by the name of a topic and "key" or "value"
    :param references: the schemas that `schema` uses
    :param to_avro: makes what the schema describes (dicts, lists, numbers, texts) of a value; None if values are that
    :raises SchemaError: the schema is not valid
    :raises ImportError: the package fastavro is missing
    """

    #: The producer makes calls that may wait for the registry away from a hub or an event loop.
    asks_registry = True

    @overload
    def __init__(
        self: AvroSerializer[Any],
        registry: Registry,
        schema: _SchemaLike = None,
        *,
        register: bool = True,
        subject: Callable[[str, str], str] = topic_subject,
        references: Sequence[Reference] = (),
        to_avro: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        registry: Registry,
        schema: _SchemaLike = None,
        *,
        register: bool = True,
        subject: Callable[[str, str], str] = topic_subject,
        references: Sequence[Reference] = (),
        to_avro: Callable[[T], Any],
    ) -> None: ...
    def __init__(
        self,
        registry: Registry,
        schema: _SchemaLike = None,
        *,
        register: bool = True,
        subject: Callable[[str, str], str] = topic_subject,
        references: Sequence[Reference] = (),
        to_avro: Callable[[T], Any] | None = None,
    ) -> None:
        _require_fastavro()
        self._registry = registry
        self._schema = None if schema is None else Schema(AVRO, _text(schema), tuple(references))
        if self._schema is not None and not references:
            parsed(self._schema, {})  # an error is raised here, and not at the first value
        self._register = register
        self._subject = subject
        self._to_avro = to_avro
        #: {subject: the bytes before a value, its schema, and whether fastavro writes a value as it is}
        self._known: dict[str, tuple[bytes, Any, _Test]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._registry!r}>"

    def __call__(self, value: T | None, ctx: Any) -> bytes | None:
        """Return the bytes of a key or value; None for None.

        :param value: the key or value
        :param ctx: a `SerializationContext`
        :raises RegistryError: the registry refuses, or cannot be reached
        :raises ValueError: the value does not fit the schema
        """
        if value is None:
            return None
        subject = self._subject(ctx.topic, _side(ctx))
        head, tree, is_exact = self._known.get(subject) or self._look_up(subject)
        content = value if self._to_avro is None else self._to_avro(value)
        try:
            if is_exact(content):
                return head + written(content, tree)
        except Exception:
            _check_value(content, tree)  # whose error names the place
            raise
        _check_value(content, tree)
        return head + written(content, tree)

    def _look_up(self, subject: str) -> tuple[bytes, Any, _Test]:
        if self._schema is None:
            registered = self._registry.latest(subject)
        elif self._register:
            registered = self._registry.register(subject, self._schema)
        else:
            registered = self._registry.look_up(subject, self._schema)
        schema = self._schema or registered.schema
        whole = parsed(schema, self._registry.needed(schema))
        found = with_id(registered.id), whole.tree, exactness(whole.tree, whole.names)
        self._known[subject] = found
        return found


class AvroDeserializer(Generic[T]):
    """A deserializer of keys or values in Avro, for consumers.

    Each record names its schema, by an id before the value or by an id or GUID in a header. The registry is asked at the first
    record of each schema.

    :param registry: the schema registry
    :param schema: the reader's schema, as text or as JSON's objects, to which values are converted by the rules of Avro; None
        returns values as they were written
    :param from_avro: makes the key or value of what the schema describes; None returns that itself
    :raises SchemaError: the schema is not valid
    :raises ImportError: the package fastavro is missing
    """

    #: The consumer makes calls that may wait for the registry away from a hub or an event loop.
    asks_registry = True

    @overload
    def __init__(
        self: AvroDeserializer[Any], registry: Registry, schema: _SchemaLike = None, *, from_avro: None = None
    ) -> None: ...
    @overload
    def __init__(self, registry: Registry, schema: _SchemaLike = None, *, from_avro: Callable[[Any], T]) -> None: ...
    def __init__(
        self,
        registry: Registry,
        schema: _SchemaLike = None,
        *,
        from_avro: Callable[[Any], T] | None = None,
    ) -> None:
        _require_fastavro()
        self._registry = registry
        self._reader_schema = None if schema is None else parsed(Schema(AVRO, _text(schema)), {}).tree
        self._from_avro = from_avro
        #: {id or GUID: the function that reads its values}
        self._known: dict[int | str, _Read] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._registry!r}>"

    @overload
    def __call__(self, data: bytes, ctx: Any) -> T: ...
    @overload
    def __call__(self, data: None, ctx: Any) -> None: ...
    def __call__(self, data: bytes | None, ctx: Any) -> T | None:
        """Return the key or value of bytes; None for None.

        :param data: the bytes of a record
        :param ctx: a `SerializationContext`
        :raises FramingError: the record names no schema
        :raises RegistryError: the registry does not have the schema, refuses, or cannot be reached
        :raises SchemaError: the schema is not one of Avro
        :raises ValueError: the bytes are not a value of the schema; fastavro may raise other errors
        """
        if data is None:
            return None
        key, start = _framing(data, ctx)
        read = self._known.get(key) or self._look_up(key)
        stream = BytesIO(data)
        stream.seek(start)
        value = read(stream)
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes are left behind a value of schema {key}")
        made: T = value if self._from_avro is None else self._from_avro(value)
        return made

    def _look_up(self, key: int | str) -> _Read:
        schema = self._registry.schema(key)
        writer = parsed(schema, self._registry.needed(schema))
        check_bounded(writer)
        read = self._known[key] = _reader(writer.tree, self._reader_schema, is_recursive(writer))
        return read


def _reader(writer: Any, reader: Any, recursive: bool) -> _Read:
    """Return the function that reads values.

    :param writer: the schema that they were written with
    :param reader: the schema that they are to have; None for that
    :param recursive: whether a type contains itself
    """
    if recursive:
        from fastavro._read_py import schemaless_reader
    else:
        from fastavro import schemaless_reader

    def read(stream: BytesIO) -> Any:
        return schemaless_reader(stream, writer, reader)

    return read


def _check_value(value: Any, tree: Any) -> None:
    """Check that a value fits a schema: fastavro writes 1.5 as the long 1, and the text "false" as true.

    :raises ValueError: it does not; the text has no contents
    """
    from fastavro.validation import ValidationError, validate

    try:
        validate(value, tree)
    except ValidationError as error:
        said = "; ".join(sorted({_misfit(one) for one in error.errors}))
        raise ValueError(f"the value does not fit its Avro schema: {said}") from None


def _misfit(error: Any) -> str:
    """Return what is wrong at one place.

    :param error: fastavro's, whose own text has the value
    """
    kind = error.schema if isinstance(error.schema, str) else error.schema.get("name") or error.schema.get("type")
    return f"{error.field or 'it'} takes {kind}, and this {type(error.datum).__name__} does not fit"


def _framing(data: bytes, ctx: Any) -> tuple[int | str, int]:
    """Return the id or GUID of a record's schema, and where the value begins."""
    if ctx.headers:
        name = _HEADER_NAMES[_side(ctx)]
        for header, value in ctx.headers:
            if header == name and value is not None:
                return read_header(value)[0], 0
    return read_id(data)


def _side(ctx: Any) -> str:
    return "key" if ctx.field == "key" else "value"


def _text(schema: str | Mapping[str, Any] | Sequence[Any]) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def _require_fastavro() -> None:
    try:
        import fastavro  # noqa: F401
    except ImportError:
        raise ImportError("Avro needs the package fastavro: install pykafka with the extra avro") from None
