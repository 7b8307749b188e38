"""`ConsumerMember`: a member of a consumer group (KIP-848), and how it comes to its target assignment."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from pykafka.protocol import wire
from pykafka.testing.patterns import Pattern

if TYPE_CHECKING:
    from pykafka.testing.deadline import Deadline
    from pykafka.testing.groups.pending_answer import Client

#: Topic id and number of a partition.
Key = tuple[UUID, int]
#: The epoch of a static member that is away.
AWAY = -2


class MemberState(Enum):
    """How far a member is on the way to its target assignment."""

    STABLE = "stable"
    #: It has to revoke partitions, and keeps its epoch until then.
    UNREVOKED = "unrevoked partitions"
    #: It has its new epoch, and other members have still to revoke what it shall get.
    UNRELEASED = "unreleased partitions"


@dataclass(eq=False, repr=False)
class ConsumerMember:
    """One member.

    :param member_id: of the member
    :param instance_id: of a static member
    :param client: who it is
    :param session: calls the group when the member has sent nothing for its session timeout
    :param rebalance: calls the group when the member has not revoked in time what it has to
    """

    member_id: str
    instance_id: str | None
    client: Client
    session: Deadline
    rebalance: Deadline
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    pattern: Pattern | None = None
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    #: What it may read, and the epoch since which it may.
    assigned: dict[Key, int] = field(default_factory=dict)
    #: What it has to revoke.
    revoking: set[Key] = field(default_factory=set)
    #: The last JoinGroup of a member that takes part by the classic protocol.
    classic: wire.JoinGroupRequest | None = None

    def __repr__(self) -> str:
        return f"<ConsumerMember {self.member_id} epoch={self.epoch} {self.state.value}>"

    def take_over(self, other: ConsumerMember) -> None:
        """Become what the static member was that was here before."""
        self.rack_id, self.rebalance_timeout_ms = other.rack_id, other.rebalance_timeout_ms
        self.topics, self.pattern, self.assignor = other.topics, other.pattern, other.assignor
        self.assigned = other.assigned

    def update(self, request: wire.ConsumerGroupHeartbeatRequest) -> bool:
        """Take what a heartbeat says anew, and return whether the member reads other topics now.

        :raises InvalidRegularExpression: the pattern is none
        """
        topics, pattern = self.topics, self.pattern
        if request.subscribed_topic_names is not None:
            topics = frozenset(request.subscribed_topic_names)
        if request.subscribed_topic_regex is not None:
            text = request.subscribed_topic_regex
            if pattern is None or text != pattern.text:
                pattern = Pattern(text) if text else None
        changed = topics != self.topics or pattern is not self.pattern
        self.topics, self.pattern = topics, pattern
        if request.rebalance_timeout_ms != -1:
            self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.rack_id = self.rack_id if request.rack_id is None else request.rack_id
        self.assignor = self.assignor if request.server_assignor is None else request.server_assignor
        return changed

    def may_send(self, epoch: int, owned: Collection[Key] | None) -> bool:
        """Return whether a heartbeat's epoch is right: the present one, or that before if the answer was lost."""
        if epoch == self.epoch:
            return True
        return epoch == self.previous_epoch and owned is not None and all(key in self.assigned for key in owned)

    def is_at(self, epoch: int) -> bool:
        """Return whether the member has all of its target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def held(self) -> set[Key]:
        """The partitions that no other member may get: those that it may read, and those that it has still to revoke."""
        return self.assigned.keys() | self.revoking

    def reconcile(
        self,
        target: Collection[Key],
        epoch: int,
        owned: Collection[Key] | None,
        of_others: Callable[[], Collection[Key]],
    ) -> None:
        """Go a step towards the target assignment.

        :param target: the target assignment
        :param epoch: of the target assignment
        :param owned: what the member says that it has; None: it does not say
        :param of_others: returns what other members hold
        """
        if self.is_at(epoch):
            return
        if self.state is MemberState.UNREVOKED and (owned is None or not self.revoking.isdisjoint(owned)):
            return
        kept = {key: since for key, since in self.assigned.items() if key in target}
        revoked = self.assigned.keys() - kept.keys()
        if revoked and (owned is None or not revoked.isdisjoint(owned)):
            self.assigned, self.revoking, self.state = kept, set(revoked), MemberState.UNREVOKED
            return
        missing = set(target) - kept.keys()
        free = missing.difference(of_others()) if missing else missing
        self.assigned = kept | dict.fromkeys(free, epoch)
        self.revoking = set()
        self.state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED
        if self.epoch != epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch
