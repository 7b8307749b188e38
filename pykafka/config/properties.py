"""Java's properties: `key=value` with escapes, comments and lines that continue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

#: What ends a line to Java, and what it calls white space: passwords may hold the rest of what Unicode calls so.
LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
#: Characters that Java's writer escapes, besides control characters.
_WRITTEN = "\\ :=#!"


class Entry(NamedTuple):
    """A key and its value as the file has them, lines joined and escapes kept.

    :param key: with its escapes
    :param value: with its escapes
    :param continues: whether a backslash at the end of a line has joined lines
    """

    key: str
    value: str
    continues: bool

    @property
    def name(self) -> str:
        """The key."""
        return _unescaped(self.key)

    @property
    def text(self) -> str:
        """The value."""
        return _unescaped(self.value)

    @property
    def is_unclear(self) -> bool:
        """Whether a backslash of the value is hardly meant as an escape: Java's writer makes none such of a password."""
        return any(one[1] not in _WRITTEN and len(one[1]) == 1 for one in _ESCAPE.finditer(self.value))


def entries(text: str) -> Iterator[Entry]:
    """Yield the entries of a Java properties file."""
    lines = iter(LINE_END.split(text))
    for raw in lines:
        line = raw.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        continues = _continues(line)
        while _continues(line):
            line = line[:-1] + next(lines, "").lstrip(_BLANKS)
        yield Entry(*_divided(line), continues)


def properties(text: str) -> dict[str, str]:
    """Return the keys and values of a Java properties file; of a key that is there twice, the last value."""
    return {entry.name: entry.text for entry in entries(text)}


def _continues(line: str) -> bool:
    """Return whether a line ends by a backslash that is not escaped itself."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _divided(line: str) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in f"=:{_BLANKS}":
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_BLANKS)
    return line[:at], rest


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text

    def meant(escape: re.Match[str]) -> str:
        letter = escape[1]
        return chr(int(letter[1:], 16)) if len(letter) > 1 else _ESCAPES.get(letter, letter)

    # Java writes a character above U+FFFF as two escapes.
    return _ESCAPE.sub(meant, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
