"""Fetch requests and responses about one partition, which have encoders and decoders of their own: as any other's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka.exceptions import FieldValueError
from pykafka.protocol import wire
from pykafka.protocol.schema import Message, decode_response

Read = wire.FetchResponse.Topic.Partition
Asked = wire.FetchRequest.Topic.Partition
ID = UUID("0ab2617b-ebe9-4abb-9280-b48d9c0fbcbb")
RESPONSE_VERSIONS = range(13, wire.FetchResponse.max_version + 1)
REQUEST_VERSIONS = range(15, wire.FetchRequest.max_version + 1)


def response(partitions: int = 1, topics: int = 1, error_code: int = 0, **values: Any) -> wire.FetchResponse:
    """Return a response; `values` are fields of each of its partitions."""
    usual: dict[str, Any] = {"high_watermark": 7, "last_stable_offset": 6, "log_start_offset": 5, "records": b"records"}
    parts = [Read(partition_index=number, **(usual | values)) for number in range(partitions)]
    found = [wire.FetchResponse.Topic(topic_id=ID, partitions=parts) for _ in range(topics)]
    return wire.FetchResponse(throttle_time_ms=12, error_code=error_code, session_id=77, responses=found)


def framed(message: wire.FetchResponse, version: int) -> memoryview:
    """Return the frame of a response, from the correlation id on."""
    return memoryview(b"\0\0\0\x05\0" + message.encode(version))


def request(**values: Any) -> wire.FetchRequest:
    """Return a request for one partition; `values` are fields of the request, or of its partition."""
    part: dict[str, Any] = {"partition": 3, "current_leader_epoch": 2, "fetch_offset": 99, "partition_max_bytes": 2**20}
    part |= {name: values.pop(name) for name in list(values) if name in vars(Asked)}
    usual: dict[str, Any] = {"max_wait_ms": 100, "min_bytes": 1, "session_id": 77, "session_epoch": 9}
    topic = wire.FetchRequest.Topic(topic="t", topic_id=ID, partitions=[Asked(**part)])
    return wire.FetchRequest(**(usual | {"topics": [topic]} | values))


def usual_way(message: wire.FetchRequest, version: int) -> bytes:
    """Return what the encoder of any request writes."""
    return b"".join(Message.chunks(message, version))


@pytest.mark.parametrize("version", RESPONSE_VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 16_382, 16_383, 16_384, 3_000_000])
def test_a_response_about_one_partition_is_read_as_the_decoder_reads_it(version: int, size: int) -> None:
    """Read records of each length of their length."""
    frame = framed(response(records=b"r" * size, preferred_read_replica=4), version)
    found = wire.FetchResponse.read_one(version, frame)
    assert found is not None
    assert found == decode_response(wire.FetchRequest, version, frame)[1]
    assert found.responses[0].partitions[0].records.obj is frame.obj


@pytest.mark.parametrize("aborted", [None, []])
def test_a_response_without_aborted_transactions_keeps_whether_the_list_is_null(aborted: list[Any] | None) -> None:
    """Compare null with an empty list."""
    frame = framed(response(aborted_transactions=aborted), 17)
    found = wire.FetchResponse.read_one(17, frame)
    assert found is not None
    assert found.responses[0].partitions[0].aborted_transactions == aborted


@pytest.mark.parametrize(
    "message",
    [
        response(partitions=0),
        response(partitions=2),
        response(topics=0),
        response(topics=2),
        response(error_code=70),
        response(records=None),
        response(aborted_transactions=[Read.AbortedTransaction(producer_id=1, first_offset=2)]),
        response(diverging_epoch=Read.EpochEndOffset(epoch=1, end_offset=2)),
        response(current_leader=Read.Leader(leader_id=1, leader_epoch=2)),
    ],
)
def test_any_other_response_is_left_to_the_decoder(message: wire.FetchResponse) -> None:
    """Refuse what is not about one partition, and what has an error or a tag."""
    assert wire.FetchResponse.read_one(17, framed(message, 17)) is None


def test_a_partition_with_an_error_is_left_to_the_decoder() -> None:
    """Refuse the error of a partition."""
    failed = response()
    failed.responses[0].partitions[0].error_code = 3
    assert wire.FetchResponse.read_one(17, framed(failed, 17)) is None


def test_a_response_that_is_cut_off_or_older_is_left_to_the_decoder() -> None:
    """Refuse each beginning of a response, one with more behind it, and one that names topics."""
    frame = framed(response(), 17)
    assert all(wire.FetchResponse.read_one(17, frame[:size]) is None for size in range(len(frame)))
    assert wire.FetchResponse.read_one(17, memoryview(bytes(frame) + b"\0")) is None
    assert wire.FetchResponse.read_one(12, frame) is None


@pytest.mark.parametrize("version", REQUEST_VERSIONS)
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"rack_id": "somewhere"},
        {"rack_id": "r" * 126},
        {"rack_id": "r" * 127},
        {"isolation_level": 1, "max_bytes": 1},
        {"last_fetched_epoch": 5, "log_start_offset": 4, "fetch_offset": 2**62},
        {"topics": []},
        {"forgotten_topics_data": [wire.FetchRequest.ForgottenTopic(topic_id=ID, partitions=[1])]},
        {"cluster_id": "cluster"},
        {"replica_directory_id": ID},
    ],
)
def test_a_request_is_written_as_the_encoder_writes_it(version: int, values: dict[str, Any]) -> None:
    """Compare a request for one partition, and others, with what the encoder of any request writes."""
    if version < 17 and "replica_directory_id" in values:
        version = 17
    assert b"".join(request(**values).chunks(version)) == usual_way(request(**values), version)


@pytest.mark.parametrize("field", ["fetch_offset", "min_bytes"])
@pytest.mark.parametrize("value", [2**70, "many", None])
def test_a_value_that_does_not_fit_raises_the_error_of_the_encoder(field: str, value: object) -> None:
    """Name the field in the error."""
    with pytest.raises(FieldValueError, match=field):
        request(**{field: value}).chunks(17)
