"""`client.consumer(...)` under attack: forks, timeouts of greenlets, partitions that change all the time; configurations."""

from __future__ import annotations

import json
import os
import random
from datetime import timedelta
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient, KafkaConsumer
from pykafka.common import TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import ConfigurationError, KafkaException
from tests.embedded.consumer.test_kafkaconsumer import cluster, drain, fill, make
from tests.support.inside import engine_of

__all__ = ["cluster", "make"]
pytestmark = pytest.mark.timeout(120)


def test_a_forked_child_goes_on_where_the_parent_was(cluster: EmbeddedCluster, make: Any) -> None:
    topic = make(2)
    with KafkaClient(cluster.hosts) as client:
        values = fill(client, topic, 20)
        fill(client, topic, 20, 1)
        with client.consumer(topic) as consumer:
            consumer.pause(TopicPartition(topic, 1))
            assert drain(consumer, 5) == values[:5]
            readable, writable = os.pipe()
            child = os.fork()
            if child == 0:
                said: Any = None
                try:
                    rest = [value.decode() for value in drain(consumer, 15)]
                    consumer.seek_to_beginning(TopicPartition(topic, 0))
                    paused = [tuple(key) for key in consumer.paused()]
                    said = [rest, paused, consumer.position(TopicPartition(topic, 0))]
                    client.close()
                except BaseException as error:  # noqa: BLE001 - the parent is told
                    said = repr(error)
                finally:
                    os.write(writable, json.dumps(said).encode())
                    os._exit(0)
            os.close(writable)
            with os.fdopen(readable) as pipe:
                assert json.loads(pipe.read()) == [[value.decode() for value in values[5:]], [[topic, 1]], 0]
            os.waitpid(child, 0)
            assert drain(consumer, 15) == values[5:]


def test_timeouts_of_greenlets_lose_nothing(cluster: EmbeddedCluster, make: Any) -> None:
    """Nothing is lost, and nothing comes twice, wherever a timeout ends a call."""
    topic = make(3)
    with KafkaClient(cluster.hosts, use_greenlets=True) as client:
        for partition in range(3):
            fill(client, topic, 400, partition)
        chance = random.Random(3)

        def slow(data: bytes) -> bytes:
            if chance.random() < 0.02:
                gevent.sleep(0.0005)
            return data

        seen: set[tuple[int, int]] = set()
        ended = 0
        with client.consumer(topic, value_deserializer=slow) as consumer:
            while len(seen) < 1200:
                found: list[Any] = []
                try:
                    with gevent.Timeout(chance.choice([0.0002, 0.001, 0.005])):
                        if chance.random() < 0.5:
                            found = consumer.poll(chance.randint(1, 50), chance.choice([0, None]))
                        else:
                            record = consumer.one(chance.choice([0, None]))
                            found = [] if record is None else [record]
                except gevent.Timeout:
                    ended += 1
                    gevent.sleep(0.001)
                    continue
                places = {(record.partition, record.offset) for record in found}
                assert not places & seen
                seen |= places
        assert ended > 3  # on a quick machine few calls last that long


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
def test_partitions_that_change_all_the_time(cluster: EmbeddedCluster, make: Any, greenlets: bool) -> None:
    """Each partition goes on where it was, or where it was sent, whatever another worker pauses meanwhile."""
    topic = make(3)
    keys = [TopicPartition(topic, id_) for id_ in range(3)]
    with KafkaClient(cluster.hosts, use_greenlets=greenlets) as client:
        for key in keys:
            fill(client, topic, 300, key.partition)
        handler = client.cluster.handler
        chance = random.Random(5)
        following = dict.fromkeys(keys, 0)
        done: list[BaseException | None] = []
        with client.consumer() as consumer:
            consumer.assign(keys)
            worker = handler.spawn(meddle, consumer, keys, handler, done)
            ends = handler.now() + 1.5
            while handler.now() < ends and not done:
                play(consumer, keys, following, chance)
                for record in consumer.poll(chance.randint(1, 100), 0.02):
                    key = TopicPartition(record.topic, record.partition)
                    assert record.offset == following[key]
                    following[key] += 1
            done.append(None)
            assert worker.join(10)
            assert done == [None]


def play(consumer: KafkaConsumer[Any, Any], keys: list[Any], following: dict[Any, int], chance: random.Random) -> None:
    """Change what is read, or move it; `following` has the offset of the next record of each partition that is read."""
    if chance.random() < 0.05:
        wanted = chance.sample(keys, chance.randint(0, 3))
        consumer.assign(wanted)
        kept = {key: following.get(key, 0) for key in wanted}
        following.clear()
        following.update(kept)
    if following and chance.random() < 0.1:
        key, offset = chance.choice(sorted(following)), chance.randint(0, 299)
        consumer.seek(key, offset)
        following[key] = offset
    if following and chance.random() < 0.03:
        consumer.seek_to_beginning()
        following.update(dict.fromkeys(following, 0))


def meddle(consumer: KafkaConsumer[Any, Any], keys: list[Any], handler: Any, done: list[Any]) -> None:
    """Pause and resume partitions until `done`, which gets an error."""
    chance = random.Random(9)
    while not done:
        key = chance.choice(keys)
        try:
            consumer.pause(key)
            handler.sleep(0.0005)
            consumer.resume(key)
            consumer.lag()
        except KafkaException as error:
            handler.sleep(0.0005)
            if "does not read" not in str(error):
                done.append(error)


def test_a_configuration_gives_the_defaults(cluster: EmbeddedCluster, make: Any) -> None:
    """Names of Java's client mean the same here; options of the call win."""
    topic = make()
    config = {
        "bootstrap.servers": cluster.hosts,
        "auto.offset.reset": "latest",
        "enable.auto.commit": "true",
        "group.id": "configured",
        "fetch.max.wait.ms": 50,
        "max.partition.fetch.bytes": 4096,
        "fetch.error.backoff.ms": 70,
    }
    with KafkaClient.from_config(config) as client:
        with client.consumer(fetch_max_wait_ms=20) as consumer:
            options = engine_of(consumer).options
            assert (options.consumer_group, options.auto_commit_enable) == ("configured", True)
            assert (options.fetch_wait_max_ms, options.fetch_message_max_bytes) == (20, 4096)
            assert options.fetch_error_backoff_ms == 70  # of the engine alone
            assert engine_of(consumer).rules.no_commit == "latest"
        with client.consumer(topic, group=None, auto_commit=False, auto_offset_reset="earliest") as consumer:
            values = fill(client, topic, 3)
            assert drain(consumer, 3) == values
    with (
        KafkaClient.from_config(config | {"auto.offset.reset": "by_duration:PT1H"}) as client,
        client.consumer() as consumer,
    ):
        assert engine_of(consumer).rules.no_commit == timedelta(hours=1)
    for wrong in ("newest", "by_duration:1h"):
        with pytest.raises(ConfigurationError, match=r"auto\.offset\.reset"):
            KafkaClient.from_config(config | {"auto.offset.reset": wrong})
