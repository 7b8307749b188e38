"""Values of the command line, `--set KEY=VALUE`, in place of those of the file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from pykafka.spark.pipeline.tables import Problem
from pykafka.spark.references import looks_secret

#: Keys by which one of several tables is named.
_NAMES = ("name", "view")


def override(data: dict[str, Any], text: str, problems: list[Problem]) -> None:
    """Set a value at its place: as TOML if it is valid TOML, else as text.

    :param data: the file, as tomllib parsed it
    :param text: "source.topic=x", or "sink.NAME.path=x" and "sink.2.path=x" where there are several
    :param problems: the list that takes problems
    """
    name, equals, value = text.partition("=")
    # A URL of a database or of a webhook may be a secret as a whole.
    shown = f"{name}=..." if equals and (looks_secret(text) or "://" in value or "@" in value) else text
    place = f"--set {shown}"
    if not equals:
        problems.append(Problem(place, "must be KEY=VALUE, as in source.topic=clicks"))
        return
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no text
        problems.append(Problem(f"--set {shown!a}", "is no UTF-8"))
        return
    # As a table of its own, so that keys may be dotted and quoted as in the file.
    for written in (value, json.dumps(value, ensure_ascii=False)):
        try:
            _merge(data, tomllib.loads(f"{name} = {written}"))
        except tomllib.TOMLDecodeError:
            continue
        except ValueError as error:
            problems.append(Problem(place, str(error)))
        return
    problems.append(Problem(place, f"{name!r} is not a key like source.topic"))


def _merge(data: dict[str, Any], new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and key in data:
            there = data[key]
            if isinstance(there, list) and there and all(isinstance(item, dict) for item in there):
                if len(there) == 1 and not any(_is(there[0], 1, which) for which in value):
                    _merge(there[0], value)  # the only one needs no name, as where it is written [key]
                    continue
                for which, inner in value.items():
                    _merge(_chosen(there, key, which), inner if isinstance(inner, dict) else {which: inner})
            elif isinstance(there, dict):
                _merge(there, value)
            else:
                raise ValueError(f"{key!r} is no table in the file; edit it there")
        else:
            data[key] = value


def _chosen(tables: list[dict[str, Any]], key: str, which: str) -> dict[str, Any]:
    """Return one of several tables, by its name or its number."""
    for number, table in enumerate(tables, 1):
        if _is(table, number, which):
            return table
    raise ValueError(f"there are several tables [[{key}]]: say which, by its name or number, as in {key}.1.KEY=VALUE")


def _is(table: Mapping[str, Any], number: int, which: str) -> bool:
    return which in (str(number), *(table.get(name) for name in _NAMES))
