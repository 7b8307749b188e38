"""Batches that go through an `InFlightWindow`, as `LeaderRequests` sends them."""

from __future__ import annotations

from pykafka.producer.in_flight_window import InFlightBatch, InFlightWindow


def sent(window: InFlightWindow, item: str, count: int = 10) -> InFlightBatch:
    """Send a batch for the first time.

    :param count: messages in it
    """
    assert window.may_begin()
    in_flight = window.begin(item, count)
    window.number(in_flight)
    return in_flight


def resent(window: InFlightWindow) -> InFlightBatch:
    """Send the batch whose turn it is again."""
    in_flight = window.next_retry()
    assert in_flight is not None
    if window.producer_id < 0 and not in_flight.numbered:
        window.adopt(8, 0)
    window.number(in_flight)
    return in_flight
