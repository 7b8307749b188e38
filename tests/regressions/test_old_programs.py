"""Programs for PyKafka 2 run under 2.8.0 and under ours, on one broker: they print, store and commit the same.

The programs are in tests/support/oldprograms, written in the manner of public ones. Each is called with the addresses of a
broker and of ZooKeeper, a topic of two partitions, a group, the broker's addresses for TLS, and the file of its authority. What
differs stands in `ALLOWED`, with its reason, and in docs/migrating.md.
"""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.support.oldpykafka import old_python, run_new, run_old
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

PROGRAMS = sorted((Path(__file__).parents[1] / "support" / "oldprograms").glob("*.py"))
#: 2.8.0 mostly waits: for `linger_ms` when a producer stops, for instance.
AT_A_TIME = 8
#: Groups that the programs use, by what they put behind the name that they were given.
GROUPS = ("", "-m", "-z")
#: What marks names and metadata as bytes in a `repr`: ours are text that is equal to those bytes.
NAMES = re.compile('b(?=\'(?:TOPIC|GROUP|/?127|note|{"consumer_id"))')
#: A time of before this (ms) was set by the program itself.
OWN_TIMES = 1_600_000_000_000

#: {program: [(line of 2.8.0, line of ours, reason)]}, with the parts that differ from run to run replaced.
ALLOWED: dict[str, list[tuple[str, str, str]]] = {
    "balanced": [("stopped [(0, 4), (1, 4)] [0, 1]", "stopped [] []", "others may own the partitions by then")],
    "quickstart": [("'TOPIC' TOPIC <class 'dict'> [0, 1]", "TOPIC TOPIC <class 'dict'> [0, 1]", "names are text")],
    "refusals": [
        ("no group to commit Exception", "no group to commit KafkaException", "an error of the library has its class"),
        ("no group to fetch Exception", "no group to fetch KafkaException", "an error of the library has its class"),
        ("offset of no partition KafkaException", "offset of no partition TypeError", "it is no Partition"),
        ("group not ASCII UnicodeException", "group not ASCII returned SimpleConsumer", "Kafka takes such names"),
        ("topic not ASCII UnicodeException", "topic not ASCII KeyError", "all topics that are not there are KeyErrors"),
        ("no topic name protocol error 17", "no topic name KeyError", "all topics that are not there are KeyErrors"),
        ("bad hosts Exception", "bad hosts NoBrokersAvailableError", "the port is 9092 by default"),
        ("offset as text ValueError", "offset as text TypeError", "it is no number"),
        ("offset as float ValueError", "offset as float TypeError", "it is no number"),
    ],
}


class Run(NamedTuple):
    """One run of a program: its own topic and group, and how it ended."""

    topic: str
    group: str
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    old_python()
    with KafkaCluster("2.8.2", tls=True) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts) as client:
        yield client


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, cluster: KafkaCluster) -> dict[Path, list[Future[Run]]]:
    """Return the runs of the programs whose tests were selected, first that of 2.8.0; they run side by side."""
    wanted = {item.callspec.params.get("program") for item in request.session.items if hasattr(item, "callspec")}

    assert cluster.certificates is not None
    authority = str(cluster.certificates.cafile)

    def run(program: Path, under: Any) -> Run:
        topic, group = f"t-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
        with KafkaClient(cluster.hosts) as client:
            create_topic(client, 2, name=topic)
        given = cluster.hosts, cluster.zookeeper_hosts, topic, group, cluster.tls_hosts, authority
        return Run(topic, group, under(program, *given, timeout=120))

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return {
            program: [pool.submit(run, program, under) for under in (run_old, run_new)]
            for program in PROGRAMS
            if program in wanted
        }


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_it_does_the_same(
    cluster: KafkaCluster, client: KafkaClient, runs: dict[Path, list[Future[Run]]], program: Path
) -> None:
    old, new = (future.result() for future in runs[program])
    assert new.done.stderr == ""
    assert new.done.returncode == old.done.returncode, old.done.stderr
    expected = printed(old, cluster)
    for before, now, _ in ALLOWED.get(program.stem, ()):
        assert before in expected, "PyKafka 2.8.0 does not print that any more; remove it from ALLOWED"
        expected[expected.index(before)] = now
    assert printed(new, cluster) == expected
    assert stored(client, new.topic) == stored(client, old.topic)
    assert committed(client, new) == committed(client, old)


def printed(run: Run, cluster: KafkaCluster) -> list[str]:
    """Return the lines that a program printed, without names, addresses and ids of this run."""
    text = run.done.stdout
    for name, place in (
        (run.topic, "TOPIC"),
        (run.group, "GROUP"),
        (cluster.hosts, "HOSTS"),
        (cluster.tls_hosts, "HOSTS"),
    ):
        text = text.replace(name, place)
    return without_ids(NAMES.sub("", text)).splitlines()


def without_ids(text: str) -> str:
    """Return a text with a word in the place of each address in memory and each UUID."""
    return re.sub(r"0x[0-9a-f]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)


def stored(client: KafkaClient, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """Return the messages of a topic, in order, by partition."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    ends = {id_: offsets.offset[0] for id_, offsets in client.topics[topic].latest_available_offsets().items()}
    with ExitStack() as stack:
        consumer = stack.enter_context(client.topics[topic].get_simple_consumer(consumer_timeout_ms=30_000))
        for _ in range(sum(ends.values())):
            message = consumer.consume()
            assert message is not None
            own = message.timestamp if message.timestamp is not None and message.timestamp < OWN_TIMES else None
            found.setdefault(message.partition_id, []).append((message.partition_key, message.value, own))
    return found


def committed(client: KafkaClient, run: Run) -> list[tuple[str, int, int, str]]:
    """Return what the groups of a run have committed: (group, partition, offset, metadata)."""
    found = []
    for suffix in GROUPS:
        reader = client.topics[run.topic].get_simple_consumer(
            run.group + suffix, auto_start=False, reset_offset_on_fetch=False
        )
        for id_, response in reader.fetch_offsets():
            found.append((suffix, id_, response.offset, without_ids(response.metadata or "")))
    return sorted(found)
