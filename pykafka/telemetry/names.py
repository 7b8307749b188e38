"""Names of metrics as brokers subscribe to them (KIP-714), and the standard sets that each kind of client must have."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka.metrics.metric import MetricName

PREFIX = "org.apache.kafka."
_GROUP_END = ".metrics"
#: The tag that the broker adds by itself.
_LEFT_OUT = "client-id"

_LATENCIES = ("node.request.latency.avg", "node.request.latency.max")
_CONNECTIONS = ("connection.creation.rate", "connection.creation.total")
#: The metrics that a client of each kind must have, without `PREFIX` (KIP-714; of share consumers KIP-932).
STANDARD: dict[str, tuple[str, ...]] = {
    "producer": tuple(
        f"producer.{name}"
        for name in (
            *_CONNECTIONS,
            *_LATENCIES,
            "produce.throttle.time.avg",
            "produce.throttle.time.max",
            "record.queue.time.avg",
            "record.queue.time.max",
            "request.latency.avg",
            "request.latency.max",
        )
    ),
    "consumer": tuple(
        f"consumer.{name}"
        for name in (
            *_CONNECTIONS,
            *_LATENCIES,
            "coordinator.assigned.partitions",
            "coordinator.commit.latency.avg",
            "coordinator.commit.latency.max",
            "coordinator.rebalance.latency.avg",
            "coordinator.rebalance.latency.max",
            "coordinator.rebalance.latency.total",
            "fetch.manager.fetch.latency.avg",
            "fetch.manager.fetch.latency.max",
            "poll.idle.ratio.avg",
        )
    ),
    "share consumer": tuple(
        f"consumer.share.{name}"
        for name in (
            "coordinator.heartbeat.rate",
            "coordinator.heartbeat.total",
            "fetch.manager.acknowledgements.send.rate",
            "fetch.manager.acknowledgements.send.total",
            "fetch.manager.bytes.consumed.rate",
            "fetch.manager.bytes.consumed.total",
            "fetch.manager.fetch.latency.avg",
            "fetch.manager.fetch.latency.max",
            "fetch.manager.fetch.rate",
            "fetch.manager.fetch.size.avg",
            "fetch.manager.fetch.size.max",
            "fetch.manager.fetch.throttle.time.avg",
            "fetch.manager.fetch.throttle.time.max",
            "fetch.manager.fetch.total",
            "poll.idle.ratio.avg",
            "time.between.poll.avg",
            "time.between.poll.max",
        )
    ),
}
_ALL_STANDARD = frozenset(PREFIX + name for names in STANDARD.values() for name in names)


def telemetry_name(name: MetricName) -> str:
    """Return the name of a metric for brokers: "org.apache.kafka.consumer.fetch.manager.records.lag.max"."""
    group = name.group.replace("-", ".").removesuffix(_GROUP_END)
    return f"{PREFIX}{group}.{name.name.replace('-', '.')}"


def telemetry_tags(name: MetricName) -> tuple[tuple[str, str], ...]:
    """Return the tags of a metric for brokers, in snake_case, without the client id, which brokers add."""
    return tuple((tag.replace("-", "_"), value) for tag, value in name.tags if tag != _LEFT_OUT)


def is_standard(name: str) -> bool:
    """Return whether a name for brokers is in one of the standard sets."""
    return name in _ALL_STANDARD


def missing(kind: str, names: Iterable[MetricName]) -> list[str]:
    """Return the metrics of a standard set that are not among some.

    :param kind: a key of `STANDARD`
    :param names: those that a client has
    """
    present = {telemetry_name(name) for name in names}
    return [name for name in STANDARD[kind] if PREFIX + name not in present]
