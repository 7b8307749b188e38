"""TLS and SASL of a configuration: the keys of three clients, as an SslConfig and a mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka.config.keys import PROTOCOL, flag, text
from pykafka.exceptions import ConfigurationError
from pykafka.security import (
    Gssapi,
    Mechanism,
    OAuthBearer,
    OidcClientCredentials,
    Plain,
    Scram,
    SslConfig,
    SslConfigLike,
    mechanism_of_jaas,
)
from pykafka.security.javatls import VERSIONS, TlsOptionError, TlsOptions, tls_options

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
#: The same parameter of SslConfig by other names: librdkafka's, then kafka-python's.
_FILES = {
    "ssl.ca.location": "cafile",
    "ssl.ca.pem": "cafile",
    "ssl.certificate.location": "certfile",
    "ssl.certificate.pem": "certfile",
    "ssl.key.location": "keyfile",
    "ssl.key.pem": "keyfile",
    "ssl.crl.location": "crlfile",
    "ssl.cafile": "cafile",
    "ssl.certfile": "certfile",
    "ssl.keyfile": "keyfile",
    "ssl.password": "password",
    "ssl.crlfile": "crlfile",
    "ssl.ciphers": "ciphers",
}
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def protocol_of(values: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether a configuration wants TLS, and whether it wants SASL.

    :param values: {key: value}, keys as `references.plain` returns them
    :raises ConfigurationError: there is no such protocol, or keys contradict it
    """
    given = text(values.get(PROTOCOL, "PLAINTEXT"), PROTOCOL).upper()
    if given not in PROTOCOLS:
        raise ConfigurationError(f"{PROTOCOL} must be one of {', '.join(PROTOCOLS)}")
    tls, sasl = given.endswith("SSL"), given.startswith("SASL")
    default = "" if PROTOCOL in values else " (its default)"
    for prefix, wanted, about, remedy in (
        ("ssl.", tls, "TLS", "SSL or SASL_SSL"),
        ("sasl.", sasl, "SASL", "SASL_SSL or SASL_PLAINTEXT"),
    ):
        # These say nothing on their own: configurations carry them along.
        harmless = {"ssl.endpoint.identification.algorithm", "ssl.protocol", "ssl.enabled.protocols", "sasl.mechanism"}
        about_it = sorted(key for key in values if key.startswith(prefix) and key not in harmless)
        if about_it and not wanted:
            raise ConfigurationError(
                f"{about_it[0]} is about {about}, but {PROTOCOL} is {given}{default}: set it to {remedy}, or remove the key"
            )
    return tls, sasl


def tls_of(values: Mapping[str, Any]) -> SslConfigLike:
    """Return the certificates of a configuration.

    :param values: {key: value}, keys as `references.plain` returns them
    :raises ConfigurationError: keys contradict each other, or one is malformed
    """
    context = values.get("ssl.context")
    if context is not None and not isinstance(context, str):
        found: SslConfigLike = context
        return found
    apart = {"ssl.context", "ssl.check.hostname"}
    java = {
        key.removeprefix("ssl."): text(value, key)
        for key, value in values.items()
        if key.startswith("ssl.") and key not in apart
    }
    algorithm = java.get("endpoint.identification.algorithm")
    if algorithm is not None and algorithm.lower() not in {"https", "none", ""}:
        raise ConfigurationError("ssl.endpoint.identification.algorithm must be https, or empty or none for no check")
    java["endpoint.identification.algorithm"] = (
        "" if algorithm is not None and algorithm.lower() in {"none", ""} else "https"
    )
    try:
        options = tls_options(java, "ssl.")
    except TlsOptionError as error:
        raise ConfigurationError(str(error)) from None
    given = _arguments(options)
    named: dict[str, str] = {}
    for key, parameter in _FILES.items():
        if key not in values:
            continue
        if given.get(parameter) is not None and parameter != "password":
            other = named.get(parameter, "a store")
            raise ConfigurationError(f"{key} and {other} say the same: give one of them")
        value = text(values[key], key)
        if parameter == "password" and given["password"] not in (None, value):
            others = (one for one in ("ssl.keystore.password", "ssl.key.password") if one in values)
            raise ConfigurationError(f"{key} and {next(others)} are one password, with two values: remove one of them")
        given[parameter], named[parameter] = value, key
    if "ssl.check.hostname" in values:
        checks = flag(values["ssl.check.hostname"], "ssl.check.hostname")
        if algorithm is not None and checks != given["check_hostname"]:
            raise ConfigurationError(
                f"ssl.check.hostname is {str(checks).lower()}, and ssl.endpoint.identification.algorithm says the contrary: "
                "remove one of them"
            )
        given["check_hostname"] = checks
    if "enable.ssl.certificate.verification" in values:
        key = "enable.ssl.certificate.verification"
        given["verify"] = flag(values[key], key)
    suites = java.get("cipher.suites")
    if suites is not None:
        if suites.startswith("TLS_") and "_WITH_" in suites:
            raise ConfigurationError(
                "ssl.cipher.suites has Java's names, and OpenSSL has others: remove it, or give OpenSSL's list of ciphers"
            )
        given["ciphers"] = suites
    if given["certfile"] is None and given["keyfile"] is not None:
        raise ConfigurationError(
            f"{named['keyfile']} is the key of a certificate, which is missing: add ssl.certificate.location"
        )
    return SslConfig(**given)


def _arguments(options: TlsOptions) -> dict[str, Any]:
    return {
        "cafile": options.ca_pem or options.ca_file,
        "certfile": options.identity_pem or options.identity_file,
        "keyfile": None,
        "password": options.password,
        "check_hostname": options.check_hostname,
        # What OpenSSL allows is just that; librdkafka has no setting for versions.
        "versions": None if options.versions == VERSIONS else (options.versions[0], options.versions[-1]),
        "ca_password": options.ca_password,
    }


# -- SASL ------------------------------------------------------------------------------------------------------------

_MECHANISMS = ("PLAIN", *_SCRAM, "OAUTHBEARER", "GSSAPI")
_URL = "sasl.oauthbearer.token.endpoint.url"
#: Java's name of a key, by librdkafka's.
_OAUTH = {
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}


def mechanism_of(values: Mapping[str, Any]) -> Mechanism:
    """Return the credentials of a configuration.

    :param values: {key: value}, keys as `references.plain` returns them
    :raises ConfigurationError: the mechanism is unknown, or something that it needs is missing
    """
    name = text(_first(values, "sasl.mechanism", "sasl.mechanisms") or "", "sasl.mechanism").upper()
    if name not in _MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism must be one of {', '.join(_MECHANISMS)}: one that the brokers offer")
    try:
        if "sasl.jaas.config" in values:
            told = {_OAUTH.get(key, key): str(value) for key, value in values.items() if key.startswith("sasl.")}
            return mechanism_of_jaas(text(values["sasl.jaas.config"], "sasl.jaas.config"), name, told)
        if name == "OAUTHBEARER":
            return _oauth({_OAUTH.get(key, key): value for key, value in values.items()})
        if name == "GSSAPI":
            return _kerberos(values)
        user = _needed(values, name, "sasl.username", "sasl.plain.username")
        secret = _needed(values, name, "sasl.password", "sasl.plain.password")
        return Plain(user, secret) if name == "PLAIN" else Scram(user, secret, name)
    except (TypeError, ValueError) as error:  # they show no secrets
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"the credentials for {name} cannot be used: {error}") from None


def _first(values: Mapping[str, Any], *keys: str) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _needed(values: Mapping[str, Any], mechanism: str, *keys: str) -> str:
    value = _first(values, *keys)
    if value is None:
        raise ConfigurationError(
            f"{mechanism} needs {keys[0]}: give it, or sasl.jaas.config; a secret best as a reference"
        )
    return str(value)


def _oauth(values: Mapping[str, Any]) -> Mechanism:
    extensions = {}
    for pair in filter(
        None, text(values.get("sasl.oauthbearer.extensions", ""), "sasl.oauthbearer.extensions").split(",")
    ):
        name, _, value = pair.partition("=")
        extensions[name.strip()] = value.strip()
    provider = values.get("sasl.oauth.token.provider")
    if provider is not None:  # of kafka-python: an object with token()
        return OAuthBearer(getattr(provider, "token", provider), extensions)
    if values.get(_URL) is None:
        raise ConfigurationError(
            f"OAUTHBEARER needs {_URL} with {' and '.join(_OAUTH.values())}; for another source of tokens give KafkaClient "
            "sasl=OAuthBearer(...)"
        )
    client_id, secret = (_needed(values, "OAUTHBEARER", key) for key in _OAUTH.values())
    encode = flag(values.get("sasl.oauthbearer.header.urlencode", False), "sasl.oauthbearer.header.urlencode")
    scope = _first(values, "sasl.oauthbearer.scope")
    return OAuthBearer(
        OidcClientCredentials(text(values[_URL], _URL), client_id, secret, scope=scope, urlencode=encode), extensions
    )


def _kerberos(values: Mapping[str, Any]) -> Mechanism:
    return Gssapi(
        _first(values, "sasl.kerberos.service.name") or "kafka",
        principal=_first(values, "sasl.kerberos.principal"),
        keytab=_first(values, "sasl.kerberos.keytab"),
    )
