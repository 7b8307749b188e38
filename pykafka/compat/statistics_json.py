"""`StatisticsWriter`: what librdkafka's `stats_cb` gets, of the producers and consumers of a client, as far as it is known."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka.consumer.engine import ConsumerEngine
from pykafka.metrics.listener import CONNECTED, DISCONNECTED, REBALANCED, THROTTLED
from pykafka.metrics.reading import steps
from pykafka.metrics.recorder import PartRecorder, Recorder
from pykafka.producer.engine import ProducerEngine

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.sensors import Sensor
    from pykafka.network.node import Node
    from pykafka.producer.accumulator import PartitionQueue

Fields = dict[str, Any]
Part = ProducerEngine | ConsumerEngine

#: An offset that is not known, as librdkafka has it.
INVALID = -1001
#: What part of the values a percentile is above: the fields of windows.
PERCENTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_99": 0.9999}
#: librdkafka's names for the states of transactions, by `pykafka.transactions.states.State`.
TXN_STATES = {
    "UNINITIALIZED": "Init",
    "INITIALIZING": "WaitPID",
    "READY": "Ready",
    "IN_TRANSACTION": "InTransaction",
    "ABORTABLE": "AbortableError",
    "COMMITTING": "CommittingTransaction",
    "ABORTING": "AbortingTransaction",
    "UNKNOWN": "CommittingTransaction",
    "FATAL": "FatalError",
}
#: A partition of which nothing is queued, fetched or committed.
NOTHING: Fields = {
    "desired": False,
    "unknown": False,
    "msgq_cnt": 0,
    "msgq_bytes": 0,
    "msgs_inflight": 0,
    "fetchq_cnt": 0,
    "fetchq_size": 0,
    "fetch_state": "none",
    "next_offset": INVALID,
    "app_offset": INVALID,
    "stored_offset": INVALID,
    "committed_offset": INVALID,
    "lo_offset": INVALID,
    "hi_offset": INVALID,
    "ls_offset": INVALID,
    "consumer_lag": -1,
    "consumer_lag_stored": -1,
}


class Window:
    """The values that some sensors have measured from one report to the next.

    :param unit: how many units of a sensor one unit of the report has
    """

    def __init__(self, unit: float) -> None:
        self._unit = unit
        self._before: list[float] = []

    def take(self, sensors: Iterable[Sensor], now: float) -> Fields:
        """Return the values since the last call.

        :param now: of the handler's clock (s)
        """
        measured = list(sensors)
        bounds = measured[0].bounds if measured else ()
        counts = [list(sensor.buckets) for sensor in measured]
        sums = [sum(one) for one in zip(*counts, strict=True)] if bounds else []
        state = [float(sum(one.count for one in measured)), sum(one.total for one in measured), *map(float, sums)]
        before = self._before if len(self._before) == len(state) else [0.0] * len(state)
        self._before = state
        count, total, *buckets = (value - old for value, old in zip(state, before, strict=True))
        largest = max((value for one in measured if not math.isnan(value := one.recent(now)[3])), default=0.0)
        found = {
            "max": round(largest * self._unit) if count else 0,
            "avg": round(total / count * self._unit) if count else 0,
            "sum": round(total * self._unit),
            "cnt": round(count),
        }
        for name, share in PERCENTILES.items() if bounds else ():
            found[name] = round(percentile(bounds, buckets, share, largest) * self._unit)
        return found


def percentile(bounds: tuple[float, ...], counts: list[float], share: float, largest: float) -> float:
    """Return an estimate of the value that a share of all values is at or below: linear inside of its bucket; 0.0 for none.

    :param bounds: the upper bounds of the buckets
    :param counts: of values in each
    :param share: from 0 to 1
    :param largest: no estimate is above it
    """
    rank = share * sum(counts)
    if not rank:
        return 0.0
    below = 0.0
    for upper, lower, count in zip((*bounds, largest), (0.0, *bounds), counts, strict=True):
        if count and below + count >= rank:
            return min(lower + (max(upper, lower) - lower) * (rank - below) / count, largest)
        below += count
    return largest


class StatisticsWriter:
    """Writes one text for each producer and consumer of a client.

    State: the windows since the last report, by what they measure; one worker calls this.
    """

    def __init__(self) -> None:
        self._windows: dict[tuple[str, ...], Window] = {}

    def write(self, cluster: BaseCluster) -> list[str]:
        """Return the texts of now."""
        listener = cluster.listener
        parts: dict[str, Any] = dict(listener.living()) if isinstance(listener, Recorder) else {}
        running = {name: part for name, part in parts.items() if isinstance(part, Part) and part.running}
        if not running:
            return []
        # Once for all of them: a window is what has come since the report before.
        brokers = self._brokers(cluster)
        totals = _totals(brokers)
        found = []
        for name, part in running.items():
            if isinstance(part, ProducerEngine):
                fields = self._producer(cluster, name, part, brokers)
            else:
                fields = self._consumer(cluster, name, part, brokers)
            found.append(json.dumps(fields | totals))
        return found

    def _window(self, key: tuple[str, ...], sensors: Iterable[Sensor], now: float, unit: float = 1.0) -> Fields:
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = Window(unit)
        return window.take(sensors, now)

    # -- brokers ---------------------------------------------------------------------------------------------------

    def _brokers(self, cluster: BaseCluster) -> Fields:
        listener: Any = cluster.listener
        by_node: dict[int, list[PartRecorder]] = {}
        for about, part in list(listener.connections.items()):
            by_node.setdefault(about[0], []).append(part)
        found = {}
        for node in list(cluster.brokers.values()):
            name = f"{node.address}/{node.id}"
            found[name] = {"name": name} | self._broker(node, by_node.get(node.id, []), cluster.handler.now())
        return found

    def _broker(self, node: Node, connections: list[PartRecorder], now: float) -> Fields:
        apis = [(kind, api) for part in connections for kind, api in list(part.apis.items())]
        requests: dict[str, int] = {}
        for kind, api in apis:
            name = kind.__name__.removesuffix("Request")
            requests[name] = requests.get(name, 0) + api.sent.count
        made = sum(sensor.count for part in connections for sensor in steps(part, CONNECTED))
        name = str(node.id)
        throttled = [s for part in connections for kind, s in list(part.events.items()) if kind.startswith(THROTTLED)]
        return {
            "nodeid": node.id,
            "nodename": node.address,
            "source": "learned",
            "state": "UP" if node.stands else "DOWN" if made else "INIT",
            "outbuf_cnt": 0,  # a request is written by its caller, at once
            "waitresp_cnt": node.pending,
            "tx": sum(requests.values()),
            "txbytes": round(sum(api.sent.total for _, api in apis)),
            "rx": sum(api.received.count for _, api in apis),
            "rxbytes": round(sum(api.received.total for _, api in apis)),
            "connects": made,
            "disconnects": sum(sensor.count for part in connections for sensor in steps(part, DISCONNECTED)),
            "rtt": self._window(("rtt", name), [api.took for _, api in apis], now, 1000.0),
            "throttle": self._window(("throttle", name), throttled, now),
            "req": requests,
        }

    # -- producers and consumers -----------------------------------------------------------------------------------

    def _common(self, cluster: BaseCluster, name: str, kind: str, part: Part, brokers: Fields) -> Fields:
        """Return the fields that producers and consumers have."""
        handler = cluster.handler
        time_ms = handler.time_ms()
        number = name.rpartition("-")[2]
        return {
            "name": f"{cluster.client_id}#{kind}-{number}",
            "client_id": cluster.client_id,
            "type": kind,
            "ts": round(handler.now() * 1_000_000),
            "time": time_ms // 1000,
            "age": (time_ms - part.made_at_ms) * 1000,
            "msg_cnt": 0,
            "msg_size": 0,
            "msg_max": 0,
            "msg_size_max": 0,
            "metadata_cache_cnt": cluster.known_topics,
            "brokers": {key: {**fields, "toppars": {}} for key, fields in brokers.items()},
            "topics": {},
        }

    def _topic(self, found: Fields, part: Part, name: str, topic: str, now: float) -> Fields:
        """Return the entry of a topic, made if there is none."""
        entry: Fields | None = found["topics"].get(topic)
        if entry is not None:
            return entry
        recorder = part.listener
        sensors = recorder.topics.get(topic) if isinstance(recorder, PartRecorder) else None
        sent = sensors is not None and isinstance(part, ProducerEngine)
        sizes = [sensors.wire_bytes] if sent and sensors is not None else []
        counts = [sensors.records] if sent and sensors is not None else []
        updated = part.cluster.refresh_schedule.updated_at
        entry = found["topics"][topic] = {
            "topic": topic,
            "metadata_age": round((now - updated) * 1000) if updated > -math.inf else 0,
            "batchsize": self._window(("batchsize", name, topic), sizes, now),
            "batchcnt": self._window(("batchcnt", name, topic), counts, now),
            "partitions": {},
        }
        return entry

    def _producer(self, cluster: BaseCluster, name: str, engine: ProducerEngine, brokers: Fields) -> Fields:
        found = self._common(cluster, name, "producer", engine, brokers)
        now = cluster.handler.now()
        queues = [owner.broker_queue for owner in list(engine.routing.owned_brokers.values())]
        found["msg_cnt"] = sum(queue.messages for queue in queues)
        found["msg_size"] = sum(queue.bytes for queue in queues)
        found["msg_max"] = engine.options.max_queued_messages
        found["msg_size_max"] = int(engine.buffer_pool.most)
        for queue in list(engine.routing.queues.values()):
            entry = self._topic(found, engine, name, queue.topic, now)
            leader = -1 if queue.owner is None else queue.owner.broker.id
            placed = _placed(found, cluster, queue.key, leader)
            entry["partitions"][str(queue.partition_id)] = placed | _queued(queue)
        recorder = engine.listener
        topics = [*recorder.topics.values(), recorder.left] if isinstance(recorder, PartRecorder) else []
        found["txmsgs"] = round(sum(topic.records.total for topic in topics))
        found["txmsg_bytes"] = round(sum(topic.bytes.total for topic in topics))
        found["rxmsgs"] = found["rxmsg_bytes"] = 0
        if not engine.producer_ids.denied:
            found["eos"] = _exactly_once(engine)
        return found

    def _consumer(self, cluster: BaseCluster, name: str, engine: ConsumerEngine, brokers: Fields) -> Fields:
        found = self._common(cluster, name, "consumer", engine, brokers)
        now = cluster.handler.now()
        for key, owned in list(engine.partitions.items()):
            entry = self._topic(found, engine, name, key.topic, now)
            leader = cluster.leader_id(key.topic, key.partition)
            placed = _placed(found, cluster, key, -1 if leader is None else leader)
            entry["partitions"][str(key.partition)] = placed | _fetched(engine, owned)
        recorder = engine.listener
        topics = [*recorder.topics.values(), recorder.left] if isinstance(recorder, PartRecorder) else []
        found["txmsgs"] = found["txmsg_bytes"] = 0
        found["rxmsgs"] = round(sum(topic.records.total for topic in topics))
        found["rxmsg_bytes"] = round(sum(topic.bytes.total for topic in topics))
        if engine.options.consumer_group is not None:
            found["cgrp"] = _group(engine, recorder if isinstance(recorder, PartRecorder) else None, now)
        return found


def _totals(brokers: Fields) -> Fields:
    fields = {"tx": "tx", "tx_bytes": "txbytes", "rx": "rx", "rx_bytes": "rxbytes"}
    return {name: sum(broker[field] for broker in brokers.values()) for name, field in fields.items()}


def _placed(found: Fields, cluster: BaseCluster, key: tuple[str, int], leader: int) -> Fields:
    """Return a partition with its leader, and add it to those of that broker."""
    topic, partition = key
    for broker in found["brokers"].values():
        if broker["nodeid"] == leader:
            broker["toppars"][f"{topic}-{partition}"] = {"topic": topic, "partition": partition}
    epoch = cluster.leader_epoch(topic, partition)
    return {"partition": partition, "broker": leader, "leader": leader, "leader_epoch": epoch, **NOTHING}


def _queued(queue: PartitionQueue) -> Fields:
    """Return what waits in a partition of a producer."""
    opened = queue.open
    waiting = [batch for batch in (opened, *queue.closed_batches.copy()) if batch is not None and batch.count]
    in_flight = 0
    for entry in list(queue.window.batches):
        if entry.on_wire:
            in_flight += entry.count
        elif entry.batch is not None:
            waiting.append(entry.batch)
    return {
        "msgq_cnt": sum(batch.count for batch in waiting),
        "msgq_bytes": sum(batch.builder.size for batch in waiting),
        "msgs_inflight": in_flight,
    }


def _fetched(engine: ConsumerEngine, owned: OwnedPartition) -> Fields:
    """Return buffer, offsets and lag of a partition of a consumer; no broker is asked."""
    buffered = sum(one.messages for one in list(engine.partitions.values()))
    end = owned.high_watermark
    if engine.options.isolation_level == "read_committed" and owned.last_stable_offset >= 0:
        end = owned.last_stable_offset
    committed = None if engine.commits is None else engine.commits.committed_offset(owned.key)
    fetching = owned.fetcher is not None
    found = {
        "desired": True,
        "fetchq_cnt": owned.messages,
        # Its share by messages: bytes are counted for all partitions together.
        "fetchq_size": engine.buffers.nbytes * owned.messages // max(buffered, 1),
        "fetch_state": "active" if fetching else "offset-query" if owned.position < 0 else "stopped",
        "next_offset": _known(owned.fetch_offset),
        "app_offset": _known(owned.position),
        "stored_offset": _known(owned.position),
        "committed_offset": INVALID if committed is None else committed,
        "lo_offset": _known(owned.log_start_offset),
        "hi_offset": _known(owned.high_watermark),
        "ls_offset": _known(owned.last_stable_offset),
    }
    if end >= 0 and committed is not None:
        found["consumer_lag"] = max(end - committed, 0)
    if end >= 0 and owned.position >= 0:
        found["consumer_lag_stored"] = max(end - owned.position, 0)
    return found


def _known(offset: int) -> int:
    return offset if offset >= 0 else INVALID


def _group(engine: ConsumerEngine, recorder: PartRecorder | None, now: float) -> Fields:
    rebalances = steps(recorder, REBALANCED)
    last = max((sensor.last for sensor in rebalances), default=-math.inf)
    is_member = engine.membership.generation_id >= 0
    return {
        "state": "up" if is_member else "init",
        "join_state": "steady" if is_member else "init",
        "rebalance_age": round((now - last) * 1000) if last > -math.inf else 0,
        "rebalance_cnt": sum(sensor.count for sensor in rebalances),
        "rebalance_reason": "",
        "assignment_size": len(engine.partitions),
    }


def _exactly_once(engine: ProducerEngine) -> Fields:
    """Return the identity of an idempotent or transactional producer, and the state of its transaction."""
    transaction: Any = engine.transaction
    producer_id, epoch = engine.producer_ids.found or (-1, -1)
    state = "Init"
    if transaction is not None:
        status = transaction.status
        producer_id, epoch, state = status.producer_id, status.epoch, TXN_STATES[status.state.name]
    return {
        "idemp_state": "Init" if producer_id < 0 else "Assigned",
        "txn_state": state,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }
