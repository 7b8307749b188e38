"""The arguments of calls of `KafkaConsumer`, checked where they enter."""

from __future__ import annotations

import re
from typing import Any

from pykafka.common import SubscriptionPattern
from pykafka.utils import get_string


def unpacked(topics: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a list holds, where it stands alone, as other clients take it: `subscribe(["a", "b"])`."""
    lone = topics[0] if len(topics) == 1 else None
    return tuple(lone) if isinstance(lone, (list, tuple, set, frozenset)) else topics


def valid_topics(topics: tuple[Any, ...]) -> tuple[tuple[str, ...], re.Pattern[str] | SubscriptionPattern | None]:
    """Return names of topics, or a pattern.

    :raises TypeError: one is neither a name nor a pattern
    :raises ValueError: there is none, or there are several patterns
    """
    if any(isinstance(one, SubscriptionPattern) for one in topics):
        return (), valid_pattern(topics)
    for one in topics:
        if not (isinstance(one, str) or (isinstance(one, re.Pattern) and isinstance(one.pattern, str))):
            raise TypeError(
                f"topics must be names, or one pattern (re.compile(...), or a text that begins with ^), not {one!r}"
                + ("; unpack the list: consumer(*names)" if isinstance(one, (list, tuple, set)) else "")
            )
    patterns = [one for one in topics if isinstance(one, re.Pattern) or one.startswith("^")]
    if patterns and len(topics) > 1:
        raise ValueError("give names of topics, or one pattern: several patterns are one with | between them")
    if not topics or "" in topics:
        raise ValueError("topics must be names, or one pattern; unsubscribe() reads nothing")
    if patterns:
        try:
            return (), re.compile(patterns[0])
        except re.error as error:
            raise ValueError(f"the pattern {patterns[0]!r} of topics is malformed: {error}") from error
    return tuple(dict.fromkeys(map(get_string, topics))), None


def valid_pattern(topics: tuple[Any, ...]) -> SubscriptionPattern:
    """Return the pattern for the broker that stands alone.

    :raises TypeError, ValueError: it does not, or is no text
    """
    if len(topics) > 1:
        raise ValueError("give names of topics, or one SubscriptionPattern")
    found: SubscriptionPattern = topics[0]
    if not isinstance(found.pattern, str):
        raise TypeError(f"SubscriptionPattern takes a text in the syntax of RE2/J, not {found.pattern!r}")
    if not found.pattern:
        raise ValueError("SubscriptionPattern must not be empty")
    return found
