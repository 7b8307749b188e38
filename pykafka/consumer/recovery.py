"""Getting a partition fetched again after an error: find its leader, set its offset right, attach it.

A consumer's worker for this runs only while there is something to do: the first error starts it. It may block on metadata
and offsets, which a fetch worker shared with other consumers must not.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from pykafka.consumer.fetcher import Fetcher
from pykafka.exceptions import (
    InvalidMessageError,
    KafkaException,
    LeaderNotFoundError,
    OffsetOutOfRangeError,
    ProtocolClientError,
    UnknownError,
)

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.simpleconsumer import SimpleConsumer

log = logging.getLogger(__name__)

#: What Kafka does not call retriable, and is tried again all the same before anybody hears of it.
PASSING = (UnknownError, OffsetOutOfRangeError)


class Recovery:
    """Looks after the partitions of one consumer that cannot be fetched.

    State: `_failed` and `_worker` change under `_lock`; `_told` belongs to the worker.

    :param consumer: held weakly, so that a forgotten consumer can go
    """

    def __init__(self, consumer: SimpleConsumer) -> None:
        self._consumer = weakref.ref(consumer)
        self._handler = consumer._handler
        self._lock = self._handler.Lock()
        self._failed: deque[tuple[OwnedPartition, int, KafkaException]] = deque()
        self._worker: Any = None
        # What was told last: an error of the broker comes once for each of its partitions, and is to be raised once.
        self._told: weakref.ref[KafkaException] | None = None

    def failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Take a partition into care; returns at once."""
        with self._lock:
            self._failed.append((owned, owned.moves, error))
            if self._worker is None:
                self._worker = self._handler.spawn(self._run, name="pykafka.Recovery")

    def join(self) -> None:
        """Wait for the worker to end; the consumer's `_stopping` was set before."""
        worker = self._worker
        if worker is not None:
            worker.join(5.0)

    def attach(self, owned: OwnedPartition) -> None:
        """Attach a partition to its leader's fetcher, or take it into care where it has none."""
        consumer = self._consumer()
        if consumer is None or not consumer._running or owned.fetcher is not None:
            return
        leader = owned.partition.leader
        if leader is None:
            self.failed(
                owned,
                LeaderNotFoundError(
                    "no broker leads the partition at present", topic=consumer.topic.name, partition=owned.partition_id
                ),
            )
            return
        try:
            fetcher = Fetcher.of(leader, self._handler, consumer._options.fetch_settings(owned.partition_id))
            fetcher.attach(owned, _WeakSubscriber(consumer))
        except KafkaException as error:
            self.failed(owned, error)

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._lock:
                batch = list(self._failed)
                self._failed.clear()
                if not batch:
                    self._worker = None
                    return
            consumer = self._consumer()
            if consumer is None or not consumer._running:
                continue
            stopping, pause = consumer._stopping, consumer._options.fetch_error_backoff_ms / 1000
            moved = self._recover(consumer, batch)
            del consumer
            if not moved:
                stopping.wait(pause)
            for owned, moves, error in batch:
                if isinstance(error, OffsetOutOfRangeError) and owned.moves == moves and _has_unread(owned):
                    with self._lock:
                        self._failed.append((owned, moves, error))  # looked at again after the next pause
                else:
                    self.attach(owned)

    def _recover(self, consumer: SimpleConsumer, batch: list[tuple[OwnedPartition, int, KafkaException]]) -> bool:
        """Do what each error calls for; True where the partitions can be fetched again without a pause."""
        moved = True
        stale = False
        for owned, moves, error in batch:
            if isinstance(error, OffsetOutOfRangeError):
                moved = self._reset(consumer, owned, moves, error) and moved
                continue
            moved = False
            if not isinstance(error, ProtocolClientError) or error.invalid_metadata:
                stale = True
            self._judge(consumer, owned, error)
        if stale:
            try:
                consumer._cluster.refresh(consumer._cluster.generation, [consumer.topic.name])
            except KafkaException as error:
                # one a reason: where no broker can be reached, every consumer of the client says so
                about, text = type(error).__name__, "no metadata for %s: %s"
                consumer._cluster.limiter.warn(log, about, text, consumer.topic.name, error)
        return moved

    def _judge(self, consumer: SimpleConsumer, owned: OwnedPartition, error: KafkaException) -> None:
        """Decide whether whoever consumes must hear of an error: what does not pass by itself, or has not for long."""
        now = self._handler.now()
        if owned.trouble_since is None:
            owned.trouble_since = now
        lasting = now - owned.trouble_since > consumer._cluster.socket_timeout_ms / 1000
        # A checksum that does not match here is retriable to Kafka, but whoever consumes wants to know. And a new leader
        # of 0.9 answers UNKNOWN_SERVER_ERROR until it knows that what is fetched has been committed.
        passing = (error.transient and not isinstance(error, InvalidMessageError)) or type(error) in PASSING
        if lasting or not passing:
            owned.trouble_since = now
            if self._told is None or self._told() is not error:
                self._told = weakref.ref(error)
                consumer._worker_failed(error)
        else:
            log.info("partition %d: %s; trying again", owned.partition_id, error)

    def _reset(self, consumer: SimpleConsumer, owned: OwnedPartition, moves: int, error: KafkaException) -> bool:
        """The offset is not kept (any more): go where `auto_offset_reset` says, this partition alone.

        What is buffered of it is read first; and whoever moves it meanwhile, as by `seek()`, has the last word.
        """
        if owned.moves != moves:
            return True
        if _has_unread(owned):
            return False
        # Where it is so again before anything could be fetched, the broker is at odds with itself: no need to hurry.
        first = owned.trouble_since is None
        self._judge(consumer, owned, error)
        log.warning("%s; going to auto_offset_reset", error)
        try:
            offsets = consumer._find_offsets({owned.partition_id: consumer._options.auto_offset_reset})
        except KafkaException as problem:
            self._judge(consumer, owned, problem)
            return False
        offset = offsets[owned.partition_id]
        consumer._buffers.move(owned, offset, offset - 1, moves)
        return first


def _has_unread(owned: OwnedPartition) -> bool:
    return owned.messages > 0 or owned.loan > 0


class _WeakSubscriber:
    """Passes on what a fetcher says while its consumer is there; the fetcher does not keep the consumer alive."""

    __slots__ = ("_consumer",)

    def __init__(self, consumer: SimpleConsumer) -> None:
        self._consumer = weakref.ref(consumer)

    def is_gone(self) -> bool:
        return self._consumer() is None

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        consumer = self._consumer()
        if consumer is not None:
            consumer.fetch_failed(owned, error)

    def arrived(self) -> None:
        consumer = self._consumer()
        if consumer is not None:
            consumer.arrived()
