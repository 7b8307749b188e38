"""kafka-tools doctor against real brokers: the round trip, and TLS that a JVM speaks."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.exceptions import ConnectionRefused, MessagesNotDelivered
from tests.brokers import NEWEST, KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.loops import Concurrency
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


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


def test_the_release_is_named(kafka: KafkaCluster) -> None:
    # 4.3.1 was called 4.1, and 2.8.2 was called 2.7.
    release = re.sub(r"^(0\.\d+\.\d|0\.\d+|\d+\.\d+).*", r"\1", KAFKA_VERSION)
    release = {"0.9.0": "0.9", "0.11.0": "0.11"}.get(release, release)
    later = " or later" if KAFKA_VERSION == NEWEST else ""
    assert f"as Kafka {release}{later} has them" in run("doctor", kafka.hosts).stdout


@pytest.mark.needs("admin")
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
def astray() -> Iterator[KafkaCluster]:
    """Yield a broker that advertises an address which does not lead to it."""
    with KafkaCluster(config={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as cluster:
        yield cluster


@pytest.mark.needs("latest")
def test_an_advertised_address_that_leads_nowhere(astray: KafkaCluster) -> None:
    result = run("doctor", astray.hosts, "--json")
    assert result.exit_code == Status.FAILED
    assert steps(result)[-3:] == [("DNS", "ok"), ("TCP", "FAILED"), ("Advertised", "FAILED")]
    assert "broker 1 advertises 127.0.0.1:1" in data(result)["findings"][-1]["detail"]


@pytest.mark.needs("latest")
def test_errors_say_that_the_address_was_advertised(astray: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(hosts=astray.hosts, **concurrency(), socket_timeout_ms=1000) as client:
        topic = client.topics[f"doctor-{uuid.uuid4().hex}"]
        producer = topic.get_producer(linger_ms=0, pending_timeout_ms=1500)
        producer.produce(b"astray")
        with pytest.raises(MessagesNotDelivered, match=r"127\.0\.0\.1:1\b.*advertised\.listeners"):
            producer.stop()
        with pytest.raises(ConnectionRefused, match=r"127\.0\.0\.1:1\b.*advertised\.listeners"):
            topic.get_simple_consumer()
        with pytest.raises(ConnectionRefused, match=r"advertised\.listeners"):
            topic.get_balanced_consumer("g", managed=True, rebalance_max_retries=0)


@pytest.mark.needs("tls", "admin")
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
