"""A worker that the system does not start raises an error with a name."""

from __future__ import annotations

import threading

import pytest

from pykafka.exceptions import KafkaException, WorkerNotStartedError
from pykafka.handlers import Handler, ThreadingHandler
from tests.support.threads import no_threads


def test_a_worker_that_is_not_started_has_an_error_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = ThreadingHandler()
    with no_threads(monkeypatch), pytest.raises(WorkerNotStartedError, match="sender was not started") as info:
        handler.spawn(print, name="sender")
    assert isinstance(info.value, KafkaException)
    assert isinstance(info.value, RuntimeError)
    assert info.value.retriable


def test_a_native_worker_that_is_not_started(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    import _thread

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    if handler.native is handler:
        monkeypatch.setattr(threading.Thread, "start", refuse)
    else:
        monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(WorkerNotStartedError):
        handler.native.spawn(print)
