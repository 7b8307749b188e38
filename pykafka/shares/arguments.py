"""`ShareConsumerArguments`: the keyword arguments of `client.share_consumer()`, for checkers and editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pykafka.sharegroups.options import OnAcknowledge

    from pykafka.serialization.reading import OnBadRecord


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
