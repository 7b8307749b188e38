"""Calls to other services on behalf of logins: nobody waits for one that cannot come to its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import TokenUnavailableError, WorkerNotStartedError
from pykafka.handlers import ThreadingHandler
from pykafka.security.background_calls import BackgroundCall, BackgroundCalls

LIMIT = 20.0


@pytest.mark.parametrize(
    ("raised", "told"), [(WorkerNotStartedError, WorkerNotStartedError), (KeyboardInterrupt, TokenUnavailableError)]
)
def test_who_has_joined_a_call_that_does_not_begin_is_told(raised: type[BaseException], told: type[Exception]) -> None:
    errands = BackgroundCalls("test")
    joined: list[BackgroundCall] = []

    def spawn(*args: Any, **kwargs: Any) -> None:
        joined.append(errands.join(handler, lambda handler, errand: None))
        raise raised

    handler: Any = SimpleNamespace()
    handler.native = SimpleNamespace(spawn=spawn, Event=ThreadingHandler().Event)
    with pytest.raises(raised):
        errands.join(handler, lambda handler, errand: None)
    assert joined[0].wait(ThreadingHandler(), LIMIT, lambda: False), "it is over"
    assert isinstance(joined[0].error, told)


def test_a_call_that_ends_its_worker_is_a_failure() -> None:
    def leave(handler: Any, errand: BackgroundCall) -> None:
        raise SystemExit

    handler = ThreadingHandler()
    errand = BackgroundCalls("test").join(handler, leave)
    assert errand.wait(handler, LIMIT, lambda: True)
    assert isinstance(errand.error, TokenUnavailableError)
    assert "SystemExit" in str(errand.error)
