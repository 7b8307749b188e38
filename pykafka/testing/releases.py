"""`Release`: what the brokers of each release of Kafka speak, as they said it themselves (ApiVersions version 0)."""

from __future__ import annotations

import re
from typing import NamedTuple

from pykafka.protocol.versions import RANGES_0_8_2, RANGES_0_9_0
from pykafka.testing.arguments import is_text


class Release(NamedTuple):
    """One release.

    :param name: as its jars are called
    :param numbers: the same as numbers, to compare
    :param versions: the versions that its brokers speak, by API key
    """

    name: str
    numbers: tuple[int, ...]
    versions: dict[int, range]


#: API key, lowest and highest version, of the APIs that clients call.
_SPOKEN = {
    "0.10.2.2": """
        0:0-2 1:0-3 2:0-1 3:0-2 8:0-2 9:0-2 10:0-0 11:0-1 12:0-0 13:0-0 14:0-0 15:0-0 16:0-0 17:0-0 18:0-0 19:0-1
        20:0-0
    """,
    "0.11.0.3": """
        0:0-3 1:0-5 2:0-2 3:0-4 8:0-3 9:0-3 10:0-1 11:0-2 12:0-1 13:0-1 14:0-1 15:0-1 16:0-1 17:0-0 18:0-1 19:0-2
        20:0-1 21:0-0 22:0-0 23:0-0 24:0-0 25:0-0 26:0-0 28:0-0 29:0-0 30:0-0 31:0-0 32:0-0 33:0-0
    """,
    "1.1.1": """
        0:0-5 1:0-7 2:0-2 3:0-5 8:0-3 9:0-3 10:0-1 11:0-2 12:0-1 13:0-1 14:0-1 15:0-1 16:0-1 17:0-1 18:0-1 19:0-2
        20:0-1 21:0-0 22:0-0 23:0-0 24:0-0 25:0-0 26:0-0 28:0-0 29:0-0 30:0-0 31:0-0 32:0-1 33:0-0 34:0-0 35:0-0
        36:0-0 37:0-0 38:0-0 39:0-0 40:0-0 41:0-0 42:0-0
    """,
    "2.8.2": """
        0:0-9 1:0-12 2:0-6 3:0-11 8:0-8 9:0-7 10:0-3 11:0-7 12:0-4 13:0-4 14:0-5 15:0-5 16:0-4 17:0-1 18:0-3 19:0-7
        20:0-6 21:0-2 22:0-4 23:0-4 24:0-3 25:0-3 26:0-3 28:0-3 29:0-2 30:0-2 31:0-2 32:0-4 33:0-2 34:0-2 35:0-2
        36:0-2 37:0-3 38:0-2 39:0-2 40:0-2 41:0-2 42:0-2 43:0-2 44:0-1 45:0-0 46:0-0 47:0-0 48:0-1 49:0-1 50:0-0
        51:0-0 57:0-0 60:0-0 61:0-0
    """,
    "3.9.2": """
        0:0-11 1:0-17 2:0-9 3:0-12 8:0-9 9:0-9 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-5 16:0-5 17:0-1 18:0-4 19:0-7
        20:0-6 21:0-2 22:0-5 23:0-4 24:0-5 25:0-4 26:0-4 28:0-4 29:0-3 30:0-3 31:0-3 32:0-4 33:0-2 34:0-2 35:0-4
        36:0-2 37:0-3 38:0-3 39:0-2 40:0-2 41:0-3 42:0-2 43:0-2 44:0-1 45:0-0 46:0-0 47:0-0 48:0-1 49:0-1 50:0-0
        51:0-0 57:0-1 60:0-1 61:0-0 65:0-0 66:0-1 68:0-0 69:0-0
    """,
    "4.3.1": """
        0:0-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5 17:0-1 18:0-4
        19:2-7 20:1-6 21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 28:0-5 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 34:1-2
        35:1-5 36:0-2 37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 42:0-2 43:0-2 44:0-1 45:0-1 46:0-0 47:0-0 48:0-1 49:0-1
        50:0-0 51:0-0 55:0-2 57:0-2 60:0-2 61:0-0 65:0-0 66:0-2 68:0-1 69:0-1 74:0-1 75:0-0 76:1-1 77:1-1 78:1-2
        79:1-2 90:0-1 91:0-0 92:0-0
    """,
    "4.4.0": """
        0:0-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5 17:0-1 18:0-5
        19:2-7 20:1-6 21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 28:0-6 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 34:1-2
        35:1-5 36:0-2 37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 42:0-3 43:0-2 44:0-1 45:0-1 46:0-0 47:0-0 48:0-1 49:0-1
        50:0-0 51:0-0 55:0-2 57:0-2 60:0-2 61:0-0 65:0-0 66:0-2 68:0-1 69:0-1 74:0-1 75:0-0 76:1-1 77:1-1 78:1-2
        79:1-2 90:0-1 91:0-0 92:0-0
    """,
}


def _spoken(text: str) -> dict[int, range]:
    found = {}
    for row in text.split():
        key, _, versions = row.partition(":")
        lowest, _, highest = versions.partition("-")
        found[int(key)] = range(int(lowest), int(highest) + 1)
    return found


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


def _ranges(name: str) -> dict[int, range]:
    old = {"0.8.2.2": RANGES_0_8_2, "0.9.0.1": RANGES_0_9_0}.get(name)
    if old is not None:
        return {key: range(lowest, highest + 1) for key, (lowest, highest) in old.items()}
    return _spoken(_SPOKEN[name])


#: The releases that fake brokers play, the oldest first.
RELEASES = tuple(Release(name, _numbers(name), _ranges(name)) for name in ("0.8.2.2", "0.9.0.1", *_SPOKEN))
NEWEST = RELEASES[-1]
_PLAYED = f"fake brokers play {', '.join(one.name for one in RELEASES)}"
_NAME = re.compile(r"[0-9]+(\.[0-9]+){0,3}")


def release(name: str) -> Release:
    """Return the release that a version names, "2.8", "2.8.0" or "2.8.2"; of other series the newest one before it.

    :raises ValueError: it is no text of numbers, older than the oldest series, or newer than the newest one
    """
    if not is_text(name) or not _NAME.fullmatch(name):
        raise ValueError(f'as_version is {name!r}: give a release of Kafka as text, such as "2.8.2"; {_PLAYED}')
    wanted = _numbers(name)
    found = [one for one in RELEASES if one.numbers[: len(wanted)] <= wanted]
    if not found:
        raise ValueError(
            f"as_version is {name!r}, which is older than the oldest release that can be played: {_PLAYED}"
        )
    if wanted[:2] > NEWEST.numbers[: len(wanted[:2])]:
        raise ValueError(
            f"as_version is {name!r}, which is newer than the newest release that can be played: {_PLAYED}"
        )
    # "2.8.0" speaks as 2.8.2 does, not as 1.1.1.
    return next((one for one in RELEASES if one.numbers[:2] == wanted[:2]), found[-1])
