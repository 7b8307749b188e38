"""Histories that a wrong client or broker would give, each with one anomaly."""

from __future__ import annotations

from collections.abc import Callable

from pykafka.testing.history import (
    Acknowledge,
    Acquire,
    Assign,
    BufferedBytes,
    Call,
    Commit,
    Committed,
    Crash,
    DeadLetter,
    Drained,
    Left,
    OpenProducer,
    Place,
    Send,
    Settled,
)
from tests.testing import administered, kept
from tests.testing.stories import GROUP, P0, P1, TOPIC, Story

Write = Callable[[Story], object]


def inconsistent_offsets(story: Story) -> None:
    story.sends(1, 2)
    story.send(3, 1)


def duplicate(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1), (1, 2), (2, 1))


def duplicate_in_another_partition(story: Story) -> None:
    story.send(1, 0)
    story.poll((4, 1), partition=1)


def duplicate_of_unknown_send(story: Story) -> None:
    story.send(1, outcome="unknown")
    story.poll((0, 1), (1, 1))


def failed_read(story: Story) -> None:
    story.send(1, outcome="fail")
    story.poll((0, 1))


def aborted_read(story: Story) -> None:
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.abort()
    story.poll((0, 1))


def read_after_failed_commit(story: Story) -> None:
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.commit_transaction("fail")
    story.abort()
    story.poll((0, 1))


def read_of_crashed(story: Story) -> None:
    """The producer crashes before it commits, and its successor aborts what it had begun."""
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.note("p", Crash())
    story.producer()
    story.poll((0, 1))


def precommitted_read(story: Story) -> None:
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.poll((0, 1))
    story.commit_transaction()


def read_of_own_transaction(story: Story) -> None:
    story.consumer("p", committed=True)
    story.begin()
    story.send(1, 0)
    story.poll((0, 1), who="p")
    story.commit_transaction()


def lost_write(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.note("c", Crash())
    story.poll((2, 3))


def torn_transaction(story: Story) -> None:
    """The end of a transaction is unknown; one of its records was read, so the others have to be."""
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.send(2, 0, partition=1)
    story.commit_transaction("unknown")
    story.send(3, 2, who="q", partition=1)
    story.poll((0, 1))
    story.poll((2, 3), partition=1)


def unseen(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1))
    story.note("c", Drained((TOPIC,)))


def unseen_by_group(story: Story) -> None:
    """Another reader has seen it, but the group has committed it away."""
    story.consumer(group=GROUP)
    story.sends(1, 2)
    story.poll((0, 1), (1, 2), who="d")
    story.poll((1, 2))
    story.note("c", Drained((TOPIC,), GROUP))


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


def never_sent(story: Story) -> None:
    story.poll((0, 1))


def read_before_it_was_sent(story: Story) -> None:
    story.poll((0, 1))
    story.send(1, 0)


def duplicate_result(story: Story) -> None:
    story.consumer(committed=True)
    story.send(1, 0)
    for value, offset in ((11, 0), (12, 1)):
        sent = Send(TOPIC, value, 1, cause=1)
        story.ok(story.invoke("p", sent), Send(TOPIC, value, 1, offset, cause=1))
    story.poll((0, 11), (1, 12), partition=1)


def missing_result(story: Story) -> None:
    story.consumer(committed=True)
    story.ok(story.invoke("p", Send("in", 1, 0)), Send("in", 1, 0, 0))
    story.note("c", Drained((TOPIC,), results_of=("in",)))


def incomplete_commit(story: Story) -> None:
    story.begin()
    story.send(1, 0)
    story.send(2, outcome="fail")
    story.commit_transaction()


def two_owners(story: Story) -> None:
    story.assigned(3, P0, who="c")
    story.assigned(3, P0, P1, who="d")


def two_owners_by_a_kept_partition(story: Story) -> None:
    story.assigned(3, P0)
    story.assigned(4, P0, P1, who="d")
    story.assigned(4, P0)


def commit_beyond(story: Story) -> None:
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(2)


def commit_beyond_before_any_read(story: Story) -> None:
    story.sends(1, 2)
    story.assigned(1, P0)
    story.commit(1)


def commit_after_loss(story: Story) -> None:
    story.send(1, 0)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.revoked(2, P0)
    story.commit(1)


def commit_by_former_owner(story: Story) -> None:
    """The member does not know yet that another one has its partition; its coordinator does, and takes its commit."""
    story.send(1, 0)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.assigned(2, P0, who="d")
    story.commit(1)


def commit_went_back(story: Story) -> None:
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2)
    story.commit(1)


def committed(story: Story, offset: int) -> None:
    story.ok(story.invoke("d", Committed(GROUP)), Committed(GROUP, (Place(TOPIC, 0, offset),)))


def lost_commit(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.commit(2)
    committed(story, 1)


def forgotten_commit(story: Story) -> None:
    story.sends(1)
    story.poll((0, 1))
    story.commit(1)
    committed(story, -1)


def lost_commit_after_a_part(story: Story) -> None:
    """The second one has certainly replaced what the first may have committed."""
    story.sends(1, 2)
    story.poll((0, 1))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1),)))
    story.ok(begun, Commit(GROUP, ()))
    story.poll((1, 2))
    story.commit(2)
    committed(story, 1)


def dead_letter_twice(story: Story) -> None:
    story.dead_letter(4)
    story.dead_letter(5)
    story.dead_letter(4, who="d")


def began_behind(story: Story) -> None:
    """Another reader has seen what the group has passed over."""
    story.member()
    story.member("d")
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2), (2, 3), who="r")
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.revoked(2, P0)
    story.assigned(2, P0, who="d")
    story.poll((2, 3), who="d")


def began_behind_at_once(story: Story) -> None:
    """The group has committed nothing."""
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((1, 2))
    story.poll((0, 1), who="r")


def began_behind_as_another_did(story: Story) -> None:
    """A commit that the group has replaced does not count any more, even if its outcome was unknown."""
    for who in "cde":
        story.member(who)
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2), (2, 3), who="r")
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2, outcome="unknown")
    story.assigned(2, P0, who="d")
    story.poll((0, 1), who="d")
    story.commit(1, who="d")
    story.revoked(3, P0, who="d")
    story.assigned(3, P0, who="e")
    story.poll((2, 3), who="e")


def began_behind_own_commit(story: Story) -> None:
    """Members commit by themselves: at most behind what they were given."""
    story.member(auto_commit=True)
    story.member("d", auto_commit=True)
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2), (2, 3), who="r")
    story.assigned(1, P0)
    story.poll((0, 1))
    story.assigned(2, P0, who="d")
    story.poll((2, 3), who="d")


def began_behind_without_assignment(story: Story) -> None:
    """A program has chosen the partition."""
    story.consumer()
    story.sends(1, 2)
    story.ok(story.invoke("c", Assign((P0,))))
    story.poll((1, 2))
    story.poll((0, 1), who="r")


def began_behind_after_an_abort(story: Story) -> None:
    """The position is not put back to the committed offset."""
    story.consumer("x", group=GROUP)
    story.sends(1, 2)
    story.poll((0, 1), (1, 2), who="r")
    story.assigned(1, P0, who="x")
    story.begin("x")
    story.poll((0, 1), who="x")
    story.commit(1, who="x")
    story.abort(who="x")
    story.poll((1, 2), who="x")


def began_before(story: Story) -> None:
    story.member()
    story.member("d")
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2)
    story.revoked(2, P0)
    story.assigned(2, P0, who="d")
    story.poll((1, 2), who="d")


def began_at_a_former_position(story: Story) -> None:
    """Another member had the partition in between, so its own former position does not count."""
    story.member()
    story.member("d")
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.revoked(2, P0)
    story.assigned(2, P0, who="d")
    story.poll((1, 2), who="d")
    story.commit(2, who="d")
    story.revoked(3, P0, who="d")
    story.assigned(3, P0)
    story.poll((1, 2))


def misplaced(story: Story) -> None:
    story.send(1, outcome="unknown")
    story.poll((0, 1), partition=1)


def misplaced_in_another_topic(story: Story) -> None:
    story.unknown(story.invoke("p", Send("other", 1)))
    story.poll((0, 1))


def misplaced_by_acknowledgement(story: Story) -> None:
    story.ok(story.invoke("p", Send(TOPIC, 1, 0)), Send(TOPIC, 1, 1, 0))


def read_after_loss(story: Story) -> None:
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.revoked(1, P0, lost=True)
    story.poll((1, 2))


def read_of_a_revoked_partition(story: Story) -> None:
    """The member has another assignment in the next generation."""
    story.member()
    story.member("d")
    story.sends(1, 2)
    story.assigned(1, P0, P1)
    story.assigned(2, P1)
    story.assigned(2, P0, who="d")
    story.poll((0, 1))


def two_owners_for_too_long(story: Story) -> None:
    """Without any fault, a former owner goes on longer than it takes to notice."""
    story.member(notices_ms=100)
    story.member("d")
    story.sends(1, 2)
    story.fault("pause", number=1, lasts_ms=50)
    story.assigned(1, P0)
    story.assigned(2, P0, who="d")
    story.poll((0, 1))
    story.clock_ms += 110
    story.poll((1, 2))


def attribute_error(story: Story) -> None:
    """An error that is ordinary at no time."""
    begun = story.invoke("p", Send(TOPIC, 1, 0))
    story.unknown(begun, "AttributeError")


def time_out_without_a_fault(story: Story) -> None:
    """The fault that could explain it has ended long before."""
    story.fault("pause", "1", number=1, lasts_ms=10)
    story.clock_ms += 101
    story.unknown(story.invoke("c", Call("close")), "TimeOut")


def time_out_of_another_fault(story: Story) -> None:
    story.fault("fail", "Produce", "TOO_LARGE", number=1)
    story.unknown(story.invoke("c", Call("close")), "TimeOut")


def time_out_of_another_call(story: Story) -> None:
    story.fault("pause", "1", number=1)
    story.unknown(story.invoke("c", Call("flush")), "TimeOut")


def dead_letter_stored_twice(story: Story) -> None:
    story.dead_letter(4)
    for _ in range(2):
        story.note("l", DeadLetter(GROUP, Place(TOPIC, 0, 4)))


def accepted_twice(story: Story) -> None:
    """Two members are given a record at the same time, and accept it at the same time."""
    story.acquire(1)
    places = (Place(TOPIC, 0, 2),)
    first, second = story.invoke("s", Acquire(GROUP)), story.invoke("u", Acquire(GROUP))
    story.ok(first, Acquire(GROUP, places, lock_ms=1_000))
    story.ok(second, Acquire(GROUP, places, lock_ms=1_000))
    first, second = story.invoke("s", Acknowledge(GROUP, places)), story.invoke("u", Acknowledge(GROUP, places))
    story.ok(second)
    story.ok(first)


def accepted_after_loss(story: Story) -> None:
    """The lock of the member has ended, as another one has the record."""
    story.acquire(1, lock_ms=1_000)
    story.acquire(1, who="u", lock_ms=1_000)
    story.acknowledge(1)


def accepted_within_the_lock_of_another(story: Story) -> None:
    """A member asks in advance; the other one has asked before that."""
    story.acquire(1, before_ms=10, lock_ms=100)
    story.clock_ms += 110
    story.acquire(1, who="u", before_ms=50, lock_ms=100)
    story.acknowledge(1)


def accepted_after_release(story: Story) -> None:
    story.acquire(1)
    story.acknowledge(1, kind="release")
    story.acknowledge(1)


def accepted_while_it_is_given(story: Story) -> None:
    """The acknowledgement was called before the member had the record."""
    begun = story.invoke("s", Acknowledge(GROUP, (Place(TOPIC, 0, 1),)))
    story.acquire(1)
    story.ok(begun)


def accepted_by_a_restarted_member(story: Story) -> None:
    story.acquire(1)
    story.note("s", Crash())
    story.acknowledge(1)


def acquired_after_reject(story: Story) -> None:
    story.acquire(1)
    story.acknowledge(1, kind="reject")
    story.acquire(1, who="u")


def accepted_without_acquiring(story: Story) -> None:
    story.acquire(1)
    story.acknowledge(1, who="u")


def acquired_after_accept(story: Story) -> None:
    story.acquire(1)
    story.acknowledge(1)
    story.acquire(1, who="u")


def unsettled(story: Story) -> None:
    """Of three records, one is accepted, one is spent, one is released."""
    story.sends(1, 2, 3)
    values = {0: 1, 1: 2, 2: 3}
    places = tuple(Place(TOPIC, 0, offset) for offset in values)
    story.ok(story.invoke("s", Acquire(GROUP)), Acquire(GROUP, places, tuple(values.values())))
    story.acknowledge(0)
    story.acknowledge(1, kind="release")
    story.note("s", Settled((TOPIC,), GROUP, (Place(TOPIC, 0, 2),)))


def acquired_of_another_value(story: Story) -> None:
    story.sends(1, 2)
    story.ok(story.invoke("s", Acquire(GROUP)), Acquire(GROUP, (Place(TOPIC, 0, 0),), (2,)))


def acquired_of_no_program(story: Story) -> None:
    story.ok(story.invoke("s", Acquire(GROUP)), Acquire(GROUP, (Place(TOPIC, 0, 0),), (2,)))


def acquired_though_failed(story: Story) -> None:
    story.send(1, outcome="fail")
    story.ok(story.invoke("s", Acquire(GROUP)), Acquire(GROUP, (Place(TOPIC, 0, 0),), (1,)))


def late_end(story: Story) -> None:
    story.call("close", timeout_ms=10, lasts_ms=12)


def no_end(story: Story) -> None:
    story.call("flush", timeout_ms=10, lasts_ms=None)


def leftover(story: Story) -> None:
    story.note("main", Left(workers=("fetcher",)))


def too_many_bytes(story: Story) -> None:
    story.note("p", BufferedBytes("buffer", 101, 100))


PLANTED: list[tuple[str, Write]] = [
    ("inconsistent-offsets", inconsistent_offsets),
    ("duplicate", duplicate),
    ("duplicate", duplicate_in_another_partition),
    ("duplicate", duplicate_of_unknown_send),
    ("G1a", failed_read),
    ("G1a", aborted_read),
    ("G1a", read_after_failed_commit),
    ("G1a", read_of_crashed),
    ("precommitted-read", precommitted_read),
    ("precommitted-read", read_of_own_transaction),
    ("lost-write", lost_write),
    ("lost-write", torn_transaction),
    ("unseen", unseen),
    ("unseen", unseen_by_group),
    ("poll-skip", poll_skip),
    ("poll-skip", poll_skip_of_committed),
    ("nonmonotonic-poll", nonmonotonic_poll),
    ("nonmonotonic-poll", nonmonotonic_kept_partition),
    ("int-poll-skip", int_poll_skip),
    ("int-nonmonotonic-poll", int_nonmonotonic_poll),
    ("nonmonotonic-send", nonmonotonic_send),
    ("nonmonotonic-send", nonmonotonic_send_without_numbers),
    ("int-nonmonotonic-send", int_nonmonotonic_send),
    ("int-send-skip", int_send_skip),
    ("misplaced", misplaced),
    ("misplaced", misplaced_in_another_topic),
    ("misplaced", misplaced_by_acknowledgement),
    ("never-sent", never_sent),
    ("never-sent", read_before_it_was_sent),
    ("duplicate-result", duplicate_result),
    ("missing-result", missing_result),
    ("incomplete-commit", incomplete_commit),
    ("two-owners", two_owners),
    ("two-owners", two_owners_by_a_kept_partition),
    ("two-owners", two_owners_for_too_long),
    ("read-after-loss", read_after_loss),
    ("read-after-loss", read_of_a_revoked_partition),
    ("began-behind", began_behind),
    ("began-behind", began_behind_at_once),
    ("began-behind", began_behind_as_another_did),
    ("began-behind", began_behind_own_commit),
    ("began-behind", began_behind_without_assignment),
    ("began-behind", began_behind_after_an_abort),
    ("began-before", began_before),
    ("began-before", began_at_a_former_position),
    ("commit-beyond", commit_beyond),
    ("commit-beyond", commit_beyond_before_any_read),
    ("commit-after-loss", commit_after_loss),
    ("commit-after-loss", commit_by_former_owner),
    ("commit-went-back", commit_went_back),
    ("lost-commit", lost_commit),
    ("lost-commit", forgotten_commit),
    ("lost-commit", lost_commit_after_a_part),
    ("dead-letter-twice", dead_letter_twice),
    ("dead-letter-twice", dead_letter_stored_twice),
    ("accepted-twice", accepted_twice),
    ("accepted-without-acquiring", accepted_without_acquiring),
    ("accepted-without-acquiring", accepted_after_release),
    ("accepted-without-acquiring", accepted_while_it_is_given),
    ("accepted-without-acquiring", accepted_by_a_restarted_member),
    ("accepted-after-loss", accepted_after_loss),
    ("accepted-after-loss", accepted_within_the_lock_of_another),
    ("acquired-after-accept", acquired_after_accept),
    ("acquired-after-accept", acquired_after_reject),
    ("unexplained-error", attribute_error),
    ("unexplained-error", time_out_without_a_fault),
    ("unexplained-error", time_out_of_another_fault),
    ("unexplained-error", time_out_of_another_call),
    ("unsettled", unsettled),
    ("inconsistent-offsets", acquired_of_another_value),
    ("never-sent", acquired_of_no_program),
    ("G1a", acquired_though_failed),
    ("late-end", late_end),
    ("no-end", no_end),
    ("leftover", leftover),
    ("too-many-bytes", too_many_bytes),
    *administered.PLANTED,
    *kept.PLANTED,
]
