"""The clusters of tests: a fake one as the marker wishes, or a real one; faults for one test function; topics; the clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

from pykafka.admin import NewTopic
from pykafka.client import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler, ThreadingHandler
from pykafka.testing.arguments import whole
from pykafka.testing.configs import check
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.plugin.marker import Wishes, refuse
from pykafka.testing.releases import NEWEST, release
from pykafka.testing.settings import TOPIC_SETTINGS
from pykafka.testing.static import STATIC, set_static

#: Kafka's limit for the name of a topic, less what makes it unique.
_NAME_MAX = 249 - 9


def handler_of(name: str) -> Handler:
    """Return a new handler: "threads" or "gevent"."""
    if name == "threads":
        return ThreadingHandler()
    from pykafka.handlers import GEventHandler

    return GEventHandler()


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Refuse the marker if the block raises an error.

    :param what: the argument of the marker
    """
    try:
        yield
    except (KafkaException, TypeError, ValueError) as error:
        refuse(f"has {what}: {error}")


class RealCluster:
    """The cluster of --kafka-hosts. What `FakeCluster` has and this one cannot do skips the test.

    :param hosts: of its brokers
    """

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self._created: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if hasattr(FakeCluster, name):
            pytest.skip(f"uses kafka_cluster.{name}, which the real cluster {self.hosts} has not")
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def create_topic(self, name: str, partitions: int = 4, replication_factor: int = 1, **configs: Any) -> None:
        """Create a topic, which `close` deletes.

        :raises TopicAlreadyExists: there is one, which is left alone
        """
        with KafkaClient(self.hosts) as client:
            new = NewTopic(name, partitions, min(replication_factor, len(client.brokers)), configs=configs)
            client.admin.create_topics(new)
        self._created.append(name)

    def close(self) -> None:
        """Delete the topics that tests have created."""
        if self._created:
            with KafkaClient(self.hosts) as client:
                client.admin.delete_topics(self._created)


Cluster: TypeAlias = FakeCluster | RealCluster


@contextmanager
def opened(wishes: Wishes, hosts: str | None) -> Iterator[Cluster]:
    """Open a cluster as a test wishes, with its topics, and close it.

    :param hosts: of a real one; None: a fake one
    """
    cluster = RealCluster(hosts) if hosts else _fake(wishes)
    try:
        if isinstance(cluster, FakeCluster):
            # Brokers take 6 s and more, which every test of a member that dies would wait.
            cluster.set_group_settings(min_session_timeout_ms=1)
            with refused("config"), cluster._locked() as state:
                for name in STATIC.keys() & wishes.config.keys():
                    set_static(state, name, _text(wishes.config[name]))
        for name, told in wishes.topics.items():
            create_topic(cluster, name, wishes, told)
        yield cluster
    finally:
        cluster.close()


def _fake(wishes: Wishes) -> FakeCluster:
    with refused("config"):
        check(_of_topics(wishes), TOPIC_SETTINGS, "topic")
    with refused(f"version {wishes.version!r}"):
        version = release(wishes.version or NEWEST.name).name
    return FakeCluster(wishes.brokers, as_version=version, default_partitions=wishes.partitions)


def _of_topics(wishes: Wishes) -> dict[str, str]:
    return {name: _text(value) for name, value in wishes.config.items() if name not in STATIC}


def _text(value: object) -> str:
    """Return the value of a setting as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def create_topic(cluster: Cluster, name: str, wishes: Wishes, told: int | Mapping[str, Any] | None = None) -> None:
    """Create a topic, as the marker says, with three replicas if there are so many brokers.

    :param told: its number of partitions, or its configuration, which may name "partitions"; None: the defaults
    """
    own = _settings_of(told)
    partitions = own.pop("partitions", wishes.partitions)
    configs = _of_topics(wishes) | {key: _text(value) for key, value in own.items()}
    with refused(f"topic {name!r}"):
        check(configs, TOPIC_SETTINGS, "topic")
        whole("partitions", partitions, 1)
        if isinstance(cluster, RealCluster):
            cluster.create_topic(name, partitions, 3, **configs)
            return
        cluster.create_topic(name, partitions, min(3, len(cluster.broker_ids)))
    if configs:
        with cluster._locked() as state:
            state.topics[name].configs.update(configs)


def _settings_of(told: int | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the marker says of a topic; see `create_topic`."""
    return dict(told) if isinstance(told, Mapping) else {} if told is None else {"partitions": told}


def topic_name(test: str) -> str:
    """Return a name for a topic that no other test has."""
    number = ThreadingHandler().random.getrandbits(32)
    return f"{re.sub(r'[^a-zA-Z0-9._-]+', '-', test).strip('-')[:_NAME_MAX]}-{number:08x}"


def connect(cluster: Cluster, handler: str) -> KafkaClient:
    """Return a client of a cluster.

    :param handler: "threads" or "gevent"
    :raises ValueError: it is neither; a fixture or a parameter of the project may be called kafka_handler
    """
    if handler not in ("threads", "gevent"):
        raise ValueError(f'kafka_handler is {handler!r}: "threads" or "gevent"; coroutines take kafka_aio_client')
    greenlets = handler == "gevent"
    played = cluster._state.release if isinstance(cluster, FakeCluster) else NEWEST
    if played.numbers < (0, 10):  # brokers that do not list what they speak
        return KafkaClient(cluster.hosts, use_greenlets=greenlets, broker_version=played.name)
    return KafkaClient(cluster.hosts, use_greenlets=greenlets)


def add_topics(cluster: Cluster, wishes: Wishes) -> None:
    """Create the topics of a test's marker on a cluster that other tests share, unless it has them."""
    for name, told in wishes.topics.items():
        if isinstance(cluster, FakeCluster) and not cluster.has_topic(name):
            create_topic(cluster, name, wishes, told)


def check_topics(cluster: Cluster, wishes: Wishes) -> None:
    """Refuse topics of a test's marker that another test has made with other partitions or settings on a shared cluster."""
    if not isinstance(cluster, FakeCluster):
        return
    for name, told in wishes.topics.items():
        with cluster._locked() as state:
            topic = state.topics.get(name)
            there: dict[str, Any] = {} if topic is None else {"partitions": len(topic.partitions), **topic.configs}
        for key, value in _settings_of(told).items():
            has = there.get(key, value)
            if _text(has) != _text(value):
                refuse(
                    f"has topic {name!r} with {key} {_text(value)}, but tests before have left it with {key} {_text(has)} on "
                    "the cluster that they share (kafka_cluster_scope): mark all alike, or use the fixture kafka_topic"
                )


def inject(cluster: Cluster, faults: Iterable[Sequence[Any]]) -> None:
    """Set the marker's faults up: each names a method of `FakeCluster`, and has its arguments; a dict at the end names some."""
    for fault in faults:
        name, *arguments = fault
        named = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        with refused(f"fault {fault!r}"):
            getattr(cluster, name)(*arguments, **named)


def heal(cluster: Cluster) -> None:
    """End all faults of a fake cluster, so that clients can deliver and close, and the next test finds it well."""
    if isinstance(cluster, RealCluster) or cluster.is_closed:
        return
    cluster.heal()


def raise_hook_error(cluster: Cluster) -> None:
    """Raise the first error of a function that a test has given to its cluster, such as a hook: that test fails by it.

    :raises FakeClusterError: its cause is that error
    """
    if isinstance(cluster, FakeCluster) and not cluster.is_closed:
        with cluster._locked():
            cluster._faults.raise_first()


class KafkaClock:
    """The clock of fake brokers, which a test moves: sessions, transactions and retention end by it. Clients have their own.

    :param cluster: that has it
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def advance(self, seconds: float) -> None:
        """Move the clock forward (s); what is due by then happens now."""
        self._cluster.advance(seconds)

    def now(self) -> float:
        """Return the brokers' time (s since 1970)."""
        with self._cluster._locked() as state:
            return float(state.now_ms() / 1000)
