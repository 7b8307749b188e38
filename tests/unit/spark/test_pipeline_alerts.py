"""Alerts of a pipeline: a webhook that fails, hangs or refuses never stops the pipeline, and no text shows its URL."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.security import http
from pykafka.spark.pipeline.events import BATCH, FAILED, RECOVERED, STARTED, Event
from pykafka.spark.pipeline.operation import Alert
from pykafka.spark.pipeline.watching import Alerts
from tests.support.inside import worker_of
from tests.support.spark.watchers import Endpoint, facts


def test_alerts(endpoint: Endpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for a failure, one for the recovery, tried again where the endpoint fails; no text has the URL."""
    monkeypatch.setattr("pykafka.spark.pipeline.watching.FIRST_MS", 1)
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
    monkeypatch.setattr("pykafka.spark.pipeline.watching.FIRST_MS", 1)
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
    assert worker_of(alerts).join(10)
    listener.close()


@pytest.mark.parametrize("hurried", [False, True])
@pytest.mark.later("False")
def test_a_second_request_ends_the_wait_for_alerts(caplog: pytest.LogCaptureFixture, hurried: bool) -> None:
    handler = ThreadingHandler()
    listener = handler.Socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    alerts = Alerts(handler, Alert(f"http://127.0.0.1:{listener.getsockname()[1]}/s3cret", timeout_s=3.0, attempts=1))
    alerts.watch(Event(FAILED, "clicks", 1000, {}))
    start = handler.now()
    alerts.close(timeout=60.0, is_hurried=lambda: hurried)
    assert ("given up: the program ends" in caplog.text) is hurried
    assert handler.now() - start < (2.5 if hurried else 50)
    assert worker_of(alerts).join(20)
    listener.close()


def test_an_error_that_nobody_expects_ends_no_alerts(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be of the system's proxy settings; the next alert is sent."""
    errors: list[Exception] = [RuntimeError("https://s3cret")]

    def post(*arguments: Any) -> None:
        if errors:
            raise errors.pop()
        http.post(*arguments)

    monkeypatch.setattr("pykafka.spark.pipeline.watching.post", post)
    alerts = Alerts(ThreadingHandler(), Alert(endpoint.url))
    for number in range(2):
        alerts.watch(Event(FAILED, "clicks", 1000, {"n": number}))
    alerts.close()
    assert [body["n"] for body in endpoint.bodies] == [1]
    assert "an alert to 127.0.0.1 failed after 1 tries: RuntimeError" in caplog.text
    assert "s3cret" not in caplog.text


def test_redirects_are_not_followed(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    """They could lead the facts of a failure to somebody else."""
    endpoint.statuses = [302, 307, 204]
    alerts = Alerts(ThreadingHandler(), Alert(endpoint.url))
    for number in range(3):
        alerts.watch(Event(FAILED, "clicks", 1000, {"n": number}))
    alerts.close()
    assert [body["n"] for body in endpoint.bodies] == [0, 1, 2]
    assert "the answer is 302" in caplog.text
    assert "the answer is 307" in caplog.text
