"""Parsers of options' texts: one per kind of value, each `(text, name) -> value`."""

from __future__ import annotations

import re
from collections.abc import Callable

from pykafka.spark.epochs import check_prefix
from pykafka.spark.errors import OptionError
from pykafka.spark.offsets import EARLIEST, LATEST, ByTime, Position, parse_offsets, parse_timestamps
from pykafka.utils import is_legal_name
from pykafka.utils.compression import GZIP, LEVELS

_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_REPLACED = {"(?<": "(?P<", "\\z": "\\Z"}


def text_of(text: str, name: str) -> str:
    """Return any text that is not empty."""
    if not text.strip():
        raise OptionError(f"option {name!r} is empty")
    return text.strip()


def transactional_prefix(text: str, name: str) -> str:
    """Return the prefix of transactional ids."""
    prefix = text_of(text, name)
    try:
        check_prefix(prefix)
    except ValueError as error:
        raise OptionError(f"option {name!r} {error}, but is {prefix!r}") from None
    return prefix


def verbatim(text: str, name: str) -> str:
    """Return the text as it is: a password, a certificate, or nothing."""
    return text


def boolean(text: str, name: str) -> bool:
    """Return true or false."""
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f"option {name!r} must be true or false, not {text!r}")
    return value == "true"


def number(lowest: int, highest: int = 2**63 - 1) -> Callable[[str, str], int]:
    """Return a parser of whole numbers within bounds."""

    def parse(text: str, name: str) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            raise OptionError(f"option {name!r} must be a whole number, not {text!r}") from None
        if not lowest <= value <= highest:
            raise OptionError(f"option {name!r} must be at least {lowest} and at most {highest}, not {value}")
        return value

    return parse


def compression_level(codec: int) -> Callable[[str, str], int | None]:
    """Return a parser of the levels of a codec; Java's -1 for gzip is that codec's own."""
    parse_level = number(*LEVELS[codec])

    def parse(text: str, name: str) -> int | None:
        return None if codec == GZIP and text.strip() == "-1" else parse_level(text, name)

    return parse


def milliseconds(text: str, name: str) -> int:
    """Return a time in ms, from a number of ms or a number with one of Spark's units."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _UNITS_MS or int(match[1]) == 0:
        raise OptionError(f"option {name!r} must be a positive time in ms, or like 120s or 2min, not {text!r}")
    return int(match[1]) * _UNITS_MS[match[2]]


def topic(text: str, name: str) -> str:
    """Return a topic's name."""
    value = text.strip()
    if not is_legal_name(value):
        raise OptionError(
            f"option {name!r} has {value!r}, which cannot be a topic: names are 1 to 249 letters, digits, dots, "
            "dashes and underscores"
        )
    return value


def topics(text: str, name: str) -> tuple[str, ...]:
    """Return the topics of a comma-separated list, each once."""
    found = dict.fromkeys(topic(part, name) for part in text.split(",") if part.strip())
    if not found:
        raise OptionError(f"option {name!r} names no topic; write them like 'topicA,topicB'")
    return tuple(found)


def pattern(text: str, name: str) -> re.Pattern[str]:
    """Return a regular expression with Java's meaning."""
    try:
        return compiled(text_of(text, name))
    except (re.error, OverflowError, RecursionError) as error:  # counts or nesting beyond Python's limits
        raise OptionError(
            f"option {name!r} is {text!r}, which is not a regular expression that can be used here: {error}"
        ) from error


def position(text: str, name: str) -> Position:
    """Return the start or end of a read: earliest, latest, a time before now, or offsets per partition."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    if word.startswith("{"):
        return parse_offsets(text, name)
    ago = re.fullmatch(r"-\s*(\d+)\s*([a-z]+)", word)
    if ago is not None and ago[2] in _UNITS_MS and int(ago[1]) > 0:
        return ByTime(int(ago[1]) * _UNITS_MS[ago[2]], ago=True, latest_where_none=True, option=name)
    raise OptionError(
        f"option {name!r} must be 'earliest', 'latest', JSON like {{\"topicA\":{{\"0\":23}}}} or a time before now like "
        f"'-15min' (s, min, h, d), not {text!r}"
    )


def timestamp(text: str, name: str) -> ByTime:
    """Return a time for all partitions (ms since 1970)."""
    return ByTime(number(0)(text, name), option=name)


def timestamps(text: str, name: str) -> ByTime:
    """Return a time for each partition (ms since 1970)."""
    return ByTime(parse_timestamps(text, name), option=name)


def one_of(*values: str, unnamed: tuple[str, ...] = ()) -> Callable[[str, str], str]:
    """Return a parser of some words, in any case.

    :param unnamed: words that are also accepted, and that the error does not mention
    """

    def parse(text: str, name: str) -> str:
        value = text.strip().lower()
        if value not in values + unnamed:
            raise OptionError(f"option {name!r} must be {' or '.join(one or 'empty' for one in values)}, not {text!r}")
        return value

    return parse


def compiled(text: str) -> re.Pattern[str]:
    """Return a Java pattern compiled by Python.

    :param text: as `java.util.regex.Pattern` takes it
    :raises re.error: it is malformed, or Python has no equivalent
    """
    return re.compile(translated(text), re.ASCII)


def translated(text: str) -> str:
    """Return the pattern in Python's syntax; errors as in `compiled`."""
    found: list[str] = []
    at = 0
    in_class = False
    while at < len(text):
        if text.startswith("\\Q", at):
            end = text.find("\\E", at + 2)
            found.append(re.escape(text[at + 2 : end if end >= 0 else len(text)]))
            at = end + 2 if end >= 0 else len(text)
            continue
        piece = _piece(text, at, in_class)
        if len(piece) == 1 and piece in "[]":
            # A "]" in the first place of a class is one of its characters.
            in_class = piece == "["
        found.append(_REPLACED.get(piece, piece) if not in_class else piece)
        at += len(piece)
        if piece == "[":
            first = re.match(r"\^?\]?", text[at:])
            assert first is not None
            found.append(first[0])
            at += len(first[0])
    return "".join(found)


def _piece(text: str, at: int, in_class: bool) -> str:
    # One step: an escape, the beginning of a named group, or one character.
    if text[at] == "\\":
        if text.startswith("\\k<", at):
            raise re.error("references to groups by name are not supported; write \\1", text, at)
        return text[at : at + 2]
    if in_class and (text[at] == "[" or text.startswith("&&", at)):
        raise re.error("classes within classes and their intersections (&&) are Java's alone", text, at)
    if not in_class and text.startswith("(?<", at) and text[at + 3 : at + 4] not in ("=", "!"):
        return "(?<"
    return text[at]
