"""Every key of the table takes effect: the option that it names changes, in the way that the key says."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import CompressionType, OffsetType
from pykafka.compat.options import GroupOptions, ZooKeeperOptions
from pykafka.config import Configuration
from pykafka.config.keys import LEVELS, MAX_INT32, PROTOCOL, SASL, TLS, flag, is_ignored, number, targets, why_refused
from pykafka.consumer.options import ConsumerOptions
from pykafka.exceptions import ConfigurationError
from pykafka.groups.options import MemberOptions
from pykafka.handlers import ThreadingHandler
from pykafka.membershipprotocol import RoundRobinProtocol
from pykafka.metadata.options import MetadataSettings
from pykafka.network.options import CANONICAL, ConnectionSettings
from pykafka.partitioners import Murmur2Partitioner
from pykafka.producer.options import ProducerOptions
from pykafka.security import OAuthBearer, SslConfig
from pykafka.security.java_sasl import CALLBACKS

SECRET = "hunter2-do-not-show"
PEM = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nQQ==\n-----END PRIVATE KEY-----\n"
URL = "sasl.oauthbearer.token.endpoint.url"


def read(values: dict[str, Any]) -> Configuration:
    return Configuration.read(values, environment={})


#: Values of options whose type does not say what they may be: (in the configuration, for the option).
VALUES: dict[str, tuple[Any, Any]] = {
    "compression": ("lz4", CompressionType.LZ4),
    "required_acks": ("all", -1),
    "auto_offset_reset": ("latest", OffsetType.LATEST),
    "partitioner": ("murmur2", Murmur2Partitioner),
    "membership_protocol": ("roundrobin", RoundRobinProtocol),
    "protocol": ("CONSUMER", "consumer"),
    "assignor": ("uniform", "uniform"),
    "client_dns_lookup": (CANONICAL, CANONICAL),
    "metadata_recovery_strategy": ("none", "none"),
    "compression_level": ("7", 7),
    "ssl_config": (SslConfig("/ca"), None),
    "tls": (SslConfig("/ca"), None),
}
KINDS = (
    ConnectionSettings,
    MetadataSettings,
    ProducerOptions,
    ConsumerOptions,
    GroupOptions,
    MemberOptions,
    ZooKeeperOptions,
)
DEFAULTS = {row.name: row.default for kind in KINDS for row in kind.rows()}
OPTIONS = [
    (key, target)
    for key, aimed in targets().items()
    for target in aimed
    if target.section not in {"tls", "sasl", "levels"}
]


@pytest.mark.parametrize(("key", "target"), OPTIONS, ids=[f"{key}-{target.section}" for key, target in OPTIONS])
def test_of_options(key: str, target: Any) -> None:
    default = DEFAULTS.get(target.name)
    if target.name in VALUES:
        given, wanted = VALUES[target.name]
    elif target.parse is flag:
        given, wanted = str(default is not True).lower(), default is not True
    elif "factor" in getattr(target.parse, "keywords", {}):
        given, wanted = "7", 7168  # KiB
    elif target.parse is number or isinstance(default, int):
        given, wanted = "7", 7
    elif target.parse.__name__ == "_object":
        given = wanted = object()
    else:
        given = wanted = "of-a-test"
    found = getattr(read({key: given}), target.section)[{"tls": "ssl_config"}.get(target.name, target.name)]
    wanted = given if wanted is None else wanted
    assert found == wanted or type(found) is wanted
    assert found != default
    if target.section == "client":
        assert target.name in inspect.signature(KafkaClient).parameters


@pytest.mark.parametrize("key", LEVELS)
def test_of_levels(key: str) -> None:
    codec = key.split(".")[1]
    assert read({key: "4", "compression.type": codec}).producer["compression_level"] == 4
    assert "compression_level" not in read({key: "4", "compression.type": "snappy"}).producer


@pytest.mark.parametrize("key", ["compression.level", "compression.gzip.level"])
def test_a_codec_of_its_own_level(key: str) -> None:
    assert read({key: "-1", "compression.type": "gzip"}).producer == {"compression": CompressionType.GZIP}


def test_zstd_has_levels_below_zero() -> None:
    assert read({"compression.zstd.level": -1, "compression.type": "zstd"}).producer["compression_level"] == -1


@pytest.mark.parametrize(
    ("key", "value"), [("sasl.mechanism", "PLAIN"), ("sasl.mechanisms", "PLAIN"), ("ssl.check.hostname", True)]
)
def test_what_says_nothing_without_tls_and_sasl(key: str, value: Any) -> None:
    assert read({key: value}).client == {}


@pytest.mark.parametrize("key", ["delivery.timeout.ms", "message.timeout.ms"])
def test_a_delivery_without_end(key: str) -> None:
    assert read({key: 0}).producer == {"delivery_timeout_ms": MAX_INT32}


_STORE = {"ssl.keystore.location": "/me.p12", "ssl.truststore.location": "/ca.p12"}
_CHAIN = {"ssl.keystore.type": "PEM", "ssl.keystore.key": KEY, "ssl.keystore.certificate.chain": PEM}
_CERTIFICATE = {"ssl.certificate.location": "/me.pem"}
#: {key: (what else there is, its value, the parameter of SslConfig that it changes)}
CERTIFICATES: dict[str, tuple[dict[str, str], Any, str]] = {
    "ssl.truststore.location": ({}, "/ca.p12", "cafile"),
    "ssl.truststore.password": (_STORE, SECRET, "ca_password"),
    "ssl.truststore.certificates": ({"ssl.truststore.type": "PEM"}, PEM, "cafile"),
    "ssl.keystore.location": ({}, "/me.p12", "certfile"),
    "ssl.keystore.password": (_STORE, SECRET, "password"),
    "ssl.keystore.key": ({**_CHAIN, "ssl.keystore.key": KEY * 2}, KEY, "certfile"),
    "ssl.keystore.certificate.chain": ({**_CHAIN, "ssl.keystore.certificate.chain": PEM * 2}, PEM, "certfile"),
    "ssl.key.password": (_STORE, SECRET, "password"),
    "ssl.endpoint.identification.algorithm": ({}, "", "check_hostname"),
    "ssl.protocol": ({}, "TLSv1.2", "versions"),
    "ssl.enabled.protocols": ({}, "TLSv1.3", "versions"),
    "ssl.cipher.suites": ({}, "ECDHE", "ciphers"),
    "ssl.ca.location": ({}, "/ca.pem", "cafile"),
    "ssl.ca.pem": ({}, PEM, "cafile"),
    "ssl.certificate.location": ({}, "/me.pem", "certfile"),
    "ssl.certificate.pem": ({}, PEM, "certfile"),
    "ssl.key.location": (_CERTIFICATE, "/me.key", "keyfile"),
    "ssl.key.pem": (_CERTIFICATE, KEY, "keyfile"),
    "ssl.crl.location": ({}, "/crl", "crlfile"),
    "enable.ssl.certificate.verification": ({}, "false", "verify"),
    "ssl.cafile": ({}, "/ca.pem", "cafile"),
    "ssl.certfile": ({}, "/me.pem", "certfile"),
    "ssl.keyfile": (_CERTIFICATE, "/me.key", "keyfile"),
    "ssl.password": (_CERTIFICATE, SECRET, "password"),
    "ssl.check.hostname": ({}, "false", "check_hostname"),
    "ssl.crlfile": ({}, "/crl", "crlfile"),
    "ssl.ciphers": ({}, "ECDHE", "ciphers"),
}
#: Those that change no parameter: an object that takes the place of all, and the types that other values must fit.
OF_THEIR_OWN = {"ssl.context", "ssl.truststore.type", "ssl.keystore.type"}


def tls(values: dict[str, Any]) -> dict[str, Any]:
    config: SslConfig = read({PROTOCOL: "SSL", **values}).client["ssl_config"]
    return vars(config)


@pytest.mark.parametrize("key", sorted(TLS - OF_THEIR_OWN))
def test_of_certificates(key: str) -> None:
    others, value, parameter = CERTIFICATES[key]
    assert tls(others)[parameter] != tls({**others, key: value})[parameter]


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_the_type_of_a_store_is_checked(store: str) -> None:
    with pytest.raises(ConfigurationError, match=f"ssl.{store}.type"):
        tls({**_STORE, f"ssl.{store}.type": "BCFKS"})


def _token(config: str | None) -> tuple[Any, ...]:
    return (f"token-of-{config}", 4e9, "principal", {"cluster": "a"})


def _other_token(config: str | None) -> tuple[Any, ...]:
    return ("other", 4e9)


_PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": SECRET}
_OTHER_PLAIN = {"sasl.mechanism": "PLAIN", "sasl.plain.username": "me", "sasl.plain.password": SECRET}
_OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    URL: "https://idp.example/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": SECRET,
}
_JAVA_OIDC = {
    key.replace("oauthbearer.client", "oauthbearer.client.credentials.client"): value for key, value in _OIDC.items()
}
#: Without a secret.
_ASSERTION = {
    "sasl.mechanism": "OAUTHBEARER",
    URL: "https://idp.example/token",
    "sasl.oauthbearer.assertion.private.key.file": "/k.pem",
}
_CALLBACK = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": _token}
_KERBEROS = {"sasl.mechanism": "GSSAPI"}
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: {key: (what else there is, another value)}
CREDENTIALS: dict[str, tuple[dict[str, Any], Any]] = {
    PROTOCOL: ({}, "SASL_SSL"),
    "sasl.mechanism": (_PLAIN, "SCRAM-SHA-256"),
    "sasl.mechanisms": ({"sasl.mechanisms": "PLAIN", "sasl.username": "me", "sasl.password": SECRET}, "SCRAM-SHA-512"),
    "sasl.jaas.config": (
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{_MODULE} username="a" password="b";'},
        f'{_MODULE} username="c" password="b";',
    ),
    "sasl.username": (_PLAIN, "other"),
    "sasl.password": (_PLAIN, "other"),
    "sasl.plain.username": (_OTHER_PLAIN, "other"),
    "sasl.plain.password": (_OTHER_PLAIN, "other"),
    URL: (_OIDC, "https://idp.example/other"),
    "sasl.oauthbearer.client.id": (_OIDC, "other"),
    "sasl.oauthbearer.client.secret": (_OIDC, "other"),
    "sasl.oauthbearer.client.credentials.client.id": (_JAVA_OIDC, "other"),
    "sasl.oauthbearer.client.credentials.client.secret": (_JAVA_OIDC, "other"),
    "sasl.oauthbearer.scope": (_OIDC, "other"),
    "sasl.oauthbearer.extensions": (_OIDC, "a=b"),
    "sasl.oauthbearer.header.urlencode": (_OIDC, "true"),
    "https.ca.location": (_OIDC, "/ca.pem"),
    "https.ca.pem": (_OIDC, PEM),
    "oauth.cb": (_CALLBACK, _other_token),
    "sasl.oauthbearer.config": (_CALLBACK, "other"),
    "sasl.oauthbearer.metadata.authentication.type": (
        {**_OIDC, "sasl.oauthbearer.config": "query=resource=r"},
        "azure_imds",
    ),
    "sasl.oauth.token.provider": (
        {"sasl.mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: "t"},
        lambda: "u",
    ),
    "sasl.oauthbearer.grant.type": (_ASSERTION, "urn:ietf:params:oauth:grant-type:jwt-bearer"),
    "sasl.oauthbearer.jwt.retriever.class": (
        _ASSERTION,
        "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
    ),
    "sasl.oauthbearer.assertion.file": (_JAVA_OIDC, "/a.jwt"),
    "sasl.oauthbearer.assertion.private.key.file": (_JAVA_OIDC, "/key.pem"),
    "sasl.oauthbearer.assertion.private.key.pem": (_JAVA_OIDC, "-----BEGIN PRIVATE KEY-----"),
    "sasl.oauthbearer.assertion.private.key.passphrase": (_ASSERTION, SECRET),
    "sasl.oauthbearer.assertion.algorithm": (_ASSERTION, "ES256"),
    "sasl.oauthbearer.assertion.template.file": (_ASSERTION, "/template.json"),
    "sasl.oauthbearer.assertion.jwt.template.file": (_ASSERTION, "/template.json"),
    "sasl.oauthbearer.assertion.claim.aud": (_ASSERTION, "other"),
    "sasl.oauthbearer.assertion.claim.iss": (_ASSERTION, "other"),
    "sasl.oauthbearer.assertion.claim.sub": (_ASSERTION, "other"),
    "sasl.oauthbearer.assertion.claim.exp.seconds": (_ASSERTION, "10"),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": (_ASSERTION, 10),
    "sasl.oauthbearer.assertion.claim.jti.include": (_ASSERTION, "true"),
    "sasl.kerberos.service.name": (_KERBEROS, "other"),
    "sasl.kerberos.domain.name": (_KERBEROS, "host.example"),
    "sasl.kerberos.principal": (_KERBEROS, "me@EXAMPLE"),
    "sasl.kerberos.keytab": ({**_KERBEROS, "sasl.kerberos.principal": "me@EXAMPLE"}, "/etc/me.keytab"),
}


def state(value: Any) -> Any:
    """Return what an object consists of, for a comparison."""
    if type(value).__module__.startswith("pykafka.") and hasattr(value, "__dict__"):
        return type(value).__name__, {name: state(one) for name, one in vars(value).items()}
    return value


@pytest.fixture
def with_gssapi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the package of `Gssapi`."""
    monkeypatch.setattr("pykafka.security.kerberos._library", lambda: None)


#: The classes have tests of their own: test_callback_classes.py.
@pytest.mark.parametrize("key", sorted((SASL | {PROTOCOL}) - {"sasl.oauthbearer.method", *CALLBACKS}))
def test_of_credentials(key: str, with_gssapi: None) -> None:
    others, value = CREDENTIALS[key]
    written = next((one for one in others if one.replace("_", ".") == key), key)
    base = {PROTOCOL: "SASL_PLAINTEXT", **(others or _PLAIN)}
    before = read(base).client
    after = read({**base, written: value}).client
    assert [state(one) for one in before.values()] != [state(one) for one in after.values()]


def test_the_method_of_oauthbearer() -> None:
    base = {PROTOCOL: "SASL_SSL", **_OIDC}
    assert isinstance(read({**base, "sasl.oauthbearer.method": "oidc"}).client["sasl"], OAuthBearer)
    with pytest.raises(ConfigurationError, match="sasl.oauthbearer.method is default, but"):
        read({**base, "sasl.oauthbearer.method": "default"})
    with pytest.raises(ConfigurationError, match="sasl.oauthbearer.method must be oidc or default"):
        read({**base, "sasl.oauthbearer.method": "azure"})


def test_tokens_of_a_callback() -> None:
    """As confluent-kafka calls it: with the configuration; the principal and the extensions may be missing."""
    sasl = read({PROTOCOL: "SASL_SSL", **_CALLBACK, "sasl.oauthbearer.config": "ab"}).client["sasl"]
    assert sasl.get(ThreadingHandler()) == ("token-of-ab", 4e9, {"cluster": "a"})
    assert "oauth_cb" in repr(sasl)
    short = read({PROTOCOL: "SASL_SSL", **_CALLBACK, "oauth_cb": lambda config: ("t", 4e9)}).client["sasl"]
    assert short.get(ThreadingHandler()) == ("t", 4e9, {})


#: What is nearly a key of this client, where a family of keys has no effect.
@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("connections.max.idle.mss", "connections.max.idle.ms"),
        ("sasl.oauthbearer.scop", "sasl.oauthbearer.scope"),
        ("sasl.oauthbearer.token.endpoint.uri", URL),
        ("sasl.kerberos.keytabs", "sasl.kerberos.keytab"),
        ("socket.timeout.m", "socket.timeout.ms"),
        ("queue.buffering.max.message", "queue.buffering.max.messages"),
        ("producer.linger.mss", "producer.linger.ms"),
        ("consumer.isolation.levl", "consumer.isolation.level"),
        ("producer.request.timeout.m", "request.timeout.ms"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("client.rak", "client.rack"),
        ("ack", "acks"),  # alone
    ],
)
def test_a_misspelt_key_is_none_without_effect(key: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key}, which is unknown; did you mean {meant}"):
        read({key: "1"})


def test_a_word_that_is_nearly_one_of_ours_may_be_of_other_software(caplog: pytest.LogCaptureFixture) -> None:
    base = {"bootstrap.servers": "a:1"}
    words = ("host", "ack", "loops", "kafka.host", "producer.ack", "clientid")
    assert read(base | dict.fromkeys(words, "1")).client == {"hosts": "a:1"}
    for hint in ("host (did you mean hosts?)", "producer.ack (did you mean producer.acks?)"):
        assert hint in caplog.messages[-1]
    with pytest.raises(ConfigurationError, match="names brokers as host and not as bootstrap.servers"):
        read({"host": "a:1", "acks": "1"})


@pytest.mark.parametrize(("value", "wanted"), [("0.5", 1), (0.5, 1), ("5.0", 5), (5, 5), ("0", 0), ("0.0", 0)])
def test_linger_may_be_a_part_of_a_millisecond(value: Any, wanted: int) -> None:
    """As librdkafka has it."""
    for key in ("linger.ms", "queue.buffering.max.ms"):
        assert read({key: value}).producer == {"linger_ms": wanted}


@pytest.mark.parametrize("value", ["5ms", "-0.5", "1e3", "nan", "5.", True, float("inf")])
def test_linger_that_is_no_number(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="linger.ms must be a whole number"):
        read({"linger.ms": value})


def test_no_transaction_is_taken() -> None:
    """librdkafka's default."""
    assert read({"transactional.id": "", "acks": "1"}).producer == {"required_acks": 1}


def test_what_stands_before_a_key_of_another_client() -> None:
    assert is_ignored("producer.batch.size")
    assert is_ignored("kafka.key.serializer")
    assert is_ignored("consumer.max.poll.records")
    assert why_refused("producer.transactional.id")
    with pytest.raises(
        ConfigurationError, match="producer.security.protocol, which is unknown; write it without 'producer'"
    ):
        read({"producer.security.protocol": "SSL"})


@pytest.mark.parametrize("section", ["client", "kafka"])
def test_secrets_of_two_sections_do_not_replace_each_other(section: str) -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "a"}
    with pytest.raises(ConfigurationError, match="are one option, with two values") as raised:
        read({**login, f"{section}.sasl.password": "b"})
    assert f"{section}.sasl.password" in str(raised.value)
    assert read({**login, f"{section}.sasl.password": "a"}).client["sasl"].username == "me"


@pytest.mark.parametrize("name", ["CONSUMER_METADATA_MAX_AGE_MS", "TOPIC_METADATA_REFRESH_INTERVAL_MS"])
def test_a_variable_wins_over_a_part_of_a_key(name: str) -> None:
    found = Configuration.read({"metadata.max.age.ms": 5}, env=True, environment={f"PYKAFKA_{name}": "7"})
    assert found.client == {"metadata_max_age_ms": 5}
    assert found.consumer == {"metadata_max_age_ms": 7}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.toml", '"consumer.group.id" = "a"\n[consumer]\n"group.id" = "b"\n'),
        ("c.json", '{"consumer.group.id": "a", "consumer": {"group.id": "b"}}'),
        ("c.ini", "[default]\nconsumer.group.id=a\n[consumer]\ngroup.id=b\n"),
        ("c.ini", "[default]\ngroup.id=a\n[DEFAULT]\ngroup.id=b\n"),
    ],
)
def test_a_key_and_a_table_do_not_replace_each_other(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"group\.id is there twice, with two values"):
        Configuration.read(path, environment={})


@pytest.mark.parametrize(
    ("values", "protocol"),
    [
        ({"group.id": "g"}, "classic"),
        ({"group_id": "g"}, "classic"),
        ({"consumer.group.id": "g"}, "classic"),
        ({"group.id": "g", "group.protocol": "consumer"}, "consumer"),
        ({"group.id": "g", "protocol": "auto"}, "auto"),
        ({"consumer_group": "g"}, None),
        ({"client.id": "c"}, None),
    ],
)
def test_a_group_named_as_others_do_has_their_default_protocol(values: dict[str, Any], protocol: str | None) -> None:
    """Java's client, librdkafka and kafka-python take part by the classic protocol unless `group.protocol` says otherwise."""
    assert read({"bootstrap.servers": "a", **values}).consumer.get("protocol") == protocol
