"""Buffers of fetched messages: read one by one, in batches, or borrowed out, with their bytes counted."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

from pykafka.consumer.buffers import Buffers, OwnedPartition
from pykafka.consumer.leader_epochs import LeaderEpochs, Start
from pykafka.exceptions import InvalidMessageError
from pykafka.handlers import Handler
from pykafka.metrics.listener import ClientListener
from pykafka.protocol.records import BatchReader, RecordBatchBuilder, scan
from tests.unit.consumer.rounds import MANY, Round, readers


def test_a_batch_takes_one_partition_after_another(handler: Handler) -> None:
    one = Round(handler, 2)
    one.put(0, 3, 2)
    one.put(1, 4)
    first = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert one.take(5) == first
    assert one.take(100) == [(1, 2), (1, 3), (0, 3), (0, 4)]
    assert one.take(100) == []
    assert [(owned.position, owned.last_offset_consumed, owned.messages) for owned in one.owned] == [
        (5, 4, 0),
        (4, 3, 0),
    ]
    assert one.buffers.nbytes == 0


def test_a_batch_of_none(handler: Handler) -> None:
    one = Round(handler)
    one.put(0, 3)
    assert one.take(0) == []
    one.buffers.closed = True
    assert one.take(3) == []
    assert one.owned[0].position == 0


def test_what_cannot_be_read_costs_no_message_before_it(handler: Handler) -> None:
    one = Round(handler)
    good, bad = readers(2, 2)
    broken = BatchReader(b"\xff" * 20, 2, 2, 2, 4, first_offset=2)
    del bad
    one.buffers.put(one.owned[0], one.owned[0].epoch, [good, broken])
    assert one.take(10) == [(0, 0), (0, 1)]
    for _ in range(2):
        with pytest.raises(InvalidMessageError, match="offset 2"):
            one.take(10)
    assert one.owned[0].position == 2


def test_a_fetcher_that_waits_for_room_is_woken_when_a_quarter_is_free(handler: Handler) -> None:
    one = Round(handler, 2, max_bytes=100_000)
    wake = handler.Event()
    one.put(0, *[10] * 4, size=1000)
    assert not one.buffers.wait_for_room(wake)
    one.put(1, *[10] * 6, size=1000)
    held = one.buffers.nbytes
    assert held > 100_000
    assert one.buffers.wait_for_room(wake)
    assert one.buffers.wait_for_room(wake)
    while one.buffers.nbytes > 75_000:
        assert not wake.is_set()
        assert one.take(1)
    assert wake.is_set()
    assert not one.buffers.wait_for_room(wake)
    one.buffers.move(one.owned[0], 0, -1)
    one.buffers.move(one.owned[1], 0, -1)
    assert one.buffers.nbytes == 0


def test_what_was_fetched_before_a_move_is_refused(handler: Handler) -> None:
    one = Round(handler)
    owned = one.owned[0]
    before = owned.epoch
    one.buffers.move(owned, 50, 49)
    assert not one.buffers.put(owned, before, readers(2))
    assert not one.buffers.advance(owned, before, 2)
    one.buffers.rewind(owned, before, 1)
    assert one.buffers.next_fetch(owned, 0) == (owned.epoch, 50)
    assert one.buffers.advance(owned, owned.epoch, 60)
    one.buffers.rewind(owned, owned.epoch, 55)
    assert one.buffers.next_fetch(owned, 0) == (owned.epoch, 55)
    assert (owned.position, one.take(5), one.buffers.nbytes) == (50, [], 0)


def test_a_partition_with_enough_is_fetched_again_when_it_is_read(handler: Handler) -> None:
    one = Round(handler)
    owned = one.owned[0]
    owned.wake = handler.Event()
    one.put(0, 1500)
    assert one.buffers.next_fetch(owned, 499) is not None
    assert one.buffers.next_fetch(owned, 500) is None
    one.put(0, 501, start=1500)
    assert one.buffers.next_fetch(owned, 0) is None
    one.take(1)
    assert not owned.wake.is_set()
    one.take(1)
    assert owned.wake.is_set()


def test_what_is_lent_is_nobody_elses_until_it_is_settled(handler: Handler) -> None:
    one = Round(handler, 2)
    one.put(0, 3, 3, 3)
    one.put(1, 1)
    borrow = one.buffers.borrow(4, 100)
    assert borrow is not None
    assert (borrow.owned.partition_id, borrow.rows, len(borrow.readers)) == (0, 6, 2)
    one.put(0, 1, start=9)
    assert one.take(100) == [(1, 0)]
    for reader in [borrow.readers[0]] * 3 + [borrow.readers[1]]:
        reader.next()
    one.buffers.return_borrowed(borrow, 3)
    owned = one.owned[0]
    assert (owned.position, owned.last_offset_consumed, owned.messages) == (4, 3, 6)
    assert one.take(100) == [(0, offset) for offset in range(4, 10)]
    assert one.buffers.nbytes == 0


def test_what_is_lent_when_a_partition_moves_is_forgotten(handler: Handler) -> None:
    one = Round(handler)
    owned = one.owned[0]
    one.put(0, 3)
    borrow = one.buffers.borrow(10, 100)
    assert borrow is not None
    one.buffers.move(owned, 7, 6)
    one.put(0, 2, start=7)
    again = one.buffers.borrow(10, 100)
    assert again is not None
    one.buffers.return_borrowed(borrow, 2)
    assert (owned.position, owned.messages, one.take(1)) == (7, 2, [])
    one.buffers.return_borrowed(again, -1)
    assert one.take(5) == [(0, 7), (0, 8)]
    assert one.buffers.nbytes == 0


def test_a_loan_has_no_more_cursors_than_asked_for(handler: Handler) -> None:
    one = Round(handler)
    one.put(0, *[1] * 10)
    borrow = one.buffers.borrow(100, 4)
    assert borrow is not None
    assert len(borrow.readers) == 4
    assert one.buffers.borrow(100, 4) is None
    one.buffers.return_borrowed(borrow, -1)
    assert len(one.take(100)) == 10


def test_partitions_that_are_paused_or_moved_have_no_turn_and_the_others_keep_theirs(handler: Handler) -> None:
    """They stay in the list for a while: the rest of the round does not shift."""
    one = Round(handler, 5)
    for id_ in range(5):
        one.put(id_, 2)
    assert [one.take(1) for _ in range(3)] == [[(0, 0)], [(0, 1)], [(1, 0)]]
    one.buffers.pause(one.owned[1])
    one.buffers.move(one.owned[3], 0, -1)
    assert one.take(10) == [(2, 0), (2, 1), (4, 0), (4, 1)]
    assert not one.buffers.has_any()
    one.buffers.resume(one.owned[1])
    one.put(3, 1)
    assert one.buffers.has_any()
    assert sorted(one.take(10)) == [(1, 1), (3, 0)]
    assert (one.take(10), one.buffers.has_any(), one.buffers.nbytes) == ([], False, 0)


def test_a_loan_is_of_a_partition_that_has_a_turn(handler: Handler) -> None:
    one = Round(handler, 5)
    for id_ in range(5):
        one.put(id_, 1)
    for id_ in (0, 1):
        one.buffers.pause(one.owned[id_])
    borrowed = [one.buffers.borrow(10, 10) for _ in range(4)]
    assert [None if borrow is None else borrow.owned.partition_id for borrow in borrowed] == [2, 3, 4, None]
    for borrow in borrowed[:3]:
        assert borrow is not None
        assert one.buffers.return_borrowed(borrow, -1)
    one.buffers.resume(one.owned[0])
    assert sorted(one.take(10)) == [(0, 0), (2, 0), (3, 0), (4, 0)]


def test_rounds_of_one_message_each_pass_by_those_without_a_turn(handler: Handler) -> None:
    one = Round(handler, 6)
    for id_ in range(6):
        one.put(id_, 3)
    assert [one.buffers.next().partition_id for _ in range(2)] == [0, 1]
    one.buffers.pause(one.owned[2])
    one.buffers.pause(one.owned[0])
    assert [one.buffers.next().partition_id for _ in range(8)] == [3, 4, 5, 1, 3, 4, 5, 1]
    one.buffers.resume(one.owned[2])
    left = [message.partition_id for message in iter(one.buffers.next, None)]
    assert sorted(left) == [2, 2, 2, 3, 4, 5]


# -- positions -----------------------------------------------------------------------------------------------------------


def test_what_the_last_call_took_counts_as_processed_by_the_next_or_by_a_commit(handler: Handler) -> None:
    one = Round(handler)
    buffers, owned = one.buffers, one.owned[0]
    one.put(0, 6)
    assert buffers.processed(owned) == 0
    buffers.begin_call()
    one.take(4)
    assert buffers.processed(owned) == 0
    for committed, processed in ((0, 0), (2, 2), (1, 2), (9, 2), (4, 4)):
        buffers.committed(owned, committed)
        assert buffers.processed(owned) == processed
    buffers.begin_call()
    assert buffers.processed(owned) == 4
    buffers.committed(owned, 2)  # of the call before: no news
    assert buffers.processed(owned) == 4
    buffers.hold(owned, 1)
    assert buffers.processed(owned) == 1


@pytest.mark.parametrize(("moves", "moved"), [(-1, True), (0, False), (1, True), (2, False)])
def test_a_move_that_comes_too_late_does_nothing(handler: Handler, moves: int, moved: bool) -> None:
    one = Round(handler)  # each partition was moved once
    owned = one.owned[0]
    one.put(0, 3)
    epochs = LeaderEpochs([Start(0, 1)])
    assert one.buffers.move(owned, 7, 6, moves, epochs) is moved
    assert (owned.position, owned.last_offset_consumed, owned.messages) == ((7, 6, 0) if moved else (0, -1, 3))
    assert (owned.leader_epochs is epochs, owned.moves) == (moved, 2 if moved else 1)
    assert one.buffers.correct(owned, owned.moves, owned.position, 5) is True
    assert (owned.position, owned.last_offset_consumed) == (5, 4)
    assert one.buffers.correct(owned, owned.moves, 9, 3) is True  # it has gone on meanwhile
    assert one.buffers.correct(owned, owned.moves - 1, 5, 3) is False
    assert (owned.position, owned.last_offset_consumed) == (5, 4)


def test_a_move_begins_with_nothing_buffered_or_in_process(handler: Handler) -> None:
    one = Round(handler)
    buffers, owned = one.buffers, one.owned[0]
    buffers.begin_call()
    one.put(0, 1, 2000)
    one.take(1)
    assert buffers.next_fetch(owned, 0) is None
    assert owned.buffer_full
    buffers.move(owned, 7, 6)
    assert (owned.buffer_full, owned.last_timestamp, buffers.processed(owned)) == (False, -1, 7)
    assert (buffers.nbytes, buffers.has_any(), buffers.next_fetch(owned, 0)) == (0, False, (owned.epoch, 7))


@pytest.mark.parametrize(("buffered", "coming"), [(1, 1999), (1, 5000), (0, 2000)])
def test_a_fetcher_without_room_is_woken_if_something_is_buffered(handler: Handler, buffered: int, coming: int) -> None:
    one = Round(handler)
    owned = one.owned[0]
    owned.wake = handler.Event()
    one.put(0, *[1] * buffered)
    assert one.buffers.next_fetch(owned, coming) is None
    one.take(1)
    assert owned.wake.is_set() is bool(buffered)


def test_a_fetch_goes_on_where_the_last_answer_ended(handler: Handler) -> None:
    one = Round(handler)
    owned = one.owned[0]
    assert one.buffers.advance(owned, owned.epoch, 60, [Start(0, 3)])
    assert one.buffers.next_fetch(owned, 0) == (owned.epoch, 60)
    assert owned.leader_epochs.before(60) == 3
    before = owned.epoch
    one.buffers.rewind(owned, before, 55)
    assert not one.buffers.put(owned, before, readers(1))
    assert one.buffers.next_fetch(owned, 0) == (before + 1, 55)


def test_a_copy_goes_on_at_the_position_with_nothing_buffered(handler: Handler) -> None:
    one, other = Round(handler), Buffers(handler, MANY)
    owned = one.owned[0]
    one.put(0, 5)
    one.buffers.begin_call()
    one.take(3)
    owned.leader_epochs, owned.topic_id = LeaderEpochs([Start(0, 1)]), UUID(int=1)
    copy = owned.copy_into(other)
    assert (copy.position, copy.last_offset_consumed, copy.messages, copy.key) == (3, 2, 0, owned.key)
    assert (copy.max_messages, copy.max_bytes, copy.buffers) == (2000, 1024, other)
    assert (copy.leader_epochs is owned.leader_epochs, copy.paused, copy.topic_id) == (True, False, UUID(int=1))
    assert (other.processed(copy), other.next_fetch(copy, 0)) == (0, (copy.epoch, 3))
    other.begin_call()
    assert other.processed(copy) == 3


# -- loans that end otherwise --------------------------------------------------------------------------------------------


def test_an_abandoned_loan_is_fetched_again(handler: Handler) -> None:
    one = Round(handler)
    owned = one.owned[0]
    one.put(0, 3, 3)
    one.take(1)
    before = owned.epoch
    borrow = one.buffers.borrow(10, 100)
    assert borrow is not None
    assert sum(reader.remaining for reader in borrow.readers) == 5  # the one that was begun, too
    one.buffers.abandon(borrow)
    assert not one.buffers.put(owned, before, readers(1))
    assert (owned.position, owned.last_offset_consumed, owned.messages, one.buffers.nbytes) == (1, 0, 0, 0)
    assert one.buffers.next_fetch(owned, 0) == (owned.epoch, 1)
    one.put(0, 2, start=1)
    one.buffers.abandon(borrow)  # the partition has moved on
    assert one.take(5) == [(0, 1), (0, 2)]


def test_a_returned_loan_says_whether_it_counted(handler: Handler) -> None:
    one = Round(handler)
    buffers, owned = one.buffers, one.owned[0]
    buffers.begin_call()
    one.put(0, 2, 2)
    borrow = buffers.borrow(10, 100)
    assert borrow is not None
    for reader in borrow.readers:
        for _ in range(2):
            assert reader.next()
    assert buffers.return_borrowed(borrow, 3) is True
    assert (owned.position, owned.last_offset_consumed, buffers.processed(owned)) == (4, 3, 0)
    assert buffers.return_borrowed(borrow, 3) is False
    assert not buffers.has_any()


def test_a_loan_of_which_one_message_was_read(handler: Handler) -> None:
    one = Round(handler)
    one.put(0, 3)
    borrow = one.buffers.borrow(10, 100)
    assert borrow is not None
    assert borrow.readers[0].next()
    assert one.buffers.return_borrowed(borrow, 0)
    assert (one.owned[0].position, one.owned[0].last_offset_consumed) == (1, 0)
    assert one.take(5) == [(0, 1), (0, 2)]


def test_what_is_paused_leaves_its_room_to_others_until_it_goes_on(handler: Handler) -> None:
    one = Round(handler, 2)
    one.put(0, 3)
    first = one.buffers.nbytes
    one.put(1, 4)
    both = one.buffers.nbytes
    one.buffers.pause(one.owned[0])
    assert one.buffers.nbytes == both - first
    one.buffers.resume(one.owned[0])
    assert one.buffers.nbytes == both
    assert len(one.take(10)) == 7
    assert one.buffers.nbytes == 0


class Listener(ClientListener):
    """Keeps what it hears of records."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int, int]] = []

    def on_records(self, topic: str, partition: int, records: int, nbytes: int, now: float) -> None:
        self.heard.append((topic, partition, records, nbytes))


def test_what_is_put_is_reported(handler: Handler) -> None:
    listener = Listener()
    one = Round(handler, listener=listener)
    one.put(0, 2, 3)
    assert listener.heard == [("t", 0, 5, one.buffers.nbytes)]


def test_a_partition_begins_with_nothing_known(handler: Handler) -> None:
    buffers = Buffers(handler, MANY)
    owned = OwnedPartition(SimpleNamespace(id=3, topic_name="t"), buffers, 2000, 1024)  # type: ignore[arg-type]
    assert (owned.key.topic, owned.partition_id, owned.key.partition) == ("t", 3, 3)
    unknown = [
        owned.position,
        owned.next_offset,
        owned.fetch_offset,
        owned.last_offset_consumed,
        owned.reached_timestamp(),
    ]
    unknown += [owned.high_watermark, owned.last_stable_offset, owned.log_start_offset, buffers.processed(owned)]
    assert unknown == [-1] * 9
    assert (owned.messages, owned.epoch, owned.moves, owned.borrow) == (0, 0, 0, 0)
    assert not buffers.has_any()
    assert buffers.take(1) == []


def batch_of(timestamps: tuple[int, ...]) -> BatchReader:
    builder = RecordBatchBuilder()
    for timestamp in timestamps:
        builder.append(timestamp, None, b"value", None)
    (raw,), _ = scan(b"".join(builder.build(0)))
    cursor = raw.open()
    cursor.max_timestamp = raw.max_timestamp
    return cursor


@pytest.mark.parametrize(("timestamps", "within"), [((0, 0), 0), ((9, 4), 9)])
def test_a_partition_has_reached_the_timestamp_of_its_last_message(
    handler: Handler, timestamps: tuple[int, ...], within: int
) -> None:
    one = Round(handler)
    [owned] = one.owned
    assert one.buffers.put(owned, owned.epoch, [batch_of(timestamps)])
    assert owned.reached_timestamp() == -1
    one.take(1)
    assert owned.reached_timestamp() == within
    one.take(2)
    assert owned.reached_timestamp() == max(timestamps)
    one.buffers.move(owned, 0, -1)
    assert owned.reached_timestamp() == -1


def test_a_fetcher_waits_from_the_last_byte_on_until_a_quarter_is_read(handler: Handler) -> None:
    one = Round(handler)
    one.put(0, *[1] * 200, size=1000)
    full = one.buffers.nbytes
    one = Round(handler, max_bytes=full)
    wake = handler.Event()
    one.put(0, *[1] * 199, size=1000)
    assert not one.buffers.wait_for_room(wake)
    one.put(0, 1, start=199, size=1000)
    assert one.buffers.nbytes == full
    assert one.buffers.wait_for_room(wake)
    taken = 0
    while not wake.is_set():
        assert one.take(1)
        taken += 1
    assert 49 <= taken <= 51


def test_each_call_has_a_number(handler: Handler) -> None:
    one = Round(handler)
    before = one.buffers.calls
    for number in (1, 2, 3):
        one.buffers.begin_call()
        assert one.buffers.calls == before + number
    one.buffers.next()
    assert one.buffers.calls == before + 4


def test_a_paused_partition_that_moves_counts_no_bytes(handler: Handler) -> None:
    one = Round(handler, 2)
    one.put(0, 3)
    one.put(1, 3)
    held = one.buffers.nbytes // 2
    one.buffers.pause(one.owned[0])
    one.buffers.move(one.owned[0], 10, -1)
    assert one.buffers.nbytes == held
    one.put(0, 2, start=10)
    assert one.buffers.nbytes == held
    one.buffers.resume(one.owned[0])
    assert one.take(10) == [(1, 0), (1, 1), (1, 2), (0, 10), (0, 11)]
    assert one.buffers.nbytes == 0


@pytest.mark.parametrize(("timestamps", "read"), [((0, 0), 1), ((0, 0), 2), ((9, 4), 1), ((9, 4), 2), ((3, 3), 0)])
def test_a_returned_loan_has_the_timestamp_of_what_was_read(
    handler: Handler, timestamps: tuple[int, ...], read: int
) -> None:
    one = Round(handler)
    [owned] = one.owned
    assert one.buffers.put(owned, owned.epoch, [batch_of(timestamps)])
    borrow = one.buffers.borrow(10, 10)
    assert borrow is not None
    for _ in range(read):
        assert borrow.readers[0].next() is not None
    assert one.buffers.return_borrowed(borrow, read - 1)
    assert owned.reached_timestamp() == (max(timestamps) if read else -1)
    assert owned.position == read
