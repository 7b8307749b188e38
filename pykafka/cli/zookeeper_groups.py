"""Members of groups that are coordinated through ZooKeeper, which the brokers do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.cli.zookeeper_topics import connected
from pykafka.exceptions import KafkaException
from pykafka.metadata.groupnodes import GroupNodes
from pykafka.metadata.zookeeper_address import zookeeper_of

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.handlers import Handler


def zookeeper_members(hosts: str, handler: Handler, timeout_ms: int, group: str, topic: str) -> list[str]:
    """Return the ids of a group's members that subscribe to a topic.

    :param hosts: "host:port,host:port/chroot"
    :param handler: its kazoo handler runs the client
    :param timeout_ms: for connecting, and for the answers (ms)
    :raises NoBrokersAvailableError: ZooKeeper cannot be reached
    :raises ZooKeeperError: it does not answer
    """
    deadline = handler.now() + timeout_ms / 1000
    with connected(hosts, handler, timeout_ms / 1000, "did not tell the members of groups") as zookeeper:
        nodes = GroupNodes(zookeeper, group, lambda: max(deadline - handler.now(), 0.0))
        return [name for name, topics in nodes.members().items() if topics is None or topic in topics]


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
            hosts = zookeeper_of(client.cluster)
            if hosts is None:
                return [], ""
            return zookeeper_members(hosts, handler, self._timeout_ms, group, topic), ""
        except KafkaException as error:
            return [], str(error)
