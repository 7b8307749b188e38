"""Access to one table of a declaration: each wrong key and value becomes a problem with its place."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykafka.spark.references import looks_secret

#: TOML's names of types, for sentences.
_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", dict: "a table", list: "a list"}


@dataclass(frozen=True)
class Problem:
    """A problem of a declaration.

    :param place: table and key, as "[sink] partition_by"
    :param sentence: the problem, and how to correct it
    """

    place: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


class Table:
    """One table, read key by key; `finish` reports the keys that nothing has read.

    :param name: "source", or "" for the top of the file
    :param data: the table as tomllib parsed it
    :param problems: the list that takes problems
    """

    def __init__(self, name: str, data: Mapping[str, Any], problems: list[Problem]) -> None:
        self._name = name
        self._data = data
        self._problems = problems
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def place(self, key: str = "") -> str:
        """Return the place of a key, for people."""
        return " ".join(filter(None, (f"[{self._name}]" if self._name else "", key)))

    def problem(self, key: str, sentence: str) -> None:
        """Note a problem of a key; a sentence that begins with the place has it once."""
        place = self.place(key)
        self._problems.append(Problem(place, sentence.removeprefix(f"{place} ").removeprefix(f"{key} ")))

    def is_wrong(self, key: str) -> bool:
        """Return whether there is a problem of a key, or of something within it."""
        place = self.place(key)
        return any(f"{problem.place} ".startswith(f"{place} ") for problem in self._problems)

    def value(self, key: str, kinds: tuple[type, ...], required: bool = False) -> Any:
        """Return a value of one of these types; None if it is missing or of another type."""
        self._known.append(key)
        if key not in self._data:
            if required:
                self.problem(key, "missing, but required")
            return None
        value = self._data[key]
        # In Python, true is a number.
        if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
            return value
        self.problem(key, f"must be {' or '.join(_KINDS[kind] for kind in kinds)}, not {_shown(key, value)}")
        return None

    def text(self, key: str, default: str = "", required: bool = False) -> str:
        """Return a text that is not empty; the default if it is missing or wrong."""
        value = self.value(key, (str,), required)
        if value is not None and not value.strip():
            self.problem(key, "is empty")
            return default
        return default if value is None else str(value).strip()

    def texts(self, key: str, required: bool = False) -> tuple[str, ...]:
        """Return a list of texts, which may be written as one text; () if it is missing or wrong."""
        value = self.value(key, (str, list), required)
        if value is None:
            return ()
        items = [value] if isinstance(value, str) else value
        if not items or not all(isinstance(item, str) and item.strip() for item in items):
            self.problem(key, f"must be a text, or a list of texts that are not empty, not {_shown(key, value)}")
            return ()
        return tuple(item.strip() for item in items)

    def choice(self, key: str, allowed: Sequence[str], default: str = "", required: bool = False) -> str:
        """Return one of the allowed words; the default if it is missing or another."""
        value = self.text(key, default, required)
        if value == default or value in allowed:
            return value
        self.problem(key, f"must be {' or '.join(map(repr, allowed))}, not {value!r}{_hint(value, allowed)}")
        return default

    def table(self, key: str, required: bool = False) -> Table | None:
        """Return a table within this one; None if it is missing or not a table."""
        value = self.value(key, (dict,), required)
        return None if value is None else Table(self._inner(key), value, self._problems)

    def tables(self, key: str) -> list[Table]:
        """Return the tables of a list, written [[key]]; [] if there are none."""
        value = self.value(key, (list,))
        if value is None:
            return []
        if not all(isinstance(item, dict) for item in value):
            self.problem(key, f"must be tables, each written [[{key}]]")
            return []
        return [Table(f"{self._inner(key)} {number}", item, self._problems) for number, item in enumerate(value, 1)]

    def sections(self, key: str, required: bool = False) -> list[Table]:
        """Return one table, written [key], or several, written [[key]]; [] if it is missing or neither."""
        value = self.value(key, (dict, list), required)
        if isinstance(value, dict):
            return [Table(self._inner(key), value, self._problems)]
        if value is None:
            return []
        if not value or not all(isinstance(item, dict) for item in value):
            self.problem(key, f"must be a table, or several, each written [[{key}]]")
            return []
        # A single one has no number in sentences, however it is written.
        names = [self._inner(key)] if len(value) == 1 else [f"{self._inner(key)} {n}" for n in range(1, len(value) + 1)]
        return [Table(name, item, self._problems) for name, item in zip(names, value, strict=True)]

    def options(self, key: str, nested: bool = False) -> dict[str, str]:
        """Return a table of settings of any name, with values as Spark's text.

        :param nested: whether tables and lists are values too, as JSON
        """
        value = self.value(key, (dict,))
        found = {}
        for name, setting in (value or {}).items():
            if isinstance(setting, (str, bool, int, float)) or (nested and isinstance(setting, (dict, list))):
                found[name] = as_text(setting)
            elif isinstance(setting, dict):
                # In TOML, a.b = 1 is a table a.
                sentence = (
                    "must be a text, a number, true or false, not a table: write the name in quotes if it has dots"
                )
                self.problem(f"{key} {name}", sentence)
            else:
                self.problem(f"{key} {name}", f"must be a text, a number, true or false, not {_shown(name, setting)}")
        return found

    def finish(self) -> None:
        """Note each key that nothing has read."""
        for key in self._data:
            if key not in self._known:
                known = _hint(key, self._known) or f"; known here are {', '.join(sorted(self._known))}"
                self.problem(key, f"not known{known}")

    def _inner(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key


def as_text(value: Any) -> str:
    """Return a value of TOML as the text of an option: JSON for tables and lists."""
    if isinstance(value, str):
        return value
    return json.dumps(value)


def _hint(word: str, known: Sequence[str]) -> str:
    # Compare in lower case: a name in another case is the intended one.
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def _shown(key: str, value: Any) -> str:
    kind = _KINDS.get(type(value), "a date or time")
    return (
        f"{kind} ({value!r})" if isinstance(value, (str, int, float)) and not looks_secret(f"{key} {value}") else kind
    )
