"""Codecs: what the broker and other clients understand, by packages that let go of the GIL while they work.

gzip comes with Python; snappy, lz4 and zstd are cramjam's. Their frames are written here block by block if cramjam's
own writer would hold the GIL (lz4) or speak a dialect that Kafka does not (snappy). What is read is bounded beforehand:
a few hundred bytes can claim to unpack to gigabytes.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import CodecNotAvailableError, InvalidMessageError, UnpackedTooLargeError
from pykafka.utils import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

Buffer = bytes | bytearray | memoryview

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

#: The lowest and the highest level of each codec that has levels (KIP-390).
LEVELS = {GZIP: (1, 9), LZ4: (1, 17), ZSTD: (-131072, 22)}

#: What one batch may unpack to (bytes), unless the caller says otherwise.
MAX_UNPACKED = 2**28
#: Consumers let a batch unpack to so many times what they buffer.
_TIMES_BUFFERED = 4

_GZIP_LEVEL = 6
_GZIP_WINDOW = 31  # the largest window, with gzip's own header
_GZIP_STEP = 1024  # what a member beyond the first is given at first (bytes)
_GZIP_RATIO = 1032  # what deflate can expand to at most
_ZSTD_LEVEL = 3
# Snappy as Java's org.xerial.snappy frames it: magic, version and lowest compatible version; then (size, block) each.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_SNAPPY_RATIO = 64  # more than a snappy stream can expand
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
# Version 1, independent blocks, no checksums but the header's own; blocks of 64 KiB.
_LZ4_DESCRIPTOR = b"\x60\x40"
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_LEVEL_MAX = 12  # what lz4 itself has; Java's takes more, and does no more for them
_SKIPPABLE = b"\x2a\x4d\x18"
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 128 * 1024


def check_level(codec: int, level: int, name: str = "compression_level", other: str = "compression") -> int:
    """Return a level of compression that the codec has.

    :param name: the level's, in errors
    :param other: the codec's, in errors
    :raises ValueError: it has not, or no levels at all
    """
    if codec not in LEVELS:
        having = ", ".join(NAMES[one] for one in LEVELS)
        raise ValueError(f"{name} needs {other} to be one of {having}; {NAMES.get(codec, codec)} has no levels")
    low, high = LEVELS[codec]
    if not low <= level <= high:
        raise ValueError(f"{name} must be {low} to {high} for {NAMES[codec]}, not {level}")
    return level


def compress(codec: int, data: Buffer, magic: int = 2, level: int | None = None) -> Buffer:
    """Compress records the way Kafka wants it; the GIL is free meanwhile.

    :param codec: 1 gzip, 2 snappy, 3 lz4, 4 zstd; 0 gives the data back
    :param data: what to compress
    :param magic: the message format: in 0 lz4 has a header checksum of its own kind
    :param level: how hard the codec tries, as `check_level` takes it; None: its own
    :raises CodecNotAvailableError: if the codec's package is missing, or Kafka has no such codec
    """
    if codec == NONE:
        return data
    if codec == GZIP:
        return zlib.compress(data, _GZIP_LEVEL if level is None else level, _GZIP_WINDOW)
    if codec == SNAPPY:
        return encode_snappy(data, xerial_compatible=True)
    if codec == LZ4:
        return _encode_lz4(data, _LZ4_MAGIC + _LZ4_DESCRIPTOR if magic == 0 else _LZ4_DESCRIPTOR, level)
    if codec == ZSTD:
        return memoryview(_cramjam("zstd").compress(data, _ZSTD_LEVEL if level is None else level))
    raise _unknown(codec)


def unpacked_limit(given: int | None, buffered: int) -> int:
    """Return what one batch may unpack to (bytes).

    :param given: the option `unpacked_max_bytes`
    :param buffered: how much the consumer buffers (bytes)
    """
    return max(_TIMES_BUFFERED * min(buffered, 2**60), MAX_UNPACKED) if given is None else given


def decompress(codec: int, data: Buffer, magic: int = 2, max_size: int = MAX_UNPACKED) -> Buffer:
    """Unpack what Kafka or another client compressed; the GIL is free meanwhile.

    :param codec: 1 gzip, 2 snappy, 3 lz4, 4 zstd; 0 gives the data back
    :param data: what was compressed
    :param magic: the message format: in 0 lz4 has a header checksum of its own kind
    :param max_size: refuse what unpacks to more (bytes)
    :raises CodecNotAvailableError: if the codec's package is missing, or Kafka has no such codec
    :raises UnpackedTooLargeError: if the data unpacks to more than `max_size`
    :raises InvalidMessageError: if the data is corrupt
    """
    if codec == NONE:
        return data
    if codec == GZIP:
        return _decode_gzip(data, max_size)
    if codec == SNAPPY:
        return _decode_snappy(data, max_size)
    if codec == LZ4:
        return _decode_lz4(_with_right_checksum(data) if magic == 0 else data, max_size)
    if codec == ZSTD:
        return _bounded("zstd", data, *_zstd_sizes(memoryview(data)), max_size)
    raise _unknown(codec)


def encode_gzip(buff: Buffer) -> bytes:
    """Compress with gzip."""
    return zlib.compress(buff, _GZIP_LEVEL, _GZIP_WINDOW)


def decode_gzip(buff: Buffer) -> bytes:
    """Unpack gzip; nothing unpacks to nothing. InvalidMessageError if it is corrupt."""
    return _decode_gzip(buff, MAX_UNPACKED) if len(buff) else b""


def encode_snappy(buff: Buffer, xerial_compatible: bool = False, xerial_blocksize: int = _XERIAL_BLOCK) -> bytes:
    """Compress with snappy.

    :param buff: what to compress
    :param xerial_compatible: frame it as Java's snappy streams do, which is what Kafka's messages want
    :param xerial_blocksize: bytes of input to a block of that framing
    :raises CodecNotAvailableError: if cramjam is missing
    """
    pack = _cramjam("snappy").compress_raw
    if not xerial_compatible:
        return bytes(pack(buff))
    view = memoryview(buff)
    parts: list[Any] = [_XERIAL_HEADER]
    for start in range(0, len(view), xerial_blocksize):
        block = pack(view[start : start + xerial_blocksize])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def decode_snappy(buff: Buffer) -> bytes:
    """Unpack snappy, with or without the framing of Java's streams.

    :raises InvalidMessageError: if it is corrupt
    :raises CodecNotAvailableError: if cramjam is missing
    """
    return bytes(_decode_snappy(buff, MAX_UNPACKED))


def encode_lz4(buff: Buffer) -> bytes:
    """Compress into an lz4 frame of independent blocks, the only kind that Kafka reads.

    :raises CodecNotAvailableError: if cramjam is missing
    """
    return _encode_lz4(buff, _LZ4_DESCRIPTOR)


def decode_lz4f(buff: Buffer) -> bytes:
    """Unpack an lz4 frame.

    :raises InvalidMessageError: if it is corrupt
    :raises CodecNotAvailableError: if cramjam is missing
    """
    return bytes(_decode_lz4(buff, MAX_UNPACKED))


#: The same by its usual name in PyKafka 2.
decode_lz4 = decode_lz4f


def encode_lz4_old_kafka(buff: Buffer) -> bytes:
    """Compress into an lz4 frame for Kafka 0.8 and 0.9, which take the header's checksum over the magic number as well.

    :raises CodecNotAvailableError: if cramjam is missing
    """
    return _encode_lz4(buff, _LZ4_MAGIC + _LZ4_DESCRIPTOR)


def decode_lz4_old_kafka(buff: Buffer) -> bytes:
    """Unpack an lz4 frame of Kafka 0.8 or 0.9, whichever way its header's checksum was taken.

    :raises InvalidMessageError: if it is corrupt
    :raises CodecNotAvailableError: if cramjam is missing
    """
    return bytes(_decode_lz4(_with_right_checksum(buff), MAX_UNPACKED))


def _cramjam(name: str) -> Any:
    try:
        import cramjam
    except ImportError as error:
        raise CodecNotAvailableError(
            f"messages compressed with {name} need the package cramjam, which python-snappy brings: pip install cramjam"
        ) from error
    return getattr(cramjam, name)


def _unknown(codec: int) -> CodecNotAvailableError:
    known = ", ".join(f"{number} {name}" for number, name in NAMES.items())
    return CodecNotAvailableError(f"Kafka has no compression codec {codec}; there are {known}")


def _corrupt(name: str, why: object) -> InvalidMessageError:
    return InvalidMessageError(f"data compressed with {name} is corrupt: {why}; fetch it again, or skip the batch")


def _too_much(name: str, max_size: int, unpacked: int | None = None) -> UnpackedTooLargeError:
    return UnpackedTooLargeError(name, max_size, unpacked)


def _guarded(name: str, function: Callable[..., Any], *args: Any) -> Any:
    # cramjam's errors, and whatever else it makes of hostile data, under one name.
    try:
        return function(*args)
    except Exception as error:
        raise _corrupt(name, error) from error


def _bounded(name: str, data: Buffer, bound: int, claimed: int | None, max_size: int) -> memoryview:
    # `bound` is what the data can unpack to at most, `claimed` what its frames say. Only if it may be too much is a place of
    # `max_size` bytes set aside and no more taken; the system backs only the pages that are written to.
    module = _cramjam(name)
    if claimed is not None and max_size < claimed <= bound:
        raise _too_much(name, max_size, claimed)
    if bound <= max_size:
        return memoryview(_guarded(name, module.decompress, data))
    with mmap.mmap(-1, max(max_size, 1)) as output:
        try:
            written: int = module.decompress_into(data, output)
        except Exception as error:
            if "whole buffer" in str(error):
                raise _too_much(name, max_size) from error
            raise _corrupt(name, error) from error
        if written > max_size:
            raise _too_much(name, max_size)
        return memoryview(output[:written])


def _decode_gzip(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    # A member ends with its size, modulo 2**32: no need to unpack the last one, if that is too much already.
    claimed = int.from_bytes(view[-4:], "little")
    if max_size < claimed <= _GZIP_RATIO * len(view):
        raise _too_much("gzip", max_size, claimed)
    parts: list[bytes] = []
    room = max_size
    at = 0
    while at < len(view):
        member = zlib.decompressobj(_GZIP_WINDOW)
        # zlib copies what follows a member. So the first one, mostly the only one, is given everything; others are
        # given little at first and then ever more: what is copied stays in proportion to what is read.
        step = _GZIP_STEP if at else len(view)
        while not member.eof:
            if at == len(view):
                raise _corrupt("gzip", "it ends too early")
            piece = view[at : at + step]
            try:
                part = member.decompress(piece, room + 1)
            except zlib.error as error:
                raise _corrupt("gzip", error) from error
            room -= len(part)
            if room < 0:
                raise _too_much("gzip", max_size)
            if part:
                parts.append(part)
            at += len(piece) - len(member.unused_data)
            step *= 2
        if at < len(view) and not view[at]:  # zeros may follow a member
            at = len(view) - len(bytes(view[at:]).lstrip(b"\0"))
    if not view:
        raise _corrupt("gzip", "it is empty")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decode_snappy(data: Buffer, max_size: int) -> Buffer:
    view = memoryview(data)
    module = _cramjam("snappy")
    if bytes(view[:8]) != _XERIAL_MAGIC:
        if (size := _snappy_size(module, view)) > max_size:
            raise _too_much("snappy", max_size, size)
        return memoryview(_guarded("snappy", module.decompress_raw, view))
    total = sum(_snappy_size(module, block) for block in _xerial_blocks(view))
    if total > max_size:
        raise _too_much("snappy", max_size, total)
    output = bytearray(total)
    rest = memoryview(output)
    for block in _xerial_blocks(view):
        rest = rest[_guarded("snappy", module.decompress_raw_into, block, rest) :]
    return output


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(view):
        # streams may follow one another, each with its header; no block is as large as the magic would make one
        if view[at : at + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            if at > len(view):
                raise _corrupt("snappy", "a header is cut off")
            continue
        size = int.from_bytes(view[at : at + 4], "big")
        at += 4
        if size > len(view) - at:
            raise _corrupt("snappy", f"a block of {size} bytes begins where {max(len(view) - at, 0)} are left")
        yield view[at : at + size]
        at += size


def _snappy_size(module: Any, block: memoryview) -> int:
    # What a block unpacks to, as its first bytes say, which the unpacking holds it to.
    claimed: int = _guarded("snappy", module.decompress_raw_len, block)
    if claimed > _SNAPPY_RATIO * len(block):
        raise _corrupt("snappy", f"{len(block)} bytes cannot unpack to {claimed}")
    return claimed


def _encode_lz4(data: Buffer, checksummed: bytes, level: int | None = None) -> bytes:
    pack = _cramjam("lz4").compress_block
    view = memoryview(data)
    parts: list[Any] = [_LZ4_MAGIC, _LZ4_DESCRIPTOR, bytes([_xxh32_byte(checksummed)])]
    for start in range(0, len(view), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        block = pack(plain, store_size=False) if level is None else _lz4_block(plain, level)
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _LZ4_STORED).to_bytes(4, "little"), plain)
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)


def _lz4_block(plain: memoryview, level: int) -> memoryview:
    # cramjam takes levels for whole frames alone: this is the one block of such a frame, or the data if it is not smaller
    frame = memoryview(_cramjam("lz4").compress(plain, level=min(level, _LZ4_LEVEL_MAX)))
    flags = frame[4]
    at = 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    size = int.from_bytes(frame[at : at + 4], "little")
    return plain if size & _LZ4_STORED else frame[at + 4 : at + 4 + size]


def _decode_lz4(data: Buffer, max_size: int) -> memoryview:
    return _bounded("lz4", data, *_lz4_sizes(memoryview(data)), max_size)


def _lz4_sizes(view: memoryview) -> tuple[int, int | None]:
    # What the data can unpack to, and what its frames say that it does, if all of them say.
    # Frames one after another, each of magic, flags, block size code, [content size], checksum; then blocks until one
    # of size 0, and [a checksum].
    at = bound = claimed = 0
    unsaid = False
    while at + 7 <= len(view):
        magic = view[at : at + 4]
        if _is_skippable(magic):
            at += 8 + int.from_bytes(view[at + 4 : at + 8], "little")
            continue
        if magic != _LZ4_MAGIC:
            raise _corrupt("lz4", f"no lz4 frame begins at byte {at}")
        flags = view[at + 4]
        largest = 1 << (8 + 2 * (view[at + 5] >> 4 & 7))
        if flags & 8:
            claimed += int.from_bytes(view[at + 6 : at + 14], "little")
        else:
            unsaid = True
        at += 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
        trailer = 4 if flags & 16 else 0
        size = -1
        while size and at + 4 <= len(view):
            size = int.from_bytes(view[at : at + 4], "little") & ~_LZ4_STORED
            at += 4
            if size:
                bound += largest
                at += size + trailer
        at += 4 if flags & 4 else 0
    if not at:
        raise _corrupt("lz4", "it does not begin as an lz4 frame does")
    return bound, None if unsaid else claimed


def _is_skippable(magic: memoryview) -> bool:
    # Frames of lz4 and zstd that hold no data of theirs, which readers pass over.
    return magic[0] >> 4 == 5 and magic[1:] == _SKIPPABLE


def _zstd_sizes(view: memoryview) -> tuple[int, int | None]:
    # What the data can unpack to, and what its frames say that it does, if all of them say. A block unpacks to 128 KiB at most.
    at = bound = claimed = 0
    unsaid = False
    while at + 5 <= len(view):
        magic = int.from_bytes(view[at : at + 4], "little")
        if _is_skippable(view[at : at + 4]):
            at += 8 + int.from_bytes(view[at + 4 : at + 8], "little")
            continue
        if magic != _ZSTD_MAGIC:
            raise _corrupt("zstd", "it does not begin as a zstd frame does")
        flags = view[at + 4]
        single = flags >> 5 & 1
        size_bytes = (1 if single else 0, 2, 4, 8)[flags >> 6]
        at += 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
        if size_bytes:
            # of two bytes, the sizes begin behind those of one
            claimed += int.from_bytes(view[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
        else:
            unsaid = True
        at += size_bytes
        last = 0
        while not last and at + 3 <= len(view):
            block = int.from_bytes(view[at : at + 3], "little")
            last = block & 1
            at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
            bound += _ZSTD_BLOCK
        at += 4 if flags & 4 else 0
    return bound, None if unsaid else claimed


def _with_right_checksum(data: Buffer) -> Buffer:
    # Kafka 0.8 and 0.9 took the checksum of an lz4 header over the magic number as well.
    view = memoryview(data)
    if len(view) < 7 or bytes(view[:4]) != _LZ4_MAGIC:
        return data
    end = 6 + (8 if view[4] & 8 else 0) + (4 if view[4] & 1 else 0)
    right = _xxh32_byte(bytes(view[4:end]))
    if len(view) <= end or view[end] == right or view[end] != _xxh32_byte(bytes(view[:end])):
        return data
    return b"".join((view[:end], bytes([right]), view[end + 1 :]))


def _xxh32_byte(data: bytes) -> int:
    # The second byte of xxHash32 (seed 0), for the few bytes of an lz4 header.
    prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    at = 0
    total = prime5
    if len(data) >= 16:
        lanes = [(prime1 + prime2) & mask, prime2, 0, -prime1 & mask]
        while at + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[at + 4 * lane : at + 4 * lane + 4], "little")
                lanes[lane] = _rotate(lanes[lane] + word * prime2, 13) * prime1 & mask
            at += 16
        total = sum(_rotate(value, turn) for value, turn in zip(lanes, (1, 7, 12, 18), strict=True))
    total = (total + len(data)) & mask
    while at + 4 <= len(data):
        total = _rotate(total + int.from_bytes(data[at : at + 4], "little") * prime3, 17) * prime4 & mask
        at += 4
    for byte in data[at:]:
        total = _rotate(total + byte * prime5, 11) * prime1 & mask
    total = (total ^ total >> 15) * prime2 & mask
    total = (total ^ total >> 13) * prime3 & mask
    total ^= total >> 16
    return total >> 8 & 0xFF


def _rotate(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF
