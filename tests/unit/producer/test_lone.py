"""A Produce request with one batch, and its response, are those of `protocol.wire`, byte by byte."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka.exceptions import CorruptResponseError
from pykafka.handlers import ThreadingHandler
from pykafka.producer import produce_request
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.produce_request import Request
from pykafka.protocol import wire
from pykafka.protocol.schema import decode_response, encode_request

ID = UUID(int=77)
ZERO = UUID(int=0)
SIZES = [1, 60, 126, 127, 20_000]


def made(topic: str, partition: int, pieces: list[Any]) -> ProducerBatch:
    batch = ProducerBatch(topic, partition, BrokerQueue(ThreadingHandler().Event(), 1, 1, 1), 0.0, None)
    batch.wire = pieces
    return batch


def generic(topic: str, partition: int, pieces: list[Any], id_: UUID = ZERO) -> wire.ProduceRequest:
    part = wire.ProduceRequest.Topic.Partition(index=partition, records=pieces)
    return wire.ProduceRequest(
        acks=-1,
        timeout_ms=1500,
        topic_data=[wire.ProduceRequest.Topic(name=topic, topic_id=id_, partition_data=[part])],
    )


@pytest.mark.parametrize("version", wire.ProduceRequest.versions)
@pytest.mark.parametrize("size", SIZES)
def test_the_request_has_the_same_bytes(version: int, size: int) -> None:
    pieces = [b"h" * 61, memoryview(bytearray(b"p" * size))]
    batch: Any = made("topic-é", 5, pieces)
    message = Request([batch], {"topic-é": ID} if version >= 13 else {}).message(-1, 1500)
    assert type(message) is produce_request.ProduceRequest
    same = generic("topic-é", 5, pieces, ID if version >= 13 else ZERO)
    assert b"".join(message.frame(version, 9, "me")) == b"".join(encode_request(same, version, 9, "me"))
    assert message.topic_data == same.topic_data


def decoded(version: int, frame: memoryview) -> Any:
    quick: Any = produce_request.ProduceRequest.quick_response
    return quick(version, frame) or decode_response(produce_request.ProduceRequest, version, frame)[1]


def response_frame(version: int, **part: Any) -> memoryview:
    told = wire.ProduceResponse.Topic.Partition(index=5, **part)
    topic = wire.ProduceResponse.Topic(
        name="t" if version < 13 else "", topic_id=ID if version >= 13 else ZERO, partition_responses=[told]
    )
    body = wire.ProduceResponse(responses=[topic], throttle_time_ms=7 if version else 0).encode(version)
    return memoryview(b"\0\0\0\x09" + (b"\0" if version >= 9 else b"") + body + b"trailing")


@pytest.mark.parametrize("version", wire.ProduceRequest.versions)
@pytest.mark.parametrize("error", [0, 6])
def test_the_response_says_the_same(version: int, error: int) -> None:
    part: dict[str, Any] = {"error_code": error, "base_offset": 1 << 40}
    if version >= 8 and error:
        part["error_message"] = "no"
    frame = response_frame(version, **part)
    ids = {"t": ID} if version >= 13 else {}
    found = decoded(version, frame)
    _, same = decode_response(wire.ProduceRequest, version, frame)
    assert found.throttle_time_ms == same.throttle_time_ms
    assert (found.written is not None) == (version >= 9 and not error)
    for _ in range(2):  # by the struct, then by the messages
        batch: Any = made("t", 5, [])
        ((settled, problem),) = Request([batch], ids).results(found, "here")
        assert settled is batch
        assert (problem is None) == (not error)
        assert batch.base_offset == (-1 if error else 1 << 40)
        told, expected = found.responses[0], same.responses[0]  # `outcomes` names a topic that has its id alone
        assert told.topic_id == expected.topic_id
        assert told.partition_responses == expected.partition_responses
        assert found.written is None


@pytest.mark.parametrize("version", [12, 13])
def test_a_response_about_another_partition_is_refused(version: int) -> None:
    found = decoded(version, response_frame(version))

    for other in (made("t", 6, []), made("u", 5, [])):
        batch: Any = other
        with pytest.raises(CorruptResponseError):
            Request([batch], {other.topic: UUID(int=78)} if version >= 13 else {}).results(found, "here")
        assert batch.base_offset == -1


def test_a_response_that_is_cut_off_is_corrupt() -> None:

    frame = response_frame(9)[: -len(b"trailing")]
    for size in range(4, len(frame)):
        with pytest.raises(CorruptResponseError):
            decoded(9, frame[:size])
