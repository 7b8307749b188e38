"""`MemberNodes`: the nodes in ZooKeeper of a member that reads many topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pykafka.common import TopicPartition
from pykafka.exceptions import PartitionOwnedError
from pykafka.groups.assignors.range_and_roundrobin import in_runs, in_turn
from pykafka.groups.zookeeper.group import ZooKeeperGroup

if TYPE_CHECKING:
    from pykafka.groups.zookeeper.session import SessionState
    from pykafka.metadata.partition import TopicMetadata

log = logging.getLogger(__name__)

#: How members of these groups divide the partitions of a topic, by the names of the assignors that do the same.
DIVISIONS: dict[str, Callable[..., dict[str, list[int]]]] = {"range": in_runs, "roundrobin": in_turn}
#: How long an answer of ZooKeeper may take (s).
ANSWER_S = 6.0

#: Of each topic: {partition id: name of its node}.
Assigned = Mapping[str, Mapping[int, str]]


def node_names(topic: str, metadata: TopicMetadata | None) -> dict[int, str]:
    """Return {partition id: name of its node}, in the order that all members agree on: as text, the leader's id first.

    :param metadata: of the topic; None if it is not known
    """
    partitions = [] if metadata is None else metadata.partitions.values()
    in_order = sorted(partitions, key=lambda part: f"{topic}-{part.leader}-{part.id}")
    return {
        part.id: f"{part.leader if part.leader >= 0 else next(iter(part.replicas), 0)}-{part.id}" for part in in_order
    }


class MemberNodes:
    """The nodes of one member in one session: in each topic that it reads, its registration and its owner nodes.

    State: belongs to the worker that polls.

    :param group_id: the group
    :param name: common to this member's ids in all topics, so that partitions of one number stay together
    :param session: the state of the session
    :param divide: divides the partitions of a topic
    :param changed: called by watches; must not wait
    :param answer_s: returns how long an answer may take (s)
    """

    def __init__(
        self,
        group_id: str,
        name: str,
        session: SessionState,
        divide: Callable[..., dict[str, list[int]]],
        changed: Callable[..., object],
        answer_s: Callable[[], float],
    ) -> None:
        self._group_id = group_id
        self._name = name
        self._session = session
        self._divide = divide
        self._changed = changed
        self._answer_s = answer_s
        self._groups: dict[str, ZooKeeperGroup] = {}

    def decided(self, topic: str, names: Mapping[int, str]) -> dict[int, str]:
        """Return this member's partitions of a topic, {partition id: name of its node}; register there unless it has.

        :param names: of the nodes of all its partitions; see `node_names`
        """
        group = self._group(topic)
        members = group.participants(self._changed)
        if group.member not in members:
            group.register()
            members = group.participants(self._changed)
        if group.member not in members:  # its session has just ended
            return {}
        return {id_: names[id_] for id_ in sorted(self._divide(members, list(names))[group.member])}

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
