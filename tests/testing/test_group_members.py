"""Real members of groups, of this package and of other clients, on a fake cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from pykafka.testing.groups.pending_answer import Client
from tests.support.foreign import Confluent
from tests.support.members import Ours, Readers
from tests.support.waiting import until
from tests.testing.direct import ClassicPeer, ConsumerPeer

pytestmark = pytest.mark.timeout(60)

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


def name_of(options: dict[str, Any]) -> str:
    return "-".join(str(options[key]) for key in ("protocol", "assignor") if key in options)


def readers_of(client: KafkaClient, stack: contextlib.ExitStack) -> Readers:
    return Readers(client, "orders", PARTITIONS, stack)


def ours(client: KafkaClient, options: dict[str, Any]) -> Ours:
    return Ours(client, "g", "orders", **options)


@pytest.mark.parametrize("options", PROTOCOLS, ids=name_of)
def test_members_come_and_go(client: KafkaClient, options: dict[str, Any]) -> None:
    with contextlib.ExitStack() as stack:
        readers = readers_of(client, stack)
        for _ in range(3):
            readers.join(ours(client, options))
        readers.leave()
        readers.leave()


@pytest.mark.parametrize("first", [0, 1])
def test_confluent_takes_part_by_kip_848(cluster: FakeCluster, client: KafkaClient, first: int) -> None:
    with contextlib.ExitStack() as stack:
        readers = readers_of(client, stack)
        for number in range(3):
            is_ours = number % 2 == first
            readers.join(ours(client, PROTOCOLS[4]) if is_ours else Confluent(cluster.hosts, "g", "orders", "consumer"))
        readers.leave()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_moves_to_kip_848_and_back(client: KafkaClient, cluster: FakeCluster, assignor: str) -> None:
    classic = {"protocol": "classic", "assignor": assignor, "heartbeat_interval_ms": 100}
    groups = cluster._state.groups
    with contextlib.ExitStack() as stack:
        readers = readers_of(client, stack)
        readers.join(ours(client, classic))
        readers.join(ours(client, {"protocol": "consumer"}))
        assert groups.consumer("g") is not None
        readers.join(ours(client, classic))
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
        readers = readers_of(client, stack)
        readers.join(ours(client, options))
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
