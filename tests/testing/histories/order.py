"""Histories of polls and sends that skip records or go back; and right ones."""

from __future__ import annotations

from pykafka.testing.history import Deleted, OpenProducer, Place, Seek, Send
from tests.testing.histories.commits import committed
from tests.testing.stories import GROUP, P0, P1, TOPIC, Story, Write

# Anomalies


def poll_skip(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.poll((2, 3))
    story.poll((0, 1), (1, 2), who="d")


def poll_skip_of_committed(story: Story) -> None:
    """A commit is acknowledged; a reader goes from before it to behind it."""
    story.consumer(committed=True)
    story.send(1, 0)
    story.begin("q")
    story.send(2, 1, "q")
    story.commit_transaction(who="q")
    story.send(3, 3)
    story.poll((0, 1))
    story.poll((3, 3))
    story.poll((1, 2), who="d")


def nonmonotonic_poll(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1), (1, 2))
    story.poll((1, 2))


def nonmonotonic_kept_partition(story: Story) -> None:
    """A cooperative member goes back in a partition that it has kept."""
    story.consumer(group=GROUP)
    story.sends(1, 2)
    story.assigned(1, P0, P1)
    story.poll((0, 1), (1, 2))
    story.revoked(2, P1)
    story.assigned(2, P0)
    story.poll((0, 1))


def _outdated(story: Story, *words: str, partition: int = 0, lasts_ms: int | None = 5) -> None:
    story.fault("outdated", TOPIC, str(partition), *words, number=1, lasts_ms=lasts_ms)


def nonmonotonic_despite_epochs(story: Story) -> None:
    """A leader is cut off, but its clients can see that by the leader epoch."""
    story.sends(1, 2)
    story.poll((0, 1), (1, 2))
    _outdated(story)
    story.poll((0, 1))


def nonmonotonic_in_another_partition(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1), (1, 2))
    _outdated(story, "unnumbered", partition=1)
    story.poll((0, 1))


def nonmonotonic_to_the_middle(story: Story) -> None:
    """Nobody resets a position to there."""
    story.sends(1, 2)
    story.poll((0, 1), (1, 2))
    _outdated(story, "unnumbered")
    story.poll((1, 2))


def nonmonotonic_after_what_was_read_since(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1))
    _outdated(story, "unnumbered")
    story.poll((1, 2))
    story.poll((0, 1))


def nonmonotonic_long_after(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1), (1, 2))
    _outdated(story, "unnumbered")
    story.clock_ms += 5_000
    story.poll((0, 1))


def commit_goes_back_before_the_reads(story: Story) -> None:
    """A leader that is cut off excuses a commit only where the member has begun again."""
    story.consumer(group=GROUP)
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2)
    _outdated(story, "unnumbered")
    story.commit(1)


def int_poll_skip(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1), (2, 3))
    story.poll((1, 2), who="d")


def int_nonmonotonic_poll(story: Story) -> None:
    story.sends(1, 2)
    story.poll((1, 2), (0, 1))


def nonmonotonic_send(story: Story) -> None:
    story.send(1, 1)
    story.send(2, 0)


def nonmonotonic_send_without_numbers(story: Story) -> None:
    story.note("p", OpenProducer(idempotent=False, ordered=True))
    story.send(1, 1)
    story.send(2, 0)


def int_nonmonotonic_send(story: Story) -> None:
    story.begin()
    story.send(1, 1)
    story.send(2, 0)
    story.commit_transaction()


def int_send_skip(story: Story) -> None:
    """A record of an earlier transaction of the same producer arrives in the middle of the next one."""
    story.begin()
    late = story.invoke("p", Send(TOPIC, 1, 0))
    story.commit_transaction("unknown")
    story.begin()
    story.send(2, 0)
    story.send(3, 2)
    story.unknown(late)
    story.commit_transaction()
    story.poll((0, 2), (1, 1), (2, 3))


def nonmonotonic_behind_a_seek(story: Story) -> None:
    """A seek forward has no effect."""
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.seek(2)
    story.poll((1, 2), (2, 3))


def poll_skip_behind_a_seek(story: Story) -> None:
    """A seek back has no effect."""
    story.sends(1, 2, 3, 4)
    story.poll((0, 1), (1, 2))
    story.seek(0)
    story.poll((2, 3), (3, 4))


def poll_skip_before_a_deletion(story: Story) -> None:
    """The record was there when the poll passed over it."""
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.poll((2, 3))
    story.note("main", Deleted(Place(TOPIC, 0, 2)))


def nonmonotonic_send_without_offsets(story: Story) -> None:
    """The acknowledgements name no offsets, but a reader has seen them."""
    story.send(1)
    story.send(2)
    story.poll((0, 2), (1, 1))


# Right


def interleaved(story: Story) -> None:
    """Others write between the records of a transaction."""
    story.begin()
    story.send(1, 0)
    story.send(2, 1, who="q")
    story.send(3, 2)
    story.commit_transaction()
    story.poll((0, 1), (1, 2), (2, 3))


def seeks(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.seek(2)
    story.poll((2, 3))
    story.seek(0)
    story.poll((0, 1))


def abort_puts_back(story: Story) -> None:
    story.consumer("x", committed=True, group=GROUP)
    story.sends(1, 2)
    story.assigned(1, P0, who="x")
    story.begin("x")
    story.poll((0, 1), (1, 2), who="x")
    story.commit(2, who="x")
    story.abort(who="x")
    story.poll((0, 1), who="x")
    story.begin("x")
    story.commit(1, who="x")
    story.commit_transaction(who="x")
    committed(story, 1)


def begins_again_by_a_leader_that_is_cut_off(story: Story) -> None:
    """Without leader epochs a member believes it, and it has less than was read."""
    story.consumer(group=GROUP)
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    _outdated(story, "unnumbered")
    story.commit(2)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.commit(2)


def begins_again_while_a_leader_is_cut_off(story: Story) -> None:
    story.sends(1, 2)
    _outdated(story, "unnumbered", lasts_ms=None)
    story.poll((0, 1), (1, 2))
    story.poll((0, 1))


def sought_behind_an_aborted_record(story: Story) -> None:
    story.consumer(committed=True)
    story.begin("q")
    story.send(1, 0, who="q")
    story.abort(who="q")
    story.send(2, 2)
    story.seek(0)
    story.poll((2, 2))


def sought_what_was_deleted(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2))
    story.note("main", Deleted(Place(TOPIC, 0, 2)))
    story.seek(0)
    story.poll((2, 3))


def seek_that_failed(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.fail(story.invoke("c", Seek(Place(TOPIC, 0, 2))))
    story.poll((1, 2))


def sought_in_a_partition_that_went(story: Story) -> None:
    """It comes back, and the member begins where its group has committed."""
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(1)
    story.seek(0)
    story.revoked(1, P0)
    story.assigned(2, P0)
    story.poll((1, 2))


def acknowledged_without_offsets_in_two_partitions(story: Story) -> None:
    story.send(1)
    story.send(2, partition=1)
    story.send(3)
    story.poll((0, 1), (5, 3))
    story.poll((0, 2), partition=1)


def resent_behind_another(story: Story) -> None:
    """The program has sent the first one again."""
    story.send(1, outcome="unknown")
    story.send(2, 1)
    story.send(1)
    story.poll((1, 2), (2, 1))


PLANTED: list[tuple[str, Write]] = [
    ("poll-skip", poll_skip),
    ("poll-skip", poll_skip_of_committed),
    ("nonmonotonic-poll", nonmonotonic_poll),
    ("nonmonotonic-poll", nonmonotonic_kept_partition),
    ("nonmonotonic-poll", nonmonotonic_despite_epochs),
    ("nonmonotonic-poll", nonmonotonic_in_another_partition),
    ("nonmonotonic-poll", nonmonotonic_to_the_middle),
    ("nonmonotonic-poll", nonmonotonic_after_what_was_read_since),
    ("nonmonotonic-poll", nonmonotonic_long_after),
    ("commit-went-back", commit_goes_back_before_the_reads),
    ("int-poll-skip", int_poll_skip),
    ("int-nonmonotonic-poll", int_nonmonotonic_poll),
    ("nonmonotonic-send", nonmonotonic_send),
    ("nonmonotonic-send", nonmonotonic_send_without_numbers),
    ("int-nonmonotonic-send", int_nonmonotonic_send),
    ("int-send-skip", int_send_skip),
    ("nonmonotonic-poll", nonmonotonic_behind_a_seek),
    ("poll-skip", poll_skip_behind_a_seek),
    ("poll-skip", poll_skip_before_a_deletion),
    ("nonmonotonic-send", nonmonotonic_send_without_offsets),
]
LEGAL: list[tuple[str, Write]] = [
    ("int-send-skip", interleaved),
    ("", seeks),
    ("", abort_puts_back),
    ("nonmonotonic-poll", begins_again_by_a_leader_that_is_cut_off),
    ("nonmonotonic-poll", begins_again_while_a_leader_is_cut_off),
    ("", sought_behind_an_aborted_record),
    ("", sought_what_was_deleted),
    ("", seek_that_failed),
    ("", sought_in_a_partition_that_went),
    ("", acknowledged_without_offsets_in_two_partitions),
    ("", resent_behind_another),
]
