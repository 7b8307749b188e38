"""Results of Python expressions, described so that those of PyKafka 2.8.0 and ours can be compared.

Run as a program, by either Python, it reads one JSON list of expressions a line, and writes one JSON list of descriptions.

A description is made of lists that name a kind, and numbers. Text is described by its bytes, enumerations by their numbers.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import importlib
import json
import pickle
import struct
import sys
import types
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

#: Modules whose public names expressions may use; of a name in several modules the first one counts.
MODULES = (
    "pykafka.protocol",
    "pykafka.protocol.base",
    "pykafka.protocol.message",
    "pykafka.protocol.metadata",
    "pykafka.protocol.offset",
    "pykafka.protocol.offset_commit",
    "pykafka.protocol.fetch",
    "pykafka.protocol.produce",
    "pykafka.protocol.group_membership",
    "pykafka.protocol.admin",
    "pykafka.compat.messages",
    "pykafka.exceptions",
    "pykafka.common",
    "pykafka.membershipprotocol",
    "pykafka.utils",
    "pykafka.utils.struct_helpers",
    "pykafka.utils.error_handlers",
    "pykafka.utils.compression",
)
_ELEMENTARY = (type(None), bool, int)
_NO_CONTENT = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType)


def names() -> dict[str, Any]:
    """Return the names that expressions may use."""
    found: dict[str, Any] = {}
    for name in MODULES:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            public = getattr(module, "__all__", None) or [key for key in vars(module) if not key.startswith("_")]
            for key in public:
                found.setdefault(key, getattr(module, key))
    found["error_handlers_valid"] = importlib.import_module("pykafka.utils.error_handlers").valid_int
    for name in ("compression", "compat", "struct_helpers", "error_handlers", "socket"):
        found["helpers_" + name] = importlib.import_module("pykafka.utils." + name)
    makers = (changed, filled, grown, gzip_and_lz4, handled, mutated, own_request, pickled, received, stamped)
    found.update({helper.__name__: helper for helper in (attempt, opened, packed_at, written, *makers)})
    return {**found, "datetime": datetime, "mutated_dt": lambda value: stamped(value, "timestamp_dt")}


def describe(value: Any) -> Any:
    """Return a value's description."""
    if isinstance(value, type):
        return ["class", value.__name__]
    if isinstance(value, enum.IntEnum):
        return int(value)
    if isinstance(value, _ELEMENTARY):
        return value
    if isinstance(value, str):
        return ["str", value.encode("utf-8", "surrogatepass").hex()]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, (bytearray, memoryview)):
        return [type(value).__name__, bytes(value).hex()]
    if isinstance(value, float):
        return ["float", repr(value)]
    if isinstance(value, datetime):
        return ["datetime", "naive" if value.tzinfo is None else "aware", value.isoformat()[:23]]
    if isinstance(value, Mapping):
        pairs = [[describe(key), describe(part)] for key, part in value.items()]
        return ["mapping", type(value).__name__, pairs]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ["named tuple", type(value).__name__, [[name, describe(getattr(value, name))] for name in value._fields]]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return [type(value).__name__, [describe(part) for part in value]]
    if isinstance(value, BaseException):
        return _error(value)
    return ["object", type(value).__name__, _attributes(value)]


def _error(error: BaseException) -> Any:
    return ["raises", [cls.__name__ for cls in type(error).__mro__ if cls is not object]]


def _attributes(value: Any) -> dict[str, Any]:
    # Public ones of the object and of its class, but no methods: 2.8.0 has some as properties, ours others.
    found: dict[str, Any] = {}
    for name in dir(value):
        if not name.startswith("_"):
            try:
                content = getattr(value, name)
            except Exception as error:  # noqa: BLE001 - it is the result
                content = error
            if not isinstance(content, _NO_CONTENT):
                found[name] = describe(list(content) if isinstance(content, types.GeneratorType) else content)
    if hasattr(value, "messages") and not isinstance(value.messages, list):
        found["messages"] = describe(list(value.messages))
    return found


def attempt(function: Any, *arguments: Any, **named: Any) -> Any:
    """Return what a function returns, or the error that it raises."""
    try:
        return function(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - it is the result
        return error


def packed_at(value: Any, offset: int = 3) -> Any:
    """Return a buffer that a value has written itself into, with other bytes before and after."""
    buff = bytearray(b"\xaa" * (offset + len(value) + 2))
    value.pack_into(buff, offset)
    return buff


def written(request: Any) -> Any:
    """Return all that a request says about itself, its bytes included; compressed messages are opened."""
    content = attempt(request.get_bytes)
    if isinstance(content, bytearray) and request.API_KEY == 0:
        content = _opened_request(content)
    if isinstance(content, Exception):
        return content
    return [request, content, len(request) == len(request.get_bytes()), bool(request)]


def filled(request: Any, *messages: Any) -> Any:
    """Return a request to produce, with messages."""
    for message in messages:
        request.add_message(*message)
    return request


def changed(cls: Any, given: Any, more: Any) -> Any:
    """Return what an object writes when a list that was given to its constructor grows."""
    made = cls(given)
    before = made.get_bytes()
    given.append(more)
    return [before, made.get_bytes(), made]


def mutated(request: Any, **attributes: Any) -> Any:
    """Return what a request writes after its attributes are set."""
    for name, value in attributes.items():
        setattr(request, name, value)
    return written(request)


def grown(message_set: Any, message: Any) -> Any:
    """Return the sizes of a set before and after a message is added."""
    before = len(message_set)
    message_set.messages.append(message)
    return [before, len(message_set) > before, message_set]


def gzip_and_lz4() -> Any:
    """Return compressed data."""
    from pykafka.utils import compression

    return [compression.encode_gzip(b"abc"), compression.encode_lz4(b"abc")]


def pickled(value: Any) -> Any:
    """Return a value and its two copies."""
    return [value, copy.copy(value), pickle.loads(pickle.dumps(value))]


def stamped(value: Any, name: str = "") -> Any:
    """Return a message whose timestamp was set, by `set_timestamp()` or an attribute."""
    from pykafka.protocol import Message

    message = Message(b"v")
    if name:
        setattr(message, name, value)
    else:
        message.set_timestamp(value)
    return [message, message.timestamp_dt]


def own_request() -> Any:
    """Return what a request of an application's own writes."""
    from pykafka.protocol import MetadataRequest

    base: Any = MetadataRequest.__mro__[1]

    class OwnRequest(base):  # type: ignore[misc]
        API_KEY = 22

        def __len__(self) -> int:
            return int(self.HEADER_LEN) + 2

        def get_bytes(self) -> Any:
            output = bytearray(len(self))
            self._write_header(output, api_version=1, correlation_id=5)
            struct.pack_into("!h", output, self.HEADER_LEN, 7)
            return output

    return written(OwnRequest())


def handled(parts_by_error: Any) -> Any:
    """Return in which order the handlers of partitions are called."""
    from pykafka.utils.error_handlers import handle_partition_responses

    calls: list[Any] = []
    handlers = {code: lambda parts, code=code: calls.append([code, parts]) for code in (0, 5, 16)}
    handle_partition_responses(
        handlers, parts_by_error=parts_by_error, success_handler=lambda parts: calls.append(["success", parts])
    )
    return calls


def received(content: Any, size: int, room: int = 10) -> Any:
    """Return what `recvall_into` reads of a socket that gives two bytes at a time, or raises."""
    from pykafka.utils.socket import recvall_into

    class Socket:
        left = content

        def recv(self, most: int) -> Any:
            if isinstance(self.left, Exception):
                raise self.left
            part, self.left = self.left[: min(most, 2)], self.left[min(most, 2) :]
            return part

    return recvall_into(Socket(), bytearray(room), size)


def _opened_request(content: Any) -> Any:
    # A request to produce: header of 21 bytes, acks, timeout, topics.
    found: list[Any] = [bytes(content[4:31])]
    at = 31
    for _ in range(int.from_bytes(content[27:31], "big")):
        size = int.from_bytes(content[at : at + 2], "big")
        name, at = content[at + 2 : at + 2 + size], at + 2 + size
        count, at = int.from_bytes(content[at : at + 4], "big"), at + 4
        for _ in range(count):
            partition, size = struct.unpack_from("!ii", content, at)
            at += 8
            found.append([bytes(name), partition, opened(content[at : at + size])])
            at += size
    return [*found, bytes(content[at:])]


def opened(content: Any) -> Any:
    """Return the entries of a message set; in place of a compressed value the set that it holds.

    The sizes and checksums of compressed messages are left out, and the time of such a message, which 2.8.0 takes from
    the clock.
    """
    import gzip

    from pykafka.utils import compression

    found = []
    at = 0
    while at < len(content):
        offset, size, crc, magic, attributes = struct.unpack_from("!qiIBB", content, at)
        rest = bytes(content[at + 18 : at + 12 + size])
        at += 12 + size
        if not attributes:
            found.append([offset, size, crc, magic, rest])
            continue
        value = rest[16:] if magic else rest[8:]
        if attributes == 1:
            value = gzip.decompress(value)
        elif attributes == 2:
            value = compression.decode_snappy(value)
        elif attributes == 3:
            value = compression.decode_lz4_old_kafka(value)
        else:
            found.append([offset, magic, attributes])
            continue
        found.append([offset, magic, attributes, rest[8 * magic : 8 * magic + 4], opened(value)])
    return found


def evaluate(expressions: list[str]) -> list[Any]:
    """Return the descriptions of what expressions return or raise."""
    known = names()
    return [describe(attempt(eval, one, dict(known))) for one in expressions]


def main() -> None:
    """Answer each line."""
    for line in sys.stdin:
        print(json.dumps(evaluate(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
