"""`Collector`: which metrics a push has, with which values, in how many bytes."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykafka.metrics.metric import COUNTER, GAUGE, Buckets, Metric, MetricName
from pykafka.telemetry.names import is_standard, telemetry_name, telemetry_tags
from pykafka.telemetry.otlp import CUMULATIVE, DELTA, Point, metrics_data
from pykafka.telemetry.sources import Labels, Source

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)

#: How often the log says that metrics do not fit into a push (s).
AGAIN_S = 3600.0
#: The fewest bytes of a point.
_POINT_MIN_BYTES = 32
#: How many metrics are looked at between two looks at the hub.
_METRICS_PER_BREATH = 200
#: The part of the room that a smaller push aims at.
_AIM = 0.9
#: The tags that make many metrics of one, with the order in which metrics are left out if there is no room.
_DETAIL = {"partition": 3, "topic": 2, "node-id": 1}


class _Sent(NamedTuple):
    """The value of a counter or histogram in the last push that a broker took, and the time of that (ns since 1970)."""

    value: float
    buckets: Buckets | None
    at_ns: int


class _Wanted(NamedTuple):
    """A metric that the broker wants.

    :param source: the number of its source
    :param name: for brokers
    """

    source: int
    name: str
    metric: Metric


class _Sample(NamedTuple):
    """A metric of a push: as it goes to the broker, and what to remember of it."""

    source: int
    point: Point
    key: tuple[str, MetricName]
    sent: _Sent


class Push(NamedTuple):
    """The metrics of a push.

    :param data: their bytes
    :param samples: for `Collector.taken`
    """

    data: bytes
    samples: list[_Sample]


class Collector:
    """The metrics of one client, as pushes need them.

    State: the worker that pushes alone uses it.

    :param handler: supplies the clock, and lets other workers run
    :param limiter: logs that metrics do not fit
    """

    def __init__(self, handler: Handler, limiter: LogLimiter) -> None:
        self._handler = handler
        self._limiter = limiter
        self._began_ns = handler.time_ms() * 1_000_000
        # By source and name.
        self._sent: dict[tuple[str, MetricName], _Sent] = {}

    def collect(self, sources: Sequence[Source], prefixes: Iterable[str], is_delta: bool, limit: int) -> Push:
        """Return a push: without those metrics that have no number, and without the most detailed ones if it is too large.

        :param prefixes: of the names that the broker wants; an empty one means all
        :param is_delta: whether counters say what has come since the last push, instead of everything
        :param limit: of the bytes; brokers hold it against what a compressed push unpacks to
        """
        at_ns = max(self._handler.time_ms() * 1_000_000, self._began_ns)
        wanted = self._wanted(sources, tuple(prefixes))
        count = min(len(wanted), limit // _POINT_MIN_BYTES)
        samples = self._samples(sources, wanted[:count], is_delta, at_ns)
        labels = [source.labels for source in sources]
        temporality = DELTA if is_delta else CUMULATIVE
        while True:
            data = self._encoded(samples[:count], labels, at_ns, temporality)
            if len(data) <= limit or not count:
                break
            count = max(min(count - 1, int(count * limit / len(data) * _AIM)), 0)
        if count < len(wanted):
            text = (
                "%d of %d metrics that the broker wants are not pushed, as a push has room for %d bytes; metrics of single "
                "partitions are left out first"
            )
            self._limiter.warn(log, "telemetry size", text, len(wanted) - count, len(wanted), limit, again_s=AGAIN_S)
        return Push(data, samples[:count])

    def taken(self, push: Push) -> None:
        """Note that a broker has taken a push: the next deltas begin there."""
        self._sent.update((sample.key, sample.sent) for sample in push.samples if sample.point.kind != GAUGE)

    def forget_gone(self, sources: Iterable[Source]) -> None:
        """Forget the values of sources that are gone, and of topics that a source has left: those would begin anew."""
        here = {source.name: {metric.name for metric in source.metrics} for source in sources}
        self._sent = {
            (source, name): sent
            for (source, name), sent in self._sent.items()
            # A source that could not be read has no metrics now.
            if source in here and (name in here[source] or not here[source] or "topic" not in dict(name.tags))
        }

    def _wanted(self, sources: Sequence[Source], prefixes: tuple[str, ...]) -> list[_Wanted]:
        """Return the metrics that the broker wants; those that are left out first, if there is no room, at the end."""
        by_rank: dict[tuple[int, bool], list[_Wanted]] = {}
        names: dict[tuple[str, str], str] = {}  # for brokers; "" if they do not want it
        for number, source in enumerate(sources):
            for index, metric in enumerate(source.metrics):
                if index % _METRICS_PER_BREATH == 0:
                    self._handler.breathe()
                short = metric.name[:2]
                name = names.get(short)
                if name is None:
                    full = telemetry_name(metric.name)
                    name = names[short] = full if full.startswith(prefixes) else ""
                if name and _is_number(metric.value):
                    detail = max([_DETAIL.get(tag, 0) for tag, _ in metric.name.tags], default=0)
                    rank = detail, not is_standard(name)
                    by_rank.setdefault(rank, []).append(_Wanted(number, name, metric))
        return [one for rank in sorted(by_rank) for one in by_rank[rank]]

    def _samples(
        self, sources: Sequence[Source], wanted: Sequence[_Wanted], is_delta: bool, at_ns: int
    ) -> list[_Sample]:
        samples = []
        for index, (number, name, metric) in enumerate(wanted):
            if index % _METRICS_PER_BREATH == 0:
                self._handler.breathe()
            key = (sources[number].name, metric.name)
            value, buckets, start_ns = metric.value, metric.buckets, self._began_ns
            before = self._sent.get(key) if is_delta and metric.kind != GAUGE else None
            if before is not None:
                value, buckets = _since(metric, before)
                start_ns = before.at_ns
            point = Point(name, metric.kind, metric.unit, telemetry_tags(metric.name), value, buckets, start_ns)
            samples.append(_Sample(number, point, key, _Sent(metric.value, metric.buckets, at_ns)))
        return samples

    def _encoded(self, samples: list[_Sample], labels: list[Labels], at_ns: int, temporality: int) -> bytes:
        points: list[list[Point]] = [[] for _ in labels]
        for sample in samples:
            points[sample.source].append(sample.point)
        return metrics_data(zip(labels, points, strict=True), at_ns, temporality, self._handler.breathe)


def _is_number(value: object) -> bool:
    """Return whether a value can be pushed: a version, or the hash of a commit, is text, and a mean of nothing is NaN."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def _since(metric: Metric, before: _Sent) -> tuple[float, Buckets | None]:
    """Return what a counter or histogram has counted since the last push; all of it if it has begun anew since."""
    now, then = metric.buckets, before.buckets
    if metric.value < before.value:
        return metric.value, now
    if metric.kind == COUNTER:
        return metric.value - before.value, None
    if now is None or then is None or now.bounds != then.bounds:
        return metric.value, now
    counts = tuple(count - earlier for count, earlier in zip(now.counts, then.counts, strict=True))
    if min(counts) < 0:  # it has begun anew, and counted as much since
        return metric.value, now
    return metric.value - before.value, Buckets(now.bounds, counts, now.total - then.total)
