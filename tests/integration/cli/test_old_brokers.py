"""kafka-tools on brokers that lack what it takes: what can be done is, and what cannot is said, never sent."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from pykafka.cli.exit_status import Status
from tests.brokers import KafkaCluster
from tests.support.kafka_tools import commit, data, fill, runner


@pytest.fixture(scope="module", params=["0.8.2.2", "0.9.0.1"])
def old(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Yield a broker that has no requests for topics."""
    with KafkaCluster(request.param) as cluster:
        yield cluster


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
