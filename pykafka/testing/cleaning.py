"""`compacted`: the batches of a log without records that have a later one of the same key."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykafka.protocol.message import Message
from pykafka.protocol.primitives import read_uvarint
from pykafka.protocol.records import scan
from pykafka.testing.batches import StoredBatch, entries_of, rebuilt
from pykafka.utils.compression import decompress

#: Bytes before the first record of a batch of format 2.
_HEADER = 61
Keeps = Callable[[Message], bool]


def compacted(
    batches: Iterable[StoredBatch], below: int, is_aborted: Callable[[StoredBatch], bool], tombstones: bool
) -> list[StoredBatch]:
    """Return batches as brokers leave them after compaction: offsets stay, so they get gaps.

    :param batches: of the log
    :param below: the offset before which all transactions have ended; what is behind it stays as it is
    :param is_aborted: whether the transaction of a batch was aborted: its records go
    :param tombstones: whether records without a value stay, as they do for delete.retention.ms
    """
    known = list(batches)
    cleaned = [batch for batch in known if batch.next_offset <= below and not batch.is_control]
    latest: dict[bytes, int] = {}
    for batch in cleaned:
        if not is_aborted(batch):
            latest.update(
                {
                    message.partition_key: message.offset
                    for message in batch.messages()
                    if message.partition_key is not None
                }
            )

    def keeps(message: Message) -> bool:
        key = message.partition_key
        return key is not None and latest[key] == message.offset and (tombstones or message.value is not None)

    kept: list[StoredBatch] = []
    for batch in known:
        if batch.is_control or batch.next_offset > below:
            kept.append(batch)
        elif not is_aborted(batch):
            kept += _filtered(batch, keeps)
    return kept


def _filtered(batch: StoredBatch, keeps: Keeps) -> list[StoredBatch]:
    messages = list(batch.messages())
    kept = [keeps(message) for message in messages]
    if all(kept):
        return [batch]
    if not any(kept):
        return []
    chosen = [message for message, is_kept in zip(messages, kept, strict=True) if is_kept]
    newest = max(message._timestamp for message in chosen)
    if batch.magic < 2:
        data = entries_of(chosen, [message.offset for message in chosen], batch.magic, batch.codec)
    else:
        raw = batch.raw()
        pieces = _split(bytes(decompress(raw.codec, raw.data[_HEADER:])))
        records = b"".join(piece for piece, is_kept in zip(pieces, kept, strict=True) if is_kept)
        data = rebuilt(raw, records, len(chosen), newest, raw.codec)
    raw = scan(data)[0][0]
    return [StoredBatch(data, raw, batch.base_offset, batch.next_offset, newest, batch.leader_epoch)]


def _split(records: bytes) -> list[bytes]:
    # Each record begins with its length, a zigzag number, which is never negative.
    view, pieces, at = memoryview(records), [], 0
    while at < len(records):
        length, behind = read_uvarint(view, at, len(records))
        end = behind + (length >> 1)
        pieces.append(records[at:end])
        at = end
    return pieces
