"""`RebalanceListener`: the application's part in a rebalance of its group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka.common import TopicPartition

ListenerMethod = Callable[[list[TopicPartition]], object]

_METHODS = ("on_revoked", "on_assigned", "on_lost")


class RebalanceListener:
    """The base of listeners: override what you need. Any other object with some of these methods serves as well.

    The methods run inside the application's own calls, such as `poll()`, between two records. They may take their time, up to
    `max_poll_interval_ms`, and may call the consumer. An exception that one raises is raised by that call, after the end of the
    rebalance.
    """

    def on_revoked(self, partitions: list[TopicPartition]) -> object:
        """Prepare for the loss of partitions; they are still this member's, so that `commit()` works.

        Called during a rebalance, if partitions go to other members, with these; and before the member leaves. This is the
        form of the next protocol, which a member has by default on Kafka 4.0 and later, of "cooperative-sticky", and of
        ZooKeeper. Other members of the classic protocol get the whole assignment, before each rebalance.

        :param partitions: the revoked ones, at least one
        """

    def on_assigned(self, partitions: list[TopicPartition]) -> object:
        """Prepare for reading partitions; `seek()` works here.

        :param partitions: the added ones, perhaps none; in the classic protocol without "cooperative-sticky", the whole new
            assignment
        """

    def on_lost(self, partitions: list[TopicPartition]) -> object:
        """Forget partitions that other members may read already, so that commits of them are refused.

        It happens when the member was out of the group: it stalled beyond the session's time or `max_poll_interval_ms`. It also
        happens for topics that were deleted. By default this calls `on_revoked`, as in Kafka's Java client.

        :param partitions: the lost ones
        """
        return self.on_revoked(partitions)


class Listeners:
    """The three methods of a listener of any kind; None: it has none.

    :param listener: a RebalanceListener, an object with some of its methods, or None
    """

    __slots__ = _METHODS

    def __init__(self, listener: Any) -> None:
        self.on_revoked: ListenerMethod | None = getattr(listener, "on_revoked", None)
        self.on_assigned: ListenerMethod | None = getattr(listener, "on_assigned", None)
        self.on_lost: ListenerMethod | None = getattr(listener, "on_lost", None) or self.on_revoked


def valid_listener(value: Any, name: str) -> Any:
    """Return a listener, or None.

    :raises TypeError: it has none of the methods of `RebalanceListener`, is a class, or a method cannot be called
    """
    if value is None:
        return None
    if isinstance(value, type):
        raise TypeError(f"{name} must be an object: give {value.__name__}(), not the class {value.__name__}")
    methods = [getattr(value, method, None) for method in _METHODS]
    if all(method is None for method in methods):
        raise TypeError(
            f"{name} must have one at least of {', '.join(_METHODS)}, not {type(value).__name__}: {value!r}"
            + ("; on_partitions_revoked is on_revoked here" if hasattr(value, "on_partitions_revoked") else "")
        )
    for method_name, method in zip(_METHODS, methods, strict=True):
        if method is not None and not callable(method):
            raise TypeError(f"{name}.{method_name} must be a method, not {type(method).__name__}: {method!r}")
    return value
