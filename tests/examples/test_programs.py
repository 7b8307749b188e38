"""The short examples: each is run as its users would."""

from __future__ import annotations

import http.client
import signal
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.support.programs import Program, program, run


def values(hosts: str, name: str, count: int) -> set[bytes]:
    """Return what a topic holds, once that is `count` messages."""
    with KafkaClient(hosts) as client, client.topics[name].get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
        found = []
        for message in consumer:
            assert message.value is not None
            found.append(message.value)
            if len(found) == count:
                break
    assert len(found) == len(set(found)) == count
    return set(found)


@pytest.mark.needs("share groups")
def test_share_group(kafka: KafkaCluster) -> None:
    name = f"jobs-{uuid.uuid4().hex[:8]}"
    status, output = run("examples.share_group", "--hosts", kafka.hosts, "--topic", name, "--group", name)
    assert status == 0, output
    assert "100 jobs done" in output


def test_threaded_script(hosts: str) -> None:
    """It consumes what it produced; run again, only what is new."""
    name = f"numbers-{uuid.uuid4().hex[:8]}"
    options = ("--hosts", hosts, "--topic", name, "--group", name, "--count", "1200")
    for _ in range(2):
        status, output = run("examples.threaded_script", *options)
        assert status == 0, output
        assert "produced 1200 messages, 0 failed" in output
        assert "consumed 1200 messages" in output


def test_worker_pool(hosts: str) -> None:
    """Each job is done, and its result produced once."""
    jobs, results = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("jobs", "results"))
    with KafkaClient(hosts) as client, client.topics[jobs].get_producer(linger_ms=10) as producer:
        for number in range(500):
            producer.produce(b"%d" % number)
    options = ("--hosts", hosts, "--jobs", jobs, "--results", results, "--group", jobs)
    status, output = run("examples.worker_pool", *options, "--until-idle")
    assert status == 0, output
    assert "500 jobs done, none left" in output
    done = values(hosts, results, 500)
    assert {value.split()[0] for value in done} == {b"%d" % number for number in range(500)}


@pytest.mark.kafka
def test_exactly_once(kafka: KafkaCluster) -> None:
    """Each order has its invoice once, and a second run finds nothing to do."""
    hosts = kafka.hosts
    orders, invoices = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "invoices"))
    with KafkaClient(hosts) as client, client.producer() as producer:
        producer.produce_many(orders, [b"%d" % number for number in range(500)])
    options = ("--hosts", hosts, "--orders", orders, "--invoices", invoices, "--group", orders, "--id", orders)
    for count in (500, 0):
        status, output = run("examples.exactly_once", *options, "--timeout", "3000")
        assert status == 0, output
        assert f"{count} orders" in output
    with (
        KafkaClient(hosts) as client,
        client.consumer(invoices, isolation_level="read_committed", consumer_timeout_ms=2000) as consumer,
    ):
        assert sorted(record.value or b"" for record in consumer) == sorted(b"invoice for %d" % n for n in range(500))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_worker_pool_ends_on_signal(hosts: str, number: signal.Signals) -> None:
    """Told to end while it waits for jobs, it does so at once."""
    name = f"jobs-{uuid.uuid4().hex[:8]}"
    with KafkaClient(hosts) as client, client.topics[name].get_sync_producer() as producer:
        producer.produce(b"one")
    options = ("--hosts", hosts, "--jobs", name, "--results", name + "-r", "--group", name)
    with program("examples.worker_pool", *options) as pool:
        pool.wait_for("1 jobs done")
        sent = time.monotonic()
        pool.signal(number)
        assert pool.wait(10) in (128 + number, -number), pool.output
        assert time.monotonic() - sent < 5


@contextmanager
def server(hosts: str, topic: str) -> Iterator[tuple[Program, http.client.HTTPConnection]]:
    """Run the gevent server, and connect to it."""
    options = ("--hosts", hosts, "--topic", topic, "--port", "0")
    with program("examples.gevent_server", *options) as running:
        port = int(running.wait_for("listening at").rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
        try:
            yield running, connection
        finally:
            connection.close()


def test_gevent_server(hosts: str) -> None:
    """Posted events reach the listeners; on SIGTERM the server ends its streams and itself."""
    topic = f"requests-{uuid.uuid4().hex[:8]}"
    with server(hosts, topic) as (running, connection):
        listener = http.client.HTTPConnection("127.0.0.1", connection.port, timeout=15)
        listener.request("GET", "/events")
        events = listener.getresponse()
        assert events.getheader("Content-Type") == "text/event-stream"
        assert events.readline() == b": listening\n"
        bodies = [b"hello", b"two\nlines", "grüße".encode()]
        for body in bodies:
            connection.request("POST", "/", body)
            answer = connection.getresponse()
            assert answer.status == 201
            assert answer.read().startswith(b"partition ")
        expected = [b"data: " + line for body in bodies for line in body.splitlines()]
        lines: list[bytes] = []
        while len(lines) < len(expected):
            line = events.readline().rstrip(b"\n")
            if line.startswith(b"data: "):
                lines.append(line)
        assert sorted(lines) == sorted(expected)
        sent = time.monotonic()
        running.signal(signal.SIGTERM)
        assert running.wait(15) == 0, running.output
        assert time.monotonic() - sent < 5
        events.close()
        listener.close()
    assert "Traceback" not in running.output
    assert values(hosts, topic, 3) == set(bodies)


def test_fastapi_service(hosts: str) -> None:
    """Orders are taken and billed; a service that starts again continues behind what it has committed."""
    customer = f"ada-{uuid.uuid4().hex[:8]}"
    for cents in (250, 100):
        command = ("uvicorn", "--port", "0", "examples.fastapi_service:app")
        with program(*command, environment={"KAFKA": hosts}) as running:
            port = int(running.wait_for("Uvicorn running on").rpartition(":")[2].split()[0])
            order = {"customer": customer, "cents": cents}
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=40) as client:
                assert client.post("/orders", json={"customer": customer}).status_code == 422
                with ThreadPoolExecutor(4) as pool:
                    answers = [pool.submit(client.post, "/orders", json=order) for _ in range(20)]
                assert {answer.result().status_code for answer in answers} == {201}
                places = [answer.result().json() for answer in answers]
                assert len({(place["partition"], place["offset"]) for place in places}) == 20
                deadline = time.monotonic() + 40
                while (answer := client.get(f"/customers/{customer}")).json()["cents"] != 20 * cents:
                    assert time.monotonic() < deadline, answer.text
                    time.sleep(0.05)
                assert client.get("/health/readyz").status_code == 200
            sent = time.monotonic()
            running.signal(signal.SIGTERM)
            assert running.wait(15) in (0, -signal.SIGTERM), running.output
            assert time.monotonic() - sent < 5
        assert "Traceback" not in running.output


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("POST", "/events", 404)])
def test_gevent_server_refuses(hosts: str, method: str, path: str, status: int) -> None:
    """The server answers unknown paths and long bodies with an error."""
    with server(hosts, f"requests-{uuid.uuid4().hex[:8]}") as (running, connection):
        for request, expected in (((method, path), status), (("POST", "/", b"x" * (512 * 1024 + 1)), 413)):
            connection.request(*request)
            answer = connection.getresponse()
            assert answer.status == expected
            answer.read()
        running.signal(signal.SIGINT)
        assert running.wait(15) == 0, running.output
