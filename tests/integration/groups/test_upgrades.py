"""A group of another client, or of the classic protocol here, whose members are replaced by ones with the default protocol.

Each is replaced in turn, as a rolling restart does, and back again; then all of them stop and start at once.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import GroupType
from pykafka.exceptions import InconsistentGroupProtocol
from pykafka.groups.classic.membership import ClassicMembership
from pykafka.groups.kip848.membership import ConsumerGroupMembership
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.foreign import AioKafka, Confluent, KafkaPython
from tests.support.inside import membership_of
from tests.support.loops import Concurrency
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.needs("assigning"),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),  # kafka-python's
]

PARTITIONS = 6
#: kafka-python leaves a socket to the garbage collector when it closes.
LEAVES_A_SOCKET = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)
#: Of the brokers: groups do not change their protocol while they have members.
DISABLED = {"group.consumer.migration.policy": "disabled"}
CLASSIC: dict[str, Any] = {"protocol": "classic", "heartbeat_interval_ms": 200}


class Ours:
    """A member of this package that commits what it has read, with the face of a foreign one."""

    def __init__(self, client: KafkaClient, group: str, topic: str, **options: Any) -> None:
        self._handler = client.cluster.handler
        self.values: list[bytes | None] = []
        self._stopping = False
        self.consumer: Any = client.consumer(
            topic, group=group, auto_commit=True, auto_offset_reset="earliest", **options
        )
        self._worker = self._handler.spawn(self._read)

    @property
    def share(self) -> set[int]:
        return {key.partition for key in self.consumer.assignment()}

    @property
    def kind(self) -> type[Any]:
        """The class of the membership that "auto" has chosen."""
        return type(membership_of(self.consumer))

    def _read(self) -> None:
        with self.consumer:
            while not self._stopping:
                self.values += [record.value for record in self.consumer.poll(500, 0.1)]

    def stop(self) -> None:
        self._stopping = True
        assert self._worker.join(30)
        if self._worker.error is not None:
            raise self._worker.error


class Fleet:
    """The members of one group, and what they have read of what was written."""

    def __init__(self, client: KafkaClient, hosts: str) -> None:
        self.client, self.hosts = client, hosts
        self.topic, self.group = create_topic(client, PARTITIONS).name, f"g-{uuid.uuid4().hex[:8]}"
        self.members: list[Any] = []
        self.left: list[Any] = []
        self.written = 0

    def ours(self, **options: Any) -> Ours:
        return Ours(self.client, self.group, self.topic, **options)

    def theirs(self, kind: type[Any]) -> Any:
        return kind(self.hosts, self.group, self.topic)

    def join(self, member: Any) -> Any:
        self.members.append(member)
        self.settle()
        return member

    def replace(self, make: Callable[[], Any]) -> None:
        """Stop the member that has been there longest, and start another one."""
        self.stop_first()
        self.join(make())

    def stop_first(self) -> None:
        member = self.members.pop(0)
        self.left.append(member)
        member.stop()

    def settle(self) -> None:
        """Write, and wait until the members have all partitions between them and have read everything."""
        with self.client.producer() as producer:
            for number in range(60):
                producer.produce(self.topic, b"%d" % (self.written + number), partition=number % PARTITIONS)
        self.written += 60
        wanted = {b"%d" % number for number in range(self.written)}
        until(self.client.cluster.handler, lambda: self.is_divided() and set(self.read()) == wanted, 60)

    def is_divided(self) -> bool:
        shares = [member.share for member in self.members]
        return sorted(id_ for share in shares for id_ in share) == list(range(PARTITIONS)) and all(shares)

    def read(self) -> Counter[bytes | None]:
        return Counter(value for member in (*self.left, *self.members) for value in member.values)

    def type(self) -> GroupType:
        """The type of the group at its coordinator."""
        return self.client.admin.describe_groups(self.group)[self.group].type

    def stop(self) -> None:
        while self.members:
            self.stop_first()


@pytest.fixture
def fleet(client: KafkaClient, kafka: KafkaCluster) -> Iterator[Fleet]:
    made = Fleet(client, kafka.hosts)
    yield made
    made.stop()


def kinds(fleet: Fleet) -> set[type[Any]]:
    return {member.kind for member in fleet.members}


@pytest.mark.parametrize(
    "former",
    [
        None,
        pytest.param(Confluent, marks=pytest.mark.matrix),
        pytest.param(KafkaPython, marks=[pytest.mark.matrix, LEAVES_A_SOCKET]),
        pytest.param(AioKafka, marks=pytest.mark.matrix),
    ],
)
@pytest.mark.later("greenlets")
def test_a_rolling_upgrade_keeps_the_protocol_until_all_members_start_anew(
    fleet: Fleet, former: type[Any] | None
) -> None:
    def old() -> Any:
        return fleet.ours(**CLASSIC) if former is None else fleet.theirs(former)

    for _ in range(3):
        fleet.join(old())
    for _ in range(3):  # the upgrade
        fleet.replace(fleet.ours)
    assert kinds(fleet) == {ClassicMembership}
    assert fleet.type() is GroupType.CLASSIC
    fleet.replace(old)  # one back, and forth again
    fleet.replace(fleet.ours)
    fleet.stop()
    for _ in range(3):  # all start anew
        fleet.join(fleet.ours())
    assert kinds(fleet) == {ConsumerGroupMembership}
    assert fleet.type() is GroupType.CONSUMER
    if former is None:
        assert set(fleet.read().values()) == {1}
    for _ in range(3):  # the way back, while the group is of the next protocol
        fleet.replace(old)
    fleet.settle()
    assert fleet.type() is GroupType.CLASSIC
    if former is None:
        # When the last member of the next protocol leaves, the coordinator begins another generation, in which the others may
        # not commit any more (ILLEGAL_GENERATION): one that has not heard of it in time reads again what it had not committed.
        assert max(fleet.read().values()) <= 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"assignor": "cooperative-sticky"}, "assignor="),
        ({"session_timeout_ms": 10_000}, "session_timeout_ms="),
        ({"heartbeat_interval_ms": 500}, "heartbeat_interval_ms="),
        ({"group_instance_id": "host-1"}, "group_instance_id="),
    ],
)
@pytest.mark.later("greenlets")
def test_options_of_the_classic_protocol_keep_it(
    client: KafkaClient, caplog: pytest.LogCaptureFixture, options: dict[str, Any], why: str
) -> None:
    caplog.set_level(logging.INFO, "pykafka.groups.auto_membership")
    topic = create_topic(client, 1).name
    with client.consumer(topic, group=topic, **options) as consumer:
        until(client.cluster.handler, lambda: consumer.poll(timeout=0.1) or consumer.assignment())
        assert type(membership_of(consumer)) is ClassicMembership
    assert why in caplog.text


@pytest.mark.matrix
@pytest.mark.parametrize(
    "config",
    [
        {"group.coordinator.rebalance.protocols": "classic"},
        DISABLED,
        {"group.consumer.migration.policy": "upgrade"},
        {"group.consumer.migration.policy": "downgrade"},
    ],
    ids=lambda config: "-".join(config.values()),
)
def test_brokers_that_permit_less(concurrency: Concurrency, config: dict[str, str]) -> None:
    """Members with the default protocol read on any of them, beside classic ones and after them."""
    lacks = "group.coordinator.rebalance.protocols" in config
    with (
        KafkaCluster(KAFKA_VERSION, config=config) as kafka,
        KafkaClient(kafka.hosts, **concurrency()) as client,
        ExitStack() as stack,
    ):
        fleet = Fleet(client, kafka.hosts)
        stack.callback(fleet.stop)
        fleet.join(fleet.ours(**CLASSIC))
        fleet.join(fleet.ours())
        fleet.replace(fleet.ours)
        assert kinds(fleet) == {ClassicMembership}
        fleet.stop()
        fleet.join(fleet.ours())
        fleet.join(fleet.ours())
        assert kinds(fleet) == {ClassicMembership if lacks else ConsumerGroupMembership}
        if config == DISABLED:  # the one policy that keeps classic members out of a group of the next protocol
            with (
                client.consumer(fleet.topic, group=fleet.group, **CLASSIC) as refused,
                pytest.raises(InconsistentGroupProtocol, match="migration"),
            ):
                refused.poll(timeout=10)
        else:
            fleet.join(fleet.ours(**CLASSIC))
        assert set(fleet.read().values()) == {1}
