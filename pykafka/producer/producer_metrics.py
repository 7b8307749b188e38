"""The metrics of a producer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pykafka.metadata.client_metrics import add_throttling, apis_of, begin_reading, connections_of
from pykafka.metrics.listener import BUFFER_WAIT, FLUSH, METADATA_WAIT, TRANSACTION, TRANSACTION_STEPS, kind_of
from pykafka.metrics.reading import by_topic

if TYPE_CHECKING:
    from pykafka.metrics.reading import Reading
    from pykafka.metrics.recorder import PartRecorder, TopicSensors
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.core import ProducerCore
    from pykafka.producer.routing import Routing

GROUP, TOPICS, ERRORS = "producer-metrics", "producer-topic-metrics", "producer-error-metrics"
#: {word of a name: sensor of a topic}
_SENSORS = {"send": "records", "error": "errors", "retry": "retries"}


def read_producer(engine: ProducerCore, routing: Routing) -> Reading:
    """Return the metrics of a producer, with those of its client's connections."""
    (reading, part), cluster = begin_reading(engine, "producer"), engine.cluster
    _add_state(reading, engine, routing)
    reading.spread(GROUP, "request-latency", [api.took for api in apis_of(connections_of(cluster))])
    add_throttling(reading, GROUP, "produce-throttle-time", cluster, "Produce")
    for stem, kind in (("flush", FLUSH), ("metadata-wait", METADATA_WAIT), ("bufferpool-wait", BUFFER_WAIT)):
        reading.ns_total(GROUP, f"{stem}-time", part, kind)
    reading.stalls(GROUP, part)
    for step in TRANSACTION_STEPS:
        reading.ns_total(GROUP, f"txn-{step}-time", part, kind_of(TRANSACTION, step))
    if part is not None:
        _add_sent(reading, part)
    return reading


def _add_state(reading: Reading, engine: ProducerCore, routing: Routing) -> None:
    """Add what the producer knows at the moment."""
    pool, cluster = engine.buffer_pool, engine.cluster
    reading.add(GROUP, "buffer-total-bytes", pool.most)
    reading.add(GROUP, "buffer-available-bytes", pool.room)
    reading.add(GROUP, "waiting-threads", len(pool.waiting))
    reading.add(GROUP, "requests-in-flight", sum(node.pending for node in list(cluster.brokers.values())))
    updated_at = cluster.refresh_schedule.updated_at
    reading.add(GROUP, "metadata-age", reading.now - updated_at if updated_at > -math.inf else math.nan)
    queues = [owner.broker_queue for owner in list(routing.owned_brokers.values())]
    reading.add(GROUP, "queued-records", sum(queue.messages for queue in queues))
    reading.add(GROUP, "queued-bytes", sum(queue.bytes for queue in queues))
    reading.add(GROUP, "records-undelivered-total", engine.undelivered)
    created = [batch.created for batch in unacknowledged(routing)]
    reading.add(GROUP, "oldest-record-seconds", max(reading.now - min(created), 0.0) if created else 0.0)


def unacknowledged(routing: Routing) -> list[ProducerBatch]:
    """Return the batches with messages that are not acknowledged yet."""
    found: list[ProducerBatch] = []
    for queue in list(routing.queues.values()):
        opened = queue.open
        found += [batch for batch in (opened, *queue.closed_batches.copy()) if batch is not None and batch.count]
        found += [
            entry.batch for entry in list(queue.window.batches) if entry.batch is not None and not entry.batch.done
        ]
    return found


def _add_sent(reading: Reading, part: PartRecorder) -> None:
    topics, left = by_topic(part)
    _add_records(reading, GROUP, [*topics.values(), left], None)
    reading.spread(GROUP, "record-queue-time", [part.queued])
    reading.histogram(GROUP, "record-queue-time", [part.queued])
    reading.spread(GROUP, "record-delivery-time", [part.delivered])
    reading.histogram(GROUP, "record-delivery-time", [part.delivered])
    reading.meter(GROUP, "records-acknowledged-batch", [part.delivered])
    reading.spread(GROUP, "records-per-request", [part.requests], ends=("avg",))
    reading.spread(GROUP, "batch-size", [part.batch_size])
    records = sum(topic.records.recent(reading.now)[2] for topic in topics.values())
    nbytes = sum(topic.bytes.recent(reading.now)[2] for topic in topics.values())
    reading.add(GROUP, "record-size-avg", nbytes / records if records else math.nan)
    reading.add(GROUP, "compression-rate-avg", _compression(reading, list(topics.values())))
    for name, topic in sorted(topics.items()):
        tags = {"topic": name}
        _add_records(reading, TOPICS, [topic], tags, left)
        reading.meter(TOPICS, "byte", [topic.bytes], tags, of="total", left=left.bytes.total)
        reading.add(TOPICS, "compression-rate", _compression(reading, [topic]), tags)
    for stem, counts in (("record-error", part.errors), ("record-retry", part.retries)):
        for error, count in sorted(counts.copy().items()):
            reading.add(ERRORS, f"{stem}-total", count, {"error": error})


def _add_records(
    reading: Reading,
    group: str,
    topics: list[TopicSensors],
    tags: dict[str, str] | None,
    left: TopicSensors | None = None,
) -> None:
    """Add what was sent of some topics.

    :param left: the topics that the part has left, of a single topic
    """
    for stem in ("send", "error", "retry"):
        name = _SENSORS[stem]
        gone = 0.0 if left is None else getattr(left, name).total
        reading.meter(group, f"record-{stem}", [getattr(topic, name) for topic in topics], tags, of="total", left=gone)


def _compression(reading: Reading, topics: list[TopicSensors]) -> float:
    sent = sum(topic.wire_bytes.recent(reading.now)[2] for topic in topics)
    raw = sum(topic.bytes.recent(reading.now)[2] for topic in topics)
    return sent / raw if raw else math.nan
