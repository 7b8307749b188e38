"""Asking the leaders of partitions for offsets by time, through elections and moves."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    IncompleteResponseError,
    KafkaException,
    LeaderNotFoundError,
    UnknownTopicOrPartition,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
    error_for,
)
from pykafka.protocol import wire
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import Worker
    from pykafka.network.node import Node
    from pykafka.utils.backoff import Backoff
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)

#: A request has at least so long (ms), also when the time is up: enough for one quick answer.
LEAST_MS = 50
#: How long the warning about a topic without timestamps is not repeated (s).
WARN_AGAIN_S = 3600.0
#: From this version on the request says which leader is meant (KIP-320).
EPOCHS_FROM = 4

WARNING = (
    "the log of topic %s is in message format 0.9 or older (message.format.version), which has no timestamps: a time leads to "
    "the start of a log segment that was written before, not to a message; raise message.format.version of the topic to avoid "
    "that"
)


class Leaders(Protocol):
    """The cluster whose leaders are asked; `BaseCluster` says what each member does."""

    @property
    def handler(self) -> Handler: ...
    @property
    def socket_timeout_ms(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def retry_backoff(self) -> Backoff: ...
    @property
    def limiter(self) -> LogLimiter: ...
    def known_leader(self, topic: str, partition: int) -> Node: ...
    def leader_epoch(self, topic: str, partition: int) -> int: ...
    def find_leaders(self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None) -> None: ...
    def refresh(
        self, seen: int, topics: Iterable[str | bytes] | None = None, timeout_ms: int | None = None
    ) -> None: ...
    def may_pass(self, error: KafkaException) -> bool: ...


class FoundOffset(NamedTuple):
    """The answer of a leader that was asked for an offset by time.

    :param offset: the first one; -1 if there is none
    :param timestamp: of the message there (ms since 1970); -1 if the broker does not name it
    :param offsets: all that the broker named: one, or none; brokers before 0.10.1 may name several
    :param by_segment: whether the broker named starts of log segments written before the time, so that none means that all
        are newer, and not that all are older: it is older than 0.10.1, or the topic is in message format 0.9 or older
    """

    offset: int
    timestamp: int
    offsets: list[int]
    by_segment: bool = False


class OffsetQuery(NamedTuple):
    """The offsets that leaders are asked for.

    :param timestamps: {(topic, partition): milliseconds since 1970, -1 for the end or -2 for the start}
    :param max_offsets: brokers before 0.10.1 may give as many
    :param isolation_level: 1 takes the first transaction that is still open for the end
    """

    timestamps: Mapping[TopicPartition, int]
    max_offsets: int = 1
    isolation_level: int = 0


#: The answers of leaders, and an error for each partition without an answer.
Answers = tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaException]]


def list_offsets(cluster: Leaders, query: OffsetQuery, timeout_ms: int | None) -> dict[TopicPartition, FoundOffset]:
    """Ask for offsets by time; parameters and errors as `Cluster.list_offsets` has them."""
    search = _Search(cluster, query, timeout_ms or cluster.socket_timeout_ms, patient=True, limited=bool(timeout_ms))
    offsets, errors = search.run(once=False)
    if errors:
        raise next(iter(errors.values()))
    return offsets


def list_each(
    cluster: Leaders, query: OffsetQuery, timeout_ms: int, patient: bool = False, once: bool = False
) -> Answers:
    """Ask for offsets by time; return the answers, and an error for each partition without one.

    It asks several leaders at a time, so a silent one holds up no other.

    :param timeout_ms: how long all of it may take; no request takes longer than the socket timeout
    :param patient: whether to wait for leaders that are to be elected, and to stop at an error that is not retriable
    :param once: return instead of asking a leader again
    """
    return _Search(cluster, query, timeout_ms, patient).run(once)


class _Search:
    """One call of `list_each`, which has the other parameters.

    :param limited: whether also a patient call, requests included, ends by its time
    """

    def __init__(
        self, cluster: Leaders, query: OffsetQuery, timeout_ms: int, patient: bool, limited: bool = False
    ) -> None:
        self._cluster = cluster
        self._query = query
        self._patient = patient
        self._limited = limited or not patient
        self._deadline = cluster.handler.now() + timeout_ms / 1000
        self._offsets: dict[TopicPartition, FoundOffset] = {}

    def run(self, once: bool) -> Answers:
        cluster, now = self._cluster, self._cluster.handler.now
        failed: dict[TopicPartition, KafkaException] = {}
        missing = dict(self._query.timestamps)
        attempts = 0
        while missing:
            seen = cluster.generation
            errors = self._ask_leaders(missing)
            for key in list(missing):
                if key not in self._offsets:
                    error = errors.get(key) or IncompleteResponseError(
                        topic=key[0], partition=key[1], api="ListOffsets"
                    )
                    if not once and self._may_pass(error) and now() < self._deadline:
                        continue
                    failed[key] = error
                del missing[key]
            if self._patient and failed:
                break
            if not missing:
                break
            attempts += 1
            cluster.handler.sleep(min(cluster.retry_backoff.seconds(attempts), max(self._deadline - now(), 0.0)))
            try:
                cluster.refresh(seen, sorted({topic for topic, _ in missing}), self._left_ms())
            except KafkaException as error:
                if self._patient:
                    raise
                failed |= dict.fromkeys(missing, error)
                break
        return self._offsets, failed

    def _may_pass(self, error: KafkaException) -> bool:
        return self._cluster.may_pass(error) and (
            self._patient or not isinstance(error, (LeaderNotFoundError, UnknownTopicOrPartition))
        )

    def _left_ms(self) -> int | None:
        """Return the rest of the time (ms); None for a caller without a limit: each request has the socket timeout."""
        return None if not self._limited else left_ms(self._deadline, self._cluster.handler.now(), LEAST_MS)

    def _ask_leaders(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, KafkaException]:
        """Ask each leader once, keep the offsets, and return the errors."""
        cluster = self._cluster
        by_leader: dict[Node, dict[TopicPartition, int]] = defaultdict(dict)
        errors: dict[TopicPartition, KafkaException] = {}
        try:
            cluster.find_leaders(timestamps, self._left_ms())
        except KafkaException:
            if self._patient:
                raise  # else the known leaders are asked
        for key, timestamp in timestamps.items():
            try:
                by_leader[cluster.known_leader(*key)][key] = timestamp
            except KafkaException as error:
                errors[key] = error
        waiting = deque(by_leader.items())

        def ask_next() -> None:
            while waiting:
                try:
                    broker, asked = waiting.popleft()
                except IndexError:  # another worker has taken it
                    return
                try:
                    errors.update(self._ask(broker, asked))
                except KafkaException as error:
                    errors.update(dict.fromkeys(asked, error))

        try:
            workers: list[Worker] = []
            if len(by_leader) > 1:
                from pykafka.metadata.reaching import spawned  # often one leader has all

                workers = spawned(cluster.handler, ask_next, len(by_leader) - 1, "pykafka.ListOffsets")
            ask_next()
        except BaseException:  # an interrupt: the workers begin no other request
            waiting.clear()
            raise
        for worker in workers:
            worker.join()  # each of its requests has a limit
        return errors

    def _ask(self, broker: Node, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, KafkaException]:
        """Ask one leader, and by the oldest version for topics without timestamps; return the errors of partitions."""
        timeout_ms = self._left_ms()
        if timeout_ms is not None:
            broker.connect_within(min(timeout_ms, broker.socket_timeout_ms))
        version = broker.api_version(wire.ListOffsetsRequest, timeout_ms=self._left_ms())
        errors = self._ask_by(version, broker, timestamps)
        if not errors:
            return errors
        timeless = {
            key: timestamps[key] for key, error in errors.items() if isinstance(error, UnsupportedForMessageFormat)
        }
        if not timeless:
            return errors
        try:
            oldest = broker.api_version(wire.ListOffsetsRequest, 0, self._left_ms())
        except UnsupportedVersion:
            return errors
        if oldest == version:
            return errors
        for topic in sorted({topic for topic, _ in timeless}):
            self._cluster.limiter.warn(log, topic, WARNING, topic, again_s=WARN_AGAIN_S)
        left = {key: error for key, error in errors.items() if key not in timeless}
        return left | self._ask_by(oldest, broker, timeless)

    def _ask_by(
        self, version: int, broker: Node, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaException]:
        """Ask one leader by a version of the request, keep the offsets, and return the errors of partitions."""
        topics: dict[str, wire.ListOffsetsRequest.Topic] = {}
        for (topic, partition), timestamp in timestamps.items():
            entry = wire.ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=timestamp)
            if version >= EPOCHS_FROM:
                # A former leader that does not know of the election refuses, as does a new one that does not know of it yet.
                entry.current_leader_epoch = self._cluster.leader_epoch(topic, partition)
            if version == 0:
                entry.max_num_offsets = self._query.max_offsets
            if topic not in topics:
                topics[topic] = wire.ListOffsetsRequest.Topic(name=topic, partitions=[])
            topics[topic].partitions.append(entry)
        request = wire.ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
        if version >= 2:  # before, there were no transactions
            request.isolation_level = self._query.isolation_level
        left_ms = self._left_ms()
        timeout_ms = None if left_ms is None else min(left_ms, broker.socket_timeout_ms)
        response = broker.call(request, version=version, timeout_ms=timeout_ms, strict=left_ms is not None)
        errors: dict[TopicPartition, KafkaException] = {}
        for answer in response.topics:
            for part in answer.partitions:
                key = TopicPartition(answer.name, part.partition_index)
                if part.error_code:
                    errors[key] = error_for(
                        part.error_code, broker=broker.address, topic=key[0], partition=key[1], api="ListOffsets"
                    )
                elif version == 0:
                    offsets = list(part.old_style_offsets)
                    self._offsets[key] = FoundOffset(offsets[0] if offsets else -1, -1, offsets, by_segment=True)
                else:
                    self._offsets[key] = FoundOffset(
                        part.offset, part.timestamp, [part.offset] if part.offset >= 0 else []
                    )
        return errors
