"""The metrics of a pipeline, and the server that a scraper asks for them."""

from __future__ import annotations

import pytest

from pykafka.handlers import Handler, ThreadingHandler
from pykafka.spark.pipeline import PipelineError
from pykafka.spark.pipeline.events import BATCH, ENDED, FAILED, RESTARTING, STARTED, Event
from pykafka.spark.pipeline.metrics import Metrics, TextServer
from pykafka.spark.pipeline.operation import Address
from tests.support.spark.watchers import ask, facts


def test_metrics(handler: Handler) -> None:
    metrics = Metrics('cl"icks', ("clicks",), handler)
    assert 'pykafka_pipeline_up{pipeline="cl\\"icks"} 0\n' in metrics.render()
    assert 'pykafka_pipeline_rows_total{pipeline="cl\\"icks",query="clicks"} 0\n' in metrics.render()
    for kind, said in (
        (STARTED, {}),
        (BATCH, facts()),
        (BATCH, facts()),
        (FAILED, {}),
        (RESTARTING, {}),
        (STARTED, {}),
    ):
        metrics.watch(Event(kind, "clicks", 2_500, said))
    text = metrics.render()
    labels = 'pipeline="cl\\"icks",query="clicks"'
    for line in (
        'up{pipeline="cl\\"icks"} 1',
        'failures_total{pipeline="cl\\"icks"} 1',
        'restarts_total{pipeline="cl\\"icks"} 1',
        f"rows_total{{{labels}}} 20",
        f"malformed_total{{{labels}}} 4",
        f"dead_letters_total{{{labels}}} 6",
        f"batches_total{{{labels}}} 2",
        f"batch_seconds_total{{{labels}}} 3",
        f"last_batch_seconds{{{labels}}} 1.5",
        f"last_batch_timestamp_seconds{{{labels}}} 2.5",
        f"state_rows{{{labels}}} 9",
        f'lag{{{labels},topic="a",partition="1"}} 2',
    ):
        assert f"\npykafka_pipeline_{line}\n" in text
    for line in text.splitlines():
        assert line.startswith(("# HELP pykafka_pipeline_", "# TYPE pykafka_pipeline_", "pykafka_pipeline_"))
    metrics.watch(Event(ENDED, "clicks", 3_000, {}))
    assert 'up{pipeline="cl\\"icks"} 0\n' in metrics.render()


def test_metrics_are_served(handler: Handler) -> None:
    with TextServer(handler, Address("127.0.0.1", 0), "text/plain", lambda: "up 1\n") as server:
        answer = ask(handler, server.address, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n")
        assert answer.endswith(b"\r\n\r\nup 1\n")
        assert ask(handler, server.address, b"HEAD / HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")
        assert ask(handler, server.address, b"GET /other HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404 ")
        assert ask(handler, server.address, b"POST / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405 ")
        assert ask(handler, server.address, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        with pytest.raises(PipelineError, match=rf"metrics cannot be served at {server.address}: .*in use"):
            TextServer(handler, server.address, "text/plain", str)
        address = server.address
    with TextServer(handler, address, "text/plain", str) as again:  # its connections before do not stand in the way
        assert again.address == address


def test_an_error_of_what_is_served_ends_no_server(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    """The request is answered with 500, the log tells of it once, and the next request may find all well."""
    errors: list[Exception | str] = [ValueError("no number"), KeyError("lag"), "\udcff", "up 1\n", OSError("no file")]

    def render() -> str:
        found = errors.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    request = b"GET /metrics HTTP/1.1\r\n\r\n"
    with TextServer(handler, Address("127.0.0.1", 0), "text/plain", render) as server:
        for _ in range(3):
            assert ask(handler, server.address, request).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert f"metrics cannot be rendered for {server.address}: ValueError: no number" in caplog.text
        assert ask(handler, server.address, request).endswith(b"\r\n\r\nup 1\n")
        assert ask(handler, server.address, request).startswith(b"HTTP/1.1 500 ")
        assert len(caplog.records) == 2


def test_a_server_that_dies_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """By an error that is none of a request."""

    def fail() -> None:
        raise RuntimeError("no more")

    handler = ThreadingHandler()
    with TextServer(handler, Address("127.0.0.1", 0), "text/plain", str) as server:
        monkeypatch.setattr(server, "_serve_one", fail)
        with pytest.raises(RuntimeError):
            server._serve()
    assert f"metrics are no longer served at {server.address}: RuntimeError: no more" in caplog.text


def test_the_end_does_not_wait_for_a_client_that_hangs(handler: Handler) -> None:
    with TextServer(handler, Address("127.0.0.1", 0), "text/plain", str) as server:
        found = handler.resolve(server.address.host, server.address.port, timeout=10)[0]
        stream = handler.connect(found, 10)
        stream.send([b"GET /metr"], 10)
        handler.sleep(0.05)
        start = handler.now()
    assert handler.now() - start < 4
    stream.close()
