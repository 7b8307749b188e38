"""Topics for the Spark tests, made and filled by another client, so that ours is not its own judge."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

TIMEOUT_S = 30.0
#: What a broker that ends before us would have librdkafka print.
QUIET = {"log_level": 0}


class Record(NamedTuple):
    """One record to produce, or as it was consumed.

    :param value: bytes or None
    :param key: bytes or None
    :param partition: number
    :param headers: list of pairs, or None
    :param timestamp: ms since 1970; 0 for now
    """

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: list[tuple[str, bytes | None]] | None = None
    timestamp: int = 0


class Topics:
    """Make topics, fill them, damage them and read them.

    :param hosts: of the cluster
    """

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self._admin = AdminClient({"bootstrap.servers": hosts, **QUIET})

    def create(self, partitions: int = 1, prefix: str = "spark", **config: str) -> str:
        """Make a topic of a new name that keeps its records; settings have underscores in the place of dots."""
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        # Records of long ago, as some tests make them, would be gone within minutes.
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
        self._wait(self._admin.create_topics([NewTopic(name, partitions, 1, config=settings)]))
        return name

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self._wait(self._admin.create_partitions([NewPartitions(topic, partitions)]))

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._wait(self._admin.delete_topics([topic]))

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete a partition's records before an offset, as retention does."""
        self._wait(self._admin.delete_records([TopicPartition(topic, partition, offset)]))

    def produce(self, topic: str, records: Iterable[Record], codec: str = "none") -> None:
        """Produce records and wait until they are there."""
        producer = Producer(
            {
                "bootstrap.servers": self.hosts,
                "compression.type": codec,
                "linger.ms": 20,
                "message.max.bytes": 10_000_000,
                **QUIET,
            }
        )
        failures: list[str] = []

        def delivered(error: Any, _: Message) -> None:
            if error is not None:
                failures.append(str(error))

        for record in records:
            headers: Any = record.headers
            producer.produce(
                topic,
                record.value,
                record.key,
                record.partition,
                headers=headers,
                timestamp=record.timestamp,
                on_delivery=delivered,
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert not failures

    def numbered(self, topic: str, counts: Mapping[int, int], first: int = 0, codec: str = "none") -> None:
        """Produce values "<partition>:<n>" to each partition, as many as `counts` says, n from `first` on."""
        self.produce(
            topic,
            (
                Record(f"{partition}:{first + n}".encode(), None, partition)
                for partition, count in counts.items()
                for n in range(count)
            ),
            codec,
        )

    def read(self, topic: str, count: int) -> list[Record]:
        """Consume so many records of all partitions of a topic, checksums checked; one more is an error."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.hosts,
                "group.id": "spark-tests",
                "enable.auto.commit": False,
                "check.crcs": True,
                "auto.offset.reset": "earliest",
                **QUIET,
            }
        )
        try:
            partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            ends = {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)[1]
                for partition in partitions
            }
            assert sum(ends.values()) == count, ends
            found: list[Record] = []
            message: Any
            while len(found) < count:
                messages = consumer.consume(count - len(found), TIMEOUT_S)
                assert messages, f"{len(found)} of {count} records came"
                for message in messages:
                    assert message.error() is None, message.error()
                    found.append(
                        Record(
                            message.value(),
                            message.key(),
                            message.partition(),
                            message.headers(),
                            message.timestamp()[1],
                        )
                    )
            return found
        finally:
            consumer.close()

    def _wait(self, futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(TIMEOUT_S)
