"""Fetch sessions as a table: what requests name, and that broker and client agree whatever happens to requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka.consumer.fetch_request import LAST_EPOCH, REFUSED_AT_MOST, FetchSession, Request, Step

Session = FetchSession[str, int]


def opened(wanted: dict[str, int], session_id: int = 7) -> Session:
    session = Session()
    assert session.next(wanted, by_id=True) == Request(Step(0, 0), wanted, {}, full=True)
    session.answered(session_id)
    return session


def test_only_what_has_changed_is_named() -> None:
    session = opened({"a": 1, "b": 1})
    assert session.next({"a": 1, "b": 1}, by_id=True) == Request(Step(7, 1), {}, {}, full=False)
    session.answered(7)
    assert session.next({"a": 2, "b": 1}, by_id=True) == Request(Step(7, 2), {"a": 2}, {}, full=False)
    session.answered(7)
    assert session.next({"b": 1, "c": 5}, by_id=True) == Request(Step(7, 3), {"c": 5}, {"a": 2}, full=False)
    session.answered(7)
    assert session.next({"a": 2, "b": 1, "c": 5}, by_id=True).named == {"a": 2}, "it was forgotten"


def test_without_a_session_each_request_is_full() -> None:
    session = Session()
    for _ in range(3):
        assert session.next({"a": 1}, by_id=True) == Request(Step(0, 0), {"a": 1}, {}, full=True)
        session.answered(0)
    assert not session.is_open


def test_a_session_that_the_broker_has_dropped_begins_anew() -> None:
    session = opened({"a": 1})
    session.next({"a": 1}, by_id=True)
    session.refused()
    assert session.next({"a": 1}, by_id=True) == Request(Step(0, 0), {"a": 1}, {}, full=True)
    session.answered(8)
    assert session.next({"a": 1}, by_id=True).step == Step(8, 1)


def test_after_a_failure_the_old_session_is_ended_by_the_new_one() -> None:
    session = opened({"a": 1})
    session.next({"a": 2}, by_id=True)
    session.failed()
    assert session.next({"a": 1}, by_id=True) == Request(Step(7, 0), {"a": 1}, {}, full=True)


def test_a_session_names_topics_by_id_or_by_name_but_not_both() -> None:
    session = opened({"a": 1})
    assert session.next({"a": 1}, by_id=False) == Request(Step(7, 0), {"a": 1}, {}, full=True)


def test_brokers_that_do_not_share_sessions_are_asked_without() -> None:
    session = Session()
    for _ in range(REFUSED_AT_MOST):
        assert session.next({"a": 1}, by_id=True).step.epoch == 0
        session.refused()
    assert session.next({"a": 1}, by_id=True) == Request(Step(0, -1), {"a": 1}, {}, full=True)


def test_a_broker_that_ends_the_session_by_its_answer_is_asked_anew() -> None:
    session = opened({"a": 1})
    session.next({"a": 1}, by_id=True)
    session.answered(0)
    assert session.next({"a": 1}, by_id=True) == Request(Step(0, 0), {"a": 1}, {}, full=True)


def test_an_answer_gives_a_session_all_its_tries_again() -> None:
    session = Session()
    for _ in range(2):
        for number in range(1, REFUSED_AT_MOST):
            session.next({"a": 1}, by_id=True)
            assert session.refused(), number
        assert session.next({"a": 1}, by_id=True).step == Step(0, 0)
        session.answered(7)
    assert session.next({"a": 1}, by_id=True).step == Step(7, 1)


def test_after_the_last_epoch_comes_the_one_after_the_first() -> None:
    session = opened({"a": 1})
    session._epoch = LAST_EPOCH
    assert session.next({"a": 1}, by_id=True).step.epoch == LAST_EPOCH
    assert session.next({"a": 1}, by_id=True).step.epoch == 1


class Broker:
    """A broker with room for one session, as KIP-227 describes it."""

    def __init__(self) -> None:
        self.id, self.epoch, self.known, self.last_id = 0, 0, dict[str, int](), 0

    def fetch(self, request: Request[str, int], has_room: bool) -> tuple[int, dict[str, int] | None]:
        """Return the session's number and the partitions that are looked at; None for a session that is not there."""
        session_id, epoch = request.step
        if epoch in (0, -1):
            if session_id == self.id:
                self.id = 0
            if epoch == 0 and has_room:
                self.last_id += 1
                self.id, self.epoch, self.known = self.last_id, 1, dict(request.named)
                return self.id, self.known
            return 0, dict(request.named)
        if session_id != self.id or epoch != self.epoch:
            return 0, None
        for key in request.forgotten:
            assert self.known.pop(key) == request.forgotten[key]
        self.known.update(request.named)
        self.epoch += 1
        return self.id, self.known


WANTED = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2), min_size=1)
FATES = st.sampled_from(["answered", "answered", "answered", "lost before", "lost after", "evicted", "no room"])


@given(st.lists(st.tuples(WANTED, FATES, st.booleans()), max_size=30))
def test_the_broker_looks_at_what_is_wanted_whatever_happens(rounds: list[tuple[dict[str, int], str, bool]]) -> None:
    session, broker = Session(), Broker()
    for wanted, fate, by_id in rounds:
        if fate == "evicted":
            broker.id = 0
        request = session.next(wanted, by_id)
        if fate == "lost before":
            session.failed()
            continue
        number, looked_at = broker.fetch(request, has_room=fate != "no room")
        if fate == "lost after":
            session.failed()
        elif looked_at is None:
            assert not request.full
            session.refused()
        else:
            assert looked_at == wanted
            session.answered(number)
