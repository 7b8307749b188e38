"""Source and sink log in by each mechanism, over each protocol; what is wrong is said at once, with stage and remedy."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.brokers import KafkaCluster
from tests.support.logins import log_in
from tests.support.token_endpoint import TokenEndpoint
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

_MODULE = "org.apache.kafka.common.security"
Make = Callable[[KafkaCluster, TokenEndpoint], dict[str, str]]


@pytest.fixture
def endpoint(secure_kafka: KafkaCluster) -> Iterator[TokenEndpoint]:
    """Yield an endpoint whose tokens the shared brokers take."""
    with TokenEndpoint(secure_kafka.token) as found:
        yield found


def by_password(mechanism: str, kafka: KafkaCluster, password: str | None = None) -> dict[str, str]:
    """Return options of the cluster's user."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    jaas = f'{_MODULE}.{module} required username="{kafka.user}" password="{password or kafka.password}";'
    return {"kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": jaas}


def by_token(kafka: KafkaCluster, endpoint: TokenEndpoint) -> dict[str, str]:
    """Return options that ask the endpoint for tokens."""
    jaas = (
        f'{_MODULE}.oauthbearer.OAuthBearerLoginModule required clientId="{endpoint.client_id}" '
        f'clientSecret="{endpoint.client_secret}" scope="kafka";'
    )
    return {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "kafka.sasl.jaas.config": jaas,
    }


def by_delegation(kafka: KafkaCluster, endpoint: TokenEndpoint) -> dict[str, str]:
    """Return options of a delegation token of the cluster."""
    with log_in(kafka, "SASL_SSL") as client:
        token = client.admin.create_delegation_token()
    password = base64.b64encode(token.hmac).decode()
    jaas = (
        f'{_MODULE}.scram.ScramLoginModule required username="{token.token_id}" password="{password}" tokenauth="true";'
    )
    return {"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": jaas}


def pem(kafka: KafkaCluster) -> dict[str, str]:
    """Return options that trust by a PEM file."""
    return {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": kafka.cafile}


def pkcs12(kafka: KafkaCluster) -> dict[str, str]:
    """Return options that trust by a PKCS12 store."""
    assert kafka.certificates is not None
    return {
        "kafka.ssl.truststore.location": str(kafka.certificates.truststore),
        "kafka.ssl.truststore.password": kafka.certificates.password,
    }


#: {row: (protocol, what makes the options)}
TABLE: dict[str, tuple[str, Make]] = {
    "TLS": ("SSL", lambda kafka, _: pem(kafka)),
    "PLAIN, PKCS12": ("SASL_SSL", lambda kafka, _: {**by_password("PLAIN", kafka), **pkcs12(kafka)}),
    "SCRAM-SHA-256": ("SASL_PLAINTEXT", lambda kafka, _: by_password("SCRAM-SHA-256", kafka)),
    "SCRAM-SHA-512, PEM": ("SASL_SSL", lambda kafka, _: {**by_password("SCRAM-SHA-512", kafka), **pem(kafka)}),
    "OAUTHBEARER by OIDC": ("SASL_PLAINTEXT", by_token),
    "OAUTHBEARER by OIDC, PEM": ("SASL_SSL", lambda kafka, endpoint: {**by_token(kafka, endpoint), **pem(kafka)}),
    "delegation token, PKCS12": (
        "SASL_SSL",
        lambda kafka, endpoint: {**by_delegation(kafka, endpoint), **pkcs12(kafka)},
    ),
}


@pytest.mark.parametrize("row", list(TABLE))
def test_the_table(spark: SparkSession, secure_kafka: KafkaCluster, endpoint: TokenEndpoint, row: str) -> None:
    """Rows go to a topic and come back."""
    protocol, make = TABLE[row]
    options = {
        "kafka.bootstrap.servers": secure_kafka.hosts_of(protocol),
        "kafka.security.protocol": protocol,
        **make(secure_kafka, endpoint),
    }
    with log_in(secure_kafka) as client:
        topic = create_topic(client).name
    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
    rows.write.format("pykafka").options(**options).option("topic", topic).mode("append").save()
    found = spark.read.format("pykafka").options(**options).option("subscribe", topic).load().select("value").collect()
    assert sorted(bytes(row.value) for row in found) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("way", ["read", "write"])
def test_a_wrong_password_is_told_with_stage_host_and_remedy(
    spark: SparkSession, secure_kafka: KafkaCluster, way: str
) -> None:
    options = {
        "kafka.bootstrap.servers": secure_kafka.hosts_of("SASL_PLAINTEXT"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        **by_password("SCRAM-SHA-256", secure_kafka, "Pw-that-is-wrong"),
    }
    with log_in(secure_kafka) as client:
        topic = create_topic(client).name
    with pytest.raises(PySparkException) as refused:
        if way == "read":
            spark.read.format("pykafka").options(**options).option("subscribe", topic).load().collect()
        else:
            rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
            rows.write.format("pykafka").options(**options).option("topic", topic).mode("append").save()
    said = str(refused.value)
    assert f"stage SASL, from {'the driver' if way == 'read' else 'an executor'} on host" in said
    assert "check user name and password" in said
    assert "'kafka.sasl.jaas.config'" in said
    assert "Pw-that-is-wrong" not in said


@pytest.mark.matrix
def test_sessions_and_tokens_that_end_while_a_stream_runs(
    spark: SparkSession, secure_kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Brokers end each session after 3 s, and tokens last 4 s: the stream logs in again and again, and nothing is lost."""
    total = 12_000
    with TokenEndpoint(secure_kafka.token, lifetime_s=4) as endpoint, log_in(secure_kafka) as client:
        topic, copy = create_topic(client, 2), create_topic(client, 2)
        source = {
            "kafka.bootstrap.servers": secure_kafka.hosts_of("SHORT_PLAINTEXT"),
            "kafka.security.protocol": "SASL_PLAINTEXT",
            **by_token(secure_kafka, endpoint),
        }
        sink = {
            "kafka.bootstrap.servers": secure_kafka.hosts_of("SHORT_SSL"),
            "kafka.security.protocol": "SASL_SSL",
            **by_password("SCRAM-SHA-256", secure_kafka),
            **pem(secure_kafka),
        }
        reader = spark.readStream.format("pykafka").options(**source).option("subscribe", topic.name)
        writer = reader.option("startingOffsets", "earliest").load().select("value").writeStream.format("pykafka")
        writer = writer.options(**sink).option("topic", copy.name).option("checkpointLocation", str(tmp_path))
        query = writer.trigger(processingTime="500 milliseconds").start()
        try:
            produced = threading.Thread(target=_produce, args=(topic, total, 20.0))
            produced.start()
            produced.join(120)
            query.processAllAvailable()
            assert query.exception() is None
        finally:
            query.stop()
        assert len(endpoint.given) > 4
        read = spark.read.format("pykafka").options(**sink, subscribe=copy.name).load()
        found = read.selectExpr("CAST(CAST(value AS STRING) AS INT) AS n")
        assert found.count() == total
        assert found.distinct().count() == total


def _produce(topic: object, total: int, seconds: float) -> None:
    """Produce numbers, spread over some seconds."""
    steps = 40
    with topic.get_producer(linger_ms=5) as producer:  # type: ignore[attr-defined]
        for step in range(steps):
            for number in range(step * total // steps, (step + 1) * total // steps):
                producer.produce(b"%d" % number)
            time.sleep(seconds / steps)
