"""`StaticMember`: rejoins if a static member that came back got an assignment of its former subscription."""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import CorruptResponseError, GroupIdNotFound, RebalanceInProgress, UnknownMemberId
from pykafka.groups.classic.heartbeat import leave_request
from pykafka.groups.classic.state import Event, State
from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

if TYPE_CHECKING:
    from pykafka.groups.classic.heartbeat import ClassicHeartbeats
    from pykafka.groups.classic.pending_join import PendingJoin
    from pykafka.groups.classic.state import MemberState
    from pykafka.groups.coordinator_connection import CoordinatorConnection
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: The first version of DescribeGroups with the instance ids of static members.
INSTANCES_SINCE = 4
#: The states of groups of the classic protocol in which no member has an assignment.
EMPTY = frozenset({"", "Dead", "Empty"})


class Doubt(IntEnum):
    """How much an assignment proves that it was made for the present subscription; the more doubt, the higher."""

    #: The coordinator has compared the subscriptions, or has none of this member.
    NONE = 0
    #: The coordinator has the same subscription of this member, but perhaps of a process that ended before it joined again.
    FOREIGN = 1
    #: The coordinator does not say for which subscription the assignment was made.
    MISSING = 2
    #: The assignment was made for another subscription.
    OUTDATED = 3


class JoiningMember(Protocol):
    """The membership that joins: an `AbstractCoordinator`, which imports this module."""

    config: dict[str, Any]
    group_id: str
    connection: CoordinatorConnection
    membership: MemberState
    pending_join: PendingJoin
    sender: ClassicHeartbeats

    def check_answer(self, code: int, api: str, coordinator: Node) -> None: ...


class StaticMember:
    """The part of a membership that static members need when they come back with other topics.

    The coordinator gives a static member of a stable group its former assignment back without a rebalance (KIP-345), and
    stores its subscription without comparing it. So a member asks first what the coordinator has stored, and after an
    assignment of another subscription joins again. The coordinator rebalances for the leader; for another member, whose
    stored subscription is the present one by then, it does not: that one leaves first.

    State: belongs to the worker that joins and syncs.

    :param member: the membership
    """

    def __init__(self, member: JoiningMember) -> None:
        self._member = member
        self.forget()

    def forget(self) -> None:
        """Forget all doubts: the member has left."""
        self._topics: frozenset[str] = frozenset()
        self._stored = self._doubt = Doubt.NONE
        self._generation = self._outdated = -1
        self._leaves = self._is_joining = False

    # -- when it leaves --------------------------------------------------------------------------------------------------

    def is_joining(self) -> bool:
        """Return whether the first request to join was not answered: the member can leave by its instance id.

        The coordinator answers a static member when the whole group has joined. `forget` ends this, not the connection's end.
        """
        sent = self._member.pending_join.sent
        if sent is not None and not sent.pending.done and isinstance(sent.request, wire.JoinGroupRequest):
            self._is_joining = True
        return self._is_joining

    # -- before it joins -------------------------------------------------------------------------------------------------

    def leave(self, coordinator: Node, deadline: float | None) -> None:
        """Leave the group if joining again has not made it rebalance; the next join is that of a new member.

        :param deadline: as for `AbstractCoordinator.join_and_sync`
        :raises KafkaException: the coordinator refuses, or does not answer
        """
        member = self._member
        if not self._leaves:
            return
        if member.membership.member_id:
            member.sender.set_target(None)
            limit_ms = member.connection.limit_ms(deadline)
            version = coordinator.api_version(wire.LeaveGroupRequest, timeout_ms=limit_ms)
            request = leave_request(
                member.group_id, member.membership.member_id, version, member.config["group_instance_id"]
            )
            response = self._answer(coordinator, request, version, deadline)
            codes = {response.error_code, *(one.error_code for one in response.members)}
            for code in codes - {0, UnknownMemberId.ERROR_CODE}:
                member.check_answer(code, "LeaveGroup", coordinator)
        member.membership.apply(Event.LEFT)
        self.forget()

    def before_join(self, coordinator: Node, request: wire.JoinGroupRequest, deadline: float | None) -> None:
        """Note the topics of a static member that joins; if it has no member id, ask what the coordinator has stored.

        :param deadline: as for `AbstractCoordinator.join_and_sync`
        :raises KafkaException: the coordinator refuses, or does not answer
        """
        instance_id = self._member.config["group_instance_id"]
        if instance_id is None:
            return
        self._topics = _subscribed(bytes(request.protocols[0].metadata))
        if request.member_id:
            return
        doubt = Doubt.MISSING
        limit_ms = self._member.connection.limit_ms(deadline)
        if coordinator.has(wire.DescribeGroupsRequest, limit_ms):
            version = coordinator.api_version(wire.DescribeGroupsRequest, timeout_ms=limit_ms)
            described = wire.DescribeGroupsRequest(groups=[self._member.group_id])
            (group,) = self._answer(coordinator, described, version, deadline).groups
            if group.error_code not in {0, GroupIdNotFound.ERROR_CODE}:
                self._member.check_answer(group.error_code, "DescribeGroups", coordinator)
            doubt = self._doubt_of(group, instance_id, version)
        self._stored = max(self._stored, doubt)  # an earlier request may have had its effect without a response

    def _answer(self, coordinator: Node, request: Any, version: int, deadline: float | None) -> Any:
        """Return the response to a request, which an earlier call may have sent."""
        member = self._member
        if member.pending_join.of(type(request)) is None:
            member.pending_join.drop()
            timeout_ms = member.connection.cluster.socket_timeout_ms
            member.pending_join.send(coordinator, request, version, timeout_ms, deadline)
        return member.pending_join.answer(deadline)

    def _doubt_of(self, group: wire.DescribeGroupsResponse.Group, instance_id: str, version: int) -> Doubt:
        if group.error_code or group.group_state in EMPTY:
            return Doubt.NONE
        stored = [one.member_metadata for one in group.members if one.group_instance_id == instance_id]
        if not stored:
            return Doubt.MISSING if version < INSTANCES_SINCE else Doubt.NONE
        if group.group_state != "Stable":  # then the answer has no metadata; the group may be stable in a moment
            return Doubt.MISSING
        try:
            return Doubt.FOREIGN if _subscribed(bytes(stored[0])) == self._topics else Doubt.OUTDATED
        except CorruptResponseError:
            return Doubt.OUTDATED

    # -- after it has joined ---------------------------------------------------------------------------------------------

    def joined(self, generation: int) -> None:
        """Take the response to a request to join.

        :raises RebalanceInProgress: the generation is still the one of the outdated assignment
        """
        new, self._stored = self._stored, Doubt.NONE
        self._doubt = max(self._doubt, new) if generation == self._generation else new
        self._generation = generation
        if generation == self._outdated:
            self._leaves = True
            self._join_again("the group did not rebalance for it, so the member leaves and joins as a new one")
        self._outdated = -1

    def check(self, assignment: bytes) -> None:
        """Take an assignment.

        :raises RebalanceInProgress: it was made for another subscription, and the member has to join again
        """
        doubt, self._doubt = self._doubt, Doubt.NONE
        if doubt is Doubt.NONE:
            return
        pairs = ConsumerProtocolAssignment.from_bytestring(assignment).partition_assignment
        given = {topic for topic, ids in pairs if ids}
        outdated = doubt is Doubt.OUTDATED or not given <= self._topics
        if outdated or (doubt is Doubt.MISSING and given != self._topics):
            self._outdated = self._generation
            self._join_again("it joins again, so that the leader assigns what it subscribes to now")

    def _join_again(self, what: str) -> None:
        member = self._member
        if member.membership.state in {State.SYNCING, State.STABLE}:
            member.membership.apply(Event.REBALANCE)
        raise RebalanceInProgress(
            f"group {member.group_id}: the coordinator gave the static member {member.config['group_instance_id']!r} the "
            f"assignment of its former subscription, and not of {', '.join(sorted(self._topics))}: {what}"
        )


def _subscribed(metadata: bytes) -> frozenset[str]:
    """Return the topics that a member's metadata names.

    :raises CorruptResponseError: the bytes have another format
    """
    return frozenset(ConsumerProtocolSubscription.from_bytestring(metadata).topic_names)
