"""Arguments and configurations that are refused: no secret in the errors, their tracebacks with locals, causes and pickles."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka import (
    DelegationToken,
    KafkaClient,
    OAuthBearer,
    OAuthToken,
    OidcClientCredentials,
    Plain,
    Scram,
    SslConfig,
)
from pykafka.config import Configuration
from pykafka.exceptions import KafkaException
from pykafka.handlers import ThreadingHandler
from pykafka.network.options import ConnectionSettings
from pykafka.network.proxies import Proxy
from pykafka.security import mechanism_of_jaas, parse_jaas
from tests.support.secrets import Search

SECRET = "Pw-hunter2-9911"
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": SECRET,
}
NAMES: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_password": SECRET}
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}"'
CASES: dict[str, Callable[[], object]] = {
    "unknown key": lambda: KafkaClient.from_config({**LOGIN, "linger.mss": 5}),
    "mechanism": lambda: KafkaClient.from_config({**LOGIN, "sasl.mechanism": "NO"}),
    "contradiction": lambda: KafkaClient.from_config({**LOGIN, "security.protocol": "PLAINTEXT"}),
    "reference": lambda: Configuration.read({**LOGIN, "client.id": "${NO_SUCH}"}, environment={}),
    "environment": lambda: Configuration.read(
        env=True, environment={"PYKAFKA_SASL_PASSWORD": SECRET, "PYKAFKA_SECURITY_PROTOCOL": "X"}
    ),
    "overrides": lambda: KafkaClient.from_config({"hosts": "a:1"}, security_protocol="SSL", sasl_plain_password=SECRET),
    "overrides of a bad configuration": lambda: KafkaClient.from_config({"hots": "a:1"}, sasl_plain_password=SECRET),
    "no user": lambda: KafkaClient("a:1", **NAMES),
    "no such option": lambda: KafkaClient("a:1", **{"sasl_passwort": SECRET}),  # type: ignore[arg-type]
    "protocol": lambda: KafkaClient("a:1", **{**NAMES, "security_protocol": "X"}),
    "another option": lambda: KafkaClient("a:1", **NAMES, sasl_plain_username="u", socket_timeout_ms="x"),  # type: ignore[arg-type]
    "text for a mechanism": lambda: KafkaClient("a:1", sasl=SECRET),  # type: ignore[arg-type]
    "proxy": lambda: KafkaClient("a:1", proxy=f"ftp://u:{SECRET}@x:1"),
    "settings": lambda: ConnectionSettings.of({"proxy": f"http://u:{SECRET}@x:no"}),
    "NUL": lambda: Plain("u", f"{SECRET}\0"),
    "surrogate": lambda: Plain("u", f"{SECRET}\ud800"),
    "user": lambda: Plain("", SECRET),
    "swapped": lambda: Scram("u", "SCRAM-SHA-512", SECRET),
    "token id": lambda: DelegationToken("", SECRET),
    "URL": lambda: OidcClientCredentials("idp", "u", SECRET),
    "URL with a user": lambda: OidcClientCredentials(f"https://u:{SECRET}@x/", "u", "x"),
    "token": lambda: OAuthToken(f"{SECRET} x"),
    "fixed token": lambda: OAuthBearer(f"{SECRET} x"),
    "callback": lambda: OAuthBearer(lambda: f"{SECRET} x").get(ThreadingHandler()),
    "callback of a worker": lambda: OAuthBearer(lambda: f"{SECRET} x").prepare(ThreadingHandler(), 10),
    "JAAS text": lambda: mechanism_of_jaas(JAAS, "PLAIN"),
    "another module": lambda: mechanism_of_jaas(f"{JAAS};", "SCRAM-SHA-256"),
    "quotes": lambda: parse_jaas(f"{JAAS}' x;"),
    "key without certificate": lambda: SslConfig(None, None, "key", SECRET),
    "text of a key": lambda: SslConfig(None, None, f"-----BEGIN PRIVATE KEY-----{SECRET}"),
}


@pytest.mark.parametrize("case", CASES)
def test_of_arguments(case: str) -> None:
    search = Search(SECRET)
    with pytest.raises((TypeError, ValueError, KafkaException)) as refused:
        CASES[case]()
    search.look_at_error(refused.value)
    assert search.verdict() == []
    assert refused.value.__traceback__ is not None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.properties", f"sasl.password={SECRET}\nlinger.mss=5"),
        ("c.toml", f'sasl.password = "{SECRET}'),
        ("c.json", f'{{"sasl.password": "{SECRET}",,}}'),
        ("c.ini", f"[a]\nsasl.password={SECRET}\nx"),
    ],
)
def test_of_files(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    search = Search(SECRET)
    with pytest.raises(ValueError, match=r"linger\.mss|is not valid") as refused:
        KafkaClient.from_config(tmp_path / name)
    search.look_at_error(refused.value)
    assert search.verdict() == []


def test_texts_of_objects_and_warnings() -> None:
    objects = [
        *(
            Plain("u", SECRET),
            Scram("u", SECRET),
            DelegationToken("id", SECRET),
            OAuthToken(SECRET),
            OAuthBearer(SECRET),
        ),
        OidcClientCredentials("https://x/y", "u", SECRET),
        *(SslConfig("/ca", "/me", password=SECRET, ca_password=SECRET), Proxy("http", "x", 1, "u", SECRET)),
        Configuration.read(LOGIN, environment={}),
        ConnectionSettings(sasl=Plain("u", SECRET), proxy=f"http://u:{SECRET}@x:1"),
    ]
    search = Search(SECRET)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for one in objects:
            search.look(f"a {type(one).__name__}", f"{one!r} {one!s} {one}")
    assert not caught
    assert search.verdict() == []
