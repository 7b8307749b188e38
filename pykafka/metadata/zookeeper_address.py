"""Where the brokers of a cluster say that their ZooKeeper is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster

#: The address that PyKafka 2's consumers look at if the application gives none.
DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
_BROKER_RESOURCE = 4
_ADDRESS = "zookeeper.connect"


def zookeeper_of(cluster: BaseCluster, timeout_ms: int | None = None) -> str | None:
    """Return the brokers' ZooKeeper; None if they have none, or do not tell.

    :param timeout_ms: how long to wait for the answer (ms); None for the socket timeout
    :raises UnsupportedVersion: the brokers are too old to tell (before 0.11)
    :raises KafkaException: the broker does not answer, or refuses
    """
    broker = next(iter(cluster.brokers.values()), None)
    if broker is None:
        return None
    resource = wire.DescribeConfigsRequest.Resource(resource_type=_BROKER_RESOURCE, resource_name=str(broker.id))
    resource.configuration_keys = [_ADDRESS]
    for result in broker.call(wire.DescribeConfigsRequest(resources=[resource]), timeout_ms=timeout_ms).results:
        for config in result.configs:
            if config.name == _ADDRESS:
                return config.value or None
    return None
