"""Assertions that prove who a client is (KIP-1139, KIP-1258): what is signed, how it is sent, and files that change."""

from __future__ import annotations

import base64
import json
import pickle
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykafka.config import Configuration
from pykafka.exceptions import KafkaException, SaslAuthenticationFailed, TokenUnavailableError
from pykafka.handlers import ThreadingHandler
from pykafka.security import JwtFile, OAuthBearer, OidcClientCredentials, OidcJwtBearer, SignedAssertion
from pykafka.security.oauth_options import assertion_of
from tests.brokers.tokens import TokenKey
from tests.support.signing_keys import CURVES, Key
from tests.support.token_endpoint import TokenEndpoint, verified

PASSPHRASE = "between-these-walls"


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return Key(tmp_path / "key.pem")


@pytest.fixture
def endpoint(key: Key) -> Any:
    with TokenEndpoint(lambda subject, seconds: f"token-of-{subject}") as endpoint:
        endpoint.public_key = key.public
        yield endpoint


def assertion_for(endpoint: TokenEndpoint, key: Key, **options: Any) -> SignedAssertion:
    return SignedAssertion(
        key.path, issuer=endpoint.client_id, subject=endpoint.client_id, audience=endpoint.url, **options
    )


# -- what is signed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS512", *CURVES])
@pytest.mark.parametrize("passphrase", ["", PASSPHRASE])
def test_each_algorithm(tmp_path: Path, algorithm: str, passphrase: str) -> None:
    key = Key(tmp_path / "key.pem", algorithm, passphrase)
    sign = SignedAssertion(
        key.path, passphrase=passphrase or None, algorithm=algorithm, issuer="i", subject="s", audience="a", jti=True
    )
    header, claims = verified(sign(), key.public)
    assert header == {"alg": algorithm, "typ": "JWT"}
    now = time.time()
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("i", "s", "a")
    assert now - 5 <= claims["iat"] <= now
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (300, 60)
    assert verified(sign(), key.public)[1]["jti"] != claims["jti"]


def test_the_signature_is_that_of_another_implementation(key: Key) -> None:
    """RS256 has one signature for a text, which `TokenKey` computes by numbers alone."""
    jwt = SignedAssertion(key.path, subject="s", headers={"kid": "key-1"})()
    claims = verified(jwt, key.public)[1]
    judge = TokenKey(key.path).sign(claims)
    theirs, ours = (one.split(".") for one in (judge, jwt))
    assert verified(judge, key.public)[1] == claims
    assert len(theirs[2]) == len(ours[2])


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_key_without_its_pem_marks_is_not_shown(key: Key, wrapped: bool) -> None:
    """A body alone, or all of it in Base64, looks like a path."""
    pem = key.path.read_text()
    for text in ("".join(pem.splitlines()[1:-1]), base64.b64encode(pem.encode()).decode(), pem[30:]):
        secret = "\n".join(text[at : at + 64] for at in range(0, len(text), 64)) if wrapped else text
        sign = SignedAssertion(secret)
        assert secret[:20] not in repr(sign)
        with pytest.raises(TokenUnavailableError, match="the private key cannot be read from <no path>") as failed:
            sign()
        assert secret[:20] not in str(failed.value)
        with pytest.raises(ValueError, match="private.key.pem must be PEM text") as refused:
            assertion_of({"sasl.oauthbearer.assertion.private.key.pem": secret})
        assert secret[:20] not in str(refused.value)


def test_fields_of_a_template_and_of_parameters(tmp_path: Path, key: Key) -> None:
    """Parameters come before the template, and times before both."""
    template = tmp_path / "template.json"
    template.write_text(
        json.dumps({"header": {"kid": "k-1", "alg": "none"}, "payload": {"iss": "t", "tier": 1, "exp": 1}})
    )
    sign = SignedAssertion(
        key.path, issuer="i", template=template, claims={"org": "o"}, headers={"x": 1}, lifetime_s=10
    )
    header, claims = verified(sign(), key.public)
    assert header == {"kid": "k-1", "alg": "RS256", "typ": "JWT", "x": 1}
    assert (claims["iss"], claims["tier"], claims["org"], claims["exp"] - claims["iat"]) == ("i", 1, "o", 10)
    assert "jti" not in claims
    assert "sub" not in claims
    template.write_text('{"payload": {"tier": 2}}')
    assert verified(sign(), key.public)[1]["tier"] == 2
    for text in ("[1]", "{", '{"header": 5}'):
        template.write_text(text)
        with pytest.raises(TokenUnavailableError, match="must be JSON"):
            sign()
    template.unlink()
    with pytest.raises(TokenUnavailableError, match="template of assertions cannot be read"):
        sign()


def test_a_key_as_text_on_one_line(key: Key) -> None:
    """As properties and environments have it."""
    for text in (key.path.read_text(), key.path.read_text().replace("\n", " ")):
        verified(SignedAssertion(text)(), key.public)
        assert "PRIVATE" not in repr(SignedAssertion(text))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "it needs a passphrase"),
        ({"passphrase": "another"}, "its passphrase the right one"),
        ({"passphrase": lambda: PASSPHRASE, "algorithm": "ES256"}, "ES256 needs a key of EC with 256 bits"),
    ],
)
def test_keys_that_do_not_fit(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    key = Key(tmp_path / "key.pem", passphrase=PASSPHRASE)
    with pytest.raises(TokenUnavailableError, match=text) as failed:
        SignedAssertion(key.path, **options)()
    assert PASSPHRASE not in str(failed.value)
    verified(SignedAssertion(key.path, passphrase=PASSPHRASE.encode)(), key.public)


def test_a_curve_of_another_algorithm(tmp_path: Path) -> None:
    key = Key(tmp_path / "key.pem", "ES256")
    with pytest.raises(TokenUnavailableError, match="RS256 needs a key of RSA"):
        SignedAssertion(key.path)()
    with pytest.raises(TokenUnavailableError, match="521 bits"):
        SignedAssertion(key.path, algorithm="ES512")()


def test_what_is_refused_at_once() -> None:
    for options in ({"algorithm": "none"}, {"algorithm": "HS256"}, {"lifetime_s": 0}, {"not_before_s": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            SignedAssertion("/key.pem", **options)
    with pytest.raises(ValueError, match="empty"):
        SignedAssertion("")
    with pytest.raises(ValueError, match="two proofs"):
        OidcClientCredentials("https://a/b", "me", "secret", assertion=JwtFile("/a"))
    with pytest.raises(TypeError, match="client_id must be a str"):
        OidcClientCredentials("https://a/b")
    for call in (
        lambda: OidcJwtBearer("https://a/b", "eyJ0.eyJ1.c2ln"),  # type: ignore[arg-type]
        lambda: OidcClientCredentials("https://a/b", assertion="eyJ0.eyJ1.c2ln"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="must be a function") as failed:
            call()
        assert "eyJ1" not in str(failed.value)


# -- how it is sent ----------------------------------------------------------------------------------------------------


def test_client_credentials_by_an_assertion(endpoint: TokenEndpoint, key: Key) -> None:
    source = OidcClientCredentials(
        endpoint.url, endpoint.client_id, assertion=assertion_for(endpoint, key, jti=True), scope="kafka"
    )
    for _ in range(2):
        assert source().value == "token-of-alice"
    asked = endpoint.asked[0]
    assert "authorization" not in asked.headers
    assert (asked.form["client_id"], asked.form["scope"]) == (endpoint.client_id, "kafka")
    assert OidcClientCredentials(endpoint.url, assertion=assertion_for(endpoint, key))().value == "token-of-alice"
    assert "client_id" not in endpoint.asked[-1].form


def test_the_grant_jwt_bearer(endpoint: TokenEndpoint, key: Key) -> None:
    source = OidcJwtBearer(endpoint.url, assertion_for(endpoint, key), scope="kafka", parameters={"audience": "k"})
    assert source().value == "token-of-alice"
    assert endpoint.asked[0].form.keys() == {"grant_type", "assertion", "scope", "audience"}
    assert "authorization" not in endpoint.asked[0].headers
    assert OAuthBearer(source).get(ThreadingHandler())[0] == "token-of-alice"
    again = pickle.loads(pickle.dumps(source))
    assert again == source
    assert again().value == "token-of-alice"


@pytest.mark.parametrize("grant", ["client_credentials", "jwt-bearer"])
def test_a_refused_assertion(endpoint: TokenEndpoint, key: Key, grant: str) -> None:
    """It is not repeated, and the error says what to look at."""
    assertion = SignedAssertion(key.path, subject="a stranger", audience=endpoint.url)
    source = (
        OidcJwtBearer(endpoint.url, assertion)
        if grant == "jwt-bearer"
        else OidcClientCredentials(endpoint.url, "x", assertion=assertion)
    )
    with pytest.raises(SaslAuthenticationFailed, match="the assertion's key, issuer, subject and audience") as failed:
        source()
    assert "eyJ" not in str(failed.value)
    endpoint.fail(400, json.dumps({"error": f"bad: {assertion()}"}).encode())
    with pytest.raises(SaslAuthenticationFailed, match=r"bad: \[(secret|token)\]"):
        source()


# -- files that change -------------------------------------------------------------------------------------------------


def test_a_key_that_is_replaced_while_the_client_runs(endpoint: TokenEndpoint, key: Key) -> None:
    source = OidcJwtBearer(endpoint.url, assertion_for(endpoint, key))
    assert source().value
    key.replace()
    with pytest.raises(SaslAuthenticationFailed):
        source()
    endpoint.public_key = key.public
    assert source().value
    key.path.write_text("half a k")
    with pytest.raises(TokenUnavailableError, match="must be PEM"):
        source()
    key.path.unlink()
    with pytest.raises(TokenUnavailableError, match="the private key cannot be read"):
        source()


@dataclass
class OwnAssertion:
    """An application's function, whose `repr` shows all."""

    secret: str

    def __call__(self) -> str:
        return self.secret


@pytest.mark.parametrize("assertion", [partial(str, PASSPHRASE), OwnAssertion(PASSPHRASE)], ids=["partial", "object"])
def test_the_secrets_of_an_application_s_function_are_not_shown(assertion: Any) -> None:
    source = OidcJwtBearer("https://idp.example.org/token", assertion)
    for text in (repr(source), repr(OAuthBearer(source))):
        assert f"assertion={type(assertion).__name__}>" in text
        assert PASSPHRASE not in text
    assert "<JwtFile /a.jwt>" in repr(OidcJwtBearer("https://idp.example.org/token", JwtFile("/a.jwt")))


def test_a_client_without_a_proof_is_refused() -> None:
    with pytest.raises(ValueError, match="client_secret is missing: give it, or assertion="):
        OidcClientCredentials("https://idp.example.org/token", "me")


def test_an_assertion_in_a_file(endpoint: TokenEndpoint, key: Key, tmp_path: Path) -> None:
    path = tmp_path / "assertion.jwt"
    source = OidcClientCredentials(endpoint.url, assertion=JwtFile(path))
    sign = assertion_for(endpoint, key, jti=True)
    for _ in range(2):
        path.write_text(f"{sign()}\n")
        assert source().value
    for text, said in (
        ("", "has no JWT"),
        ("not.a", "has no JWT"),
        ("a b.c.d", "has no JWT"),
        ("x" * 1100000, "longer"),
    ):
        path.write_text(text)
        with pytest.raises(TokenUnavailableError, match=said) as failed:
            source()
        assert "a b" not in str(failed.value)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenUnavailableError, match="it is no text"):
        source()
    with pytest.raises(KafkaException, match="cannot be read"):
        JwtFile(tmp_path)()


# -- by the options of other clients -----------------------------------------------------------------------------------

_CLASSES = "org.apache.kafka.common.security.oauthbearer."
_JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {};"
URN = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def source_of(values: dict[str, Any]) -> Any:
    base = {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    sasl = Configuration.read({**base, **values}, environment={}).client["sasl"]
    return sasl._source


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({}, OidcClientCredentials),
        ({"sasl.jaas.config": _JAAS.format('scope="kafka"')}, OidcClientCredentials),
        ({"sasl.oauthbearer.jwt.retriever.class": f"{_CLASSES}ClientCredentialsJwtRetriever"}, OidcClientCredentials),
        ({"sasl.oauthbearer.jwt.retriever.class": f"{_CLASSES}JwtBearerJwtRetriever"}, OidcJwtBearer),
        (
            {
                "sasl.oauthbearer.jwt.retriever.class": f"{_CLASSES}JwtBearerJwtRetriever",
                "sasl.jaas.config": _JAAS.format(""),
            },
            OidcJwtBearer,
        ),
        ({"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.grant.type": URN}, OidcJwtBearer),
        ({"sasl.oauthbearer.client.id": "client-of-tests"}, OidcClientCredentials),
    ],
)
@pytest.mark.parametrize("kept", ["file", "pem", "assertion"])
def test_options_of_java_and_librdkafka(
    endpoint: TokenEndpoint, key: Key, tmp_path: Path, more: dict[str, Any], kind: type[Any], kept: str
) -> None:
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "k-1"}}')
    start = "sasl.oauthbearer.assertion."
    values = {
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        f"{start}algorithm": "RS256",
        f"{start}claim.iss": endpoint.client_id,
        f"{start}claim.sub": endpoint.client_id,
        f"{start}claim.aud": endpoint.url,
        f"{start}claim.exp.seconds": "120",
        f"{start}claim.jti.include": "true",
        f"{start}template.file": str(template),
    }
    if kept == "assertion":
        path = tmp_path / "a.jwt"
        path.write_text(assertion_for(endpoint, key, lifetime_s=120, jti=True, headers={"kid": "k-1"})())
        values = {key: value for key, value in values.items() if not key.startswith(start)}
        values[f"{start}file"] = str(path)
    else:
        values[f"{start}private.key.{kept}"] = str(key.path) if kept == "file" else key.path.read_text()
    source = source_of({**values, **more})
    assert type(source) is kind
    assert source().value == "token-of-alice"
    taken = endpoint.assertions[0]
    assert (taken["kid"], taken["exp"] - taken["iat"]) == ("k-1", 120)
    assert "jti" in taken


def test_a_token_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a token.jwt"
    path.write_text("aaa.bbb.ccc")
    for more in ({}, {"sasl.oauthbearer.jwt.retriever.class": f"{_CLASSES}FileJwtRetriever"}):
        source = source_of({"sasl.oauthbearer.token.endpoint.url": path.as_uri(), **more})
        assert isinstance(source, JwtFile)
        assert source() == "aaa.bbb.ccc"


def test_a_secret_still_needs_both() -> None:
    with pytest.raises(KafkaException, match=r"needs sasl.oauthbearer.client.credentials.client.secret"):
        source_of({"sasl.oauthbearer.token.endpoint.url": "https://a/b", "sasl.oauthbearer.client.id": "me"})
