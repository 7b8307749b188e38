"""`kafka.sasl.*`: logging in, by the names of Kafka's Java client."""

from __future__ import annotations

import pickle
import re
import sys
import time
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pykafka import OAuthBearer, OidcClientCredentials, Plain, Scram
from pykafka.exceptions import SaslAuthenticationFailed
from pykafka.handlers import ThreadingHandler
from pykafka.security import Mechanism
from pykafka.spark.cluster import OffsetReader
from pykafka.spark.errors import OptionError
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import Mode
from tests.support.sasl import SaslBroker

READ = {"kafka.bootstrap.servers": "localhost:9093", "subscribe": "a"}
SCRAM = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="x-secret";',
}
OAUTH = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp.test/token",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="c" clientSecret="x-secret" scope="k";',
}


def sasl(options: dict[str, str]) -> Mechanism | None:
    found = read_options({**READ, **options}, Mode.BATCH_READ).client.sasl
    written = write_options({"kafka.bootstrap.servers": "localhost:9093", **options}, Mode.BATCH_WRITE).client
    assert written.sasl == found
    assert hash(written) == hash(pickle.loads(pickle.dumps(written)))
    assert "x-secret" not in repr(written)
    return found


def test_credentials() -> None:
    assert sasl({}) is None
    assert sasl(SCRAM) == Scram("alice", "x-secret")
    plain = SCRAM["kafka.sasl.jaas.config"].replace("scram.Scram", "plain.Plain")
    assert sasl({**SCRAM, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": plain}) == Plain(
        "alice", "x-secret"
    )
    token = OidcClientCredentials("https://idp.test/token", "c", "x-secret", scope="k")
    assert sasl(OAUTH) == OAuthBearer(token)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_tls_goes_with_it(protocol: str) -> None:
    client = read_options({**READ, **SCRAM, "kafka.security.protocol": protocol}, Mode.BATCH_READ).client
    assert (client.tls is not None) == (protocol == "SASL_SSL")
    assert client.sasl is not None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kafka.sasl.jaas.config": "x-secret"}, "is about SASL, but 'kafka.security.protocol' is PLAINTEXT"),
        ({**SCRAM, "kafka.security.protocol": "SSL"}, "is about SASL, but 'kafka.security.protocol' is SSL"),
        ({"kafka.security.protocol": "SASL_SSL"}, "'kafka.sasl.jaas.config' is missing"),
        ({**SCRAM, "kafka.sasl.mechanism": "PLAIN"}, "needs PlainLoginModule"),
        ({**SCRAM, "kafka.sasl.jaas.config": 'x-secret "'}, "the JAAS text has"),
        ({**SCRAM, "kafka.sasl.client.callback.handler.class": "x-secret"}, "is a Java class"),
        ({"kafka.security.protocol": "SASL_TLS"}, "must be plaintext or ssl or sasl_plaintext or sasl_ssl"),
    ],
)
def test_what_cannot_be(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as refused:
        read_options({**READ, **options}, Mode.BATCH_READ)
    assert "x-secret" not in str(refused.value)


def module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    made = ModuleType(name)
    vars(made).update(members)
    monkeypatch.setitem(sys.modules, name, made)


IAM = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "AWS_MSK_IAM",
    "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
IAM_OAUTH = {
    **IAM,
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'awsRoleArn="arn:aws:iam::1:role/x" awsRoleSessionName="job";',
    "kafka.sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
}
del IAM_OAUTH["kafka.sasl.client.callback.handler.class"]
ENTRA = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    "kafka.sasl.login.callback.handler.class": "CustomAuthenticateCallbackHandler",
}
MSK_HOSTS = {"kafka.bootstrap.servers": "b-1.mine.a1b2c3.c2.kafka.eu-north-1.amazonaws.com:9098"}


def signer(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Put a stand-in where the package of AWS would be; return what it was asked for."""
    asked: list[tuple[str, ...]] = []

    def made(*arguments: str) -> tuple[str, int]:
        asked.append(arguments)
        return "signed-token", int(time.time() * 1000) + 900_000

    module(
        monkeypatch,
        "aws_msk_iam_sasl_signer",
        MSKAuthTokenProvider=SimpleNamespace(
            generate_auth_token=made,
            generate_auth_token_from_profile=partial(made, "profile"),
            generate_auth_token_from_role_arn=partial(made, "role"),
        ),
    )
    return asked


def test_msk_by_its_callback_class(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = signer(monkeypatch)
    profile = IAM["kafka.sasl.jaas.config"].replace("required", 'required awsProfileName="prod" awsDebugCreds="true"')
    for given in (IAM, IAM | {"kafka.sasl.jaas.config": profile}, IAM_OAUTH):
        found = pickle.loads(pickle.dumps(read_options({**READ, **given, **MSK_HOSTS}, Mode.BATCH_READ).client.sasl))
        assert found == read_options({**READ, **given, **MSK_HOSTS}, Mode.BATCH_READ).client.sasl
        assert found.get(ThreadingHandler())[0] == "signed-token"
    region = "eu-north-1"
    assert asked == [(region,), ("profile", region, "prod"), ("role", region, "arn:aws:iam::1:role/x", "job")]


def test_msk_of_another_name_takes_the_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = signer(monkeypatch)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(OptionError, match="do not show the AWS region: set AWS_REGION"):
        read_options({**READ, **IAM}, Mode.BATCH_READ)
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    login = read_options({**READ, **IAM}, Mode.BATCH_READ).client.sasl
    assert isinstance(login, OAuthBearer)
    login.get(ThreadingHandler())
    assert asked == [("us-west-2",)]


def test_msk_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    signer(monkeypatch)
    monkeypatch.setenv("AWS_REGION", "us-west-2")

    def step(message: bytes) -> bytes:
        assert b"auth=Bearer signed-token\x01" in message
        return b""

    with SaslBroker({"OAUTHBEARER": lambda: step}) as broker:
        options = {**READ, **IAM, "kafka.bootstrap.servers": broker.hosts, "fetchOffset.numRetries": "0"}
        asked = OffsetReader(read_options(options, Mode.BATCH_READ))
        assert asked._retrying(lambda cluster: cluster.brokers)
        asked.close()


def test_event_hubs_by_their_callback_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_token(scope: str) -> SimpleNamespace:
        assert scope == "https://me.servicebus.windows.net/.default"
        return SimpleNamespace(token="of-entra", expires_on=time.time() + 900)

    module(monkeypatch, "azure")
    module(monkeypatch, "azure.identity", DefaultAzureCredential=lambda: SimpleNamespace(get_token=get_token))
    hosts = {"kafka.bootstrap.servers": "me.servicebus.windows.net:9093"}
    found = pickle.loads(pickle.dumps(read_options({**READ, **ENTRA, **hosts}, Mode.BATCH_READ).client.sasl))
    assert found.get(ThreadingHandler())[0] == "of-entra"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {**IAM, **MSK_HOSTS, "kafka.sasl.mechanism": "PLAIN"},
            "goes with AWS_MSK_IAM with IAMLoginModule or OAUTHBEARER",
        ),
        (
            {
                **IAM,
                **MSK_HOSTS,
                "kafka.sasl.jaas.config": 'x.IAMLoginModule required awsRoleSecretAccessKey="x-secret";',
            },
            "awsRoleSecretAccessKey in the JAAS text cannot be used here",
        ),
        (ENTRA, "is known for Azure Event Hubs only"),
        ({**IAM, **MSK_HOSTS}, "pip install aws-msk-iam-sasl-signer-python (with Spark, on the driver and on every"),
        (
            {**ENTRA, "kafka.bootstrap.servers": "me.servicebus.windows.net:9093"},
            "pip install azure-identity (with Spark, on the driver and on every executor)",
        ),
        ({**ENTRA, "kafka.sasl.login.callback.handler.class": "x-secret"}, "refused: it is a Java class"),
        (
            {name: text for name, text in IAM.items() if not name.endswith(".class")},
            "AWS_MSK_IAM needs the two lines that Java's clients have",
        ),
    ],
)
def test_callback_classes_that_cannot_be_used(
    given: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(OptionError, match=re.escape(reason)) as refused:
        read_options({**READ, **given}, Mode.BATCH_READ)
    assert "x-secret" not in str(refused.value)


def test_what_java_needs_for_a_token_endpoint_is_taken() -> None:
    package = "org.apache.kafka.common.security.oauthbearer"
    for name in (f"{package}.OAuthBearerLoginCallbackHandler", f"{package}.secured.OAuthBearerLoginCallbackHandler"):
        assert sasl({**OAUTH, "kafka.sasl.login.callback.handler.class": name}) == sasl(OAUTH)


def test_tuning_of_the_java_client_has_no_effect() -> None:
    assert sasl({**SCRAM, "kafka.sasl.login.refresh.window.factor": "0.8"}) == Scram("alice", "x-secret")


def test_refused_credentials_are_not_tried_again() -> None:
    with SaslBroker() as broker:
        options = {**READ, **SCRAM, "kafka.bootstrap.servers": broker.hosts, "fetchOffset.numRetries": "3"}
        asked = OffsetReader(read_options(options, Mode.BATCH_READ))
        answers: list[bytes] = []

        def count(frame: bytes) -> bytes:
            answers.append(frame)
            return frame

        broker.damage_login = count
        with pytest.raises(SaslAuthenticationFailed):
            asked._retrying(lambda cluster: cluster.brokers)
        assert len(answers) == 4  # ApiVersions, SaslHandshake, two SaslAuthenticate: one login
