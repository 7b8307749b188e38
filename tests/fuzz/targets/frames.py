"""Targets between the bytes of a socket and messages: frames, the negotiation of versions, and answers of proxies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pykafka.exceptions import SocketDisconnectedError
from pykafka.handlers.base import Handler, Stream
from pykafka.network.frames import FrameReader
from pykafka.network.proxies import Proxy
from pykafka.protocol import wire
from pykafka.protocol.versions import VersionNegotiation
from tests.fuzz.judge import Target


class Pieces:
    """A stream that has received bytes, in pieces of a size, and then ends.

    :param data: the bytes
    :param size: of a piece
    """

    def __init__(self, data: bytes, size: int) -> None:
        self._left = memoryview(data)
        self._size = size

    def recv_into(self, buffer: Any, timeout: float = 0.0) -> int:
        """Fill a buffer; return how many bytes it took."""
        count = min(len(buffer), self._size, len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def send(self, pieces: list[Any], timeout: float = 0.0) -> None:
        """Take what is sent."""


class Clock:
    """A handler's clock, which stands still."""

    def now(self) -> float:
        """Return the time (s)."""
        return 0.0

    def breathe(self) -> None:
        """Do nothing."""


CLOCK = cast("Handler", Clock())


def frames(data: bytes) -> object:
    """Read the frames of a stream until it ends; the first byte has the size of its pieces."""
    if not data:
        return None
    stream = cast("Stream", Pieces(data[1:], (data[0] & 0x7F) + 1))
    reader = FrameReader(stream, CLOCK, 64, bool(data[0] & 0x80), 2**20)
    found = []
    try:
        while True:
            found.append(bytes(reader.next(1.0)).hex())
    except SocketDisconnectedError as error:
        return found, str(error)


def negotiation(data: bytes) -> object:
    """Answer the requests for the broker's versions; a byte before each answer has its size, 0 is a hang-up."""
    talk = VersionNegotiation(broker="b:1")
    found: list[str] = []
    at = 0
    while at < len(data) and talk.result is None and len(found) < 30:
        asked = talk.next_requests()
        size = data[at]
        if not size:
            talk.hung_up()
        else:
            answer = data[at + 1 : at + 1 + size]
            # Most answers name the request that they answer, else nothing behind the number would be tried.
            talk.answered(asked[0][8:12] + answer[1:] if asked and answer[:1] != b"\xff" else answer)
        found.append(talk.state.name)
        at += 1 + size
    return found, talk.version, talk.result


def proxy(data: bytes) -> object:
    """Open a tunnel with the answers of a proxy; the first byte has its kind."""
    if not data:
        return None
    kind = ("http", "socks5", "socks5h")[data[0] % 3]
    tunnel = Proxy(kind, "p", 1080, "user" if data[0] & 0x80 else "", "secret").tunnel("broker.example", 9092)
    sent, left = [tunnel.next_bytes()], data[1:]
    while tunnel.wants and left:
        count = tunnel.wants
        tunnel.received(left[:count])
        left = left[count:]
        sent.append(tunnel.next_bytes())
    return sent, tunnel.wants


def _frames() -> Iterator[bytes]:
    yield b"\x40" + b"\0\0\0\3abc" + b"\0\0\0\0" + b"\0\0\0\1x"
    yield b"\x03" + b"\0\0\1\0" + bytes(256) + b"\0\0\0\1x"
    yield b"\x7fHTTP/1.1 400 Bad Request\r\n\r\n"
    yield b"\x7f\x15\x03\x01\0\2\2\x28"
    yield b"\x80" + b"\0\x08\0\0"


def _negotiations() -> Iterator[bytes]:
    for version in (0, 3, 4):
        answer = wire.ApiVersionsResponse(
            api_keys=[wire.ApiVersionsResponse.ApiVersion(api_key=1, min_version=0, max_version=4)]
        )
        body = b"\0" + answer.encode(version)
        yield bytes([len(body)]) + body
    refusal = b"\0" + wire.ApiVersionsResponse(error_code=35).encode(0)
    yield bytes([len(refusal)]) + refusal
    yield bytes(8)


def _proxies() -> Iterator[bytes]:
    yield b"\x00HTTP/1.1 200 Connection established\r\n\r\n"
    yield b"\x80HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    yield b"\x01\5\0" + b"\5\0\0\1\x7f\0\0\1\x23\x84"
    yield b"\x82\5\2\1\0" + b"\5\0\0\3\4name\x23\x84"
    yield b"\x01\5\0" + b"\5\4\0\1\x7f\0\0\1\x23\x84"


TARGETS = [
    Target("frames", frames, _frames),
    Target("negotiation", negotiation, _negotiations),
    Target("proxies", proxy, _proxies),
]
