"""`mechanism_of_jaas`: the credentials in the JAAS text of Kafka's Java clients (`sasl.jaas.config`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from pykafka.exceptions import TokenUnavailableError
from pykafka.security.mechanism import Mechanism, Plain, redacted
from pykafka.security.oauth import OAuthBearer, OAuthToken
from pykafka.security.oauth_options import has_assertion, token_source
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

#: The mechanism that Java's library for MSK has; its brokers take OAUTHBEARER with a signed address as well.
AWS_MSK_IAM = "AWS_MSK_IAM"
_IAM_MODULE, _OAUTH_MODULE = "IAMLoginModule", "OAuthBearerLoginModule"
_IAM = ("IAMClientCallbackHandler", "IAMOAuthBearerLoginCallbackHandler")
#: The properties of a Java client that name such a class.
CALLBACKS = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class")
#: The lines for MSK, if a configuration has the mechanism alone.
MSK_LINES = (
    "AWS_MSK_IAM needs the two lines that Java's clients have, sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule "
    "required; and sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler"
)
_ENTRA = ("CustomAuthenticateCallbackHandler", "KafkaOAuth2AuthenticateCallbackHandler")
#: What Java's own client needs for tokens of an endpoint, and this one does without.
_OIDC = ("OAuthBearerLoginCallbackHandler",)
#: Other sources of tokens: a part of the class's name, and what to do instead.
_OTHER_TOKENS = {
    "GcpLoginCallbackHandler": "give KafkaClient sasl=OAuthBearer(...) with tokens of the package google-auth",
    "strimzi": "write oauth.token.endpoint.uri as sasl.oauthbearer.token.endpoint.url, with clientId and clientSecret in "
    "sasl.jaas.config; or give KafkaClient sasl=OAuthBearer(...)",
    "": "write the address of the tokens as sasl.oauthbearer.token.endpoint.url, with clientId and clientSecret in "
    "sasl.jaas.config; or give KafkaClient sasl=OAuthBearer(...)",
}
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.(?:api\.)?amazonaws\.com")
_EVENT_HUBS = re.compile(r"([\w-]+\.servicebus\.(?:windows\.net|usgovcloudapi\.net|chinacloudapi\.cn))", re.IGNORECASE)
#: Options of a JAAS text for MSK, and those of them without a meaning here.
_PROFILE, _ROLE, _SESSION = "awsProfileName", "awsRoleArn", "awsRoleSessionName"
_TUNING = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs", "awsStsRegion")


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
    values = dict(properties or {})
    if wanted == _PLAIN:
        return Plain(_option(options, "username"), _option(options, "password"))
    if wanted == _SCRAM:
        user, password = _option(options, "username"), _option(options, "password")
        is_token = options.get("tokenauth", "false").lower() == "true"
        return (DelegationToken if is_token else Scram)(user, password, mechanism)
    if wanted == _OAUTH:
        return _oauth(options, values)
    return _kerberos(options, values)


def _option(options: Mapping[str, str], name: str) -> str:
    value = options.get(name)
    if not value:
        raise ValueError(f"the JAAS text lacks {name}=")
    return value


def _oauth(options: Mapping[str, str], values: Mapping[str, str]) -> Mechanism:
    url = values.get("sasl.oauthbearer.token.endpoint.url")
    if not url:
        raise ValueError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url here: tokens without a signature are not made, and classes "
            "of Java not called; for another source of tokens, give sasl=OAuthBearer(...)"
        )
    names = {"client.id": "clientId", "client.secret": "clientSecret"}
    find = options.get if has_assertion(values) else partial(_option, options)
    client_id, secret = (
        values.get(f"sasl.oauthbearer.client.credentials.{new}") or find(old) for new, old in names.items()
    )
    extensions = {
        name.removeprefix("extension_"): value for name, value in options.items() if name.startswith("extension_")
    }
    scope = values.get("sasl.oauthbearer.scope") or options.get("scope")
    source = token_source(values, client_id=client_id, client_secret=secret, scope=scope, cafile=_cafile(options))
    return OAuthBearer(source, extensions)


def _cafile(options: Mapping[str, str]) -> str | None:
    path = options.get("ssl.truststore.location")
    if path is not None and options.get("ssl.truststore.type", "PEM").upper() != "PEM":
        raise ValueError("the JAAS text's ssl.truststore.location must be a PEM file here (ssl.truststore.type=PEM)")
    return path


def _kerberos(options: Mapping[str, str], values: Mapping[str, str]) -> Mechanism:
    from pykafka.security.kerberos import Gssapi

    if "ticketCache" in options:
        raise ValueError(
            "ticketCache of the JAAS text is not used here: name the cache by the environment's KRB5CCNAME"
        )
    keytab = _option(options, "keyTab") if options.get("useKeyTab", "false").lower() == "true" else None
    service = values.get("sasl.kerberos.service.name") or options.get("serviceName")
    if not service:
        raise ValueError("GSSAPI needs sasl.kerberos.service.name: the name of the brokers' service, often 'kafka'")
    host = values.get("sasl.kerberos.domain.name")
    return Gssapi(service, principal=options.get("principal"), keytab=keytab, host=host)


class CallbackError(ValueError):
    """A callback class that cannot be used here.

    :param key: the property that names it
    :param reason: what goes behind that name in a sentence
    """

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key} {reason}")
        self.key = key
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.reason), self.__dict__


@dataclass(frozen=True)
class MskIam:
    """A source of tokens for AWS MSK, signed with the AWS credentials of the process: environment, profile, role of a machine.

    :param region: of the cluster; "" for AWS_REGION or AWS_DEFAULT_REGION of the environment
    :param profile: of the AWS configuration; "" for the default
    :param role: the ARN of a role to assume; "" for none
    :param session: name of the role's session; "" for the package's own
    """

    region: str = ""
    profile: str = ""
    role: str = ""
    session: str = ""

    def __call__(self) -> OAuthToken:
        """Return a new token.

        :raises TokenUnavailableError: the package is missing here, or finds no credentials
        """
        signer = _member("aws_msk_iam_sasl_signer", "MSKAuthTokenProvider", "aws-msk-iam-sasl-signer-python")
        region = self.region or region_of_environment()
        if not region:
            raise TokenUnavailableError(
                "there is no AWS region to sign a token for: set AWS_REGION (with Spark, on driver and executors)"
            )
        if self.role:
            more = (self.session,) if self.session else ()
            token, ends_at_ms = _asked(lambda: signer.generate_auth_token_from_role_arn(region, self.role, *more))
        elif self.profile:
            token, ends_at_ms = _asked(lambda: signer.generate_auth_token_from_profile(region, self.profile))
        else:
            token, ends_at_ms = _asked(lambda: signer.generate_auth_token(region))
        return OAuthToken(token, expires_at=ends_at_ms / 1000)


@dataclass(frozen=True)
class EntraId:
    """A source of tokens for Azure Event Hubs, of the identity that the package `azure-identity` finds in the process.

    :param namespace: the host of the event hubs
    """

    namespace: str

    def __call__(self) -> OAuthToken:
        """Return a new token; errors: see `MskIam`."""
        identity = _member("azure.identity", "DefaultAzureCredential", "azure-identity")
        found = _asked(lambda: identity().get_token(f"https://{self.namespace}/.default"))
        return OAuthToken(found.token, expires_at=found.expires_on)


def is_needless(name: str) -> bool:
    """Return whether a callback class only says what this client does in any case.

    :param name: of a Java class
    """
    return _last(name) in _OIDC


def is_known(name: str) -> bool:
    """Return whether a callback class has a counterpart here.

    :param name: of a Java class
    """
    return _last(name) in (*_IAM, *_ENTRA)


def other_tokens(name: str) -> str:
    """Return what to do instead of calling a class that gets tokens; "" for one that is known or needless here.

    :param name: of a Java class
    """
    if not name or is_known(name) or is_needless(name):
        return ""
    return next(remedy for part, remedy in _OTHER_TOKENS.items() if part in name)


@concealing
def mechanism_of_callbacks(named: Mapping[str, str], mechanism: str, jaas: str, hosts: str) -> OAuthBearer | None:
    """Return the credentials for which a Java client names a callback class; None if it names none that is needed here.

    :param named: classes by the property that names them, of `CALLBACKS`
    :param mechanism: `sasl.mechanism`
    :param jaas: `sasl.jaas.config`
    :param hosts: "host:port,host:port"
    :raises CallbackError: a class has no counterpart, or something beside it cannot be used; the error shows no secrets
    """
    for key, name in named.items():
        if is_needless(name):
            continue
        if not is_known(name):
            raise CallbackError(
                key,
                "is refused: it is a Java class, and only those of AWS MSK and Azure Event Hubs have a counterpart here; "
                "credentials are those of the JAAS text, and tokens those of the token endpoint",
            )
        try:
            return _mechanism_of_callback(name, mechanism, jaas, hosts)
        except ValueError as error:
            raise CallbackError(key, f"cannot be used: {error}") from None
    return None


def _mechanism_of_callback(name: str, mechanism: str, jaas: str, hosts: str) -> OAuthBearer:
    wanted = {"OAUTHBEARER": _OAUTH_MODULE}
    if _last(name) in _IAM:
        wanted = {AWS_MSK_IAM: _IAM_MODULE, **wanted}
    modules = parse_jaas(jaas)
    if mechanism not in wanted or len(modules) != 1 or _last(modules[0].name) != wanted[mechanism]:
        pairs = " or ".join(f"{one} with {module}" for one, module in wanted.items())
        raise ValueError(f"the callback class {_last(name)} goes with {pairs} in sasl.mechanism and sasl.jaas.config")
    if _last(name) in _IAM:
        return _msk(modules[0].options, hosts)
    found = _EVENT_HUBS.search(hosts)
    if found is None:
        raise ValueError(
            f"the callback class {_last(name)} is known for Azure Event Hubs only, at *.servicebus.windows.net"
        )
    _member("azure.identity", "DefaultAzureCredential", "azure-identity", ValueError)
    return OAuthBearer(EntraId(found[1].lower()))


def _msk(options: Mapping[str, str], hosts: str) -> OAuthBearer:
    others = sorted(set(options) - {_PROFILE, _ROLE, _SESSION, *_TUNING})
    if others:
        # Its name, and not its value: some are keys.
        raise ValueError(
            f"{others[0]} in the JAAS text cannot be used here: give {_PROFILE} or {_ROLE}, or set AWS' variables"
        )
    region = _REGION.search(hosts)
    if region is None and not region_of_environment():
        raise ValueError(
            "the brokers' names do not show the AWS region: set AWS_REGION (with Spark, on driver and executors)"
        )
    _member("aws_msk_iam_sasl_signer", "MSKAuthTokenProvider", "aws-msk-iam-sasl-signer-python", ValueError)
    given = (options.get(name, "") for name in (_PROFILE, _ROLE, _SESSION))
    return OAuthBearer(MskIam("" if region is None else region[1], *given))


def region_of_environment() -> str:
    """Return the AWS region of this process' environment; "" for none."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""


def _member(module: str, name: str, package: str, kind: type[Exception] = TokenUnavailableError) -> Any:
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise kind(
            f"tokens are signed by the package {package}, which cannot be imported here ({error}): pip install {package} "
            "(with Spark, on the driver and on every executor)"
        ) from None


def _asked(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - the package's own
        reason = f"{type(error).__name__}: {redacted(str(error))}"
    raise TokenUnavailableError(f"no token could be signed: {reason}; look at the credentials of this machine")


def _last(name: str) -> str:
    return name.strip().rpartition(".")[2]
