"""`PolledMembership.poll`: when the application counts as waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka.groups.heartbeat_sender import Activity
from pykafka.groups.polled_membership import PolledMembership
from pykafka.handlers import Handler


class Polled(PolledMembership):
    """A membership that only notes its polls."""

    needs_poll = is_stable = True

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.activity = Activity()
        nothing: Any = None
        self._change: Any = type("Change", (), {"errors": nothing, "resume": lambda *_: None})()
        self.polls: list[float | None] = []
        self.then: Callable[[float | None], object] = self.polls.count
        self._set_up_polling()

    def _poll(self, deadline: float | None) -> None:
        self.polls.append(deadline)
        self.then(deadline)

    def abort(self) -> None:
        """End nothing."""

    def close(
        self, *, timeout_ms: int | None = None, leave_group: bool | None = None, wait: float | None = None
    ) -> None:
        """End nothing."""

    def _forget(self) -> None:
        """Keep all."""


def test_a_poll_counts_as_waiting_except_in_a_callback(handler: Handler) -> None:
    membership = Polled(handler)
    activity = membership.activity

    def callback() -> tuple[bool, int]:
        return bool(activity.waiting), activity.count

    def step(deadline: float | None) -> None:
        assert activity.waiting
        before = activity.count
        assert activity.run_callback(callback) == (False, before + 1)
        assert activity.waiting

    membership.then = step
    membership.poll(5.0)
    assert membership.polls == [5.0]
    assert not activity.waiting
    assert activity.run_callback(callback) == (False, activity.count)


def test_an_error_ends_the_wait(handler: Handler) -> None:
    membership = Polled(handler)

    def step(deadline: float | None) -> None:
        membership.activity.run_callback(fail)

    def fail() -> None:
        raise RuntimeError("of a callback")

    membership.then = step
    with pytest.raises(RuntimeError, match="of a callback"):
        membership.poll(None)
    assert not membership.activity.waiting
    assert not membership.in_callback


def test_a_poll_in_a_hook_does_nothing(handler: Handler) -> None:
    membership = Polled(handler)
    membership.then = membership.poll
    membership.poll(5.0)
    assert membership.polls == [5.0]
