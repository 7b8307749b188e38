"""Members of groups in odd places: closed by their listener, polled without a wait, left by an error; idle parallel work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as TheirConsumer

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import ConsumerStoppedException, FencedInstanceId, KafkaException, ShareLostError
from pykafka.groups.listener import RebalanceListener
from pykafka.kafkaconsumer import KafkaConsumer
from tests.brokers import KafkaCluster
from tests.integration.groups.test_consumer_groups import Readers
from tests.support.inside import engine_of, listener_of
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.on_asyncio, pytest.mark.needs("groups"), pytest.mark.timeout(100)]

Consumer = KafkaConsumer[Any, Any]


@pytest.fixture
def readers(client: KafkaClient) -> Iterator[Readers]:
    group = Readers(client)
    yield group
    group.close()


def committed(readers: Readers) -> int:
    """Return how many records the group has committed."""
    with readers.client.consumer(group=readers.group) as consumer:
        found = consumer.committed(*readers.keys()).values()
    return sum(one.offset for one in found if one is not None)


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.later("asyncio-False")
def test_on_revoked_may_close(readers: Readers, auto: bool) -> None:
    readers.produce(10)

    class Closing(RebalanceListener):
        def on_revoked(self, partitions: list[TopicPartition]) -> None:
            if not auto:
                one.commit()
            one.close()

    one = readers.join(committing=False, listener=Closing(), auto_commit=auto, auto_commit_interval_ms=60_000)
    readers.until(lambda: readers.read.total() == 20)
    two = readers.join(committing=False)
    two.poll(timeout=0.3)  # it joins, and so the group rebalances
    with pytest.raises(ConsumerStoppedException):
        while True:
            one.poll(timeout=5)
    assert one.assignment() == []
    readers.consumers.remove(one)
    assert committed(readers) == 20
    readers.shared(6)
    readers.turn(0.3)
    assert set(readers.read.values()) == {1}


@pytest.mark.later("greenlets", "asyncio")
def test_on_revoked_may_choose_other_partitions(readers: Readers) -> None:
    key = TopicPartition(readers.topics[0], 0)

    class Choosing(RebalanceListener):
        def on_revoked(self, partitions: list[TopicPartition]) -> None:
            one.assign([key])

    one = readers.join(committing=False, listener=Choosing())
    readers.shared(6)
    readers.join()
    readers.until(lambda: one.assignment() == [key])
    readers.produce(10)
    readers.until(lambda: set(readers.read) == readers.all_values())
    readers.turn(0.3)
    assert one.position(key) > 0


def test_on_assigned_may_close(readers: Readers) -> None:
    class Closing(RebalanceListener):
        def on_assigned(self, partitions: list[TopicPartition]) -> None:
            one.close()

    one = readers.join(committing=False, listener=Closing())
    with pytest.raises(ConsumerStoppedException):
        one.poll(timeout=5)
    assert one.assignment() == []
    readers.consumers.clear()


@pytest.mark.later("greenlets")
def test_polls_that_do_not_wait_take_part(readers: Readers) -> None:
    handler = readers.client.cluster.handler
    readers.produce(20)
    one = readers.join()
    two = readers.join()

    def turned() -> bool:
        for consumer in (one, two):
            began = handler.now()
            for record in consumer.poll(7, 0):
                readers.read[record.value] += 1
            assert handler.now() - began < 2.5
        return set(readers.read) == readers.all_values() and len(one.assignment()) in {2, 4}

    until(handler, turned, 30)
    assert set(readers.read.values()) == {1}


@pytest.mark.later("greenlets", "asyncio")
def test_what_an_error_leaves_in_hand_is_not_committed(readers: Readers) -> None:
    readers.topics = readers.topics[:1]
    readers.produce(20)
    options: dict[str, Any] = {"group": readers.group, "auto_commit": True, "auto_commit_interval_ms": 60_000}
    with pytest.raises(ZeroDivisionError), readers.client.consumer(*readers.topics, **options) as one:
        first = one.poll(5, 10)
        second = one.poll(5, 10)
        raise ZeroDivisionError
    assert (len(first), committed(readers)) == (5, 5)
    with readers.client.consumer(*readers.topics, **options) as two:
        seen: list[Any] = []

        def has_seen() -> bool:
            seen.extend(two.poll(timeout=0.1))
            return len(seen) == 15

        until(readers.client.cluster.handler, has_seen, 20)
    assert {record.value for record in second} <= {record.value for record in seen}


@pytest.mark.later("greenlets", "asyncio")
def test_partitions_of_others_are_refused_by_name(readers: Readers) -> None:
    one, two = readers.join(), readers.join()
    readers.shared(2, 4)
    (other, *_) = two.assignment()
    for call in (one.pause, one.resume, one.position, one.lag, one.seek_to_end, lambda key: one.seek(key, 3)):
        with pytest.raises(KafkaException, match="does not read that partition") as caught:
            call(other)
        assert (caught.value.topic, caught.value.partition) == other


@pytest.mark.needs("static")
@pytest.mark.later("threads", "greenlets")
def test_a_static_member_comes_back_to_its_share_and_a_second_one_puts_it_out(readers: Readers) -> None:
    readers.produce(10)
    one = readers.join(group_instance_id="one", committing=False, auto_commit=True)
    two = readers.join(group_instance_id="two")
    readers.shared(2, 4)
    share = one.assignment()
    readers.close(one)
    again = readers.join(group_instance_id="one")
    readers.until(again.assignment)
    assert again.assignment() == share
    listener: Any = listener_of(two).on_revoked.__self__
    told = list(listener.told)
    readers.until(lambda: set(readers.read) == readers.all_values())
    assert listener.told == told  # no rebalance
    assert set(readers.read.values()) == {1}
    newer = readers.join(group_instance_id="one")
    readers.consumers.remove(again)
    readers.until(newer.assignment)
    with pytest.raises(FencedInstanceId, match="'one'"):
        until(readers.client.cluster.handler, lambda: again.poll(timeout=0.1), 10)
    again.close()


@pytest.mark.later("greenlets", "asyncio")
def test_what_waits_for_its_commit_when_the_share_is_lost_is_refused(readers: Readers) -> None:
    handler = readers.client.cluster.handler
    readers.produce(10)
    one = readers.join(max_poll_interval_ms=700, committing=False)
    readers.until(lambda: readers.read.total() == 20)
    ended: list[Any] = []

    def note(error: Any, offsets: Any) -> None:
        ended.append(error)

    one.commit_async(on_commit=note)
    until(handler, lambda: len(ended) == 1)
    order = engine_of(one).commits_of("test").order
    with (turn := handler.Lock()):  # as another commit that takes its time
        place = order.take(turn)
        one.commit_async(on_commit=note)
        handler.sleep(1.5)
        order.leave(place)
    until(handler, lambda: len(ended) == 2)
    assert ended[0] is None
    assert isinstance(ended[1], ShareLostError)


def test_a_callback_of_a_commit_may_close(readers: Readers) -> None:
    handler = readers.client.cluster.handler
    readers.produce(10)
    one = readers.join(committing=False)
    readers.until(lambda: readers.read.total() == 20)
    ended: list[Any] = []

    def close(error: Any, offsets: Any) -> None:
        try:
            one.close()
        except BaseException as problem:
            ended.append(problem)
            raise
        ended.append(None)

    one.commit_async(on_commit=close)
    until(handler, lambda: ended, 10)
    assert ended == [None]
    readers.consumers.clear()


def test_ctrl_c_in_a_join_leaves_the_member_as_it_was(kafka: KafkaCluster) -> None:
    with KafkaClient(kafka.hosts) as client:
        readers = Readers(client)
        readers.produce(10)
        readers.join()
        readers.shared(6)
        readers.until(lambda: readers.read.total() == 20)
        two = readers.join()
        pressed = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        pressed.start()
        with pytest.raises(KeyboardInterrupt):
            two.poll()
        pressed.join()
        readers.shared(2, 4)
        readers.produce(10)
        readers.until(lambda: set(readers.read) == readers.all_values())
        assert set(readers.read.values()) == {1}
        readers.close()


@pytest.mark.needs("latest")
@pytest.mark.later("threads", "greenlets")
def test_a_group_with_confluent_kafka_reads_each_record_once(readers: Readers, kafka: KafkaCluster) -> None:
    readers.produce(50)
    settings = {"heartbeat.interval.ms": 200, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    theirs = TheirConsumer(
        {
            "bootstrap.servers": kafka.hosts,
            "group.id": readers.group,
            "partition.assignment.strategy": "range",
            **settings,
        }
    )

    def commit(consumer: Any, partitions: Any) -> None:
        if any(one.offset >= 0 for one in consumer.position(partitions)):
            consumer.commit(
                offsets=[one for one in consumer.position(partitions) if one.offset >= 0], asynchronous=False
            )

    def turn() -> bool:
        message = theirs.poll(0.02)
        if message is not None and message.error() is None:
            readers.read[message.value()] += 1
        return False

    try:
        one = readers.join()
        readers.until(lambda: readers.read.total() > 30)
        theirs.subscribe(readers.topics, on_revoke=commit)
        readers.until(lambda: turn() or (len(one.assignment()), len(theirs.assignment())) in {(2, 4), (4, 2)})
        readers.produce(50)
        readers.until(lambda: turn() or set(readers.read) == readers.all_values())
    finally:
        theirs.close()
    readers.shared(6)
    readers.produce(10)
    readers.until(lambda: set(readers.read) == readers.all_values())
    assert set(readers.read.values()) == {1}


@pytest.mark.later("greenlets", "asyncio")
def test_parallel_work_idles_only_once_it_has_its_share(readers: Readers) -> None:
    """A join that takes longer than `idle_timeout` is not a topic without records."""
    handler = readers.client.cluster.handler
    readers.produce(10)
    other = readers.join(protocol="classic")
    readers.shared(6)
    handled: list[Any] = []
    with readers.client.consumer(*readers.topics, group=readers.group, heartbeat_interval_ms=200) as one:
        with one.parallel(handled.append, workers=4, idle_timeout=1.5) as run:
            handler.sleep(3)  # `other` makes no call, and so holds the join up
            assert run.running
            readers.close(other)
            assert run.wait(20)
    assert len(handled) == 20 - readers.read.total()


@pytest.mark.later("threads", "asyncio")
def test_stop_ends_parallel_work_that_joins(readers: Readers) -> None:
    handler = readers.client.cluster.handler
    # Up to 0.10 the join waits for this member as long as its session lasts, and close() waits 5 s for the join.
    readers.join(protocol="classic", session_timeout_ms=20_000)
    readers.shared(6)
    with readers.client.consumer(*readers.topics, group=readers.group, heartbeat_interval_ms=200) as one:
        with one.parallel(print, workers=4) as run:
            handler.sleep(0.7)
            began = handler.now()
            run.stop()
        assert handler.now() - began < 2
    readers.turn()
