"""Bad records of a group on real brokers: each record is either read or a dead letter, whoever of the group meets it."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from pykafka import DeadLetters, KafkaClient
from tests.support.topics import create_topic

pytestmark = [pytest.mark.timeout(120), pytest.mark.needs("headers")]
COUNT = 300


@pytest.mark.on_asyncio
def test_each_record_is_read_or_a_dead_letter(client: KafkaClient) -> None:
    topic = create_topic(client).name
    with client.producer() as producer:
        for number in range(COUNT):
            producer.produce(topic, b"no JSON" if number % 10 == 3 else b"%d" % number, key=b"%d" % number)
    good: list[int | None] = []
    for _ in range(3):  # one member after another, each with a third
        with client.consumer(
            topic, group=topic, auto_commit=True, value_deserializer=json.loads, on_bad_record=DeadLetters(client)
        ) as consumer:
            begun = len(good)
            while len(good) < begun + COUNT * 3 // 10:
                good += [record.value for record in consumer.poll(max_records=20, timeout=30)]
    assert sorted(number for number in good if number is not None) == [
        number for number in range(COUNT) if number % 10 != 3
    ]
    with client.consumer(f"{topic}.dlq", consumer_timeout_ms=5000) as consumer:
        letters = list(islice(consumer, COUNT // 10))
    assert sorted(int(letter.key or b"") for letter in letters) == list(range(3, COUNT, 10))
    assert {dict(letter.headers)["__pykafka.errors.topic"] for letter in letters} == {topic.encode()}
