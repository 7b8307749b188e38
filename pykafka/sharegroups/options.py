"""The options of `ShareConsumer`, one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from pykafka.serialization.reading import OnBadRecord, valid_on_bad_record
from pykafka.sharegroups.acquired_records import Acknowledged
from pykafka.utils import INT64_MAX, get_string
from pykafka.utils.error_handlers import valid_callable
from pykafka.utils.option_table import (
    INT32_MAX,
    Options,
    above_0,
    anything,
    at_least_0,
    at_least_0_or_minus_1,
    one_of,
    option,
    optional,
    up_to,
)

if TYPE_CHECKING:
    from pykafka.serialization.reading import OnBadRecord


#: Called with the outcome of acknowledgements.
OnAcknowledge = Callable[[Acknowledged], object]

MODES = ("implicit", "explicit")
ACQUIRE_MODES = ("batch_optimized", "record_limit")


@dataclass(frozen=True)
class ShareConsumerOptions(Options):
    """The options of `ShareConsumer`."""

    FACES = ("share",)

    group: str = option(
        "", get_string, "the share group, whose members take records of the same partitions", other=("group.id",)
    )
    acknowledgement: str = option(
        "implicit",
        partial(one_of, MODES),
        '"implicit" accepts what a call has returned in the next call, and at `commit()` and `close()`; "explicit" leaves each '
        "record to `accept()`, `release()` or `reject()`",
        allowed='`"implicit"`, `"explicit"`',
        costs='With `"explicit"`, a record that nothing acknowledges comes again when its lock times out.',
    )
    on_acknowledge: OnAcknowledge | None = option(
        None,
        valid_callable,
        "called with an `Acknowledged(partition, offsets, error)` for each outcome, inside later calls of this consumer",
    )
    key_deserializer: Any = option(
        None,
        anything,
        "makes keys of bytes: a function, or an object as kafka-python or confluent-kafka have them; None leaves bytes",
        costs="A call of Python for each record.",
        takes="DeserializerLike[K] | None",
    )
    value_deserializer: Any = option(
        None,
        anything,
        "makes values of bytes, as `key_deserializer` makes keys",
        costs="A call of Python for each record.",
        takes="DeserializerLike[V] | None",
    )
    on_bad_record: OnBadRecord = option(
        "raise",
        valid_on_bad_record,
        "what becomes of a record that cannot be deserialized: the call raises it and the record is released, it is rejected "
        "with a warning, or it is written to a topic for dead letters and accepted",
        allowed='`"raise"`, `"skip"`, `DeadLetters(client, "topic")`',
        costs='`"skip"` loses records; dead letters cost a produced message each.',
    )
    consumer_timeout_ms: int = option(
        -1,
        at_least_0_or_minus_1,
        "how long an iteration waits for the next record before it ends (ms); -1 for as long as it takes",
        allowed="-1, or 0 or more",
    )
    acquire_mode: str = option(
        "batch_optimized",
        partial(one_of, ACQUIRE_MODES),
        '"batch_optimized" takes whole batches, so more records than `max_records` may come; "record_limit" never takes more '
        "(KIP-1206; Kafka 4.2 and later)",
        allowed='`"batch_optimized"`, `"record_limit"`',
        costs='`"record_limit"` costs brokers more for each record.',
    )
    max_records: int = option(
        500,
        partial(up_to, INT32_MAX, above_0),
        "how many records to acquire from a broker at a time",
        other=("max.poll.records",),
        costs="Locks begin when records are acquired: take no more than you handle in `group.share.record.lock.duration.ms`.",
    )
    fetch_min_bytes: int = option(
        1, partial(up_to, INT32_MAX, at_least_0), "how much data the broker waits for (bytes)"
    )
    fetch_max_wait_ms: int = option(
        500,
        partial(up_to, INT32_MAX, at_least_0),
        "how long the broker waits for `fetch_min_bytes` (ms); a `commit()` may wait as long behind a fetch",
        costs="A longer time makes fewer requests on quiet topics.",
    )
    fetch_max_bytes: int = option(
        50 * 1024 * 1024,
        partial(up_to, INT32_MAX, above_0),
        "how much to fetch from a broker at a time (bytes)",
        costs="Memory.",
    )
    client_rack: str | None = option(
        None,
        optional(get_string),
        "the rack, or zone, of this consumer, which the group's assignor gets; None takes that of the client",
    )
    unpacked_max_bytes: int | None = option(
        None,
        optional(partial(up_to, INT64_MAX, above_0)),
        "what one compressed batch may unpack to (bytes); None: four times `fetch_max_bytes`, and 256 MiB at least",
        allowed="1 or more, or None",
        costs="Memory: some kilobytes can unpack to gigabytes. A larger batch is not unpacked: the call raises "
        "`UnpackedTooLargeError`, and the batch is released.",
    )


class ShareConsumerArguments(TypedDict, total=False):
    """The keyword arguments of `client.share_consumer()`, but for deserializers; see `ShareConsumer`."""

    group: str
    acknowledgement: str
    on_acknowledge: OnAcknowledge | None
    on_bad_record: OnBadRecord
    consumer_timeout_ms: int
    acquire_mode: str
    max_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    client_rack: str | None
    unpacked_max_bytes: int | None
