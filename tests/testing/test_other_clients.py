"""The fake cluster and clients of others: kafka-python, aiokafka, librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiokafka
import confluent_kafka
import pytest

from pykafka.testing import FakeCluster

LIMIT = 20.0


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3, topics={"t": 1}) as made:
        yield made


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_kafka_python_with_a_group(cluster: FakeCluster) -> None:
    import kafka  # which warns, of Python's own libraries

    producer = kafka.KafkaProducer(bootstrap_servers=cluster.hosts)
    assert producer.send("t", b"a").get(LIMIT).offset == 0
    producer.close()
    consumer = kafka.KafkaConsumer(
        "t", group_id="g", bootstrap_servers=cluster.hosts, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    assert next(consumer).value == b"a"
    consumer.close()


def test_aiokafka_with_a_transaction(cluster: FakeCluster) -> None:
    async def main() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.hosts, transactional_id="x") as producer:
            async with producer.transaction():
                await producer.send_and_wait("t", b"a")
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_and_wait("t", b"aborted")
                    raise ZeroDivisionError
            async with producer.transaction():
                await producer.send_and_wait("t", b"b")
        consumer = aiokafka.AIOKafkaConsumer(
            "t",
            group_id="g",
            bootstrap_servers=cluster.hosts,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        async with consumer:
            found = [(await asyncio.wait_for(consumer.getone(), LIMIT)).value for _ in range(2)]
        assert found == [b"a", b"b"]

    asyncio.run(main())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_with_a_transaction_and_both_protocols_of_groups(cluster: FakeCluster, protocol: str) -> None:
    common = {"bootstrap.servers": cluster.hosts, "log_level": 0}
    producer = confluent_kafka.Producer({**common, "transactional.id": "y"})
    producer.init_transactions(LIMIT)
    for value, is_kept in ((b"a", True), (b"aborted", False), (b"b", True)):
        producer.begin_transaction()
        producer.produce("t", value)
        assert producer.flush(LIMIT) == 0
        (producer.commit_transaction if is_kept else producer.abort_transaction)(LIMIT)
    settings = {**common, "group.id": "g", "auto.offset.reset": "earliest", "group.protocol": protocol}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["t"])
    assert [message.value() for message in consumer.consume(2, LIMIT)] == [b"a", b"b"]
    consumer.close()
