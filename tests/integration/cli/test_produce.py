"""kafka-tools produce against a real broker: other clients read what it wrote, and it writes what they did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from pykafka import KafkaClient
from pykafka.cli.exit_status import Status
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.integration.cli.test_commands import Run, client, data, run, topic
from tests.support.features import kafka_since
from tests.support.topics import create_topic

__all__ = ["client", "run", "topic"]

pytestmark = pytest.mark.kafka


@pytest.mark.needs("headers")
def test_another_client_reads_it(run: Run, kafka: KafkaCluster, client: KafkaClient, tmp_path: Path) -> None:
    topic = create_topic(client, 1).name
    file = tmp_path / "file"
    lines = [
        {"key": "k", "value": "v", "timestamp": "2024-01-02T03:04:05.678Z", "headers": {"a": "1", "b": None}},
        {"key": None, "value": None},
        {"key_base64": "/w==", "value": [1, "ä"]},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert data(run("produce", topic, str(file), "--format", "json", "-z", "lz4", "--json"))["messages"] == 3
    consumer = Consumer({"bootstrap.servers": kafka.hosts, "group.id": "no", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(3, timeout=60)
    consumer.close()
    assert [(one.key(), one.value()) for one in found] == [
        (b"k", b"v"),
        (None, None),
        (b"\xff", '[1,"ä"]'.encode()),
    ]
    assert found[0].headers() == [("a", b"1"), ("b", None)]
    assert found[0].timestamp()[1] == 1_704_164_645_678


def test_a_round_trip(run: Run, client: KafkaClient, topic: Topic, tmp_path: Path) -> None:
    copy = create_topic(client, 2).name
    file = tmp_path / "file"
    run("consume", topic.name, "--format", "json", "-o", str(file))
    if not kafka_since(0, 10):  # messages have no time yet
        file.write_text(file.read_text().replace('"timestamp"', '"offset"'))
    run("produce", copy, str(file), "--format", "json", "--acks", "1")
    run("consume", copy, "--format", "json", "-o", str(tmp_path / "copy"))
    lines = [sorted((tmp_path / name).read_text().splitlines()) for name in ("file", "copy")]
    if not kafka_since(0, 10):
        lines[1] = [line.replace('"timestamp"', '"offset"') for line in lines[1]]
    assert lines[0] == [line.replace(f'"topic": "{copy}"', f'"topic": "{topic.name}"') for line in lines[1]]
    assert len(lines[0]) == 20


def test_a_message_that_the_broker_finds_too_large(run: Run, topic: Topic, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a\n" + b"x" * 1_500_000 + b"\nb\n")
    result = run("produce", topic.name, str(file), "--max-message-bytes", "2000000", status=Status.FAILED)
    assert "kafka-tools: line 2: " in result.stderr
    assert result.stdout == f"Delivered 2 messages (2 bytes) to {topic.name}; 1 line failed.\n"
