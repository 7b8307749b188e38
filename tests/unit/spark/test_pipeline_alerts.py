"""Alerts of a pipeline: a webhook that fails, hangs or refuses never stops the pipeline, and no text shows its URL."""

from __future__ import annotations

import logging

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.spark.pipeline.alerts import Alerts
from pykafka.spark.pipeline.events import BATCH, FAILED, RECOVERED, STARTED, Event
from pykafka.spark.pipeline.operation import Alert
from tests.support.spark.watchers import Endpoint, facts


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
