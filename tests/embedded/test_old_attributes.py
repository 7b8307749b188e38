"""Private attributes of PyKafka 2: each that a class declares can be read, of objects on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.exceptions import ConsumerStoppedException
from pykafka.utils import OldAttribute
from tests.support.inside import engine_of

TOPIC = "internals"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield the cluster of this module."""
    with EmbeddedCluster() as cluster:
        cluster.create_topic(TOPIC, partitions=2)
        yield cluster


def declared(value: Any) -> list[str]:
    """Return the names of the old attributes that the class of an object declares."""
    return [name for cls in type(value).__mro__ for name, one in vars(cls).items() if isinstance(one, OldAttribute)]


def readable(value: Any) -> dict[str, Any]:
    """Read all old attributes of an object."""
    names = declared(value)
    assert names
    return {name: getattr(value, name) for name in names}


def check_consumer(consumer: Any) -> None:
    found = readable(consumer)
    assert (found["_running"], found["_fetch_min_bytes"], found["_consumer_group"]) == (True, 3, b"g")
    assert sorted(found["_partitions_by_id"]) == [0, 1]
    assert found["_worker_exception"] is None
    engine_of(consumer).worker_failed(ConsumerStoppedException("a test"))
    kind, error, _ = consumer._worker_exception
    assert (kind, str(error)) == (ConsumerStoppedException, "a test")
    with pytest.raises(ConsumerStoppedException, match="a test"):
        consumer.consume(block=False)
    consumer.stop()
    assert not consumer._running
    consumer._running = True  # which hides the state, and changes nothing
    assert consumer._running
    assert not engine_of(consumer).running


def test_consumers(client: KafkaClient) -> None:
    check_consumer(client.topics[TOPIC].get_simple_consumer("g", fetch_min_bytes=3))


def test_consumers_of_librdkafka(cluster: EmbeddedCluster) -> None:
    with KafkaClient(cluster.hosts) as client:
        check_consumer(client.topics[TOPIC].get_simple_consumer("g", use_rdkafka=True, fetch_min_bytes=3))


def test_members_of_groups(client: KafkaClient) -> None:
    topic = client.topics[TOPIC]
    with topic.get_balanced_consumer(f"members-{uuid4()}", managed=True, heartbeat_interval_ms=700) as consumer:
        found = readable(consumer)
        assert (found["_heartbeat_interval_ms"], found["_use_rdkafka"]) == (700, False)
        assert found["_group_coordinator"].id in client.brokers
    balanced = topic.get_balanced_consumer("others", zookeeper_connect="127.0.0.1:1", auto_start=False)
    found = readable(balanced)
    assert (found["_zookeeper_connect"], found["_owns_zookeeper"]) == ("127.0.0.1:1", True)
    assert found["_consumer_id_path"] == "/consumers/others/ids"


def test_producers_and_the_cluster(client: KafkaClient, cluster: EmbeddedCluster) -> None:
    with client.topics[TOPIC].get_sync_producer(max_retries=7) as producer:
        producer.produce(b"x")
        found = readable(producer)
        assert (found["_max_retries"], found["_synchronous"], found["_worker_exception"]) == (7, True, None)
    found = readable(client.cluster)
    assert (found["_seed_hosts"], found["_source_address"], found["_ssl_config"]) == (cluster.hosts, "", None)
    assert found["_brokers"] == client.brokers
    broker = next(iter(client.brokers.values()))
    broker.connect()
    found = readable(broker)
    connection = found["_connection"]
    assert found["_req_handler"] is broker.handler
    assert connection.connected
    assert connection._socket.getpeername()[1] == broker.port
    assert readable(connection)["_wrap_socket"]("a socket") == "a socket"


def test_a_name_that_never_was(client: KafkaClient) -> None:
    assert not hasattr(client.cluster, "_nothing")
