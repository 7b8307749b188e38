"""Compressed data of each codec, damaged, cut off, or made to unpack to more than it may."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial

from pykafka.utils.compression import NAMES, compress, decompress
from tests.fuzz.judge import UNPACKED_MAX, Target, UnstableError

_PLAIN = b"the quick brown fox jumps over the lazy dog, " * 4


def unpack(codec: int, data: bytes) -> object:
    """Unpack data; the first byte has the message format. What came out packs and unpacks to the same."""
    if not data:
        return None
    magic = data[0] & 1 and 2
    found = bytes(decompress(codec, data[1:], magic, UNPACKED_MAX))
    if len(found) > UNPACKED_MAX:
        raise UnstableError(f"{len(data)} bytes unpack to {len(found)}")
    if bytes(decompress(codec, compress(codec, found, magic), magic, UNPACKED_MAX)) != found:
        raise UnstableError(f"{found!r:.200} is another after it was packed")
    return zlib.crc32(found), len(found)


def bombs(codec: int) -> Iterator[bytes]:
    """Yield small inputs that claim, or are, gigabytes."""
    zeros = bytes(compress(codec, bytes(4 * UNPACKED_MAX)))
    yield b"\1" + zeros[: 16 * 1024]
    if codec == 1:
        yield b"\1" + compress(1, compress(1, bytes(2**22)))
        yield b"\1" + bytes(compress(1, b"x"))[:-4] + b"\xff\xff\xff\xff"
    elif codec == 2:
        yield b"\1\xff\xff\xff\xff\x0f" + bytes(20)
        yield b"\1\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"\0\0\0\x05\xff\xff\xff\xff\x0f" * 40
    elif codec == 3:
        head = b"\x04\x22\x4d\x18\x78" + b"\x70" + b"\xff" * 7 + b"\x0f"
        yield b"\1" + head + b"\0" + b"\x01\0\0\x80a" * 100
        yield b"\1\x04\x22\x4d\x18\x60\x70\x73" + (b"\x0a\0\0\0" + b"\x1f\0\1\0" + b"\xff" * 6) * 200
    else:
        yield b"\1\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\1\0\0"
        yield b"\1\x28\xb5\x2f\xfd\x00\xa8" + b"\x02\x00\x10\x61" * 1000  # blocks that repeat a byte 128 Ki times
        yield b"\1\x28\xb5\x2f\xfd\x00\xff" + b"\x03\x00\x10\x61"


def seeds(codec: int) -> Iterator[bytes]:
    """Yield data that is right, in several frames, empty, and bombs."""
    for text in (b"", b"a", _PLAIN, bytes(range(256)) * 3):
        for magic in (0, 2):
            whole = bytes(compress(codec, text, magic))
            yield bytes([magic and 1]) + whole
            yield bytes([magic and 1]) + whole * 2
            yield bytes([magic and 1]) + whole[:-2]
    yield b"\1\x50\x2a\x4d\x18\4\0\0\0skip" + bytes(compress(codec, _PLAIN))
    yield from bombs(codec)
    if codec == 2:
        import cramjam

        yield b"\1" + bytes(cramjam.snappy.compress_raw(_PLAIN))


TARGETS = [Target(NAMES[codec], partial(unpack, codec), partial(seeds, codec)) for codec in (1, 2, 3, 4)]
