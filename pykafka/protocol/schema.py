"""The declarative message language: one class per message, for all its versions.

    class MetadataRequest(Request[MetadataResponse], api_key=3, versions="0-13", flexible="9+"):
        class Topic(Struct):
            topic_id: UUID = uuid("10+", ignorable=True)
            name: str | None = string("0+", nullable="10+")

        topics: list[Topic] | None = array(Topic, "0+", nullable="1+")
        allow_auto_topic_creation: bool = boolean("4+", default=True)

A type checker reads the annotation; the call describes the wire: the versions that have the field, the versions in which it
may be null, its default if that is not zero, empty or false, and its tag. A version without a field leaves it out if it is
ignorable, and otherwise refuses to write it. The encoder and the decoder of a version are generated on first use.

Reference: Kafka's message generator (clients/src/main/resources/common/message/README.md), KIP-482.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, dataclass_transform, get_args, get_origin

from pykafka.exceptions import CorruptResponseError, FieldNotAvailableError, FieldValueError, UnsupportedVersion
from pykafka.protocol import codegen
from pykafka.protocol.fields import Field, int16, int32, parse_versions, string
from pykafka.protocol.primitives import Cursor, Unfit

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
T = TypeVar("T")


class _Hidden:
    """The text that `repr` shows in place of a secret."""

    def __repr__(self) -> str:
        return "<hidden>"


HIDDEN = _Hidden()


class _OwnDefault:
    """A descriptor that creates an instance's own default on first use: most defaults are never used."""

    __slots__ = ("field",)

    def __init__(self, field: Field) -> None:
        self.field = field

    def __get__(self, instance: Struct | None, owner: type[Struct]) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.field.name] = self.field.default_value()
        return value


@dataclass_transform(kw_only_default=True, eq_default=True)
class Struct:  # noqa: PLW1641  (a changeable value must not be a key)
    """Base of all structs of messages.

    Instances store the fields that were set; the class has the defaults. Instances compare by content.

    :param values: fields by name
    """

    fields: ClassVar[tuple[Field, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()
    #: Tagged fields that were read and are not declared: {tag: bytes}. `encode` writes them again.
    unknown_tags: ClassVar[dict[int, bytes]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found = []
        for name, field in list(vars(cls).items()):
            if isinstance(field, Field):
                field.name = name
                found.append(field)
                setattr(cls, name, _OwnDefault(field) if field.is_mutable else field.default)
        cls.fields = (*cls.fields, *found)
        cls._names = frozenset(field.name for field in cls.fields)

    def __init__(self, **values: Any) -> None:
        if not self._names.issuperset(values):
            unknown = ", ".join(sorted(set(values) - self._names))
            raise TypeError(
                f"{type(self).__qualname__} has no field {unknown}; it has {', '.join(sorted(self._names))}"
            )
        self.__dict__ = values  # of this call alone, so it need not be copied

    def _contents(self) -> Iterable[tuple[str, Any]]:
        for field in self.fields:
            value = getattr(self, field.name)
            yield field.name, (HIDDEN if field.secret and value else value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if self.unknown_tags != other.unknown_tags:
            return False
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.fields)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._contents())
        return f"{type(self).__qualname__}({shown})"


class Message(Struct):
    """Base of requests, responses and other complete messages.

    Class keywords: `versions`, all of them; `flexible`, the versions with compact types and tagged fields.
    """

    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_versions: ClassVar[range] = range(0)
    versions: ClassVar[range] = range(0)
    # By (codegen.encoder or codegen.decoder, version).
    _functions: ClassVar[dict[tuple[Callable[..., Any], int], Any]]

    def __init_subclass__(cls, *, versions: str = "none", flexible: str = "none", **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.versions = parse_versions(versions)
        cls.flexible_versions = parse_versions(flexible)
        cls._functions = {}
        if cls.versions:
            cls.min_version, cls.max_version = cls.versions[0], cls.versions[-1]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether a version has compact types and tagged fields."""
        return version in cls.flexible_versions

    @classmethod
    def _generated(cls, generate: Callable[[type[Struct], int, bool], T], version: int) -> T:
        """Return the encoder or decoder of a version; generate it on first use, which takes up to half a millisecond."""
        function: T | None = cls._functions.get((generate, version))
        if function is None:
            if version not in cls.versions:
                raise UnsupportedVersion(
                    f"this client knows {cls.__name__} in versions {cls.min_version} to {cls.max_version}, not {version}",
                    api=cls.__name__,
                )
            function = cls._functions[generate, version] = generate(cls, version, cls.is_flexible(version))
        return function

    def prepared(self, version: int) -> Self:
        """Return the message to send in a version: this one, unless the version expresses the same in another way."""
        return self

    def chunks(self, version: int) -> list[bytes | memoryview]:
        """Return the body in pieces: bytes, and memoryviews of the given records.

        :param version: the version to write
        :raises UnsupportedVersion: this client does not know the version
        :raises FieldNotAvailableError: a field is set that this version does not have
        :raises FieldValueError: a value does not fit into its field
        """
        encode = self._generated(codegen.encoder, version)
        message = self.prepared(version)
        pieces: list[bytes | memoryview] = []
        try:
            encode(message, pieces.append)
        except codegen.ENCODING_ERRORS as error:
            name = type(self).__name__
            text = f"{name} version {version}: {' '.join(codegen.explain(error))}"
            if isinstance(error, Unfit) and error.in_version:
                raise FieldNotAvailableError(f"{text}; leave it out, or use a newer broker", api=name) from None
            raise FieldValueError(text, api=name) from None
        return pieces

    def encode(self, version: int) -> bytes:
        """Return the body; parameters and errors as for `chunks`."""
        return b"".join(self.chunks(version))

    @classmethod
    def read(cls, cursor: Cursor, version: int) -> Self:
        """Read a body at a cursor, and move the cursor past it; parameters and errors as for `decode`."""
        decode = cls._generated(codegen.decoder, version)
        try:
            message, cursor.pos = decode(cursor.buffer, cursor.pos, cursor.end, cursor.breathe)
        except codegen.DECODING_ERRORS as error:
            raise CorruptResponseError(
                f"{cls.__name__} version {version} is cut off or corrupt at {': '.join(codegen.explain(error))}",
                api=cls.__name__,
            ) from None
        return cast("Self", message)

    @classmethod
    def decode(cls, buffer: bytes | bytearray | memoryview, version: int) -> Self:
        """Return the message of a body.

        :param buffer: exactly one body; `records` become views of it
        :param version: the version of the body
        :raises UnsupportedVersion: this client does not know the version
        :raises CorruptResponseError: the body is cut off, or is another message
        """
        cursor = Cursor(memoryview(buffer))
        found = cls.read(cursor, version)
        if cursor.pos != cursor.end:
            raise CorruptResponseError(
                f"{cls.__name__} version {version} ends {cursor.end - cursor.pos} bytes before the received bytes do",
                api=cls.__name__,
            )
        return found


class Response(Message):
    """Base of all responses.

    Class keyword `early`: the versions in which a throttling broker responds first, and then reads nothing from the
    connection for `throttle_time_ms` (KIP-219). In earlier versions it waits first, and responds afterwards.
    """

    api_key: ClassVar[int]
    early_versions: ClassVar[range] = range(0)

    def __init_subclass__(cls, *, api_key: int = -1, early: str = "0+", **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.api_key = api_key
        cls.early_versions = parse_versions(early)


class Request(Message, Generic[R]):
    """Base of all requests; `Request[MetadataResponse]` names the response."""

    api_key: ClassVar[int]
    response: ClassVar[type[Response]]
    #: Reads the frame of a response of the usual form, by (version, frame); returns None for any other.
    quick_response: ClassVar[Any] = None

    def frame(self, version: int, correlation_id: int, client_id: str | None) -> list[bytes | memoryview]:
        """Return the request as sent over the wire. As `encode_request`."""
        return encode_request(self, version, correlation_id, client_id)

    def __init_subclass__(cls, *, api_key: int = -1, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.api_key = api_key
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is Request:
                cls.response = get_args(base)[0]


class RequestHeader(Message, versions="0-2", flexible="2+"):
    """The header of a request: its API, its version and the client."""

    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", rigid=True)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """The header of a response, which names its request."""

    correlation_id: int = int32("0+")


#: The place of `throttle_time_ms` in a message without that field.
NO_THROTTLE = -1
_CONTROLLED_SHUTDOWN = 7
_API_VERSIONS = 18


def _cached(fn: F) -> F:
    """Keep what a function of message classes returns: mypy takes these classes for unhashable, since messages are."""
    return cast("F", lru_cache(maxsize=1024)(fn))


@_cached
def request_header_version(request_cls: type[Request[Any]], version: int) -> int:
    """Return the version of the request's header."""
    if request_cls.api_key == _CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if request_cls.is_flexible(version) else 1


@_cached
def response_header_version(request_cls: type[Request[Any]], version: int) -> int:
    """Return the version of the response's header."""
    # A client that does not know the broker's versions yet must be able to read the response: KIP-511.
    if request_cls.api_key == _API_VERSIONS:
        return 0
    return 1 if request_cls.is_flexible(version) else 0


@_cached
def throttle_place(response_cls: type[Response], version: int) -> int | None:
    """Return the index of `throttle_time_ms` in the body: 0 or NO_THROTTLE; None if only decoding finds it."""
    names = []
    for field in response_cls.fields:
        if version in field.versions and not field.is_tagged_in(version):
            names.append(field.name)
    if "throttle_time_ms" not in names:
        return NO_THROTTLE
    return 0 if names[0] == "throttle_time_ms" else None


def encode_request(
    message: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> list[bytes | memoryview]:
    """Return a complete request as sent over the wire.

    :param message: the request
    :param version: the version to write
    :param correlation_id: the broker returns it with the response
    :param client_id: name of this client for logs and quotas
    :return: length prefix, header and body, in pieces; records as memoryviews, not copied
    :raises UnsupportedVersion: this client does not know the version
    :raises FieldNotAvailableError: a field is set that this version does not have
    :raises FieldValueError: a value does not fit into its field
    """
    chunks = message.chunks(version)
    head, tail = _header(message.api_key, version, request_header_version(type(message), version), client_id)
    size = len(head) + 4 + len(tail) + sum(map(len, chunks))
    start = size.to_bytes(4, "big") + head + correlation_id.to_bytes(4, "big", signed=True) + tail
    if len(chunks) == 1 and type(chunks[0]) is bytes:
        return [start + chunks[0]]
    return _merged([start, *chunks])


@lru_cache(maxsize=256)
def _header(api_key: int, version: int, header_version: int, client_id: str | None) -> tuple[bytes, bytes]:
    """Return the parts of a request's header before and behind the correlation id."""
    header = RequestHeader(request_api_key=api_key, request_api_version=version)
    if header_version > 0:
        header.client_id = client_id
    found = header.encode(header_version)
    return found[:4], found[8:]


def _merged(pieces: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Join neighbouring bytes; leave records as they are."""
    found: list[bytes | memoryview] = []
    run: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            run.append(piece)
            continue
        found += (b"".join(run), piece)
        run = []
    if run:
        found.append(b"".join(run))
    return found


def decode_response(
    request_cls: type[Request[R]],
    version: int,
    frame: bytes | bytearray | memoryview,
    breathe: Callable[[], object] | None = None,
) -> tuple[int, R]:
    """Return a response and its correlation id.

    :param request_cls: class of the request
    :param version: version of the request
    :param frame: the received bytes, without the length prefix; `records` become views of it
    :param breathe: called between the elements of arrays, as `handler.breathe`: metadata of a large cluster takes long
    :return: correlation id and response
    :raises CorruptResponseError: the frame is cut off, or is another message
    """
    cursor = Cursor(memoryview(frame), breathe)
    header_version = response_header_version(request_cls, version)
    size = 4 + header_version  # with no tagged fields, as ever
    if cursor.end < size or (header_version and cursor.buffer[4]):
        correlation_id = ResponseHeader.read(cursor, header_version).correlation_id
    else:
        cursor.pos = size
        correlation_id = int.from_bytes(cursor.buffer[:4], "big", signed=True)
    # Ignore trailing bytes, as Kafka's own client does: 0.8.2 sends some, and so does librdkafka's mock broker.
    response: Any = request_cls.response.read(cursor, version)
    return correlation_id, response


def read_throttle_ms(request_cls: type[Request[Any]], version: int, frame: memoryview) -> int | None:
    """Return the throttle time (ms) of a response without decoding it.

    :param request_cls: class of the request
    :param version: version of the request
    :param frame: the received bytes, without the length prefix
    :return: None if only decoding the response shows it
    """
    place = throttle_place(request_cls.response, version)
    if place is None or place == NO_THROTTLE:
        return None if place is None else 0
    at = 4
    if response_header_version(request_cls, version):
        if len(frame) < 5 or frame[4]:
            return None  # the header has tagged fields
        at = 5
    return int.from_bytes(frame[at : at + 4], "big", signed=True) if len(frame) >= at + 4 else 0
