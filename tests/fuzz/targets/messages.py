"""Requests and responses of each API in each version, and the client's shortcuts past the decoder of usual answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykafka.exceptions import UnsupportedVersion
from pykafka.producer.produce_request import ProduceRequest
from pykafka.protocol import wire
from pykafka.protocol.primitives import Cursor
from pykafka.protocol.schema import (
    Message,
    Request,
    RequestHeader,
    ResponseHeader,
    decode_response,
    encode_request,
    read_throttle_ms,
    request_header_version,
    response_header_version,
)
from tests.fuzz.judge import Target, UnstableError
from tests.support.instances import Instances

_EVERY: list[type[Request[Any]]] = [
    found for found in (getattr(wire, name) for name in wire.__all__) if issubclass(found, Request)
]
REQUESTS = {cls.api_key: cls for cls in _EVERY if cls.api_key >= 0}
_KEYS = sorted(REQUESTS)


def chosen(data: bytes) -> tuple[type[Request[Any]], int]:
    """Return the API and the version that the first two bytes of an input name; every two bytes name some."""
    key = data[0] if data[0] in REQUESTS else _KEYS[data[0] % len(_KEYS)]
    cls = REQUESTS[key]
    return cls, cls.versions[data[1] % len(cls.versions)]


def stable(message: Message, version: int) -> str:
    """Return the text of a message, if writing and reading it again gives the same.

    :raises UnstableError: it does not
    """
    written = message.encode(version)
    again = type(message).decode(written, version)
    # What is no number is unequal to itself.
    if message != again and (again.encode(version) != written or "nan" not in repr(message)):
        raise UnstableError(f"{type(message).__name__} {version} reads as {message!r:.300}, and then as {again!r:.300}")
    return written.hex()  # a memoryview's repr is an address


def response(data: bytes) -> object:
    """Read a response as the client does, header included."""
    if len(data) < 2:
        return None
    cls, version = chosen(data)
    frame = memoryview(data)[2:]
    number, read = decode_response(cls, version, frame)
    written = stable(read, version)
    throttle_ms = read_throttle_ms(cls, version, frame)
    if throttle_ms is not None and throttle_ms != getattr(read, "throttle_time_ms", 0):
        raise UnstableError(f"{cls.__name__} {version}: throttle time {throttle_ms} is {read!r:.300}")
    quick = cls.quick_response and cls.quick_response(version, frame)
    if quick is not None and quick.encode(version) != read.encode(version):
        raise UnstableError(f"{cls.__name__} {version} reads quickly as {quick!r:.300}, and else as {read!r:.300}")
    return number, written


def request(data: bytes) -> object:
    """Read a request as the fake cluster does, header included."""
    if len(data) < 2:
        return None
    cls, version = chosen(data)
    cursor = Cursor(memoryview(data)[2:])
    header = RequestHeader.read(cursor, request_header_version(cls, version))
    read = cls.read(cursor, version)
    return header.client_id, stable(read, version)


def shortcut(data: bytes) -> object:
    """Read an answer to a Fetch or Produce request by the shortcut, and by the decoder."""
    if len(data) < 2:
        return None
    cls: type[Request[Any]] = (wire.FetchRequest, ProduceRequest)[data[0] & 1]
    version = cls.versions[data[1] % len(cls.versions)]
    frame = memoryview(data)[2:]
    quick = cls.quick_response(version, frame)
    if quick is None:
        return None
    number, read = decode_response(getattr(wire, cls.__name__), version, frame)
    written = read.encode(version)
    if quick.encode(version) != written:
        raise UnstableError(f"{cls.__name__} {version} reads quickly as {quick!r:.300}, and else as {read!r:.300}")
    return number, written.hex()


def _choice(cls: type[Request[Any]], version: int) -> bytes:
    return bytes([cls.api_key, cls.versions.index(version)])


def _responses() -> Iterator[bytes]:
    for cls in REQUESTS.values():
        for version in cls.versions:
            header = ResponseHeader(correlation_id=7).encode(response_header_version(cls, version))
            for seed in range(2):
                yield _choice(cls, version) + header + Instances(seed).make(cls.response, version).encode(version)


def _requests() -> Iterator[bytes]:
    for cls in REQUESTS.values():
        for version in cls.versions:
            for seed in range(2):
                try:
                    sent = b"".join(encode_request(Instances(seed).make(cls, version), version, 7, "me"))
                except UnsupportedVersion:
                    continue
                yield _choice(cls, version) + sent[4:]


def _shortcuts() -> Iterator[bytes]:
    topic = wire.FetchResponse.Topic
    parts = [topic.Partition(partition_index=1, aborted_transactions=None, records=b"records")]
    written = wire.ProduceResponse.Topic
    for version in range(9, 19):
        if version in wire.FetchRequest.versions:
            fetched = wire.FetchResponse(responses=[topic(topic="t", partitions=parts)])
            header = ResponseHeader().encode(response_header_version(wire.FetchRequest, version))
            yield bytes([0, version - wire.FetchRequest.min_version]) + header + fetched.encode(version)
        if version in wire.ProduceRequest.versions:
            done = [written.Partition(index=1, base_offset=5)]
            produced = wire.ProduceResponse(responses=[written(name="t", partition_responses=done)])
            header = ResponseHeader().encode(response_header_version(wire.ProduceRequest, version))
            yield bytes([1, version - wire.ProduceRequest.min_version]) + header + produced.encode(version)


TARGETS = [
    Target("responses", response, _responses, weight=3.0),
    Target("requests", request, _requests, weight=3.0),
    Target("shortcuts", shortcut, _shortcuts),
]
