"""APIs and errors as a test names them: by Kafka's name, by number, or by class."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

from pykafka.errors.base import ERROR_CODES
from pykafka.protocol import wire
from pykafka.protocol.schema import Request

#: An API: its name ("Produce"), its key, or the class of its requests.
ApiName = int | str | type
#: An error: its name ("NOT_LEADER_OR_FOLLOWER"), its code, or a class of `pykafka.exceptions`.
ErrorName = int | str | type

#: Names of librdkafka and of older releases of Kafka.
_OTHER_NAMES = {
    "NONE": 0,
    "NO_ERROR": 0,
    "UNKNOWN": -1,
    "INVALID_MSG": 2,
    "UNKNOWN_TOPIC_OR_PART": 3,
    "INVALID_MSG_SIZE": 4,
    "NOT_LEADER_FOR_PARTITION": 6,
    "MSG_SIZE_TOO_LARGE": 10,
    "STALE_CTRL_EPOCH": 11,
    "TOPIC_EXCEPTION": 17,
}


@cache
def api_keys() -> dict[str, int]:
    """Return the keys of all APIs by name, in the order of the keys."""
    classes = (getattr(wire, name) for name in wire.__all__)
    keys = {
        made.__name__.removesuffix("Request"): made.api_key
        for made in classes
        if isinstance(made, type) and issubclass(made, Request)
    }
    return dict(sorted(keys.items(), key=lambda pair: pair[1]))


def api_name(key: int) -> str:
    """Return the name of an API; its number as text if it has none here."""
    return next((name for name, number in api_keys().items() if number == key), str(key))


def api_key(api: ApiName) -> int:
    """Return the key of an API.

    :raises ValueError: no API has this name or key, or the class is not that of a request
    """
    known = api_keys()
    key = known.get(api.removesuffix("Request")) if isinstance(api, str) else getattr(api, "api_key", api)
    if isinstance(key, int) and not isinstance(key, bool) and key in known.values():
        return int(key)
    near = get_close_matches(str(api), known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(known)}; a class of requests; a key"
    raise ValueError(f"unknown API {api!r}: {hint}")


@cache
def _codes() -> dict[str, int]:
    return {cls.NAME: code for code, cls in ERROR_CODES.items()} | _OTHER_NAMES


def error_code(error: ErrorName) -> int:
    """Return the code of an error; 0 for "NONE".

    A code may be one that this package does not know, such as a later broker's.

    :raises ValueError: no error has this name, the class has no code, or the number does not fit a response
    """
    code = _codes().get(error) if isinstance(error, str) else getattr(error, "ERROR_CODE", error)
    if not isinstance(code, int) or isinstance(code, bool):
        near = get_close_matches(str(error), _codes())
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(
            f"unknown error {error!r}: use Kafka's name, its code, or an exception class with ERROR_CODE{hint}"
        )
    if not -(2**15) <= code < 2**15:
        raise ValueError(f"no error has code {code}: codes have 16 bits")
    return int(code)
