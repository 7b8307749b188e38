"""Java's regular expressions in Python: syntax with the same meaning is translated, other syntax is refused.

Patterns match names of topics only: letters, digits, dots, dashes and underscores. Java and Python differ in characters
beyond ASCII, which such names do not have.
"""

from __future__ import annotations

import re


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


_REPLACED = {"(?<": "(?P<", "\\z": "\\Z"}


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
