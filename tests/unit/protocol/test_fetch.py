"""Fetch responses about one partition, which have a decoder of their own: it reads what the usual one reads."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from pykafka.protocol import wire
from pykafka.protocol.schema import decode_response

Read = wire.FetchResponse.Topic.Partition
ID = UUID("0ab2617b-ebe9-4abb-9280-b48d9c0fbcbb")
RESPONSE_VERSIONS = range(13, wire.FetchResponse.max_version + 1)


def response(partitions: int = 1, topics: int = 1, error_code: int = 0, **values: Any) -> wire.FetchResponse:
    """Return a response; `values` are fields of each of its partitions."""
    usual: dict[str, Any] = {"high_watermark": 7, "last_stable_offset": 6, "log_start_offset": 5, "records": b"records"}
    parts = [Read(partition_index=number, **(usual | values)) for number in range(partitions)]
    found = [wire.FetchResponse.Topic(topic_id=ID, partitions=parts) for _ in range(topics)]
    return wire.FetchResponse(throttle_time_ms=12, error_code=error_code, session_id=77, responses=found)


def framed(message: wire.FetchResponse, version: int) -> memoryview:
    """Return the frame of a response, from the correlation id on."""
    return memoryview(b"\0\0\0\x05\0" + message.encode(version))


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


@pytest.mark.parametrize("seed", range(20))
def test_a_response_that_is_damaged_is_read_as_the_decoder_reads_it(seed: int) -> None:
    """Change and cut a hundred frames: what is read at all is what the decoder reads."""
    chance = random.Random(seed)
    whole = bytes(framed(response(preferred_read_replica=4), 17))
    for _ in range(100):
        frame = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            frame[chance.randrange(len(frame))] = chance.randrange(256)
        view = memoryview(bytes(frame[: chance.choice((len(frame), chance.randrange(len(frame))))]))
        found = wire.FetchResponse.read_one(17, view)
        if found is not None:
            assert found == wire.FetchResponse.decode(view[5:], 17)
