"""Messages of classic members: their metadata, their assignments, and the requests and responses, byte by byte."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.exceptions import CorruptResponseError
from pykafka.membershipprotocol import (
    RangeProtocol,
    RoundRobinProtocol,
)
from pykafka.protocol import (
    ConsumerGroupProtocolMetadata,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
    wire,
)
from pykafka.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    assignment_bytes,
)
from pykafka.utils.name import Name


def test_metadata_and_assignments_are_written_as_documented() -> None:
    metadata = ConsumerGroupProtocolMetadata(topic_names=[b"topic", "other"], user_data=b"xy")
    sent = b"\0\0" + b"\0\0\0\2" + b"\0\5topic" + b"\0\5other" + b"\0\0\0\2xy"
    assert bytes(metadata.get_bytes()) == sent
    assert len(metadata) == len(sent)
    read = ConsumerGroupProtocolMetadata.from_bytestring(sent + b"what later versions add")
    assert (read.version, read.topic_names, read.user_data) == (0, ["topic", "other"], b"xy")
    assert ConsumerGroupProtocolMetadata().user_data == b"testuserdata"
    assignment = MemberAssignment([(b"topic", [2, 0])])
    sent = b"\0\1" + b"\0\0\0\1" + b"\0\5topic" + b"\0\0\0\2" + b"\0\0\0\2" + b"\0\0\0\0"
    assert bytes(assignment.get_bytes()) == sent
    assert assignment_bytes(assignment) == sent + b"\0\0\0\0"  # user data, for Java's consumers
    request = SyncGroupRequest("g", 1, "m", [("m", assignment)])
    assert request.wire(3).assignments[0].assignment == sent + b"\0\0\0\0"
    assert request.get_bytes().endswith(len(sent).to_bytes(4, "big") + sent)
    assert MemberAssignment.from_bytestring(sent).partition_assignment == [("topic", [2, 0])]
    assert not MemberAssignment.from_bytestring(b"").partition_assignment
    with pytest.raises(CorruptResponseError, match="assignment"):
        MemberAssignment.from_bytestring(sent[:12])


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("kind", [ConsumerProtocolSubscription, ConsumerGroupProtocolMetadata])
def test_metadata_of_each_version(version: int, kind: type[ConsumerProtocolSubscription]) -> None:
    whole = kind(version, ["t"], b"data", [("t", [1, 2]), ("u", [0])], 7, "rack")
    read = kind.from_bytestring(bytes(whole.get_bytes()) + b"later" * (version > 3))
    assert (read.version, read.topic_names, read.user_data) == (version, ["t"], b"data")
    assert read.owned_partitions == (whole.owned_partitions if version >= 1 else [])
    assert read.generation_id == (7 if version >= 2 else -1)
    assert read.rack_id == ("rack" if version >= 3 else None)
    without = kind(version, ["t"], None)
    assert kind.from_bytestring(without.get_bytes()).rack_id is None
    # PyKafka 2 writes the fields of version 0, whatever the version.
    complete = len(kind(0, ["t"], b"data"))
    for cut in range(1, len(whole)):
        if version <= 3 and cut != complete:
            with pytest.raises(CorruptResponseError):
                kind.from_bytestring(whole.get_bytes()[:cut])


def test_only_the_documented_classes_have_names_that_equal_bytes() -> None:
    subscription = ConsumerProtocolSubscription(3, ["t"], b"", [("t", [1])], 7, "rack").get_bytes()
    assignment = ConsumerProtocolAssignment([("t", [1])]).get_bytes()
    for cls, share, text in (
        (ConsumerProtocolSubscription, ConsumerProtocolAssignment, str),
        (ConsumerGroupProtocolMetadata, MemberAssignment, Name),
    ):
        read = cls.from_bytestring(subscription)
        [(topic, ids)] = share.from_bytestring(assignment).partition_assignment
        assert (topic, ids, read.owned_partitions) == ("t", [1], [("t", [1])])
        texts = [*read.topic_names, read.owned_partitions[0][0], read.rack_id, topic]
        assert [type(each) for each in texts] == [text] * 4
        copied = pickle.loads(pickle.dumps(read))
        assert (type(copied), copied.get_bytes()) == (cls, subscription)
    empty: list[Any] = [
        cls.from_bytestring(b"").topic_names for cls in (ConsumerProtocolSubscription, ConsumerGroupProtocolMetadata)
    ]
    assert empty == [[], [b"dummytopic"]]


@pytest.mark.parametrize("name", [b"\xff\xff", b"\0\1\xff", b"\0\5a"], ids=["null", "no UTF-8", "cut short"])
def test_names_that_are_none(name: bytes) -> None:
    for cls in (
        ConsumerProtocolSubscription,
        ConsumerProtocolAssignment,
        ConsumerGroupProtocolMetadata,
        MemberAssignment,
    ):
        with pytest.raises(CorruptResponseError, match="who wrote it"):
            cls.from_bytestring(b"\0\0" + b"\0\0\0\1" + name + bytes(4))


@pytest.mark.parametrize("protocol", [RangeProtocol, RoundRobinProtocol])
def test_protocols_stay_as_they_are(protocol: Any) -> None:
    first = JoinGroupRequest("g", "", "first", protocol)
    second = JoinGroupRequest("g", "", "second", protocol)
    read = [ConsumerGroupProtocolMetadata.from_bytestring(one.group_protocols[0][1]) for one in (first, second)]
    assert [one.topic_names for one in read] == [["first"], ["second"]]
    assert protocol.metadata.topic_names == [b"dummytopic"]


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (
            JoinGroupRequest(b"grp", b"", b"topic", RangeProtocol),
            b"\0\3grp\0\0\x75\x30\0\0\0\x08consumer\0\0\0\1\0\5range\0\0\0\x1d"
            b"\0\0\0\0\0\1\0\5topic\0\0\0\x0ctestuserdata",
        ),
        (
            SyncGroupRequest("grp", 1, "me", [("me", MemberAssignment([("t", [5])]))]),
            b"\0\3grp\0\0\0\1\0\2me\0\0\0\1\0\2me\0\0\0\x11\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\5",
        ),
        (HeartbeatRequest("grp", 7, "me"), b"\0\3grp\0\0\0\7\0\2me"),
        (LeaveGroupRequest("grp", "me"), b"\0\3grp\0\2me"),
    ],
)
def test_requests_are_written_as_documented(request_: Any, body: bytes) -> None:
    frame = bytes(request_.get_bytes())
    header = b"\0" + bytes([request_.API_KEY]) + b"\0\0" + b"\0\0\0\0" + b"\0\7pykafka"
    assert frame == len(frame[4:]).to_bytes(4, "big") + header + body


def test_responses_are_read_as_documented() -> None:
    metadata = bytes(ConsumerGroupProtocolMetadata(topic_names=["t"]).get_bytes())
    joined = JoinGroupResponse(
        b"\0\0\0\0\0\3\0\5range\0\2me\0\2me\0\0\0\1\0\2me" + len(metadata).to_bytes(4, "big") + metadata
    )
    assert (joined.error_code, joined.generation_id, joined.group_protocol) == (0, 3, "range")
    assert (joined.leader_id, joined.member_id) == ("me", "me")
    assert joined.members["me"].topic_names == ["t"]
    share = bytes(MemberAssignment([("t", [1])]).get_bytes())
    synced = SyncGroupResponse(b"\0\0" + len(share).to_bytes(4, "big") + share)
    assert synced.member_assignment.partition_assignment == [("t", [1])]
    assert HeartbeatResponse(b"\0\x1b").error_code == 27
    assert LeaveGroupResponse(b"\0\x19").error_code == 25
    left = wire.LeaveGroupResponse(members=[wire.LeaveGroupResponse.Member(member_id="me", error_code=25)])
    assert LeaveGroupResponse.of(left).error_code == 25


@given(st.integers(0, 3), st.lists(st.text(min_size=1, max_size=20), min_size=1), st.binary())
def test_metadata_comes_back(version: int, names: list[str], user_data: bytes) -> None:
    written = ConsumerGroupProtocolMetadata(version, names, user_data).get_bytes()
    read = ConsumerGroupProtocolMetadata.from_bytestring(written)
    assert (read.version, read.topic_names, read.user_data) == (version, names, user_data)
