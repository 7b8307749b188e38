"""`Selection`: the topics that a member subscribes to, by names and by patterns. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from pykafka.common import SubscriptionPattern
from pykafka.utils import get_string, is_legal_name

#: A subscription that begins so is a pattern, and no name: no topic can have this name.
PATTERN_SIGN = "^"

Topics = (
    str | bytes | re.Pattern[str] | SubscriptionPattern | Iterable[str | bytes | re.Pattern[str] | SubscriptionPattern]
)


class Selection:
    """The topics of a subscription; immutable but for `matched`.

    A pattern has to match the whole name, as in Kafka's Java client. It matches no internal topic; name such a topic.

    :param topics: names, compiled patterns, and texts that begin with "^", which are patterns; or one of these alone
    :raises TypeError: one is something else, or a compiled pattern is of bytes
    :raises ValueError: there is none; Kafka accepts no topic of that name; a text is no pattern
    """

    def __init__(self, topics: Topics) -> None:
        if isinstance(topics, (str, bytes, re.Pattern, SubscriptionPattern)):
            topics = [topics]
        names: set[str] = set()
        patterns: list[re.Pattern[str]] = []
        #: A pattern that the broker matches, in its own syntax; None for none.
        self.broker_pattern: str | None = None
        for topic in topics:
            if isinstance(topic, SubscriptionPattern):
                self.broker_pattern = topic.pattern
                continue
            if isinstance(topic, re.Pattern):
                patterns.append(_of_text(topic))
                continue
            name = get_string(topic, "a topic to subscribe to")
            if name.startswith(PATTERN_SIGN):
                patterns.append(_compiled(name))
            elif is_legal_name(name):
                names.add(name)
            else:
                raise ValueError(
                    f"Kafka accepts no topic of the name {name!r}: it takes 1 to 249 letters, digits, dots, underscores or "
                    f'hyphens; a pattern begins with "{PATTERN_SIGN}", or is compiled by re.compile()'
                )
        if not names and not patterns and self.broker_pattern is None:
            raise ValueError("subscribe to one topic at least, or to a pattern; unsubscribe() ends a subscription")
        self.names = frozenset(names)
        self.patterns = tuple(patterns)
        #: The topics that the patterns matched when they were last compared with those of the cluster.
        self.matched: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        """Return whether another selection has the same names and patterns."""
        return isinstance(other, Selection) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        """Return the names and patterns as one text, for logs and errors."""
        given = [] if self.broker_pattern is None else [self.broker_pattern]
        return ", ".join([*sorted(self.names), *(pattern.pattern for pattern in self.patterns), *given])

    @property
    def _identity(self) -> tuple[frozenset[str], tuple[re.Pattern[str], ...], str | None]:
        return self.names, self.patterns, self.broker_pattern

    @property
    def topics(self) -> frozenset[str]:
        """The topics to read now."""
        return self.names | self.matched

    def matches(self, names: Iterable[str]) -> frozenset[str]:
        """Return the topics that a pattern matches.

        :param names: of the cluster's topics, without internal ones
        """
        return frozenset(name for name in names if any(pattern.fullmatch(name) for pattern in self.patterns))

    def only_begun(self, names: Collection[str]) -> list[tuple[str, str]]:
        """Return (pattern, topic) where a pattern matches no whole name, but the beginning of this one.

        Other clients than Java's take such a match.

        :param names: of the cluster's topics, without internal ones
        """
        found = []
        for pattern in self.patterns:
            begun = [name for name in names if pattern.match(name)]
            if begun and not any(pattern.fullmatch(name) for name in begun):
                found.append((pattern.pattern, min(begun)))
        return found


def _of_text(pattern: re.Pattern[str]) -> re.Pattern[str]:
    if not isinstance(pattern.pattern, str):
        raise TypeError(f"a pattern of topics must be of str, not of bytes: {pattern.pattern!r}")
    return pattern


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} begins with {PATTERN_SIGN!r}, and is no pattern: {error}") from error
