"""Tokens of Azure's metadata service, with a stand-in on 127.0.0.1."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pykafka import AzureManagedIdentity, KafkaClient, OAuthBearer, SslConfig
from pykafka.config import Configuration
from pykafka.exceptions import ConfigurationError, SaslAuthenticationFailed, TokenUnavailableError
from pykafka.handlers import Handler
from pykafka.security.cleartext import warn_of_cleartext
from tests.support.sasl import SaslBroker
from tests.support.token_endpoint import Answer, Asked, TokenEndpoint
from tests.unit.security.test_token_examples import takes

RESOURCE = "https://me.servicebus.windows.net"


class MetadataService(TokenEndpoint):
    """Azure's metadata service: GET with a header, and numbers as texts."""

    def answer(self, asked: Asked) -> Answer:
        """Return the answer to a request."""
        self.asked.append(asked)
        if self._failures:
            return self._failures.pop(0)
        if asked.method != "GET" or asked.headers.get("metadata") != "true":
            return Answer(400, b'{"error": "invalid_request", "error_description": "no header Metadata"}')
        if query_of(asked).get("resource") != RESOURCE:
            return Answer(400, b'{"error": "invalid_resource", "error_description": "unknown"}')
        body = {"access_token": "of-azure", "expires_in": "3599", "expires_on": "1795000000", "token_type": "Bearer"}
        return Answer(200, json.dumps(body).encode())


def identity(azure: TokenEndpoint, resource: str = RESOURCE, **options: Any) -> AzureManagedIdentity:
    """Return an identity that asks a service."""
    return AzureManagedIdentity(resource, endpoint_url=azure.url, **options)


def query_of(asked: Asked) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}


def service() -> MetadataService:
    return MetadataService(lambda user, seconds: "")


def test_the_request() -> None:
    with service() as azure:
        token = identity(azure, client_id="of-user", parameters={"api-version": "2025-04-07"})()
        identity(azure)()
        first, second = map(query_of, azure.asked)
    assert (token.value, token.lifetime_s) == ("of-azure", 3599.0)
    assert first == {"api-version": "2025-04-07", "resource": RESOURCE, "client_id": "of-user"}
    assert second == {"api-version": "2018-02-01", "resource": RESOURCE}


def test_no_proxy_sees_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with service() as azure:
        assert identity(azure)().value == "of-azure"


def test_a_client_logs_in_without_a_warning(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    with service() as azure, SaslBroker(takes("of-azure")) as broker:
        sasl = OAuthBearer(identity(azure))
        with (
            caplog.at_level(logging.WARNING),
            KafkaClient(broker.hosts, handler=handler, sasl=sasl, allow_cleartext_credentials=True) as client,
        ):
            assert client.brokers
    assert not caplog.records


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, SaslAuthenticationFailed),
        (403, SaslAuthenticationFailed),
        (404, TokenUnavailableError),
        (410, TokenUnavailableError),
        (429, TokenUnavailableError),
        (500, TokenUnavailableError),
    ],
)
def test_errors_of_the_service(status: int, error: type[Exception]) -> None:
    with service() as azure:
        azure.fail(status, b'{"error": "invalid_request", "error_description": "Identity not found"}')
        with pytest.raises(error, match=f"answers {status}: invalid_request: Identity not found; ") as raised:
            identity(azure)()
    if error is SaslAuthenticationFailed:
        assert "check its address, that this machine has an identity, resource and client_id" in str(raised.value)


def test_a_machine_that_is_not_of_azure() -> None:
    with service() as azure:
        source = identity(azure, timeout_s=1)
    with pytest.raises(TokenUnavailableError, match="does not answer"):
        source()


@pytest.mark.parametrize("resource", ["", None, 7])
def test_a_resource_is_needed(resource: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="resource"):
        AzureManagedIdentity(resource)


def test_it_travels_and_shows_what_it_asks_for() -> None:
    source = AzureManagedIdentity(RESOURCE, "of-user")
    assert pickle.loads(pickle.dumps(source)) == source != AzureManagedIdentity(RESOURCE)
    assert hash(source) == hash(AzureManagedIdentity(RESOURCE, "of-user"))
    assert repr(source) == (
        "<AzureManagedIdentity http://169.254.169.254/metadata/identity/oauth2/token "
        f"resource='{RESOURCE}' client_id='of-user'>"
    )


def configured(**values: str) -> Any:
    base = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
        "sasl.oauthbearer.config": f"query=api-version=2025-04-07&resource={RESOURCE}&client_id=of-user",
    }
    return Configuration.read(
        {**base, **{name.replace("_", "."): value for name, value in values.items()}}, environment={}
    )


def test_librdkafkas_configuration() -> None:
    with service() as azure:
        read = configured(sasl_oauthbearer_token_endpoint_url=azure.url)
        sasl = read.client["sasl"]
        assert sasl._source().value == "of-azure"
        assert query_of(azure.asked[0]) == {
            "api-version": "2025-04-07",
            "resource": RESOURCE,
            "client_id": "of-user",
        }
    assert "169.254.169.254" in repr(configured().client["sasl"])


def test_an_endpoint_with_a_query() -> None:
    with service() as azure:
        url = f"{azure.url}?api-version=2019-08-01&resource=https%3A%2F%2Fother.example.org&extra=a+b"
        source = AzureManagedIdentity(RESOURCE, endpoint_url=url)
        assert source().value == "of-azure"
        assert AzureManagedIdentity(RESOURCE, endpoint_url=url, parameters={"extra": "c"})().value == "of-azure"
        first, second = map(query_of, azure.asked)
        assert azure.asked[0].path.count("?") == 1
    assert first == {"api-version": "2019-08-01", "resource": RESOURCE, "extra": "a b"}
    assert second == first | {"extra": "c"}
    assert "extra" not in repr(source)


@pytest.mark.parametrize("config", ["", "query=client_id=of-user"])
def test_librdkafkas_configuration_with_all_in_the_url(config: str) -> None:
    with service() as azure:
        read = configured(
            sasl_oauthbearer_config=config,
            sasl_oauthbearer_token_endpoint_url=f"{azure.url}?api-version=2025-04-07&resource={RESOURCE}",
        )
        assert read.client["sasl"]._source().value == "of-azure"
        expected = {"api-version": "2025-04-07", "resource": RESOURCE}
        assert query_of(azure.asked[0]) == expected | ({"client_id": "of-user"} if config else {})


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://169.254.169.254/metadata/identity/oauth2/token", False),
        ("http://[fe80::1]:80/token", False),
        ("http://127.0.0.1:40342/token", False),
        ("http://[::1]/token", False),
        ("http://localhost:40342/token", False),
        ("https://other-host/token", False),
        ("http://other-host/token?resource=r", True),
        ("http://10.0.0.1/token", True),
        ("http://localhost.example.org/token", True),
        ("http://0.0.0.0/token", True),
    ],
)
def test_a_token_that_crosses_the_network_in_the_clear_is_warned_of(
    url: str, exposed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sasl = OAuthBearer(AzureManagedIdentity(RESOURCE, endpoint_url=url))
    with caplog.at_level(logging.WARNING):
        warn_of_cleartext(sasl, SslConfig(), "broker:9092")
    assert [url.partition("?")[0] in record.getMessage() for record in caplog.records] == [True] * exposed


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"sasl_oauthbearer_metadata_authentication_type": "aws_iam"},
            "aws_iam is not taken here.*examples/msk_iam.py",
        ),
        ({"sasl_oauthbearer_metadata_authentication_type": "gcp"}, "must be none or azure_imds"),
        (
            {"sasl_oauthbearer_metadata_authentication_type": "none"},
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url",
        ),
        ({"sasl_oauthbearer_config": ""}, "azure_imds needs sasl.oauthbearer.config=query=resource="),
        (
            {"sasl_oauthbearer_config": "query=api-version=1"},
            "azure_imds needs sasl.oauthbearer.config=query=resource=",
        ),
        ({"sasl_oauthbearer_config": "principal=admin"}, "azure_imds needs sasl.oauthbearer.config=query=resource="),
    ],
)
def test_configurations_that_are_refused(values: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        configured(**values)
