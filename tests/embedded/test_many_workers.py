"""One producer and one consumer in many hands, switched as often as the interpreter can: nothing lost, nothing doubled."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster

WORKERS = 8
EACH = 3000


@pytest.fixture(autouse=True)
def _hasty() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
def test_every_message_once(embedded: EmbeddedCluster, greenlets: bool) -> None:
    embedded.create_topic("shared", 4)
    with KafkaClient(embedded.hosts, use_greenlets=greenlets) as client:
        topic = client.topics["shared"]
        spawn = client.cluster.handler.spawn
        # batches small enough to be rolled over all the time, a queue small enough to be full now and then
        producer = topic.get_producer(linger_ms=5, max_request_size=20_000, max_queued_messages=2_000)

        def produce(worker: int) -> None:
            for number in range(EACH):
                producer.produce(b"%d:%d" % (worker, number), partition_key=b"%d" % worker)

        workers = [spawn(produce, worker) for worker in range(WORKERS)]
        assert all(worker.join(60) and worker.error is None for worker in workers)
        producer.stop()

        consumer = topic.get_simple_consumer(consumer_timeout_ms=500)
        seen: list[list[bytes | None]] = [[] for _ in range(WORKERS)]

        def consume(worker: int) -> None:
            while sum(map(len, seen)) < WORKERS * EACH:
                for message in consumer:
                    seen[worker].append(message.value)

        workers = [spawn(consume, worker) for worker in range(WORKERS)]
        assert all(worker.join(60) and worker.error is None for worker in workers)
        held = consumer.held_offsets
        consumer.stop()
        ends = {id_: answer.offset[0] for id_, answer in topic.latest_available_offsets().items()}
    found = Counter(value for some in seen for value in some)
    assert found == Counter(b"%d:%d" % (worker, number) for worker in range(WORKERS) for number in range(EACH))
    assert {id_: offset + 1 for id_, offset in held.items()} == ends
