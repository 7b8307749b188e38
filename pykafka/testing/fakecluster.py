"""`FakeCluster`: a Kafka cluster in Python, in this process, which a test can make misbehave."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import pykafka.testing.apis  # noqa: F401  (registers them)
from pykafka.handlers import ThreadingHandler
from pykafka.handlers.base import Handler, Worker
from pykafka.testing.broker import Broker
from pykafka.testing.call import APIS
from pykafka.testing.faults import Faults
from pykafka.testing.state import ClusterState, Node
from pykafka.testing.topics import Topic

#: How long the timekeeper may take to end (s).
_JOIN_S = 10.0


class FakeCluster:
    """A Kafka cluster of brokers in Python, on ports of 127.0.0.1.

        with FakeCluster(brokers=3, topics={"orders": 4}) as cluster:
            client = KafkaClient(hosts=cluster.hosts)

    Brokers are numbered from 1. It keeps all in memory.

    :param brokers: how many
    :param topics: topics to create, with their numbers of partitions
    :param handler: the concurrency of its workers; None: threads
    """

    def __init__(
        self, brokers: int = 3, topics: Mapping[str, int] | None = None, *, handler: Handler | None = None
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers is {brokers}: a cluster has at least one")
        self._state = state = ClusterState(handler or ThreadingHandler())
        self._timekeeper: Worker | None = None
        state.cluster_id = str(state.new_uuid())
        state.versions = {key: known.versions for key, known in APIS.items()}
        self._faults = Faults()
        self._brokers: dict[int, Broker] = {}
        for number in range(1, brokers + 1):
            state.nodes[number] = node = Node(number)
            self._brokers[number] = Broker(state, self._faults, node)
        try:
            with state.lock:
                for broker in self._brokers.values():
                    broker.start()
            for name, partitions in (topics or {}).items():
                self.create_topic(name, partitions)
            self._timekeeper = state.handler.spawn(state.waiters.keep_time, name="pykafka-fake-timekeeper")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FakeCluster {self.hosts}>"

    @property
    def hosts(self) -> str:
        """Where the brokers listen: `host:port,host:port`, in the order of their numbers."""
        return ",".join(f"{node.host}:{node.port}" for node in self._state.nodes.values())

    @property
    def broker_ids(self) -> list[int]:
        """The numbers of the brokers."""
        return list(self._state.nodes)

    def close(self) -> None:
        """Stop all brokers, and forget their data; a second call does nothing."""
        state = self._state
        with state.lock:
            for broker in self._brokers.values():
                broker.stop()
            state.waiters.close()
        for broker in self._brokers.values():
            broker.join()
        if self._timekeeper is not None:
            self._timekeeper.join(_JOIN_S)

    def create_topic(self, name: str, partitions: int = 4, replication_factor: int = 1) -> None:
        """Create a topic; its partitions are led by one broker after another.

        :raises ValueError: it exists already, or cannot be made so
        """
        state = self._state
        with state.lock:
            if name in state.topics:
                raise ValueError(f"there is a topic {name!r} already")
            nodes = list(state.nodes)
            replicas = [
                [nodes[(index + offset) % len(nodes)] for offset in range(replication_factor)]
                for index in range(partitions)
            ]
            topic = Topic(name, state.new_uuid(), replicas)
            state.topics[name] = topic
            state.topic_ids[topic.id] = topic
