"""Secrets in options are nowhere in what Spark shows and writes: plans, progress, UI, logs at DEBUG, event log, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.brokers.certificates import run_openssl
from tests.support.logins import log_in
from tests.support.programs import ROOT
from tests.support.secrets import Search
from tests.support.topics import create_topic
from tests.support.tunnels import TunnelProxy

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(900)]

PROXY_PASSWORD = "Pw-of-proxy-77aa01"
WRONG = "Pw-that-is-wrong-8811"
KEY_PASSWORD = "Pw-of-key-4c19d0"
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'
MODULE = "tests.support.spark.secrets_job"


@pytest.fixture
def proxy() -> Iterator[TunnelProxy]:
    """Yield a proxy with a password."""
    with TunnelProxy("me", PROXY_PASSWORD) as found:
        yield found


def fill(client: KafkaClient) -> tuple[str, str]:
    """Return a topic with 20 records, and one without."""
    topic, copy = create_topic(client), create_topic(client)
    with topic.get_producer(linger_ms=1) as producer:
        for number in range(20):
            producer.produce(b"%d" % number)
    return topic.name, copy.name


def options(kafka: KafkaCluster, proxy: TunnelProxy, directory: Path) -> dict[str, str]:
    """Return options with every kind of secret, written out."""
    pems, locked = kafka.certificates, directory / "locked.pem"
    assert pems is not None
    secret = ("-passout", f"pass:{KEY_PASSWORD}")
    run_openssl("pkcs8", "-topk8", "-in", str(pems.client_keyfile), *secret, "-out", str(locked))
    return {
        "kafka.bootstrap.servers": kafka.hosts_of("SASL_SSL"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": JAAS.format(kafka.password),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(pems.cafile),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": pems.client_certfile.read_text(),
        "kafka.ssl.keystore.key": locked.read_text(),
        "kafka.ssl.key.password": KEY_PASSWORD,
        "proxy": proxy.url("socks5h"),
    }


@pytest.mark.usefixtures("quick_spark")
@pytest.mark.parametrize("kind", ["references", "written out"])
def test_nothing_of_spark_shows_a_secret(
    secure_kafka: KafkaCluster, proxy: TunnelProxy, tmp_path: Path, kind: str
) -> None:
    with log_in(secure_kafka) as client:
        topic, copy = fill(client)
    given = options(secure_kafka, proxy, tmp_path)
    key = given["kafka.ssl.keystore.key"].split("\n")[5]
    search = Search(secure_kafka.password, WRONG, given["kafka.ssl.key.password"], PROXY_PASSWORD, key)
    wrong: list[dict[str, str]] = [
        {"kafka.sasl.jaas.config": JAAS.format(WRONG)},
        {"kafka.sasl.jaas.confg": JAAS.format(WRONG)},
        {"kafka.sasl.mechanism": JAAS.format(WRONG)},
    ]
    environment = dict(os.environ)
    if kind == "references":
        environment |= {
            "A_KEY": given["kafka.ssl.keystore.key"],
            "A_PROXY": given["proxy"],
            "A_PASSWORD": secure_kafka.password,
        }
        (tmp_path / "key-password").write_text(given["kafka.ssl.key.password"] + "\n")
        given |= {
            "kafka.sasl.jaas.config": JAAS.format("${A_PASSWORD}"),
            "kafka.ssl.keystore.key": "${env:A_KEY}",
            "kafka.ssl.key.password": f"${{file:{tmp_path}/key-password}}",
            "proxy": "${A_PROXY}",
        }
        wrong = [{"kafka.sasl.jaas.config": JAAS.format("${NO_PASSWORD}")}]
    file, root = tmp_path / "options.json", tmp_path / "job"
    root.mkdir()
    file.write_text(json.dumps({"options": given, "wrong": wrong, "redaction": kind != "references"}))
    done = subprocess.run(
        [sys.executable, "-m", MODULE, str(file), topic, copy, str(root)],
        cwd=ROOT,
        env=environment | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert " DEBUG " in done.stderr
    search.look("standard output", done.stdout)
    for number, line in enumerate(done.stderr.splitlines()):
        search.look(f"log, line {number}: {line[:60]}", line)
    errors = ""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            search.look(str(path.relative_to(root)), path.read_bytes())
            errors += path.read_text() if path.name.startswith("error-") else ""
    assert search.verdict() == []
    said = "the environment variable NO_PASSWORD" if kind == "references" else "check user name and password"
    assert said in errors
