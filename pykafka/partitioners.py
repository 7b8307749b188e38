"""Partitioners: round robin, by a hash of the key, or by a hash within a group of partitions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.utils import old_names
from pykafka.utils.murmur2 import murmur2, partition_for
from pykafka.utils.ordered import Ordered

__all__ = [
    "BasePartitioner",
    "GroupHashingPartitioner",
    "HashingPartitioner",
    "Murmur2Partitioner",
    "RandomPartitioner",
    "hashing_partitioner",
    "murmur2",
    "random_partitioner",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

P = TypeVar("P")


def _in_order(partitions: Iterable[P]) -> list[P]:
    # Sorts partitions by id, and plain numbers by themselves: applications test partitioners with numbers.
    if isinstance(partitions, Ordered):  # those of a producer
        return partitions
    return sorted(partitions, key=lambda partition: getattr(partition, "id", partition))  # type: ignore[arg-type]


class BasePartitioner:
    """Base of partitioners, which choose a message's partition; subclasses implement `__call__`."""

    def __call__(self, partitions: Sequence[P], key: Any) -> P:
        """Return the partition for a message with this key.

        :param partitions: the topic's partitions, at least one
        :param key: the message's key, or None
        """
        raise NotImplementedError(f"{type(self).__name__} must implement __call__(partitions, key)")


class RandomPartitioner(BasePartitioner):
    """A partitioner that takes the partitions in turn, whatever the key; the default.

    Messages of one key go to all partitions, so nothing keeps them in order. `Murmur2Partitioner` sends all messages of a key
    to one partition.
    """

    def __init__(self) -> None:
        self.idx = 0

    def __call__(self, partitions: Sequence[P], key: Any = None) -> P:
        self.idx = (self.idx + 1) % len(partitions)
        return partitions[self.idx]


random_partitioner = RandomPartitioner()


def _sha1_hash(key: Any) -> int:
    data = key if isinstance(key, (bytes, bytearray, memoryview)) else str(key).encode()
    return int(hashlib.sha1(data, usedforsecurity=False).hexdigest(), 16)


class HashingPartitioner(BasePartitioner):
    """A partitioner that sends all messages of a key to one partition, while the number of partitions stays.

    :param hash_func: key -> int; by default the SHA-1 of the key, which is the same in every process
    """

    def __init__(self, hash_func: Callable[[Any], int] | None = None) -> None:
        self.hash_func: Callable[[Any], int] = hash_func if hash_func is not None else _sha1_hash

    def __call__(self, partitions: Sequence[P], key: Any) -> P:
        """Return the partition of this key.

        :raises ValueError: the key is None
        """
        if key is None:
            raise ValueError(
                "a hashing partitioner needs a key: give partition_key= to produce(), or use RandomPartitioner"
            )
        ordered = _in_order(partitions)
        return ordered[abs(self.hash_func(key)) % len(ordered)]


hashing_partitioner = HashingPartitioner()


class GroupHashingPartitioner(BasePartitioner):
    """A partitioner that sends messages of a key to a group of neighbouring partitions, in turn.

    :param hash_func: key -> int, stable between processes
    :param group_size: how many partitions take the messages of one key
    :raises ValueError: no hash_func, or group_size below 1
    """

    def __init__(self, hash_func: Callable[[Any], int], group_size: int = 1) -> None:
        if hash_func is None:
            raise ValueError("GroupHashingPartitioner needs a hash_func")
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1, not {group_size}")
        self.hash_func = hash_func
        self.group_size = group_size
        self._turn = 0

    def __call__(self, partitions: Sequence[P], key: Any) -> P:
        """Return the next partition of this key's group.

        :raises ValueError: the key is None, or the group is larger than the topic
        """
        if key is None:
            raise ValueError("a hashing partitioner needs a key: give partition_key= to produce()")
        if self.group_size > len(partitions):
            raise ValueError(f"group_size is {self.group_size}, but the topic has {len(partitions)} partitions")
        ordered = _in_order(partitions)
        self._turn = (self._turn + 1) % self.group_size
        return ordered[(abs(self.hash_func(key)) + self._turn) % len(ordered)]


class Murmur2Partitioner(BasePartitioner):
    """A partitioner that agrees with Kafka's Java producer for messages with a key; round robin without a key."""

    def __init__(self) -> None:
        self._turn = RandomPartitioner()

    def __call__(self, partitions: Sequence[P], key: bytes | bytearray | memoryview | None) -> P:
        if key is None:
            return self._turn(partitions)
        ordered = _in_order(partitions)
        octets = key if isinstance(key, bytes) else bytes(memoryview(key))
        return ordered[partition_for(octets, len(ordered))]
