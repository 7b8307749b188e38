"""`MemberNodes`: what becomes of a member's nodes when ZooKeeper does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import ZooKeeperError
from pykafka.groups.zookeeper.nodes import MemberNodes


class Group:
    """The nodes of a topic; the first request has no answer."""

    member = "me:t"

    def __init__(self) -> None:
        self.calls = 0

    def answer_within(self, seconds: float) -> None:
        self.seconds = seconds

    def leave(self) -> None:
        self.calls += 1
        if self.calls == 1:
            raise ZooKeeperError("no answer")


def test_a_topic_is_left_once_zookeeper_answers() -> None:
    contact: Any = SimpleNamespace(is_silent=True, lost="")
    anything: Any = None
    nodes = MemberNodes("g", "me", contact, anything, anything, lambda: 6.0)
    group: Any = Group()
    nodes._groups["t"] = group
    nodes.keep({})
    assert group.calls == 0
    contact.is_silent = False
    with pytest.raises(ZooKeeperError):
        nodes.keep({})
    nodes.keep({})
    assert group.calls == 2
    nodes.keep({})
    assert group.calls == 2, "it is left once"
