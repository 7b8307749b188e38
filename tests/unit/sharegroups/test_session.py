"""The epochs and partitions of a share session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import InvalidShareSessionEpoch, ShareSessionNotFound
from pykafka.handlers import ThreadingHandler
from pykafka.protocol import wire
from pykafka.sharegroups.session_worker import FINAL_EPOCH, LAST_EPOCH, SessionWorker, ShareSession


def test_the_first_fetch_opens_it_and_later_ones_name_what_has_changed() -> None:
    session: ShareSession[str] = ShareSession()
    assert session.fetch(["a", "b"]) == (0, ["a", "b"], [])
    assert session.is_open
    assert session.fetch(["a", "b"]) == (1, [], [])
    assert session.acknowledge() == 2
    assert session.fetch(["b", "c"]) == (3, ["c"], ["a"])


def test_after_a_failure_another_one_begins() -> None:
    session: ShareSession[str] = ShareSession()
    session.fetch(["a"])
    session.failed()
    assert not session.is_open
    assert session.may_linger
    assert session.fetch(["a"]) == (0, ["a"], [])


def test_after_the_highest_epoch_comes_the_one_after_the_first() -> None:
    session: ShareSession[str] = ShareSession()
    session._epoch = LAST_EPOCH
    assert session.acknowledge() == LAST_EPOCH
    assert session.acknowledge() == 1


@pytest.mark.parametrize("kind", [InvalidShareSessionEpoch, ShareSessionNotFound])
def test_an_acknowledgement_that_finds_its_session_lost_ends_it(kind: type[Any]) -> None:
    """The application may poll no more: the broker would keep the records locked until their locks end."""
    handler, epochs = ThreadingHandler(), []

    def answer(request: Any, channel: str) -> Any:
        epochs.append(request.share_session_epoch)
        return wire.ShareAcknowledgeResponse(error_code=kind.ERROR_CODE if len(epochs) == 1 else 0)

    engine: Any = SimpleNamespace(
        handler=SimpleNamespace(
            random=handler.random, Event=handler.Event, now=handler.now, spawn=lambda *_, name: None
        ),
        lock=handler.Lock(),
        options=SimpleNamespace(group="g"),
        member_id="m",
        on_acknowledged=lambda acquired, error: None,
    )
    broker: Any = SimpleNamespace(id=0, address="127.0.0.1:9092", socket_timeout_ms=1000, call=answer)
    worker = SessionWorker(engine, broker)
    worker.start()
    worker._session.fetch([])
    worker._acknowledge({}, final=False)
    assert epochs == [1, FINAL_EPOCH]
    assert not worker._session.is_open
    assert not worker._session.may_linger  # the next fetch has nothing to end
