"""`BatchSender`: sends the record batches of a task by the producer's engine, without a worker of its own."""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from typing import TYPE_CHECKING

from pykafka.common import CompressionType, TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.metadata.configs import TOPIC, read_settings
from pykafka.metrics.listener import PRODUCER
from pykafka.producer.accumulator import PartitionQueue, take_next
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.batch_results import BatchResults
from pykafka.producer.leader_requests import LeaderRequests
from pykafka.producer.message_formats import MessageFormats
from pykafka.producer.options import ProducerOptions
from pykafka.producer.produce_request import compress_ahead, divide
from pykafka.producer.producer_id import ProducerIds
from pykafka.producer.retry_policy import RetryPolicy
from pykafka.producer.topic_ids import TopicIds
from pykafka.protocol import wire
from pykafka.spark.data_loss import log, warn
from pykafka.spark.errors import SinkError
from pykafka.spark.options import ClientOptions
from pykafka.utils.option_table import INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Container

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node
    from pykafka.producer.core import Transaction
    from pykafka.producer.produce_request import Request
    from pykafka.protocol.records import RecordBatchBuilder
    from pykafka.spark.options import WriteOptions


#: First and longest pause before a batch is sent again (ms).
RETRY_BACKOFF_MS = 100
RETRY_BACKOFF_MAX_MS = 1000
#: The shortest interval between look-ups of leaders, and the interval of checks for batches that are due (s).
LEADER_POLL_INTERVAL_S = 0.1
POLL_INTERVAL_S = 0.025
#: Bytes that may wait for acknowledgements before more rows are taken.
MAX_QUEUED_BYTES = 16 * 1024 * 1024
#: How long a task that fails waits for the answers still to come, to report what is written (s).
LAST_ANSWERS_S = 2.0

_SETTING = "max.message.bytes"
#: The timeout of the request for a setting (ms); without an answer the batch is halved.
_SETTING_TIMEOUT_MS = 5000
#: The share of the limit that compressed batches are cut to, as no two of them are compressed alike.
_COMPRESSED_SHARE = 0.9
# Bytes of a batch before compression, by cluster and topic; entries are replaced whole, so they need no lock.
_learnt: dict[tuple[ClientOptions, str], int] = {}
# The sequences that the last task of this process left, if all its batches were acknowledged.
_kept: dict[tuple[int, ClientOptions], Sequences] = {}


def producer_options(options: WriteOptions) -> ProducerOptions:
    """Return the settings of a producer that writes as these options say."""
    return ProducerOptions(
        compression=CompressionType[options.compression.upper()],
        compression_level=options.compression_level,
        max_retries=sys.maxsize,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        retry_backoff_max_ms=RETRY_BACKOFF_MAX_MS,
        required_acks=-1,
        ack_timeout_ms=min(options.client.timeout_ms, INT32_MAX),
        max_queued_bytes=MAX_QUEUED_BYTES,
        max_request_size=options.max_request_bytes,
        delivery_timeout_ms=options.delivery_timeout_ms,
    )


class BatchSender:
    """Send the record batches of one task, whose worker takes every step itself.

    Each task is an idempotent producer (KIP-98): a batch that is sent again because its answer was lost is stored once,
    and at its place. It has a `LeaderRequests` for each leader, whose `RequestOwner` it is.

    :param cluster: to write to
    :param options: of the write
    :param transaction: that the batches are part of; None for none
    """

    #: Headers are those of rows.
    trace_headers: Container[str] = ()

    def __init__(self, cluster: BaseCluster, options: WriteOptions, transaction: Transaction | None = None) -> None:
        self.cluster = cluster
        self.handler = cluster.handler
        self.options = producer_options(options)
        self.lock = self.handler.Lock()
        self.retry_policy = RetryPolicy(self.handler, self.options)
        self.topic_ids = TopicIds(cluster)
        self.transaction = transaction
        self._client = options.client
        self.listener = (
            None if cluster.listener is None else cluster.listener.part(PRODUCER, (cluster.client_id, "spark"))
        )
        self._results = BatchResults(self.handler, self.lock, self.retry_policy, self, listener=self.listener)
        # The numbers of a transaction are of its epoch: nothing continues from task to task.
        kept = transaction is None
        self._sequences = take(cluster, options.client) if kept else Sequences(cluster, True)
        self.producer_ids = self._sequences.producer_ids
        self.message_formats = self._sequences.message_formats
        self._backlog = BrokerQueue(self.handler.Event(), sys.maxsize, MAX_QUEUED_BYTES, 0)
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._leaders: dict[Node, LeaderRequests] = {}
        self._requests: deque[tuple[LeaderRequests, Request]] = deque()
        self._stale = False
        self._look_up_at = 0.0
        # The failure to raise; how many rows may be written, and how many are not.
        self._failure: tuple[ProducerBatch, KafkaException, bool] | None = None
        self._outcome_unknown = self._lost = 0
        self._ending = False
        #: Rows acknowledged so far, by topic.
        self.acknowledged: Counter[str] = Counter()

    # -- for the task ------------------------------------------------------------------------------------------------

    def submit(self, topic: str, partition: int, builder: RecordBatchBuilder) -> None:
        """Queue a batch; wait while too much is queued.

        :raises SinkError: a batch could not be delivered
        """
        tp = TopicPartition(topic, partition)
        queue = self._queues.get(tp)
        if queue is None:
            queue = self._queues[tp] = self._sequences.queue(tp)
            if self.transaction is not None:
                queue.window = self.transaction.make_window()
        batch = ProducerBatch(topic, partition, self._backlog, self.handler.now(), None, builder=builder)
        queue.closed_batches.append(self._booked(batch))
        self._send_ready()
        while self._backlog.full:
            self._advance()

    def finish(self) -> None:
        """Wait until all that was submitted is acknowledged.

        :raises SinkError: a batch could not be delivered
        """
        while self._backlog.messages:
            self._advance()
        for queue in self._queues.values():
            queue.sender = None  # of this task
        self._leaders.clear()  # which refer to this one: neither would be freed before the next garbage collection
        if self.transaction is None:
            keep(self._client, self._sequences)

    def describe_outcome(self) -> str:
        """Take the answers that come within a moment; return a sentence about the rows that are and are not written."""
        self._ending = True
        until = self.handler.now() + LAST_ANSWERS_S
        while self._requests and self.handler.now() < until:
            if not self._take_answers():
                self.handler.sleep(POLL_INTERVAL_S / 2)
        batches_in_flight = [in_flight for queue in self._queues.values() for in_flight in queue.window.batches]
        unknown = self._outcome_unknown + sum(
            in_flight.count for in_flight in batches_in_flight if in_flight.may_be_written
        )
        waiting = self._lost + self._backlog.messages - (unknown - self._outcome_unknown)
        written = ", ".join(f"{rows} to {topic}" for topic, rows in sorted(self.acknowledged.items())) or "0"
        if self.transaction is not None:
            return "None of this task's rows is committed: their transaction is aborted"
        return (
            f"Of this task's rows {written} are written, {unknown} may be and {waiting} waited; when Spark tries the "
            "task again, it writes all of them"
        )

    def _booked(self, batch: ProducerBatch) -> ProducerBatch:
        compress_ahead(batch, self.options.compression, self.handler, self.options.compression_level)
        batch.queued_bytes = batch.builder.size
        self._backlog.messages += batch.count
        self._backlog.bytes += batch.queued_bytes
        return batch

    # -- sending -----------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Take an answer; if none is expected, wait until a batch is due to be sent again."""
        self._send_ready()
        if self._requests:
            self._take_answer()
            self._raise_failure()
        elif self._backlog.messages:
            self.handler.sleep(POLL_INTERVAL_S)

    def _send_ready(self) -> None:
        """Send all batches that may go now, and take the answers that have arrived.

        :raises SinkError: a batch could not be delivered
        """
        self._take_answers()
        while ready := self._take_ready():
            for leader, batches in ready.items():
                for some in divide(batches, self.options.max_request_size):
                    leader.send(some)
                if not leader.numbered:
                    self._sequences.warn_unnumbered()
        self._raise_failure()

    def _take_ready(self) -> dict[LeaderRequests, list[ProducerBatch]]:
        """Return the next batch of each partition that may go now, by leader."""
        now = self.handler.now()
        if self._stale and now >= self._look_up_at:
            self._look_up(now)
        ready: dict[LeaderRequests, list[ProducerBatch]] = {}
        for tp, queue in self._queues.items():
            if not queue.waiting:
                continue
            leader = self._leader_of(tp, queue, now)
            if leader is None or leader.full or leader.must_wait(queue):
                continue
            batch = self._take(leader, queue, now)
            if batch is not None:
                ready.setdefault(leader, []).append(batch)
        return ready

    def _take(self, leader: LeaderRequests, queue: PartitionQueue, now: float) -> ProducerBatch | None:
        due = leader.due(queue, now)
        throttled_for = leader.broker.throttled_for("produce")
        if due is not None and throttled_for:
            due = leader.due_unheard(queue, max(due, now + throttled_for))
        if due is None or due > now:
            return None
        with self.lock:
            batch = take_next(queue, leader)
            if batch is not None and throttled_for:
                leader.hold(batch, throttled_for)
        if batch is not None and throttled_for:
            leader.results.check_age(batch)
            return None
        return batch

    def _leader_of(self, tp: TopicPartition, queue: PartitionQueue, now: float) -> LeaderRequests | None:
        """Return the requests to the leader of a partition; None while there is none, or no batch may go."""
        in_flight = queue.window.peek_retry()
        if in_flight is None and not queue.window.may_begin():
            return None
        if in_flight is not None and in_flight.batch.retry_at > now:
            return None
        try:
            broker = self.cluster.leader(*tp)
        except KafkaException as error:
            self._wait_for_leader(queue, error)
            return None
        leader = self._leaders.get(broker)
        if leader is None:
            leader = self._leaders[broker] = LeaderRequests(self, broker, self)
        return leader

    def _wait_for_leader(self, queue: PartitionQueue, error: KafkaException) -> None:
        if queue.window.on_wire:
            return  # its answer comes first
        with self.lock:
            batch = take_next(queue, None)
        if batch is not None:
            self._stale = True
            self._results.unsent([batch], error)

    def _look_up(self, now: float) -> None:
        self._stale, self._look_up_at = False, now + LEADER_POLL_INTERVAL_S
        try:
            self.cluster.update(sorted({tp.topic for tp in self._queues}))
        except KafkaException as error:
            # The batches are sent again until their time is over; their error then has the cause.
            log.info("the leaders could not be looked up: %s", error.again())

    # -- answers -----------------------------------------------------------------------------------------------------

    def _take_answers(self) -> bool:
        """Take the answers that have arrived, in order; return whether there was one."""
        before = len(self._requests)
        while self._requests and _pending(self._requests[0][1]).done:
            self._take_answer()
        return len(self._requests) < before

    def _take_answer(self) -> None:
        leader, request = self._requests.popleft()
        self.on_response(leader, request)

    def _raise_failure(self) -> None:
        if self._failure is None:
            return
        batch, error, given_up = self._failure
        when = f" within {self.options.delivery_timeout_ms} ms (kafka.delivery.timeout.ms)" if given_up else ""
        raise SinkError(
            f"{batch.count} rows were not acknowledged{when}: {error}. {self.describe_outcome()}",
            topic=batch.topic,
            partition=batch.partition_id,
        ) from error

    # -- as `RequestOwner` -------------------------------------------------------------------------------------------

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        """Return the queue that a batch is from."""
        return self._queues[TopicPartition(batch.topic, batch.partition_id)]

    def leaders_moved(self) -> None:
        """Schedule a look-up of the leaders in the next step."""
        self._stale = True

    def leader_named(self) -> None:
        """Do nothing: each batch goes to the leader that the cluster knows then."""

    def sent(self, leader: LeaderRequests, request: Request) -> None:
        """Queue a request, whose answer is taken in its turn."""
        self._requests.append((leader, request))

    def on_response(self, leader: LeaderRequests, request: Request) -> None:
        """Complete the batches of a request; waits for its answer."""
        leader.awaiting.pop(request, None)
        leader.read(request, timeout=None)

    def delivered(self, batch: ProducerBatch) -> None:
        """Count the rows of a batch that was acknowledged."""
        batch.done = True
        self._backlog.release(batch.count, batch.queued_bytes)
        self.acknowledged[batch.topic] += batch.count

    def failed(self, batch: ProducerBatch, error: KafkaException, given_up: bool) -> None:
        """Keep the first batch that failed, which fails the task.

        :param given_up: its time is over
        """
        batch.done = True
        self._backlog.release(batch.count, batch.queued_bytes)
        if batch.in_flight.outcome_unknown:
            self._outcome_unknown += batch.count
        else:
            self._lost += batch.count
        if self._failure is None:
            about_a_row = next(iter((batch.record_errors or {}).values()), None)
            self._failure = batch, about_a_row or error, given_up

    def divide(self, batch: ProducerBatch, error: KafkaException | None) -> list[ProducerBatch]:
        """Split a batch that is too large for the topic; later batches are split at the same size."""
        limit = None
        if error is not None and not self._ending:
            size = batch.builder.size
            limit = learn(self.cluster, self._client, batch.topic, size, batch.wire_size)
        self._backlog.release(batch.count, batch.queued_bytes)
        parts = batch.split(limit)
        for part in parts:
            part.parent = None  # no row is looked up through it
        return [self._booked(part) for part in parts]


def _pending(request: Request) -> InFlightRequest[wire.ProduceResponse]:
    assert request.pending is not None
    return request.pending


def limit_of(options: ClientOptions, topic: str) -> int | None:
    """Return the largest size of a topic's batches before compression (bytes); None if none was refused."""
    return _learnt.get((options, topic))


def learn(cluster: BaseCluster, options: ClientOptions, topic: str, size: int, sent: int) -> int:
    """Note that a batch of several records was refused as too large; return the largest size of later ones.

    :param size: of the batch before compression (bytes)
    :param sent: of the batch as it was sent (bytes)
    """
    known = limit_of(options, topic)
    if known is not None and known < size:
        return known  # the batch was begun before that was known
    allowed = _setting(cluster, options, topic)
    if allowed is None or allowed >= sent:
        # The limit is unknown, or the brokers measure the batch in another form than that in which it was sent.
        limit = size // 2
    else:
        limit = allowed if sent == size else int(size * _COMPRESSED_SHARE * allowed / sent)
    # Whatever the setting is, the batch as it was is refused.
    limit = min(limit, size - 1)
    log.info("batches of %s are cut at %d bytes from now on: one of %d bytes was refused", topic, limit, sent)
    _learnt[options, topic] = limit
    return limit


def _setting(cluster: BaseCluster, options: ClientOptions, topic: str) -> int | None:
    timeout_ms = min(_SETTING_TIMEOUT_MS, options.timeout_ms)
    try:
        settings = read_settings(lambda request: cluster.call(request, timeout_ms=timeout_ms), (TOPIC, topic, _SETTING))
        value = settings.get(_SETTING)
        return None if value is None else int(value)
    except KafkaException as error:
        # Brokers before 0.11 do not report settings, and others report them only to those with the right.
        log.info("%s of %s cannot be read: %s", _SETTING, topic, error)
    return None


class Sequences:
    """The producer id and the partitions' windows, which one task leaves to the next; used by one task at a time.

    Brokers keep what they know of each producer id for a day, so that a new one for each task would fill them.

    :param cluster: where the batches go
    :param demanded: whether batches need their numbers, as in a transaction
    """

    def __init__(self, cluster: BaseCluster, demanded: bool = False) -> None:
        self.cluster = cluster
        self.producer_ids = ProducerIds(cluster, None)
        self.message_formats = MessageFormats(cluster, demanded, lambda text, topic: warn(text % topic))
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._warned = False

    def queue(self, tp: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition, whose window has its sequence numbers."""
        queue = self._queues.get(tp)
        if queue is None:
            queue = self._queues[tp] = PartitionQueue(tp.partition)
        return queue

    def warn_unnumbered(self) -> None:
        """Warn once that batches go without numbers."""
        if not self._warned:
            self._warned = True
            warn(
                "the cluster gives no producer id (it is older than Kafka 0.11, or denies it): if the answer to a batch "
                "of rows is lost, the batch is sent again, and its rows may be stored twice"
            )


def take(cluster: BaseCluster, options: ClientOptions) -> Sequences:
    """Return the sequences that the last task kept; new ones if there was none, or it failed."""
    kept = _kept.pop((os.getpid(), options), None)
    return kept if kept is not None and kept.cluster is cluster else Sequences(cluster)


def keep(options: ClientOptions, sequences: Sequences) -> None:
    """Leave the sequence numbers to the next task; only if all batches are acknowledged."""
    _kept[os.getpid(), options] = sequences
