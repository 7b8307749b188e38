"""`InProcess`: which partitions the application has uncommitted records of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.consumer.commits import InProcess

KEY = TopicPartition("t", 0)


def partition(last: int = -1, moves: int = 0, taken_in: int = -1) -> Any:
    """Return what `InProcess` reads of a partition."""
    return SimpleNamespace(key=KEY, last_offset_consumed=last, moves=moves, taken_in=taken_in)


def test_records_are_in_hand_until_an_offset_behind_them_is_committed() -> None:
    in_process, owned = InProcess(), partition()
    in_process.moved(owned, 5)
    owned.last_offset_consumed = 4
    assert not in_process.has(owned)
    owned.last_offset_consumed = 7
    assert in_process.has(owned)
    in_process.processed(owned, 7)
    assert in_process.has(owned)
    in_process.processed(owned, 8)
    assert not in_process.has(owned)


@pytest.mark.parametrize("offset", [0, 20])
def test_a_seek_hides_nothing(offset: int) -> None:
    in_process, owned = InProcess(), partition()
    in_process.moved(owned, 0)
    owned.last_offset_consumed = 9
    in_process.move(owned)
    owned.last_offset_consumed, owned.moves = offset - 1, 1
    in_process.moved(owned, offset)
    assert in_process.has(owned)
    in_process.processed(owned, offset)
    assert not in_process.has(owned)


def test_a_log_that_was_cut() -> None:
    """Recovery moves the partition back, below the last commit; what is read again then is in process."""
    in_process, owned = InProcess(), partition()
    in_process.processed(owned, 100)
    owned.last_offset_consumed, owned.moves, owned.taken_in = 39, 1, -1
    assert not in_process.has(owned)
    owned.last_offset_consumed, owned.taken_in = 50, 8
    assert in_process.has(owned)


def test_a_partition_that_goes_is_lost_until_all_is_put_back() -> None:
    in_process, owned = InProcess(), partition()
    in_process.moved(owned, 0)
    in_process.give_up(owned)
    assert not in_process.lost
    in_process.moved(owned, 0)
    owned.last_offset_consumed = 0
    in_process.give_up(owned)
    assert in_process.lost == {KEY}
    owned = partition(0)
    in_process.moved(owned, 1)
    assert in_process.lost == {KEY}
    assert not in_process.has(owned)
    in_process.put_back()
    assert not in_process.lost
