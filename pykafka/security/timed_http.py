"""`opener`: requests by HTTP that end in time as a whole; urllib bounds each wait for bytes, and a slow drip has no end."""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


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
    """Follows no redirect: it could lead the secret to somebody else."""

    def redirect_request(self, *_: Any) -> None:
        """Return nothing: the redirect is an error."""


def opener(context: ssl.SSLContext, left: Callable[[], float]) -> OpenerDirector:
    """Return what opens URLs; it follows no redirect.

    :param context: for https
    :param left: returns how long an answer may take from now on, status and headers included (s)
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

    return build_opener(OverTcp(), OverTls(), _StayHere())
