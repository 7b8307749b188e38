"""Answers that come after a `close(timeout)` has given messages up change nothing of what it has said."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import MessagesNotDelivered
from pykafka.handlers import Handler
from pykafka.testing import FakeCluster

LIMIT = 20.0


@pytest.mark.parametrize("error", ["MESSAGE_TOO_LARGE", "NOT_LEADER_OR_FOLLOWER", "INVALID_RECORD"])
def test_what_was_given_up_stays_failed(handler: Handler, error: str) -> None:
    with (
        FakeCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, handler=handler) as client,
    ):
        producer = client.producer(linger_ms=200)
        cluster.fail("Produce", error)
        held = cluster.hold("Produce")
        deliveries = [producer.produce("t", value) for value in (b"a", b"b")]
        handler.offload(held.await_met)  # in a thread: greenlets go on
        with pytest.raises(MessagesNotDelivered):
            producer.close(timeout=0.2)
        before = [delivery.error for delivery in deliveries]
        assert None not in before
        held.release()
        with client.producer() as another:  # its answer comes behind the one that was held
            another.produce("t", b"c").get(LIMIT)
        assert [delivery.error for delivery in deliveries] == before
        assert [delivery.done for delivery in deliveries] == [True, True]
