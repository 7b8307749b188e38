"""Which brokers are asked in which order and for how long, and what the error of all of them says and keeps."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from pykafka.broker import Broker
from pykafka.exceptions import (
    ConnectTimeoutError,
    FieldNotAvailableError,
    KafkaException,
    NoBrokersAvailableError,
    ResponseTimeoutError,
    TokenTimeoutError,
)
from pykafka.handlers import ThreadingHandler
from pykafka.metadata.brokers import NEXT_CONNECT_MS, QUICK_CONNECT_MS, first_answer


class Unconnected:
    """A broker without a connection.

    :param error: of a connect in a hurry
    :param name: its answer
    """

    reach = 2
    socket_timeout_ms = 30_000

    def __init__(self, error: KafkaException | None = None, name: str = "") -> None:
        self.name = name
        self.address = "127.0.0.1:9092"
        self.error = error
        self.is_dead = False
        self.tries: list[int | None] = []

    def channel(self, name: str) -> Unconnected:
        assert name == "main"
        return self

    def open(self, timeout_ms: int | None) -> None:
        self.tries.append(timeout_ms)
        if self.error is not None and (timeout_ms is not None or self.is_dead):
            raise self.error

    def is_connected(self, name: str) -> bool:
        return self.error is None

    def warn(self, *told: object) -> None:
        """Tell nobody."""


def asked(*brokers: Unconnected, ask: Callable[[Any], str], left_ms: Callable[[], int] | None = None) -> str:
    return first_answer(ThreadingHandler(), cast("list[Broker]", brokers), ask, "Metadata", left_ms=left_ms)


@pytest.mark.parametrize("kind", [ConnectTimeoutError, TokenTimeoutError, ResponseTimeoutError])
def test_a_broker_that_a_hurried_connect_does_not_reach_is_asked_again_with_its_full_time(
    kind: type[KafkaException],
) -> None:
    """Also one that tells its versions late: that is a part of connecting."""
    broker = Unconnected(kind("not in 3 s"))
    assert asked(broker, ask=lambda broker: "answer") == "answer"
    assert broker.tries == [QUICK_CONNECT_MS, None]


def test_a_broker_that_does_not_answer_the_request_is_not_asked_again() -> None:
    broker, asks = Unconnected(), []

    def ask(one: Any) -> str:
        asks.append(one)
        raise ResponseTimeoutError("not in 30 s")

    with pytest.raises(NoBrokersAvailableError, match="not in 30 s"):
        asked(broker, ask=ask)
    assert asks == [broker]


def test_those_behind_a_broker_that_hangs_have_little_time_at_first_and_then_all_of_it_together() -> None:
    """Each had three seconds, and then its whole time, one behind the other."""
    silent = [Unconnected(ConnectTimeoutError("not in time", broker=f"10.0.0.{number}:9092")) for number in range(4)]
    for broker in silent:
        broker.is_dead = True
    with pytest.raises(NoBrokersAvailableError) as caught:
        asked(*silent, ask=lambda broker: "answer")
    assert len(caught.value.ledger) == len(silent)
    assert [broker.tries for broker in silent] == [
        [QUICK_CONNECT_MS, None],
        *([NEXT_CONNECT_MS, None] for _ in silent[1:]),
    ]


def test_a_broker_that_is_reached_late_is_asked_before_the_rest() -> None:
    late, silent = (Unconnected(ConnectTimeoutError("not in time"), name) for name in ("late", "silent"))
    never = Unconnected(None, "never")

    def recover(timeout_ms: int | None) -> None:
        late.error = None
        raise ConnectTimeoutError("not in time")

    silent.open = recover  # type: ignore[method-assign]
    assert asked(late, silent, never, ask=lambda broker: broker.name) == "late"


def test_brokers_that_are_too_old_for_a_request_were_reached() -> None:
    """Its error says so, unless another broker could not be reached: that one may be newer."""

    def ask(one: Any) -> str:
        if one is silent:
            raise ResponseTimeoutError("not in 30 s")
        raise FieldNotAvailableError("version 0 has no key type")

    old, silent = Unconnected(), Unconnected()
    with pytest.raises(FieldNotAvailableError, match="no key type"):
        asked(old, Unconnected(), ask=ask)
    with pytest.raises(NoBrokersAvailableError, match="no key type.*not in 30 s"):
        asked(old, silent, ask=ask)


def test_the_error_names_brokers_for_whose_second_try_no_time_was_left() -> None:
    left = iter([400, 400, 0])
    broker = Unconnected(ConnectTimeoutError("did not answer within 400 ms", broker="127.0.0.1:9092"))
    with pytest.raises(NoBrokersAvailableError, match="did not answer within 400 ms") as caught:
        asked(broker, ask=lambda broker: "answer", left_ms=lambda: next(left))
    assert [(address, type(error)) for address, error in caught.value.ledger] == [
        ("127.0.0.1:9092", ConnectTimeoutError)
    ]
    assert broker.tries == [400]


class Consumer:
    """An object of the application."""


def test_the_error_keeps_nothing_alive() -> None:
    """The cluster keeps it as `metadata_error`; a consumer whose worker asked for metadata could not be dropped."""

    def fail() -> tuple[KafkaException, weakref.ref[Consumer]]:
        consumer = Consumer()
        try:
            asked(Unconnected(), ask=lambda _: raising(consumer))
        except NoBrokersAvailableError as error:
            return error.again(), weakref.ref(consumer)
        raise AssertionError

    def raising(consumer: Consumer) -> str:
        raise ResponseTimeoutError("none came")

    kept, consumer = fail()
    gc.collect()
    assert consumer() is None
    assert "none came" in str(kept)
