"""Where tests look inside of consumers and producers: the one place that names their private attributes.

A test uses these only for what no public call shows: who holds a lock, which worker is under way, what a hook is called with.
"""

from __future__ import annotations

from typing import Any


def engine_of(client: Any) -> Any:
    """Return the engine of a consumer or producer."""
    return client._engine


def follower_of(consumer: Any) -> Any:
    """Return the part of a `KafkaConsumer` that follows the assignment of its group."""
    return consumer._follower


def membership_of(consumer: Any) -> Any:
    """Return the membership of a `KafkaConsumer`, or of a `ManagedBalancedConsumer`."""
    return consumer._follower.membership if hasattr(consumer, "_follower") else consumer._member


def listener_of(consumer: Any) -> Any:
    """Return the listener that a `KafkaConsumer` calls in rebalances."""
    return consumer._follower._listener


def transactions_of(producer: Any) -> Any:
    """Return the part of a producer that has its transactions."""
    return producer._transactions
