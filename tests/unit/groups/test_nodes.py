"""`MemberNodes` and `ZooKeeperGroup`: what becomes of a member's nodes when ZooKeeper does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import ZooKeeperError
from pykafka.groups.zookeeper.group import ZooKeeperGroup
from pykafka.groups.zookeeper.nodes import MemberNodes


class Group:
    """The nodes of a topic; the first request has no answer."""

    member = "me:t"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def answer_within(self, seconds: float) -> None:
        self.seconds = seconds

    def keep(self, ids: tuple[int, ...]) -> None:
        assert ids == ()
        self.calls.append("keep")
        if len(self.calls) == 1:
            raise ZooKeeperError("no answer")

    def unregister(self) -> None:
        self.calls.append("unregister")


def test_a_topic_is_left_once_zookeeper_answers() -> None:
    contact: Any = SimpleNamespace(is_silent=True, lost="")
    anything: Any = None
    nodes = MemberNodes(anything, "g", "me", contact, anything, anything, lambda: 6.0)
    group: Any = Group()
    nodes._groups["t"] = group
    nodes.keep({})
    assert group.calls == []
    contact.is_silent = False
    with pytest.raises(ZooKeeperError):
        nodes.keep({})
    nodes.keep({})
    assert group.calls == ["keep", "keep", "unregister"]
    nodes.keep({})
    assert len(group.calls) == 3, "it is left once"


@pytest.mark.parametrize("owned", [True, False])
def test_what_was_owned_at_the_end_stays_so(owned: bool) -> None:
    handler: Any = None
    group = ZooKeeperGroup(handler, "g", "t", "m", 6000, int)
    assert group.may_own()
    contact: Any = SimpleNamespace(may_own=lambda: owned)
    group.use_session(contact)
    for _ in range(2):
        group.close()
        assert group.may_own() == owned
    contact.may_own = lambda: True
    group.use_session(contact)
    assert group.may_own()
