"""Topics in a message format before 0.11, on a broker that still keeps such: no sequence numbers, headers, zstd or times."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import ConfigResource
from pykafka.common import OffsetType
from pykafka.exceptions import (
    KafkaException,
    MessagesNotDelivered,
    TransactionError,
    UnknownError,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from pykafka.producer import message_formats
from pykafka.producer.in_flight_window import InFlightWindow
from pykafka.producer.produce_request import Request
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.sender import BatchSender
from tests.brokers import KafkaCluster
from tests.support.inside import engine_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

FORMAT = "message.format.version"


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    """Yield a broker of the last release before 3.0, from which on all topics are in the newest format."""
    with KafkaCluster("2.8.2") as cluster:
        yield cluster


@pytest.fixture(params=["0.9.0", "0.10.2"])
def old(request: pytest.FixtureRequest, client: KafkaClient) -> str:
    """Return a topic in an old format."""
    return str(create_topic(client, partitions=2, config={FORMAT: request.param}).name)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings about message_formats."""
    return [record.getMessage() for record in caplog.records if "is in a message format before" in record.getMessage()]


def values(client: KafkaClient, topic: str, count: int) -> list[bytes | None]:
    """Return the values of a topic's first partition."""
    consumer = client.topics[topic].get_simple_consumer(consumer_timeout_ms=10_000)
    with consumer:
        found = [message for _, message in zip(range(count), consumer, strict=False)]
        ends = client.topics[topic].latest_available_offsets()
    assert sum(end.offset[0] for end in ends.values()) == count
    return [message.value for message in found if message.partition_id == 0]


@pytest.mark.on_asyncio
def test_a_producer_writes_by_default(client: KafkaClient, old: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each message failed with UNSUPPORTED_FOR_MESSAGE_FORMAT."""
    with caplog.at_level(logging.WARNING), client.producer(linger_ms=1) as producer:
        for number in range(2000):
            producer.produce(old, b"%d" % number, partition=0)
            if number % 100 == 0:
                producer.flush()
        producer.produce(old, b"other", partition=1).get()
    assert values(client, old, 2001) == [b"%d" % number for number in range(2000)]
    (warning,) = warnings(caplog)
    assert old in warning
    assert "may store a message twice" in warning


@pytest.mark.parametrize("options", [{}, {"sync": True}, {"delivery_reports": True}], ids=str)
def test_a_program_of_pykafka_2_runs(client: KafkaClient, old: str, options: dict[str, Any]) -> None:
    """2.8.0 has no sequence numbers, with whatever acks."""
    topic = client.topics[old]
    with topic.get_producer(required_acks=-1, linger_ms=1, **options) as producer:
        for number in range(20):
            producer.produce(b"%d" % number)
        if options.get("delivery_reports"):
            assert [producer.get_delivery_report(timeout=10)[1] for _ in range(20)] == [None] * 20
    assert len(values(client, old, 20)) == 10


def test_what_was_asked_for_by_name_says_what_to_do(client: KafkaClient, old: str) -> None:
    with client.producer(enable_idempotence=True) as producer:
        with pytest.raises(UnsupportedForMessageFormat, match=r"raise message\.format\.version.*without enable_idemp"):
            producer.produce(old, b"x").get()
    topic = client.topics[old]
    with topic.get_producer(required_acks=-1, enable_idempotence=True, sync=True) as documented:
        with pytest.raises(UnsupportedForMessageFormat, match=r"raise message\.format\.version.*without enable_idemp"):
            documented.produce(b"x")
    assert values(client, old, 0) == []


def test_transactions_never_go_without_numbers(client: KafkaClient, old: str) -> None:
    with client.producer(transactional_id="old-format") as producer:
        producer.begin_transaction()
        delivery = producer.produce(old, b"x")
        with pytest.raises((TransactionError, MessagesNotDelivered)):
            producer.commit_transaction()
        with pytest.raises(KafkaException, match=r"no transactions: raise message\.format\.version"):
            delivery.get()
        producer.abort_transaction()
    assert values(client, old, 0) == []


@pytest.mark.parametrize("idempotence", [None, False])
def test_headers_are_refused_by_name_and_cost_no_other_message(
    client: KafkaClient, old: str, idempotence: bool | None
) -> None:
    """All of a batch failed with UNKNOWN_SERVER_ERROR if one of its messages had headers."""
    with client.producer(enable_idempotence=idempotence, linger_ms=50) as producer:
        sent = [
            producer.produce(old, b"%d" % number, partition=0, headers={"a": b"b"} if number % 7 == 3 else None)
            for number in range(30)
        ]
        with pytest.raises(MessagesNotDelivered):
            producer.flush()
        for number, delivery in enumerate(sent):
            assert (type(delivery.error) is UnsupportedForMessageFormat) == (number % 7 == 3), delivery.error
        assert "has no headers: send the message without" in str(sent[3].error)
    kept = [b"%d" % number for number in range(30) if number % 7 != 3]
    assert values(client, old, len(kept)) == kept


@pytest.mark.parametrize("idempotence", [None, False])
def test_zstd_is_refused_by_name(client: KafkaClient, old: str, idempotence: bool | None) -> None:
    with client.producer(enable_idempotence=idempotence, compression="zstd") as producer:
        with pytest.raises(UnsupportedCompressionType, match="no zstd: produce with another compression"):
            producer.produce(old, b"x" * 100).get()


def test_an_error_of_another_reason_stays_what_it_is(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is asked once for the format, and says that the topic is in none of the old ones."""
    topic = create_topic(client).name
    asked: list[str] = []
    ask = message_formats.MessageFormats.ask

    def counted(self: message_formats.MessageFormats, topic: str, broker: Any) -> bool:
        asked.append(topic)
        return ask(self, topic, broker)

    monkeypatch.setattr(message_formats.MessageFormats, "ask", counted)
    with client.producer(acks=1) as producer:
        unknown = UnknownError(topic=topic)
        monkeypatch.setattr("pykafka.producer.produce_request._read", lambda *_: unknown.again())
        unwritten = type("Request", (Request,), {"is_written": lambda *_: False})
        monkeypatch.setattr("pykafka.producer.leader_requests.Request", unwritten)
        for _ in range(2):
            with pytest.raises(UnknownError):
                producer.produce(topic, b"x", headers={"a": b"b"}).get()
    assert asked == [topic]


@pytest.mark.parametrize("then", ["0.10.2", "2.8"])
def test_the_format_may_change_while_the_producer_runs(
    client: KafkaClient, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is followed: from an old one on sequence numbers are dropped, to a new one they come back after a while."""
    monkeypatch.setattr(message_formats, "VALID_S", 0.3)
    before = "0.10.2" if then == "2.8" else "2.8"
    topic = create_topic(client, config={FORMAT: before}).name
    count = 0
    with client.producer(linger_ms=0) as producer:

        def produce(more: int) -> InFlightWindow:
            nonlocal count
            for _ in range(more):
                producer.produce(topic, b"%d" % count)
                count += 1
            window: InFlightWindow = engine_of(producer).routing.queues[topic, 0].window
            return window

        assert produce(1000) is not None
        producer.flush()
        client.admin.alter_configs({ConfigResource.topic(topic): {FORMAT: then}})
        deadline = time.monotonic() + 60
        while (window := produce(100)).plain != (then == "0.10.2"):  # the broker hears of it a little later
            assert time.monotonic() < deadline
            client.cluster.handler.sleep(0.01)
        produce(1000)
        producer.flush()
        assert window.numbers == (then == "2.8")
    assert values(client, topic, count) == [b"%d" % number for number in range(count)]


def test_a_time_leads_to_a_segment_of_a_log_without_timestamps(
    client: KafkaClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader's UNSUPPORTED_FOR_MESSAGE_FORMAT failed the call, for topics in a newer format as well."""
    topic, new = create_topic(client, config={FORMAT: "0.9.0"}), create_topic(client)
    with client.producer() as producer:
        for number in range(10):
            producer.produce(topic.name, b"%d" % number)
            producer.produce(new.name, b"%d" % number)
    now = client.cluster.handler.time_ms()
    with client.consumer(topic.name, new.name) as consumer:
        for moment, expected in ((now - 3_600_000, 0), (now + 3_600_000, 10)):
            consumer.seek_to_time(moment)
            assert [consumer.position(tp) for tp in consumer.assignment()] == [expected, expected]
    assert topic.fetch_offset_limits(OffsetType.EARLIEST)[0].offset == [0]
    assert topic.fetch_offset_limits(now + 3_600_000, 10)[0].offset == [10, 0]
    assert len([record for record in caplog.records if "has no timestamps" in record.getMessage()]) == 1


def test_the_sink_of_spark_writes(client: KafkaClient, old: str, caplog: pytest.LogCaptureFixture) -> None:
    options = write_options({"kafka.bootstrap.servers": "none:1", "topic": old}, Mode.BATCH_WRITE)
    for attempt in range(2):  # the second task takes over what the first has found out
        sender = BatchSender(client.cluster, options)
        for number in range(20):
            builder = RecordBatchBuilder()
            builder.append(-1, None, b"%d" % (20 * attempt + number), None)
            sender.submit(old, 0, builder)
        sender.finish()
        assert sender.acknowledged[old] == 20
    assert values(client, old, 40) == [b"%d" % number for number in range(40)]
    assert len(warnings(caplog)) == 1
