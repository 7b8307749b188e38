"""One adapter a client: `produce(hosts, topic, messages, size)` and `consume(hosts, topic, messages)`.

Each peer gets its best known settings.

Each function returns when its work is done and verified by the client itself (all acknowledged, all read); the driver
checks the topic's end offsets besides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def pykafka_produce(hosts: str, topic: str, messages: int, size: int, greenlets: bool = False) -> None:
    from pykafka import KafkaClient

    payload = b"x" * size
    with (
        KafkaClient(hosts=hosts, use_greenlets=greenlets) as client,
        client.topics[topic].get_producer(
            linger_ms=20, min_queued_messages=100_000, max_queued_messages=500_000
        ) as producer,
    ):
        for _ in range(messages):
            producer.produce(payload)


def pykafka_consume(hosts: str, topic: str, messages: int, greenlets: bool = False) -> None:
    from pykafka import KafkaClient

    with KafkaClient(hosts=hosts, use_greenlets=greenlets) as client:
        consumer = client.topics[topic].get_simple_consumer(queued_max_messages=20_000, consumer_timeout_ms=20_000)
        seen = 0
        for _message in consumer:
            seen += 1
            if seen == messages:
                break
        consumer.stop()
    assert seen == messages, f"read {seen} of {messages}"


def pykafka_greenlets_produce(hosts: str, topic: str, messages: int, size: int) -> None:
    pykafka_produce(hosts, topic, messages, size, greenlets=True)


def pykafka_greenlets_consume(hosts: str, topic: str, messages: int) -> None:
    pykafka_consume(hosts, topic, messages, greenlets=True)


def confluent_produce(hosts: str, topic: str, messages: int, size: int) -> None:
    from confluent_kafka import Producer

    payload = b"x" * size
    failed = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {
            "bootstrap.servers": hosts,
            "acks": 1,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
        }
    )
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, payload)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(60) == 0 and not failed, failed[:3]


def confluent_consume(hosts: str, topic: str, messages: int) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": hosts,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 1_000_000,
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    seen = 0
    while seen < messages:
        message = consumer.poll(20)
        assert message is not None and message.error() is None, message
        seen += 1
    consumer.close()


async def _aiokafka_produce(hosts: str, topic: str, messages: int, size: int) -> None:
    from aiokafka import AIOKafkaProducer

    payload = b"x" * size
    producer = AIOKafkaProducer(bootstrap_servers=hosts, acks=1, linger_ms=20, max_batch_size=1_000_000)
    await producer.start()
    try:
        for _ in range(messages):
            await producer.send(topic, payload)
        await producer.flush()
    finally:
        await producer.stop()


def aiokafka_produce(hosts: str, topic: str, messages: int, size: int) -> None:
    asyncio.run(_aiokafka_produce(hosts, topic, messages, size))


async def _aiokafka_produce_batches(hosts: str, topic: str, messages: int, size: int) -> None:
    from aiokafka import AIOKafkaProducer

    payload = b"x" * size
    producer = AIOKafkaProducer(bootstrap_servers=hosts, acks=1, linger_ms=20, max_batch_size=1_000_000)
    await producer.start()
    partitions = sorted(await producer.partitions_for(topic))
    try:
        sent = turn = 0
        while sent < messages:
            # the caller makes the batches and chooses their partitions: not the same work, but the fastest it offers
            batch = producer.create_batch()
            while sent < messages and batch.append(key=None, value=payload, timestamp=None) is not None:
                sent += 1
            await producer.send_batch(batch, topic, partition=partitions[turn % len(partitions)])
            turn += 1
        await producer.flush()
    finally:
        await producer.stop()


def aiokafka_produce_batches(hosts: str, topic: str, messages: int, size: int) -> None:
    asyncio.run(_aiokafka_produce_batches(hosts, topic, messages, size))


async def _aiokafka_consume(hosts: str, topic: str, messages: int) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=hosts,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=1024 * 1024,
    )
    await consumer.start()
    try:
        seen = 0
        async for _message in consumer:
            seen += 1
            if seen == messages:
                break
    finally:
        await consumer.stop()


def aiokafka_consume(hosts: str, topic: str, messages: int) -> None:
    asyncio.run(_aiokafka_consume(hosts, topic, messages))


async def _aiokafka_consume_batches(hosts: str, topic: str, messages: int) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=hosts, auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=10_000
    )
    await consumer.start()
    try:
        seen = 0
        while seen < messages:
            for some in (await consumer.getmany(timeout_ms=1000)).values():
                seen += len(some)
    finally:
        await consumer.stop()


def aiokafka_consume_batches(hosts: str, topic: str, messages: int) -> None:
    asyncio.run(_aiokafka_consume_batches(hosts, topic, messages))


def kafka_python_produce(hosts: str, topic: str, messages: int, size: int) -> None:
    from kafka import KafkaProducer

    payload = b"x" * size
    producer = KafkaProducer(bootstrap_servers=hosts, acks=1, linger_ms=20, batch_size=1_000_000)
    for _ in range(messages):
        producer.send(topic, payload)
    producer.flush(timeout=300)
    producer.close()


def kafka_python_consume(hosts: str, topic: str, messages: int) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=hosts,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20_000,
        max_poll_records=10_000,
    )
    seen = 0
    for _message in consumer:
        seen += 1
        if seen == messages:
            break
    consumer.close()
    assert seen == messages, f"read {seen} of {messages}"


PRODUCE: dict[str, Callable[[str, str, int, int], None]] = {
    "pykafka": pykafka_produce,
    "pykafka-greenlets": pykafka_greenlets_produce,
    "confluent-kafka": confluent_produce,
    "aiokafka": aiokafka_produce,
    "aiokafka-batches": aiokafka_produce_batches,
    "kafka-python": kafka_python_produce,
}
CONSUME: dict[str, Callable[[str, str, int], None]] = {
    "pykafka": pykafka_consume,
    "pykafka-greenlets": pykafka_greenlets_consume,
    "confluent-kafka": confluent_consume,
    "aiokafka": aiokafka_consume,
    "aiokafka-batches": aiokafka_consume_batches,
    "kafka-python": kafka_python_consume,
}
