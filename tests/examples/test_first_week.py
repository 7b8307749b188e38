"""The ten programs of a team's first week: each says the same with every client."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pykafka import KafkaClient, Murmur2Partitioner
from pykafka.admin import NewTopic
from tests.support.programs import ROOT, program, run
from tests.support.registrystub import RegistryStub

pytestmark = pytest.mark.kafka

PACKAGE = "examples.first_week"
#: Programs of other clients are run in the matrix.
CLIENTS = [
    "pykafka",
    *(pytest.param(name, marks=pytest.mark.matrix) for name in ("confluent", "kafka_python", "aiokafka")),
]
COUNT = 20


@pytest.fixture
def topic() -> str:
    """Return a name that no other test has."""
    return f"week-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def hosts(kafka: object) -> str:
    """Return the addresses of a real Kafka."""
    return str(kafka.hosts)  # type: ignore[attr-defined]


@pytest.fixture
def client(hosts: str) -> Iterator[KafkaClient]:
    """Yield a client of ours, for what a program finds or leaves."""
    with KafkaClient(hosts) as client:
        yield client


def lines(subject: str, kind: str, *arguments: str) -> list[str]:
    """Run a program to its end, and return what it printed."""
    status, output = run(f"{PACKAGE}.{subject}.with_{kind}", *arguments)
    assert status == 0, output
    return [line for line in output.splitlines() if line.split(" ")[0] in FIRST_WORDS or line.isdigit()]


#: What a line of a program begins with, unless it is a number; other lines are warnings of a library.
FIRST_WORDS = {"{'stored':", "{'number':", "-now", "-later", "handled", "dead", "partitions", "retention.ms", "there"}
FIRST_WORDS |= {f"customer-{number}" for number in range(3)} | {str(number) for number in range(10)}


def make(client: KafkaClient, *names: str, partitions: int = 3) -> None:
    """Make topics."""
    client.admin.create_topics([NewTopic(name, partitions=partitions) for name in names])


@pytest.mark.parametrize("kind", CLIENTS)
def test_json_headers(hosts: str, client: KafkaClient, topic: str, kind: str) -> None:
    """Ten orders come back, with their customers and headers."""
    make(client, topic, partitions=1)
    expected = [f"customer-{number % 3} {{'order': {number}}} {{'source': b'shop'}}" for number in range(10)]
    assert lines("json_headers", kind, hosts, topic) == expected


@pytest.mark.parametrize("kind", CLIENTS)
def test_callbacks(hosts: str, client: KafkaClient, topic: str, kind: str) -> None:
    """Each message has its callback."""
    make(client, topic)
    assert lines("callbacks", kind, hosts, topic) == ["{'stored': 1000}"]


@pytest.mark.parametrize("kind", CLIENTS)
def test_pattern_pause(hosts: str, client: KafkaClient, topic: str, kind: str) -> None:
    """The topic that can wait comes last."""
    names = [f"{topic}-now", f"{topic}-later"]
    make(client, *names, f"{topic}-other", partitions=1)
    for name in (*names, f"{topic}-other"):
        with client.topics[name].get_producer(linger_ms=1) as producer:
            for number in range(3):
                producer.produce(b"%d" % number)
    expected = [f"{name.removeprefix(topic)} {number}" for name in names for number in range(3)]
    assert lines("pattern_pause", kind, hosts, topic) == expected


@pytest.mark.parametrize("kind", CLIENTS)
def test_seek_to_time(hosts: str, client: KafkaClient, topic: str, kind: str) -> None:
    """Messages before the time are left out."""
    make(client, topic)
    now = int(time.time() * 1000)
    with client.topics[topic].get_producer(linger_ms=1) as producer:
        for number in range(10):
            producer.produce(b"%d" % number, timestamp=now - 60_000 * (9 - number))
    found = lines("seek_to_time", kind, hosts, topic, str(now - 210_000))
    assert sorted(found) == ["6", "7", "8", "9"]


@pytest.mark.parametrize("kind", CLIENTS)
def test_parallel_dead_letters(hosts: str, client: KafkaClient, topic: str, kind: str) -> None:
    """Each good message is handled once, in the order of its key; the bad one is put aside."""
    make(client, topic, f"{topic}.dead")
    with client.topics[topic].get_producer(partitioner=Murmur2Partitioner(), linger_ms=1) as producer:
        for number in range(COUNT):
            producer.produce(b"bad" if number == 7 else b"%d" % number, partition_key=b"k%d" % (number % 4))
    status, output = run(f"{PACKAGE}.parallel_dead_letters.with_{kind}", hosts, topic)
    assert status == 0, output
    found = re.findall(r"handled k\d \d+|dead k3 bad", output)  # threads print their line ends apart
    good = [number for number in range(COUNT) if number != 7]
    assert found[-1] == "dead k3 bad"
    for key in range(4):
        expected = [f"handled k{key} {number}" for number in good if number % 4 == key]
        assert [line for line in found if line.startswith(f"handled k{key} ")] == expected


@pytest.mark.parametrize("kind", CLIENTS)
def test_registry_avro(hosts: str, client: KafkaClient, topic: str, kind: str) -> None:
    """Orders come back from Avro."""
    make(client, topic, partitions=1)
    with RegistryStub() as registry:
        found = lines("registry_avro", kind, hosts, topic, registry.url)
    assert found == [f"{{'number': {number}, 'city': 'Oslo'}}" for number in range(10)]


@pytest.mark.parametrize("kind", CLIENTS)
def test_admin(hosts: str, topic: str, kind: str) -> None:
    """A topic is made, changed and deleted."""
    assert lines("admin", kind, hosts, topic) == ["partitions 4", "retention.ms 60000", "there False"]


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def ask(port: int, method: str, body: bytes | None = None) -> bytes:
    """Send a request over HTTP, and return the body of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, "/", body)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return answer.read()
    finally:
        connection.close()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def answers(port: int) -> bool:
    """Return whether something listens at a port."""
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("kind", ["pykafka_threads", "pykafka_asyncio", *CLIENTS])
def test_group_beside_http(hosts: str, client: KafkaClient, topic: str, kind: str) -> None:
    """The server tells how many messages the group has read; they are committed."""
    make(client, topic)
    port = free_port()
    with program(f"{PACKAGE}.group_beside_http.with_{kind}", hosts, topic, str(port)):
        until(lambda: answers(port))
        with client.topics[topic].get_producer(linger_ms=1) as producer:
            for number in range(COUNT):
                producer.produce(b"%d" % number)
        until(lambda: ask(port, "GET") == b"%d" % COUNT)
        until(lambda: committed(client, topic) == COUNT)


def committed(client: KafkaClient, topic: str) -> int:
    """Return the sum of what a group of the topic's name has committed."""
    offsets = client.admin.list_group_offsets(topic)[topic]
    return sum(found.offset for found in offsets.values())


@pytest.mark.parametrize("kind", ["pykafka_fastapi", *CLIENTS])
def test_web(hosts: str, client: KafkaClient, topic: str, kind: str) -> None:
    """Each answer has the offset of its message."""
    make(client, topic, partitions=1)
    port = free_port()
    with program(f"{PACKAGE}.web.with_{kind}", hosts, topic, str(port)):
        until(lambda: answers(port))
        for number in range(3):
            assert ask(port, "POST", b"%d" % number).strip() == b'{"offset":%d}' % number


CELERY: Sequence[object] = [one for one in CLIENTS if "aiokafka" not in getattr(one, "values", ())]


@pytest.mark.parametrize("kind", CELERY)
def test_celery_tasks(
    hosts: str, client: KafkaClient, topic: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task's message is stored once."""
    make(client, topic)
    for name, value in {"QUEUE": str(tmp_path), "KAFKA": hosts, "TOPIC": topic}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "control").mkdir()
    module = f"{PACKAGE}.celery_tasks.with_{kind}"
    call = f"from {module} import tell\nfor number in range({COUNT}): tell.delay(number)"
    subprocess.run([sys.executable, "-c", call], cwd=ROOT, check=True, timeout=60)
    with program(
        "celery", "-A", module, "worker", "--loglevel", "INFO", "--pool", "prefork", "--concurrency", "2"
    ) as worker:
        with client.topics[topic].get_simple_consumer() as consumer:
            found = {consumer.consume().value for _ in range(COUNT)}  # type: ignore[union-attr]
        worker.wait_for("succeeded")
    assert found == {b"%d" % number for number in range(COUNT)}
