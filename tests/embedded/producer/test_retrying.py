"""Retries: the producer waits for the cluster; errors of the batch count against max_retries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    DeliveryUnknownError,
    KafkaException,
    NotEnoughReplicas,
    RequestTimedOut,
)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        cluster.track_requests()
        yield cluster


QUICK: dict[str, Any] = {"required_acks": -1, "max_retries": 2, "retry_backoff_ms": 1, "retry_backoff_max_ms": 10}


@pytest.mark.parametrize(
    ("error", "numbered"),
    [
        ("NOT_ENOUGH_REPLICAS", True),
        ("NOT_ENOUGH_REPLICAS", False),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", True),
        ("REQUEST_TIMED_OUT", True),
        ("DISCONNECT", True),
    ],
)
@pytest.mark.later("threads-DISCONNECT-True")
def test_a_cluster_that_is_not_ready_is_waited_for(
    cluster: EmbeddedCluster, client: KafkaClient, error: str, numbered: bool
) -> None:
    """Errors of a cluster that was not ready used up max_retries, and messages failed after 0.3 s."""
    with client.topics["t"].get_sync_producer(enable_idempotence=numbered or False, **QUICK) as producer:
        producer.produce(b"before")
        cluster.inject_errors("Produce", *[error] * 12)
        assert producer.produce(b"after").offset == 1


@pytest.mark.parametrize("error", ["NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT"])
def test_without_numbers_what_may_be_stored_is_not_sent_for_ever(
    cluster: EmbeddedCluster, client: KafkaClient, error: str
) -> None:
    with client.topics["t"].get_sync_producer(enable_idempotence=False, **QUICK) as producer:
        producer.produce(b"before")
        cluster.inject_errors("Produce", *[error] * 12)
        with pytest.raises(KafkaException, match=r"not delivered in 3 tries, within max_retries=2.*" + error) as caught:
            producer.produce(b"perhaps")
        assert caught.value.context["topic"] == "t"
        cluster.clear_errors("Produce")
    assert len(cluster.requests("Produce")) == 1 + 3


@pytest.mark.parametrize(
    ("error", "numbered", "raised"),
    [
        ("NOT_ENOUGH_REPLICAS", True, NotEnoughReplicas),
        ("NOT_ENOUGH_REPLICAS", False, NotEnoughReplicas),
        ("REQUEST_TIMED_OUT", True, DeliveryUnknownError),
    ],
)
@pytest.mark.later("threads-REQUEST_TIMED_OUT", "greenlets-NOT_ENOUGH_REPLICAS")
def test_the_deadline_names_the_last_error(
    cluster: EmbeddedCluster, client: KafkaClient, error: str, numbered: bool, raised: type[KafkaException]
) -> None:
    options = QUICK | {"retry_backoff_ms": 20, "retry_backoff_max_ms": 100, "delivery_timeout_ms": 1_000}
    with client.topics["t"].get_sync_producer(enable_idempotence=numbered, **options) as producer:
        producer.produce(b"before")
        cluster.inject_errors("Produce", *[error] * 200)
        with pytest.raises(raised, match=r"within delivery_timeout_ms=1000") as caught:
            producer.produce(b"late")
        cluster.clear_errors("Produce")
        assert error in str(caught.value)
        assert caught.value.context["partition"] == 0
        last = caught.value.__cause__ if raised is DeliveryUnknownError else caught.value
        assert isinstance(last, (NotEnoughReplicas, RequestTimedOut))
        assert last.broker is not None
        assert last.broker in cluster.hosts
        assert producer.produce(b"in time").offset >= 0
    assert 8 <= len(cluster.requests("Produce")) <= 100  # the pauses have grown


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
@pytest.mark.later("greenlets")
def test_a_leader_that_is_away_is_not_looked_up_with_each_message(greenlets: bool) -> None:
    """Each message woke the sender, which asked for metadata at once."""
    with (
        EmbeddedCluster(brokers=2, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, use_greenlets=greenlets) as client,
    ):
        cluster.set_leader("t", 0, 2)
        options = QUICK | {"retry_backoff_ms": 50, "retry_backoff_max_ms": 500}
        producer = client.topics["t"].get_producer(linger_ms=0, pending_timeout_ms=30_000, **options)
        producer.produce(b"before")
        producer.flush()
        cluster.broker_down(2)
        cluster.track_requests()
        handler = client.cluster.handler
        waiting = []
        for _ in range(200):
            waiting.append(producer.produce(b"waits"))
            producer._owned_brokers[2].wake.set()
            handler.sleep(0.01)
        assert len(cluster.requests("Metadata")) <= 40
        cluster.broker_up(2)
        producer.stop()
        assert [message.offset for message in waiting] == list(range(1, 201))
