"""Callback classes of Java clients whose tokens a package of Python can get: AWS MSK by IAM, Azure Event Hubs by Entra ID."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pykafka.exceptions import TokenUnavailableError
from pykafka.security.jaas import parse_jaas
from pykafka.security.mechanism import redacted
from pykafka.security.oauth import OAuthBearer, OAuthToken
from pykafka.utils.redact import concealing

#: The mechanism that Java's library for MSK has; its brokers take OAUTHBEARER with a signed address as well.
AWS_MSK_IAM = "AWS_MSK_IAM"
_IAM_MODULE, _OAUTH_MODULE = "IAMLoginModule", "OAuthBearerLoginModule"
_IAM = ("IAMClientCallbackHandler", "IAMOAuthBearerLoginCallbackHandler")
#: The properties of a Java client that name such a class.
CALLBACKS = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class")
#: The lines for MSK, where a configuration has the mechanism alone.
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
        """Return a new token; errors as in `MskIam`."""
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
