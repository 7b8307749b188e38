"""`ClassicGroup`: a group whose members assign partitions themselves, as brokers coordinate it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from pykafka.exceptions import (
    CorruptResponseError,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolSubscription
from pykafka.testing.deadline import Deadline
from pykafka.testing.groups.classic_member import ClassicMember, common_protocols, elected_protocol, protocols_of
from pykafka.testing.groups.group import Group
from pykafka.testing.groups.pending_answer import Client, PendingAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykafka.testing.groups.group import Commit
    from pykafka.testing.groups.settings import GroupSettings
    from pykafka.testing.waiters import Waiters

#: The member id of a client that has none.
UNKNOWN = ""


class GroupState(Enum):
    """The states of a classic group, by the names that brokers report."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class ClassicGroup(Group[ClassicMember]):
    """One group: its members, its generation, and the rebalance under way.

    :param name: of the group
    :param waiters: of the cluster
    :param settings: of the brokers
    :param new_id: makes ids
    """

    type = "classic"

    def __init__(self, name: str, waiters: Waiters, settings: GroupSettings, new_id: Callable[[], UUID]) -> None:
        super().__init__(name, waiters)
        self._settings = settings
        self._new_id = new_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        #: The protocol of this generation; None: the group is empty.
        self.protocol: str | None = None
        self.leader: str | None = None
        # Members that have their id, but not joined with it yet (KIP-394).
        self._pending: dict[str, Deadline] = {}
        # Members that have not sent SyncGroup since the join.
        self._pending_sync: set[str] = set()
        self._rebalance = Deadline(waiters, self._complete_join)
        self._sync_timeout = Deadline(waiters, self._expire_pending_syncs)
        # The first rebalance of an empty group: how long it may still be extended (ms), and whether somebody came.
        self._is_initial = False
        self._delay_left_ms = 0
        self._has_new_member = False

    def __repr__(self) -> str:
        return f"<ClassicGroup {self.name} {self.state.value} generation={self.generation} members={len(self.members)}>"

    # -- what others ask --

    @property
    def state_name(self) -> str:
        """The state, as brokers report it."""
        return self._settings.path.completing if self.state is GroupState.COMPLETING else self.state.value

    @property
    def is_gone(self) -> bool:
        """Whether brokers of this release have forgotten it: it has no members."""
        return self._settings.path.forgets_empty and self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is GroupState.EMPTY

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member reads a topic; True if its members do not say in the format of consumers."""
        for member in self.members.values():
            for _, metadata in member.protocols:
                try:
                    if topic in ConsumerProtocolSubscription.from_bytestring(metadata).topic_names:
                        return True
                except CorruptResponseError:
                    return True
        return False

    def close(self) -> None:
        """End all timers, and send away those who wait: the group is deleted, or becomes one of another protocol."""
        for member in self.members.values():
            self._answer_join(member, RebalanceInProgress.ERROR_CODE)
            self._answer_sync(member, RebalanceInProgress.ERROR_CODE)
        super().close()

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the sessions of members, and the times of a rebalance."""
        yield from (self._rebalance, self._sync_timeout, *self._pending.values())
        yield from (member.session for member in self.members.values())

    # -- JoinGroup --

    def join(self, request: wire.JoinGroupRequest, client: Client) -> PendingAnswer[wire.JoinGroupResponse]:
        """Take a member in, or let one take part in a rebalance; the answer may come later."""
        self._check_size(request.member_id)
        self._check_protocols(request)
        if request.member_id:
            return self._join_known(request, client)
        instance_id = request.group_instance_id
        member_id = f"{client.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if instance_id in self.static_members:
            return self._replace_static(member_id, request, client)
        if instance_id is None and client.version >= 4:
            self._pending[member_id] = pending = Deadline(self.waiters, lambda: self._expire_pending(member_id))
            pending.extend(request.session_timeout_ms)
            refused = wire.JoinGroupResponse(error_code=MemberIdRequired.ERROR_CODE, protocol_name=None)
            refused.member_id = member_id
            return PendingAnswer(self.waiters, refused)
        return self._add(member_id, request, client)

    def _check_size(self, member_id: str) -> None:
        known = len(self.members) if member_id not in self.members else 0
        if self.state is not GroupState.EMPTY and known >= self._settings.max_size:
            self._pending.pop(member_id, None)
            raise GroupMaxSizeReached(f"group {self.name} has as many members as it may have")

    def _check_protocols(self, request: wire.JoinGroupRequest) -> None:
        names = {name for name, _ in protocols_of(request)}
        fits = bool(request.protocol_type and names)
        others = [member for member in self.members.values() if member.member_id != request.member_id]
        if fits and self.members:
            fits = request.protocol_type == self.protocol_type and (
                not others or bool(names & common_protocols(others))
            )
        if not fits:
            raise InconsistentGroupProtocol(f"group {self.name} has no protocol that all members offer")

    def _join_known(self, request: wire.JoinGroupRequest, client: Client) -> PendingAnswer[wire.JoinGroupResponse]:
        member_id = request.member_id
        if member_id in self._pending:
            if request.group_instance_id in self.static_members:
                self._forget_pending(member_id)
                return self._replace_static(member_id, request, client)
            return self._add(member_id, request, client)
        member = self.member(member_id, request.group_instance_id)
        is_leader, is_same = member_id == self.leader, member.protocols == protocols_of(request)
        if is_same and (self.state is GroupState.COMPLETING or (self.state is GroupState.STABLE and not is_leader)):
            member.update(request)
            member.keep()
            lists = is_leader and self.state is GroupState.COMPLETING
            return PendingAnswer(self.waiters, self._joined(member, lists=lists))
        if self.state is GroupState.EMPTY:
            raise UnknownMemberId(f"group {self.name} has no members")
        return self._rejoin(member, request)

    def _add(
        self, member_id: str, request: wire.JoinGroupRequest, client: Client
    ) -> PendingAnswer[wire.JoinGroupResponse]:
        member = self._made(member_id, client, request)
        member.is_new = True
        if self._is_initial:
            self._has_new_member = True
        if not self.members:
            self.protocol_type = request.protocol_type
        self.add(member)
        self.leader = self.leader or member_id
        self._forget_pending(member_id)
        member.joining = held = PendingAnswer[wire.JoinGroupResponse](self.waiters)
        member.session.extend(self._settings.new_member_join_timeout_ms)
        self._rebalance_or_complete()
        return held

    def _made(self, member_id: str, client: Client, request: wire.JoinGroupRequest) -> ClassicMember:
        return ClassicMember(member_id, client, request, Deadline(self.waiters, lambda: self._expire(member_id)))

    def take(self, member_id: str, client: Client, request: wire.JoinGroupRequest, assignment: bytes) -> None:
        """Take in a member that has been in the group by the consumer protocol."""
        member = self._made(member_id, client, request)
        member.assignment = assignment
        self.add(member)
        self.leader = self.leader or member_id
        member.keep()

    def _rejoin(self, member: ClassicMember, request: wire.JoinGroupRequest) -> PendingAnswer[wire.JoinGroupResponse]:
        member.update(request)
        # a request of the same member that still waits is never answered
        member.joining = held = PendingAnswer[wire.JoinGroupResponse](self.waiters)
        self._rebalance_or_complete()
        return held

    def _replace_static(
        self, member_id: str, request: wire.JoinGroupRequest, client: Client
    ) -> PendingAnswer[wire.JoinGroupResponse]:
        instance_id = str(request.group_instance_id)
        old = self.members.pop(self.static_members[instance_id])
        old.session.cancel()
        self._answer_join(old, FencedInstanceId.ERROR_CODE)
        self._answer_sync(old, FencedInstanceId.ERROR_CODE)
        was_leader = self.leader
        member = self._made(member_id, client, request)
        member.assignment = old.assignment
        self.add(member)
        if old.member_id in self._pending_sync:
            self._pending_sync.remove(old.member_id)
            self._pending_sync.add(member_id)
        if was_leader == old.member_id:
            self.leader = member_id
        member.keep()
        if self.state is GroupState.STABLE and elected_protocol(self.members.values()) == self.protocol:
            return PendingAnswer(self.waiters, self._returned(member, str(was_leader), client.version))
        member.joining = held = PendingAnswer[wire.JoinGroupResponse](self.waiters)
        self._rebalance_or_complete()
        return held

    def _returned(self, member: ClassicMember, was_leader: str, version: int) -> wire.JoinGroupResponse:
        # KIP-814: the leader leads on, without an assignment; before version 9 it takes itself for a follower
        if version < 9:
            answer = self._joined(member, lists=False)
            answer.leader = was_leader
            return answer
        is_leader = member.member_id == self.leader
        answer = self._joined(member, lists=is_leader)
        answer.skip_assignment = is_leader
        return answer

    def _joined(self, member: ClassicMember, *, lists: bool) -> wire.JoinGroupResponse:
        listed = wire.JoinGroupResponse.Member
        return wire.JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader or "",
            member_id=member.member_id,
            members=[
                listed(
                    member_id=one.member_id,
                    group_instance_id=one.instance_id,
                    metadata=one.metadata(self.protocol),
                )
                for one in self.members.values()
                if lists
            ],
        )

    def _answer_join(self, member: ClassicMember, error_code: int) -> None:
        if member.joining is not None:
            member.joining.set(
                wire.JoinGroupResponse(error_code=error_code, protocol_name=None, member_id=member.member_id)
            )
            member.joining = None

    def _answer_sync(self, member: ClassicMember, error_code: int) -> None:
        if member.syncing is None:
            return
        answer = wire.SyncGroupResponse(error_code=error_code)
        if not error_code:
            answer.protocol_type, answer.protocol_name = self.protocol_type, self.protocol
            answer.assignment = member.assignment
        member.syncing.set(answer)
        member.syncing = None

    # -- the rebalance --

    def _rebalance_or_complete(self) -> None:
        if self.state is GroupState.PREPARING:
            self._complete_if_all_joined()
        else:
            self.rebalance()

    def rebalance(self) -> None:
        """Begin a rebalance: members learn of it by their heartbeats."""
        if self.state is GroupState.COMPLETING:
            for member in self.members.values():
                member.assignment = b""
                if member.syncing is not None:
                    member.keep()
                self._answer_sync(member, RebalanceInProgress.ERROR_CODE)
        self._sync_timeout.cancel()
        self._pending_sync.clear()
        self._is_initial = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING
        if not self._is_initial:
            self._rebalance.extend(self._rebalance_timeout_ms())
            self._complete_if_all_joined()
            return
        delay = self._settings.initial_rebalance_delay_ms
        self._delay_left_ms = max(self._rebalance_timeout_ms() - delay, 0)
        self._has_new_member = False
        self._rebalance.extend(delay)

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _complete_if_all_joined(self) -> None:
        if self._is_initial or self._pending or self.state is not GroupState.PREPARING:
            return
        if all(member.joining is not None for member in self.members.values()):
            self._complete_join()

    def _complete_join(self) -> None:
        if self._is_initial and self._has_new_member and self._delay_left_ms:
            self._has_new_member = False
            delay = min(self._settings.initial_rebalance_delay_ms, self._delay_left_ms)
            self._delay_left_ms -= delay
            self._rebalance.extend(delay)
            return
        self._rebalance.cancel()
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._remove(member)
        if self.members and not self._elect_leader():
            self._rebalance.extend(self._rebalance_timeout_ms())  # all that are left are static, and away
            return
        self._is_initial = False
        self.generation += 1
        if self.members:
            self._begin_generation()
        else:
            self._become_empty()

    def _elect_leader(self) -> bool:
        leader = self.members.get(self.leader or "")
        if leader is None or leader.joining is None:
            self.leader = next(
                (name for name, member in self.members.items() if member.joining is not None), self.leader
            )
        return self.leader in self.members and self.members[self.leader].joining is not None

    def _begin_generation(self) -> None:
        self.state = GroupState.COMPLETING
        self.protocol = elected_protocol(self.members.values())
        for member in self.members.values():
            self._pending_sync.add(member.member_id)
            member.is_new = False
            if member.joining is not None:
                member.keep()
                member.joining.set(self._joined(member, lists=member.member_id == self.leader))
                member.joining = None
        self._sync_timeout.extend(self._rebalance_timeout_ms())

    def _become_empty(self) -> None:
        self.state = GroupState.EMPTY
        self.protocol = self.leader = None
        self.empty_since_ms = self.waiters.now_ms()

    # -- SyncGroup, Heartbeat, LeaveGroup --

    def _member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if self._settings.path.takes_strange_instances and instance_id not in self.static_members:
            return self.member(member_id)
        return self.member(member_id, instance_id)

    def _current(self, member_id: str, instance_id: str | None, generation: int) -> ClassicMember:
        member = self._member(member_id, instance_id)
        self._check_generation(generation)
        return member

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise IllegalGeneration(f"group {self.name} is in generation {self.generation}, not {generation}")

    def sync(self, request: wire.SyncGroupRequest) -> PendingAnswer[wire.SyncGroupResponse]:
        """Answer with the member's assignment, as soon as the leader has sent it."""
        member = self._current(request.member_id, request.group_instance_id, request.generation_id)
        for asked, own in ((request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol)):
            if asked is not None and asked != own:
                raise InconsistentGroupProtocol(f"group {self.name} has {own} in this generation, not {asked}")
        if self.state is GroupState.PREPARING:
            raise RebalanceInProgress(f"group {self.name} rebalances")
        self._pending_sync.discard(member.member_id)
        member.syncing = held = PendingAnswer[wire.SyncGroupResponse](self.waiters)
        member.keep()
        if self.state is GroupState.STABLE:
            self._answer_sync(member, 0)
        elif member.member_id == self.leader:
            self._assign({one.member_id: bytes(one.assignment) for one in request.assignments})
        if not self._pending_sync:
            self._sync_timeout.cancel()
        return held

    def _assign(self, assignments: dict[str, bytes]) -> None:
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                member.keep()
            self._answer_sync(member, 0)

    def _expire_pending_syncs(self) -> None:
        if self.state not in (GroupState.COMPLETING, GroupState.STABLE) or not self._pending_sync:
            return
        for member_id in list(self._pending_sync):
            if member_id in self.members:
                self._remove(self.members[member_id])
        self.rebalance()

    def _await_sync(self, member_id: str, instance_id: str | None) -> None:
        # Old brokers do not look at generations until the leader has assigned the partitions.
        if self._settings.path.waits_for_sync and self.state is GroupState.COMPLETING:
            if self._settings.path.looks_at_members:
                self.member(member_id, instance_id)
            raise RebalanceInProgress(f"group {self.name} waits for its leader's assignment")

    def heartbeat(self, request: wire.HeartbeatRequest) -> None:
        """Note a member's sign of life.

        :raises RebalanceInProgress: the member shall join again
        """
        self._await_sync(request.member_id, request.group_instance_id)
        member = self._current(request.member_id, request.group_instance_id, request.generation_id)
        if self.state is GroupState.EMPTY:
            raise UnknownMemberId(f"group {self.name} has no members")
        member.keep()
        if self.state is GroupState.PREPARING:
            raise RebalanceInProgress(f"group {self.name} rebalances")

    def leave(self, member_id: str, instance_id: str | None) -> None:
        """Remove a member. Without its id a static member is named by its instance id: an administrator removes it."""
        if member_id in self._pending:
            self._forget_pending(member_id)
            self._complete_if_all_joined()
            return
        if not member_id and instance_id is not None:
            member_id = self.static_members.get(instance_id, UNKNOWN)
            if not member_id:
                raise UnknownMemberId(f"group {self.name} has no static member {instance_id}")
        self._remove_and_rebalance(self._member(member_id, instance_id))

    # -- who goes --

    def _expire(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None and not member.is_kept:
            self._remove_and_rebalance(member)

    def _expire_pending(self, member_id: str) -> None:
        self._forget_pending(member_id)
        self._complete_if_all_joined()

    def _forget_pending(self, member_id: str) -> None:
        pending = self._pending.pop(member_id, None)
        if pending is not None:
            pending.cancel()

    def _remove_and_rebalance(self, member: ClassicMember) -> None:
        self._remove(member)
        self._rebalance_or_complete()

    def _remove(self, member: ClassicMember) -> None:
        member.session.cancel()
        del self.members[member.member_id]
        self._pending_sync.discard(member.member_id)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self._answer_join(member, UnknownMemberId.ERROR_CODE)
        self._answer_sync(member, UnknownMemberId.ERROR_CODE)
        if self.leader == member.member_id:
            joined = (one.member_id for one in self.members.values() if one.joining is not None)
            self.leader = next(joined, next(iter(self.members), None))

    # -- offsets --

    def check_commit(self, commit: Commit) -> None:
        """Raise the error that refuses a commit, if one does; a member's commit is a sign of life."""
        if commit.epoch < 0 and self.is_empty:
            return
        if self._settings.path.waits_for_sync and self.state is GroupState.COMPLETING:
            raise RebalanceInProgress(f"group {self.name} waits for its leader's assignment")
        if commit.is_transactional and self._settings.path.checks_apart:
            if commit.member_id or commit.instance_id is not None:
                self._member(commit.member_id, commit.instance_id)
            if commit.epoch != -1:
                self._check_generation(commit.epoch)
        elif not commit.is_anonymous:
            member = self._current(commit.member_id, commit.instance_id, commit.epoch)
            if self.state is GroupState.COMPLETING and not commit.is_transactional:
                raise RebalanceInProgress(f"group {self.name} rebalances")
            member.keep()
        elif not commit.is_transactional:
            raise UnknownMemberId(f"group {self.name} has members; a commit has to name one")
