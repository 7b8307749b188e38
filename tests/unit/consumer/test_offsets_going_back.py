"""Answers whose offsets overlap or go back: below the next offset nothing is handed out, by any reader, in any format."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.consumer import fetch_response
from pykafka.consumer.arrow import ArrowDecoder
from pykafka.consumer.fetch_response import ascending
from pykafka.protocol import wire
from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import pack_entry, wrap
from pykafka.protocol.records import scan
from pykafka.utils.compression import compress
from tests.support.scripted import TOPIC, ScriptedBroker, batch

GZIP = 1
#: The offsets of each batch, one after another, and those that are handed out.
CASES = [
    ([[0, 1, 2], [1, 2, 3]], [0, 1, 2, 3]),
    ([[10], [5], [11]], [10, 11]),
    ([[0, 1], [0, 1], [2]], [0, 1, 2]),
    ([[3, 4], [0, 1, 2, 3, 4, 5]], [3, 4, 5]),
    ([[5, 6], [0, 1]], [5, 6]),
]


def modern(offsets: list[int], codec: int = 0) -> bytes:
    return batch([b"%d" % offset for offset in offsets], offsets[0], codec)


def entries(offsets: list[int], magic: int) -> bytes:
    return b"".join(
        pack_entry(Message(b"%d" % offset, protocol_version=magic, timestamp=1), offset, 0) for offset in offsets
    )


def wrapped(offsets: list[int], magic: int) -> bytes:
    """Return a compressed message around others; those of format 1 count from the first."""
    first = offsets[0] if magic else 0
    inner = b"".join(
        pack_entry(Message(b"%d" % offset, protocol_version=magic, timestamp=1), offset - first, 0)
        for offset in offsets
    )
    return wrap(compress(GZIP, inner, magic), max(offsets), 1, magic, GZIP)


#: How a batch is written, by the name of its format.
FORMATS: dict[str, Callable[[list[int]], bytes]] = {
    "2": modern,
    "2-gzip": lambda offsets: modern(offsets, GZIP),
    "1": lambda offsets: entries(offsets, 1),
    "0": lambda offsets: entries(offsets, 0),
    "1-gzip": lambda offsets: wrapped(offsets, 1),
    "0-gzip": lambda offsets: wrapped(offsets, 0),
}


class Repeating(ScriptedBroker):
    """A leader that gives the same bytes for each offset below their end."""

    def __init__(self, records: bytes, end: int) -> None:
        super().__init__(records)
        self.end = end
        self.asked: list[int] = []

    def _fetch(self, request: wire.FetchRequest) -> wire.FetchResponse:
        wanted = request.topics[0].partitions[0].fetch_offset
        self.asked.append(wanted)
        held, self.records = self.records, self.records if wanted < self.end else b""
        try:
            return super()._fetch(request) if not self.records else self._all()
        finally:
            self.records = held

    def _all(self) -> wire.FetchResponse:
        kind = wire.FetchResponse.Topic
        part = kind.Partition(partition_index=0, high_watermark=100, records=self.records)
        return wire.FetchResponse(responses=[kind(topic=TOPIC, partitions=[part])])


def all_of(take: Callable[[], Any], count: int) -> list[int]:
    """Return the offsets that come until there are so many, and those that come after them in a moment."""
    found: list[int] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found += take()
    return found + list(take())


def read_records(client: KafkaClient, count: int) -> dict[str, list[int]]:
    """Return the offsets that each way of reading a `client.consumer()` hands out."""

    def columns() -> list[int]:
        table = consumer.arrow(2, timeout=0.1)
        return [] if table is None else table["offset"].to_pylist()

    found: dict[str, list[int]] = {}
    with client.consumer(TOPIC, consumer_timeout_ms=100) as consumer:
        found["iteration"] = all_of(lambda: [record.offset for record in consumer], count)
        consumer.seek(TopicPartition(TOPIC, 0), 0)
        found["batches"] = all_of(
            lambda: [record.offset for records in consumer.batches(2) for record in records], count
        )
        consumer.seek(TopicPartition(TOPIC, 0), 0)
        found["arrow"] = all_of(columns, count)
    return found


def read_messages(client: KafkaClient, count: int) -> dict[str, list[int]]:
    """Return the offsets that each way of reading a `SimpleConsumer` hands out."""

    def columns() -> list[int]:
        batch = consumer.consume_arrow(2)
        return [] if batch is None else batch.column("offset").to_pylist()

    found: dict[str, list[int]] = {}
    topic = client.topics[TOPIC]
    with topic.get_simple_consumer(consumer_timeout_ms=100) as consumer:
        found["iteration"] = all_of(lambda: [message.offset for message in consumer], count)
        consumer.seek(topic.partitions[0], 0)
        found["batches"] = all_of(lambda: [message.offset for message in consumer.consume_batch(2)], count)
        consumer.seek(topic.partitions[0], 0)
        found["arrow"] = all_of(columns, count)
    return found


@pytest.mark.parametrize("read", [read_records, read_messages])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.later("greenlets-1", "greenlets-2-read", "greenlets-0-read", "threads-0-gzip", "threads-2-gzip")
def test_nothing_is_handed_out_twice(
    concurrency: Callable[[], dict[str, Any]],
    form: str,
    read: Callable[[KafkaClient, int], dict[str, list[int]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for batches, wanted in CASES[:2]:
        data = b"".join(FORMATS[form](offsets) for offsets in batches)
        with Repeating(data, wanted[-1] + 1) as broker, KafkaClient(hosts=broker.hosts, **concurrency()) as client:
            with caplog.at_level(logging.WARNING, logger=fetch_response.__name__):
                found = read(client, len(wanted))
            assert found == dict.fromkeys(found, wanted), (form, batches)
            assert not set(broker.asked) - {0, wanted[-1] + 1}, "the next fetch goes on behind the highest offset"
    assert "goes back from offset" in caplog.text


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("batches", "wanted"), CASES)
def test_columns_of_a_range_have_each_offset_once(form: str, batches: list[list[int]], wanted: list[int]) -> None:
    """Spark's reader gives the batches of an answer to the decoder."""
    data = b"".join(FORMATS[form](offsets) for offsets in batches)
    found, back = ascending(scan(data)[0], 0)
    rows = [row for columns in ArrowDecoder("t", 0, ("offset",)).decode(found) for row in columns["offset"].to_pylist()]
    assert rows == wanted
    # a compressed message of formats 0 and 1 names its last offset alone
    assert back is not None or form in ("0-gzip", "1-gzip")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("inner", "wanted"), [([10, 5, 11], [10, 11]), ([10, 11, 5], [10, 11]), ([3, 3, 4, 4, 4], [3, 4]), ([7, 7], [7])]
)
def test_messages_within_a_compressed_one(magic: int, inner: list[int], wanted: list[int]) -> None:
    (raw,) = scan(wrapped(inner, magic))[0]
    reader = raw.open()
    assert [message.offset for message in iter(reader.next, None)] == wanted
    assert raw.next_offset == wanted[-1] + 1
    rows = [row for columns in ArrowDecoder("t", 0, ("offset",)).decode([raw]) for row in columns["offset"].to_pylist()]
    assert rows == wanted


def test_a_skipped_batch_is_passed_as_well() -> None:
    """Records of an aborted transaction lie below the next offset, too."""
    aborted, after = scan(modern([0, 1, 2]) + modern([1, 2, 3]))[0]
    rows = ArrowDecoder("t", 0, ("offset",)).decode([aborted.skip(), after])
    assert [row for columns in rows for row in columns["offset"].to_pylist()] == [3]


def test_batches_in_order_are_all_taken() -> None:
    batches = scan(modern([0, 1]) + modern([5, 6]) + entries([9, 10], 1) + wrapped([11, 12], 1))[0]
    assert ascending(batches, 1) == (batches, None)
    assert ascending(batches, 7) == (batches[2:], None)
