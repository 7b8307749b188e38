"""A schema registry in this process, on 127.0.0.1: with GUIDs, logins, and failures on demand."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from uuid import UUID, uuid5

#: A registry's ids are int32.
ID_MAX = 2**31 - 1
#: What Confluent's registry answers to a path that it does not have, or whose id is no int32.
NO_SUCH_PATH = 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
_SPACE = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


class Other(Enum):
    """The way in which a registry does not answer."""

    SILENT = "says nothing"
    SLOW_HEAD = "sends its headers byte by byte"
    SLOW = "sends its answer byte by byte"


class Server(ThreadingHTTPServer):
    """A server whose handshakes are the business of each connection's own thread."""

    tls: ssl.SSLContext | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS if that is wanted; a client that refuses it has been heard."""
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        plain = request.dup()  # which outlives a handshake that fails
        with plain, suppress(OSError):
            try:
                with self.tls.wrap_socket(request, server_side=True) as secure:
                    super().finish_request(secure, client_address)
            except OSError:
                # Bytes that nobody reads would reset the connection before the client has read why.
                plain.shutdown(socket.SHUT_WR)
                plain.settimeout(5)
                while plain.recv(4096):
                    pass


#: Ports that a stub of this process has had: caches of schemas are of a process, and know a registry by its address.
_used: set[int] = set()


def _at_new_port(answers: type[BaseHTTPRequestHandler]) -> Server:
    """Listen at a port that no stub of this process has had."""
    refused: list[Server] = []
    while (made := Server(("127.0.0.1", 0), answers)).server_address[1] in _used:
        refused.append(made)
    for one in refused:
        one.server_close()
    _used.add(int(made.server_address[1]))
    return made


class RegistryStub:
    """Keep schemas by subject; `guids=False` is a registry without GUIDs.

    :param user: who must log in, with password "secret"; None for nobody
    :param token: what must be given as a bearer token; None for nothing
    :param tls: speak https with this
    """

    def __init__(
        self,
        *,
        guids: bool = True,
        user: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.guids = guids
        self._authorization = None
        if user is not None:
            self._authorization = f"Basic {base64.b64encode(f'{user}:secret'.encode()).decode()}"
        if token is not None:
            self._authorization = f"Bearer {token}"
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        #: Method and path of each request.
        self.asked: list[str] = []
        self._failures: list[tuple[int, bytes, Mapping[str, str]]] = []
        self._other: Other | None = None
        self._awake = threading.Event()
        stub = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub._serve(self, "GET")

            def do_POST(self) -> None:
                stub._serve(self, "POST")

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._scheme = "http" if tls is None else "https"
        self._server = _at_new_port(Answers)
        self._server.tls = tls
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="registry-stub")

    def __enter__(self) -> RegistryStub:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._awake.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """Its port."""
        return int(self._server.server_address[1])

    def add(
        self, subject: str, text: Any, kind: str = "AVRO", references: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Add a version; return what the registry says of it."""
        body = {"schema": text if isinstance(text, str) else json.dumps(text), "schemaType": kind}
        return self._added(subject, {**body, "references": references or []})

    def fail(self, status: int, times: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Answer the next requests with a status."""
        self._failures += [(status, body, headers or {})] * times

    def behave(self, other: Other | None) -> None:
        """Answer from now on in another way; as it should with None."""
        self._other = other

    def _added(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        kept = {"schemaType": "AVRO", "references": [], **body}
        if kept not in self.schemas:
            self.schemas.append(kept)
        number = self.schemas.index(kept) + 1
        numbers = self.subjects.setdefault(subject, [])
        if number not in numbers:
            numbers.append(number)
        return self._shown(subject, numbers.index(number))

    def guid(self, number: int) -> str:
        """Return the GUID of a schema."""
        return str(uuid5(_SPACE, str(number)))

    def _shown(self, subject: str, index: int) -> dict[str, Any]:
        number = self.subjects[subject][index]
        shown = {"subject": subject, "version": index + 1, "id": number, **self.schemas[number - 1]}
        return {**shown, "guid": self.guid(number)} if self.guids else shown

    def _serve(self, request: BaseHTTPRequestHandler, method: str) -> None:
        self.asked.append(f"{method} {request.path}")
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if self._other is not None:
            self._drip(request, self._other)
            return
        headers: Mapping[str, str] = {}
        if self._failures:
            status, told, headers = self._failures.pop(0)
        elif self._authorization not in (None, request.headers.get("Authorization")):
            status, told = 401, json.dumps({"error_code": 401, "message": "Unauthorized"}).encode()
        else:
            status, answer = self._answer(
                method, request.path.partition("?")[0].split("/")[1:], json.loads(body or b"null")
            )
            told = json.dumps(answer).encode()
        with suppress(OSError):  # a client may give up first
            request.send_response_only(status)
            for name, text in {"Content-Length": str(len(told)), **headers}.items():
                request.send_header(name, text)
            request.end_headers()
            request.wfile.write(told)

    def _drip(self, request: BaseHTTPRequestHandler, other: Other) -> None:
        """Send a byte now and then, or nothing, for some seconds."""
        head = b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n"
        sent = {Other.SILENT: b"", Other.SLOW_HEAD: head, Other.SLOW: head + b" " * 999}[other]
        with suppress(OSError):
            if other is Other.SLOW:
                request.wfile.write(head)
                sent = sent[len(head) :]
            for number in range(50):
                if self._awake.wait(0.1):
                    return
                request.wfile.write(sent[number : number + 1])
                request.wfile.flush()

    def _answer(self, method: str, path: list[str], body: Any) -> tuple[int, Any]:
        match method, path:
            case "GET", ["subjects"]:
                return 200, list(self.subjects)
            case "GET", ["schemas", "ids", number] if int(number) > ID_MAX:
                return NO_SUCH_PATH
            case "GET", ["schemas", "guids", _] if not self.guids:
                return NO_SUCH_PATH
            case "GET", ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, self.schemas[int(number) - 1]
            case "GET", ["schemas", "guids", guid]:
                for index, kept in enumerate(self.schemas, 1):
                    if self.guid(index) == guid:
                        return 200, kept
            case "GET", ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                return 200, self._shown(subject, -1) | {"version": len(self.subjects[subject])}
            case "GET", ["subjects", subject, "versions", number]:
                if number.isdigit() and int(number) <= len(self.subjects.get(subject, ())):
                    return 200, self._shown(subject, int(number) - 1)
                return 404, {"error_code": 40402, "message": "Version not found."}
            case "POST", ["subjects", subject, "versions"]:
                if body["schema"] == '"bytes"':
                    return 409, {"error_code": 409, "message": "Incompatible"}
                return 200, self._added(subject, body)
            case "POST", ["subjects", subject] if subject in self.subjects:
                kept = {"schemaType": "AVRO", "references": [], **body}
                if kept in self.schemas and self.schemas.index(kept) + 1 in self.subjects[subject]:
                    return 200, self._added(subject, body)
        code = 40403 if path[0] == "schemas" else 40401
        return 404, {"error_code": code, "message": "Not found."}
