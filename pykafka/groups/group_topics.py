"""The topics that a group shares out: which members read them, how many partitions they have, whether they exist."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException
from pykafka.utils import get_string

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.protocol.consumer_protocol import ConsumerProtocolSubscription

log = logging.getLogger(__name__)

#: Metadata must lack a topic for this long (s), and in this many answers, before a member believes that it is gone: a broker
#: that has just started, or is cut off from the others, answers as well.
GONE_S = 5.0
GONE_ANSWERS = 3
#: How often a member asks the cluster about a topic that it does not know (s): until the member believes it, and from then on.
ASK_S = 1.0
ASK_SELDOM_S = 3.0


@dataclass
class Absence:
    """A topic that metadata lacks: since when, when the member last asked the cluster (s), and how often it answered so."""

    since: float
    asked_at: float
    answers: int = 0


class SharedTopics:
    """A member's view of topics: a topic is gone only when the cluster has said so for a while.

    State: belongs to the worker that looks after the membership.

    :param cluster: that has them, or had
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
        self._now = cluster.handler.now
        self._absences: dict[str, Absence] = {}
        self._seen: dict[str, list[int]] = {}
        #: The topics that this member has shared out as the leader: {topic: number of partitions}.
        self.divided: dict[str, int] = {}

    def have_changed(self, names: Iterable[str] = (), timeout_ms: int | None = None) -> bool:
        """Return whether a topic that this member has shared out has another number of partitions now; once for each change.

        :param names: of other topics to look at
        :param timeout_ms: for asking about those that metadata lacks; by default each broker has the socket timeout
        """
        self._look({*names, *self.divided}, timeout_ms)
        changed = any(self._count(name, count) != count for name, count in self.divided.items())
        if changed:
            self.divided = {}
        return changed

    def _look(self, names: Iterable[str], timeout_ms: int | None) -> None:
        """Look for topics in the metadata; ask the cluster, every now and then, about those that it lacks."""
        due = [name for name in names if self._is_due(name)]
        if not due:
            return
        try:
            self._cluster.update(due, timeout_ms)
        except KafkaException as error:
            text = "topics %s are not in the metadata, and the cluster cannot be asked: %s"
            log.info(text, ", ".join(sorted(due)), error)
            return
        for name in due:
            self._absences[name].answers += self._cluster.topic_metadata(name) is None

    def _is_due(self, name: str) -> bool:
        """Return whether metadata lacks a topic, and it is time to ask the cluster about it."""
        if self._cluster.topic_metadata(name) is not None:
            if self._absences.pop(name, None) is not None:
                log.info("topic %s is there again", name)
            return False
        now = self._now()
        absence = self._absences.setdefault(name, Absence(now, -math.inf))
        if now - absence.asked_at < (ASK_SELDOM_S if self.is_gone(name) else ASK_S):
            return False
        absence.asked_at = now
        return True

    def is_missing(self, name: str) -> bool:
        """Return whether the cluster has just said that a topic does not exist; it may be wrong."""
        absence = self._absences.get(name)
        return absence is not None and absence.answers > 0

    def is_gone(self, name: str) -> bool:
        """Return whether a topic does not exist any more."""
        absence = self._absences.get(name)
        return absence is not None and absence.answers >= GONE_ANSWERS and self._now() - absence.since >= GONE_S

    def ids(self, name: str) -> list[int]:
        """Return the ids of a topic's partitions; if metadata lacks the topic and it is not gone, those that it had."""
        metadata = self._cluster.topic_metadata(name)
        if metadata is not None:
            self._seen[name] = list(metadata.partitions)
        elif self.is_gone(name):
            self._seen.pop(name, None)
        return self._seen.get(name, [])

    def _count(self, name: str, before: int) -> int:
        """Return how many partitions a topic has; if metadata lacks it and it is not gone, as many as `before`."""
        metadata = self._cluster.topic_metadata(name)
        if metadata is not None:
            return len(metadata.partitions)
        return 0 if self.is_gone(name) else before


def readers_of(members: Mapping[str, ConsumerProtocolSubscription]) -> dict[str, list[str]]:
    """Return {topic: ids of the members that read it, as `in_order` has them}, sorted by topic.

    :param members: {member id: the metadata that it sent}
    """
    readers: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in {get_string(name) for name in members[member].topic_names}:  # one may be named twice
            readers.setdefault(topic, []).append(member)
    return dict(sorted(readers.items()))


def in_order(members: Mapping[str, ConsumerProtocolSubscription]) -> list[str]:
    """Return member ids in the order in which assignors serve them: static members first, by instance id (KIP-345).

    So a static member that comes back under another member id is given what it had.

    :param members: as of `readers_of`
    """

    def place(member: str) -> tuple[bool, str]:
        instance_id = members[member].group_instance_id
        return instance_id is None, member if instance_id is None else instance_id

    return sorted(members, key=place)
