"""`Group`: what groups of all protocols have in common; `Commit`: who commits offsets to one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from pykafka.exceptions import FencedInstanceId, UnknownMemberId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pykafka.testing.deadline import Deadline
    from pykafka.testing.waiters import Waiters


class AnyMember(Protocol):
    """A member of a group of any protocol."""

    member_id: str
    #: Of a static member.
    instance_id: str | None


M = TypeVar("M", bound=AnyMember)


class Commit(NamedTuple):
    """The sender of a commit, and its partitions.

    :param member_id: "": not a member
    :param instance_id: of a static member
    :param epoch: the member's epoch or the generation; -1: none
    :param is_transactional: by TxnOffsetCommit
    :param version: of the request
    :param partitions: (topic, partition)
    """

    member_id: str
    instance_id: str | None
    epoch: int
    is_transactional: bool
    version: int
    partitions: Collection[tuple[str, int]]

    @property
    def is_anonymous(self) -> bool:
        """Whether it names no member."""
        return self.epoch < 0 and not self.member_id and self.instance_id is None


class Group(ABC, Generic[M]):
    """One group. Its methods raise the error that the broker answers with.

    :param name: of the group
    :param waiters: of the cluster
    """

    #: As ListGroups reports it: "classic", "consumer", "share".
    type: str
    protocol_type: str

    def __init__(self, name: str, waiters: Waiters) -> None:
        self.name = name
        self.waiters = waiters
        self.members: dict[str, M] = {}
        #: Member ids by group.instance.id (KIP-345).
        self.static_members: dict[str, str] = {}
        #: Since when it has had no members, if it has none (ms since 1970).
        self.empty_since_ms = waiters.now_ms()

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state, as brokers report it."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def member(self, member_id: str, instance_id: str | None = None) -> M:
        """Return a member; the id must be that of the static member, if it is one."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
            if known != member_id:
                raise fenced_instance(member_id, instance_id, known)
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.name}.")
        return member

    def add(self, member: M) -> None:
        """Take a member in."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member reads a topic."""

    @abstractmethod
    def check_commit(self, commit: Commit) -> None:
        """Raise the error that refuses a commit, if one does."""

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise the error that refuses to report offsets to a member, if one does."""

    @abstractmethod
    def deadlines(self) -> Iterator[Deadline]:
        """Yield the sessions of members, and what else ends by itself."""

    def close(self) -> None:
        """End all timers: the group is deleted, or becomes one of another protocol."""
        for deadline in self.deadlines():
            deadline.cancel()


def fenced_instance(member_id: str, instance_id: str, other: str) -> FencedInstanceId:
    """Return the error of a member whose place another one has taken."""
    return FencedInstanceId(f"Static member {member_id} with instance id {instance_id} was fenced by member {other}.")
