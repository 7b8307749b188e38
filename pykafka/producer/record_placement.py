"""`KafkaProducerEngine`: the engine of a producer for any topic: looks topics up, chooses partitions, waits for room.

`MetadataWait` has its look-ups of topics, one for all callers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    KafkaException,
    LeaderNotFoundError,
    MessageSizeTooLarge,
    NoBrokersAvailableError,
    ProducerPurgedError,
    ProducerQueueFullError,
    ProtocolClientError,
    TopicNotFoundError,
    UnknownTopicOrPartition,
)
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.metrics.listener import BUFFER_WAIT, METADATA_WAIT
from pykafka.producer.accumulator import RECORD_OVERHEAD, PartitionQueue, TopicInfo, headers_size
from pykafka.producer.batch import STOP_POLL_INTERVAL_S, DeliveryWait, ProducerBatch
from pykafka.producer.engine import ROOM_S, ProducerEngine
from pykafka.producer.producer_id import ProducerIds
from pykafka.producer.retry_policy import PASSING
from pykafka.producer.sender import Sender
from pykafka.utils import get_string
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.producer.accumulator import TopicInfo
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.delivery import Delivery
    from pykafka.producer.engine import ProducerEngine
    from pykafka.producer.options import KafkaProducerOptions


#: How long metadata must have lacked a topic that was written to before it counts as deleted (s).
DELETED_AFTER_S = 3.0

#: Callers that may wait less than this (s) have a worker look the topic up, which continues when they give up.
SHORT_S = 1.0
#: How long that worker asks (s).
BACKGROUND_S = 30.0
#: Who has less time than this left (s) takes another caller's failure for its own.
LEAST_S = 0.1
#: How long closing waits for look-ups in the background, which end when their request does (s).
JOIN_S = 1.0

log = logging.getLogger(__name__)

#: A topic to which nothing was written for so long leaves the metadata that the producer asks for (s): metadata.max.idle.ms.
IDLE_S = 300.0
#: The arguments of `RecordAccumulator.send`: topic, value, key, timestamp, headers, partition, callback, and the value and the
#: key before they were serialized.
Outgoing = tuple[str, bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None, int, Any, Any, Any]
#: `(partitions, key) -> partition`.
Partitioner = Callable[[Sequence[Any], Any], Any]


class _MetadataRequest:
    """A look-up under way.

    :param handler: makes the event of those that wait for it
    """

    __slots__ = ("done", "ended", "error", "worker")

    def __init__(self, handler: Handler) -> None:
        self.ended = handler.Event()
        self.done = False
        self.error: Exception | None = None
        self.worker: OwnedWorker | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a worker does it, which ends it."""
        return self.worker is not None and self.worker.is_started


class MetadataWait:
    """The look-ups of a producer that are under way, one a topic; all that wait for one wake together.

    State: `_under_way` and `_failed` change by single steps of a dict, which are atomic.

    :param engine: of the producer
    """

    def __init__(self, engine: KafkaProducerEngine) -> None:
        self._engine = engine
        self._handler = engine.handler
        self._under_way: dict[str, _MetadataRequest] = {}
        # Why a look-up in the background has failed, until a caller got the error.
        self._failed: dict[str, Exception] = {}

    def find(self, topic: str, deadline: float, wait_s: float) -> None:
        """Look a topic up, or wait for the caller or worker that does; the topic may still be unknown afterwards.

        :param deadline: until when to wait (s of the handler's clock)
        :param wait_s: how long callers of this producer may wait
        :raises KafkaException: why the topic was not found
        """
        one = _MetadataRequest(self._handler)
        background = wait_s < SHORT_S
        try:  # around all of it: Ctrl-C must not leave a look-up behind without a worker
            first = self._under_way.setdefault(topic, one)
            if first is one:
                if not background:
                    self._look_up(topic, deadline)
                    return
                run = partial(self._run, topic, one)
                one.worker = worker = OwnedWorker(self._handler, run, f"pykafka.look_up.{topic}")
                worker.start()
        except BaseException as error:
            if not one.has_begun:
                one.error = error if isinstance(error, KafkaException) else None
            raise
        finally:
            if not one.has_begun:
                self._end(topic, one)
        failed = self._failed.pop(topic, None)
        if failed is not None:
            raise _anew(failed)
        self._wait(topic, first, deadline)

    def _wait(self, topic: str, first: _MetadataRequest, deadline: float) -> None:
        while not first.done:
            self._engine.check_running()
            left = deadline - self._handler.now()
            if left <= 0:
                raise NoBrokersAvailableError(
                    "no broker has returned the topic's metadata within max_block_ms; it is being asked for: produce again",
                    topic=topic,
                )
            first.ended.wait(min(left, STOP_POLL_INTERVAL_S))
            if first.has_begun and not is_at_work(first.worker):
                self._end(topic, first)  # it was ended from outside, maybe before it began
        error = first.error
        if error is None or (isinstance(error, PASSING) and deadline - self._handler.now() > LEAST_S):
            return  # found, cut off, or worth another try
        self._failed.pop(topic, None)
        raise _anew(error)

    def _run(self, topic: str, one: _MetadataRequest) -> None:
        """Look a topic up in the background; the main function of a worker."""
        try:
            self._look_up(topic, self._handler.now() + BACKGROUND_S)
        except KafkaException as error:
            one.error = self._failed[topic] = error
        except Exception as error:
            one.error = self._failed[topic] = error
            raise  # the handler reports it
        finally:
            self._end(topic, one)

    def _end(self, topic: str, one: _MetadataRequest) -> None:
        if self._under_way.get(topic) is one:
            del self._under_way[topic]
        one.done = True
        one.ended.set()

    def close(self) -> None:
        """End the look-ups in the background, if the handler can; they end by themselves otherwise."""
        workers = [one.worker for one in list(self._under_way.values()) if one.worker is not None]
        for worker in workers:
            worker.interrupt()
        until = self._handler.now() + JOIN_S
        for worker in workers:
            worker.join(max(until - self._handler.now(), 0))

    def _look_up(self, topic: str, deadline: float) -> None:
        """Ask the cluster for a topic, and take it in; errors as for `KafkaProducer.produce`."""
        engine, cluster, now = self._engine, self._engine.cluster, self._handler.now
        began, failures = now(), 0
        while True:
            within_ms = left_ms(deadline, now(), 1)
            try:
                info = engine.add_topic(cluster.topics.look_up(topic, within_ms))
                if info is None or info.queues:
                    return
                cluster.refresh(cluster.generation, [topic], within_ms)
                last: KafkaException = LeaderNotFoundError("the topic has no partitions yet", topic=topic)
            except TopicNotFoundError as error:
                cause = error.__cause__
                if isinstance(cause, ProtocolClientError) and not isinstance(cause, UnknownTopicOrPartition):
                    raise cause.with_context(topic=topic) from None  # as a denial by ACL
                if not engine.written_to(topic) or now() - began > DELETED_AFTER_S:
                    raise
                last = error
            except PASSING as error:
                last = error
            failures += 1
            pause = cluster.retry_backoff.seconds(failures)
            if now() + pause >= deadline:
                raise last
            self._handler.sleep(pause)
            engine.check_running()


def _anew(error: Exception) -> Exception:
    return error.again() if isinstance(error, KafkaException) else error


class KafkaProducerEngine(ProducerEngine):
    """A `ProducerEngine` for any number of topics, each taken in at its first message.

    :param cluster: to which to produce
    :param options: checked
    :param partitioner: chooses the partition of each message that names none; None: by key, or uniform sticky
    """

    ANEW = "make another"
    RESUMES = True

    def __init__(self, cluster: BaseCluster, options: KafkaProducerOptions, partitioner: Partitioner | None) -> None:
        self.front = options
        self._partitioner = partitioner
        super().__init__(cluster, None, options, lambda broker: Sender(self, self.routing, broker, False))

    def _begin(self) -> None:
        super()._begin()
        self.accumulator.chooses = self._partitioner is None
        self.delivery_wait = DeliveryWait(self)
        self.metadata_wait = MetadataWait(self)

    def set_up(self) -> None:
        """Bring all topics up to date, and leave those to which nothing was written for five minutes."""
        super().set_up()
        if self.routing.leave_idle(self.handler.now() - IDLE_S):
            # A partition that is taken in again numbers its batches from 0: under the old id brokers would know them again.
            self.producer_ids = ProducerIds(self.cluster, self.options.enable_idempotence)

    # -- messages --------------------------------------------------------------------------------------------------

    def append(self, made: Outgoing, wait: bool = True) -> Delivery[Any, Any] | None:
        """Write a message into the open batch of its partition.

        :param made: the arguments of `RecordAccumulator.send`
        :param wait: False: return None if this would have to wait
        """
        topic, value, key, timestamp, headers, partition, callback, given_value, given_key = made
        need = RECORD_OVERHEAD + len(value or b"") + len(key or b"") + headers_size(headers or ())
        self._check_size(topic, need)
        deadline: float | None = None
        while True:
            self.check_running()
            info = self.accumulator.topics.get(topic) or self._known(topic)
            if info is None or not info.queues:
                if not wait:
                    return None
                deadline = deadline or self._deadline()
                self._look_up(topic, deadline)
                continue
            queue = self._chosen(info, key, partition)
            if queue is None:
                if not wait:
                    return None
                deadline = deadline or self._deadline()
                self._ask_for(info, key, partition, deadline)
                continue
            if self._partitioner is not None:  # which is asked once
                partition = queue.partition_id
            found = self.accumulator.send(
                topic, value, key, timestamp, headers, partition, callback, given_value, given_key
            )
            if found is not None:
                return found
            why = self._obstacle(queue, need)
            if why is None:
                info.used_at = self.handler.now()
                self._roll_over(info, queue)
            elif not wait and self.front.on_full == "wait":
                return None
            else:
                deadline = deadline or self._deadline()
                self._wait_for_room(topic, need, why, deadline)

    def _deadline(self) -> float:
        return self.handler.now() + self.front.max_block_ms / 1000

    def _check_size(self, topic: str, need: int) -> None:
        if need > self.options.batch_limit:
            raise MessageSizeTooLarge(
                f"a message of {need} bytes does not fit into max_request_size={self.front.max_request_size}; "
                "send less, or raise max_request_size here and max.message.bytes of the topic",
                topic=topic,
            )
        if need > self.buffer_pool.most:
            raise MessageSizeTooLarge(
                f"a message of {need} bytes does not fit into buffer_memory={self.buffer_pool.most}; raise it",
                topic=topic,
            )

    def _chosen(self, info: TopicInfo, key: bytes | None, partition: int) -> PartitionQueue | None:
        """Return the queue of a message, as `send` finds it; None for an unknown partition, or one without a sender."""
        if partition >= 0:
            queue = info.queues[partition] if partition < len(info.queues) else None
        elif not info.queues:
            queue = None
        elif self._partitioner is not None:
            chosen = self._partitioner(info.partitions, key)
            if not hasattr(chosen, "id"):
                raise TypeError(f"the partitioner must return one of the partitions it was given, not {chosen!r}")
            queue = self.routing.queues.get((info.name, chosen.id))
        elif key is None:
            queue = info.current
        else:
            queue = self.accumulator.queue_of_key(info, key)
        return None if queue is None or queue.owner is None else queue

    def _obstacle(self, queue: PartitionQueue, need: int) -> str | None:
        """Return why a message must wait; None if only its batch is full, or none is open."""
        callbacks = self.completion.callbacks
        # A function of on_delivery may produce all the same: it cannot wait for itself.
        if callbacks.full and not callbacks.here:
            return f"{callbacks.messages} messages wait for on_delivery"
        if need > self.buffer_pool.room:
            room = self.buffer_pool.room
            return f"buffer_memory={self.buffer_pool.most} has room for {room} bytes, and the message takes {need}"
        if queue.owner is not None and queue.owner.broker_queue.full:
            return f"{queue.owner.broker_queue.messages} messages are queued for broker {queue.owner.broker.id}"
        return None

    def _roll_over(self, info: TopicInfo, queue: PartitionQueue) -> None:
        """Give a partition a new open batch; or let messages without a key go to another one, as enough went to this one."""
        if self.routing.outgrown:
            self.routing.catch_up()
        owner = queue.owner
        if owner is None:
            return
        if info.current is queue:
            with self.lock:
                full = self.accumulator.take_open(queue)
                if full is not None:
                    queue.closed_batches.append(full)
                switched = self.routing.switch_partition(info, queue)
            if switched:
                owner.wake.set()
                return
        owner.open_batch(queue)

    def _wait_for_room(self, topic: str, need: int, why: str, deadline: float) -> None:
        began = self.handler.now()
        left = deadline - began
        if self.front.on_full == "raise" or left <= 0:
            waited = "" if self.front.on_full == "raise" else f" after max_block_ms={self.front.max_block_ms}"
            raise ProducerQueueFullError(
                f"{why}{waited}{self._about_throttling()}; produce more slowly, raise buffer_memory, or wait longer",
                topic=topic,
            )
        if need > self.buffer_pool.room:
            self.buffer_pool.wait(self.handler.Event(), min(ROOM_S, left))
        else:
            self.completion.callbacks.begin()
            self.progress.wait(min(ROOM_S, left))
            self.progress.clear()
        if self.listener is not None:
            self.listener.on_event(BUFFER_WAIT, topic, self.handler.now() - began, why)

    # -- topics ----------------------------------------------------------------------------------------------------

    def _known(self, topic: str) -> TopicInfo | None:
        """Take in a topic that the client knows, without I/O; None if it must be asked for."""
        if self.options.enable_idempotence or self.cluster.topic_metadata(topic) is None:
            return None
        return self.add_topic(self.cluster.topics[topic])

    def add_topic(self, topic: Any) -> TopicInfo | None:
        """Take in a topic, as the client has it; None if the producer was stopped meanwhile."""
        if self.options.enable_idempotence:
            self._check_leaders(topic)
        name = get_string(topic.name)
        if name not in self.routing.topics:
            self.topic_ids.begin(name)
        info = self.routing.add(topic)
        if info is not None:
            info.used_at = self.handler.now()
        return info

    def written_to(self, topic: str) -> bool:
        """Return whether the producer has written to a topic, which may have been deleted since."""
        return topic in self.routing.topics

    def _look_up(self, topic: str, deadline: float) -> None:
        began = self.handler.now()
        try:
            self.metadata_wait.find(topic, deadline, self.front.max_block_ms / 1000)
        finally:
            if self.listener is not None:
                self.listener.on_event(METADATA_WAIT, topic, self.handler.now() - began)

    def stop(self, timeout_ms: int | None = None) -> None:
        """Deliver what is queued and end the senders; as for `ProducerEngine.stop`."""
        try:
            super().stop(timeout_ms)
        finally:
            self.metadata_wait.close()

    def _ask_for(self, info: TopicInfo, key: bytes | None, partition: int, deadline: float) -> None:
        """Ask for a partition that is not there, or has no leader yet, until it has; or its topic is another one.

        :raises KafkaException: it had none at the deadline
        """
        first, failures = self.cluster.generation, 0
        while True:
            error: KafkaException | None = None
            left = deadline - self.handler.now()
            try:
                self.cluster.refresh(self.cluster.generation, [info.name], max(1, int(left * 1000)))
            except PASSING as problem:
                error = problem
            self.routing.catch_up()
            if self._chosen(info, key, partition) is not None:
                return
            if self.accumulator.topics.get(info.name) is not info:
                return
            failures += 1
            # the last request has some time for its answer
            left = deadline - self.handler.now() - LEAST_S
            if left <= 0:
                answered = self.cluster.generation != first
                raise self._lacking(info, partition) if error is None or answered else error
            self.handler.sleep(min(self.cluster.retry_backoff.seconds(failures), left))
            self.check_running()

    def _lacking(self, info: TopicInfo, partition: int) -> KafkaException:
        """Return the error of a message whose partition was not there, or had no leader, for too long."""
        waited = f"after max_block_ms={self.front.max_block_ms}"
        ids = [known.id for known in info.partitions]
        if partition < 0 or partition in ids:
            return LeaderNotFoundError(
                f"no broker leads this partition {waited}; check that its replicas are up",
                topic=info.name,
                partition=None if partition < 0 else partition,
            )
        bounds = f", {ids[0]} to {ids[-1]}" if ids else ""
        return UnknownTopicOrPartition(
            f"the topic has {len(ids)} partitions{bounds}, and still no other {waited}; produce to one of these, or add "
            "partitions",
            topic=info.name,
            partition=partition,
        )

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[Any]:
        """Return the partitions of a topic; parameters and errors as for `KafkaProducer.partitions_for`."""
        info = self.accumulator.topics.get(topic)
        if info is None or not info.partitions:
            self.check_running()
            self._look_up(topic, self._deadline() if timeout is None else self.handler.now() + timeout)
            info = self.accumulator.topics.get(topic)
        return [] if info is None else list(info.partitions)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def purge(self) -> int:
        """Fail the messages that were not sent yet; return how many."""
        error = ProducerPurgedError("the message was dropped by purge() before it was sent")
        left: list[ProducerBatch] = []
        with self.lock:
            for owned in self.routing.owned_brokers.values():
                for queue in owned.active.values():
                    left += self.take_unsent(queue)
        count = sum(batch.count for batch in left)
        if count:
            self.on_purge(count)
        self.fail_dropped(left, error)
        return count

    def on_purge(self, count: int) -> None:
        """Note how many messages are about to be dropped by a purge."""

    def take_unsent(self, queue: PartitionQueue) -> list[ProducerBatch]:
        """Take the batches of a queue that were never sent; the caller holds the lock."""
        left = list(queue.closed_batches)
        queue.closed_batches.clear()
        batch = self.accumulator.take_open(queue)
        if batch is not None:
            left.append(batch)
        return left

    def fail_dropped(self, batches: list[ProducerBatch], error: KafkaException) -> None:
        """Complete batches that were dropped on demand, each by a copy of an error."""
        for batch in batches:
            report = error.again().with_context(topic=batch.topic, partition=batch.partition_id)
            self.completion.complete(batch, report, asked_for=True)
