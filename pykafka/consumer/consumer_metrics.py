"""The metrics of a consumer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykafka.consumer.lag import lag_of
from pykafka.metadata.client_metrics import add_throttling, begin_reading, of_api
from pykafka.metrics.listener import (
    ASSIGNED,
    COMMIT_SYNC,
    COMMITTED,
    COMMITTED_READ,
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
from pykafka.metrics.reading import by_topic, steps

if TYPE_CHECKING:
    from pykafka.consumer.assignment import Assignment
    from pykafka.metadata.client_metrics import MeasuredClient
    from pykafka.metrics.reading import Reading
    from pykafka.metrics.recorder import PartRecorder, TopicSensors

GROUP, FETCH, COORDINATOR = "consumer-metrics", "consumer-fetch-manager-metrics", "consumer-coordinator-metrics"


def read_consumer(engine: Assignment) -> Reading:
    """Return the metrics of a consumer, with those of its client's connections."""
    (reading, part), cluster = begin_reading(engine, "consumer"), engine.cluster
    add_polls(reading, GROUP, part, engine.buffers.taken_at)
    reading.stalls(GROUP, part)
    reading.ns_total(GROUP, "commit-sync-time", part, COMMIT_SYNC)
    reading.ns_total(GROUP, "committed-time", part, COMMITTED_READ)
    add_fetches(reading, FETCH, cluster, "Fetch")
    _add_partitions(reading, engine)
    if part is not None:
        topics, left = by_topic(part)
        add_records(reading, FETCH, [*topics.values(), left])
        for name, topic in sorted(topics.items()):
            add_records(reading, FETCH, [topic], {"topic": name})
    if engine.options.consumer_group is not None:
        _add_group(reading, engine, part)
    return reading


def add_polls(reading: Reading, group: str, part: PartRecorder | None, taken_at: float = -math.inf) -> None:
    """Add what an application's calls for records took.

    :param taken_at: when the last batch was read to its end, also by iteration, which reports calls only if they wait (s)
    """
    idle = steps(part, WAITED)
    # a call that waits does so some seconds at a time, however long there are no records
    known = max([taken_at, *(sensor.last for sensor in idle)])
    reading.seconds_ago(group, "last-poll-seconds-ago", part, POLLED, known)
    reading.spread(group, "time-between-poll", steps(part, POLLED))
    seconds = idle[0].recent(reading.now)[0] if idle else 0.0
    waited = sum(sensor.recent(reading.now)[2] for sensor in idle) / 1000
    reading.add(group, "poll-idle-ratio-avg", min(waited / seconds, 1.0) if seconds else math.nan)


def add_fetches(reading: Reading, group: str, cluster: MeasuredClient, api: str) -> None:
    """Add what fetch requests took; those of all consumers of a client.

    :param api: "Fetch" or "ShareFetch"
    """
    apis = of_api(cluster, api)
    reading.meter(group, "fetch", [one.sent for one in apis])
    reading.spread(group, "fetch-latency", [one.took for one in apis])
    add_throttling(reading, group, "fetch-throttle-time", cluster, api)


def add_records(
    reading: Reading,
    group: str,
    topics: list[TopicSensors],
    tags: Mapping[str, str] | None = None,
    ends: tuple[str, ...] = ("avg",),
) -> None:
    """Add what was fetched of some topics.

    :param ends: of the records of one partition in one answer
    """
    records, nbytes = [topic.records for topic in topics], [topic.bytes for topic in topics]
    reading.meter(group, "records-consumed", records, tags, of="total")
    reading.meter(group, "bytes-consumed", nbytes, tags, of="total")
    reading.spread(group, "fetch-size", nbytes, tags)
    reading.spread(group, "records-per-request", records, tags, ends)


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
        if lag.records == 0:
            reading.add(FETCH, "still-seconds", 0.0, tags)
        elif engine.progress is not None:  # else nothing has looked since when, as with stall_report_ms=0
            reading.add(FETCH, "still-seconds", engine.progress.still_for(key, reading.now), tags)
        trouble = owned.trouble_since
        reading.add(FETCH, "failing-seconds", 0.0 if trouble is None else max(reading.now - trouble, 0.0), tags)
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
    commits, rebalances = steps(part, COMMITTED), steps(part, REBALANCED)
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
    reading.spread(group, "heartbeat-response-time", beats, ends=("max",))
    reading.seconds_ago(group, "last-heartbeat-seconds-ago", part, HEARTBEAT)


def _add_hourly(reading: Reading, group: str, stem: str, part: PartRecorder | None, kind: str) -> None:
    sensors = steps(part, kind)
    reading.add(group, f"{stem}-total", sum(sensor.count for sensor in sensors))
    rate = sum(count / seconds for seconds, count, _, _ in (sensor.recent(reading.now) for sensor in sensors))
    reading.add(group, f"{stem}-rate-per-hour", rate * 3600)
