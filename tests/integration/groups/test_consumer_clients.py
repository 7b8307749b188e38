"""One group of members of this package, confluent-kafka, kafka-python and aiokafka: eager, and cooperative."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.support.foreign import AioKafka, Confluent, Foreign, KafkaPython
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.matrix,
    pytest.mark.needs("latest"),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),  # kafka-python's
]

PARTITIONS = 8
#: The clients that have each strategy.
CLIENTS: dict[str, list[type[Foreign]]] = {
    "range": [Confluent, KafkaPython, AioKafka],
    "cooperative-sticky": [Confluent, KafkaPython],
}


class Ours:
    """A member of this package, with the face of a foreign one."""

    def __init__(self, client: KafkaClient, group: str, topic: str, strategy: str) -> None:
        self._handler = client.cluster.handler
        self.values: list[bytes | None] = []
        self._stopping = False
        options: dict[str, Any] = {"assignor": strategy, "heartbeat_interval_ms": 200, "auto_commit": True}
        self._consumer: Any = client.consumer(topic, group=group, **options)
        self._worker = self._handler.spawn(self._read)

    @property
    def share(self) -> set[int]:
        return {key.partition for key in self._consumer.assignment()}

    def _read(self) -> None:
        with self._consumer:
            while not self._stopping:
                self.values += [record.value for record in self._consumer.poll(500, 0.1)]

    def stop(self) -> None:
        self._stopping = True
        assert self._worker.join(30)
        if self._worker.error is not None:
            raise self._worker.error


def numbered(first: int, count: int) -> Iterator[bytes]:
    return (b"%d" % number for number in range(first, first + count))


@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("strategy", CLIENTS)
def test_members_of_all_clients_share_one_group(
    client: KafkaClient, kafka: KafkaCluster, strategy: str, first: str
) -> None:
    """Each reads on when another one comes and goes; whoever came first leads, and shares out for all."""
    topic, group = create_topic(client, PARTITIONS), f"g-{uuid.uuid4().hex[:8]}"
    handler, written = client.cluster.handler, 0
    members: list[Any] = []
    left: list[Any] = []

    def divided() -> bool:
        shares = [member.share for member in members]
        whole = sorted(id_ for share in shares for id_ in share) == list(range(PARTITIONS))
        return whole and max(map(len, shares)) - min(map(len, shares)) <= 1

    def write() -> None:
        nonlocal written
        with client.producer() as producer:
            for id_, value in enumerate(numbered(written, 80)):
                producer.produce(topic.name, value, partition=id_ % PARTITIONS)
        written += 80

    def all_read() -> bool:
        return {value for one in (*members, *left) for value in one.values} == set(numbered(0, written))

    with contextlib.ExitStack() as stack:

        def join(member: Any) -> None:
            stack.callback(member.stop)
            members.append(member)
            until(handler, divided, 60)
            write()
            until(handler, all_read, 60)

        def ours() -> Ours:
            return Ours(client, group, topic.name, strategy)

        kinds = CLIENTS[strategy]
        if first == "ours":
            join(ours())
        for kind in kinds:
            join(kind(kafka.hosts, group, topic.name, strategy))
        if first == "theirs":
            join(ours())
        join(ours())
        while len(members) > 1:  # whoever leads goes first
            left.append(members.pop(0))
            left[-1].stop()
            until(handler, divided, 60)
            write()
            until(handler, all_read, 60)
