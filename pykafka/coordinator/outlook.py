"""`Outlook`: a member's look at metadata, every now and then: topics and partitions that have come or gone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException
from pykafka.metadata.topics import INTERNAL_PREFIX

if TYPE_CHECKING:
    from pykafka.coordinator.selection import Selection
    from pykafka.groups.group_topics import SharedTopics
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: How often a member looks at metadata for partitions and topics that have come or gone (s).
LOOK_S = 1.0


class Outlook:
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

    def have_changed(self, selection: Selection, left_ms: Callable[[], int | None]) -> bool:
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

    def refused(self, selection: Selection) -> list[Exception]:
        """Return errors of topics that the brokers do not let this client read: once, until they do."""
        errors = {name: self._cluster.topic_error(name) for name in sorted(selection.names)}
        refused = {name: error for name, error in errors.items() if error is not None and not error.retriable}
        fresh: list[Exception] = [error for name, error in refused.items() if name not in self.refused_names]
        self.refused_names = frozenset(refused)
        return fresh

    def _match(self, selection: Selection, now: float, timeout_ms: int | None) -> None:
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
