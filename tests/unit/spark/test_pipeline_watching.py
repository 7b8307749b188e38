"""A run of a pipeline with its watchers: they hear of its failure once, and all its queries are stopped."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.exceptions import SocketDisconnectedError
from pykafka.handlers import ThreadingHandler
from pykafka.spark.pipeline import Declaration, Pipeline, PipelineError, StopRequest, launch, running
from pykafka.spark.pipeline.events import ENDED, FAILED, QUERY_FAILED, STARTED, Event, Journal, Progress
from pykafka.spark.pipeline.operation import Address, Alert, Operation, Restart
from pykafka.spark.pipeline.running import stopped_at_the_end
from pykafka.spark.pipeline.watching import watched
from tests.support.spark.watchers import Endpoint, ask, broken


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


def test_metrics_whose_address_is_taken_are_a_failure(endpoint: Endpoint) -> None:
    """As any other: it is told, and the last event is the end."""
    handler, free = ThreadingHandler(), Address("127.0.0.1", 0)
    first = Declaration("a", "/a", "once", (), (), (), "", {}, Operation(free))
    events: list[Event] = []
    with watched(first, handler, StopRequest(1), str) as watch:
        assert watch.metrics is not None
        second = Declaration("b", "/b", "once", (), (), (), "", {}, Operation(watch.metrics, Alert(endpoint.url)))
        with pytest.raises(PipelineError, match="metrics cannot be served at"):
            with watched(second, handler, StopRequest(1), str, (events.append,)):
                pass
    assert [event.kind for event in events] == [FAILED, ENDED]
    assert [body["event"] for body in endpoint.bodies] == ["failed"]


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_a_signal_before_spark_starts_is_no_failure(signal: type[BaseException]) -> None:
    declaration = Declaration("clicks", "/c", "once", (), (), (), "", {}, Operation(Address("127.0.0.1", 0)))
    events: list[Event] = []
    with pytest.raises(signal):
        with watched(declaration, ThreadingHandler(), StopRequest(1), str, (events.append,)) as watch:
            watch.publish_start()
            raise signal
    assert [event.kind for event in events] == [STARTED, STARTED, ENDED]
    assert events[0].facts == events[1].facts == {"metrics": str(watch.metrics)}
    assert events[-1].facts == {"status": "stopped"}


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
    monkeypatch.setattr(launch, "_started", lambda settings, redact: Gone())
    monkeypatch.setattr(launch, "need_java", lambda: None)
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    declaration = Declaration("clicks", "/c", "once", (), (), (), "", {})
    with pytest.raises(Py4JError, match="the JVM is gone"):
        with launch.session(declaration):
            raise Py4JError("the JVM is gone")
    assert "Spark did not stop: [Errno 111]" in caplog.text


def test_no_watcher_gets_a_secret(tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark quotes options in its errors, and the webhook may be anybody's."""
    monkeypatch.setenv("DELIMITER", "of-reference-8c21")
    (tmp_path / "secret").write_text("of-file-77aa\n")
    file = tmp_path / "clicks.toml"
    file.write_text(
        'checkpoint = "/c"\n[source]\nbrokers = "a:1"\ntopic = "a"\n[sink]\nformat = "csv"\npath = "/d"\n'
        'options = { delimiter = "${DELIMITER}" }\n[spark.config]\n'
        f'"spark.hadoop.fs.s3a.secret.key" = "as-written-4c19"\n"spark.x" = "${{file:{tmp_path}/secret}}"\n'
        f'[alert]\nurl = "{endpoint.url}"\n'
    )
    declaration = Declaration.load(file)
    events: list[Event] = []
    text = "[INVALID] of-reference-8c21 is no delimiter, nor is 'of-file-77aa' or as-written-4c19"
    with pytest.raises(PySparkException):
        with watched(
            declaration, ThreadingHandler(), StopRequest(1), lambda e: declaration.redact(str(e)), (events.append,)
        ):
            raise PySparkException(text)
    shown = "[INVALID] [not shown] is no delimiter, nor is '[not shown]' or [not shown]"
    assert [event.facts["reason"] for event in events if event.kind == FAILED] == [shown]
    assert [body["reason"] for body in endpoint.bodies] == [shown]
    assert "8c21" not in repr(declaration)
