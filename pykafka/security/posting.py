"""`post`: a body to a URL that may be secret itself, as those of webhooks are; no text shows more of it than its host."""

from __future__ import annotations

import ssl
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import Request

from pykafka.security.timed_http import opener
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from pykafka.handlers import Handler


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
