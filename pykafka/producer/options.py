"""The options of producers, one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pykafka.common import CompressionType
from pykafka.producer.buffer_pool import NO_LIMIT
from pykafka.utils import INT64_MAX, get_string
from pykafka.utils.compression import check_level
from pykafka.utils.error_handlers import refuse_async, valid_bool, valid_callable
from pykafka.utils.option_table import (
    INT32_MAX,
    Options,
    above_0,
    anything,
    at_least_0,
    integer,
    one_of,
    option,
    optional,
    up_to,
)

if TYPE_CHECKING:
    from pykafka.metadata.partition import Partition


#: A record batch's own header, with what a request adds around it (bytes).
BATCH_OVERHEAD = 200
#: The highest value of the field in a request.
ACKS_MAX = 2**15 - 1
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
class ProducerOptions(Options):
    """The options of a producer: parameters of `Producer`, and of `KafkaProducer`."""

    partitioner: Callable[[Sequence[Partition], Any], Partition] | None = option(
        None,
        valid_callable,
        {
            "topic": "`(partitions, key) -> partition`; by default one partition after another, without regard to keys: "
            "messages of "
            "one key go to all partitions, and have no order; `Murmur2Partitioner()` sends a key to one, as Kafka's Java "
            "producer does",
            "producer": "`(partitions, key) -> partition`, for messages that name none; None: by key, else uniform sticky",
        },
        allowed={
            "topic": "`RandomPartitioner()`, `Murmur2Partitioner()`, `HashingPartitioner()`, ... or a function",
            "producer": "a function",
        },
        costs={
            "topic": "The default loses the order of the messages of one key. Any other is a call of Python for each message.",
            "producer": "Any but None is a call of Python for each message.",
        },
    )
    compression: int = option(
        {"topic": CompressionType.NONE, "producer": "none"},
        {"topic": _codec, "producer": _codec_by_name},
        {
            "topic": "a `pykafka.common.CompressionType`",
            "producer": 'the codec: "none", "gzip", "snappy", "lz4" or "zstd", or a `pykafka.common.CompressionType`',
        },
        allowed={
            "topic": "`CompressionType.NONE`, `GZIP`, `SNAPPY`, `LZ4`, `ZSTD`",
            "producer": '`"none"`, `"gzip"`, `"snappy"`, `"lz4"`, `"zstd"`',
        },
        costs="Compression takes CPU, and saves network and the brokers' disks. LZ4 is cheap, ZSTD is small. Larger batches "
        "(`linger_ms`) compress better.",
        takes={"producer": "Any"},
        other=("compression.type", "compression.codec"),
    )
    max_retries: int = option(
        {"topic": 3, "producer": RETRIES_MAX},
        at_least_0,
        "how often a batch is sent again, within `delivery_timeout_ms`, that a broker found wrong or, if batches have no "
        "sequence numbers (`enable_idempotence`), may have stored without saying so; a cluster that is not ready (no leader, "
        "brokers down, too few replicas in sync) does not count",
        costs="0 turns idempotence off; a message whose answer is lost then fails at once.",
        other=("retries", "message.send.max.retries"),
    )
    retry_backoff_ms: int = option(
        100,
        at_least_0,
        "pause before the first time (ms), give or take a fifth; twice as long each time after that",
        costs="A shorter pause recovers sooner, and asks a cluster in trouble more often.",
    )
    retry_backoff_max_ms: int = option(
        1000,
        at_least_0,
        "the longest such pause (ms); `retry_backoff_ms` if that is longer",
        costs="As `retry_backoff_ms`.",
    )
    required_acks: int = option(
        {"topic": 1, "producer": "all"},
        {"topic": _acks, "producer": _acks_by_name},
        {
            "topic": "1 waits for the leader's log, -1 for all replicas in sync, 0 for nothing; with 1, the default, a message "
            "is lost if the leader fails before another replica has copied it; -1 keeps it, and makes the producer idempotent",
            "producer": '"all" (or -1) waits for all replicas in sync; 1 for the leader\'s log alone: a message is lost if the '
            "leader fails before another replica has copied it; 0 for nothing",
        },
        allowed={"topic": "-1, 0, 1 to 32767; brokers know -1, 0 and 1", "producer": '`"all"`, -1, 0, 1'},
        costs='-1 ("all") adds a round trip among brokers to each batch. 0 is fastest, and hides every loss.',
        names={"producer": "acks"},
        takes={"producer": 'Literal["all", -1, 0, 1]'},
        other=("acks", "request.required.acks"),
    )
    ack_timeout_ms: int = option(
        10 * 1000,
        partial(up_to, INT32_MAX, at_least_0),
        "how long the leader may wait for replicas (ms)",
        costs="A short time fails batches, which are then sent again, while replicas are slow. Only with acks of -1 "
        '("all") the leader waits.',
        other=("topic.request.timeout.ms",),
    )
    max_queued_messages: int = option(
        {"topic": 100000, "producer": QUEUED_MAX},
        above_0,
        "for each broker; beyond, `produce()` blocks or raises",
        costs="Memory. A larger queue rides out a longer outage before `produce()` blocks.",
        names={"producer": ""},
        other=("queue.buffering.max.messages",),
    )
    max_queued_bytes: int = option(
        {"topic": 256 * 1024 * 1024, "producer": 32 * 1024 * 1024},
        partial(up_to, INT64_MAX, above_0),
        {
            "topic": "for each broker, as `max_queued_messages` (bytes)",
            "producer": "what messages may take that are not acknowledged yet (bytes); beyond, `produce()` waits or raises. "
            "`KafkaClient(buffer_memory=)` bounds all producers of the client together",
        },
        costs={
            "topic": "Memory: so much for each broker at most.",
            "producer": "Memory. A larger budget rides out a longer outage before `produce()` waits.",
        },
        names={"producer": "buffer_memory"},
        other=("buffer.memory", "queue.buffering.max.kbytes"),
    )
    min_queued_messages: int = option(
        {"rdkafka": 2000, "topic": 70000, "producer": QUEUED_MAX},
        anything,
        "for each broker; from this many on, batches are sent without lingering",
        costs="A lower number sends sooner under load, in smaller batches.",
        names={"producer": ""},
    )
    linger_ms: int = option(
        {"topic": 5 * 1000, "producer": 5},
        at_least_0,
        {
            "topic": "how long a message may wait for others to fill its batch (ms); 0 sends at once; with the default a lone "
            "message leaves after 5 seconds, so choose 0 to 50 if a caller waits for it",
            "producer": "how long a message may wait for others to fill its batch (ms); 0 sends at once; `Delivery.get()` and "
            "`flush()` send without waiting",
        },
        costs="Latency against throughput: a longer time fills batches, which cost less CPU and compress better. Full batches "
        "never wait.",
        other=("queue.buffering.max.ms",),
    )
    block_on_queue_full: bool = option(
        True,
        anything,
        "whether a full queue blocks `produce()` or raises",
        costs="False makes your code handle `ProducerQueueFullError`; True holds up the caller while the cluster is away.",
        names={"producer": ""},
    )
    max_request_size: int = option(
        1000012,
        partial(up_to, INT32_MAX, _request_size),
        "of one request, and so of a message (bytes); a batch is full at the latest when it would fill a request alone",
        allowed=f"{BATCH_OVERHEAD + 1} to {INT32_MAX}",
        costs="Larger batches cost less for each message. Brokers refuse batches above the topic's `max.message.bytes` "
        "(1048588).",
        other=("message.max.bytes",),
    )
    sync: bool = option(
        False,
        anything,
        "whether `produce()` waits for the acknowledgement, and raises what went wrong",
        costs="A round trip for each message; `linger_ms` and `min_queued_messages` have no effect.",
        names={"producer": ""},
    )
    delivery_reports: bool = option(
        False,
        anything,
        "keep a report of each message for `get_delivery_report()`, which must be called for each: they are kept until then, "
        "however many; a warning is logged once if a thread or greenlet has `max_queued_messages`, or `max_queued_bytes` in "
        "messages, that it has not read",
        costs="An object for each message, kept until it is read.",
        names={"producer": ""},
    )
    pending_timeout_ms: int = option(
        5 * 1000,
        at_least_0,
        "how long `stop()` waits while no message gets through (ms)",
        costs="A short time ends sooner when the cluster is away, and loses what a slow cluster would have taken.",
        names={"producer": ""},
    )
    serializer: Callable[[Any, Any], tuple[Any, Any]] | None = option(
        None,
        valid_callable,
        "`(message, partition_key) -> (bytes, bytes)`",
        costs="A call of Python for each message, in the thread or greenlet that produces.",
        names={"producer": ""},
    )
    delivery_timeout_ms: int = option(
        120 * 1000,
        at_least_0,
        "how old a message may get before it has failed (ms)",
        costs="A longer time survives longer outages; messages wait in memory meanwhile, and fail later.",
        other=("message.timeout.ms",),
    )
    enable_idempotence: bool | None = option(
        None,
        optional(valid_bool),
        "number the batches of each partition (KIP-98), so that messages that are sent again are stored once and in "
        "order, with "
        "up to five batches in flight; None: if all replicas have to acknowledge, retries are allowed, and brokers can "
        "(0.11 on); "
        "True: raise if that is not so",
        allowed="None, True, False",
        costs="Next to nothing. Without it a message that is sent again may be stored twice, and out of order.",
    )
    on_delivery: Callable[..., object] | None = option(
        None,
        valid_callable,
        {
            "topic": "`(error, message)`, called for each message when it is acknowledged (error is None) or has failed, by a "
            "worker of its own, in the order of each partition; its errors are logged; on greenlets it must not hold up "
            "the hub. `flush()` and `stop()` wait for it. For an `offset` of -1 see `Message.offset`",
            "producer": "`(error, delivery)`, called for each message when it is acknowledged (error is None) or has failed, "
            "by a worker of its own, in the order of each partition; what it raises is logged, and raised by `flush()` and "
            "`close()`, which wait for it; on greenlets and asyncio it must not hold up the loop",
        },
        costs="A call of Python for each message. A slow callback fills the buffer, and `produce()` then waits for it.",
        takes={
            "topic": "OnDelivery | None",
            "producer": "Callable[[KafkaException | None, Delivery[K, V]], object] | None",
        },
    )
    max_failed_messages: int = option(
        10_000,
        above_0,
        "how many messages may have failed without a report (by `on_delivery`, the delivery or its report, or the error that "
        "`flush()` raises); beyond, `produce()` raises `MessagesNotDelivered` with all of them, and forgets them",
        costs="Memory, for messages whose outcome the program did not ask for.",
    )
    max_failed_bytes: int = option(
        32 * 1024 * 1024, above_0, "how many bytes these may take", costs="As `max_failed_messages`."
    )
    on_topic_recreated: Literal["continue", "fail"] = option(
        "continue",
        partial(one_of, ("continue", "fail")),
        'messages for a topic that was deleted and created again: "continue" sends them to the new topic, with a '
        'warning that has both ids; "fail" fails them with `TopicRecreatedError` until the producer is started, or made, '
        "again. Brokers distinguish topics since Kafka 4.1; with 2.8 to 4.0 the client compares ids when it asks for metadata; "
        "older ones have no ids, and messages go to the new topic",
        allowed='`"continue"`, `"fail"`',
        costs='"continue" may write to a topic with other settings, or another owner\'s.',
    )
    compression_level: int | None = option(
        None,
        optional(integer),
        "how hard the codec tries: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22; None: the codec's own (6 for gzip, 3 for "
        "zstd, the fast mode for lz4); snappy has none",
        allowed="None, an int within the codec's bounds",
        costs="A higher level makes batches smaller and takes more CPU, several times as much at the upper end.",
    )

    def _check_together(self) -> None:
        if self.compression_level is not None:
            check_level(self.compression, self.compression_level)
        if self.on_delivery is not None and self.delivery_reports:
            raise ValueError("give on_delivery or delivery_reports=True, not both: each message is reported once")
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

    @property
    def memory_limit(self) -> int:
        """The memory of all unacknowledged messages together (bytes); `max_queued_bytes` bounds them for each broker."""
        return NO_LIMIT

    @property
    def batch_limit(self) -> int:
        """The size that a batch, and so a message, may have (bytes, uncompressed)."""
        return self.max_request_size - BATCH_OVERHEAD

    @property
    def batch_full(self) -> int:
        """The size of a full batch (bytes, uncompressed)."""
        return self.batch_limit

    @property
    def linger_s(self) -> float:
        """How long a message may wait for others (s)."""
        return self.linger_ms / 1000

    @property
    def delivery_timeout_s(self) -> float:
        """The age at which an undelivered message fails (s)."""
        return self.delivery_timeout_ms / 1000


@dataclass(frozen=True)
class KafkaProducerOptions(ProducerOptions):
    """The options of a producer for any topic; parameters of `KafkaProducer`."""

    FACES = ("producer",)

    batch_size: int | None = option(
        None,
        optional(above_0),
        "the size of a full batch (bytes, uncompressed); None: when it fills a request. A larger message has a batch of "
        "its own",
        allowed="None, 1 or more",
        costs="Small batches cost more CPU for each message, here and on the brokers. None costs no memory beyond what is "
        "written.",
        other=("batch.num.messages", "max.batch.size"),
    )
    key_serializer: Any = option(
        None,
        anything,
        "of keys; None: keys are bytes. `pykafka.serialization` has some, and takes those of other clients",
        costs="A call of Python for each message.",
        takes="SerializerLike[K] | None",
    )
    value_serializer: Any = option(
        None, anything, "of values, likewise", costs="As `key_serializer`.", takes="SerializerLike[V] | None"
    )
    on_full: Literal["wait", "raise"] = option(
        "wait",
        partial(one_of, ("wait", "raise")),
        'what `produce()` does without room: "wait" for `max_block_ms`, or "raise" `ProducerQueueFullError` at once; `room()` '
        "says before whether there is some",
        allowed='`"wait"`, `"raise"`',
        costs='"raise" makes your code handle the error; "wait" holds up the caller while the cluster is away.',
    )
    max_block_ms: int = option(
        60 * 1000,
        at_least_0,
        "how long `produce()` may wait for room, and for the metadata of a topic (ms)",
        costs="A short time reports a cluster that is away sooner, and a slow one as well.",
    )
    interceptors: Iterable[Any] = option(
        (),
        _interceptors,
        "objects with `on_send(record)`, which may return another `ProducerRecord`, and `on_acknowledgement(delivery, error)`, "
        "or one of them; what they raise is logged, and loses no message",
        costs="Calls of Python for each message.",
    )
    transactional_id: str | None = option(
        None,
        optional(_transactional_id),
        "makes a producer that writes in transactions (KIP-98): the name under which the coordinator knows it; a later "
        "producer of this name fences it; None for none",
        allowed="None, a text",
        costs="Two or three round trips for each transaction. Readers with read_committed see messages after their commit.",
    )
    transaction_timeout_ms: int = option(
        60 * 1000,
        partial(up_to, INT32_MAX, above_0),
        "after which the coordinator aborts a transaction that is still open (ms), and fences the producer; brokers have a "
        "limit, 15 minutes by default",
        costs="A long time lets slow transactions end, and holds up read_committed readers for as long after a crash.",
    )

    def _check_together(self) -> None:
        if self.transactional_id is not None:
            if self.required_acks != -1:
                raise ValueError(f'transactional_id needs acks to be "all", not {self.required_acks}')
            if self.enable_idempotence is False:
                raise ValueError("transactional_id needs enable_idempotence to be None or True, not False")
            if self.max_retries == 0:
                raise ValueError("transactional_id needs max_retries to be at least 1, not 0")
            self._set("enable_idempotence", True)
        if self.enable_idempotence and self.required_acks != -1:
            raise ValueError(f'enable_idempotence=True needs acks to be "all", not {self.required_acks}')
        self._set("pending_timeout_ms", self.delivery_timeout_ms + self.ack_timeout_ms)
        super()._check_together()

    @property
    def memory_limit(self) -> int:
        """The memory of all unacknowledged messages together (bytes)."""
        return self.max_queued_bytes

    @property
    def batch_full(self) -> int:
        """The size of a full batch (bytes, uncompressed)."""
        return self.batch_limit if self.batch_size is None else min(self.batch_size, self.batch_limit)


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
