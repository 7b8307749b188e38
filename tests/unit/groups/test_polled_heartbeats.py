"""The error of the thread of heartbeats, as `poll_heartbeat()` raises it; the rest: embedded/groups/test_elections.py."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from pykafka.groups import heartbeat_thread
from pykafka.handlers import Handler
from tests.support.waiting import until
from tests.unit.groups.test_heartbeat_thread import Coordinator, beat, broker_of, member


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_ended_the_thread_is_raised_once_and_heartbeats_go_on(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator()
    broker = broker_of(handler, coordinator)
    one, other = member(handler), member(handler)
    for number, sender in enumerate((one, other)):
        sender.set_target(beat(broker, number))
    until(handler, lambda: coordinator.asked > 2)
    error = MemoryError("no room for a heartbeat")
    turn = heartbeat_thread._Run.turn

    def fail(run: Any) -> None:
        monkeypatch.setattr(heartbeat_thread._Run, "turn", turn)
        raise error

    monkeypatch.setattr(heartbeat_thread._Run, "turn", fail)
    until(handler, lambda: not one.is_alive)
    assert [one.is_sending] == [True]
    with pytest.raises(MemoryError) as raised:
        one.raise_error()
    assert raised.value is error
    for sender in (one, other):
        sender.raise_error()
    sent = [sender.heartbeat.last_send for sender in (one, other)]
    until(handler, lambda: all(s.heartbeat.last_send > before for s, before in zip((one, other), sent, strict=True)))
    one.stop()
    assert [one.is_sending] == [False]
    one.raise_error()
    other.stop()
    broker.close()
    coordinator.close()


def test_a_member_that_is_none_has_no_heartbeat_due(handler: Handler) -> None:
    sender = member(handler)
    assert not sender.is_sending
    sender.raise_error()
    assert inf > sender.heartbeat.ttl()
