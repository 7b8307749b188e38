"""Members of other clients in a group: confluent-kafka, kafka-python and aiokafka, each in a thread of its own."""

from __future__ import annotations

import threading
from typing import Any


class Foreign:
    """A member of another client, in a thread of its own: what it was assigned, and what it has read.

    :param strategy: by which the group shares out: "range", or where the client has it "cooperative-sticky"; "consumer" is
        KIP-848, with the broker's assignor
    """

    def __init__(self, hosts: str, group: str, topic: str, strategy: str = "range") -> None:
        self.strategy = strategy
        self.share: set[int] = set()
        self.values: list[bytes | None] = []
        self.error: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, args=(hosts, group, topic))
        self._thread.start()

    def _guarded(self, hosts: str, group: str, topic: str) -> None:
        try:
            self.run(hosts, group, topic)
        except BaseException as error:  # noqa: BLE001 - raised by stop()
            self.error = error

    def run(self, hosts: str, group: str, topic: str) -> None:
        """Read the topic until the member is stopping."""
        raise NotImplementedError

    @property
    def stopping(self) -> bool:
        """Whether the member is to leave."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Leave the group; raise what has ended the member before."""
        self._stopping.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


class Confluent(Foreign):
    """A member of confluent-kafka."""

    def run(self, hosts: str, group: str, topic: str) -> None:
        """As of `Foreign`."""
        from confluent_kafka import Consumer

        protocol: dict[str, Any] = {
            "partition.assignment.strategy": self.strategy,
            "heartbeat.interval.ms": 200,
        }
        if self.strategy == "consumer":
            protocol = {"group.protocol": "consumer"}
        consumer = Consumer(
            {"bootstrap.servers": hosts, "group.id": group, "auto.offset.reset": "earliest", **protocol}
        )
        try:
            consumer.subscribe([topic])
            while not self.stopping:
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self.values.append(message.value())
                self.share = {part.partition for part in consumer.assignment()}
        finally:
            consumer.close()


class KafkaPython(Foreign):
    """A member of kafka-python."""

    def run(self, hosts: str, group: str, topic: str) -> None:
        """As of `Foreign`."""
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        assignor: Any = RangePartitionAssignor if self.strategy == "range" else CooperativeStickyAssignor
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=hosts,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[assignor],
        )
        try:
            while not self.stopping:
                for messages in consumer.poll(timeout_ms=100).values():
                    self.values.extend(message.value for message in messages)
                self.share = {part.partition for part in consumer.assignment()}
        finally:
            consumer.close()


class AioKafka(Foreign):
    """A member of aiokafka, which has no cooperative assignor."""

    def run(self, hosts: str, group: str, topic: str) -> None:
        """As of `Foreign`."""
        import asyncio

        asyncio.run(self.read(hosts, group, topic))

    async def read(self, hosts: str, group: str, topic: str) -> None:
        """Read on a loop."""
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=hosts,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        await consumer.start()
        try:
            while not self.stopping:
                for messages in (await consumer.getmany(timeout_ms=100)).values():
                    self.values.extend(message.value for message in messages)
                self.share = {part.partition for part in consumer.assignment()}
        finally:
            await consumer.stop()
