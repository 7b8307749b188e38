"""`ProducerArguments`: the keyword arguments of `Producer`, for checkers and editors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from pykafka.metadata.partition import Partition
    from pykafka.producer.delivery_callbacks import OnDelivery


class ProducerArguments(TypedDict, total=False):
    """The keyword arguments of `Producer`, which says what each means."""

    partitioner: Callable[[Sequence[Partition], Any], Partition] | None
    compression: int
    max_retries: int
    retry_backoff_ms: int
    required_acks: int
    ack_timeout_ms: int
    max_queued_messages: int
    min_queued_messages: int
    linger_ms: int
    queue_empty_timeout_ms: int
    block_on_queue_full: bool
    max_request_size: int
    sync: bool
    delivery_reports: bool
    pending_timeout_ms: int
    auto_start: bool
    serializer: Callable[[Any, Any], tuple[Any, Any]] | None
    retry_backoff_max_ms: int
    delivery_timeout_ms: int
    max_queued_bytes: int
    enable_idempotence: bool | None
    on_delivery: OnDelivery | None
    max_failed_messages: int
    max_failed_bytes: int
    on_topic_recreated: Literal["continue", "fail"]
    compression_level: int | None
