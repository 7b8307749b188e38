"""References to secrets in values: `${NAME}`, `${env:NAME}`, `${file:/path}`, `${file:/path:key}` and `${dir:/path:name}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pykafka.config.dialects import pairs_of
from pykafka.config.names import plain
from pykafka.exceptions import ConfigurationError

_REFERENCE = re.compile(r"\$(?:\$(?=\{)|\{([^{}]*)\})")
#: The parts of a JAAS text that count here: comments, texts in quotes, words with their references, and single characters.
_JAAS = re.compile(
    r"""//[^\n]*|\#[^\n]*|/\*.*?\*/
    |(?P<quote>["'])(?P<text>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)
    |(?P<word>(?:[^\s"'$\#={};\\]|\$(?![{$])|\$\$(?=\{)|\$\{[^{}]*\})+)|.""",
    re.VERBOSE | re.DOTALL,
)
DOUBLE = '"'
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def resolved(text: str, key: str, environment: Mapping[str, str]) -> str:
    """Return a value with its references replaced; `$${` stands for `${`. What a reference brings is taken as it is.

    In a JAAS text each stands for one value, whatever quotes and signs that has, unless it is the whole text.

    :param text: the value
    :param key: its key, for errors
    :param environment: variables by name
    :raises ConfigurationError: a reference leads nowhere; the error names it, and no value
    """

    def look_up(reference: str) -> str:
        return _looked_up(reference.strip(), key, environment)

    if plain(key).endswith("sasl.jaas.config") and not _REFERENCE.fullmatch(text.strip()):
        return _in_jaas(text, look_up)
    return _REFERENCE.sub(lambda found: "$" if found[1] is None else look_up(found[1]), text)


def brought(text: str, environment: Mapping[str, str]) -> set[str]:
    """Return the values that the references in a text bring; those that lead nowhere bring none.

    :param environment: variables by name
    """
    found = set()
    for reference in _REFERENCE.finditer(text):
        if reference[1] is not None:
            with suppress(ConfigurationError):
                found.add(_looked_up(reference[1].strip(), "", environment))
    return found


def literal(text: str) -> str:
    """Return a text that `resolved` gives back as it is."""
    return re.sub(r"\$(?=\$*\{)", "$$", text)


def in_quotes(text: str) -> str:
    """Return a value, references kept, as it stands between double quotes in a JAAS text."""
    found, at = [], 0
    for reference in _REFERENCE.finditer(text):
        found += [_escaped(text[at : reference.start()], DOUBLE), reference[0]]
        at = reference.end()
    return "".join([*found, _escaped(text[at:], DOUBLE)])


def _in_jaas(text: str, look_up: Callable[[str], str]) -> str:
    """Return a JAAS text with its references replaced; a word that has some becomes a text in quotes."""

    def part(found: re.Match[str]) -> str:
        quote = found["quote"] or DOUBLE

        def replace(inner: re.Match[str]) -> str:
            return "$" if inner[1] is None else _escaped(look_up(inner[1]), quote)

        if found["quote"] is not None:
            return f"{quote}{_REFERENCE.sub(replace, found['text'])}{quote}"
        if found["word"] is None:
            return found[0]
        made = _REFERENCE.sub(replace, found["word"])
        return f"{quote}{made}{quote}" if "${" in found["word"] else made

    return _JAAS.sub(part, text)


def _escaped(value: str, quote: str) -> str:
    """Return a value as it stands between quotes in a JAAS text."""
    for letter, written in (("\\", "\\\\"), (quote, f"\\{quote}"), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(letter, written)
    return value


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
        # Not the kind itself: it may be a part of a password.
        f"{key} has a reference of an unknown kind: write ${{NAME}} or ${{env:NAME}} for a variable of the "
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
    lines = pairs_of(Path(path), _content(Path(path), key), name)
    if name not in lines:
        raise ConfigurationError(f"{key} refers to {name!r} in the file {path!r}, which has no such key")
    return lines[name]


def _content(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{key} refers to the file {str(path)!r}, which cannot be read: {reason}") from None
