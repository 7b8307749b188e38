"""A pipeline that is looked after: events, metrics and their server, alerts, restarts, and their tables in the declaration."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.common import TopicPartition
from pykafka.exceptions import NoBrokersAvailableError, SaslAuthenticationFailed, SocketDisconnectedError
from pykafka.handlers import Address as Place
from pykafka.handlers import Handler, ThreadingHandler
from pykafka.spark.errors import DataLossError, OptionError
from pykafka.spark.lag import QueryLag
from pykafka.spark.pipeline import Declaration, DeclarationError, Pipeline, PipelineError, StopRequest, launch, running
from pykafka.spark.pipeline.alerts import Alerts
from pykafka.spark.pipeline.events import (
    BATCH,
    ENDED,
    FAILED,
    QUERY_FAILED,
    RECOVERED,
    RESTARTING,
    STARTED,
    Event,
    Journal,
    batch_facts,
)
from pykafka.spark.pipeline.metrics import Metrics
from pykafka.spark.pipeline.operation import Address, Alert, Operation, Restart, parse_address, seconds
from pykafka.spark.pipeline.progress import Progress
from pykafka.spark.pipeline.restarts import Restarts, is_lasting
from pykafka.spark.pipeline.running import stopped_at_the_end
from pykafka.spark.pipeline.serving import TextServer
from pykafka.spark.pipeline.watching import watched

DECLARATION = (
    'checkpoint = "/data/checkpoint"\n[source]\nbrokers = "localhost:9092"\ntopic = "clicks"\n'
    '[sink]\nformat = "parquet"\npath = "/data/clicks"\n'
)
REPORT = {
    "batchId": 7,
    "numInputRows": 12,
    "processedRowsPerSecond": 3.04,
    "observedMetrics": {
        "pykafka": {"rows": 10, "malformed": 2},
        "pykafka_late": {"dead_letters": 3},
        "own": {"rows": 99},
    },
    "sources": [{"endOffset": {"a": {"0": 5}}}, {"endOffset": '{"a": {"1": 6}, "b": {"0": 7}}'}, {"endOffset": "None"}],
    "stateOperators": [{"numRowsTotal": 4, "memoryUsedBytes": 100}, {"numRowsTotal": 5, "memoryUsedBytes": 200}],
    "durationMs": {"triggerExecution": 1500, "addBatch": 1200},
}
LAG = QueryLag("clicks", 7, {TopicPartition("a", 0): 1, TopicPartition("a", 1): 2})


def facts(**changed: Any) -> dict[str, Any]:
    return batch_facts("clicks", {**REPORT, **changed}, LAG)


class Recording(ThreadingHandler):
    """A handler whose pauses take no time, and are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.during: Callable[[], object] = lambda: None

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float = 0.0) -> None:
        self.time += seconds
        self.during()


# -- events


def test_facts_of_a_batch() -> None:
    assert facts() == {
        "query": "clicks",
        "batch": 7,
        "rows": 10,
        "malformed": 2,
        "dead_letters": 3,
        "rows_per_s": 3.0,
        "lag": 3,
        "lags": {"a": {"0": 1, "1": 2}},
        "offsets": {"a": {"0": 5, "1": 6}, "b": {"0": 7}},
        "state": {"rows": 9, "bytes": 300},
        "durations_ms": {"triggerExecution": 1500, "addBatch": 1200},
    }


def test_an_event_is_one_line_of_json() -> None:
    line = Event(BATCH, "clicks", 1_700_000_000_123, {"query": "ü\n"}).as_json()
    assert "\n" not in line
    assert json.loads(line) == {
        "event": "batch",
        "pipeline": "clicks",
        "at": "2023-11-14T22:13:20.123Z",
        "query": "ü\n",
    }


# -- metrics


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


def ask(handler: Handler, address: Address, request: bytes) -> bytes:
    """Return all that a server answers to a request."""
    found = handler.resolve(address.host, address.port, timeout=10)[0]
    stream = handler.connect(Place(*found), 10)
    try:
        stream.send([request], 10)
        answer, buffer = b"", bytearray(65536)
        while count := stream.recv_into(buffer, 10):
            answer += buffer[:count]
        return answer
    finally:
        stream.close()


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


def test_the_end_does_not_wait_for_a_client_that_hangs(handler: Handler) -> None:
    with TextServer(handler, Address("127.0.0.1", 0), "text/plain", str) as server:
        found = handler.resolve(server.address.host, server.address.port, timeout=10)[0]
        stream = handler.connect(found, 10)
        stream.send([b"GET /metr"], 10)
        handler.sleep(0.05)
        start = handler.now()
    assert handler.now() - start < 4
    stream.close()


# -- alerts


class Endpoint:
    """A webhook on this machine: notes what it gets, and answers with the next status."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.got = threading.Semaphore(0)
        endpoint = self

        class Take(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(endpoint.statuses.pop(0) if endpoint.statuses else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()
                endpoint.got.release()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Take)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/s3cret?token=s3cret"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Return a webhook."""
    found = Endpoint()
    yield found
    found.close()


def test_alerts(endpoint: Endpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for a failure, one for the recovery, tried again where the endpoint fails; no text has the URL."""
    monkeypatch.setattr("pykafka.spark.pipeline.alerts._FIRST_MS", 1)
    endpoint.statuses = [503, 204, 429, 204, 403]
    handler = ThreadingHandler()
    alerts = Alerts(handler, Alert(endpoint.url))
    for kind, said in (
        (STARTED, {}),
        (FAILED, {"reason": "broken"}),
        (BATCH, facts()),
        (RECOVERED, {}),
        (FAILED, {"n": 3}),
    ):
        alerts.watch(Event(kind, "clicks", 1000, said))
    with caplog.at_level(logging.DEBUG):
        alerts.close()
    assert [body["event"] for body in endpoint.bodies] == ["failed", "failed", "recovered", "recovered", "failed"]
    assert endpoint.bodies[0] == {
        "event": "failed",
        "pipeline": "clicks",
        "at": "1970-01-01T00:00:01.000Z",
        "reason": "broken",
    }
    assert "an alert to 127.0.0.1 failed after 1 tries: the answer is 403" in caplog.text
    assert "s3cret" not in caplog.text


def test_an_endpoint_that_is_down_holds_nothing_up(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka.spark.pipeline.alerts._FIRST_MS", 1)
    endpoint.server.server_close()
    alerts = Alerts(ThreadingHandler(), Alert(endpoint.url, timeout_s=5.0, attempts=2))
    for _ in range(40):
        alerts.watch(Event(FAILED, "clicks", 1000, {}))
    alerts.close()
    assert "failed after 2 tries: " in caplog.text
    assert "s3cret" not in caplog.text


def test_the_end_does_not_wait_for_an_endpoint_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    listener = ThreadingHandler().Socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    alerts = Alerts(ThreadingHandler(), Alert(f"http://127.0.0.1:{listener.getsockname()[1]}/s3cret", timeout_s=1.0))
    alerts.watch(Event(FAILED, "clicks", 1000, {}))
    alerts.close(timeout=0.1)
    assert "given up: the program ends" in caplog.text
    assert "s3cret" not in caplog.text
    assert alerts._worker.join(10)
    listener.close()


# -- restarts


class Trial:
    """Restarts whose pipeline fails as often as it is told to.

    :param errors: of the starts, in order; then it runs
    """

    def __init__(self, *errors: Exception, policy: Restart | None = None) -> None:
        self.handler = Recording()
        self.handler.random = random.Random(7)
        self.events: list[Event] = []
        self.stop = StopRequest(1)
        self.journal = Journal("clicks", self.handler, [self.events.append])
        self.restarts: Restarts[str] = Restarts(
            self.handler, policy or Restart(3, 10.0, 15.0), self.journal, self.stop, str
        )
        self.journal.add(self.restarts.watch)
        self.errors = list(errors)
        self.starts = 0

    def start(self) -> str:
        """Fail, or run."""
        self.starts += 1
        if self.errors:
            raise self.errors.pop(0)
        self.journal.tell(BATCH, facts())
        return "done"

    @property
    def kinds(self) -> list[str]:
        """Kinds of the events."""
        return [event.kind for event in self.events]


def broken() -> SocketDisconnectedError:
    return SocketDisconnectedError("the broker hung up")


def test_restart() -> None:
    trial = Trial(broken(), broken())
    assert trial.restarts.run(trial.start) == "done"
    assert trial.kinds == [FAILED, RESTARTING, FAILED, RESTARTING, BATCH, RECOVERED]
    assert trial.events[0].facts == {"reason": str(broken()), "failures": 1, "lasting": False, "restarts": True}
    pauses = [event.facts["pause_s"] for event in trial.events if event.kind == RESTARTING]
    assert trial.handler.time == pytest.approx(sum(pauses), abs=0.01)
    assert all(0 <= pause <= bound for pause, bound in zip(pauses, (10, 15), strict=True))


def test_restarts_end() -> None:
    trial = Trial(*(broken() for _ in range(9)))
    with pytest.raises(SocketDisconnectedError):
        trial.restarts.run(trial.start)
    assert trial.starts == 4
    assert trial.events[-1].facts["restarts"] is False


def test_a_micro_batch_counts_anew() -> None:
    trial = Trial()

    def start() -> str:
        trial.starts += 1
        if trial.starts < 9:
            trial.journal.tell(BATCH, facts())
            raise broken()
        return "done"

    assert trial.restarts.run(start) == "done"
    assert trial.kinds.count(RECOVERED) == 7


def test_a_micro_batch_of_another_query_does_not_count_anew() -> None:
    """Malformed records, or another sink, may go on while one query fails each time."""
    trial = Trial()

    def start() -> str:
        trial.starts += 1
        trial.journal.tell(BATCH, {**facts(), "query": "clicks-malformed"})
        if trial.starts < 3:
            trial.journal.tell(QUERY_FAILED, {"query": "clicks"})
        raise broken()  # and once in another way, as where brokers are down at the start

    with pytest.raises(SocketDisconnectedError):
        trial.restarts.run(start)
    assert trial.starts == 4
    assert RECOVERED not in trial.kinds
    trial.journal.tell(BATCH, facts())
    assert trial.kinds[-1] == RECOVERED


def test_a_stop_request_ends_a_pause() -> None:
    trial = Trial(broken(), broken(), policy=Restart(3, 3600.0, 7200.0))
    trial.handler.during = trial.stop.ask
    assert trial.restarts.run(trial.start) is None
    assert (trial.starts, trial.stop.asked) == (1, 1)
    assert trial.handler.time <= 0.1


LASTING = [
    OptionError("no"),
    DataLossError("gone"),
    DeclarationError("clicks", []),
    SaslAuthenticationFailed("wrong password"),
    NoBrokersAvailableError("none", ledger=[("localhost:9092", SaslAuthenticationFailed("wrong password"))]),
]


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_no_restart_helps(error: Exception) -> None:
    trial = Trial(error)
    with pytest.raises(type(error)):
        trial.restarts.run(trial.start)
    assert (trial.starts, trial.kinds) == (1, [FAILED])
    assert trial.events[0].facts["lasting"] is True


@pytest.mark.parametrize(
    ("text", "lasting"),
    [
        ("Job aborted\nTraceback\npykafka.spark.errors.DataLossError: partition 0 lost 5 records", True),
        ("... pykafka.exceptions.SaslAuthenticationFailed: wrong password", True),
        ("[USER_RAISED_EXCEPTION] the value of the record at topic a", True),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", True),
        ("ModuleNotFoundError: No module named 'pykafka'", True),
        ("pykafka.exceptions.NoBrokersAvailableError: no broker answered", False),
        ("org.apache.spark.SparkException: Job aborted due to stage failure: executor lost", False),
        ("java.io.IOException: No space left on device", False),
    ],
)
def test_what_the_text_of_spark_says(text: str, lasting: bool) -> None:
    from pyspark.errors import StreamingQueryException

    assert is_lasting(StreamingQueryException(text)) is lasting


# -- together


def test_watched(endpoint: Endpoint) -> None:
    """A failure is told once, and the end too; the metrics are there meanwhile."""
    operation = Operation(Address("127.0.0.1", 0), Alert(endpoint.url), Restart())
    declaration = Declaration("clicks", "/c", "once", (), (), (), "", {}, operation)
    handler = ThreadingHandler()
    events: list[Event] = []
    with pytest.raises(SocketDisconnectedError):
        with watched(declaration, handler, StopRequest(1), str, (events.append,)) as watch:
            assert watch.metrics is not None
            assert b"pykafka_pipeline_up" in ask(handler, watch.metrics, b"GET /metrics HTTP/1.1\r\n\r\n")
            watch.restarts.run(lambda: (_ for _ in ()).throw(broken()))
    assert [event.kind for event in events] == [STARTED, FAILED, ENDED]
    assert events[-1].facts == {"status": "failed"}
    assert [body["event"] for body in endpoint.bodies] == ["failed"]


def test_a_failure_before_the_start_is_the_last() -> None:
    """As where Spark does not start: no restart follows, and nobody is told of one."""
    declaration = Declaration("clicks", "/c", "once", (), (), (), "", {}, Operation(restart=Restart(5)))
    events: list[Event] = []
    with pytest.raises(PipelineError):
        with watched(declaration, ThreadingHandler(), StopRequest(1), str, (events.append,)):
            raise PipelineError("no Java")
    assert events[1].facts == {"reason": "no Java", "failures": 1, "lasting": False, "restarts": False}


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_a_signal_before_spark_starts_is_no_failure(signal: type[BaseException]) -> None:
    declaration = Declaration("clicks", "/c", "once", (), (), (), "", {}, Operation(Address("127.0.0.1", 0)))
    events: list[Event] = []
    with pytest.raises(signal):
        with watched(declaration, ThreadingHandler(), StopRequest(1), str, (events.append,)) as watch:
            watch.tell_start()
            raise signal
    assert [event.kind for event in events] == [STARTED, STARTED, ENDED]
    assert events[0].facts == events[1].facts == {"metrics": str(watch.metrics)}
    assert events[-1].facts == {"status": "stopped"}


def test_a_closed_output_keeps_no_alert_back() -> None:
    """The watcher that prints events comes first, and raises; the others hear of them all the same."""
    heard: list[Event] = []

    def closed(event: Event) -> None:
        raise BrokenPipeError(event.kind)

    with pytest.raises(BrokenPipeError):
        Journal("clicks", ThreadingHandler(), [closed, heard.append]).tell(FAILED)
    assert [event.kind for event in heard] == [FAILED]


def test_which_query_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its start, or later."""

    def start(*args: Any) -> Any:
        raise PySparkException("no table")

    monkeypatch.setattr(running, "start", start)
    events: list[Event] = []
    pipeline: Any = Pipeline.__new__(Pipeline)
    pipeline._journal, pipeline._trigger = Journal("clicks", ThreadingHandler(), [events.append]), {}
    query: Any = running._Query(cast(Any, None), cast(Any, None), "/c", Progress("clicks-x"))
    with pytest.raises(PySparkException):
        pipeline._start([query])
    query.running = SimpleNamespace(exception=lambda: PySparkException("lost"))
    pipeline._malformed, pipeline._rows = [], [query]
    with pytest.raises(PySparkException):
        pipeline._look()
    assert [(event.kind, event.facts) for event in events] == [(QUERY_FAILED, {"query": "clicks-x"})] * 2


class Stubborn:
    """A query that is stopped, or does not stop."""

    def __init__(self, error: Exception | None = None) -> None:
        self.isActive = True
        self.error = error

    def stop(self) -> None:
        """End."""
        if self.error is not None:
            raise self.error
        self.isActive = False


def test_all_queries_are_stopped(caplog: pytest.LogCaptureFixture) -> None:
    """Also where one does not stop in time; and the error of the run stays the error."""
    for error in (Py4JError("TimeoutException"), PySparkException("no"), ConnectionRefusedError("gone")):
        queries: Any = [Stubborn(error), Stubborn()]
        with pytest.raises(SocketDisconnectedError):
            with stopped_at_the_end(partial(list, queries)):
                raise broken()
        assert not queries[1].isActive
        assert str(error) in caplog.text
        queries = [Stubborn(error), Stubborn()]
        with pytest.raises(type(error)):
            with stopped_at_the_end(partial(list, queries)):
                pass
        assert not queries[1].isActive


def test_spark_that_is_gone_hides_no_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Gone:
        def stop(self) -> None:
            raise ConnectionRefusedError("[Errno 111] Connection refused")

    monkeypatch.setenv("PYSPARK_PYTHON", "python")  # else the session sets it
    monkeypatch.setattr(launch, "_started", lambda settings: Gone())
    monkeypatch.setattr(launch, "_need_java", lambda: None)
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    declaration = Declaration("clicks", "/c", "once", (), (), (), "", {})
    with pytest.raises(Py4JError, match="the JVM is gone"):
        with launch.session(declaration):
            raise Py4JError("the JVM is gone")
    assert "Spark did not stop: [Errno 111]" in caplog.text


# -- the declaration


def load(path: Path, text: str) -> Operation:
    path.write_text(DECLARATION + text)
    return Declaration.load(path).operation


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "clicks.toml"
    assert load(file, "") == Operation(None, None, Restart(0))
    monkeypatch.setenv("HOOK", "https://hooks.example/s3cret")
    found = load(
        file,
        '[metrics]\naddress = "[::1]:9400"\n[alert]\nurl = "${env:HOOK}"\ntimeout = "3 seconds"\nattempts = 2\n'
        '[restart]\nattempts = 7\nbackoff = "500 milliseconds"\nmax_backoff = "2 minutes"\n',
    )
    assert found == Operation(
        Address("::1", 9400), Alert("https://hooks.example/s3cret", 3.0, 2), Restart(7, 0.5, 120.0)
    )
    assert "s3cret" not in repr(found)
    assert str(found.metrics) == "[::1]:9400"
    assert load(file, "[restart]\n").restart == Restart(5, 10.0, 300.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[metrics]\n", "[metrics] address: missing, but required"),
        ('[metrics]\naddress = "9400"\n', "[metrics] address: must be host:port, like 127.0.0.1:9400, not '9400'"),
        (
            '[metrics]\naddress = "x:99999"\n',
            "[metrics] address: must be host:port, like 127.0.0.1:9400, not 'x:99999'",
        ),
        ('[metrics]\naddress = "::1:9400"\n', "must have an IPv6 address in brackets"),
        ("[alert]\n", "[alert] url: missing, but required"),
        ('[alert]\nurl = "ftp://s3cret"\n', "[alert] url: must be a URL that begins with https:// or http://"),
        ('[alert]\nurl = "https://me:s3cret@host/"\n', "[alert] url: must be a URL"),
        ('[alert]\nurl = "${env:NOT_SET_S3}"\n', "[alert] url refers to the environment variable NOT_SET_S3"),
        ('[alert]\nurl = "https://h/"\nattempts = 0\n', "[alert] attempts: must be 1 or more, not 0"),
        ('[alert]\nurl = "https://h/"\ntimeout = "soon"\n', "[alert] timeout: must be an interval like '10 seconds'"),
        ("[restart]\nattempts = -1\n", "[restart] attempts: must be 0 or more, not -1"),
        ('[restart]\nbackoff = "1 hour"\nmax_backoff = "1 minute"\n', "[restart] max_backoff: is shorter than backoff"),
        ("[restart]\ntimes = 3\n", "[restart] times: not known"),
    ],
)
def test_problems(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load(tmp_path / "clicks.toml", text)
    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_intervals_and_addresses() -> None:
    assert (seconds("10 seconds"), seconds("1 minute"), seconds("5milliseconds"), seconds("x")) == (10, 60, 0.005, None)
    assert parse_address("localhost:0") == Address("localhost", 0)
