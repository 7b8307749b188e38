"""What a consumer can be told, in one place: defaults and checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import index
from typing import Any, Literal

from pykafka.common import OffsetType
from pykafka.consumer.aborted import isolation_number
from pykafka.consumer.fetcher import FetchSettings
from pykafka.partition import Partition, TopicView
from pykafka.utils import INT64_MAX
from pykafka.utils.error_handlers import valid_int

#: How much a consumer buffers by default (bytes).
QUEUED_MAX_BYTES = 64 * 1024 * 1024
#: How long auto-commit may fail by default before anybody hears of it (ms): longer than coordinators take to move.
AUTO_COMMIT_TIMEOUT_MS = 5 * 60 * 1000

#: What `auto_offset_reset` is called in Java's client.
NO_RESET: Literal["none"] = "none"
RESETS: dict[str, int | Literal["none"]] = {
    "earliest": int(OffsetType.EARLIEST),
    "latest": int(OffsetType.LATEST),
    NO_RESET: NO_RESET,
}


#: How old the brokers' metadata may become by default before it is asked for anew (ms): new partitions are noticed by then.
METADATA_MAX_AGE_MS = 60 * 1000


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
    auto_offset_reset: int | Literal["none"]
    consumer_timeout_ms: int
    reset_offset_on_start: bool
    reset_offset_on_fetch: bool
    isolation_level: str
    queued_max_bytes: int
    auto_commit_timeout_ms: int
    metadata_max_age_ms: int

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
            "queued_max_bytes",
            "metadata_max_age_ms",
        ):
            valid_int(options[name], name=name)
        for name in (
            "fetch_min_bytes",
            "fetch_error_backoff_ms",
            "fetch_wait_max_ms",
            "offsets_channel_backoff_ms",
            "offsets_commit_max_retries",
            "auto_commit_timeout_ms",
        ):
            valid_int(options[name], allow_zero=True, name=name)
        valid_int(options["consumer_timeout_ms"], allow_zero=True, allow_negative=True, name="consumer_timeout_ms")
        isolation_number(options["isolation_level"])
        reset = valid_reset(options["auto_offset_reset"])
        if reset == NO_RESET and options["reset_offset_on_start"]:
            raise ValueError('reset_offset_on_start goes to auto_offset_reset, which says nowhere: it is "none"')
        if options["auto_commit_enable"] and options["consumer_group"] is None:
            raise ValueError("auto_commit_enable needs a consumer_group to commit for")
        return cls(**options | {"auto_offset_reset": reset})

    def reset_position(self) -> int:
        """Return where `auto_offset_reset` says to go.

        :raises ValueError: it says nowhere
        """
        if isinstance(self.auto_offset_reset, str):
            raise ValueError(
                'auto_offset_reset is "none": say where to go, as reset_offsets([(partition, OffsetType.EARLIEST)]) does'
            )
        return self.auto_offset_reset

    def fetch_settings(self, partition_id: int) -> FetchSettings:
        """Return what decides with whom a partition's fetch worker is shared."""
        return FetchSettings(
            self.fetch_wait_max_ms,
            self.fetch_min_bytes,
            isolation_number(self.isolation_level),
            partition_id % self.num_consumer_fetchers,
        )


def valid_reset(param: Any) -> int | Literal["none"]:
    """Return what `auto_offset_reset` was given as: an OffsetType's number, or "none".

    :param param: what was given
    :raises TypeError, ValueError: it is none of them
    """
    found = RESETS.get(param) if isinstance(param, str) else None
    if found is not None:
        return found
    wanted = (
        'auto_offset_reset must be OffsetType.EARLIEST ("earliest"), OffsetType.LATEST ("latest"), or "none", '
        f"not {param!r}; seek() goes to an offset"
    )
    if isinstance(param, str):
        raise ValueError(wanted)
    reset = int(valid_int(param, allow_zero=True, allow_negative=True, name="auto_offset_reset"))
    if reset not in (OffsetType.EARLIEST, OffsetType.LATEST):
        raise ValueError(wanted)
    return reset


def valid_pairs(param: Any, lowest: int = -1, *, or_time: bool = False) -> list[tuple[Partition, Any]]:
    """Return (partition, offset) pairs.

    :param param: what was given
    :param lowest: the lowest offset that will do
    :param or_time: whether a datetime will do for an offset
    :raises TypeError: one of them is no such pair
    :raises ValueError: an offset is out of bounds
    """
    found: list[tuple[Partition, Any]] = []
    for pair in param if isinstance(param, Iterable) else [param]:
        try:
            partition, where = pair
            if not (or_time and isinstance(where, datetime)):
                where = index(where)
        except (TypeError, ValueError):
            partition, where = None, None
        if not isinstance(partition, Partition):
            kind = "an offset or a datetime" if or_time else "an offset"
            raise TypeError(f"a Partition and {kind} are wanted in each pair of partition_offsets, not {pair!r}")
        if isinstance(where, int) and not lowest <= where < INT64_MAX:
            raise ValueError(f"an offset of {partition!r} must be from {lowest} to 2**63 - 2, not {where}")
        found.append((partition, where))
    return found


def valid_partitions(param: Any, topic: TopicView) -> list[Partition]:
    """Return the partitions that a consumer is to read.

    :param param: what was given
    :param topic: whose they must be
    :raises TypeError: it is no series of them
    :raises ValueError: one of them is another topic's
    """
    found = list(param) if isinstance(param, Iterable) else [param]
    for one in found:
        if not isinstance(one, Partition):
            raise TypeError(
                f"partitions must be a list of Partitions, as topic.partitions.values() has them; "
                f"{one!r} in it is {type(one).__name__}"
            )
        if one != topic.partitions.get(one.id):
            raise ValueError(f"partitions must be those of {topic!r}; {one!r} is not")
    return found
