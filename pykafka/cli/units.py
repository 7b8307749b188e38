"""Durations and sizes in users' notation, and settings that may be written in it: `7d` for retention.ms, `1GiB` for bytes."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)w)?(?:(\d+(?:\.\d+)?)d)?t?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?",
    re.IGNORECASE,
)
_MILLISECONDS = re.compile(r"(\d+)ms")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]i?B|B)", re.IGNORECASE)
_PREFIXES = "KMGTP"
#: The words of a setting's name that say its unit, and that unit in milliseconds.
_TIME_UNITS = {"ms": 1, "seconds": 1000, "secs": 1000, "minutes": 60_000, "hours": 3_600_000}
#: The ends of names of settings that count bytes without saying so.
_BYTES_TOO = (".buffer.size", ".receive.size", ".throttled.rate")
_NAMES = {1: "milliseconds", 1000: "seconds", 60_000: "minutes", 3_600_000: "hours"}


def duration(text: str) -> timedelta:
    """Return the duration of "1d12h", "90s" or, as Kafka's own tools write it, "P1DT12H".

    :raises ValueError: the text has another form
    """
    _refuse_months(text)
    found = _DURATION.fullmatch(text.removeprefix("P").removeprefix("p"))
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is no duration; write 1d12h, 90m, 30s or PT1H")
    weeks, days, hours, minutes, seconds = (float(group or 0) for group in found.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def _refuse_months(text: str) -> None:
    if "M" in text.upper().partition("T")[0] and "M" in text:
        raise ValueError(f"M in {text!r} may mean months; write 30d, or 30m for minutes")


def size(text: str) -> int:
    """Return the bytes of "1GiB" (1024 of each), "500MB" (1000 of each) or "100B".

    :raises ValueError: the text has another form, or is no whole number of bytes
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size; write 1GiB, 500MB or a number of bytes")
    number, unit = found.groups()
    power = _PREFIXES.index(unit[0].upper()) + 1 if len(unit) > 1 else 0
    count = Fraction(number) * (1024 if len(unit) == 3 else 1000) ** power
    if count.denominator != 1:
        raise ValueError(f"{text!r} is no whole number of bytes")
    return int(count)


def setting_value(name: str, value: str) -> str:
    """Return the value of a setting as brokers take it: the number that a duration or a size stands for.

    The name says the unit: retention.ms, log.retention.hours, segment.bytes. Values of other settings stay as they are.

    :param name: of the setting
    :param value: as the user writes it
    :raises ValueError: the setting is a duration or a size, and the value is none; the text names the setting
    """
    words = name.split(".")
    is_size = "bytes" in words or name.endswith(_BYTES_TOO)
    unit_ms = next((_TIME_UNITS[word] for word in words if word in _TIME_UNITS), None)
    if not value or _is_number(value) or not (is_size or unit_ms):
        return value
    try:
        return str(size(value) if is_size else _count(value, unit_ms or 1))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}={value}: {error}") from None


def _is_number(text: str) -> bool:
    """Return whether brokers may take a value as it is: some settings of bytes a second have a fraction."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _count(text: str, unit_ms: int) -> int:
    """Return a duration in a unit of time."""
    _refuse_months(text)
    found = _MILLISECONDS.fullmatch(text)
    try:
        milliseconds, rest = (
            (int(found[1]), 0) if found is not None else divmod(duration(text), timedelta(milliseconds=1))
        )
    except ValueError:
        raise ValueError(
            f"{text!r} is no duration; write 7d, 1d12h, 90m, 30s, 500ms or a number of {_NAMES[unit_ms]}"
        ) from None
    if rest:
        raise ValueError(f"{text!r} is no whole number of milliseconds")
    if milliseconds % unit_ms:
        raise ValueError(f"{text!r} is no whole number of {_NAMES[unit_ms]}")
    return milliseconds // unit_ms
