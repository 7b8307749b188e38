"""Histories of an administrator: those in which a change was lost or made by nobody, and those that look so and are right."""

from __future__ import annotations

from pykafka.testing.history import ANY, Change, Deleted, Drained, Fault, Observe, Operation, Place, Send, State
from tests.testing.stories import P0, TOPIC, Story, Write

TWO, THREE, GONE = "2 partitions", "3 partitions", "absent"


def begin(story: Story) -> None:
    story.note("a", Change("begin", (State("topic a", GONE),)))


def change(story: Story, value: str, outcome: str = "ok", who: str = "a") -> None:
    """Make the topic "a" like this, with the end of the call."""
    story.end(story.invoke(who, Change("change it", (State("topic a", value),))), outcome)


def look(story: Story, value: str, age_ms: int = 0, begun: Operation | None = None) -> None:
    """Show the topic "a"."""
    begun = begun or story.invoke("a", Observe("describe a", age_ms=age_ms))
    story.ok(begun, Observe("describe a", (State("topic a", value),), age_ms))


# Anomalies


def created_and_not_there(story: Story) -> None:
    begin(story)
    change(story, TWO)
    look(story, GONE)


def deleted_and_still_there(story: Story) -> None:
    begin(story)
    change(story, TWO)
    change(story, GONE)
    look(story, TWO)


def change_was_taken_back(story: Story) -> None:
    """The first answer shows it, a later one does not."""
    begin(story)
    change(story, TWO)
    change(story, THREE)
    look(story, THREE)
    look(story, TWO)


def too_old(story: Story) -> None:
    """The answer may be old, but not so old."""
    begin(story)
    change(story, TWO)
    story.clock_ms += 100
    look(story, GONE, age_ms=50)


def refused_and_there(story: Story) -> None:
    """The call was repeated after its answer was lost, and the program was given the second answer."""
    begin(story)
    change(story, TWO, outcome="fail")
    look(story, TWO)


def nobody_changed_it(story: Story) -> None:
    begin(story)
    change(story, TWO)
    look(story, THREE)


def shown_before_it_was_asked_for(story: Story) -> None:
    begin(story)
    look(story, TWO)
    change(story, TWO)


# Right ones


def made_and_shown(story: Story) -> None:
    begin(story)
    look(story, GONE)
    for value in (TWO, THREE, GONE, TWO):
        change(story, value)
        look(story, value)


def unknown_change_is_there_or_not(story: Story) -> None:
    begin(story)
    change(story, TWO, outcome="unknown")
    look(story, GONE)
    look(story, TWO)


def unknown_change_comes_late(story: Story) -> None:
    """It takes effect after a later one that was acknowledged."""
    begin(story)
    change(story, TWO)
    change(story, GONE, outcome="unknown")
    change(story, THREE)
    look(story, GONE)


def call_without_an_end(story: Story) -> None:
    begin(story)
    story.invoke("b", Change("create it", (State("topic a", TWO),)))
    look(story, TWO)
    look(story, GONE)


def refused_and_not_there(story: Story) -> None:
    begin(story)
    change(story, TWO, outcome="fail")
    look(story, GONE)


def changed_while_it_was_looked_at(story: Story) -> None:
    """Before and after are both right."""
    for value in (GONE, TWO):
        begin(story)
        begun = story.invoke("a", Observe("describe a"))
        change(story, TWO, who="b")
        look(story, value, begun=begun)


def old_metadata(story: Story) -> None:
    begin(story)
    change(story, TWO)
    story.clock_ms += 100
    look(story, GONE, age_ms=200)


def not_known_any_more(story: Story) -> None:
    begin(story)
    change(story, TWO)
    change(story, ANY)
    look(story, TWO)
    look(story, GONE)


def nothing_is_known_of_it(story: Story) -> None:
    look(story, TWO)
    story.fail(story.invoke("a", Observe("describe a")), "Error")


def deleted_record_of_unknown_offset(story: Story) -> None:
    """Its acknowledgement names no offset, so that it may be one of those that were deleted."""
    story.send(1)
    story.note("a", Deleted(Place(TOPIC, P0.partition, 1)))
    story.ok(story.invoke("p", Send(TOPIC, 2, 0)), Send(TOPIC, 2, 0, 1))
    story.poll((1, 2))
    story.note("c", Drained((TOPIC,)))


def alter(story: Story, offset: str, lasts_ms: int = 0, what: str = "alter offsets of g") -> None:
    begun = story.invoke("a", Change(what, (State("offset of g", offset),)))
    story.clock_ms += lasts_ms
    story.ok(begun)


def altered_late(story: Story, lasts_ms: int, after_ms: int) -> None:
    """The first request of a call is late by 2.5 s; the call ends by another one, and two more follow.

    :param lasts_ms: how long the call takes (ms)
    :param after_ms: how long after it the last one begins (ms)
    """
    story.fault("late", "OffsetCommit", "2500", "1", number=0)
    alter(story, "87", lasts_ms)
    altered_since(story, after_ms)


def altered_since(story: Story, after_ms: int) -> None:
    """The offset is altered twice, and the former one is shown."""
    alter(story, "26")
    story.clock_ms += after_ms
    alter(story, "4")
    begun = story.invoke("a", Observe("list group offsets"))
    story.ok(begun, Observe("list group offsets", (State("offset of g", "87"),)))


def request_of_a_call_comes_again(story: Story) -> None:
    altered_late(story, 1_100, 300)


def call_has_made_one_request(story: Story) -> None:
    altered_late(story, 10, 300)


def request_comes_later_than_it_can(story: Story) -> None:
    altered_late(story, 1_100, 3_000)


def altered_behind_a_held_request(story: Story, lasts_ms: int, what: str = "alter offsets of g") -> None:
    """An answer is held for 3 s on the connection of a call, whose first request comes behind that.

    :param lasts_ms: how long the call takes (ms)
    :param what: the call
    """
    story.fault("hold", "OffsetFetch", number=0)
    alter(story, "87", lasts_ms, what)
    alter(story, "26")
    alter(story, "4")
    story.clock_ms += 3_000
    story.note("faults", Fault("the end", number=0, ends=True))
    story.clock_ms += 10
    begun = story.invoke("a", Observe("list group offsets"))
    story.ok(begun, Observe("list group offsets", (State("offset of g", "87"),)))


def request_behind_a_held_one_comes_again(story: Story) -> None:
    altered_behind_a_held_request(story, 1_100)


def deletion_behind_a_held_request_comes_again(story: Story) -> None:
    altered_behind_a_held_request(story, 1_100, "delete offsets of g")


def call_that_is_not_repeated(story: Story) -> None:
    """The client does not ask again to delete a group: its one request was answered."""
    altered_behind_a_held_request(story, 1_100, "delete g")


def request_behind_a_held_one_was_answered(story: Story) -> None:
    altered_behind_a_held_request(story, 10)


def request_comes_long_after_a_held_one(story: Story) -> None:
    story.fault("hold", "OffsetFetch", number=0)
    alter(story, "87", 1_100)
    story.note("faults", Fault("the end", number=0, ends=True))
    altered_since(story, 300)


def listed_meanwhile(story: Story, fault: str, what: str = "list groups") -> None:
    """A group is not shown while something happens to a broker."""
    story.note("a", Change("begin", (State("group g", "there"),)))
    begun = story.invoke("a", Observe(what))
    story.fault(fault, "1", number=0)
    story.ok(begun, Observe(what, (State("group g", GONE),)))


def listed_while_a_broker_comes_back(story: Story) -> None:
    listed_meanwhile(story, "stop")


def listed_while_its_coordinator_moves(story: Story) -> None:
    listed_meanwhile(story, "move_coordinator")


def listed_while_a_leader_moves(story: Story) -> None:
    listed_meanwhile(story, "move_leader")


def described_while_a_broker_comes_back(story: Story) -> None:
    listed_meanwhile(story, "stop", "describe groups")


PLANTED: list[tuple[str, Write]] = [
    ("lost-change", created_and_not_there),
    ("lost-change", deleted_and_still_there),
    ("lost-change", change_was_taken_back),
    ("lost-change", too_old),
    ("unmade-change", refused_and_there),
    ("unmade-change", nobody_changed_it),
    ("unmade-change", shown_before_it_was_asked_for),
    ("lost-change", call_has_made_one_request),
    ("lost-change", request_comes_later_than_it_can),
    ("lost-change", request_behind_a_held_one_was_answered),
    ("lost-change", call_that_is_not_repeated),
    ("lost-change", request_comes_long_after_a_held_one),
    ("unmade-change", listed_while_a_leader_moves),
    ("unmade-change", described_while_a_broker_comes_back),
]
LEGAL: list[tuple[str, Write]] = [
    ("", made_and_shown),
    ("", unknown_change_is_there_or_not),
    ("", unknown_change_comes_late),
    ("", request_behind_a_held_one_comes_again),
    ("", deletion_behind_a_held_request_comes_again),
    ("", call_without_an_end),
    ("", refused_and_not_there),
    ("", changed_while_it_was_looked_at),
    ("", old_metadata),
    ("", not_known_any_more),
    ("", nothing_is_known_of_it),
    ("", deleted_record_of_unknown_offset),
    ("", request_of_a_call_comes_again),
    ("", listed_while_a_broker_comes_back),
    ("", listed_while_its_coordinator_moves),
]
