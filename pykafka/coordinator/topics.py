"""`SharedTopics`: the topics that a group shares out, as their number of partitions changes and as they come and go."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: How long (s), and by how many answers, metadata must lack a topic before that is believed: a broker that has just
#: started, or is cut off from the others, answers as well.
GONE_S = 5.0
GONE_ANSWERS = 3
#: How often the cluster is asked about a topic that it does not know (s): until it is believed, and from then on.
ASK_S = 1.0
ASK_SELDOM_S = 3.0


@dataclass
class Absence:
    """A topic that metadata lacks: since when, when the cluster was asked last (s), and how often it has answered so."""

    since: float
    asked_at: float
    answers: int = 0


class SharedTopics:
    """What a member believes of topics: a topic is gone only when the cluster has said so for a while.

    State: belongs to the worker that looks after the membership.

    :param cluster: that has them, or had
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
        self._now = cluster.handler.now
        self._absences: dict[str, Absence] = {}
        self._seen: dict[str, list[int]] = {}

    def look(self, names: Iterable[str]) -> None:
        """Look at what metadata says; the cluster is asked, every now and then, about those that it lacks."""
        for name in names:
            if self._cluster.topic_metadata(name) is not None:
                if self._absences.pop(name, None) is not None:
                    log.info("topic %s is there again", name)
                continue
            now = self._now()
            absence = self._absences.setdefault(name, Absence(now, now))
            if now - absence.asked_at < (ASK_SELDOM_S if self.is_gone(name) else ASK_S):
                continue
            absence.asked_at = now
            try:
                self._cluster.update([name])
            except KafkaException as error:
                log.info("topic %s is not in the metadata, and the cluster cannot be asked: %s", name, error)
            else:
                absence.answers += self._cluster.topic_metadata(name) is None

    def is_gone(self, name: str) -> bool:
        """Return whether a topic is not there any more."""
        absence = self._absences.get(name)
        return absence is not None and absence.answers >= GONE_ANSWERS and self._now() - absence.since >= GONE_S

    def ids(self, name: str) -> list[int]:
        """Return a topic's partitions; where metadata lacks it and it is not gone, those that it had."""
        metadata = self._cluster.topic_metadata(name)
        if metadata is not None:
            self._seen[name] = list(metadata.partitions)
        elif self.is_gone(name):
            self._seen.pop(name, None)
        return self._seen.get(name, [])

    def count(self, name: str, before: int) -> int:
        """Return how many partitions a topic has; where metadata lacks it and it is not gone, as many as `before`."""
        metadata = self._cluster.topic_metadata(name)
        if metadata is not None:
            return len(metadata.partitions)
        return 0 if self.is_gone(name) else before
