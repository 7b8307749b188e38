"""The records of an answer, as the application gets them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.protocol.records import scan
from pykafka.record import Record
from pykafka.sharegroups.acquired_records import Held, Kind, Ledger, Owner

if TYPE_CHECKING:
    from pykafka.protocol import wire
    from pykafka.protocol.records import RawBatch


Found = dict[int, "Record[Any, Any]"]


def read(
    key: TopicPartition,
    part: wire.ShareFetchResponse.Topic.Partition,
    offload: Callable[..., Any],
    max_unpacked: int,
) -> tuple[Found, KafkaException | None]:
    """Return the records of the acquired batches by offset, and what is wrong with the bytes behind them.

    :param offload: of the handler
    :param max_unpacked: what a batch may unpack to (bytes)
    """
    ranges = [(one.first_offset, one.last_offset) for one in part.acquired_records]
    found: Found = {}
    if ranges and part.records is not None:
        try:
            for batch in scan(bytes(part.records))[0]:
                if any(first < batch.next_offset and batch.base_offset <= last for first, last in ranges):
                    _read(found, key, batch, offload, max_unpacked)
        except KafkaException as failure:
            return found, failure
    return found, None


def note(
    owner: Owner,
    ledger: Ledger,
    key: TopicPartition,
    part: wire.ShareFetchResponse.Topic.Partition,
    found: Found,
    expires_at: float,
    rest: Kind,
) -> list[Record[Any, Any]]:
    """Note in the ledger what this member has acquired, and return the records. The caller holds the lock.

    Offsets without a record (ends of transactions, compacted ones) are acknowledged as gaps.

    :param owner: takes what the application decides
    :param expires_at: when the locks end (s)
    :param rest: what becomes of offsets behind the last record: released, where bytes are no records
    """
    good = []
    offsets = sorted(found)
    for one in part.acquired_records:
        first, last, at = one.first_offset, one.last_offset, one.first_offset
        for offset in offsets[bisect_left(offsets, first) : bisect_right(offsets, last)]:
            if offset > at:
                ledger.fill(key, at, offset - 1, Kind.GAP)
            held = Held(owner, ledger, key, offset, one.delivery_count, expires_at)
            ledger.add(held)
            found[offset]._set_ack(held)
            good.append(found[offset])
            at = offset + 1
        if at <= last:
            ledger.fill(key, at, last, rest)
    return good


def _read(found: Found, key: TopicPartition, batch: RawBatch, offload: Callable[..., Any], max_unpacked: int) -> None:
    large = batch.size > 64 * 1024
    reader = offload(batch.open, max_unpacked=max_unpacked) if large else batch.open(max_unpacked=max_unpacked)
    reader.topic = key.topic
    reader.partition_id = key.partition
    reader.leader_epoch = batch.leader_epoch
    while (record := reader.next_record()) is not None:
        found[record.offset] = record
