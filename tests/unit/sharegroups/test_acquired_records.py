"""The states of acquired records, and what a request says of them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidRecordState, KafkaException
from pykafka.sharegroups.acquired_records import TABLE, AcquiredRecords, Event, Kind, Ledger, State, outcomes

KEY = TopicPartition("t", 0)
OWNER: Any = None


def delivered(ledger: Ledger, *offsets: int) -> list[AcquiredRecords]:
    found = []
    for offset in offsets:
        held = AcquiredRecords(OWNER, ledger, KEY, offset, 1, 30.0)
        ledger.add(held)
        held.apply(Event.DELIVER)
        found.append(held)
    return found


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_an_event_that_cannot_come_is_refused_by_name(state: State, event: Event) -> None:
    held = AcquiredRecords(OWNER, Ledger(), KEY, 5, 1, 0.0)
    held.state = state
    if event in TABLE[state]:
        held.apply(event)
        assert held.state is TABLE[state][event]
    else:
        with pytest.raises(InvalidRecordState, match=r"offset 5 .*topic=t, partition=0"):
            held.apply(event)


def test_offsets_of_one_kind_that_follow_each_other_are_one_batch() -> None:
    ledger = Ledger()
    records = delivered(ledger, 3, 4, 5, 6, 9)
    for held, kind in zip(records, [1, 1, 2, 1, 1], strict=True):
        ledger.decide(held, Kind(kind))
    ledger.fill(KEY, 7, 8, Kind.GAP)
    sent = ledger.take_due()
    assert sent[KEY].batches == [(3, 4, 1), (5, 5, 2), (6, 6, 1), (7, 8, 0), (9, 9, 1)]
    assert not ledger.due
    told = ledger.answered(sent[KEY], None, 0.0)
    assert outcomes(told, None) == [(KEY, (3, 4, 5, 6, 9), None)]
    assert not list(ledger)


def test_a_decision_may_change_until_it_is_sent() -> None:
    ledger = Ledger()
    (held,) = delivered(ledger, 3)
    ledger.decide(held, Kind.ACCEPT)
    ledger.decide(held, Kind.REJECT)
    assert ledger.take_due()[KEY].batches == [(3, 3, 3)]
    ledger.decide(held, Kind.REJECT)  # said again
    with pytest.raises(InvalidRecordState, match="is being acknowledged"):
        ledger.decide(held, Kind.ACCEPT)


def test_a_renewed_record_is_still_to_be_acknowledged() -> None:
    ledger = Ledger()
    (held,) = delivered(ledger, 3)
    ledger.decide(held, Kind.RENEW)
    assert ledger.renews
    sent = ledger.take_due()[KEY]
    ledger.answered(sent, None, 77.0)
    assert (held.state, held.expires_at) == (State.DELIVERED, 77.0)
    ledger.decide(held, Kind.ACCEPT)
    assert ledger.take_due()[KEY].batches == [(3, 3, 1)]


def test_a_record_may_be_accepted_while_its_renewal_is_on_its_way() -> None:
    ledger = Ledger()
    (held,) = delivered(ledger, 3)
    ledger.decide(held, Kind.RENEW)
    renewal = ledger.take_due()[KEY]
    ledger.decide(held, Kind.ACCEPT)
    assert ledger.answered(renewal, None, 77.0) == []
    sent = ledger.take_due()[KEY]
    assert ledger.answered(sent, None, 0.0) == [held]
    assert held.state is State.DONE


def test_the_end_of_a_session_loses_all_and_tells_of_what_was_decided() -> None:
    ledger = Ledger()
    decided, undecided = delivered(ledger, 3, 4)
    ledger.decide(decided, Kind.ACCEPT)
    error = KafkaException("over")
    assert ledger.lose_all(error) == [decided]
    assert decided.state is undecided.state is State.LOST
    assert decided.error is undecided.error is error
    assert not ledger.due


def test_refused_acknowledgements_lose_their_records() -> None:
    ledger = Ledger()
    (held,) = delivered(ledger, 3)
    ledger.decide(held, Kind.ACCEPT)
    error = InvalidRecordState("late")
    assert ledger.answered(ledger.take_due()[KEY], error, 0.0) == [held]
    assert (held.state, held.error) == (State.LOST, error)
