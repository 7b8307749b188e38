"""Membership of the groups that Kafka's brokers keep: joining, shares of partitions, heartbeats.

`ManagedBalancedConsumer` takes part through a `TopicMember` (`member.py`), a `BaseCoordinator` (`base.py`).
`ConsumerCoordinator` (`documented/`, at its documented place `consumer.py`) is the other `BaseCoordinator`. It is API for
programs that bring their own consumer; no consumer of this package uses it.
"""

from __future__ import annotations

from pykafka.groups.assignors.abstract import AbstractPartitionAssignor
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor, RoundRobinPartitionAssignor
from pykafka.groups.assignors.sticky import CooperativeStickyAssignor, StickyPartitionAssignor

__all__ = [
    "AbstractPartitionAssignor",
    "CooperativeStickyAssignor",
    "RangePartitionAssignor",
    "RoundRobinPartitionAssignor",
    "StickyPartitionAssignor",
]
