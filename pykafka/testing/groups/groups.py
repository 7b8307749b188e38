"""`Groups`: all groups of a cluster, whatever their protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pykafka.exceptions import (
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    NonEmptyGroup,
    UnknownMemberId,
)
from pykafka.protocol import wire
from pykafka.testing.groups import migration
from pykafka.testing.groups.classic import ClassicGroup
from pykafka.testing.groups.consumer_group import ConsumerGroup
from pykafka.testing.groups.group import Group
from pykafka.testing.groups.pending_answer import Client, PendingAnswer
from pykafka.testing.groups.settings import GroupSettings
from pykafka.testing.groups.share_group import ShareGroup
from pykafka.testing.groups.share_partitions import SharePartitions

if TYPE_CHECKING:
    from pykafka.testing.groups.group import Commit
    from pykafka.testing.offsets import Offsets
    from pykafka.testing.topics import Topic
    from pykafka.testing.waiters import Waiters


class Groups:
    """The groups of a cluster. Its methods raise the error that brokers answer with.

    :param waiters: of the cluster
    :param topics: of the cluster, by name
    :param offsets: of all groups
    :param new_id: makes ids of members
    :param setting: returns a setting of a group, by the group's name and its own
    """

    def __init__(
        self,
        waiters: Waiters,
        topics: dict[str, Topic],
        offsets: Offsets,
        new_id: Callable[[], UUID],
        setting: Callable[[str, str], str],
    ) -> None:
        self._waiters = waiters
        self._topics = topics
        self._offsets = offsets
        self._new_id = new_id
        self._setting = setting
        self.settings = GroupSettings()
        #: What share groups have acquired, and what became of it.
        self.shares = SharePartitions(waiters, setting)
        self._groups: dict[str, Group[Any]] = {}
        self._expires = False

    def __iter__(self) -> Iterator[Group[Any]]:
        return iter(list(self._groups.values()))

    def get(self, name: str) -> Group[Any] | None:
        """Return a group, if there is one of that name."""
        return self._groups.get(name)

    def classic(self, name: str) -> ClassicGroup | None:
        """Return a group of the classic protocol."""
        group = self._groups.get(name)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, name: str) -> ConsumerGroup | None:
        """Return a group of the consumer protocol (KIP-848)."""
        group = self._groups.get(name)
        return group if isinstance(group, ConsumerGroup) else None

    def put(self, group: Group[Any]) -> None:
        """Take a group in, instead of one of the same name."""
        before = self._groups.get(group.name)
        if before is not None:
            before.close()
        self._groups[group.name] = group
        if not self._expires:
            self._expires = True
            self._waiters.after(self.settings.retention_check_interval_ms, self._expire)

    def _new_classic(self, name: str) -> ClassicGroup:
        group = ClassicGroup(name, self._waiters, self.settings, self._new_id)
        self.put(group)
        return group

    def _new_consumer(self, name: str) -> ConsumerGroup:
        group = ConsumerGroup(name, self._waiters, self.settings, self._topics, self._new_id)
        self.put(group)
        return group

    # -- members of the classic protocol, in groups of both --

    def join(self, request: wire.JoinGroupRequest, client: Client) -> PendingAnswer[wire.JoinGroupResponse]:
        """Take a member in, or let one take part in a rebalance."""
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return group.join(request, client)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            held = migration.ClassicMembers(group, self._new_id).join(request, client)
            self._downgrade(request.group_id)
            return held
        if group is not None and (isinstance(group, ShareGroup) or not group.is_empty):
            raise InconsistentGroupProtocol(f"group {group.name} has another protocol")
        if request.member_id:
            raise UnknownMemberId(f"there is no group {request.group_id}")
        return self._new_classic(request.group_id).join(request, client)

    def sync(self, request: wire.SyncGroupRequest) -> PendingAnswer[wire.SyncGroupResponse]:
        """Answer with a member's assignment."""
        return self._for_classic(request.group_id).sync(request)

    def heartbeat(self, request: wire.HeartbeatRequest) -> None:
        """Note the sign of life of a member of the classic protocol."""
        self._for_classic(request.group_id).heartbeat(request)

    def leave(self, group: str, member_id: str, instance_id: str | None) -> None:
        """Remove a member of the classic protocol."""
        self._for_classic(group).leave(member_id, instance_id)
        self._downgrade(group)

    def _for_classic(self, name: str) -> ClassicGroup | migration.ClassicMembers:
        group = self._groups.get(name)
        if isinstance(group, ClassicGroup):
            return group
        if isinstance(group, ConsumerGroup):
            return migration.ClassicMembers(group, self._new_id)
        raise UnknownMemberId(f"there is no group {name}")

    # -- members of the consumer protocol --

    def consumer_heartbeat(
        self, request: wire.ConsumerGroupHeartbeatRequest, client: Client
    ) -> wire.ConsumerGroupHeartbeatResponse:
        """Take in, keep or let go a member of the consumer protocol, and return what it may read."""
        ConsumerGroup.check(request, client.version)
        group = self._groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            if request.member_epoch != 0 or (group is not None and not isinstance(group, ClassicGroup)):
                raise GroupIdNotFound(f"Consumer group {request.group_id} not found.")
            if group is None or group.is_empty:
                group = self._new_consumer(request.group_id)
            else:
                migration.check_upgrade(group, self.settings)
                upgraded = self._new_consumer(group.name)
                migration.upgrade(group, upgraded)
                group = upgraded
            group.on_removed = lambda: self._downgrade(request.group_id)
        try:
            return group.heartbeat(request, client)
        finally:  # also if it is refused: its group was upgraded for nothing
            self._downgrade(request.group_id)

    def _downgrade(self, name: str) -> None:
        group = self._groups.get(name)
        if isinstance(group, ConsumerGroup) and migration.may_downgrade(group, self.settings):
            migration.downgrade(group, self._new_classic(name))

    # -- share groups --

    def share(self, name: str) -> ShareGroup:
        """Return a share group.

        :raises GroupIdNotFound: there is none of that name
        """
        group = self._groups.get(name)
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"Group {name} {'not found' if group is None else 'is not a share group'}.")
        return group

    def share_or_new(self, name: str) -> ShareGroup:
        """Return a share group, which is made if there is no group of that name."""
        if name in self._groups:
            return self.share(name)
        group = ShareGroup(name, self._waiters, self._topics, lambda setting: self._setting(name, setting))
        self.put(group)
        return group

    def share_heartbeat(
        self, request: wire.ShareGroupHeartbeatRequest, client: Client
    ) -> wire.ShareGroupHeartbeatResponse:
        """Take in, keep or let go a member of a share group, and return what it may read."""
        joins = request.member_epoch == 0
        group = self.share_or_new(request.group_id) if joins else self.share(request.group_id)
        answer = group.heartbeat(request, client)
        by_id = {topic.id: topic for topic in self._topics.values()}
        for topic_id, index in {key for keys in group.target.values() for key in keys}:
            self.shares.begin(group.name, (topic_id, index), by_id[topic_id].partitions[index])
        return answer

    # -- offsets --

    def check_commit(self, name: str, commit: Commit) -> None:
        """Raise the error that refuses a commit, if one does. Who is no member makes the group exist."""
        group = self._groups.get(name)
        if group is None:
            if commit.epoch >= 0:
                if self.settings.path.next_generation and commit.version >= 9 and not commit.is_transactional:
                    raise GroupIdNotFound(f"Group {name} not found.")
                raise IllegalGeneration(f"there is no group {name}")
            group = self._new_classic(name)
        group.check_commit(commit)

    def for_offset_delete(self, name: str) -> Group[Any]:
        """Return the group whose offsets shall be deleted, if its members say what they read."""
        group = self._groups.get(name)
        if group is None or isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"Group {name} not found.")
        if not group.is_empty and group.protocol_type != "consumer":
            raise NonEmptyGroup(f"The group {name} is not empty.")
        return group

    def delete(self, name: str) -> None:
        """Delete a group without members, and its offsets."""
        group = self._groups.get(name)
        if group is None:
            raise GroupIdNotFound(f"Group {name} not found.")
        if not group.is_empty:
            raise NonEmptyGroup(f"The group {name} is not empty.")
        self._delete(group)

    def _delete(self, group: Group[Any]) -> None:
        group.close()
        del self._groups[group.name]
        self._offsets.delete_group(group.name)
        self.shares.delete(group.name)

    def forget_without_offsets(self, group: Group[Any]) -> None:
        """Forget an empty group, unless it has offsets, in a transaction or not."""
        if not self._offsets.of_group(group.name) and group.name not in self._offsets.pending_groups():
            self._delete(group)

    def _expire(self) -> None:
        """Forget old offsets, and empty groups that have none."""
        for group in self:
            if group.is_empty and not isinstance(group, ShareGroup):
                self._offsets.expire(group.name, group.empty_since_ms, self.settings.offsets_retention_ms)
                self.forget_without_offsets(group)
        self._waiters.after(self.settings.retention_check_interval_ms, self._expire)
