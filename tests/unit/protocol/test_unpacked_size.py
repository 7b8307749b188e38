"""The limit of what a batch unpacks to: each codec, in each message format that has it, and sets within sets."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from pykafka.exceptions import InvalidMessageError, UnpackedTooLargeError
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RecordBatchBuilder, scan
from pykafka.utils.compression import GZIP, LZ4, MAX_UNPACKED, NAMES, SNAPPY, ZSTD, compress, unpacked_limit
from tests.unit.protocol.test_messagesets import entry

MIB = 2**20
KINDS = [(2, codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)] + [
    (magic, codec) for magic in (0, 1) for codec in (GZIP, SNAPPY, LZ4)
]


def bomb(magic: int, codec: int, size: int) -> bytes:
    """Return a compressed batch of two messages, with zeros."""
    builder = RecordBatchBuilder()
    for _ in range(2):
        builder.append(1000, None, bytes(size // 2), None)
    data: Any = b"".join(builder.build(codec)) if magic == 2 else encode_message_set(builder, magic, codec)
    return bytes(data)


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_a_batch_that_is_too_large_is_refused_by_name(magic: int, codec: int) -> None:
    data = bomb(magic, codec, MIB)
    (raw,), _ = scan(data)
    with pytest.raises(UnpackedTooLargeError) as caught:
        raw.open(max_unpacked=MIB // 2)
    error = caught.value
    assert not error.retriable
    assert isinstance(error, InvalidMessageError)
    assert (error.size, error.limit, error.next_offset) == (len(data), MIB // 2, 2)
    assert error.offset == (0 if magic == 2 else 1)
    assert error.unpacked is None or MIB < error.unpacked < MIB + 200
    for part in (f"{len(data):,} bytes", NAMES[codec], "unpacked_max_bytes allows 524,288", "at offset 2"):
        assert part in str(error)
    assert "CORRUPT" not in str(error)
    assert raw.open(max_unpacked=2 * MIB).remaining == 2


@pytest.mark.parametrize("codec", [SNAPPY, ZSTD])
def test_sizes_that_a_batch_tells_are_believed_before_anything_is_unpacked(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (raw,), _ = scan(bomb(2, codec, MIB))
    monkeypatch.setattr("pykafka.utils.compression._guarded", _guard_of_sizes)
    monkeypatch.setattr("pykafka.utils.compression.mmap.mmap", None)
    with pytest.raises(UnpackedTooLargeError) as caught:
        raw.open(max_unpacked=MIB // 2)
    assert MIB < (caught.value.unpacked or 0) < MIB + 200


def _guard_of_sizes(name: str, function: Any, *args: Any) -> Any:
    assert "len" in function.__name__, "it unpacks"
    return function(*args)


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_a_bomb_costs_no_more_memory_than_its_limit(magic: int, codec: int) -> None:
    data = bomb(magic, codec, 96 * MIB)
    (raw,), _ = scan(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnpackedTooLargeError):
        raw.open(max_unpacked=8 * MIB)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_sets_within_sets_count_together(magic: int, codec: int) -> None:
    inner = [
        entry(0 if magic else number, bytes(300_000), magic) for number in range(4)
    ]  # format 1 counts from the wrapper
    packed = [bytes(compress(codec, one, magic)) for one in inner]
    middle = b"".join(entry(number, one, magic, codec, 5) for number, one in enumerate(packed))
    outer = entry(3, bytes(compress(GZIP, middle, magic)), magic, GZIP, 5)
    (raw,), _ = scan(outer)
    assert raw.open(max_unpacked=1_300_000).remaining == 4
    with pytest.raises(UnpackedTooLargeError) as caught:
        raw.open(max_unpacked=1_000_000)
    assert (caught.value.limit, caught.value.unpacked, caught.value.next_offset) == (1_000_000, None, 4)


def test_the_limit_follows_the_buffer() -> None:
    assert unpacked_limit(None, 64 * MIB) == 256 * MIB == MAX_UNPACKED
    assert unpacked_limit(None, 1000) == 256 * MIB
    assert unpacked_limit(None, 100 * MIB) == 400 * MIB
    assert unpacked_limit(None, 2**63 - 1) < 2**63
    assert unpacked_limit(5, 100 * MIB) == 5
