"""`start()` of PyKafka 2's `SimpleConsumer` beside `stop()` by another worker, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import ConsumerStoppedException
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

GROUP, TOPIC = "readers", "orders"
#: How long a start may go on behind the stop (s), and from when on metadata is old (s).
LATE_S, OLD_S = 0.1, 3_600.0
#: What a start asks for: at first, with `reset_offset_on_start`, and behind a stop.
FIRST = ["FindCoordinator", "OffsetFetch", "ListOffsets", "OffsetCommit"]
RESET = ["ListOffsets", "FindCoordinator", "OffsetCommit"]
CASES: list[tuple[str, dict[str, Any]]] = [
    *((api, {}) for api in FIRST),
    *((api, {"reset_offset_on_start": True}) for api in RESET),
    ("Metadata", {}),
]


@pytest.mark.parametrize("again", [False, True], ids=["stopped", "again"])
@pytest.mark.parametrize(("api", "options"), CASES)
def test_a_start_ends_when_another_worker_stops_the_consumer(
    scheduler: Scheduler, virtual: VirtualHandler, api: str, options: dict[str, Any], again: bool
) -> None:
    """It waited for the silent broker, for up to two socket timeouts, and raised that it had not answered."""
    ended: list[float] = []

    def program() -> None:
        with (
            FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            with client.producer() as producer:
                for partition in range(2):
                    producer.produce(TOPIC, b"1", partition=partition).get()
            consumer = client.topics[TOPIC].get_simple_consumer(
                GROUP, auto_start=False, consumer_timeout_ms=500, **options
            )
            if api == "Metadata":
                consumer.start()
                assert consumer.consume() is not None
                consumer.stop()
                virtual.sleep(OLD_S)

            def start() -> None:
                with pytest.raises(ConsumerStoppedException):
                    consumer.start()
                ended.append(virtual.now())

            with cluster.hold(api):
                starting = virtual.spawn(start, name="starting")
                virtual.sleep(1.0)
                assert not ended
                stopped_at = virtual.now()
                consumer.stop()
                assert virtual.now() == stopped_at
                assert starting.join(1.0)
                assert ended[0] - stopped_at <= LATE_S
            with pytest.raises(ConsumerStoppedException):
                consumer.consume(block=False)
            if again:
                consumer.start()
                assert consumer.consume() is not None
                consumer.stop()

    scheduler.run(program)
    assert scheduler.errors == []
