"""Share consumers that close while brokers do not answer, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

TOPIC, GROUP = "jobs", "workers"
#: How long `close()` may take (s).
CLOSE_S = 3.0
Silence = Callable[[FakeCluster], object]


def _hold(cluster: FakeCluster) -> None:
    cluster.hold("ShareAcknowledge")


def _pause(cluster: FakeCluster) -> None:
    cluster.pause(1)


def _stop(cluster: FakeCluster) -> None:
    cluster.stop(1, noticed=False)


@pytest.mark.parametrize("silence", [_hold, _pause, _stop], ids=lambda fn: fn.__name__.strip("_"))
@pytest.mark.parametrize("begins_before", [False, True], ids=["close sends it", "commit sends it"])
def test_each_acknowledgement_has_an_outcome_when_close_returns(
    scheduler: Scheduler, virtual: VirtualHandler, silence: Silence, begins_before: bool
) -> None:
    """Also without the answer: the client gives the request up, and does not send it again on another connection."""

    def program() -> tuple[list[Any], list[KafkaException | None], float]:
        outcomes: list[Any] = []
        committed: list[KafkaException | None] = []
        with (
            FakeCluster(brokers=1, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.create_topic(TOPIC, 1)
            consumer = client.share_consumer(group=GROUP, acknowledgement="explicit", on_acknowledge=outcomes.append)
            consumer.subscribe(TOPIC)
            with client.producer() as producer:
                until = virtual.now() + 30
                while not consumer.assignment() and virtual.now() < until:
                    consumer.poll(timeout=0.1)
                producer.produce(TOPIC, b"1").get()
            (record,) = consumer.poll(timeout=5)
            silence(cluster)
            consumer.accept(record)
            if begins_before:
                consumer.commit_async(lambda found: committed.extend(found.values()))
                virtual.sleep(0.5)
            began = virtual.now()
            consumer.close(CLOSE_S)
            took_s = virtual.now() - began
            cluster.clear_faults()
            if silence is _pause:
                cluster.resume(1)
        return outcomes, committed, took_s

    outcomes, committed, took_s = scheduler.run(program)
    assert [(one.offsets, isinstance(one.error, KafkaException)) for one in outcomes] == [((0,), True)]
    assert [isinstance(error, KafkaException) for error in committed] == [True] * begins_before
    assert took_s < CLOSE_S + 0.5
