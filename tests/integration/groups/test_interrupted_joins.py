"""A first join that Ctrl-C ends at any step: the next call goes on, and reads each record once."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer
from tests.brokers import KafkaCluster
from tests.support.interrupts import Interrupted, interrupting
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

RECORDS = 4
FILES = {
    "classic": ("groups/classic/membership.py", "groups/polled_membership.py", "consumer/assignment.py"),
    "consumer": ("groups/kip848/membership.py", "groups/kip848/heartbeats.py", "consumer/assignment.py"),
}


class Reading:
    """The records that a consumer has handed out."""

    def __init__(self, consumer: KafkaConsumer[Any, Any]) -> None:
        self._consumer = consumer
        self.read: Counter[bytes | None] = Counter()

    def begins(self) -> bool:
        for record in self._consumer.poll(2, 1):
            self.read[record.value] += 1
        return bool(self.read)

    def ends(self) -> bool:
        return self.begins() and len(self.read) == RECORDS


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param("classic", marks=pytest.mark.needs("groups")),
        pytest.param("consumer", marks=pytest.mark.needs("assigning")),
    ],
)
def test_a_first_join_that_is_cut_off_goes_on(kafka: KafkaCluster, protocol: str) -> None:
    """The member was never assigned anything, did not join, or had partitions that no worker fetched."""
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client, 1).name
        with client.producer() as producer:
            for number in range(RECORDS):
                producer.produce(topic, b"%d" % number)
        steps = 0
        for call in interrupting(*FILES[protocol]):
            steps += 1
            options: dict[str, Any] = {"heartbeat_interval_ms": 300, "session_timeout_ms": 10_000}
            with client.consumer(topic, group=uuid.uuid4().hex, protocol=protocol, **options) as consumer:
                reading = Reading(consumer)
                with suppress(Interrupted):
                    call(partial(until, client.cluster.handler, reading.begins))
                until(client.cluster.handler, reading.ends, 8)
            assert set(reading.read.values()) == {1}, f"step {steps}"
        assert steps > 20
