"""Topics made and deleted in ZooKeeper, which was the only way before Kafka 0.10.1."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

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

#: Where brokers of those days look, below the chroot.
BROKER_IDS, TOPICS, SETTINGS, DELETIONS = "/brokers/ids", "/brokers/topics", "/config/topics", "/admin/delete_topics"
#: Pause between looks at whether a topic is gone (s).
_PAUSE_S = 0.1


@contextmanager
def connected(hosts: str, handler: Handler, timeout_s: float, failed: str = "did not do it") -> Iterator[KazooClient]:
    """Be connected to ZooKeeper for as long as the `with` block lasts.

    :param hosts: "host:port,host:port/chroot"
    :param handler: whose kazoo handler to run on
    :param timeout_s: for connecting
    :param failed: what it did not do, for the error's text
    :raises NoBrokersAvailableError: it cannot be reached, or refuses
    """
    zookeeper = KazooClient(hosts, timeout=timeout_s, handler=handler.kazoo())
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
    """Makes and deletes topics as the tools of Kafka 0.8 and 0.9 did: the controller watches these nodes.

    :param hosts: "host:port,host:port/chroot"
    :param handler: whose kazoo handler to run on
    :param timeout_ms: for connecting
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
        """Write what makes the controller create a topic; parameters as of `changes.create_topic`.

        :raises InvalidTopic: no topic can have this name
        :raises InvalidReplicationFactor: there are fewer brokers
        :raises TopicAlreadyExists: there is one of this name
        :raises NoBrokersAvailableError: ZooKeeper cannot be reached
        """
        if not is_legal_name(topic):
            raise InvalidTopic("a topic's name has letters, digits, '.', '_' and '-', 249 at most", topic=topic)
        with connected(self._hosts, self._handler, self._timeout_s) as zookeeper:
            if zookeeper.exists(f"{TOPICS}/{topic}"):
                raise TopicAlreadyExists(topic=topic)
            brokers = sorted(int(id_) for id_ in zookeeper.get_children(BROKER_IDS))
            partitions = dict(replica_assignment) or self._spread(brokers, num_partitions, replication_factor)
            # Settings first: the controller goes to work as soon as the topic's own node is there.
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
        """Return which brokers hold which partition: in turn, from a random one on."""
        copies = max(replication_factor, 1)
        if copies > len(brokers):
            raise InvalidReplicationFactor(f"{copies} replicas need as many brokers, and {len(brokers)} are up")
        first = self._handler.random.randrange(len(brokers))
        return {
            id_: [brokers[(first + id_ + copy) % len(brokers)] for copy in range(copies)]
            for id_ in range(max(num_partitions, 1))
        }

    def delete(self, topic: str, timeout_ms: int) -> None:
        """Write what makes the controller delete a topic, and wait until it has; it does where delete.topic.enable=true.

        :param timeout_ms: how long to wait
        :raises ResponseTimeoutError: it is marked for deletion, and not gone in time
        :raises UnknownTopicOrPartition: there is none
        :raises NoBrokersAvailableError: ZooKeeper cannot be reached
        :raises KafkaException: it is being deleted already
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
                    "it is marked for deletion already; brokers before 1.0 delete topics only with delete.topic.enable=true",
                    topic=topic,
                ) from error
            # Clients no longer see it some time before this: until then its name cannot be used again.
            deadline = self._handler.now() + timeout_ms / 1000
            while zookeeper.exists(f"{TOPICS}/{topic}"):
                if self._handler.now() > deadline:
                    raise ResponseTimeoutError(
                        f"it is marked for deletion, but not gone after {timeout_ms} ms; before Kafka 1.0 that takes "
                        "delete.topic.enable=true in the brokers' settings",
                        topic=topic,
                    )
                self._handler.sleep(_PAUSE_S)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
