"""kafka-tools on the embedded cluster: files of what was read, and topics that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.embedded import EmbeddedCluster

# -- messages of an embedded cluster


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield two brokers, each with a partition of topic t, in which two messages are."""
    with EmbeddedCluster(brokers=2, topics={"t": 2, "empty": 1}) as cluster:
        for id_ in (0, 1):
            cluster.set_leader("t", id_, id_ + 1)
        with KafkaClient(hosts=cluster.hosts) as client, client.topics["t"].get_producer(linger_ms=1) as producer:
            for _ in range(4):
                producer.produce(b"message")
        yield cluster


def consume(cluster: EmbeddedCluster, *arguments: str) -> Result:
    return CliRunner().invoke(tools, ["-b", cluster.hosts, "consume_topic", *arguments])


def test_a_file_has_what_was_read_and_nothing_else(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    file = tmp_path / "file"
    for topic, content in (("t", b"message\n" * 4), ("empty", b"")):
        file.write_bytes(b"of yesterday\n" * 10)
        assert consume(cluster, topic, "-t", "300", "-o", str(file)).exit_code == Status.OK
        assert file.read_bytes() == content


def test_what_is_missing_is_told(cluster: EmbeddedCluster) -> None:
    """A broker hands out nothing any more before the end that it had told."""
    cluster.inject_errors("Fetch", *["REQUEST_TIMED_OUT"] * 100, broker=2)
    result = consume(cluster, "t", "-l", "0", "-t", "1000")
    assert result.exit_code == Status.FAILED
    assert result.stdout == "message\n" * 2
    assert "messages are missing" in result.stderr
    assert "(topic=t, partition=1)" in result.stderr
