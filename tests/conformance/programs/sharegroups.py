"""Programs about share groups (KIP-932)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pykafka.protocol import wire
from pykafka.protocol.wire.share_groups import AcknowledgementBatch
from tests.conformance.programs import transactions
from tests.conformance.programs.common import make_topic, topic_id, write
from tests.conformance.programs.groups import commit_request, find_coordinator
from tests.conformance.speaker import Speaker

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_Fetched = wire.ShareFetchRequest.Topic
_Acknowledged = wire.ShareAcknowledgeRequest.Topic


def has_share_groups(speaker: Speaker) -> bool:
    """Return whether the broker has share groups in the versions that these programs speak."""
    return speaker.has(wire.ShareFetchRequest, 2)


def set_group(speaker: Speaker, group: str, **settings: str) -> None:
    """Change the configuration of a group; it reads from the first record on."""
    values = {"share_auto_offset_reset": "earliest", **settings}
    resource = wire.IncrementalAlterConfigsRequest.Resource(resource_type=32, resource_name=group)
    for name, value in values.items():
        change = resource.Config(name=name.replace("_", "."), config_operation=0, value=value)
        resource.configs = [*resource.configs, change]
    answer = speaker.ask(wire.IncrementalAlterConfigsRequest(resources=[resource]))
    assert not answer.responses[0].error_code, answer


def beat_request(group: str, member: str, epoch: int, **more: Any) -> wire.ShareGroupHeartbeatRequest:
    """Return a heartbeat."""
    return wire.ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **more)


def joined(speaker: Speaker, group: str, member: str, topics: list[str]) -> dict[UUID, list[int]]:
    """Become a member, and return its partitions; brokers give them once they have states for them."""
    find_coordinator(speaker, group)
    answer = speaker.ask(beat_request(group, member, 0, subscribed_topic_names=topics))
    for _ in range(200):
        assert not answer.error_code, answer
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        speaker.wait(0.1)
        answer = speaker.ask(beat_request(group, member, answer.member_epoch))
    raise AssertionError(f"{group} assigns nothing in 20 s")


class Reader:
    """A member that reads partition 0 of a topic.

    :param speaker: talks with the broker
    :param group: the share group
    :param topic: the name
    :param member: its id
    """

    def __init__(self, speaker: Speaker, group: str, topic: str, member: str = "reader") -> None:
        self.speaker = speaker
        self.group = group
        self.member = member
        self.topic: Any = topic_id(speaker, topic)
        self.epoch = 0

    def fetch(self, label: str, *acks: tuple[int, int, list[int]], version: int = 2, **more: Any) -> list[Any]:
        """Fetch and acknowledge, and write down what came; return the rows of partitions."""
        request = wire.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=100,
            batch_size=100,
        )
        part = _Fetched.Partition(partition_index=0, acknowledgement_batches=batches(acks))
        request.topics = [_Fetched(topic_id=self.topic, partitions=[part])]
        for name, value in more.items():
            setattr(request, name, value)
        answer = self.speaker.ask(request, version)
        if not answer.error_code and request.share_session_epoch >= 0:
            self.epoch = request.share_session_epoch + 1
        rows = [row for topic in answer.responses for row in topic.partitions]
        said = [answer.error_code, answer.acquisition_lock_timeout_ms, [self._row(row) for row in rows]]
        self.speaker.note(f"{label}: ShareFetch v{version}", said)
        return rows

    def first(self, label: str, **more: Any) -> list[Any]:
        """Open a session, and fetch until there are records: brokers load the state first."""
        for _ in range(100):
            rows = self.fetch(label, **more)
            if any(row.acquired_records for row in rows):
                return rows
            self.speaker.transcript.pop()
            self.speaker.wait(0.1)
        raise AssertionError(f"no records of {self.group} in 20 s")

    def rest(self, label: str) -> None:
        """Fetch until there is nothing more, and write down what came, as of one fetch: brokers stop where a file ends."""
        found: list[Any] = []
        for _ in range(10):
            rows = self.fetch(label)
            said = self.speaker.transcript.pop()[1]
            found += [self._row(row) for row in rows if row.acquired_records]
            if not rows and found:
                break
        self.speaker.note(
            label, [said[0], [one for row in found for one in row[3]], [one for row in found for one in row[4]]]
        )

    def end(self) -> None:
        """End the session, and wait until its records are available."""
        self.acknowledge("end", share_session_epoch=-1)
        self.epoch = 0
        self.speaker.wait(0.5)

    def _row(self, row: Any) -> list[Any]:
        counts = [
            [offset, one.delivery_count]
            for one in row.acquired_records
            for offset in range(one.first_offset, one.last_offset + 1)
        ]
        codes = [row.partition_index, row.error_code, row.acknowledge_error_code]
        return [*codes, counts, self.speaker.batches(row.records) if row.records else []]

    def acknowledge(self, label: str, *acks: tuple[int, int, list[int]], **more: Any) -> None:
        """Acknowledge without a fetch, and write down the answer."""
        request = wire.ShareAcknowledgeRequest(
            group_id=self.group, member_id=self.member, share_session_epoch=self.epoch
        )
        part = _Acknowledged.Partition(partition_index=0, acknowledgement_batches=batches(acks))
        request.topics = [_Acknowledged(topic_id=self.topic, partitions=[part])] if acks else []
        for name, value in more.items():
            setattr(request, name, value)
        answer = self.speaker.say(label, request)
        if answer is not None and not answer.error_code and request.share_session_epoch >= 0:
            self.epoch += 1


def batches(acks: tuple[tuple[int, int, list[int]], ...]) -> list[AcknowledgementBatch]:
    """Return acknowledgements as requests have them."""
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        for first, last, types in acks
    ]


def reader_of(speaker: Speaker, name: str, values: list[list[str]], **settings: str) -> Reader:
    """Return a reader of a new topic and a new group of one name, which joined; each list is a batch."""
    make_topic(speaker, name)
    set_group(speaker, name, **settings)
    for batch in values:
        write(speaker, name, batch)
    joined(speaker, name, "reader", [name])
    return Reader(speaker, name, name)


def share_members(speaker: Speaker) -> None:
    """Join a share group, two members and more than partitions; wrong epochs; leave; delete."""
    if not has_share_groups(speaker):
        return
    make_topic(speaker, "share-members", 2)
    group, topics = "share-members", ["share-members"]
    find_coordinator(speaker, group)
    for label, request in {
        "no group": beat_request("", "a", 0, subscribed_topic_names=topics),
        "no member": beat_request(group, "", 0, subscribed_topic_names=topics),
        "no rack": beat_request(group, "a", 0, subscribed_topic_names=topics, rack_id=""),
        "no topics": beat_request(group, "a", 0),
        "empty topics": beat_request(group, "a", 0, subscribed_topic_names=[]),
        "wrong epoch": beat_request(group, "a", -2),
        "unknown group": beat_request(group, "a", 3),
        "leave an unknown group": beat_request(group, "a", -1),
    }.items():
        speaker.say(label, request)
    partitions = joined(speaker, group, "a", topics)
    speaker.note("partitions", sorted(partitions.values()))
    for label, request in {
        "unknown member": beat_request(group, "b", 3),
        "leave as unknown": beat_request(group, "b", -1),
        "high epoch": beat_request(group, "a", 99),
    }.items():
        speaker.say(label, request)
    found = speaker.ask(beat_request(group, "a", 0, subscribed_topic_names=topics))
    speaker.note("join again", [found.error_code, found.assignment is not None])
    found = speaker.ask(beat_request(group, "a", found.member_epoch))
    speaker.note("go on", [found.error_code, found.assignment is not None])
    for others in (["b"], ["b", "c"]):
        for other in others:
            joined(speaker, group, other, topics)
        speaker.ask(beat_request(group, "a", 0, subscribed_topic_names=topics))
        described = speaker.ask(wire.ShareGroupDescribeRequest(group_ids=[group, "share-none"]))
        rows = sorted(described.groups, key=lambda row: row.group_id)
        counts = [
            sum(len(one.partitions) for one in member.assignment.topic_partitions)
            for row in rows
            for member in sorted(row.members, key=lambda member: member.member_id)
        ]
        speaker.note("describe", [[row.error_code, row.group_state, row.assignor_name] for row in rows])
        speaker.note("sizes", sorted(counts))
    listed(speaker, group, types_filter=["share"])
    speaker.say("as a consumer group", wire.ConsumerGroupDescribeRequest(group_ids=[group]))
    speaker.say("as a classic group", wire.DescribeGroupsRequest(groups=[group]))
    classic = wire.JoinGroupRequest.Protocol(name="range", metadata=b"")
    joins = wire.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[classic],
    )
    speaker.say("join as a classic member", joins)
    nextgen = wire.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="x", rebalance_timeout_ms=5000, subscribed_topic_names=topics, topic_partitions=[]
    )
    speaker.say("join as a consumer", nextgen)
    speaker.say("delete a group with members", wire.DeleteGroupsRequest(groups_names=[group]))
    for member in ("a", "b", "c"):
        speaker.say("leave", beat_request(group, member, -1))
    speaker.say("join as a classic member, empty", joins)
    listed(speaker, group, types_filter=["share"], states_filter=["Stable"])
    listed(speaker, group, types_filter=["share"], states_filter=["Empty"])
    committed = wire.OffsetFetchRequest(groups=[wire.OffsetFetchRequest.Group(group_id=group, topics=None)])
    speaker.say("offsets", committed)
    speaker.say("offsets", wire.OffsetDeleteRequest(group_id=group, topics=[]))
    make_topic(speaker, "commits", 2)
    commit = commit_request(speaker, 9, group, 1)
    speaker.say("commit", commit, 9)
    speaker.say("delete", wire.DeleteGroupsRequest(groups_names=[group]))
    speaker.say("delete again", wire.DeleteGroupsRequest(groups_names=[group]))
    find_coordinator(speaker, "share-other")
    speaker.ask(wire.OffsetCommitRequest(group_id="share-other", topics=[]), 9)
    nextgen.group_id = "share-other"
    speaker.ask(nextgen)
    speaker.say("join a consumer group", beat_request("share-other", "a", 0, subscribed_topic_names=topics))


def listed(speaker: Speaker, group: str, **filters: list[str]) -> None:
    """List a group."""
    answer = speaker.ask(wire.ListGroupsRequest(**filters))
    rows = [[one.protocol_type, one.group_state, one.group_type] for one in answer.groups if one.group_id == group]
    speaker.note(f"list {filters}", [answer.error_code, rows])


def share_acknowledgements(speaker: Speaker) -> None:
    """Acquire records, and acknowledge them in each way, right and wrong."""
    if not has_share_groups(speaker):
        return
    reader = reader_of(speaker, "share-acks", [["a", "b", "c"], ["d", "e"], ["f"]])
    reader.first("all")
    reader.fetch("nothing more")
    reader.acknowledge("each type", (0, 2, [ACCEPT, RELEASE, REJECT]))
    reader.acknowledge("one type for two", (3, 4, [RELEASE]))
    reader.fetch("released ones")
    for label, ack in {
        "again": (0, 0, [ACCEPT]),
        "never acquired": (50, 51, [ACCEPT]),
        "partly acquired": (5, 9, [ACCEPT]),
        "no type": (1, 1, []),
        "unknown type": (1, 1, [5]),
        "negative type": (1, 1, [-1]),
        "types of another number": (3, 4, [ACCEPT, ACCEPT, ACCEPT]),
        "backwards": (4, 3, [ACCEPT]),
        "renewed without saying so": (5, 5, [RENEW]),
    }.items():
        reader.acknowledge(label, ack)
    reader.acknowledge("out of order", (3, 3, [ACCEPT]), (1, 1, [ACCEPT]))
    reader.acknowledge("one of two is wrong", (1, 1, [ACCEPT]), (2, 2, [ACCEPT]))
    reader.acknowledge("renew", (5, 5, [RENEW]), is_renew_ack=True)
    reader.acknowledge("renew and accept", (4, 5, [ACCEPT, RENEW]), is_renew_ack=True)
    reader.acknowledge("a gap", (5, 5, [GAP]))
    reader.fetch("accept with a fetch", (1, 1, [ACCEPT]))
    reader.fetch("a wrong one with a fetch", (1, 1, [ACCEPT]))
    write(speaker, "share-acks", ["g", "h"])
    reader.fetch("accept, and more comes", (3, 3, [ACCEPT]))
    reader.fetch("renew with a fetch", (6, 6, [RENEW]), is_renew_ack=True)
    reader.fetch(
        "renew with a fetch of nothing",
        (6, 6, [RENEW]),
        is_renew_ack=True,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        max_records=0,
    )
    other = Reader(speaker, "share-acks", "share-acks", "other")
    other.fetch("another member gets none")
    other.acknowledge("of another member", (6, 6, [ACCEPT]))
    other.fetch("a renewal that asks for records", (6, 6, [RENEW]), is_renew_ack=True)
    reader.acknowledge("nothing")
    set_group(speaker, "share-acks", share_renew_acknowledge_enable="false")
    reader.acknowledge("renewals are off", (6, 6, [RENEW]), is_renew_ack=True)
    reader.acknowledge("gap with others", (6, 7, [GAP, RELEASE]))
    reader.fetch("the released one")
    reader.topic = UUID(int=7)
    reader.acknowledge("unknown topic", (6, 6, [ACCEPT]))
    reader.fetch("unknown topic")


def share_sessions(speaker: Speaker) -> None:
    """Epochs of sessions, forgotten partitions, the end of a session and of a connection."""
    if not has_share_groups(speaker):
        return
    reader = reader_of(speaker, "share-sessions", [["a", "b"], ["c"]])
    reader.fetch("no session", share_session_epoch=3)
    reader.fetch("the end of no session", share_session_epoch=-1)
    reader.acknowledge("no session", (0, 0, [ACCEPT]), share_session_epoch=1)
    reader.acknowledge("epoch 0", (0, 0, [ACCEPT]), share_session_epoch=0)
    reader.fetch("first with an acknowledgement", (0, 0, [ACCEPT]), share_session_epoch=0)
    reader.epoch = 0
    reader.first("all")
    reader.fetch("wrong epoch", share_session_epoch=77)
    reader.acknowledge("wrong epoch", (0, 0, [ACCEPT]), share_session_epoch=77)
    reader.acknowledge("accept one", (0, 0, [ACCEPT]))
    reader.fetch("no change", topics=[])
    forgotten = wire.ShareFetchRequest.ForgottenTopic(topic_id=reader.topic, partitions=[0])
    reader.fetch("forget", topics=[], forgotten_topics_data=[forgotten])
    write(speaker, "share-sessions", ["d"])
    reader.fetch("nothing of what is forgotten", topics=[])
    reader.fetch("read again")
    reader.acknowledge("accept and end", (1, 1, [ACCEPT]), share_session_epoch=-1)
    reader.acknowledge("ended", (2, 2, [ACCEPT]))
    reader.epoch = 0
    speaker.wait(0.5)
    reader.fetch("released by the end")
    reader.fetch("end by a fetch", (2, 2, [ACCEPT]), share_session_epoch=-1)
    reader.epoch = 0
    speaker.wait(0.5)
    reader.fetch("released by the end of the fetch")
    reader.fetch("begin again", share_session_epoch=0)
    reader.fetch("of the session before")
    reader.acknowledge("of the session before", (3, 3, [RELEASE]))
    reader.fetch("released")
    speaker.close()
    speaker.wait(0.5)
    reader.fetch("the connection has ended")
    reader.epoch = 0
    reader.fetch("released by the end of the connection")
    speaker.ask(beat_request("share-sessions", "reader", -1))
    speaker.wait(0.5)
    other = Reader(speaker, "share-sessions", "share-sessions", "other")
    other.fetch("the member has left its group")
    reader.fetch("the member that has left")
    for label, member in (("no member", ""), ("a long member", "m" * 37)):
        reader.fetch(label, share_session_epoch=0, member_id=member)
    stranger = Reader(speaker, "share-sessions-none", "share-sessions")
    stranger.fetch("a group that is not there")
    part = _Fetched.Partition(partition_index=9)
    other.fetch("unknown partition", topics=[_Fetched(topic_id=reader.topic, partitions=[part])])
    other.fetch("old version", version=1, share_acquire_mode=0, share_session_epoch=0)


def share_limits(speaker: Speaker) -> None:
    """Records in portions, both modes of acquiring; records that come too often."""
    if not has_share_groups(speaker):
        return
    reader = reader_of(speaker, "share-limits", [["a", "b", "c"], ["d", "e", "f"], ["g"]])
    reader.first("two at most", max_records=2, batch_size=2)
    reader.fetch("one exactly", max_records=1, share_acquire_mode=1)
    reader.fetch("two exactly", max_records=2, share_acquire_mode=1)
    reader.fetch("no records", max_records=0)
    reader.acknowledge("release some", (0, 1, [RELEASE]), (4, 4, [RELEASE]))
    reader.fetch("one exactly of the released", max_records=1, share_acquire_mode=1)
    reader.fetch("one at most of the released", max_records=1)
    reader.fetch("the rest")
    for name, batch_size, sizes in (
        ("share-often", 100, (2,)),
        ("share-often-8", 100, (8,)),
        ("share-often-9", 100, (5, 4)),
        ("share-often-small", 1, (2, 3, 3)),
    ):
        often = reader_of(speaker, name, [[str(number) for number in range(size)] for size in sizes])
        rows = often.first("first", batch_size=batch_size)
        for _ in range(8):
            counted = [(one.first_offset, one.last_offset, [RELEASE]) for row in rows for one in row.acquired_records]
            often.acknowledge("release", *counted)
            rows = often.fetch("again", batch_size=batch_size)
    again = reader_of(speaker, "share-limited", [["a"]], share_delivery_count_limit="2")
    again.first("the first of two deliveries")
    again.end()
    again.fetch("the second")
    again.end()
    again.fetch("no third one")
    locks = reader_of(
        speaker,
        "share-locks",
        [[str(number) for number in range(60)] for _ in range(3)],
        share_partition_max_record_locks="100",
    )
    locks.first("as many as may be locked", max_records=500)
    locks.fetch("more", max_records=500)
    locks.acknowledge("accept some", (0, 59, [ACCEPT]))
    locks.fetch("the rest", max_records=500)


def share_transactions(speaker: Speaker) -> None:
    """Committed and aborted transactions, read in both ways; a topic that was cut at its start; one that was compacted."""
    if not has_share_groups(speaker):
        return
    make_topic(speaker, "share-transactions")
    name = "share-transactions"
    find_coordinator(speaker, name, 1)
    begun = transactions.init(speaker, name)
    for number, is_commit in enumerate((True, False, True)):
        transactions.add(speaker, name, begun, name)
        transactions.write(speaker, name, begun, name, number)
        transactions.end(speaker, name, begun, is_commit)
        transactions.settle(speaker, name, 2 * number + 2)
    for level in ("read_uncommitted", "read_committed"):
        group = f"share-{level.replace('_', '-')}"
        set_group(speaker, group, share_isolation_level=level)
        joined(speaker, group, "reader", ["share-transactions"])
        reader = Reader(speaker, group, "share-transactions")
        reader.rest(level)
        reader.acknowledge("accept the first", (0, 1, [ACCEPT, GAP]))
        reader.acknowledge("accept the last", (4, 5, [ACCEPT, GAP]))
        speaker.say("describe", offsets_described(group, name))
        reader.acknowledge("accept the aborted", (2, 2, [ACCEPT]))
    trimmed = reader_of(speaker, "share-trimmed", [["a"], ["b"], ["c"]])
    part = wire.DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=1)
    speaker.ask(
        wire.DeleteRecordsRequest(
            topics=[wire.DeleteRecordsRequest.Topic(name="share-trimmed", partitions=[part])], timeout_ms=5000
        )
    )
    trimmed.first("behind the start")
    part.offset = 2
    speaker.ask(
        wire.DeleteRecordsRequest(
            topics=[wire.DeleteRecordsRequest.Topic(name="share-trimmed", partitions=[part])], timeout_ms=5000
        )
    )
    trimmed.acknowledge("release all", (1, 2, [RELEASE]))
    trimmed.first("behind the new start")


def share_offsets(speaker: Speaker) -> None:
    """Describe, alter and delete start offsets; begin at the end."""
    if not has_share_groups(speaker):
        return
    reader = reader_of(speaker, "share-offsets", [["a", "b", "c"], ["d"]])
    describe = offsets_described("share-offsets", "share-offsets")
    reader.first("all")
    reader.acknowledge("accept two", (0, 1, [ACCEPT]))
    for version in speaker.versions(wire.DescribeShareGroupOffsetsRequest):
        speaker.say("describe", describe, version)
    reader.acknowledge("accept the fourth", (3, 3, [ACCEPT]))
    speaker.say("describe", describe)
    for label, group, topic in (
        ("all topics", "share-offsets", None),
        ("unknown topic", "share-offsets", "share-none"),
        ("unknown group", "share-none", "share-offsets"),
        ("all topics of an unknown group", "share-none", None),
        ("no group", "", "share-offsets"),
    ):
        speaker.say(label, offsets_described(group, topic))
    alter = offsets_altered("share-offsets", ("share-offsets", 0, 1), ("share-offsets", 9, 1))
    delete = wire.DeleteShareGroupOffsetsRequest(
        group_id="share-offsets",
        topics=[wire.DeleteShareGroupOffsetsRequest.Topic(topic_name=name) for name in ("share-offsets", "share-none")],
    )
    speaker.say("alter with members", alter)
    speaker.say("delete with members", delete)
    delete.group_id = "share-none"
    speaker.say("delete of no group", delete)
    delete.group_id = "share-offsets"
    speaker.say("alter no group", offsets_altered("share-none", ("share-offsets", 0, 1)))
    speaker.say("alter no name", offsets_altered("", ("share-offsets", 0, 1)))
    speaker.say("what was altered", offsets_described("share-none", None))
    speaker.say("what was made", wire.ShareGroupDescribeRequest(group_ids=["share-none"]))
    speaker.ask(beat_request("share-offsets", "reader", -1))
    speaker.close()  # then the broker forgets what it has in memory
    speaker.wait(1)
    speaker.say("alter", alter)
    speaker.say("alter of an unknown topic", offsets_altered("share-offsets", ("share-none", 0, 1)))
    speaker.say("describe", describe)
    joined(speaker, "share-offsets", "reader", ["share-offsets"])
    reader.epoch = 0
    reader.first("from the altered offset")
    speaker.ask(beat_request("share-offsets", "reader", -1))
    speaker.close()
    speaker.wait(1)
    speaker.say("delete", delete)
    speaker.say("describe", describe)
    speaker.say("all topics", offsets_described("share-offsets", None))
    joined(speaker, "share-offsets", "reader", ["share-offsets"])
    reader.epoch = 0
    reader.first("from the reset offset")
    late = reader_of(speaker, "share-latest", [["a"]], share_auto_offset_reset="latest")
    for _ in range(5):
        late.fetch("at the end")
        speaker.wait(0.2)
    write(speaker, "share-latest", ["b"])
    late.fetch("after the end")
    speaker.say("describe", offsets_described("share-latest", "share-latest"))


def offsets_described(group: str, topic: str | None) -> wire.DescribeShareGroupOffsetsRequest:
    """Return a request for the start offsets of partitions 0 and 9 of a topic, or of all topics."""
    wanted = wire.DescribeShareGroupOffsetsRequest.Group(group_id=group, topics=None)
    if topic is not None:
        wanted.topics = [wanted.Topic(topic_name=topic, partitions=[0])]
    return wire.DescribeShareGroupOffsetsRequest(groups=[wanted])


def offsets_altered(group: str, *rows: tuple[str, int, int]) -> wire.AlterShareGroupOffsetsRequest:
    """Return a request that sets start offsets."""
    request = wire.AlterShareGroupOffsetsRequest(group_id=group)
    for topic, index, offset in rows:
        part = request.Topic.Partition(partition_index=index, start_offset=offset)
        request.topics = [*request.topics, request.Topic(topic_name=topic, partitions=[part])]
    return request


SHARE_GROUPS = (share_members, share_acknowledgements, share_sessions, share_limits, share_transactions, share_offsets)
