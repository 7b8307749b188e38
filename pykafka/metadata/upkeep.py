"""`Upkeep`: decides when a cluster is asked for metadata, and for which topics, so that many workers cause one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykafka.exceptions import NoBrokersAvailableError
from pykafka.metadata.brokers import countdown

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metadata.freshness import Freshness

#: How often a worker with a deadline looks whether another one still updates (s).
LOOK_S = 0.01


class Upkeep:
    """The updates of a cluster's metadata, one at a time.

    State: `_lock` is held during each update, so that any number of workers that find a leader gone cause one request.

    :param handler: supplies the lock
    :param freshness: keeps the books on what was asked when
    :param update: asks the cluster for some topics (None: all), for so long (ms; None: as long as it takes), and takes the
        answer over; called under the lock
    :param held: gives the names of the topics that the application holds
    """

    def __init__(
        self,
        handler: Handler,
        freshness: Freshness,
        update: Callable[[list[str] | None, int | None], object],
        held: Callable[[], Iterable[str]],
    ) -> None:
        self._handler = handler
        self._freshness = freshness
        self._update = update
        self._held = held
        self.after_fork()

    def after_fork(self) -> None:
        """Replace the lock in a forked child: a worker of the parent may have held it."""
        self._lock = self._handler.Lock()

    def all(self) -> None:
        """Update all topics in use."""
        with self._lock:
            self._update_in_use()

    def topics(self, names: list[str] | None, timeout_ms: int | None = None) -> None:
        """Update some topics now.

        :param names: None for all topics of the cluster
        :param timeout_ms: how long this may take; None: as long as brokers take, one after the other
        :raises NoBrokersAvailableError: no broker answered, or another worker asked them for all that time
        """
        self._freshness.want(names or ())
        timeout_ms = self._await_others(timeout_ms)
        with self._lock:
            self._update(names, timeout_ms)

    def since(self, seen: int, names: list[str] | None, timeout_ms: int | None = None) -> None:
        """Update topics, unless that was done since a generation; all topics in use where the metadata is old.

        :param seen: the generation
        :param names: None for all topics in use
        :param timeout_ms: as of `topics`
        """
        self._freshness.want(names or ())
        timeout_ms = self._await_others(timeout_ms)
        with self._lock:
            if self._freshness.covers(seen, names):
                return
            if names is None or self._freshness.is_old:
                self._update_in_use(timeout_ms)
            else:
                self._update_if_due(names, timeout_ms)

    def older(self, max_age_s: float, names: list[str], timeout_ms: int | None = None) -> None:
        """Update topics, and those that the application holds, where the oldest answer about them is this old (s).

        :param timeout_ms: as of `topics`
        """
        if not names or self._freshness.age(names) < max_age_s:
            return
        timeout_ms = self._await_others(timeout_ms)
        with self._lock:
            if self._freshness.age(names) >= max_age_s:
                self._update(sorted({*names, *self._held()}), timeout_ms)

    def lacking(self, find: Callable[[], list[str]], timeout_ms: int | None = None) -> None:
        """Update topics whose leaders are unknown, unless that was done a moment ago.

        :param find: gives their names; called before and under the lock, as another worker may update them meanwhile
        :param timeout_ms: as of `topics`
        """
        if not find():
            return
        timeout_ms = self._await_others(timeout_ms)
        with self._lock:
            names = find()
            if names:
                self._update_if_due(names, timeout_ms)

    def _await_others(self, timeout_ms: int | None) -> int | None:
        """Wait until no other worker updates, and return how much of a time is left then (ms); None for no limit.

        :raises NoBrokersAvailableError: others did for all that time
        """
        if timeout_ms is None:
            return None
        left_ms = countdown(self._handler.now, timeout_ms)
        # Not `acquire(timeout=...)`: Ctrl-C could come before the `try` behind it, and nobody could update any more.
        while self._lock.locked():
            if not left_ms():
                raise NoBrokersAvailableError(
                    f"another call of this client has asked brokers for metadata for {timeout_ms} ms, and none has answered; "
                    "check hosts=, the network, and that the brokers are up"
                )
            self._handler.sleep(min(LOOK_S, left_ms() / 1000))
        return left_ms() or 1

    def _update_in_use(self, timeout_ms: int | None = None) -> None:
        """Update all topics that the application holds, or has asked about lately."""
        self._update(self._freshness.in_use(self._held()), timeout_ms)
        self._freshness.asked_in_use()

    def _update_if_due(self, names: Iterable[str], timeout_ms: int | None) -> None:
        """Update topics, and others without leaders, unless all were found without leaders a moment ago."""
        due = self._freshness.due(names)
        if due:
            self._update(due, timeout_ms)
