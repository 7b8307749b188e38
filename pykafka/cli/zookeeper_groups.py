"""`ZooKeeperGroups`: members of groups in ZooKeeper. Without one, this needs no kazoo (extra `zookeeper`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException
from pykafka.metadata.configs import zookeeper_of

if TYPE_CHECKING:
    from pykafka.client import KafkaClient


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
        if self._hosts is not None:
            return self._members_at(self._hosts, client, topic, group), ""
        try:
            hosts = zookeeper_of(client.cluster.brokers)
            return ([] if hosts is None else self._members_at(hosts, client, topic, group)), ""
        except (KafkaException, ImportError) as error:
            return [], str(error)

    def _members_at(self, hosts: str, client: KafkaClient, topic: str, group: str) -> list[str]:
        from pykafka.cli.zookeeper import zookeeper_members

        return zookeeper_members(hosts, client.cluster.handler, self._timeout_ms, group, topic)
