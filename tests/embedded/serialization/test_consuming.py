"""Consumers with deserializers: all forms, and bad records under each policy, with positions and commits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import serialization as confluent
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

from pykafka import DeadLetters, EmbeddedCluster, KafkaClient, TopicPartition
from pykafka.exceptions import DeadLetterError, DeserializationError
from pykafka.serialization import JsonDeserializer, JsonSerializer, StringDeserializer, StringSerializer
from tests.support.registrystub import RegistryStub

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
HERE = TopicPartition("orders", 0)
#: Values of a topic: the odd ones are no JSON.
VALUES = [b"0", b"{", b"2", b"[", b"4"]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics={"orders": 1, "orders.dlq": 1}) as cluster:
        yield cluster


@pytest.fixture(name="filled")
def _filled(client: KafkaClient) -> KafkaClient:
    """Return a client of a topic with bad records."""
    with client.producer() as producer:
        for value in VALUES:
            producer.produce("orders", value, key=b"k", headers={"h": b"1"})
    return client


def letters(client: KafkaClient) -> list[Any]:
    """Return all dead letters."""
    with client.consumer("orders.dlq", consumer_timeout_ms=300) as consumer:
        return list(consumer)


@pytest.mark.on_asyncio
def test_keys_and_values_go_there_and_back(client: KafkaClient) -> None:
    with client.producer(key_serializer=StringSerializer(), value_serializer=JsonSerializer()) as producer:
        producer.produce("orders", {"id": 1}, key="a")
        producer.produce("orders", None, key="b")
        producer.produce("orders", [2])
    with client.consumer(
        "orders",
        key_deserializer=confluent.StringDeserializer(),
        value_deserializer=JsonDeserializer(),
        consumer_timeout_ms=500,
    ) as consumer:
        found = [(record.key, record.value, record.raw_key, record.raw_value) for record in consumer]
    assert found == [("a", {"id": 1}, b"a", b'{"id":1}'), ("b", None, b"b", None), (None, [2], None, b"[2]")]


@pytest.mark.on_asyncio
def test_registry_values_go_there_and_back(client: KafkaClient) -> None:
    with RegistryStub() as stub, SchemaRegistryClient({"url": stub.url}) as registry:
        with client.producer(value_serializer=AvroSerializer(registry, AVRO)) as producer:
            for number in range(5):
                producer.produce("orders", {"id": number})
        with client.consumer(
            "orders", value_deserializer=AvroDeserializer(registry), consumer_timeout_ms=500
        ) as consumer:
            assert [record.value for record in consumer] == [{"id": number} for number in range(5)]


@pytest.mark.on_asyncio
@pytest.mark.parametrize("batches", [False, True])
def test_raise_stays_at_the_record_until_the_application_seeks(filled: KafkaClient, batches: bool) -> None:
    found: list[Any] = []
    refused: list[tuple[DeserializationError, int | None]] = []
    with filled.consumer("orders", value_deserializer=json.loads, consumer_timeout_ms=500) as consumer:
        while len(found) < 3:
            try:
                records = consumer.poll(timeout=10) if batches else [consumer.one(timeout=10)]
                found += [record.value for record in records if record is not None]
            except DeserializationError as error:
                refused.append((error, consumer.position(HERE)))
                if len(refused) % 2 == 0:  # the first time it is only asked again
                    consumer.seek(HERE, error.offset + 1)
    assert found == [0, 2, 4]
    assert [(one.offset, position) for one, position in refused] == [(1, 1), (1, 1), (3, 3), (3, 3)]
    for caught, _ in refused:
        assert (caught.topic, caught.partition, caught.part) == ("orders", 0, "value")
        assert (caught.raw_key, caught.raw_value) == (b"k", VALUES[caught.offset])


@pytest.mark.on_asyncio
def test_what_was_raised_is_not_committed(filled: KafkaClient) -> None:
    """Nor on close: the next consumer of the group finds the bad record."""
    for _ in range(2):
        with filled.consumer(group="g", value_deserializer=json.loads, auto_commit=True) as consumer:
            consumer.assign([HERE])
            with pytest.raises(DeserializationError) as caught:
                while True:
                    assert consumer.poll(timeout=20)
            assert caught.value.offset == 1


@pytest.mark.on_asyncio
@pytest.mark.parametrize("batches", [False, True])
def test_skip_goes_on_behind_bad_records_and_commits_so(filled: KafkaClient, batches: bool) -> None:
    with filled.consumer(
        group="g", value_deserializer=json.loads, on_bad_record="skip", consumer_timeout_ms=500
    ) as consumer:
        consumer.assign([HERE])
        if batches:
            found: list[Any] = []
            while len(found) < 3:
                found += [record.value for record in consumer.poll(timeout=20)]
        else:
            found = [record.value for record in consumer]
        consumer.commit()
        committed = consumer.committed(HERE)[HERE]
    assert committed is not None
    assert committed.offset == 5
    assert found == [0, 2, 4]


@pytest.mark.on_asyncio
@pytest.mark.parametrize("batches", [False, True])
def test_dead_letters_are_there_before_the_consumer_goes_on(filled: KafkaClient, batches: bool) -> None:
    with filled.consumer(
        "orders", value_deserializer=json.loads, on_bad_record=DeadLetters(filled), consumer_timeout_ms=500
    ) as consumer:
        found: list[Any] = []
        while len(found) < 3:
            records = consumer.poll(timeout=10) if batches else [consumer.one(timeout=10)]
            found += [record.value for record in records if record is not None]
            if found[-1:] == [4]:
                assert consumer.position(HERE) == 5
    written = letters(filled)
    assert [(record.key, record.value) for record in written] == [(b"k", b"{"), (b"k", b"[")]
    for record, offset in zip(written, (1, 3), strict=True):
        headers = dict(record.headers)
        assert headers["h"] == b"1"
        assert headers["__pykafka.errors.offset"] == b"%d" % offset
        assert headers["__pykafka.errors.stage"] == b"value_deserializer"
        assert headers["__pykafka.errors.exception.class.name"] == b"json.decoder.JSONDecodeError"


def test_a_dead_letter_that_cannot_be_written_holds_the_consumer(filled: KafkaClient) -> None:
    class Failing:
        failing = True

        def produce(self, topic: str, value: Any, *, key: Any = None, headers: Any = None) -> Any:
            if self.failing:
                raise OSError("no room")
            return self

        def get(self, timeout: float | None = None) -> None: ...

    producer = Failing()
    with filled.consumer(
        "orders", value_deserializer=json.loads, on_bad_record=DeadLetters(producer), consumer_timeout_ms=500
    ) as consumer:
        assert consumer.poll(timeout=10)[0].value == 0
        for _ in range(2):
            with pytest.raises(DeadLetterError, match="no room"):
                consumer.poll(timeout=10)
            assert consumer.position(HERE) == 1
        producer.failing = False
        assert [record.value for record in consumer] == [2, 4]


class Interrupted(BaseException):
    """Such as a greenlet's timeout, or Ctrl-C."""


@pytest.mark.on_asyncio
@pytest.mark.parametrize("where", ["produce", "get"])
@pytest.mark.parametrize("batches", [False, True])
def test_an_interruption_while_a_dead_letter_is_written_loses_nothing(
    filled: KafkaClient, where: str, batches: bool
) -> None:
    written: list[Any] = []

    class Interrupting:
        interrupted = False

        def produce(self, topic: str, value: Any, *, key: Any = None, headers: Any = None) -> Any:
            self.interrupt("produce")
            written.append(value)
            return self

        def get(self, timeout: float | None = None) -> None:
            self.interrupt("get")

        def interrupt(self, place: str) -> None:
            if place == where and not self.interrupted:
                self.interrupted = True
                raise Interrupted

    found: list[Any] = []
    with filled.consumer(
        "orders", value_deserializer=json.loads, on_bad_record=DeadLetters(Interrupting()), consumer_timeout_ms=500
    ) as consumer:
        interruptions = 0
        while len(found) < 3:
            try:
                records = consumer.poll(timeout=10) if batches else [consumer.one(timeout=10)]
                found += [record.value for record in records if record is not None]
            except Interrupted:
                interruptions += 1
    assert (interruptions, found) == (1, [0, 2, 4])
    assert list(dict.fromkeys(written)) == [b"{", b"["]


def test_a_consumer_with_a_key_deserializer_alone(filled: KafkaClient) -> None:
    with filled.consumer("orders", key_deserializer=StringDeserializer(), consumer_timeout_ms=500) as consumer:
        assert [(record.key, record.value) for record in consumer] == [("k", value) for value in VALUES]
