"""Members that agree through ZooKeeper, while it is away: each record is read once, and all join again."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.groups.zookeeper import membership
from pykafka.handlers import Handler
from pykafka.handlers.base import Worker
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.topic import Topic
from tests.support.inside import membership_of
from tests.support.proxies import CuttingProxy
from tests.support.topics import create_topic
from tests.support.waiting import until
from tests.support.zookeeper import ZooKeeper

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.matrix,
    pytest.mark.no_loop("consume in groups of ZooKeeper"),
    pytest.mark.timeout(240),
]
PARTITIONS = 4
#: How long ZooKeeper is away: longer than a session (s).
AWAY_S, SESSION_MS = 12, 6000
#: The longest session that ZooKeeper grants: where members race with it, a busy machine may take its time.
LONGEST_MS = 20_000

Member = KafkaConsumer[bytes, bytes]


class Readers:
    """Members of a group that are polled by workers of their own, and what they have read."""

    def __init__(self, client: KafkaClient) -> None:
        self.client, self.handler = client, client.cluster.handler
        self.topic: Topic = create_topic(client, PARTITIONS)
        self.group = f"zk-{uuid.uuid4().hex[:8]}"
        self.members: list[Member] = []
        self.seen: Counter[bytes] = Counter()
        self._ending = self.handler.Event()
        self._workers: list[Worker] = []
        self._written = 0

    def join(self, hosts: str, **options: Any) -> Member:
        settings = {"session_timeout_ms": SESSION_MS, "auto_commit": True, "auto_commit_interval_ms": 300, **options}
        member = self.client.consumer(
            self.topic.name, group=self.group, protocol="zookeeper", zookeeper_hosts=hosts, **settings
        )
        self.members.append(member)
        self._workers.append(self.handler.spawn(self._read, member))
        return member

    def _read(self, member: Member) -> None:
        while not self._ending.is_set():
            self.seen.update(record.value or b"" for record in member.poll(100, timeout=0.3))

    def write(self, count: int) -> None:
        with self.client.producer() as producer:
            for number in range(self._written, self._written + count):
                producer.produce(self.topic.name, b"%d" % number, partition=number % PARTITIONS)
        self._written += count

    def shared_out(self, *sizes: int) -> bool:
        return sorted(len(member.assignment()) for member in self.members) == [*sizes]

    def until_read(self, *sizes: int) -> None:
        """Wait until all is read, and shared out like this; each record has come once."""
        until(self.handler, lambda: len(self.seen) == self._written and self.shared_out(*sizes), 90)
        assert set(self.seen.values()) == {1}

    def end(self) -> None:
        self._ending.set()
        for worker in self._workers:
            assert worker.join(20)
            assert worker.error is None
        for member in self.members:
            member.close()


@pytest.fixture
def readers(client: KafkaClient) -> Iterator[Readers]:
    """Yield a group; its workers end with the test, also where that fails."""
    made = Readers(client)
    yield made
    made._ending.set()


def since(handler: Handler, began: float) -> float:
    return handler.now() - began


@pytest.mark.parametrize("what", ["is killed", "hangs"])
def test_what_is_written_meanwhile_is_read_once(readers: Readers, mortal: ZooKeeper, what: str) -> None:
    handler = readers.handler
    for _ in range(2):
        readers.join(mortal.hosts)
    readers.write(200)
    readers.until_read(2, 2)
    end, begin = (mortal.kill, mortal.start) if what == "is killed" else (mortal.pause, mortal.resume)
    end()
    try:
        until(handler, lambda: readers.shared_out(0, 0), 4 * SESSION_MS / 1000)
        readers.write(100)
        handler.sleep(AWAY_S)
    finally:
        begin()
    readers.write(50)
    readers.until_read(2, 2)
    readers.end()


@pytest.mark.parametrize("check_s", [60.0, 0.5], ids=["", "asked-often"])
def test_a_member_that_is_cut_off_gives_up_before_others_take(
    readers: Readers, mortal: ZooKeeper, check_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "OWNER_POLL_INTERVAL_S", check_s)
    handler = readers.handler
    with CuttingProxy(mortal.port) as proxy:
        hosts = f"127.0.0.1:{proxy.port}", mortal.hosts
        behind, other = (readers.join(one, session_timeout_ms=LONGEST_MS) for one in hosts)
        readers.write(200)
        readers.until_read(2, 2)
        had = set(behind.assignment())
        proxy.mute()
        began, gave_up = handler.now(), 0.0
        while len(other.assignment()) < PARTITIONS:
            assert since(handler, began) < 3 * LONGEST_MS / 1000
            assert not set(other.assignment()) & set(behind.assignment())
            if not gave_up and not behind.assignment():
                gave_up = since(handler, began)
            readers.write(4)
            handler.sleep(0.05)
        assert 0 < gave_up < since(handler, began), f"of {had} another had all after {since(handler, began):.1f} s"
        readers.until_read(0, PARTITIONS)
        proxy.unmute()
        readers.write(50)
        readers.until_read(2, 2)
        readers.end()


def test_iteration_over_what_is_buffered_ends_before_others_take(readers: Readers, mortal: ZooKeeper) -> None:
    """It looks at nothing but the buffers, and kazoo reports nothing more once the connection is lost."""
    handler = readers.handler
    readers.write(4000)
    with CuttingProxy(mortal.port) as proxy:
        behind = readers.client.consumer(
            readers.topic.name,
            group=readers.group,
            protocol="zookeeper",
            zookeeper_hosts=f"127.0.0.1:{proxy.port}",
            session_timeout_ms=SESSION_MS,
            consumer_timeout_ms=2000,
        )
        other, cut_at, count = None, 0.0, 0
        for count, _ in enumerate(behind, 1):
            handler.sleep(0.01)
            if count == 50:
                shares = membership_of(behind)
                assert isinstance(shares, membership.ZooKeeperMembership)
                shares.changed()  # a watch: from this pass on nothing is due
            if count == 70:
                proxy.refuse()
                proxy.cut()
                cut_at = handler.now()
            if cut_at and other is None and since(handler, cut_at) > 0.5:
                other = readers.join(mortal.hosts)
            assert other is None or not other.assignment(), f"after {since(handler, cut_at):.1f} s"
        assert 70 < count < 4000
        assert behind.assignment() == []
        assert other is not None
        until(handler, other.assignment, 30)
        readers.end()
        behind.close()


def test_another_server_of_the_ensemble_takes_over_in_time(
    readers: Readers, mortal: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that asks again and again would keep kazoo from looking for it."""
    monkeypatch.setattr(membership, "OWNER_POLL_INTERVAL_S", 0.5)
    with CuttingProxy(mortal.port) as one, CuttingProxy(mortal.port) as another:
        hosts = f"127.0.0.1:{one.port},127.0.0.1:{another.port}"
        member = readers.join(hosts, session_timeout_ms=LONGEST_MS)
        readers.write(40)
        readers.until_read(PARTITIONS)
        used = one if one.accepted else another
        used.mute()
        used.refuse()
        began = readers.handler.now()
        while since(readers.handler, began) < 1.25 * LONGEST_MS / 1000:
            assert len(member.assignment()) == PARTITIONS
            readers.write(4)
            readers.handler.sleep(0.1)
        readers.until_read(PARTITIONS)
        readers.end()
