"""A group's offsets: committed to and fetched from its coordinator, which may move or be slow to make up its mind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pykafka.exceptions import (
    IncompleteResponseError,
    KafkaException,
    OffsetsNotCommitted,
    ProtocolClientError,
    RebalanceInProgress,
    UnstableOffsetCommit,
    error_for,
)
from pykafka.protocol import wire
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

R = TypeVar("R")

CHANNEL = "offsets"
FIND_COORDINATOR = "FindCoordinator"
#: The highest versions whose shape fits one group with topics by name (later ones ask for several groups, by topic id).
COMMIT_CEILING = 8
FETCH_CEILING = 7
#: From which version of OffsetFetch on brokers say that a transaction is about to commit offsets.
STABLE_FROM = 7
#: Pauses before those are asked for again (ms).
UNSTABLE_FIRST_MS = 50
UNSTABLE_MOST_MS = 1000


class Committed(NamedTuple):
    """What a group has committed for a partition; offset -1 where it has not."""

    offset: int
    metadata: str


def may_commit_later(cluster: BaseCluster, error: KafkaException) -> bool:
    """Return whether what could not be committed may well be at another time, by itself.

    :param error: an OffsetsNotCommitted
    """
    cause = error.__cause__
    return isinstance(cause, KafkaException) and (cluster.may_pass(cause) or isinstance(cause, RebalanceInProgress))


class GroupOffsets:
    """The offsets of one group for one topic.

    :param cluster: where the group is
    :param group: its name
    :param topic: the topic's name
    :param backoff_ms: pause between attempts
    :param max_retries: attempts beyond the first
    :param generation_id: of the group membership; -1 for none
    :param member_id: likewise; "" for none
    """

    def __init__(
        self,
        cluster: BaseCluster,
        group: str,
        topic: str,
        backoff_ms: int,
        max_retries: int,
        generation_id: int = -1,
        member_id: str = "",
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._topic = topic
        self._backoff_s = backoff_ms / 1000
        self._max_retries = max_retries
        self.generation_id = generation_id
        self.member_id = member_id
        #: Of a static member; it has a broker tell one that was fenced from one that it does not know.
        self.group_instance_id: str | None = None
        self._coordinator: Broker | None = None

    @property
    def coordinator(self) -> Broker:
        """The group's coordinator, looked for when it is not known."""
        if self._coordinator is None:
            self._coordinator = self._cluster.get_group_coordinator(self._group)
        return self._coordinator

    def discover(self) -> Broker:
        """Look for the group's coordinator anew and return it; errors as of `Cluster.get_group_coordinator`."""
        self._coordinator = None
        return self.coordinator

    def commit(
        self,
        offsets: Mapping[int, int] | Callable[[], Mapping[int, int]],
        metadata: str = "",
        go_on: Callable[[], bool] | None = None,
    ) -> dict[int, int]:
        """Commit offsets, each that of the next message to consume.

        :param offsets: {partition id: offset}, or what gives that, anew for each attempt
        :param metadata: kept with them
        :param go_on: asked before each attempt beyond the first
        :returns: what was committed
        :raises OffsetsNotCommitted: some could not be committed after all retries; `.failures` has them
        """
        current = offsets if callable(offsets) else lambda: offsets
        remaining = dict(current())
        committed: dict[int, int] = {}

        def attempt() -> None:
            remaining.update({id_: offset for id_, offset in current().items() if id_ in remaining})
            if not remaining:
                return
            failures = self._commit_once(remaining, metadata)
            for id_ in [id_ for id_ in remaining if id_ not in failures]:
                committed[id_] = remaining.pop(id_)
            if failures:
                raise _worst(failures)

        try:
            self._retrying(attempt, go_on)
        except KafkaException as error:
            raise OffsetsNotCommitted(
                f"group {self._group}: {error}",
                {(self._topic, id_): offset for id_, offset in remaining.items()},
            ) from error
        return committed

    def fetch(self, partitions: list[int], go_on: Callable[[], bool] | None = None) -> dict[int, Committed]:
        """Return what the group has committed, for each partition.

        Where a transaction is about to commit offsets, its end is waited for, up to twice the socket timeout.

        :param partitions: ids
        :param go_on: asked before each attempt beyond the first
        :raises KafkaException: it could not be found out after all retries
        """
        now = self._cluster.handler.now
        deadline = now() + 2 * self._cluster.socket_timeout_ms / 1000
        pauses = Backoff(UNSTABLE_FIRST_MS, UNSTABLE_MOST_MS, self._cluster.handler.random)
        failures = 0
        while True:
            try:
                return self._retrying(lambda: self._fetch_once(partitions), go_on)
            except UnstableOffsetCommit as error:
                if now() >= deadline or self._cluster.closed or (go_on is not None and not go_on()):
                    raise
                failures += 1
                log.log(
                    logging.INFO if failures > 1 else logging.WARNING,
                    "group %s: %s; waiting for that transaction to end",
                    self._group,
                    error,
                )
            self._cluster.handler.sleep(min(pauses.seconds(failures), max(deadline - now(), 0.0)))

    def _retrying(self, attempt: Callable[[], R], go_on: Callable[[], bool] | None = None) -> R:
        now = self._cluster.handler.now
        waited_enough = now() + self._max_retries * self._backoff_s
        for tries_left in range(self._max_retries, -1, -1):
            try:
                return attempt()
            except UnstableOffsetCommit:  # has its own patience, see `fetch`
                raise
            except KafkaException as error:
                if error.invalid_metadata or not isinstance(error, ProtocolClientError):
                    self._coordinator = None
                if not self._cluster.may_pass(error) or not tries_left or (go_on is not None and not go_on()):
                    raise
                # looking for a coordinator has its own patience, which all retries together would multiply
                if error.api == FIND_COORDINATOR and now() >= waited_enough:
                    raise
                log.info("group %s: %s; trying again", self._group, error)
            self._cluster.handler.sleep(self._backoff_s)
        raise AssertionError("unreachable")

    def _commit_once(self, offsets: Mapping[int, int], metadata: str) -> dict[int, KafkaException]:
        coordinator = self.coordinator
        version = coordinator.api_version(wire.OffsetCommitRequest, ceiling=COMMIT_CEILING)
        if version == 0:  # kept in ZooKeeper by version 0, in Kafka from version 1 on
            raise error_for(35, broker=coordinator.address, api="OffsetCommit")
        partitions = [
            wire.OffsetCommitRequest.Topic.Partition(
                partition_index=id_, committed_offset=offset, committed_metadata=metadata
            )
            for id_, offset in offsets.items()
        ]
        request = wire.OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id if version >= 7 else None,
            topics=[wire.OffsetCommitRequest.Topic(name=self._topic, partitions=partitions)],
        )
        response = coordinator.call(request, CHANNEL, version=version)
        context = {"broker": coordinator.address, "topic": self._topic, "api": "OffsetCommit"}
        # What the answer leaves out is not known to be committed.
        failures: dict[int, KafkaException] = {
            id_: IncompleteResponseError(partition=id_, **context) for id_ in offsets
        }
        for topic in response.topics:
            for part in topic.partitions:
                if topic.name != self._topic:
                    continue
                if part.error_code:
                    failures[part.partition_index] = error_for(
                        part.error_code, partition=part.partition_index, **context
                    )
                else:
                    failures.pop(part.partition_index, None)
        return failures

    def _fetch_once(self, partitions: list[int]) -> dict[int, Committed]:
        coordinator = self.coordinator
        version = coordinator.api_version(wire.OffsetFetchRequest, ceiling=FETCH_CEILING)
        request = wire.OffsetFetchRequest(
            group_id=self._group,
            topics=[wire.OffsetFetchRequest.Topic(name=self._topic, partition_indexes=partitions)],
            # what a transaction is about to commit is waited for (KIP-447)
            require_stable=version >= STABLE_FROM,
        )
        response = coordinator.call(request, CHANNEL, version=max(version, 1))
        context = {"broker": coordinator.address, "topic": self._topic, "api": "OffsetFetch"}
        if response.error_code:
            raise error_for(response.error_code, **context)
        found = {}
        for topic in response.topics:
            for part in topic.partitions:
                # 0.8.2 says of a partition without a commit that it does not know it
                if part.error_code and part.error_code != 3:
                    raise error_for(part.error_code, partition=part.partition_index, **context)
                if topic.name == self._topic:
                    found[part.partition_index] = Committed(part.committed_offset, part.metadata or "")
        for id_ in partitions:
            if id_ not in found:  # which is not to say that nothing is committed
                raise IncompleteResponseError(partition=id_, **context)
        return {id_: found[id_] for id_ in partitions}


def _worst(failures: Mapping[int, KafkaException]) -> KafkaException:
    """Return an error that cannot be retried, where there is one."""
    return min(failures.values(), key=lambda error: error.retriable)
