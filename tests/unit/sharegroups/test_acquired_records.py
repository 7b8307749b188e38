"""The states of acquired records, and what a request says of them."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidRecordState, KafkaException
from pykafka.sharegroups.acquired_records import (
    PORTION,
    TABLE,
    AcknowledgeType,
    AcquiredRange,
    AcquiredRecord,
    AcquiredRecords,
    Event,
    State,
    outcomes,
    portions,
)

KEY = TopicPartition("t", 0)
OWNER: Any = None


def delivered(session_records: AcquiredRecords, *offsets: int) -> list[AcquiredRecord]:
    found = []
    for offset in offsets:
        acquired = AcquiredRecord(OWNER, session_records, KEY, offset, 1, 30.0)
        session_records.add(acquired)
        acquired.apply(Event.DELIVER)
        found.append(acquired)
    return found


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_an_event_that_cannot_come_is_refused_by_name(state: State, event: Event) -> None:
    acquired = AcquiredRecord(OWNER, AcquiredRecords(), KEY, 5, 1, 0.0)
    acquired.state = state
    if event in TABLE[state]:
        acquired.apply(event)
        assert acquired.state is TABLE[state][event]
    else:
        with pytest.raises(InvalidRecordState, match=r"offset 5 .*topic=t, partition=0"):
            acquired.apply(event)


def test_offsets_of_one_kind_that_follow_each_other_are_one_batch() -> None:
    session_records = AcquiredRecords()
    records = delivered(session_records, 3, 4, 5, 6, 9)
    for acquired, kind in zip(records, [1, 1, 2, 1, 1], strict=True):
        session_records.acknowledge(acquired, AcknowledgeType(kind))
    session_records.acknowledge_range(KEY, 7, 8, AcknowledgeType.GAP)
    sent = session_records.take_due()
    assert sent[KEY].batches == [(3, 4, 1), (5, 5, 2), (6, 6, 1), (7, 8, 0), (9, 9, 1)]
    assert not session_records.due
    told = session_records.on_response(sent[KEY], None, 0.0)
    assert outcomes(told, None) == [(KEY, (3, 4, 5, 6, 9), None)]
    assert not list(session_records)


def test_a_decision_may_change_until_it_is_sent() -> None:
    session_records = AcquiredRecords()
    (acquired,) = delivered(session_records, 3)
    session_records.acknowledge(acquired, AcknowledgeType.ACCEPT)
    session_records.acknowledge(acquired, AcknowledgeType.REJECT)
    assert session_records.take_due()[KEY].batches == [(3, 3, 3)]
    assert session_records.acknowledge(acquired, AcknowledgeType.REJECT) is False  # said again
    with pytest.raises(InvalidRecordState, match="is being acknowledged"):
        session_records.acknowledge(acquired, AcknowledgeType.ACCEPT)


def test_a_renewed_record_is_still_to_be_acknowledged() -> None:
    session_records = AcquiredRecords()
    (acquired,) = delivered(session_records, 3)
    session_records.acknowledge(acquired, AcknowledgeType.RENEW)
    assert session_records.renews
    sent = session_records.take_due()[KEY]
    session_records.on_response(sent, None, 77.0)
    assert (acquired.state, acquired.expires_at) == (State.DELIVERED, 77.0)
    session_records.acknowledge(acquired, AcknowledgeType.ACCEPT)
    assert session_records.take_due()[KEY].batches == [(3, 3, 1)]


def test_a_record_may_be_accepted_while_its_renewal_is_on_its_way() -> None:
    session_records = AcquiredRecords()
    (acquired,) = delivered(session_records, 3)
    session_records.acknowledge(acquired, AcknowledgeType.RENEW)
    renewal = session_records.take_due()[KEY]
    session_records.acknowledge(acquired, AcknowledgeType.ACCEPT)
    assert session_records.on_response(renewal, None, 77.0) == []
    sent = session_records.take_due()[KEY]
    assert session_records.on_response(sent, None, 0.0) == [acquired]
    assert acquired.state is State.DONE
    assert session_records.acknowledge(acquired, AcknowledgeType.ACCEPT) is False


def test_the_end_of_a_session_loses_all_and_tells_of_what_was_decided() -> None:
    session_records = AcquiredRecords()
    decided, undecided = delivered(session_records, 3, 4)
    session_records.acknowledge(decided, AcknowledgeType.ACCEPT)
    error = KafkaException("over")
    assert session_records.lose_all(error) == [decided]
    assert decided.state is undecided.state is State.LOST
    assert decided.error is undecided.error is error
    assert not session_records.due


def test_refused_acknowledgements_lose_their_records() -> None:
    session_records = AcquiredRecords()
    (acquired,) = delivered(session_records, 3)
    session_records.acknowledge(acquired, AcknowledgeType.ACCEPT)
    error = InvalidRecordState("late")
    assert session_records.on_response(session_records.take_due()[KEY], error, 0.0) == [acquired]
    assert (acquired.state, acquired.error) == (State.LOST, error)
    assert session_records.count == 0


def test_an_answer_about_renewals_counts_for_those_that_were_not_accepted_meanwhile() -> None:
    session_records = AcquiredRecords()
    accepted, renewed = delivered(session_records, 3, 4)
    for acquired in (accepted, renewed):
        assert session_records.acknowledge(acquired, AcknowledgeType.RENEW)
    renewal = session_records.take_due()[KEY]
    assert not session_records.renews
    session_records.acknowledge(accepted, AcknowledgeType.ACCEPT)
    assert session_records.on_response(renewal, None, 77.0) == [renewed]
    assert (renewed.state, renewed.expires_at, accepted.expires_at) == (State.DELIVERED, 77.0, 30.0)
    assert session_records.count == 2


@pytest.mark.parametrize("kind", [AcknowledgeType.ACCEPT, AcknowledgeType.RENEW])
@pytest.mark.parametrize("sent", [False, True])
def test_the_end_of_a_session_tells_of_all_that_has_no_answer(kind: AcknowledgeType, sent: bool) -> None:
    session_records = AcquiredRecords()
    (acquired,) = delivered(session_records, 3)
    session_records.acknowledge(acquired, kind)
    if sent:
        session_records.take_due()
    assert session_records.lose_all(KafkaException("over")) == [acquired]
    assert (session_records.count, session_records.due, list(session_records)) == (0, [], [])


def test_those_of_one_topic_are_lost_with_their_gaps() -> None:
    session_records = AcquiredRecords()
    delivered(session_records, 3)
    other = TopicPartition("u", 0)
    kept = AcquiredRecord(OWNER, session_records, other, 3, 1, 30.0)
    session_records.add(kept)
    for key in (KEY, other):
        session_records.acknowledge_range(key, 4, 5, AcknowledgeType.GAP)
    assert session_records.lose_all(KafkaException("gone"), KEY.topic) == []
    assert (list(session_records), session_records.due) == ([kept], [other])


def test_a_lost_record_is_not_acknowledged() -> None:
    session_records = AcquiredRecords()
    lost, kept = delivered(session_records, 3, 4)
    for acquired in (lost, kept):
        session_records.acknowledge(acquired, AcknowledgeType.ACCEPT)
    for _ in range(2):  # a second time, as when its session ends
        session_records.lose(lost)
        assert (lost.state, session_records.count) == (State.LOST, 1)
    assert session_records.take_due()[KEY].batches == [(4, 4, 1)]
    stranger = AcquiredRecord(OWNER, session_records, TopicPartition("u", 0), 5, 1, 30.0)
    session_records.lose(stranger)
    assert stranger.state is State.LOST


def test_the_application_accepts_and_releases_by_the_record() -> None:
    owner = mock.Mock()
    session_records = AcquiredRecords()
    acquired = AcquiredRecord(owner, session_records, KEY, 5, 7, 30.0)
    assert acquired.session_records is session_records
    acquired.acknowledge()
    acquired.refuse(ValueError("not now"))
    assert owner.mock_calls == [
        mock.call.acknowledge(acquired, AcknowledgeType.ACCEPT),
        mock.call.acknowledge(acquired, AcknowledgeType.RELEASE),
    ]
    assert (acquired.delivery_count, acquired.expires_at, acquired.error) == (7, 30.0, None)


def test_an_outcome_names_its_error() -> None:
    error = InvalidRecordState("late")
    records = delivered(AcquiredRecords(), 4, 3)
    assert outcomes(records, error) == [(KEY, (3, 4), error)]


def test_portions_have_each_offset_once_and_gaps_before_the_records_behind_them() -> None:
    found = [offset for offset in range(3 * PORTION) if offset not in (2, PORTION, 3 * PORTION - 1)]
    ranges = [(0, 2 * PORTION, 1), (2 * PORTION + 1, 3 * PORTION - 1, 2)]
    assert list(portions(ranges, found[::-1])) == [
        AcquiredRange(0, PORTION + 1, 1, found[:PORTION]),
        AcquiredRange(PORTION + 2, 2 * PORTION, 1, found[PORTION : 2 * PORTION - 1]),
        AcquiredRange(2 * PORTION + 1, 3 * PORTION - 1, 2, found[2 * PORTION - 1 :]),
    ]


def test_an_acquired_range_without_records_is_a_portion() -> None:
    assert list(portions([(5, 9, 1)], ())) == [AcquiredRange(5, 9, 1, [])]
