"""`MemberOffsets`: the offsets of a group, as one of its members commits and fetches them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.compat import messages
from pykafka.exceptions import KafkaException, OffsetsNotCommitted
from pykafka.groups.classic.state import EVENT_OF_ERROR, Event, State
from pykafka.groups.coordinator_connection import MOVED
from pykafka.metadata.group_offsets import (
    CHANNEL,
    COMMIT_CEILING,
    FETCH_CEILING,
    commit_failures,
    commit_request,
    committed_offsets,
    fetch_request,
)
from pykafka.network.authentication import is_answer
from pykafka.network.in_flight import ResponseFuture
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.compat.coordinator.base import BaseCoordinator
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

R = TypeVar("R")

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class MemberOffsets:
    """The offsets of a group, as one of its members commits and fetches them.

    :param member: the member
    """

    def __init__(self, member: BaseCoordinator) -> None:
        self._member = member
        self._connection = member.connection
        self._handler = member.connection.handler
        #: Generation and member id of the present assignment: commits carry these, also if the assignment was lost
        #: meanwhile. None without an assignment.
        self.assigned_as: tuple[int, str] | None = None

    @property
    def _identity(self) -> tuple[int, str]:
        membership = self._member.membership
        return self.assigned_as or (membership.generation_id, membership.member_id)

    def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commit offsets; see `ConsumerCoordinator.commit_offsets_sync`."""
        remaining = dict(offsets)
        started = self._handler.now()
        identity = self._identity

        def attempt() -> None:
            coordinator = self._connection.find(self._left_of(started, timeout_ms))
            left_ms = self._left_of(started, timeout_ms)
            version, request = self._commit_request(coordinator, identity, remaining, left_ms)
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
            text = f"group {self._connection.group_id}: {error}"
            raise OffsetsNotCommitted(
                text, {(one.topic, one.partition): remaining[one] for one in remaining}
            ) from error

    def commit_async(self, offsets: Offsets, callback: Callable[[Offsets, Any], object]) -> ResponseFuture:
        """Commit offsets once, without waiting; as `ConsumerCoordinator.commit_offsets_async`.

        :param callback: called with the offsets, and the OffsetCommitResponse or an exception; must not wait
        """
        future = ResponseFuture(self._handler)
        future.add_done_callback(lambda done: callback(offsets, done.error or done.response))
        try:
            coordinator = self._connection.find()
            version, request = self._commit_request(coordinator, self._identity, offsets)
            pending = coordinator.send(request, CHANNEL, version=version, patient=False)
        except KafkaException as error:
            future.set_error(error)
            return future

        def answered(_: ResponseFuture) -> None:
            try:
                response = pending.get(timeout=0)
                failures = commit_failures(response, coordinator.address, offsets)
                if failures:
                    raise next(iter(failures.values()))
            except KafkaException as error:
                future.set_error(error)
            else:
                future.set_response(messages.OffsetCommitResponse.of(response))

        pending.add_done_callback(answered)
        return future

    def _commit_request(
        self, coordinator: Node, identity: tuple[int, str], offsets: Offsets, timeout_ms: int | None = None
    ) -> tuple[int, wire.OffsetCommitRequest]:
        version = max(coordinator.api_version(wire.OffsetCommitRequest, COMMIT_CEILING, timeout_ms), 1)
        instance_id = self._member.config["group_instance_id"]
        return version, commit_request(self._connection.group_id, version, identity, offsets, instance_id)

    def fetch(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what is committed; see `ConsumerCoordinator.fetch_committed_offsets`."""
        keys = list(partitions)
        if not keys:
            return {}
        started = self._handler.now()

        def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            coordinator = self._connection.find(self._left_of(started, timeout_ms))
            left_ms = self._left_of(started, timeout_ms)
            version = max(coordinator.api_version(wire.OffsetFetchRequest, FETCH_CEILING, left_ms), 1)
            request, left_ms = (
                fetch_request(self._connection.group_id, version, keys),
                self._left_of(started, timeout_ms),
            )
            response = coordinator.call(request, CHANNEL, version=version, timeout_ms=left_ms)
            offsets = committed_offsets(response, coordinator.address, keys, version=version)
            return {partition: one for partition, one in offsets.items() if one.offset >= 0}

        return self._retrying(attempt, timeout_ms)

    def _left_of(self, started: float, timeout_ms: int | None) -> int | None:
        """Return the rest of a time limit (ms) that began then; None for no limit."""
        return None if timeout_ms is None else self._connection.left_ms(started + timeout_ms / 1000)

    def _retrying(
        self, attempt: Callable[[], R], timeout_ms: int | None = None, identity: tuple[int, str] | None = None
    ) -> R:
        """Return the result of `attempt`, after as many tries as fit into the time.

        :param timeout_ms: by default twice the socket timeout
        :param identity: generation and member id that a commit carries
        """
        cluster = self._connection.cluster
        patience_ms = 2 * cluster.socket_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._handler.now() + patience_ms / 1000
        for tries in count(1):
            try:
                return attempt()
            except KafkaException as error:
                gives_up = not error.retriable or cluster.closed or self._handler.now() > deadline
                self._on_error(error, identity)
                if gives_up:
                    raise
                log.info("group %s: %s; trying again", self._connection.group_id, error)
            self._connection.pause(tries, deadline)
        raise AssertionError("unreachable")

    def _on_error(self, error: KafkaException, identity: tuple[int, str] | None) -> None:
        """Change coordinator and membership as an error demands, unless a commit of a former membership has failed."""
        membership = self._member.membership
        if identity is not None and not membership.is_present(*identity):
            return
        if not is_answer(error) or error.ERROR_CODE in MOVED:  # the group may have another coordinator by now
            self._connection.mark_unknown(error)
        elif membership.state is State.STABLE and EVENT_OF_ERROR.get(error.ERROR_CODE) in {
            Event.OUTDATED,
            Event.LOST,
            Event.REBALANCE,
        }:
            self._member.handle_error(error.ERROR_CODE)
