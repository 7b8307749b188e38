"""Histories of share groups: records accepted twice, too late or by other members; and right ones."""

from __future__ import annotations

from pykafka.testing.history import Acknowledge, Acquire, Call, Crash, DeadLetter, Handled, Place, Settled
from tests.testing.stories import GROUP, TOPIC, Story, Write

# Anomalies


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


def refused_while_it_holds(story: Story) -> None:
    story.acquire(1, lock_ms=1000)
    story.clock_ms += 900
    begun = story.invoke("s", Acknowledge(GROUP, (Place(TOPIC, 0, 1),)))
    story.fail(begun, "InvalidRecordState")


def acquired(story: Story, value: int, offset: int = 0, partition: int = 0, who: str = "s") -> None:
    """Give a record with its value to a member."""
    story.ok(story.invoke(who, Acquire(GROUP)), Acquire(GROUP, (Place(TOPIC, partition, offset),), (value,)))


def acquired_of_another_value(story: Story) -> None:
    story.send(1, 0)
    story.send(2, outcome="unknown")
    acquired(story, 2)


def acquired_at_another_offset(story: Story) -> None:
    story.send(2, 1)
    acquired(story, 2)


def acquired_at_two_offsets(story: Story) -> None:
    """No other program has read it."""
    story.send(1, outcome="unknown")
    acquired(story, 1)
    acquired(story, 1, 1, who="u")


def acquired_of_another_partition(story: Story) -> None:
    story.send(1, outcome="unknown")
    acquired(story, 1, partition=1)


def handled_of_another_value(story: Story) -> None:
    story.send(1, 0)
    story.send(2, outcome="unknown")
    story.note("h", Handled(GROUP, Place(TOPIC, 0, 0), 2))


def handled_of_no_program(story: Story) -> None:
    story.note("h", Handled(GROUP, Place(TOPIC, 0, 0), 2))


def acquired_of_no_program(story: Story) -> None:
    story.ok(story.invoke("s", Acquire(GROUP)), Acquire(GROUP, (Place(TOPIC, 0, 0),), (2,)))


def acquired_though_failed(story: Story) -> None:
    story.send(1, outcome="fail")
    story.ok(story.invoke("s", Acquire(GROUP)), Acquire(GROUP, (Place(TOPIC, 0, 0),), (1,)))


# Right


def shared(story: Story) -> None:
    """A record is released, or its lock ends, and another member accepts it; an answer that was lost is no accept."""
    story.acquire(1, 2, 3)
    story.acknowledge(1, kind="release")
    story.acknowledge(2, outcome="unknown")
    story.acquire(1, 2, 3, who="u")
    story.acknowledge(1, 2, 3, who="u")
    story.acknowledge(3, outcome="fail")


def shared_in_advance(story: Story) -> None:
    """A record that was asked for in advance is handed out late: another member had it meanwhile, or has accepted it since."""
    story.acquire(1, 2)
    story.acquire(1, who="u", before_ms=50)
    story.acknowledge(1)
    story.acknowledge(2)
    story.acquire(2, who="u", before_ms=50)


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


def locked_until_the_next(story: Story, early_ms: int) -> None:
    """A member gets a record before the lock of another one has ended by the history's clock, and both accept it.

    :param early_ms: how long before (ms)
    """
    story.acquire(1, before_ms=0, lock_ms=100)
    story.clock_ms += 97 - early_ms
    story.acquire(1, who="u", before_ms=0)
    story.acknowledge(1, who="u")
    story.acknowledge(1)


def shared_as_a_lock_is_rounded(story: Story) -> None:
    """Brokers and histories count whole milliseconds: the lock may end one earlier than the history says."""
    locked_until_the_next(story, 1)


def shared_before_a_lock_ends(story: Story) -> None:
    locked_until_the_next(story, 2)


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


def released_and_accepted(story: Story) -> None:
    """Members were given the record one after the other."""
    story.send(1, 0)
    acquired(story, 1)
    story.acknowledge(0, kind="release")
    acquired(story, 1, who="u")
    story.acknowledge(0, who="u")


PLANTED: list[tuple[str, Write]] = [
    ("accepted-twice", accepted_twice),
    ("accepted-twice", shared_before_a_lock_ends),
    ("accepted-without-acquiring", accepted_without_acquiring),
    ("accepted-without-acquiring", accepted_after_release),
    ("accepted-without-acquiring", accepted_while_it_is_given),
    ("accepted-without-acquiring", accepted_by_a_restarted_member),
    ("accepted-after-loss", accepted_after_loss),
    ("accepted-after-loss", accepted_within_the_lock_of_another),
    ("acquired-after-accept", acquired_after_accept),
    ("acquired-after-accept", acquired_after_reject),
    ("unexplained-error", refused_while_it_holds),
    ("unsettled", unsettled),
    ("inconsistent-offsets", acquired_of_another_value),
    ("inconsistent-offsets", handled_of_another_value),
    ("duplicate", acquired_at_another_offset),
    ("duplicate", acquired_at_two_offsets),
    ("misplaced", acquired_of_another_partition),
    ("never-sent", handled_of_no_program),
    ("never-sent", acquired_of_no_program),
    ("G1a", acquired_though_failed),
]
LEGAL: list[tuple[str, Write]] = [
    ("", shared),
    ("", shared_in_advance),
    ("", refused_for_its_lock),
    ("accepted-twice", shared_and_ignored),
    ("accepted-twice", shared_as_a_lock_is_rounded),
    ("accepted-twice", shared_in_sessions_that_end),
    ("", shared_and_given_again),
    ("", shared_at_the_same_time),
    ("accepted-twice", accepted_late),
    ("", acquired_in_advance),
    ("", settled),
    ("", released_and_accepted),
]
