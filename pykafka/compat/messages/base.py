"""`Request` and `Response`: the bases of the documented classes, which wrap wire messages."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn, Self, TypeVar

from pykafka.exceptions import CorruptResponseError, error_for
from pykafka.metadata.partition import PartitionMetadata
from pykafka.protocol import schema
from pykafka.protocol.primitives import Cursor
from pykafka.utils import ApiVersionAware, Serializable
from pykafka.utils.name import Name

W = TypeVar("W", bound=schema.Message)
T = TypeVar("T")


def kept(given: Iterable[T]) -> Collection[T]:
    """Return a collection as it is, so that the caller may continue to fill it; another iterable as a list."""
    return given if isinstance(given, Collection) else list(given)


def by_name(topics: Iterable[Any], made: Callable[[Any], T]) -> dict[str, dict[int, T]]:
    """Return {topic name: {partition id: what `made` returns of the partition}} of a response."""
    return {Name.of(topic.name): {part.partition_index: made(part) for part in topic.partitions} for topic in topics}


class Versioned(ApiVersionAware):
    """Base of documented classes: `class MetadataRequestV1(MetadataRequest, versions=(1,))` is the class for version 1.

    :param versions: those of the class; a class with 0 begins the list that `get_versions()` returns
    """

    #: The version that `get_bytes` writes, or that the constructor reads.
    API_VERSION: ClassVar[int] = 0
    _versions: ClassVar[dict[int, type[Any]]] = {}

    def __init_subclass__(cls, versions: Sequence[int] = ()) -> None:
        super().__init_subclass__()
        if 0 in versions:
            cls._versions = {}
        if versions:
            cls.API_VERSION = versions[0]
        cls._versions.update(dict.fromkeys(versions, cls))

    @classmethod
    def get_versions(cls) -> dict[int, type[Any]]:
        """Return the class for each version."""
        return dict(cls._versions)


class Request(Versioned, Serializable):
    """Base of documented requests.

    `get_bytes` writes the documented version; `wire` returns the message for any version. Attributes have the arguments as
    the caller gave them.
    """

    #: The name of the client in the header.
    CLIENT_ID: ClassVar[bytes] = b"pykafka"
    #: The length of length prefix and header (bytes), with that name.
    HEADER_LEN: ClassVar[int] = 14 + len(CLIENT_ID)

    @abstractmethod
    def wire(self, version: int) -> schema.Request[Any]:
        """Return this as a wire message.

        :param version: the version that will be sent
        """
        raise NotImplementedError(f"{type(self).__name__} has neither wire() nor get_bytes()")

    def get_bytes(self, correlation_id: int = 0) -> bytearray:
        """Return the whole request, length prefix and header included.

        :param correlation_id: the broker returns it with the response
        """
        version = self._own_version()
        return self._framed(self.wire(version), version, correlation_id)

    def _framed(self, message: schema.Request[Any], version: int, correlation_id: int) -> bytearray:
        """Return a wire message with length prefix and header."""
        return bytearray().join(schema.encode_request(message, version, correlation_id, self.CLIENT_ID.decode()))

    def _own_version(self) -> int:
        return self.API_VERSION

    def __len__(self) -> int:
        """Return the length of the whole request (bytes)."""
        return len(self.get_bytes())

    def pack_into(self, buff: bytearray | memoryview, offset: int) -> None:
        """Write the whole request into a buffer.

        :param buff: the buffer to write into
        :param offset: index of the first byte to write
        """
        content = self.get_bytes()
        memoryview(buff)[offset : offset + len(content)] = content

    def _write_header(self, buff: bytearray | memoryview, api_version: int = 0, correlation_id: int = 0) -> None:
        """Write length prefix and header at the start of a buffer that is as long as the whole request.

        :param buff: the buffer to write into
        :param api_version: version of the request
        :param correlation_id: the broker returns it with the response
        """
        name = self.CLIENT_ID
        size = len(buff) - 4
        header = f"!ihhih{len(name)}s"
        struct.pack_into(header, buff, 0, size, self.API_KEY, api_version, correlation_id, len(name), name)


class Response(Versioned, Generic[W]):
    """Base of documented responses.

    :param buff: the response's body, in the documented version
    :raises CorruptResponseError: the body cannot be decoded
    """

    #: The wire message that this class wraps.
    WIRE: ClassVar[type[schema.Message]]

    def __init__(self, buff: bytes | bytearray | memoryview) -> None:
        message: Any = self.WIRE.read(Cursor(memoryview(buff)), self.API_VERSION)
        self._take(message)

    @classmethod
    def of(cls, message: W) -> Self:
        """Return an instance made from a wire message of any version."""
        response = cls.__new__(cls)
        response._take(message)
        return response

    @abstractmethod
    def _take(self, message: W) -> None:
        """Copy the content of the wire message."""

    def raise_error(self, err_code: int, response: Any) -> NoReturn:
        """Raise the error of an error code.

        :param err_code: Kafka's error code
        :param response: the decoded part, for the error's text
        :raises ProtocolClientError: the error of that code
        :raises CorruptResponseError: the code is 0
        """
        if not err_code:
            raise CorruptResponseError(f"there is no error in {response!r}")
        raise error_for(err_code, str(response))


class BrokerMetadata(NamedTuple):
    """The address of a broker."""

    id: int
    host: str
    port: int


class BrokerMetadataV1(NamedTuple):
    """The address of a broker, and its rack or None."""

    id: int
    host: str
    port: int
    rack: str | None


class PartitionMetadataV5(NamedTuple):
    """The leader and the replicas of a partition, and the offline ones."""

    id: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline_replicas: Sequence[int]
    err: int


class TopicMetadataV1(NamedTuple):
    """A topic's partitions, by their numbers, and whether the topic is internal to Kafka."""

    name: str
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata | PartitionMetadataV5]
    err: int


class _PartitionFetchRequest(NamedTuple):
    topic_name: str | bytes
    partition_id: int
    offset: int
    max_bytes: int


class PartitionFetchRequest(_PartitionFetchRequest):
    """A partition to fetch, from an offset on: `.topic_name`, `.partition_id`, `.offset`, `.max_bytes`.

    :param topic: name of the topic
    :param partition: number of the partition
    :param offset: of the first message
    :param max_bytes: how much at most
    """

    __slots__ = ()

    def __new__(
        cls, topic: str | bytes, partition: int, offset: int, max_bytes: int = 1024 * 1024
    ) -> PartitionFetchRequest:
        """Name the parameters as PyKafka 2 does, which differ from the attributes."""
        return super().__new__(cls, topic, partition, offset, max_bytes)


class PartitionOffsetRequest(NamedTuple):
    """A partition, and the time to return offsets for.

    :param topic_name: name of the topic
    :param partition_id: number of the partition
    :param offsets_before: ms since 1970; -1 is the latest, -2 the earliest offset
    :param max_offsets: how many at most; brokers since 0.10.1 answer one
    """

    topic_name: str | bytes
    partition_id: int
    offsets_before: int
    max_offsets: int


class PartitionOffsetCommitRequest(NamedTuple):
    """An offset to commit for a partition.

    :param topic_name: name of the topic
    :param partition_id: number of the partition
    :param offset: to commit
    :param timestamp: ms since 1970; only brokers before 0.9 keep it
    :param metadata: kept with the offset
    """

    topic_name: str | bytes
    partition_id: int
    offset: int
    timestamp: int
    metadata: str | bytes


class PartitionOffsetFetchRequest(NamedTuple):
    """A partition to return the committed offset of."""

    topic_name: str | bytes
    partition_id: int


class OffsetPartitionResponseV1(NamedTuple):
    """The offset found in a partition, the time of its message (ms; -1: unknown), and an error code."""

    offset: list[int]
    timestamp: int
    err: int


class OffsetCommitPartitionResponse(NamedTuple):
    """The error code of a commit."""

    err: int


class OffsetFetchPartitionResponse(NamedTuple):
    """The committed offset of a partition (-1: none), its metadata (None: null), and an error code."""

    offset: int
    metadata: str | None
    err: int
