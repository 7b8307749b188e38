"""Configurations: keys of four clients, the environment, references, and errors that show no value."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from pykafka.common import CompressionType, OffsetType
from pykafka.config import Configuration, configuration
from pykafka.config.keys import is_ignored, known, targets
from pykafka.config.names import plain
from pykafka.config.references import resolved
from pykafka.exceptions import ConfigurationError
from pykafka.membershipprotocol import RangeProtocol, RoundRobinProtocol
from pykafka.partitioners import Murmur2Partitioner
from pykafka.security import DelegationToken, OAuthBearer, Plain, Scram, SslConfig

SECRET = "hunter2-do-not-show"
ENVIRONMENT = {"KAFKA_PASSWORD": SECRET, "EMPTY": ""}


def read(source: Any, **variables: str) -> Configuration:
    return Configuration.read(source, env=bool(variables), environment={**ENVIRONMENT, **variables})


JAVA = {
    "bootstrap.servers": "a:9093,b:9093",
    "client.id": "billing",
    "client.rack": "r1",
    "request.timeout.ms": "20000",
    "metadata.max.age.ms": "60000",
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "2000",
    "connections.max.idle.ms": "300000",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "${KAFKA_PASSWORD}",
    "ssl.truststore.location": "/etc/trust.p12",
    "ssl.truststore.type": "PKCS12",
    "ssl.truststore.password": "${env:KAFKA_PASSWORD}",
    "ssl.endpoint.identification.algorithm": "",
    "acks": "all",
    "linger.ms": "5",
    "compression.type": "zstd",
    "compression.zstd.level": "5",
    "compression.gzip.level": "9",
    "enable.idempotence": "true",
    "delivery.timeout.ms": "60000",
    "buffer.memory": "1048576",
    "group.id": "billing",
    "auto.offset.reset": "latest",
    "enable.auto.commit": "false",
    "auto.commit.interval.ms": "1000",
    "fetch.min.bytes": "1",
    "fetch.max.wait.ms": "250",
    "max.partition.fetch.bytes": "2097152",
    "isolation.level": "read_committed",
    "session.timeout.ms": "45000",
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    "max.poll.records": "500",
}


def test_java() -> None:
    found = read(JAVA)
    config, sasl = found.client.pop("ssl_config"), found.client.pop("sasl")
    assert found.client == {
        "hosts": "a:9093,b:9093",
        "client_id": "billing",
        "client_rack": "r1",
        "socket_timeout_ms": 20000,
        "metadata_max_age_ms": 60000,
        "reconnect_backoff_ms": 20,
        "reconnect_backoff_max_ms": 2000,
        "connections_max_idle_ms": 300000,
    }
    assert (config.cafile, config.ca_password, config.check_hostname) == ("/etc/trust.p12", SECRET, False)
    assert config.versions is None
    assert sasl == Scram("alice", SECRET, "SCRAM-SHA-512")
    assert found.producer == {
        "required_acks": -1,
        "linger_ms": 5,
        "compression": CompressionType.ZSTD,
        "compression_level": 5,
        "enable_idempotence": True,
        "delivery_timeout_ms": 60000,
        "max_queued_bytes": 1048576,
    }
    assert found.consumer == {
        "metadata_max_age_ms": 60000,
        "client_rack": "r1",
        "consumer_group": "billing",
        "protocol": "classic",
        "auto_offset_reset": OffsetType.LATEST,
        "auto_commit_enable": False,
        "auto_commit_interval_ms": 1000,
        "fetch_min_bytes": 1,
        "fetch_wait_max_ms": 250,
        "fetch_message_max_bytes": 2097152,
        "isolation_level": "read_committed",
        "session_timeout_ms": 45000,
        "membership_protocol": RoundRobinProtocol,
    }
    assert SECRET not in repr(found)


def test_librdkafka() -> None:
    found = read(
        {
            "metadata.broker.list": "a",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": SECRET,
            "ssl.ca.location": "/ca.pem",
            "ssl.certificate.location": "/me.pem",
            "ssl.key.location": "/me.key",
            "ssl.key.password": SECRET,
            "ssl.endpoint.identification.algorithm": "none",
            "queue.buffering.max.kbytes": 1024,
            "queue.buffering.max.ms": 7,
            "message.timeout.ms": 1000,
            "message.send.max.retries": 2,
            "auto.offset.reset": "beginning",
            "queued.max.messages.kbytes": 2,
            "socket.timeout.ms": 5000,
            "socket.keepalive.enable": True,
            "statistics.interval.ms": 0,
        }
    )
    config = found.client["ssl_config"]
    assert isinstance(config, SslConfig)
    assert (config.cafile, config.certfile, config.keyfile, config.password) == (
        "/ca.pem",
        "/me.pem",
        "/me.key",
        SECRET,
    )
    assert not config.check_hostname
    assert config.verify
    assert found.client["sasl"] == Plain("alice", SECRET)
    assert (found.client["hosts"], found.client["socket_timeout_ms"]) == ("a", 5000)
    assert found.producer == {
        "max_queued_bytes": 1 << 20,
        "linger_ms": 7,
        "delivery_timeout_ms": 1000,
        "max_retries": 2,
    }
    assert found.consumer == {"auto_offset_reset": OffsetType.EARLIEST, "queued_max_bytes": 2048}


def test_no_verification_as_librdkafka_has_it() -> None:
    found = read({"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}).client["ssl_config"]
    assert not found.verify
    assert not found.check_hostname


def test_kafka_python_and_our_own_names() -> None:
    found = read(
        {
            "bootstrap_servers": ["a:1", "b:2"],
            "security_protocol": "SSL",
            "ssl_cafile": "/ca.pem",
            "ssl_certfile": "/me.pem",
            "ssl_check_hostname": False,
            "api_version_auto_timeout_ms": 2000,
            "required_acks": 1,
            "producer": {"max_queued_messages": 10},
            "consumer": {"auto_start": False},
            "compression_type": "lz4",
            "partitioner": "murmur2",
            "offsets_channel_socket_timeout_ms": 7,
            "use_greenlets": "no",
        }
    )
    assert found.client["hosts"] == "a:1,b:2"
    assert found.client["ssl_config"].certfile == "/me.pem"
    assert not found.client["ssl_config"].check_hostname
    assert (found.client["offsets_channel_socket_timeout_ms"], found.client["use_greenlets"]) == (7, False)
    assert found.producer["compression"] == CompressionType.LZ4
    assert isinstance(found.producer.pop("partitioner"), Murmur2Partitioner)
    assert found.producer == {"required_acks": 1, "max_queued_messages": 10, "compression": CompressionType.LZ4}
    assert found.consumer == {"auto_start": False}


class Provider:
    """A source of tokens, as kafka-python has it."""

    def token(self) -> str:
        """Return a token."""
        return "token"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()}, OAuthBearer),
        (
            {
                "sasl.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": SECRET,
                "sasl.oauthbearer.extensions": "logicalCluster=a,pool=b",
            },
            OAuthBearer,
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
                "sasl.login.callback.handler.class": "OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                f'clientId="me" clientSecret="{SECRET}";',
            },
            OAuthBearer,
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f'ScramLoginModule required username="id" password="{SECRET}" tokenauth="true";',
            },
            DelegationToken,
        ),
        ({"sasl.mechanism": "plain", "sasl.plain.username": "me", "sasl.plain.password": SECRET}, Plain),
    ],
)
def test_credentials(values: dict[str, Any], kind: type[Any]) -> None:
    found = read({"security.protocol": "SASL_PLAINTEXT", **values}).client["sasl"]
    assert type(found) is kind
    assert SECRET not in repr(found)


def test_objects_in_a_mapping() -> None:
    config, sasl = SslConfig("/ca.pem"), Plain("a", "b")
    found = read({"hosts": "a", "tls": config, "sasl": sasl}).client
    assert (found["ssl_config"], found["sasl"]) == (config, sasl)
    assert read({"tls": "true"}).client["ssl_config"] is True
    assert read({"security_protocol": "SSL", "ssl_context": config}).client["ssl_config"] is config


@pytest.mark.parametrize(
    ("values", "config"),
    [
        ({"ssl.ca.pem": "-----BEGIN X-----"}, ("-----BEGIN X-----", None, None)),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "-----BEGIN X-----QQ==-----END X-----"},
            ("-----BEGIN X-----\nQQ==\n-----END X-----\n", None, None),
        ),
        ({"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"}, (None, "/me.p12", None)),
        ({"ssl.crl.location": "/crl.pem", "ssl.cipher.suites": "ECDHE"}, (None, None, None)),
        ({"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.3"}, (None, None, None)),
    ],
)
def test_certificates(values: dict[str, str], config: tuple[str | None, ...]) -> None:
    found = read({"security.protocol": "SSL", **values}).client["ssl_config"]
    assert (found.cafile, found.certfile, found.keyfile) == config


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"linger.mss": "5"}, "has the key linger.mss, which is unknown; did you mean linger.ms?"),
        ({"bootstrap.server": "a"}, "did you mean bootstrap.servers?"),
        ({"no.such.thing.at.all": "5"}, "no.such.thing.at.all, which is unknown; remove it"),
        ({"linger.ms": SECRET}, "linger.ms must be a whole number"),
        ({"linger.ms": True}, "linger.ms must be a whole number"),
        ({"enable.idempotence": SECRET}, "enable.idempotence must be true or false"),
        ({"acks": SECRET}, "acks must be one of all, -1, 0, 1"),
        ({"compression.type": SECRET}, "compression.type must be one of none, gzip"),
        ({"auto.offset.reset": SECRET}, "auto.offset.reset must be one of earliest"),
        ({"client.id": {}, "bootstrap.servers": True}, "bootstrap.servers must be a text"),
        ({"handler": "threads"}, "handler is an object of Python"),
        ({"sasl": SECRET}, "sasl is an object of Python"),
        ({"tls": SECRET}, "tls must be true or false"),
        ({"tls": True, "ssl_config": True}, "tls and ssl_config are two names"),
        ({"tls": True, "ssl.cafile": "/x", "security.protocol": "SSL"}, "ssl.cafile and ssl_config say the same"),
        ({"transactional.id": "x"}, "transactional.id cannot be used"),
        ({"linger.ms": 1, "linger_ms": 2}, "linger.ms and linger_ms are one key, with two values"),
        (
            {"linger.ms": 1, "queue.buffering.max.ms": 2},
            "linger.ms and queue.buffering.max.ms are one option, with two",
        ),
        ({"security.protocol": SECRET}, "security.protocol must be one of PLAINTEXT, SSL"),
        (
            {"ssl.ca.location": "/x"},
            r"ssl.ca.location is about TLS, but security.protocol is PLAINTEXT \(its default\)",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "ssl.cafile": "/x"},
            "is about TLS, but security.protocol is SASL_PLAINTEXT",
        ),
        ({"sasl.password": SECRET}, "sasl.password is about SASL, but"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism must be one of PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": SECRET}, "sasl.mechanism must be one of PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "PLAIN needs sasl.username"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"},
            "PLAIN needs sasl.password",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "${EMPTY}",
            },
            "credentials for PLAIN cannot be used",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs sasl.oauthbearer.token",
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/a", "ssl.cafile": "/b"},
            "ssl.cafile and ssl.ca.location say",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/a", "ssl.cafile": "/b"},
            "ssl.cafile and a store say",
        ),
        (
            {"security.protocol": "SSL", "ssl.key.location": "/k"},
            "ssl.key.location is the key of a certificate, which is",
        ),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_RSA_WITH_NULL"}, "ssl.cipher.suites has Java's names"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"}, "must be https, or empty"),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "BCFKS", "ssl.truststore.location": "/x"},
            "ssl.truststore.type",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x"},
            "is not PEM text",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f"PlainLoginModule '{SECRET}",
            },
            "credentials for PLAIN cannot be used: the JAAS text",
        ),
        ({"client.id": "${NO_SUCH}"}, "client.id refers to the environment variable NO_SUCH, which is not set"),
        ({"client.id": "${env:NO_SUCH}"}, "client.id refers to the environment variable NO_SUCH"),
        ({"client.id": "${vault:x}"}, "client.id has a reference of an unknown kind"),
        (
            {"client.id": "${file:/no/such}"},
            "client.id refers to the file '/no/such', which cannot be read: No such file",
        ),
        ({"client.id": f"${{{SECRET}:x}}"}, "client.id has a reference of an unknown kind"),
        ({"security.protocol": "PLAINTEXT", "tls": "true"}, "security.protocol is PLAINTEXT, but tls is given"),
        ({"security.protocol": "plaintext", "ssl_config": True}, "security.protocol is PLAINTEXT, but tls is given"),
        (
            {"security.protocol": "SSL", "sasl": Scram("me", SECRET)},
            "security.protocol is SSL, but sasl is given",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.check.hostname": "false",
                "ssl.endpoint.identification.algorithm": "https",
            },
            "ssl.check.hostname is false, and ssl.endpoint.identification.algorithm says the contrary",
        ),
        (
            {"security.protocol": "SSL", "ssl.check.hostname": "true", "ssl.endpoint.identification.algorithm": ""},
            "ssl.check.hostname is true, and",
        ),
        (
            {"security.protocol": "SSL", "ssl.certfile": "/c", "ssl.password": SECRET, "ssl.key.password": "x"},
            "ssl.password and ssl.key.password are one password, with two values",
        ),
        ({"client.id": "${dir:/no:such}"}, "client.id refers to the file '/no/such'"),
        ({"client.id": "${a b}"}, "client.id has a reference that is no name"),
    ],
)
def test_what_cannot_be(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        read(values)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)
    assert isinstance(caught.value, ValueError)


def test_references_in_lists() -> None:
    assert read({"hosts": ["${KAFKA_PASSWORD}:1", "$${b}:2"]}).client == {"hosts": f"{SECRET}:1,${{b}}:2"}


@pytest.mark.parametrize("name", ["tls", "ssl_config"])
def test_no_other_key_takes_tls_from_the_protocol(name: str) -> None:
    """A password would go over the network as it is."""
    credentials = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": SECRET}
    with pytest.raises(
        ConfigurationError, match="^tls is false, but security.protocol is SASL_SSL: remove one of them$"
    ):
        read({"security.protocol": "SASL_SSL", name: False, **credentials})
    assert read({"security.protocol": "SASL_SSL", name: True, **credentials}).client["ssl_config"] is True
    assert read({"security.protocol": "SASL_PLAINTEXT", name: False, **credentials}).client["ssl_config"] is False


def test_references(tmp_path: Path) -> None:
    secret, lines = tmp_path / "secret", tmp_path / "lines.properties"
    secret.write_text("one two\n")
    lines.write_text("a=1\nb=two\n")
    variables = {"NAME": "${OTHER}"}
    for text, wanted in {
        "${NAME}": "${OTHER}",
        "a${env:NAME}b": "a${OTHER}b",
        f"${{file:{secret}}}": "one two",
        f"${{file:{lines}:b}}": "two",
        f"${{dir:{tmp_path}:secret}}": "one two",
        "$${NAME} costs $5 and $$": "${NAME} costs $5 and $$",
        "}{": "}{",
    }.items():
        assert resolved(text, "key", variables) == wanted
    with pytest.raises(ConfigurationError, match="key refers to 'c' in the file .*, which has no such key"):
        resolved(f"${{file:{lines}:c}}", "key", {})


def test_a_reference_in_a_jaas_text_is_one_value(tmp_path: Path) -> None:
    """A quote in a password must not make other options of the rest."""
    odd = 'a"b\'c\\d; username="mallory" #x\n}'
    (tmp_path / "secret").write_text(odd)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    variables = {"PW": odd, "JAAS": f'{module} username="me" password="${{x}}";', "ME": "me"}
    for written, password in {
        f'{module} username="me" password="${{env:PW}}";': odd,
        f"{module} username='${{ME}}' password='1${{PW}}2$${{PW}}';": f"1{odd}2${{PW}}",
        f'{module} username="me" password="${{file:{tmp_path}/secret}}";': odd,
        f"{module} // it's ${{NOT_SET}}\n username=${{ME}} password=${{PW}};": odd,
        f"{module} username=${{ME}} password=1${{PW}}-${{ME}};": f"1{odd}-me",
        "${env:JAAS}": "${x}",
        " ${JAAS} ": "${x}",
    }.items():
        for key in ("sasl.jaas.config", "client.sasl_jaas_config"):
            values = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", key: written}
            assert read(values, **variables).client["sasl"] == Plain("me", password)


def test_the_same_twice_is_no_contradiction() -> None:
    tls = {"ssl.check.hostname": "false", "ssl.endpoint.identification.algorithm": ""}
    password = {"ssl.certfile": "/c", "ssl.password": SECRET, "ssl.key.password": SECRET}
    config = read({"security.protocol": "SSL", **tls, **password}).client["ssl_config"]
    assert (config.check_hostname, config.password) == (False, SECRET)
    assert read({"security.protocol": "PLAINTEXT", "tls": "false"}).client["ssl_config"] is False


def test_the_environment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.properties"
    path.write_text("bootstrap.servers=file\nlinger.ms=1\nclient.id=file\n")
    variables = {"PYKAFKA_CONFIG": str(path), "PYKAFKA_LINGER_MS": "2", "PYKAFKA_PURE_PYTHON": "1", "OTHER_KEY": "x"}
    found = read(None, **variables, PYKAFKA_BOOTSTRAP_SERVERS="environment")
    assert (found.client["hosts"], found.client["client_id"], found.producer) == (
        "environment",
        "file",
        {"linger_ms": 2},
    )
    assert read({"client.id": "mapping"}, **variables).client == {"client_id": "mapping"}
    assert Configuration.read(None, environment=variables).client == {}
    with pytest.raises(ConfigurationError, match="PYKAFKA_LINGER_M is no option .*did you mean PYKAFKA_LINGER_MS"):
        read(None, PYKAFKA_LINGER_M=SECRET)
    assert read(None, PYKAFKA_SOMETHING_QUITE_OTHER=SECRET).client == {}
    assert "PYKAFKA_SOMETHING_QUITE_OTHER is no option of a client" in caplog.text
    assert SECRET not in caplog.text


def test_keys_of_other_clients_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    configuration.reported_keys.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            read({"key.serializer": SECRET, "interceptor.classes": "x", "max.poll.records": 1})
    assert [record.getMessage() for record in caplog.records] == [
        "configuration: no effect in this client: interceptor.classes, key.serializer, max.poll.records"
    ]


def test_assignors() -> None:
    def protocol(names: str) -> Any:
        return read({"partition.assignment.strategy": names}).consumer.get("membership_protocol")

    assert protocol("range") is RangeProtocol
    assert protocol("a.b.CooperativeStickyAssignor,a.b.RangeAssignor") is RangeProtocol
    assert protocol("cooperative-sticky") is None


def test_prefixes_say_for_whom_a_key_is() -> None:
    found = read(
        {"producer.retry.backoff.ms": 5, "kafka.bootstrap.servers": "a", "client.security.protocol": "PLAINTEXT"}
    )
    assert (found.client, found.producer) == ({"hosts": "a"}, {"retry_backoff_ms": 5})
    assert read({"retry.backoff.ms": 5}).client == {"retry_backoff_ms": 5}
    with pytest.raises(ConfigurationError, match=r"consumer.linger.ms, which is unknown"):
        read({"consumer.linger.ms": 1})


def test_every_key_is_plain() -> None:
    assert [key for key in known() if plain(key) != key and key != "log_level"] == []
    assert not [key for key in targets() if re.search(r"[^a-z0-9.]", key)]
    assert is_ignored("metrics.num.samples")
