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
from pykafka.coordinator.offsets import (
    CHANNEL,
    COMMIT_CEILING,
    FETCH_CEILING,
    commit_failures,
    commit_request,
    committed_offsets,
    fetch_request,
)
from pykafka.coordinator.state import EVENT_OF_ERROR, MOVED, Event, State
from pykafka.coordinator.subscription import OffsetAndMetadata, Subscription, TopicPartition
from pykafka.exceptions import (
    GroupCoordinatorNotAvailable,
    InconsistentGroupProtocol,
    KafkaException,
    OffsetsNotCommitted,
    ProtocolClientError,
)
from pykafka.handlers import ResponseFuture
from pykafka.protocol import ConsumerGroupProtocolMetadata, MemberAssignment, OffsetCommitResponse
from pykafka.protocol.messages import OffsetCommitRequest, OffsetFetchRequest

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
        self._divided: dict[str, int] = {}
        self._refresh_needed = False
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
        if any(len(self._partition_ids(name)) != count for name, count in self._divided.items()):
            self._divided = {}
            self.request_rejoin()
        return super().need_rejoin()

    def poll(self, timeout_ms: int | None = None) -> None:
        """Take part in the group: join where that is due, and be told committed offsets. Counts as a sign of life.

        :param timeout_ms: for joining; None tries for as long as it takes
        :raises KafkaException: the coordinator refuses, or not in time
        """
        self.refresh_if_old()
        self.ensure_active_group(timeout_ms)
        self.refresh_committed_offsets_if_needed()

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        if self._auto_commit is not None:
            self._auto_commit.disable()
            if member_id:
                try:
                    self.commit_consumed()
                except KafkaException as error:
                    log.error("group %s: before the rebalance: %s", self.group_id, error)
        self._subscription.revoked(set(self._subscription.assigned_partitions()))

    def _partition_ids(self, topic: str) -> list[int]:
        metadata = self._cluster.topic_metadata(topic)
        return list(metadata.partitions) if metadata is not None else []

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, bytes]:
        wanted = {member: ConsumerGroupProtocolMetadata.from_bytestring(metadata) for member, metadata in members}
        topics = {
            name if isinstance(name, str) else name.decode() for one in wanted.values() for name in one.topic_names
        }
        if any(self._cluster.topic_metadata(name) is None for name in topics):
            self._cluster.update(sorted(topics))
        partitions = {name: self._partition_ids(name) for name in topics}
        self._divided = {name: len(ids) for name, ids in partitions.items()}
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
        assignment = MemberAssignment.from_bytestring(member_assignment)
        self._assignor(protocol).on_assignment(assignment)
        share = [TopicPartition(topic, id_) for topic, ids in assignment.partition_assignment for id_ in ids]
        self._refresh_needed = True
        self._subscription.assigned(share)
        if self._auto_commit is not None:
            self._auto_commit.reschedule()

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

    # -- offsets ---------------------------------------------------------------------------------------------------

    def commit_consumed(self) -> None:
        """Commit how far the subscription has consumed, and tell the default callback.

        :raises OffsetsNotCommitted: it failed
        """
        offsets = dict(self._subscription.consumed_offsets())
        if offsets:
            self.commit_offsets_sync(offsets)
            self.config["default_offset_commit_callback"](offsets, None)

    def commit_offsets_sync(self, offsets: Offsets) -> None:
        """Commit offsets, trying again until it succeeds or cannot; for a minute of socket timeouts at most.

        :param offsets: {TopicPartition: OffsetAndMetadata}, each that of the next message to consume
        :raises OffsetsNotCommitted: it failed; `.failures` has what is not committed
        """
        remaining = dict(offsets)
        started = self._handler.now()

        def attempt() -> None:
            coordinator = self._known_coordinator()
            version = max(coordinator.api_version(OffsetCommitRequest, ceiling=COMMIT_CEILING), 1)
            request = commit_request(self.config, version, self.membership, remaining)
            response = coordinator.call(request, CHANNEL, version=version)
            failures = commit_failures(response, coordinator.address, remaining)
            for partition in [partition for partition in remaining if partition not in failures]:
                del remaining[partition]
            if failures:
                raise min(failures.values(), key=lambda error: error.retriable)

        try:
            if remaining:
                self._retrying(attempt)
        except KafkaException as error:
            text = f"group {self.group_id}: {error}"
            raise OffsetsNotCommitted(
                text, {(one.topic, one.partition): remaining[one] for one in remaining}
            ) from error
        self._consumer_metrics.committed(self._handler.now() - started)

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
            version = max(coordinator.api_version(OffsetCommitRequest, ceiling=COMMIT_CEILING), 1)
            request = commit_request(self.config, version, self.membership, offsets)
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
                future.set_response(OffsetCommitResponse.of(response))

        pending.add_done_callback(answered)
        return future

    def fetch_committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group has committed; of partitions without a commit, nothing.

        :param partitions: to ask for
        :raises KafkaException: it could not be found out
        """
        wanted = list(partitions)
        if not wanted:
            return {}

        def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            coordinator = self._known_coordinator()
            version = max(coordinator.api_version(OffsetFetchRequest, ceiling=FETCH_CEILING), 1)
            response = coordinator.call(fetch_request(self.group_id, version, wanted), CHANNEL, version=version)
            return committed_offsets(response, coordinator.address, wanted)

        return self._retrying(attempt)

    def refresh_committed_offsets_if_needed(self) -> None:
        """Tell the subscription what is committed for a share that is new."""
        if self._refresh_needed:
            found = self.fetch_committed_offsets(self._subscription.assigned_partitions())
            for partition, offset in found.items():
                self._subscription.committed(partition, offset)
            self._refresh_needed = False

    def _known_coordinator(self) -> Any:
        self.ensure_coordinator_known()
        if self.coordinator is None:
            raise GroupCoordinatorNotAvailable(f"group {self.group_id}: the coordinator was lost a moment ago")
        return self.coordinator

    def _retrying(self, attempt: Callable[[], R]) -> R:
        """Return what `attempt` does, after as many tries as fit into twice the socket timeout."""
        deadline = self._handler.now() + 2 * self._cluster.socket_timeout_ms / 1000
        while True:
            try:
                return attempt()
            except KafkaException as error:
                if not error.retriable or self._cluster.closed or self._handler.now() > deadline:
                    self._heed(error)
                    raise
                self._heed(error)
                log.info("group %s: %s; trying again", self.group_id, error)
            self._pause()

    def _heed(self, error: KafkaException) -> None:
        """Draw the conclusions of an error of a commit or fetch for coordinator and membership."""
        if not isinstance(error, ProtocolClientError) or error.ERROR_CODE in MOVED:
            self.coordinator_dead(error)
        elif self.membership.state is State.STABLE and EVENT_OF_ERROR.get(error.ERROR_CODE) in {
            Event.OUTDATED,
            Event.LOST,
            Event.REBALANCE,
        }:
            self.handle_error(error.ERROR_CODE)
