"""The kind of each error, the retries that count against max_retries, and the pauses between them."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import (
    ConnectionRefused,
    CorruptResponseError,
    FrameTooLargeError,
    KafkaException,
    LeaderNotFoundError,
    NoBrokersAvailableError,
    RequestTimedOut,
    ResponseTimeoutError,
    SocketDisconnectedError,
    TopicRecreatedError,
    TransactionError,
    error_for,
)
from pykafka.network.authentication import LOGIN_ERRORS
from pykafka.producer.retry_policy import Kind, RetryPolicy, counts, kind_of, with_remark
from pykafka.utils.backoff import Backoff


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (error_for(19), Kind.NOT_READY),
        (error_for(89), Kind.NOT_READY),
        (error_for(14), Kind.NOT_READY),
        (error_for(15), Kind.NOT_READY),
        (error_for(16), Kind.NOT_READY),
        (error_for(51), Kind.NOT_READY),
        (NoBrokersAvailableError(), Kind.NOT_READY),
        (error_for(3), Kind.MOVED),
        (error_for(9), Kind.MOVED),
        (error_for(5), Kind.MOVED),
        (error_for(6), Kind.MOVED),
        (error_for(56), Kind.MOVED),
        (error_for(74), Kind.MOVED),
        (LeaderNotFoundError(), Kind.MOVED),
        (error_for(7), Kind.OPEN),
        (error_for(13), Kind.OPEN),
        (error_for(20), Kind.OPEN),
        (SocketDisconnectedError(), Kind.OPEN),
        (ConnectionRefused(), Kind.OPEN),
        (ResponseTimeoutError(), Kind.OPEN),
        (error_for(2), Kind.BATCH),
        (CorruptResponseError(), Kind.BATCH),
        (FrameTooLargeError(), Kind.BATCH),
        (error_for(10), Kind.TOO_LARGE),
        (error_for(18), Kind.TOO_LARGE),
        (error_for(-1), Kind.FINAL_OPEN),
        (error_for(9999), Kind.FINAL_OPEN),
        (error_for(17), Kind.FINAL),
        (error_for(29), Kind.FINAL),
        (error_for(87), Kind.FINAL),
        *((cls("refused"), Kind.NOT_READY) for cls in LOGIN_ERRORS),
        (TopicRecreatedError("t"), Kind.FINAL),
        (TransactionError("t"), Kind.FINAL),
    ],
)
def test_what_an_error_says_of_a_batch(error: KafkaException, kind: Kind) -> None:
    assert kind_of(error) is kind


def test_what_counts_against_max_retries() -> None:
    assert {kind for kind in Kind if not counts(kind, numbered=True)} == {Kind.NOT_READY, Kind.MOVED, Kind.OPEN}
    assert {kind for kind in Kind if not counts(kind, numbered=False)} == {Kind.NOT_READY, Kind.MOVED}


def test_pauses_double_up_to_a_bound_and_differ() -> None:
    backoff = Backoff(100, 1000, random.Random(1))
    for failures, wanted in ((0, 0.1), (1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (100_000, 1.0)):
        pauses = [backoff.seconds(failures) for _ in range(200)]
        assert wanted * 0.8 <= min(pauses) < wanted * 0.9 < wanted * 1.1 < max(pauses) <= wanted * 1.2
    assert Backoff(5000, 1000, random.Random(1)).seconds(1) >= 4  # the bound does not shorten what was asked for
    assert Backoff(0, 1000, random.Random(1)).seconds(7) == 0


@pytest.mark.parametrize("late_s", [0.0, 0.5])
def test_no_try_follows_the_last_one(late_s: float) -> None:
    """The last try is when the batch's time is over: one that fails then, with the clock where it was, is not repeated."""
    clock: Any = SimpleNamespace(time=10.0, random=random.Random(1))
    clock.now = lambda: clock.time
    options: Any = SimpleNamespace(
        retry_backoff_ms=100, retry_backoff_max_ms=1000, delivery_timeout_s=2.0, max_retries=9
    )
    policy = RetryPolicy(clock, options)
    batch: Any = SimpleNamespace(created=10.0, failures=7, attempts=0, retry_at=0.0)
    clock.time = 11.9
    policy.back_off(batch)
    assert batch.retry_at == 12.0
    assert not policy.expired(batch)
    clock.time = batch.retry_at + late_s
    assert policy.expired(batch)


@pytest.fixture
def policy() -> RetryPolicy:
    """Return a policy of three retries within two seconds, whose clock stands at 10 s."""
    clock: Any = SimpleNamespace(time=10.0, random=random.Random(1))
    clock.now = lambda: clock.time
    options: Any = SimpleNamespace(
        retry_backoff_ms=100, retry_backoff_max_ms=1000, delivery_timeout_s=2.0, delivery_timeout_ms=2000, max_retries=3
    )
    return RetryPolicy(clock, options)


def failing(created: float = 10.0, numbered: bool = False) -> Any:
    in_flight = SimpleNamespace(numbered=numbered)
    return SimpleNamespace(
        created=created, failures=0, attempts=0, retry_at=0.0, in_flight=in_flight, topic="t", partition_id=4
    )


@pytest.mark.parametrize(
    ("error", "numbered", "tries"),
    [
        (error_for(7), False, 3),
        (error_for(7), True, 50),
        (error_for(2), True, 3),
        (error_for(6), False, 50),
        (error_for(19), False, 50),
    ],
)
def test_a_batch_has_its_tries(policy: RetryPolicy, error: KafkaException, numbered: bool, tries: int) -> None:
    batch = failing(numbered=numbered)
    assert [policy.may_retry(batch, error) for _ in range(50)] == [number < tries for number in range(50)]


@pytest.mark.parametrize("code", [2, 6, 7])
def test_a_batch_whose_time_is_over_has_no_more_tries(policy: RetryPolicy, code: int) -> None:
    assert not policy.may_retry(failing(created=8.0), error_for(code))


def test_each_failure_counts_for_the_pause(policy: RetryPolicy) -> None:
    batch = failing()
    for failures, wanted in ((1, 0.1), (2, 0.2), (3, 0.4)):
        policy.back_off(batch)
        assert batch.failures == failures
        assert 0.8 * wanted <= batch.retry_at - 10 <= 1.2 * wanted


@pytest.mark.parametrize(
    ("created", "bound"), [(9.0, "within max_retries=3"), (8.0, "within delivery_timeout_ms=2000")]
)
def test_the_last_error_says_what_was_tried(policy: RetryPolicy, created: float, bound: str) -> None:
    batch = failing(created)
    batch.failures = 5
    error = policy.explained(batch, SocketDisconnectedError("cut off"))
    assert isinstance(error, SocketDisconnectedError)
    assert error.args == (f"cut off; not delivered in 5 tries, {bound}",)
    assert (error.topic, error.partition) == ("t", 4)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KafkaException(), "a remark"),
        (KafkaException("a", 1), "a 1; a remark"),
        (error_for(7), f"{RequestTimedOut.description}; a remark"),
    ],
)
def test_a_remark_comes_behind_what_happened(error: KafkaException, text: str) -> None:
    assert with_remark(error, "a remark").args == (text,)
