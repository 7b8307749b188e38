"""ZooKeeper: creation and deletion of topics, the only way before Kafka 0.10.1; and members of groups."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykafka.metadata.zookeeper import GroupNodes  # first: without kazoo, this names the extra

# isort: split
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from pykafka.exceptions import (
    InvalidReplicationFactor,
    InvalidTopic,
    KafkaException,
    NoBrokersAvailableError,
    ResponseTimeoutError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from pykafka.utils import is_legal_name

if TYPE_CHECKING:
    from pykafka.handlers import Handler


#: The nodes that old brokers watch, below the chroot.
BROKER_IDS, TOPICS, SETTINGS, DELETIONS = "/brokers/ids", "/brokers/topics", "/config/topics", "/admin/delete_topics"
#: Pause between checks whether a topic is gone (s).
_PAUSE_S = 0.1


@contextmanager
def connected(hosts: str, handler: Handler, timeout_s: float, failed: str = "did not do it") -> Iterator[KazooClient]:
    """Yield a connection to ZooKeeper for the length of the `with` block.

    :param hosts: "host:port,host:port/chroot"
    :param handler: its kazoo handler runs the client
    :param timeout_s: timeout of the connect
    :param failed: the operation that failed, for the error's text
    :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or refuses
    """
    zookeeper: KazooClient = handler.kazoo_client(hosts, timeout_s)
    timeout_error = zookeeper.handler.timeout_exception
    try:
        zookeeper.start(timeout=timeout_s)
        yield zookeeper
    except (KazooException, timeout_error) as error:
        raise NoBrokersAvailableError(
            f"ZooKeeper at {hosts} {failed} ({type(error).__name__}: {error}); check --zookeeper and its chroot"
        ) from error
    finally:
        zookeeper.stop()
        zookeeper.close()


class ZooKeeperTopics:
    """A creator and deleter of topics, as the tools of Kafka 0.8 and 0.9: the controller watches these nodes.

    :param hosts: "host:port,host:port/chroot"
    :param handler: its kazoo handler runs the client
    :param timeout_ms: timeout of the connect
    """

    def __init__(self, hosts: str, handler: Handler, timeout_ms: int) -> None:
        self._hosts = hosts
        self._handler = handler
        self._timeout_s = timeout_ms / 1000

    def create(
        self,
        topic: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignment: Mapping[int, Sequence[int]],
        config_entries: Mapping[str, str],
    ) -> None:
        """Write the nodes that make the controller create a topic; parameters as in `changes.create_topic`.

        :raises InvalidTopic: the name is not valid
        :raises InvalidReplicationFactor: the cluster has fewer brokers
        :raises TopicAlreadyExists: a topic of this name exists
        :raises NoBrokersAvailableError: ZooKeeper cannot be reached
        """
        if not is_legal_name(topic):
            raise InvalidTopic("a topic's name has letters, digits, '.', '_' and '-', 249 at most", topic=topic)
        with connected(self._hosts, self._handler, self._timeout_s) as zookeeper:
            if zookeeper.exists(f"{TOPICS}/{topic}"):
                raise TopicAlreadyExists(topic=topic)
            brokers = sorted(int(id_) for id_ in zookeeper.get_children(BROKER_IDS))
            partitions = dict(replica_assignment) or self._spread(brokers, num_partitions, replication_factor)
            # Settings first: the controller starts as soon as the topic's own node exists.
            content = _json({"version": 1, "config": dict(config_entries)})
            zookeeper.ensure_path(SETTINGS)
            try:
                zookeeper.create(f"{SETTINGS}/{topic}", content)
            except NodeExistsError:  # of an earlier topic of this name
                zookeeper.set(f"{SETTINGS}/{topic}", content)
            try:
                zookeeper.create(f"{TOPICS}/{topic}", _json({"version": 1, "partitions": partitions}))
            except NodeExistsError as error:
                raise TopicAlreadyExists(topic=topic) from error

    def _spread(self, brokers: list[int], num_partitions: int, replication_factor: int) -> dict[int, list[int]]:
        """Return the brokers of each partition: in turn, from a random one on."""
        copies = max(replication_factor, 1)
        if copies > len(brokers):
            raise InvalidReplicationFactor(f"{copies} replicas need as many brokers, and {len(brokers)} are up")
        first = self._handler.random.randrange(len(brokers))
        return {
            id_: [brokers[(first + id_ + copy) % len(brokers)] for copy in range(copies)]
            for id_ in range(max(num_partitions, 1))
        }

    def delete(self, topic: str, timeout_ms: int) -> None:
        """Write the node that makes the controller delete a topic (with delete.topic.enable=true), and wait until it is gone.

        :param timeout_ms: how long to wait
        :raises ResponseTimeoutError: the topic is marked for deletion, but still there
        :raises UnknownTopicOrPartition: there is no such topic
        :raises NoBrokersAvailableError: ZooKeeper cannot be reached
        :raises KafkaException: a deletion is in progress already
        """
        with connected(self._hosts, self._handler, self._timeout_s) as zookeeper:
            try:
                zookeeper.get(f"{TOPICS}/{topic}")
            except NoNodeError as error:
                raise UnknownTopicOrPartition("there is no such topic in ZooKeeper", topic=topic) from error
            zookeeper.ensure_path(DELETIONS)
            try:
                zookeeper.create(f"{DELETIONS}/{topic}", b"")
            except NodeExistsError as error:
                raise KafkaException(
                    "the topic is marked for deletion already; brokers before 1.0 need delete.topic.enable=true to delete it",
                    topic=topic,
                ) from error
            # Clients stop seeing the topic some time before this; until now its name cannot be used again.
            deadline = self._handler.now() + timeout_ms / 1000
            while zookeeper.exists(f"{TOPICS}/{topic}"):
                if self._handler.now() > deadline:
                    raise ResponseTimeoutError(
                        f"the topic is marked for deletion, but not gone after {timeout_ms} ms; before Kafka 1.0 that needs "
                        "delete.topic.enable=true in the brokers' settings",
                        topic=topic,
                    )
                self._handler.sleep(_PAUSE_S)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def zookeeper_members(hosts: str, handler: Handler, timeout_ms: int, group: str, topic: str) -> list[str]:
    """Return the ids of a group's members that subscribe to a topic.

    :param hosts: "host:port,host:port/chroot"
    :param handler: its kazoo handler runs the client
    :param timeout_ms: for connecting, and for the answers (ms)
    :raises NoBrokersAvailableError: ZooKeeper cannot be reached
    :raises ZooKeeperError: it does not answer
    """
    deadline = handler.now() + timeout_ms / 1000
    with connected(hosts, handler, timeout_ms / 1000, "did not list the members of groups") as zookeeper:
        nodes = GroupNodes(zookeeper, group, lambda: max(deadline - handler.now(), 0.0))
        return [name for name, topics in nodes.members().items() if topics is None or topic in topics]
