"""Members of groups that are coordinated through ZooKeeper, which the brokers do not know."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from kazoo.exceptions import NoNodeError

from pykafka.cli.zookeeper_topics import connected
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.handlers import Handler

_BROKER_RESOURCE = 4
_ADDRESS = "zookeeper.connect"


def zookeeper_of(client: KafkaClient) -> str | None:
    """Return the brokers' ZooKeeper; None if they have none, or do not report it (before 0.11).

    :raises UnsupportedVersion: the brokers are too old
    :raises KafkaException: no broker answered
    """
    broker = next(iter(client.brokers.values()), None)
    if broker is None:
        return None
    resource = wire.DescribeConfigsRequest.Resource(resource_type=_BROKER_RESOURCE, resource_name=str(broker.id))
    resource.configuration_keys = [_ADDRESS]
    for result in broker.call(wire.DescribeConfigsRequest(resources=[resource])).results:
        for config in result.configs:
            if config.name == _ADDRESS:
                return config.value or None
    return None


def zookeeper_members(hosts: str, handler: Handler, timeout_ms: int, group: str, topic: str) -> list[str]:
    """Return the ids of a group's members that subscribe to a topic.

    :param hosts: "host:port,host:port/chroot"
    :param handler: its kazoo handler runs the client
    :param timeout_ms: timeout of the connect
    :raises NoBrokersAvailableError: ZooKeeper cannot be reached
    """
    path = f"/consumers/{group}/ids"
    found = []
    with connected(hosts, handler, timeout_ms / 1000, "did not tell the members of groups") as zookeeper:
        members = zookeeper.get_children(path) if zookeeper.exists(path) else []
        for member in sorted(members):
            with suppress(NoNodeError):  # it has left meanwhile
                if _wants(zookeeper.get(f"{path}/{member}")[0], topic):
                    found.append(member)
    return found


def _wants(content: bytes, topic: str) -> bool:
    """Return whether a member subscribes to a topic: PyKafka's store its name, Java's a JSON object; others may."""
    text = content.decode(errors="replace")
    try:
        said = json.loads(text)
    except ValueError:
        return text == topic
    if not isinstance(said, dict):
        return text == topic  # a topic whose name is a number
    return said.get("pattern", "static") != "static" or topic in said.get("subscription", {topic: 1})


class ZooKeeperGroups:
    """A reader of groups' members in ZooKeeper: the given one, else the one that the brokers report.

    :param hosts: "host:port,host:port/chroot"; None asks the brokers
    :param timeout_ms: timeout of the connect
    """

    def __init__(self, hosts: str | None, timeout_ms: int) -> None:
        self._hosts = hosts
        self._timeout_ms = timeout_ms

    def members(self, client: KafkaClient, topic: str, group: str) -> tuple[list[str], str]:
        """Return the ids of a group's members that subscribe to a topic, and why the look-up failed ("" if it did not).

        :raises NoBrokersAvailableError: the given ZooKeeper cannot be reached
        """
        handler = client.cluster.handler
        if self._hosts is not None:
            return zookeeper_members(self._hosts, handler, self._timeout_ms, group, topic), ""
        try:
            hosts = zookeeper_of(client)
            if hosts is None:
                return [], ""
            return zookeeper_members(hosts, handler, self._timeout_ms, group, topic), ""
        except KafkaException as error:
            return [], str(error)
