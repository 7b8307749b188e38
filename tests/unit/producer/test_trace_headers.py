"""Which batches go without their headers to a broker that takes none: those that have headers of traces alone."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.produce_request import has_traces_alone

TRACE, OWN = ("traceparent", b"00"), ("own", b"1")


@pytest.mark.parametrize(
    ("messages", "alone"),
    [
        ([[TRACE]], True),
        ([None, [TRACE], [("baggage", b"a"), TRACE]], True),
        ([[TRACE, OWN]], False),
        ([[TRACE], [OWN]], False),
        ([[OWN]], False),
    ],
)
def test_traces_alone(messages: list[Any], alone: bool) -> None:
    batch = ProducerBatch("t", 0, BrokerQueue(ThreadingHandler().Event(), 1, 1, 1), 0.0, None)
    for headers in messages:
        batch.builder.append(-1, None, b"x", headers)
    assert has_traces_alone(batch, {"traceparent", "baggage"}) is alone
    assert not has_traces_alone(batch, ())
