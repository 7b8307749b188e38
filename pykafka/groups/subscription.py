"""`Subscription`: the topics that a member subscribes to, by names and by patterns. Does no I/O."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from pykafka.common import SubscriptionPattern
from pykafka.exceptions import KafkaException
from pykafka.metadata.topics import INTERNAL_PREFIX
from pykafka.utils import get_string, is_legal_name

if TYPE_CHECKING:
    from pykafka.groups.group_topics import SharedTopics
    from pykafka.metadata.cluster import BaseCluster


#: A subscription that begins so is a pattern, and no name: no topic can have this name.
PATTERN_SIGN = "^"

Topics = (
    str | bytes | re.Pattern[str] | SubscriptionPattern | Iterable[str | bytes | re.Pattern[str] | SubscriptionPattern]
)

log = logging.getLogger(__name__)

#: How often a member looks at metadata for partitions and topics that have come or gone (s).
LOOK_S = 1.0


class Subscription:
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
        return isinstance(other, Subscription) and self._identity == other._identity

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


class TopicWatch:
    """The topics of one member's selection, as the cluster has them.

    State: belongs to the worker that serves.

    :param cluster: that has the topics
    :param group_id: the group, for logs
    :param topics: what this member has shared out as the leader
    :param max_age_s: how often patterns are compared with the cluster's topics (s)
    """

    def __init__(self, cluster: BaseCluster, group_id: str, topics: SharedTopics, max_age_s: float) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._topics = topics
        self._max_age_s = max_age_s
        #: The topics of which the application was told that it may not read them.
        self.refused_names: frozenset[str] = frozenset()
        #: When to look again (s, by the handler's clock).
        self.look_at = -1.0
        self._match_at = -1.0

    def hurry(self) -> None:
        """Look at once, for another selection."""
        self.look_at = self._match_at = -1.0

    def forget(self) -> None:
        """Begin anew: the application is told again of what it may not read."""
        self.refused_names = frozenset()
        self.hurry()

    def is_due(self) -> bool:
        """Return whether it is time to look."""
        return self._cluster.handler.now() >= self.look_at

    def have_changed(self, selection: Subscription, left_ms: Callable[[], int | None]) -> bool:
        """Return whether topics or partitions have come or gone since the group shared out.

        :param left_ms: returns how long the brokers may be asked (ms); None for the client's socket timeout
        """
        now = self._cluster.handler.now()
        if selection.patterns and now >= self._match_at:
            self._match(selection, now, left_ms())
        self.look_at = now + LOOK_S
        changed = self._topics.have_changed(selection.topics, left_ms())
        if changed:
            log.info("group %s: topics or partitions have come or gone", self._group_id)
        return changed

    def refused(self, selection: Subscription) -> list[Exception]:
        """Return errors of topics that the brokers do not let this client read: once, until they do."""
        errors = {name: self._cluster.topic_error(name) for name in sorted(selection.names)}
        refused = {name: error for name, error in errors.items() if error is not None and not error.retriable}
        fresh: list[Exception] = [error for name, error in refused.items() if name not in self.refused_names]
        self.refused_names = frozenset(refused)
        return fresh

    def _match(self, selection: Subscription, now: float, timeout_ms: int | None) -> None:
        """Compare patterns with the topics of the cluster."""
        try:
            found = self._cluster.ask_metadata(None, timeout_ms).topics
        except KafkaException as error:
            if not self._cluster.may_pass(error):
                raise
            text = "group %s: the cluster's topics cannot be compared with the pattern: %s"
            self._cluster.limiter.warn(log, self._group_id, text, self._group_id, error)
            return
        names = [
            one.name for one in found if one.name and not one.is_internal and not one.name.startswith(INTERNAL_PREFIX)
        ]
        # a broker that has just started, or is cut off, knows fewer: those known stay until they are gone for sure
        stay = {name for name in selection.matched if not self._topics.is_gone(name)}
        matched = selection.matches(names) | stay
        if matched != selection.matched:
            log.info("group %s: %r matches %s", self._group_id, selection, ", ".join(sorted(matched)))
        for pattern, name in selection.only_begun(names):
            text = "group %s: the pattern %r matches no whole name of a topic, as it has to; it matches the beginning of %s"
            self._cluster.limiter.warn(log, f"{self._group_id} {pattern}", text, self._group_id, pattern, name)
        selection.matched = matched
        self._match_at = now + self._max_age_s
