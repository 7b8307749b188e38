"""What a consumer can be told, in one place: defaults and checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pykafka.consumer.fetcher import FetchSettings
from pykafka.utils.error_handlers import valid_int


@dataclass(frozen=True)
class ConsumerOptions:
    """The settings of a consumer; names and units as the parameters of `SimpleConsumer`."""

    consumer_group: str | None
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
    auto_offset_reset: int
    consumer_timeout_ms: int
    reset_offset_on_start: bool
    reset_offset_on_fetch: bool

    @classmethod
    def checked(cls, **options: Any) -> ConsumerOptions:
        """Return options after checking each.

        :raises TypeError, ValueError: one of them is out of bounds, by name
        """
        for name in (
            "fetch_message_max_bytes",
            "num_consumer_fetchers",
            "auto_commit_interval_ms",
            "queued_max_messages",
        ):
            valid_int(options[name])
        for name in (
            "fetch_min_bytes",
            "fetch_error_backoff_ms",
            "fetch_wait_max_ms",
            "offsets_channel_backoff_ms",
            "offsets_commit_max_retries",
        ):
            valid_int(options[name], allow_zero=True)
        valid_int(options["consumer_timeout_ms"], allow_zero=True, allow_negative=True)
        if options["auto_offset_reset"] not in (-1, -2):
            raise ValueError(
                "auto_offset_reset must be OffsetType.EARLIEST or OffsetType.LATEST, "
                f"not {options['auto_offset_reset']}; seek() goes to an offset"
            )
        if options["auto_commit_enable"] and options["consumer_group"] is None:
            raise ValueError("auto_commit_enable needs a consumer_group to commit for")
        return cls(**options)

    def fetch_settings(self, partition_id: int) -> FetchSettings:
        """Return what decides with whom a partition's fetch worker is shared."""
        return FetchSettings(self.fetch_wait_max_ms, self.fetch_min_bytes, 0, partition_id % self.num_consumer_fetchers)
