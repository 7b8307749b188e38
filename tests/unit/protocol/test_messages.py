"""Wire messages: bytes as the protocol guide has them, and the same question in the forms of several versions."""

from __future__ import annotations

import pytest

from pykafka.exceptions import FieldNotAvailableError
from pykafka.protocol import wire
from pykafka.protocol.schema import Message

Topic = wire.MetadataRequest.Topic
ONE_PRODUCED = wire.ProduceRequest(
    acks=1,
    timeout_ms=1000,
    topic_data=[
        wire.ProduceRequest.Topic(
            name="t", partition_data=[wire.ProduceRequest.Topic.Partition(index=3, records=b"RECORDS")]
        )
    ],
)
ONE_FETCHED = wire.FetchRequest(
    replica_id=-1,
    max_wait_ms=100,
    min_bytes=1,
    max_bytes=5000,
    topics=[
        wire.FetchRequest.Topic(
            topic="t",
            partitions=[wire.FetchRequest.Topic.Partition(partition=3, fetch_offset=9, partition_max_bytes=400)],
        )
    ],
)
COMMITTED = wire.OffsetCommitRequest(
    group_id="g",
    topics=[
        wire.OffsetCommitRequest.Topic(
            name="t",
            partitions=[
                wire.OffsetCommitRequest.Topic.Partition(partition_index=1, committed_offset=5, committed_metadata="m")
            ],
        )
    ],
)


def spelled(text: str) -> bytes:
    """Return bytes of hex digits, with letters in quotes standing for themselves."""
    return b"".join(word[1:-1].encode() if word.startswith("'") else bytes.fromhex(word) for word in text.split())


@pytest.mark.parametrize(
    ("message", "version", "written"),
    [
        (ONE_PRODUCED, 0, "0001 000003e8 00000001 0001 't' 00000001 00000003 00000007 'RECORDS'"),
        (ONE_PRODUCED, 2, "0001 000003e8 00000001 0001 't' 00000001 00000003 00000007 'RECORDS'"),
        (ONE_PRODUCED, 3, "ffff 0001 000003e8 00000001 0001 't' 00000001 00000003 00000007 'RECORDS'"),
        (ONE_PRODUCED, 9, "00 0001 000003e8 02 02 't' 02 00000003 08 'RECORDS' 00 00 00"),
        (ONE_FETCHED, 0, "ffffffff 00000064 00000001 00000001 0001 't' 00000001 00000003 0000000000000009 00000190"),
        (
            ONE_FETCHED,
            3,
            "ffffffff 00000064 00000001 00001388 00000001 0001 't' 00000001 00000003 0000000000000009 00000190",
        ),
        (
            ONE_FETCHED,
            12,
            "ffffffff 00000064 00000001 00001388 00 00000000 ffffffff 02 02 't' 02 00000003 ffffffff 0000000000000009"
            " ffffffff ffffffffffffffff 00000190 00 00 01 01 00",
        ),
        (COMMITTED, 0, "0001 'g' 00000001 0001 't' 00000001 00000001 0000000000000005 0001 'm'"),
        (
            COMMITTED,
            1,
            "0001 'g' ffffffff 0000 00000001 0001 't' 00000001 00000001 0000000000000005 ffffffffffffffff 0001 'm'",
        ),
        (
            COMMITTED,
            2,
            "0001 'g' ffffffff 0000 ffffffffffffffff 00000001 0001 't' 00000001 00000001 0000000000000005 0001 'm'",
        ),
        (wire.MetadataRequest(topics=[Topic(name="ab")]), 0, "00000001 0002 'ab'"),
        (wire.MetadataRequest(topics=[Topic(name="ab")]), 4, "00000001 0002 'ab' 01"),
    ],
)
def test_the_bytes_of_the_protocol_guide(message: Message, version: int, written: str) -> None:
    assert message.encode(version) == spelled(written)


def test_a_produce_response_of_each_age() -> None:
    old = wire.ProduceResponse.decode(spelled("00000001 0001 't' 00000001 00000003 0006 0000000000000007"), 0)
    part = old.responses[0].partition_responses[0]
    assert (part.index, part.error_code, part.base_offset, part.log_append_time_ms) == (3, 6, 7, -1)
    newer = wire.ProduceResponse.decode(
        spelled("00000001 0001 't' 00000001 00000003 0000 0000000000000007 0000000000000009 00000001"), 2
    )
    assert newer.responses[0].partition_responses[0].log_append_time_ms == 9
    assert newer.throttle_time_ms == 1


def test_a_fetch_response_of_the_oldest_age() -> None:
    frame = spelled("00000001 0001 't' 00000001 00000003 0000 0000000000000007 00000003 'abc'")
    part = wire.FetchResponse.decode(frame, 0).responses[0].partitions[0]
    assert (part.partition_index, part.high_watermark, bytes(part.records)) == (3, 7, b"abc")
    assert part.last_stable_offset == -1


def test_list_offsets_answers_several_or_one() -> None:
    frame = spelled("00000001 0001 't' 00000001 00000003 0000 00000002 0000000000000007 0000000000000000")
    old = wire.ListOffsetsResponse.decode(frame, 0).topics[0].partitions[0]
    assert old.old_style_offsets == [7, 0]
    frame = spelled("00000001 0001 't' 00000001 00000003 0000 ffffffffffffffff 0000000000000007")
    new = wire.ListOffsetsResponse.decode(frame, 1).topics[0].partitions[0]
    assert (new.old_style_offsets, new.offset) == ([], 7)


def test_metadata_of_the_oldest_brokers() -> None:
    frame = spelled(
        "00000001 00000001 0004 'host' 00002384 00000001 0000 0001 't' 00000001 0005 00000000 ffffffff"
        " 00000001 00000001 00000000"
    )
    metadata = wire.MetadataResponse.decode(frame, 0)
    broker, topic = metadata.brokers[0], metadata.topics[0]
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (1, "host", 9092, None)
    assert (topic.name, topic.partitions[0].leader_id, topic.partitions[0].replica_nodes) == ("t", -1, [1])
    assert (metadata.controller_id, metadata.cluster_id) == (-1, None)


@pytest.mark.parametrize(
    ("topics", "create", "version", "written"),
    [
        (None, True, 0, "00000000"),
        (None, True, 1, "ffffffff"),
        (None, False, 1, "ffffffff"),
        (None, False, 4, "ffffffff 00"),
        ([], False, 1, "00000000"),
        (["t"], False, 0, "00000000"),
        (["t"], False, 3, "ffffffff"),
        (["t"], False, 4, "00000001 0001 't' 00"),
        (["t"], True, 0, "00000001 0001 't'"),
    ],
)
def test_metadata_is_asked_for_without_creating_topics(
    topics: list[str] | None, create: bool, version: int, written: str
) -> None:
    named = None if topics is None else [Topic(name=name) for name in topics]
    request = wire.MetadataRequest(topics=named, allow_auto_topic_creation=create)
    assert request.encode(version) == spelled(written)
    assert (request.topics, request.allow_auto_topic_creation) == (named, create)


@pytest.mark.parametrize(
    "request_", [wire.FindCoordinatorRequest(key="g"), wire.FindCoordinatorRequest(coordinator_keys=["g"])]
)
@pytest.mark.parametrize(("version", "written"), [(0, "0001 'g'"), (3, "02 'g' 00 00"), (4, "00 02 02 'g' 00")])
def test_a_coordinator_is_asked_for_in_the_form_of_the_version(
    request_: wire.FindCoordinatorRequest, version: int, written: str
) -> None:
    assert request_.encode(version) == spelled(written)


def test_several_coordinators_need_version_4() -> None:
    with pytest.raises(FieldNotAvailableError, match="FindCoordinatorRequest version 3: coordinator_keys"):
        wire.FindCoordinatorRequest(coordinator_keys=["g", "h"]).encode(3)
