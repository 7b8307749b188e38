"""Rebalances that an interrupt ends at any step: nobody waits for a lost member, and no partition is read by two."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer
from pykafka.common import TopicPartition
from pykafka.exceptions import ResponseTimeoutError
from pykafka.groups.classic.membership import BackgroundJoin
from pykafka.groups.classic.pending_join import DeadlinePassed, PendingJoin
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from tests.support.inside import engine_of, listener_of, membership_of
from tests.support.interrupts import Interrupted, interrupting
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

TOPIC = "orders"
KEYS = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
CLASSIC: dict[str, Any] = {"protocol": "classic", "heartbeat_interval_ms": 50, "session_timeout_ms": 6000}


def fill(client: KafkaClient) -> None:
    with client.producer() as producer:
        for key in KEYS:
            producer.produce(TOPIC, b"an order", partition=key.partition).get(timeout=10)


def read_ahead(consumer: KafkaConsumer[Any, Any]) -> None:
    """Begin anew with all partitions, and wait until the records of each are buffered."""
    engine = engine_of(consumer)
    consumer.assign(KEYS)
    consumer.seek_to_beginning()
    until(engine.handler, lambda: all(owned.readers or owned.reader for owned in engine.partitions.values()))


def members_of(cluster: FakeCluster, group: str) -> list[str]:
    """Return the ids of a classic group's members, and those that were given out and not used yet."""
    with cluster._state.lock:
        found: Any = cluster._state.groups._groups.get(group)
        return [] if found is None else [*found.members, *found._pending]


def test_a_first_request_to_join_that_is_cut_off_leaves_no_member_behind() -> None:
    """Else the group waits for it until its session ends, and this one begins as a member of no id."""
    files = ("groups/classic/pending_join.py", "handlers/interrupts.py", "network/node.py")
    with FakeCluster(brokers=1, topics={TOPIC: 2}) as cluster, KafkaClient(cluster.hosts) as client:
        cluster.set_group_settings(initial_rebalance_delay_ms=0)
        with client.consumer(TOPIC, group="warm", **CLASSIC) as consumer:  # connects
            _joins(consumer)
        for step, call in enumerate(interrupting(*files)):
            group = f"billing-{step}"
            consumer = client.consumer(TOPIC, group=group, **CLASSIC)
            with suppress(Interrupted):
                call(partial(_joins, consumer))
            consumer.close()
            left = members_of(cluster, group)
            assert left == [], f"step {step}"
        assert step > 20


def _joins(consumer: KafkaConsumer[Any, Any]) -> None:
    while not consumer.assignment():
        consumer.poll(timeout=0.2)


def test_an_answer_that_comes_with_the_deadline_is_the_next_calls(handler: Handler) -> None:
    """It has the member's id: without it the member cannot leave."""
    connection: Any = SimpleNamespace(handler=handler, group_id="g", coordinator="c", release=lambda: None)
    member = PendingJoin(connection)

    class Pending:
        done, error, deadline = False, None, handler.now() + 60
        answer = SimpleNamespace(member_id="m-1")

        def wait(self, timeout: float) -> bool:
            return False

        def get(self, timeout: float) -> Any:
            if self.done:
                return self.answer
            self.done = True
            raise ResponseTimeoutError("no answer within 0 s")

    sent: Any = SimpleNamespace(
        coordinator=SimpleNamespace(address="a:9092"), request=wire.JoinGroupRequest(), pending=Pending(), sent_at=0.0
    )
    member.sent = sent
    with pytest.raises(DeadlinePassed):
        member.answer(handler.now())
    assert member.sent is sent
    ids: list[str] = []
    assert member.answer(handler.now() + 1, ids.append) is Pending.answer
    assert ids == ["m-1"]


def test_partitions_that_are_given_up_by_a_call_that_is_cut_off_yield_no_records() -> None:
    with FakeCluster(brokers=1, topics={TOPIC: 2}) as cluster, KafkaClient(cluster.hosts) as client:
        fill(client)
        with client.consumer() as consumer:
            engine = engine_of(consumer)
            for step, call in enumerate(interrupting("consumer/assignment.py")):
                read_ahead(consumer)
                with suppress(Interrupted):
                    call(partial(engine.give_up, KEYS))
                engine.give_up(KEYS)
                assert consumer.poll(timeout=0) == [], f"step {step}"
            assert step > 2


def test_partitions_that_are_suspended_by_a_call_that_is_cut_off_come_back() -> None:
    with FakeCluster(brokers=1, topics={TOPIC: 2}) as cluster, KafkaClient(cluster.hosts) as client:
        fill(client)
        with client.consumer() as consumer:
            engine = engine_of(consumer)
            for step, call in enumerate(interrupting("consumer/assignment.py")):
                read_ahead(consumer)
                before = engine.partitions
                with suppress(Interrupted):
                    call(partial(engine.suspend_assignment, KEYS))
                engine.suspend_assignment(KEYS)
                assert (consumer.poll(timeout=0), engine.partitions) == ([], {}), f"step {step}"
                engine.resume_assignment(KEYS)
                assert engine.partitions == before, f"step {step}"
                assert len(consumer.poll(timeout=5)) + len(consumer.poll(timeout=0)) == 2, f"step {step}"
            assert step > 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_whose_unsubscribe_is_cut_off_reads_no_more(protocol: str) -> None:
    """Its listener ended the call, and the member has left: others read these partitions."""
    with FakeCluster(brokers=1, topics={TOPIC: 2}) as cluster, KafkaClient(cluster.hosts) as client:

        class Cut:
            def on_revoked(self, partitions: list[TopicPartition]) -> None:
                raise Interrupted

        with client.consumer(TOPIC, group="billing", protocol=protocol, listener=Cut()) as consumer:
            until(client.cluster.handler, lambda: bool(consumer.poll(timeout=0.1) or consumer.assignment()))
            with pytest.raises(Interrupted):
                consumer.unsubscribe()
            fill(client)
            assert consumer.poll(timeout=0.5) == []
            assert consumer.assignment() == []
            consumer.subscribe(TOPIC)
            found: list[Any] = []

            def both() -> bool:
                found.extend(consumer.poll(timeout=0.1))
                return len(found) == 2

            until(client.cluster.handler, both)
            listener_of(consumer).on_revoked = None


def test_a_join_in_the_background_whose_start_is_cut_off_is_the_only_one(handler: Handler) -> None:
    began, release = handler.Event(), handler.Event()

    class Cutting:
        def spawn(self, *args: Any, **kwargs: Any) -> Any:
            worker = handler.spawn(*args, **kwargs)
            began.wait(10)
            raise Interrupted(worker)

        def __getattr__(self, name: str) -> Any:
            return getattr(handler, name)

    def join(_: BackgroundJoin) -> None:
        began.set()
        release.wait(10)

    cutting: Any = Cutting()
    background = BackgroundJoin(cutting, join, lambda: None, "joining")
    with pytest.raises(Interrupted):
        background.start()
    assert not background.done
    release.set()
    assert background.wait(10)


def test_a_slow_on_assigned_keeps_its_partitions() -> None:
    """A member by KIP-848 reported none while its listener had them, so the coordinator gave some to the next member."""
    with FakeCluster(brokers=1, topics={TOPIC: 4}) as cluster, KafkaClient(cluster.hosts) as client:
        cluster.set_group_settings(consumer_heartbeat_interval_ms=50)
        handler = client.cluster.handler
        taken: list[TopicPartition] = []

        class Slow:
            def on_assigned(self, partitions: list[TopicPartition]) -> None:
                if len(partitions) == 4:
                    for _ in range(10):
                        second.poll(timeout=0.1)
                    taken.extend(second.assignment())

        options: dict[str, Any] = {"group": "billing", "protocol": "consumer"}
        second = client.consumer(TOPIC, **options)
        first = client.consumer(TOPIC, listener=Slow(), **options)
        until(handler, lambda: bool(first.poll(timeout=0.1) or first.assignment()))
        assert taken == []

        def share() -> bool:
            for consumer in (first, second):
                consumer.poll(timeout=0.02)
            return len(first.assignment()) == len(second.assignment()) == 2

        until(handler, share)
        first.close()
        second.close()


def test_a_member_whose_leaving_is_cut_off_as_it_joins_leaves_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCluster(brokers=1, topics={TOPIC: 2}) as cluster, KafkaClient(cluster.hosts) as client:
        with client.consumer(TOPIC, group="billing", assignor="cooperative-sticky", **CLASSIC) as consumer:
            _joins(consumer)

            def cut(*_: Any) -> None:
                raise Interrupted

            with monkeypatch.context() as patched, pytest.raises(Interrupted):
                patched.setattr(membership_of(consumer), "_end_background_join", cut)
                consumer.unsubscribe()
            until(client.cluster.handler, lambda: members_of(cluster, "billing") == [])
