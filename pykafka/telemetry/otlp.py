"""`metrics_data`: metrics as OpenTelemetry's MetricsData, in the bytes of protobuf.

Six messages with numbers and text need no dependency: the package `opentelemetry-proto` would bring protobuf's runtime, whose
versions users pin for reasons of their own. Java's generated classes read these bytes in the tests.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pykafka.metrics.metric import COUNTER, HISTOGRAM, Buckets

DELTA, CUMULATIVE = 1, 2
#: How many points are encoded between two looks at the hub.
_POINTS_PER_BREATH = 100
_SCOPE = "pykafka"

# Wire types of protobuf.
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_GAUGE_FIELD, _SUM_FIELD, _HISTOGRAM_FIELD = 5, 7, 9
_ATTRIBUTES_OF_NUMBER, _ATTRIBUTES_OF_HISTOGRAM = 7, 9
_double = struct.Struct("<d").pack
_fixed64 = struct.Struct("<Q").pack


class Point(NamedTuple):
    """One metric with one set of tags.

    :param name: for brokers
    :param kind: GAUGE, COUNTER or HISTOGRAM
    :param unit: of the value
    :param tags: ((tag, value), ...)
    :param value: the number; of a histogram the number of values
    :param buckets: of a histogram
    :param start_ns: since when a counter or histogram counts (ns since 1970)
    """

    name: str
    kind: str
    unit: str
    tags: tuple[tuple[str, str], ...]
    value: float
    buckets: Buckets | None
    start_ns: int


def metrics_data(
    resources: Iterable[tuple[tuple[tuple[str, str], ...], list[Point]]],
    at_ns: int,
    temporality: int,
    breathe: Callable[[], object],
) -> bytes:
    """Return the bytes of MetricsData.

    :param resources: (labels, points) of each producer, each consumer and the client itself
    :param at_ns: the time of the points (ns since 1970)
    :param temporality: of counters and histograms: DELTA or CUMULATIVE
    :param breathe: called now and then, so that other workers of a hub run
    """
    data = bytearray()
    for labels, points in resources:
        if points:
            resource = _embedded(1, _attributes(1, labels))
            scope = _embedded(1, _text(1, _SCOPE)) + b"".join(
                _embedded(2, metric) for metric in _metrics(points, at_ns, temporality, breathe)
            )
            data += _embedded(1, resource + _embedded(2, scope))
    return bytes(data)


def _metrics(points: list[Point], at_ns: int, temporality: int, breathe: Callable[[], object]) -> Iterator[bytes]:
    """Yield one Metric a name, with the points of all its tags."""
    by_name: dict[tuple[str, str, str], list[bytes]] = {}
    for index, point in enumerate(points):
        if index % _POINTS_PER_BREATH == 0:
            breathe()
        encoded = _histogram_point(point, at_ns) if point.kind == HISTOGRAM else _number_point(point, at_ns)
        by_name.setdefault((point.name, point.unit, point.kind), []).append(encoded)
    for (name, unit, kind), encoded_points in by_name.items():
        body = b"".join(_embedded(1, encoded) for encoded in encoded_points)
        if kind == HISTOGRAM:
            field, body = _HISTOGRAM_FIELD, body + _number(2, temporality)
        elif kind == COUNTER:
            field, body = _SUM_FIELD, body + _number(2, temporality) + _number(3, 1)
        else:
            field = _GAUGE_FIELD
        yield _text(1, name) + (_text(3, unit) if unit else b"") + _embedded(field, body)


def _number_point(point: Point, at_ns: int) -> bytes:
    start = _fixed(2, point.start_ns) if point.kind == COUNTER else b""
    return start + _fixed(3, at_ns) + _float(4, point.value) + _attributes(_ATTRIBUTES_OF_NUMBER, point.tags)


def _histogram_point(point: Point, at_ns: int) -> bytes:
    buckets = point.buckets or Buckets((), (int(point.value),), 0.0)
    return b"".join(
        (
            _fixed(2, point.start_ns),
            _fixed(3, at_ns),
            _fixed(4, sum(buckets.counts)),
            _float(5, buckets.total),
            _embedded(6, b"".join(map(_fixed64, buckets.counts))),
            _embedded(7, b"".join(map(_double, buckets.bounds))),
            _attributes(_ATTRIBUTES_OF_HISTOGRAM, point.tags),
        )
    )


def _attributes(field: int, tags: Iterable[tuple[str, str]]) -> bytes:
    """Return a repeated KeyValue, each with a text as its value."""
    return b"".join(_embedded(field, _text(1, tag) + _embedded(2, _text(1, value))) for tag, value in tags)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _embedded(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(body)) + body


def _text(field: int, text: str) -> bytes:
    return _embedded(field, text.encode(errors="replace"))


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(number)


def _fixed(field: int, number: int) -> bytes:
    return _varint(field << 3 | _FIXED64) + _fixed64(number)


def _float(field: int, number: float) -> bytes:
    return _varint(field << 3 | _FIXED64) + _double(number)
