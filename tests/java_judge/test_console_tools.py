"""Kafka's own command line tools, in Java, as users of a fake cluster that plays their release."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from pykafka.testing import FakeCluster
from tests.brokers.jars import classpath, java
from tests.brokers.releases import NEWEST, release

#: Seconds that a tool may take to its end.
TIMEOUT_S = 100
VALUES = ["one", "two", "three"]

#: Takes the name of a tool's class and its arguments, and what it reads; returns the lines that it prints.
Tool = Callable[..., list[str]]


def tools(jars: os.PathLike[str], hosts: str) -> Tool:
    """Return a function that runs a tool against a cluster.

    :param jars: directory of the tools' jars
    :param hosts: of the cluster
    """

    def run(name: str, *arguments: str, given: str = "", option: str = "--bootstrap-server") -> list[str]:
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp", f"{os.fspath(jars)}/*"]
        done = subprocess.run(
            [java(), *options, name, option, hosts, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3, topics={"orders": 1}, as_version=request.param) as made:
        yield made


@pytest.mark.parametrize("cluster", [NEWEST], indirect=True)
def test_tools_of_the_newest_release(cluster: FakeCluster) -> None:
    """They make and describe a topic, write, and read as a consumer, as a member of KIP-848 and as a share consumer."""
    run = tools(classpath((f"org.apache.kafka:kafka-tools:{NEWEST}",)), cluster.hosts)
    package = "org.apache.kafka.tools"
    read = ("--topic", "made", "--max-messages", "3", "--group")
    assert run(f"{package}.TopicCommand", "--create", "--topic", "made", "--partitions", "1") == ["Created topic made."]
    run(f"{package}.ConsoleProducer", "--topic", "made", given="\n".join(VALUES))
    assert [record.value.decode() for record in cluster.records("made")] == VALUES
    consumer = f"{package}.consumer.ConsoleConsumer"
    newer = ("--command-property", "group.protocol=consumer")
    assert run(consumer, *read, "classic", "--from-beginning") == VALUES
    assert run(consumer, *read, "newer", "--from-beginning", *newer) == VALUES
    lines = run(f"{package}.consumer.group.ConsumerGroupCommand", "--describe", "--all-groups")
    assert {tuple(line.split()[:6]) for line in lines if "made" in line} == {
        (group, "made", "0", "3", "3", "0") for group in ("classic", "newer")
    }
    earliest = ("--add-config", "share.auto.offset.reset=earliest")
    run(f"{package}.ConfigCommand", "--alter", "--entity-type", "groups", "--entity-name", "shared", *earliest)
    assert run(f"{package}.consumer.ConsoleShareConsumer", *read, "shared") == VALUES


@pytest.mark.parametrize("cluster", ["2.8.2"], indirect=True)
def test_tools_of_an_old_release(cluster: FakeCluster) -> None:
    run = tools(classpath(release("2.8.2").coordinates), cluster.hosts)
    run("kafka.tools.ConsoleProducer", "--topic", "orders", given="\n".join(VALUES))
    read = ("--topic", "orders", "--from-beginning", "--max-messages", "3", "--group", "g")
    assert run("kafka.tools.ConsoleConsumer", *read) == VALUES
    lines = run("kafka.admin.ConsumerGroupCommand", "--describe", "--group", "g")
    assert [line.split()[:6] for line in lines if "orders" in line] == [["g", "orders", "0", "3", "3", "0"]]


@pytest.mark.parametrize("cluster", ["0.9.0.1"], indirect=True)
def test_tools_of_the_first_release_with_groups(cluster: FakeCluster) -> None:
    """They speak message sets of format 0, and do not ask for versions."""
    run = tools(classpath(release("0.9.0.1").coordinates), cluster.hosts)
    run("kafka.tools.ConsoleProducer", "--topic", "orders", given="\n".join(VALUES), option="--broker-list")
    read = ("--new-consumer", "--topic", "orders", "--from-beginning", "--max-messages", "3")
    assert run("kafka.tools.ConsoleConsumer", *read) == VALUES
