"""The exactly-once test: four workers consume, transform and produce while brokers, workers and coordinators are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from pykafka import KafkaClient, KafkaProducer
from pykafka.exceptions import KafkaException
from pykafka.metadata.elections import wait_for_coordinator
from pykafka.transactions.coordinator import TRANSACTIONS
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions import unique
from tests.support.topics import create_topic, wait_in_sync

# On each kind of concurrency in one run: a cluster that is killed all the time is nothing to repeat for each.
pytestmark = [pytest.mark.kafka, pytest.mark.needs("stable offsets"), pytest.mark.timeout(2400)]
KINDS = ("threads", "greenlets", "asyncio", "threads")
KEYS, PARTITIONS = 40, 4
#: An acknowledged message is on two brokers.
SAFE = {"min.insync.replicas": "2"}
#: How long all that was written may take to arrive after the last kill (s).
SETTLE_S = 90


class Workers:
    """Four programs that copy one topic to another.

    :param arguments: hosts, and after the transactional id the two topics and the group
    """

    def __init__(self, hosts: str, name: str, arguments: tuple[str, ...], log: Path) -> None:
        self._hosts, self._name, self._arguments = hosts, name, arguments
        self._log = log.open("w")
        self.names = [f"{name}-{number}" for number in range(len(KINDS))]
        self._running = [self._start(number) for number in range(len(KINDS))]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.copier", KINDS[number], self._hosts, self.names[number]]
        return subprocess.Popen([*command, *self._arguments], stdout=self._log, stderr=self._log)

    def kill(self, number: int) -> None:
        """Kill one, and start it again."""
        self._end(number)
        self._running[number] = self._start(number)

    def _end(self, number: int) -> None:
        self._running[number].kill()
        self._running[number].wait()

    def ask(self) -> None:
        """Make each write to the log where its workers are."""
        for process in self._running:
            process.send_signal(signal.SIGUSR1)
        time.sleep(1)

    def close(self) -> None:
        """End all."""
        for number in range(len(KINDS)):
            self._end(number)
        self._log.close()


class Killer:
    """Kills one broker or one worker at a time, at random; a broker only while all replicas are in sync.

    Kafka 4.3.1 does not commit what is on a partition without a leader; docs/transactions.md tells more.
    """

    def __init__(self, client: KafkaClient, cluster: KafkaCluster, workers: Workers, made: str) -> None:
        self._client, self._cluster, self._workers, self._made = client, cluster, workers, made
        self.chance = random.Random()
        self._down: int | None = None
        self.brokers = self.killed = 0

    def kill(self) -> None:
        """Kill a broker in every third turn, a worker else; a broker that is down comes back first."""
        if self.killed % 3 == 0:
            self.restore()
            self._down = self._broker()
            self._cluster.kill(self._down)
            self.brokers += 1
        else:
            self._workers.kill(self.chance.randrange(len(KINDS)))
        self.killed += 1

    def _broker(self) -> int:
        """Return the coordinator of a transactional id, the leader of a partition, or any broker."""
        turn = self.chance.random()
        try:
            if turn < 0.4:
                name = self.chance.choice(self._workers.names)
                return wait_for_coordinator(self._client.cluster, name, 5000, TRANSACTIONS).id
            if turn < 0.7:
                leader = self._client.topics[self._made].partitions[self.chance.randrange(PARTITIONS)].leader
                if leader is not None:
                    return leader.id
        except KafkaException:
            pass  # while another one is elected, any broker does
        return self.chance.randint(1, 3)

    def restore(self) -> None:
        """Start the broker that is down, and wait until it has all that the others have."""
        if self._down is not None:
            self._cluster.start(self._down)
            self._down = None
            wait_in_sync(self._client)


def write(producer: KafkaProducer, topic: str, count: int, numbers: Iterator[int]) -> None:
    """Write numbered values, with a key for each that says in which order they belong."""
    for _ in range(count):
        number = next(numbers)
        producer.produce(topic, b"%d-%d" % (number % KEYS, number // KEYS), key=b"%d" % (number % KEYS))


def committed(hosts: str, topic: str, count: int, seconds: float) -> list[bytes]:
    """Return the committed values, as soon as there are so many and no more come."""
    found: list[bytes] = []
    end = time.monotonic() + seconds
    with (
        KafkaClient(hosts) as client,
        client.consumer(topic, isolation_level="read_committed") as consumer,
    ):
        while len(found) < count and time.monotonic() < end:
            found += [record.value or b"" for record in consumer.poll(5000, timeout=1)]
        found += [record.value or b"" for record in consumer.poll(5000, timeout=2)]
    return found


def explain(client: KafkaClient, given: str, made: str, group: str, found: list[bytes]) -> str:
    """Return what is missing or doubled, where it was read from, and what the brokers know of it."""
    where: dict[bytes, tuple[int, int]] = {}
    with client.consumer(given, consumer_timeout_ms=2000) as consumer:
        for record in consumer:
            where[record.value or b""] = record.partition, record.offset
    with client.consumer(made, consumer_timeout_ms=2000) as consumer:
        written = {record.value for record in consumer}
    with client.consumer(made, isolation_level="read_committed", consumer_timeout_ms=2000) as consumer:
        again = {record.value for record in consumer}
    seen = set(found)
    missing = sorted((place, value, value in written) for value, place in where.items() if value not in seen)
    lines = [f"{len(found)} outputs, {len(seen)} of them different, of {len(where)} inputs; missing {len(missing)}:"]
    lines += [
        f"  a second reader of committed messages finds {len(again)}; per partition {Counter(p for (p, _), *_ in missing)}"
    ]
    lines += [f"  partition {at[0]}, offset {at[1]}: {value!r}, written: {was}" for at, value, was in missing[:3]]
    lines += [f"  partition {at[0]}, offset {at[1]}: {value!r}, written: {was}" for at, value, was in missing[-3:]]
    lines += [f"  committed: {client.admin.list_group_offsets(group)}"]
    lines += [f"  transactions: {[one for one in client.admin.list_transactions() if group in one.transactional_id]}"]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "kills", [9, *(pytest.param(100, id=f"{turn}-hundred", marks=pytest.mark.matrix) for turn in ("first", "second"))]
)
def test_each_record_has_its_output_once(kafka3: KafkaCluster, tmp_path: Path, kills: int) -> None:
    """To a read_committed reader, and in order by key."""
    group, numbers = unique(), iter(range(10**9))
    with KafkaClient(kafka3.hosts) as client:
        given, made = (create_topic(client, PARTITIONS, 3, SAFE).name for _ in range(2))
        workers = Workers(kafka3.hosts, group, (given, made, group), tmp_path / "workers.log")
        killer = Killer(client, kafka3, workers, made)
        sent, found = 0, []
        try:
            with client.producer() as producer:
                time.sleep(2)
                for pause in cycle((0.3, 1.5, 0.7)):
                    for _ in range(5):
                        write(producer, given, 60, numbers)
                        sent += 60
                        time.sleep(pause / 5)
                    if killer.killed == kills:
                        break
                    killer.kill()
                killer.restore()
            found = committed(kafka3.hosts, made, sent, SETTLE_S)
        finally:
            if len(found) < sent:  # before they are gone: what they wait for
                workers.ask()
            workers.close()
            killer.restore()
        print(f"{killer.killed} kills, {killer.brokers} of brokers; {sent} records")
        if (len(found), len(set(found))) != (sent, sent):
            said = (tmp_path / "workers.log").read_text()[-6000:]
            pytest.fail(f"{explain(client, given, made, group, found)}\n{said}")
    following = dict.fromkeys((b"%d" % key for key in range(KEYS)), 0)
    for value in found:
        key, _, number = value.partition(b"-")
        assert int(number) == following[key], f"out of order: {value!r}"
        following[key] += 1
