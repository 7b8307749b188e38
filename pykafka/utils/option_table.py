"""`Options`: a table of options, one row each: default, check, names and description in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial, wraps
from typing import Any, ClassVar, NamedTuple, ParamSpec, Self

from pykafka.utils.error_handlers import valid_int
from pykafka.utils.hints import not_by_a_client, unknown_option

P = ParamSpec("P")

#: `(value, name) -> the value to keep`; raises TypeError or ValueError, by name.
Check = Callable[[Any, str], Any]
#: The highest number of the fields of a request that hold times and sizes.
INT32_MAX = 2**31 - 1


class Row(NamedTuple):
    """An option as one kind of class has it.

    :param field: its name in the `Options`
    :param name: the parameter's name; "" if the class has no such parameter
    :param type: the parameter's type
    :param default: the value of a parameter that the caller leaves out
    :param check: applied to each value
    :param meaning: for users, with its unit
    :param allowed: the values that `check` takes, if type and `check` do not say it
    :param costs: what another value costs, or trades for what
    :param other: its keys in configurations of other clients
    """

    field: str
    name: str
    type: str
    default: Any
    check: Check
    meaning: str
    allowed: str
    costs: str
    other: tuple[str, ...] = ()


class _ByFace(dict[str, Any]):
    """Values of a row that differ between the classes that have the option: {face: value}."""

    __hash__ = object.__hash__  # type: ignore[assignment] # dataclasses refuse defaults that have no hash


def option(
    default: Any,
    check: Check | dict[str, Check],
    meaning: str | dict[str, str],
    *,
    allowed: str | dict[str, str] = "",
    costs: str | dict[str, str] = "",
    names: dict[str, str] | None = None,
    takes: str | dict[str, str] = "",
    other: tuple[str, ...] = (),
) -> Any:
    """Return a row of the table of options: a field of an `Options` class.

    `python tools/options.py` makes signatures, `:param` lines, TypedDicts and docs/configuration.md from the rows. A dict has a
    value for each face: "client", "producer", "consumer", "share", "parallel"; of PyKafka 2 "topic" for all classes of one
    topic, "group" for both balanced consumers, "zookeeper" and "managed" for one of them, "rdkafka".

    :param default: of the parameter
    :param check: applied to each value
    :param meaning: for users, with its unit
    :param allowed: the values that `check` takes, if type and `check` do not say it
    :param costs: what another value costs, or trades for what
    :param names: {face: the parameter's name there}; by default that of the field; "" if the face has no such parameter
    :param takes: the parameter's type, if it differs from the field's
    :param other: its keys in other clients, in lower case with dots: configurations may have them, and errors name the option
    """
    given = {"default": default, "check": check, "meaning": meaning, "allowed": allowed, "costs": costs}
    metadata = {"names": names or {}, "takes": takes, "other": other, **given}
    return field(default=_ByFace(default) if isinstance(default, dict) else default, metadata=metadata)


def parameters_of(cls: type[Any]) -> frozenset[str]:
    """Return the names of a constructor's parameters; `inspect` takes 0.1 ms to find them, so it does that once a class."""
    kind: Any = cls  # a hashable class, whatever its instances are
    return _parameters_of(kind)


@cache
def _parameters_of(cls: type[Any]) -> frozenset[str]:
    return frozenset(inspect.signature(cls).parameters)


@dataclass(frozen=True)
class Options:
    """Base of tables of options: checks each value on creation.

    :raises TypeError, ValueError: a value is out of bounds, by name
    """

    #: How rows are looked up that differ by face: the first that they have.
    FACES: ClassVar[tuple[str, ...]] = ("topic",)

    def __post_init__(self) -> None:
        """Check all values."""
        for row in self.rows():
            value = getattr(self, row.field)
            if isinstance(value, _ByFace):
                value = row.default
            self._set(row.field, row.check(value, row.name or row.field))
        self._check_together()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_together(self) -> None:
        """Check combinations of values."""

    @classmethod
    def rows(cls, faces: tuple[str, ...] = ()) -> tuple[Row, ...]:
        """Return all rows, also those without a parameter.

        :param faces: as `FACES`, which is the default
        """
        kind: Any = cls  # a hashable class, whatever its instances are
        return _rows(kind, faces or cls.FACES)

    @classmethod
    def elsewhere(cls) -> dict[str, str]:
        """Return {name of an option in another client, or in another class here: its name in this class}."""
        rows = [row for row in cls.rows() if row.name]
        found = {key.replace(".", "_"): row.name for row in rows for key in (row.field, *row.other)}
        return {name: own for name, own in found.items() if name != own}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the options among a call's arguments.

        :param given: {name: value}; others are left out
        :raises TypeError, ValueError: a value is out of bounds, by name
        """
        found = {}
        for row in cls.rows():
            if row.name in given:
                found[row.field] = given[row.name]
        return cls(**found)


@cache
def _rows(kind: Any, faces: tuple[str, ...]) -> tuple[Row, ...]:
    rows = []
    for field_ in fields(kind):
        values = dict(field_.metadata)
        for part, value in field_.metadata.items():
            if isinstance(value, dict):
                values[part] = field_.name if part == "names" else ""
                for face in reversed(faces):  # the first one that has a value counts
                    values[part] = value.get(face, values[part])
        name, kinds = values.pop("names"), values.pop("takes") or str(field_.type).replace("'", '"')
        rows.append(Row(field_.name, name, kinds, **values))
    return tuple(rows)


def collected(
    build: Callable[..., None], *tables: type[Options], more: Mapping[str, str] | None = None
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator for a constructor without a body: `build` gets its arguments, the options among them as one dict.

    The signature is for readers, editors and checkers.

    :param build: a method; its last parameter gets {name: value} of the parameters that it does not name itself
    :param tables: with the options
    :param more: what other clients' names are here that no row has
    """
    own = build.__code__.co_varnames[: build.__code__.co_argcount - 1]

    def decorator(constructor: Callable[P, None]) -> Callable[P, None]:
        function: Any = constructor
        code = function.__code__
        positional, every = code.co_varnames[: code.co_argcount], code.co_varnames
        values = function.__defaults__ or ()
        defaults = {
            **dict(zip(positional[len(positional) - len(values) :], values, strict=True)),
            **function.__kwdefaults__,
        }

        def error(first: Any, unknown: Collection[str]) -> TypeError:
            cls = function.__qualname__.partition(".")[0]
            meant = {name: ours for table in tables for name, ours in table.elsewhere().items()} | dict(more or {})
            if unknown and hasattr(first, "handler"):
                return unknown_option(f"{cls}()", unknown, every, meant)
            return not_by_a_client(cls, first, unknown, meant)

        @wraps(constructor)
        def call(*args: P.args, **given: P.kwargs) -> None:
            arguments = {**dict(zip(positional, args, strict=False)), **given}
            unknown = given.keys() - set(every)
            if unknown or not hasattr(arguments.get("cluster"), "handler"):
                raise error(arguments.get("cluster", args[1] if len(args) > 1 else None), unknown)
            constructor(*args, **given)  # Python checks the rest
            arguments = {**defaults, **arguments}
            build(*[arguments.pop(name) for name in own], arguments)

        return call

    return decorator


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
