"""Reading and writing over TLS by kafka.ssl.* options, with a broker that asks for certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.brokers import Certificates, KafkaCluster
from tests.brokers.certificates import run_openssl
from tests.support.spark.topics import Record, Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def strict() -> Iterator[KafkaCluster]:
    """Yield a broker whose TLS listener asks for certificates."""
    with KafkaCluster(tls=True, config={"ssl.client.auth": "required"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def pems(strict: KafkaCluster) -> Certificates:
    """Return the certificates."""
    assert strict.certificates is not None
    return strict.certificates


@pytest.fixture(scope="module")
def topic(strict: KafkaCluster) -> str:
    """Return a topic with three records."""
    topics = Topics(strict.hosts)
    name = topics.create()
    topics.produce(name, [Record(b"1"), Record(b"2"), Record(b"3")])
    return name


def options(strict: KafkaCluster, **ssl: str | Path) -> dict[str, str]:
    """Return options; those for TLS without kafka.ssl., with _ for the dots."""
    named = {f"kafka.ssl.{name.replace('_', '.')}": str(text) for name, text in ssl.items()}
    return {"kafka.bootstrap.servers": strict.tls_hosts, "kafka.security.protocol": "SSL", **named}


def by_file(strict: KafkaCluster, pems: Certificates, directory: Path) -> dict[str, str]:
    """Return options that name files, the key's locked by a password."""
    identity = directory / "identity.pem"
    identity.write_text(pems.locked_keyfile.read_text() + pems.client_certfile.read_text())
    return options(
        strict,
        truststore_type="PEM",
        truststore_location=pems.cafile,
        keystore_type="PEM",
        keystore_location=identity,
        key_password=pems.password,
    )


def by_text(strict: KafkaCluster, pems: Certificates) -> dict[str, str]:
    """Return options with the certificates themselves, each on one line."""
    return options(
        strict,
        truststore_type="PEM",
        truststore_certificates=pems.cafile.read_text().replace("\n", " "),
        keystore_type="PEM",
        keystore_key=pems.client_keyfile.read_text().replace("\n", " "),
        keystore_certificate_chain=pems.client_certfile.read_text().replace("\n", " "),
    )


def read(spark: SparkSession, topic: str, given: dict[str, str]) -> DataFrame:
    """Return what a topic holds."""
    return spark.read.format("pykafka").options(**given).option("subscribe", topic).load()


def test_files_read_and_write(
    spark: SparkSession, strict: KafkaCluster, pems: Certificates, topic: str, tmp_path: Path
) -> None:
    given = by_file(strict, pems, tmp_path)
    frame = read(spark, topic, given)
    copy = Topics(strict.hosts).create()
    frame.select("value").write.format("pykafka").options(**given).option("topic", copy).mode("append").save()
    assert sorted(row.value for row in read(spark, copy, given).collect()) == [b"1", b"2", b"3"]


def test_texts(spark: SparkSession, strict: KafkaCluster, pems: Certificates, topic: str) -> None:
    assert read(spark, topic, by_text(strict, pems)).count() == 3


def test_stores_with_passwords_of_files(
    spark: SparkSession, strict: KafkaCluster, pems: Certificates, topic: str, tmp_path: Path
) -> None:
    """The client's certificate, too, is of a PKCS12 store; references bring the passwords."""
    store, password = tmp_path / "me.p12", tmp_path / "password"
    password.write_text(f"{pems.password}\n")
    identity = ("-inkey", str(pems.client_keyfile), "-in", str(pems.client_certfile))
    run_openssl("pkcs12", "-export", *identity, "-passout", f"file:{password}", "-out", str(store))
    given = options(
        strict,
        truststore_location=pems.truststore,
        truststore_password=f"${{file:{password}}}",
        keystore_type="PKCS12",
        keystore_location=store,
        keystore_password=f"${{file:{password}}}",
    )
    assert read(spark, topic, given).count() == 3


def test_what_goes_wrong_is_said_when_planning(
    spark: SparkSession, strict: KafkaCluster, pems: Certificates, topic: str, tmp_path: Path
) -> None:
    good = by_file(strict, pems, tmp_path) | {"fetchOffset.numRetries": "0"}
    stranger = {name: text for name, text in good.items() if "keystore" not in name and "password" not in name}
    for given, sentence in (
        (stranger, "(for a client certificate|closed the connection).*keyfile are .kafka.ssl.keystore"),
        ({name: text for name, text in good.items() if "truststore" not in name}, "not trusted.*kafka.ssl.truststore"),
        (good | {"kafka.ssl.key.password": "wrong"}, "kafka.ssl.key.password.*cannot be used"),
        (good | {"kafka.ssl.truststore.location": "/nowhere.pem"}, "'/nowhere.pem' cannot be used: No such file"),
        (good | {"kafka.bootstrap.servers": strict.hosts}, "does not speak TLS|not be a TLS port"),
    ):
        with pytest.raises(PySparkException, match=sentence):
            read(spark, topic, given).collect()
