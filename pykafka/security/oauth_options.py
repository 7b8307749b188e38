"""`token_source`: the source of tokens that options of Kafka's Java clients and of librdkafka name (KIP-1139, KIP-1258)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pykafka.security.assertions import JwtFile, SignedAssertion
from pykafka.security.certificate_stores import MARK, text_of
from pykafka.security.oidc import JWT_BEARER, OidcClientCredentials, OidcJwtBearer
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from pykafka.security.oauth import OAuthToken

URL = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
GRANT = "sasl.oauthbearer.grant.type"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
#: The beginning of the options of assertions, and those that hold secrets.
ASSERTION = "sasl.oauthbearer.assertion."
ASSERTION_SECRETS = (f"{ASSERTION}private.key.passphrase", f"{ASSERTION}private.key.pem")
#: All of them: Java's, then those that librdkafka alone has.
ASSERTION_OPTIONS = (
    *(f"{ASSERTION}{name}" for name in ("algorithm", "file", "private.key.file", "template.file")),
    *(f"{ASSERTION}claim.{name}" for name in ("aud", "exp.seconds", "iss", "jti.include", "nbf.seconds", "sub")),
    *(*ASSERTION_SECRETS, f"{ASSERTION}jwt.template.file"),
)
_BEARER, _FILE = "JwtBearerJwtRetriever", "FileJwtRetriever"
#: Java's classes that get tokens, which have a counterpart here.
RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", _BEARER, _FILE)
GRANTS = ("client_credentials", JWT_BEARER)


@concealing
def token_source(
    values: Mapping[str, Any],
    *,
    client_id: str | None,
    client_secret: str | None,
    scope: str | None,
    cafile: str | None,
) -> Callable[[], OAuthToken | str]:
    """Return the function that gets tokens.

    As Java's client: an assertion of a file comes first, then one that is signed here, then the client's secret.

    :param values: {key: value}, with Java's names of keys that have several
    :param client_id: of the configuration or the JAAS text
    :param client_secret: likewise
    :param scope: likewise
    :param cafile: of `OidcClientCredentials`
    :raises ValueError: something is missing, or options contradict each other; the error shows no secrets
    """
    url = str(values.get(URL) or "")
    retriever = _one_of(RETRIEVERS, str(values.get(RETRIEVER) or "").rpartition(".")[2], RETRIEVER)
    grant = _one_of(GRANTS, str(values.get(GRANT) or ""), GRANT)
    if retriever == _FILE or (url.startswith("file:") and retriever in ("", RETRIEVERS[0])):
        if not url.startswith("file:"):
            raise ValueError(f"{RETRIEVER} reads tokens from a file: {URL} must begin with file:")
        return JwtFile(unquote(urlsplit(url).path))
    if retriever == _BEARER and grant == GRANTS[0]:
        raise ValueError(f"{RETRIEVER} and {GRANT} name two grants: remove one of them")
    assertion = assertion_of(values)
    if retriever == _BEARER or grant == JWT_BEARER:
        if assertion is None:
            raise ValueError(f"the grant jwt-bearer needs {ASSERTION}private.key.file, or {ASSERTION}file")
        return OidcJwtBearer(url, assertion, scope=scope, cafile=cafile)
    if assertion is not None:
        return OidcClientCredentials(url, client_id, scope=scope, cafile=cafile, assertion=assertion)
    encode = _flag(values, "sasl.oauthbearer.header.urlencode")
    return OidcClientCredentials(url, client_id, client_secret, scope=scope, urlencode=encode, cafile=cafile)


def has_assertion(values: Mapping[str, Any]) -> bool:
    """Return whether options name an assertion, so that no secret of the client is needed, or a file that has the token."""
    keys = (f"{ASSERTION}file", f"{ASSERTION}private.key.file", f"{ASSERTION}private.key.pem")
    return any(values.get(key) for key in keys) or str(values.get(URL) or "").startswith("file:")


@concealing
def assertion_of(values: Mapping[str, Any]) -> Callable[[], str] | None:
    """Return the function that makes assertions; None if no option names a key or a file.

    :param values: {key: value}
    :raises ValueError: something is missing, or cannot be used
    """
    given = {key.removeprefix(ASSERTION): value for key, value in values.items() if key.startswith(ASSERTION)}
    given = {name: value for name, value in given.items() if value not in (None, "")}
    if "file" in given:
        return JwtFile(str(given["file"]))
    keys = [name for name in ("private.key.file", "private.key.pem") if name in given]
    templates = [name for name in ("template.file", "jwt.template.file") if name in given]
    for names in (keys, templates):
        if len(names) > 1:
            raise ValueError(f"{' and '.join(ASSERTION + name for name in names)} say the same: give one of them")
    if keys == ["private.key.pem"] and text_of(given[keys[0]]) is None:
        raise ValueError(
            f"{ASSERTION}{keys[0]} must be PEM text, from {MARK} to the end; for a file give {ASSERTION}private.key.file"
        )
    if not keys:
        if given:
            raise ValueError(f"{ASSERTION}{min(given)} needs {ASSERTION}private.key.file: the key that signs")
        return None
    passphrase = given.get("private.key.passphrase")
    return SignedAssertion(
        given[keys[0]],
        passphrase=None if passphrase is None else str(passphrase),
        algorithm=str(given.get("algorithm", "RS256")),
        issuer=_text(given, "claim.iss"),
        subject=_text(given, "claim.sub"),
        audience=_text(given, "claim.aud"),
        lifetime_s=_seconds(given, "claim.exp.seconds", 300),
        not_before_s=_seconds(given, "claim.nbf.seconds", 60),
        jti=_flag(given, "claim.jti.include"),
        template=_text(given, templates[0]) if templates else None,
    )


def _one_of(known: tuple[str, ...], value: str, key: str) -> str:
    if value and value not in known:
        raise ValueError(f"{key} must be one of {', '.join(known)}")
    return value


def _text(given: Mapping[str, Any], name: str) -> str | None:
    return None if name not in given else str(given[name])


def _seconds(given: Mapping[str, Any], name: str, default: int) -> int:
    try:
        return int(given.get(name, default))
    except (TypeError, ValueError):
        raise ValueError(f"{ASSERTION}{name} must be a whole number of seconds") from None


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = str(given.get(name, "false")).strip().lower()
    if value not in ("true", "false"):
        raise ValueError(f"{name} must be true or false")
    return value == "true"
