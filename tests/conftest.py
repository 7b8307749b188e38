"""Fixtures of all tests: handlers, clusters, a watch for leftovers; the header says which implementation is loaded."""

from __future__ import annotations

import gc
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

import pykafka
from pykafka import compiled
from pykafka.embedded import EmbeddedCluster
from pykafka.handlers import AsyncioHandler, GEventHandler, Handler, ThreadingHandler
from tests.brokers import KafkaCluster, Sasl
from tests.support import diagnosis, loops, shared, virtual
from tests.support.features import KAFKA_VERSION, obstacle
from tests.support.leftovers import Belongings, left_since
from tests.support.protocols import GROUP_PROTOCOL, make_default

# How long an example takes says more about the machine's load than about the code; pytest-timeout watches the whole.
settings.register_profile("pykafka", deadline=None, print_blob=True)
settings.load_profile("pykafka")

# A shell starts what runs in its background with SIGINT ignored, and every child would inherit that: the tests that
# interrupt a program want it as a terminal gives it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: How many tests need what the shared brokers have not got.
LEFT_OUT = pytest.StashKey[Counter[str]]()
#: The file of the last test, and how many tests have run since `set_aside` did something.
BEFORE = pytest.StashKey[tuple[Path, int]]()
SET_ASIDE_AFTER = 250
HANDLERS = {"threads": ThreadingHandler, "gevent": GEventHandler}
CONCURRENCY: dict[str, Callable[[], dict[str, Any]]] = {"threads": dict, "greenlets": lambda: {"use_greenlets": True}}


def pytest_report_header() -> str:
    """Return a line that says whether the run tests compiled modules or their sources."""
    members = "" if GROUP_PROTOCOL == "auto" else f", members {GROUP_PROTOCOL}"
    return f"pykafka {pykafka.__version__}: {compiled.describe()}; real brokers are Kafka {KAFKA_VERSION}{members}"


def pytest_configure() -> None:
    """Make the protocol that GROUP_PROTOCOL names the default of consumers."""
    make_default()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs tests of clients on an event loop."""
    parser.addoption("--concurrency", choices=loops.KINDS, help="run the tests of clients on this event loop instead")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of clients and handlers on what `--concurrency` names; those of clients that are marked, on asyncio as well."""
    chosen = metafunc.config.getoption("--concurrency")
    if "concurrency" in metafunc.fixturenames:
        kinds = [*CONCURRENCY, *(("asyncio",) if metafunc.definition.get_closest_marker("on_asyncio") else ())]
        metafunc.parametrize("concurrency", [chosen] if chosen else kinds, indirect=True)
    own = "handler" in metafunc.fixturenames and metafunc._arg2fixturedefs["handler"][-1].params is None
    if own and not any("handler" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")):
        metafunc.parametrize("handler", [chosen] if chosen else list(HANDLERS), indirect=True)


@pytest.fixture
def concurrency(request: pytest.FixtureRequest) -> Callable[[], dict[str, Any]]:
    """Return what makes the options of a client on each kind of concurrency in turn."""
    kind: str = request.param
    return CONCURRENCY.get(kind, lambda: {"handler": AsyncioHandler()})


@pytest.fixture
def handler(request: pytest.FixtureRequest) -> Handler:
    """Return each handler in turn."""
    return HANDLERS.get(request.param, AsyncioHandler)()


@pytest.fixture
def embedded() -> Iterator[EmbeddedCluster]:
    """Yield a fresh embedded cluster of three brokers."""
    with EmbeddedCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """Yield the one real broker that the whole run shares: use topics of your own, and leave it up."""
    with KafkaCluster(KAFKA_VERSION) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka3() -> Iterator[KafkaCluster]:
    """Yield three real brokers that the whole run shares; whoever stops one starts it again."""
    with shared.shared("kafka3", KafkaCluster(KAFKA_VERSION, brokers=3)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secure() -> Iterator[KafkaCluster]:
    """Yield the one real broker with a TLS listener beside the plain one, which the whole run shares."""
    with shared.shared("secure", KafkaCluster(KAFKA_VERSION, tls=True)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secure_kafka() -> Iterator[KafkaCluster]:
    """Yield the one real broker with listeners for SASL, which the whole run shares: log in as `user` with `password`."""
    with shared.shared("secure_kafka", KafkaCluster(KAFKA_VERSION, sasl=Sasl())) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def quick_spark() -> Iterator[None]:
    """Make the JVMs of Spark that tests and their programs start from now on start quickly."""
    from tests.support.spark.classes import quick_starts  # not everybody has Spark

    with quick_starts(make=True):
        yield


@pytest.fixture(autouse=True)
def no_leftovers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail when a test leaves a thread, a greenlet, a child process or a descriptor behind."""
    before = Belongings()
    yield
    # A Spark session is shared by many tests, and opens sockets to its JVM whenever it likes.
    if request.node.get_closest_marker("spark") is None:
        # Brokers that a test has started again belong to the cluster that the whole run shares.
        kept = {"kafka3", "racks", "fleet", "receiving", "pair"} & set(request.fixturenames)
        left = left_since(before, processes=not kept)
        assert not left, f"left behind: {'; '.join(left)}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that start JVMs, and deselect those that the shared brokers cannot run."""
    left_out: dict[pytest.Item, str] = {}
    for item in items:
        # Which of a test's cases take longer than what they add to the others is worth to whoever waits.
        later = [name for mark in item.iter_markers("later") for name in mark.args]
        if any(name in item.name for name in later):
            item.add_marker("matrix")
        if {"kafka", "kafka3", "secure", "secure_kafka"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")
        needed, lacked = (
            [name for mark in item.iter_markers(kind) for name in mark.args] for kind in ("needs", "lacks")
        )
        reason = obstacle(needed, lacked)
        if reason is None and loops.kind_of(item) is not None:
            reason = next((mark.args[0] for mark in item.iter_markers("no_loop")), None)
        elif reason is None and virtual.is_virtual(item):
            reason = virtual.obstacle(item)
        if reason is not None:
            left_out[item] = reason
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    config.stash[LEFT_OUT] = Counter(left_out.values())
    items[:] = shared.in_order(items)


def set_aside(item: pytest.Item) -> None:
    """Take what has piled up, mostly reports of tests, out of later collections of garbage.

    At the begin of a file nothing is left of the fixtures of the one before. After ten thousand tests a collection would
    take a third of a second.

    :param item: the test that is about to run
    """
    path, tests = item.config.stash.get(BEFORE, (item.path, 0))
    if item.path != path and tests >= SET_ASIDE_AFTER:
        gc.collect()
        gc.freeze()
        tests = 0
    item.config.stash[BEFORE] = (item.path, tests + 1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run tests of asyncio on a loop of their own, and those in virtual time in a scheduler, with their fixtures."""
    set_aside(item)
    kind = loops.kind_of(item)
    if kind is None and not virtual.is_virtual(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if kind is None:
        virtual.run(lambda: runtestprotocol(item, nextitem=nextitem))
    else:
        loops.run(lambda: runtestprotocol(item, nextitem=nextitem), kind=kind)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Close shared clusters behind the last test that takes them."""
    try:
        return (yield)
    finally:
        shared.close_after(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add facts on clients and brokers to the report of a failed test, while they are there."""
    report = yield
    if report.failed and call.when == "call":
        brokers = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, KafkaCluster)]
        try:
            told = diagnosis.describe(brokers)
        except Exception as error:  # noqa: BLE001 - the test's own failure is what matters
            told = f"could not be said: {error!r}"
        report.sections.append(("Clients, brokers and the machine", told))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many tests were deselected, and why."""
    for reason, count in config.stash.get(LEFT_OUT, Counter()).items():
        terminalreporter.write_line(f"left out on Kafka {KAFKA_VERSION}: tests that {reason}: {count}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exit with one sentence if a selected test needs Java and there is none."""
    # Thousands of tests and all that they import live to the end: without them a collection of garbage, which tests of
    # what is left over ask for by the dozen, takes a hundredth of the time.
    gc.collect()
    gc.freeze()
    shared.note_last(session.items)
    needed = any(item.get_closest_marker("kafka") or item.get_closest_marker("spark") for item in session.items)
    if needed and shutil.which("java") is None and not session.config.option.collectonly:
        pytest.exit("there is no `java` here: install a JDK 17 (`make test-fast` runs what needs none)", returncode=1)
