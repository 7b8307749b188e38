"""`AutoCommitTask`: commits regularly what a `ConsumerCoordinator`'s subscription has consumed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.handlers.base import EventType, Handler
    from pykafka.metadata.cluster import BaseCluster


log = logging.getLogger(__name__)

#: How long `disable` waits for a commit that is on its way (s), beyond the socket timeout.
GRACE_S = 5.0
#: The longest wait of the worker at a time (s).
SCHEDULE_POLL_INTERVAL_S = 1.0


class Committer(Protocol):
    """The object that commits the offsets: a `ConsumerCoordinator`."""

    config: dict[str, Any]
    group_id: str
    _handler: Handler
    _cluster: BaseCluster

    def commit_consumed(self) -> object: ...


class AutoCommitTask:
    """The worker that commits regularly what a coordinator's subscription has consumed.

    :param coordinator: that commits
    :param interval: how often (s)
    """

    def __init__(self, coordinator: Committer, interval: float) -> None:
        self._coordinator = coordinator
        self._handler = coordinator._handler
        self._interval = interval
        self._next = self._handler.now() + interval
        self._wake = self._handler.Event()
        self._stopping = self._handler.Event()
        self._worker: Any = None

    def reschedule(self, at: float | None = None) -> None:
        """Commit at this time, and regularly from then on; start the worker if there is none.

        :param at: of the handler's clock (s); by default when the interval has passed
        """
        self._next = self._handler.now() + self._interval if at is None else at
        self._wake.set()
        if self._worker is None:
            self._stopping = self._handler.Event()  # a new one: a worker that is still ending reads the old one
            self._worker = self._handler.spawn(
                self._run, self._stopping, name=f"pykafka.AutoCommit.{self._coordinator.group_id}"
            )

    def disable(self, timeout_ms: int | None = None) -> None:
        """Commit no more, until `reschedule`.

        :param timeout_ms: how long to wait for a commit that is on its way; by default a little longer than it may take
        """
        worker, self._worker = self._worker, None
        if worker is None:
            return
        self._stopping.set()
        self._wake.set()
        patience_s = self._coordinator._cluster.socket_timeout_ms / 1000 + GRACE_S
        worker.join(patience_s if timeout_ms is None else min(patience_s, timeout_ms / 1000))

    def _run(self, stopping: EventType) -> None:
        while not stopping.is_set():
            self._wake.clear()
            remaining = self._next - self._handler.now()
            if remaining > 0:
                self._wake.wait(min(remaining, SCHEDULE_POLL_INTERVAL_S))
                continue
            self._next = self._handler.now() + self._interval
            try:
                self._coordinator.commit_consumed()
            except KafkaException as error:
                group, text = self._coordinator.group_id, "group %s: auto-commit failed: %s"
                self._coordinator._cluster.limiter.warn(log, group, text, group, error, level=logging.ERROR)
                if error.retriable:
                    self._next = self._handler.now() + self._coordinator.config["retry_backoff_ms"] / 1000
            except Exception as error:  # noqa: BLE001 - the subscription is the user's code, and may succeed next time
                self._handler.report(f"group {self._coordinator.group_id}: auto-commit", error)


class Subscription(Protocol):
    """A program's topics and positions; a `ConsumerCoordinator` calls these methods from the workers that call it.

    The auto-commit worker calls `consumed_offsets` as well. Only `revoked` and `assigned` may wait.
    """

    def topics(self) -> Collection[str]:
        """Return the topics to read; when they change, the member joins again."""

    def assigned_partitions(self) -> Collection[TopicPartition]:
        """Return the present assignment."""

    def consumed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: how far each assigned partition was consumed."""

    def revoked(self, partitions: Collection[TopicPartition]) -> object:
        """Stop consuming the assignment, which the rebalance revokes; auto-commit, if it is on, has committed before."""

    def assigned(self, partitions: Collection[TopicPartition]) -> object:
        """Take a new assignment: `assigned_partitions` returns it from now on."""

    def committed(self, partition: TopicPartition, offset: OffsetAndMetadata) -> object:
        """Continue at the committed offset of an assigned partition."""
