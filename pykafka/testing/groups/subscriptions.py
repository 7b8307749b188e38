"""`Pattern`: a member's regular expression for topics, which the broker matches."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pykafka.exceptions import InvalidRegularExpression

#: What Python's expressions have and RE2's have not: looking around, groups that are not left, and references back.
_NOT_RE2 = re.compile(r"\(\?(?:[=!>]|<[=!]|P=|\()|(?<!\\)(?:\\\\)*\\[1-9]")


class Pattern:
    """An expression in the syntax of RE2, as far as Python's `re` has it.

    :param text: of the expression
    :raises InvalidRegularExpression: it is none
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            if _NOT_RE2.search(text):
                raise InvalidRegularExpression(
                    f"SubscribedTopicRegex `{text}` is not a valid regular expression: RE2 lacks it."
                )
            self._compiled = re.compile(text)
        except re.error as error:
            raise InvalidRegularExpression(
                f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}."
            ) from error

    def matches(self, topics: Iterable[str]) -> set[str]:
        """Return those topics whose whole name matches."""
        return {topic for topic in topics if self._compiled.fullmatch(topic)}
