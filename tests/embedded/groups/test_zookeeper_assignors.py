"""Assignors of ZooKeeper members, beside the membership protocols of `BalancedConsumer`."""

from __future__ import annotations

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.groups.zookeeper.nodes import DIVISIONS, node_names
from pykafka.membershipprotocol import GroupMembershipProtocol, RangeProtocol, RoundRobinProtocol


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
