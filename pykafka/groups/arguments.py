"""The keyword arguments of the consumers that share a topic, for checkers and editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.consumer.arguments import ConsumerArguments

if TYPE_CHECKING:
    from pykafka.groups.options import RebalanceCallback
    from pykafka.membershipprotocol import GroupMembershipProtocol


class GroupConsumerArguments(ConsumerArguments, total=False):
    """The keyword arguments that both kinds of balanced consumers have; see `BalancedConsumer`."""

    rebalance_max_retries: int
    rebalance_backoff_ms: int
    post_rebalance_callback: RebalanceCallback | None
    use_rdkafka: bool
    membership_protocol: GroupMembershipProtocol


class BalancedConsumerArguments(GroupConsumerArguments, total=False):
    """The keyword arguments of `BalancedConsumer`; see there."""

    zookeeper_connection_timeout_ms: int
    zookeeper_connect: str | None
    zookeeper_hosts: str
    zookeeper: Any


class ManagedBalancedConsumerArguments(GroupConsumerArguments, total=False):
    """The keyword arguments of `ManagedBalancedConsumer`; see there."""

    heartbeat_interval_ms: int
    session_timeout_ms: int
    max_poll_interval_ms: int
    group_instance_id: str | bytes | None
