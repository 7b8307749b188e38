"""The settings of a producer: defaults, checks and descriptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pykafka.common import CompressionType
from pykafka.producer.memory import NO_LIMIT
from pykafka.utils.compression import check_level
from pykafka.utils.error_handlers import valid_callable
from pykafka.utils.settings import Settings, above_0, anything, at_least_0, integer, one_of, optional, setting

#: A record batch's own header, with what a request adds around it (bytes).
BATCH_OVERHEAD = 200
#: What the fields of a request hold.
ACKS_MAX = 2**15 - 1
ACK_TIMEOUT_MAX_MS = 2**31 - 1


def _codec(value: Any, name: str) -> int:
    codec = integer(value, name)
    if codec not in tuple(CompressionType):
        raise ValueError(f"{name} must be one of pykafka.common.CompressionType, not {codec!r}")
    return int(codec)


def _acks(value: Any, name: str) -> int:
    if not -1 <= integer(value, name) <= ACKS_MAX:
        raise ValueError(f"{name} must be -1 (all replicas), 0, or 1 to {ACKS_MAX}, not {value}")
    return int(value)


def _ack_timeout(value: Any, name: str) -> int:
    if at_least_0(value, name) > ACK_TIMEOUT_MAX_MS:
        raise ValueError(f"{name} must be at most {ACK_TIMEOUT_MAX_MS}, not {value}")
    return int(value)


def _request_size(value: Any, name: str) -> int:
    if above_0(value, name) <= BATCH_OVERHEAD:
        raise ValueError(f"{name} must be above {BATCH_OVERHEAD} bytes, not {value}")
    return int(value)


def _on_recreated(value: Any, name: str) -> str:
    return one_of(("continue", "fail"), value, name)


@dataclass(frozen=True)
class ProducerOptions(Settings):
    """The settings of a producer; parameters of `Producer`."""

    compression: int = setting(
        CompressionType.NONE,
        _codec,
        "a `pykafka.common.CompressionType`",
        allowed="`CompressionType.NONE`, `GZIP`, `SNAPPY`, `LZ4`, `ZSTD`",
        costs="Compression takes CPU, and saves network and the brokers' disks. LZ4 is cheap, ZSTD is small. Larger "
        "batches (`linger_ms`) compress better.",
    )
    max_retries: int = setting(
        3,
        at_least_0,
        "how often a batch is sent again that a broker found wrong or, where batches have no sequence numbers "
        "(`enable_idempotence`), may have stored without saying so; a cluster that is not ready (no leader, brokers down, too "
        "few replicas in sync) is waited for until `delivery_timeout_ms`",
        costs="0 turns idempotence off; a message whose answer is lost then fails at once.",
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
    required_acks: int = setting(
        1,
        _acks,
        "1 waits for the leader's log, -1 for all replicas in sync, 0 for nothing; with 1, the default, a message is lost if "
        "the leader fails before another replica has copied it; -1 keeps it, and makes the producer idempotent",
        allowed="-1, 0, 1 to 32767; brokers know -1, 0 and 1",
        costs="-1 adds a round trip among brokers to each batch. 0 is fastest, and hides every loss.",
    )
    ack_timeout_ms: int = setting(
        10 * 1000,
        _ack_timeout,
        "how long the leader may wait for replicas (ms)",
        allowed="0 to 2147483647",
        costs="A short time fails batches, which are then sent again, while replicas are slow. Only -1 waits for "
        "replicas.",
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
        costs="Latency against throughput: a longer time fills batches, which cost less CPU and compress better. "
        "Full batches never wait.",
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
    delivery_timeout_ms: int = setting(
        120 * 1000,
        at_least_0,
        "how old a message may get before it has failed (ms)",
        costs="A longer time survives longer outages; messages wait in memory meanwhile, and fail later.",
    )
    serializer: Callable[[Any, Any], tuple[Any, Any]] | None = setting(
        None,
        valid_callable,
        "`(message, partition_key) -> (bytes, bytes)`",
        costs="A call of Python for each message, in the thread or greenlet that produces.",
    )
    enable_idempotence: bool | None = setting(
        None,
        anything,
        "number the batches of each partition (KIP-98), so that what is sent again is stored once and in its place, with up to "
        "five batches under way; None: where `required_acks` is -1, retries are allowed, and brokers can (0.11 on); True: or "
        "refuse",
        allowed="None, True, False",
        costs="Next to nothing. Without it a message that is sent again may be stored twice, and out of order.",
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
    max_failed_bytes: int = setting(
        32 * 1024 * 1024, above_0, "how many bytes these may take", costs="As `max_failed_messages`."
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

    compression_level: int | None = setting(
        None,
        optional(integer),
        "how hard the codec tries: GZIP 1 to 9, LZ4 1 to 17, ZSTD -131072 to 22; None: the codec's own (6 for GZIP, 3 for "
        "ZSTD, the fast mode for LZ4); SNAPPY has none",
        allowed="None, an int within the codec's bounds",
        costs="A higher level makes batches smaller and takes more CPU, several times as much at the upper end.",
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

    @property
    def batch_limit(self) -> int:
        """The size of a full batch (bytes, uncompressed)."""
        return self.max_request_size - BATCH_OVERHEAD

    @property
    def linger_s(self) -> float:
        """How long a message may wait for others (s)."""
        return self.linger_ms / 1000

    @property
    def delivery_timeout_s(self) -> float:
        """The age at which an undelivered message fails (s)."""
        return self.delivery_timeout_ms / 1000
