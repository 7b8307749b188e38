"""`make_membership`: the membership of `client.consumer(..., group=...)` for each value of the option `protocol`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.groups.protocol_choice import CLASSIC, CONSUMER, NO_STATIC_MEMBERS, ZOOKEEPER, check_pattern

if TYPE_CHECKING:
    from pykafka.consumer.committed_offsets import Membership
    from pykafka.groups.membership import AssignmentHooks, GroupMembership
    from pykafka.groups.subscription import Topics
    from pykafka.metadata.cluster import BaseCluster

#: What a member needs that agrees with others through ZooKeeper.
NO_HOSTS = (
    'members that agree through ZooKeeper (protocol="zookeeper", or "auto" if brokers before 0.9 keep no groups) need '
    'zookeeper_hosts="host:port", of the consumer or of the client'
)


def make_membership(
    protocol: str, cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, topics: Topics, **configs: Any
) -> GroupMembership:
    """Return a membership that subscribes to topics.

    :param protocol: one of `PROTOCOLS`
    :param hooks: the consumer
    :param identity: generation and member id of its commits
    :param configs: of the membership
    :raises TypeError, ValueError: see `Subscription`; or the protocol has no patterns for the broker
    """
    check_pattern(protocol, topics)
    membership = _make(protocol, cluster, hooks, identity, **configs)
    membership.subscribe(topics)
    return membership


def _make(
    protocol: str, cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, **configs: Any
) -> GroupMembership:
    """Return a membership; each protocol is loaded when it is used."""
    if protocol == CLASSIC:
        from pykafka.groups.classic.membership import ClassicMembership

        return ClassicMembership(cluster, hooks, identity, **configs)
    if protocol == CONSUMER:
        from pykafka.groups.kip848.membership import ConsumerGroupMembership

        return ConsumerGroupMembership(cluster, hooks, identity, **configs)
    if protocol == ZOOKEEPER:
        return _by_zookeeper(cluster, hooks, identity, **configs)
    from pykafka.groups.auto_membership import AutoMembership

    return AutoMembership(_make, cluster, hooks, identity, **configs)


def _by_zookeeper(
    cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, **configs: Any
) -> GroupMembership:
    """Return a membership of a group that ZooKeeper keeps.

    :raises ValueError: no option has the address of ZooKeeper, or the member has a `group_instance_id`
    :raises RuntimeError: the client runs on an event loop
    """
    hosts = configs["zookeeper_hosts"] or cluster.zookeeper_hosts
    if not hosts:
        raise ValueError(NO_HOSTS)
    if configs["group_instance_id"] is not None:
        raise ValueError(NO_STATIC_MEMBERS)
    cluster.handler.kazoo()
    from pykafka.groups.zookeeper.membership import ZooKeeperMembership  # needs kazoo

    return ZooKeeperMembership(cluster, hooks, identity, **{**configs, "zookeeper_hosts": hosts})
