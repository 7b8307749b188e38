"""Asking the leaders of partitions for offsets by time, through elections and moves."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka.exceptions import (
    IncompleteResponseError,
    KafkaException,
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
    def known_leader(self, topic: str, partition: int) -> Broker: ...
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


class Search(NamedTuple):
    """The outcome of a search for offsets, partition by partition: each is in one of the two."""

    found: dict[TopicPartition, FoundOffset]
    errors: dict[TopicPartition, KafkaException]


def list_offsets(
    cluster: Leaders,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    timeout_ms: int,
    isolation_level: int = 0,
) -> dict[TopicPartition, FoundOffset]:
    """Ask for offsets by time; parameters and errors as `Cluster.list_offsets` has them."""
    found, errors = search_offsets(cluster, timestamps, max_offsets, timeout_ms, isolation_level, whole=True)
    for error in errors.values():
        raise error
    return found


def search_offsets(
    cluster: Leaders,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    timeout_ms: int,
    isolation_level: int = 0,
    whole: bool = False,
) -> Search:
    """Ask for offsets by time; a partition whose leader gives none does not cost the others theirs.

    Parameters as of `Cluster.list_offsets`.

    :param timeout_ms: how long to repeat errors that may pass; 0 asks each leader once
    :param whole: end the search with the first error that does not pass by itself
    """
    deadline = cluster.handler.now() + timeout_ms / 1000
    found: dict[TopicPartition, FoundOffset] = {}
    final: dict[TopicPartition, KafkaException] = {}
    missing = dict(timestamps)
    seen, failures = cluster.generation, 0
    while True:
        try:
            if failures:
                cluster.refresh(seen, sorted({topic for topic, _ in missing}))
            seen = cluster.generation
            cluster.find_leaders(missing)
        except KafkaException as error:  # each broker was asked for metadata, for as long as that may take
            return Search(found, final | dict.fromkeys(missing, error))
        errors = _ask_leaders(cluster, missing, max_offsets, isolation_level, found)
        final |= {key: error for key, error in errors.items() if not cluster.may_pass(error)}
        passing = {key: error for key, error in errors.items() if key not in final}
        left = deadline - cluster.handler.now()
        if not passing or left <= 0 or (whole and final):
            return Search(found, final | passing)
        missing = {key: timestamps[key] for key in passing}
        failures += 1
        cluster.handler.sleep(min(cluster.retry_backoff.seconds(failures), left))


def _ask_leaders(
    cluster: Leaders,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    isolation_level: int,
    found: dict[TopicPartition, FoundOffset],
) -> dict[TopicPartition, KafkaException]:
    """Ask each leader once; put the answers into `found` and return the errors of the other partitions."""
    by_leader: dict[Broker, dict[TopicPartition, int]] = defaultdict(dict)
    errors: dict[TopicPartition, KafkaException] = {}
    for key, timestamp in timestamps.items():
        try:
            by_leader[cluster.known_leader(*key)][key] = timestamp
        except KafkaException as error:
            errors[key] = error
    for broker, asked in by_leader.items():
        try:
            errors |= _ask(cluster, broker, asked, max_offsets, isolation_level, found)
        except KafkaException as error:
            errors |= dict.fromkeys(asked, error)
    return errors


def _ask(
    cluster: Leaders,
    broker: Broker,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    isolation_level: int,
    found: dict[TopicPartition, FoundOffset],
) -> dict[TopicPartition, KafkaException]:
    """Ask one leader, again by the oldest version for topics that store no timestamps; return the errors."""
    version = broker.api_version(wire.ListOffsetsRequest)
    errors = _ask_by(version, cluster, broker, timestamps, max_offsets, isolation_level, found)
    timeless = {key: timestamps[key] for key, error in errors.items() if isinstance(error, UnsupportedForMessageFormat)}
    if not timeless:
        return errors
    try:
        oldest = broker.api_version(wire.ListOffsetsRequest, 0)
    except UnsupportedVersion:
        return errors
    if oldest == version:
        return errors
    for topic in sorted({topic for topic, _ in timeless}):
        cluster.limiter.warn(log, topic, WARNING, topic, again_s=WARN_AGAIN_S)
    left = {key: error for key, error in errors.items() if key not in timeless}
    return left | _ask_by(oldest, cluster, broker, timeless, max_offsets, isolation_level, found)


def _ask_by(
    version: int,
    cluster: Leaders,
    broker: Broker,
    timestamps: Mapping[TopicPartition, int],
    max_offsets: int,
    isolation_level: int,
    found: dict[TopicPartition, FoundOffset],
) -> dict[TopicPartition, KafkaException]:
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
    response = broker.call(request, version=version)
    errors: dict[TopicPartition, KafkaException] = {}
    for topic_found in response.topics:
        for part in topic_found.partitions:
            key = (topic_found.name, part.partition_index)
            if part.error_code:
                errors[key] = error_for(
                    part.error_code, broker=broker.address, topic=key[0], partition=key[1], api="ListOffsets"
                )
            elif version == 0:
                offsets = list(part.old_style_offsets)
                found[key] = FoundOffset(offsets[0] if offsets else -1, -1, offsets, by_segment=True)
            else:
                found[key] = FoundOffset(part.offset, part.timestamp, [part.offset] if part.offset >= 0 else [])
    return {
        key: errors.get(key)
        or IncompleteResponseError(broker=broker.address, topic=key[0], partition=key[1], api="ListOffsets")
        for key in timestamps
        if key not in found
    }
