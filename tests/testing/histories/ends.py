"""Histories of dead letters, errors that nothing explains, and calls that end late or not at all; and right ones."""

from __future__ import annotations

from pykafka.testing.history import BufferedBytes, Call, Change, Crash, DeadLetter, Fault, Left, Place, Poll, Send
from tests.testing.stories import GROUP, P0, TOPIC, Story, Write

# Anomalies


def dead_letter_twice(story: Story) -> None:
    story.dead_letter(4)
    story.dead_letter(5)
    story.dead_letter(4, who="d")


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


def no_leader_of_another_topic(story: Story) -> None:
    story.fault("leaderless", "others", "0", number=1)
    story.unknown(story.invoke("p", Send(TOPIC, 1, 0)), "NoLeader")


def held_up_in_another_partition(story: Story) -> None:
    story.fault("outdated", TOPIC, "1", number=1)
    story.unknown(story.invoke("p", Send(TOPIC, 1, 0)), "HeldUp")


def held_up_without_need(story: Story) -> None:
    """Its producer does not wait for followers."""
    story.producer(idempotent=False, durable=False)
    story.fault("outdated", TOPIC, "0", number=1)
    story.unknown(story.invoke("p", Send(TOPIC, 1, 0)), "HeldUp")


def held_up_long_ago(story: Story) -> None:
    story.fault("outdated", TOPIC, "0", number=1, lasts_ms=10)
    story.clock_ms += 101
    story.unknown(story.invoke("p", Send(TOPIC, 1, 0)), "HeldUp")


def time_out_of_another_call(story: Story) -> None:
    story.fault("pause", "1", number=1)
    story.unknown(story.invoke("c", Call("flush")), "TimeOut")


def no_topic_without_its_deletion(story: Story) -> None:
    """Faults and other changes do not explain it."""
    story.fault("pause", "1", number=1)
    story.ok(story.invoke("a", Change("create t", ())))
    story.unknown(story.invoke("c", Call("poll")), "NoTopic")


def dead_letter_stored_twice(story: Story) -> None:
    story.dead_letter(4)
    for _ in range(2):
        story.note("l", DeadLetter(GROUP, Place(TOPIC, 0, 4)))


def late_end(story: Story) -> None:
    story.call("close", timeout_ms=10, lasts_ms=12)


def no_end(story: Story) -> None:
    story.call("flush", timeout_ms=10, lasts_ms=None)


def leftover(story: Story) -> None:
    story.note("main", Left(workers=("fetcher",)))


def too_many_bytes(story: Story) -> None:
    story.note("p", BufferedBytes("buffer", 101, 100))


def killed_behind_its_deadline(story: Story) -> None:
    """The call had not ended in time when its process was killed."""
    story.invoke("c", Call("flush"), 10)
    story.clock_ms += 1_000
    story.note("c", Crash())


# Right


def dead_letters(story: Story) -> None:
    story.dead_letter(4)
    begun = story.invoke("d", DeadLetter(GROUP, Place(TOPIC, 0, 4)))
    story.fail(begun)


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


def no_leader(story: Story) -> None:
    story.fault("leaderless", TOPIC, "0", number=1)
    story.unknown(story.invoke("p", Send(TOPIC, 1, 0)), "NoLeader")


def held_up_by_its_leader(story: Story) -> None:
    story.producer()
    story.fault("outdated", TOPIC, "1", number=1)
    story.unknown(story.invoke("p", Send(TOPIC, 1, 1)), "HeldUp")


def held_up_in_any_partition(story: Story) -> None:
    """Nobody has chosen its partition."""
    story.fault("outdated", TOPIC, "1", number=1)
    story.unknown(story.invoke("p", Send(TOPIC, 1)), "HeldUp")


def in_time(story: Story) -> None:
    story.call("close", timeout_ms=10, lasts_ms=10)
    story.invoke("d", Poll(), 5)
    story.note("d", Crash())
    story.note("main", Left())
    story.note("p", BufferedBytes("buffer", 100, 100))


def killed_in_time(story: Story) -> None:
    story.invoke("c", Call("flush"), 100)
    story.clock_ms += 50
    story.note("c", Crash())
    story.clock_ms += 1_000
    story.note("c", Crash())


PLANTED: list[tuple[str, Write]] = [
    ("dead-letter-twice", dead_letter_twice),
    ("dead-letter-twice", dead_letter_stored_twice),
    ("unexplained-error", attribute_error),
    ("unexplained-error", time_out_without_a_fault),
    ("unexplained-error", time_out_of_another_fault),
    ("unexplained-error", time_out_of_another_call),
    ("unexplained-error", no_leader_of_another_topic),
    ("unexplained-error", held_up_in_another_partition),
    ("unexplained-error", held_up_without_need),
    ("unexplained-error", held_up_long_ago),
    ("unexplained-error", no_topic_without_its_deletion),
    ("late-end", late_end),
    ("no-end", no_end),
    ("leftover", leftover),
    ("too-many-bytes", too_many_bytes),
    ("no-end", killed_behind_its_deadline),
]
LEGAL: list[tuple[str, Write]] = [
    ("", dead_letters),
    ("", explained_errors),
    ("", no_leader),
    ("", held_up_by_its_leader),
    ("", held_up_in_any_partition),
    ("", deleted_on_purpose),
    ("", given_up_by_two_owners),
    ("dead-letter-twice", dead_letter_sent_again),
    ("", in_time),
    ("", killed_in_time),
]
