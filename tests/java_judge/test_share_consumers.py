"""Kafka's own share consumer reads from a fake broker."""

from __future__ import annotations

from pykafka import KafkaClient
from pykafka.admin import ConfigResource, ConfigType
from pykafka.testing import FakeCluster
from pykafka.testing.releases import NEWEST
from tests.java_judge.kafka_java import run_source


def test_share_consumer_releases_and_accepts() -> None:
    values = [f"v{number}" for number in range(5)]
    with FakeCluster(topics={"orders": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        client.admin.alter_configs({ConfigResource(ConfigType.GROUP, "g"): {"share.auto.offset.reset": "earliest"}})
        with client.producer() as producer:
            for value in values:
                producer.produce("orders", value.encode())
        printed = run_source("Shares.java", NEWEST.name, f"{cluster.hosts} g orders {len(values)}").split("\n")
        assert [line for line in printed if line] == [f"{value} {count}" for count in (1, 2) for value in values]
        assert not client.admin.describe_groups("g")["g"].members
