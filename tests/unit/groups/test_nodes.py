"""`MemberNodes`: what becomes of a member's nodes when ZooKeeper does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.exceptions import ZooKeeperError
from pykafka.groups.zookeeper.nodes import DIVISIONS, MemberNodes, node_names
from pykafka.membershipprotocol import GroupMembershipProtocol, RangeProtocol, RoundRobinProtocol


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


@pytest.mark.parametrize(("assignor", "decide"), [("range", RangeProtocol), ("roundrobin", RoundRobinProtocol)])
def test_members_of_both_kinds_of_consumers_divide_alike(
    embedded: EmbeddedCluster, assignor: str, decide: GroupMembershipProtocol
) -> None:
    """A `BalancedConsumer` may be in the group: it decides by `Partition`s, this member by node names."""
    embedded.create_topic("alike", partitions=12)
    with KafkaClient(embedded.hosts) as client:
        partitions = client.topics["alike"].partitions
        names = node_names("alike", client.cluster.topic_metadata("alike"))
    members = ["a", "b", "c", "d", "e"]
    assert {id_: name.rpartition("-")[2] for id_, name in names.items()} == {id_: str(id_) for id_ in range(12)}
    divided = DIVISIONS[assignor](members, list(names))
    for member in members:
        assert set(divided[member]) == {one.id for one in decide.decide_partitions(members, partitions, member)}
