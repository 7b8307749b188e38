"""Members of groups that are interrupted at any step, dropped, forked, or whose topic is deleted under them."""

from __future__ import annotations

import gc
import os
import traceback
import weakref
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.groups.listener import RebalanceListener
from tests.brokers import KafkaCluster
from tests.support.protocols import quick_member
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups"), pytest.mark.timeout(240)]

SETTINGS: dict[str, Any] = quick_member({})


def test_a_timeout_at_any_step_loses_nothing(kafka: KafkaCluster) -> None:
    """A greenlet's timeouts end calls of a member at a hundred places, while another one comes and goes."""
    with KafkaClient(kafka.hosts, use_greenlets=True) as client:
        topic = create_topic(client, 4).name
        seen: list[tuple[int, int]] = []

        class Slow(RebalanceListener):
            def on_revoked(self, partitions: list[TopicPartition]) -> None:
                gevent.sleep(0.01)
                one.commit()

            def on_assigned(self, partitions: list[TopicPartition]) -> None:
                gevent.sleep(0.01)

        one = client.consumer(topic, group=topic, listener=Slow(), **SETTINGS)
        two = client.consumer(topic, group=topic, **SETTINGS)
        patience = 0.0005
        others: list[tuple[int, int]] = []
        producer = client.producer(linger_ms=0)
        for turn in range(100):
            producer.produce(topic, b"%d" % turn, partition=turn % 4)
            for consumer, found in ((one, seen), (two, others)):
                with gevent.Timeout(patience, False):
                    found += [(record.partition, record.offset) for record in consumer.poll(10)]
            patience = patience * 1.15 if patience < 0.2 else 0.0005
            if turn % 25 == 24:
                two.unsubscribe()
                two.subscribe(topic)
        producer.close()
        two.close()

        def all_read() -> bool:
            nonlocal seen
            seen += [(record.partition, record.offset) for record in one.poll(10, 0.1)]
            return len({*seen, *others}) == 100

        until(client.cluster.handler, all_read, 60)
        one.close()


def test_a_dropped_consumer_leaves_its_group(client: KafkaClient) -> None:
    topic = create_topic(client, 2).name

    def use() -> weakref.ref[Any]:
        consumer = client.consumer(topic, group=topic, **SETTINGS)
        consumer.poll(timeout=0.5)
        assert consumer.assignment()
        return weakref.ref(consumer)

    dropped = use()
    with client.consumer(topic, group=topic, **SETTINGS) as other:

        def has_all() -> bool:
            gc.collect()
            other.poll(timeout=0.1)
            return len(other.assignment()) == 2

        until(client.cluster.handler, has_all, 20)
    assert dropped() is None


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_a_member_of_its_own(kafka: KafkaCluster) -> None:
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client, 2).name
        with client.producer() as producer:
            for id_ in (0, 1):
                producer.produce(topic, b"first", partition=id_)
        consumer = client.consumer(topic, group=topic, **SETTINGS)
        assert consumer.one(20) is not None
        consumer.commit()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                while len(consumer.assignment()) != 1:
                    consumer.poll(timeout=0.1)
                consumer.close()
                os.write(writing, b"done")
            except BaseException:  # noqa: BLE001 - the parent tells it
                os.write(writing, traceback.format_exc().encode())
            finally:
                os._exit(0)
        os.close(writing)
        until(client.cluster.handler, lambda: (consumer.poll(timeout=0.1), len(consumer.assignment()) == 1)[1])
        until(client.cluster.handler, lambda: (consumer.poll(timeout=0.1), len(consumer.assignment()) == 2)[1])
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == b"done"
        os.waitpid(child, 0)
        consumer.close()


@pytest.mark.needs("admin")
@pytest.mark.later("greenlets")
def test_a_deleted_topic_is_lost_and_its_name_is_not_made_anew(client: KafkaClient) -> None:
    first, second = create_topic(client, 1).name, create_topic(client, 1).name
    lost: list[TopicPartition] = []

    class Listener(RebalanceListener):
        def on_revoked(self, partitions: list[TopicPartition]) -> None:
            consumer.commit(dict.fromkeys(partitions, 0))

        def on_lost(self, partitions: list[TopicPartition]) -> None:
            lost.extend(partitions)

    with client.consumer(first, second, group=first, listener=Listener(), **SETTINGS) as consumer:
        consumer.poll(timeout=1)
        assert len(consumer.assignment()) == 2
        client.admin.delete_topics(second)

        def gone() -> bool:
            consumer.poll(timeout=0.1)
            return consumer.assignment() == [TopicPartition(first, 0)]

        until(client.cluster.handler, gone, 40)
        assert lost == [TopicPartition(second, 0)]
        assert second not in {topic.name for topic in client.admin.list_topics()}
