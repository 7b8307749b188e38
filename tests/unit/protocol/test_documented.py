"""The requests, responses and helpers of the reference documents."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import protocol
from pykafka.common import CompressionType
from pykafka.common import Message as CommonMessage
from pykafka.exceptions import CorruptResponseError, GroupCoordinatorNotAvailable, UnicodeException, UnknownMemberId
from pykafka.protocol import (
    FetchRequest,
    FetchResponse,
    GroupCoordinatorRequest,
    GroupCoordinatorResponse,
    Message,
    MessageSet,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetRequest,
    OffsetResponse,
    PartitionFetchRequest,
    PartitionOffsetCommitRequest,
    PartitionOffsetFetchRequest,
    PartitionOffsetRequest,
    ProduceRequest,
    ProduceResponse,
    Request,
    wire,
)
from pykafka.utils import deserialize_utf8, get_string, serialize_utf8
from pykafka.utils.error_handlers import handle_partition_responses, raise_error
from pykafka.utils.struct_helpers import unpack_from
from tests.unit.protocol.test_messages import spelled

HEAD = "00000000 0007 'pykafka'"


def producing() -> ProduceRequest:
    request = ProduceRequest(required_acks=-1, timeout=1)
    request.add_message(Message(b"v", b"k"), b"t", 0)
    return request


@pytest.mark.parametrize(
    ("request_", "written"),
    [
        (MetadataRequest(), f"0003 0000 {HEAD} 00000000"),
        (MetadataRequest([b"t"]), f"0003 0000 {HEAD} 00000001 0001 't'"),
        (
            FetchRequest([PartitionFetchRequest(b"t", 1, 2, 3)]),
            f"0001 0000 {HEAD} ffffffff 000003e8 00000400 00000001 0001 't' 00000001 00000001 0000000000000002 00000003",
        ),
        (
            OffsetRequest([PartitionOffsetRequest("t", 1, -2, 5)]),
            f"0002 0000 {HEAD} ffffffff 00000001 0001 't' 00000001 00000001 fffffffffffffffe 00000005",
        ),
        (
            OffsetCommitRequest(b"g", 4, b"c", [PartitionOffsetCommitRequest("t", 1, 2, 3, b"m")]),
            f"0008 0001 {HEAD} 0001 'g' 00000004 0001 'c' 00000001 0001 't' 00000001 00000001"
            " 0000000000000002 0000000000000003 0001 'm'",
        ),
        (
            OffsetFetchRequest("g", [PartitionOffsetFetchRequest("t", 1), PartitionOffsetFetchRequest("t", 2)]),
            f"0009 0000 {HEAD} 0001 'g' 00000001 0001 't' 00000002 00000001 00000002",
        ),
        (GroupCoordinatorRequest(b"g"), f"000a 0000 {HEAD} 0001 'g'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_requests_write_themselves_as_documented(request_: Request, written: str) -> None:
    content = request_.get_bytes()
    assert content[4:] == spelled(written)
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    assert len(request_) == len(content)
    assert int.from_bytes(content[4:6], "big") == request_.API_KEY
    buff = bytearray(len(content) + 2)
    request_.pack_into(buff, 2)
    assert buff[2:] == content
    header = bytearray(len(content))
    request_._write_header(header, request_.API_VERSION)
    assert header[:21] == content[:21]


def test_a_produce_request_counts_and_iterates() -> None:
    request = producing()
    request.add_message(Message(b"w"), "t", 0)
    request.add_message(Message(b"x"), "u", 3)
    assert request.message_count() == 3
    assert [message.value for message in request.messages] == [b"v", b"w", b"x"]
    assert request.get_bytes(7)[8:12] == b"\0\0\0\7"


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("version", [0, 2, 3, 9])
def test_what_is_produced_is_what_is_fetched(version: int, codec: CompressionType) -> None:
    request = ProduceRequest(compression_type=codec)
    for value in (b"v", b"", None):
        request.add_message(Message(value, b"k", timestamp=5), "t", 4)
    sent = wire.ProduceRequest.decode(request.wire(version).encode(version), version)
    records = sent.topic_data[0].partition_data[0].records
    part = wire.FetchResponse.Topic.Partition(partition_index=4, high_watermark=9, records=records)
    answer = wire.FetchResponse(responses=[wire.FetchResponse.Topic(topic="t", partitions=[part])])
    for response in (FetchResponse(answer.encode(0)), FetchResponse.of(answer)):
        found = response.topics["t"][4]
        assert (found.max_offset, found.err) == (9, 0)
        assert [(m.value, m.partition_key, m.partition_id) for m in found.messages] == [
            (b"v", b"k", 4),
            (b"", b"k", 4),
            (None, b"k", 4),
        ]
        assert found.messages[0].timestamp == (0 if version == 0 else 5)


def test_messages_that_do_not_fit_into_an_answer_are_cut_off() -> None:
    whole = MessageSet(messages=[Message(b"one"), Message(b"two")]).get_bytes()
    part = wire.FetchResponse.Topic.Partition(records=whole[:-1])
    answer = wire.FetchResponse(responses=[wire.FetchResponse.Topic(topic="t", partitions=[part])])
    assert [message.value for message in FetchResponse(answer.encode(0)).topics["t"][0].messages] == [b"one"]


def test_responses_are_read_as_documented() -> None:
    metadata = MetadataResponse(
        spelled("00000001 00000001 0001 'h' 00002384 00000001 0000 0001 't' 00000001 0000 00000002 00000001 00000001")
        + spelled("00000001 00000001 00000001")
    )
    assert metadata.brokers[1] == (1, "h", 9092)
    assert metadata.topics["t"].partitions[2] == (2, 1, [1], [1], 0)
    produced = ProduceResponse(spelled("00000001 0001 't' 00000001 00000003 0006 0000000000000007"))
    assert produced.topics["t"][3] == (6, 7)
    offsets = OffsetResponse(spelled("00000001 0001 't' 00000001 00000003 0000 00000001 0000000000000007"))
    assert offsets.topics["t"][3] == ([7], 0)
    commit = OffsetCommitResponse(spelled("00000001 0001 't' 00000001 00000003 0010"))
    assert commit.topics["t"][3].err == 16
    fetched = OffsetFetchResponse(spelled("00000001 0001 't' 00000001 00000003 0000000000000007 ffff 0000"))
    assert fetched.topics["t"][3] == (7, None, 0)
    coordinator = GroupCoordinatorResponse(spelled("0000 00000001 0001 'h' 00002384"))
    assert (coordinator.coordinator_id, coordinator.coordinator_host, coordinator.coordinator_port) == (1, "h", 9092)


def test_an_error_that_is_answered_is_raised() -> None:
    with pytest.raises(GroupCoordinatorNotAvailable):
        GroupCoordinatorResponse(spelled("000f ffffffff 0000 ffffffff"))
    response = OffsetCommitResponse(spelled("00000000"))
    with pytest.raises(UnknownMemberId):
        response.raise_error(25, response)
    with pytest.raises(CorruptResponseError):
        OffsetCommitResponse(b"\0\0")


@pytest.mark.parametrize("version", [1, 2, 7])
def test_offsets_of_newer_versions_have_the_same_shape(version: int) -> None:
    part = wire.ListOffsetsResponse.Topic.Partition(partition_index=3, offset=7)
    none = wire.ListOffsetsResponse.Topic.Partition(partition_index=4, offset=-1)
    topic = wire.ListOffsetsResponse.Topic(name="t", partitions=[part, none])
    sent = wire.ListOffsetsResponse(topics=[topic])
    found = OffsetResponse.of(wire.ListOffsetsResponse.decode(sent.encode(version), version))
    assert found.topics["t"] == {3: ([7], 0), 4: ([], 0)}
    OffsetRequest([PartitionOffsetRequest("t", 1, -2, 5)]).wire(version).encode(version)


@pytest.mark.parametrize("version", range(1, 10))
def test_committed_offsets_of_newer_versions_have_the_same_shape(version: int) -> None:
    OffsetFetchRequest("g", [PartitionOffsetFetchRequest("t", 1)]).wire(version).encode(version)
    if version >= 8:
        group = wire.OffsetFetchResponse.Group
        kept = group.Topic.Partition(partition_index=1, committed_offset=5)
        sent = wire.OffsetFetchResponse(groups=[group(group_id="g", topics=[group.Topic(name="t", partitions=[kept])])])
    else:
        part = wire.OffsetFetchResponse.Topic.Partition(partition_index=1, committed_offset=5)
        sent = wire.OffsetFetchResponse(topics=[wire.OffsetFetchResponse.Topic(name="t", partitions=[part])])
    read = wire.OffsetFetchResponse.decode(sent.encode(version), version)
    assert OffsetFetchResponse.of(read).topics["t"][1] == (5, "", 0)


def test_the_older_names_are_the_same_classes() -> None:
    assert protocol.ConsumerMetadataRequest is GroupCoordinatorRequest
    assert protocol.ConsumerMetadataResponse is GroupCoordinatorResponse
    assert protocol.ListOffsetRequest is OffsetRequest
    assert protocol.ListOffsetResponse is OffsetResponse
    assert CommonMessage is Message
    assert protocol.API_VERSIONS_080[0] == (0, 0, 0)
    assert protocol.API_VERSIONS_090[8].max == 1
    for name in getattr(protocol, "__all__"):  # noqa: B009 - checkers do not know it
        assert getattr(protocol, name) is not None
    with pytest.raises(AttributeError, match="Nothing"):
        getattr(protocol, "Nothing")  # noqa: B009


# -- classes of single versions ----------------------------------------------------------------------------------------

TOPIC = "00000001 0001 't' 00000001"


def test_metadata_of_each_version() -> None:
    partition = "0000 00000000 00000001 00000002 00000001 00000002 00000001 00000001"
    brokers, cluster = "00000001 00000001 0001 'h' 00000002 0001 'r'", "0001 'c'"
    topics = f"00000001 0000 0001 't' 01 00000001 {partition}"
    bodies = {
        1: f"{brokers} 00000001 {topics}",
        2: f"{brokers} {cluster} 00000001 {topics}",
        3: f"00000005 {brokers} {cluster} 00000001 {topics}",
        4: f"00000005 {brokers} {cluster} 00000001 {topics}",
        5: f"00000005 {brokers} {cluster} 00000001 {topics} 00000001 00000002",
    }
    for version, body in bodies.items():
        response = getattr(protocol, f"MetadataResponseV{version}")(spelled(body))
        assert response.brokers == {1: (1, "h", 2, "r")}
        assert response.brokers[1].rack == "r"
        assert (response.controller_id, response.cluster_id) == (1, "c" if version > 1 else None)
        assert response.throttle_time_ms == (5 if version > 2 else 0)
        assert response.topics["t"].is_internal
        offline = ([2],) if version == 5 else ()
        assert response.topics["t"].partitions == {0: (0, 1, [1, 2], [1], *offline, 0)}
        request_ = getattr(protocol, f"MetadataRequestV{version}")
        creates = " 01" if version > 3 else ""
        assert request_().get_bytes()[4:] == spelled(f"0003 000{version} {HEAD} ffffffff{creates}")
        assert request_([b"t"]).get_bytes()[4:] == spelled(f"0003 000{version} {HEAD} 00000001 0001 't'{creates}")
    quiet = protocol.MetadataRequestV4(["t"], allow_topic_autocreation=False)
    assert quiet.get_bytes()[4:] == spelled(f"0003 0004 {HEAD} 00000001 0001 't' 00")


def test_messages_of_each_version() -> None:
    for version, response_cls in ((1, protocol.FetchResponseV1), (2, protocol.FetchResponseV2)):
        response = response_cls(spelled(f"0000004d {TOPIC} 00000001 0000 0000000000000009 00000000"))
        assert version == response.API_VERSION
        assert response.throttle_time == 77
        assert response.topics == {"t": {1: (9, [], 0)}}
    assert FetchResponse(spelled(f"{TOPIC} 00000001 0000 0000000000000009 00000000")).throttle_time == 0


def test_offsets_of_each_version() -> None:
    request_ = protocol.ListOffsetRequestV1([PartitionOffsetRequest("t", 1, -1, 1)])
    assert request_.get_bytes()[4:] == spelled(f"0002 0001 {HEAD} ffffffff {TOPIC} 00000001 ffffffffffffffff")
    found = protocol.ListOffsetResponseV1(spelled(f"{TOPIC} 00000001 0000 0000000000000063 0000000000000007"))
    assert found.topics == {"t": {1: ([7], 99, 0)}}
    asked = [PartitionOffsetFetchRequest("t", 1)]
    for version, cls in ((1, protocol.OffsetFetchRequestV1), (2, protocol.OffsetFetchRequestV2)):
        assert cls("g", asked).get_bytes()[4:] == spelled(f"0009 000{version} {HEAD} 0001 'g' {TOPIC} 00000001")
        nothing = "00000000" if version == 1 else "ffffffff"  # all that the group has
        assert cls("g").get_bytes()[4:] == spelled(f"0009 000{version} {HEAD} 0001 'g' {nothing}")
    body = f"{TOPIC} 00000001 0000000000000005 0001 'm' 0000"
    assert protocol.OffsetFetchResponseV1(spelled(body)).topics == {"t": {1: (5, "m", 0)}}
    failed = protocol.OffsetFetchResponseV2(spelled(f"{body} 0010"))
    assert (failed.err, failed.topics) == (16, {"t": {1: (5, "m", 16)}})


# -- helpers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "buff", "offset", "found"),
    [
        ("hi", b"\0\1\0\0\0\2", 0, (1, 2)),
        ("!h i", b"..\0\1\0\0\0\2", 2, (1, 2)),
        ("SY", b"\0\2ab\0\0\0\1c", 0, (b"ab", b"c")),
        ("SY", b"\xff\xff\xff\xff\xff\xff", 0, (None, None)),
        ("[h]", b"\0\0\0\2\0\1\0\2", 0, [1, 2]),
        ("[S]q", b"\0\0\0\1\0\1a" + bytes(8), 0, ([b"a"], 0)),
        ("[S [h b]]", b"\0\0\0\1\0\1a\0\0\0\1\0\5\6", 0, [(b"a", [(5, 6)])]),
        ("[[h]]", b"\0\0\0\1\0\0\0\1\0\5", 0, [([5],)]),
        ("[h][h]", b"\0\0\0\1\0\5\0\0\0\0", 0, ([5], [])),
        ("[h]", b"\0\0\0\0", 0, []),
        ("", b"", 0, ()),
    ],
)
def test_unpack_from(fmt: str, buff: bytes, offset: int, found: Any) -> None:
    # As PyKafka 2.8: a tuple, but of one array the array itself.
    assert unpack_from(fmt, buff, offset) == found
    assert unpack_from(fmt, memoryview(bytearray(buff)), offset) == found


@pytest.mark.parametrize(
    ("fmt", "buff"),
    [
        ("h", b"\0"),
        ("S", b"\0\5ab"),
        ("S", b"\xff\xfeab"),
        ("Y", b"\x7f\xff\xff\xff"),
        ("[h]", b"\x7f\xff\xff\xff\0\0"),
    ],
)
def test_unpack_from_too_little(fmt: str, buff: bytes) -> None:
    with pytest.raises(CorruptResponseError):
        unpack_from(fmt, buff)


@pytest.mark.parametrize("fmt", ["[h", "h]"])
def test_unpack_from_brackets_that_do_not_match(fmt: str) -> None:
    with pytest.raises(ValueError, match="^format"):
        unpack_from(fmt, b"\0\0\0\0\0\0")


def test_partition_responses_go_to_the_handler_of_their_error() -> None:
    response = OffsetCommitResponse(
        spelled("00000001 0001 't' 00000004") + spelled("00000000 0000 00000001 0010 00000002 03e7 00000003 0000")
    )
    calls: list[tuple[str, Any]] = []
    found = handle_partition_responses(
        {16: lambda parts: calls.append(("moved", parts))},
        success_handler=lambda parts: calls.append(("fine", parts)),
        response=response,
        partitions_by_id={0: "zero", 1: "one", 2: "two"},
    )
    assert calls == [("fine", [("zero", (0,))]), ("moved", [("one", (16,))])]
    assert list(found[999]) == [("two", (999,))]


def test_raise_error() -> None:
    with pytest.raises(UnknownMemberId, match="who"):
        raise_error(UnknownMemberId, "who")


def test_text_and_bytes() -> None:
    assert serialize_utf8("ä", None) == (b"\xc3\xa4", None)
    assert deserialize_utf8(b"\xc3\xa4", b"k") == ("ä", "k")
    assert (get_string("a"), get_string(b"a")) == ("a", "a")
    with pytest.raises(UnicodeException):
        get_string(b"\xff")
