"""`OidcClientCredentials`: tokens of an OAuth 2.0 token endpoint for a client's id and secret (RFC 6749, 4.4)."""

from __future__ import annotations

import base64
import json
import logging
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode, urlsplit

from pykafka.exceptions import SaslAuthenticationFailed, TokenUnavailableError
from pykafka.security.certificate_stores import text_of
from pykafka.security.mechanism import credential, redacted
from pykafka.security.oauth import OAuthToken
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from urllib.error import HTTPError
    from urllib.request import Request

log = logging.getLogger(__name__)

#: A longer answer is not that of a token endpoint (bytes).
ANSWER_MAX = 1024 * 1024
TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500


class OidcClientCredentials:
    """A function that gets tokens from an identity provider, for `OAuthBearer`.

    :param token_endpoint_url: of the provider, such as "https://idp.example.org/oauth2/token"
    :param client_id: the client's id there
    :param client_secret: the client's secret there
    :param scope: what to ask for; None leaves that to the provider
    :param cafile: file with the certificates (PEM) of the authorities to trust, or PEM text; None for those of the system
    :param parameters: further parameters of the request, such as {"audience": "kafka"}
    :param urlencode: encode id and secret as RFC 6749 says, if the provider decodes them; Kafka's own clients do not
    :param timeout_s: how long one request may take (s)
    A URL that begins with http:// sends the secret in the clear: the client that uses it logs a warning.

    :raises ValueError: the URL is none, or one of the others is empty
    """

    @concealing
    def __init__(
        self,
        token_endpoint_url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        cafile: str | None = None,
        parameters: Mapping[str, str] | None = None,
        urlencode: bool = False,
        timeout_s: float = 10.0,
    ) -> None:
        parts = urlsplit(token_endpoint_url)
        if parts.scheme not in {"https", "http"} or not parts.hostname:
            raise ValueError("token_endpoint_url must be a URL that begins with https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("token_endpoint_url must not contain a user: give client_id and client_secret")
        self._url = token_endpoint_url
        #: For texts: without the query.
        self._where = f"{parts.scheme}://{parts.netloc}{parts.path}"
        #: The endpoint, if it is asked without TLS; else empty.
        self.cleartext_endpoint = self._where if parts.scheme == "http" else ""
        self.client_id = credential(client_id, "client_id")
        self._secret = credential(client_secret, "client_secret")
        self._scope = scope
        self._cafile = cafile
        self._parameters = dict(parameters or {})
        self._urlencode = urlencode
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._where} client_id={self.client_id!r}>"

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self._where, self.client_id))

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

        now = ThreadingHandler().now
        deadline = now() + self._timeout_s
        try:
            text = text_of(self._cafile)
            context = ssl.create_default_context(cafile=self._cafile if text is None else None, cadata=text)
            asked = opener(context, lambda: deadline - now()).open(self._request(), timeout=self._timeout_s)
            with asked as answer:
                body = answer.read(ANSWER_MAX + 1)
        except HTTPError as error:
            raise self._refused(error) from None
        except (OSError, ValueError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise SaslAuthenticationFailed(
                    f"the certificate of the token endpoint {self._where} is not trusted ({reason.verify_message}): give "
                    "OidcClientCredentials the cafile of its authority"
                ) from None
            raise TokenUnavailableError(
                f"the token endpoint {self._where} does not answer: {self._clean(str(reason) or type(reason).__name__)}; check "
                "its address, that the service is up, and the network between"
            ) from None
        return self._read(body)

    def _request(self) -> Request:
        from urllib.request import Request

        form = {"grant_type": "client_credentials", **self._parameters}
        if self._scope is not None:
            form["scope"] = self._scope
        headers = {
            "Authorization": f"Basic {self._basic()}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return Request(self._url, urlencode(form).encode(), headers, method="POST")

    def _basic(self) -> str:
        pair = (self.client_id, self._secret)
        if self._urlencode:
            pair = (quote_plus(pair[0]), quote_plus(pair[1]))
        return base64.b64encode(":".join(pair).encode()).decode()

    def _refused(self, error: HTTPError) -> Exception:
        from http.client import HTTPException

        with error:
            try:
                fields = json.loads(error.read(ANSWER_MAX))
                words = [str(fields[name]) for name in ("error", "error_description") if fields.get(name)]
            except (OSError, ValueError, AttributeError, HTTPException, RecursionError):
                words = []
        said = self._clean(": ".join(words)) or "without a reason"
        text = f"the token endpoint {self._where} answers {error.code}: {said}"
        if error.code == TOO_MANY_REQUESTS or error.code >= SERVER_ERRORS:
            return TokenUnavailableError(f"{text}; the service may be down or overloaded: look at it, or wait")
        return SaslAuthenticationFailed(f"{text}; check its address, client_id, client_secret and scope")

    def _read(self, body: bytes) -> OAuthToken:
        try:
            fields: Any = json.loads(body) if len(body) <= ANSWER_MAX else None
            value = fields["access_token"]
            seconds = fields.get("expires_in")
            lifetime_s = None if seconds is None else float(seconds)
            return OAuthToken(value, lifetime_s=lifetime_s)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise TokenUnavailableError(
                f"the token endpoint {self._where} answers without a token: is that its address?"
            ) from None

    def _clean(self, text: str) -> str:
        return redacted(text, self._secret, quote_plus(self._secret), self._basic())
