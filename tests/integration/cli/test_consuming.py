"""`consume` and `consume_topic`: which messages they write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from pykafka import KafkaClient
from pykafka.cli.exit_status import Status
from tests.brokers import KafkaCluster
from tests.support.kafka_tools import Run, runner
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("times")]

#: The time of the first message (ms since 1970); each is a second younger than the one before.
BEGIN = 1_600_000_000_000


@pytest.fixture
def run(kafka: KafkaCluster) -> Run:
    return runner("-b", kafka.hosts)


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(kafka.hosts) as client:
        yield client


@pytest.fixture
def topic(client: KafkaClient) -> str:
    """Return a topic of two partitions with 30 messages: every third one is in partition 1."""
    topic = create_topic(client, 2)
    with client.producer() as producer:
        for number in range(30):
            producer.produce(
                topic.name, b"%d" % number, partition=int(number % 3 == 0), timestamp=BEGIN + number * 1000
            )
    return topic.name


def numbers(run: Run, *arguments: str) -> list[int]:
    """Return the values that a command writes."""
    return [int(line) for line in run(*arguments, "-t", "1500").stdout.splitlines()]


COMMANDS = ("consume", "consume_topic")
each = pytest.mark.parametrize("command", COMMANDS)


@each
def test_the_last_of_each_partition_are_all_written(run: Run, topic: str, command: str) -> None:
    """`consume_topic T --from -8` left the newest out, by its default --limit."""
    assert sorted(numbers(run, command, topic, "--from", "-8")) == sorted(
        [*[number for number in range(30) if number % 3][-8:], *range(6, 30, 3)]
    )
    assert len(numbers(run, command, topic, "--from", "-8", "-l", "3")) == 3
    assert len(numbers(run, command, topic)) == (30 if command == "consume" else 10)


@each
def test_the_newest_of_a_topic_come_in_the_order_of_their_time(run: Run, topic: str, command: str) -> None:
    assert numbers(run, command, topic, "--last", "12") == list(range(18, 30))
    assert numbers(run, command, topic, "--last", "1") == [29]
    assert numbers(run, command, topic, "--last", "500") == list(range(30))
    assert numbers(run, command, topic, "--last", "2", "-p", "1") == [24, 27]
    assert numbers(run, command, topic, "--last", "3", "--to", f"@{BEGIN + 20_000}") == [17, 18, 19]


@each
@pytest.mark.parametrize("form", [f"@{BEGIN + 12_000}", "2020-09-13T12:26:52"])
def test_parts_of_a_topic_end_by_time(run: Run, topic: str, command: str, form: str) -> None:
    assert sorted(numbers(run, command, topic, "--to", form)) == list(range(12))
    assert sorted(numbers(run, command, topic, "--from", form, "-l", "0")) == list(range(12, 30))
    assert sorted(numbers(run, command, topic, "--from", f"@{BEGIN + 5_000}", "--to", form)) == list(range(5, 12))


@each
def test_parts_of_a_topic_end_by_offset(run: Run, topic: str, command: str) -> None:
    assert sorted(numbers(run, command, topic, "--from", "2", "--to", "4", "-p", "1")) == [6, 9]
    assert numbers(run, command, topic, "--from", "4", "--to", "4") == []
    assert numbers(run, command, topic, "--to", "EARLIEST") == []
    assert len(numbers(run, command, topic, "--to", "LATEST")) == 30
    assert sorted(numbers(run, command, topic, "--to", "-8", "-p", "1")) == [0, 3]


@each
@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_time_without_its_sign_is_no_offset(run: Run, topic: str, command: str, option: str) -> None:
    result = run(command, topic, option, str(BEGIN), status=Status.FAILED)
    assert f"there is no offset {BEGIN}: the partitions end at 10 to 20" in result.stderr
    assert f"@{BEGIN}" in result.stderr
    assert run(command, topic, "--from", "20", "-t", "300").stdout == ""  # the end of one partition


@each
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--last", "3", "--from", "5"), "--last"),
        (("--last", "3", "--limit", "5"), "--last"),
        (("--to", "5", "--follow"), "--follow"),
        (("--last", "0"), "--last"),
        (("--from", "@"), "milliseconds"),
    ],
)
def test_options_that_contradict_each_other(run: Run, command: str, options: tuple[str, ...], said: str) -> None:
    assert said in run(command, "t", *options, status=Status.USAGE).stderr


def test_json_has_the_topic_and_goes_back_in(run: Run, topic: str, client: KafkaClient) -> None:
    written = [run(command, topic, "--json", "--last", "3").stdout for command in COMMANDS]
    written.append(run("consume", topic, "--format", "json", "--last", "3").stdout)
    assert len(set(written)) == 1
    found = [json.loads(line) for line in written[0].splitlines()]
    assert [(one["topic"], one["value"]) for one in found] == [(topic, "27"), (topic, "28"), (topic, "29")]
    copies = create_topic(client, 2).name
    run_with = runner_with_input(run, written[0])
    run_with("produce", copies, "--format", "json")
    assert numbers(run, "consume", copies, "--last", "10") == [27, 28, 29]


def runner_with_input(run: Run, text: str) -> Callable[..., Any]:
    """Return a function that runs a command with an input."""
    return lambda *arguments: run(*arguments, given=text)


@pytest.mark.needs("transactions")
def test_the_newest_are_found_behind_offsets_without_messages(
    run: Run, kafka: KafkaCluster, client: KafkaClient
) -> None:
    """Markers of transactions have offsets, so the last N offsets are fewer than N messages."""
    topic = create_topic(client).name
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.hosts, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.commit_transaction(30)
    assert numbers(run, "consume", topic, "--last", "6") == list(range(6, 12))


def test_an_empty_topic_has_no_newest(run: Run, client: KafkaClient) -> None:
    assert run("consume", create_topic(client).name, "--last", "6").stdout == ""
