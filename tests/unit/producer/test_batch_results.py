"""The fate of a batch by its answer: delivered, failed, split, given up, or sent again; and its offset."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from pykafka.exceptions import (
    KafkaException,
    LeaderNotFoundError,
    NoBrokersAvailableError,
    RequestTimedOut,
    ResponseTimeoutError,
    SocketDisconnectedError,
    error_for,
)
from pykafka.handlers import ThreadingHandler
from pykafka.producer.accumulator import PartitionQueue
from pykafka.producer.batch import ProducerBatch
from pykafka.producer.batch_results import BatchResults
from pykafka.producer.retry_policy import RetryPolicy


class Owner:
    """Hears of the results of one partition's batches, whose window has acknowledged a first one."""

    def __init__(self, listener: Any) -> None:
        self.queue = PartitionQueue(0, "t")
        self.queue.window.adopt(7, 0)
        self.queue.next_offset = 100
        self.heard: list[tuple[Any, ...]] = []
        self.names: dict[int, str] = {}
        self.on_divide: Callable[[Any], None] = lambda _: None
        self.divided: list[KafkaException | None] = []
        self.time = 10.0
        self.listener = listener
        self.unasked: KafkaException | None = None
        clock: Any = SimpleNamespace(now=lambda: self.time, random=random.Random(1))
        options: Any = SimpleNamespace(
            retry_backoff_ms=100,
            retry_backoff_max_ms=1000,
            delivery_timeout_s=2.0,
            delivery_timeout_ms=2000,
            max_retries=1,
        )
        policy = RetryPolicy(clock, options)
        lock: Any = ThreadingHandler().Lock()
        self.results = BatchResults(clock, lock, policy, self, lambda: self.unasked, listener)
        self.results.acknowledged(self.batch("first"))
        self.heard.clear()

    def batch(self, name: str, base_offset: int = -1, count: int = 10) -> ProducerBatch:
        """Return a batch that was sent now."""
        assert self.queue.window.may_begin()
        batch = self.made(name, count)
        batch.base_offset = base_offset
        batch.record_errors = {}
        batch.in_flight = self.queue.window.begin(batch, count)
        self.queue.window.number(batch.in_flight)
        return batch

    def made(self, name: str, count: int) -> ProducerBatch:
        """Return a batch without its messages."""
        batch = ProducerBatch("t", 0, cast(Any, None), 10.0, None)
        batch.count = count
        self.names[id(batch)] = name
        return batch

    def queue_of(self, batch: Any) -> Any:
        return {"t": self.queue}[batch.topic]

    def leaders_moved(self) -> None:
        self.heard.append(("leaders moved",))

    def leader_named(self) -> None:
        self.heard.append(("leader named",))

    def delivered(self, batch: Any) -> None:
        batch.done = True
        self.heard.append(("delivered", self.names[id(batch)]))

    def failed(self, batch: Any, error: KafkaException, given_up: bool) -> None:
        batch.done = True
        self.heard.append(("failed", self.names[id(batch)], type(error), given_up))

    def divide(self, batch: Any, error: KafkaException | None) -> list[Any]:
        self.on_divide(batch)
        self.divided.append(error)
        batch.parts = [self.made(self.names[id(batch)] + str(part), batch.count // 2) for part in range(2)]
        return list(batch.parts)


@pytest.fixture
def owner() -> Owner:
    return Owner(mock.Mock())


@pytest.mark.parametrize(
    ("error", "led", "heard"),
    [
        (error_for(19), False, []),
        (error_for(5), False, [("leaders moved",)]),
        (error_for(7), False, [("leaders moved",)]),  # as of a leader that is cut off
        (error_for(6), True, [("leader named",)]),
        (SocketDisconnectedError("cut"), False, [("leaders moved",)]),
        (ResponseTimeoutError("late"), False, [("leaders moved",)]),
        (error_for(2), False, []),
    ],
)
def test_it_is_sent_again(owner: Owner, error: KafkaException, led: bool, heard: list[Any]) -> None:
    batch = owner.batch("b")
    owner.results.apply([(batch, error)], [batch] if led else [])
    assert owner.heard == heard
    assert (batch.done, batch.in_flight.batch, batch.record_errors) == (False, batch, None)
    assert type(batch.last_error) is type(error)
    assert batch.retry_at == 10 if led else 10.08 <= batch.retry_at <= 10.12
    owner.listener.on_retry.assert_called_once_with(batch, error)
    assert owner.queue.window.next_retry() is batch.in_flight


@pytest.mark.parametrize(("code", "again"), [(2, False), (7, True), (6, True)])
def test_one_that_counts_against_max_retries_is_given_up(owner: Owner, code: int, again: bool) -> None:
    batch = owner.batch("b")
    owner.results.apply([(batch, error_for(code))])
    owner.queue.window.next_retry()
    owner.heard.clear()
    owner.results.apply([(batch, error_for(code))])
    assert batch.done is not again
    if not again:
        assert owner.heard == [("failed", "b", type(error_for(code)), True)]
        assert batch.in_flight.batch is None


@pytest.mark.parametrize("code", [29, 87])
def test_an_error_for_good_fails_it(owner: Owner, code: int) -> None:
    batch = owner.batch("b")
    owner.results.apply([(batch, error_for(code))])
    assert owner.heard == [("failed", "b", type(error_for(code)), False)]
    assert (batch.in_flight.batch, len(owner.queue.window.batches)) == (None, 0)


def test_those_behind_it_go_as_soon_as_it_is_their_turn(owner: Owner) -> None:
    first, second = owner.batch("a"), owner.batch("b")
    owner.results.apply([(first, error_for(19)), (second, error_for(45))])
    assert owner.heard == []
    assert (first.retry_at > 10, second.retry_at, second.failures, second.attempts) == (True, 10, 0, 0)


@pytest.mark.parametrize("in_short", [True, False])
@pytest.mark.parametrize(
    ("before", "offset", "after"), [(100, 100, 110), (100, -1, 100), (100, 50, 100), (-1, 0, 10), (-1, -1, -1)]
)
def test_it_is_delivered(owner: Owner, in_short: bool, before: int, offset: int, after: int) -> None:
    owner.queue.next_offset = before
    batch = owner.batch("b", offset)
    if in_short:
        owner.results.acknowledged(batch)
    else:
        owner.results.apply([(batch, None)])
    assert (owner.heard, owner.queue.next_offset) == ([("delivered", "b")], after)
    assert (batch.in_flight.batch, owner.listener.mock_calls) == (None, [])


def test_one_that_the_broker_has_already_is_delivered(owner: Owner) -> None:
    batch = owner.batch("b")
    owner.results.apply([(batch, error_for(46))])
    assert (owner.heard, owner.listener.mock_calls) == ([("delivered", "b")], [])


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("in_short", [True, False])
@pytest.mark.parametrize(
    ("next_offset", "offset"),
    [(100, 119), (100, 100), (0, 20), (0, 0), (100, 120), (100, 121), (-1, 120), (100, -1)],
)
def test_an_acknowledged_batch_proves_nothing_of_those_before_it(
    owner: Owner, in_short: bool, next_offset: int, offset: int, refused: bool
) -> None:
    """The records between may be of others: the broker is asked about those batches under their old numbers."""
    owner.queue.next_offset = next_offset
    lost, also, last = owner.batch("a"), owner.batch("b"), owner.batch("c", offset, count=5)
    owner.results.apply([(lost, SocketDisconnectedError()), (also, SocketDisconnectedError())])
    lost.in_flight.bypassed = also.in_flight.bypassed = refused
    owner.heard.clear()
    if in_short:
        owner.results.acknowledged(last)
    else:
        owner.results.apply([(last, None)])
    assert owner.heard == [("delivered", "c")]
    assert [in_flight.batch for in_flight in owner.queue.window.batches] == [lost, also]
    assert [lost.base_offset, also.base_offset] == [-1, -1]
    assert owner.queue.next_offset == (next_offset if offset < 0 else offset + 5)


@pytest.mark.parametrize(
    ("error", "heard"),
    [(None, ("delivered", "b")), (error_for(29), ("failed", "b", type(error_for(29)), False))],
)
def test_what_was_interrupted_is_done_by_the_next_call(
    owner: Owner, error: KafkaException | None, heard: tuple[Any, ...]
) -> None:
    batch = owner.batch("b")
    owner.queue.window.on_result(batch.in_flight, error)
    for _ in range(2):
        owner.results.apply([(batch, error)])
        assert owner.heard == [heard]


@pytest.mark.parametrize("asked", [True, False])
def test_a_large_one_goes_in_parts(owner: Owner, asked: bool) -> None:
    batch = owner.batch("b")
    in_flight = batch.in_flight
    error = error_for(10) if asked else None
    if error is not None:
        owner.results.apply([(batch, error)])
        owner.listener.on_retry.assert_called_once_with(batch, error)
    else:
        owner.results.split(batch, None, "no broker was asked")
        assert owner.listener.mock_calls == []
    assert owner.divided == [error]
    assert [(owner.names[id(part.batch)], part.sequence, part.count) for part in owner.queue.window.batches] == [
        ("b0", 10, 5),
        ("b1", 15, 5),
    ]
    assert all(part.batch.in_flight is part for part in owner.queue.window.batches)
    assert (owner.heard, in_flight.batch) == ([], None)
    owner.results.apply([(batch, error_for(10))])  # again, after an interruption
    assert owner.heard == []


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_a_large_one_that_is_done_is_not_split(owner: Owner, early: bool, asked: bool) -> None:
    """Its time is over, or a close has given it up: it leaves the window, so that those behind it may go."""
    batch = owner.batch("b")
    batch.done = early
    owner.on_divide = lambda batch: setattr(batch, "done", True)
    if asked:
        owner.results.apply([(batch, error_for(10))])
    else:
        owner.results.split(batch, None, "no broker was asked")
    window = owner.queue.window
    assert (batch.parts, list(window.batches), window.on_wire) == (None, [], 0)


@pytest.mark.parametrize("given_up", ["done", "about to be", "dropped"])
def test_a_large_one_that_is_given_up_while_it_is_divided_leaves_no_parts(owner: Owner, given_up: str) -> None:
    """Its time may end meanwhile: it has left the window then, or is done, with an error for all of its messages."""
    batch = owner.batch("b")
    error = RequestTimedOut()

    def give_up(_: Any) -> None:
        batch.parts = [owner.made(name, 5) for name in ("part", "rest")]
        if given_up == "done":
            batch.error, batch.done = error, True
            assert (batch.error_of(7), batch.offset_of(7)) == (error, -1)
        elif given_up == "about to be":
            batch.given_up = True
        else:
            owner.queue.window.drop(batch.in_flight)

    owner.on_divide = give_up
    owner.results.split(batch, None, "no broker was asked")
    assert (batch.parts, list(owner.queue.window.batches)) == (None, [])


@pytest.mark.parametrize(("created", "expired"), [(10.0, False), (8.0, True)])
def test_one_that_did_not_reach_a_broker_waits_until_its_time_is_over(
    owner: Owner, created: float, expired: bool
) -> None:
    batch, error = owner.batch("b"), SocketDisconnectedError("no way")
    batch.created = created
    owner.results.unsent([batch], error)
    assert (owner.queue.window.on_wire, batch.failures, batch.retry_at > 10) == (0, 1, not expired)
    assert str(batch.last_error) == str(error)
    assert batch.last_error is not error
    assert owner.heard == ([("failed", "b", SocketDisconnectedError, True)] if expired else [])


@pytest.mark.parametrize(
    ("last", "unasked", "reason"),
    [
        (None, None, RequestTimedOut),
        (None, NoBrokersAvailableError(), NoBrokersAvailableError),
        (error_for(6), NoBrokersAvailableError(), NoBrokersAvailableError),
        (error_for(6), None, type(error_for(6))),
        (error_for(7), NoBrokersAvailableError(), RequestTimedOut),
        (SocketDisconnectedError(), NoBrokersAvailableError(), SocketDisconnectedError),
    ],
)
def test_an_old_one_has_the_reason_that_helps(owner: Owner, last: Any, unasked: Any, reason: type) -> None:
    batch = owner.batch("b")
    batch.last_error, owner.unasked = last, unasked
    owner.results.check_age(batch)
    assert owner.heard == []
    owner.time = 12.0
    owner.results.check_age(batch)
    assert owner.heard == [("failed", "b", reason, True)]


def test_an_old_one_whose_partition_has_a_leader_has_waited_for_it(owner: Owner) -> None:
    """It was said that no broker leads the partition, though the answer to the batch before it was missing."""
    queue: Any = owner.queue
    queue.owner = SimpleNamespace(broker=SimpleNamespace(address="broker:9092"))
    queue.partition = SimpleNamespace(leader=object())
    owner.time = 12.0
    owner.results.check_age(owner.batch("b"))
    assert owner.heard == [("failed", "b", ResponseTimeoutError, True)]


def test_those_that_only_its_answer_could_prove_are_given_up_with_it(owner: Owner) -> None:
    window = owner.queue.window
    first, second = owner.batch("a"), owner.batch("b")
    for batch in (first, second):
        owner.results.apply([(batch, SocketDisconnectedError())])
    assert window.next_retry() is first.in_flight
    owner.results.apply([(first, error_for(45))])
    owner.heard.clear()
    in_flights: list[Any] = [first.in_flight, second.in_flight]
    for _ in range(2):
        owner.results.give_up(second, error_for(7), False)
        assert owner.heard == [("failed", "a", RequestTimedOut, False), ("failed", "b", RequestTimedOut, False)]
    assert [in_flight.batch for in_flight in in_flights] == [None, None]


def test_it_works_without_a_listener() -> None:
    owner = Owner(None)
    batch = owner.batch("b")
    owner.results.apply([(batch, error_for(7))])
    owner.results.split(batch, error_for(10), "large")
    assert len(owner.queue.window.batches) == 2


@pytest.mark.parametrize(
    "step",
    [
        lambda results, batch: results.check_age(batch),
        lambda results, batch: results.give_up(batch, LeaderNotFoundError(), True),
    ],
)
def test_a_batch_of_a_topic_that_was_left_meanwhile_is_left_alone(owner: Owner, step: Callable[..., None]) -> None:
    """Another worker has failed it, as it was too old: this one raised KeyError."""
    batch = owner.batch("b")
    owner.time += 3
    batch.topic = "left"
    step(owner.results, batch)
    assert owner.heard == []
