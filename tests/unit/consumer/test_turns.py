"""Turns of a consumer's partitions: whose messages come next, and when greenlets let the hub have its turn."""

from __future__ import annotations

import pytest

from pykafka.exceptions import InvalidMessageError
from pykafka.handlers import Handler
from pykafka.protocol.records import BatchReader
from tests.unit.consumer.rounds import Round

#: After how many bytes the hub of greenlets turns, and how many each message, and each cursor, counts for beside its own.
BREATHE_EVERY, MESSAGE_COUNTS, CURSOR_BYTES = 128 * 1024, 512, 256


@pytest.mark.parametrize("size", [10, 20_000])
@pytest.mark.parametrize("counts", [(300,), (100, 100, 100)])
def test_greenlets_let_the_hub_turn_after_so_much_work(handler: Handler, size: int, counts: tuple[int, ...]) -> None:
    """A message counts by its bytes, and each one for some more."""
    one = Round(handler)
    turns: list[int] = []
    one.buffers.cooperative, one.buffers.breathe = True, lambda: turns.append(1)
    one.put(0, *counts, size=size)
    each = MESSAGE_COUNTS + one.buffers.nbytes / 300 - CURSOR_BYTES * len(counts) / 300
    least = -(-BREATHE_EVERY // (each + 2))  # the first records of a batch have shorter numbers
    most = -(-BREATHE_EVERY // (each - 2))
    assert not one.buffers.turn_is_due()
    found = one.take(300)
    assert least <= len(found) <= most
    assert one.buffers.turn_is_due()
    assert turns == []
    again = one.take(300)
    assert turns == [1]
    assert [offset for _, offset in found + again] == list(range(len(found) + len(again)))
    while not one.buffers.turn_is_due() and one.take(1):
        pass
    before = len(turns)
    due = one.buffers.turn_is_due()
    one.buffers.next()
    assert len(turns) == before + due
    assert not one.buffers.turn_is_due()


def test_threads_take_all_at_once(handler: Handler) -> None:
    one = Round(handler)
    one.buffers.cooperative, one.buffers.breathe = False, lambda: pytest.fail("it gave way")
    one.put(0, 40, size=20_000)
    assert len(one.take(100)) == 40
    assert not one.buffers.turn_is_due()
    assert one.buffers.next() is None


def test_a_partition_that_goes_on_with_nothing_to_take_has_no_turn(handler: Handler) -> None:
    one = Round(handler)
    [owned] = one.owned
    one.buffers.pause(owned)
    one.buffers.resume(owned)
    assert not one.buffers.has_any()
    one.put(0, 2)
    borrow = one.buffers.borrow(10, 10)
    assert borrow is not None
    one.put(0, 1, start=2)
    one.buffers.pause(owned)
    one.buffers.resume(owned)
    assert not one.buffers.has_any()
    assert one.buffers.return_borrowed(borrow, -1)
    assert one.take(5) == [(0, 0), (0, 1), (0, 2)]


def test_what_cannot_be_read_keeps_its_turn(handler: Handler) -> None:
    one = Round(handler, 3)
    one.put(0, 2, 2)
    assert one.buffers.put(one.owned[1], one.owned[1].epoch, [BatchReader(b"\xff" * 20, 2, 2, 2, 4, first_offset=2)])
    one.put(2, 2)
    assert one.take(10) == [(0, 0), (0, 1)]
    with pytest.raises(InvalidMessageError, match="offset 2"):
        one.take(10)
    assert one.take(10) == [(2, 0), (2, 1), (0, 2), (0, 3)]
    with pytest.raises(InvalidMessageError, match="offset 2"):
        one.take(10)


def round_of(handler: Handler, partitions: int, taken: int) -> Round:
    """Return one with two cursors of a message in each partition, of which so many have had their turn."""
    one = Round(handler, partitions)
    for id_ in range(partitions):
        one.put(id_, 1, 1)
    assert one.take(taken) == [(id_, 0) for id_ in range(taken)]
    return one


@pytest.mark.parametrize(
    ("taken", "paused", "turns"),
    [
        (5, (0, 1, 2), [5, 3, 4]),
        (5, (0, 1), [5, 2, 3]),
        (3, (3,), [4, 5, 0]),
        (4, (4, 5), [0, 1, 2]),
        (4, (4,), [5, 0, 1]),
        (6, (), [0, 1, 2]),
        (1, (0, 2, 4), [1, 3, 5]),
    ],
)
@pytest.mark.parametrize("lends", [False, True])
def test_turns_go_on_behind_those_who_had_theirs(
    handler: Handler, taken: int, paused: tuple[int, ...], turns: list[int], lends: bool
) -> None:
    """Whether a message is taken or cursors are lent."""
    one = round_of(handler, 6, taken)
    for id_ in paused:
        one.buffers.pause(one.owned[id_])
    found = []
    if lends:
        borrow = one.buffers.borrow(1, 1)
        assert borrow is not None
        found.append(borrow.owned.partition_id)
    while len(found) < 3:
        found += [id_ for id_, _ in one.take(1)]
    assert found == turns
