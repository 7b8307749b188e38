"""The settings of a producer: defaults, checks and descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from pykafka.common import CompressionType
from pykafka.producer.buffer_pool import NO_LIMIT
from pykafka.utils import INT64_MAX, get_string
from pykafka.utils.compression import check_level
from pykafka.utils.error_handlers import refuse_async, valid_bool, valid_callable
from pykafka.utils.option_table import (
    INT32_MAX,
    Settings,
    above_0,
    anything,
    at_least_0,
    integer,
    one_of,
    optional,
    setting,
    up_to,
)

if TYPE_CHECKING:
    from pykafka.metadata.partition import Partition


#: A record batch's own header, with what a request adds around it (bytes).
BATCH_OVERHEAD = 200
#: What the fields of a request hold.
ACKS_MAX = 2**15 - 1

COMPRESSION_COSTS = (
    "Compression takes CPU, and saves network and the brokers' disks. LZ4 is cheap, ZSTD is small. Larger batches "
    "(`linger_ms`) compress better."
)
IDEMPOTENCE_COSTS = "Next to nothing. Without it a message that is sent again may be stored twice, and out of order."
LINGER_COSTS = (
    "Latency against throughput: a longer time fills batches, which cost less CPU and compress better. "
    "Full batches never wait."
)

#: Kafka's own default of retries: without a bound but `delivery_timeout_ms`.
RETRIES_MAX = 2**31 - 1
#: Messages that may be queued for a broker, or wait for `on_delivery`; `buffer_memory` is the usual bound.
QUEUED_MAX = 1_000_000


def _codec(value: Any, name: str) -> int:
    codec = integer(value, name)
    if codec not in tuple(CompressionType):
        raise ValueError(f"{name} must be one of pykafka.common.CompressionType, not {codec!r}")
    return int(codec)


def _acks(value: Any, name: str) -> int:
    if not -1 <= integer(value, name) <= ACKS_MAX:
        raise ValueError(f"{name} must be -1 (all replicas), 0, or 1 to {ACKS_MAX}, not {value}")
    return int(value)


def _request_size(value: Any, name: str) -> int:
    if above_0(value, name) <= BATCH_OVERHEAD:
        raise ValueError(f"{name} must be above {BATCH_OVERHEAD} bytes, not {value}")
    return int(value)


def _on_recreated(value: Any, name: str) -> str:
    return one_of(("continue", "fail"), value, name)


@dataclass(frozen=True)
class SendingOptions(Settings):
    """The settings that every producer has, with the same defaults and meanings."""

    delivery_timeout_ms: int = setting(
        120 * 1000,
        at_least_0,
        "how old a message may get before it has failed (ms)",
        costs="A longer time survives longer outages; messages wait in memory meanwhile, and fail later.",
    )
    ack_timeout_ms: int = setting(
        10 * 1000,
        partial(up_to, INT32_MAX, at_least_0),
        "how long the leader may wait for replicas (ms)",
        costs="A short time fails batches, which are then sent again, while replicas are slow. Only with "
        'acks of -1 ("all") the leader waits.',
    )
    retry_backoff_ms: int = setting(
        100,
        at_least_0,
        "pause before the first time (ms), give or take a fifth; twice as long each time after that",
        costs="A shorter pause recovers sooner, and asks a cluster in trouble more often.",
    )
    retry_backoff_max_ms: int = setting(
        1000,
        at_least_0,
        "the longest such pause (ms); `retry_backoff_ms` where that is longer",
        costs="As `retry_backoff_ms`.",
    )
    compression_level: int | None = setting(
        None,
        optional(integer),
        "how hard the codec tries: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22; None: the codec's own (6 for gzip, 3 for "
        "zstd, the fast mode for lz4); snappy has none",
        allowed="None, an int within the codec's bounds",
        costs="A higher level makes batches smaller and takes more CPU, several times as much at the upper end.",
    )
    max_failed_bytes: int = setting(
        32 * 1024 * 1024, above_0, "how many bytes these may take", costs="As `max_failed_messages`."
    )


@dataclass(frozen=True)
class ProducerOptions(SendingOptions):
    """The settings of a producer; parameters of `Producer`."""

    compression: int = setting(
        CompressionType.NONE,
        _codec,
        "a `pykafka.common.CompressionType`",
        allowed="`CompressionType.NONE`, `GZIP`, `SNAPPY`, `LZ4`, `ZSTD`",
        costs=COMPRESSION_COSTS,
    )
    max_retries: int = setting(
        3,
        at_least_0,
        "how often a batch is sent again that a broker found wrong or, where batches have no sequence numbers "
        "(`enable_idempotence`), may have stored without saying so; a cluster that is not ready (no leader, brokers down, too "
        "few replicas in sync) is waited for until `delivery_timeout_ms`",
        costs="0 turns idempotence off; a message whose answer is lost then fails at once.",
    )
    required_acks: int = setting(
        1,
        _acks,
        "1 waits for the leader's log, -1 for all replicas in sync, 0 for nothing; with 1, the default, a message is lost if "
        "the leader fails before another replica has copied it; -1 keeps it, and makes the producer idempotent",
        allowed="-1, 0, 1 to 32767; brokers know -1, 0 and 1",
        costs="-1 adds a round trip among brokers to each batch. 0 is fastest, and hides every loss.",
    )
    max_queued_messages: int = setting(
        100000,
        above_0,
        "for each broker; beyond, `produce()` blocks or raises",
        costs="Memory. A larger queue rides out a longer outage before `produce()` blocks.",
    )
    max_queued_bytes: int = setting(
        256 * 1024 * 1024,
        above_0,
        "for each broker, as `max_queued_messages` (bytes)",
        costs="Memory: so much for each broker at most.",
    )
    min_queued_messages: int = setting(
        70000,
        anything,
        "for each broker; from this many on, batches are sent without lingering",
        costs="A lower number sends sooner under load, in smaller batches.",
    )
    linger_ms: int = setting(
        5 * 1000,
        at_least_0,
        "how long a message may wait for others to fill its batch (ms); 0 sends at once; with the default a lone message "
        "leaves after 5 seconds, so choose 0 to 50 where somebody waits for it",
        costs=LINGER_COSTS,
    )
    block_on_queue_full: bool = setting(
        True,
        anything,
        "whether a full queue blocks `produce()` or raises",
        costs="False makes your code handle `ProducerQueueFullError`; True holds up the caller while the cluster is "
        "away.",
    )
    max_request_size: int = setting(
        1000012,
        _request_size,
        "of one request (bytes); a batch is full when it would fill a request alone",
        allowed="above 200",
        costs="Larger batches cost less for each message. Brokers refuse batches above the topic's "
        "`max.message.bytes` (1048588).",
    )
    sync: bool = setting(
        False,
        anything,
        "whether `produce()` waits for the acknowledgement, and raises what went wrong",
        costs="A round trip for each message; `linger_ms` and `min_queued_messages` have no effect.",
    )
    delivery_reports: bool = setting(
        False,
        anything,
        "keep a report of each message for `get_delivery_report()`, which must be called for each: they are kept until then, "
        "however many; a warning is logged once where a thread or greenlet has `max_queued_messages`, or `max_queued_bytes` "
        "in messages, that it has not read",
        costs="An object for each message, kept until it is read.",
    )
    pending_timeout_ms: int = setting(
        5 * 1000,
        at_least_0,
        "how long `stop()` waits while no message gets through (ms)",
        costs="A short time ends sooner when the cluster is away, and loses what a slow cluster would have taken.",
    )
    serializer: Callable[[Any, Any], tuple[Any, Any]] | None = setting(
        None,
        valid_callable,
        "`(message, partition_key) -> (bytes, bytes)`",
        costs="A call of Python for each message, in the thread or greenlet that produces.",
    )
    enable_idempotence: bool | None = setting(
        None,
        optional(valid_bool),
        "number the batches of each partition (KIP-98), so that what is sent again is stored once and in its place, with up to "
        "five batches under way; None: where `required_acks` is -1, retries are allowed, and brokers can (0.11 on); True: or "
        "refuse",
        allowed="None, True, False",
        costs=IDEMPOTENCE_COSTS,
    )
    on_delivery: Callable[..., object] | None = setting(
        None,
        valid_callable,
        "`(error, message)`, called for each message when it is acknowledged (error is None) or has failed, by a worker of its "
        "own, in the order of each partition; what it raises is logged; on greenlets it must not hold up the hub. `flush()` "
        "and `stop()` wait for it. For an `offset` of -1 see `Message.offset`",
        costs="A call of Python for each message. A slow callback fills the queue, and `produce()` then waits for it.",
    )
    max_failed_messages: int = setting(
        10_000,
        above_0,
        "how many messages may have failed without anybody being told (by `on_delivery`, a report, or what `flush()` raises); "
        "beyond, `produce()` raises `MessagesNotDelivered` with all of them, and forgets them",
        costs="Memory, for messages that nobody asked about.",
    )
    on_topic_recreated: Literal["continue", "fail"] = setting(
        "continue",
        _on_recreated,
        'what becomes of messages for a topic that was deleted and made anew: "continue" sends them to the new topic, with a '
        'warning that has both ids; "fail" fails them with `TopicRecreatedError` until the producer is started again. Brokers '
        "tell topics apart since Kafka 4.1; with 2.8 to 4.0 the client compares ids when it asks for metadata; older ones "
        "have no ids, and messages go to the new topic",
        allowed='`"continue"`, `"fail"`',
        costs='"continue" may write to a topic with other settings, or another owner\'s.',
    )

    def _check_together(self) -> None:
        if self.compression_level is not None:
            check_level(self.compression, self.compression_level)
        if self.on_delivery is not None and self.delivery_reports:
            raise ValueError("give on_delivery or delivery_reports=True, not both: each message is told once")
        if self.enable_idempotence and self.required_acks != -1:
            raise ValueError(
                f"enable_idempotence=True needs required_acks to be -1 (all replicas), not {self.required_acks}"
            )
        if self.enable_idempotence and self.max_retries == 0:
            raise ValueError("enable_idempotence=True needs max_retries to be at least 1, not 0")
        if self.sync:
            self._set("linger_ms", 0)
            self._set("min_queued_messages", 1)
        above_0(self.min_queued_messages, "min_queued_messages")

    @property
    def idempotent(self) -> bool:
        """Whether batches have sequence numbers if brokers support them."""
        return self.enable_idempotence is not False and self.required_acks == -1 and self.max_retries > 0

    #: What unacknowledged messages may take together (bytes); `max_queued_bytes` bounds them for each broker.
    memory_limit: ClassVar[int] = NO_LIMIT
    #: The size at which a batch is full, if that is not `batch_limit` (bytes).
    full_at: ClassVar[int | None] = None

    @property
    def batch_limit(self) -> int:
        """The size that a batch, and so a message, may have (bytes, uncompressed)."""
        return self.max_request_size - BATCH_OVERHEAD

    @property
    def batch_full(self) -> int:
        """The size of a full batch (bytes, uncompressed)."""
        return self.batch_limit if self.full_at is None else min(self.full_at, self.batch_limit)

    @property
    def linger_s(self) -> float:
        """How long a message may wait for others (s)."""
        return self.linger_ms / 1000

    @property
    def delivery_timeout_s(self) -> float:
        """The age at which an undelivered message fails (s)."""
        return self.delivery_timeout_ms / 1000


# -- of `KafkaProducer` ------------------------------------------------------------------------------------------------


def _codec_by_name(value: Any, name: str) -> int:
    if value is None:
        return int(CompressionType.NONE)
    if isinstance(value, str):
        names = [codec.name.lower() for codec in CompressionType]
        return int(CompressionType[one_of(names, value.lower(), name).upper()])
    return _codec(value, name)


def _acks_by_name(value: Any, name: str) -> int:
    if isinstance(value, str):
        one_of(("all", "-1", "0", "1"), value, name)
        return -1 if value == "all" else int(value)
    if integer(value, name) not in (-1, 0, 1):
        raise ValueError(f'{name} must be "all" (or -1), 0 or 1, not {value}')
    return int(value)


def _on_full(value: Any, name: str) -> str:
    return one_of(("wait", "raise"), value, name)


def _interceptors(value: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of interceptors, not {type(value).__name__}: {value!r}")
    found = tuple(value)
    for one in found:
        if not callable(getattr(one, "on_send", None)) and not callable(getattr(one, "on_acknowledgement", None)):
            raise TypeError(f"each of {name} needs on_send(record) or on_acknowledgement(delivery, error), not {one!r}")
        refuse_async(one, ("on_send", "on_acknowledgement"), name)
    return found


def _transactional_id(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {type(value).__name__}: {value!r}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    return get_string(value)


@dataclass(frozen=True)
class KafkaProducerOptions(SendingOptions):
    """The settings of a producer for any topic; parameters of `KafkaProducer`."""

    acks: Literal["all", -1, 0, 1] = setting(
        "all",
        _acks_by_name,
        '"all" (or -1) waits for all replicas in sync; 1 for the leader\'s log alone: a message is lost if the leader fails '
        "before another replica has copied it; 0 for nothing",
        allowed='`"all"`, -1, 0, 1',
        costs='"all" adds a round trip among brokers to each batch. 0 is fastest, and hides every loss.',
    )
    enable_idempotence: bool | None = setting(
        None,
        optional(valid_bool),
        "number the batches of each partition (KIP-98), so that what is sent again is stored once and in its place; None: "
        'where `acks` is "all", retries are allowed, and brokers can (0.11 on); True: or refuse',
        allowed="None, True, False",
        costs=IDEMPOTENCE_COSTS,
    )
    linger_ms: int = setting(
        5,
        at_least_0,
        "how long a message may wait for others to fill its batch (ms); 0 sends at once; `Delivery.get()` and `flush()` send "
        "without waiting",
        costs=LINGER_COSTS,
    )
    batch_size: int | None = setting(
        None,
        optional(above_0),
        "at which size a batch is full (bytes, uncompressed); None: when it fills a request. A larger message has a batch of "
        "its own",
        allowed="None, 1 or more",
        costs="Small batches cost more CPU for each message, here and on the brokers. None costs no memory beyond what is "
        "written.",
    )
    max_request_size: int = setting(
        1000012,
        partial(up_to, INT32_MAX, _request_size),
        "of one request, and so of a message (bytes)",
        allowed=f"{BATCH_OVERHEAD + 1} to {INT32_MAX}",
        costs="Brokers refuse batches above the topic's `max.message.bytes` (1048588).",
    )
    compression: Any = setting(
        "none",
        _codec_by_name,
        'the codec: "none", "gzip", "snappy", "lz4" or "zstd", or a `pykafka.common.CompressionType`',
        allowed='`"none"`, `"gzip"`, `"snappy"`, `"lz4"`, `"zstd"`',
        costs=COMPRESSION_COSTS,
    )
    buffer_memory: int = setting(
        32 * 1024 * 1024,
        partial(up_to, INT64_MAX, above_0),
        "what messages may take that are not acknowledged yet (bytes); beyond, `produce()` waits or raises. "
        "`KafkaClient(buffer_memory=)` bounds all producers of the client together",
        costs="Memory. A larger budget rides out a longer outage before `produce()` waits.",
    )
    on_full: Literal["wait", "raise"] = setting(
        "wait",
        _on_full,
        'what `produce()` does without room: "wait" for `max_block_ms`, or "raise" `ProducerQueueFullError` at once; `room()` '
        "tells before",
        allowed='`"wait"`, `"raise"`',
        costs='"raise" makes your code handle the error; "wait" holds up the caller while the cluster is away.',
    )
    max_block_ms: int = setting(
        60 * 1000,
        at_least_0,
        "how long `produce()` may wait for room, and for the metadata of a topic (ms)",
        costs="A short time tells of a cluster that is away sooner, and of a slow one as well.",
    )
    max_retries: int = setting(
        RETRIES_MAX,
        at_least_0,
        "how often a batch is sent again, within `delivery_timeout_ms`, that a broker found wrong or, where batches have no "
        "sequence numbers, may have stored without saying so; a cluster that is not ready is waited for in any case",
        costs="0 turns idempotence off; a message whose answer is lost then fails at once.",
    )
    on_delivery: Callable[..., object] | None = setting(
        None,
        valid_callable,
        "`(error, delivery)`, called for each message when it is acknowledged (error is None) or has failed, by a worker of "
        "its own, in the order of each partition; what it raises is logged, and raised by `flush()` and `close()`, which "
        "wait for it; on greenlets and asyncio it must not hold up the loop",
        costs="A call of Python for each message. A slow function fills the buffer, and `produce()` then waits for it.",
    )
    interceptors: Iterable[Any] = setting(
        (),
        _interceptors,
        "objects with `on_send(record)`, which may return another `ProducerRecord`, and `on_acknowledgement(delivery, error)`, "
        "or one of them; what they raise is logged, and loses no message",
        costs="Calls of Python for each message.",
    )
    max_failed_messages: int = setting(
        10_000,
        above_0,
        "how many messages may have failed without anybody being told (by `on_delivery`, `Delivery.get()`, or what `flush()` "
        "raises); beyond, `produce()` raises `MessagesNotDelivered` with all of them, and forgets them",
        costs="Memory, for messages that nobody asked about.",
    )
    on_topic_recreated: Literal["continue", "fail"] = setting(
        "continue",
        _on_recreated,
        'what becomes of messages for a topic that was deleted and made anew: "continue" sends them to the new topic, with a '
        'warning that has both ids; "fail" fails them with `TopicRecreatedError`',
        allowed='`"continue"`, `"fail"`',
        costs='"continue" may write to a topic with other settings, or another owner\'s.',
    )

    transactional_id: str | None = setting(
        None,
        optional(_transactional_id),
        "makes a producer that writes in transactions (KIP-98): the name under which the coordinator knows it; a later "
        "producer of this name fences it; None for none",
        allowed="None, a text",
        costs="Two or three round trips for each transaction. Readers with read_committed see messages after their commit.",
    )
    transaction_timeout_ms: int = setting(
        60 * 1000,
        partial(up_to, INT32_MAX, above_0),
        "after which the coordinator aborts a transaction that is still open (ms), and fences the producer; brokers have a "
        "limit, 15 minutes by default",
        costs="A long time lets slow transactions end, and holds up read_committed readers for as long after a crash.",
    )

    def _check_together(self) -> None:
        if self.transactional_id is not None:
            if self.acks != -1:
                raise ValueError(f'transactional_id needs acks to be "all", not {self.acks}')
            if self.enable_idempotence is False:
                raise ValueError("transactional_id needs enable_idempotence to be None or True, not False")
            if self.max_retries == 0:
                raise ValueError("transactional_id needs max_retries to be at least 1, not 0")
            self._set("enable_idempotence", True)
        if self.enable_idempotence and self.acks != -1:
            raise ValueError(f'enable_idempotence=True needs acks to be "all", not {self.acks}')
        self._set("engine", self._of_engine())

    engine: ClassVar[ProducerOptions]

    def _of_engine(self) -> ProducerOptions:
        """Return the same for the engine, which waits by bytes and not by messages."""
        made = ProducerOptions(
            compression=self.compression,
            compression_level=self.compression_level,
            max_retries=self.max_retries,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            required_acks=int(self.acks),
            ack_timeout_ms=self.ack_timeout_ms,
            max_queued_messages=QUEUED_MAX,
            max_queued_bytes=self.buffer_memory,
            min_queued_messages=QUEUED_MAX,
            linger_ms=self.linger_ms,
            max_request_size=self.max_request_size,
            pending_timeout_ms=self.delivery_timeout_ms + self.ack_timeout_ms,
            delivery_timeout_ms=self.delivery_timeout_ms,
            enable_idempotence=self.enable_idempotence,
            max_failed_messages=self.max_failed_messages,
            max_failed_bytes=self.max_failed_bytes,
            on_topic_recreated=self.on_topic_recreated,
        )
        made._set("memory_limit", self.buffer_memory)
        made._set("full_at", self.batch_size)
        return made


class KafkaProducerArguments(TypedDict, total=False):
    """The keyword arguments of `client.producer()`; `KafkaProducer` says what each means."""

    acks: Literal["all", -1, 0, 1]
    enable_idempotence: bool | None
    linger_ms: int
    batch_size: int | None
    max_request_size: int
    compression: Any
    compression_level: int | None
    buffer_memory: int
    on_full: Literal["wait", "raise"]
    max_block_ms: int
    delivery_timeout_ms: int
    ack_timeout_ms: int
    max_retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    partitioner: Callable[[Sequence[Partition], Any], Partition] | None
    on_delivery: Callable[..., object] | None
    interceptors: Iterable[Any]
    max_failed_messages: int
    max_failed_bytes: int
    on_topic_recreated: Literal["continue", "fail"]
    transactional_id: str | None
    transaction_timeout_ms: int
