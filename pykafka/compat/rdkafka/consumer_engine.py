"""`RdKafkaConsumerEngine`: the engine of a consumer for which librdkafka fetches messages."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetType, TopicPartition
from pykafka.compat.blocking_engine import BlockingEngine, key_of
from pykafka.compat.rdkafka.settings import common_settings, confluent_kafka, end, error_from, keep_for_ever
from pykafka.consumer.offset_reset import reset_needed
from pykafka.consumer.options import NO_RESET
from pykafka.exceptions import RdKafkaException
from pykafka.protocol.message import Message

if TYPE_CHECKING:
    from pykafka.compat.blocking_engine import Hooks
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.handlers.base import LockType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener

#: How many messages one call takes from librdkafka.
AT_A_TIME = 500
#: How long one call waits for them (s): in between the engine notices stop() and events.
SLICE_S = 0.1
#: The pause while another call of librdkafka is running (s).
BUSY_S = 0.005

#: How often `consume()` raises that the application has to say where to go on (s).
TELL_S = 1.0
#: librdkafka's names for `auto_offset_reset`.
RESETS = {int(OffsetType.EARLIEST): "earliest", int(OffsetType.LATEST): "latest", NO_RESET: "error"}


class RdKafkaConsumerEngine(BlockingEngine):
    """A `BlockingEngine` for which librdkafka fetches; offsets are found, committed and reset as there.

    State: `_ready`, `_adrift`, and librdkafka's assignment, change under `_rdk_lock`. With greenlets another thread
    calls librdkafka, and a call goes on although a timeout has ended the greenlet that waits for it. So `_calling`, a lock of
    threads, allows one call at a time, and its messages stay in `_records` for the next `consume()`.

    Parameters as `BlockingEngine` has them.

    :raises ImportError: the extra `rdkafka` is not installed
    :raises ValueError: librdkafka has no setting for something in the client's `ssl_config`, or for `unpacked_max_bytes`
    """

    def __init__(
        self,
        cluster: BaseCluster,
        options: ConsumerOptions,
        name: str,
        hooks: Hooks,
        before: ClientListener | None = None,
    ) -> None:
        self._confluent_kafka = confluent_kafka()
        if options.unpacked_max_bytes is not None:
            raise ValueError(
                "librdkafka has no limit for what a batch unpacks to: leave unpacked_max_bytes or use_rdkafka out"
            )
        self._rdk_consumer: Any = None
        #: Whether librdkafka's positions differ from those of the partitions.
        self._adrift = False
        #: Partitions whose offset does not exist, with `auto_offset_reset="none"`, and how often they had been moved.
        self._stranded: dict[TopicPartition, int] = {}
        self._tell_at = 0.0
        super().__init__(cluster, options, name, hooks, before)

    def _make_parts(self) -> None:
        super()._make_parts()
        self._rdk_lock = self.handler.Lock()
        self._calling = self.handler.native.Lock()
        self._records: deque[Any] = deque()  # as librdkafka gave them
        self._ready: deque[Message] = deque()

    def _settings(self) -> dict[str, Any]:
        options = self.options
        whole = max(options.fetch_message_max_bytes, 50 * 1024 * 1024)
        rack = self.cluster.client_rack if options.client_rack is None else options.client_rack
        return common_settings(self.cluster) | {
            # librdkafka requires a name, and does not use it: we assign partitions and commit offsets.
            "group.id": options.consumer_group or "pykafka",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": RESETS[options.auto_offset_reset],
            "isolation.level": options.isolation_level,
            "client.rack": rack,
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

    def attach_each(self) -> None:
        """Make librdkafka's consumer and give it the partitions.

        :raises RdKafkaException: librdkafka refuses the settings
        """
        try:
            self._rdk_consumer = self._confluent_kafka.Consumer(self._settings())
        except self._confluent_kafka.KafkaException as error:
            raise RdKafkaException(f"librdkafka cannot make a consumer: {error}", topic=self.name) from error
        self._assign()

    def _assign(self) -> None:
        """Assign the partitions to librdkafka, each from its position."""
        with self._rdk_lock:
            self._adrift = True
            self._assign_anew()

    def _assign_anew(self) -> None:
        """Assign the partitions to librdkafka; the caller holds the lock, and has set `_adrift`."""
        consumer = self._rdk_consumer
        if consumer is not None:
            self.handler.offload(self._assign_to, consumer)

    def _assign_to(self, consumer: Any) -> None:
        # No message is handed out before this is done; if another call was first, nothing is left to do.
        with self._calling:
            if self._adrift:
                kind = self._confluent_kafka.TopicPartition
                consumer.assign([kind(*key, position) for key, position in self.positions().items()])
                self._ready.clear()
                self._records.clear()
                self._adrift = False

    def detach_all(self) -> None:
        """End librdkafka's consumer; commits nothing."""
        with self._rdk_lock:
            last = [self._rdk_consumer]
            self._rdk_consumer = None
            self._ready.clear()
            self._records.clear()
            if last[0] is not None:
                end(self.handler, partial(_close, last, self._calling), f"its consumer of {self.name}")

    def after_fork(self) -> None:
        """Leave librdkafka's consumer, workers and locks to the parent process."""
        if self._rdk_consumer is not None:
            keep_for_ever(self._rdk_consumer)
        self._rdk_consumer = None
        super().after_fork()

    def move(self, key: TopicPartition, position: int, last_offset_consumed: int) -> None:
        """Set a partition's position; for parameters see `BlockingEngine.move`."""
        with self._rdk_lock:  # else a message that is handed out at this moment would set the position afterwards
            self._adrift = True
            super().move(key, position, last_offset_consumed)

    def begin(self, owned: OwnedPartition) -> None:
        """Assign partitions that were added to librdkafka, too."""
        self._assign()

    # -- consuming -------------------------------------------------------------------------------------------------

    def next_slowly(self, block: bool, unblock_event: Any) -> Message | None:
        """Return the next message of librdkafka's; None if there is none (in time)."""
        timeout_ms = self.options.consumer_timeout_ms
        deadline = None if timeout_ms < 0 else self.handler.now() + timeout_ms / 1000
        while True:
            self.raise_errors()
            if self.running and self.options.auto_offset_reset == NO_RESET:
                self._ask_the_user()
                self.raise_errors()
            self.check_running()
            remaining = SLICE_S if deadline is None else min(SLICE_S, deadline - self.handler.now())
            message = self._take(max(remaining, 0.0) if block else 0.0)
            if message is not None or not block or remaining <= 0:
                return message
            if unblock_event is not None and unblock_event.is_set():
                return None
            self.handler.sleep()  # let others have the lock: a greenlet would take it again before them

    def take(self, max_messages: int) -> list[Message]:
        """Return messages that librdkafka has given already."""
        with self._rdk_lock:
            count = min(max_messages, len(self._ready)) if self._may_hand_out() else 0
            return [self._hand_out() for _ in range(count)]

    def _take(self, seconds: float) -> Message | None:
        """Return the next message; ask librdkafka for more if there is none."""
        if self.buffers.closed:  # during a rebalance no message may be handed out
            self.has_arrived.clear()
            self.has_arrived.wait(seconds)
            return None
        if not self._ready:
            self.tick()
        with self._rdk_lock:
            if self._adrift:
                self._assign_anew()
            if not self._ready and not self._records and self._rdk_consumer is not None:
                asked = self.handler.offload(self._pull, self._rdk_consumer, seconds)
                if not asked:
                    self.handler.sleep(min(seconds, BUSY_S))
            self._sort()
            return self._hand_out() if self._may_hand_out() and self._ready else None

    def _may_hand_out(self) -> bool:
        return not self.buffers.closed and not self._adrift

    def _pull(self, consumer: Any, seconds: float) -> bool:
        """Put librdkafka's messages into `_records`; return False if another call is doing so."""
        if not self.handler.cooperative:
            with self._calling:
                self._pull_alone(consumer, seconds)
            return True
        # In another thread, where no signal arrives. Calls whose greenlets were ended do not fill it up.
        if not self._calling.acquire(False):
            return False
        try:
            self._pull_alone(consumer, seconds)
        finally:
            self._calling.release()
        return True

    def _pull_alone(self, consumer: Any, seconds: float) -> None:
        if consumer is self._rdk_consumer:  # else it is closed, or about to be
            # In one step of C: a Ctrl-C between taking messages and storing them would lose them.
            self._records.extend(chain.from_iterable(map(consumer.consume, (AT_A_TIME,), (seconds,))))

    def _sort(self) -> None:
        """Convert librdkafka's records to messages and errors; the caller holds the lock."""
        while self._records:
            record = self._records.popleft()
            error = record.error()
            if error is None:
                self._ready.append(self._message_of(record))
            elif error.code() == self._confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                key = _key(record)
                self._stranded[key] = self.partitions[key].moves
            else:
                self.errors.append(error_from(error, topic=record.topic(), partition=record.partition()))

    def _ask_the_user(self) -> None:
        """Report to `consume()`, once a second, partitions whose next position only the application can name."""
        parts = self.partitions
        adrift = [one for key, one in parts.items() if one.position < 0 or self._stranded.get(key) == one.moves]
        now = self.handler.now()
        if adrift and now >= self._tell_at:
            self._tell_at = now + TELL_S
            self.errors.extend(reset_needed(self, adrift).values())

    def _hand_out(self) -> Message:
        """Hand out the next message; the caller holds the lock, and there is one."""
        message = self._ready.popleft()
        owned = self.partitions[key_of(message)]
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
        message.partition = self.partitions[_key(record)].partition
        return message


def _close(last: list[Any], calling: LockType) -> None:
    with calling:  # after a running call, even one whose greenlet was ended by a timeout
        last.pop().close()


def _key(record: Any) -> TopicPartition:
    return TopicPartition(record.topic(), record.partition())
