"""The function of `exactly_once()`: all records are handled before the first message is produced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka.producer.producer_record import ProducerRecord
from pykafka.transactions.exactly_once import Function


def test_all_records_are_handled_before_the_first_message_is_produced() -> None:
    """A transaction begins with its first message: what a slow function takes must not count against its timeout."""
    handled: list[int] = []

    def fn(record: Any) -> ProducerRecord[Any, Any]:
        handled.append(record)
        return ProducerRecord(b"made", topic="t")

    consumer = SimpleNamespace(_cluster=SimpleNamespace(tracer=None))
    made = Function(fn, consumer).apply(cast(Any, [1, 2, 3]))
    assert handled == [1, 2, 3]
    assert [context for context, _ in made] == [None] * 3


def test_an_error_of_the_function_is_kept() -> None:
    def fn(record: Any) -> None:
        raise KeyError(record)

    function = Function(fn, SimpleNamespace(_cluster=SimpleNamespace(tracer=None)))
    with pytest.raises(KeyError) as caught:
        function.apply(cast(Any, [1]))
    assert function.error is caught.value
