"""The metrics of a consumer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pykafka.consumer.lag import lag_of
from pykafka.metadata.client_metrics import add_app_info, add_connections, of_api, throttling
from pykafka.metrics.listener import (
    ASSIGNED,
    COMMITTED,
    HEARTBEAT,
    JOINED,
    LOST,
    POLLED,
    REBALANCE_FAILED,
    REBALANCED,
    REVOKED,
    SYNCED,
    WAITED,
)
from pykafka.metrics.reading import Reading, steps
from pykafka.metrics.recorder import PartRecorder

if TYPE_CHECKING:
    from pykafka.consumer.assignment import Assignment
    from pykafka.metadata.client_metrics import Measured

GROUP, FETCH, COORDINATOR = "consumer-metrics", "consumer-fetch-manager-metrics", "consumer-coordinator-metrics"


def read_consumer(engine: Assignment) -> Reading:
    """Return the metrics of a consumer, with those of its client's connections."""
    part = engine.listener if isinstance(engine.listener, PartRecorder) else None
    cluster = engine.cluster
    reading = Reading(part.name if part is not None else cluster.client_id, engine.handler.now())
    add_connections(reading, cluster, "consumer")
    add_app_info(reading, engine.made_at_ms)
    add_polls(reading, GROUP, part)
    reading.ns_total(GROUP, "commit-sync-time", part, f"{COMMITTED} sync")
    reading.ns_total(GROUP, "committed-time", part, "committed offsets")
    add_fetches(reading, FETCH, cluster, "Fetch")
    _add_partitions(reading, engine)
    if part is not None:
        add_records(reading, FETCH, part)
        reading.spread(
            FETCH, "records-per-request", [topic.records for topic in part.topics.copy().values()], ends=("avg",)
        )
        _add_topics(reading, part)
    if engine.options.consumer_group is not None:
        _add_group(reading, engine, part)
    return reading


def add_polls(reading: Reading, group: str, part: PartRecorder | None) -> None:
    """Add what an application's calls for records took."""
    reading.seconds_ago(group, "last-poll-seconds-ago", part, POLLED)
    reading.spread(group, "time-between-poll", steps(part, POLLED))
    idle = steps(part, WAITED)
    seconds = idle[0].recent(reading.now)[0] if idle else 0.0
    waited = sum(sensor.recent(reading.now)[2] for sensor in idle) / 1000
    reading.add(group, "poll-idle-ratio-avg", min(waited / seconds, 1.0) if seconds else math.nan)


def add_fetches(reading: Reading, group: str, cluster: Measured, api: str) -> None:
    """Add what fetch requests took; those of all consumers of a client.

    :param api: "Fetch" or "ShareFetch"
    """
    apis = of_api(cluster, api)
    reading.meter(group, "fetch", [one.sent for one in apis])
    reading.spread(group, "fetch-latency", [one.took for one in apis])
    sensors = throttling(cluster, api)
    count = sum(one.took.recent(reading.now)[1] for one in apis)
    total = sum(sensor.recent(reading.now)[2] for sensor in sensors)
    largest = [value for sensor in sensors if not math.isnan(value := sensor.recent(reading.now)[3])]
    reading.add(group, "fetch-throttle-time-avg", total / count if count else math.nan)
    reading.add(group, "fetch-throttle-time-max", max(largest) if largest else (0.0 if count else math.nan))


def add_records(reading: Reading, group: str, part: PartRecorder) -> None:
    """Add what was fetched in all."""
    topics = list(part.topics.copy().values())
    reading.meter(group, "records-consumed", [topic.records for topic in topics], of="total")
    reading.meter(group, "bytes-consumed", [topic.bytes for topic in topics], of="total")
    reading.spread(group, "fetch-size", [topic.bytes for topic in topics])


def _add_topics(reading: Reading, part: PartRecorder) -> None:
    for name, topic in sorted(part.topics.copy().items()):
        tags = {"topic": name}
        reading.meter(FETCH, "records-consumed", [topic.records], tags, of="total")
        reading.meter(FETCH, "bytes-consumed", [topic.bytes], tags, of="total")
        reading.spread(FETCH, "fetch-size", [topic.bytes], tags)
        reading.spread(FETCH, "records-per-request", [topic.records], tags, ends=("avg",))


def _add_partitions(reading: Reading, engine: Assignment) -> None:
    """Add positions and lag, by partition and of all; no broker is asked."""
    committed, time_ms = engine.options.isolation_level == "read_committed", engine.handler.time_ms()
    lags, leads, seconds = [], [], []
    buffers = engine.buffers
    messages = 0
    for key, owned in list(engine.partitions.items()):
        tags = {"topic": key.topic, "partition": str(key.partition)}
        messages += owned.messages
        reading.add(FETCH, "position", owned.position, tags)
        replica = engine.preferred_replicas.of(key).broker_id
        reading.add(FETCH, "preferred-read-replica", -1 if replica is None else replica, tags)
        lag = lag_of(owned, committed, time_ms)
        if lag.end is not None:
            reading.add(FETCH, "end-offset", lag.end, tags)
        if lag.records is not None:
            reading.add(FETCH, "records-lag", lag.records, tags)
            lags.append(lag.records)
        if lag.seconds is not None:
            reading.add(FETCH, "records-lag-seconds", lag.seconds, tags)
            seconds.append(lag.seconds)
        if owned.log_start_offset >= 0 and owned.position >= 0:
            leads.append(max(owned.position - owned.log_start_offset, 0))
            reading.add(FETCH, "records-lead", leads[-1], tags)
    reading.add(FETCH, "records-lag-max", max(lags, default=math.nan))
    reading.add(FETCH, "records-lag-sum", sum(lags))
    reading.add(FETCH, "records-lag-seconds-max", max(seconds, default=math.nan))
    reading.add(FETCH, "records-lead-min", min(leads, default=math.nan))
    reading.add(FETCH, "buffered-records", messages)
    reading.add(FETCH, "buffered-bytes", buffers.nbytes)
    reading.add(FETCH, "buffered-limit-bytes", buffers.max_bytes)


def _add_group(reading: Reading, engine: Assignment, part: PartRecorder | None) -> None:
    reading.add(COORDINATOR, "assigned-partitions", len(engine.partitions))
    commits, rebalances = steps(part, COMMITTED, f"{COMMITTED} sync"), steps(part, REBALANCED)
    reading.meter(COORDINATOR, "commit", commits)
    reading.spread(COORDINATOR, "commit-latency", commits)
    reading.spread(COORDINATOR, "rebalance-latency", rebalances)
    reading.add(COORDINATOR, "rebalance-latency-total", sum(sensor.total for sensor in rebalances))
    add_rebalances(reading, COORDINATOR, part)
    _add_hourly(reading, COORDINATOR, "failed-rebalance", part, REBALANCE_FAILED)
    reading.seconds_ago(COORDINATOR, "last-rebalance-seconds-ago", part, REBALANCED)
    for stem, kind in (("assigned", ASSIGNED), ("revoked", REVOKED), ("lost", LOST)):
        reading.spread(COORDINATOR, f"partition-{stem}-latency", steps(part, kind))
    for stem, kind in (("join", JOINED), ("sync", SYNCED)):
        reading.meter(COORDINATOR, stem, steps(part, kind))
        reading.spread(COORDINATOR, f"{stem}-time", steps(part, kind))


def add_rebalances(reading: Reading, group: str, part: PartRecorder | None, kind: str = REBALANCED) -> None:
    """Add rebalances and heartbeats.

    :param kind: of the events that are rebalances
    """
    _add_hourly(reading, group, "rebalance", part, kind)
    beats = steps(part, HEARTBEAT)
    reading.meter(group, "heartbeat", beats)
    largest = [value for sensor in beats if not math.isnan(value := sensor.recent(reading.now)[3])]
    reading.add(group, "heartbeat-response-time-max", max(largest, default=math.nan))
    reading.seconds_ago(group, "last-heartbeat-seconds-ago", part, HEARTBEAT)


def _add_hourly(reading: Reading, group: str, stem: str, part: PartRecorder | None, kind: str) -> None:
    sensors = steps(part, kind)
    reading.add(group, f"{stem}-total", sum(sensor.count for sensor in sensors))
    rate = sum(count / seconds for seconds, count, _, _ in (sensor.recent(reading.now) for sensor in sensors))
    reading.add(group, f"{stem}-rate-per-hour", rate * 3600)
