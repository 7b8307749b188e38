"""`ConsumerCoordinator`: the group membership of a consumer of any topics, its offsets, and its auto-commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.compat.coordinator.base import BaseCoordinator
from pykafka.compat.coordinator.metrics import ConsumerCoordinatorMetrics, Metrics
from pykafka.compat.coordinator.offsets import MemberOffsets, Offsets
from pykafka.exceptions import KafkaException
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor, RoundRobinPartitionAssignor
from pykafka.groups.classic.membership import MemberAssignors
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.network.in_flight import ResponseFuture
from pykafka.utils.contexts import in_context

if TYPE_CHECKING:
    from pykafka.handlers.base import EventType, Worker

log = logging.getLogger(__name__)

#: How long `disable` waits for a commit that is on its way (s), beyond the socket timeout.
GRACE_S = 5.0
#: The longest wait of the worker at a time (s).
SCHEDULE_POLL_INTERVAL_S = 1.0

#: `(offsets, the OffsetCommitResponse or an exception)`; called by the connection's reader, so it must not wait.
CommitCallback = Callable[[Offsets, Any], object]


def _ignore(offsets: Offsets, response: Any) -> bool:
    return True


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


class ConsumerCoordinator(BaseCoordinator):
    """The group membership of a consumer: its assignment, and its offsets.

    It is for programs that bring their own consumer; those of this package do not use it. Call `poll` (or
    `ensure_active_group`, and then `refresh_committed_offsets_if_needed`) regularly, at least once in
    `max_poll_interval_ms`.

    :param client: a KafkaClient, or a Cluster
    :param subscription: the topics and positions of the consumer, which takes assignments
    :param metrics: the receiver of measurements; None for none
    :param configs: those of `DEFAULT_CONFIG`; others are ignored
    :raises ValueError: no assignors, or the heartbeat interval is not shorter than the session timeout
    """

    has_topics = True
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        **BaseCoordinator.DEFAULT_CONFIG,
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5000,
        "default_offset_commit_callback": _ignore,
        "assignors": (RangePartitionAssignor, RoundRobinPartitionAssignor),
        "exclude_internal_topics": True,
        "metric_group_prefix": "consumer",
    }

    def __init__(self, client: Any, subscription: Subscription, metrics: Metrics | None = None, **configs: Any) -> None:
        super().__init__(client, metrics, **configs)
        self._subscription = subscription
        self._assignors = MemberAssignors(self._cluster, self.group_id, self.config["assignors"])
        self._joined_for: frozenset[str] = frozenset()
        self._refresh_needed = False
        self.offsets = MemberOffsets(self)
        self._auto_commit: AutoCommitTask | None = None
        if self.config["enable_auto_commit"]:
            self._auto_commit = AutoCommitTask(self, self.config["auto_commit_interval_ms"] / 1000)
        self._consumer_metrics = ConsumerCoordinatorMetrics(metrics, self.config["metric_group_prefix"], subscription)

    # -- membership ------------------------------------------------------------------------------------------------

    def protocol_type(self) -> str:
        """Return the kind of the group's members: "consumer"."""
        return "consumer"

    def group_protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the name of each assignor, the best first, with the metadata that names this member's topics."""
        self._joined_for = frozenset(self._subscription.topics())
        return self._assignors.protocols(self._joined_for)

    def need_rejoin(self) -> bool:
        """Return whether this member has to join again: the group rebalances, or topics or their partitions have changed."""
        if self._joined_for and self._joined_for != frozenset(self._subscription.topics()):
            self.request_rejoin()
        if self._assignors.topics.have_changed():
            self.request_rejoin()
        return super().need_rejoin()

    def poll(self, timeout_ms: int | None = None) -> None:
        """Take part in the group: join if need be, and give committed offsets to the subscription. A sign of life.

        :param timeout_ms: for all of it; None tries for as long as it takes. If time is up, the next call
            waits for the same answer
        :raises KafkaException: the coordinator refuses, or does not answer in time
        """
        deadline = None if timeout_ms is None else self._handler.now() + timeout_ms / 1000
        self.refresh_if_old()
        self.ensure_active_group(None if deadline is None else self.connection.left_ms(deadline, 0))
        self.refresh_committed_offsets_if_needed(None if deadline is None else self.connection.left_ms(deadline))

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        if self._auto_commit is not None:
            left_ms = None if self._deadline is None else self.connection.left_ms(self._deadline)
            self._auto_commit.disable(left_ms)
            if member_id:
                try:
                    self.commit_consumed(left_ms)
                except KafkaException as error:
                    log.error("group %s: before the rebalance: %s", self.group_id, error)
        self.activity.run_callback(self._subscription.revoked, set(self._subscription.assigned_partitions()))

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, bytes]:
        return self._assignors.assign(protocol, members)

    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        assigned = self._assignors.accept(protocol, member_assignment, generation, self._joined_for)
        self._refresh_needed = True
        self.offsets.assigned_as = (generation, member_id)
        self.activity.run_callback(self._subscription.assigned, assigned)
        if self._auto_commit is not None:
            self._auto_commit.reschedule()

    def _after_fork(self) -> None:
        super()._after_fork()
        self.offsets.assigned_as = None

    def close(
        self,
        autocommit: bool = True,
        *,
        timeout_ms: int | None = None,
        leave_group: bool | None = None,
        wait: float | None = None,
    ) -> None:
        """Commit what was consumed, leave the group, and forget generation and member id.

        :param autocommit: whether to commit, where auto-commit is on
        :param timeout_ms: how long leaving may take; by default 5,000
        :param leave_group: whether to tell the coordinator; None: unless the member is static
        :param wait: how long to wait for leaving (s), which goes on without this call; None for as long as it takes
        :raises OffsetsNotCommitted: that commit failed; the group was left all the same
        """
        try:
            if self._auto_commit is not None:
                self._auto_commit.disable()
                if autocommit and self.member_id:
                    self.commit_consumed()
        finally:
            super().close(timeout_ms=timeout_ms, leave_group=leave_group, wait=wait)
            self.offsets.assigned_as = None

    # -- offsets ---------------------------------------------------------------------------------------------------

    def commit_consumed(self, timeout_ms: int | None = None) -> None:
        """Commit how far the subscription has consumed, then call the default callback, whose errors are logged.

        :param timeout_ms: as for `commit_offsets_sync`
        :raises OffsetsNotCommitted: it failed, for example because the member has lost that partition
        """
        offsets = dict(self._subscription.consumed_offsets())
        if not offsets:
            return
        self.commit_offsets_sync(offsets, timeout_ms)
        try:
            self.config["default_offset_commit_callback"](offsets, None)
        except Exception as error:  # noqa: BLE001 - the user's code, after the commit
            self._handler.report(f"group {self.group_id}: default_offset_commit_callback", error)

    def commit_offsets_sync(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commit offsets, with retries.

        Commits carry the generation of the present assignment: if the member loses it meanwhile, the coordinator refuses them.

        :param offsets: {TopicPartition: OffsetAndMetadata}, each that of the next message to consume
        :param timeout_ms: for how long; by default twice the client's socket timeout
        :raises OffsetsNotCommitted: it failed; `.failures` has what is not committed
        """
        started = self._handler.now()
        self.offsets.commit(offsets, timeout_ms)
        self._consumer_metrics.committed(self._handler.now() - started)

    def commit_offsets_async(self, offsets: Offsets, callback: CommitCallback | None = None) -> ResponseFuture:
        """Commit offsets once, without waiting for the answer.

        :param offsets: {TopicPartition: OffsetAndMetadata}
        :param callback: called with the offsets, and the OffsetCommitResponse or an exception; must not wait
        :returns: its `get()` gives the OffsetCommitResponse, or raises
        """
        in_caller = in_context(callback or self.config["default_offset_commit_callback"])
        return self.offsets.commit_async(offsets, in_caller)

    def fetch_committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group has committed; of partitions without a commit, nothing.

        :param partitions: to ask for
        :param timeout_ms: for how long to try; by default twice the client's socket timeout
        :raises KafkaException: the coordinator did not answer
        """
        return self.offsets.fetch(partitions, timeout_ms)

    def refresh_committed_offsets_if_needed(self, timeout_ms: int | None = None) -> None:
        """Give the committed offsets of a new assignment to the subscription.

        :param timeout_ms: as for `fetch_committed_offsets`
        """
        if self._refresh_needed:
            committed = self.fetch_committed_offsets(self._subscription.assigned_partitions(), timeout_ms)
            for partition, offset in committed.items():
                self._subscription.committed(partition, offset)
            self._refresh_needed = False


class AutoCommitTask:
    """The worker that commits regularly what a coordinator's subscription has consumed.

    :param coordinator: that commits
    :param interval: how often (s)
    """

    def __init__(self, coordinator: ConsumerCoordinator, interval: float) -> None:
        self._coordinator = coordinator
        self._handler = coordinator._handler
        self._interval = interval
        self._next = self._handler.now() + interval
        self._wake = self._handler.Event()
        self._stopping = self._handler.Event()
        self._worker: Worker | None = None

    def reschedule(self, at: float | None = None) -> None:
        """Commit at this time, and regularly from then on; start the worker if there is none.

        :param at: of the handler's clock (s); by default when the interval has passed
        """
        self._next = self._handler.now() + self._interval if at is None else at
        self._wake.set()
        if not is_at_work(self._worker):
            self._stopping = self._handler.Event()  # a new one: a worker that is still ending reads the old one
            run = partial(self._run, self._stopping)
            self._worker = worker = OwnedWorker(self._handler, run, f"pykafka.AutoCommit.{self._coordinator.group_id}")
            worker.start()

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
