"""`KafkaProducerArguments`: the keyword arguments of `client.producer()` but serializers, for checkers and editors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from pykafka.metadata.partition import Partition


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
