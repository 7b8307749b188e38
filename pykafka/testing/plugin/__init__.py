"""The pytest plugin: fixtures of a Kafka cluster for tests, the marker `kafka`, and a section in the report of failed tests.

pytest loads it in each of its runs, by the entry point `pykafka`, so it imports nothing of the client until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pykafka.testing.plugin.marker import HELP, Wishes, refuse

if TYPE_CHECKING:
    from pykafka.aio import KafkaClient as AioClient
    from pykafka.client import KafkaClient
    from pykafka.testing.plugin.clusters import Cluster, KafkaClock
    from pykafka.testing.plugin.deliveries import Deliveries
    from pykafka.testing.plugin.report import Recorder
    from pykafka.testing.plugin.restored import Before

FIXTURES = frozenset(
    {
        *("kafka_cluster", "kafka_client", "kafka_aio_client", "kafka_topic", "kafka_clock"),
        *("kafka_handler", "assert_delivered", "consume_all"),
    }
)
SCOPES = ("function", "class", "module", "session")
HANDLERS = ("threads", "gevent")


class Kept(NamedTuple):
    """The cluster of a node of pytest, and what belongs to it."""

    cluster: Cluster
    wishes: Wishes
    recorder: Recorder


KEPT = pytest.StashKey[Kept]()
AIO = pytest.StashKey["AioClient"]()
ITEM = pytest.StashKey[pytest.Item]()
BEFORE: pytest.StashKey[Before] = pytest.StashKey()
#: Whether what is changed from now on is the test's own; and whether a fixture of others is being set up all the same.
OWN = pytest.StashKey[bool]()
OTHERS = pytest.StashKey[bool]()
SECTION = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("kafka", "tests with a Kafka cluster (pykafka)")
    group.addoption(
        *("--kafka-hosts",),
        metavar="HOST:PORT,...",
        help="run tests on this cluster, and skip those that need the fake one: faults, its clock, versions, configurations",
    )
    parser.addini("kafka_cluster_scope", f"scope of the fixture kafka_cluster: {', '.join(SCOPES)}", default=SCOPES[0])
    parser.addini("kafka_handler", f"concurrency of kafka_client: {' or '.join(HANDLERS)}", default=HANDLERS[0])


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the options."""
    config.addinivalue_line("markers", HELP)
    for name, choices in {"kafka_cluster_scope": SCOPES, "kafka_handler": HANDLERS}.items():
        if config.getini(name) not in choices:
            raise pytest.UsageError(f"{name} is {config.getini(name)!r}: one of {', '.join(choices)}")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return a line with the real cluster, if tests run on one."""
    hosts = config.getoption("kafka_hosts")
    return f"kafka: tests run on {hosts}; those that need the fake cluster are skipped" if hosts else None


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getini("kafka_cluster_scope")


def _uses_ours(item: pytest.Item) -> bool:
    """Return whether a test uses a fixture of this plugin, and not one of its project that has the same name."""
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return any(known[name][-1].func.__module__ == __name__ for name in FIXTURES if known.get(name))


def _may_use(item: pytest.Item) -> bool:
    """Return whether a test uses the fixture, or may ask for it meanwhile: by `request.getfixturevalue("kafka_cluster")`."""
    return not {"kafka_cluster", "request"}.isdisjoint(getattr(item, "fixturenames", ()))


def _found(item: pytest.Item) -> Kept | None:
    """Return what is kept of the cluster that a test would find; None if there is none yet."""
    return next((node.stash[KEPT] for node in reversed(item.listchain()) if KEPT in node.stash), None)


def _kept(item: pytest.Item) -> Kept | None:
    """Return what is kept of the cluster of a test; None if it uses none, and has asked for none so far."""
    request = getattr(item, "_request", None)  # it knows what the test has asked for, too
    names: Collection[str] = getattr(request or item, "fixturenames", ())
    return _found(item) if "kafka_cluster" in names or KEPT in item.stash else None


@pytest.fixture(scope=_scope)
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A Kafka cluster: a `pykafka.testing.FakeCluster`, or the one of --kafka-hosts. The marker `kafka` says which brokers.

    A new one for each test, unless the ini option kafka_cluster_scope says otherwise.
    """
    from pykafka.testing.plugin.clusters import add_topics, opened
    from pykafka.testing.plugin.report import Recorder

    node, wishes = request.node, Wishes.of(request.node)
    with opened(wishes, request.config.getoption("kafka_hosts")) as cluster:
        node.stash[KEPT] = Kept(cluster, wishes, Recorder(cluster))
        if node is not request.config.stash.get(ITEM, node):  # its tests share it; this is for the first one
            add_topics(cluster, Wishes.of(request.config.stash[ITEM]))
        yield cluster
        del node.stash[KEPT]


@pytest.fixture
def kafka_handler(request: pytest.FixtureRequest) -> str:
    """The concurrency of `kafka_client`, "threads" or "gevent": of the marker, else of the ini option kafka_handler."""
    return Wishes.of(request.node).handler or str(request.config.getini("kafka_handler"))


@pytest.fixture
def kafka_client(kafka_cluster: Cluster, kafka_handler: str) -> Iterator[KafkaClient]:
    """A `pykafka.KafkaClient` of the cluster, which the end of the test closes."""
    from pykafka.testing.plugin.clusters import connect

    with connect(kafka_cluster, kafka_handler) as client:
        yield client


@pytest.fixture
def kafka_aio_client(kafka_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[AioClient]:
    """A `pykafka.aio.KafkaClient` of the cluster, connected to the event loop of an async test, and closed at its end.

    It works with whatever runs the test: pytest-asyncio, anyio. Async fixtures connect it by `await kafka_aio_client`.
    """
    from pykafka.aio import KafkaClient
    from pykafka.testing.plugin.loops import end

    client = request.node.stash[AIO] = KafkaClient(kafka_cluster.hosts)
    yield client
    del request.node.stash[AIO]
    end(client)


@pytest.fixture
def kafka_topic(kafka_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a new topic, made of the test's name; the marker says how many partitions it has."""
    from pykafka.testing.plugin.clusters import create_topic, topic_name

    name = topic_name(request.node.name)
    create_topic(kafka_cluster, name, Wishes.of(request.node))
    return name


@pytest.fixture
def kafka_clock(kafka_cluster: Cluster) -> KafkaClock:
    """The clock of the fake brokers: `advance(seconds)`, `now()`."""
    from pykafka.testing.plugin.clusters import KafkaClock

    return KafkaClock(kafka_cluster)


@pytest.fixture
def _kafka_deliveries(kafka_cluster: Cluster, kafka_handler: str) -> Deliveries:
    from pykafka.testing.plugin.deliveries import Deliveries

    return Deliveries(kafka_cluster, kafka_handler)


@pytest.fixture
def assert_delivered(_kafka_deliveries: Deliveries) -> Callable[..., Any]:
    """A function that waits until a topic has some records: see `Deliveries.assert_delivered`."""
    return _kafka_deliveries.assert_delivered


@pytest.fixture
def consume_all(_kafka_deliveries: Deliveries) -> Callable[..., Any]:
    """A function that returns all records that a topic has by now: see `Deliveries.consume_all`."""
    return _kafka_deliveries.consume_all


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse what the marker misspells; skip a test that the real cluster cannot run; keep what tests before have left."""
    item.config.stash[ITEM] = item
    if _uses_ours(item):
        wishes = Wishes.of(item)
        hosts = item.config.getoption("kafka_hosts")
        if hosts and wishes.of_fake:
            pytest.skip(f"needs the fake cluster for kafka({wishes.of_fake}=...), and runs on {hosts}")
        kept = _kept(item)
        # A cluster that is there already is shared: fixtures find it as the first test did, with the topics of this test.
        if kept is not None:
            from pykafka.testing.plugin.clusters import add_topics

            add_topics(kept.cluster, wishes)
    if _may_use(item):
        _keep(item)


def _keep(item: pytest.Item) -> None:
    """Remember the state of a test's cluster, which the end of the test restores."""
    kept = _found(item)
    if kept is not None:
        from pykafka.testing.plugin.restored import Before

        item.stash[BEFORE] = Before(kept.cluster)


def _begin_own(item: pytest.Item) -> None:
    """Take what is changed on the cluster from now on for the test's own; it ends behind the fixtures of the test."""
    if OWN not in item.stash and _may_use(item):
        item.stash[OWN] = True
        item.addfinalizer(partial(_end_own, item))  # the first one, so it comes behind those of its fixtures


def _end_own(item: pytest.Item) -> None:
    del item.stash[OWN]
    _restore(item)


def _restore(item: pytest.Item) -> None:
    """End the faults of a test, and put back what else it has changed on its cluster."""
    kept, before = _kept(item), item.stash.get(BEFORE, None)
    if kept is not None and before is not None:
        from pykafka.testing.plugin.clusters import heal

        heal(kept.cluster)
        before.restore()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Keep what fixtures of classes, modules and the session do to a cluster, as its other tests expect it."""
    item = request.config.stash.get(ITEM, None)
    if item is None:
        return (yield)
    if fixturedef.scope == "function":
        _begin_own(item)
        return (yield)
    before = item.stash.get(BEFORE, None)
    if before is None or OWN not in item.stash:  # all that was changed until now is for the other tests, too
        result = yield
        _keep(item)
    elif OTHERS in item.stash:  # for another of these fixtures
        result = yield
    else:
        item.stash[OTHERS] = True
        try:
            changes = before.begin()
            result = yield
            changes.end()
        finally:
            del item.stash[OTHERS]
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Set the marker's faults up for the test function; at its end take all faults away, so that clients can close."""
    kept = _kept(item)
    _begin_own(item)
    if kept is None:
        if "kafka_cluster" in getattr(item, "fixturenames", ()) and Wishes.of(item).faults:
            refuse("has faults, which a fixture kafka_cluster of your own does not set up: call its methods")
        return (yield)
    from pykafka.testing.plugin.clusters import check_topics, inject, raise_hook_error

    if BEFORE not in item.stash:  # no other test shares it
        _keep(item)
    with ExitStack() as ends:
        ends.callback(_restore, item)
        try:
            wishes = Wishes.of(item)
            wishes.check_cluster(kept.wishes)
            check_topics(kept.cluster, wishes)
            inject(kept.cluster, wishes.faults)
            if AIO in item.stash:
                from pykafka.testing.plugin.loops import connected

                ends.enter_context(connected(item, item.stash[AIO]))
            result = yield
            raise_hook_error(kept.cluster)
            return result
        except (Exception, pytest.fail.Exception):
            item.stash[SECTION] = kept.recorder.text()
            raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Restore what the test has changed on the cluster, and fail it by errors of its hooks that came since its end."""
    kept = _kept(item)
    _restore(item)  # also if a fixture failed, so that the test function was not called
    try:
        result = yield
    finally:
        if BEFORE in item.stash:  # it refers to the cluster
            del item.stash[BEFORE]
    if kept is not None:
        from pykafka.testing.plugin.clusters import raise_hook_error

        raise_hook_error(kept.cluster)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the cluster's last requests and faults to the report of a failed test."""
    report = yield
    kept = _kept(item)
    if report.failed and kept is not None:
        text = item.stash.get(SECTION, None) if call.when == "call" else kept.recorder.text()
        report.sections.append(("Kafka cluster", text or kept.recorder.text()))
    return report
