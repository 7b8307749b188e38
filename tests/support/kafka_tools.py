"""kafka-tools called in this process, and helpers that fill topics for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from pykafka import KafkaClient
from pykafka.cli.app import tools

Run = Callable[..., Result]


def runner(*options: str) -> Run:
    """Return a function that runs a command and returns its result.

    Any exit status but the one named fails the test; None allows all.

    :param options: that each command gets
    """

    def run(*arguments: str, status: int | None = 0, given: str = "") -> Result:
        result = CliRunner().invoke(tools, [*options, *arguments], input=given)
        assert status is None or result.exit_code == status, result.output
        return result

    return run


def fill(hosts: str, topic: str, count: int) -> None:
    """Produce the numbers from 0 on."""
    with KafkaClient(hosts=hosts) as client:
        with client.topics[topic].get_producer(linger_ms=1) as producer:
            for number in range(count):
                producer.produce(b"%d" % number)


def commit(hosts: str, topic: str, group: str) -> None:
    """Make a group that has consumed nothing yet."""
    with KafkaClient(hosts) as client, client.topics[topic].get_simple_consumer(group, auto_start=False) as consumer:
        consumer.commit_offsets([(partition, 0) for partition in consumer.partitions.values()])


def data(result: Result) -> Any:
    """Read what a command printed with --json."""
    return json.loads(result.stdout)
