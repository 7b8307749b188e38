"""`ControlPort`: the controls of a fake cluster by HTTP/1.1 with JSON, for tests in any language.

Each connection has one request. There is no authentication: whoever connects controls the cluster.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from difflib import get_close_matches
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pykafka.exceptions import KafkaException, WorkerNotStartedError
from pykafka.testing.remote import controls

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Listener, Stream
    from pykafka.testing.remote import Remote

log = logging.getLogger(__name__)

#: How long a client may take for its request, and for its answer (s).
_CLIENT_S: Final = 10.0
#: How long a client that is refused may go on to send (s): it could not read the answer if the connection ended at once.
_DRAIN_S: Final = 1.0
#: The longest request line with headers, and the longest body (bytes).
_HEAD_MAX: Final = 16 * 1024
_BODY_MAX: Final = 256 * 1024
#: How many connections are served at once; others are refused.
_CLIENTS_MAX: Final = 64
_ACCEPT_S: Final = 3600.0
_END_OF_HEAD: Final = b"\r\n\r\n"


class RefusalError(KafkaException):
    """Raised when a request is refused, with the status of HTTP and a sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[1])


class ControlPort:
    """A port that serves the controls of a cluster.

    :param remote: has the controls
    :param host: where to listen
    :param port: 0 for any free one
    :param handler: its concurrency
    :raises OSError: the port is in use
    """

    def __init__(self, remote: Remote, host: str, port: int, handler: Handler) -> None:
        self._remote = remote
        self._handler = handler
        self._lock = handler.Lock()
        self._streams: set[Stream] = set()
        self._is_closed = False
        try:
            self._listener: Listener = handler.listen(handler.resolve(host, port)[0])
        except OSError as error:
            place = f"the control port cannot listen at {host}:{port}"
            raise OSError(error.errno, f"{place}: {error.strerror or error}") from error
        #: Where it listens.
        self.url = f"http://{self._listener.address.text}"
        self._worker = handler.spawn(self._accept, name="pykafka-fake-control")

    def close(self) -> None:
        """Close the port and all connections."""
        self._listener.close()
        with self._lock:
            self._is_closed = True
            for stream in self._streams:
                stream.close()
        self._worker.join(_CLIENT_S)

    def _accept(self) -> None:
        while True:
            try:
                self._take(self._listener.accept(_ACCEPT_S))
            except TimeoutError:
                continue
            except OSError as error:
                log.debug("the control port accepts no more: %s", error)
                return

    def _take(self, stream: Stream) -> None:
        with self._lock:
            has_room = len(self._streams) < _CLIENTS_MAX and not self._is_closed
            self._streams.add(stream)
        try:
            if has_room:
                self._handler.spawn(self._serve, stream, name="pykafka-fake-control-client")
                return
            self._send(stream, 503, {"error": f"{_CLIENTS_MAX} connections are served at once: close others"})
        except (OSError, WorkerNotStartedError) as error:
            log.debug("the control port hangs up on a client: %s", error)
        self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        with self._lock:
            self._streams.discard(stream)
        stream.close()

    def _serve(self, stream: Stream) -> None:
        is_read = False
        try:
            try:
                request = self._read(stream)
                is_read = True
                status, answer = 200, self._answer(*request)
            except RefusalError as error:
                status, answer = error.status, {"error": str(error)}
            self._send(stream, status, answer)
            until, buffer = self._handler.now() + _DRAIN_S, bytearray(_HEAD_MAX)
            while not is_read and (left := until - self._handler.now()) > 0 and stream.recv_into(buffer, left):
                pass
        except OSError as error:
            log.debug("a client of the control port has gone: %s", error)
        finally:
            self._drop(stream)

    def _send(self, stream: Stream, status: int, answer: Any) -> None:
        body = json.dumps(answer, indent=2).encode() + b"\n"
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\nAllow: GET, POST\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        stream.send([head.encode(), body], _CLIENT_S)

    def _read(self, stream: Stream) -> tuple[str, str, bytes]:
        """Return the method, the target and the body of a request.

        :raises RefusalError: it is none of HTTP/1, too large or too slow
        :raises OSError: the client has gone
        """
        until, data = self._handler.now() + _CLIENT_S, bytearray()
        while _END_OF_HEAD not in data:
            if len(data) > _HEAD_MAX:
                raise RefusalError(431, f"the headers have more than {_HEAD_MAX} bytes")
            self._more(stream, data, until)
        head, _, body = data.partition(_END_OF_HEAD)
        line, *rows = head.decode("latin-1").split("\r\n")
        words = line.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
        if len(words) != 3 or not words[2].startswith("HTTP/1.") or not all(":" in row for row in rows):
            raise RefusalError(400, 'this is no request of HTTP/1.1, such as "GET / HTTP/1.1"')
        if "origin" in headers:
            raise RefusalError(403, "a page in a browser may not control the cluster: it sends the header Origin")
        if "transfer-encoding" in headers:
            raise RefusalError(411, "the body has to come with Content-Length, not chunked")
        size = headers.get("content-length", "0")
        if not (size.isascii() and size.isdecimal()):
            raise RefusalError(400, f"Content-Length is {size!r}: a number of bytes")
        if len(size) > 9 or int(size) > _BODY_MAX:
            raise RefusalError(413, f"the body has more than {_BODY_MAX} bytes")
        if "expect" in headers:
            stream.send([b"HTTP/1.1 100 Continue\r\n\r\n"], _CLIENT_S)
        while len(body) < int(size):
            self._more(stream, body, until)
        return words[0], words[1], bytes(body[: int(size)])

    def _more(self, stream: Stream, data: bytearray, until: float) -> None:
        buffer = bytearray(4096)
        try:
            count = stream.recv_into(buffer, max(until - self._handler.now(), 0.0))
        except TimeoutError:
            raise RefusalError(408, f"the request did not come within {_CLIENT_S:.0f} s") from None
        if not count:
            raise ConnectionResetError("the client has closed its connection")
        data += buffer[:count]

    def _answer(self, method: str, target: str, body: bytes) -> Any:
        """Return the result of a request.

        :raises RefusalError: it cannot be done
        """
        try:
            return self._call(method, target, body)
        except RefusalError:
            raise
        except TimeoutError as error:
            raise RefusalError(504, str(error)) from None
        except (KafkaException, OSError) as error:
            raise RefusalError(409, str(error)) from None
        except (ValueError, OverflowError) as error:
            raise RefusalError(400, str(error)) from None
        except Exception as error:  # noqa: BLE001 - the port goes on, whatever fails
            self._handler.report("a control of the fake cluster", error)
            raise RefusalError(500, f"{type(error).__name__}: {error}") from None

    def _call(self, method: str, target: str, body: bytes) -> Any:
        if method not in ("GET", "POST"):
            raise RefusalError(405, f"the method is {method[:20]!r}: GET or POST")
        url = urlsplit(target)
        name = unquote(url.path).strip("/")
        if not name:
            return self._remote.describe()
        control = controls().get(name)
        if control is None:
            near = " or ".join(get_close_matches(name, controls()))
            raise RefusalError(404, f"there is no control {name!r}; {f'{near}?' if near else 'GET / lists all'}")
        if method == "GET" and not control.is_read:
            raise RefusalError(405, f"{name} changes the cluster: POST it")
        given: dict[str, Any] = {}
        for key, text in parse_qsl(url.query, keep_blank_values=True, max_num_fields=100):
            given[key] = text
            if key in control.fields and "str" not in control.fields[key].types:
                with suppress(ValueError):  # a text, too: the name of an API
                    given[key] = _parse(text)
        if body.strip():
            fields = _parse(body.decode())
            if not isinstance(fields, dict):
                raise ValueError('the body is no object of JSON, such as {"api": "Produce"}')
            given |= fields
        return self._remote.call(control, given)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{text[:40]!r} is no JSON: {error}") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
