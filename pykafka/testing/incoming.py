"""`checked`: whether a broker takes the records of a Produce request, and in which batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from crc32c import crc32c

from pykafka.exceptions import (
    CodecNotAvailableError,
    InvalidMessageError,
    InvalidRecord,
    InvalidTimestamp,
    MessageSizeTooLarge,
    UnknownError,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from pykafka.protocol.records import RawBatch, scan
from pykafka.testing.batches import converted, messages_of, recompressed
from pykafka.utils.compression import NAMES, ZSTD, decompress

if TYPE_CHECKING:
    from pykafka.testing.topics import Topic

_CHECKED_FROM, _HEADER = 21, 61
_FIRST_WITH_BATCHES = 3
_FIRST_WITH_ZSTD = 7
_FOREVER = 2**63 - 1
#: What the setting compression.type may be beside "producer".
_CODECS = {name: codec for codec, name in NAMES.items()} | {"uncompressed": 0}


class Rules(NamedTuple):
    """The rules that records have to comply with.

    :param version: of the Produce request
    :param magic: the message format of the log
    :param now_ms: the time (ms)
    :param blamed: gets index and text of each record that is to blame (KIP-467)
    :param broker: the broker that checks, for its configuration
    """

    version: int
    magic: int
    now_ms: int
    blamed: list[tuple[int, str]]
    broker: int | None = None


def checked(records: Any, topic: Topic, rules: Rules) -> list[RawBatch]:
    """Return the batches of a Produce request, in the message format of the log.

    :param records: bytes, or None
    :param topic: where they go
    :param rules: what they have to comply with
    :raises ProtocolClientError: the broker does not take them
    """
    try:
        raws, cut_off = scan(records) if records is not None else ([], 0)
        if cut_off and not raws:
            raise InvalidMessageError("the records are cut off")
        if rules.version >= _FIRST_WITH_BATCHES:
            _check_version(raws, rules)
        limit = int(topic.setting("max.message.bytes", rules.broker))
        for raw in raws:
            _check_batch(raw, topic, rules, limit)
        return list(_in_format(raws, topic, rules))
    except CodecNotAvailableError as error:
        raise InvalidMessageError(str(error)) from error


def _check_version(raws: list[RawBatch], rules: Rules) -> None:
    if len(raws) != 1 or raws[0].magic != 2:
        found = ", ".join(f"format {raw.magic}" for raw in raws) or "nothing"
        text = f"Produce {rules.version} takes exactly one batch of format 2 for a partition, and got {found}"
        raise InvalidRecord(text)
    if raws[0].codec == ZSTD and rules.version < _FIRST_WITH_ZSTD:
        raise UnsupportedCompressionType(f"Produce {rules.version} does not take records compressed by zstd")


def _check_batch(raw: RawBatch, topic: Topic, rules: Rules, limit: int) -> None:
    if raw.magic == 2:
        if raw.is_control:
            raise InvalidRecord("clients do not write control batches")
        if raw.producer_id >= 0 and raw.base_sequence < 0:
            raise InvalidRecord(f"Invalid sequence number {raw.base_sequence} in record batch")
        if raw.count <= 0 or raw.count != raw.next_offset - raw.base_offset:
            raise InvalidRecord(
                f"a batch says {raw.count} records, and {raw.next_offset - raw.base_offset} offsets",
            )
        if crc32c(raw.data[_CHECKED_FROM:]) != raw.crc:
            raise InvalidMessageError("the checksum of a batch is wrong")
        _check_records(raw)
    else:
        for _ in messages_of(raw):  # which checks all checksums
            pass
    if raw.size > limit:
        raise MessageSizeTooLarge(
            f"a batch of {raw.size} bytes: topic {topic.name} takes {limit} (max.message.bytes)",
        )
    if "compact" in topic.setting("cleanup.policy", rules.broker):
        _check_keys(raw, topic, rules)
    if raw.magic > 0 and topic.setting("message.timestamp.type", rules.broker) == "CreateTime":
        _check_time(raw, topic, rules)


def _check_records(raw: RawBatch) -> None:
    # Brokers go through the records of each batch; here compiled code does, which makes one object for a batch.
    try:
        reader = raw.open()
        reader.skip_to(raw.next_offset - 1)
        if reader.next() is None or reader.next() is not None:
            raise InvalidRecord(f"the records of a batch do not have the offsets of {raw!r}")
    except InvalidMessageError as error:
        raise (InvalidRecord if _unpacks(raw) else UnknownError)(str(error)) from error


def _unpacks(raw: RawBatch) -> bool:
    try:
        decompress(raw.codec, raw.data[_HEADER:])
    except InvalidMessageError:
        return False
    return True


def _check_keys(raw: RawBatch, topic: Topic, rules: Rules) -> None:
    text = f"Compacted topic cannot accept message without key in topic partition {topic.name}."
    without = [(index, text) for index, message in enumerate(messages_of(raw)) if message.partition_key is None]
    if without:
        rules.blamed.extend(without)
        raise InvalidRecord("One or more records have been rejected")


def _check_time(raw: RawBatch, topic: Topic, rules: Rules) -> None:
    if raw.timestamp_type:
        raise InvalidTimestamp("clients do not write batches with append time")
    latest = rules.now_ms + int(topic.setting("message.timestamp.after.max.ms", rules.broker))
    before = int(topic.setting("message.timestamp.before.max.ms", rules.broker))
    if raw.max_timestamp <= latest and before == _FOREVER:
        return
    earliest = rules.now_ms - before
    wrong = [
        (index, f"Timestamp {message.timestamp} of message with offset {index} is out of range [{earliest}, {latest}]")
        for index, message in enumerate(messages_of(raw))
        if not earliest <= message._timestamp <= latest and message._timestamp >= 0
    ]
    if wrong:
        rules.blamed.extend(wrong)
        raise InvalidTimestamp("One or more records have been rejected")


def _in_format(raws: list[RawBatch], topic: Topic, rules: Rules) -> Iterator[RawBatch]:
    kind = topic.setting("compression.type", rules.broker)
    codec = None if kind == "producer" else _CODECS[kind]
    for raw in raws:
        if raw.magic != rules.magic:
            yield from _in_other_format(raw, rules.magic)
        elif raw.magic == 2 and codec is not None and codec != raw.codec:
            yield recompressed(raw, codec)
        else:
            yield raw


def _in_other_format(raw: RawBatch, magic: int) -> list[RawBatch]:
    if raw.producer_id >= 0:
        raise UnsupportedForMessageFormat(f"message format {magic} has no sequence numbers and transactions")
    try:
        return scan(converted(raw, magic))[0]
    except ValueError as error:
        raise UnsupportedCompressionType(str(error)) from error
