"""Settings of topics and brokers that the engine asks for by itself, among them where the brokers' ZooKeeper is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pykafka.exceptions import error_for
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node

#: Kinds of resources.
TOPIC, BROKER = 2, 4
_ZOOKEEPER = "zookeeper.connect"
#: The ZooKeeper that PyKafka 2's consumers use if the application names none.
DEFAULT_ZOOKEEPER = "127.0.0.1:2181"


def read_settings(
    call: Callable[[wire.DescribeConfigsRequest], wire.DescribeConfigsResponse],
    *settings: tuple[int, str, str],
    lenient: bool = False,
) -> dict[str, str | None]:
    """Return settings by name.

    :param call: sends the request to a broker
    :param settings: of each: TOPIC or BROKER, the name of the topic or the number of the broker, and the setting's name
    :param lenient: True: leave settings out that the broker refuses to show
    :raises UnsupportedVersion: the broker is older than 0.11
    :raises KafkaException: the broker does not answer, or refuses
    """
    resource = wire.DescribeConfigsRequest.Resource
    resources = [
        resource(resource_type=kind, resource_name=owner, configuration_keys=[name]) for kind, owner, name in settings
    ]
    results = call(wire.DescribeConfigsRequest(resources=resources)).results
    for result in results:
        if result.error_code and not lenient:
            topic = result.resource_name if result.resource_type == TOPIC else None
            raise error_for(result.error_code, result.error_message, topic=topic, api="DescribeConfigs")
    return {setting.name: setting.value for result in results for setting in result.configs}


def zookeeper_of(brokers: Mapping[int, Node], timeout_ms: int | None = None) -> str | None:
    """Return the brokers' ZooKeeper; None if they have none, or do not show it.

    :param brokers: those of the cluster, one of which is asked
    :param timeout_ms: how long to wait for the answer (ms); None for the socket timeout
    :raises UnsupportedVersion: the brokers are older than 0.11
    :raises KafkaException: the broker does not answer
    """
    broker = next(iter(brokers.values()), None)
    if broker is None:
        return None
    setting = (BROKER, str(broker.id), _ZOOKEEPER)
    found = read_settings(lambda request: broker.call(request, timeout_ms=timeout_ms), setting, lenient=True)
    return found.get(_ZOOKEEPER) or None
