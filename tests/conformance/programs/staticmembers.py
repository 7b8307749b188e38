"""Programs about static members: of the classic protocol (KIP-345), and of the next-generation one (KIP-848)."""

from __future__ import annotations

from typing import Any

from pykafka.protocol import wire
from tests.conformance.programs.common import make_topic
from tests.conformance.programs.groups import commit_request, describe, fetch_offsets, find_coordinator, join_request
from tests.conformance.speaker import Speaker

#: The first versions with `group_instance_id`.
JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT = 5, 3, 3, 3, 7


class Member:
    """A member of a classic group, as it takes itself for one.

    :param speaker: what talks with the coordinator
    :param group: the name of the group
    :param instance: the instance id that it names
    """

    def __init__(self, speaker: Speaker, group: str, instance: str | None) -> None:
        self._speaker, self._group, self._instance = speaker, group, instance
        self.member_id, self.generation = "", -1

    def join(self, label: str, **more: Any) -> None:
        """Join, and take the member id and the generation over, if that is not refused."""
        version = min(self._speaker.versions(wire.JoinGroupRequest)[-1], 9)
        request = join_request(version, self._group, self.member_id, group_instance_id=self._instance, **more)
        found = self._speaker.say(label, request, version)
        if found is not None and not found.error_code:
            self.member_id, self.generation = found.member_id, found.generation_id

    def sync(self, label: str) -> None:
        """Sync, with an assignment for itself."""
        own = wire.SyncGroupRequest.Assignment(member_id=self.member_id, assignment=b"mine")
        request = wire.SyncGroupRequest(**self._named(), assignments=[own])
        version = self._speaker.versions(wire.SyncGroupRequest)[-1]
        if version >= 5:
            request.protocol_type, request.protocol_name = "consumer", "range"
        self._speaker.say(label, request, version)

    def beat(self, label: str) -> None:
        """Send a heartbeat."""
        self._speaker.say(label, wire.HeartbeatRequest(**self._named()))

    def commit(self, label: str, offset: int) -> None:
        """Commit an offset."""
        version = min(self._speaker.versions(wire.OffsetCommitRequest)[-1], 9)
        more: dict[str, Any] = {"member_id": self.member_id, "group_instance_id": self._instance}
        more["generation_id_or_member_epoch"] = self.generation
        self._speaker.say(label, commit_request(self._speaker, version, self._group, offset, **more), version)

    def _named(self) -> dict[str, Any]:
        return {
            "group_id": self._group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self._instance,
        }


def leave(speaker: Speaker, label: str, group: str, member_id: str, instance: str | None) -> None:
    """Take a member out, as itself does or an administrator."""
    member = wire.LeaveGroupRequest.Member(member_id=member_id, group_instance_id=instance)
    speaker.say(label, wire.LeaveGroupRequest(group_id=group, members=[member]))


def prepared(speaker: Speaker, group: str) -> bool:
    """Make the topic, and find the coordinator; return False if the broker has no static members."""
    if not speaker.has(wire.JoinGroupRequest, JOIN):
        return False
    make_topic(speaker, "commits", 2)
    find_coordinator(speaker, group)
    return True


def static_member_is_replaced(speaker: Speaker) -> None:
    """Join with an instance id, and again without the member id, as after a restart: the former member is fenced."""
    group = "static"
    if not prepared(speaker, group):
        return
    former = Member(speaker, group, "one")
    former.join("join")
    former.beat("heartbeat before the sync")
    former.sync("sync")
    former.beat("heartbeat")
    former.commit("commit", 1)
    former.join("join again")
    former.sync("sync again")
    present = Member(speaker, group, "one")
    present.join("replace")
    present.sync("sync of the new one")
    present.beat("heartbeat of the new one")
    describe(speaker, group)
    former.beat("heartbeat of the former one")
    former.join("join of the former one")
    former.sync("sync of the former one")
    former.commit("commit of the former one", 3)
    leave(speaker, "the former one leaves", group, former.member_id, "one")
    without = Member(speaker, group, None)
    without.member_id, without.generation = former.member_id, former.generation
    without.beat("heartbeat of the former one without its instance id")
    without.commit("commit of the former one without its instance id", 4)
    leave(speaker, "the former one leaves without its instance id", group, former.member_id, None)
    present.commit("commit of the new one", 5)
    fetch_offsets(speaker, min(speaker.versions(wire.OffsetFetchRequest)[-1], 9), group)


def static_member_names_another_instance(speaker: Speaker) -> None:
    """Name an instance id that is no member's, with the member id of one."""
    group = "static-strange"
    if not prepared(speaker, group):
        return
    member, strange = Member(speaker, group, "one"), Member(speaker, group, "none")
    member.join("join")
    member.sync("sync")
    strange.member_id, strange.generation = member.member_id, member.generation
    strange.beat("heartbeat")
    strange.commit("commit", 2)
    strange.sync("sync")
    leave(speaker, "leave", group, member.member_id, "none")
    strange.join("join")
    strange.sync("sync")
    member.beat("heartbeat of the member")
    describe(speaker, group)


def static_member_is_removed(speaker: Speaker) -> None:
    """Take a static member out by its instance id, as an administrator does (KIP-345), and let it go on."""
    group = "static-removed"
    if not prepared(speaker, group):
        return
    member = Member(speaker, group, "one")
    member.join("join")
    member.sync("sync")
    leave(speaker, "an instance that is no member leaves", group, "", "none")
    leave(speaker, "another member id leaves", group, "nobody", "one")
    leave(speaker, "it is removed", group, "", "one")
    leave(speaker, "it is removed twice", group, "", "one")
    member.beat("heartbeat")
    member.commit("commit", 1)
    member.join("join")
    member.member_id = ""
    member.join("join as a new member")
    describe(speaker, group)


def static_member_has_another_subscription(speaker: Speaker) -> None:
    """Replace the one member by one with other protocols: the generation goes up if the chosen one is another."""
    group = "static-other"
    if not prepared(speaker, group):
        return
    Member(speaker, group, "one").join("join")
    second = Member(speaker, group, "one")
    second.join("replace before the sync")
    second.sync("sync")
    third = Member(speaker, group, "one")
    rows = [wire.JoinGroupRequest.Protocol(name=name, metadata=b"other") for name in ("range", "other")]
    third.join("replace with other metadata", protocols=rows)
    third.sync("sync")
    third.beat("heartbeat")
    describe(speaker, group)
    fourth = Member(speaker, group, "one")
    fourth.join("replace with another protocol", protocols=rows[1:])
    fourth.beat("heartbeat")
    describe(speaker, group)
    Member(speaker, group, "one").join("no protocol in common", protocols=[])


def next_generation_static(speaker: Speaker) -> None:
    """Join the next-generation protocol with an instance id, replace the member, before and after it has left for a time."""
    if not speaker.has(wire.ConsumerGroupHeartbeatRequest):
        return
    make_topic(speaker, "commits", 2)
    group = "next-static"
    find_coordinator(speaker, group)
    former, present = "a" * 22, "b" * 22

    def beat(label: str, member: str, epoch: int, instance: str | None = "one") -> int:
        request = wire.ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, instance_id=instance
        )
        if epoch == 0:
            request.rebalance_timeout_ms = 5_000
            request.subscribed_topic_names, request.topic_partitions = ["commits"], []
        found = speaker.say(label, request)
        return -1 if found is None else found.member_epoch

    def commit(label: str, member: str, epoch: int, instance: str | None = None) -> None:
        more = {"generation_id_or_member_epoch": epoch, "member_id": member, "group_instance_id": instance}
        speaker.say(label, commit_request(speaker, 9, group, 3, **more), 9)

    epoch = beat("join", former, 0)
    if epoch < 1:  # brokers before 4.0 have it switched off
        return
    commit("commit", former, epoch)
    commit("commit with the instance id", former, epoch, "one")
    commit("commit with another instance id", former, epoch, "none")
    commit("commit of an old epoch", former, epoch - 1)
    commit("commit of a later epoch", former, epoch + 1)
    commit("commit of nobody", present, epoch)
    commit("commit of no member", "", -1)
    beat("a second one joins", present, 0)
    beat("another instance id", former, epoch, "none")
    beat("no instance id", former, epoch, None)
    beat("leave for a time", former, -2)
    beat("leave for a time again", former, -2)
    beat("go on after that", former, epoch)
    commit("commit after that", former, epoch)
    epoch = beat("a second one joins after that", present, 0)
    beat("go on", present, epoch)
    beat("the former one goes on", former, epoch)
    beat("the former one joins", former, 0)
    commit("the former one commits", former, epoch)
    commit("the second one commits", present, epoch)
    beat("the former one leaves", former, -1)
    beat("leave for good", present, -1)
    beat("leave for a time after that", present, -2)
    beat("no instance id, for a time", present, -2, None)


STATIC_MEMBERS = (
    static_member_is_replaced,
    static_member_names_another_instance,
    static_member_is_removed,
    static_member_has_another_subscription,
    next_generation_static,
)
