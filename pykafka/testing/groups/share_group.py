"""`ShareGroup`: the members of a share group, and which partitions each reads (KIP-932)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykafka.exceptions import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
)
from pykafka.protocol import wire
from pykafka.testing.deadline import Deadline
from pykafka.testing.groups.consumer_group import by_topic
from pykafka.testing.groups.group import Group

if TYPE_CHECKING:
    from pykafka.testing.groups.consumer_member import Key
    from pykafka.testing.groups.group import Commit
    from pykafka.testing.groups.pending_answer import Client
    from pykafka.testing.topics import Topic
    from pykafka.testing.waiters import Waiters

_Answer = wire.ShareGroupHeartbeatResponse
#: The one assignor of share groups.
ASSIGNOR = "simple"


@dataclass(eq=False, repr=False)
class ShareMember:
    """One member.

    :param member_id: that it made itself
    :param client: who it is
    :param session: calls the group when the member has sent nothing for its session timeout
    """

    member_id: str
    client: Client
    session: Deadline
    instance_id: str | None = None
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: set[Key] = field(default_factory=set)

    def __repr__(self) -> str:
        return f"<ShareMember {self.member_id} epoch={self.epoch}>"


class ShareGroup(Group[ShareMember]):
    """One group: its members, its epoch, and the assignment, which each member gets by its next heartbeat.

    :param name: of the group
    :param waiters: of the cluster
    :param topics: of the cluster, by name
    :param setting: returns a setting of the group, such as "share.session.timeout.ms"
    """

    type = "share"
    protocol_type = "share"

    def __init__(self, name: str, waiters: Waiters, topics: dict[str, Topic], setting: Callable[[str], str]) -> None:
        super().__init__(name, waiters)
        self.setting = setting
        #: Counts changes of members, of what they read, and of those topics.
        self.epoch = 1
        self.target: dict[str, set[Key]] = {}
        self._topics = topics
        self._partitions: dict[str, list[Key]] = {}

    def __repr__(self) -> str:
        return f"<ShareGroup {self.name} {self.state_name} epoch={self.epoch} members={len(self.members)}>"

    @property
    def state_name(self) -> str:
        """The state, as brokers report it."""
        return "Stable" if self.members else "Empty"

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member reads a topic."""
        return any(topic in member.topics for member in self.members.values())

    def check_commit(self, commit: Commit) -> None:
        """Refuse a commit: a share group has none.

        :raises GroupIdNotFound: always
        """
        raise GroupIdNotFound(f"Group {self.name} is not a consumer group.")

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the sessions of members."""
        for member in self.members.values():
            yield member.session

    @staticmethod
    def check(request: wire.ShareGroupHeartbeatRequest) -> None:
        """Raise the error of a heartbeat that makes no sense, whatever the group."""
        wrong = ""
        if not request.member_id:
            wrong = "MemberId can't be empty."
        elif not request.group_id:
            wrong = "GroupId can't be empty."
        elif request.rack_id == "":
            wrong = "RackId can't be empty."
        elif request.member_epoch < -1:
            wrong = f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -1."
        elif request.member_epoch == 0 and not request.subscribed_topic_names:
            wrong = "SubscribedTopicNames must be set in first request."
        if wrong:
            raise InvalidRequest(wrong)

    def heartbeat(self, request: wire.ShareGroupHeartbeatRequest, client: Client) -> _Answer:
        """Take in, keep or let go a member, and return what it may read now."""
        if request.member_epoch < 0:
            self.remove(self.member(request.member_id))
            return _Answer(member_id=request.member_id, member_epoch=request.member_epoch)
        member = self._sender(request, client)
        before = member.topics
        if request.subscribed_topic_names is not None:
            member.topics = frozenset(request.subscribed_topic_names)
        if request.rack_id is not None:
            member.rack_id = request.rack_id
        is_new = member.member_id not in self.members
        self.add(member)
        self._refresh(bumps=is_new or member.topics != before)
        member.session.extend(int(self.setting("share.session.timeout.ms")))
        answer = _Answer(
            member_id=member.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=int(self.setting("share.heartbeat.interval.ms")),
        )
        target = self.target[member.member_id]
        if request.member_epoch == 0 or target != member.assigned:
            answer.assignment = _Answer.Assignment(
                topic_partitions=[
                    _Answer.Assignment.TopicPartitions(topic_id=topic, partitions=ids)
                    for topic, ids in by_topic(target).items()
                ]
            )
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        member.assigned = target
        return answer

    def _sender(self, request: wire.ShareGroupHeartbeatRequest, client: Client) -> ShareMember:
        epoch, member_id = request.member_epoch, request.member_id
        if epoch == 0 and member_id not in self.members:
            most = int(self.setting("group.share.max.size"))
            if len(self.members) >= most:
                raise GroupMaxSizeReached(f"The share group has reached its maximum capacity of {most} members.")
            session = Deadline(self.waiters, lambda: self.remove(member))
            member = ShareMember(member_id, client, session)
            return member
        member = self.member(member_id)
        member.client = client
        if epoch not in (0, member.epoch, member.previous_epoch):
            than = "greater" if epoch > member.epoch else "smaller"
            raise FencedMemberEpoch(
                f"The share group member has a {than} member epoch ({epoch}) than the one known by the group "
                f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
            )
        return member

    def remove(self, member: ShareMember) -> None:
        """Remove a member. Records that it has acquired stay its own until their locks end."""
        member.session.cancel()
        del self.members[member.member_id]
        self._refresh(bumps=True)
        if not self.members:
            self.empty_since_ms = self.waiters.now_ms()

    def _refresh(self, *, bumps: bool) -> None:
        """Make a new assignment if there is a reason.

        :param bumps: whether a member came or went, or reads other topics
        """
        names = {name for member in self.members.values() for name in member.topics if name in self._topics}
        partitions = {
            name: [(self._topics[name].id, index) for index in range(len(self._topics[name].partitions))]
            for name in names
        }
        if bumps or partitions != self._partitions:
            self.epoch += 1
            self._partitions = partitions
            self.target = simple_assignment(
                {
                    id_: [key for name in member.topics for key in partitions.get(name, ())]
                    for id_, member in self.members.items()
                },
                self.target,
            )


def simple_assignment(
    wanted: Mapping[str, Collection[Key]], before: Mapping[str, Collection[Key]]
) -> dict[str, set[Key]]:
    """Return what each member shall read: each partition has a reader, each member a partition.

    :param wanted: the partitions of the topics that each member reads
    :param before: the last assignment, which is kept as far as it is even
    """
    keys = {key for wants in wanted.values() for key in wants}
    sharing = -(-len(wanted) // max(len(keys), 1))
    used: Counter[Key] = Counter()
    shares: dict[str, set[Key]] = {}
    quota, longer = divmod(sharing * len(keys), max(len(wanted), 1))
    for member, wants in wanted.items():
        kept = sorted(key for key in before.get(member, ()) if key in wants and used[key] < sharing)
        kept = kept[: quota + (longer > 0)]
        longer -= len(kept) > quota
        shares[member] = set(kept)
        used.update(kept)
    for _ in range(sharing):
        for key in sorted(keys, key=lambda key: (used[key], key)):
            readers = [member for member, wants in wanted.items() if key in wants and key not in shares[member]]
            if used[key] < sharing and readers:
                shares[min(readers, key=lambda member: len(shares[member]))].add(key)
                used[key] += 1
    return shares
