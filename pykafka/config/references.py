"""References to secrets in values: `${NAME}`, `${env:NAME}`, `${file:/path}`, `${file:/path:key}` and `${dir:/path:name}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pykafka.config.files import properties
from pykafka.exceptions import ConfigurationError

_REFERENCE = re.compile(r"\$(?:\$(?=\{)|\{([^{}]*)\})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def resolved(text: str, key: str, environment: Mapping[str, str]) -> str:
    """Return a value with its references replaced; `$${` stands for `${`. What a reference brings is taken as it is.

    :param text: the value
    :param key: its key, for errors
    :param environment: variables by name
    :raises ConfigurationError: a reference leads nowhere; the error names it, and no value
    """

    def replace(found: re.Match[str]) -> str:
        return "$" if found[1] is None else _looked_up(found[1].strip(), key, environment)

    return _REFERENCE.sub(replace, text)


def _looked_up(reference: str, key: str, environment: Mapping[str, str]) -> str:
    kind, colon, rest = reference.partition(":")
    if not colon or kind == "env":
        return _variable(rest if colon else reference, key, environment)
    if kind == "file":
        return _of_file(rest, key)
    if kind == "dir":
        folder, _, name = rest.partition(":")
        return _content(Path(folder, name), key)
    raise ConfigurationError(
        f"{key} refers to ${{{kind}:...}}, which is unknown: write ${{NAME}} or ${{env:NAME}} for a variable of the "
        "environment, ${file:/path} for a file, ${file:/path:key} for a line of a properties file; $${ stands for ${"
    )


def _variable(name: str, key: str, environment: Mapping[str, str]) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{key} has a reference that is no name of a variable; write $${{ where you mean ${{")
    if name not in environment:
        raise ConfigurationError(f"{key} refers to the environment variable {name}, which is not set: set it")
    return environment[name]


def _of_file(reference: str, key: str) -> str:
    path, colon, name = reference.rpartition(":")
    if not colon:
        return _content(Path(reference), key)
    lines = properties(_content(Path(path), key))
    if name not in lines:
        raise ConfigurationError(f"{key} refers to {name!r} in the file {path!r}, which has no such key")
    return lines[name]


def _content(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{key} refers to the file {str(path)!r}, which cannot be read: {reason}") from None
