"""`Coordinators`: which brokers coordinate groups, so that the members of a group that start together ask once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykafka.handlers import Handler
    from pykafka.handlers.base import LockType
    from pykafka.network.node import Node

#: How long an answer is good for others (s): coordinators move.
GOOD_S = 10.0
#: How long one waits for the answer that another worker has asked for (s); then it asks, too.
PATIENCE_S = 1.0


class Asked(Protocol):
    """The cluster that is asked; `BaseCluster` says what each member does."""

    @property
    def brokers(self) -> Mapping[int, Node]: ...
    def get_group_coordinator(self, consumer_group: str, timeout_ms: int | None = None, /) -> Node: ...


class Coordinators:
    """The coordinators of groups that workers of this client have found.

    State: `_found` and `_asking` change by single steps. A lock of `_asking` is held by the worker that asks about its group;
    one that it does not give back costs the others `PATIENCE_S`.

    :param handler: supplies locks and clock
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.after_fork()

    def after_fork(self) -> None:
        """Start afresh in a forked child, where nobody would release the locks."""
        self._found: dict[str, tuple[float, Node]] = {}
        self._asking: dict[str, LockType] = {}

    def find(self, cluster: Asked, group: str, timeout_ms: int | None = None) -> Node:
        """Return the coordinator that was found a moment ago, or ask; parameters and errors as of `get_group_coordinator`.

        :param cluster: which is asked
        """
        found = self._known(cluster, group)
        if found is not None:
            return found
        lock = self._asking.setdefault(group, self._handler.Lock())
        began = self._handler.now()
        patience = PATIENCE_S if timeout_ms is None else min(PATIENCE_S, timeout_ms / 1000)
        mine = lock.acquire(timeout=patience)
        try:
            found = self._known(cluster, group)
            if found is None:
                waited_ms = round((self._handler.now() - began) * 1000)
                left_ms = None if timeout_ms is None else max(0, timeout_ms - waited_ms)
                found = cluster.get_group_coordinator(group, left_ms)
                self._found[group] = self._handler.now(), found
            return found
        finally:
            if mine:
                lock.release()

    def _known(self, cluster: Asked, group: str) -> Node | None:
        at, broker = self._found.get(group, (0.0, None))
        if broker is None or self._handler.now() - at > GOOD_S or cluster.brokers.get(broker.id) is not broker:
            return None
        return broker

    def forget(self, group: str, broker: Node | None) -> None:
        """Ask again about a group that this broker does not coordinate any more, as its member has found."""
        _, known = self._found.get(group, (0.0, None))
        if known is broker:
            self._found.pop(group, None)
