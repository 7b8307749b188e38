"""Membership of the groups that Kafka's brokers keep: joining, shares of partitions, heartbeats.

`ManagedBalancedConsumer` takes part through a `TopicMember` (`member.py`), a `BaseCoordinator` (`base.py`).
`ConsumerCoordinator` (`documented/`, at its documented place `consumer.py`) is the other `BaseCoordinator`. It is API for
programs that bring their own consumer; no consumer of this package uses it.
"""
