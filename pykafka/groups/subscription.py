"""`Subscription`: the topics that a member subscribes to, and what the cluster knows of them: `GroupTopics`, `TopicWatch`."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykafka.common import SubscriptionPattern
from pykafka.exceptions import KafkaException
from pykafka.metadata.topics import INTERNAL_PREFIX
from pykafka.network.patience import Patience
from pykafka.utils import get_string, is_legal_name

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster


#: A subscription that begins so is a pattern, and no name: no topic can have this name.
PATTERN_SIGN = "^"

Topics = (
    str | bytes | re.Pattern[str] | SubscriptionPattern | Iterable[str | bytes | re.Pattern[str] | SubscriptionPattern]
)

log = logging.getLogger(__name__)

#: How often a member checks the metadata for partitions and topics that have come or gone (s).
TOPICS_POLL_INTERVAL_S = 1.0
#: Metadata must lack a topic for this long (s), and in this many answers, before a member believes that it is deleted: a broker
#: that has just started, or is cut off from the others, answers as well.
DELETED_AFTER_S = 5.0
DELETED_ANSWERS = 3
#: How often a member asks the cluster about a topic that it does not know (s): until it counts as deleted, and after that.
MISSING_POLL_INTERVAL_S = 1.0
DELETED_POLL_INTERVAL_S = 3.0


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
        """Return whether another subscription has the same names and patterns."""
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

    def prefix_matches(self, names: Collection[str]) -> list[tuple[str, str]]:
        """Return (pattern, topic) for each pattern that matches no whole name, but the beginning of this topic's.

        Clients other than Java's accept such a match.

        :param names: of the cluster's topics, without internal ones
        """
        matches = []
        for pattern in self.patterns:
            prefixed = [name for name in names if pattern.match(name)]
            if prefixed and not any(pattern.fullmatch(name) for name in prefixed):
                matches.append((pattern.pattern, min(prefixed)))
        return matches


def _of_text(pattern: re.Pattern[str]) -> re.Pattern[str]:
    if not isinstance(pattern.pattern, str):
        raise TypeError(f"a pattern of topics must be of str, not of bytes: {pattern.pattern!r}")
    return pattern


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!r} begins with {PATTERN_SIGN!r}, and is no pattern: {error}") from error


@dataclass
class MissingTopic:
    """A topic that metadata lacks: since when, when the member last asked the cluster (s), and how often it answered so."""

    since: float
    asked_at: float
    answers: int = 0


class GroupTopics:
    """A member's view of topics: a topic counts as deleted only when the cluster has said so for a while.

    State: belongs to the worker that polls.

    :param cluster: that has them, or had
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
        self._now = cluster.handler.now
        self._missing: dict[str, MissingTopic] = {}
        self._seen: dict[str, list[int]] = {}
        #: The topics that this member has assigned as the leader: {topic: number of partitions}.
        self.assigned_topics: dict[str, int] = {}

    def have_changed(self, names: Iterable[str] = (), timeout_ms: int | None = None) -> bool:
        """Return whether a topic that this member has assigned has another number of partitions now; once for each change.

        :param names: of other topics to check
        :param timeout_ms: for asking about those that metadata lacks; by default each broker has the socket timeout
        """
        due = list(filter(self._is_due, {*names, *self.assigned_topics}))
        if due:
            self._ask(due, timeout_ms)
        for name, count in self.assigned_topics.items():
            if self._count(name, count) != count:
                self.assigned_topics = {}
                return True
        return False

    def _ask(self, due: list[str], timeout_ms: int | None) -> None:
        """Ask the cluster about topics that the metadata lacks."""
        try:
            self._cluster.update(due, timeout_ms)
        except KafkaException as error:
            text = "topics %s are not in the metadata, and the cluster does not answer: %s"
            log.info(text, ", ".join(sorted(due)), error)
            return
        for name in due:
            self._missing[name].answers += self._cluster.topic_metadata(name) is None

    def _is_due(self, name: str) -> bool:
        """Return whether metadata lacks a topic, and it is time to ask the cluster about it."""
        if self._cluster.topic_metadata(name) is not None:
            if self._missing.pop(name, None) is not None:
                log.info("topic %s is there again", name)
            return False
        now = self._now()
        missing = self._missing.setdefault(name, MissingTopic(now, -math.inf))
        if now - missing.asked_at < (DELETED_POLL_INTERVAL_S if self.is_deleted(name) else MISSING_POLL_INTERVAL_S):
            return False
        missing.asked_at = now
        return True

    def is_missing(self, name: str) -> bool:
        """Return whether the cluster has just answered that a topic does not exist; it may be wrong."""
        missing = self._missing.get(name)
        return missing is not None and missing.answers > 0

    def is_deleted(self, name: str) -> bool:
        """Return whether a topic does not exist any more."""
        missing = self._missing.get(name)
        return (
            missing is not None
            and missing.answers >= DELETED_ANSWERS
            and self._now() - missing.since >= DELETED_AFTER_S
        )

    def ids(self, name: str) -> list[int]:
        """Return the ids of a topic's partitions; if metadata lacks the topic and it is not deleted, the former ones."""
        metadata = self._cluster.topic_metadata(name)
        if metadata is not None:
            self._seen[name] = list(metadata.partitions)
        elif self.is_deleted(name):
            self._seen.pop(name, None)
        return self._seen.get(name, [])

    def _count(self, name: str, before: int) -> int:
        """Return how many partitions a topic has; if metadata lacks it and it is not deleted, `before`."""
        metadata = self._cluster.topic_metadata(name)
        if metadata is not None:
            return len(metadata.partitions)
        return 0 if self.is_deleted(name) else before


class TopicWatch:
    """The topics of one member's subscription, as the cluster has them.

    State: belongs to the worker that polls.

    :param cluster: that has the topics
    :param group_id: the group, for logs
    :param topics: the member's view of topics
    :param max_age_s: how often patterns are compared with the cluster's topics (s)
    """

    def __init__(self, cluster: BaseCluster, group_id: str, topics: GroupTopics, max_age_s: float) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._topics = topics
        self._max_age_s = max_age_s
        #: The topics whose authorization errors the application has got.
        self.refused_names: frozenset[str] = frozenset()
        #: When to check again (s, by the handler's clock).
        self.check_at = -1.0
        self._match_at = -1.0
        # Asks for calls whose own time is too short, and the topics that it has found; None for none.
        self._patience = Patience(cluster.handler, "topics for patterns")
        self._listed: list[Any] | None = None

    def hurry(self) -> None:
        """Check at once, for another subscription."""
        self.check_at = self._match_at = -1.0

    def forget(self) -> None:
        """Forget reported errors: the application gets them again."""
        self.refused_names = frozenset()
        self.hurry()

    def is_due(self) -> bool:
        """Return whether it is time to check."""
        return self._cluster.handler.now() >= self.check_at

    def have_changed(self, subscription: Subscription, left_ms: Callable[[], int | None]) -> bool:
        """Return whether topics or partitions have come or gone since the last assignment.

        :param left_ms: returns the time limit for asking brokers (ms); None for the client's socket timeout
        """
        now = self._cluster.handler.now()
        if subscription.patterns and now >= self._match_at:
            self._match(subscription, now, left_ms())
        self.check_at = now + TOPICS_POLL_INTERVAL_S
        changed = self._topics.have_changed(subscription.topics, left_ms())
        if changed:
            log.info("group %s: topics or partitions have come or gone", self._group_id)
        return changed

    def refused(self, subscription: Subscription) -> list[Exception]:
        """Return errors of topics that this client may not read: once, until it may."""
        refused = set()
        fresh: list[Exception] = []
        for name in sorted(subscription.names):
            error = self._cluster.topic_error(name)
            if error is not None and not error.retriable:
                refused.add(name)
                if name not in self.refused_names:
                    fresh.append(error)
        self.refused_names = frozenset(refused)
        return fresh

    def _list(self, timeout_ms: int | None) -> list[Any] | None:
        """Return the topics of the cluster; None while a worker asks for them."""
        over = timeout_ms is None or self._patience.wait(timeout_ms / 1000)
        listed, self._listed = self._listed, None
        if listed is not None or not over:
            return listed
        return list(self._cluster.ask_metadata(None, timeout_ms).topics)

    def _list_for_others(self, timeout_ms: int) -> None:
        self._listed = list(self._cluster.ask_metadata(None, timeout_ms).topics)

    def _match(self, subscription: Subscription, now: float, timeout_ms: int | None) -> None:
        """Compare patterns with the topics of the cluster."""
        try:
            topics = self._list(timeout_ms)
        except KafkaException as error:
            if not self._cluster.may_pass(error):
                raise
            self._patience.take_over(error, timeout_ms, self._list_for_others)
            text = "group %s: the cluster's topics cannot be compared with the pattern: %s"
            self._cluster.limiter.warn(log, self._group_id, text, self._group_id, error)
            return
        if topics is None:
            return  # the next call finds them
        names = [
            topic.name
            for topic in topics
            if topic.name and not topic.is_internal and not topic.name.startswith(INTERNAL_PREFIX)
        ]
        # a broker that has just started, or is cut off, knows fewer: known ones stay until they certainly are deleted
        stay = {name for name in subscription.matched if not self._topics.is_deleted(name)}
        matched = subscription.matches(names) | stay
        if matched != subscription.matched:
            log.info("group %s: %r matches %s", self._group_id, subscription, ", ".join(sorted(matched)))
        for pattern, name in subscription.prefix_matches(names):
            text = "group %s: the pattern %r matches no whole name of a topic, as it has to; it matches the beginning of %s"
            self._cluster.limiter.warn(log, f"{self._group_id} {pattern}", text, self._group_id, pattern, name)
        subscription.matched = matched
        self._match_at = now + self._max_age_s
