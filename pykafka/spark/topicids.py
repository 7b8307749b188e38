"""The ids of the topics that a query reads: they tell a topic from one that was made anew under its name (KIP-516). No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID


class Recreated(NamedTuple):
    """A topic that was deleted and made anew.

    :param topic: its name
    :param old_id: the id of the topic that is gone
    :param new_id: the id of the topic that has its name now
    """

    topic: str
    old_id: UUID
    new_id: UUID


class TopicIds:
    """The ids of the topics that a query's offsets are of; used by its driver process alone.

    Brokers before 2.8 tell no ids: such topics are never known here, and never count as made anew.
    """

    def __init__(self) -> None:
        self._known: dict[str, UUID] = {}
        self._former: set[UUID] = set()
        self._told: set[Recreated] = set()

    @property
    def known(self) -> Mapping[str, UUID]:
        """The known ids by the topics' names."""
        return self._known

    def learn(self, ids: Mapping[str, UUID]) -> None:
        """Take over the ids of topics that have none yet."""
        self._known = {**ids, **self._known}

    def begin(self, ids: Mapping[str, UUID]) -> None:
        """Take over the ids of topics that are read from their start now, whatever was known of their names."""
        self._former |= {old for topic, id_ in ids.items() if (old := self._known.get(topic, id_)) != id_}
        self._known = {**self._known, **ids}

    def recreated(self, topics: Iterable[str], now: Mapping[str, UUID]) -> list[Recreated]:
        """Return those of some topics that have another id now than the known one.

        :param topics: names
        :param now: the ids that a broker has told
        """
        found = []
        for topic in sorted(set(topics)):
            old, new = self._known.get(topic), now.get(topic)
            # A former id is that of a broker which has not heard the news.
            if old is not None and new is not None and old != new and new not in self._former:
                found.append(Recreated(topic, old, new))
        return found

    def is_news(self, one: Recreated) -> bool:
        """Return whether this was not asked before: it is told once."""
        if one in self._told:
            return False
        self._told.add(one)
        return True

    def move_on(self, one: Recreated) -> None:
        """Note that the query's offsets are those of the new topic from now on."""
        self._known = {**self._known, one.topic: one.new_id}
        self._former.add(one.old_id)
