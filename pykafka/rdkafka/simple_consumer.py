"""`RdKafkaSimpleConsumer`: a `SimpleConsumer` whose messages are fetched by librdkafka."""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetType
from pykafka.consumer.options import AUTO_COMMIT_TIMEOUT_MS, METADATA_MAX_AGE_MS, NO_RESET, QUEUED_MAX_BYTES
from pykafka.consumer.recovery import reset_needed
from pykafka.exceptions import ConsumerStoppedException, KafkaException, RdKafkaException
from pykafka.protocol.message import Message
from pykafka.rdkafka.helpers import common_settings, confluent_kafka, end, error_from, keep_for_ever
from pykafka.simpleconsumer import SimpleConsumer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.handlers.base import LockType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.partition import Partition, TopicView

log = logging.getLogger(__name__)

#: How many messages are taken at a time.
AT_A_TIME = 500
#: How long one call waits for them (s): stop() and events are noticed in between.
SLICE_S = 0.1
#: How soon it is asked again while another call is under way (s).
BUSY_S = 0.005

#: How often it is told that nobody knows where to go on (s).
TELL_S = 1.0
#: librdkafka's names for `auto_offset_reset`.
RESETS = {int(OffsetType.EARLIEST): "earliest", int(OffsetType.LATEST): "latest", NO_RESET: "error"}


class RdKafkaSimpleConsumer(SimpleConsumer):
    """Read a topic by librdkafka; `Topic.get_simple_consumer(use_rdkafka=True)` makes one.

    Use it as a `SimpleConsumer`, which it is but for fetching: offsets are found, committed and reset the same way.

    State: `_ready`, `_adrift`, and what librdkafka is assigned, change under `_rdk_lock`. With greenlets librdkafka is
    called in the hub's thread pool, where a call goes on though a timeout has ended the greenlet that waits for it: such
    calls are one at a time by `_calling`, a lock of threads, and what they bring stays in `_records` for the next `consume()`.

    :param topic: as of `SimpleConsumer`, and so the others
    :param queued_max_messages: how many messages librdkafka keeps for each partition
    :raises ImportError: the extra `rdkafka` is not installed
    :raises ValueError: librdkafka cannot be told about the client's `ssl_config`
    """

    def __init__(
        self,
        topic: TopicView,
        cluster: BaseCluster,
        consumer_group: str | bytes | None = None,
        partitions: Iterable[Partition] | None = None,
        fetch_message_max_bytes: int = 1024 * 1024,
        num_consumer_fetchers: int = 1,
        auto_commit_enable: bool = False,
        auto_commit_interval_ms: int = 60 * 1000,
        queued_max_messages: int = 10**5,
        fetch_min_bytes: int = 1,
        fetch_error_backoff_ms: int = 500,
        fetch_wait_max_ms: int = 100,
        offsets_channel_backoff_ms: int = 1000,
        offsets_commit_max_retries: int = 5,
        auto_offset_reset: int | str = OffsetType.EARLIEST,
        consumer_timeout_ms: int = -1,
        auto_start: bool = True,
        reset_offset_on_start: bool = False,
        compacted_topic: bool = False,
        generation_id: int = -1,
        consumer_id: str | bytes = b"",
        deserializer: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        reset_offset_on_fetch: bool = True,
        *,
        isolation_level: str = "read_uncommitted",
        queued_max_bytes: int = QUEUED_MAX_BYTES,
        auto_commit_timeout_ms: int = AUTO_COMMIT_TIMEOUT_MS,
        metadata_max_age_ms: int = METADATA_MAX_AGE_MS,
    ) -> None:
        self._confluent_kafka = confluent_kafka()
        self._rdk_consumer: Any = None
        self._rdk_lock = cluster.handler.Lock()
        self._calling = cluster.handler.native.Lock()
        self._records: deque[Any] = deque()  # as librdkafka gave them
        self._ready: deque[Message] = deque()
        #: Whether librdkafka is not where the partitions stand.
        self._adrift = False
        #: Partitions whose offset is not there, with `auto_offset_reset="none"`, and how often they had been moved.
        self._stranded: dict[int, int] = {}
        self._tell_at = 0.0
        super().__init__(
            topic,
            cluster,
            consumer_group=consumer_group,
            partitions=partitions,
            fetch_message_max_bytes=fetch_message_max_bytes,
            num_consumer_fetchers=num_consumer_fetchers,
            auto_commit_enable=auto_commit_enable,
            auto_commit_interval_ms=auto_commit_interval_ms,
            queued_max_messages=queued_max_messages,
            fetch_min_bytes=fetch_min_bytes,
            fetch_error_backoff_ms=fetch_error_backoff_ms,
            fetch_wait_max_ms=fetch_wait_max_ms,
            offsets_channel_backoff_ms=offsets_channel_backoff_ms,
            offsets_commit_max_retries=offsets_commit_max_retries,
            auto_offset_reset=auto_offset_reset,
            consumer_timeout_ms=consumer_timeout_ms,
            auto_start=auto_start,
            reset_offset_on_start=reset_offset_on_start,
            compacted_topic=compacted_topic,
            generation_id=generation_id,
            consumer_id=consumer_id,
            deserializer=deserializer,
            reset_offset_on_fetch=reset_offset_on_fetch,
            isolation_level=isolation_level,
            queued_max_bytes=queued_max_bytes,
            auto_commit_timeout_ms=auto_commit_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
        )

    def _settings(self) -> dict[str, Any]:
        options = self._options
        whole = max(options.fetch_message_max_bytes, 50 * 1024 * 1024)
        return common_settings(self._cluster) | {
            # It wants a name, and does nothing with it: partitions are given, and offsets committed by us.
            "group.id": options.consumer_group or "pykafka",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": RESETS[options.auto_offset_reset],
            "isolation.level": options.isolation_level,
            "fetch.min.bytes": options.fetch_min_bytes,
            "fetch.wait.max.ms": options.fetch_wait_max_ms,
            "fetch.error.backoff.ms": options.fetch_error_backoff_ms,
            "max.partition.fetch.bytes": options.fetch_message_max_bytes,
            "fetch.max.bytes": whole,
            "receive.message.max.bytes": whole + 1024 * 1024,
            "queued.min.messages": min(options.queued_max_messages, 10_000_000),
            "queued.max.messages.kbytes": min(max(options.queued_max_bytes // 1024, 1), 2_097_151),
        }

    # -- fetching --------------------------------------------------------------------------------------------------

    def _setup_fetch_workers(self) -> None:
        """Make librdkafka's consumer and give it the partitions.

        :raises RdKafkaException: librdkafka refuses the settings
        """
        try:
            self._rdk_consumer = self._confluent_kafka.Consumer(self._settings())
        except self._confluent_kafka.KafkaException as error:
            raise RdKafkaException(f"librdkafka cannot make a consumer: {error}", topic=self._topic.name) from error
        self._assign()

    def _assign(self) -> None:
        """Have librdkafka fetch from where each partition stands."""
        with self._rdk_lock:
            self._adrift = True
            self._assign_anew()

    def _assign_anew(self) -> None:
        """Do so; the caller holds the lock, and has set `_adrift`."""
        consumer = self._rdk_consumer
        if consumer is not None:
            self._handler.offload(self._assign_to, consumer)

    def _assign_to(self, consumer: Any) -> None:
        # Nothing is handed out before it is done: where another has done it first, there is nothing left to do.
        with self._calling:
            if self._adrift:
                kind = self._confluent_kafka.TopicPartition
                consumer.assign(
                    [
                        kind(self._topic.name, id_, owned.position)
                        for id_, owned in self._partitions_by_id.items()
                        if owned.position >= 0
                    ]
                )
                self._ready.clear()
                self._records.clear()
                self._adrift = False

    def cleanup(self) -> None:
        """End librdkafka's consumer; commits nothing."""
        with self._rdk_lock:
            last = [self._rdk_consumer]
            self._rdk_consumer = None
            self._ready.clear()
            self._records.clear()
            if last[0] is not None:
                end(self._handler, partial(_close, last, self._calling), f"its consumer of {self._topic.name}")

    def _after_fork(self) -> None:
        super()._after_fork()
        if self._rdk_consumer is not None:
            keep_for_ever(self._rdk_consumer)
        self._rdk_consumer = None
        self._rdk_lock = self._handler.Lock()
        self._calling = self._handler.native.Lock()
        self._records = deque()
        self._ready = deque()

    def _move(self, id_: int, position: int, last_offset_consumed: int) -> None:
        with self._rdk_lock:  # or what is handed out at this moment would have the last word
            self._adrift = True
            super()._move(id_, position, last_offset_consumed)

    def _fetch_added(self, added: Iterable[OwnedPartition]) -> None:
        self._assign()

    def fetch(self) -> None:
        """Do nothing but check that the consumer runs: librdkafka fetches by itself.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if not self._running:
            raise self._stopped()

    # -- consuming -------------------------------------------------------------------------------------------------

    def _consume_slowly(self, block: bool, unblock_event: Any) -> Message | None:
        """Return the next message that librdkafka has; None where there is none (in time)."""
        timeout_ms = self._options.consumer_timeout_ms
        deadline = None if timeout_ms < 0 else self._handler.now() + timeout_ms / 1000
        while True:
            self._raise_worker_exceptions()
            if self._running and self._options.auto_offset_reset == NO_RESET:
                self._ask_the_user()
                self._raise_worker_exceptions()
            if self._restart:
                self._restart = False
                self.start()
            if not self._running:
                raise self._stopped()
            remaining = SLICE_S if deadline is None else min(SLICE_S, deadline - self._handler.now())
            message = self._take(max(remaining, 0.0) if block else 0.0)
            if message is not None or not block or remaining <= 0:
                return message
            if unblock_event is not None and unblock_event.is_set():
                return None
            self._handler.sleep()  # whoever waits for the lock has it now: greenlets would take it again before him

    def _take_batch(self, max_messages: int) -> list[Message]:
        with self._rdk_lock:
            count = min(max_messages, len(self._ready)) if self._may_hand_out() else 0
            return [self._hand_out() for _ in range(count)]

    def consume_arrow(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: librdkafka gives messages one by one.

        :raises KafkaException: always
        """
        raise KafkaException(
            "consume_arrow() needs this client's own fetch workers; make the consumer without use_rdkafka=True",
            topic=self._topic.name,
        )

    def _stopped(self) -> ConsumerStoppedException:
        return ConsumerStoppedException(
            "the consumer is not running; call start(), or make another", topic=self._topic.name
        )

    def _take(self, seconds: float) -> Message | None:
        """Return a message that is there, asking librdkafka for more where none is."""
        if self._buffers.closed:  # a group is being balanced: nothing is to be handed out now
            self._arrived.clear()
            self._arrived.wait(seconds)
            return None
        if not self._ready:
            self.tick()
        with self._rdk_lock:
            if self._adrift:
                self._assign_anew()
            if not self._ready and not self._records and self._rdk_consumer is not None:
                asked = self._handler.offload(self._pull, self._rdk_consumer, seconds)
                if not asked:
                    self._handler.sleep(min(seconds, BUSY_S))
            self._sort()
            return self._hand_out() if self._may_hand_out() and self._ready else None

    def _may_hand_out(self) -> bool:
        return not self._buffers.closed and not self._adrift

    def _pull(self, consumer: Any, seconds: float) -> bool:
        """Put what librdkafka has into `_records`; False where another call is under way, which will."""
        if not self._handler.cooperative:
            with self._calling:
                self._pull_alone(consumer, seconds)
            return True
        # In the hub's thread pool, where no signal comes. Calls that have ended for their greenlets do not fill it up.
        if not self._calling.acquire(False):
            return False
        try:
            self._pull_alone(consumer, seconds)
        finally:
            self._calling.release()
        return True

    def _pull_alone(self, consumer: Any, seconds: float) -> None:
        if consumer is self._rdk_consumer:  # else it is closed, or about to be
            # In one step of C: a Ctrl-C between taking messages and keeping them would lose them.
            self._records.extend(chain.from_iterable(map(consumer.consume, (AT_A_TIME,), (seconds,))))

    def _sort(self) -> None:
        """Make messages, and errors, of what librdkafka gave; the caller holds the lock."""
        while self._records:
            record = self._records.popleft()
            error = record.error()
            if error is None:
                self._ready.append(self._message_of(record))
            elif error.code() == self._confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                id_ = record.partition()
                self._stranded[id_] = self._partitions_by_id[id_].moves
            else:
                self._worker_exceptions.append(error_from(error, topic=self._topic.name, partition=record.partition()))

    def _ask_the_user(self) -> None:
        """Have `consume()` raise for partitions that nobody but the user can tell where to go on; once a second."""
        parts = self._partitions_by_id
        adrift = [one for id_, one in parts.items() if one.position < 0 or self._stranded.get(id_) == one.moves]
        now = self._handler.now()
        if adrift and now >= self._tell_at:
            self._tell_at = now + TELL_S
            self._worker_exceptions.extend(reset_needed(self, adrift))

    def _hand_out(self) -> Message:
        """Return the next message that is there; the caller holds the lock."""
        message = self._ready.popleft()
        owned = self._partitions_by_id[message.partition_id]
        owned.begin_taking(message.offset)
        owned.last_offset_consumed = message.offset
        owned.position = message.offset + 1
        return message

    def _message_of(self, record: Any) -> Message:
        kind, milliseconds = record.timestamp()
        message = Message(
            record.value(),
            partition_key=record.key(),
            offset=record.offset(),
            partition_id=record.partition(),
            timestamp=None if kind == self._confluent_kafka.TIMESTAMP_NOT_AVAILABLE else milliseconds,
        )
        message.headers = record.headers()
        message.partition = self._partitions_by_id[record.partition()].partition
        return message


def _close(last: list[Any], calling: LockType) -> None:
    with calling:  # not before a call that a greenlet's timeout has ended here
        last.pop().close()
