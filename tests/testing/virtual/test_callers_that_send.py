"""Workers that send what they wait for: batches that they put back go by the sender, soon, once and in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.network.channel import Channel
from pykafka.network.node import Node
from pykafka.producer.leader_requests import LeaderRequests
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

#: What a message may take while connections end again and again (s): less than any linger, and a sender's look of its own.
SOON_S = 2.0
CALLERS, PARTITIONS, MESSAGES = 5, 3, 10
#: More than the buffers of a connection take for certain (bytes).
LARGE = 200_000
TRANSACTIONAL: dict[str, Any] = {"transactional_id": "t"}

Sent = tuple[bool, bool]


@pytest.fixture
def sent(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """Return for each request whether a sender's worker sent it, and whether batches stayed behind."""
    found: list[Sent] = []

    class Noting(LeaderRequests):
        def send(self, batches: list[Any], waits: bool = True) -> bool:
            stayed = super().send(batches, waits)
            found.append((waits, stayed))
            return stayed

    monkeypatch.setattr("pykafka.producer.sender.LeaderRequests", Noting)
    return found


@contextmanager
def _cluster(virtual: VirtualHandler, release: str = "4.1") -> Iterator[tuple[FakeCluster, KafkaClient]]:
    with (
        FakeCluster(2, {"orders": PARTITIONS}, handler=virtual, as_version=release) as cluster,
        KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=2_000) as client,
    ):
        yield cluster, client


def test_callers_send_again_after_an_error_that_may_be_about_a_format(
    scheduler: Scheduler, virtual: VirtualHandler, sent: list[Sent]
) -> None:
    """After a single UNKNOWN_SERVER_ERROR of a transaction, callers took each batch, put it back and woke the sender."""

    def program() -> None:
        with _cluster(virtual) as (cluster, client):
            producer = client.producer(**TRANSACTIONAL)
            producer.begin_transaction()
            producer.produce("orders", b"connects", partition=0).get(5)
            cluster.fail("Produce", "UNKNOWN_SERVER_ERROR", 1)
            with pytest.raises(KafkaException):
                producer.produce("orders", b"refused", partition=0).get(5)
            producer.abort_transaction()
            producer.begin_transaction()
            producer.produce("orders", b"adds the partition", partition=0).get(5)
            sent.clear()
            for _ in range(5):
                producer.produce("orders", b"quick", partition=0).get(5)
            producer.commit_transaction()

    scheduler.run(program)
    assert sent == [(False, False)] * 5


def test_a_caller_asks_for_no_connection_that_would_be_made(
    scheduler: Scheduler, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ended between the caller's look and its use was made again in the caller's worker."""
    opened: list[object] = []
    make = Channel.open

    def noted(channel: Channel, timeout_ms: int | None = None) -> Any:
        opened.append(scheduler.current)
        return make(channel, timeout_ms)

    def program() -> bool:
        with _cluster(virtual) as (_, client), client.producer(linger_ms=1_000) as producer:
            producer.produce("orders", b"connects", partition=0).get(5)
            monkeypatch.setattr(Channel, "open", noted)
            for _ in range(5):
                producer.produce("orders", b"x", partition=0).get(5)
            monkeypatch.setattr(Channel, "open", make)
            return scheduler.current in opened

    assert scheduler.run(program) is False


def test_a_message_that_comes_alone_is_sent_by_the_worker_that_produces_it(
    scheduler: Scheduler, virtual: VirtualHandler, sent: list[Sent]
) -> None:
    """Compiled and from the sources, so that a seed has one history: the sources held a lock that kept the caller from it."""

    def program() -> None:
        with _cluster(virtual) as (_, client), client.producer(linger_ms=0) as producer:
            producer.produce("orders", b"connects", partition=0).get(5)
            sent.clear()
            for _ in range(5):
                producer.produce("orders", b"alone", partition=0)
                virtual.sleep(1)

    scheduler.run(program)
    assert sent == [(False, False)] * 5


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_a_large_message_is_written_by_a_caller_without_a_timeout(
    scheduler: Scheduler, virtual: VirtualHandler, sent: list[Sent], timeout: float | None
) -> None:
    """The sender wrote it, for which two workers changed places twice a message."""

    def program() -> None:
        with _cluster(virtual) as (_, client), client.producer(linger_ms=1_000, compression="none") as producer:
            for _ in range(3):
                producer.produce("orders", b"the sender polls from then on", partition=0).get()
            sent.clear()
            producer.produce("orders", bytes(LARGE), partition=0).get(timeout)

    scheduler.run(program)
    assert sent == [(timeout is not None, False)]


@pytest.mark.parametrize("release", ["4.1", "3.5"])
@pytest.mark.parametrize(
    "options",
    [
        {"linger_ms": 30_000},
        {"linger_ms": 0},
        {"linger_ms": 30_000, "enable_idempotence": False},
        {"linger_ms": 30_000, "buffer_memory": 4_000},
        {"linger_ms": 0, "buffer_memory": 3_000, "batch_size": 1_000},
        {"linger_ms": 30_000, **TRANSACTIONAL},
    ],
    ids=str,
)
def test_what_callers_put_back_is_sent_soon_once_and_in_order(
    scheduler: Scheduler,
    network: Network,
    virtual: VirtualHandler,
    sent: list[Sent],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    release: str,
) -> None:
    """Connections end in the moments in which callers and senders use them."""
    chance, send = Random(5), Node.send

    def cut(node: Node, request: Any, channel: str = "main", **others: Any) -> Any:
        if channel == "produce" and chance.random() < 0.2:
            network.cut_all()
            virtual.sleep(0.003)
        return send(node, request, channel, **others)

    def call(producer: Any, number: int) -> list[tuple[bytes, float]]:
        made = []
        for at in range(MESSAGES):
            virtual.sleep(chance.choice([0.0005, 0.01, 0.3, 1.2]))
            began, value = virtual.now(), b"%d %d" % (number, at) + bytes(chance.choice([0, 900]))
            delivery = producer.produce("orders", value, partition=number % PARTITIONS)
            if at % 3:
                delivery.get(30)
            else:
                producer.flush(timeout=30)
            made.append((value, virtual.now() - began))
        return made

    def program() -> tuple[list[list[tuple[bytes, float]]], list[list[bytes]]]:
        made: list[list[tuple[bytes, float]]] = []
        with (
            _cluster(virtual, release) as (cluster, client),
            client.producer(retry_backoff_ms=20, **options) as producer,
        ):
            if "transactional_id" in options:
                producer.begin_transaction()
            monkeypatch.setattr(Node, "send", cut)
            workers = [
                virtual.spawn(lambda number=number: made.append(call(producer, number))) for number in range(CALLERS)
            ]
            assert all(worker.join(300) for worker in workers)
            monkeypatch.setattr(Node, "send", send)
            if "transactional_id" in options:
                producer.commit_transaction()
            return made, [[record.value for record in cluster.records("orders", part)] for part in range(PARTITIONS)]

    made, stored = scheduler.run(program)
    assert len(made) == CALLERS
    for mine in made:
        values = [value for value, _ in mine]
        number = int(values[0].split()[0])
        found = [value for value in stored[number % PARTITIONS] if value.startswith(b"%d " % number)]
        if options.get("enable_idempotence", True):
            assert found == values
        else:
            assert list(dict.fromkeys(found)) == values
        assert max(took for _, took in mine) < SOON_S
    assert (False, True) in sent
