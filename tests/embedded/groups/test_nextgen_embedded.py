"""The next-generation protocol on the embedded cluster, whose mock coordinator knows heartbeats and no descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from tests.support.loops import Concurrency


@pytest.mark.on_asyncio
@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_a_member_reads_and_commits(concurrency: Concurrency, protocol: str) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 2}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
    ):
        with client.producer() as producer:
            producer.produce_many("t", [b"1", b"2", b"3"])
        with client.consumer("t", group="g", protocol=protocol) as consumer:
            read: list[Any] = []
            while len(read) < 3:
                read += consumer.poll(timeout=10)
            assert sorted(record.value for record in read) == [b"1", b"2", b"3"]
            consumer.commit()
