"""The hash by which Kafka's Java client partitions: MurmurHash2 with seed 0x9747b28c. Compiled if there is a compiler."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from pykafka.compiled import cython  # noqa: F401  (the .pxd beside this file gives the types)


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of some bytes, as an unsigned number."""
    # The mask keeps Python's numbers to the 32 bits that C's have anyway; it and the others are variables, as Cython takes
    # large constants for Python's numbers.
    mask = 0xFFFFFFFF
    seed = 0x9747B28C
    m = 0x5BD1E995
    size = len(data)
    octets = data
    whole = size & ~3
    h = (seed ^ size) & mask
    at = 0
    while at < whole:
        k = octets[at] | (octets[at + 1] << 8) | (octets[at + 2] << 16) | (octets[at + 3] << 24)
        k = (k * m) & mask
        k ^= k >> 24
        k = (k * m) & mask
        h = ((h * m) & mask) ^ k
        at += 4
    if size > whole:
        k = 0
        while size > whole:
            size -= 1
            k = (k << 8) | octets[size]
        h = ((h ^ k) * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    return h ^ (h >> 15)


def partition_for(key: bytes, partitions: int) -> int:
    """Return the number of the partition that Kafka's Java producer chooses for a key.

    :param key: its bytes
    :param partitions: how many the topic has
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
