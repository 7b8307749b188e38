"""`config = "FILE"` of a pipeline: the options of Spark that a configuration file becomes, and the keys that are refused."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest

from pykafka.metadata.options import MetadataSettings
from pykafka.network.options import ConnectionSettings
from pykafka.spark.pipeline import Declaration, DeclarationError
from pykafka.spark.pipeline.configured import configured
from pykafka.spark.pipeline.model import TopicSink
from tests.support.spark.declarations import COPY, only_input, only_output


class Table:
    """A table as `configured` uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        return str(self.path)

    def problem(self, name: str, text: str) -> None:
        self.problems.append(text)


def read(tmp_path: Path, values: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"bootstrap.servers": "a:1", **values}))
    table = Table(path)
    return configured(cast(Any, table)), table.problems


LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}


TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({**LOGIN, "sasl.password": 1.50}, "sasl.password must be a text: put it in quotes"),
        ({"security.protocol": "SSL", "ssl.key.password": 7}, "ssl.key.password must be a text"),
        ({"sasl.username": "me", "sasl.password": "x"}, "but security.protocol is PLAINTEXT (its default)"),
        ({"security.protocol": "SSL", "sasl.username": "me", "sasl.password": "x"}, "but security.protocol is SSL"),
        ({"security.protocol": "SSL", "ssl.password": "x", "ssl.keystore.password": "y"}, "with two values"),
        ({**TOKENS, "sasl.oauthbearer.method": "default"}, "must be oidc in a pipeline"),
    ],
)
def test_what_is_refused(tmp_path: Path, values: dict[str, Any], said: str) -> None:
    problems = read(tmp_path, values)[1]
    assert len(problems) == 1
    assert said in problems[0]


def test_what_is_taken(tmp_path: Path) -> None:
    options, problems = read(tmp_path, {**LOGIN, "sasl.password": "1.50"})
    assert problems == []
    assert 'password="1.50"' in options["kafka.sasl.jaas.config"]
    options, problems = read(
        tmp_path, {**TOKENS, "sasl.oauthbearer.method": "OIDC", "ssl.password": "x", "ssl.keystore.password": "x"}
    )
    assert problems == []
    assert options["kafka.ssl.key.password"] == options["kafka.ssl.keystore.password"] == "x"


def test_a_configuration_file_and_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUST_PASSWORD", "secret")
    properties = tmp_path / "client.properties"
    properties.write_text(
        "bootstrap.servers=there:9093\nsecurity.protocol=SSL\nssl.truststore.location=/trust.p12\n"
        "ssl.truststore.password=${TRUST_PASSWORD}\nlinger.ms=5\nauto.offset.reset=latest\n"
    )
    file = tmp_path / "p.toml"
    text = (
        f'checkpoint = "/c"\n[source]\nconfig = "{properties}"\ntopic = "a"\n[source.options]\n'
        '"kafka.client.id" = "${TRUST_PASSWORD}"\n[sink]\nformat = "topic"\ntopic = "b"\n'
    )
    file.write_text(text)
    found = Declaration.load(file)
    assert only_input(found).source.options["kafka.bootstrap.servers"] == "there:9093"
    assert only_input(found).source.options["kafka.ssl.truststore.password"] == "${TRUST_PASSWORD}"
    assert only_input(found).source.options["kafka.client.id"] == "secret"
    assert "kafka.linger.ms" not in only_input(found).source.options
    assert isinstance(only_output(found).sink, TopicSink)
    assert only_output(found).sink.options["kafka.ssl.truststore.location"] == "/trust.p12"
    monkeypatch.delenv("TRUST_PASSWORD")
    with pytest.raises(DeclarationError) as caught:
        Declaration.load(file)
    assert "ssl.truststore.password refers to the environment variable TRUST_PASSWORD" in str(caught.value)
    assert "options kafka.client.id: refers to the environment variable TRUST_PASSWORD" in str(caught.value)
    file.write_text(text.replace(str(properties), "/no/such"))
    with pytest.raises(DeclarationError, match="config.* the configuration file '/no/such' cannot be read"):
        Declaration.load(file)


def loaded(tmp_path: Path, name: str, content: str) -> dict[str, str]:
    """Return the options of a source whose configuration file has this content."""
    (tmp_path / name).write_text(content)
    file = tmp_path / "p.toml"
    file.write_text(f'checkpoint = "/c"\n[source]\nconfig = "{tmp_path / name}"\ntopic = "a"\n{COPY}')
    options = dict(only_input(Declaration.load(file)).source.options)
    for own in ("subscribe", "startingOffsets", "includeHeaders"):
        del options[own]
    return {name.removeprefix("kafka."): value for name, value in options.items()}


def test_a_configuration_file_by_the_names_of_other_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", 'se"cret\\')
    settings = {one.name for kind in (ConnectionSettings, MetadataSettings) for one in fields(kind)}
    settings -= {"ssl_config", "sasl", "proxy", "client_dns_lookup", "metadata_recovery_strategy"}
    settings -= {"allow_cleartext_credentials", "metadata_cluster_check_enable"}
    settings -= {"retry_backoff_ms", "retry_backoff_max_ms"}  # these have no effect in Spark's queries
    text = "".join(f"{one} = 77\n" for one in settings)
    found = loaded(
        tmp_path,
        "ours.toml",
        f'hosts = "a:1"\nclient_rack = "north"\nclient_id = "me"\nclient_dns_lookup = "use_all_dns_ips"\n{text}'
        'metadata_recovery_strategy = "none"\nsocket_timeout_ms = 5\n[producer]\nlinger_ms = 5\n'
        '[consumer]\nclient_rack = "x"\n',
    )
    assert found == {
        **{one.replace("_", "."): "77" for one in settings},
        "bootstrap.servers": "a:1",
        "client.rack": "north",
        "client.id": "me",
        "client.dns.lookup": "use_all_dns_ips",
        "metadata.recovery.strategy": "none",
        "request.timeout.ms": "5",
    }
    (tmp_path / "ca").write_text("")
    found = loaded(
        tmp_path,
        "kafka-python.json",
        '{"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", '
        '"sasl_plain_username": "me", "sasl_plain_password": "${PW}", "ssl_cafile": "/ca", "ssl_check_hostname": false}',
    )
    assert found == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="${PW}";',
        "ssl.truststore.location": "/ca",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }
    found = loaded(
        tmp_path,
        "librdkafka.properties",
        "metadata.broker.list=a:1\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=OAUTHBEARER\nsasl.oauthbearer.method=oidc\n"
        "sasl.oauthbearer.client.id=me\nsasl.oauthbearer.client.secret=${PW}\n"
        "sasl.oauthbearer.token.endpoint.url=https://idp/token\nssl.certificate.location=/me.pem\nssl.key.password=x\n"
        "socket.keepalive.enable=true\nstatistics.interval.ms=5\n",
    )
    assert found["sasl.oauthbearer.client.credentials.client.secret"] == "${PW}"
    assert found["sasl.jaas.config"].endswith("OAuthBearerLoginModule required;")
    assert (found["ssl.keystore.location"], found["ssl.keystore.type"]) == ("/me.pem", "PEM")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("linger.mss=1", "has the key linger.mss, which is unknown; did you mean linger.ms"),
        ("transactional.id=x", "transactional.id cannot be used: each task needs an id of its own"),
        (
            "zookeeper.connect=z:1",
            "zookeeper.connect cannot be used in a pipeline: brokers are found by bootstrap.servers",
        ),
        ("tls=true", "tls cannot be used in a pipeline: set security.protocol"),
        ("source.address=x", "source.address cannot be used in a pipeline"),
        ("ssl.key.location=/k", "ssl.key.location cannot be used in a pipeline: put the key into the file"),
        ("enable.ssl.certificate.verification=false", "verification cannot be false in a pipeline"),
        ("sasl.kerberos.keytab=/k", "sasl.kerberos.keytab cannot be used in a pipeline: give sasl.jaas.config"),
        ("hosts=b:1", "bootstrap.servers and hosts are one option, with two values"),
    ],
)
def test_what_a_pipeline_cannot_take_of_a_configuration_file_is_refused_by_name(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(DeclarationError, match=sentence):
        loaded(tmp_path, "c.properties", f"bootstrap.servers=a:1\n{text}\n")
