"""Reading configuration files: `key=value` lines, TOML, JSON and INI, as one flat mapping."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pykafka.config.dialects import pairs_of
from pykafka.config.properties import properties
from pykafka.exceptions import ConfigurationError
from pykafka.utils.redact import concealing

__all__ = ["TABLES", "flat", "properties", "read_file"]

#: Tables that hold a file's configuration of Kafka if it configures other things, too.
TABLES = ("pykafka", "kafka")
#: The section of an INI file for what is of no section; configparser itself knows it in upper case alone.
_NO_SECTION = "default"
#: Endings of files that would be misread as properties: of YAML, quotes and nesting would become parts of passwords.
_YAML = (".yaml", ".yml")


@concealing
def read_file(path: Path) -> dict[str, Any]:
    """Return the configuration in a file: {key: value}.

    :param path: `.toml`, `.json` or `.ini`; other files have `key=value` lines, of a kind that `pairs_of` finds out
    :raises ConfigurationError: it cannot be read
    """
    if path.suffix.lower() in _YAML:
        raise ConfigurationError(
            f"the configuration file {str(path)!r} is YAML, which is not read: write it as .properties, .toml, .json or .ini"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows writes a mark before the text
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"the configuration file {str(path)!r} cannot be read: {reason}") from None
    wrong = ""
    try:
        found = _table(_parsed(text, path))
    except ConfigurationError:
        raise
    except (ValueError, RecursionError, configparser.Error) as error:  # of a long number, neither parser has an error
        wrong = f"not valid {path.suffix.lower().lstrip('.').upper()}{_place(error)}"
    if wrong:  # out here, without a trace of the error: that may show a line of the file, and so a password
        raise ConfigurationError(f"the configuration file {str(path)!r} is {wrong}; correct it")
    if found is None:
        raise ConfigurationError(f"the configuration file {str(path)!r} must be a table of keys and values")
    return found


def _table(content: Any) -> dict[str, Any] | None:
    """Return the keys and values of a file's content, of its own table for clients if it has one; None if it is no table."""
    if not isinstance(content, Mapping):
        return None
    for table in TABLES:
        if isinstance(content.get(table), Mapping):
            return flat(content[table])
    return flat(content)


def _parsed(text: str, path: Path) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".toml":
        return tomllib.loads(text)
    if suffix == ".json":
        return json.loads(text)
    if suffix == ".ini":
        parser = configparser.RawConfigParser(default_section="")  # none whose keys would be those of each section, too
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(text)
        found: dict[str, Any] = {}
        for name in parser.sections():
            _add(found, dict(parser[name]) if name.lower() == _NO_SECTION else {name: dict(parser[name])})
        return found
    return pairs_of(path, text)


def _place(error: Exception) -> str:
    """Return where an error is, as the end of a sentence; "" if that is not known."""
    line: Any = getattr(error, "lineno", None)
    if line is None and isinstance(error, configparser.ParsingError):
        line = error.errors[0][0]
    if line is None:  # of TOML's errors only the text has it
        found = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        line = None if found is None else found[1]
    return "" if line is None else f", line {line}"


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one, with dots between their names: TOML reads `linger.ms = 5` as a table `linger`.

    :raises ConfigurationError: a key is there twice, with two values
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            _add(found, flat(value, f"{prefix}{name}."))
        else:
            _add(found, {f"{prefix}{name}": value})
    return found


def _add(found: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add keys and values; refuse other values of a key that is there, as a table and a dotted name may have them."""
    for name, value in more.items():
        if found.setdefault(name, value) != value:
            raise ConfigurationError(f"the key {name} is there twice, with two values: remove one of them")
