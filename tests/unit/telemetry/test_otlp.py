"""The bytes of MetricsData. That OpenTelemetry's own classes read them is a test with real brokers."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pykafka.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Buckets
from pykafka.telemetry.otlp import CUMULATIVE, DELTA, Point, metrics_data


def fields(data: bytes) -> list[tuple[int, Any]]:
    """Return (field, value) of each field of a message of protobuf."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        elif key & 7 == 1:
            found.append((key >> 3, data[at : at + 8]))
            at += 8
        else:
            size = varint()
            found.append((key >> 3, data[at : at + size]))
            at += size
    return found


def of(data: bytes, *path: int) -> list[Any]:
    """Return the values of a field, by the way to it."""
    values: list[Any] = [data]
    for number in path:
        values = [value for message in values for field, value in fields(message) if field == number]
    return values


def encoded(*points: Point, temporality: int = CUMULATIVE) -> bytes:
    return metrics_data([((("client_rack", "a"),), list(points))], 9, temporality, lambda: None)


def doubles(values: list[bytes]) -> list[float]:
    return [struct.unpack("<d", value)[0] for value in values]


@pytest.mark.parametrize("temporality", [DELTA, CUMULATIVE])
def test_a_counter_is_a_monotonic_sum(temporality: int) -> None:
    point = Point("x.y", COUNTER, "ms", (("node_id", "1"),), 3, None, 5)
    data = encoded(point, point._replace(tags=(("node_id", "2"),), value=4), temporality=temporality)
    (metric,) = of(data, 1, 2, 2)  # one metric with two points
    assert (of(metric, 1), of(metric, 3)) == ([b"x.y"], [b"ms"])
    assert (of(metric, 7, 2), of(metric, 7, 3)) == ([temporality], [1])
    assert doubles(of(metric, 7, 1, 4)) == [3.0, 4.0]
    assert of(metric, 7, 1, 2) == [struct.pack("<Q", 5)] * 2
    assert of(metric, 7, 1, 3) == [struct.pack("<Q", 9)] * 2
    assert of(metric, 7, 1, 7, 2, 1) == [b"1", b"2"]
    assert of(data, 1, 1, 1, 1) == [b"client_rack"]


def test_a_gauge_has_no_start() -> None:
    data = encoded(Point("x", GAUGE, "", (), -0.5, None, 5))
    assert doubles(of(data, 1, 2, 2, 5, 1, 4)) == [-0.5]
    assert of(data, 1, 2, 2, 5, 1, 2) == []


def test_a_histogram_has_its_buckets() -> None:
    data = encoded(Point("x", HISTOGRAM, "", (), 300, Buckets((1.0, 2.5), (100, 0, 200), 700.5), 5))
    (point,) = of(data, 1, 2, 2, 9, 1)
    assert of(point, 4) == [struct.pack("<Q", 300)]
    assert doubles(of(point, 5)) == [700.5]
    assert of(point, 6) == [struct.pack("<3Q", 100, 0, 200)]
    assert of(point, 7) == [struct.pack("<2d", 1.0, 2.5)]


def test_long_texts_and_many_points() -> None:
    points = [Point("n" * 300, GAUGE, "", (("t", "ü" * 200 + "\udc80"),), index, None, 0) for index in range(1000)]
    breaths: list[None] = []
    data = metrics_data([((), points)], 9, DELTA, lambda: breaths.append(None))
    assert doubles(of(data, 1, 2, 2, 5, 1, 4)) == [float(index) for index in range(1000)]
    assert len(breaths) == 10


def test_a_resource_without_points_is_left_out() -> None:
    assert metrics_data([((("a", "b"),), [])], 9, DELTA, lambda: None) == b""
