"""`OidcClientCredentials`: tokens of an OAuth 2.0 token endpoint for a client's id with a secret or an assertion (RFC 6749,
4.4); `OidcJwtBearer`: for an assertion alone (RFC 7523)."""

from __future__ import annotations

import base64
import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote_plus, urlencode, urlsplit

from pykafka.exceptions import SaslAuthenticationFailed, TokenUnavailableError
from pykafka.security.certificate_stores import text_of
from pykafka.security.mechanism import credential, redacted
from pykafka.security.oauth import OAuthToken, name_of
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from urllib.error import HTTPError
    from urllib.request import Request

#: A longer answer is not that of a token endpoint (bytes).
ANSWER_MAX = 1024 * 1024
TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500
#: The names that RFC 7521 and RFC 7523 give.
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: What to check if an assertion is refused.
_OF_ASSERTIONS = "the assertion's key, issuer, subject and audience, the clocks and scope"


class TokenEndpoint(ABC):
    """A token endpoint, and what all requests to it have.

    State: none; each call makes one request.

    :param url: of the provider
    :param scope: what to ask for; None leaves that to the provider
    :param cafile: certificates of the authorities to trust; None for those of the system
    :param parameters: further parameters of the request
    :param timeout_s: how long one request may take (s)
    :raises ValueError: the URL is none
    """

    #: What to check if the endpoint refuses.
    _checks: str
    #: Statuses below 500 of a service that is overloaded or not ready: another try may succeed.
    _passing: ClassVar[frozenset[int]] = frozenset({TOO_MANY_REQUESTS})
    #: Whether requests go through no proxy that the environment names.
    _direct: ClassVar[bool] = False

    @concealing
    def __init__(
        self,
        url: str,
        scope: str | None,
        cafile: str | None,
        parameters: Mapping[str, str] | None,
        timeout_s: float,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"https", "http"} or not parts.hostname:
            raise ValueError("token_endpoint_url must be a URL that begins with https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("token_endpoint_url must not contain a user: give client_id and client_secret")
        self._url = url
        #: For texts: without the query.
        self._where = f"{parts.scheme}://{parts.netloc}{parts.path}"
        #: The endpoint, if it is asked without TLS; else empty.
        self.cleartext_endpoint = self._where if parts.scheme == "http" else ""
        self._scope = scope
        self._cafile = cafile
        self._parameters = dict(parameters or {})
        self._timeout_s = timeout_s

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(self._where)

    @concealing
    def __call__(self) -> OAuthToken:
        """Return a new token.

        :raises TokenUnavailableError: the provider cannot give one now
        :raises SaslAuthenticationFailed: it refuses to
        """
        # Here, since these modules take longer to import than all of a client's.
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError

        from pykafka.handlers.threads import ThreadingHandler
        from pykafka.security.http import opener

        request, secrets = self._request()
        now = ThreadingHandler().now
        deadline = now() + self._timeout_s
        try:
            text = text_of(self._cafile)
            context = ssl.create_default_context(cafile=self._cafile if text is None else None, cadata=text)
            opened = opener(context, lambda: deadline - now(), self._direct)
            asked = opened.open(request, timeout=self._timeout_s)
            with asked as answer:
                body = answer.read(ANSWER_MAX + 1)
        except HTTPError as error:
            raise self._refused(error, secrets) from None
        except (OSError, ValueError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise SaslAuthenticationFailed(
                    f"the certificate of the token endpoint {self._where} is not trusted ({reason.verify_message}): give "
                    f"{type(self).__name__} the cafile of its authority"
                ) from None
            said = redacted(str(reason) or type(reason).__name__, *secrets)
            raise TokenUnavailableError(
                f"the token endpoint {self._where} does not answer: {said}; check its address, that the service is up, and the "
                "network between"
            ) from None
        return self._read(body)

    @abstractmethod
    def _request(self) -> tuple[Request, tuple[str, ...]]:
        """Return the request for a token, and the secrets in it, which no error must repeat."""

    def _post(self, form: dict[str, str], headers: Mapping[str, str] | None = None) -> Request:
        from urllib.request import Request

        if self._scope is not None:
            form["scope"] = self._scope
        kinds = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        return Request(self._url, urlencode(form).encode(), {**kinds, **(headers or {})}, method="POST")

    def _refused(self, error: HTTPError, secrets: tuple[str, ...]) -> Exception:
        from http.client import HTTPException

        with error:
            try:
                fields = json.loads(error.read(ANSWER_MAX))
                words = [str(fields[name]) for name in ("error", "error_description") if fields.get(name)]
            except (OSError, ValueError, AttributeError, HTTPException, RecursionError):
                words = []
        said = redacted(": ".join(words), *secrets) or "without a reason"
        text = f"the token endpoint {self._where} answers {error.code}: {said}"
        if error.code in self._passing or error.code >= SERVER_ERRORS:
            return TokenUnavailableError(f"{text}; the service may be down or overloaded: look at it, or wait")
        return SaslAuthenticationFailed(f"{text}; check its address, {self._checks}")

    def _read(self, body: bytes) -> OAuthToken:
        try:
            fields: Any = json.loads(body) if len(body) <= ANSWER_MAX else None
            value = fields["access_token"]
            seconds = fields.get("expires_in")
            lifetime_s = None if seconds is None else float(seconds)
            return OAuthToken(value, lifetime_s=lifetime_s)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise TokenUnavailableError(
                f"the token endpoint {self._where} answers without a token: is that its address?"
            ) from None


class OidcClientCredentials(TokenEndpoint):
    """A function that gets tokens from an identity provider, for `OAuthBearer`.

    :param token_endpoint_url: of the provider, such as "https://idp.example.org/oauth2/token"
    :param client_id: the client's id there; None if `assertion` names it
    :param client_secret: the client's secret there; None with `assertion`
    :param scope: what to ask for; None leaves that to the provider
    :param cafile: file with the certificates (PEM) of the authorities to trust, or PEM text; None for those of the system
    :param parameters: further parameters of the request, such as {"audience": "kafka"}
    :param urlencode: encode id and secret as RFC 6749 says, if the provider decodes them; Kafka's own clients do not
    :param timeout_s: how long one request may take (s)
    :param assertion: instead of the secret: returns a JWT that proves who the client is (private_key_jwt, KIP-1258), as a
        `SignedAssertion` or a `JwtFile` does
    A URL that begins with http:// sends the secret in the clear: the client that uses it logs a warning.

    :raises ValueError: the URL is none, one of the others is empty, or there is neither secret nor assertion, or both
    """

    @concealing
    def __init__(
        self,
        token_endpoint_url: str,
        client_id: str | None = None,
        client_secret: str | None = None,
        *,
        scope: str | None = None,
        cafile: str | None = None,
        parameters: Mapping[str, str] | None = None,
        urlencode: bool = False,
        timeout_s: float = 10.0,
        assertion: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(token_endpoint_url, scope, cafile, parameters, timeout_s)
        if assertion is not None:
            if client_secret is not None:
                raise ValueError("client_secret and assertion are two proofs of the client: give one of them")
            _check_callable(assertion)
        self.client_id = None if client_id is None and assertion is not None else credential(client_id, "client_id")
        if assertion is None and client_secret is None:
            raise ValueError("client_secret is missing: give it, or assertion= with a SignedAssertion or a JwtFile")
        self._secret = "" if assertion is not None else credential(client_secret, "client_secret")
        self._urlencode = urlencode
        self._assertion = assertion
        self._checks = "client_id, client_secret and scope" if assertion is None else _OF_ASSERTIONS

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._where} client_id={self.client_id!r}>"

    __hash__ = TokenEndpoint.__hash__

    def _request(self) -> tuple[Request, tuple[str, ...]]:
        form = {"grant_type": "client_credentials", **self._parameters}
        if self._assertion is None:
            basic = self._basic()
            secrets = self._secret, quote_plus(self._secret), basic
            return self._post(form, {"Authorization": f"Basic {basic}"}), secrets
        assertion = self._assertion()
        form |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
        if self.client_id is not None:
            form["client_id"] = self.client_id
        return self._post(form), (assertion,)

    def _basic(self) -> str:
        pair = (str(self.client_id), self._secret)
        if self._urlencode:
            pair = (quote_plus(pair[0]), quote_plus(pair[1]))
        return base64.b64encode(":".join(pair).encode()).decode()


class OidcJwtBearer(TokenEndpoint):
    """A function that gets tokens for an assertion, by the grant jwt-bearer (RFC 7523; KIP-1139), for `OAuthBearer`.

    :param token_endpoint_url: of the provider
    :param assertion: returns a JWT that the provider takes, as a `SignedAssertion` or a `JwtFile` does
    :param scope: what to ask for; None leaves that to the provider
    :param cafile: as of `OidcClientCredentials`
    :param parameters: further parameters of the request
    :param timeout_s: how long one request may take (s)
    :raises TypeError: `assertion` is no function
    :raises ValueError: the URL is none
    """

    _checks = _OF_ASSERTIONS

    @concealing
    def __init__(
        self,
        token_endpoint_url: str,
        assertion: Callable[[], str],
        *,
        scope: str | None = None,
        cafile: str | None = None,
        parameters: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        super().__init__(token_endpoint_url, scope, cafile, parameters, timeout_s)
        _check_callable(assertion)
        self._assertion = assertion

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._where} assertion={name_of(self._assertion)}>"

    __hash__ = TokenEndpoint.__hash__

    def _request(self) -> tuple[Request, tuple[str, ...]]:
        assertion = self._assertion()
        return self._post({"grant_type": JWT_BEARER, "assertion": assertion, **self._parameters}), (assertion,)


def _check_callable(assertion: object) -> None:
    """Check that an assertion is a function: a text would expire.

    :raises TypeError: it is something else
    """
    if not callable(assertion):
        raise TypeError(
            f"assertion must be a function that returns a JWT, as SignedAssertion or JwtFile, not {type(assertion).__name__}"
        )
