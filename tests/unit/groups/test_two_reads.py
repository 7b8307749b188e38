"""Attributes that another worker sets to None, by `close()` or `unsubscribe()`: those who look at them read them once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from pykafka.compat.balanced_consumer import BalancedConsumer
from pykafka.groups.assignment_follower import AssignmentFollower
from pykafka.groups.auto_membership import AutoMembership
from pykafka.groups.classic.membership import ClassicMembership
from pykafka.groups.kip848.membership import ConsumerGroupMembership
from pykafka.groups.zookeeper.session import ZooKeeperSession

#: The class, the attribute, and what looks at it.
Look = tuple[type[Any], str, Callable[[Any], object]]
LOOKS: dict[str, Look] = {
    "next_poll_s": (AutoMembership, "chosen", lambda member: member.next_poll_s),
    "needs_poll": (AutoMembership, "chosen", lambda member: member.needs_poll),
    "is_stable": (AutoMembership, "chosen", lambda member: member.is_stable),
    "owns_assignment": (AutoMembership, "chosen", lambda member: member.owns_assignment),
    "fences_commits": (AutoMembership, "chosen", lambda member: member.fences_commits),
    "in_callback": (AutoMembership, "chosen", lambda member: member.in_callback),
    "topics": (AutoMembership, "chosen", lambda member: member.topics),
    "enforce_rebalance": (AutoMembership, "chosen", lambda member: member.enforce_rebalance("a change")),
    "awaiting": (AutoMembership, "chosen", lambda member: member.awaiting()),
    "classic topics": (ClassicMembership, "_subscription", lambda member: member.topics),
    "kip848 topics": (ConsumerGroupMembership, "_subscription", lambda member: member.topics),
    "lost": (ZooKeeperSession, "state", lambda session: session.lost),
    "connected": (ZooKeeperSession, "state", lambda session: session.connected),
    "stale": (ZooKeeperSession, "state", lambda session: session.stale),
    "may_own": (ZooKeeperSession, "state", lambda session: session.may_own()),
    "still_owns": (BalancedConsumer, "_tenure", lambda consumer: consumer._still_owns()),
    "zookeeper": (BalancedConsumer, "_joined", lambda consumer: consumer._zookeeper),
    "leave": (AssignmentFollower, "_leaving", lambda follower: follower._begin_leaving(False, (), None)),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_what_goes_between_two_reads_is_no_error(monkeypatch: pytest.MonkeyPatch, look: Look) -> None:
    """Another worker may come at any step of one that polls: that one got an AttributeError of None."""
    kind, name, call = look
    found = MagicMock()
    found.sure_s = found.away_s = 0
    found.broker_pattern = None
    found.__getitem__.return_value = found
    left = [found]
    others = MagicMock()
    others._engine.handler.now.return_value = others._engine.revocation_deadline.return_value = 0.0
    others._engine.commits = None

    def other(_: object, attribute: str) -> Any:
        if hasattr(kind, attribute):  # the property itself has failed
            raise AttributeError(attribute)
        return getattr(others, attribute)

    made: type[Any] = type("Subject", (kind,), {"__getattr__": other})
    subject = object.__new__(made)
    subject.__dict__["membership"] = subject.__dict__["_topics"] = None
    monkeypatch.setattr(made, name, property(lambda _: left.pop() if left else None), raising=False)
    call(subject)
    assert left == []
