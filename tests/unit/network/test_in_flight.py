"""ResponseFuture: set once, got by anybody."""

from __future__ import annotations

import logging

import pytest

from pykafka.exceptions import KafkaException, ResponseTimeoutError, SocketDisconnectedError
from pykafka.handlers import Handler, ResponseFuture


def test_get_waits_for_the_response(handler: Handler) -> None:
    future = ResponseFuture(handler)
    found: list[object] = []
    workers = [handler.spawn(lambda: found.append(future.get(timeout=5))) for _ in range(2)]
    handler.sleep(0.02)
    assert found == []
    future.set_response("answer")
    assert all(worker.join(5) for worker in workers)
    assert found == ["answer"] * 2
    assert future.done
    assert future.get() == "answer"


def test_get_makes_what_is_asked_for(handler: Handler) -> None:
    future = ResponseFuture(handler)
    future.set_response("ff")
    assert future.get(int, base=16) == 255
    assert future.get(response_cls=str.upper, timeout=0) == "FF"


def test_get_gives_up(handler: Handler) -> None:
    future = ResponseFuture(handler)
    with pytest.raises(ResponseTimeoutError, match=r"no answer within 0\.05 s") as caught:
        future.get(timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, KafkaException)
    future.set_response(None)
    assert future.get(timeout=0.05) is None


def test_an_answer_in_the_moment_in_which_the_time_is_up_counts(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A greenlet whose wait ends in the turn of the hub that completes the future got no answer, though it was there."""
    future = ResponseFuture(handler)

    class Late:
        set = staticmethod(lambda: None)

        def wait(self, timeout: float | None = None) -> bool:
            future.set_response("answer")
            return False

    monkeypatch.setattr(type(handler), "Event", Late)
    assert future.get(timeout=0.0) == "answer"


def test_get_raises_the_error(handler: Handler) -> None:
    future = ResponseFuture(handler)
    error = SocketDisconnectedError("gone", broker="kafka:9092")
    future.set_error(error)
    raised = []
    for _ in range(2):
        with pytest.raises(SocketDisconnectedError, match="gone") as caught:
            future.get()
        raised.append(caught.value)
    # Copies: else each getter would add its traceback to that of the others.
    assert raised[0] is not raised[1]
    assert raised[0].broker == "kafka:9092"
    assert error.__traceback__ is None


def test_errors_that_are_not_ours_are_raised_as_they_are(handler: Handler) -> None:
    future = ResponseFuture(handler)
    error = LookupError("bad request")
    future.set_error(error)
    with pytest.raises(LookupError) as caught:
        future.get()
    assert caught.value is error


def test_only_the_first_counts(handler: Handler) -> None:
    future = ResponseFuture(handler)
    future.set_response(1)
    future.set_response(2)
    future.set_error(LookupError())
    assert future.get() == 1
    assert future.error is None


def test_callbacks(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    future = ResponseFuture(handler)
    called: list[object] = []

    def unlucky(future: ResponseFuture) -> None:
        called.append("unlucky")
        raise LookupError("in a callback")

    future.add_done_callback(unlucky)
    future.add_done_callback(lambda done: called.append(done.response))
    assert called == []
    with caplog.at_level(logging.ERROR, logger="pykafka"):
        future.set_response(7)
    assert called == ["unlucky", 7]
    assert "in a callback" in caplog.text
    future.add_done_callback(lambda done: called.append("late"))
    assert called == ["unlucky", 7, "late"]
    future.set_error(LookupError())
    assert called == ["unlucky", 7, "late"]
