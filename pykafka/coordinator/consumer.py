"""`ConsumerCoordinator`: a consumer of any number of topics as the member of a group, and the offsets that it commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pykafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from pykafka.coordinator.assignors.range import RangePartitionAssignor
from pykafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from pykafka.coordinator.autocommit import AutoCommitTask
from pykafka.coordinator.base import BaseCoordinator
from pykafka.coordinator.metrics import ConsumerCoordinatorMetrics, Metrics
from pykafka.coordinator.state import EVENT_OF_ERROR, MOVED, Event, State
from pykafka.coordinator.subscription import OffsetAndMetadata, Subscription, TopicPartition
from pykafka.coordinator.topics import SharedTopics
from pykafka.exceptions import (
    GroupCoordinatorNotAvailable,
    InconsistentGroupProtocol,
    KafkaException,
    OffsetsNotCommitted,
    ProtocolClientError,
)
from pykafka.metadata.groupoffsets import (
    CHANNEL,
    COMMIT_CEILING,
    FETCH_CEILING,
    commit_failures,
    commit_request,
    committed_offsets,
    fetch_request,
)
from pykafka.network.futures import ResponseFuture
from pykafka.protocol import documented, wire

log = logging.getLogger(__name__)

R = TypeVar("R")

__all__ = ["AutoCommitTask", "ConsumerCoordinator", "ConsumerCoordinatorMetrics"]

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
#: `(offsets, the OffsetCommitResponse or an exception)`; called by the connection's reader, so it must not wait.
CommitCallback = Callable[[Offsets, Any], object]


def _say_nothing(offsets: Offsets, response: Any) -> bool:
    return True


class ConsumerCoordinator(BaseCoordinator):
    """Deal with the coordinator for a consumer: its share of its topics, and its offsets.

    Call `poll` (or `ensure_active_group`, and then `refresh_committed_offsets_if_needed`) regularly, at least once in
    `max_poll_interval_ms`.

    :param client: a KafkaClient, or a Cluster
    :param subscription: what is consumed, and who is told of shares
    :param metrics: where measurements go; None for nowhere
    :param configs: as `DEFAULT_CONFIG` has them; others are left alone
    :raises ValueError: no assignors, or the heartbeat interval is not shorter than the session timeout
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        **BaseCoordinator.DEFAULT_CONFIG,
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5000,
        "default_offset_commit_callback": _say_nothing,
        "assignors": (RangePartitionAssignor, RoundRobinPartitionAssignor),
        "exclude_internal_topics": True,
        "metric_group_prefix": "consumer",
    }

    def __init__(self, client: Any, subscription: Subscription, metrics: Metrics | None = None, **configs: Any) -> None:
        super().__init__(client, metrics, **configs)
        self._subscription = subscription
        self._assignors: dict[str, AbstractPartitionAssignor] = {one.name: one for one in self.config["assignors"]}
        if not self._assignors:
            raise ValueError("assignors must name one at least, such as RangePartitionAssignor")
        self._joined_for: frozenset[str] = frozenset()
        self._topics = SharedTopics(self._cluster)
        self._refresh_needed = False
        #: Generation and member id under which the present share was given: what is consumed of it is committed under these.
        self._shared_as: tuple[int, str] | None = None
        self._auto_commit: AutoCommitTask | None = None
        if self.config["enable_auto_commit"]:
            self._auto_commit = AutoCommitTask(self, self.config["auto_commit_interval_ms"] / 1000)
        self._consumer_metrics = ConsumerCoordinatorMetrics(metrics, self.config["metric_group_prefix"], subscription)

    # -- membership ------------------------------------------------------------------------------------------------

    def protocol_type(self) -> str:
        """Return the kind of the group's members: "consumer"."""
        return "consumer"

    def group_protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the name of each assignor, the best first, with the topics of this member."""
        self._joined_for = frozenset(self._subscription.topics())
        return [(name, bytes(one.metadata(self._joined_for).get_bytes())) for name, one in self._assignors.items()]

    def need_rejoin(self) -> bool:
        """Return whether the group is to be joined again: it changes, or topics or their partitions have."""
        if self._joined_for and self._joined_for != frozenset(self._subscription.topics()):
            self.request_rejoin()
        if self._topics.have_changed():
            self.request_rejoin()
        return super().need_rejoin()

    def poll(self, timeout_ms: int | None = None) -> None:
        """Take part in the group: join where that is due, and be told committed offsets. Counts as a sign of life.

        :param timeout_ms: for all of it; None tries for as long as it takes. What is not done by then the next call goes on
            with: it waits for the same answer
        :raises KafkaException: the coordinator refuses, or not in time
        """
        deadline = None if timeout_ms is None else self._handler.now() + timeout_ms / 1000
        self.refresh_if_old()
        self.ensure_active_group(None if deadline is None else self._left_ms(deadline, 0))
        self.refresh_committed_offsets_if_needed(None if deadline is None else self._left_ms(deadline))

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        if self._auto_commit is not None:
            left_ms = None if self._deadline is None else self._left_ms(self._deadline)
            self._auto_commit.disable(left_ms)
            if member_id:
                try:
                    self.commit_consumed(left_ms)
                except KafkaException as error:
                    log.error("group %s: before the rebalance: %s", self.group_id, error)
        self._subscription.revoked(set(self._subscription.assigned_partitions()))

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, bytes]:
        wanted = {
            member: documented.ConsumerGroupProtocolMetadata.from_bytestring(metadata) for member, metadata in members
        }
        topics = {
            name if isinstance(name, str) else name.decode() for one in wanted.values() for name in one.topic_names
        }
        if any(self._cluster.topic_metadata(name) is None for name in topics):
            self._cluster.update(sorted(topics))
        partitions = {name: self._topics.ids(name) for name in topics}
        self._topics.divided = {name: len(ids) for name, ids in partitions.items()}
        shares = self._assignor(protocol).assign(partitions, wanted)
        return {member: bytes(share.get_bytes()) for member, share in shares.items()}

    def _assignor(self, name: str) -> AbstractPartitionAssignor:
        found = self._assignors.get(name)
        if found is None:
            raise InconsistentGroupProtocol(
                f"group {self.group_id} divides by {name!r}, which is none of {sorted(self._assignors)}; see assignors="
            )
        return found

    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        assignment = documented.MemberAssignment.from_bytestring(member_assignment)
        self._assignor(protocol).on_assignment(assignment)
        share = [TopicPartition(topic, id_) for topic, ids in assignment.partition_assignment for id_ in ids]
        self._refresh_needed = True
        self._shared_as = (generation, member_id)
        self._subscription.assigned(share)
        if self._auto_commit is not None:
            self._auto_commit.reschedule()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._shared_as = None

    def close(self, autocommit: bool = True, *, timeout_ms: int | None = None) -> None:
        """Commit what was consumed, leave the group, and forget generation and member id.

        :param autocommit: whether to commit, where auto-commit is on
        :param timeout_ms: how long leaving may take; by default 5,000
        :raises OffsetsNotCommitted: that commit failed; the group was left all the same
        """
        try:
            if self._auto_commit is not None:
                self._auto_commit.disable()
                if autocommit and self.member_id:
                    self.commit_consumed()
        finally:
            super().close(timeout_ms=timeout_ms)
            self._shared_as = None

    # -- offsets ---------------------------------------------------------------------------------------------------

    def commit_consumed(self, timeout_ms: int | None = None) -> None:
        """Commit how far the subscription has consumed, and tell the default callback, whose errors are logged.

        :param timeout_ms: as for `commit_offsets_sync`
        :raises OffsetsNotCommitted: it failed, as it does where the share was lost in which that was consumed
        """
        offsets = dict(self._subscription.consumed_offsets())
        if not offsets:
            return
        self.commit_offsets_sync(offsets, timeout_ms)
        try:
            self.config["default_offset_commit_callback"](offsets, None)
        except Exception as error:  # noqa: BLE001 - the user's code, after the deed
            self._handler.report(f"group {self.group_id}: default_offset_commit_callback", error)

    @property
    def _identity(self) -> tuple[int, str]:
        """Generation and member id that commits bear: those of the share, also when it was lost; none without a share."""
        return self._shared_as or (self.membership.generation_id, self.membership.member_id)

    def commit_offsets_sync(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commit offsets, trying again until it succeeds or cannot.

        They are committed as of the present share: where that is lost meanwhile, the coordinator refuses them.

        :param offsets: {TopicPartition: OffsetAndMetadata}, each that of the next message to consume
        :param timeout_ms: for how long; by default twice the client's socket timeout
        :raises OffsetsNotCommitted: it failed; `.failures` has what is not committed
        """
        remaining = dict(offsets)
        started = self._handler.now()
        identity = self._identity

        def attempt() -> None:
            coordinator = self._known_coordinator(self._left_of(started, timeout_ms))
            version = max(coordinator.api_version(wire.OffsetCommitRequest, ceiling=COMMIT_CEILING), 1)
            request = self._commit_request(version, identity, remaining)
            response = coordinator.call(
                request, CHANNEL, version=version, timeout_ms=self._left_of(started, timeout_ms)
            )
            failures = commit_failures(response, coordinator.address, remaining)
            for partition in [partition for partition in remaining if partition not in failures]:
                del remaining[partition]
            if failures:
                raise min(failures.values(), key=lambda error: error.retriable)

        try:
            if remaining:
                self._retrying(attempt, timeout_ms, identity)
        except KafkaException as error:
            text = f"group {self.group_id}: {error}"
            raise OffsetsNotCommitted(
                text, {(one.topic, one.partition): remaining[one] for one in remaining}
            ) from error
        self._consumer_metrics.committed(self._handler.now() - started)

    def _commit_request(self, version: int, identity: tuple[int, str], offsets: Offsets) -> wire.OffsetCommitRequest:
        return commit_request(self.group_id, version, identity, offsets, self.config["group_instance_id"])

    def commit_offsets_async(self, offsets: Offsets, callback: CommitCallback | None = None) -> ResponseFuture:
        """Commit offsets once, without waiting for the answer.

        :param offsets: {TopicPartition: OffsetAndMetadata}
        :param callback: called with the offsets, and the OffsetCommitResponse or an exception; must not wait
        :returns: its `get()` gives the OffsetCommitResponse, or raises
        """
        future = ResponseFuture(self._handler)
        tell = callback or self.config["default_offset_commit_callback"]
        future.add_done_callback(lambda done: tell(offsets, done.error or done.response))
        try:
            coordinator = self._known_coordinator()
            version = max(coordinator.api_version(wire.OffsetCommitRequest, ceiling=COMMIT_CEILING), 1)
            request = self._commit_request(version, self._identity, offsets)
            pending = coordinator.send(request, CHANNEL, version=version, patient=False)
        except KafkaException as error:
            future.set_error(error)
            return future

        def answered(frame: ResponseFuture) -> None:
            try:
                response = pending.decode(frame.get(timeout=0))
                failures = commit_failures(response, coordinator.address, offsets)
                if failures:
                    raise next(iter(failures.values()))
            except KafkaException as error:
                future.set_error(error)
            else:
                future.set_response(documented.OffsetCommitResponse.of(response))

        pending.add_done_callback(answered)
        return future

    def fetch_committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group has committed; of partitions without a commit, nothing.

        :param partitions: to ask for
        :param timeout_ms: for how long to try; by default twice the client's socket timeout
        :raises KafkaException: it could not be found out
        """
        wanted = list(partitions)
        if not wanted:
            return {}
        started = self._handler.now()

        def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            coordinator = self._known_coordinator(self._left_of(started, timeout_ms))
            version = max(coordinator.api_version(wire.OffsetFetchRequest, ceiling=FETCH_CEILING), 1)
            request, left_ms = fetch_request(self.group_id, version, wanted), self._left_of(started, timeout_ms)
            response = coordinator.call(request, CHANNEL, version=version, timeout_ms=left_ms)
            found = committed_offsets(response, coordinator.address, wanted)
            return {partition: one for partition, one in found.items() if one.offset >= 0}

        return self._retrying(attempt, timeout_ms)

    def refresh_committed_offsets_if_needed(self, timeout_ms: int | None = None) -> None:
        """Tell the subscription what is committed for a share that is new; `timeout_ms` as of `fetch_committed_offsets`."""
        if self._refresh_needed:
            found = self.fetch_committed_offsets(self._subscription.assigned_partitions(), timeout_ms)
            for partition, offset in found.items():
                self._subscription.committed(partition, offset)
            self._refresh_needed = False

    def _left_of(self, started: float, timeout_ms: int | None) -> int | None:
        """Return what is left (ms) of a time that began then; None where there is no limit."""
        return None if timeout_ms is None else self._left_ms(started + timeout_ms / 1000)

    def _known_coordinator(self, timeout_ms: int | None = None) -> Any:
        self.ensure_coordinator_known(timeout_ms)
        if self.coordinator is None:
            raise GroupCoordinatorNotAvailable(f"group {self.group_id}: the coordinator was lost a moment ago")
        return self.coordinator

    def _retrying(
        self, attempt: Callable[[], R], timeout_ms: int | None = None, identity: tuple[int, str] | None = None
    ) -> R:
        """Return what `attempt` does, after as many tries as fit into the time.

        :param timeout_ms: by default twice the socket timeout
        :param identity: generation and member id that are at stake, of a commit
        """
        patience_ms = 2 * self._cluster.socket_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._handler.now() + patience_ms / 1000
        while True:
            try:
                return attempt()
            except KafkaException as error:
                if not error.retriable or self._cluster.closed or self._handler.now() > deadline:
                    self._heed(error, identity)
                    raise
                self._heed(error, identity)
                log.info("group %s: %s; trying again", self.group_id, error)
            self._pause()

    def _heed(self, error: KafkaException, identity: tuple[int, str] | None) -> None:
        """Draw the conclusions of an error of a commit or fetch for coordinator and membership, where it is that one's."""
        if identity is not None and not self.membership.is_present(*identity):
            return
        if not isinstance(error, ProtocolClientError) or error.ERROR_CODE in MOVED:
            self.coordinator_dead(error)
        elif self.membership.state is State.STABLE and EVENT_OF_ERROR.get(error.ERROR_CODE) in {
            Event.OUTDATED,
            Event.LOST,
            Event.REBALANCE,
        }:
            self.handle_error(error.ERROR_CODE)
