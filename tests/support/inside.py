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
    """Return the membership of a `KafkaConsumer`, the one that "auto" has chosen, or that of a `ManagedBalancedConsumer`."""
    membership = consumer._follower.membership if hasattr(consumer, "_follower") else consumer._member
    return getattr(membership, "chosen", None) or membership


def listener_of(consumer: Any) -> Any:
    """Return the listener that a `KafkaConsumer` calls in rebalances."""
    return consumer._follower._listener


def transactions_of(producer: Any) -> Any:
    """Return the part of a producer that has its transactions."""
    return producer._transactions


def options_of(client: Any) -> Any:
    """Return the options of a `KafkaConsumer` or `KafkaProducer`."""
    return client._options


def worker_of(part: Any) -> Any:
    """Return the worker of a part that has one; None: it has not begun, or has ended."""
    return part._worker


def coordinator_of(part: Any) -> Any:
    """Return the coordinator that a part has found, or the part that finds it."""
    return part._coordinator


def reauthentication_of(requests: Any) -> Any:
    """Return the part of a connection's requests that renews its login."""
    return requests._reauthentication


def waiting_commits(order: Any) -> int:
    """Return how many commits of one consumer are under way or wait for their turn."""
    return len(order._places)


def background_join(membership: Any) -> Any:
    """Return the join of a cooperative member that goes on beside the application's calls; None for none."""
    return membership._background


def take_report(membership: Any, report: Any) -> None:
    """Give a member a report of its heartbeats, as the heartbeat thread does."""
    membership._handle_report(report)


def batch_of(message: Any) -> Any:
    """Return the batch that a produced message is in."""
    return message._batch


def deserialize(record: Any, key: Any, value: Any) -> None:
    """Give a record its deserialized key and value, as a consumer does."""
    record._set_deserialized(key, value)


def await_acknowledgement(record: Any, waiting: Any) -> None:
    """Give a record the object that waits for its acknowledgement, as a parallel run does."""
    record._set_ack(waiting)


def statistics_of(client: Any) -> Any:
    """Return the part of a client that calls its `stats_cb`."""
    return client.cluster.on_part_start.__self__
