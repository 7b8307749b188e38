"""The directories in which brokers keep their logs (since Kafka 1.0)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pykafka.admin.base import TIMEOUT_MS, ids_by_topic, several
from pykafka.admin.groups import GroupsAdmin
from pykafka.admin.results import Results, partition_error, partitions_in, response_error
from pykafka.admin.routing import CertainBrokers, RequestFactory
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node


class Replica(NamedTuple):
    """A replica of a partition."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


@dataclass(frozen=True)
class ReplicaSize:
    """A replica in a directory.

    :param size: of its log, in bytes
    :param lag: messages that it is behind: the leader, or the replica that it will replace
    :param is_future: whether it will replace the broker's replica in another directory
    """

    size: int
    lag: int
    is_future: bool


@dataclass(frozen=True)
class LogDir:
    """A directory of a broker.

    :param path: of the directory
    :param replicas: by partition
    :param error: why the broker cannot use it; None if it can
    :param total_bytes: size of its file system; None if the broker does not report it (before Kafka 3.3)
    :param usable_bytes: free bytes there; None if the broker does not report it
    :param cordoned: whether it takes no new replicas (since Kafka 4.3)
    """

    path: str
    replicas: Mapping[TopicPartition, ReplicaSize]
    error: KafkaException | None = None
    total_bytes: int | None = None
    usable_bytes: int | None = None
    cordoned: bool = False


class LogDirsAdmin(GroupsAdmin):
    """The directories of brokers."""

    def describe_log_dirs(
        self,
        brokers: int | Iterable[int] | None = None,
        *,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[int, tuple[LogDir, ...]]:
        """Return the directories of brokers, with the replicas in each (since Kafka 1.0).

        :param brokers: a broker id, or several; by default all brokers
        :param partitions: replicas of these (topic, partition) pairs alone
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for brokers that failed, see `Results`
        """
        deadline = self._deadline(timeout_ms)
        ids: list[int] = self._every_broker(deadline) if brokers is None else several(brokers, "brokers", int)
        topic = wire.DescribeLogDirsRequest.Topic
        topics = None
        if partitions is not None:
            topics = [topic(topic=name, partitions=its) for name, its in ids_by_topic(partitions).items()]

        def read(
            response: wire.DescribeLogDirsResponse, items: Sequence[int], broker: Node
        ) -> Mapping[int, tuple[LogDir, ...] | KafkaException]:
            error = response_error(response)
            return {items[0]: error or tuple(_described(result, broker) for result in response.results)}

        factory: RequestFactory[int, tuple[LogDir, ...]] = RequestFactory(
            wire.DescribeLogDirsRequest, lambda items, broker, left: wire.DescribeLogDirsRequest(topics=topics), read
        )
        return self._ask(ids, CertainBrokers[int](self._cluster, int), factory, self._left_ms(deadline), raise_errors)

    def alter_replica_log_dirs(
        self,
        paths: Mapping[tuple[str, int, int], str],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[Replica, None]:
        """Begin to move replicas to other directories of their brokers (since Kafka 1.0).

        :param paths: {(topic, partition, broker id): path of the directory}
        :param timeout_ms: of the whole call; copying takes longer
        :param raise_errors: whether to raise for replicas that failed, see `Results`
        :raises LogDirNotFound: the broker does not use this directory
        """
        wanted = {Replica(*key): path for key, path in paths.items()}

        def request(items: Sequence[Replica], broker: Node, left: int) -> wire.AlterReplicaLogDirsRequest:
            dirs: dict[str, dict[str, list[int]]] = {}
            for item in items:
                dirs.setdefault(wanted[item], {}).setdefault(item.topic, []).append(item.partition)
            make = wire.AlterReplicaLogDirsRequest.Dir
            return wire.AlterReplicaLogDirsRequest(
                dirs=[
                    make(path=path, topics=[make.Topic(name=name, partitions=ids) for name, ids in topics.items()])
                    for path, topics in dirs.items()
                ]
            )

        def read(
            response: wire.AlterReplicaLogDirsResponse, items: Sequence[Replica], broker: Node
        ) -> Mapping[Replica, KafkaException | None]:
            found = partitions_in(response.results)
            return {Replica(*key, broker.id): partition_error(key, part) for key, part in found}

        factory = RequestFactory(wire.AlterReplicaLogDirsRequest, request, read)
        target: CertainBrokers[Replica] = CertainBrokers(self._cluster, lambda item: item.broker)
        return self._ask(wanted, target, factory, timeout_ms, raise_errors)


def _described(one: wire.DescribeLogDirsResponse.Result, broker: Node) -> LogDir:
    error = response_error(one, f"directory {one.log_dir}")
    if error is not None:
        error.with_context(broker=broker.address, api="DescribeLogDirs")
    found = {
        key: ReplicaSize(part.partition_size, part.offset_lag, part.is_future_key)
        for key, part in partitions_in(one.topics)
    }
    return LogDir(
        one.log_dir,
        dict(sorted(found.items())),
        error,
        one.total_bytes if one.total_bytes >= 0 else None,
        one.usable_bytes if one.usable_bytes >= 0 else None,
        one.is_cordoned,
    )
