"""Java's properties and the files of librdkafka's clients: how they are distinguished, and what each of them keeps."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.common import OffsetType
from pykafka.config import Configuration, configuration, dialects
from pykafka.config.dialects import pairs_of
from pykafka.config.files import read_file
from pykafka.exceptions import ConfigurationError
from pykafka.partitioners import Murmur2Partitioner
from pykafka.security import Plain
from pykafka.spark.pipeline import Declaration, DeclarationError
from tests.brokers.sasl import ODD, escaped

SECRET = "hunter2-do-not-show"
LOGIN = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
JAAS = "sasl.jaas.config=org.example.PlainLoginModule required \\\n  username=me \\\n  password={};\n"
KCAT = ("kcat.conf", "kafkacat.conf", ".kcat.conf", "kcat-prod.conf", "kcat_dev.cfg", "kcat.config", "kcat")
BY_KEYS = ("librdkafka.config", "librdkafka.properties", "app.conf", "app.cfg", "config")


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    """Forget which warnings were logged."""
    configuration.reported_keys.clear()
    dialects._log_changed.cache_clear()


def of_file(tmp_path: Path, name: str, text: str, **variables: str) -> Configuration:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return Configuration.read(path, env=bool(variables), environment=variables)


def refused(tmp_path: Path, name: str, text: str, match: str) -> str:
    """Return the error that a file ends in, which does not show the secret."""
    with pytest.raises(ConfigurationError, match=match) as caught:
        of_file(tmp_path, name, text)
    assert SECRET not in f"{caught.value!r} {caught.value}"
    return str(caught.value)


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("name", [*KCAT, *BY_KEYS])
def test_backslashes_stay(tmp_path: Path, name: str, ends: str) -> None:
    user, password = ODD
    text = f"\ufeff# mine\n{LOGIN}  sasl.username={user}\nsasl.password={password}\t \nssl.ca.location=C:\\certs\\new\\ca.pem\n"
    found = of_file(tmp_path, name, text.replace("\n", ends)).client
    assert found["sasl"] == Plain(user, password)
    assert found["ssl_config"].cafile == "C:\\certs\\new\\ca.pem"


@pytest.mark.parametrize("name", ["client.properties", "java.config", "client.conf", "config"])
def test_javas_escapes_count(tmp_path: Path, name: str) -> None:
    """A JAAS text has escapes of its own."""
    text = "! mine\nclient.id : a\\tb\nssl.truststore.location=/c\\=a\n" + LOGIN
    text += JAAS.format(escaped('"a\\\\b\\"c ä"'))
    found = of_file(tmp_path, name, text).client
    assert found["sasl"] == Plain("me", 'a\\b"c ä')
    assert (found["client_id"], found["ssl_config"].cafile) == ("a\tb", "/c=a")


@given(st.text(st.sampled_from("\\\\\\:=# '\"!$aé\t"), min_size=1))
def test_as_kcat_reads_it(value: str) -> None:
    """Step by step as its program goes; blanks at the end of a line do not count."""
    line = f"sasl.password={value}"
    wanted = line.strip(" \t")
    for escape in ("\\:", "\\="):
        while escape in wanted:
            wanted = wanted.replace(escape, escape[1], 1)
    assert pairs_of(Path("kcat.conf"), line) == {"sasl.password": wanted.partition("=")[2]}


@given(st.text(st.sampled_from("\\\\\\:=# '\"!$aé\tun"), min_size=1))
def test_other_files_of_librdkafka_are_raw(value: str) -> None:
    text = f"sasl.username=me\nsasl.password = {value}\n"
    assert pairs_of(Path("librdkafka.config"), text) == {"sasl.username": "me", "sasl.password": value.strip()}
    assert pairs_of(Path("my.conf"), text) == {"sasl.username": "me", "sasl.password": value.strip()}


def test_a_backslash_that_kcat_leaves_out_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = f"{LOGIN}sasl.username=me\nsasl.password={SECRET}\\=\\x\n"
    for _ in range(2):
        assert of_file(tmp_path, "kcat.conf", text).client["sasl"] == Plain("me", f"{SECRET}=\\x")
    (told,) = [record.getMessage() for record in caplog.records]
    assert "a backslash before ':' or '=' is left out of sasl.password, as kcat does" in told
    assert SECRET not in told


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("client.properties", f"sasl.username=CORP\\tom\nsasl.password={SECRET}", "sasl.username"),
        ("client.properties", f"sasl.username=me\nsasl.password={SECRET}\\", "sasl.password"),
        ("client.properties", f"sasl.username=me\nsasl.password={SECRET}\\\nclient.id=a", "sasl.password"),
        ("client.properties", f"kafka.sasl.password={SECRET}\\d", "kafka.sasl.password"),
        ("client.properties", f"ssl.ca.location=/ca\nssl.key.password={SECRET}\\d", "ssl.key.password"),
        ("mixed.conf", f"ssl.truststore.location=/ca\nsasl.password={SECRET}\\d", "sasl.password"),
        ("shared.conf", f"security.protocol=SSL\nssl.key.password={SECRET}\\d", "ssl.key.password"),
        ("shared.conf", "security.protocol=SSL\nssl.keystore.location=C:\\kafka\\me.p12", "ssl.keystore.location"),
        ("client.properties", "ssl.truststore.location=C:\\certs\\ca.pem", "ssl.truststore.location"),
        ("client.properties", "client.ssl.keystore.location=C:\\new\\me.p12", "client.ssl.keystore.location"),
        ("app.conf", "ssl.truststore.location=C:\\temp\\ca.p12", "ssl.truststore.location"),
        ("lines.conf", f"sasl.username me\nsasl.password {SECRET}\\d", "sasl.password"),
    ],
)
def test_what_either_kind_may_mean_is_refused(tmp_path: Path, name: str, text: str, key: str) -> None:
    refusal = refused(tmp_path, name, text, "which leave out a backslash of .* write two where one belongs")
    assert f" {key} " in refusal


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("sasl.password=a\\\\b\\u00e4\\:\\=\\#\\!\\ ", "sasl.password", "a\\bä:=#! "),
        ("bootstrap.servers=a:1,\\\n  b:2\nsasl.username=me", "bootstrap.servers", "a:1,b:2"),
        ("ssl.truststore.location=/a\nssl.key.password=a\\b", "ssl.key.password", "ab"),
        ("ssl.key.password=a\\b", "ssl.key.password", "ab"),
    ],
)
def test_javas_files_read_as_before(text: str, key: str, value: str) -> None:
    assert pairs_of(Path("client.properties"), text)[key] == value


def test_the_last_of_two_lines_counts(tmp_path: Path) -> None:
    text = "client.id=a\nbootstrap.servers=a\nclient.id=b\n"
    for name in ("kcat.conf", "c.properties"):
        assert of_file(tmp_path, name, text).client == {"hosts": "a", "client_id": "b"}


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("kcat.conf", f"client.id=a\n\n{SECRET}\n", "is not valid, line 3: write key=value"),
        ("kcat.conf", f"={SECRET}", "is not valid, line 1"),
        ("app.conf", f"[default]\nsasl.password={SECRET}", "has sections, as files named .ini have: name it so"),
        ("kcat.conf", f"# a\n[consumer]\nsasl.password={SECRET}", "has sections"),
        ("c.properties", f"[default]\nsasl.password={SECRET}", "has sections"),
        ("secrets.env", f"export KAFKA_PASSWORD={SECRET}", "has the key export, which is unknown; remove it"),
    ],
)
def test_what_is_neither(tmp_path: Path, name: str, text: str, error: str) -> None:
    refused(tmp_path, name, text, error)


def test_a_reference_reads_the_file_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "kcat.conf").write_text("sasl.username=a\\tb\nsasl.password=x\\y\n")
    (tmp_path / "secrets.properties").write_text("sasl.password=a\\y\npw=x\\\\y\n")
    values = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}

    def read(user: str, password: str) -> Any:
        references = {
            "sasl.username": f"${{file:{tmp_path}/{user}}}",
            "sasl.password": f"${{file:{tmp_path}/{password}}}",
        }
        return Configuration.read(values | references, environment={}).client["sasl"]

    assert read("kcat.conf:sasl.username", "kcat.conf:sasl.password") == Plain("a\\tb", "x\\y")
    assert read("kcat.conf:sasl.username", "secrets.properties:pw") == Plain("a\\tb", "x\\y")
    with pytest.raises(ConfigurationError, match=r"leave out a backslash of sasl\.password"):
        read("kcat.conf:sasl.username", "secrets.properties:sasl.password")


# -- keys of topics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "producer", "consumer"),
    [
        ("topic.acks=1", {"required_acks": 1}, {}),
        ("topic.request.required.acks=-1", {"required_acks": -1}, {}),
        ("topic.delivery.timeout.ms=7", {"delivery_timeout_ms": 7}, {}),
        ("topic.request.timeout.ms=7", {"ack_timeout_ms": 7}, {}),
        ("topic.compression.codec=inherit\ncompression.codec=lz4\ncompression.level=3", {"compression_level": 3}, {}),
        ("topic.auto.offset.reset=smallest", {}, {"auto_offset_reset": OffsetType.EARLIEST}),
        ("topic.auto.commit.enable=false", {}, {"auto_commit_enable": False}),
        # kcat sets both on one object: the last line counts.
        ("acks=1\ntopic.acks=all", {"required_acks": -1}, {}),
        ("topic.acks=all\nacks=1", {"required_acks": 1}, {}),
        ("topic.acks=all\nrequest.required.acks=1", {"required_acks": 1}, {}),
        ("acks=0\ntopic.acks=all\nacks=1", {"required_acks": 1}, {}),
        # This is no property of topics, in spite of its name.
        ("topic.metadata.refresh.interval.ms=7", {}, {"metadata_max_age_ms": 7}),
    ],
)
def test_keys_of_topics(tmp_path: Path, text: str, producer: dict[str, Any], consumer: dict[str, Any]) -> None:
    found = of_file(tmp_path, "kcat.conf", text)
    assert found.producer.items() >= producer.items()
    assert found.consumer == consumer


def test_keys_of_topics_elsewhere(tmp_path: Path) -> None:
    found = of_file(tmp_path, "c.toml", '[topic]\nacks = 1\npartitioner = "murmur2_random"\n')
    assert isinstance(found.producer.pop("partitioner"), Murmur2Partitioner)
    assert found.producer == {"required_acks": 1}
    dictionary = {"default.topic.config": {"request.timeout.ms": 5, "offset.store.method": "broker"}}
    assert Configuration.read(dictionary, environment={}).producer == {"ack_timeout_ms": 5}
    assert of_file(tmp_path, "kcat.conf", "topic.acks=1\n", PYKAFKA_ACKS="all").producer == {"required_acks": -1}
    assert of_file(tmp_path, "kcat.conf", "acks=1\n", PYKAFKA_TOPIC_ACKS="all").producer == {"required_acks": -1}


def test_keys_of_topics_that_cannot_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    of_file(tmp_path, "kcat.conf", "bootstrap.servers=a\ntopic.ackss=1\ntopic.name=orders\ntopic.transactional.id=a")
    assert caplog.messages[-1].endswith(
        "unknown: topic.ackss (did you mean topic.acks?), topic.name, topic.transactional.id"
    )
    with pytest.raises(ConfigurationError, match="topic.acks must be one of all"):
        of_file(tmp_path, "kcat.conf", "topic.acks=some")
    with pytest.raises(ConfigurationError, match="acks and required_acks are one option, with two values"):
        of_file(tmp_path, "kcat.conf", "acks=1\nrequired_acks=0")
    of_file(tmp_path, "kcat.conf", "bootstrap.servers=a\ntopic.queuing.strategy=fifo\ntopic.linger.ms=5")
    assert caplog.messages[-1].endswith("no effect in this client: topic.queuing.strategy; unknown: topic.linger.ms")


# -- keys without effect ---------------------------------------------------------------------------------------------


def test_one_warning_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = f"bootstrap.servers=a\nkey.serializer={SECRET}\nmy.own.key={SECRET}\nthe.second=1\n"
    for name in ("one.properties", "two.properties", "one.properties"):
        of_file(tmp_path, name, text)
    assert [record.getMessage() for record in caplog.records] == [
        f"configuration {str(tmp_path / name)!r}: no effect in this client: key.serializer; unknown: my.own.key, the.second"
        for name in ("one.properties", "two.properties")
    ]
    assert SECRET not in caplog.text
    of_file(tmp_path, "one.properties", text + "third.one=1\n")
    assert caplog.messages[-1].endswith("no effect in this client: unknown: third.one")


def test_lines_of_a_private_key_are_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As they are when the backslashes that join lines are missing."""
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    token = f"eyJhbGciOiJSUzI1NiJ9.{line}.{line}"
    of_file(tmp_path, "c.properties", f"bootstrap.servers=a:1\nmy.own.key=1\n{line}\n{token}\n{SECRET}\n")
    assert caplog.messages[-1].endswith(
        "unknown: my.own.key, lines that are no keys, and are not shown as they may be parts of values"
    )
    with pytest.raises(ConfigurationError, match="lines that are no keys") as caught:
        of_file(tmp_path, "d.properties", f"{line}\n{SECRET}\n")
    for text in (line, token, SECRET):
        assert text not in f"{caplog.text} {caught.value}"


def test_a_word_alone_on_a_line_is_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be the password, on the line after that of its key."""
    word = "correcthorsebatterystaple"
    of_file(tmp_path, "c.properties", f"bootstrap.servers=a:1\nmy.own.key=\ndebug=\nname=mine\n{word}\n")
    assert "no effect in this client: debug; unknown: my.own.key, name, lines that are no keys" in caplog.messages[-1]
    with pytest.raises(ConfigurationError, match="lines that are no keys") as caught:
        of_file(tmp_path, "d.properties", f"{word}\n")
    file = tmp_path / "p.toml"
    source = f'[source]\nconfig = "{tmp_path}/c.properties"\ntopic = "a"\n'
    file.write_text(f'checkpoint = "/c"\n{source}[sink]\nformat = "parquet"\npath = "/d"\n')
    Declaration.load(file)
    assert word not in f"{caplog.text} {caught.value}"


def test_what_was_told_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "REPORTED_MAX", 10)
    for number in range(100):
        Configuration.read({"bootstrap.servers": "a", f"key.number.{number}": 1}, environment={})
    assert len(configuration.reported_keys) < 20


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"security.providers": "a.B"}, "security.providers cannot be used: they are Java classes"),
        (
            {"producer.ssl.engine.factory.class": "a.B"},
            "producer.ssl.engine.factory.class cannot be used: it is a Java class",
        ),
        ({"ssl.provider": "BCJSSE"}, "ssl.provider cannot be used: TLS is that of Python's OpenSSL"),
        ({"ssl.providers": "fips"}, "ssl.providers cannot be used"),
        ({"ssl.engine.id": "pkcs11"}, "ssl.engine.id cannot be used: no engines of OpenSSL"),
        ({"ssl.curves.list": "P-521"}, "ssl.curves.list cannot be used: curves and signatures are those of OpenSSL"),
        ({"ssl.sigalgs.list": "x"}, "ssl.sigalgs.list cannot be used"),
        ({"sasl.login.class": "a.B"}, "sasl.login.class cannot be used: it is a Java class"),
        ({"sasl.oauthbearer.jwt.retriever.class": "a.B"}, "retriever.class cannot be used: it is a Java class"),
        (
            {"ssl.ca": "/ca", "bootstrap.servers": "a"},
            "ssl.ca cannot be used: it is an object of C; give ssl.ca.location",
        ),
        ({"ssl.enabled": "true", "bootstrap.servers": "a"}, "ssl.enabled, which is unknown; it is about TLS or logins"),
        ({"kafka.sasl.user": SECRET, "bootstrap.servers": "a"}, "kafka.sasl.user, which is unknown; it is about TLS"),
        (
            {"security.mode": "x", "bootstrap.servers": "a"},
            "security.mode, which is unknown; it is about TLS or logins",
        ),
        ({"brokers": "b:1", "acks": "1"}, "names brokers as brokers and not as bootstrap.servers"),
        ({"kafka.broker.list": "b:1", "acks": "1"}, "names brokers as kafka.broker.list and not as bootstrap.servers"),
        ({"bootstrap.servers": "a", "security.protocl": "SASL_SSL"}, "did you mean security.protocol?"),
        ({"bootstrap.servers": "a", "my.own.key": 1, "isolation.levl": "x"}, "did you mean isolation.level?"),
        ({"producer.security.protocol": "SSL", "security.protocol": "PLAINTEXT"}, "write it without 'producer'"),
        ({"admin.sasl.jaas.config": SECRET, "bootstrap.servers": "a"}, "admin.sasl.jaas.config, .* without 'admin'"),
        ({"my.own.key": 1, "the.second": 2}, "has the key my.own.key, which is unknown; remove it"),
        ({"west.bootstrap.servers": "a", "acks": "1"}, "names brokers as west.bootstrap.servers and not as"),
    ],
)
def test_what_must_not_be_without_effect_is_refused(values: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error) as caught:
        Configuration.read(values, environment={})
    assert SECRET not in str(caught.value)


def test_what_says_what_is_so_in_any_case() -> None:
    values = {
        "security.providers": "",
        "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
        "ssl.provider": "SunJSSE",
        "ssl.cipher.suites": "",
        "security.protocol": "SSL",
        "consumer.security.protocol": "SSL",
        "admin.request.timeout.ms": 5,
        "west.bootstrap.servers": "b",
        "brokers": "3",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.client.auth": "required",
        "bootstrap.servers": "a",
    }
    found = Configuration.read(values, environment={}).client
    assert (found["hosts"], found["ssl_config"].ciphers) == ("a", None)
    del values["bootstrap.servers"]
    assert Configuration.read(values, environment={}, hosts="c:1").client.keys() == {"ssl_config"}


@pytest.mark.parametrize("whole", ["client.", "kafka.", ""])
def test_parts_may_repeat_the_connection(whole: str) -> None:
    shared = {"bootstrap.servers": "a:1", "security.protocol": "SSL", "request.timeout.ms": 5}
    values = {f"{part}{key}": value for part in (whole, "producer.", "consumer.") for key, value in shared.items()}
    assert Configuration.read(values, environment={}).client.keys() == {"hosts", "ssl_config", "socket_timeout_ms"}
    with pytest.raises(ConfigurationError, match="write it without 'consumer'"):
        Configuration.read(values | {"consumer.bootstrap.servers": "b:1"}, environment={})


def test_what_an_argument_replaces_is_not_refused(caplog: pytest.LogCaptureFixture) -> None:
    """The sentences of refusals say so: `give KafkaClient sasl=...`."""
    values = {
        "bootstrap.servers": "a",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.class": "a.B",
        "sasl.oauthbearer.assertion.file": "/a",
        "java.security.auth.login.config": "/jaas",
        "producer.sasl.jaas.config": SECRET,
        "sasl.my.own": "1",
    }
    own = {
        "ssl.engine.factory.class": "a.B",
        "security.providers": "a.B",
        "ssl.curves.list": "P-521",
        "ssl.my.own": "1",
    }
    for chosen, replaced in ((values, ["sasl"]), (own, ["ssl_config"]), (values | own, ["sasl", "ssl_config"])):
        Configuration.read({**chosen, "bootstrap.servers": "a"}, environment={}, replaced=replaced)
        with pytest.raises(ConfigurationError, match="cannot be used|unknown"):
            Configuration.read({**chosen, "bootstrap.servers": "a"}, environment={}, replaced=replaced[:-1])
    assert "ssl.my.own" in caplog.text


# -- pipelines -------------------------------------------------------------------------------------------------------


def test_a_pipeline_takes_the_same_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def options(text: str) -> Any:
        (tmp_path / "kcat.conf").write_text(text)
        file = tmp_path / "p.toml"
        source = f'[source]\nconfig = "{tmp_path}/kcat.conf"\ntopic = "a"\n'
        file.write_text(f'checkpoint = "/c"\n{source}[sink]\nformat = "parquet"\npath = "/d"\n')
        return Declaration.load(file).inputs[0].source.options

    base = "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=CORP\\tom\n"
    found = options(base + "sasl.password=p\\w\ntopic.acks=1\nmy.own.key=1\ndebug=all\nsecurity.providers=\n")
    assert 'username="CORP\\\\tom" password="p\\\\w"' in found["kafka.sasl.jaas.config"]
    assert not {name for name in found if "own" in name or "topic" in name or "providers" in name}
    assert caplog.messages[-1].endswith("no effect in this client: debug, security.providers; unknown: my.own.key")
    repeated = options("bootstrap.servers=a:1\nsecurity.protocol=SSL\nproducer.security.protocol=SSL\n")
    assert repeated["kafka.security.protocol"] == "SSL"
    for line, error in (
        ("linger.mss=5", "did you mean linger.ms"),
        ("security.providers=a.B", "they are Java classes"),
    ):
        with pytest.raises(DeclarationError, match=error):
            options(f"bootstrap.servers=a:1\n{line}\n")


def test_a_file_is_read_once_more_without_a_second_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "kcat.conf"
    path.write_text("sasl.password=a\\=b\n")
    with caplog.at_level(logging.WARNING):
        assert read_file(path) == read_file(path) == {"sasl.password": "a=b"}
    assert len(caplog.records) == 1
