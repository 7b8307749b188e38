"""The applications for probes: paths, methods, and which problems fail which path."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pykafka.health import ClientHealth, Problem, asgi_app, wsgi_app
from pykafka.health import web as module

MENDED = Problem("worker-ended", "a sender has ended", "make another producer", None, True)
AWAY = Problem("broker-unreachable", "broker 1 cannot be reached", "see that it is up")


def call(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    """Return the answer of the WSGI application."""
    found: list[Any] = []
    body = wsgi_app(None)({"REQUEST_METHOD": method, "PATH_INFO": path}, lambda *args: found.append(args))
    status, headers = found[0]
    return int(status[:3]), dict(headers), b"".join(body)


def call_async(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    """Return the answer of the ASGI application."""
    sent: list[Any] = []

    async def run() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            raise AssertionError

        await asgi_app(None)({"type": "http", "method": method, "path": path}, receive, send)

    asyncio.run(run())
    headers = {name.decode().title(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


@pytest.fixture(params=[(), (AWAY,), (MENDED,), (AWAY, MENDED)], ids=["none", "away", "mended", "both"])
def problems(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Problem, ...]:
    found: tuple[Problem, ...] = request.param
    monkeypatch.setattr(module, "healths_of", lambda _: [ClientHealth(found, (), (), ())])
    return found


@pytest.mark.parametrize("ask", [call, call_async])
def test_livez_fails_only_for_what_a_restart_mends(problems: tuple[Problem, ...], ask: Any) -> None:
    status, headers, body = ask("GET", "/livez")
    assert status == (503 if MENDED in problems else 200)
    assert headers["Content-Type"] == "application/json"
    assert int(headers["Content-Length"]) == len(body)
    answer = json.loads(body)
    assert [problem["kind"] for problem in answer["problems"]] == [problem.kind for problem in problems]
    assert answer["status"] == ("fails" if MENDED in problems else "ok")


@pytest.mark.parametrize("ask", [call, call_async])
def test_readyz_fails_for_any_problem(problems: tuple[Problem, ...], ask: Any) -> None:
    assert ask("GET", "/health/readyz/")[0] == (503 if problems else 200)
    assert ask("HEAD", "/readyz")[2] == b""


@pytest.mark.parametrize(("own", "statuses"), [((AWAY,), [200, 503]), ((MENDED,), [503, 503]), ((), [200, 200])])
def test_problems_of_the_application(own: tuple[Problem, ...], statuses: list[int]) -> None:
    found: list[str] = []
    for path in ("/livez", "/readyz"):
        wsgi_app([], lambda: own)({"REQUEST_METHOD": "GET", "PATH_INFO": path}, lambda *args: found.append(args[0]))
        status, body = module.answer([], "GET", path, lambda: own)
        assert int(found[-1][:3]) == status
        assert [problem["kind"] for problem in json.loads(body)["problems"]] == [one.kind for one in own]
    assert [int(status[:3]) for status in found] == statuses


@pytest.mark.parametrize("ask", [call, call_async])
def test_other_paths_and_methods(ask: Any) -> None:
    assert ask("GET", "/")[0] == 404
    assert ask("POST", "/livez")[0] == 405


def test_an_asgi_server_may_start_and_stop_it() -> None:
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(asgi_app(None)({"type": "lifespan"}, receive, send))  # type: ignore[arg-type]
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
