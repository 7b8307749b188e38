"""Programs of groups with two members, each with a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka.protocol import wire
from tests.conformance.programs.common import make_topic, topic_id
from tests.conformance.programs.groups import commit_request, describe, find_coordinator, join_request
from tests.conformance.programs.groups import leave as leave_group
from tests.conformance.speaker import Speaker

Answer = Callable[[], Any]


class Member:
    """A member of a classic group, as it takes itself for one.

    :param speaker: what talks with the coordinator, for this member alone
    :param name: in the transcript
    :param group: the name of the group
    :param version: of JoinGroup
    """

    def __init__(self, speaker: Speaker, name: str, group: str, version: int) -> None:
        self.speaker, self._name, self._group, self._version = speaker, name, group, version
        self.member_id, self.generation, self.protocol = "", -1, "range"

    def join(self, label: str = "joins", **more: Any) -> Answer:
        """Send JoinGroup; from version 4 on a new member gets its id first."""
        if not self.member_id and self._version >= 4:
            found = self.speaker.ask(join_request(self._version, self._group, **more), self._version)
            self.speaker.note(f"{self._name} gets an id", found.error_code)
            self.member_id = found.member_id
        request = join_request(self._version, self._group, self.member_id, **more)
        answer = self.speaker.begin(f"{self._name} {label}", request, self._version)

        def joined() -> Any:
            found = answer()
            if found is not None and not found.error_code:
                self.member_id, self.generation = found.member_id, found.generation_id
                self.protocol = found.protocol_name or ""
            return found

        return joined

    def sync(self, label: str = "syncs", *others: Member, generation: int | None = None) -> Answer:
        """Send SyncGroup, with assignments for these members."""
        made = wire.SyncGroupRequest.Assignment
        rows = [made(member_id=one.member_id, assignment=f"of {one._name}".encode()) for one in others]
        number = self.generation if generation is None else generation
        request = wire.SyncGroupRequest(
            group_id=self._group, generation_id=number, member_id=self.member_id, assignments=rows
        )
        version = self.speaker.versions(wire.SyncGroupRequest)[-1]
        if version >= 5:
            request.protocol_type, request.protocol_name = "consumer", self.protocol
        return self.speaker.begin(f"{self._name} {label}", request, version)

    def beat(self, label: str = "beats", generation: int | None = None) -> None:
        """Send a heartbeat."""
        number = self.generation if generation is None else generation
        request = wire.HeartbeatRequest(group_id=self._group, generation_id=number, member_id=self.member_id)
        self.speaker.say(f"{self._name} {label}", request)

    def commit(self, label: str, generation: int | None = None) -> None:
        """Commit an offset."""
        version = min(self.speaker.versions(wire.OffsetCommitRequest)[-1], 9)
        number = self.generation if generation is None else generation
        more: dict[str, Any] = {"member_id": self.member_id, "generation_id_or_member_epoch": number}
        request = commit_request(self.speaker, version, self._group, 1, **more)
        self.speaker.say(f"{self._name} {label}", request, version)

    def leave(self) -> None:
        """Leave the group."""
        leave_group(self.speaker, self._group, self.member_id)


def _two(speaker: Speaker, group: str, version: int) -> tuple[Member, Member]:
    find_coordinator(speaker, group)
    return Member(speaker.beside(), "one", group, version), Member(speaker.beside(), "two", group, version)


def _settled(one: Member, two: Member) -> None:
    # One leads, since it joined first.
    one.join()()
    one.sync("syncs", one)()
    joined = two.join()
    one.join("joins again")()
    joined()
    synced = two.sync()
    one.sync("syncs", one, two)()
    synced()


def rebalance_of_two_members(speaker: Speaker) -> None:
    """Join with a second member, step by step; both go on, join again and leave."""
    if not speaker.has(wire.JoinGroupRequest):
        return
    make_topic(speaker, "commits", 2)
    versions = speaker.versions(wire.JoinGroupRequest)
    for version in sorted({versions[0], versions[-1]}):
        group = f"two-{version}"
        one, two = _two(speaker, group, version)
        one.join()()
        one.sync("syncs", one)()
        joined = two.join()
        one.beat("beats while the other joins")
        one.commit("commits while the other joins")
        one.sync("syncs while the other joins", one)()
        describe(speaker, group)
        again = one.join("joins again")
        joined()
        again()
        one.beat("beats before the sync")
        one.commit("commits before the sync")
        one.commit("commits as before the rebalance", 1)
        one.beat("beats as before the rebalance", 1)
        describe(speaker, group)
        synced = two.sync()
        two.speaker.wait(0.1)
        one.sync("syncs", one, two)()
        synced()
        for member in (one, two):
            member.beat()
            member.commit("commits")
            member.beat("beats as before the rebalance", 1)
            member.commit("commits as before the rebalance", 1)
            member.sync("syncs as before the rebalance", generation=1)()
        describe(speaker, group)
        two.sync("syncs again")()
        two.join("joins again, as a follower")()
        one.beat()
        again = one.join("joins again, as the leader")
        two.beat("beats while the leader joins")
        describe(speaker, group)
        two.leave()
        again()
        one.sync("syncs", one)()
        one.beat("beats alone")
        two.beat("beats after it left")
        two.commit("commits after it left")
        two.join("joins after it left")()
        one.leave()
        describe(speaker, group)


def rebalance_is_cut_short(speaker: Speaker) -> None:
    """Leave, come and offer other protocols while members wait for each other."""
    if not speaker.has(wire.JoinGroupRequest):
        return
    make_topic(speaker, "commits", 2)
    versions = speaker.versions(wire.JoinGroupRequest)
    for version in sorted({versions[0], versions[-1]}):
        group = f"short-{version}"
        one, two = _two(speaker, group, version)
        _settled(one, two)
        rows = [wire.JoinGroupRequest.Protocol(name=name, metadata=b"") for name in ("strange",)]
        Member(speaker, "three", group, 0).join("offers a strange protocol", protocols=rows)()
        rows = [wire.JoinGroupRequest.Protocol(name="other", metadata=b"more")]
        changed = two.join("offers one protocol", protocols=rows)
        one.beat("beats while the other has a new subscription")
        one.join("joins again")()
        changed()
        synced = two.sync("syncs, and waits for the leader")
        one.leave()
        synced()
        two.beat("beats after the leader left")
        two.join("joins again", protocols=rows)()
        describe(speaker, group)
        synced = two.sync("syncs", two)
        synced()
        fresh = Member(one.speaker, "four", group, version)
        joined = fresh.join()
        if version >= 4:
            # Its id is known: a second request takes the place of the first one, which is never answered.
            member_id, fresh = fresh.member_id, Member(speaker.beside(), "four", group, version)
            fresh.member_id = member_id
            joined = fresh.join("joins twice")
        two.leave()
        joined()
        fresh.leave()
        describe(speaker, group)


def next_generation_of_two(speaker: Speaker) -> None:
    """Share two partitions among two members of the next-generation protocol, who come, give up and go (KIP-848)."""
    if not speaker.has(wire.ConsumerGroupHeartbeatRequest):
        return
    group, topic = "next-two", "next-two"
    make_topic(speaker, topic, 2)
    make_topic(speaker, "commits", 2)
    find_coordinator(speaker, group)
    ids = {"one": "a" * 22, "two": "b" * 22}
    api = wire.ConsumerGroupHeartbeatRequest
    version = speaker.versions(api)[-1]
    epochs = dict.fromkeys(ids, 0)

    def beat(who: str, label: str, epoch: int | None = None, owned: list[int] | None = None, **more: Any) -> None:
        request = api(group_id=group, member_id=ids[who], **more)
        request.member_epoch = epochs[who] if epoch is None else epoch
        if owned is not None:
            mine: Any = topic_id(speaker, topic)
            rows = [api.TopicPartitions(topic_id=mine, partitions=owned)] if owned else []
            request.topic_partitions = rows
        found = speaker.say(f"{who} {label}", request, version)
        if found is not None and not found.error_code and request.member_epoch >= 0:
            epochs[who] = found.member_epoch

    def commit(who: str, label: str, epoch: int) -> None:
        more = {"generation_id_or_member_epoch": epoch, "member_id": ids[who]}
        speaker.say(f"{who} {label}", commit_request(speaker, 9, group, 3, **more), 9)

    def show() -> None:
        speaker.say("describe", wire.ConsumerGroupDescribeRequest(group_ids=[group]))

    new: dict[str, Any] = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": [topic], "owned": []}
    beat("one", "joins with a strange assignor", 0, **new, server_assignor="strange")
    beat("one", "joins with a member id that is no id", 0, **new)
    if not epochs["one"]:  # brokers before 4.0 have it switched off
        return
    beat("one", "owns what it got", owned=[0, 1])
    show()
    beat("two", "joins", 0, **new)
    show()
    beat("one", "goes on, and is told to give up")
    beat("two", "goes on, and gets nothing yet")
    commit("one", "commits while it gives up", epochs["one"])
    commit("two", "commits before it has anything", epochs["two"])
    beat("one", "still owns both", owned=[0, 1])
    show()
    for owned in ([0], [1]):
        beat("one", f"owns {owned}", owned=owned)
    beat("two", "goes on, and gets something")
    show()
    commit("one", "commits in the epoch before", epochs["one"] - 1)
    commit("one", "commits", epochs["one"])
    beat("one", "beats in the epoch before", epochs["one"] - 1)
    beat("one", "beats in the epoch before, and owns what it has", epochs["one"] - 1, owned=[0])
    beat("two", "beats in a later epoch", epochs["two"] + 3)
    beat("one", "beats in an epoch that cannot be", -3)
    beat("two", "joins again", 0, **new)
    beat("two", "subscribes to another topic", subscribed_topic_names=["commits"])
    beat("one", "goes on after that")
    beat("two", "goes on after that")
    beat("two", "subscribes to nothing", subscribed_topic_names=[])
    beat("two", "subscribes to a topic that is not there", subscribed_topic_names=["next-none"])
    if version >= 1:
        beat("two", "subscribes to a pattern that is none", subscribed_topic_regex="next[")
        beat("two", "subscribes to a pattern, too", subscribed_topic_regex="next-t.*")
        speaker.wait(0.5)  # brokers match it on the side
        beat("two", "goes on, with what the pattern matches")
        beat("one", "goes on after that")
        show()
    beat("two", "leaves", -1)
    beat("one", "goes on alone")
    beat("two", "beats after it left", epochs["two"])
    describe(speaker, group)
    delete = wire.DeleteGroupsRequest(groups_names=[group])
    speaker.say("delete with a member", delete)
    beat("one", "leaves", -1)
    show()
    speaker.say("delete", delete)
    show()


REBALANCES = (rebalance_of_two_members, rebalance_is_cut_short, next_generation_of_two)
