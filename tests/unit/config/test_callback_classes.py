"""Configurations that name callback classes of Java's clients for AWS MSK and Azure Event Hubs: the client logs in by them."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.options import session_of
from pykafka.config import Configuration
from pykafka.exceptions import ConfigurationError
from pykafka.handlers import Handler
from pykafka.security import OAuthBearer, Plain
from pykafka.security.java_sasl import EntraId
from pykafka.spark.pipeline import Declaration, DeclarationError
from tests.support.sasl import SaslBroker

CLASS, LOGIN_CLASS = "sasl.client.callback.handler.class", "sasl.login.callback.handler.class"
#: As the documentation of AWS has it.
MSK = {
    "bootstrap.servers": "b-1.mine.a1b2c3.c2.kafka.eu-north-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    CLASS: "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
MSK_OAUTH = {
    **{key: text for key, text in MSK.items() if key != CLASS},
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'awsProfileName="prod";',
    LOGIN_CLASS: "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
}
PLAIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";',
}


def module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """Put a stand-in where a package would be."""
    made = ModuleType(name)
    vars(made).update(members)
    monkeypatch.setitem(sys.modules, name, made)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Put a stand-in where the package of AWS would be; return the list of what it was asked for."""
    found: list[tuple[str, ...]] = []

    def made(*arguments: str) -> tuple[str, int]:
        found.append(arguments)
        return "signed-token", int(time.time() * 1000) + 900_000

    provider = SimpleNamespace(generate_auth_token=made, generate_auth_token_from_profile=made)
    module(monkeypatch, "aws_msk_iam_sasl_signer", MSKAuthTokenProvider=provider)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    return found


def read(values: dict[str, str]) -> Any:
    """Return the credentials of a configuration."""
    return Configuration.read(values, environment={}).client["sasl"]


def written(path: Path, values: dict[str, str]) -> Path:
    """Write a properties file of Java."""
    path.write_text("".join(f"{key}={text}\n" for key, text in values.items()))
    return path


@pytest.mark.parametrize(
    ("values", "wanted"), [(MSK, ("eu-north-1",)), (MSK_OAUTH, ("eu-north-1", "prod"))], ids=["IAM", "OAUTHBEARER"]
)
def test_msk_by_the_file_of_a_java_client(
    tmp_path: Path, handler: Handler, asked: list[tuple[str, ...]], values: dict[str, str], wanted: tuple[str, ...]
) -> None:
    """The brokers' names show the region; a program with other addresses for them takes it from the environment."""
    found = Configuration.read(written(tmp_path / "client.properties", values), environment={}).client["sasl"]
    assert isinstance(found, OAuthBearer)
    assert found.get(handler)[0] == "signed-token"
    assert asked == [wanted]


@pytest.mark.parametrize(
    ("hosts", "region"), [("b-2.x.c2.kafka.us-west-2.amazonaws.com:9098", "us-west-2"), ("localhost:1", "eu-north-1")]
)
def test_other_brokers_than_those_of_the_file(
    handler: Handler, asked: list[tuple[str, ...]], hosts: str, region: str
) -> None:
    """A token for the region of the file is none for theirs; a tunnel's address shows none."""
    found = Configuration.read(MSK, environment={}, hosts=hosts).client["sasl"]
    found.get(handler)
    assert asked == [(region,)]


def test_the_brokers_of_an_argument_and_of_an_option(
    asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reading(*_: Any, hosts: str, **__: Any) -> Configuration:
        read.append(hosts)
        return Configuration({}, {}, {})

    monkeypatch.setattr(Configuration, "read", reading)
    monkeypatch.setattr(KafkaClient, "__init__", lambda self, **_: setattr(self, "cluster", SimpleNamespace()))
    KafkaClient.from_config("c.properties", hosts="a:1")
    KafkaClient.from_env(hosts="b:1")
    KafkaClient.from_env()
    for options in (["-b", "c:1"], []):
        context = tools.make_context("kafka-tools", ["--config", "c.properties", *options, "doctor"])
        session_of(context)
    assert read == ["a:1", "b:1", "", "c:1", ""]


def test_a_client_logs_in(
    tmp_path: Path, handler: Handler, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    said: list[bytes] = []

    def step(message: bytes) -> bytes:
        said.append(message)
        return b""

    with SaslBroker({"OAUTHBEARER": lambda: step}) as broker:
        values = {**MSK, "security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": broker.hosts}
        path = written(tmp_path / "client.properties", values)
        with KafkaClient.from_config(path, handler=handler) as client:
            assert client.brokers
    assert b"auth=Bearer signed-token\x01" in said[0]
    assert {*asked} == {("us-west-2",)}


def test_event_hubs(monkeypatch: pytest.MonkeyPatch) -> None:
    module(monkeypatch, "azure")
    module(monkeypatch, "azure.identity", DefaultAzureCredential=lambda: None)
    values = {
        "bootstrap.servers": "me.servicebus.windows.net:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        LOGIN_CLASS: "CustomAuthenticateCallbackHandler",
    }
    assert read(values) == OAuthBearer(EntraId("me.servicebus.windows.net"))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {key: text for key, text in MSK.items() if key != CLASS},
            f"and {CLASS}=software.amazon.msk.auth.iam.IAMClient",
        ),
        (
            {key: text for key, text in MSK.items() if key != "sasl.jaas.config"},
            f"{CLASS} cannot be used: the callback class IAMClientCallbackHandler goes with AWS_MSK_IAM with IAMLoginModule",
        ),
        ({**MSK, "bootstrap.servers": "broker:9098"}, "do not show the AWS region: set AWS_REGION"),
        ({**PLAIN, CLASS: MSK[CLASS]}, "goes with AWS_MSK_IAM with IAMLoginModule"),
    ],
)
def test_what_is_lacking(asked: list[tuple[str, ...]], values: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(values)
    assert sentence in str(refused.value)


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigurationError, match="pip install aws-msk-iam-sasl-signer-python"):
        read(MSK)


def test_other_classes_are_not_called(caplog: pytest.LogCaptureFixture) -> None:
    """As before: the file's other lines count, and a warning names this one."""
    with caplog.at_level(logging.WARNING):
        assert read({**PLAIN, LOGIN_CLASS: "org.example.Vault"}) == Plain("a", "b")
        Configuration.read({"bootstrap.servers": "a:1", CLASS: "org.example.Idle"}, environment={})
    assert f"no effect in this client: {LOGIN_CLASS}" in caplog.text


def test_a_pipeline_passes_the_class_on(tmp_path: Path, asked: list[tuple[str, ...]]) -> None:
    """It was left out, and the mechanism was refused then."""

    def options(values: dict[str, str]) -> Any:
        config = written(tmp_path / "client.properties", values)
        file = tmp_path / "p.toml"
        file.write_text(
            f'checkpoint = "/c"\n[source]\nconfig = "{config}"\ntopic = "a"\n[sink]\nformat = "parquet"\npath = "/d"\n'
        )
        return Declaration.load(file).inputs[0].source.options

    assert options(MSK)[f"kafka.{CLASS}"] == MSK[CLASS]
    assert f"kafka.{LOGIN_CLASS}" not in options(
        {"bootstrap.servers": "a:1", **PLAIN, LOGIN_CLASS: "org.example.Vault"}
    )
    with pytest.raises(DeclarationError, match="AWS_MSK_IAM needs the two lines"):
        options({key: text for key, text in MSK.items() if key != CLASS})
