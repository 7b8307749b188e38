"""`MemberNodes`: the nodes in ZooKeeper of a member that reads many topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.common import TopicPartition
from pykafka.exceptions import PartitionOwnedError
from pykafka.groups.assignors.range_and_roundrobin import decide_partitions_range, decide_partitions_roundrobin
from pykafka.groups.zookeeper.group import ZooKeeperGroup

if TYPE_CHECKING:
    from pykafka.groups.zookeeper.session import SessionState

log = logging.getLogger(__name__)

#: How members of these groups divide the partitions of a topic, by the names of the assignors that do the same.
DIVISIONS = {"range": decide_partitions_range, "roundrobin": decide_partitions_roundrobin}
#: How long an answer of ZooKeeper may take (s).
ANSWER_S = 6.0

#: Of each topic: {partition id: name of its node}.
Assigned = Mapping[str, Mapping[int, str]]


class _Named(NamedTuple):
    name: str


class _Leader(NamedTuple):
    id: int


class Part(NamedTuple):
    """A partition, as members of these groups put them in order."""

    id: int
    leader: _Leader | None
    topic: _Named
    #: The name of its node.
    slug: str


def parts(name: str, metadata: Any) -> dict[int, Part]:
    """Return the partitions of a topic.

    :param metadata: of the topic; None if it is not known
    """
    by_id = {}
    for id_, part in metadata.partitions.items() if metadata is not None else ():
        first = part.leader if part.leader >= 0 else next(iter(part.replicas), 0)
        leader = _Leader(part.leader) if part.leader >= 0 else None
        by_id[id_] = Part(id_, leader, _Named(name), f"{first}-{id_}")
    return by_id


class MemberNodes:
    """The nodes of one member in one session: in each topic that it reads, its registration and its owner nodes.

    State: belongs to the worker that polls.

    :param group_id: the group
    :param name: common to this member's ids in all topics, so that partitions of one number stay together
    :param session: the state of the session
    :param decide: divides the partitions of a topic
    :param changed: called by watches; must not wait
    :param answer_s: returns how long an answer may take (s)
    """

    def __init__(
        self,
        group_id: str,
        name: str,
        session: SessionState,
        decide: Callable[..., Collection[Any]],
        changed: Callable[..., object],
        answer_s: Callable[[], float],
    ) -> None:
        self._group_id = group_id
        self._name = name
        self._session = session
        self._decide = decide
        self._changed = changed
        self._answer_s = answer_s
        self._groups: dict[str, ZooKeeperGroup] = {}

    def decided(self, topic: str, known: Mapping[int, Part]) -> dict[int, str]:
        """Return this member's partitions of a topic, {partition id: name of its node}; register there unless it has.

        :param known: the topic's partitions, by id
        """
        group = self._group(topic)
        members = group.participants(self._changed)
        if group.member not in members:
            group.register()
            members = group.participants(self._changed)
        return {part.id: part.slug for part in sorted(self._decide(members, known, group.member))} if known else {}

    def keep(self, assigned: Assigned) -> None:
        """Release all partitions but these, and leave all topics but these."""
        for topic in self._groups.keys() - assigned.keys():
            group = self._groups[topic]
            group.answer_within(self._answer_s())
            if self._leave(topic, group):  # else, as after an error, the next pass does it
                del self._groups[topic]
        for topic, slugs in assigned.items():
            self._groups[topic].keep(slugs.keys())

    def take(self, assigned: Assigned) -> tuple[set[TopicPartition], list[PartitionOwnedError]]:
        """Take these partitions; return those that this member owns, and why not all."""
        mine, late = set(), []
        held = {topic: self._groups[topic].held(self._changed) & slugs.keys() for topic, slugs in assigned.items()}
        for topic, slugs in assigned.items():
            owned = held[topic]
            if owned != slugs.keys():
                group = self._groups[topic]
                try:
                    group.claim(dict(slugs), lambda id_: id_)
                except PartitionOwnedError as error:
                    late.append(error)
                owned = group.held(self._changed) & slugs.keys()
            mine |= {TopicPartition(topic, id_) for id_ in owned}
        return mine, late

    def give_back(self) -> None:
        """Release all partitions, and leave all topics."""
        groups, self._groups = self._groups, {}
        for topic, group in groups.items():
            group.answer_within(ANSWER_S)
            self._leave(topic, group)

    def _leave(self, topic: str, group: ZooKeeperGroup) -> bool:
        """Delete a topic's nodes; return whether they are gone: not while ZooKeeper does not answer."""
        if not self._session.lost:
            if self._session.is_silent:
                return False
            group.leave()
        log.info("group %s: %s reads %s no more", self._group_id, group.member, topic)
        return True

    def _group(self, topic: str) -> ZooKeeperGroup:
        group = self._groups.get(topic)
        if group is None:
            member = f"{self._name}:{topic}"
            group = ZooKeeperGroup(self._group_id, topic, member, self._session, ANSWER_S)
            self._groups[topic] = group
        group.answer_within(self._answer_s())
        return group
