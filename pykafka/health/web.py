"""`wsgi_app` and `asgi_app`: `/livez` and `/readyz` for probes of Kubernetes and load balancers, with JSON that says why.

`/livez` fails (503) only for what a restart of the process mends; whatever keeps the client from its work makes `/readyz`
fail. Neither sends a request to a broker, and no answer has a secret: options of security are never part of a report.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pykafka.health.clients import healths_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping

    from pykafka.health.report import Problem

    Clients = Any
    Problems = Callable[[], Iterable[Problem]]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: The paths, and whether what keeps the client from its work counts there, or only what a restart mends.
PATHS = {"/livez": False, "/readyz": True}
_STATUS = {200: "200 OK", 404: "404 Not Found", 405: "405 Method Not Allowed", 503: "503 Service Unavailable"}


def no_problems() -> tuple[Problem, ...]:
    """Return none: the application has no problems of its own."""
    return ()


def answer(clients: Clients, method: str, path: str, own: Problems = no_problems) -> tuple[int, bytes]:
    """Return the status and the JSON text for a request.

    :param clients: a client, a collection of them, or a function that returns either
    :param method: GET or HEAD
    :param path: one that ends in /livez or /readyz, so that the application may be mounted anywhere
    :param own: returns the problems of the application itself
    """
    name = "/" + path.rstrip("/").rpartition("/")[2]
    if name not in PATHS:
        return 404, _text({"error": f"there is {' and '.join(PATHS)}"})
    if method not in ("GET", "HEAD"):
        return 405, _text({"error": "GET or HEAD"})
    reports = healths_of(clients() if callable(clients) else clients)
    problems = [*own(), *(problem for report in reports for problem in report.problems)]
    counting = [problem for problem in problems if (problem.unready if PATHS[name] else problem.restart_helps)]
    body = {
        "status": "fails" if counting else "ok",
        "problems": [vars(problem) for problem in problems],
        "clients": [report.to_dict() for report in reports],
    }
    return 503 if counting else 200, _text(body)


def _text(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def wsgi_app(
    clients: Clients, problems: Problems = no_problems
) -> Callable[[dict[str, Any], Callable[..., object]], Iterable[bytes]]:
    """Return a WSGI application with /livez and /readyz.

    :param clients: a client, a collection of them, or a function that returns either: of this process, as a worker of
        gunicorn makes its own
    :param problems: returns what the application itself knows to be wrong, as that its consumer has ended by an error;
        `restart_helps` says whether that fails /livez, too
    """

    def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        method = environ.get("REQUEST_METHOD", "GET")
        status, body = answer(clients, method, environ.get("PATH_INFO", ""), problems)
        start_response(_STATUS[status], [(name.title(), value) for name, value in _headers(body)])
        return [b"" if method == "HEAD" else body]

    return app


def asgi_app(clients: Clients, problems: Problems = no_problems) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Return an ASGI application with /livez and /readyz; parameters as of `wsgi_app`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        status, body = answer(clients, scope["method"], scope["path"], problems)
        headers = [(name.encode(), value.encode()) for name, value in _headers(body)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return app


def _headers(body: bytes) -> list[tuple[str, str]]:
    return [
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
    ]


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
