"""metrics() of share consumers on real brokers: values that can be known, and each row of the catalog."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import InvalidRecordState
from pykafka.metrics.catalog import catalog
from pykafka.metrics.metric import Metrics
from tests.integration.sharegroups.test_share_consumer import filled, new_group, taken
from tests.support.inside import engine_of

pytestmark = [pytest.mark.timeout(120), pytest.mark.needs("share groups"), pytest.mark.on_asyncio]

COUNT = 40
POLLS, FETCH, COORDINATOR = (
    "consumer-share-metrics",
    "consumer-share-fetch-manager-metrics",
    "consumer-share-coordinator-metrics",
)


def test_records_polls_heartbeats_and_acknowledgements_are_counted(client: KafkaClient) -> None:
    topic = filled(client, COUNT, partitions=2)
    with client.share_consumer(topic, group=new_group(client)) as consumer:
        assert len(taken(consumer, COUNT)) == COUNT
        assert set(consumer.commit().values()) <= {None}
        metrics = consumer.metrics()
        assert metrics.value("records-consumed-total", FETCH) == COUNT
        assert metrics.value("bytes-consumed-total", FETCH) > COUNT
        assert metrics.value("acknowledgements-send-total", FETCH) == COUNT
        assert metrics.value("acknowledgements-error-total", FETCH) == 0
        assert metrics.value("fetch-total", FETCH) >= 1
        assert 0 < metrics.value("records-per-request-avg", FETCH) <= metrics.value("records-per-request-max", FETCH)
        assert metrics.value("last-poll-seconds-ago", POLLS) >= 0
        assert 0 < metrics.value("poll-idle-ratio-avg", POLLS) <= 1
        assert metrics.value("heartbeat-total", COORDINATOR) >= 1
        assert metrics.value("rebalance-total", COORDINATOR) >= 1
        assert_complete(client.metrics())
        found = client.metrics().find("records-consumed-total", FETCH)
        assert [dict(one.name.tags)["client-id"] for one in found] == ["pykafka-share-consumer-1"]


def assert_complete(metrics: Metrics) -> None:
    shown = {(name.group, name.name) for name in metrics}
    assert {one for one in catalog() if one.group.startswith("consumer-share-") and one[:2] not in shown} == set()


def test_acknowledgements_that_fail_are_counted(client: KafkaClient) -> None:
    topic, group = filled(client, 1), new_group(client, share_record_lock_duration_ms="15000")
    with client.share_consumer(topic, group=group) as consumer:
        (record,) = taken(consumer, 1)
        engine = engine_of(consumer)
        engine.on_acknowledged([record._held()], InvalidRecordState("the lock has timed out"))
        assert consumer.metrics().value("acknowledgements-error-total", FETCH) == 1
