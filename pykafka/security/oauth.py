"""`OAuthBearer`: logins with tokens of another service (KIP-255, RFC 7628), which are kept until shortly before their ends."""

from __future__ import annotations

import base64
import json
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, SaslAuthenticationFailed, TokenTimeoutError, TokenUnavailableError
from pykafka.security.background_calls import BackgroundCall, BackgroundCalls
from pykafka.security.mechanism import always, redacted
from pykafka.utils.backoff import Backoff
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

log = logging.getLogger(__name__)

#: A new token is asked for when between these parts of the old one's life have passed; the point is drawn for each token.
REFRESH_FROM = 0.75
REFRESH_TO = 0.85
#: How long a token is used whose end is not known (s).
UNKNOWN_LIFE_S = 60.0
#: How often a token is asked for in a row, if the service may be able to give one a moment later.
ATTEMPTS = 3
#: Pause before the second attempt, and the longest one (ms).
PAUSE_FIRST_MS = 200
PAUSE_MAX_MS = 30_000

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_NAME = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


@dataclass(frozen=True)
class OAuthToken:
    """A token for OAUTHBEARER.

    :param value: the token itself
    :param expires_at: when it ends (s since 1970, UTC); None: what the token says itself, if it is a JWT
    :param lifetime_s: how long it lasts from now on (s), instead of `expires_at`
    :param extensions: {name: value} for the broker (KIP-342)
    :raises TypeError, ValueError: one of them cannot be sent
    """

    value: str = field(repr=False)
    expires_at: float | None = None
    lifetime_s: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check the token, without showing it."""
        value: object = self.value
        if not isinstance(value, str):
            raise TypeError(f"a token must be a str, not {type(self.value).__name__}")
        if not _TOKEN.fullmatch(self.value):
            raise ValueError("a token must be letters, digits and -._~+/, with = at its end alone")
        if self.expires_at is not None and self.lifetime_s is not None:
            raise ValueError("a token has expires_at or lifetime_s, not both")
        for name, value in self.extensions.items():
            if not _NAME.fullmatch(name) or name == "auth":
                raise ValueError(f"the name of an extension must be letters, and not 'auth': {name!r}")
            if not _VALUE.fullmatch(value):
                raise ValueError(f"the value of the extension {name!r} must be text in ASCII")


# A dataclass's own constructor has the token as a local variable.
OAuthToken.__init__ = concealing(OAuthToken.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True)
class _CachedToken:
    """A token that this client has, with times in s since 1970."""

    token: OAuthToken
    refresh_at: float
    ends_at: float


class OAuthBearer:
    """Log in by OAUTHBEARER, with the tokens of a function.

    All connections share a token. When four fifths of its life have passed, a worker asks for the next one; if that fails, the
    old one serves until its end.

    The function is called on an operating system's thread, whatever the handler: it may use the network, and should give up
    after some seconds. It must not use the Kafka client.

    :param token: returns an `OAuthToken`, or the text of a token; as `OidcClientCredentials` does. Or the text itself
    :param extensions: {name: value} for the broker with each token (KIP-342)
    :raises TypeError, ValueError: a parameter is something else
    """

    name = "OAUTHBEARER"
    waits = False
    remedy = "check the token's issuer, audience, scope and user, and what the broker expects"

    @concealing
    def __init__(
        self, token: Callable[[], OAuthToken | str] | str, extensions: Mapping[str, str] | None = None
    ) -> None:
        if isinstance(token, str):
            self._fixed: OAuthToken | None = OAuthToken(token, extensions=extensions or {})
        elif callable(token):
            self._fixed = None
        else:
            raise TypeError(f"token must be a function or a str, not {type(token).__name__}")
        OAuthToken("x", extensions=extensions or {})
        self._source = None if isinstance(token, str) else token
        self._extensions = dict(extensions or {})
        self._forget()

    @property
    def cleartext_endpoint(self) -> str:
        """The endpoint that the tokens come from, if it is asked without TLS; else empty."""
        return str(getattr(self._source, "cleartext_endpoint", ""))

    def _forget(self) -> None:
        # All of it changes by single steps: logins are of threads, hubs and native threads at once.
        self._cached: _CachedToken | None = None
        self._background_calls = BackgroundCalls("pykafka.OAuthBearer")
        self._failures = 0
        self._failure: KafkaException | None = None
        self._reported: KafkaException | None = None
        self._retry_at = 0.0

    def __repr__(self) -> str:
        source = "" if self._source is None else f" token={name_of(self._source)}"
        return f"<{type(self).__name__}{source}>"

    def __getstate__(self) -> dict[str, Any]:
        # A token is got again when this is unpickled.
        return {"_source": self._source, "_fixed": self._fixed, "_extensions": self._extensions}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash(self.name)

    # -- tokens ----------------------------------------------------------------------------------------------------

    def prepare(self, handler: Handler, timeout: float, wanted: Callable[[], bool] = always) -> bool:
        """Get a token; return whether it is fresh.

        :param handler: supplies the worker that asks for a token
        :param timeout: how long to wait for one (s); 0 does not wait
        :param wanted: False ends the wait
        :raises TokenUnavailableError: there is none
        :raises SaslAuthenticationFailed: the service refuses to give one
        """
        now = handler.time_ms() / 1000
        cached = self._cached
        if cached is not None and now < cached.refresh_at:
            return True
        valid = cached is not None and now < cached.ends_at
        failure = self._failure
        if cached is not None and valid and failure is not None and failure is not self._reported:
            self._reported = failure
            log.warning(
                "no new token to log in with: %s; the present one serves for %.0f s more",
                failure.text,
                cached.ends_at - now,
            )
        if failure is not None and now < self._retry_at:
            if valid or not timeout:
                return valid and timeout > 0
            raise failure.again()
        refresh = self._background_calls.join(handler, self._get)
        if valid or not timeout:
            return valid and timeout > 0
        if not refresh.wait(handler, timeout, wanted):
            raise TokenTimeoutError(
                f"no token came within {timeout:.3g} s from {name_of(self._source)}: does it answer, and in less time?"
            )
        if isinstance(refresh.error, KafkaException):
            raise refresh.error.again()
        return True

    def _get(self, handler: Handler, refresh: BackgroundCall) -> None:
        """Get a token; on a native thread, which logs nothing."""
        try:
            cached = self._call_often(handler)
        except KafkaException as error:
            failure = refresh.error = error.again()
            self._failures += 1
            pause = Backoff(PAUSE_FIRST_MS, PAUSE_MAX_MS, handler.random).seconds(self._failures)
            self._retry_at = handler.time_ms() / 1000 + pause
            self._failure = failure
        else:
            self._failures, self._failure = 0, None
            self._cached = cached

    def _call_often(self, handler: Handler) -> _CachedToken:
        pauses = Backoff(PAUSE_FIRST_MS, PAUSE_MAX_MS, handler.random)
        for attempt in range(1, ATTEMPTS):
            try:
                return self._call(handler)
            except TokenUnavailableError:
                handler.sleep(pauses.seconds(attempt))
        return self._call(handler)

    @concealing
    def _call(self, handler: Handler) -> _CachedToken:
        try:
            given = self._fixed if self._source is None else self._source()
            token = OAuthToken(given) if isinstance(given, str) else given
            if not isinstance(token, OAuthToken):
                raise TypeError(f"it returned {type(token).__name__}, not an OAuthToken or a str")
        except KafkaException:
            raise
        except Exception as error:  # noqa: BLE001 - the callback's own
            raise TokenUnavailableError(
                f"{name_of(self._source)} gave no token: {type(error).__name__}: {redacted(str(error))}; look at it, or "
                "at the service that it asks"
            ) from None
        now = handler.time_ms() / 1000
        ends_at = token.expires_at if token.lifetime_s is None else now + token.lifetime_s
        if ends_at is None:
            ends_at = _expiry(token.value)
        if ends_at is None or not math.isfinite(ends_at):
            return _CachedToken(token, now + UNKNOWN_LIFE_S / 2, now + UNKNOWN_LIFE_S)
        if ends_at <= now:
            raise SaslAuthenticationFailed(
                f"the token of {name_of(self._source)} has expired {now - ends_at:.0f} s ago; get a new one, and compare the "
                "clocks of both machines"
            )
        part = handler.random.uniform(REFRESH_FROM, REFRESH_TO)
        return _CachedToken(token, now + part * (ends_at - now), ends_at)

    def get(self, handler: Handler) -> tuple[str, float, dict[str, str]]:
        """Return (token, its end in s since 1970, extensions) of a call in this worker, for another client.

        :param handler: supplies the clock
        :raises TokenUnavailableError: there is none
        """
        cached = self._call(handler)
        return cached.token.value, cached.ends_at, {**self._extensions, **cached.token.extensions}

    def reject(self, token: OAuthToken) -> None:
        """Use a token no more, which a broker has refused."""
        cached = self._cached
        if cached is not None and cached.token is token:
            self._cached = None

    # -- logins ----------------------------------------------------------------------------------------------------

    def begin(self, host: str) -> OAuthExchange:
        """Start a login with the token that there is; `host` does not matter.

        :raises TokenUnavailableError: there is none; `prepare` gets one
        """
        cached = self._cached
        if cached is None:
            raise TokenUnavailableError("there is no token to log in with")
        return OAuthExchange(cached.token, self._extensions, self.reject)


class OAuthExchange:
    """One login by OAUTHBEARER.

    :param token: to show
    :param extensions: beside those of the token
    :param reject: called with the token if the broker refuses it
    """

    def __init__(
        self, token: OAuthToken, extensions: Mapping[str, str], reject: Callable[[OAuthToken], object]
    ) -> None:
        self._token = token
        #: What no error must repeat.
        self.secrets = (token.value,)
        self._reject = reject
        fields = {"auth": f"Bearer {token.value}", **extensions, **token.extensions}
        self._first = "".join(["n,,\x01", *(f"{name}={value}\x01" for name, value in fields.items()), "\x01"]).encode()
        self._refusal: str | None = None
        #: Whether the broker has accepted the token.
        self.complete = False
        self.ends_silently = False

    def step(self, challenge: bytes | None) -> bytes | None:
        """Return the token; None once the broker has accepted it. A broker that gives reasons gets the byte of RFC 7628.

        :raises SaslAuthenticationFailed: the broker has refused the token
        """
        if challenge is None:
            return self._first
        if not challenge and self._refusal is None:
            self.complete = True
            return None
        self._reject(self._token)
        if self._refusal is not None:
            raise SaslAuthenticationFailed(f"the broker refuses the token: {self._refusal}; {OAuthBearer.remedy}")
        self._refusal = _reason(challenge, *self.secrets)
        return b"\x01"


def _reason(challenge: bytes, *secrets: str) -> str:
    """Return the reason of a refusal: {"status": ..., "scope": ..., "openid-configuration": ...}."""
    try:
        fields = json.loads(challenge)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return "without a reason"
    return redacted(", ".join(f"{name} {value}" for name, value in fields.items() if value), *secrets)


def name_of(source: Any) -> str:
    """Return how texts name a function of the application: never by a `repr` of its own, which may show secrets."""
    if source is None:
        return "the configuration"
    if isinstance(source, type) or not hasattr(source, "__name__"):
        return repr(source) if type(source).__module__.startswith("pykafka.") else type(source).__name__
    return f"{source.__name__}()"


def _expiry(token: str) -> float | None:
    """Return when a JWT says that it ends (s since 1970); None if it does not say so, or is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        fields = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(fields["exp"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
