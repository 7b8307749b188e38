"""Checks of records: each is stored once, at one offset, and read by those who have to see it, and by no others."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator

from pykafka.common import TopicPartition
from pykafka.testing.checks.anomaly import Anomaly, Kind, found, named
from pykafka.testing.checks.disturbances import Disturbances
from pykafka.testing.checks.facts import Facts, Polled, Sent
from pykafka.testing.history import Drained, Operation, Outcome, Place, Poll, Seek, Send

_RESENT = "the producer was not idempotent"
#: A leader compares sequence numbers with those it remembers: with nothing to compare, it stores whatever comes.
_FORGOTTEN = "a first request came late, to a log that had forgotten the producer"
#: A leader that is cut off acknowledges records with acks=1, and drops them when it hears of the new leader.
_OVERRULED = "acks=1 at a leader that was cut off"


def check_records(facts: Facts) -> Iterator[Anomaly]:
    """Return what is wrong with records and who has read them."""
    yield from _offsets(facts)
    yield from _duplicates(facts)
    yield from _misplaced(facts)
    yield from _reads(facts)
    yield from _lost(facts)
    for drained in (one for one in facts.operations if isinstance(one.action, Drained)):
        yield from _unseen(facts, drained)
        yield from _missing_results(facts, drained)
    yield from _duplicate_results(facts)
    yield from _wrong_results(facts)
    yield from _incomplete_commits(facts)


def _appearances(facts: Facts) -> Iterator[tuple[Place, int, Operation]]:
    """Return where each value has appeared: in acknowledgements, polls, and what members of groups have had."""
    for value, sends in facts.sends.items():
        for sent in sends:
            if sent.acknowledged and sent.place is not None:
                yield sent.place, value, sent.shown
    for polled in facts.polled:
        yield polled.place, polled.value, polled.operation
    yield from facts.given


def _offsets(facts: Facts) -> Iterator[Anomaly]:
    first: dict[Place, tuple[int, Operation]] = {}
    reported: set[Place] = set()
    overruled: list[tuple[Place, int, Operation]] = []
    for place, value, operation in _appearances(facts):
        if _may_be_overruled(facts, value, operation):
            overruled.append((place, value, operation))
            continue
        seen, before = first.setdefault(place, (value, operation))
        if seen != value and place not in reported and not facts.may_lose(place.topic):
            reported.add(place)
            yield _inconsistent(place, (seen, before), (value, operation))
    # These excuse nothing that others have shown, such as two readers.
    for place, value, operation in overruled:
        seen, before = first.setdefault(place, (value, operation))
        if seen != value and place not in reported and not facts.may_lose(place.topic):
            reported.add(place)
            yield _inconsistent(place, (seen, before), (value, operation), allowed=_OVERRULED)


def _inconsistent(place: Place, *shown: tuple[int, Operation], allowed: str = "") -> Anomaly:
    values, operations = zip(*shown, strict=True)
    sentence = f"{named(place)} is {' and '.join(map(str, values))}: one offset has two values"
    return found(Kind.INCONSISTENT_OFFSETS, sentence, *operations, allowed=allowed)


def _may_be_overruled(facts: Facts, value: int, shown: Operation) -> bool:
    """Return whether an acknowledgement promises little: with acks=1, while a leader may have been cut off."""
    sends = [sent for sent in facts.sends.get(value, ()) if sent.shown is shown and not sent.producer.durable]
    return any(facts.disturbances.any_between(sent.begun.time_ms, shown.time_ms, ("isolate",)) for sent in sends)


def _duplicates(facts: Facts) -> Iterator[Anomaly]:
    places: dict[int, dict[Place, Operation]] = defaultdict(dict)
    for place, value, operation in _appearances(facts):
        places[value].setdefault(place, operation)
    disturbances = facts.disturbances
    for value, shown in places.items():
        sends = [sent for sent in facts.sends.get(value, ()) if not sent.failed]
        topic = next(iter(shown)).topic
        if len(shown) <= max(len(sends), 1) or facts.may_lose(topic):
            continue
        allowed = "" if all(sent.producer.idempotent for sent in sends) else _RESENT
        if any(_came_late(disturbances, place, sent) for place in shown for sent in sends):
            allowed = allowed or _FORGOTTEN
        sentence = f"value {value} is stored {len(shown)} times: " + ", ".join(map(named, sorted(shown)))
        yield found(
            Kind.DUPLICATE, sentence, *shown.values(), *(sent.begun for sent in sends), allowed=allowed
        )  # fmt: skip


def _came_late(disturbances: Disturbances, place: Place, sent: Sent) -> bool:
    """Return whether requests came late while a record was sent, and its log has forgotten producers since."""
    begun_ms = sent.begun.time_ms
    partition = f"{place.topic} {place.partition}"
    forgets = [f"{fault} {partition}" for fault in ("forget", "forget_often")]
    is_late = disturbances.any_between(begun_ms, sent.shown.time_ms, ("late Produce",))
    return is_late and disturbances.any_between(begun_ms, sys.maxsize, forgets)


def _misplaced(facts: Facts) -> Iterator[Anomaly]:
    """Return records that are in another topic or partition than those to which they were sent."""
    reported: set[int] = set()
    for place, value, operation in _appearances(facts):
        sends = facts.sends.get(value, ())
        # One that was acknowledged elsewhere is stored twice: see `_duplicates`.
        is_known = any(
            sent.place is not None and sent.place != place and sent.may_be_in(*sent.place[:2]) for sent in sends
        )
        if sends and value not in reported and not is_known and not any(sent.may_be_in(*place[:2]) for sent in sends):
            reported.add(value)
            wanted = sorted({_wanted(sent) for sent in sends})
            sentence = f"value {value} is stored as {named(place)}, but was sent to {' and '.join(wanted)}"
            yield found(Kind.MISPLACED, sentence, *(sent.begun for sent in sends), operation)


def _wanted(sent: Sent) -> str:
    """Return where a program has sent a record."""
    action = sent.begun.action
    assert isinstance(action, Send)
    return action.topic if action.partition is None else f"{action.topic}-{action.partition}"


def _reads(facts: Facts) -> Iterator[Anomaly]:
    reported: set[tuple[int, Kind]] = set()
    for polled in facts.polled:
        wrong = _wrong_read(facts, polled)
        if wrong is not None and (polled.value, wrong.kind) not in reported:
            reported.add((polled.value, wrong.kind))
            yield wrong


def _wrong_read(facts: Facts, polled: Polled) -> Anomaly | None:
    """Return what is wrong with the read of one value, if anything is."""
    operation, consumer, place, value = polled
    what = f"{operation.process} read value {value} of {named(place)}"
    origins = [sent for sent in facts.origins(value, place) if sent.begun.number < operation.number]
    if not origins:
        return found(Kind.NEVER_SENT, f"{what}, which no program had sent by then", operation)
    if all(sent.cannot_be_read(consumer.committed) for sent in origins):
        why = "whose send had failed" if origins[0].failed else "whose transaction was aborted"
        return found(Kind.ABORTED_READ, f"{what}, {why}", operation, *(sent.shown for sent in origins))
    if consumer.committed and all(_is_uncommitted(sent, operation) for sent in origins):
        sentence = f"{what} before its transaction began to commit"
        return found(Kind.PRECOMMITTED_READ, sentence, operation, *(sent.begun for sent in origins))
    return None


def _is_uncommitted(sent: Sent, by: Operation) -> bool:
    if sent.transaction is None:
        return False
    committing = sent.transaction.commit_begun
    return committing is None or committing.number > by.number


def _expected(facts: Facts) -> Iterator[tuple[int, Sent]]:
    """Return the acknowledged records that have to stay, and to be read by those who read committed records."""
    for value, sends in facts.sends.items():
        for sent in sends:
            if sent.acknowledged and sent.is_committed() and sent.producer.durable:
                gone = facts.is_gone(sent.place) if sent.place is not None else facts.has_deleted(sent.action.topic)
                if not gone and not facts.may_lose(sent.action.topic):
                    yield value, sent


def _jumps(facts: Facts) -> dict[tuple[str, TopicPartition], int]:
    """Return who has jumped over records of which partition by `seek`, and since which operation."""
    jumps: dict[tuple[str, TopicPartition], int] = {}
    ends: dict[tuple[str, TopicPartition], int] = {}
    for operation in facts.operations:
        if isinstance(operation.action, Poll) and operation.outcome is Outcome.OK:
            for topic, partition, offsets, _ in operation.action.reads:
                key = operation.process, TopicPartition(topic, partition)
                ends[key] = max(ends.get(key, 0), *(offset + 1 for offset in offsets)) if offsets else ends.get(key, 0)
        elif isinstance(operation.action, Seek) and operation.outcome in (Outcome.OK, Outcome.NOTE):
            key = operation.process, TopicPartition(*operation.action.place[:2])
            if operation.action.place.offset > ends.get(key, 0):
                jumps.setdefault(key, operation.number)
    return jumps


def _lost(facts: Facts) -> Iterator[Anomaly]:
    jumps = _jumps(facts)
    last: dict[TopicPartition, Polled] = {}
    for polled in facts.polled:
        key = TopicPartition(*polled.place[:2])
        jumped = jumps.get((polled.operation.process, key), polled.operation.number) < polled.operation.number
        if not jumped and not polled.consumer.latest and (key not in last or polled.place > last[key].place):
            last[key] = polled
    seen = {polled.value for polled in facts.polled}
    for value, sent in _expected(facts):
        place = sent.place
        if place is None or value in seen:
            continue
        highest = last.get(TopicPartition(*place[:2]))
        if highest is not None and highest.place.offset > place.offset:
            sentence = (
                f"value {value} was acknowledged as {named(place)}, and no reader has seen it, though "
                f"{highest.operation.process} has read on to {highest.place.offset}"
            )
            yield found(Kind.LOST_WRITE, sentence, sent.begun, sent.shown, highest.operation)


def _readers_polls(facts: Facts, drained: Operation) -> Iterator[Polled]:
    """Return what the group, or the process, of a `Drained` had read by then."""
    group = drained.action.group if isinstance(drained.action, Drained) else ""
    for polled in facts.polled:
        if polled.operation.number > drained.number:
            return
        same = polled.consumer.group == group if group else polled.operation.process == drained.process
        if same:
            yield polled


def _unseen(facts: Facts, drained: Operation) -> Iterator[Anomaly]:
    action = drained.action
    assert isinstance(action, Drained)
    seen = {polled.value for polled in _readers_polls(facts, drained)}
    reader = f"group {action.group}" if action.group else drained.process
    for value, sent in _expected(facts):
        if sent.action.topic in action.topics and value not in seen and _was_there(sent, drained):
            where = named(sent.place) if sent.place is not None else sent.action.topic
            sentence = f"value {value} was acknowledged ({where}), and {reader}, which read to the end, has not seen it"
            yield found(Kind.UNSEEN, sentence, sent.begun, sent.shown, drained)


def _was_there(sent: Sent, drained: Operation) -> bool:
    if sent.ended is None or sent.ended.number > drained.number:
        return False
    return not _is_uncommitted(sent, drained)


def _results(facts: Facts) -> dict[int, dict[Place, Operation]]:
    """Return where committed results of each cause were read."""
    results: dict[int, dict[Place, Operation]] = defaultdict(dict)
    for polled in facts.polled:
        sends = facts.sends.get(polled.value, ())
        cause = sends[0].action.cause if sends else None
        if cause is not None and polled.consumer.committed:
            results[cause].setdefault(polled.place, polled.operation)
    return results


def _duplicate_results(facts: Facts) -> Iterator[Anomaly]:
    for cause, places in _results(facts).items():
        if len(places) > 1:
            where = ", ".join(map(named, sorted(places)))
            sentence = f"value {cause} was handled exactly once, as promised, but has {len(places)} results: {where}"
            yield found(Kind.DUPLICATE_RESULT, sentence, *places.values())


def _wrong_results(facts: Facts) -> Iterator[Anomaly]:
    """Return committed results of records that nobody had sent, or that those who read committed records must not see."""
    for cause, places in _results(facts).items():
        sends, shown = facts.sends.get(cause, []), next(iter(places.values()))
        if not sends:
            yield found(Kind.NEVER_SENT, f"value {cause} has a result, but no program had sent it", shown)
        elif all(sent.cannot_be_read(True) for sent in sends):
            why = "its send had failed" if sends[0].failed else "its transaction was aborted"
            operations = [sent.shown for sent in sends]
            yield found(Kind.ABORTED_READ, f"value {cause} has a committed result, though {why}", *operations, shown)


def _missing_results(facts: Facts, drained: Operation) -> Iterator[Anomaly]:
    action = drained.action
    assert isinstance(action, Drained)
    if not action.results_of:
        return
    results = _results(facts)
    for value, sent in _expected(facts):
        if sent.action.topic in action.results_of and value not in results and _was_there(sent, drained):
            sentence = f"value {value} of {sent.action.topic} has no result in {', '.join(action.topics)}"
            yield found(Kind.MISSING_RESULT, sentence, sent.begun, sent.shown, drained)


def _incomplete_commits(facts: Facts) -> Iterator[Anomaly]:
    for value, sends in facts.sends.items():
        for sent in sends:
            commit = sent.transaction.committed_by if sent.transaction is not None else None
            if sent.failed and commit is not None:
                sentence = f"{commit.process} committed a transaction whose send of value {value} had failed"
                yield found(Kind.INCOMPLETE_COMMIT, sentence, sent.begun, sent.shown, commit)
