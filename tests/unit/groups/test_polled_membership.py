"""`PolledMembership.poll`: which calls count as a sign of life of the application."""

from __future__ import annotations

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
        self._change: Any = type("Change", (), {"errors": nothing})()
        self.polls: list[float | None] = []
        self._set_up_polling()

    def _poll(self, deadline: float | None) -> None:
        self.polls.append(deadline)
        self.poll(deadline)  # of a hook: nothing happens

    def abort(self) -> None:
        """End nothing."""

    def close(self, *, timeout_ms: int | None = None, leave_group: bool | None = None) -> None:
        """End nothing."""

    def _forget(self) -> None:
        """Keep all."""


@pytest.mark.parametrize(("by_application", "signs"), [(True, 1), (False, 0)])
def test_only_a_call_of_the_application_is_a_sign_of_life(handler: Handler, by_application: bool, signs: int) -> None:
    membership = Polled(handler)
    membership.poll(5.0, by_application=by_application)
    assert membership.polls == [5.0]
    assert membership.activity.count == signs + 1  # the hook's call is one as well
