"""kafka-tools doctor against real brokers: the round trip, and TLS that a JVM speaks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.statuses import Status
from tests.brokers import KafkaCluster
from tests.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tools, ["--socket_timeout_ms", "5000", *arguments])


def steps(result: Result) -> list[tuple[str, str]]:
    return [(one["step"], one["result"]) for one in data(result)["findings"]]


def data(result: Result) -> Any:
    return json.loads(result.stdout)


def test_a_round_trip(kafka: KafkaCluster) -> None:
    with KafkaClient(hosts=kafka.hosts) as client:
        topic = create_topic(client, 2, config={"cleanup.policy": "compact"})
        result = run("doctor", kafka.hosts, "--topic", topic.name, "--json")
        offsets = topic.latest_available_offsets()
    assert result.exit_code == Status.OK, result.output
    assert steps(result)[-3:] == [("Advertised", "ok"), ("Produce", "ok"), ("Fetch", "ok")]
    assert sum(one.offset[0] for one in offsets.values()) == 1


def test_topics_are_made_only_when_told(kafka: KafkaCluster) -> None:
    name = f"doctor-{uuid.uuid4().hex}"
    refused = run("-b", kafka.hosts, "doctor", "--topic", name)
    assert refused.exit_code == Status.FAILED
    assert "--create" in refused.stdout
    with KafkaClient(hosts=kafka.hosts) as client:
        assert name not in client.topics
    made = run("-b", kafka.hosts, "doctor", "--topic", name, "--create", "--json")
    assert made.exit_code == Status.OK
    assert steps(made)[-3:] == [("Create", "ok"), ("Produce", "ok"), ("Fetch", "ok")]


@pytest.fixture(scope="module")
def secure() -> Iterator[KafkaCluster]:
    """Give a broker with a TLS listener beside the plain one."""
    with KafkaCluster(tls=True) as cluster:
        yield cluster


def test_tls(secure: KafkaCluster) -> None:
    assert secure.certificates is not None
    cafile = str(secure.certificates.cafile)
    name = f"doctor-{uuid.uuid4().hex}"
    well = run("--cafile", cafile, "doctor", secure.tls_hosts, "--topic", name, "--create", "--json")
    assert well.exit_code == Status.OK, well.output
    assert ("TLS", "ok") in steps(well)
    assert name in run("--cafile", cafile, "-b", secure.tls_hosts, "print_topics").stdout
    for options, port, step, said in (
        ((), secure.tls_hosts, "ApiVersions", "--tls"),
        (("--tls",), secure.tls_hosts, "TLS", "not trusted"),
        (("--cafile", cafile), secure.hosts, "TLS", "TLS port"),
    ):
        result = run(*options, "doctor", port, "--json")
        assert result.exit_code == Status.UNREACHABLE
        (failure,) = [one for one in data(result)["findings"] if one["result"] == "FAILED"]
        assert failure["step"] == step
        assert said in failure["detail"]
