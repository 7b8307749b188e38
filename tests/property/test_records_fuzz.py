"""Whatever bytes come: messages, or an error by its name. Never another exception, never a read out of bounds."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pykafka.consumer.arrow import ArrowDecoder
from pykafka.exceptions import KafkaException
from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RecordBatchBuilder, scan
from pykafka.utils.compression import compress, decompress

binary = st.none() | st.binary(max_size=40)
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), binary), min_size=1, max_size=3)
plain_rows = st.tuples(st.integers(0, 2**45), binary, binary, st.none())
rows = st.tuples(st.integers(0, 2**45), binary, binary, headers)
formats = st.sampled_from([(magic, codec) for magic in (0, 1, 2) for codec in range(5 if magic == 2 else 4)])


def encoded(content: list[Any], magic: int, codec: int) -> bytes:
    builder = RecordBatchBuilder()
    for row in content:
        builder.append(*row)
    return b"".join(builder.build(codec)) if magic == 2 else encode_message_set(builder, magic, codec)


def messages(data: bytes, check_crc: bool = True) -> list[Message]:
    found: list[Message] = []
    for raw in scan(data)[0]:
        reader = raw.open(check_crc)
        while (message := reader.next()) is not None:
            found.append(message)
    return found


def resealed(data: bytes) -> bytes:
    """Make the checksum of format 2 right, that the damage behind it is met."""
    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]


def damaged(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    copy = bytearray(data)
    for place, bits in flips:
        copy[place % len(copy)] ^= bits
    return bytes(copy)


flips = st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=4)


@given(st.lists(rows, min_size=1, max_size=30), st.integers(0, 4))
def test_what_is_written_is_read(content: list[Any], codec: int) -> None:
    found = messages(encoded(content, 2, codec))
    assert [(m.timestamp, m.partition_key, m.value, m.headers) for m in found] == content
    assert [m.offset for m in found] == list(range(len(content)))


@given(st.lists(plain_rows, min_size=1, max_size=30), st.integers(0, 1), st.integers(0, 3))
def test_what_is_written_in_old_formats_is_read(content: list[Any], magic: int, codec: int) -> None:
    found = messages(encoded(content, magic, codec))
    expected = [(row[0] if magic else None, row[1], row[2]) for row in content]
    assert [(m.timestamp, m.partition_key, m.value) for m in found] == expected


@given(st.lists(plain_rows, min_size=1, max_size=6), formats, st.data())
def test_cut_off_anywhere(content: list[Any], form: tuple[int, int], data: st.DataObject) -> None:
    whole = encoded(content, *form)
    cut = data.draw(st.integers(0, len(whole) - 1))
    raws, needed = scan(whole[:cut])
    ended = raws[-1].end if raws else 0
    assert (needed > 0) == (cut > ended)
    for raw in raws:  # of uncompressed sets the first messages may be there
        assert (raw.magic, raw.codec) == (form[0], 0)
        assert raw.end <= cut


@given(st.lists(plain_rows, min_size=1, max_size=6), formats, flips)
def test_damaged_anywhere(content: list[Any], form: tuple[int, int], where: list[tuple[int, int]]) -> None:
    bad = damaged(encoded(content, *form), where)
    for check_crc in (True, False):
        with suppress(KafkaException):
            messages(bad, check_crc)


@given(st.lists(rows, min_size=1, max_size=6), st.integers(0, 4), flips)
def test_damaged_behind_a_right_checksum(content: list[Any], codec: int, where: list[tuple[int, int]]) -> None:
    bad = damaged(encoded(content, 2, codec), [(21 + place, bits) for place, bits in where])
    data = resealed(bad)
    outcomes: list[int | None] = []
    for read in (messages, columns):
        outcomes.append(None)
        with suppress(KafkaException):
            outcomes[-1] = len(read(data))
    # Whoever reads the records into columns meets the same damage.
    assert outcomes[0] == outcomes[1]


def columns(data: bytes) -> list[Any]:
    found: list[Any] = []
    for batch in ArrowDecoder("t", 0).decode(scan(data)[0], max_rows=3):
        batch.validate(full=True)
        found += batch.drop_columns(["timestamp"]).to_pylist()  # datetime ends in the year 9999
    return found


@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    with suppress(KafkaException):
        messages(data)


@given(st.binary(max_size=200), st.sampled_from([0, 1, 2]), st.integers(0, 63))
def test_noise_that_begins_like_a_batch(data: bytes, magic: int, attributes: int) -> None:
    body = bytes(4) + bytes([magic, attributes]) + data
    framed = bytes(8) + len(body).to_bytes(4, "big") + body
    with suppress(KafkaException):
        messages(framed, check_crc=False)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@given(data=st.binary(max_size=500), where=flips, magic=st.sampled_from([0, 2]))
def test_damaged_compressed_data(codec: int, data: bytes, where: list[tuple[int, int]], magic: int) -> None:
    bad = damaged(bytes(compress(codec, data, magic)), where)
    with suppress(KafkaException):
        assert len(decompress(codec, bad, magic, 100_000)) <= 100_000


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@given(data=st.binary(max_size=200))
def test_noise_for_a_codec(codec: int, data: bytes) -> None:
    xerial = b"\x82SNAPPY\x00\0\0\0\1\0\0\0\1"
    starts = {1: b"\x1f\x8b\x08\0", 2: xerial, 3: b"\x04\x22\x4d\x18", 4: b"\x28\xb5\x2f\xfd"}
    for noise in (data, starts[codec] + data):
        with suppress(KafkaException):
            assert len(decompress(codec, noise, 2, 100_000)) <= 100_000
