"""`ConsumerGroup`: a group whose partitions the broker assigns (KIP-848)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from pykafka.exceptions import (
    FencedMemberEpoch,
    GroupMaxSizeReached,
    IllegalGeneration,
    InvalidRequest,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
    UnsupportedVersion,
)
from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment
from pykafka.testing.deadline import Deadline
from pykafka.testing.groups.consumer_member import AWAY, ConsumerMember, Key, MemberState
from pykafka.testing.groups.group import Group, fenced_instance
from pykafka.testing.groups.pending_answer import Client
from pykafka.testing.groups.targets import ASSIGNORS, preferred_assignor, target_assignment

if TYPE_CHECKING:
    from pykafka.testing.groups.group import Commit
    from pykafka.testing.groups.settings import GroupSettings
    from pykafka.testing.topics import Topic
    from pykafka.testing.waiters import Waiters

_Answer = wire.ConsumerGroupHeartbeatResponse
#: The end of an assignment of the classic protocol.
_NO_USER_DATA = (-1).to_bytes(4, "big", signed=True)


class ConsumerGroup(Group[ConsumerMember]):
    """One group: its members, its epochs, and the target assignment.

    :param name: of the group
    :param waiters: of the cluster
    :param settings: of the brokers
    :param topics: of the cluster, by name
    :param new_id: makes ids
    """

    type = "consumer"
    protocol_type = "consumer"

    def __init__(
        self,
        name: str,
        waiters: Waiters,
        settings: GroupSettings,
        topics: dict[str, Topic],
        new_id: Callable[[], UUID],
    ) -> None:
        super().__init__(name, waiters)
        self._settings = settings
        self._topics = topics
        self._new_id = new_id
        #: Counts changes of members, of what they read, and of those topics.
        self.epoch = 1
        #: The epoch of the target assignment.
        self.assignment_epoch = 1
        self.target: dict[str, set[Key]] = {}
        #: Called when a member has gone because its time was up.
        self.on_removed: Callable[[], object] = lambda: None
        # The topics that members read when the epoch last changed: their ids and numbers of partitions.
        self._read: dict[str, tuple[UUID, int]] = {}

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self.name} {self.state_name} epoch={self.epoch} members={len(self.members)}>"

    # -- what others ask --

    @property
    def state_name(self) -> str:
        """The state, as brokers report it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        done = all(member.is_at(self.assignment_epoch) for member in self.members.values())
        return "Stable" if done else "Reconciling"

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for."""
        return preferred_assignor(self.members.values())

    def subscribed(self, member: ConsumerMember) -> set[str]:
        """Return the topics that a member reads, as far as they exist."""
        names = {name for name in member.topics if name in self._topics}
        if member.pattern is not None:
            names |= member.pattern.matches(name for name, topic in self._topics.items() if not topic.is_internal)
        return names

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member reads a topic."""
        return any(topic in self.subscribed(member) for member in self.members.values())

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the sessions of members, and their times to revoke partitions."""
        for member in self.members.values():
            yield from (member.session, member.rebalance)

    def keys_of_names(self, listed: Iterable[tuple[str, Iterable[int]]]) -> set[Key]:
        """Return partitions by the ids of their topics, as far as those exist."""
        return {(self._topics[name].id, index) for name, indexes in listed if name in self._topics for index in indexes}

    def assignment_of(self, member: ConsumerMember) -> bytes:
        """Return what a member may read, in the format of the classic protocol."""
        names = {topic.id: name for name, topic in self._topics.items()}
        listed = [(names[topic], ids) for topic, ids in by_topic(member.assigned).items() if topic in names]
        return bytes(ConsumerProtocolAssignment(sorted(listed)).get_bytes()) + _NO_USER_DATA

    # -- heartbeats --

    @staticmethod
    def check(request: wire.ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Raise the error of a heartbeat that makes no sense, whatever the group."""
        epoch = request.member_epoch
        wrong = ""
        if not request.member_id and (version >= 1 or epoch != 0):
            wrong = "MemberId can't be empty."
        elif request.instance_id == "" or request.rack_id == "":
            wrong = f"{'InstanceId' if request.instance_id == '' else 'RackId'} can't be empty."
        elif epoch < AWAY:
            wrong = "MemberEpoch is invalid."
        elif epoch == AWAY and request.instance_id is None:
            wrong = "InstanceId can't be null."
        elif epoch == 0 and request.rebalance_timeout_ms == -1:
            wrong = "RebalanceTimeoutMs must be provided in first request."
        elif epoch == 0 and (request.topic_partitions is None or request.topic_partitions):
            wrong = "TopicPartitions must be empty when (re-)joining."
        elif epoch == 0 and request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            wrong = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        if wrong:
            raise InvalidRequest(wrong)
        if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
            raise UnsupportedAssignor(
                f"ServerAssignor {request.server_assignor} is not supported. "
                f"Supported assignors: {', '.join(ASSIGNORS)}."
            )

    def heartbeat(self, request: wire.ConsumerGroupHeartbeatRequest, client: Client) -> _Answer:
        """Take in, keep or let go a member, and return what it may read now."""
        if request.member_epoch < 0:
            return self._leave(request)
        owned = keys_of(request.topic_partitions)
        is_full = request.member_epoch == 0 or (
            request.rebalance_timeout_ms != -1
            and owned is not None
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        )
        is_new, member = self._sender(request, owned, client)
        changed = member.update(request)
        if is_new:
            self.add(member)
        self.refresh(bumps=changed or is_new)
        before = member.assigned.keys()
        self.reconcile(member, owned)
        self.keep(member)
        answer = _Answer(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._settings.of_group(self.name, "consumer.heartbeat.interval.ms"),
        )
        if is_full or member.assigned.keys() != before:
            answer.assignment = _Answer.Assignment(
                topic_partitions=[
                    _Answer.Assignment.TopicPartitions(topic_id=topic, partitions=ids)
                    for topic, ids in by_topic(member.assigned).items()
                ]
            )
        return answer

    def _sender(
        self, request: wire.ConsumerGroupHeartbeatRequest, owned: Collection[Key] | None, client: Client
    ) -> tuple[bool, ConsumerMember]:
        """Return whether the member of a heartbeat is not in the group yet, and the member."""
        epoch, instance_id = request.member_epoch, request.instance_id
        member_id = request.member_id or str(self._new_id())
        member = self.members.get(self.static_members.get(instance_id, "") if instance_id is not None else member_id)
        if member is None:
            if epoch != 0:
                raise UnknownMemberId(f"Member {member_id} is not a member of group {self.name}.")
            self.check_size()
            return True, self.made(member_id, instance_id, client)
        if member.member_id != member_id:
            if epoch != 0:
                raise fenced_instance(member_id, str(instance_id), member.member_id)
            if member.epoch != AWAY:
                raise UnreleasedInstanceId(
                    f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                    f"instance id is owned by {member.member_id} member."
                )
            return False, self.replace(member, member_id, client)
        member.client = client
        if member.epoch == AWAY and epoch == 0:
            member.epoch = member.previous_epoch = 0
        elif epoch != 0 and not member.may_send(epoch, owned):
            than = "greater" if epoch > member.epoch else "smaller"
            raise FencedMemberEpoch(
                f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group "
                f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
            )
        return False, member

    def check_size(self) -> None:
        """Raise an error if no member may come in addition."""
        if len(self.members) >= self._settings.max_size:
            raise GroupMaxSizeReached(
                f"The consumer group has reached its maximum capacity of {self._settings.max_size} members."
            )

    def made(self, member_id: str, instance_id: str | None, client: Client) -> ConsumerMember:
        """Return a new member, which is not in the group yet."""

        def expire() -> None:
            if self.members.get(member_id) is member:
                self.remove(member)
                self.on_removed()

        session, rebalance = Deadline(self.waiters, expire), Deadline(self.waiters, expire)
        member = ConsumerMember(member_id, instance_id, client, session, rebalance)
        return member

    def replace(self, old: ConsumerMember, member_id: str, client: Client) -> ConsumerMember:
        """Put a static member back by another member id, with what it has had."""
        member = self.made(member_id, old.instance_id, client)
        member.take_over(old)
        old.session.cancel()
        old.rebalance.cancel()
        del self.members[old.member_id]
        self.target[member_id] = self.target.pop(old.member_id, set())
        self.add(member)
        return member

    def keep(self, member: ConsumerMember) -> None:
        """Note a sign of life."""
        timeout_ms = None if member.classic is None else member.classic.session_timeout_ms
        member.session.extend(timeout_ms or self._settings.of_group(self.name, "consumer.session.timeout.ms"))

    # -- assignment --

    def refresh(self, *, bumps: bool) -> None:
        """Make a new target assignment if there is a reason.

        :param bumps: whether a member came, or reads other topics
        """
        subscribed = {member.member_id: self.subscribed(member) for member in self.members.values()}
        read = {
            name: (self._topics[name].id, len(self._topics[name].partitions))
            for names in subscribed.values()
            for name in names
        }
        if bumps or read != self._read:
            self.epoch += 1
            self._read = read
        if self.assignment_epoch < self.epoch:
            self.target = target_assignment(self.members, subscribed, self._topics, self.target)
            self.assignment_epoch = self.epoch

    def reconcile(self, member: ConsumerMember, owned: Collection[Key] | None) -> None:
        """Take a member a step towards its target assignment; it has its rebalance timeout to revoke what it must."""
        was = member.state
        target = self.target.get(member.member_id, set())
        member.reconcile(target, self.assignment_epoch, owned, lambda: self.of_others(member))
        if member.state is not MemberState.UNREVOKED:
            member.rebalance.cancel()
        elif was is not MemberState.UNREVOKED:
            member.rebalance.extend(member.rebalance_timeout_ms)

    def of_others(self, member: ConsumerMember) -> set[Key]:
        """Return the partitions that other members hold."""
        return {key for other in self.members.values() if other is not member for key in other.held}

    # -- who goes --

    def _leave(self, request: wire.ConsumerGroupHeartbeatRequest) -> _Answer:
        member = self.member(request.member_id, request.instance_id)
        if request.member_epoch == AWAY:
            member.epoch = AWAY
            member.state, member.revoking = MemberState.STABLE, set()
            member.rebalance.cancel()
            self.keep(member)
        else:
            self.remove(member)
        return _Answer(member_id=member.member_id, member_epoch=request.member_epoch)

    def remove(self, member: ConsumerMember) -> None:
        """Remove a member; the next heartbeat of another one makes a new target assignment."""
        member.session.cancel()
        member.rebalance.cancel()
        del self.members[member.member_id]
        self.target.pop(member.member_id, None)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self.epoch += 1
        if not self.members:
            self.empty_since_ms = self.waiters.now_ms()
            if self._settings.path.assigns_empty:
                self.assignment_epoch = self.epoch

    # -- offsets --

    def check_commit(self, commit: Commit) -> None:
        """Raise the error that refuses a commit, if one does."""
        if (commit.epoch < 0 and self.is_empty) or (commit.is_transactional and commit.is_anonymous):
            return
        member = self.member(commit.member_id)  # coordinators do not look at the instance id of a commit
        if member.classic is None and not commit.is_transactional and commit.version < 9:
            raise UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the modern group protocol"
            )
        if commit.epoch == member.epoch:
            return
        if self._settings.has_assignment_epochs and 0 <= commit.epoch < member.epoch:
            since = [self._assigned_since(member, *key) for key in commit.partitions]
            if all(epoch is not None and epoch <= commit.epoch for epoch in since):
                return
        text = f"The received member epoch {commit.epoch} does not match the expected member epoch {member.epoch}."
        raise StaleMemberEpoch(text) if member.classic is None else IllegalGeneration(text)

    def _assigned_since(self, member: ConsumerMember, topic: str, partition: int) -> int | None:
        known = self._topics.get(topic)
        return None if known is None else member.assigned.get((known.id, partition))

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise the error that refuses to report offsets to a member, if one does."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "", None)
        if epoch != member.epoch:
            raise StaleMemberEpoch(
                f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
            )


def keys_of(
    listed: list[wire.ConsumerGroupHeartbeatRequest.TopicPartitions] | None,
) -> set[Key] | None:
    """Return the partitions that a heartbeat lists; None: it says nothing of them."""
    return None if listed is None else {(one.topic_id, index) for one in listed for index in one.partitions}


def by_topic(keys: Collection[Key]) -> dict[UUID, list[int]]:
    """Return partitions by the id of their topic."""
    found: defaultdict[UUID, list[int]] = defaultdict(list)
    for topic, index in sorted(keys):
        found[topic].append(index)
    return found
