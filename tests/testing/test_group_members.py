"""Real members of groups, of this package and of other clients, on a fake cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from pykafka.testing.groups.held import Client
from tests.support.foreign import AioKafka, Confluent, KafkaPython
from tests.support.waiting import until
from tests.testing.direct import ClassicPeer, ConsumerPeer

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),  # kafka-python's
]

PARTITIONS = 6
CLASSIC = ["range", "roundrobin", "sticky", "cooperative-sticky"]
#: Options of a member, for each protocol.
PROTOCOLS: list[dict[str, Any]] = [
    *({"protocol": "classic", "assignor": name, "heartbeat_interval_ms": 100} for name in CLASSIC),
    {"protocol": "consumer"},
    {"protocol": "consumer", "assignor": "range"},
]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3, topics={"orders": PARTITIONS}) as cluster:
        cluster._state.groups.settings.consumer_heartbeat_interval_ms = 100
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=cluster.hosts) as client:
        yield client


class Ours:
    """A member of this package, with the face of those of other clients."""

    def __init__(self, client: KafkaClient, options: dict[str, Any]) -> None:
        self.values: list[bytes | None] = []
        self._stopping = False
        self._consumer: Any = client.consumer("orders", group="g", **options)
        self._worker = client.cluster.handler.spawn(self._read)

    @property
    def share(self) -> set[int]:
        return {key.partition for key in self._consumer.assignment()}

    def _read(self) -> None:
        with self._consumer:
            while not self._stopping:
                self.values += [record.value for record in self._consumer.poll(500, 0.05)]

    def stop(self) -> None:
        self._stopping = True
        assert self._worker.join(30)
        if self._worker.error is not None:
            raise self._worker.error


def name_of(options: dict[str, Any]) -> str:
    return "-".join(str(options[key]) for key in ("protocol", "assignor") if key in options)


class Readers:
    """The members of one group, and what was written for them."""

    def __init__(self, client: KafkaClient, stack: contextlib.ExitStack) -> None:
        self.client = client
        self.stack = stack
        self.members: list[Any] = []
        self.left: list[Any] = []
        self.written = 0

    def join(self, member: Any) -> None:
        self.stack.callback(member.stop)
        self.members.append(member)
        self.check()

    def leave(self) -> None:
        self.left.append(self.members.pop(0))
        self.left[-1].stop()
        self.check()

    def divided(self) -> bool:
        shares = [member.share for member in self.members]
        return sorted(index for share in shares for index in share) == list(range(PARTITIONS)) and all(shares)

    def read(self) -> set[bytes | None]:
        return {value for member in (*self.members, *self.left) for value in member.values}

    def check(self) -> None:
        """Wait until the members divide the partitions, and have read all that was written then."""
        handler = self.client.cluster.handler
        until(handler, self.divided)
        with self.client.producer() as producer:
            for index in range(PARTITIONS):
                producer.produce("orders", b"%d" % (self.written + index), partition=index)
        self.written += PARTITIONS
        until(handler, lambda: self.read() == {b"%d" % number for number in range(self.written)})


@pytest.mark.parametrize("options", PROTOCOLS, ids=name_of)
def test_members_come_and_go(client: KafkaClient, options: dict[str, Any]) -> None:
    with contextlib.ExitStack() as stack:
        readers = Readers(client, stack)
        for _ in range(3):
            readers.join(Ours(client, options))
        readers.leave()
        readers.leave()


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_members_of_all_clients_share_one_group(cluster: FakeCluster, client: KafkaClient, first: int) -> None:
    with contextlib.ExitStack() as stack:
        readers = Readers(client, stack)
        kinds = [None, Confluent, KafkaPython, AioKafka]
        for kind in kinds[first:] + kinds[:first]:
            readers.join(Ours(client, PROTOCOLS[0]) if kind is None else kind(cluster.hosts, "g", "orders", "range"))
        readers.leave()


@pytest.mark.parametrize("first", [0, 1])
def test_confluent_takes_part_by_kip_848(cluster: FakeCluster, client: KafkaClient, first: int) -> None:
    with contextlib.ExitStack() as stack:
        readers = Readers(client, stack)
        for number in range(3):
            ours = number % 2 == first
            readers.join(Ours(client, PROTOCOLS[4]) if ours else Confluent(cluster.hosts, "g", "orders", "consumer"))
        readers.leave()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_moves_to_kip_848_and_back(client: KafkaClient, cluster: FakeCluster, assignor: str) -> None:
    classic = {"protocol": "classic", "assignor": assignor, "heartbeat_interval_ms": 100}
    groups = cluster._state.groups
    with contextlib.ExitStack() as stack:
        readers = Readers(client, stack)
        readers.join(Ours(client, classic))
        readers.join(Ours(client, {"protocol": "consumer"}))
        assert groups.consumer("g") is not None
        readers.join(Ours(client, classic))
        readers.leave()
        readers.leave()  # the only one by KIP-848
        assert groups.classic("g") is not None


@pytest.mark.parametrize("options", [PROTOCOLS[0], PROTOCOLS[4]], ids=name_of)
def test_the_next_member_goes_on_where_the_last_one_committed(client: KafkaClient, options: dict[str, Any]) -> None:
    with client.producer() as producer:
        for number in range(10):
            producer.produce("orders", b"%d" % number, partition=0)
    with client.consumer("orders", group="g", auto_commit=False, **options) as consumer:
        records: list[Any] = []
        while len(records) < 4:
            records += consumer.poll(4 - len(records), 1.0)
        consumer.commit(records[-1])
    with client.consumer("orders", group="g", **options) as consumer:
        assert next(iter(consumer)).value == b"4"


def silent_member(cluster: FakeCluster, options: dict[str, Any]) -> None:
    """Add a member that never sends anything again; its session of the classic protocol is 10 s."""
    direct: Any = SimpleNamespace(state=cluster._state)
    with direct.state.lock:
        if options["protocol"] == "consumer":
            request = ConsumerPeer(direct, "silent").request()
            direct.state.groups.consumer_heartbeat(request, Client("silent", "", 1))
        else:
            request_ = ClassicPeer(direct, assignors=(options["assignor"],)).join_request()
            direct.state.groups.join(request_, Client("silent", "", 3))


@pytest.mark.parametrize("options", [PROTOCOLS[0], PROTOCOLS[4]], ids=name_of)
def test_a_silent_member_is_replaced_when_its_session_is_over(
    cluster: FakeCluster, client: KafkaClient, options: dict[str, Any]
) -> None:
    with contextlib.ExitStack() as stack:
        readers = Readers(client, stack)
        readers.join(Ours(client, options))
        silent_member(cluster, options)
        state, group = cluster._state, cluster._state.groups.get("g")
        until(client.cluster.handler, lambda: 0 < len(readers.members[0].share) < PARTITIONS)
        members: dict[str, Any] = group.members  # type: ignore[union-attr]

        def signs() -> set[int]:
            return {member.session.due_ms for member in [*members.values()]}

        def go_on() -> None:
            with state.lock:
                before = signs()
                state.waiters.advance(9_000)
            until(client.cluster.handler, lambda: signs() - before)

        for _ in range(6):  # in steps, in which the other member says that it lives
            go_on()
        readers.check()
