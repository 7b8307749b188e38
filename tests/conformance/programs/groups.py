"""Programs about groups and their offsets."""

from __future__ import annotations

from typing import Any

from pykafka.protocol import wire
from tests.conformance.programs.common import make_topic, topic_id
from tests.conformance.speaker import Speaker

#: What a coordinator says that has yet to begin.
LOADING = {14, 15, 16}
#: Of every protocol in these programs: brokers do not look into it.
METADATA = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"


def find_coordinator(speaker: Speaker, key: str, kind: int = 0) -> None:
    """Wait until a group or a transactional id has a coordinator."""
    for _ in range(200):
        request = wire.FindCoordinatorRequest(key=key, key_type=kind)
        version = speaker.versions(wire.FindCoordinatorRequest)[-1]
        found = speaker.ask(request, version)
        row = found.coordinators[0] if version >= 4 else found
        if not row.error_code and (kind or not is_loading(speaker, key)):
            return
        speaker.wait(0.1)
    raise AssertionError(f"{key} has no coordinator after 20 s")


def is_loading(speaker: Speaker, group: str) -> bool:
    """Return whether the coordinator of a group has yet to begin its work."""
    if not speaker.has(wire.DescribeGroupsRequest):
        return False
    # To a heartbeat, a coordinator that is loading answers as if nothing were wrong.
    return speaker.ask(wire.DescribeGroupsRequest(groups=[group])).groups[0].error_code in LOADING


def join_request(version: int, group: str, member: str = "", **more: Any) -> wire.JoinGroupRequest:
    """Return a request to join a group."""
    protocols = [wire.JoinGroupRequest.Protocol(name=name, metadata=METADATA) for name in ("range", "other")]
    request = wire.JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, member_id=member, protocol_type="consumer", protocols=protocols
    )
    if version >= 1:
        request.rebalance_timeout_ms = 10_000
    for name, value in more.items():
        setattr(request, name, value)
    return request


def join(speaker: Speaker, version: int, group: str) -> wire.JoinGroupResponse:
    """Become the one member of a group."""
    found = speaker.ask(join_request(version, group), version)
    if found.error_code == 79:
        found = speaker.ask(join_request(version, group, found.member_id), version)
    assert not found.error_code, found
    return found


def life_of_a_member(speaker: Speaker) -> None:
    """Join, sync, heartbeat, join again, leave: in each version."""
    for version in speaker.versions(wire.JoinGroupRequest):
        group = f"life-{version}"
        find_coordinator(speaker, group)
        found = speaker.say("join", join_request(version, group), version)
        if found is not None and found.error_code == 79:
            found = speaker.say("join with an id", join_request(version, group, found.member_id), version)
        assert found is not None
        member, generation = found.member_id, found.generation_id
        beat = wire.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        speaker.say("heartbeat before the sync", beat)
        own = wire.SyncGroupRequest.Assignment(member_id=member, assignment=b"mine")
        sync = wire.SyncGroupRequest(group_id=group, generation_id=generation, member_id=member, assignments=[own])
        sync_version = speaker.versions(wire.SyncGroupRequest)[-1]
        if sync_version >= 5:
            sync.protocol_type, sync.protocol_name = "consumer", "range"
        speaker.say("sync", sync, sync_version)
        speaker.say("sync again", sync, sync_version)
        for beats in speaker.versions(wire.HeartbeatRequest):
            speaker.say("heartbeat", beat, beats)
        speaker.say("join again", join_request(version, group, member), version)
        describe(speaker, group)
        leave(speaker, group, member)
        leave(speaker, group, member)
        speaker.say("heartbeat after the end", beat)
        describe(speaker, group)


def describe(speaker: Speaker, group: str) -> None:
    """Describe a group, in the lowest and the highest version."""
    versions = speaker.versions(wire.DescribeGroupsRequest)
    for version in sorted({*versions[:1], *versions[-1:]}):
        speaker.say("describe", wire.DescribeGroupsRequest(groups=[group]), version)


def leave(speaker: Speaker, group: str, member: str) -> None:
    """Leave, in the highest version."""
    version = speaker.versions(wire.LeaveGroupRequest)[-1]
    request = wire.LeaveGroupRequest(group_id=group)
    if version >= 3:
        request.members = [wire.LeaveGroupRequest.Member(member_id=member)]
    else:
        request.member_id = member
    speaker.say("leave", request, version)


def joins_that_are_refused(speaker: Speaker) -> None:
    """Join with a strange member id, a session that is too short, no group, no protocol."""
    if not speaker.has(wire.JoinGroupRequest):
        return
    versions = speaker.versions(wire.JoinGroupRequest)
    for version in sorted({versions[0], versions[-1]}):
        find_coordinator(speaker, "refused")
        for label, request in {
            "a strange member": join_request(version, "refused", "nobody"),
            "a short session": join_request(version, "refused", session_timeout_ms=10),
            "a long session": join_request(version, "refused", session_timeout_ms=2**31 - 1),
            "no group": join_request(version, ""),
            "no protocol": join_request(version, "refused-2", protocols=[]),
            "no type": join_request(version, "refused-3", protocol_type=""),
        }.items():
            if speaker.numbers < (1,) and label in ("no protocol", "no type"):
                continue  # brokers of then take in who has no type, and fail without protocols
            speaker.say(label, request, version)
        group = f"refused-other-{version}"
        find_coordinator(speaker, group)
        member = join(speaker, version, group)
        speaker.say("another type", join_request(version, group, protocol_type="other"), version)
        strange = wire.HeartbeatRequest(group_id=group, generation_id=member.generation_id, member_id="nobody")
        speaker.say("heartbeat of nobody", strange)
        late = wire.HeartbeatRequest(group_id=group, generation_id=99, member_id=member.member_id)
        speaker.say("heartbeat of another generation", late)
        speaker.say("heartbeat of no group", wire.HeartbeatRequest(group_id="none", generation_id=1, member_id="a"))
        sync = wire.SyncGroupRequest(group_id=group, generation_id=99, member_id=member.member_id)
        speaker.say("sync of another generation", sync, min(4, speaker.versions(wire.SyncGroupRequest)[-1]))


def commit_request(speaker: Speaker, version: int, group: str, offset: int, **more: Any) -> wire.OffsetCommitRequest:
    """Return a request that commits an offset of two partitions of the topic "commits", one of which is not there."""
    topic = wire.OffsetCommitRequest.Topic(name="commits")
    for index in (0, 7):
        one = topic.Partition(partition_index=index, committed_offset=offset, committed_metadata=f"m{version}")
        topic.partitions = [*topic.partitions, one]
    if version >= 10:
        topic.topic_id = topic_id(speaker, "commits")  # type: ignore[assignment]
    request = wire.OffsetCommitRequest(group_id=group, topics=[topic])
    for name, value in more.items():
        setattr(request, name, value)
    return request


def fetch_offsets(speaker: Speaker, version: int, group: str, *, stable: bool = False) -> None:
    """Say which offsets a group has committed.

    :param stable: refuse those that a transaction may change
    """
    request = wire.OffsetFetchRequest(require_stable=stable)
    if version >= 8:
        wanted = wire.OffsetFetchRequest.Group.Topic(name="commits", partition_indexes=[0, 1])
        if version >= 10:
            wanted.topic_id = topic_id(speaker, "commits")  # type: ignore[assignment]
        request.groups = [wire.OffsetFetchRequest.Group(group_id=group, topics=[wanted])]
    else:
        request.group_id = group
        request.topics = [wire.OffsetFetchRequest.Topic(name="commits", partition_indexes=[0, 1])]
    speaker.say("committed", request, version)


def commits_of_each_version(speaker: Speaker) -> None:
    """Commit without a membership, and read it in each version."""
    make_topic(speaker, "commits", 2)
    for version in speaker.versions(wire.OffsetCommitRequest):
        group = f"commits-{version}"
        find_coordinator(speaker, group)
        for reads in speaker.versions(wire.OffsetFetchRequest):
            if (reads == 0) == (version == 0):
                fetch_offsets(speaker, reads, group)
        speaker.say("commit", commit_request(speaker, version, group, 5), version)
        for reads in speaker.versions(wire.OffsetFetchRequest):
            if (reads == 0) == (version == 0):
                fetch_offsets(speaker, reads, group)


def commits_of_members(speaker: Speaker) -> None:
    """Commit as a member, in a wrong generation, as nobody, as no member of a group that has some."""
    if not speaker.has(wire.JoinGroupRequest):
        return
    make_topic(speaker, "commits", 2)
    find_coordinator(speaker, "members")
    version = min(speaker.versions(wire.OffsetCommitRequest)[-1], 9)
    found = join(speaker, speaker.versions(wire.JoinGroupRequest)[-1], "members")
    for label, generation, member in (
        ("before the sync", found.generation_id, found.member_id),
        ("another generation", 99, found.member_id),
        ("nobody", found.generation_id, "nobody"),
        ("no member", -1, ""),
    ):
        more = {"generation_id_or_member_epoch": generation, "member_id": member}
        speaker.say(label, commit_request(speaker, version, "members", 3, **more), version)
    own = wire.SyncGroupRequest.Assignment(member_id=found.member_id, assignment=b"mine")
    sync = wire.SyncGroupRequest(
        group_id="members", generation_id=found.generation_id, member_id=found.member_id, assignments=[own]
    )
    speaker.ask(sync, min(4, speaker.versions(wire.SyncGroupRequest)[-1]))
    more = {"generation_id_or_member_epoch": found.generation_id, "member_id": found.member_id}
    speaker.say("after the sync", commit_request(speaker, version, "members", 3, **more), version)
    speaker.say("no member", commit_request(speaker, version, "members", 4), version)
    if speaker.has(wire.DeleteGroupsRequest):
        speaker.say("delete while it has a member", wire.DeleteGroupsRequest(groups_names=["members", "members-none"]))


def next_generation(speaker: Speaker) -> None:
    """Join a group of the next-generation protocol, go on, commit, leave (KIP-848)."""
    if not speaker.has(wire.ConsumerGroupHeartbeatRequest):
        return
    make_topic(speaker, "next", 2)
    find_coordinator(speaker, "next")
    version = speaker.versions(wire.ConsumerGroupHeartbeatRequest)[-1]

    def beat(label: str, epoch: int, **more: Any) -> wire.ConsumerGroupHeartbeatResponse | None:
        request = wire.ConsumerGroupHeartbeatRequest(group_id="next", member_id="a" * 22, member_epoch=epoch, **more)
        return speaker.say(label, request, version)

    beat("no subscription", 0, rebalance_timeout_ms=5000)
    beat("no time-out", 0, subscribed_topic_names=["next"], topic_partitions=[])
    beat("strange member", 4)
    found = beat("join", 0, rebalance_timeout_ms=5000, subscribed_topic_names=["next"], topic_partitions=[])
    assert found is not None
    beat("go on", found.member_epoch)
    beat("an old epoch", found.member_epoch + 5)
    speaker.say("describe", wire.ConsumerGroupDescribeRequest(group_ids=["next", "next-none"]))
    beat("leave", -1)
    beat("leave again", -1)
    describe(speaker, "next")


GROUPS = (life_of_a_member, joins_that_are_refused, commits_of_each_version, commits_of_members, next_generation)
