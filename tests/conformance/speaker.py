"""`Speaker`: plain connections that speak one request at a time, in any version, and write down what they are answered."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar
from uuid import UUID

from pykafka.exceptions import KafkaException
from pykafka.protocol import wire
from pykafka.protocol.records import scan
from pykafka.protocol.schema import Request, Response, Struct, decode_response, encode_request
from pykafka.protocol.versions import RANGES_0_8_2, RANGES_0_9_0

R = TypeVar("R", bound=Response)

CLIENT_ID = "conformance"
#: How long an answer may take (s); the longest wait that programs ask for is 1 s.
TIMEOUT_S = 20.0
#: What differs from run to run, or is wording: it is not compared.
NOT_COMPARED = {
    "error_message",
    "host",
    "port",
    "node_endpoints",
    "throttle_time_ms",
    "cluster_id",
    "rack",
    "leader_epoch",
    "heartbeat_interval_ms",
}
_TIMES = {"log_append_time_ms", "timestamp", "max_timestamp"}
_RANDOM = re.compile(r"[-0-9a-f]*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|^[A-Za-z0-9_-]{22}$")


class HungUp(Exception):
    """The broker closed the connection, or never answered."""


class Speaker:
    """A client of one broker.

    :param hosts: where the broker listens
    :param numbers: of the release, (0, 9, 0, 1): brokers before 0.10 do not say what they speak
    """

    def __init__(self, hosts: str, numbers: tuple[int, ...]) -> None:
        host, _, port = hosts.partition(",")[0].rpartition(":")
        self._address = host, int(port)
        self._socket: socket.socket | None = None
        self._correlation_id = 0
        self._others: list[Speaker] = []
        self._names: dict[object, str] = {}
        #: Of the release.
        self.numbers = numbers
        #: What was said, in order: (label, answer).
        self.transcript: list[list[Any]] = []
        if numbers < (0, 9):
            self.ranges = dict(RANGES_0_8_2)
        elif numbers < (0, 10):
            self.ranges = dict(RANGES_0_9_0)
        else:
            found = self.ask(wire.ApiVersionsRequest(), 0)
            self.ranges = {one.api_key: (one.min_version, one.max_version) for one in found.api_keys}

    def close(self) -> None:
        """End the connection, and those of the clients beside it."""
        while self._others:
            self._others.pop().close()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def versions(self, request: type[Request[Any]], least: int = 0) -> range:
        """Return the versions of an API that both sides know, from `least` on."""
        lowest, highest = self.ranges.get(request.api_key, (0, -1))
        return range(max(lowest, request.min_version, least), min(highest, request.max_version) + 1)

    def has(self, request: type[Request[Any]], least: int = 0) -> bool:
        """Return whether the broker has an API, in this version or a later one."""
        return len(self.versions(request, least)) > 0

    def ask(self, request: Request[R], version: int | None = None) -> R:
        """Send a request, and return the answer.

        :param version: None: the highest that both know
        :raises HungUp: there is none
        """
        if version is None:
            version = self.versions(type(request))[-1]
        self._send(request, version)
        if isinstance(request, wire.ProduceRequest) and request.acks == 0:
            return request.response()  # type: ignore[return-value]
        return self._heard(type(request), version)

    def _send(self, request: Request[Any], version: int) -> None:
        self._correlation_id += 1
        pieces = encode_request(request, version, self._correlation_id, CLIENT_ID)
        frame = b"".join(bytes(piece) for piece in pieces)
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, TIMEOUT_S)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(frame)
        except OSError:
            self.close()
            raise HungUp from None

    def _heard(self, kind: type[Request[R]], version: int) -> R:
        try:
            size = int.from_bytes(self._read(4), "big")
            answer = self._read(size)
        except OSError:
            self.close()
            raise HungUp from None
        return decode_response(kind, version, memoryview(answer))[1]

    def say(self, label: str, request: Request[R], version: int | None = None) -> R | None:
        """Send a request, write the answer down, and return it; None if the broker hung up.

        :param label: what the line of the transcript is called; the API and version are added
        """
        if version is None:
            version = self.versions(type(request))[-1]
        return self._told(label, type(request), version, lambda: self.ask(request, version))

    def _told(self, label: str, kind: type[Request[R]], version: int, ask: Callable[[], R]) -> R | None:
        name = f"{label}: {kind.__name__.removesuffix('Request')} v{version}"
        try:
            found = ask()
        except HungUp:
            self.transcript.append([name, "hung up"])
            return None
        self.transcript.append([name, self.described(found, version)])
        return found

    def begin(self, label: str, request: Request[R], version: int | None = None) -> Callable[[], R | None]:
        """Send a request whose answer comes late; what is returned waits for it, writes it down, and returns it.

        The broker has had time to take it in.
        """
        kind, chosen = type(request), self.versions(type(request))[-1] if version is None else version
        self._send(request, chosen)
        self.wait(0.15)
        return lambda: self._told(label, kind, chosen, lambda: self._heard(kind, chosen))

    def beside(self) -> Speaker:
        """Return a second client, with a connection of its own, that writes to the same transcript."""
        other = copy(self)
        other._socket, other._others = None, []
        self._others.append(other)
        return other

    def note(self, label: str, value: object) -> None:
        """Write something down that a program found out."""
        self.transcript.append([label, value])

    def _read(self, size: int) -> bytes:
        if self._socket is None:
            raise OSError("the broker closed the connection before")
        read = bytearray()
        while len(read) < size:
            piece = self._socket.recv(size - len(read))
            if not piece:
                raise OSError("the broker closed the connection")
            read += piece
        return bytes(read)

    @staticmethod
    def wait(seconds: float) -> None:
        """Wait for what a broker does by itself (s)."""
        time.sleep(seconds)

    # -- what is written down

    def described(self, struct: Struct, version: int) -> dict[str, Any]:
        """Return a message as JSON: what the version has, with names for what is random."""
        return {
            field.name: self._value(field.name, getattr(struct, field.name), version)
            for field in struct.fields
            if version in field.versions and field.name not in NOT_COMPARED
        }

    def _value(self, name: str, value: Any, version: int) -> Any:
        if isinstance(value, Struct):
            return self.described(value, version)
        if name == "records":
            return None if value is None else self.batches(value)
        if isinstance(value, list | tuple):
            found = [self._value(name, one, version) for one in value]
            # Brokers answer some requests in an order of their own.
            return sorted(found, key=_place) if found and isinstance(found[0], dict) else found
        if isinstance(value, UUID):
            return "no id" if not value.int else self._name(value, "id")
        if isinstance(value, str):
            return _RANDOM.sub(lambda match: self._name(match[0], "random"), value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).hex()
        if name in _TIMES and isinstance(value, int) and value > 0:
            return value if value < 1_650_000_000_000 else "now"
        if name == "producer_id" and isinstance(value, int) and value >= 0:
            return self._name(("producer", value), "producer")
        return value

    def _name(self, value: object, kind: str) -> str:
        if value not in self._names:
            count = sum(name.startswith(kind) for name in self._names.values())
            self._names[value] = f"{kind}-{count + 1}"
        return self._names[value]

    def batches(self, records: Any) -> list[Any]:
        """Return the batches of records: [format, codec, flags, messages or the type of marker]."""
        described = []
        batches, _ = scan(bytes(records))
        for raw in batches:
            flags = "control" * raw.is_control + "transactional" * raw.is_transactional
            messages: list[object] = []
            if raw.is_control:
                messages.append(raw.control_type())
            else:
                reader = raw.open()
                while (message := reader.next()) is not None:
                    key, value = message.partition_key, message.value
                    messages.append([message.offset, key and key.decode(), value and value.decode()])
            described.append([raw.magic, raw.codec, flags, messages])
        return described


def _place(described: dict[str, Any]) -> tuple[str, int, str]:
    """Return what to sort by: a group's name, a partition's number, a member's id."""
    index = described.get("partition_index", described.get("index", 0))
    return described.get("group_id", ""), index, described.get("member_id", "")


def run(program: Any, hosts: str, numbers: tuple[int, ...]) -> list[list[Any]]:
    """Run a program on a broker, and return what it wrote down."""
    speaker = Speaker(hosts, numbers)
    try:
        program(speaker)
    except KafkaException as error:
        speaker.note("the answer cannot be read", str(error))
    finally:
        speaker.close()
    return speaker.transcript
