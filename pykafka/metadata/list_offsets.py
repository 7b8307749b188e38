"""Asking the leaders of partitions for offsets by time, through elections and moves."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
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

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import Worker
    from pykafka.network.node import Node
    from pykafka.utils.backoff import Backoff
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)

#: How many leaders are asked at a time, besides the one that the caller asks.
MOST_WORKERS = 16
#: A request has at least so long (ms), also where the time is up: enough for one quick answer.
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
    """An answer to a question for an offset by time.

    :param offset: the first one found; -1 if there is none
    :param timestamp: of the message there (ms since 1970); -1 where the broker does not say
    :param offsets: all that the broker named: one, or none; brokers before 0.10.1 may name several
    :param by_segment: whether the broker named starts of log segments written before the time, so that none means that all
        are newer, and not that all are older: it is older than 0.10.1, or the topic is in message format 0.9 or older
    """

    offset: int
    timestamp: int
    offsets: list[int]
    by_segment: bool = False


class Question(NamedTuple):
    """A question to the leaders of partitions.

    :param timestamps: {(topic, partition): milliseconds since 1970, -1 for the end or -2 for the start}
    :param max_offsets: brokers before 0.10.1 may give as many
    :param isolation_level: 1 takes the first transaction that is still open for the end
    """

    timestamps: Mapping[TopicPartition, int]
    max_offsets: int = 1
    isolation_level: int = 0


#: The answers of leaders, and an error for each partition without an answer.
Answers = tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaException]]


def list_offsets(cluster: Leaders, question: Question, timeout_ms: int) -> dict[TopicPartition, FoundOffset]:
    """Ask for offsets by time; parameters and errors as `Cluster.list_offsets` has them."""
    found, errors = list_each(cluster, question, timeout_ms, patient=True)
    if errors:
        raise next(iter(errors.values()))
    return found


def list_each(
    cluster: Leaders, question: Question, timeout_ms: int, patient: bool = False, once: bool = False
) -> Answers:
    """Ask for offsets by time; return the answers, and an error for each partition without one.

    Several leaders are asked at a time, so a silent one holds up no other.

    :param timeout_ms: how long all of it may take; None of its requests takes longer than the socket timeout
    :param patient: whether to wait for leaders that are to be elected, and to stop at an error that does not pass by itself
    :param once: return instead of asking a leader again
    """
    now = cluster.handler.now
    deadline = now() + timeout_ms / 1000
    found: dict[TopicPartition, FoundOffset] = {}
    given_up: dict[TopicPartition, KafkaException] = {}
    missing = dict(question.timestamps)
    failures = 0
    while missing:
        seen = cluster.generation
        errors = _ask_leaders(cluster, question._replace(timestamps=missing), deadline, patient, found)
        for key in list(missing):
            if key not in found:
                error = errors.get(key) or IncompleteResponseError(topic=key[0], partition=key[1], api="ListOffsets")
                if not once and _may_pass(cluster, error, patient) and now() < deadline:
                    continue
                given_up[key] = error
            del missing[key]
        if patient and given_up:
            break
        if not missing:
            break
        failures += 1
        cluster.handler.sleep(min(cluster.retry_backoff.seconds(failures), max(deadline - now(), 0.0)))
        try:
            topics = sorted({topic for topic, _ in missing})
            cluster.refresh(seen, topics, None if patient else _left_ms(cluster, deadline))
        except KafkaException as error:
            if patient:
                raise
            given_up |= dict.fromkeys(missing, error)
            break
    return found, given_up


def _may_pass(cluster: Leaders, error: KafkaException, patient: bool) -> bool:
    return cluster.may_pass(error) and (
        patient or not isinstance(error, (LeaderNotFoundError, UnknownTopicOrPartition))
    )


def _left_ms(cluster: Leaders, deadline: float, broker: Node | None = None) -> int:
    """Return the time left (ms), for a question to a broker at most the socket timeout."""
    left = max(LEAST_MS, round((deadline - cluster.handler.now()) * 1000))
    return left if broker is None else min(left, broker.socket_timeout_ms)


def _ask_leaders(
    cluster: Leaders, question: Question, deadline: float, patient: bool, found: dict[TopicPartition, FoundOffset]
) -> dict[TopicPartition, KafkaException]:
    """Ask each leader once; put the answers into `found` and return the errors."""
    by_leader: dict[Node, list[TopicPartition]] = defaultdict(list)
    errors: dict[TopicPartition, KafkaException] = {}
    try:
        cluster.find_leaders(question.timestamps, None if patient else _left_ms(cluster, deadline))
    except KafkaException:
        if patient:
            raise  # else those that are known are asked
    for key in question.timestamps:
        try:
            by_leader[cluster.known_leader(*key)].append(key)
        except KafkaException as problem:
            errors[key] = problem
    waiting = deque(by_leader.items())

    def ask_next() -> None:
        while waiting:
            try:
                broker, keys = waiting.popleft()
            except IndexError:  # another worker has taken it
                return
            asked = question._replace(timestamps={key: question.timestamps[key] for key in keys})
            try:
                errors.update(_ask(cluster, broker, asked, None if patient else deadline, found))
            except KafkaException as problem:
                errors.update(dict.fromkeys(keys, problem))

    try:
        workers = _spawned(cluster.handler, ask_next, len(by_leader) - 1) if len(by_leader) > 1 else []
        ask_next()
    except BaseException:  # an interrupt: the workers begin no other question
        waiting.clear()
        raise
    for worker in workers:
        worker.join()  # each of its requests has a limit
    return errors


def _spawned(handler: Handler, target: Callable[[], object], count: int) -> list[Worker]:
    """Start up to `MOST_WORKERS` workers; none where the system starts none at present: the caller does all then."""
    workers: list[Worker] = []
    try:
        for _ in range(min(count, MOST_WORKERS)):
            workers.append(handler.spawn(target, name="pykafka.ListOffsets"))
    except RuntimeError as error:
        log.info("leaders are asked one after another: %s", error)
    return workers


def _ask(
    cluster: Leaders,
    broker: Node,
    question: Question,
    deadline: float | None,
    found: dict[TopicPartition, FoundOffset],
) -> dict[TopicPartition, KafkaException]:
    """Ask one leader, again by the oldest version for topics that store no timestamps; return the errors of partitions.

    :param deadline: for connecting, and for the answer (s); None for the socket timeout each
    """
    if deadline is not None:
        broker.connect_within(_left_ms(cluster, deadline, broker))
    version = broker.api_version(wire.ListOffsetsRequest)
    errors = _ask_by(version, cluster, broker, question, deadline, found)
    if not errors:
        return errors
    timeless = {
        key: question.timestamps[key] for key, error in errors.items() if isinstance(error, UnsupportedForMessageFormat)
    }
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
    return left | _ask_by(oldest, cluster, broker, question._replace(timestamps=timeless), deadline, found)


def _ask_by(
    version: int,
    cluster: Leaders,
    broker: Node,
    question: Question,
    deadline: float | None,
    found: dict[TopicPartition, FoundOffset],
) -> dict[TopicPartition, KafkaException]:
    """Ask one leader by a version of the request; put the answers into `found` and return the errors of partitions."""
    by_topic: dict[str, list[wire.ListOffsetsRequest.Topic.Partition]] = defaultdict(list)
    for (topic, partition), timestamp in question.timestamps.items():
        entry = wire.ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=timestamp)
        if version >= EPOCHS_FROM:
            # A former leader that does not know yet that it is none refuses, as does one that has not heard of its election.
            entry.current_leader_epoch = cluster.leader_epoch(topic, partition)
        if version == 0:
            entry.max_num_offsets = question.max_offsets
        by_topic[topic].append(entry)
    topics = [wire.ListOffsetsRequest.Topic(name=name, partitions=parts) for name, parts in by_topic.items()]
    request = wire.ListOffsetsRequest(replica_id=-1, topics=topics)
    if version >= 2:  # before, there were no transactions
        request.isolation_level = question.isolation_level
    left_ms = None if deadline is None else _left_ms(cluster, deadline, broker)
    response = broker.call(request, version=version, timeout_ms=left_ms)
    errors: dict[TopicPartition, KafkaException] = {}
    for topic_found in response.topics:
        for part in topic_found.partitions:
            key = TopicPartition(topic_found.name, part.partition_index)
            if part.error_code:
                errors[key] = error_for(
                    part.error_code, broker=broker.address, topic=key[0], partition=key[1], api="ListOffsets"
                )
            elif version == 0:
                offsets = list(part.old_style_offsets)
                found[key] = FoundOffset(offsets[0] if offsets else -1, -1, offsets, by_segment=True)
            else:
                found[key] = FoundOffset(part.offset, part.timestamp, [part.offset] if part.offset >= 0 else [])
    return errors
