"""`Settings`: the options of a class as data, each with its default, its check and its description in one place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Self

from pykafka.utils.error_handlers import valid_int
from pykafka.utils.redact import concealing

#: `(value, name) -> the value to keep`; raises TypeError or ValueError, by name.
Check = Callable[[Any, str], Any]
#: The highest number of the fields of a request that hold times and sizes.
INT32_MAX = 2**31 - 1


def setting(default: Any, check: Check, meaning: str, *, allowed: str = "", costs: str = "") -> Any:
    """Return a field of a `Settings` class.

    :param default: as the constructors that have this parameter give it
    :param check: applied to each value
    :param meaning: what a user reads of it, with its unit
    :param allowed: the values that `check` takes, where type and `check` do not say it (docs/configuration.md)
    :param costs: what another value costs, or trades for what (docs/configuration.md)
    """
    return field(default=default, metadata={"check": check, "meaning": meaning, "allowed": allowed, "costs": costs})


def meaning_of(kind: type[Settings], name: str) -> str:
    """Return the description of a setting for users."""
    return next(str(one.metadata["meaning"]) for one in fields(kind) if one.name == name)


@dataclass(frozen=True)
class Settings:
    """Base of settings: checks each value on creation.

    :raises TypeError, ValueError: a value is out of bounds, by name
    """

    def __post_init__(self) -> None:
        """Check all values."""
        for one in fields(self):
            self._set(one.name, one.metadata["check"](getattr(self, one.name), one.name))
        self._check_together()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_together(self) -> None:
        """Check combinations of values."""

    @classmethod
    @concealing
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Return the settings among a constructor's arguments.

        :param arguments: {name: value}, as `locals()` gives them; others are left out
        :raises TypeError, ValueError: a value is out of bounds, by name
        """
        return cls(**{one.name: arguments[one.name] for one in fields(cls) if one.name in arguments})


def anything(value: Any, name: str) -> Any:
    """Accept any value."""
    return value


def at_least_0(value: Any, name: str) -> int:
    """Accept an int from 0 on."""
    return valid_int(value, allow_zero=True, name=name)


def above_0(value: Any, name: str) -> int:
    """Accept an int from 1 on."""
    return valid_int(value, name=name)


def integer(value: Any, name: str) -> int:
    """Accept any int."""
    return valid_int(value, allow_zero=True, allow_negative=True, name=name)


def at_least_0_or_minus_1(value: Any, name: str) -> int:
    """Accept an int from 0 on, or -1, which stands for no limit."""
    if integer(value, name) < -1:
        raise ValueError(f"{name} must be -1, or 0 or more, not {value}")
    return int(value)


def up_to(highest: int, check: Check, value: Any, name: str) -> int:
    """Return an int that a check accepts, and that is no higher than another.

    :param highest: the highest that will do
    """
    found = int(check(value, name))
    if found > highest:
        raise ValueError(f"{name} must be at most {highest}, not {value}")
    return found


def one_of(values: Collection[str], value: Any, name: str) -> str:
    """Return a value that is one of some texts.

    :param values: the texts
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, values))}, not {type(value).__name__}: {value!r}")
    if value not in values:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, values))}, not {value!r}")
    return value


def optional(check: Check) -> Check:
    """Return a check that also accepts None."""
    return partial(_optional, check)


def _optional(check: Check, value: Any, name: str) -> Any:
    return None if value is None else check(value, name)


def passed_on(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a constructor's arguments for the constructor of its base.

    :param arguments: as `locals()` gives them
    """
    return {name: value for name, value in arguments.items() if name not in {"self", "__class__"}}
