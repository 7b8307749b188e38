"""The flight recorder of clients that work: on each kind of concurrency, in a fork, at a signal, and in fatal errors."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.exceptions import InvalidProducerEpoch, KafkaException, ProducerFencedError
from pykafka.metrics.flight_timeline import FlightTimeline


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield the cluster of these tests."""
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.mark.on_asyncio
def test_a_timeline_of_a_client(client: KafkaClient, tmp_path: Path) -> None:
    with client.producer() as producer:
        for _ in range(20):
            producer.produce("flight", b"payload-x", key=b"key-x").get(timeout=20)
    client.record_flight(tmp_path / "f")
    timeline = FlightTimeline(tmp_path / "f")
    assert timeline.bad_lines == 0
    kinds = {entry.get("api", entry["kind"]) for entry in timeline.entries}
    assert {"Metadata", "Produce", "connected", "metadata", "InitProducerId"} <= kinds
    assert next(timeline.moments(kinds=["produce"])).entries > 1
    content = (tmp_path / "f").read_text()
    assert "payload-x" not in content
    assert "key-x" not in content


@pytest.mark.on_asyncio
def test_a_client_without_a_flight_recorder_says_so(
    cluster: EmbeddedCluster, concurrency: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    with KafkaClient(cluster.hosts, flight_recorder_bytes=0, **concurrency()) as client:
        with pytest.raises(ValueError, match="flight_recorder_bytes=0"):
            client.record_flight(tmp_path / "f")
        assert client.cluster.listener is not None


def test_a_closed_client_still_writes_it(client: KafkaClient, tmp_path: Path) -> None:
    client.close()
    client.record_flight(tmp_path / "f")
    assert FlightTimeline(tmp_path / "f").entries


def test_a_fenced_producer_has_the_last_events(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fenced(*_: Any) -> Any:
        raise InvalidProducerEpoch("another has it")

    producer = client.producer(transactional_id=f"fenced-{uuid.uuid4()}")
    transactions: Any = producer._transactions
    monkeypatch.setattr(transactions._coordinator, "end", fenced)
    with pytest.raises(ProducerFencedError) as caught, producer.transaction():
        producer.produce("fenced", b"x")
    assert "transaction begin" in str(caught.value.flight)
    with suppress(KafkaException):
        producer.close()


def test_what_ends_a_sender_has_the_last_events(client: KafkaClient) -> None:
    producer: Any = client.producer()
    producer.produce("sender", b"x").get(timeout=20)
    producer._engine.worker_failed(MemoryError("no room"))
    with pytest.raises(MemoryError) as caught:
        producer.flush()
    assert "Produce  broker" in caught.value.flight  # type: ignore[attr-defined]
    with suppress(MemoryError):
        producer.close()


def test_what_ends_a_fetch_worker_has_the_last_events(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from pykafka.consumer.fetcher import FetchablePartitions

    with client.producer() as producer:
        producer.produce("ended", b"x").get(timeout=20)
    failed: list[Any] = []
    with client.consumer("ended") as consumer:
        monkeypatch.setattr(consumer._engine, "fetch_failed", lambda _, error: failed.append(error))

        def broken(*_: Any) -> Any:
            raise RuntimeError("broken on purpose")

        monkeypatch.setattr(FetchablePartitions, "plan", broken)
        monkeypatch.setattr(FetchablePartitions, "unchanged", property(broken))
        for _ in range(200):
            if failed:
                break
            client.cluster.handler.sleep(0.05)
        monkeypatch.undo()
    assert "broken on purpose" in str(failed[0])
    assert "connected" in failed[0].flight


SIGNALS = """
import os, signal, sys
from pykafka import KafkaClient

kind, hosts, path = sys.argv[1:]
if kind == "asyncio":
    import asyncio
    from pykafka.aio import KafkaClient as AsyncClient

    async def main():
        async with AsyncClient(hosts) as client:
            client.record_flight_at(signal.SIGUSR1, path)
            print("ready", flush=True)
            producer = await client.producer()
            while not os.path.exists(path):
                await producer.produce("signals", b"x")
                await asyncio.sleep(0.01)
            await producer.close()

    asyncio.run(main())
else:
    if kind == "patched":
        from gevent import monkey
        monkey.patch_all()
    with KafkaClient(hosts, use_greenlets=kind == "greenlets") as client, client.producer() as producer:
        client.record_flight_at(signal.SIGUSR1, path)
        print("ready", flush=True)
        while not os.path.exists(path):
            producer.produce("signals", b"x")
            client.cluster.handler.sleep(0.01)
print("went on", flush=True)
"""


@pytest.mark.parametrize("kind", ["threads", "greenlets", "patched", "asyncio"])
def test_at_a_signal_while_the_client_works(cluster: EmbeddedCluster, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    words = [sys.executable, "-c", SIGNALS, kind, cluster.hosts, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            child.send_signal(signal.SIGUSR1)
            assert child.communicate(timeout=60)[0] == "went on\n"
        finally:
            child.kill()
    timeline = FlightTimeline(path)
    assert timeline.header["process"] == child.pid
    assert timeline.entries


FORK = """
import json, os, sys
from pykafka import KafkaClient

client = KafkaClient(sys.argv[1])
with client.producer() as producer:
    producer.produce("forks", b"x").get(timeout=20)
child = os.fork()
if not child:
    client.record_flight(sys.argv[2] + "-{pid}")
    os._exit(0)
os.waitpid(child, 0)
client.record_flight(sys.argv[2])
print(child)
"""


def test_a_child_of_a_fork_begins_anew(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    path = tmp_path / "f"
    made = subprocess.run(
        [sys.executable, "-c", FORK, cluster.hosts, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert FlightTimeline(path).entries
    child = int(made.stdout)
    timeline = FlightTimeline(f"{path}-{child}")
    assert (timeline.header["process"], timeline.entries) == (child, [])


def test_the_command_prints_it(client: KafkaClient, tmp_path: Path) -> None:
    client.record_flight(tmp_path / "f")
    words = [sys.executable, "-m", "pykafka.cli", "flight", str(tmp_path / "f"), "--kind", "metadata"]
    found = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    header, *lines = found.stdout.splitlines()
    assert f"process='{os.getpid()}'" in header
    assert lines
    assert all("etadata  " in line for line in lines)


async def _facade(hosts: str, path: Path) -> None:
    from pykafka.aio import KafkaClient as AsyncClient

    async with AsyncClient(hosts) as client:
        client.record_flight(path)


def test_the_async_facade(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    asyncio.run(_facade(cluster.hosts, tmp_path / "f"))
    assert json.loads((tmp_path / "f").read_text().splitlines()[0])["handler"] == "AsyncioHandler"
