"""kafka-tools on brokers that lack what it takes: what can be done is, and what cannot is said, never sent."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.listing import MAX_RETRIES
from pykafka.cli.statuses import Status
from pykafka.embedded import EmbeddedCluster
from tests.brokers import KafkaCluster

Run = Callable[..., Result]


def runner(*options: str) -> Run:
    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(tools, [*options, *arguments])
        assert result.exit_code == status, result.output
        return result

    return run


@pytest.fixture(scope="module", params=["0.8.2.2", "0.9.0.1"])
def old(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Give a broker that has no requests for topics."""
    with KafkaCluster(request.param) as cluster:
        yield cluster


def fill(hosts: str, topic: str, count: int) -> None:
    with KafkaClient(hosts=hosts) as client:
        with client.topics[topic].get_producer(linger_ms=1) as producer:
            for number in range(count):
                producer.produce(b"%d" % number)


def commit(hosts: str, topic: str, group: str) -> None:
    """Make a group that has consumed nothing yet."""
    with KafkaClient(hosts) as client, client.topics[topic].get_simple_consumer(group, auto_start=False) as consumer:
        consumer.commit_offsets([(partition, 0) for partition in consumer.partitions.values()])


def data(result: Result) -> Any:
    return json.loads(result.stdout)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(400)
def test_all_else_works(old: KafkaCluster) -> None:
    name, run = f"auto-{uuid.uuid4().hex}", runner("-b", old.hosts)
    fill(old.hosts, name, 10)
    assert run("doctor", old.hosts, "--topic", name).exit_code == Status.OK
    found = data(run("desc_topic", name, "--json"))
    assert found["settings"] is None
    total = found["partitions"][0]["latest"]
    assert len(run("consume_topic", name, "-l", "0").stdout_bytes.splitlines()) == total
    # Of times these brokers know those of segments: what was written before 2020 is nothing, so all of it comes.
    assert len(run("consume_topic", name, "-l", "0", "--from", "2020-01-01").stdout_bytes.splitlines()) == total
    assert "no group" in run("print_consumer_lag", name, "group", status=Status.NOT_FOUND).stderr
    commit(old.hosts, name, "group")
    assert data(run("print_consumer_lag", name, "group", "--json"))["total"] == total
    run("reset_offsets", name, "group", "4")
    assert data(run("print_consumer_lag", name, "group", "--json"))["total"] == total - 4
    groups = run("print_managed_consumer_groups", name, status=5 if old.version.startswith("0.8") else 0)
    assert ("Kafka 0.9" in groups.stderr) == old.version.startswith("0.8")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(400)
def test_topics_go_through_zookeeper(old: KafkaCluster) -> None:
    name, run = f"made-{uuid.uuid4().hex}", runner("-b", old.hosts)
    fill(old.hosts, f"kept-{name}", 1)
    assert "Kafka 0.10.1" in run("create_topic", name, status=Status.UNSUPPORTED).stderr
    assert "Kafka 0.10.1" in run("delete_topic", f"kept-{name}", status=Status.UNSUPPORTED).stderr
    run = runner("--zookeeper", old.zookeeper_hosts)
    options = ("-p", "2", "-c", '{"retention.ms": 7000000}', "-t", "20000", "--json")
    assert data(run("create_topic", name, *options)) == {"topic": name, "partitions": 2, "replicas": 1}
    assert "ALREADY_EXISTS" in run("create_topic", name, status=Status.FAILED).stderr
    fill(old.hosts, name, 4)
    assert [one["offset"] for one in data(run("print_offsets", name, "LATEST", "--json"))] == [2, 2]
    assert "name" in run("create_topic", "bad name", status=Status.FAILED).stderr
    assert "replicas" in run("create_topic", f"three-{name}", "-r", "3", status=Status.FAILED).stderr
    # last: while 0.9 deletes a topic, its controller has no time for others
    assert "Deleted" in run("delete_topic", name, "-t", "30000").stdout
    assert "no such topic" in run("delete_topic", name, status=Status.NOT_FOUND).stderr


def test_the_embedded_cluster(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("topic", 2)
    run = runner("-b", embedded.hosts)
    fill(embedded.hosts, "topic", 6)
    assert [one["topic"] for one in data(run("print_topics", "--json"))] == ["topic"]
    assert len(data(run("desc_topic", "topic", "--json"))["partitions"]) == 2
    assert len(run("consume_topic", "topic", "-l", "6").stdout_bytes.splitlines()) == 6
    commit(embedded.hosts, "topic", "group")
    assert data(run("print_consumer_lag", "topic", "group", "--json"))["total"] == 6
    assert run("doctor", "--topic", "topic").exit_code == Status.OK
    assert "0.10.1" in run("create_topic", "more", status=Status.UNSUPPORTED).stderr


def test_a_partition_without_a_leader(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("topic", 2)
    embedded.set_leader("topic", 1, None)
    run = runner("-b", embedded.hosts)
    first, second = data(run("desc_topic", "topic", "--json"))["partitions"]
    assert first["latest"] == 0
    assert (second["leader"], second["leader_address"], second["latest"]) == (None, None, None)
    assert data(run("print_topics", "--json"))[0]["without_leader"] == 1
    assert (
        "no broker leads"
        in runner("--socket_timeout_ms", "500", "-b", embedded.hosts)(
            "print_consumer_lag", "topic", "group", status=Status.FAILED
        ).stderr
    )


def test_a_watch_goes_on_after_what_passes(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("topic", 1)
    commit(embedded.hosts, "topic", "group")
    run = runner("-b", embedded.hosts)
    watch = ("print_consumer_lag", "topic", "group", "--watch", "0.01", "--times", "3", "--json")
    # One answer, then more refusals than one look at the lag puts up with.
    embedded.inject_errors("OffsetFetch", 0, *["COORDINATOR_LOAD_IN_PROGRESS"] * (MAX_RETRIES + 1))
    result = run(*watch)
    assert len(result.stdout.splitlines()) == 3
    assert "COORDINATOR_LOAD_IN_PROGRESS" in result.stderr


def test_a_watch_ends_with_what_does_not_pass(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("topic", 1)
    commit(embedded.hosts, "topic", "group")
    run = runner("-b", embedded.hosts)
    watch = ("print_consumer_lag", "topic", "group", "--watch", "0.01", "--times", "3", "--json")
    embedded.inject_errors("OffsetFetch", 0, "GROUP_AUTHORIZATION_FAILED")
    result = run(*watch, status=Status.FAILED)
    assert len(result.stdout.splitlines()) == 1
    assert "GROUP_AUTHORIZATION_FAILED" in result.stderr
