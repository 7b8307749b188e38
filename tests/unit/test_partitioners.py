"""Partitioners: even, stable, and strict about what they are given."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import NamedTuple

import pytest

from pykafka.partitioners import (
    GroupHashingPartitioner,
    HashingPartitioner,
    Murmur2Partitioner,
    RandomPartitioner,
    hashing_partitioner,
    murmur2,
    random_partitioner,
)


class P(NamedTuple):
    id: int


PARTITIONS = [P(id_) for id_ in (3, 0, 2, 1)]


def test_round_robin_is_even_whatever_the_key() -> None:
    partitioner = RandomPartitioner()
    chosen = Counter(partitioner(PARTITIONS, b"same") for _ in range(400))
    assert set(chosen.values()) == {100}
    assert random_partitioner(PARTITIONS, None) in PARTITIONS


def test_hashing_does_not_depend_on_the_order_of_partitions_or_on_the_process() -> None:
    here = [hashing_partitioner(PARTITIONS, b"key %d" % n).id for n in range(50)]
    assert here == [HashingPartitioner()(sorted(PARTITIONS), b"key %d" % n).id for n in range(50)]
    assert set(here) == {0, 1, 2, 3}
    code = (
        "from tests.unit.test_partitioners import *\n"
        "print([hashing_partitioner(PARTITIONS, b'key %d' % n).id for n in range(50)])"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": "."},
    )
    assert there.stdout.strip() == str(here)


def test_a_hash_function_of_ones_own() -> None:
    assert HashingPartitioner(hash_func=lambda key: -5)(PARTITIONS, "any").id == 1


@pytest.mark.parametrize("partitioner", [HashingPartitioner(), GroupHashingPartitioner(hash, 2)])
def test_hashing_without_a_key_is_refused(partitioner: HashingPartitioner) -> None:
    with pytest.raises(ValueError, match="partition_key"):
        partitioner(PARTITIONS, None)


def test_group_hashing_uses_neighbouring_partitions() -> None:
    partitioner = GroupHashingPartitioner(lambda key: 3, group_size=2)
    assert Counter(partitioner(PARTITIONS, b"k").id for _ in range(10)) == {3: 5, 0: 5}
    with pytest.raises(ValueError, match="group_size is 5"):
        GroupHashingPartitioner(lambda key: 3, group_size=5)(PARTITIONS, b"k")
    with pytest.raises(ValueError, match="group_size must be"):
        GroupHashingPartitioner(lambda key: 3, group_size=0)
    with pytest.raises(ValueError, match="hash_func"):
        GroupHashingPartitioner(None)  # type: ignore[arg-type]


def test_plain_numbers_are_partitions_too() -> None:
    # As PyKafka 2.8 has them: applications try their partitioners out so.
    numbers = [3, 1, 2, 0]
    assert [hashing_partitioner(numbers, b"k%d" % n) for n in range(10)] == [2, 1, 2, 1, 0, 1, 0, 1, 3, 3]
    by_number = GroupHashingPartitioner(int)
    assert [by_number(numbers, str(n)) for n in range(6)] == [0, 1, 2, 3, 0, 1]
    in_pairs = GroupHashingPartitioner(int, group_size=2)
    assert Counter(in_pairs(numbers, "3") for _ in range(10)) == {3: 5, 0: 5}
    assert Murmur2Partitioner()(numbers, b"abc") == Murmur2Partitioner()(PARTITIONS, b"abc").id


def test_murmur2_is_the_java_clients() -> None:
    # printed by org.apache.kafka.common.utils.Utils.murmur2 of kafka-clients 4.3.1
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"": 275646681,
        b"abc": 479470107,
    }
    assert {key: (murmur2(key) ^ 0x80000000) - 0x80000000 for key in known} == known
    assert Murmur2Partitioner()(PARTITIONS, b"abc").id == (479470107 & 0x7FFFFFFF) % 4
