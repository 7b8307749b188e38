"""metrics() of share consumers on real and fake brokers: values that can be known, and a source for each row of the catalog."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import InvalidRecordState
from tests.integration.sharegroups.test_share_consumer import filled, new_group, taken
from tests.support.catalog_rows import Rows
from tests.support.inside import engine_of
from tests.support.waiting import until

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
        found = client.metrics().find("records-consumed-total", FETCH)
        assert [dict(one.name.tags)["client-id"] for one in found] == ["pykafka-share-consumer-1"]


#: {row: why it may be 0 here}
MAY_BE_ZERO = {
    "fetch-throttle-time-avg": "a broker without quotas throttles no client; fetches of consumers share the code",
    "fetch-throttle-time-max": "likewise",
    "stalled-partitions": "only a stall brings it about, in tests/integration/health/test_share_groups.py",
    "stalls-total": "likewise",
}


def test_each_row_of_the_catalog_has_a_source(client: KafkaClient) -> None:
    topic, group, rows = filled(client, COUNT), new_group(client), Rows(of_shares=True)
    handler = client.cluster.handler
    with client.share_consumer(topic, group=group) as consumer:
        records = taken(consumer, COUNT)
        assert set(consumer.commit().values()) <= {None}
        assert consumer.poll(timeout=1) == []  # it waits
        engine_of(consumer).on_acknowledged([records[0]._held()], InvalidRecordState("the lock has timed out"))

        def shown() -> bool:
            rows.see(client.metrics())
            return not rows.left(MAY_BE_ZERO)

        until(handler, shown)


def test_acknowledgements_that_fail_are_counted(client: KafkaClient) -> None:
    topic, group = filled(client, 1), new_group(client, share_record_lock_duration_ms="15000")
    with client.share_consumer(topic, group=group) as consumer:
        (record,) = taken(consumer, 1)
        engine = engine_of(consumer)
        engine.on_acknowledged([record._held()], InvalidRecordState("the lock has timed out"))
        assert consumer.metrics().value("acknowledgements-error-total", FETCH) == 1
