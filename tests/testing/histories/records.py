"""Histories of records that are lost, written twice, never sent or in another place; and right ones."""

from __future__ import annotations

from collections.abc import Callable

from pykafka.testing.history import Crash, Deleted, Drained, OpenTopic, Place, Send
from tests.testing.stories import GROUP, TOPIC, Story, Write

# Anomalies


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


def lost_write(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.note("c", Crash())
    story.poll((2, 3))


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


def misplaced(story: Story) -> None:
    story.send(1, outcome="unknown")
    story.poll((0, 1), partition=1)


def misplaced_in_another_topic(story: Story) -> None:
    story.unknown(story.invoke("p", Send("other", 1)))
    story.poll((0, 1))


def misplaced_by_acknowledgement(story: Story) -> None:
    story.ok(story.invoke("p", Send(TOPIC, 1, 0)), Send(TOPIC, 1, 1, 0))


def passed_over_in_compacted(story: Story, end: Callable[[], object]) -> None:
    """Pass over the first record of a key of a compacted topic, whose second one was sent in a transaction.

    :param end: ends the transaction, of the process q
    """
    story.note("main", OpenTopic(TOPIC, compacted=True))
    story.consumer(committed=True)
    story.send(1, 0, key="a")
    story.begin("q")
    story.send(2, 1, who="q", key="a")
    end()
    story.send(3, 3, key="b")
    story.poll((3, 3))


def compacted_by_an_aborted_record(story: Story) -> None:
    """Compaction keeps the last record of a key that was committed."""
    passed_over_in_compacted(story, lambda: story.abort(who="q"))


def result(story: Story, cause: int) -> None:
    """Write a result in a transaction, and read it."""
    story.begin("x")
    sent = Send(TOPIC, 11, 1, cause=cause)
    story.ok(story.invoke("x", sent), Send(TOPIC, 11, 1, 0, cause=cause))
    story.commit_transaction(who="x")
    story.consumer(committed=True)
    story.poll((0, 11), partition=1)


def result_of_an_aborted_record(story: Story) -> None:
    story.begin("q")
    story.send(1, 0, who="q")
    story.abort(who="q")
    result(story, 1)


def result_of_nothing(story: Story) -> None:
    result(story, 1)


# Right


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


def sent_again_to_another_partition(story: Story) -> None:
    """The program has sent it to both partitions, and one attempt has failed; or the producer chooses the partition."""
    story.send(1, outcome="fail", partition=1)
    story.send(1, outcome="unknown")
    story.unknown(story.invoke("p", Send(TOPIC, 2)))
    story.poll((0, 1))
    story.poll((0, 2), partition=1)


def repeated(story: Story, *faults: tuple[str, ...]) -> None:
    """Write a record twice, after faults that happen while it is sent."""
    begun = story.invoke("p", Send(TOPIC, 1, 0))
    for number, words in enumerate(faults):
        story.fault(*words, number=number)
    story.ok(begun, Send(TOPIC, 1, 0, 0))
    story.poll((0, 1), (3, 1))


def late_request_to_a_log_that_remembers(story: Story) -> None:
    repeated(story, ("late", "Produce", "4000", "3"))


def late_request_while_another_log_forgets(story: Story) -> None:
    repeated(story, ("late", "Produce", "4000", "3"), ("forget", TOPIC, "1"))


def forgotten_without_a_late_request(story: Story) -> None:
    repeated(story, ("forget", TOPIC, "0"))


def late_request_to_a_log_that_has_forgotten(story: Story) -> None:
    repeated(story, ("late", "Produce", "4000", "3"), ("forget", TOPIC, "0"))


def acknowledged_by_a_current_leader(story: Story) -> None:
    """With acks=1, and no leader was cut off: it had no reason to drop what it had acknowledged."""
    story.producer("p", idempotent=False, durable=False)
    story.producer("q")
    story.fault("isolate", "1", number=1, lasts_ms=10)
    story.send(1, 5)
    story.send(2, 5, who="q")


def acknowledged_by_a_former_leader(story: Story) -> None:
    """With acks=1, by a leader that was cut off: another record has its offset in the log of the new leader."""
    story.producer("p", idempotent=False, durable=False)
    story.producer("q")
    story.fault("isolate", "1", number=1)
    story.send(1, 5)
    story.send(2, 5, who="q")
    story.consumer()
    story.poll((5, 2))


def acknowledged_by_a_former_leader_and_read(story: Story) -> None:
    """An acknowledgement that means little is no excuse for two readers who differ."""
    story.producer("p", idempotent=False, durable=False)
    story.producer("q")
    story.fault("isolate", "1", number=1)
    story.send(1, 5)
    story.send(2, 5, who="q")
    story.consumer()
    story.poll((5, 1))


def acknowledged_by_a_former_leader_and_read_as_others(story: Story) -> None:
    """Nor if neither of them has read what was acknowledged."""
    story.producer("p", idempotent=False, durable=False)
    story.producer("q")
    story.fault("isolate", "1", number=1)
    story.send(1, 5)
    story.send(2, outcome="unknown", who="q")
    story.send(3, outcome="unknown", who="q")
    story.consumer()
    story.poll((5, 2))
    story.consumer("d")
    story.poll((5, 3), who="d")


def acknowledged_by_all_replicas(story: Story) -> None:
    """With acks=all no record is lost, whichever leader was cut off."""
    story.producer("p")
    story.fault("isolate", "1", number=1)
    story.send(1, 5)
    story.send(2, 5)


def compacted_by_a_record_that_may_be_committed(story: Story) -> None:
    passed_over_in_compacted(story, lambda: story.commit_transaction("unknown", who="q"))
    story.note("c", Drained((TOPIC,)))


def result_of_a_record_that_may_be_committed(story: Story) -> None:
    story.begin("q")
    story.send(1, outcome="unknown", who="q")
    story.commit_transaction("unknown", who="q")
    result(story, 1)


PLANTED: list[tuple[str, Write]] = [
    ("inconsistent-offsets", acknowledged_by_a_current_leader),
    ("inconsistent-offsets", acknowledged_by_a_former_leader_and_read),
    ("inconsistent-offsets", acknowledged_by_a_former_leader_and_read_as_others),
    ("inconsistent-offsets", acknowledged_by_all_replicas),
    ("inconsistent-offsets", inconsistent_offsets),
    ("duplicate", duplicate),
    ("duplicate", duplicate_in_another_partition),
    ("duplicate", duplicate_of_unknown_send),
    ("duplicate", late_request_to_a_log_that_remembers),
    ("duplicate", late_request_while_another_log_forgets),
    ("duplicate", forgotten_without_a_late_request),
    ("G1a", failed_read),
    ("lost-write", lost_write),
    ("unseen", unseen),
    ("unseen", unseen_by_group),
    ("misplaced", misplaced),
    ("misplaced", misplaced_in_another_topic),
    ("misplaced", misplaced_by_acknowledgement),
    ("never-sent", never_sent),
    ("never-sent", read_before_it_was_sent),
    ("duplicate-result", duplicate_result),
    ("missing-result", missing_result),
    ("lost-write", compacted_by_an_aborted_record),
    ("G1a", result_of_an_aborted_record),
    ("never-sent", result_of_nothing),
]
LEGAL: list[tuple[str, Write]] = [
    ("inconsistent-offsets", acknowledged_by_a_former_leader),
    ("duplicate", late_request_to_a_log_that_has_forgotten),
    ("", plain),
    ("", unknown_outcome_took_effect),
    ("", unknown_outcome_took_none),
    ("", send_under_way),
    ("", resent_by_the_program),
    ("", acknowledged_without_offset),
    ("", failed_send),
    ("", compacted),
    ("", deleted),
    ("", lost_on_purpose),
    ("", not_durable),
    ("", sent_again_to_another_partition),
    ("", compacted_by_a_record_that_may_be_committed),
    ("", result_of_a_record_that_may_be_committed),
]
