"""Damaged answers of brokers: each raises an error that names the damage and its place; nothing hangs or is lost."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import (
    CodecNotAvailableError,
    CorruptResponseError,
    FrameTooLargeError,
    InvalidMessageError,
    KafkaException,
    MessagesNotDelivered,
    NoBrokersAvailableError,
    SocketDisconnectedError,
)
from pykafka.protocol import wire
from pykafka.utils import compression
from tests.support.scripted import TOPIC, ScriptedBroker, batch

GOOD = batch([b"0", b"1"])
NEXT = batch([b"2", b"3"], base_offset=2)


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def greenlets(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def values(broker: ScriptedBroker, greenlets: bool, socket_timeout_ms: int = 1000) -> Generator[bytes | None]:
    with KafkaClient(broker.hosts, use_greenlets=greenlets, socket_timeout_ms=socket_timeout_ms) as client:
        with client.topics[TOPIC].get_simple_consumer(consumer_timeout_ms=5000, fetch_error_backoff_ms=50) as consumer:
            for message in consumer:
                yield message.value


def test_sound_answers_are_read(greenlets: bool) -> None:
    with ScriptedBroker(GOOD + NEXT) as broker:
        messages = values(broker, greenlets)
        assert [next(messages) for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        messages.close()


def test_a_wrong_checksum_is_raised_once_and_can_be_passed_by(greenlets: bool) -> None:
    flipped = bytearray(GOOD + NEXT)
    flipped[len(GOOD) - 1] ^= 1
    with ScriptedBroker(bytes(flipped)) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        topic = client.topics[TOPIC]
        with topic.get_simple_consumer(consumer_timeout_ms=5000, fetch_error_backoff_ms=50) as consumer:
            with pytest.raises(InvalidMessageError, match="checksum") as caught:
                consumer.consume()
            assert (caught.value.topic, caught.value.partition) == (TOPIC, 0)
            assert "offset 2" in str(caught.value)
            consumer.seek(topic.partitions[0], 2)
            message = None
            while message is None:
                try:
                    message = consumer.consume()
                except InvalidMessageError:  # from before the seek
                    continue
            assert message.value == b"2"


@pytest.mark.parametrize("cut", [4, 9, 40])
def test_an_answer_that_is_cut_short_is_named(greenlets: bool, cut: int) -> None:
    with ScriptedBroker(GOOD, lambda cls, frame: frame[:cut] if cls is wire.FetchRequest else frame) as broker:
        with pytest.raises(CorruptResponseError, match="cut off|corrupt"):
            next(values(broker, greenlets))


def test_records_that_are_none_are_named(greenlets: bool) -> None:
    with (
        ScriptedBroker(b"\x00" * 8 + b"\x7f" * 60) as broker,
        pytest.raises(InvalidMessageError, match="begins no batch"),
    ):
        next(values(broker, greenlets))


def test_an_oversized_frame_is_named(greenlets: bool) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 2**31 - 1

    with ScriptedBroker(GOOD, lambda cls, frame: Huge(frame) if cls is wire.MetadataRequest else frame) as broker:
        with pytest.raises(NoBrokersAvailableError) as caught:
            KafkaClient(broker.hosts, use_greenlets=greenlets, socket_timeout_ms=1000)
        assert isinstance(caught.value.ledger[0][1], FrameTooLargeError)


def test_a_broker_that_hangs_up_all_the_time_is_named(greenlets: bool) -> None:
    with ScriptedBroker(GOOD, lambda cls, frame: None if cls is wire.FetchRequest else frame) as broker:
        with pytest.raises(SocketDisconnectedError, match=r"127\.0\.0\.1"):
            next(values(broker, greenlets, socket_timeout_ms=500))


def test_a_missing_codec_is_named(greenlets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    zstd = batch([b"x" * 100], codec=4)

    def missing(name: str) -> None:
        raise CodecNotAvailableError("zstd wants the package cramjam; install it")

    monkeypatch.setattr(compression, "_cramjam", missing)
    with ScriptedBroker(zstd) as broker, pytest.raises(CodecNotAvailableError, match="cramjam"):
        next(values(broker, greenlets))


@pytest.mark.parametrize(
    ("error_code", "damaged", "reason"),
    [(999, False, "999"), (29, False, "TOPIC_AUTHORIZATION_FAILED"), (0, True, "CorruptResponseError")],
)
def test_what_produce_is_answered_is_in_the_report(
    greenlets: bool, error_code: int, damaged: bool, reason: str
) -> None:
    def damage(cls: type[object], frame: bytes) -> bytes:
        return frame[:12] if damaged and cls is wire.ProduceRequest else frame

    with ScriptedBroker(damage=damage, produce_error=error_code) as broker:
        with KafkaClient(broker.hosts, use_greenlets=greenlets, socket_timeout_ms=1000) as client:
            producer = client.topics[TOPIC].get_producer(linger_ms=0, max_retries=1, retry_backoff_ms=10)
            producer.produce(b"value", partition_key=b"key")
            with pytest.raises(MessagesNotDelivered, match=reason) as caught:
                producer.stop()
            [(message, error)] = caught.value.failures
            assert (message.value, message.partition_key) == (b"value", b"key")
            assert isinstance(error, KafkaException)
            assert error.broker == broker.hosts


def test_sync_produce_raises_the_reason(greenlets: bool) -> None:
    with ScriptedBroker(produce_error=87) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        with client.topics[TOPIC].get_sync_producer() as producer:
            with pytest.raises(KafkaException, match="INVALID_RECORD"):
                producer.produce(b"value")


@pytest.mark.parametrize("told_of", [[("elsewhere", 0)], [(TOPIC, 1)], [(TOPIC, 0), (TOPIC, 0)]])
def test_an_answer_to_another_request_acknowledges_nothing(greenlets: bool, told_of: list[tuple[str, int]]) -> None:
    """An answer about another topic acknowledged the messages of the partition with the same number."""

    class Mixing(ScriptedBroker):
        def _respond(self, request: Any) -> Any:
            if not isinstance(request, wire.ProduceRequest):
                return super()._respond(request)
            parts = [(name, wire.ProduceResponse.Topic.Partition(index=index)) for name, index in told_of]
            return wire.ProduceResponse(
                responses=[wire.ProduceResponse.Topic(name=name, partition_responses=[part]) for name, part in parts]
            )

    with Mixing() as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        with client.topics[TOPIC].get_sync_producer(max_retries=1, retry_backoff_ms=10) as producer:
            with pytest.raises(CorruptResponseError, match="the request has nothing for"):
                producer.produce(b"value")
