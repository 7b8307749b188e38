"""`opener` and `exchange`: requests by HTTP that end in time as a whole; urllib bounds each wait for bytes, and a slow drip
has no end."""

from __future__ import annotations

import io
import re
import ssl
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from pykafka.handlers.threads import ThreadingHandler
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from email.message import Message

    from _typeshed import WriteableBuffer

    from pykafka.handlers import Handler
    from pykafka.security.ssl_config import SslConfig


#: The network's part in the errors of TLS.
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
#: The place in OpenSSL's and Python's sources.
_LIBRARY = re.compile(r" ?\(_ssl\.c:\d+\)$")
#: No server is waited for longer, whatever it says (s).
_WAIT_MAX_S = 86_400.0


class Answer(NamedTuple):
    """The answer to a request, of whatever status.

    :param status: of HTTP
    :param body: without a limit on its meaning: an error has one, too
    :param retry_after_s: how long the server asks to wait (s); 0 if it does not
    """

    status: int
    body: bytes
    retry_after_s: float = 0.0


class NoAnswerError(OSError):
    """There is no answer, by the network or in time."""


class NotTrustedError(OSError):
    """The server's certificate is not trusted."""


class HandshakeError(OSError):
    """TLS fails, and not by the network: the server wants another certificate, or speaks no TLS."""


class _Timed(io.RawIOBase):
    """The bytes of a socket, until a deadline.

    :param raw: reads the socket
    :param sock: the socket
    :param left: returns the time left (s)
    """

    def __init__(self, raw: io.RawIOBase, sock: Any, left: Callable[[], float]) -> None:
        super().__init__()
        self._raw = raw
        self._sock = sock
        self._left = left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        seconds = self._left()
        if seconds <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(seconds)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _StayHere(HTTPRedirectHandler):
    """Follows no redirect: it could send the secret to another server."""

    def redirect_request(self, *_: Any) -> None:
        """Return nothing: the redirect is an error."""


def opener(context: ssl.SSLContext, left: Callable[[], float], direct: bool = False) -> OpenerDirector:
    """Return what opens URLs; it follows no redirect.

    :param context: for https
    :param left: returns how long an answer may take from now on, status and headers included (s)
    :param direct: whether to leave out the proxies that the environment names
    """

    class Answer(HTTPResponse):
        def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, left))

    class Plain(HTTPConnection):
        response_class = Answer

    class Secure(HTTPSConnection):
        response_class = Answer

    class OverTcp(HTTPHandler):
        def http_open(self, req: Request) -> HTTPResponse:
            return self.do_open(Plain, req)

    class OverTls(HTTPSHandler):
        def https_open(self, req: Request) -> HTTPResponse:
            return self.do_open(Secure, req, context=context)

    return build_opener(OverTcp(), OverTls(), _StayHere(), *([ProxyHandler({})] if direct else []))


def exchange(request: Request, ssl_config: SslConfig | None, seconds: float, most: int) -> Answer:
    """Make one request, in any OS thread; return the answer.

    :param request: what to ask
    :param ssl_config: the certificates for https; None for those of the system
    :param seconds: how long it may take, the answer included (s)
    :param most: how much of the answer to read (bytes)
    :raises NotTrustedError: the server's certificate is not trusted
    :raises HandshakeError: TLS fails for another reason
    :raises NoAnswerError: it cannot be reached, or does not answer in time
    :raises TlsError: the certificates of `ssl_config` cannot be used
    """
    now = ThreadingHandler().now
    deadline = now() + seconds
    context = ssl.create_default_context() if ssl_config is None else ssl_config.context
    try:
        with opener(context, lambda: deadline - now()).open(request, timeout=seconds) as answer:
            return Answer(answer.status, answer.read(most))
    except HTTPError as error:
        with error:
            try:
                body = error.read(most)
            except (OSError, HTTPException):
                body = b""
            return Answer(error.code, body, _retry_after(error.headers))
    except (OSError, ValueError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise NotTrustedError(reason.verify_message) from None
        if isinstance(reason, ssl.SSLError) and not isinstance(reason, _CUT_OFF):
            raise HandshakeError(_LIBRARY.sub("", str(reason.args[-1]))) from None
        raise NoAnswerError(str(reason) or type(reason).__name__) from None


def _retry_after(headers: Message) -> float:
    """Return how long an answer asks to wait (s), by a number or by a date, which is held against the answer's own."""
    text = (headers.get("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), _WAIT_MAX_S))
    try:
        found = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("Date", ""))
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(found.total_seconds(), 0.0), _WAIT_MAX_S)


class PostError(Exception):
    """A POST that failed.

    :param reason: without the URL
    :param lasting: whether another try is of no use
    """

    def __init__(self, reason: str, lasting: bool = False) -> None:
        super().__init__(reason)
        self.lasting = lasting


@concealing
def post(handler: Handler, url: str, body: bytes, timeout: float) -> None:
    """Send JSON to a URL and expect a status 2xx; redirects are not followed.

    :param handler: has the clock
    :param url: http or https
    :param body: JSON
    :param timeout: for all of it (s)
    :raises PostError: the endpoint did not take it in time
    """
    deadline = handler.now() + timeout
    request = Request(url, body, {"Content-Type": "application/json", "User-Agent": "pykafka"}, method="POST")
    try:
        # That of https reads all authorities, which takes a while.
        context = ssl.create_default_context() if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with opener(context, lambda: deadline - handler.now()).open(request, timeout=timeout) as answer:
            answer.read(1)
    except HTTPError as error:
        error.close()
        lasting = 300 <= error.code < 500 and error.code not in (408, 429)
        raise PostError(f"the answer is {error.code}", lasting) from None
    except (OSError, ValueError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        why = getattr(reason, "strerror", None) or type(reason).__name__
        raise PostError(why, isinstance(error, ValueError)) from None
