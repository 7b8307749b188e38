"""Sensors: windows, buckets, and any number of workers."""

from __future__ import annotations

import math

import pytest

from pykafka.handlers import Handler
from pykafka.metrics.sensors import Sensor

WORKERS, TIMES = 8, 5000


def test_a_rate_is_over_one_to_two_windows() -> None:
    sensor = Sensor()
    for second in range(90):
        sensor.record(2.0, 1000.0 + second)
    seconds, count, total, largest = sensor.recent(1089.0)
    assert 30 <= seconds <= 60
    assert count / seconds == pytest.approx(1.0, abs=0.05)
    assert (total, largest) == (2.0 * count, 2.0)
    assert (sensor.count, sensor.total) == (90, 180.0)


def test_at_the_beginning_a_rate_is_over_a_whole_window() -> None:
    sensor = Sensor()
    sensor.record(1.0, 5.0)
    assert sensor.recent(5.0)[:2] == (30.0, 1)


@pytest.mark.parametrize(("idle", "count"), [(0.0, 10), (29.0, 10), (31.0, 10), (59.0, 10), (60.0, 0), (3600.0, 0)])
def test_what_is_long_ago_counts_in_the_total_alone(idle: float, count: int) -> None:
    sensor = Sensor()
    for _ in range(10):
        sensor.record(7.0, 100.0)
    seconds, recent, _, largest = sensor.recent(100.0 + idle)
    assert recent == count
    assert largest == 7.0 if count else math.isnan(largest)
    assert seconds >= 30
    assert sensor.count == 10


def test_a_value_behind_a_pause_begins_new_windows() -> None:
    sensor = Sensor()
    sensor.record(100.0, 0.0)
    sensor.record(1.0, 1000.0)
    assert sensor.recent(1000.0)[1:] == (1, 1.0, 1.0)


def test_the_largest_value_of_the_window_before_counts_still() -> None:
    sensor = Sensor()
    sensor.record(100.0, 0.0)
    sensor.record(1.0, 31.0)
    assert sensor.recent(31.0)[1:] == (2, 101.0, 100.0)
    sensor.record(2.0, 62.0)
    assert sensor.recent(62.0)[1:] == (2, 3.0, 2.0)


def test_values_are_counted_by_bucket() -> None:
    sensor = Sensor((1.0, 10.0))
    for value in (0.5, 1.0, 1.1, 10.0, 11.0, math.inf):
        sensor.record(value, 0.0)
    bounds, counts, _ = sensor.distribution()
    assert (bounds, counts) == ((1.0, 10.0), (2, 2, 2))


def test_workers_lose_no_value(handler: Handler) -> None:
    """They take no lock: no other thread runs within a call."""
    sensor = Sensor((1.0,))

    def work() -> None:
        for number in range(TIMES):
            sensor.record(number % 3, 0.0)

    workers = [handler.spawn(work) for _ in range(WORKERS)]
    for worker in workers:
        assert worker.join(60)
        assert worker.error is None
    assert sensor.count == WORKERS * TIMES
    assert sensor.total == WORKERS * sum(number % 3 for number in range(TIMES))
    assert sum(sensor.distribution().counts) == sensor.count
