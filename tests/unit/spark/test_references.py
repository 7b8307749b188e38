"""References in options: what tasks carry, what a process resolves, and the sentence where one leads nowhere."""

from __future__ import annotations

import pickle
import platform
from pathlib import Path
from typing import Any

import pytest

from pykafka import Plain, Scram
from pykafka.network.proxies import Proxy
from pykafka.security import SslConfig
from pykafka.spark import session
from pykafka.spark.errors import OptionError, UnresolvedReferenceError
from pykafka.spark.options import check_read, includes_headers, read_options, write_options
from pykafka.spark.optiontable import OPTIONS, Mode, parse
from pykafka.spark.references import RACK, looked_up
from tests.support.secrets import Search

SECRET = 'Pw"of\\alice-8c21'
READ = {"kafka.bootstrap.servers": "localhost:9093", "subscribe": "a"}
LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    "username=alice password=${env:KAFKA_PASSWORD};",
}


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> Search:
    """Set the variable, and return what looks for its value."""
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    return Search(SECRET)


def test_tasks_carry_the_reference_and_the_value_is_found_where_it_is_used(
    secret: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_options({**READ, **LOGIN}, Mode.STREAM_READ)
    written = write_options({"kafka.bootstrap.servers": "localhost:9093", **LOGIN}, Mode.STREAM_WRITE)
    for options in (read, written):
        data = pickle.dumps(options)
        secret.look("pickle", data)
        secret.look("repr", repr(options))
        assert b"${env:KAFKA_PASSWORD}" in data
        client = pickle.loads(data).client
        assert client.sasl is None
        assert client.opened().sasl == Scram("alice", SECRET)
        secret.look("repr", repr(client.opened()))
    assert read.client == written.client
    monkeypatch.setenv("KAFKA_PASSWORD", "another-one")
    assert read.client.opened().sasl == Scram("alice", "another-one")
    assert secret.verdict() == []


def test_files_and_lines_of_files(tmp_path: Path) -> None:
    (tmp_path / "user").write_text("alice\n")
    (tmp_path / "all.properties").write_text("password=of a line\n")
    text = "a.PlainLoginModule required username=${file:%s/user} password=${file:%s:password};"
    login = LOGIN | {
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": text % (tmp_path, tmp_path / "all.properties"),
    }
    assert read_options({**READ, **login}, Mode.BATCH_READ).client.opened().sasl == Plain("alice", "of a line")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_takes_references(option: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference brings the value that would be written."""
    texts = {
        "kafka.bootstrap.servers": "a:1",
        "proxy": "socks5://localhost:1080",
        "assign": '{"a":[0]}',
        "subscribePattern": "a.*",
        **dict.fromkeys(("startingOffsetsByTimestamp", "endingOffsetsByTimestamp"), '{"a":{"0":1}}'),
        **dict.fromkeys(("kafka.ssl.protocol", "kafka.ssl.enabled.protocols"), "TLSv1.3"),
    }
    candidates = [texts.get(option.name, ""), "latest", "true", "100000", "5", "https", "ssl", "zstd", "all", "10000"]
    candidates += ["use_all_dns_ips", "none", "error", "read_committed"]
    mode = next(iter(option.valid))
    value = next(text for text in candidates if text and _taken(option.name, text, mode))
    monkeypatch.setenv("A_VALUE", value)
    expected = parse({option.name: value}, mode)
    found = parse({option.name: "${env:A_VALUE}"}, mode)
    if option.name == RACK:  # a task resolves it
        found[RACK] = looked_up(found[RACK], RACK)
    assert found == expected
    with pytest.raises(UnresolvedReferenceError, match=f"option {option.name} refers to"):
        looked_up(str(parse({option.name: "${env:NO_VALUE}"}, mode)[option.name]), option.name)


def _taken(name: str, text: str, mode: Mode) -> bool:
    try:
        parse({name: text}, mode)
    except OptionError:
        return False
    return True


def test_a_reference_that_leads_nowhere_names_host_and_option(tmp_path: Path) -> None:
    for reference, named in (("${env:NO_SUCH}", "NO_SUCH"), (f"${{file:{tmp_path}/none}}", f"{tmp_path}/none")):
        options = {**READ, **LOGIN, "kafka.sasl.jaas.config": f"x required password=written-out-too b={reference};"}
        with pytest.raises(UnresolvedReferenceError) as refused:
            check_read(options)
        said = str(refused.value)
        assert named in said
        assert "option kafka.sasl.jaas.config" in said
        assert f"by the driver on host {platform.node()!r}" in said
        assert "spark.executorEnv.NAME" in said
        assert "written-out-too" not in said


def test_an_executor_without_the_variable_says_so(secret: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(read_options({**READ, **LOGIN}, Mode.BATCH_READ))
    monkeypatch.delenv("KAFKA_PASSWORD")
    monkeypatch.setattr("pyspark.TaskContext.get", object)
    with pytest.raises(UnresolvedReferenceError) as refused:
        session.cluster_for(pickle.loads(data).client)
    said = str(refused.value)
    assert said.startswith(
        "option kafka.sasl.jaas.config refers to the environment variable KAFKA_PASSWORD, which is not set"
    )
    assert f"by an executor on host {platform.node()!r}" in said
    secret.look_at_error(refused.value)
    assert secret.verdict() == []


@pytest.mark.parametrize(
    "options",
    [
        {"kafka.bootstrap.servers": "${env:KAFKA_PASSWORD}"},
        {"failOnDataLoss": "${env:KAFKA_PASSWORD}"},
        {"subscribe": "${env:KAFKA_PASSWORD}"},
        {"startingOffsets": "${env:KAFKA_PASSWORD}"},
        {"proxy": "${env:KAFKA_PASSWORD}"},
        {**LOGIN, "kafka.sasl.mechanism": "${env:KAFKA_PASSWORD}"},
        {**LOGIN, "kafka.sasl.jaas.config": "${env:KAFKA_PASSWORD}"},
        {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "${env:KAFKA_PASSWORD}"},
        {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.key": "${env:KAFKA_PASSWORD}"},
    ],
    ids=lambda options: next(name for name, text in options.items() if "$" in text),
)
def test_what_a_reference_brings_is_in_no_error(options: dict[str, str], secret: Search) -> None:
    raw = {**READ, "kafka.ssl.truststore.location": "/x"} if options.get("kafka.security.protocol") == "SSL" else READ
    with pytest.raises(OptionError) as refused:
        read_options({**raw, **options}, Mode.BATCH_READ)
    secret.look_at_error(refused.value)
    assert secret.verdict() == []


def test_tls_and_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_PASSWORD", "of-the-key")
    monkeypatch.setenv("PROXY_PASSWORD", "of-the-proxy")
    raw = {
        **READ,
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": "/me.pem",
        "kafka.ssl.key.password": "${env:KEY_PASSWORD}",
        "proxy": "socks5h://me:${env:PROXY_PASSWORD}@gate:1080",
        "kafka.connections.max.idle.ms": "1000",
    }
    client = read_options(raw, Mode.BATCH_READ).client
    data = pickle.dumps(client)
    assert b"of-the" not in data
    opened = pickle.loads(data).opened()
    assert opened.tls.password == "of-the-key"
    assert isinstance(opened.tls.ssl_config(), SslConfig)
    assert isinstance(opened.connections.proxy, Proxy)
    assert opened.connections.connections_max_idle_ms == 1000
    assert "of-the" not in repr(opened)


def test_dollars_that_are_none() -> None:
    text = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a$${b}$c";'
    login = LOGIN | {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": text}
    assert read_options({**READ, **login}, Mode.BATCH_READ).client.opened().sasl == Plain("alice", "a${b}$c")


def test_providers_of_java_that_do_the_same_are_taken() -> None:
    package, told = "org.apache.kafka.common.config.provider", list[str]()
    raw = {
        **READ,
        "kafka.config.providers": "env, file",
        "kafka.config.providers.env.class": f"{package}.EnvVarConfigProvider",
        "kafka.config.providers.file.class": f"{package}.FileConfigProvider",
    }
    parse(raw, Mode.BATCH_READ, told.append)
    assert len(told) == 1
    for wrong in (
        {"kafka.config.providers": "env,vault"},
        {"kafka.config.providers.vault.class": "com.example.VaultProvider"},
        {"kafka.config.providers.env.class": "com.example.VaultProvider"},
        {"kafka.config.providers.file.param.allowed.paths": "/run"},
    ):
        with pytest.raises(OptionError, match="is refused: they are Java classes"):
            parse({**READ, **wrong}, Mode.BATCH_READ)


def test_includes_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADERS", "true")
    assert includes_headers({"includeheaders": "${env:HEADERS}"})


def test_a_renewed_secret_is_used_and_one_that_is_away_for_a_moment_is_missed_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[FakeCluster] = []

    def connected(options: Any) -> FakeCluster:
        made.append(FakeCluster(options.sasl))
        return made[-1]

    monkeypatch.setattr(session, "_connected", connected)
    file = tmp_path / "password"
    file.write_text("first-one")
    login = LOGIN | {
        "kafka.sasl.jaas.config": LOGIN["kafka.sasl.jaas.config"].replace("env:KAFKA_PASSWORD", f"file:{file}")
    }
    client = read_options({**READ, **login}, Mode.BATCH_READ).client
    try:
        first: Any = session.cluster_for(client)
        assert session.cluster_for(client) is first
        file.unlink()
        assert session.cluster_for(client) is first
        file.write_text("second-one")
        second: Any = session.cluster_for(client)
        assert [one.sasl for one in made] == [Scram("alice", "first-one"), Scram("alice", "second-one")]
        assert (first.closed, second.closed) == (True, False)
    finally:
        session.forget(client)
    assert made[-1].closed


@pytest.mark.parametrize(
    "options",
    [
        {"kafka.sasl.jaas.confg": f'a.PlainLoginModule required password="{SECRET}";'},
        {"kafka.ssl.keystore.passwrd": SECRET},
        {"kafka.sasl.password": SECRET},
        {"passwrod": SECRET},
        {"kafka.sasl.mechanism": f'a.PlainLoginModule required password="{SECRET}";'},
        {"kafka.security.protocol": f'a.PlainLoginModule required password="{SECRET}";'},
        {"subscribe": f'a.PlainLoginModule required password="{SECRET}";'},
        {"kafka.bootstrap.servers": f"alice:{SECRET}@there:9092"},
        {"kafka.bootstrap.servers": f"https://alice:{SECRET}@there:9092"},
        {"kafka.ssl.truststore.type": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n"},
        {"proxy": f"http://me:{SECRET}@there:x"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_secrets_under_a_wrong_name_are_in_no_error(options: dict[str, str]) -> None:
    search = Search(SECRET)
    extra = {"kafka.ssl.truststore.location": "/x"} if "kafka.ssl.truststore.type" in options else {}
    for protocol in ("SASL_SSL", "SSL"):
        raw = {"kafka.security.protocol": protocol, **READ, **LOGIN_TEXT[protocol], **extra, **options}
        with pytest.raises(OptionError) as refused:
            read_options(raw, Mode.BATCH_READ)
        search.look_at_error(refused.value)
    assert search.verdict() == []


LOGIN_TEXT: dict[str, dict[str, str]] = {
    "SSL": {},
    "SASL_SSL": {
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": 'a.PlainLoginModule required username="x" password="y";',
    },
}


class FakeCluster:
    """A cluster that only remembers."""

    def __init__(self, sasl: Any) -> None:
        self.sasl = sasl
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_executors_look_their_rack_up(tmp_path: Path) -> None:
    """Executors may be in several racks; the driver, which plans, need not be in one."""
    text = f"${{file:{tmp_path}/rack}}"
    raw = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "kafka.client.rack": text}
    options = read_options(raw, Mode.STREAM_READ)
    assert options.client_rack == text
    with pytest.raises(UnresolvedReferenceError, match="kafka.client.rack refers to the file"):
        looked_up(options.client_rack, RACK)
    (tmp_path / "rack").write_text("north\n")
    assert looked_up(options.client_rack, RACK) == "north"
