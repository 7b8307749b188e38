"""A rolling change of all brokers' addresses and certificates under load, with SASL_SSL and client certificates.

The client is not restarted: it follows the brokers to their new ports, logs in there, and reads its changed files again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient, SslConfig
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from tests.support.certs import write_truststore
from tests.support.fleet import NAME, Fleet
from tests.support.logins import credentials
from tests.support.topics import create_topic
from tests.support.traffic import following, ports_of, step_during
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.needs("signed tokens"), pytest.mark.timeout(400)]


class Traffic:
    """A pipelined idempotent producer, a consumer of all partitions, and a member of a group, until `end`.

    :param client: whose
    :param name: of the topic
    """

    def __init__(self, client: KafkaClient, name: str) -> None:
        self.client = client
        self.name = name
        topic = client.topics[name]
        self.produced = 0
        #: What `on_delivery` was told: numbers in the order of each partition, and errors.
        self.delivered: defaultdict[int, list[int]] = defaultdict(list)
        self.failed: list[str] = []
        #: What the consumers returned.
        self.consumed: defaultdict[int, list[int]] = defaultdict(list)
        self.shared: Counter[int] = Counter()
        self.told: list[str] = []
        self.producer = topic.get_producer(
            enable_idempotence=True,
            required_acks=-1,
            linger_ms=5,
            delivery_timeout_ms=120_000,
            pending_timeout_ms=60_000,
            on_delivery=self._on_delivery,
        )
        options: dict[str, Any] = {"consumer_timeout_ms": 10, "auto_offset_reset": -2, "fetch_wait_max_ms": 100}
        self.consumer = topic.get_simple_consumer(**options)
        self.member = topic.get_balanced_consumer(
            f"group-{name}", managed=True, auto_commit_enable=True, auto_commit_interval_ms=500, **options
        )

    def _on_delivery(self, error: Exception | None, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        self.delivered[message.partition_id].append(int(message.value))

    def step(self) -> None:
        for _ in range(20):
            self.producer.produce(b"%d" % self.produced)
            self.produced += 1
        self._consume()

    def _consume(self) -> None:
        try:
            while (message := self.consumer.consume()) is not None:
                self.consumed[message.partition_id].append(int(message.value or b""))
        except KafkaException as error:
            self.told.append(str(error))
        try:
            while (message := self.member.consume()) is not None:
                self.shared[int(message.value or b"")] += 1
        except KafkaException as error:
            self.told.append(str(error))

    def end(self) -> None:
        """Deliver and consume the rest."""
        self.producer.stop()
        now = self.client.cluster.handler.now
        deadline = now() + 60
        while (sum(map(len, self.consumed.values())), len(self.shared)) < (self.produced, self.produced):
            self._consume()
            if now() > deadline:
                break
        self.consumer.stop()
        self.member.stop()

    def check(self, hosts: str) -> None:
        """Compare what was told and consumed with what the brokers have stored."""
        stored: defaultdict[int, list[int]] = defaultdict(list)
        with KafkaClient(hosts) as direct:
            topic = direct.topics[self.name]
            total = sum(limit.offset[0] for limit in topic.latest_available_offsets().values())
            consumer = topic.get_simple_consumer(consumer_timeout_ms=20_000, auto_offset_reset=-2)
            for message in consumer:
                stored[message.partition_id].append(int(message.value or b""))
                if sum(map(len, stored.values())) == total:
                    break
            consumer.stop()
        print(f"{self.produced} messages; again to the group: {self.shared.total() - len(self.shared)}")
        wanted = Counter(range(self.produced))
        for what, found in (("stored", stored), ("delivered", self.delivered), ("consumed", self.consumed)):
            counts = Counter(number for numbers in found.values() for number in numbers)
            missing, doubled = (wanted - counts).total(), (counts - wanted).total()
            assert (what, missing, doubled) == (what, 0, 0)
            assert all(numbers == sorted(numbers) for numbers in found.values()), f"{what} out of order"
        assert (self.failed, self.told) == ([], [])
        assert not wanted.keys() - self.shared.keys()


def roll(fleet: Fleet, change: Callable[[int], None]) -> None:
    """Restart all brokers, one after another, at other ports, each behind a change."""
    for number in fleet.cluster.broker_ids:
        change(number)
        fleet.cluster.move(number, cleanly=True)


def under_load(client: KafkaClient, name: str, change: Callable[[], None]) -> Traffic:
    """Produce and consume while the cluster changes, and for a moment before and after; return the traffic, ended."""
    traffic = Traffic(client, name)
    step_during(change, traffic.step, after=50)
    traffic.end()
    return traffic


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Yield brokers that want SASL and a client certificate."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), brokers=3)
    with made.cluster:
        yield made


@pytest.fixture(params=["threads", "gevent"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def connected(fleet: Fleet, handler: Handler, listener: str, mechanism: str, tls: SslConfig) -> KafkaClient:
    sasl = credentials(fleet.cluster, mechanism)
    return KafkaClient(f"{NAME}:9092", handler=handler, socket_timeout_ms=20_000, sasl=sasl, tls=tls)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("listener", "mechanism", "change"),
    [("SASL_SSL", "SCRAM-SHA-512", "keys"), ("SHORT_SSL", "PLAIN", "authority")],
    ids=["keys", "authority"],
)
def test_addresses_and_certificates_change_under_load(
    fleet: Fleet, tmp_path: Path, kind: str, listener: str, mechanism: str, change: str
) -> None:
    """Nothing is lost, doubled or out of order.

    "keys": each broker gets a new key and certificate. "authority": one of another authority; the client trusts both of them
    before, and the new one alone behind; then it gets a certificate of the new one, and the brokers trust that alone.
    """
    handler = following(kind, lambda: fleet.ports(listener))
    config = fleet.certify_client(tmp_path)
    before = fleet.ports(listener)

    def replace() -> None:
        if change == "keys":
            roll(fleet, fleet.certify)
            return
        fleet.replace_authority()
        for name, more in (("crl.pem", fleet.authority.revoke()), ("ca.pem", fleet.cafile.read_bytes())):
            Path(tmp_path, name).write_bytes(Path(tmp_path, name).read_bytes() + more)
        roll(fleet, fleet.certify)
        fleet.certify_client(tmp_path)
        write_truststore(fleet.trust, fleet.authority)
        roll(fleet, lambda _: None)

    with KafkaClient(fleet.cluster.hosts) as direct:
        name = create_topic(direct, partitions=6, replicas=3, config={"min.insync.replicas": "2"}).name
    with connected(fleet, handler, listener, mechanism, config) as client:
        traffic = under_load(client, name, replace)
        until(handler, lambda: ports_of(client) == set(fleet.ports(listener)))
    assert set(before).isdisjoint(fleet.ports(listener))
    assert all(fleet.shows(number, listener) for number in fleet.cluster.broker_ids)
    traffic.check(fleet.cluster.hosts)
