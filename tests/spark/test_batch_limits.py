"""A worker process learns that a topic accepts only smaller batches, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pykafka.cluster import Cluster
from pykafka.exceptions import KafkaException, TopicAuthorizationFailed, error_for
from pykafka.producer.batch import ProducerBatch
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.spark import sender as batchlimits
from pykafka.spark import session
from pykafka.spark.errors import SinkError
from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.sender import BatchSender
from pykafka.spark.writer import write_rows
from tests.support.features import kafka_since
from tests.support.spark.topics import Topics

pytestmark = pytest.mark.kafka
LIMIT = 20_000

Task = Callable[[str, list[bytes], str], list[int]]


@pytest.fixture(autouse=True)
def nothing_learnt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(batchlimits, "_learnt", {})
    yield
    session.close_all()


@pytest.fixture
def task(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> Task:
    """Return `task(topic, values, codec)`: what a task of this process writes; returns the sizes of what was refused."""
    refused: list[int] = []
    divide = BatchSender.divide

    def watch(sender: BatchSender, batch: ProducerBatch, error: KafkaException | None) -> list[ProducerBatch]:
        refused.append(batch.size)
        return divide(sender, batch, error)

    monkeypatch.setattr(BatchSender, "divide", watch)

    def run(topic: str, values: list[bytes], codec: str) -> list[int]:
        refused.clear()
        raw = {"kafka.bootstrap.servers": topics.hosts, "topic": topic, "kafka.compression.type": codec}
        batch = pa.record_batch({"value": pa.array(values, pa.binary())})
        rows = write_rows(iter([batch]), write_options(raw, Mode.BATCH_WRITE), frozenset({"value"}))
        assert rows == {topic: len(values)}
        return list(refused)

    return run


def texts(count: int) -> list[bytes]:
    """Return values of 500 bytes that compress to about a third."""
    random = Random(1)
    return [b"%d:" % n + bytes(random.choices(b"abcdefgh", k=500)) for n in range(count)]


def limit(topics: Topics, topic: str) -> int | None:
    """Return what this process has learnt of a topic."""
    raw = {"kafka.bootstrap.servers": topics.hosts, "topic": topic}
    return batchlimits.limit_of(write_options(raw, Mode.BATCH_WRITE).client, topic)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_limit_is_learnt_once_a_process(topics: Topics, task: Task, codec: str) -> None:
    """The first task is refused its batches; those after it send none that is too large, and all rows arrive in order."""
    topic = topics.create(max_message_bytes=str(LIMIT))
    values = texts(1000)
    assert task(topic, values, codec)
    assert task(topic, values, codec) == []
    assert task(topic, values, codec) == []
    assert [record.value for record in topics.read(topic, 3000)] == values * 3
    learnt = limit(topics, topic)
    assert learnt is not None
    if codec == "gzip":
        # Cut by what they take when compressed: larger than without.
        assert learnt > LIMIT or not kafka_since(0, 11)
    else:
        assert learnt == LIMIT if kafka_since(0, 11) else LIMIT // 2 < learnt <= LIMIT


def test_a_broker_that_does_not_tell(topics: Topics, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to see a topic's settings, the limit is found by halving."""

    ask = Cluster.call

    def denied(cluster: Cluster, request: Request[Any], **options: Any) -> Any:
        if isinstance(request, wire.DescribeConfigsRequest):
            raise error_for(TopicAuthorizationFailed.ERROR_CODE, api="DescribeConfigs")
        return ask(cluster, request, **options)

    monkeypatch.setattr(Cluster, "call", denied)
    topic, values = topics.create(max_message_bytes=str(LIMIT)), texts(1000)
    assert task(topic, values, "none")
    assert task(topic, values, "none") == []
    learnt = limit(topics, topic)
    assert learnt is not None
    assert LIMIT // 2 < learnt <= LIMIT


@pytest.mark.needs("alterations")
def test_a_limit_that_was_lowered(topics: Topics, task: Task) -> None:
    """A worker that is refused again learns the new limit."""
    topic, values = topics.create(max_message_bytes=str(4 * LIMIT)), texts(1000)
    assert task(topic, values, "none")
    topics.alter(topic, max_message_bytes=str(LIMIT))
    assert task(topic, values, "none")
    assert task(topic, values, "none") == []
    assert [record.value for record in topics.read(topic, 3000)] == values * 3


def test_a_row_beyond_the_limit(topics: Topics, task: Task) -> None:
    """A row that is larger than batches are cut at goes alone; one that the topic does not take fails, and says why."""
    topic = topics.create(max_message_bytes=str(LIMIT))
    task(topic, texts(1000), "none")
    task(topic, [b"x" * (LIMIT - 80)], "none")
    with pytest.raises(SinkError, match="MESSAGE_TOO_LARGE"):
        task(topic, [b"x" * LIMIT], "none")


@pytest.mark.parametrize("codec", ["snappy", "gzip"])
def test_bytes_that_do_not_compress(topics: Topics, task: Task, codec: str) -> None:
    """They take more room compressed than they did before, which may be just more than the broker's own limit."""
    random = Random(1)
    topic, values = topics.create(), [random.randbytes(1000) for _ in range(3000)]
    assert len(task(topic, values, codec)) < 10
    assert task(topic, values, codec) == []
    assert [record.value for record in topics.read(topic, 6000)] == values * 2
