"""What all tests share: which implementation is loaded, the handlers, the clusters, a watch for what is left over."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

import pykafka
from pykafka import _pure
from pykafka.embedded import EmbeddedCluster
from pykafka.handlers import GEventHandler, Handler, ThreadingHandler
from tests.brokers import KafkaCluster
from tests.brokers.releases import LATEST
from tests.leftovers import Belongings, left_since
from tests.topics import ZOOKEEPERS

# How long an example takes says more about the machine's load than about the code; pytest-timeout watches the whole.
settings.register_profile("pykafka", deadline=None, print_blob=True)
settings.load_profile("pykafka")

# A shell starts what runs in its background with SIGINT ignored, and every child would inherit that: the tests that
# interrupt a program want it as a terminal gives it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Which Kafka the shared brokers are: `KAFKA_VERSION=0.9.0.1 pytest tests/integration` tries another.
KAFKA_VERSION = os.environ.get("KAFKA_VERSION", LATEST)
HANDLERS = {"threads": ThreadingHandler, "gevent": GEventHandler}


def kafka_since(*version: int) -> bool:
    """Tell whether the shared brokers are of this release or a later one."""
    return tuple(map(int, KAFKA_VERSION.split("."))) >= version


def pytest_report_header() -> str:
    """Say which form of the compiled modules the run is about to test."""
    return f"pykafka {pykafka.__version__}: {_pure.describe()}; real brokers are Kafka {KAFKA_VERSION}"


@pytest.fixture(params=list(HANDLERS))
def handler(request: pytest.FixtureRequest) -> Handler:
    """Give each handler in turn."""
    return HANDLERS[request.param]()


@pytest.fixture
def embedded() -> Iterator[EmbeddedCluster]:
    """Give a fresh embedded cluster of three brokers."""
    with EmbeddedCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """Give the one real broker that the whole run shares: use topics of your own, and leave it up."""
    with KafkaCluster(KAFKA_VERSION) as cluster:
        ZOOKEEPERS.update(dict.fromkeys(cluster.ports.values(), cluster.zookeeper_hosts))
        yield cluster


@pytest.fixture(scope="session")
def kafka3() -> Iterator[KafkaCluster]:
    """Give three real brokers that the whole run shares; whoever stops one starts it again."""
    with KafkaCluster(KAFKA_VERSION, brokers=3) as cluster:
        ZOOKEEPERS.update(dict.fromkeys(cluster.ports.values(), cluster.zookeeper_hosts))
        yield cluster


@pytest.fixture(autouse=True)
def no_leftovers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail when a test leaves a thread, a greenlet, a child process or a descriptor behind."""
    before = Belongings()
    yield
    # A Spark session is shared by many tests, and opens sockets to its JVM whenever it likes.
    if request.node.get_closest_marker("spark") is None:
        # Brokers that a test has started again belong to the cluster that the whole run shares.
        left = left_since(before, processes="kafka3" not in request.fixturenames)
        assert not left, f"left behind: {'; '.join(left)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts JVMs, so that it can be left out, and stop early and by name where there is no Java."""
    for item in items:
        if {"kafka", "kafka3"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Say at once, in one sentence, that there is no Java, where a test that was chosen needs one."""
    needed = any(item.get_closest_marker("kafka") or item.get_closest_marker("spark") for item in session.items)
    if needed and shutil.which("java") is None and not session.config.option.collectonly:
        pytest.exit("there is no `java` here: install a JDK 17 (`make test-fast` runs what needs none)", returncode=1)
