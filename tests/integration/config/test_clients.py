"""Clients, kafka-tools and the doctor by a configuration file, on a real broker that asks for a login over TLS."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykafka import KafkaClient, OffsetType
from pykafka.cli.app import tools
from pykafka.common import CompressionType
from pykafka.exceptions import ConfigurationError, NoBrokersAvailableError, SaslAuthenticationFailed
from tests.brokers import KafkaCluster
from tests.support.inside import engine_of, options_of
from tests.support.loops import Concurrency

pytestmark = [pytest.mark.kafka, pytest.mark.needs("sasl"), pytest.mark.timeout(400)]


def _java(cluster: KafkaCluster, directory: Path, password: str | None = None) -> Path:
    """Write the file that a Java client would have."""
    assert cluster.certificates is not None
    (directory / "secret").write_text(f"{cluster.password if password is None else password}\n")
    path = directory / "client.properties"
    path.write_text(
        f"""bootstrap.servers={cluster.hosts_of("SASL_SSL")}
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.username={cluster.user}
sasl.password=${{file:{directory / "secret"}}}
ssl.truststore.location={cluster.certificates.truststore}
ssl.truststore.type=PKCS12
ssl.truststore.password=${{TRUST_PASSWORD}}
client.id=from-a-file
acks=all
linger.ms=3
compression.type=lz4
compression.lz4.level=9
group.id=configured
auto.offset.reset=earliest
enable.auto.commit=false
key.serializer=org.apache.kafka.common.serialization.StringSerializer
"""
    )
    return path


@pytest.fixture(autouse=True)
def trust_password(secure_kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secure_kafka.certificates is not None
    monkeypatch.setenv("TRUST_PASSWORD", secure_kafka.certificates.password)


def test_a_round_trip(secure_kafka: KafkaCluster, tmp_path: Path, concurrency: Concurrency) -> None:
    path = _java(secure_kafka, tmp_path)
    with KafkaClient.from_config(path, **concurrency()) as client:
        topic = client.topics[f"configured-{client.cluster.handler.name}"]
        with topic.get_producer() as producer:
            assert options_of(producer).required_acks == -1
            assert options_of(producer).linger_ms == 3
            assert options_of(producer).compression_level == 9
            producer.produce(b"one")
        with topic.get_producer(max_retries=7, sync=True) as producer:
            assert options_of(producer).max_retries == 7
            assert options_of(producer).compression_level == 9
            producer.produce(b"two")
        with topic.get_producer(compression=CompressionType.SNAPPY) as producer:  # which has no levels
            assert options_of(producer).compression_level is None
        consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000)
        assert engine_of(consumer).options.consumer_group == "configured"
        values: list[bytes | None] = []
        while len(values) < 2:
            message = consumer.consume()
            assert message is not None
            values.append(message.value)
        consumer.commit_offsets()
        consumer.stop()
        member = topic.get_balanced_consumer(
            f"members-{client.cluster.handler.name}", managed=True, consumer_timeout_ms=20_000
        )
        message = member.consume()
        assert message is not None
        member.stop()
    assert sorted(value or b"" for value in values) == [b"one", b"two"]


def test_the_environment(secure_kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKAFKA_CONFIG", str(_java(secure_kafka, tmp_path)))
    monkeypatch.setenv("PYKAFKA_BOOTSTRAP_SERVERS", secure_kafka.hosts)
    monkeypatch.setenv("PYKAFKA_AUTO_OFFSET_RESET", "latest")
    with KafkaClient.from_env(hosts=secure_kafka.hosts_of("SASL_SSL")) as client:
        consumer = client.topics["from-env"].get_simple_consumer(auto_start=False)
        assert engine_of(consumer).options.auto_offset_reset == OffsetType.LATEST
        assert not engine_of(consumer).begins_at_0
        consumer.stop()


def test_arguments_win_by_any_name(secure_kafka: KafkaCluster, tmp_path: Path) -> None:
    path = _java(secure_kafka, tmp_path, password="of-nobody")
    own: dict[str, Any] = {
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": secure_kafka.user,
        "security_protocol": "SASL_SSL",
    }
    assert secure_kafka.certificates is not None
    own |= {"ssl_cafile": str(secure_kafka.certificates.cafile), "sasl_plain_password": secure_kafka.password}
    with KafkaClient.from_config(path, **own) as client:
        assert client.brokers
    with KafkaClient.from_config(path, hosts=secure_kafka.hosts, security_protocol="PLAINTEXT") as client:
        assert client.brokers


def test_a_wrong_password_shows_nowhere(
    secure_kafka: KafkaCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _java(secure_kafka, tmp_path, password="hunter2-wrong")
    with caplog.at_level(logging.DEBUG), pytest.raises((SaslAuthenticationFailed, NoBrokersAvailableError)) as caught:
        KafkaClient.from_config(path)
    assert "hunter2" not in f"{caught.value!r} {caught.value} {caplog.text}"
    result = CliRunner().invoke(tools, ["--config", str(path), "doctor", "--json"])
    (failure,) = [one for one in json.loads(result.stdout)["findings"] if one["result"] == "FAILED"]
    assert failure["step"] == "SASL"
    assert "hunter2" not in result.output


def test_kafka_tools(secure_kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _java(secure_kafka, tmp_path)
    run = CliRunner().invoke
    result = run(tools, ["doctor", "--config", str(path), "--json"])
    assert result.exit_code == 0, result.output
    steps = [one["step"] for one in json.loads(result.stdout)["findings"]]
    assert [step for step in ("DNS", "TCP", "TLS", "SASL", "ApiVersions") if step not in steps] == []
    monkeypatch.setenv("PYKAFKA_CONFIG", str(path))
    assert run(tools, ["print_topics"]).exit_code == 0
    # The command line wins: that address is nobody's.
    assert run(tools, ["-b", "127.0.0.1:1", "print_topics"]).exit_code == 3
    assert run(tools, ["print_topics", "-b", "127.0.0.1:1"]).exit_code == 3
    path.write_text("linger.mss=5")
    result = run(tools, ["print_topics"])
    assert result.exit_code != 0
    assert "did you mean linger.ms?" in result.output


def test_bad_configurations_are_refused_before_a_connect() -> None:
    with pytest.raises(ConfigurationError, match="did you mean bootstrap.servers"):
        KafkaClient.from_config({"bootstrap.server": "127.0.0.1:1"})
