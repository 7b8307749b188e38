"""Programs of who administers groups: lists them, reads and deletes their offsets, deletes them."""

from __future__ import annotations

from typing import Any

from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolSubscription
from tests.conformance.programs.common import make_topic
from tests.conformance.programs.groups import commit_request, describe, find_coordinator, join_request
from tests.conformance.speaker import Speaker


def _member(speaker: Speaker, group: str, *topics: str, kind: str = "consumer") -> None:
    # One that is stable; it subscribes to topics, as consumers do.
    find_coordinator(speaker, group)
    metadata = bytes(ConsumerProtocolSubscription(topic_names=topics).get_bytes())
    rows = [wire.JoinGroupRequest.Protocol(name="range", metadata=metadata)]
    more: dict[str, Any] = {"protocols": rows, "protocol_type": kind}
    version = min(speaker.versions(wire.JoinGroupRequest)[-1], 3)
    found = speaker.ask(join_request(version, group, **more), version)
    own = wire.SyncGroupRequest.Assignment(member_id=found.member_id, assignment=b"mine")
    sync = wire.SyncGroupRequest(
        group_id=group, generation_id=found.generation_id, member_id=found.member_id, assignments=[own]
    )
    speaker.ask(sync, min(4, speaker.versions(wire.SyncGroupRequest)[-1]))


def _commit(speaker: Speaker, group: str) -> None:
    find_coordinator(speaker, group)
    version = min(speaker.versions(wire.OffsetCommitRequest)[-1], 7)
    speaker.ask(commit_request(speaker, version, group, 5), version)


def lists_of_groups(speaker: Speaker) -> None:
    """List groups, by the filters that each version has."""
    if not speaker.has(wire.ListGroupsRequest):
        return
    make_topic(speaker, "commits", 2)
    _commit(speaker, "list-offsets")
    _member(speaker, "list-stable")
    _member(speaker, "list-other", kind="other")
    if speaker.numbers >= (4,):
        beat = wire.ConsumerGroupHeartbeatRequest(
            group_id="list-next", member_id="m" * 22, rebalance_timeout_ms=5000, topic_partitions=[]
        )
        beat.subscribed_topic_names = ["commits"]
        find_coordinator(speaker, "list-next")
        speaker.ask(beat)
    for version in speaker.versions(wire.ListGroupsRequest):
        states = [[], ["Empty"], ["stable"], ["Stable", "Empty"], ["no state"]] if version >= 4 else [[]]
        types = [[], ["classic"], ["Consumer"], ["consumer", "share"], ["no type"]] if version >= 5 else [[]]
        for state in states:
            for kind in types:
                found = speaker.ask(wire.ListGroupsRequest(states_filter=state, types_filter=kind), version)
                mine = [speaker.described(one, version) for one in found.groups if one.group_id.startswith("list-")]
                rows = [found.error_code, sorted(mine, key=lambda one: str(one["group_id"]))]
                speaker.note(f"states {state}, types {kind}: ListGroups v{version}", rows)


def offsets_of_all_topics(speaker: Speaker) -> None:
    """Read all offsets of groups, of some, of none, of several groups at once."""
    if not speaker.has(wire.OffsetFetchRequest, 1):
        return
    make_topic(speaker, "commits", 2)
    for group in ("all-some", "all-none", ""):
        if group:
            find_coordinator(speaker, group)
    _commit(speaker, "all-some")
    wanted = wire.OffsetFetchRequest.Topic(name="commits", partition_indexes=[0, 1])
    for version in speaker.versions(wire.OffsetFetchRequest, 1):
        if version < 8:
            for group in ("all-some", "all-none", ""):
                request = wire.OffsetFetchRequest(group_id=group, topics=[])
                speaker.say(f"no topics of {group!r}", request, version)
                if version >= 2:
                    request.topics = None
                    speaker.say(f"all topics of {group!r}", request, version)
            continue
        made = wire.OffsetFetchRequest.Group
        for label, topics in (("no topics", []), ("all topics", None)):
            rows = [made(group_id=group, topics=topics) for group in ("all-some", "all-none")]
            speaker.say(label, wire.OffsetFetchRequest(groups=rows), version)
        if version < 10:
            one = made.Topic(name=wanted.name, partition_indexes=[0, 1])
            twice = [made(group_id="all-some", topics=[one])] * 2
            speaker.say("the group twice", wire.OffsetFetchRequest(groups=twice), version)
        if speaker.numbers >= (4,):  # 3.9.2 hangs up
            speaker.say("no group", wire.OffsetFetchRequest(groups=[]), version)
        nameless = wire.OffsetFetchRequest(groups=[made(group_id="", topics=None)])
        speaker.say("a group without a name", nameless, version)
        if version >= 9:
            strange = made(group_id="all-some", topics=None, member_id="nobody", member_epoch=3)
            speaker.say("as nobody", wire.OffsetFetchRequest(groups=[strange]), version)
            strange = made(group_id="all-none", topics=None, member_id="nobody", member_epoch=3)
            speaker.say("as nobody of no group", wire.OffsetFetchRequest(groups=[strange]), version)


def deletion_of_offsets(speaker: Speaker) -> None:
    """Delete offsets of groups with and without members, and of none."""
    if not speaker.has(wire.OffsetDeleteRequest):
        return
    make_topic(speaker, "commits", 2)
    make_topic(speaker, "commits-other", 2)
    for group in ("gone-offsets", "gone-members", "gone-other"):
        _commit(speaker, group)
    _member(speaker, "gone-members", "commits")
    _member(speaker, "gone-other", "commits-other", kind="other")
    api = wire.OffsetDeleteRequest
    rows = [
        api.Topic(name=name, partitions=[api.Topic.Partition(partition_index=index) for index in (0, 7)])
        for name in ("commits", "commits-other", "commits-none")
    ]
    find_coordinator(speaker, "gone-none")
    for group in ("gone-offsets", "gone-offsets", "gone-members", "gone-other", "gone-none", ""):
        for one in rows:
            speaker.say(f"offsets of {one.name} of {group!r}", api(group_id=group, topics=[one]))
        speaker.say(f"nothing of {group!r}", api(group_id=group, topics=[]))
    request = wire.OffsetFetchRequest(group_id="gone-offsets", topics=None)
    speaker.say("what is left", request, 5)
    request.group_id = "gone-members"
    speaker.say("what is left", request, 5)


def deletion_of_groups(speaker: Speaker) -> None:
    """Delete groups with and without members, one twice, one without a name, and none."""
    if not speaker.has(wire.DeleteGroupsRequest):
        return
    make_topic(speaker, "commits", 2)
    _member(speaker, "deleted-members")
    find_coordinator(speaker, "deleted-none")
    for version in speaker.versions(wire.DeleteGroupsRequest):
        name = f"deleted-{version}"
        _commit(speaker, name)
        for names in ([name], [name], ["deleted-members"], ["deleted-none"], [""], []):
            if names == [""] and speaker.numbers < (2,):
                continue  # which take that for a name that cannot be
            speaker.say(f"{names}", wire.DeleteGroupsRequest(groups_names=names), version)
        _commit(speaker, name)
        several = ["deleted-none", name, name, "deleted-members"]
        speaker.say("several", wire.DeleteGroupsRequest(groups_names=several), version)
        if speaker.has(wire.OffsetFetchRequest, 5):
            speaker.say("what is left", wire.OffsetFetchRequest(group_id=name, topics=None), 5)
    describe(speaker, name)
    describe(speaker, "")


GROUP_ADMINISTRATION = (lists_of_groups, offsets_of_all_topics, deletion_of_offsets, deletion_of_groups)
