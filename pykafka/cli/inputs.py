"""Messages in the notation of users: lines of text, or JSON as `consume --format json` writes it. Prints nothing."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

from pykafka.utils import milliseconds
from pykafka.utils.similar import most_similar

#: The fields of a message in JSON; `topic` and `offset` are read and ignored: the command line and the broker decide them.
FIELDS = (
    *("topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers"),
)  # fmt: skip
_HEADER_FIELDS = ("name", "value", "value_base64")

Headers = list[tuple[str, bytes | None]]


class InputLine(NamedTuple):
    """A message to produce; `partition` and `timestamp` (ms) are None where the input does not say them."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | None = None


class InputError(ValueError):
    """A line is not a message; the text says why."""


#: Makes a message of a line without its newline.
Parse = Callable[[bytes], InputLine]


def lines_parser(separator: bytes | None, null: bytes | None) -> Parse:
    """Return a parser of lines: KEY SEPARATOR VALUE, or VALUE alone.

    :param separator: between key and value; None: a line is a value
    :param null: the text that stands for a null value or key; None: no text does
    """

    def parse(line: bytes) -> InputLine:
        if separator is None:
            return InputLine(None, None if line == null else line)
        key, found, value = line.partition(separator)
        if not found:
            raise InputError(f"there is no separator {_shown(separator)} between key and value")
        return InputLine(None if key == null else key, None if value == null else value)

    return parse


def parse_json(line: bytes) -> InputLine:
    """Return the message of a JSON object.

    :raises InputError: it is not such an object
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise InputError('it is not a JSON object; write {"value": "..."}')
    _check_names(data, FIELDS)
    if "value" not in data and "value_base64" not in data:
        raise InputError('it has neither "value" nor "value_base64"; "value": null is a tombstone')
    return InputLine(
        _content(data, "key"),
        _content(data, "value"),
        _headers(data.get("headers")),
        _partition(data.get("partition")),
        _timestamp(data.get("timestamp")),
    )


def _check_names(data: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in data:
        if name not in known:
            similar = most_similar(name, known)
            hint = f"did you mean {similar!r}?" if similar else f"there are {', '.join(known)}"
            raise InputError(f"it has an unknown field {name!r}; {hint}")


def _content(data: dict[str, Any], name: str) -> bytes | None:
    """Return key or value: text, or what is not text as its JSON, or base64."""
    encoded = f"{name}_base64"
    if encoded in data:
        if data.get(name) is not None:
            raise InputError(f"it has both {name!r} and {encoded!r}; give one of them")
        return _from_base64(encoded, data[encoded])
    content = data.get(name)
    if content is None:
        return None
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return _utf8(name, text)


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name!r} has half of a surrogate pair, which UTF-8 cannot express") from None


def _from_base64(name: str, content: Any) -> bytes | None:
    if content is None:
        return None
    try:
        return base64.b64decode(content, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise InputError(f"{name!r} is not base64") from None


def _headers(given: Any) -> Headers | None:
    if given is None or given == []:
        return None
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise InputError('"headers" is no list; write [{"name": "...", "value": "..."}]')
    found: Headers = []
    for header in given:
        if not isinstance(header, dict) or not isinstance(header.get("name"), str):
            raise InputError('a header has no name; write {"name": "...", "value": "..."}')
        _check_names(header, _HEADER_FIELDS)
        _utf8("name", header["name"])
        found.append((header["name"], _content(header, "value")))
    return found


def _partition(given: Any) -> int | None:
    if given is None:
        return None
    if type(given) is not int or given < 0:
        raise InputError(f'"partition" is {given!r}, and no number from 0 on')
    return given


def _timestamp(given: Any) -> int | None:
    if given is None:
        return None
    if type(given) is int:
        moment = given
    else:
        try:
            moment = milliseconds(datetime.fromisoformat(given))
        except (TypeError, ValueError):
            raise InputError(
                f'"timestamp" is {given!r}, and neither YYYY-MM-DDTHH:MM:SS (UTC) nor milliseconds since 1970'
            ) from None
    if not 0 <= moment < 2**63:
        raise InputError(f'"timestamp" {given!r} lies before 1970, or does not fit into 64 bits (ms)')
    return moment


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="backslashreplace"))


def read_lines(file: BinaryIO, limit: int) -> Iterator[bytes | None]:
    """Yield the lines of a file, without their newlines; None for one that is longer than the limit.

    :param limit: the longest line (bytes); of a longer one no more than that is in memory at a time
    """
    while True:
        line = file.readline(limit + 1)
        if not line:
            return
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) <= limit:
            yield line  # the last one
        else:
            while line and not line.endswith(b"\n"):
                line = file.readline(limit + 1)
            yield None
