"""`SimpleConsumerArguments`: the keyword arguments of `SimpleConsumer`, for checkers and editors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pykafka.consumer.deserializing import Deserializer
    from pykafka.consumer.options import OffsetReset
    from pykafka.partition import Partition


class ConsumerArguments(TypedDict, total=False):
    """The keyword arguments that all consumers of a topic have; see `SimpleConsumer`."""

    fetch_message_max_bytes: int
    num_consumer_fetchers: int
    auto_commit_enable: bool
    auto_commit_interval_ms: int
    queued_max_messages: int
    fetch_min_bytes: int
    fetch_error_backoff_ms: int
    fetch_wait_max_ms: int
    offsets_channel_backoff_ms: int
    offsets_commit_max_retries: int
    auto_offset_reset: OffsetReset
    consumer_timeout_ms: int
    auto_start: bool
    reset_offset_on_start: bool
    compacted_topic: bool
    deserializer: Deserializer | None
    reset_offset_on_fetch: bool
    isolation_level: str
    queued_max_bytes: int
    auto_commit_timeout_ms: int
    metadata_max_age_ms: int
    client_rack: str | None


class SimpleConsumerArguments(ConsumerArguments, total=False):
    """The keyword arguments of `SimpleConsumer`; see there."""

    partitions: Iterable[Partition] | None
    generation_id: int
    consumer_id: str | bytes
