"""`AssignmentFollower`: how long a call waits for what may be taken."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.groups.assignment_follower import AssignmentFollower


@pytest.mark.parametrize(("held", "waits_until"), [(False, 6.0), (True, 5.01)])
def test_it_does_not_wait_long_when_the_group_is_due(held: bool, waits_until: float) -> None:
    """`engine.look()` may have cleared the event that told of it; what is buffered sets none."""
    waited: list[float] = []
    handler = SimpleNamespace(now=lambda: 5.0)
    engine: Any = SimpleNamespace(handler=handler, buffers=SimpleNamespace(held=held), await_records=waited.append)
    nothing: Any = None
    follower = AssignmentFollower(engine, None, nothing, lambda deadline: True)
    membership: Any = SimpleNamespace(next_poll_s=1.0, awaiting=nullcontext)
    follower.membership = membership
    assert follower.wait(None)
    assert waited == [waits_until]
