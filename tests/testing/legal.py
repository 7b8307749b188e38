"""Histories that look wrong, and break no promise."""

from __future__ import annotations

from pykafka.testing.history import (
    Acknowledge,
    Acquire,
    BufferedBytes,
    Call,
    Change,
    Commit,
    CommitTransaction,
    Crash,
    DeadLetter,
    Deleted,
    Drained,
    Fault,
    Handled,
    Left,
    OpenTopic,
    Place,
    Poll,
    Read,
    Send,
    Settled,
)
from tests.testing import administered, kept
from tests.testing.planted import Write, committed
from tests.testing.stories import GROUP, P0, P1, TOPIC, Story


def plain(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2))
    story.poll((2, 3))
    story.note("c", Drained((TOPIC,)))


def unknown_outcome_took_effect(story: Story) -> None:
    story.send(1, outcome="unknown")
    story.send(2, 1)
    story.poll((0, 1), (1, 2))


def unknown_outcome_took_none(story: Story) -> None:
    story.send(1, outcome="unknown")
    story.send(2, 0)
    story.poll((0, 2))
    story.note("c", Drained((TOPIC,)))


def send_under_way(story: Story) -> None:
    """Its acknowledgement has not come yet, and it was read."""
    story.invoke("p", Send(TOPIC, 1, 0))
    story.poll((0, 1))


def resent_by_the_program(story: Story) -> None:
    """A send of unknown outcome is sent again, and both took effect."""
    story.send(1, outcome="unknown")
    story.send(1, 1)
    story.poll((0, 1), (1, 1))


def acknowledged_without_offset(story: Story) -> None:
    story.send(1)
    story.send(2, 1)
    story.poll((0, 1), (1, 2))
    story.note("c", Drained((TOPIC,)))


def failed_send(story: Story) -> None:
    story.send(1, outcome="fail")
    story.send(2, 0)
    story.poll((0, 2))
    story.note("c", Drained((TOPIC,)))


def aborted(story: Story) -> None:
    """Those who read committed records pass over an aborted one and its marker; others see it."""
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.abort()
    story.begin()
    story.send(2, 2)
    story.commit_transaction()
    story.send(3, 4, who="q")
    story.poll((2, 2))
    story.poll((4, 3))
    story.poll((0, 1), (2, 2), (4, 3), who="d")
    story.note("c", Drained((TOPIC,)))


def commit_of_unknown_outcome(story: Story) -> None:
    """Its commit got no answer; nobody has seen its records, or all of them are there."""
    story.consumer(committed=True)
    for value in (1, 3):
        story.begin()
        story.send(value, value)
        story.send(value + 1, value, partition=1)
        story.commit_transaction("unknown")
        story.producer()
    story.send(5, 5, who="q")
    story.poll((3, 3), (5, 5))
    story.poll((3, 4), partition=1)
    story.note("c", Drained((TOPIC,)))


def commit_retried(story: Story) -> None:
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.commit_transaction("unknown")
    story.poll((0, 1))
    story.commit_transaction()


def read_while_it_commits(story: Story) -> None:
    """Markers are written before the answer to the commit comes."""
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    begun = story.invoke("p", CommitTransaction())
    story.poll((0, 1))
    story.ok(begun)


def interleaved(story: Story) -> None:
    """Others write between the records of a transaction."""
    story.begin()
    story.send(1, 0)
    story.send(2, 1, who="q")
    story.send(3, 2)
    story.commit_transaction()
    story.poll((0, 1), (1, 2), (2, 3))


def compacted(story: Story) -> None:
    story.note("main", OpenTopic(TOPIC, compacted=True))
    for offset, (value, key) in enumerate([(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "c")]):
        story.send(value, offset, key=key)
    story.poll((2, 3))
    story.poll((3, 4), (4, 5))
    story.poll((0, 1), (2, 3), (3, 4), (4, 5), who="d")
    story.note("c", Drained((TOPIC,)))


def deleted(story: Story) -> None:
    story.sends(1, 2, 3)
    story.note("main", Deleted(Place(TOPIC, 0, 2)))
    story.poll((2, 3))
    story.note("c", Drained((TOPIC,)))


def lost_on_purpose(story: Story) -> None:
    """An unclean election: an offset is used again, and readers go back."""
    story.note("main", OpenTopic(TOPIC, may_lose=True))
    story.sends(1, 2)
    story.poll((0, 1), (1, 2))
    story.send(3, 1)
    story.poll((1, 3))
    story.poll((0, 1), (1, 3), who="d")
    story.note("d", Drained((TOPIC,)))


def not_durable(story: Story) -> None:
    story.producer(durable=False)
    story.sends(1, 2)
    story.send(3, 2, who="q")
    story.consumer("d")
    story.poll((2, 3), who="d")
    story.note("d", Drained((TOPIC,)))


def seeks(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.seek(2)
    story.poll((2, 3))
    story.seek(0)
    story.poll((0, 1))


def began_at_the_end(story: Story) -> None:
    story.consumer(latest=True)
    story.sends(1, 2)
    story.poll((1, 2))


def rebalance(story: Story) -> None:
    """Uncommitted records are read again by the next owner, and by the same one when it has the partition again."""
    for who in "cd":
        story.consumer(who, group=GROUP)
    story.sends(1, 2, 3)
    story.assigned(1, P0, P1)
    story.poll((0, 1), (1, 2))
    story.commit(1)
    story.revoked(2, P0, P1)
    story.assigned(2, P1)
    story.assigned(2, P0, who="d")
    story.poll((1, 2), (2, 3), who="d")
    story.commit(2, who="d")
    story.revoked(3, P0, who="d")
    story.assigned(3, P0, P1)
    story.commit(2)
    story.poll((2, 3))
    story.commit(3)
    story.note("c", Drained((TOPIC,), GROUP))


def refused_commits(story: Story) -> None:
    """A member that lost a partition, or commits too much, is refused, or gets no answer."""
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.assigned(2, P0, who="d")
    story.commit(1, outcome="fail")
    story.commit(2, outcome="unknown")


def commit_behind_a_marker(story: Story) -> None:
    story.consumer(committed=True, group=GROUP)
    story.begin()
    story.send(1, 0)
    story.commit_transaction()
    story.begin()
    story.send(2, 2)
    story.abort()
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(4)
    committed(story, 4)


def commit_while_others_ask(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.commit(2, outcome="unknown")
    committed(story, 1)
    committed(story, 2)


def stale_owner_of_an_older_generation(story: Story) -> None:
    """A member that was out of the group learns later that it has lost its partition."""
    story.assigned(1, P0)
    story.assigned(3, P0, who="d")
    story.revoked(1, P0)


def result_after_an_abort(story: Story) -> None:
    """A record is handled twice, and one result is committed; the other one, only those see who read all."""
    story.consumer(committed=True)
    story.send(1, 0)
    for value in (11, 12):
        story.begin("x")
        sent = Send(TOPIC, value, 1, cause=1)
        story.ok(story.invoke("x", sent), Send(TOPIC, value, 1, 2 * value, cause=1))
        if value == 11:
            story.abort(who="x")
        else:
            story.commit_transaction(who="x")
    story.poll((22, 11), (24, 12), who="d", partition=1)
    story.poll((0, 1))
    story.poll((24, 12), partition=1)
    story.note("c", Drained((TOPIC,)))


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


def dead_letters(story: Story) -> None:
    story.dead_letter(4)
    begun = story.invoke("d", DeadLetter(GROUP, Place(TOPIC, 0, 4)))
    story.fail(begun)


def shared(story: Story) -> None:
    """A record is released, or its lock ends, and another member accepts it; an answer that was lost is no accept."""
    story.acquire(1, 2, 3)
    story.acknowledge(1, kind="release")
    story.acknowledge(2, outcome="unknown")
    story.acquire(1, 2, 3, who="u")
    story.acknowledge(1, 2, 3, who="u")
    story.acknowledge(3, outcome="fail")


def began_behind_a_marker(story: Story) -> None:
    """The committed offset is that of a marker, or of an aborted record."""
    story.consumer(committed=True, group=GROUP)
    story.begin()
    story.send(1, 0)
    story.commit_transaction()
    story.begin()
    story.send(2, 2)
    story.abort()
    story.send(3, 4)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.revoked(2, P0)
    story.consumer(committed=True, group=GROUP)
    story.assigned(2, P0)
    story.poll((4, 3))


def began_at_a_commit_of_unknown_outcome(story: Story) -> None:
    """It may have taken effect, or not: members begin at either of its offsets, until there is a later one."""
    for who in "cde":
        story.member(who)
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.commit(2, outcome="unknown")
    story.assigned(2, P0, who="d")
    story.poll((2, 3), who="d")
    story.assigned(3, P0, who="e")
    story.poll((1, 2), who="e")


def began_while_others_commit(story: Story) -> None:
    """The commit of the former owner has its effect before the lookup of the next one, or behind it; its answer comes late."""
    for who in "cde":
        story.member(who)
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 2),)))
    story.assigned(2, P0, who="d")
    story.poll((1, 2), who="d")
    story.assigned(3, P0, who="e")
    story.poll((2, 3), who="e")
    story.ok(begun)


def began_after_the_call_began(story: Story) -> None:
    """The member looked its position up within the call in which it was assigned the partition, before a commit ended there."""
    story.member()
    story.member("d")
    story.sends(1, 2)
    story.assigned(1, P0, who="d")
    story.poll((0, 1), who="d")
    begun = story.invoke("c", Poll())
    story.commit(1, who="d")
    story.revoked(2, P0, who="d")
    story.assigned(2, P0)
    story.ok(begun, Poll((Read(TOPIC, 0, (0, 1), (1, 2)),)))


def began_where_a_transaction_has_committed(story: Story) -> None:
    """The offsets of an aborted transaction do not count; those of one without a clear outcome may."""
    story.consumer("x", group=GROUP)
    story.sends(1, 2, 3)
    story.assigned(1, P0, who="x")
    story.begin("x")
    story.poll((0, 1), who="x")
    story.commit(1, who="x")
    story.commit_transaction(who="x")
    story.begin("x")
    story.poll((1, 2), who="x")
    story.commit(2, who="x")
    story.abort(who="x")
    story.poll((1, 2), who="x")
    story.begin("x")
    story.commit(2, who="x")
    story.commit_transaction("unknown", who="x")
    for generation, (offset, value) in enumerate([(1, 2), (2, 3)], 2):
        who = f"y{generation}"
        story.consumer(who, group=GROUP)
        story.assigned(generation, P0, who=who)
        story.poll((offset, value), who=who)


def began_behind_what_was_deleted(story: Story) -> None:
    story.member()
    story.sends(1, 2, 3)
    story.note("main", Deleted(Place(TOPIC, 0, 2)))
    story.assigned(1, P0)
    story.poll((2, 3))


def began_behind_what_was_compacted(story: Story) -> None:
    story.note("main", OpenTopic(TOPIC, compacted=True))
    story.member()
    for offset, value in enumerate([1, 2, 3]):
        story.send(value, offset, key="a")
    story.assigned(1, P0)
    story.poll((2, 3))


def began_in_a_topic_that_loses(story: Story) -> None:
    story.note("main", OpenTopic(TOPIC, may_lose=True))
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((2, 3))


def began_behind_what_was_not_durable(story: Story) -> None:
    """Nobody has seen a record that one broker alone had acknowledged, and its offset is free."""
    story.producer(durable=False)
    story.member()
    story.sends(1)
    story.send(2, 1, who="q")
    story.assigned(1, P0)
    story.poll((1, 2))


def began_where_it_has_sought(story: Story) -> None:
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.seek(2)
    story.poll((2, 3))


def kept_its_position(story: Story) -> None:
    """An eager member gives all up and gets it again at once, twice; it goes on where it was, though it has committed less."""
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    for generation in (2, 3):
        story.revoked(generation - 1, P0)
        story.assigned(generation, P0)
    story.poll((2, 3))


def committed_all(story: Story) -> None:
    """A program that commits all of its positions learns from the answer what they were."""
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1),)))
    story.ok(begun, Commit(GROUP, (Place(TOPIC, 0, 2),)))
    committed(story, 2)
    story.revoked(1, P0)
    story.member("d")
    story.assigned(2, P0, who="d")
    story.poll((2, 3), who="d")


def committed_all_of_unknown_positions(story: Story) -> None:
    """A program commits all of its positions, and does not know them when the call begins."""
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    begun = story.invoke("c", Commit(GROUP, ()))
    story.ok(begun, Commit(GROUP, (Place(TOPIC, 0, 1),)))
    story.poll((1, 2))
    story.commit(2)
    committed(story, 2)


def committed_behind_a_marker(story: Story) -> None:
    """The commit of all positions has taken effect, behind the marker of a transaction, and has not ended yet."""
    story.member()
    story.begin()
    story.send(1, 0)
    story.commit_transaction()
    story.send(2, 2)
    story.assigned(1, P0)
    story.commit(0)
    story.poll((0, 1))
    story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1),)))
    committed(story, 2)


def committed_while_it_sought(story: Story) -> None:
    """A commit ends when its member has gone back already, and commits that."""
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 2),)))
    story.seek(1)
    story.ok(begun)
    story.commit(1)


def began_again(story: Story) -> None:
    """A member that was killed begins at the committed offset, and reads what it has not committed once more."""
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.note("c", Crash())
    story.member()
    story.assigned(2, P0)
    story.poll((1, 2))


def members_that_commit_by_themselves(story: Story) -> None:
    """How much they have committed is not known; they go back, and pass over what the group was given, or a seek skipped."""
    for who in "cde":
        story.member(who, auto_commit=True)
    story.sends(1, 2, 3, 4)
    story.poll((0, 1), (1, 2), (2, 3), (3, 4), who="r")
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.assigned(2, P0, who="d")
    story.poll((1, 2), who="d")
    story.seek(3, who="d")
    story.poll((3, 4), who="d")
    story.assigned(3, P0, who="e")
    story.poll((3, 4), who="e")


def sent_again_to_another_partition(story: Story) -> None:
    """The program has sent it to both partitions, and one attempt has failed; or the producer chooses the partition."""
    story.send(1, outcome="fail", partition=1)
    story.send(1, outcome="unknown")
    story.unknown(story.invoke("p", Send(TOPIC, 2)))
    story.poll((0, 1))
    story.poll((0, 2), partition=1)


def former_owner_that_does_not_know(story: Story) -> None:
    """It reads on while a fault keeps the answers from it, and for the time that it takes to notice afterwards."""
    story.member(notices_ms=100)
    story.member("d")
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.fault("pause", "1", number=1)
    story.assigned(2, P0, who="d")
    story.poll((0, 1))
    story.clock_ms += 200
    story.poll((1, 2))
    story.note("faults", Fault("all is well", ends=True))
    story.clock_ms += 90
    story.poll((2, 3))
    story.revoked(1, P0, lost=True)


def explained_errors(story: Story) -> None:
    """A fault is active, or was so when the call began, or a little before; or the error is ordinary at any time."""
    story.fault("fail", "Produce", "RETRIABLE", number=1)
    story.unknown(story.invoke("p", Send(TOPIC, 1, 0)), "TimeOut")
    begun = story.invoke("p", Send(TOPIC, 2, 0))
    story.note("faults", Fault("the end", number=1, ends=True))
    story.clock_ms += 1000
    story.unknown(begun, "TimeOut")
    story.fault("pause", "2")
    story.clock_ms += 90
    story.unknown(story.invoke("c", Call("close")), "TimeOut")
    story.unknown(story.invoke("c", Call("flush")), "Error")
    story.unknown(story.invoke("c", Call("close")), "Error and TimeOut")


def deleted_on_purpose(story: Story) -> None:
    """Whoever uses the topic meanwhile, or a little later, is refused."""
    begun = story.invoke("a", Change("delete t", ()))
    story.unknown(story.invoke("c", Call("poll")), "NoTopic")
    story.ok(begun)
    story.clock_ms += 90
    story.unknown(story.invoke("c", Call("poll")), "NoTopic")


def refused_for_its_lock(story: Story) -> None:
    """Its lock is over, a fault may have ended it, or it has acknowledged it already."""

    def refused(kind: str = "accept") -> None:
        story.fail(story.invoke("s", Acknowledge(GROUP, (Place(TOPIC, 0, 1),), kind)), "InvalidRecordState")

    story.acquire(1, lock_ms=1000)
    story.clock_ms += 1000
    refused()
    story.acquire(1, lock_ms=1000)
    story.acknowledge(1, kind="release", outcome="unknown")
    refused()
    story.acquire(1, lock_ms=None)
    refused()
    story.fault("stop", "1")
    story.clock_ms += 1000
    story.acquire(1, lock_ms=1000)
    refused()


def shared_in_advance(story: Story) -> None:
    """A record that was asked for in advance is handed out late: another member had it meanwhile, or has accepted it since."""
    story.acquire(1, 2)
    story.acquire(1, who="u", before_ms=50)
    story.acknowledge(1)
    story.acknowledge(2)
    story.acquire(2, who="u", before_ms=50)


def shared_and_ignored(story: Story) -> None:
    """A broker takes no notice of acknowledgements of what others have dealt with since, or of what has no lock."""
    story.acquire(1, 2, 3, lock_ms=100)
    story.clock_ms += 100
    story.acquire(1, 2, who="u")
    story.acquire(3, who="u", lock_ms=100)
    story.acknowledge(1, who="u")
    story.acknowledge(1)
    begun = story.invoke("u", Acknowledge(GROUP, (Place(TOPIC, 0, 2),), "reject"))
    story.acknowledge(2, kind="release")
    story.ok(begun)
    story.clock_ms += 100
    story.acknowledge(3)


def shared_in_sessions_that_end(story: Story) -> None:
    """A fault ends the session of a member, or it closes: then its lock ends, too."""
    story.acquire(1, 2)
    story.fault("cut_all")
    for offset in (1, 2):
        story.acquire(offset, who="u")
    story.acknowledge(1, who="u")
    story.acknowledge(1)
    story.ok(story.invoke("u", Call("close consumer")))
    story.acknowledge(2)


def shared_and_given_again(story: Story) -> None:
    """A member acknowledges a record, and is given it again before the call has ended."""
    story.acquire(1)
    begun = story.invoke("s", Acknowledge(GROUP, (Place(TOPIC, 0, 1),), "release"))
    story.acquire(1)
    story.ok(begun)
    story.acknowledge(1)


def shared_at_the_same_time(story: Story) -> None:
    """A member acknowledges while another one is given the record: the one comes before the other."""
    story.acquire(1)
    begun = story.invoke("s", Acknowledge(GROUP, (Place(TOPIC, 0, 1),), "release"))
    story.acquire(1, who="u")
    story.ok(begun)
    story.acknowledge(1, who="u", kind="renew")
    story.acknowledge(1, who="u")


def accepted_late(story: Story) -> None:
    """A lock ends, another member accepts the record, and the broker takes no notice of the first one's acknowledgement."""
    story.acquire(1)
    late = story.invoke("s", Acknowledge(GROUP, (Place(TOPIC, 0, 1),)))
    story.acquire(1, who="u")
    story.acknowledge(1, who="u")
    story.ok(late)


def acquired_in_advance(story: Story) -> None:
    """A member returns what it had asked for before another one, whose lock came later, accepted it."""
    story.acquire(1, who="u")
    asked_ms = story.clock_ms
    story.acknowledge(1, who="u")
    story.ok(story.invoke("s", Acquire(GROUP)), Acquire(GROUP, (Place(TOPIC, 0, 1),), (), (asked_ms,)))


def settled(story: Story) -> None:
    """Records are accepted, perhaps accepted, rejected, spent, handled, or dead letters."""
    story.sends(*range(1, 7))
    places = tuple(Place(TOPIC, 0, offset) for offset in range(4))
    story.ok(story.invoke("s", Acquire(GROUP)), Acquire(GROUP, places, (1, 2, 3, 4)))
    story.acknowledge(0)
    story.acknowledge(1, outcome="unknown")
    story.acknowledge(2, kind="reject")
    story.note("s", Handled(GROUP, Place(TOPIC, 0, 4), 5))
    story.dead_letter(5)
    story.note("l", DeadLetter(GROUP, Place(TOPIC, 0, 5)))
    story.note("s", Settled((TOPIC,), GROUP, (Place(TOPIC, 0, 3),)))


def given_up_by_two_owners(story: Story) -> None:
    """A member loses a partition before it has committed, and the next one gives the record up again."""
    story.consumer("c", GROUP)
    story.dead_letter(4)
    story.revoked(1, P0)
    story.consumer("d", GROUP)
    story.dead_letter(4, who="d")
    story.dead_letter(4)


def dead_letter_sent_again(story: Story) -> None:
    story.producer("c", idempotent=False)
    dead_letter_of(story, 2)


def dead_letter_of(story: Story, times: int) -> None:
    story.dead_letter(4)
    for _ in range(times):
        story.note("l", DeadLetter(GROUP, Place(TOPIC, 0, 4)))


def in_time(story: Story) -> None:
    story.call("close", timeout_ms=10, lasts_ms=10)
    story.invoke("d", Poll(), 5)
    story.note("d", Crash())
    story.note("main", Left())
    story.note("p", BufferedBytes("buffer", 100, 100))


LEGAL: list[tuple[str, Write]] = [
    ("", plain),
    ("", unknown_outcome_took_effect),
    ("", unknown_outcome_took_none),
    ("", send_under_way),
    ("", resent_by_the_program),
    ("", acknowledged_without_offset),
    ("", failed_send),
    ("", aborted),
    ("", commit_of_unknown_outcome),
    ("", commit_retried),
    ("", read_while_it_commits),
    ("int-send-skip", interleaved),
    ("", compacted),
    ("", deleted),
    ("", lost_on_purpose),
    ("", not_durable),
    ("", seeks),
    ("", began_at_the_end),
    ("", rebalance),
    ("", refused_commits),
    ("", commit_behind_a_marker),
    ("", commit_while_others_ask),
    ("", stale_owner_of_an_older_generation),
    ("", result_after_an_abort),
    ("", abort_puts_back),
    ("", dead_letters),
    ("", shared),
    ("", began_behind_a_marker),
    ("", began_at_a_commit_of_unknown_outcome),
    ("", began_while_others_commit),
    ("", began_after_the_call_began),
    ("", began_where_a_transaction_has_committed),
    ("", began_behind_what_was_deleted),
    ("", began_behind_what_was_compacted),
    ("", began_in_a_topic_that_loses),
    ("", began_behind_what_was_not_durable),
    ("", began_where_it_has_sought),
    ("", kept_its_position),
    ("", committed_all),
    ("", committed_all_of_unknown_positions),
    ("", committed_behind_a_marker),
    ("", committed_while_it_sought),
    ("", began_again),
    ("", members_that_commit_by_themselves),
    ("", sent_again_to_another_partition),
    ("", former_owner_that_does_not_know),
    ("", explained_errors),
    ("", shared_in_advance),
    ("", deleted_on_purpose),
    ("", refused_for_its_lock),
    ("accepted-twice", shared_and_ignored),
    ("accepted-twice", shared_in_sessions_that_end),
    ("", shared_and_given_again),
    ("", shared_at_the_same_time),
    ("accepted-twice", accepted_late),
    ("", acquired_in_advance),
    ("", settled),
    ("", given_up_by_two_owners),
    ("dead-letter-twice", dead_letter_sent_again),
    ("", in_time),
    *administered.LEGAL,
    *kept.LEGAL,
]
