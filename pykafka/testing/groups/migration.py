"""Members of the classic protocol in groups of the consumer protocol, and how a group goes from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from pykafka.exceptions import (
    CorruptResponseError,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykafka.testing.groups.classic import ClassicGroup, GroupState
from pykafka.testing.groups.consumer_group import ConsumerGroup
from pykafka.testing.groups.consumer_member import ConsumerMember, MemberState
from pykafka.testing.groups.pending_answer import Client, PendingAnswer

if TYPE_CHECKING:
    from pykafka.testing.groups.settings import GroupSettings

_CONSUMER = "consumer"


class ClassicMembers:
    """The members of a consumer group that take part by JoinGroup, SyncGroup and Heartbeat; none of them leads.

    :param group: of the consumer protocol
    :param new_id: makes ids
    """

    def __init__(self, group: ConsumerGroup, new_id: Callable[[], UUID]) -> None:
        self._group = group
        self._new_id = new_id

    def join(self, request: wire.JoinGroupRequest, client: Client) -> PendingAnswer[wire.JoinGroupResponse]:
        """Take a member in, or give it its new generation: the epoch."""
        group = self._group
        subscription = self._subscription(request)
        instance_id, member_id = request.group_instance_id, request.member_id
        if not member_id:
            member_id = f"{client.client_id if instance_id is None else instance_id}-{self._new_id()}"
            if instance_id is None and client.version >= 4:
                refused = wire.JoinGroupResponse(error_code=MemberIdRequired.ERROR_CODE, protocol_name=None)
                refused.member_id = member_id
                return PendingAnswer(group.waiters, refused)
        is_new, member = self._member(request, member_id, client)
        changed = take_classic(member, request, subscription)
        if is_new:
            group.add(member)
        group.refresh(bumps=is_new or changed)
        group.reconcile(member, group.keys_of_names(subscription.owned_partitions))
        group.keep(member)
        member.rebalance.extend(member.rebalance_timeout_ms)
        answer = wire.JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=_CONSUMER,
            protocol_name=request.protocols[0].name,
            leader="",
            member_id=member_id,
        )
        return PendingAnswer(group.waiters, answer)

    def _subscription(self, request: wire.JoinGroupRequest) -> ConsumerProtocolSubscription:
        """Return what a member reads.

        :raises InconsistentGroupProtocol: it is no consumer, or offers nothing that the other members offer
        """
        others = [
            {one.name for one in member.classic.protocols}
            for member in self._group.members.values()
            if member.classic is not None and member.member_id != request.member_id
        ]
        common = {one.name for one in request.protocols}.intersection(*others)
        refused = InconsistentGroupProtocol(
            f"group {self._group.name} has no protocol that all members by the classic protocol offer"
        )
        if request.protocol_type != _CONSUMER or not common:
            raise refused
        try:
            return ConsumerProtocolSubscription.from_bytestring(request.protocols[0].metadata)
        except CorruptResponseError as error:
            raise refused from error

    def _member(self, request: wire.JoinGroupRequest, member_id: str, client: Client) -> tuple[bool, ConsumerMember]:
        group, instance_id = self._group, request.group_instance_id
        known = group.static_members.get(instance_id, "") if instance_id is not None else member_id
        member = group.members.get(known)
        if member is None:
            group.check_size()
            return True, group.made(member_id, instance_id, client)
        if member.member_id == member_id:
            return False, member
        if request.member_id:
            group.member(request.member_id, instance_id)  # raises: another one has its place
        return False, group.replace(member, member_id, client)

    def _current(self, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        member = self._group.member(member_id, instance_id)
        if member.classic is None:
            raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
        if generation != member.epoch:
            raise IllegalGeneration(
                f"The received generation {generation} does not match the member's epoch {member.epoch}."
            )
        return member

    def sync(self, request: wire.SyncGroupRequest) -> PendingAnswer[wire.SyncGroupResponse]:
        """Answer with what the member may read."""
        group = self._group
        member = self._current(request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        offered = member.classic.protocols[0]
        if request.protocol_type not in (None, _CONSUMER) or request.protocol_name not in (None, offered.name):
            raise InconsistentGroupProtocol(f"the protocol of this generation is {offered.name}")
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            raise self._to_join_again(member)
        group.keep(member)
        if member.state is not MemberState.UNREVOKED:
            member.rebalance.cancel()
        answer = wire.SyncGroupResponse(
            protocol_type=_CONSUMER, protocol_name=offered.name, assignment=group.assignment_of(member)
        )
        return PendingAnswer(group.waiters, answer)

    def heartbeat(self, request: wire.HeartbeatRequest) -> None:
        """Note a member's sign of life.

        :raises RebalanceInProgress: the member shall join again
        """
        group = self._group
        member = self._current(request.member_id, request.group_instance_id, request.generation_id)
        group.keep(member)
        group.refresh(bumps=False)
        is_free = member.state is MemberState.UNRELEASED and bool(
            group.target.get(member.member_id, set()) - member.assigned.keys() - group.of_others(member)
        )
        if member.epoch < group.epoch or member.state is MemberState.UNREVOKED or is_free:
            raise self._to_join_again(member)

    def _to_join_again(self, member: ConsumerMember) -> RebalanceInProgress:
        if member.rebalance.due_ms is None:
            member.rebalance.extend(member.rebalance_timeout_ms)
        return RebalanceInProgress(f"group {self._group.name} rebalances")

    def leave(self, member_id: str, instance_id: str | None) -> None:
        """Remove a member."""
        if not member_id and instance_id is not None:
            member_id = self._group.static_members.get(instance_id, "")
        self._group.remove(self._group.member(member_id, instance_id))


def take_classic(
    member: ConsumerMember, request: wire.JoinGroupRequest, subscription: ConsumerProtocolSubscription
) -> bool:
    """Note what a member says in JoinGroup, and return whether it reads other topics now."""
    topics = frozenset(subscription.topic_names)
    changed = topics != member.topics or member.pattern is not None
    member.topics, member.pattern, member.classic = topics, None, request
    member.rack_id = subscription.rack_id
    timeout = request.rebalance_timeout_ms
    member.rebalance_timeout_ms = request.session_timeout_ms if timeout < 0 else timeout
    return changed


def check_upgrade(group: ClassicGroup, settings: GroupSettings) -> None:
    """Raise the error of a member by KIP-848 that comes to a group of the classic protocol, if it may not."""
    reason = ""
    if settings.migration_policy not in ("bidirectional", "upgrade"):
        reason = "online upgrade is disabled"
    elif group.protocol_type != _CONSUMER:
        reason = "it does not use the consumer protocol"
    elif len(group.members) >= settings.max_size:
        reason = "it has as many members as it may have"
    else:
        try:
            for member in group.members.values():
                ConsumerProtocolSubscription.from_bytestring(member.protocols[0][1])
                ConsumerProtocolAssignment.from_bytestring(member.assignment)
        except CorruptResponseError:
            reason = "the metadata of its members cannot be read"
    if reason:
        raise GroupIdNotFound(f"Cannot upgrade classic group {group.name} to consumer group: {reason}.")


def upgrade(group: ClassicGroup, into: ConsumerGroup) -> None:
    """Take the members of a classic group, with what they have, into a consumer group."""
    into.epoch = into.assignment_epoch = group.generation
    for old in group.members.values():
        member = into.made(old.member_id, old.instance_id, old.client)
        take_classic(member, old.request, ConsumerProtocolSubscription.from_bytestring(old.protocols[0][1]))
        listed = ConsumerProtocolAssignment.from_bytestring(old.assignment).partition_assignment
        member.assigned = dict.fromkeys(into.keys_of_names(listed), group.generation)
        member.epoch = member.previous_epoch = group.generation
        into.add(member)
        into.target[member.member_id] = set(member.assigned)
        into.keep(member)


def may_downgrade(group: ConsumerGroup, settings: GroupSettings) -> bool:
    """Return whether a consumer group has members of the classic protocol alone, and may become a classic one."""
    if settings.migration_policy not in ("bidirectional", "downgrade") or group.is_empty:
        return False
    return all(member.classic is not None for member in group.members.values())


def downgrade(group: ConsumerGroup, into: ClassicGroup) -> None:
    """Take the members of a consumer group, with what they have, into a classic one, which rebalances."""
    into.generation, into.protocol_type, into.state = group.epoch, _CONSUMER, GroupState.STABLE
    for old in group.members.values():
        assert old.classic is not None
        into.take(old.member_id, old.client, old.classic, group.assignment_of(old))
    into.rebalance()
