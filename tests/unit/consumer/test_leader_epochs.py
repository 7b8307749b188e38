"""The leader epochs of what was fetched: each offset has the epoch of its batch, however batches come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka.consumer.leader_epochs import KEPT, NO_EPOCH, LeaderEpochs, Start


def test_the_epoch_before_an_offset_is_that_of_the_last_record() -> None:
    leader_epochs = LeaderEpochs().with_batches([Start(0, 1), Start(10, 1), Start(20, 3)])
    assert [leader_epochs.before(offset) for offset in (0, 1, 20, 21, 99)] == [NO_EPOCH, 1, 1, 3, 3]


def test_batches_that_are_fetched_again_replace_what_was_known() -> None:
    leader_epochs = LeaderEpochs().with_batches([Start(0, 1), Start(20, 3)]).with_batches([Start(10, 4)])
    assert [leader_epochs.before(offset) for offset in (10, 11, 30)] == [1, 4, 4]


def test_batches_without_an_epoch_hide_it() -> None:
    leader_epochs = LeaderEpochs().with_batches([Start(0, 1)]).with_batches([Start(10, NO_EPOCH)])
    assert (leader_epochs.before(10), leader_epochs.before(11)) == (1, NO_EPOCH)


def test_a_committed_position_brings_the_epoch_before_it() -> None:
    assert LeaderEpochs.ending_at(100, 5).before(100) == 5
    assert LeaderEpochs.ending_at(100, 5).before(99) == NO_EPOCH
    assert LeaderEpochs.ending_at(100, -1).before(100) == NO_EPOCH


def test_epoch_0_and_a_batch_at_the_same_offset_count() -> None:
    assert LeaderEpochs.ending_at(100, 0).before(100) == 0
    again = LeaderEpochs().with_batches([Start(0, 1), Start(20, 3), Start(20, 4), Start(30, 4), Start(30, 5)])
    assert [again.before(offset) for offset in (20, 21, 31)] == [1, 4, 5]
    assert again.divergence(3, 99) == 20
    assert again.with_batches([Start(40, 5)]) is again


def test_logs_diverge_where_the_leader_ends_or_where_a_later_epoch_was_read() -> None:
    leader_epochs = LeaderEpochs().with_batches([Start(0, 1), Start(90, 5)])
    assert leader_epochs.divergence(5, 95) == 95
    assert leader_epochs.divergence(3, 120) == 90
    assert leader_epochs.divergence(1, 40) == 40


def test_what_lies_behind_an_offset_is_forgotten() -> None:
    leader_epochs = LeaderEpochs().with_batches([Start(0, 1), Start(90, 5)]).until(90)
    assert leader_epochs.before(100) == 1


def test_old_epochs_are_forgotten() -> None:
    leader_epochs = LeaderEpochs().with_batches(Start(number, number) for number in range(2 * KEPT))
    assert leader_epochs.before(2 * KEPT) == 2 * KEPT - 1
    assert leader_epochs.before(KEPT) == NO_EPOCH
    assert leader_epochs.before(KEPT + 1) == KEPT


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1)), max_size=30), st.lists(st.integers(0, 160), max_size=5)
)
def test_each_offset_has_the_epoch_of_its_batch(batches: list[tuple[int, int]], rewinds: list[int]) -> None:
    """A log of batches of some offsets each, whose epoch rises now and then; parts of it are fetched twice."""
    log: list[Start] = []
    end = epoch = 0
    for size, rise in batches:
        epoch += rise
        log.append(Start(end, epoch))
        end += size
    leader_epochs = LeaderEpochs().with_batches(log)
    for rewind in rewinds:
        leader_epochs = leader_epochs.with_batches(start for start in log if start.offset >= rewind)
    for offset in range(1, end + 1):
        expected = [start.epoch for start in log if start.offset < offset][-1]
        assert leader_epochs.before(offset) == expected
