"""`Pattern`: a client's regular expression for names, which the broker matches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from typing import Final

from pykafka.exceptions import InvalidRegularExpression

#: What Python's expressions have and RE2's have not: looking around, atomic groups, conditions, comments, references back.
_NOT_RE2: Final = re.compile(r"\(\?(?:[=!>#]|<[=!]|P=|\()|(?<!\\)(?:\\\\)*\\[1-9]")
#: What RE2's expressions have and Python's read as something else.
_NOT_PYTHON: Final = re.compile(r"\[\[?:\^?\w+:\]")
#: An escape, a set, the beginning of a group, a repetition, or another character.
_TOKEN: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:P?<\w+>|[\w-]*:?))?|(?:[*+?]|\{\d+(?:,\d*)?\}|\{,\d*\})[?+]?|.",
    re.DOTALL,
)
_COUNTS: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
#: The most characters of a topic's name, and the most repetitions that RE2 takes.
_NAME_LENGTH: Final = 249
_MAX_COUNT: Final = 1000
#: In how many ways an expression may match a name.
_MAX_WAYS: Final = 2 * _NAME_LENGTH**3


class Pattern:
    """An expression in the syntax of RE2, as far as Python's `re` has it, and as far as it is matched in a short time.

    RE2 takes the same time for all expressions, and Python's `re` tries all ways of matching: it would hold the brokers' lock.

    :param text: of the expression
    :param longest: the most characters of a name
    :param field: of the request, for the text of the error
    :raises InvalidRegularExpression: it is none, or one that this cluster does not match
    """

    def __init__(self, text: str, longest: int = _NAME_LENGTH, field: str = "SubscribedTopicRegex") -> None:
        self.text = text
        self._field = field
        try:
            if _NOT_RE2.search(text):
                raise self._refused("RE2 lacks it")
            if found := _NOT_PYTHON.search(text):
                raise self._refused(f"the fake cluster matches with Python's re, which lacks {found[0]}")
            self._compiled = re.compile(text)
            ways = _ways(text, longest)
        except (re.error, OverflowError, RecursionError) as error:
            raise self._refused(f"{error} (the fake cluster matches with Python's re)") from error
        if ways > _MAX_WAYS:
            why = "it repeats what repeats, or has too many repetitions, which the fake cluster takes too long to match"
            raise self._refused(f"{why}; brokers take it")

    def _refused(self, why: str) -> InvalidRegularExpression:
        return InvalidRegularExpression(f"{self._field} `{self.text}` is not a valid regular expression: {why}.")

    def matches(self, names: Iterable[str]) -> set[str]:
        """Return those names that match as a whole."""
        return {name for name in names if self._compiled.fullmatch(name)}


def _ways(text: str, longest: int) -> int:
    """Return in how many ways an expression, which is valid, may match a name at most: an estimate, of which small ones count.

    :raises re.error: RE2 lacks its repetitions
    """
    # Of each open group: the ways of the branches before, of the present branch, and of its last atom.
    groups = [[0, 1, 1]]
    for token in _TOKEN.findall(text):
        group = groups[-1]
        if token == ")":
            before, branch, atom = groups.pop()
            group = groups[-1]
            group[1:] = group[1] * group[2], before + branch * atom
        elif token[0] == "(":
            groups.append([0, 1, 1])
        elif token == "|":
            group[:] = group[0] + group[1] * group[2], 1, 1
        elif token[0] in "*+?" or (token[0] == "{" and len(token) > 1):
            group[2] = _repeated(token, group[2], longest)
        else:
            group[1:] = group[1] * group[2], 1
        group[1:] = min(group[1], _MAX_WAYS + 1), min(group[2], _MAX_WAYS + 1)
    before, branch, atom = groups[0]
    # Counts within counts multiply, also those of nothing.
    counts = prod(max(int(most or least or 1), 1) for least, _, most in _COUNTS.findall(text))
    return max(before + branch * atom, counts * 10)


def _repeated(token: str, ways: int, longest: int) -> int:
    if len(token) > 1 and token[-1] == "+":
        raise re.error(f"RE2 lacks {token}")
    if token[0] == "?":
        return ways + 3  # 1, but these are all tried, while repetitions share the characters of a name
    least, most = 0, longest
    if found := _COUNTS.match(token):
        least = int(found[1] or 0)
        most = int(found[3] or longest) if found[2] else least
        if max(least, most) > _MAX_COUNT:
            raise re.error(f"RE2 takes no more than {_MAX_COUNT} repetitions")
    # A repetition may end at each of its counts, and each time has the ways of what is repeated.
    return max(most - least + (least > 0), 1) * (ways if ways == 1 else ways ** min(most, longest))
