"""Configurations as services and other clients hand them out, word for word but for names."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetType
from pykafka.config import Configuration
from pykafka.exceptions import ConfigurationError, NoBrokersAvailableError
from pykafka.membershipprotocol import RoundRobinProtocol
from pykafka.security import OAuthBearer, OAuthToken, Plain, Scram, SslConfig

SECRET = "hunter2-do-not-show"
MODULE = "org.apache.kafka.common.security"

CONFLUENT_JAVA = f"""# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=pkc-1.us-east-1.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config={MODULE}.plain.PlainLoginModule required username='KEY' password='S+E/C==';
sasl.mechanism=PLAIN
# Required for correctness in Apache Kafka clients prior to 2.6
client.dns.lookup=use_all_dns_ips

# Best practice for higher availability in Apache Kafka clients prior to 3.0
session.timeout.ms=45000
acks=all

# Required connection configs for Confluent Cloud Schema Registry
schema.registry.url=https://psrc-1.aws.confluent.cloud
basic.auth.credentials.source=USER_INFO
basic.auth.user.info={{{{ SR_API_KEY }}}}:{{{{ SR_API_SECRET }}}}
"""
CONFLUENT_INI = """[default]
bootstrap.servers=pkc-1.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
sasl.username=KEY
sasl.password=S+E/C==

[consumer]
group.id=python_example_group_1

# 'auto.offset.reset=earliest' to start reading from the beginning of
# the topic if no committed offsets exist.
auto.offset.reset=earliest
"""
EVENT_HUBS = f"""bootstrap.servers=ns.servicebus.windows.net:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={MODULE}.plain.PlainLoginModule required username="$ConnectionString" \
password="Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=a+b/c=";
"""
MSK_SCRAM = f"""security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={MODULE}.scram.ScramLoginModule required \\
  username="alice" \\
  password="alice-secret";
"""
KCAT = """bootstrap.servers=a:9092
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.username=KEY
sasl.password=with = signs: and spaces # no comment
ssl.ca.location=probe
topic.metadata.refresh.sparse=false
"""


def of_file(tmp_path: Path, name: str, text: str) -> Configuration:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return Configuration.read(path, environment={})


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize(
    ("name", "text", "sasl"),
    [
        ("client.properties", CONFLUENT_JAVA, Plain("KEY", "S+E/C==")),
        ("getting_started.ini", CONFLUENT_INI, Plain("KEY", "S+E/C==")),
        (
            "client.properties",
            EVENT_HUBS,
            Plain(
                "$ConnectionString",
                "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=a+b/c=",
            ),
        ),
        ("client.properties", MSK_SCRAM, Scram("alice", "alice-secret")),
        ("kcat.conf", KCAT, Plain("KEY", "with = signs: and spaces # no comment")),
    ],
    ids=["confluent java", "confluent python", "event hubs", "msk", "kcat"],
)
def test_logins_over_tls(tmp_path: Path, name: str, text: str, sasl: Any, ends: str) -> None:
    found = of_file(tmp_path, name, text.replace("\n", ends))
    assert found.client["sasl"] == sasl
    assert found.client["ssl_config"].cafile is None
    assert found.client["ssl_config"].check_hostname
    if name.endswith(".ini"):
        assert found.consumer == {
            "consumer_group": "python_example_group_1",
            "protocol": "classic",
            "auto_offset_reset": OffsetType.EARLIEST,
        }


def test_sections_of_an_ini_file_have_their_own_keys_only(tmp_path: Path) -> None:
    found = of_file(tmp_path, "c.ini", "[DEFAULT]\nbootstrap.servers=a:1\n[producer]\nlinger.ms=5\n")
    assert (found.client, found.producer) == ({"hosts": "a:1"}, {"linger_ms": 5})
    shared = "[DEFAULT]\nloglevel=debug\n[kafka]\nbootstrap.servers=a:1\n"
    assert of_file(tmp_path, "c.ini", shared).client == {"hosts": "a:1"}


def test_stores_as_aiven_and_strimzi_have_them(tmp_path: Path) -> None:
    """Before Kafka 2.6 `ssl.protocol` was TLS by default, and the list of versions had those that nobody speaks today."""
    text = """bootstrap.servers=kafka-1.aivencloud.com:12345
security.protocol=SSL
ssl.protocol=TLS
ssl.enabled.protocols=TLSv1.2,TLSv1.1,TLSv1
ssl.endpoint.identification.algorithm=
ssl.truststore.location=client.truststore.p12
ssl.truststore.password=secret
ssl.keystore.type=PKCS12
ssl.keystore.location=client.keystore.p12
ssl.keystore.password=secret
ssl.key.password=secret
"""
    config = of_file(tmp_path, "client.properties", text).client["ssl_config"]
    assert (config.cafile, config.ca_password) == ("client.truststore.p12", "secret")
    assert (config.certfile, config.password) == ("client.keystore.p12", "secret")
    assert (config.check_hostname, config.versions) == (False, ("TLSv1.2", "TLSv1.2"))
    text = text.replace("ssl.enabled.protocols=TLSv1.2,TLSv1.1,TLSv1\n", "")
    assert of_file(tmp_path, "client.properties", text).client["ssl_config"].versions is None
    with pytest.raises(ConfigurationError, match="ssl.protocol' must be of TLSv1.2 and TLSv1.3, not 'TLSv1.1'"):
        of_file(tmp_path, "client.properties", text.replace("=TLS\n", "=TLSv1.1\n"))


def test_a_dict_for_confluent_kafka() -> None:
    found = Configuration.read(
        {
            "bootstrap.servers": "a",
            "group.id": "g",
            "default.topic.config": {"auto.offset.reset": "smallest", "acks": "all"},
            "error_cb": print,
            "stats_cb": print,
            "throttle_cb": print,
            "logger": logging.getLogger("x"),
            "key.serializer": print,
            "connections.max.idle.ms": -1,
            "client.dns.lookup": "default",
            "metadata.recovery.strategy": "REBOOTSTRAP",
            "message.timeout.ms": 0,
            "security.protocol": "plaintext",
            "ssl.endpoint.identification.algorithm": "https",
        },
        environment={},
    )
    assert found.client == {
        "hosts": "a",
        "connections_max_idle_ms": 0,
        "client_dns_lookup": "use_all_dns_ips",
        "metadata_recovery_strategy": "rebootstrap",
        "stats_cb": print,
    }
    assert found.producer == {"required_acks": -1, "delivery_timeout_ms": 2**31 - 1}
    assert found.consumer == {
        "consumer_group": "g",
        "protocol": "classic",
        "auto_offset_reset": OffsetType.EARLIEST,
    }


class RoundRobinPartitionAssignor:
    """As kafka-python names it."""


def test_keyword_arguments_of_kafka_python_and_aiokafka() -> None:
    context = ssl.create_default_context()
    found = Configuration.read(
        {
            "bootstrap_servers": ["a:1"],
            "loop": None,
            "value_deserializer": len,
            "batch_size": 16384,
            "max_batch_size": 16384,
            "security_protocol": "SASL_SSL",
            "ssl_context": context,
            "ssl_check_hostname": True,
            "ssl_cafile": None,
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "me",
            "sasl_plain_password": " a b ",
            "sasl_kerberos_service_name": "kafka",
            "socks5_proxy": "socks5://gate:1080",
            "partition_assignment_strategy": [RoundRobinPartitionAssignor],
            "rebalance_timeout_ms": 3000,
        },
        environment={},
    )
    assert found.client.pop("ssl_config") is context
    assert found.client == {
        "hosts": "a:1",
        "proxy": "socks5://gate:1080",
        "sasl": Scram("me", " a b ", "SCRAM-SHA-256"),
    }
    assert found.consumer == {"membership_protocol": RoundRobinProtocol}


def test_a_java_client_logs_in_by_kerberos_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka.security.kerberos._library", lambda: None)
    module = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
    for keys in ({"sasl.kerberos.service.name": "kafka"}, {"sasl.jaas.config": f"{module[:-1]} serviceName=kafka;"}):
        found = Configuration.read({"security.protocol": "SASL_PLAINTEXT", **keys}, environment={}).client["sasl"]
        assert (found.name, found.service) == ("GSSAPI", "kafka")


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        (
            "c.properties",
            "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM",
            "needs the two lines .*IAMLoginModule required; and sasl.client.callback.handler.class=.*examples/msk_iam.py",
        ),
        (
            "c.properties",
            f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={MODULE}.oauthbearer."
            "OAuthBearerLoginModule required;",
            "give sasl=OAuthBearer",
        ),
        ("application.properties", "spring.kafka.bootstrap-servers=a", "Spring's files are not read"),
        ("rpk.yaml", f"kafka_api:\n  sasl:\n    password: {SECRET}", "is YAML, which is not read"),
        ("c.yml", "bootstrap.servers: 'a:1'", "is YAML"),
        ("c.ini", f"[a]\nx={SECRET}\nx={SECRET}", "not valid INI, line 3"),
        ("c.ini", f"{SECRET}=1", "not valid INI, line 1"),
        ("c.ini", f"[a]\n{SECRET}", "not valid INI, line 2"),
        ("c.toml", f'a = 1\nb = "{SECRET}', "not valid TOML"),
        ("c.toml", f"a = 1\nb = {SECRET}\n", "not valid TOML, line 2"),
        ("c.properties", "linger.ms=5 # ms", "linger.ms must be a whole number"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, text: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error) as caught:
        of_file(tmp_path, name, text)
    assert SECRET not in f"{caught.value!r} {caught.value}"


_LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
_TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
_IN_JAAS = {**_LOGIN, "sasl.jaas.config": f'PlainLoginModule required username="a" password="{SECRET}";'}
_ENDPOINT = {
    "sasl.oauthbearer.token.endpoint.url": "https://a/b",
    "sasl.oauthbearer.client.id": "a",
    "sasl.oauthbearer.client.secret": SECRET,
}
_KEY = {"sasl.oauthbearer.assertion.private.key.file": "/key.pem"}
_KEYS = {**_KEY, "sasl.oauthbearer.assertion.private.key.pem": SECRET}
_CLASSES = "org.apache.kafka.common.security.oauthbearer."
_BEARER = {"sasl.oauthbearer.jwt.retriever.class": f"{_CLASSES}JwtBearerJwtRetriever"}
_UNCHECKED = ssl.create_default_context()
_UNCHECKED.check_hostname = False


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({**_IN_JAAS, "sasl.username": "b"}, "sasl.username has no meaning beside sasl.jaas.config"),
        ({**_IN_JAAS, "sasl_plain_password": SECRET}, "sasl.plain.password has no meaning beside"),
        ({**_LOGIN, "sasl.mechanisms": "SCRAM-SHA-256"}, "sasl.mechanism and sasl.mechanisms are one option"),
        (
            {**_LOGIN, "sasl.password": SECRET, "sasl.username": "a", "sasl.plain.username": "b"},
            "sasl.username and sasl.plain.username are one option",
        ),
        ({**_LOGIN, "sasl.username": "a", "sasl.password": 1.50}, "sasl.password must be a text: put it in quotes"),
        ({**_LOGIN, "sasl.username": "a", "sasl.password": True}, "sasl.password must be a text"),
        ({**_TOKENS, **_ENDPOINT, "oauth_cb": print}, "oauth.cb and .*url are two sources of tokens"),
        ({**_TOKENS, "oauth_cb": "print"}, "oauth_cb is an object of Python"),
        (
            {**_TOKENS, **_ENDPOINT, "https.ca.pem": "x", "https.ca.location": "y"},
            "https.ca.location and https.ca.pem say",
        ),
        ({**_TOKENS, "sasl.oauthbearer.assertion.private.key.file": "x"}, "needs sasl.oauthbearer.token.endpoint.url"),
        ({**_TOKENS, **_ENDPOINT, "sasl.oauthbearer.assertion.claim.iss": "x"}, "claim.iss needs .*private.key.file"),
        (
            {**_TOKENS, **_ENDPOINT, **_KEYS},
            "assertion.private.key.file and sasl.oauthbearer.assertion.private.key.pem say the same",
        ),
        (
            {**_TOKENS, **_ENDPOINT, **_KEY, "sasl.oauthbearer.assertion.algorithm": "HS256"},
            "algorithm must be one of RS256",
        ),
        (
            {**_TOKENS, **_ENDPOINT, **_KEY, "sasl.oauthbearer.assertion.claim.exp.seconds": "soon"},
            "claim.exp.seconds must be a whole number",
        ),
        (
            {**_TOKENS, **_ENDPOINT, **_KEY, "sasl.oauthbearer.assertion.claim.jti.include": "perhaps"},
            "jti.include must be true or false",
        ),
        (
            {**_TOKENS, **_ENDPOINT, "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"},
            "the grant jwt-bearer needs sasl.oauthbearer.assertion.private.key.file",
        ),
        (
            {**_TOKENS, **_ENDPOINT, **_KEY, **_BEARER, "sasl.oauthbearer.grant.type": "client_credentials"},
            "name two grants",
        ),
        ({**_TOKENS, **_ENDPOINT, **_KEY, "sasl.oauthbearer.grant.type": "password"}, "grant.type must be one of"),
        (
            {**_TOKENS, **_ENDPOINT, "sasl.oauthbearer.jwt.retriever.class": f"{_CLASSES}FileJwtRetriever"},
            "must begin with file:",
        ),
        (
            {"security.protocol": "SSL", "ssl_context": _UNCHECKED, "ssl.cafile": "x"},
            "own certificates: remove ssl.cafile",
        ),
        (
            {"security.protocol": "SSL", "ssl_context": _UNCHECKED, "ssl_check_hostname": True},
            "ssl_check_hostname is True, but check_hostname of ssl_context is False",
        ),
        ({**_TOKENS, "oauth_cb": 5}, "oauth_cb must be a function"),
        ({"security.protocol": "SSL", "ssl.context": "x"}, "ssl.context is an object of Python"),
        ({"security.protocol": "SSL", "ssl.certfile": "/c", "ssl_password": 7}, "ssl_password must be a text"),
    ],
)
def test_contradictions(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        Configuration.read(values, environment={})
    assert SECRET not in f"{caught.value!r} {caught.value}"


def test_keys_of_another_mechanism_are_told(caplog: pytest.LogCaptureFixture) -> None:
    values = {**_LOGIN, "sasl.username": "a", "sasl.password": SECRET, "sasl.oauthbearer.scope": "of-none"}
    Configuration.read(values, environment={})
    assert "no effect in this client: sasl.oauthbearer.scope" in caplog.text


def test_an_argument_takes_the_place_of_what_this_client_cannot_make(tmp_path: Path) -> None:
    """The errors about the file of a Java client say so: `give sasl=OAuthBearer(...)`."""
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
        "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
        "ssl.truststore.type=BCFKS\nssl.truststore.location=/x\n"
    )
    sasl = OAuthBearer(lambda: OAuthToken("t", lifetime_s=60))
    with pytest.raises(NoBrokersAvailableError, match="TCP: cannot connect"):
        KafkaClient.from_config(path, sasl=sasl, tls=SslConfig(), socket_timeout_ms=2000)


@pytest.mark.parametrize("key", ["ssl.truststore.location", "ssl.ca.location", "ssl.keystore.location", "ssl_cafile"])
def test_a_file_without_a_name(key: str) -> None:
    """As templates of configurations have them."""
    with pytest.raises(ConfigurationError, match="ssl.* is empty: give a file, or remove the key"):
        Configuration.read({"security.protocol": "SSL", key: ""}, environment={})


def test_the_environment_wins_by_any_name_of_an_option() -> None:
    file = {
        **{"bootstrap.servers": "file:1", "metadata.max.age.ms": "5", "acks": "1"},
        **{**_LOGIN, "sasl.mechanism": "PLAIN", "sasl.username": "file", "sasl.password": SECRET},
        **{"ssl.truststore.location": "/file", "ssl.truststore.type": "PEM"},
    }
    variables = {
        "PYKAFKA_HOSTS": "environment:1",
        "PYKAFKA_REQUIRED_ACKS": "all",
        "PYKAFKA_SASL_MECHANISMS": "SCRAM-SHA-256",
        "PYKAFKA_SASL_PLAIN_PASSWORD": "of-environment",
        "PYKAFKA_SSL_CAFILE": "/environment",
    }
    found = Configuration.read(file, env=True, environment=variables)
    assert (found.client["hosts"], found.producer["required_acks"]) == ("environment:1", -1)
    assert (found.client["metadata_max_age_ms"], found.consumer["metadata_max_age_ms"]) == (5, 5)
    assert found.client["sasl"] == Scram("file", "of-environment", "SCRAM-SHA-256")
    assert found.client["ssl_config"].cafile == "/environment"
