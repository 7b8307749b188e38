"""Asking the leaders of partitions for offsets by time, through elections and moves."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka.exceptions import (
    IncompleteResponseError,
    KafkaException,
    ProtocolClientError,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
    error_for,
)
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.handlers import Handler
    from pykafka.utils.backoff import Backoff
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)

#: How long the warning about a topic without timestamps is not repeated (s).
WARN_AGAIN_S = 3600.0
#: From this version on the request says which leader is meant (KIP-320).
EPOCHS_FROM = 4

TopicPartition = tuple[str, int]

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
    def generation(self) -> int: ...
    @property
    def retry_backoff(self) -> Backoff: ...
    @property
    def limiter(self) -> LogLimiter: ...
    def leader(self, topic: str, partition: int) -> Broker: ...
    def leader_epoch(self, topic: str, partition: int) -> int: ...
    def find_leaders(self, partitions: Iterable[tuple[str, int]]) -> None: ...
    def refresh(self, seen: int, topics: Iterable[str | bytes] | None = None) -> None: ...
    def may_pass(self, error: KafkaException) -> bool: ...


class FoundOffset(NamedTuple):
    """An answer to a question for an offset by time.

    :param offset: the first one found; -1 where there is none
    :param timestamp: of the message there (ms since 1970); -1 where the broker does not say
    :param offsets: all that the broker named: one, or none; brokers before 0.10.1 may name several
    :param by_segment: whether the broker named starts of log segments written before the time, so that none means that all
        are newer, and not that all are older: it is older than 0.10.1, or the topic is in message format 0.9 or older
    """

    offset: int
    timestamp: int
    offsets: list[int]
    by_segment: bool = False


def list_offsets(
    cluster: Leaders,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    timeout_ms: int,
    isolation_level: int = 0,
) -> dict[TopicPartition, FoundOffset]:
    """Ask for offsets by time; parameters and errors as `Cluster.list_offsets` has them."""
    deadline = cluster.handler.now() + timeout_ms / 1000
    found: dict[TopicPartition, FoundOffset] = {}
    missing = dict(timestamps)
    failures = 0
    while missing:
        seen = cluster.generation
        error = _ask_leaders(cluster, missing, max_offsets, isolation_level, found)
        missing = {key: timestamp for key, timestamp in missing.items() if key not in found}
        if not missing:
            break
        if error is None:
            topic, partition = next(iter(missing))
            error = IncompleteResponseError(topic=topic, partition=partition, api="ListOffsets")
        if not cluster.may_pass(error) or cluster.handler.now() > deadline:
            raise error
        failures += 1
        cluster.handler.sleep(min(cluster.retry_backoff.seconds(failures), max(deadline - cluster.handler.now(), 0.0)))
        cluster.refresh(seen, sorted({topic for topic, _ in missing}))
    return found


def _ask_leaders(
    cluster: Leaders,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    isolation_level: int,
    found: dict[TopicPartition, FoundOffset],
) -> KafkaException | None:
    """Ask each leader once; put the answers into `found` and return the last error."""
    by_leader: dict[Broker, list[TopicPartition]] = defaultdict(list)
    error: KafkaException | None = None
    cluster.find_leaders(timestamps)
    for topic, partition in timestamps:
        try:
            by_leader[cluster.leader(topic, partition)].append((topic, partition))
        except KafkaException as problem:
            error = problem
    for broker, keys in by_leader.items():
        try:
            asked = {key: timestamps[key] for key in keys}
            problem_there = _ask(cluster, broker, asked, max_offsets, isolation_level, found)
        except ProtocolClientError:
            raise
        except KafkaException as problem:
            problem_there = problem
        error = problem_there or error
    return error


def _ask(
    cluster: Leaders,
    broker: Broker,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    isolation_level: int,
    found: dict[TopicPartition, FoundOffset],
) -> KafkaException | None:
    version = broker.api_version(wire.ListOffsetsRequest)
    error, timeless = _ask_by(version, cluster, broker, timestamps, max_offsets, isolation_level, found)
    if not timeless:
        return error
    try:
        oldest = broker.api_version(wire.ListOffsetsRequest, 0)
    except UnsupportedVersion:
        oldest = version
    if oldest == version:
        return next(iter(timeless.values()))
    for topic in sorted({topic for topic, _ in timeless}):
        cluster.limiter.warn(log, topic, WARNING, topic, again_s=WARN_AGAIN_S)
    asked = {key: timestamps[key] for key in timeless}
    again, left = _ask_by(oldest, cluster, broker, asked, max_offsets, isolation_level, found)
    return next(iter(left.values()), None) or again or error


def _ask_by(
    version: int,
    cluster: Leaders,
    broker: Broker,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    isolation_level: int,
    found: dict[TopicPartition, FoundOffset],
) -> tuple[KafkaException | None, dict[TopicPartition, KafkaException]]:
    """Ask one leader; return the last error, and those of partitions whose topics store no timestamps."""
    by_topic: dict[str, list[wire.ListOffsetsRequest.Topic.Partition]] = defaultdict(list)
    for (topic, partition), timestamp in timestamps.items():
        entry = wire.ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=timestamp)
        if version >= EPOCHS_FROM:
            # A former leader that does not know yet that it is none refuses, as does one that has not heard of its election.
            entry.current_leader_epoch = cluster.leader_epoch(topic, partition)
        if version == 0:
            entry.max_num_offsets = max_offsets
        by_topic[topic].append(entry)
    topics = [wire.ListOffsetsRequest.Topic(name=name, partitions=parts) for name, parts in by_topic.items()]
    request = wire.ListOffsetsRequest(replica_id=-1, topics=topics)
    if version >= 2:  # before, there were no transactions
        request.isolation_level = isolation_level
    return _read(broker.call(request, version=version), version, broker.address, found)


def _read(
    response: wire.ListOffsetsResponse, version: int, where: str, found: dict[TopicPartition, FoundOffset]
) -> tuple[KafkaException | None, dict[TopicPartition, KafkaException]]:
    error: KafkaException | None = None
    timeless: dict[TopicPartition, KafkaException] = {}
    for topic_found in response.topics:
        for part in topic_found.partitions:
            key = (topic_found.name, part.partition_index)
            if part.error_code:
                problem = error_for(part.error_code, broker=where, topic=key[0], partition=key[1], api="ListOffsets")
                if isinstance(problem, UnsupportedForMessageFormat):
                    timeless[key] = problem
                else:
                    error = problem
            elif version == 0:
                offsets = list(part.old_style_offsets)
                found[key] = FoundOffset(offsets[0] if offsets else -1, -1, offsets, by_segment=True)
            else:
                found[key] = FoundOffset(part.offset, part.timestamp, [part.offset] if part.offset >= 0 else [])
    return error, timeless
