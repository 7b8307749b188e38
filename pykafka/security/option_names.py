"""The names that other Python clients have for the options of security: `security_protocol`, `sasl_mechanism` and the like."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from pykafka.security.mechanism import Mechanism, Plain
from pykafka.security.ssl_config import SslConfig, check_agrees
from pykafka.utils.hints import CLIENT, unknown_option
from pykafka.utils.redact import concealing

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_SASL = (
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_oauth_token_provider",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
    "sasl_kerberos_name",
)
_TLS = (
    "ssl_context",
    "ssl_check_hostname",
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_crlfile",
    "ssl_ciphers",
)
#: All names of this module, by what they are about.
NAMES = ("security_protocol", *_SASL, *_TLS)


class OtherNames(TypedDict, total=False):
    """The types of these options, for checkers."""

    security_protocol: str | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: Any
    sasl_kerberos_service_name: str | None
    sasl_kerberos_domain_name: str | None
    sasl_kerberos_name: Any
    ssl_context: Any
    ssl_check_hostname: bool | None
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | None
    ssl_crlfile: str | None
    ssl_ciphers: str | None


@concealing
def security_of(
    given: Mapping[str, Any] | OtherNames, sasl: Mechanism | None, tls: Any
) -> tuple[Mechanism | None, Any]:
    """Return (sasl, tls) as KafkaClient has them, with what was given under other names.

    :param given: {name: value} of `NAMES`; None counts as not given
    :param sasl: the same under our name
    :param tls: the same under our name
    :raises TypeError: a name is unknown
    :raises ValueError: the options contradict each other, or lack something; the error shows no secrets
    """
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise unknown_option("KafkaClient()", unknown, NAMES, CLIENT)
    options = {name: value for name, value in given.items() if value is not None}
    if not options:
        return sasl, tls
    about_sasl = [name for name in _SASL if name in options]
    about_tls = [name for name in _TLS if name in options]
    for ours, value, theirs in (("sasl", sasl, about_sasl), ("ssl_config", tls, about_tls)):
        if value is not None and theirs:
            raise ValueError(f"{ours}= and {theirs[0]}= say the same: give one of them")
    protocol = options.get("security_protocol")
    if protocol is not None:
        protocol = _one_of("security_protocol", protocol, PROTOCOLS)
        _check_protocol(
            protocol, sasl is not None or bool(about_sasl), about_tls[:1] or (["ssl_config"] if tls else [])
        )
        if protocol.endswith("SSL") and tls is None:
            tls = _tls(options)
    elif about_tls:
        tls = _tls(options)
    if about_sasl:
        sasl = _mechanism(options)
    return sasl, tls


def _check_protocol(protocol: str, logs_in: bool, tls: list[str]) -> None:
    if protocol.startswith("SASL") and not logs_in:
        raise ValueError(
            f"security_protocol={protocol!r} needs credentials: give sasl=, or sasl_mechanism= and its options"
        )
    if logs_in and not protocol.startswith("SASL"):
        raise ValueError(
            f"security_protocol={protocol!r} does not log in, and credentials were given: use SASL_{protocol}"
        )
    if tls and not protocol.endswith("SSL"):
        raise ValueError(
            f"security_protocol={protocol!r} has no TLS, and {tls[0]}= was given: use {protocol.replace('PLAINTEXT', 'SSL')}"
        )


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if value.upper() not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value.upper()


def _tls(options: Mapping[str, Any]) -> Any:
    context = options.get("ssl_context")
    if context is not None:
        others = [name for name in _TLS if name in options and name not in {"ssl_context", "ssl_check_hostname"}]
        if others:
            raise ValueError(f"ssl_context= has its own certificates: leave out {others[0]}=")
        check_agrees(context, options.get("ssl_check_hostname"))
        return context
    return SslConfig(
        options.get("ssl_cafile"),
        options.get("ssl_certfile"),
        options.get("ssl_keyfile"),
        options.get("ssl_password"),
        check_hostname=options.get("ssl_check_hostname", True),
        ciphers=options.get("ssl_ciphers"),
        crlfile=options.get("ssl_crlfile"),
    )


def _mechanism(options: Mapping[str, Any]) -> Mechanism:
    if "sasl_mechanism" not in options:
        others = [name for name in _SASL if name in options]
        raise ValueError(f"{others[0]}= needs sasl_mechanism=: one of {', '.join(MECHANISMS)}")
    name = _one_of("sasl_mechanism", options["sasl_mechanism"], MECHANISMS)
    if name == "GSSAPI":
        _refuse_others(options, name, "sasl_kerberos_service_name", "sasl_kerberos_domain_name", "sasl_kerberos_name")
        if "sasl_kerberos_name" in options:
            raise ValueError("sasl_kerberos_name= is an object of gssapi: give sasl_kerberos_service_name= instead")
        from pykafka.security.kerberos import Gssapi

        return Gssapi(options.get("sasl_kerberos_service_name", "kafka"), host=options.get("sasl_kerberos_domain_name"))
    if name == "OAUTHBEARER":
        _refuse_others(options, name, "sasl_oauth_token_provider")
        from pykafka.security.oauth import OAuthBearer

        return OAuthBearer(token_function(_needed(options, name, "sasl_oauth_token_provider")))
    _refuse_others(options, name, "sasl_plain_username", "sasl_plain_password")
    user, password = (_needed(options, name, f"sasl_plain_{field}") for field in ("username", "password"))
    if name == "PLAIN":
        return Plain(user, password)
    from pykafka.security.scram import Scram

    return Scram(user, password, name)


def _needed(options: Mapping[str, Any], mechanism: str, name: str) -> Any:
    if name not in options:
        raise ValueError(f"sasl_mechanism={mechanism!r} needs {name}=")
    return options[name]


def _refuse_others(options: Mapping[str, Any], mechanism: str, *own: str) -> None:
    others = [name for name in _SASL[1:] if name in options and name not in own]
    if others:
        raise ValueError(f"sasl_mechanism={mechanism!r} does not use {others[0]}=: leave it out")


def token_function(provider: Any) -> Callable[[], Any]:
    """Return a function for `OAuthBearer` from an object with `token()`, or from a function."""
    token = getattr(provider, "token", provider)
    if inspect.iscoroutinefunction(token):
        raise TypeError("sasl_oauth_token_provider must return its token at once: token() is a coroutine here")
    if not callable(token):
        raise TypeError(f"sasl_oauth_token_provider must have token(), not be a {type(provider).__name__}")
    extensions = getattr(provider, "extensions", None)
    return token if extensions is None else _WithExtensions(token, extensions)


class TokensOfCallback:
    """The tokens of an `oauth_cb`, as confluent-kafka has it: it returns (token, end in s since 1970, principal, extensions).

    :param callback: takes the configuration; the last two of its results may be missing
    :param config: the value of `sasl.oauthbearer.config`
    """

    def __init__(self, callback: Callable[[str | None], Any], config: str | None) -> None:
        if not callable(callback):
            raise TypeError(f"oauth_cb must be a function, not {type(callback).__name__}")
        self._callback = callback
        self._config = config

    def __repr__(self) -> str:
        return "oauth_cb"

    def __call__(self) -> Any:
        """Return a token."""
        from pykafka.security.oauth import OAuthToken

        value, ends_at, *further = self._callback(self._config)
        return OAuthToken(value, expires_at=ends_at, extensions=(further[1] if len(further) > 1 else None) or {})


class _WithExtensions:
    """The tokens of a provider that gives their extensions by a method of its own.

    :param token: returns the text of a token
    :param extensions: returns {name: value}
    """

    def __init__(self, token: Callable[[], Any], extensions: Callable[[], Mapping[str, str]]) -> None:
        self._token = token
        self._extensions = extensions

    def __call__(self) -> Any:
        """Return a token with its extensions."""
        from pykafka.security.oauth import OAuthToken

        token = self._token()
        extensions = self._extensions() or {}
        return OAuthToken(token, extensions=dict(extensions)) if extensions and isinstance(token, str) else token
