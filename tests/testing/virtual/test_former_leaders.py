"""Consumers whose next offset a former leader, which is cut off and believes that it leads on, has not, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetOutOfRangeError, OffsetResetNeededError
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from pykafka.testing.call import Call
from pykafka.testing.names import error_code
from pykafka.testing.virtual import Scheduler, VirtualHandler

ORDERS = TopicPartition("orders", 0)
#: The leader of the beginning, and the one that is elected behind its back.
FORMER, PRESENT = 1, 2
#: How many records the former leader has, and the present one.
FEW, MANY = 2, 5
#: Without leader epochs; with them, without ids of topics; with both.
RELEASES = ["0.8.2", "1.1.1", "2.4", "2.7", "2.8.2", "4.4"]
#: Brokers with epochs and without ids: 2.8.2 with these versions of Fetch, which compares logs from 12 on.
FETCHES = {"2.4": 11, "2.7": 12}
#: How long a consumer may take that has to ask one broker more, without any pause (s).
AT_ONCE_S = 0.3


def _cluster(virtual: VirtualHandler, release: str) -> FakeCluster:
    cluster = FakeCluster(3, handler=virtual, as_version="2.8.2" if release in FETCHES else release)
    if release in FETCHES:
        cluster.set_versions("Metadata", 0, 9)
        cluster.set_versions("Fetch", 0, FETCHES[release])
    return cluster


@contextmanager
def _led_twice(
    virtual: VirtualHandler, release: str, everyone: bool = False
) -> Iterator[tuple[FakeCluster, KafkaClient]]:
    """Yield a cluster, and a client that knows the leader of the beginning, which is cut off by now and has fewer records.

    :param everyone: whether all brokers are cut off, so that nobody hears of the present leader
    """
    with (
        _cluster(virtual, release) as cluster,
        KafkaClient(cluster.hosts, handler=virtual) as client,
        KafkaClient(cluster.hosts, handler=virtual) as other,
        other.producer() as producer,
    ):
        cluster.create_topic(ORDERS.topic, 1, 3)
        cluster.set_leader(*ORDERS, FORMER)
        for value in range(FEW):
            producer.produce(ORDERS.topic, b"%d" % value, partition=0).get(10)
        assert client.cluster.leader(*ORDERS).id == FORMER
        for broker in cluster.broker_ids if everyone else [FORMER]:
            cluster.isolate(broker)
        cluster.set_leader(*ORDERS, PRESENT)
        while not everyone and other.cluster.leader(*ORDERS).id != PRESENT:
            other.cluster.update([ORDERS.topic])
        for value in range(FEW, FEW if everyone else MANY):
            producer.produce(ORDERS.topic, b"%d" % value, partition=0).get(10)
        yield cluster, client


@contextmanager
def _consuming_from(client: KafkaClient, offset: int, reset: str = "earliest") -> Iterator[Any]:
    """Yield a consumer whose next record is that of an offset.

    :param reset: its `auto_offset_reset`
    """
    with client.consumer(auto_offset_reset=reset) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, offset)
        yield consumer


def _name_former(cluster: FakeCluster, times: float = inf) -> list[int]:
    """Make the next answers about leaders those of a broker that is cut off; return a list that gets a number for each.

    :param times: how many answers
    """
    changed: list[int] = []

    def send_back(call: Call, response: Any) -> Any:
        if isinstance(response, wire.MetadataResponse) and len(changed) < times:
            part = response.topics[0].partitions[0]
            part.leader_id, part.leader_epoch = FORMER, min(part.leader_epoch, 0)
            changed.append(FORMER)
        return response

    cluster.on_answer(send_back)
    return changed


def _read(consumer: Any, virtual: VirtualHandler, seconds: float) -> list[int]:
    until = virtual.now() + seconds
    read: list[int] = []
    while virtual.now() < until and not read:
        read += [record.offset for record in consumer.poll(timeout=0.1)]
    return read


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_an_offset_that_a_former_leader_has_not_is_read_from_the_present_one(
    scheduler: Scheduler, virtual: VirtualHandler, release: str, reset: str
) -> None:
    """The consumer began again where `auto_offset_reset` says, in a log that nobody else reads: seed 1500046089."""

    def program() -> list[int]:
        with (
            _led_twice(virtual, release) as (_, client),
            _consuming_from(client, FEW + 1, reset) as consumer,
        ):
            return _read(consumer, virtual, AT_ONCE_S)

    assert scheduler.run(program) == [*range(FEW + 1, MANY)]


@pytest.mark.parametrize("release", RELEASES)
def test_an_offset_is_tried_at_the_present_leader_each_time_that_old_metadata_leads_back(
    scheduler: Scheduler, virtual: VirtualHandler, release: str
) -> None:
    """Nothing was written meanwhile, so the position is the same: it has been fetched, and is tried elsewhere again."""

    def program() -> list[int]:
        with (
            _led_twice(virtual, release) as (cluster, client),
            _consuming_from(client, MANY - 1) as consumer,
        ):
            assert _read(consumer, virtual, 2) == [MANY - 1]
            read: list[int] = []
            for _ in range(2):
                cluster.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=1)
                named = _name_former(cluster, times=1)
                read += _read(consumer, virtual, 5)
                assert named == [FORMER]
            return read

    assert scheduler.run(program) == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("everyone", [True, False], ids=["others are cut off, too", "another leads"])
def test_a_position_that_no_leader_has_is_reset_at_once(
    scheduler: Scheduler, virtual: VirtualHandler, release: str, everyone: bool
) -> None:
    def program() -> tuple[list[int], int]:
        with (
            _led_twice(virtual, release, everyone) as (_, client),
            _consuming_from(client, MANY + 1) as consumer,
        ):
            before = client.cluster.generation
            return _read(consumer, virtual, AT_ONCE_S), client.cluster.generation - before

    read, metadata = scheduler.run(program)
    assert read == [*range(FEW if everyone else MANY)]
    # where ids may show that the topic is another one, the second leader's refusal is a reason to ask, too
    assert metadata <= (1 if everyone or release < "2.8" else 2)


@pytest.mark.parametrize("release", ["2.4", "2.7"])
def test_a_leader_that_does_not_know_the_epoch_of_what_was_read_is_no_error(
    scheduler: Scheduler, virtual: VirtualHandler, release: str
) -> None:
    """Brokers before 2.7 say just that, and `poll()` raised it, although `auto_offset_reset` says where to go on."""

    def program() -> list[int]:
        with (
            _led_twice(virtual, release) as (cluster, client),
            _consuming_from(client, MANY - 1) as consumer,
        ):
            assert _read(consumer, virtual, 2) == [MANY - 1]
            _name_former(cluster)
            cluster.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=1)
            return _read(consumer, virtual, 5)

    assert scheduler.run(program) == [*range(FEW)]


def test_a_position_that_no_leader_has_is_the_applications_to_choose(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """With `auto_offset_reset="none"`, the error comes when the present leader has refused as well, and names its range."""

    def program() -> OffsetResetNeededError:
        with (
            _led_twice(virtual, "1.1.1") as (_, client),
            _consuming_from(client, MANY + 1, "none") as consumer,
        ):
            with pytest.raises(OffsetResetNeededError) as caught:
                _read(consumer, virtual, AT_ONCE_S)
            return caught.value

    error = scheduler.run(program)
    assert (error.offset, error.earliest, error.latest) == (MANY + 1, 0, MANY)
    assert isinstance(error.__cause__, OffsetOutOfRangeError)


@pytest.mark.parametrize("release", ["1.1.1", "2.7", "4.4"])
def test_an_answer_about_another_topic_says_nothing_of_the_leader(
    scheduler: Scheduler, virtual: VirtualHandler, release: str
) -> None:
    """The question was under way as the offset was refused, and the position was reset as soon as its answer came."""
    quiet = TopicPartition("quiet", 0)

    def program() -> list[int]:
        with _led_twice(virtual, release) as (cluster, client):
            cluster.create_topic(quiet.topic, 1, 3)
            cluster.set_leader(*quiet, 3)
            client.cluster.update([quiet.topic])
            with client.consumer(auto_offset_reset="earliest") as consumer:
                consumer.assign([ORDERS, quiet])
                consumer.seek(ORDERS, FEW)
                consumer.seek(quiet, 0)
                consumer.poll(timeout=1)
                held = cluster.hold("Metadata")
                cluster.hang_up(3)
                assert _read(consumer, virtual, 2.5) == []
                assert held.met
                consumer.seek(ORDERS, FEW + 1)
                assert _read(consumer, virtual, 0.5) == []
                cluster.clear_faults()
                return _read(consumer, virtual, 3)

    assert scheduler.run(program) == [*range(FEW + 1, MANY)]


@pytest.mark.parametrize("release", ["1.1.1", "2.7", "4.4"])
def test_an_answer_that_was_on_its_way_does_not_count(
    scheduler: Scheduler, virtual: VirtualHandler, release: str
) -> None:
    """Another call had asked the former leader itself, and its answer was taken for that of another broker."""

    def program() -> list[int]:
        with (
            _led_twice(virtual, release) as (cluster, client),
            client.consumer(auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([ORDERS])
            consumer.seek(ORDERS, FEW)
            consumer.poll(timeout=1)
            held = cluster.hold("Metadata", FORMER)
            asking = virtual.spawn(client.cluster.update, [ORDERS.topic])
            consumer.poll(timeout=0.2)
            assert held.met
            consumer.seek(ORDERS, FEW + 1)
            assert _read(consumer, virtual, 0.5) == []
            held.release()
            assert asking.join(1)
            return _read(consumer, virtual, 3)

    assert scheduler.run(program) == [*range(FEW + 1, MANY)]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("second", ["OFFSET_OUT_OF_RANGE", "NOT_LEADER_OR_FOLLOWER"])
def test_brokers_that_name_each_other_make_no_loop(
    scheduler: Scheduler, virtual: VirtualHandler, release: str, second: str
) -> None:
    """Each answer names another leader, and each leader refuses."""

    def program() -> tuple[int, int]:
        asked: Counter[type] = Counter()
        leaders = [FORMER]
        with (
            _led_twice(virtual, release) as (cluster, client),
            client.consumer(auto_offset_reset="earliest") as consumer,
        ):

            def alternate(call: Call, response: Any) -> Any:
                if isinstance(response, wire.MetadataResponse):
                    leaders[0] = FORMER + PRESENT - leaders[0]
                    for part in (part for topic in response.topics for part in topic.partitions):
                        part.leader_id, part.leader_epoch = leaders[0], -1
                elif isinstance(response, wire.FetchResponse):
                    code = error_code("OFFSET_OUT_OF_RANGE" if call.node.node_id == FORMER else second)
                    for refused in (part for topic in response.responses for part in topic.partitions):
                        refused.error_code, refused.records = code, None
                return response

            cluster.on_answer(alternate)
            cluster.on_request(lambda call: asked.update([type(call.request)]))
            consumer.assign([ORDERS])
            consumer.seek(ORDERS, FEW + 1)
            consumer.poll(timeout=20)
            return asked[wire.FetchRequest], asked[wire.MetadataRequest]

    fetches, metadata = scheduler.run(program)
    assert fetches < 100
    assert metadata < 100
