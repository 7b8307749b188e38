"""Members that leave their group or stay in it as `close()` says (KIP-1092), rebalances on request (KIP-568), and the line
about the next protocol (KIP-1274)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from tests.brokers import KafkaCluster
from tests.integration.groups.test_consumer_groups import Consumer, Readers
from tests.support.features import kafka_since
from tests.support.groups import close_before_the_answer
from tests.support.inside import membership_of
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

CONSUMER = pytest.param("consumer", marks=pytest.mark.needs("assigning"))
ADVICE = "pykafka.groups.classic.membership.advice"


@pytest.fixture
def readers(client: KafkaClient) -> Iterator[Readers]:
    group = Readers(client)
    yield group
    group.close()


def members(readers: Readers) -> int:
    """Return how many members the coordinator has."""
    return len(readers.client.admin.describe_groups(readers.group)[readers.group].members)


def generation(consumer: Consumer) -> int:
    """Return the generation of a classic member."""
    return int(membership_of(consumer).generation)


def divided(readers: Readers) -> None:
    """Wait until all partitions are read, each member has some, and no rebalance is under way."""
    readers.until(
        lambda: (
            all(consumer.assignment() and membership_of(consumer).is_stable for consumer in readers.consumers)
            and sorted(key for consumer in readers.consumers for key in consumer.assignment()) == sorted(readers.keys())
        )
    )


def joined_again(one: Consumer, two: Consumer, before: int) -> bool:
    """Return whether both members are in one generation, later than `before`."""
    return generation(one) == generation(two) > before


def instance() -> str:
    return f"i-{uuid.uuid4().hex[:8]}"


@pytest.mark.on_asyncio
@pytest.mark.needs("static")
@pytest.mark.parametrize("protocol", ["classic", CONSUMER, "auto"])
@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("leave_group", [None, True, False])
@pytest.mark.later("auto-", "greenlets-None", "asyncio-None")
def test_a_member_leaves_or_stays_as_it_says(
    readers: Readers, protocol: str, static: bool, leave_group: bool | None
) -> None:
    """By default a dynamic member leaves, and a static one stays."""
    one = readers.join(protocol=protocol)
    two = readers.join(protocol=protocol, group_instance_id=instance() if static else None)
    divided(readers)
    two.close(leave_group=leave_group)
    readers.consumers.remove(two)
    leaves = not static if leave_group is None else leave_group
    assert members(readers) == 2 - leaves
    if leaves:
        readers.until(lambda: len(one.assignment()) == 6)


@pytest.mark.needs("groups")
@pytest.mark.later("greenlets")
def test_others_get_the_partitions_of_a_member_that_stayed_at_the_end_of_its_session(readers: Readers) -> None:
    """Its offsets were committed: nothing is read twice."""
    readers.produce(60)
    one, two = readers.join(protocol="classic"), readers.join(protocol="classic")
    divided(readers)
    two.close(leave_group=False)
    readers.consumers.remove(two)
    now = readers.client.cluster.handler.now
    began = now()
    readers.until(lambda: len(one.assignment()) == 6)
    assert now() - began > 3  # of six, the session timeout
    readers.until(lambda: set(readers.read) == readers.all_values())
    assert set(readers.read.values()) == {1}


@pytest.mark.needs("static")
@pytest.mark.parametrize("protocol", ["classic", CONSUMER])
@pytest.mark.later("greenlets")
def test_a_static_member_comes_back_to_its_partitions(readers: Readers, protocol: str) -> None:
    one, name = readers.join(protocol=protocol), instance()
    two = readers.join(protocol=protocol, group_instance_id=name)
    divided(readers)
    held = two.assignment()
    readers.close(two)
    assert two not in readers.consumers
    again = readers.join(protocol=protocol, group_instance_id=name)
    divided(readers)
    assert again.assignment() == held
    readers.consumers.remove(again)
    again.close(leave_group=True)
    readers.until(lambda: len(one.assignment()) == 6)


@pytest.mark.needs("static")
@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("leave_group", [True, False])
@pytest.mark.later("greenlets-True-static", "greenlets-False-dynamic")
def test_a_member_that_closes_while_its_first_join_waits_leaves_or_stays(
    readers: Readers, static: bool, leave_group: bool
) -> None:
    """The coordinator holds the answer back until the other member, which does not poll, has joined again."""
    one = readers.join(protocol="classic")
    divided(readers)
    two = readers.join(protocol="classic", group_instance_id=instance() if static else None)
    polling = readers.client.cluster.handler.spawn(two.poll, 1, 30.0, name="polls")
    until(readers.client.cluster.handler, lambda: members(readers) == 2 and membership_of(two).pending_join.sent)
    two.close(leave_group=leave_group)
    readers.consumers.remove(two)
    assert polling.join(5)
    assert members(readers) == 2 - leave_group
    readers.until(lambda: len(one.assignment()) == 6 and members(readers) == 1)
    divided(readers)


@pytest.mark.needs("assigning")
@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("leave_group", [True, False])
@pytest.mark.later("greenlets-True-static", "greenlets-False-dynamic")
def test_a_member_that_closes_before_the_answer_to_its_first_heartbeat_leaves_or_stays(
    readers: Readers, kafka: KafkaCluster, static: bool, leave_group: bool
) -> None:
    """The broker gets the heartbeat that joins and the one that leaves at the same time."""
    one = readers.join(protocol="consumer")
    divided(readers)
    two = readers.join(protocol="consumer", group_instance_id=instance() if static else None)
    close_before_the_answer(
        kafka,
        readers.client.cluster.handler,
        partial(two.poll, 1, 30.0),
        partial(two.close, leave_group=leave_group),
        lambda: membership_of(two).heartbeats.target and not membership_of(two).heartbeats.has_ended,
    )
    readers.consumers.remove(two)
    if leave_group:
        readers.until(lambda: members(readers) == 1)
        for _ in range(20):
            readers.turn()
        assert len(one.assignment()) == 6
    assert members(readers) == 2 - leave_group


def test_leave_group_is_a_bool(readers: Readers) -> None:
    one = readers.join()
    with pytest.raises(TypeError, match="leave_group"):
        one.close(leave_group="no")  # type: ignore[arg-type]
    one.poll(1, 0)  # it was not closed


# -- rebalances on request ---------------------------------------------------------------------------------------------


@pytest.mark.needs("groups")
@pytest.mark.on_asyncio
@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
@pytest.mark.later("greenlets-sticky", "asyncio-sticky")
def test_each_member_can_make_the_group_rebalance(readers: Readers, assignor: str) -> None:
    """Also one that is not the leader, and whose metadata would be that of before."""
    readers.produce(40)
    classic: dict[str, Any] = {"protocol": "classic", "assignor": assignor}
    one, two = readers.join(**classic), readers.join(**classic)
    divided(readers)
    for consumer in (one, two, two):
        before = generation(one)
        consumer.enforce_rebalance("the assignor's data has changed")
        readers.until(partial(joined_again, one, two, before))
        divided(readers)
    readers.until(lambda: set(readers.read) == readers.all_values())
    assert set(readers.read.values()) == {1}


@pytest.mark.needs("groups")
@pytest.mark.later("greenlets")
def test_one_request_makes_one_rebalance(readers: Readers) -> None:
    """Also many, before the member reads again, and while the group rebalances."""
    one = readers.join(protocol="classic")
    one.enforce_rebalance()  # it has not joined
    readers.shared(6)
    assert generation(one) == 1
    for _ in range(10):
        one.enforce_rebalance()
    readers.until(lambda: generation(one) == 2)
    for _ in range(20):
        readers.turn()
    assert generation(one) == 2


@pytest.mark.needs("groups")
def test_a_request_wakes_a_member_that_waits(readers: Readers) -> None:
    one = readers.join(protocol="classic")
    readers.shared(6)
    handler, before = readers.client.cluster.handler, generation(one)
    worker = handler.spawn(one.poll, 1, 20.0, name="waits")
    handler.sleep(0.3)
    one.enforce_rebalance("now")
    readers.consumers.clear()
    readers.until(lambda: generation(one) > before, 5)
    readers.produce(1)
    assert worker.join(20)
    one.close()


@pytest.mark.needs("assigning")
@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_where_the_broker_assigns_it_does_nothing(
    readers: Readers, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = readers.join(protocol=protocol)
    readers.shared(6)
    one.enforce_rebalance("in vain")
    assert "enforce_rebalance() has no effect" in caplog.text
    readers.shared(6)


def test_no_member_makes_no_rebalance(readers: Readers) -> None:
    with readers.client.consumer(readers.topics[0]) as alone, pytest.raises(KafkaException, match="group="):
        alone.enforce_rebalance()
    with readers.client.consumer(group=readers.group) as idle, pytest.raises(KafkaException, match="subscribe"):
        idle.enforce_rebalance()
    idle.close()
    with pytest.raises(KafkaException, match="closed"):
        idle.enforce_rebalance()


# -- the line about the next protocol ----------------------------------------------------------------------------------


def advice(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == ADVICE]


@pytest.mark.needs("groups")
def test_a_client_says_once_that_brokers_have_the_next_protocol(
    readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, ADVICE)
    for _ in range(2):
        readers.join(protocol="classic")
        divided(readers)
    lines = advice(caplog)
    assert len(lines) == kafka_since(4, 0)
    assert all(readers.group in line and "protocol= out" in line and ADVICE in line for line in lines)


@pytest.mark.needs("groups")
def test_auto_says_nothing_where_it_chose_the_classic_protocol(
    readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, ADVICE)
    readers.join(protocol="auto", assignor="sticky")
    readers.shared(6)
    assert advice(caplog) == []
