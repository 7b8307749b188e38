"""TLS and SASL of a configuration: the keys of three clients, as an SslConfig and a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pykafka.config.keys import PROTOCOL, SASL, flag, text
from pykafka.exceptions import ConfigurationError
from pykafka.security import (
    Gssapi,
    Mechanism,
    OAuthBearer,
    Plain,
    Scram,
    SslConfig,
    SslConfigLike,
    mechanism_of_jaas,
)
from pykafka.security.java_sasl import (
    AWS_MSK_IAM,
    CALLBACKS,
    MSK_LINES,
    CallbackError,
    is_known,
    mechanism_of_callbacks,
    other_tokens,
)
from pykafka.security.java_tls import VERSIONS, TlsOptionError, TlsOptions, tls_options
from pykafka.security.managed_identity import azure_identity
from pykafka.security.oauth_options import has_assertion, token_source
from pykafka.security.option_names import TokensOfCallback, token_function
from pykafka.security.ssl_config import check_agrees

_SERVICE = "sasl.kerberos.service.name"
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
#: librdkafka's word for the authorities of the system.
SYSTEM = "probe"
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
#: Keys that Java has not.
_APART = {"ssl.context", "ssl.check.hostname"}


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
        harmless = {
            "ssl.endpoint.identification.algorithm",
            "ssl.check.hostname",
            "ssl.protocol",
            "ssl.enabled.protocols",
        }
        harmless |= {"sasl.mechanism", "sasl.mechanisms", _SERVICE, *CALLBACKS}
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
    if values.get("ssl.context") is not None:
        return _context_of(values)
    java = _java_texts(values)
    algorithm = java.get("endpoint.identification.algorithm")
    try:
        options = tls_options(java | {"endpoint.identification.algorithm": _checked(algorithm)}, "ssl.")
    except TlsOptionError as error:
        raise ConfigurationError(str(error)) from None
    given = _arguments(options)
    _add_files(given, values)
    _add_checks(given, values, algorithm)
    suites = java.get("cipher.suites")
    if suites:
        if suites.startswith("TLS_") and "_WITH_" in suites:
            raise ConfigurationError(
                "ssl.cipher.suites has Java's names, and OpenSSL has others: remove it, or give OpenSSL's list of ciphers"
            )
        given["ciphers"] = suites
    return SslConfig(**given)


def _context_of(values: Mapping[str, Any]) -> SslConfigLike:
    """Return a configuration's `ssl.SSLContext`, beside which there is nothing else about certificates."""
    others = sorted(key for key in values if key.startswith("ssl.") and key not in _APART)
    if others:
        raise ConfigurationError(f"ssl_context has its own certificates: remove {others[0]}")
    context: SslConfigLike = values["ssl.context"]
    checks = values.get("ssl.check.hostname")
    try:
        check_agrees(context, None if checks is None else flag(checks, "ssl.check.hostname"))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    return context


def _java_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return what the keys of Java's `ssl.` say, without that prefix."""
    java = {
        key.removeprefix("ssl."): text(value, key)
        for key, value in values.items()
        if key.startswith("ssl.") and key not in _APART
    }
    empty = sorted(
        f"ssl.{name}" for name, value in java.items() if not value and name.endswith(("location", "file", ".pem"))
    )
    if empty:
        raise ConfigurationError(f"{empty[0]} is empty: give a file, or remove the key")
    return java


def _checked(algorithm: str | None) -> str:
    """Return how host names are checked, in Java's words; librdkafka calls no check "none"."""
    if algorithm is None or algorithm.lower() == "https":
        return "https"
    if algorithm.lower() not in {"none", ""}:
        raise ConfigurationError("ssl.endpoint.identification.algorithm must be https, or empty or none for no check")
    return ""


def _add_files(given: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Add the certificates and the key that librdkafka's and kafka-python's keys name."""
    named: dict[str, str] = {}
    for key, parameter in _FILES.items():
        if key not in values:
            continue
        if given.get(parameter) is not None and parameter != "password":
            other = named.get(parameter, "a store")
            raise ConfigurationError(f"{key} and {other} say the same: give one of them")
        value = values[key] if key == "ssl.password" else text(values[key], key)
        if key == "ssl.ca.location" and value == SYSTEM:
            continue
        if parameter == "password" and given["password"] not in (None, value):
            theirs = (one for one in ("ssl.keystore.password", "ssl.key.password") if one in values)
            raise ConfigurationError(f"{key} and {next(theirs)} are one password, with two values: remove one of them")
        given[parameter], named[parameter] = value, key
    if given["certfile"] is None and given["keyfile"] is not None:
        raise ConfigurationError(
            f"{named['keyfile']} is the key of a certificate, which is missing: add ssl.certificate.location"
        )


def _add_checks(given: dict[str, Any], values: Mapping[str, Any], algorithm: str | None) -> None:
    """Add whether the broker's name and certificate are checked."""
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
_JAAS = "sasl.jaas.config"
_URL = "sasl.oauthbearer.token.endpoint.url"
#: Java's name of a key, by librdkafka's.
_OAUTH = {
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
_USER, _PASSWORD = ("sasl.username", "sasl.plain.username"), ("sasl.password", "sasl.plain.password")
#: Functions of Python that give tokens: kafka-python's and confluent-kafka's.
_SOURCES = ("sasl.oauth.token.provider", "oauth.cb")
_METHOD = "sasl.oauthbearer.method"
_CALLBACK_CONFIG = "sasl.oauthbearer.config"
#: Where librdkafka gets tokens of the machine's own identity.
_METADATA = "sasl.oauthbearer.metadata.authentication.type"
_AZURE, _AWS = "azure_imds", "aws_iam"
_AUTHORITIES = ("https.ca.location", "https.ca.pem")
#: Keys that have no meaning beside a JAAS text, which has their values.
_NOT_BESIDE_JAAS = {
    *(*_USER, *_PASSWORD, *_SOURCES, *_AUTHORITIES, "sasl.oauthbearer.extensions"),
    *("sasl.kerberos.principal", "sasl.kerberos.keytab"),
}
#: One name for keys that say the same.
SAME = {
    **_FILES,
    **_OAUTH,
    **{other: name for name, other in (_USER, _PASSWORD)},
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.truststore.location": "cafile",
    "ssl.truststore.certificates": "cafile",
    "ssl.keystore.location": "certfile",
}
#: Keys of each mechanism: their beginnings.
_OF_MECHANISM = {
    **dict.fromkeys(("PLAIN", *_SCRAM), ("sasl.username", "sasl.password", "sasl.plain.")),
    "OAUTHBEARER": ("sasl.oauthbearer.", *_SOURCES, *_AUTHORITIES),
    "GSSAPI": ("sasl.kerberos.",),
}
_OF_ALL = {PROTOCOL, "sasl.mechanism", "sasl.mechanisms", _JAAS, *CALLBACKS}


def _name_of(values: Mapping[str, Any]) -> str:
    """Return the name of the mechanism, in upper case; "" if none is given.

    :raises ConfigurationError: two are given
    """
    given = {key: text(values[key], key).upper() for key in ("sasl.mechanism", "sasl.mechanisms") if key in values}
    if len({*given.values()}) > 1:
        raise ConfigurationError(f"{' and '.join(given)} are one option, with two values: remove one of them")
    if given:
        return next(iter(given.values()))
    # Both other clients log in by Kerberos if nothing else is said.
    is_kerberos = any(key.startswith("sasl.kerberos.") for key in values) or "Krb5LoginModule" in values.get(_JAAS, "")
    return "GSSAPI" if is_kerberos else ""


def idle(values: Mapping[str, Any]) -> list[str]:
    """Return the keys of a configuration that are about other mechanisms than its own, or name a class that is not called."""
    if not protocol_of(values)[1]:
        return [key for key in (_SERVICE, *CALLBACKS, *_AUTHORITIES, *_SOURCES) if key in values]
    own = _OF_MECHANISM.get(_name_of(values))
    classes = [key for key in CALLBACKS if key in values and not is_known(values[key])]
    if own is None:
        return classes
    others = [key for key in values if key in SASL and key not in _OF_ALL and not key.startswith(own)]
    is_taken = "oauth.cb" in values or str(values.get(_METADATA)).lower() == _AZURE
    return others + classes + ([_CALLBACK_CONFIG] if _CALLBACK_CONFIG in values and not is_taken else [])


def mechanism_of(values: Mapping[str, Any], hosts: str) -> Mechanism:
    """Return the credentials of a configuration.

    :param values: {key: value}, keys as `references.plain` returns them
    :param hosts: "host:port,host:port"; the first of AWS MSK shows the region, the first of Azure the event hubs
    :raises ConfigurationError: the mechanism is unknown, something that it needs is missing, or keys contradict each other
    """
    name = _name_of(values)
    named = {key: values[key] for key in CALLBACKS if key in values and is_known(values[key])}
    try:
        called = mechanism_of_callbacks(named, name, values.get(_JAAS, ""), hosts)
    except CallbackError as error:
        raise ConfigurationError(str(error)) from None
    if called is not None:
        return called
    if name == AWS_MSK_IAM:
        raise ConfigurationError(f"{MSK_LINES}. Or give KafkaClient sasl=OAuthBearer(...), as in examples/msk_iam.py")
    if name not in _MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism must be one of {', '.join(_MECHANISMS)}: one that the brokers offer")
    others = [key for key in CALLBACKS if key in values and other_tokens(values[key])]
    if name == "OAUTHBEARER" and others and _first(values, _URL, *_SOURCES) is None:
        raise ConfigurationError(
            f"{others[0]} names a Java class, which is not called here: {other_tokens(values[others[0]])}"
        )
    try:
        if _JAAS in values:
            twice = sorted(key for key in values if key in _NOT_BESIDE_JAAS and key.startswith(_OF_MECHANISM[name]))
            if twice:
                raise ConfigurationError(f"{twice[0]} has no meaning beside {_JAAS}, which has it: remove one of them")
            properties = {_OAUTH.get(key, key): str(value) for key, value in values.items() if key.startswith("sasl.")}
            return mechanism_of_jaas(values[_JAAS], name, properties)
        if name == "OAUTHBEARER":
            return _oauth({_OAUTH.get(key, key): value for key, value in values.items()})
        if name == "GSSAPI":
            return _kerberos(values)
        user, password = _needed(values, name, *_USER), _needed(values, name, *_PASSWORD)
        return Plain(user, password) if name == "PLAIN" else Scram(user, password, name)
    except (TypeError, ValueError) as error:  # they show no secrets
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"the credentials for {name} cannot be used: {error}") from None


def _first(values: Mapping[str, Any], *keys: str) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _needed(values: Mapping[str, Any], mechanism: str, *keys: str) -> str:
    given = [key for key in keys if values.get(key) is not None]
    if not given:
        raise ConfigurationError(f"{mechanism} needs {keys[0]}: give it, or {_JAAS}; a secret best as a reference")
    if any(values[key] != values[given[0]] for key in given):
        raise ConfigurationError(f"{' and '.join(given)} are one option, with two values: remove one of them")
    return str(values[given[0]])


def _metadata(values: Mapping[str, Any]) -> str:
    """Return which metadata service gives tokens; "none" for none.

    :raises ConfigurationError: it is one that this client does not ask
    """
    found = text(values.get(_METADATA, "none"), _METADATA).lower()
    if found == _AWS:
        raise ConfigurationError(
            f"{_METADATA}={_AWS} is not taken here: give KafkaClient sasl=OAuthBearer(...) with a function, as in "
            "examples/msk_iam.py"
        )
    if found not in {"none", _AZURE}:
        raise ConfigurationError(f"{_METADATA} must be none or {_AZURE}")
    return found


def _authorities(values: Mapping[str, Any]) -> str | None:
    """Return the file of the authorities that sign certificates of token endpoints; None for the system's."""
    given = [key for key in _AUTHORITIES if values.get(key) is not None]
    if len(given) > 1:
        raise ConfigurationError(f"{' and '.join(given)} say the same: give one of them")
    cafile = text(values[given[0]], given[0]) if given else SYSTEM
    return None if cafile == SYSTEM else cafile


def _oauth(values: Mapping[str, Any]) -> Mechanism:
    pairs = text(values.get("sasl.oauthbearer.extensions", ""), "sasl.oauthbearer.extensions").split(",")
    parts = (pair.partition("=") for pair in pairs if pair)
    extensions = {name.strip(): value.strip() for name, _, value in parts}
    sources = [key for key in (*_SOURCES, _URL) if values.get(key) is not None]
    method = text(values.get(_METHOD, "oidc"), _METHOD).lower()
    if method not in {"oidc", "default"}:
        raise ConfigurationError(f"{_METHOD} must be oidc or default")
    if method == "default" and _URL in sources:
        raise ConfigurationError(f"{_METHOD} is default, but {_URL} is given: set it to oidc, or remove one of them")
    if len(sources) > 1:
        raise ConfigurationError(f"{' and '.join(sources)} are two sources of tokens: remove one of them")
    for key in {*_SOURCES} & {*sources}:
        source = values[key]
        if key == "oauth.cb":
            source = TokensOfCallback(source, values.get(_CALLBACK_CONFIG))
        return OAuthBearer(token_function(source), extensions)
    if _metadata(values) == _AZURE:
        config = text(values.get(_CALLBACK_CONFIG, ""), _CALLBACK_CONFIG)
        return OAuthBearer(azure_identity(config, _first(values, _URL)), extensions)
    if not sources:
        raise ConfigurationError(
            f"OAUTHBEARER needs {_URL} with {' and '.join(_OAUTH.values())}; for another source of tokens give KafkaClient "
            "sasl=OAuthBearer(...)"
        )
    return OAuthBearer(_oidc_tokens(values), extensions)


def _oidc_tokens(values: Mapping[str, Any]) -> Callable[[], Any]:
    """Return the source of tokens that asks an OpenID provider for them."""
    client_id, secret = (
        _first(values, key) if has_assertion(values) else _needed(values, "OAUTHBEARER", key) for key in _OAUTH.values()
    )
    encode = flag(values.get("sasl.oauthbearer.header.urlencode", False), "sasl.oauthbearer.header.urlencode")
    return token_source(
        {**values, "sasl.oauthbearer.header.urlencode": encode},
        client_id=client_id,
        client_secret=secret,
        scope=_first(values, "sasl.oauthbearer.scope"),
        cafile=_authorities(values),
    )


def _kerberos(values: Mapping[str, Any]) -> Mechanism:
    return Gssapi(
        _first(values, "sasl.kerberos.service.name") or "kafka",
        principal=_first(values, "sasl.kerberos.principal"),
        keytab=_first(values, "sasl.kerberos.keytab"),
        host=_first(values, "sasl.kerberos.domain.name"),
    )
