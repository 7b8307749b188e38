"""Produce: what a broker writes, refuses, and acknowledges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c

from pykafka.exceptions import (
    InvalidMessageError,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTxnState,
    MessageSizeTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderForPartition,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    UnknownError,
    UnknownProducerId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from pykafka.protocol.messagesets import wrap
from pykafka.protocol.records import scan
from pykafka.testing.behaviour import DataPath
from pykafka.testing.call import HungUpError
from pykafka.testing.topics import Partition
from pykafka.testing.transactions import Identity
from pykafka.utils.compression import compress
from tests.testing.datapath import TIME_MS, Brokers, batch, formats, old_batch, read

VERSIONS = range(14)


def flipped(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 255])


@pytest.mark.parametrize("codec", range(4))
@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_writes_each_codec(version: int, codec: int) -> None:
    brokers = Brokers()
    for first in (0, 3):
        records = (
            batch("a", "b", "c", codec=codec)
            if version > 2
            else old_batch("a", "b", "c", magic=1 if version == 2 else 0, codec=codec)
        )
        answer = brokers.produce(records, version)
        assert (answer.error_code, answer.base_offset) == (0, first)
    assert read(brokers.fetch().records) == list(enumerate("abcabc"))
    assert formats(brokers.fetch().records) == {(2, codec)}


@pytest.mark.parametrize("codec", range(4))
@pytest.mark.parametrize(("numbers", "magic"), [((0, 8, 2), 0), ((0, 9), 0), ((0, 10, 2), 1)])
def test_old_releases_store_message_sets(numbers: tuple[int, ...], magic: int, codec: int) -> None:
    brokers = Brokers()
    brokers.state.data_path = DataPath(numbers)
    for first in (0, 3):
        answer = brokers.produce(old_batch("a", "b", "c", magic=magic, codec=codec), 2 * magic)
        assert (answer.error_code, answer.base_offset) == (0, first)
    records = brokers.fetch(4, 2 * magic).records
    assert formats(records) == {(magic, codec)}
    expected = list(enumerate("abcabc"))
    # A compressed message comes as a whole; of others, those before the offset do not come.
    assert read(records) == (expected[3:] if codec else expected[4:])


def test_inner_offsets_that_do_not_count_from_0_are_written_anew() -> None:
    brokers = Brokers()
    brokers.state.data_path = DataPath((0, 10, 2))
    (raw,) = scan(old_batch("a", "b", magic=1))[0]
    entries = bytearray(raw.data)
    half = len(entries) // 2
    entries[half : half + 8] = (7).to_bytes(8, "big")
    wrapper = wrap(compress(1, bytes(entries), 1), 7, TIME_MS, 1, 1)
    assert brokers.produce(wrapper, 2).error_code == 0
    assert brokers.partition.log.end == 2
    assert read(brokers.fetch(0, 2).records) == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("records", "version", "code"),
    [
        (flipped(batch("a")), 13, InvalidMessageError),
        (flipped(old_batch("a", magic=0)), 0, InvalidMessageError),
        (flipped(old_batch("a", magic=1, codec=1)), 2, InvalidMessageError),
        (batch("a")[:-1], 13, InvalidMessageError),
        (b"\x00" * 40, 13, InvalidMessageError),
        (batch("a") + batch("b"), 13, InvalidRecord),
        (old_batch("a", magic=1), 3, InvalidRecord),
        (None, 13, InvalidRecord),
        (b"", 13, InvalidRecord),
        (batch("a", codec=4), 6, UnsupportedCompressionType),
        (batch("a" * 2000), 13, MessageSizeTooLarge),
        (batch("a", time_ms=2**41), 13, InvalidTimestamp),
    ],
)
def test_refused_records(records: bytes | None, version: int, code: Any) -> None:
    brokers = Brokers(max_message_bytes="1000")
    answer = brokers.produce(records, version)
    assert (answer.error_code, answer.base_offset) == (code.ERROR_CODE, -1)
    assert brokers.partition.log.end == 0


def test_batches_that_contradict_themselves_are_refused() -> None:
    brokers = Brokers()
    for at, value in ((57, 1), (22, 0x30)):  # fewer records than offsets; a control batch
        records = bytearray(batch("a", "b"))
        records[at : at + (4 if at == 57 else 1)] = value.to_bytes(4 if at == 57 else 1, "big")
        assert brokers.produce(bytes(records)).error_code == InvalidRecord.ERROR_CODE


def test_records_to_blame_are_named() -> None:
    brokers = Brokers(cleanup_policy="compact")
    answer = brokers.produce(batch("a", "b", "c", keys=("k", None, None)))
    assert answer.error_code == InvalidRecord.ERROR_CODE
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    brokers = Brokers(message_timestamp_before_max_ms="1000")
    answer = brokers.produce(batch("a", "b"))
    assert answer.error_code == InvalidTimestamp.ERROR_CODE
    assert [error.batch_index for error in answer.record_errors] == [0, 1]


@pytest.mark.parametrize("version", [9, 12, 13])
def test_partitions_that_are_not_there(version: int) -> None:
    brokers = Brokers()
    assert brokers.produce(batch("a"), version, index=7).error_code == UnknownTopicOrPartition.ERROR_CODE
    request = brokers.produce_request(batch("a"), version)
    request.topic_data[0].name, request.topic_data[0].topic_id = "none", brokers.state.new_uuid()
    answer = brokers.ask(request, version).responses[0].partition_responses[0]
    expected = UnknownTopicId if version >= 13 else UnknownTopicOrPartition
    assert answer.error_code == expected.ERROR_CODE


@pytest.mark.parametrize("version", [9, 10, 13])
def test_a_broker_that_does_not_lead_names_the_leader(version: int) -> None:
    brokers = Brokers(2)
    response = brokers.ask(brokers.produce_request(batch("a"), version), version, node=2)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == NotLeaderForPartition.ERROR_CODE
    known = version >= 10
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == ((1, 0) if known else (-1, -1))
    assert [node.node_id for node in response.node_endpoints] == ([1] if known else [])


def test_acks_0_gets_no_answer_and_hangs_up_after_an_error() -> None:
    brokers = Brokers()
    assert brokers.answer(brokers.produce_request(batch("a"), acks=0), 13) is None
    assert brokers.partition.log.end == 1
    with pytest.raises(HungUpError):
        brokers.answer(brokers.produce_request(batch("a"), acks=0, index=9), 13)


def test_acks_that_are_none() -> None:
    brokers = Brokers()
    assert brokers.produce(batch("a"), acks=2).error_code == InvalidRequiredAcks.ERROR_CODE
    assert brokers.partition.log.end == 0
    brokers.state.data_path = DataPath((0, 8, 2))
    answer = brokers.produce(old_batch("a", magic=0), 0, acks=2)
    assert (answer.error_code, answer.base_offset) == (RequestTimedOut.ERROR_CODE, 0)
    assert brokers.partition.log.end == 1


def test_too_few_replicas_in_sync() -> None:
    brokers = Brokers(2, min_insync_replicas="2")
    brokers.partition.isr = [1]
    assert brokers.produce(batch("a")).error_code == NotEnoughReplicas.ERROR_CODE
    assert brokers.produce(batch("a"), acks=1).error_code == 0
    assert brokers.partition.log.end == 1


def test_a_follower_that_lags_delays_the_acknowledgement() -> None:
    brokers = Brokers(2)
    brokers.partition.copied_to[2] = 0
    answer = brokers.produce(batch("a"))
    assert (answer.error_code, answer.base_offset) == (RequestTimedOut.ERROR_CODE, 0)
    assert brokers.produce(batch("b"), acks=1).error_code == 0
    assert brokers.fetch().high_watermark == 0


def _caught_up(partition: Partition) -> None:
    partition.copied_to.clear()


def _alone(partition: Partition) -> None:
    partition.isr = [1]


def _replaced(partition: Partition) -> None:
    partition.elect(2)


@pytest.mark.parametrize(
    ("happens", "code"),
    [(_caught_up, 0), (_alone, NotEnoughReplicasAfterAppend.ERROR_CODE), (_replaced, NotLeaderForPartition.ERROR_CODE)],
)
def test_what_ends_the_wait_for_followers(happens: Any, code: int) -> None:
    brokers = Brokers(2, min_insync_replicas="2")
    state, partition = brokers.state, brokers.partition
    partition.copied_to[2] = 0
    codes: list[int] = []
    worker = state.handler.spawn(
        lambda: codes.append(brokers.produce(batch("a"), timeout_ms=60_000).error_code), name="writer"
    )
    written = False
    while not written:  # the worker has the lock until it waits
        with state.lock:
            written = partition.log.end == 1
    with state.lock:
        happens(partition)
        state.waiters.wake(partition)
    assert worker.join(30)
    assert codes == [code]


def test_append_time() -> None:
    brokers = Brokers(message_timestamp_type="LogAppendTime")
    answer = brokers.produce(batch("a", "b"))
    (raw,) = scan(bytes(brokers.fetch().records))[0]
    assert raw.timestamp_type == 1
    assert raw.max_timestamp == answer.log_append_time_ms > TIME_MS
    message = raw.open().next()
    assert message is not None
    assert message.timestamp == answer.log_append_time_ms


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (1, 1)])
def test_append_time_of_message_sets(magic: int, codec: int) -> None:
    brokers = Brokers(message_timestamp_type="LogAppendTime")
    brokers.state.data_path = DataPath((0, 10, 2))
    answer = brokers.produce(old_batch("a", "b", magic=magic, codec=codec), 2 * magic)
    assert answer.error_code == 0
    raws = scan(bytes(brokers.fetch(0, 2).records))[0]
    messages = [raw.open().next() for raw in raws]
    assert {message.timestamp for message in messages if message is not None} == {raws[0].max_timestamp}
    assert raws[0].max_timestamp > TIME_MS


@pytest.mark.parametrize(("setting", "codec"), [("producer", 1), ("gzip", 1), ("zstd", 4), ("uncompressed", 0)])
def test_compression_of_the_topic(setting: str, codec: int) -> None:
    brokers = Brokers(compression_type=setting)
    assert brokers.produce(batch("a", "b", codec=1, producer_id=5, producer_epoch=0, base_sequence=0)).error_code == 0
    answer = brokers.fetch()
    assert formats(answer.records) == {(2, codec)}
    assert read(answer.records) == [(0, "a"), (1, "b")]
    assert scan(bytes(answer.records))[0][0].producer_id == 5


@pytest.mark.parametrize(("release", "magic"), [("0.9.0", 0), ("0.10.2-IV0", 1), ("0.11.0", 2), ("2.8", 2)])
def test_message_format_of_the_topic(release: str, magic: int) -> None:
    brokers = Brokers(message_format_version=release)
    assert brokers.produce(batch("a", "b", codec=1)).error_code == 0
    assert formats(brokers.fetch().records) == {(magic, 1)}
    numbered = batch("c", producer_id=1, producer_epoch=0, base_sequence=0)
    expected = 0 if magic == 2 else UnsupportedForMessageFormat.ERROR_CODE
    assert brokers.produce(numbered).error_code == expected


def numbered(sequence: int, epoch: int = 0, count: int = 1, transactional: bool = False) -> bytes:
    values = [f"{sequence}-{number}" for number in range(count)]
    return batch(*values, producer_id=9, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)


@pytest.mark.parametrize(
    ("numbers", "older", "gap"),
    [
        ((0, 11, 0, 3), OutOfOrderSequenceNumber.ERROR_CODE, OutOfOrderSequenceNumber.ERROR_CODE),
        ((2, 8, 2), 0, OutOfOrderSequenceNumber.ERROR_CODE),
    ],
)
def test_sequences(numbers: tuple[int, ...], older: int, gap: int) -> None:
    brokers = Brokers()
    brokers.state.data_path = DataPath(numbers)
    rows = [(0, 0, 2), (2, 0, 1), (2, 0, 1), (0, 0, 2), (5, 0, 1), (3, 0, 1), (4, 1, 1), (0, 1, 1), (4, 0, 1)]
    answers = [brokers.produce(numbered(sequence, epoch, count)) for sequence, epoch, count in rows]
    late = InvalidProducerEpoch.ERROR_CODE
    assert [answer.error_code for answer in answers] == [0, 0, 0, older, gap, 0, gap, 0, late]
    assert [answer.base_offset for answer in answers if not answer.error_code] == [
        0,
        2,
        2,
        *([] if older else [0]),
        3,
        4,
    ]
    assert answers[2].log_append_time_ms == TIME_MS
    assert brokers.partition.log.end == 5


def test_only_five_batches_are_known_again() -> None:
    brokers = Brokers()
    for sequence in range(6):
        assert brokers.produce(numbered(sequence)).base_offset == sequence
    assert brokers.produce(numbered(1)).base_offset == 1
    assert brokers.produce(numbered(0)).error_code == OutOfOrderSequenceNumber.ERROR_CODE


def test_sequence_numbers_begin_again_after_the_largest() -> None:
    brokers = Brokers()
    assert brokers.produce(numbered(2**31 - 2, count=3)).error_code == 0
    assert brokers.produce(numbered(0)).error_code == OutOfOrderSequenceNumber.ERROR_CODE
    assert brokers.produce(numbered(1)).base_offset == 3


@pytest.mark.parametrize(
    ("numbers", "version", "transactional", "code"),
    [
        ((2, 4), 8, False, UnknownProducerId.ERROR_CODE),
        ((2, 8, 2), 9, False, 0),
        ((4, 4), 11, True, 0),
        ((4, 4), 12, False, 0),
        ((4, 4), 12, True, OutOfOrderSequenceNumber.ERROR_CODE),
    ],
)
def test_producers_that_the_log_does_not_know(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...], version: int, transactional: bool, code: int
) -> None:
    brokers = Brokers()
    brokers.state.data_path = DataPath(numbers)
    monkeypatch.setattr(brokers.state.transactions, "check_produce", lambda *_: None)
    answer = brokers.produce(numbered(7, transactional=transactional), version)
    assert answer.error_code == code
    assert answer.log_start_offset == 0


def test_transactional_batches_ask_the_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers()
    asked: list[tuple[object, ...]] = []

    def check(*arguments: object) -> None:
        asked.append(arguments)
        if len(asked) == 1:
            raise InvalidTxnState

    monkeypatch.setattr(brokers.state.transactions, "check_produce", check)
    request = brokers.produce_request(numbered(0, transactional=True), 12)
    request.transactional_id = "billing"
    codes = [brokers.ask(request, 12).responses[0].partition_responses[0].error_code for _ in range(3)]
    assert codes == [InvalidTxnState.ERROR_CODE, 0, 0]
    # The third one was written already.
    assert asked == [(brokers.partition, "billing", Identity(9, 0), 12)] * 2
    assert brokers.partition.log.open_transactions == {9: 0}


def with_records(codec: int, change: Callable[[bytes], bytes]) -> bytes:
    """Return a batch whose checksum is right, and whose records are changed before they are compressed."""
    head, records = bytearray(batch("one", "two", "three")[:61]), change(batch("one", "two", "three")[61:])
    head[22] |= codec
    return sealed(bytes(head) + bytes(compress(codec, records) if codec else records))


def sealed(data: bytes) -> bytes:
    """Return a batch with its size and its checksum."""
    body = data[21:]
    return data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:17] + crc32c(body).to_bytes(4, "big") + body


def first(records: bytes) -> int:
    """Return the size of the first record."""
    return (records[0] >> 1) + 1


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize(
    "change",
    [
        lambda records: records[first(records) :],
        lambda records: records + records[: first(records)],
        lambda records: records + b"\0\1\2",
        lambda records: records[:-3],
        lambda records: records[:4] + b"\x7e" + records[5:],
        lambda _: b"",
    ],
    ids=["one record less", "one more", "bytes behind them", "cut off", "a key that is too long", "none"],
)
def test_records_that_are_not_what_their_batch_says(codec: int, change: Callable[[bytes], bytes]) -> None:
    """The codes are those of Kafka 4.3.1, asked the same."""
    brokers = Brokers()
    assert brokers.produce(with_records(codec, lambda records: records)).error_code == 0
    assert brokers.produce(with_records(codec, change)).error_code == InvalidRecord.ERROR_CODE
    assert brokers.partition.log.end == 3


@pytest.mark.parametrize("codec", range(1, 5))
def test_records_that_cannot_be_decompressed(codec: int) -> None:
    brokers = Brokers()
    data = with_records(codec, lambda records: records)
    assert brokers.produce(sealed(data[:61] + b"\xff" * (len(data) - 61))).error_code == UnknownError.ERROR_CODE


@pytest.mark.parametrize(("numbers", "code"), [((1, 1), UnknownProducerId.ERROR_CODE), ((2, 4), 0)])
@pytest.mark.parametrize("deleted", [2, 3])
def test_a_producer_whose_records_are_deleted_is_forgotten_before_2_4(
    numbers: tuple[int, ...], code: int, deleted: int
) -> None:
    """It is once it has no record left (KAFKA-7190)."""
    brokers = Brokers()
    brokers.state.data_path = DataPath(numbers)
    assert brokers.produce(numbered(0, count=3), 5).error_code == 0
    log = brokers.partition.log
    log.delete_before(deleted, forgets=brokers.state.data_path.forgets_deleted)
    assert brokers.produce(numbered(3), 5).error_code == (code if deleted == 3 else 0)
