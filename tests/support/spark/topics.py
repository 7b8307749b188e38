"""Topics for the Spark tests, made and filled by another client, so that ours is not its own judge."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from pykafka import KafkaClient
from tests.support.features import KAFKA_VERSION, kafka_since
from tests.support.topics import create_topic

TIMEOUT_S = 120.0
#: The answers of a broker that does not lead a new partition yet.
NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
#: What a broker that ends before us would have librdkafka print.
QUIET: dict[str, Any] = {"log_level": 0}
if not kafka_since(0, 10):
    # librdkafka does not find out by itself.
    QUIET |= {"api.version.request": False, "broker.version.fallback": ".".join(KAFKA_VERSION.split(".")[:3])}


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


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """Return the end of a partition; brokers list new partitions a moment before they lead them."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(partition, TIMEOUT_S)[1])
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


class Topics:
    """Make topics, fill them, damage them and read them.

    :param hosts: of the cluster
    """

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self._admin = AdminClient({"bootstrap.servers": hosts, **QUIET})

    def create(self, partitions: int = 1, prefix: str = "spark", replicas: int = 1, **config: str) -> str:
        """Make a topic of a new name that keeps its records; settings have underscores in the place of dots."""
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        if not kafka_since(0, 10, 1):  # before, topics are made in ZooKeeper
            with KafkaClient(self.hosts) as client:
                create_topic(client, partitions, replicas, config=settings, name=name)
            return name
        # Records of long ago, as some tests make them, would be gone within minutes.
        settings = {"retention.ms": "-1"} | settings
        self._wait(self._admin.create_topics([NewTopic(name, partitions, replicas, config=settings)]))
        return name

    def make_anew(self, topic: str) -> None:
        """Delete a topic and make it again, empty and with one partition; return when brokers tell of the new one."""
        before = self._id(topic)
        self.delete(topic)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._wait(self._admin.create_topics([NewTopic(topic, 1, 1)]))
                break
            except KafkaException:  # it is still being deleted
                assert time.monotonic() < deadline
                time.sleep(0.1)
        while kafka_since(2, 8) and self._id(topic) in (before, None):
            assert time.monotonic() < deadline

    def _id(self, topic: str) -> UUID | None:
        with KafkaClient(self.hosts) as client:
            client.cluster.update([topic])
            return client.cluster.topic_id(topic)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self._wait(self._admin.create_partitions([NewPartitions(topic, partitions)]))

    def alter(self, topic: str, **config: str) -> None:
        """Change settings of a topic, named as in `create`."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._wait(self._admin.incremental_alter_configs([resource]))

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._wait(self._admin.delete_topics([topic]))

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete a partition's records before an offset, as retention does."""
        self._wait(self._admin.delete_records([TopicPartition(topic, partition, offset)]))

    def produce(self, topic: str, records: Iterable[Record], codec: str = "none", batch: int = 10_000) -> None:
        """Produce records, a limited number per batch, and wait until they are stored."""
        producer = Producer(
            {
                "bootstrap.servers": self.hosts,
                "compression.type": codec,
                "linger.ms": 20,
                "message.max.bytes": 10_000_000,
                "batch.num.messages": batch,
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

    def transaction(self, topic: str, records: Iterable[Record], end: str, codec: str = "none") -> Producer:
        """Produce records in a transaction of its own; return the producer, which keeps it open where it is to be.

        :param end: "commit", "abort" or "open"
        """
        producer = Producer(
            {
                "bootstrap.servers": self.hosts,
                "transactional.id": f"{topic}-{uuid.uuid4().hex[:8]}",
                # one that stays open does so for as long as a slow machine's tests take
                "transaction.timeout.ms": 600_000,
                "compression.type": codec,
                "linger.ms": 20,
                **QUIET,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for record in records:
            headers: Any = record.headers
            producer.produce(topic, record.value, record.key, record.partition, headers=headers)
        assert producer.flush(TIMEOUT_S) == 0
        if end == "commit":
            producer.commit_transaction(TIMEOUT_S)
        elif end == "abort":
            producer.abort_transaction(TIMEOUT_S)
        return producer

    def compacting(self) -> str:
        """Create a topic of 401 records in batches of one; compaction will leave one in ten, and a few more at the end."""
        topic = self.create(
            cleanup_policy="compact", segment_ms="500", min_cleanable_dirty_ratio="0.01", delete_retention_ms="0"
        )
        for numbers in (range(200), range(200, 400), range(400, 401)):
            # The segment that is written to is never compacted, and a new one begins with a record after its time.
            records = (Record(b"x%d" % n, b"alone-%d" % n if n % 10 == 0 else b"%d" % (n % 7)) for n in numbers)
            self.produce(topic, records, batch=1)
            time.sleep(0.6)
        return topic

    def read(self, topic: str, count: int | None = None) -> list[Record]:
        """Consume a number of records of a topic's partitions with checksums; one more is an error. None: all there are."""
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
            ends = {partition: _end(consumer, TopicPartition(topic, partition)) for partition in partitions}
            if count is None:
                count = sum(ends.values())
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
