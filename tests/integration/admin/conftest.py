"""Clusters and clients of the tests of `client.admin`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from pykafka.admin import Admin, NewTopic
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.loops import Concurrency


def unique(kind: str) -> str:
    """Return a name that nobody else has."""
    return f"{kind}-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="package")
def guarded() -> Iterator[KafkaCluster]:
    """Yield a broker with an authorizer, two log directories, and without the check of transactions that KIP-890 brought."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "transaction.partition.verification.enable": "false",
    }
    with KafkaCluster(KAFKA_VERSION, config=config) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Yield two brokers with two directories each, which tests may pause."""
    base = tmp_path_factory.mktemp("disks")
    each = {id_: {"log.dirs": f"{base}/{id_}-a,{base}/{id_}-b"} for id_ in (1, 2)}
    with KafkaCluster(KAFKA_VERSION, brokers=2, each=each) as cluster:
        yield cluster


@pytest.fixture
def client3(concurrency: Concurrency, kafka3: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client of three brokers, on threads and on greenlets."""
    with KafkaClient(hosts=kafka3.hosts, **concurrency()) as client:
        yield client


@pytest.fixture
def admin(client3: KafkaClient) -> Admin:
    """Return the administration of three brokers."""
    return client3.admin


@pytest.fixture
def keeper(concurrency: Concurrency, guarded: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client of the broker with an authorizer, on threads and on greenlets."""
    with KafkaClient(hosts=guarded.hosts, **concurrency()) as client:
        yield client


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """Yield the name of a topic with three partitions on three brokers."""
    name = unique("t")
    admin.create_topics(NewTopic(name, partitions=3, replication=3))
    yield name
    admin.delete_topics(name, raise_errors=False)
