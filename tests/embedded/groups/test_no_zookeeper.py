"""A balanced consumer without ZooKeeper: the error says at once to have the brokers coordinate the group."""

from __future__ import annotations

import asyncio
import inspect
import socket
from typing import Any

import pytest

from pykafka import BalancedConsumer, EmbeddedCluster, KafkaClient, aio
from pykafka.compat import balanced_consumer
from pykafka.exceptions import ZooKeeperError
from pykafka.handlers import Handler
from pykafka.metadata.configs import DEFAULT_ZOOKEEPER


@pytest.mark.parametrize("given", [{}, {"zookeeper_connect": None}, {"auto_start": False}])
def test_nobody_named_a_zookeeper(
    embedded: EmbeddedCluster, handler: Handler, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded.create_topic("clicks", partitions=1)
    with socket.socket() as taken:  # bound and not listening: nobody else's ZooKeeper is there
        taken.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*taken.getsockname())
        monkeypatch.setattr(balanced_consumer, "DEFAULT_ZOOKEEPER", address)
        with KafkaClient(embedded.hosts, handler=handler) as client:
            topic = client.topics["clicks"]
            start = handler.now()
            with pytest.raises(ZooKeeperError, match=r"managed=True .* or the address .* zookeeper_connect=") as caught:
                topic.get_balanced_consumer("g", zookeeper_hosts=address, **given).start()
            assert handler.now() - start < 3  # kazoo would try for 6 s
            assert caught.value.topic == "clicks"


def test_one_that_was_named_is_given_its_time(embedded: EmbeddedCluster, handler: Handler) -> None:
    """It may be starting; the error that comes in the end says the same."""
    embedded.create_topic("clicks", partitions=1)
    with socket.socket() as taken, KafkaClient(embedded.hosts, handler=handler) as client:
        taken.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*taken.getsockname())
        start = handler.now()
        with pytest.raises(ZooKeeperError, match="managed=True"):
            client.topics["clicks"].get_balanced_consumer(
                "g", zookeeper_connect=address, zookeeper_connection_timeout_ms=1000
            )
        assert handler.now() - start > 0.9


def test_event_loops_refuse_it_by_name(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("clicks", partitions=1)

    async def consume() -> None:
        async with aio.KafkaClient(embedded.hosts) as client:
            with pytest.raises(RuntimeError, match="kazoo does not run on an event loop"):
                await client.consumer("clicks", group="g", protocol="zookeeper", zookeeper_hosts="127.0.0.1:1")
            with pytest.raises(RuntimeError, match="kazoo does not run on an event loop"):
                await client.admin.migrate_group_offsets("g", zookeeper_hosts="127.0.0.1:1")

    asyncio.run(consume())


def test_the_default_is_the_documented_one() -> None:
    default = inspect.signature(BalancedConsumer).parameters["zookeeper_hosts"].default
    assert default == DEFAULT_ZOOKEEPER == "127.0.0.1:2181"
