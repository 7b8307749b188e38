"""`reached`: several brokers are connected to at a time; each is there as soon as it is, or with its error."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykafka.exceptions import ConnectionRefused, ConnectTimeoutError, KafkaException, WorkerNotStartedError
from pykafka.handlers import Handler
from pykafka.metadata.reaching import reached


class Away:
    """A broker that takes some time to connect to.

    :param seconds: how long
    :param error: how that ends; None: there is a connection
    """

    def __init__(self, name: str, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.address, self.seconds, self.error = name, seconds, error


def names(handler: Handler, *brokers: Away, within_s: float = 30.0) -> list[tuple[str, type[KafkaException] | None]]:
    def connect(broker: Any) -> None:
        handler.sleep(broker.seconds)
        if broker.error is not None:
            raise broker.error

    found = reached(handler, cast("Any", brokers), connect, within_s)
    return [(broker.address, None if error is None else type(error)) for broker, error in found]


def test_brokers_that_hang_hold_up_no_other(handler: Handler) -> None:
    slow = [Away(f"slow {number}", 0.4, ConnectTimeoutError("late")) for number in range(3)]
    began = handler.now()
    found = names(handler, *slow, Away("refusing", 0.0, ConnectionRefused("nobody listens")), Away("fine", 0.1))
    assert handler.now() - began < 1.0
    assert found[:2] == [("refusing", ConnectionRefused), ("fine", None)]
    assert sorted(found[2:]) == [(one.address, ConnectTimeoutError) for one in slow]


def test_without_workers_the_caller_connects(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise WorkerNotStartedError("no thread")

    monkeypatch.setattr(handler, "spawn", refuse)
    assert names(handler, Away("a"), Away("b", 0.0, ConnectionRefused("no")), Away("c")) == [
        ("a", None),
        ("b", ConnectionRefused),
        ("c", None),
    ]


def test_those_that_take_longer_than_there_is_time_have_a_time_out(handler: Handler) -> None:
    found = names(handler, Away("a", 0.5), Away("b"), within_s=0.1)
    assert found == [("b", None), ("a", ConnectTimeoutError)]


def test_a_defect_of_the_connecting_is_raised(handler: Handler) -> None:
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        names(handler, Away("a", 0.0, ZeroDivisionError("a mistake")), Away("b"))
