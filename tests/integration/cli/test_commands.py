"""kafka-tools against a real broker: what its commands print, leave alone and exit with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner, Result

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.cli.kafka_tools import fetch_consumer_lag, fetch_offsets
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic

pytestmark = pytest.mark.kafka

Run = Callable[..., Result]


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=kafka.hosts) as client:
        yield client


@pytest.fixture
def run(kafka: KafkaCluster) -> Run:
    """Run a command and give its result; any exit status but the one named fails the test."""

    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(tools, ["-b", kafka.hosts, *arguments])
        assert result.exit_code == status, result.output
        return result

    return run


@pytest.fixture
def topic(client: KafkaClient) -> Topic:
    """Return a topic of two partitions with 20 messages, 10 in each."""
    topic = create_topic(client, 2)
    fill(topic, 20)
    return topic


def fill(topic: Topic, count: int) -> None:
    with topic.get_producer(linger_ms=1) as producer:
        for number in range(count):
            producer.produce(b"message %d" % number)


def consume(topic: Topic, group: str, count: int) -> None:
    """Read some messages in the name of a group, and commit that."""
    with topic.get_simple_consumer(consumer_group=group, consumer_timeout_ms=10_000) as consumer:
        for _ in range(count):
            assert consumer.consume() is not None
        consumer.commit_offsets()


def committed(topic: Topic, group: str) -> dict[int, int]:
    consumer = topic.get_simple_consumer(consumer_group=group, auto_start=False)
    return {id_: found.offset for id_, found in consumer.fetch_offsets()}


def data(result: Result) -> Any:
    return json.loads(result.stdout)


def a_group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


# -- topics and offsets


def test_topics_are_printed(run: Run, topic: Topic) -> None:
    assert topic.name in run("print_topics").stdout
    found = {one["topic"]: one for one in data(run("print_topics", "--json"))}
    assert found[topic.name]["partitions"] == 2
    assert found[topic.name]["replicas"] == 1
    assert not any(name.startswith("__") for name in found)


def test_internal_topics_are_printed_when_asked_for(run: Run, topic: Topic) -> None:
    consume(topic, a_group(), 1)
    assert "__consumer_offsets" in run("print_topics", "--internal").stdout


@pytest.mark.needs("settings")
def test_a_topic_is_described(run: Run, client: KafkaClient) -> None:
    topic = create_topic(client, 3, config={"retention.ms": "12345678"})
    text = run("desc_topic", topic.name).stdout
    assert f"Topic: {topic.name}" in text
    assert "Partitions: 3" in text
    assert "12345678" in text
    found = data(run("desc_topic", topic.name, "--json"))
    assert found["settings"] == {"retention.ms": "12345678"}
    assert [part["partition"] for part in found["partitions"]] == [0, 1, 2]
    assert all(part["leader"] == 1 and part["isr"] == [1] for part in found["partitions"])


@pytest.mark.parametrize(
    ("moment", "offsets"),
    [
        ("EARLIEST", [0, 0]),
        ("latest", [10, 10]),
        pytest.param("2020-01-01T00:00:00", [0, 0], marks=pytest.mark.needs("times")),
    ],
)
def test_offsets_are_printed(run: Run, topic: Topic, moment: str, offsets: list[int]) -> None:
    found = data(run("print_offsets", topic.name, moment, "--json"))
    assert [one["offset"] for one in found] == offsets


def test_offsets_have_two_columns_unless_asked_for_more(run: Run, topic: Topic) -> None:
    # What scripts made for PyKafka 2 cut apart.
    assert [line.split() for line in run("print_offsets", topic.name, "LATEST").stdout.splitlines()[2:]] == [
        ["0", "10"],
        ["1", "10"],
    ]
    timed = run("print_offsets", topic.name, "EARLIEST", "--time").stdout.splitlines()
    assert timed[0].split() == ["Partition", "Offset", "Time"]


@pytest.mark.needs("times")
def test_no_offset_after_the_last_message(run: Run, topic: Topic) -> None:
    assert [one["offset"] for one in data(run("print_offsets", topic.name, "2100-01-01T00:00:00Z", "--json"))] == [
        None,
        None,
    ]
    assert "-" in run("print_offsets", topic.name, "2100-01-01T00:00:00").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("desc_topic",),
        ("print_offsets", "LATEST"),
        ("print_consumer_lag", "group"),
        ("consume_topic",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_topic_that_is_not_there_is_not_made(run: Run, client: KafkaClient, arguments: tuple[str, ...]) -> None:
    name = f"no-{uuid.uuid4().hex}"
    result = run(arguments[0], name, *arguments[1:], status=Status.NOT_FOUND)
    assert name in result.stderr
    assert "no such topic" in result.stderr
    client.update_cluster()
    assert name not in client.topics


# -- lag


def test_lag(run: Run, topic: Topic) -> None:
    group = a_group()
    consume(topic, group, 12)
    before = committed(topic, group)
    found = data(run("print_consumer_lag", topic.name, group, "--json"))
    assert found["total"] == 8
    assert {part["partition"]: part["committed"] for part in found["partitions"]} == before
    assert "Total lag: 8 messages." in run("print_consumer_lag", topic.name, group).stdout
    assert committed(topic, group) == before


def test_lag_is_nothing_when_all_is_read(run: Run, topic: Topic) -> None:
    group = a_group()
    consume(topic, group, 20)
    found = data(run("print_consumer_lag", topic.name, group, "--json", "--fail-above", "0"))
    assert [part["lag"] for part in found["partitions"]] == [0, 0]


@pytest.mark.needs("groups")
def test_lag_of_a_group_that_has_committed_nothing(run: Run, topic: Topic) -> None:
    group = a_group()
    with topic.get_balanced_consumer(group, managed=True):
        found = data(
            run("print_consumer_lag", topic.name, group, "--json", "--fail-above", "19", status=Status.LAGGING)
        )
    assert found["total"] == 20
    assert [part["committed"] for part in found["partitions"]] == [None, None]
    assert set(committed(topic, group).values()) == {-1}


@pytest.mark.parametrize("more", [(), ("--watch", "0.05", "--times", "2")], ids=["once", "watched"])
def test_lag_of_a_group_that_is_not_there(run: Run, topic: Topic, more: tuple[str, ...]) -> None:
    # It was all of the topic, with status 0: what a misspelt name got.
    group = a_group()
    result = run("print_consumer_lag", topic.name, group, *more, status=Status.NOT_FOUND)
    assert f"there is no group {group}" in result.stderr
    assert result.stdout == ""


@pytest.mark.needs("times")  # before, only members make a group
def test_lag_of_a_group_that_reads_another_topic(run: Run, client: KafkaClient, topic: Topic) -> None:
    group = a_group()
    consume(topic, group, 1)
    assert data(run("print_consumer_lag", create_topic(client, 1).name, group, "--json"))["total"] == 0


def test_lag_is_watched(run: Run, topic: Topic) -> None:
    group = a_group()
    run("reset_offsets", topic.name, group, "EARLIEST")
    result = run("print_consumer_lag", topic.name, group, "--watch", "0.05", "--times", "3", "--json")
    assert [json.loads(line)["total"] for line in result.stdout.splitlines()] == [20, 20, 20]
    assert set(committed(topic, group).values()) == {0}


# -- messages


def test_messages_go_to_the_output(run: Run, topic: Topic) -> None:
    lines = run("consume_topic", topic.name, "--limit", "0").stdout_bytes.splitlines()
    assert sorted(lines) == sorted(b"message %d" % number for number in range(20))
    assert len(run("consume_topic", topic.name).stdout_bytes.splitlines()) == 10
    assert len(run("consume_topic", topic.name, "-l", "3", "-t", "9000").stdout_bytes.splitlines()) == 3


def test_messages_go_to_a_file(run: Run, topic: Topic, tmp_path: Path) -> None:
    path = tmp_path / "messages"
    result = run("consume_topic", topic.name, "-l", "15", "-o", str(path))
    assert len(path.read_bytes().splitlines()) == 15
    assert result.output == ""


@pytest.mark.parametrize(
    ("start", "offsets"),
    [("7", [7, 8, 9] * 2), ("-2", [8, 9] * 2), ("2020-01-01", [*range(10)] * 2), ("10", []), ("LATEST", [])],
)
def test_messages_from_some_place_on(run: Run, topic: Topic, start: str, offsets: list[int]) -> None:
    result = run("consume_topic", topic.name, "--from", start, "--json", "-l", "0", "-t", "500")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(one["offset"] for one in found) == sorted(offsets)


def test_messages_of_one_partition(run: Run, topic: Topic) -> None:
    result = run("consume_topic", topic.name, "-p", "1", "--json", "-l", "0")
    assert {json.loads(line)["partition"] for line in result.stdout.splitlines()} == {1}
    assert "partitions 0 to 1" in run("consume_topic", topic.name, "-p", "2", status=Status.NOT_FOUND).stderr


@pytest.mark.needs("transactions")
def test_a_transaction_that_ends_a_topic_leaves_nothing_missing(
    run: Run, kafka: KafkaCluster, client: KafkaClient
) -> None:
    """Its marker has an offset, and is no message."""
    topic = create_topic(client)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.hosts, "transactional.id": topic.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic.name, b"message")
    producer.commit_transaction(30)
    assert run("consume_topic", topic.name, "-l", "0", "-t", "1000").stdout == "message\n"


@pytest.mark.needs("headers")
def test_messages_as_json(run: Run, client: KafkaClient) -> None:
    topic = create_topic(client)
    with topic.get_producer(linger_ms=1) as producer:
        producer.produce(b"\xff\x00", partition_key=b"key", headers=[("name", b"value")], timestamp=1_600_000_000_000)
        producer.produce(None, partition_key=b"gone")
    first, second = (json.loads(line) for line in run("consume_topic", topic.name, "--json").stdout.splitlines())
    assert first == {
        "topic": topic.name,
        "partition": 0,
        "offset": 0,
        "timestamp": "2020-09-13T12:26:40.000Z",
        "key": "key",
        "value_base64": "/wA=",
        "headers": [{"name": "name", "value": "value"}],
    }
    assert second["value"] is None
    assert second["key"] == "gone"


# -- the program as a process


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_cleanly(kafka: KafkaCluster, topic: Topic, number: int, status: int) -> None:
    command = [sys.executable, "-m", "pykafka.cli", "-b", kafka.hosts, "consume_topic", topic.name, "-l", "0", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(20)]
        process.send_signal(number)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, rest, errors) == (status, b"", b"")
    assert sorted(lines) == sorted(b"message %d\n" % number for number in range(20))


# -- what scripts of PyKafka 2 imported


@pytest.mark.needs("times")
def test_functions_of_old(client: KafkaClient, topic: Topic) -> None:
    group = a_group()
    consume(topic, group, 20)
    fill(topic, 2)
    assert fetch_consumer_lag(client, topic, group) == {0: (11, 10), 1: (11, 10)}
    for moment, offset in (("earliest", 0), ("LATEST", 11), ("2020-01-01T00:00:00", 0)):
        assert [one.offset for one in fetch_offsets(client, topic, moment).values()] == [[offset], [offset]]
