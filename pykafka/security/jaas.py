"""`mechanism_of_jaas`: the credentials in the JAAS text of Kafka's Java clients (`sasl.jaas.config`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pykafka.security.mechanism import Mechanism
from pykafka.security.oauth import OAuthBearer
from pykafka.security.oidc import OidcClientCredentials
from pykafka.security.plain import Plain
from pykafka.security.scram import ALGORITHMS, DelegationToken, Scram
from pykafka.utils.redact import concealing

#: Where a login module is named: the last part of its class.
_PLAIN, _SCRAM, _OAUTH, _KERBEROS = "PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule", "Krb5LoginModule"
_MODULES = {"PLAIN": _PLAIN, **dict.fromkeys(ALGORITHMS, _SCRAM), "OAUTHBEARER": _OAUTH, "GSSAPI": _KERBEROS}
_FLAGS = {"required", "requisite", "sufficient", "optional"}
#: As Java's StreamTokenizer reads it: comments, texts in quotes with escapes, words, and single characters.
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/
    |(?P<quote>["'])(?P<text>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?P=quote)
    |(?P<word>[\w$.\-+/:@~*%&!?,()\[\]<>^|\u0080-\uffff]+)
    |(?P<sign>[=;{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class LoginModule(NamedTuple):
    """One entry of a JAAS text.

    :param name: the class, such as "org.apache.kafka.common.security.plain.PlainLoginModule"
    :param flag: "required" or the like
    :param options: {name: value}
    """

    name: str
    flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} options={sorted(self.options)}>"


@concealing
def parse_jaas(text: str) -> list[LoginModule]:
    """Return the entries of a JAAS text: "Class flag name=value ...;".

    :raises ValueError: the text is none; the error shows no values
    """
    return list(_Parser(text).modules())


class _Parser:
    """The entries of one text.

    :param text: of the configuration
    """

    def __init__(self, text: str) -> None:
        self._tokens = self._split(text)
        self._length = len(text)

    @staticmethod
    def _split(text: str) -> list[tuple[str, str, int]]:
        """Return (kind, text, place) of each token."""
        found: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _wrong("a character that does not belong there, or a quote without its end,", at)
            kind = match.lastgroup
            if match["quote"] is not None:
                found.append(("text", _ESCAPE.sub(_unescape, match["text"]), at))
            elif kind in {"word", "sign"}:
                found.append((kind, match[kind], at))
            at = match.end()
        return found

    def _take(self, kinds: str, what: str) -> tuple[str, str]:
        """Take the next token, of one of these kinds."""
        if not self._tokens:
            raise _wrong(f"the end of the text, where {what} is wanted,", self._length)
        kind, text, at = self._tokens.pop(0)
        if kind not in kinds.split() and not (kind == "sign" and text in kinds.split()):
            raise _wrong(f"something else than {what}", at)
        return kind, text

    def modules(self) -> Iterator[LoginModule]:
        while self._tokens:
            name = self._take("word text", "the class of a login module")[1]
            flag = self._take("word", "a flag such as 'required'")[1]
            if flag.lower() not in _FLAGS:
                raise ValueError("the JAAS text has no flag such as 'required' behind the class of a login module")
            yield LoginModule(name, flag, self._options())

    def _options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        while True:
            kind, name = self._take("word text ;", "an option or ';'")
            if kind == "sign":
                return options
            # No error shows the name: behind a quote that is not escaped it is a part of a password.
            self._take("=", "'=' behind the name of an option")
            options[name] = self._take("word text", "the value of an option")[1]


def _unescape(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPES.get(text, text)


def _wrong(what: str, at: int) -> ValueError:
    return ValueError(
        f"the JAAS text has {what} at character {at}; it must be like 'org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="..." password="...";\''
    )


@concealing
def mechanism_of_jaas(text: str, mechanism: str, properties: Mapping[str, str] | None = None) -> Mechanism:
    """Return the credentials of a JAAS text.

    :param text: `sasl.jaas.config`
    :param mechanism: `sasl.mechanism`
    :param properties: further properties of the Java client: `sasl.oauthbearer.*`, `sasl.kerberos.service.name`
    :raises ValueError: something is missing, or cannot be used here; the error shows no secrets
    """
    wanted = _MODULES.get(mechanism)
    if wanted is None:
        raise ValueError(f"sasl.mechanism must be one of {', '.join(_MODULES)}, not {mechanism!r}")
    modules = parse_jaas(text)
    if len(modules) != 1:
        raise ValueError(f"the JAAS text must have one login module, not {len(modules)}")
    module = modules[0]
    if module.name.rpartition(".")[2] != wanted:
        raise ValueError(f"sasl.mechanism is {mechanism}, which needs {wanted}, and the JAAS text has {module.name}")
    options = dict(module.options)
    told = dict(properties or {})
    if wanted == _PLAIN:
        return Plain(_option(options, "username"), _option(options, "password"))
    if wanted == _SCRAM:
        user, password = _option(options, "username"), _option(options, "password")
        is_token = options.get("tokenauth", "false").lower() == "true"
        return (DelegationToken if is_token else Scram)(user, password, mechanism)
    if wanted == _OAUTH:
        return _oauth(options, told)
    return _kerberos(options, told)


def _option(options: Mapping[str, str], name: str) -> str:
    value = options.get(name)
    if not value:
        raise ValueError(f"the JAAS text lacks {name}=")
    return value


def _oauth(options: Mapping[str, str], told: Mapping[str, str]) -> Mechanism:
    url = told.get("sasl.oauthbearer.token.endpoint.url")
    if not url:
        raise ValueError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url here: tokens without a signature are not made, and classes "
            "of Java not called; for another source of tokens, give sasl=OAuthBearer(...)"
        )
    names = {"client.id": "clientId", "client.secret": "clientSecret"}
    client_id, secret = (
        told.get(f"sasl.oauthbearer.client.credentials.{new}") or _option(options, old) for new, old in names.items()
    )
    extensions = {
        name.removeprefix("extension_"): value for name, value in options.items() if name.startswith("extension_")
    }
    source = OidcClientCredentials(
        url,
        client_id,
        secret,
        scope=told.get("sasl.oauthbearer.scope") or options.get("scope"),
        urlencode=told.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true",
        cafile=_cafile(options),
    )
    return OAuthBearer(source, extensions)


def _cafile(options: Mapping[str, str]) -> str | None:
    path = options.get("ssl.truststore.location")
    if path is not None and options.get("ssl.truststore.type", "PEM").upper() != "PEM":
        raise ValueError("the JAAS text's ssl.truststore.location must be a PEM file here (ssl.truststore.type=PEM)")
    return path


def _kerberos(options: Mapping[str, str], told: Mapping[str, str]) -> Mechanism:
    from pykafka.security.kerberos import Gssapi

    if "ticketCache" in options:
        raise ValueError(
            "ticketCache of the JAAS text is not used here: name the cache by the environment's KRB5CCNAME"
        )
    keytab = _option(options, "keyTab") if options.get("useKeyTab", "false").lower() == "true" else None
    service = told.get("sasl.kerberos.service.name") or options.get("serviceName")
    if not service:
        raise ValueError("GSSAPI needs sasl.kerberos.service.name: the name of the brokers' service, often 'kafka'")
    host = told.get("sasl.kerberos.domain.name")
    return Gssapi(service, principal=options.get("principal"), keytab=keytab, host=host)
