"""No secret is in a repr, a log, an error, a traceback or the pickle of an error, however a login ends."""

from __future__ import annotations

import base64
import logging
import pickle
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import DelegationToken, KafkaClient, OAuthBearer, OAuthToken, OidcClientCredentials, Plain, Scram
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from pykafka.network.options import ConnectionSettings
from pykafka.security import parse_jaas
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from tests.support.sasl import MECHANISMS, NEW, OLD, USERS, Cut, Refused, SaslBroker
from tests.support.token_endpoint import TokenEndpoint

SECRET = "s3cr3t-of-the-test"
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.s3cr3tsignature"
HIDDEN = [
    SECRET,
    base64.b64encode(SECRET.encode()).decode(),
    base64.b64encode(f"client-of-tests:{SECRET}".encode()).decode(),
    TOKEN,
    USERS["alice"],
    "s3cr3t",
]


def credentials() -> list[Any]:
    """Return credentials of each kind, all of them secret and wrong but the first."""
    return [
        Scram("alice", USERS["alice"]),
        Plain("alice", SECRET),
        Scram("alice", SECRET, "SCRAM-SHA-256"),
        DelegationToken("an-id", SECRET),
        OAuthBearer(TOKEN, {"extension": SECRET}),
        OAuthBearer(lambda: OAuthToken(TOKEN, lifetime_s=60)),
    ]


def refuse(message: bytes) -> bytes:
    raise Refused("no")


def cut(frame: bytes) -> bytes:
    raise Cut(frame[: len(frame) // 2])


WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "old broker": {"apis": OLD},
    "renewals": {"lifetime_ms": 100},
    "nonsense": {"damage": lambda frame: frame[:9] + b"\xff" * 40, "timeout_ms": 500},
    "hang up": {"damage": lambda frame: None},
    "cut": {"damage": cut},
    "no such mechanism": {"mechanisms": {}},
}


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Yield a list of texts, and look through them and through all logs and output in the end."""
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    yield texts
    output = capfd.readouterr()
    everything = "\n".join([*texts, caplog.text, output.out, output.err])
    assert len(everything) > 100
    assert [secret for secret in HIDDEN if secret in everything] == []


def tell(error: BaseException) -> list[str]:
    """Return all that an error shows, with those behind it."""
    shown = ["".join(traceback.format_exception(error)), repr(error), repr(getattr(error, "ledger", ""))]
    if isinstance(error, KafkaException):
        shown.append(pickle.dumps(error).decode("latin-1"))
        shown.append(repr(error.again().__dict__))
    return shown


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.later("threads-nonsense")
def test_nothing_shows_a_secret(handler: Handler, told: list[str], way: str) -> None:
    options = dict(WAYS[way])
    damage, timeout_ms = options.pop("damage", None), options.pop("timeout_ms", 2000)
    offered = {**MECHANISMS, "OAUTHBEARER": lambda: refuse}
    for sasl in credentials():
        with SaslBroker(**{"mechanisms": offered, "apis": NEW, **options}) as broker:
            if damage is not None:
                broker.damage_login = damage
            told += [repr(sasl), str(sasl), repr(ConnectionSettings(sasl=sasl))]
            try:
                with KafkaClient(broker.hosts, handler=handler, sasl=sasl, socket_timeout_ms=timeout_ms) as client:
                    told += [repr(client), repr(client.cluster), repr(client.brokers)]
                    handler.sleep(0.11)
                    client.update_cluster()
            except KafkaException as error:
                told += tell(error)


@pytest.mark.parametrize("status", [200, 400, 401, 503])
def test_no_answer_of_a_token_endpoint_shows_one(handler: Handler, told: list[str], status: int) -> None:
    with TokenEndpoint(lambda user, seconds: TOKEN) as endpoint, SaslBroker() as broker:
        source = OidcClientCredentials(endpoint.url, endpoint.client_id, SECRET)
        endpoint.fail(status, f'{{"error": "{SECRET}", "error_description": "{TOKEN}"}}'.encode(), times=9)
        told += [repr(source), repr(OAuthBearer(source))]
        with pytest.raises(KafkaException) as failed:
            KafkaClient(broker.hosts, handler=handler, sasl=OAuthBearer(source))
        told += tell(failed.value)


def test_no_configuration_shows_one(told: list[str]) -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{SECRET}";'
    options = {
        "kafka.bootstrap.servers": "localhost:1",
        "subscribe": "a",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
    }
    told += [repr(parse_jaas(jaas)), repr(read_options(options, Mode.BATCH_READ))]
    wrong: list[dict[str, Any]] = [
        {"sasl": SECRET},
        {"sasl": ("alice", SECRET)},
        {"sasl_mechanism": "PLAIN", "sasl_plain_password": SECRET},
        {"sasl_mechanism": "OAUTHBEARER", "sasl_plain_username": "a", "sasl_plain_password": SECRET},
        {"sasl": Plain("a", SECRET), "security_protocol": "SSL"},
    ]
    for arguments in wrong:
        with pytest.raises((TypeError, ValueError)) as refused:
            KafkaClient("localhost:1", **arguments)
        told += tell(refused.value)
    for changed in (jaas.replace(";", ""), jaas.replace("Plain", "Scram"), jaas.replace("username", "user")):
        with pytest.raises(ValueError, match="option") as refused:
            read_options({**options, "kafka.sasl.jaas.config": changed}, Mode.BATCH_READ)
        told += tell(refused.value)


def frames_of(error: BaseException) -> str:
    """Return the local variables of all functions in an error's traceback, but this module's."""
    shown = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != __file__:
            shown.append(f"{trace.tb_frame.f_code.co_name}: {trace.tb_frame.f_locals!r}")
        trace = trace.tb_next
    return "\n".join(shown)


@pytest.mark.parametrize("how", ["from_env", "from_config"])
def test_overrides_are_in_no_frame(how: str, handler: Handler) -> None:
    """Reports of errors may show local variables."""
    overrides = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": SECRET,
    }
    make: Any = {"from_env": KafkaClient.from_env, "from_config": lambda **given: KafkaClient.from_config({}, **given)}
    with pytest.raises(KafkaException) as caught:
        make[how](hosts="127.0.0.1:1", handler=handler, **overrides)
    shown = frames_of(caught.value)
    assert f"{how}: " in shown
    assert "127.0.0.1:1" in shown
    assert SECRET not in shown


def test_a_client_whose_constructor_has_raised_has_a_repr() -> None:
    """Reports of errors show it among the local variables."""
    with pytest.raises(TypeError) as caught:
        KafkaClient("127.0.0.1:1", sasl=SECRET)  # type: ignore[arg-type]
    shown = frames_of(caught.value)
    assert "'self': <pykafka.client.KafkaClient at 0x" in shown
