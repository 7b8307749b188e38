"""A leader that fails without a name is asked again."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def greenlets(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_leader_that_fails_without_a_name_is_asked_again(embedded: EmbeddedCluster, greenlets: bool) -> None:
    """As one of 0.9 does that has just taken over, until it knows what of its log has been committed."""
    with KafkaClient(embedded.hosts, use_greenlets=greenlets) as client:
        topic = client.topics["errors"]
        with topic.get_sync_producer() as producer:
            producer.produce(b"x")
        embedded.inject_errors("Fetch", -1, -1, -1)
        with topic.get_simple_consumer(consumer_timeout_ms=20_000, fetch_error_backoff_ms=10) as consumer:
            message = consumer.consume()
    assert message is not None
    assert embedded.pending_errors("Fetch", embedded.broker_ids[0]) == 0
