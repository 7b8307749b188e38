"""Members that agree through ZooKeeper, of `client.consumer(..., protocol="zookeeper")`: for brokers that keep no groups."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import Any

import gevent.os
import pytest

from pykafka import KafkaClient, RebalanceListener
from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetsNotCommitted, ShareLostError, ZooKeeperError
from pykafka.groups.zookeeper import membership
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.topic import Topic
from tests.support.groups import Place, balanced
from tests.support.inside import membership_of, options_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.no_loop("consume in groups of ZooKeeper"), pytest.mark.timeout(120)]

Join = Callable[..., "KafkaConsumer[bytes, bytes]"]


class Told(RebalanceListener):
    """A listener that notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []

    def _note(self, what: str, partitions: Collection[TopicPartition]) -> None:
        self.calls.append((what, tuple(key.partition for key in partitions)))

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._note("lost", partitions)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make members look for free partitions often."""
    monkeypatch.setattr(membership, "OWNER_POLL_INTERVAL_S", 1.0)
    monkeypatch.setattr(membership, "RETRY_S", 0.2)


@pytest.fixture
def topic(client: KafkaClient) -> Topic:
    return create_topic(client, 4)


@pytest.fixture
def join(client: KafkaClient, place: Place, topic: Topic) -> Iterator[Join]:
    """Yield a function that makes members of one group; they are closed at the end."""
    group = f"zk-{uuid.uuid4().hex[:8]}"
    with ExitStack() as opened:

        def join(*topics: Any, **options: Any) -> KafkaConsumer[bytes, bytes]:
            settings = {
                "group": group,
                "protocol": "zookeeper",
                "zookeeper_hosts": place.zookeeper,
                "session_timeout_ms": 6000,
                **options,
            }
            return opened.enter_context(client.consumer(*(topics or (topic.name,)), **settings))

        yield join


def fill(topic: Topic, count: int, start: int = 0) -> set[bytes]:
    values = {b"%d" % number for number in range(start, start + count)}
    with topic.get_producer(linger_ms=1) as producer:
        for value in values:
            producer.produce(value)
    return values


def polled(
    consumers: Collection[KafkaConsumer[bytes, bytes]], done: Callable[[list[bytes | None]], bool]
) -> list[bytes | None]:
    """Poll members in turn until all is done; return the values."""
    found: list[bytes | None] = []
    deadline = time.monotonic() + 40
    while not done(found):
        assert time.monotonic() < deadline, [sorted(one.assignment()) for one in consumers]
        for consumer in consumers:
            found += [record.value for record in consumer.poll(timeout=0.1)]
    return found


def shared(consumers: Collection[KafkaConsumer[bytes, bytes]], *sizes: int) -> Callable[[object], bool]:
    def is_shared(_: object) -> bool:
        shares = [one.assignment() for one in consumers]
        whole = [key for share in shares for key in share]
        return sorted(map(len, shares)) == sorted(sizes) and len(whole) == len(set(whole))

    return is_shared


def test_members_share_a_topic(join: Join, topic: Topic) -> None:
    values = fill(topic, 40)
    told = Told()
    first = join(listener=told, auto_commit=True)
    seen = polled([first], lambda found: len(found) >= 40)
    assert first.assignment() == [TopicPartition(topic.name, id_) for id_ in range(4)]
    second = join(auto_commit=True)
    seen += polled([first, second], shared([first, second], 2, 2))
    assert told.calls[0] == ("assigned", (0, 1, 2, 3))
    assert [what for what, _ in told.calls] == ["assigned", "revoked", "assigned"]
    assert len(told.calls[1][1]) == 2, "what stays is not revoked"
    more = fill(topic, 40, 100)
    seen += polled([first, second], lambda found: len(found) >= 40)
    second.close()
    seen += polled([first], shared([first], 4))
    last = fill(topic, 20, 200)
    seen += polled([first], lambda found: len(found) >= 20)
    assert sorted(map(int, filter(None, seen))) == sorted(map(int, values | more | last)), "each comes once"


def test_it_shares_with_balanced_consumers(client: KafkaClient, join: Join, place: Place, topic: Topic) -> None:
    consumer = join(auto_commit=True)
    polled([consumer], shared([consumer], 4))
    others = balanced(client, place)
    others.name, others.topic = options_of(consumer).consumer_group or "", topic
    member = others.join(auto_start=False, rebalance_max_retries=100)
    starting = client.cluster.handler.spawn(member.start)
    deadline = time.monotonic() + 30
    while len(member.partitions) != 2 or len(consumer.assignment()) != 2:
        assert time.monotonic() < deadline, (sorted(member.partitions), consumer.assignment())
        consumer.poll(timeout=0.1)
    assert not {key.partition for key in consumer.assignment()} & set(member.partitions)
    starting.join()
    member.stop()
    polled([consumer], shared([consumer], 4))


def test_many_topics_keep_numbers_together(client: KafkaClient, join: Join, topic: Topic) -> None:
    other = create_topic(client, 4)
    names = (topic.name, other.name)
    first, second = join(*names), join(*names)
    polled([first, second], shared([first, second], 4, 4))
    for one in (first, second):
        ids = {name: {key.partition for key in one.assignment() if key.topic == name} for name in names}
        assert ids[topic.name] == ids[other.name]
    first.subscribe(topic.name)
    polled([first, second], shared([first, second], 2, 6))


def test_a_session_that_ends_loses_the_share(client: KafkaClient, join: Join, topic: Topic) -> None:
    fill(topic, 20)
    told = Told()
    first = join(listener=told)
    polled([first], lambda found: len(found) >= 20)
    shares: Any = membership_of(first)
    shares._session._silent(shares._session.state, "the test ends the session")
    with pytest.raises((ShareLostError, OffsetsNotCommitted), match="session in ZooKeeper"):
        first.commit()
    seen = polled([first], lambda found: len(found) >= 20)
    assert len(seen) == 20, "nothing was committed, so all of it comes again"
    assert told.calls == [("assigned", (0, 1, 2, 3)), ("lost", (0, 1, 2, 3)), ("assigned", (0, 1, 2, 3))]
    first.commit()


def test_it_knows_the_session_timeout_that_zookeeper_agrees_to(join: Join) -> None:
    first = join(session_timeout_ms=600_000)
    polled([first], shared([first], 4))
    shares: Any = membership_of(first)
    assert shares._session.state.timeout_s == 20, "ZooKeeper agrees to 20 times its tickTime"


def test_a_member_that_makes_no_calls_leaves(join: Join, topic: Topic) -> None:
    first = join(max_poll_interval_ms=1500)
    polled([first], shared([first], 4))
    second = join()
    polled([second], shared([second], 4))
    polled([first, second], shared([first, second], 2, 2))


def test_killed_members_are_replaced(join: Join, kazoo: Any, topic: Topic) -> None:
    first, second = join(auto_commit=True), join(auto_commit=True)
    polled([first, second], shared([first, second], 2, 2))
    shares: Any = membership_of(first)
    connection = shares._session.client._connection
    connection._socket.shutdown(2)  # kazoo connects again, with the same session
    polled([first, second], shared([first, second], 2, 2))
    path = f"/consumers/{options_of(first).consumer_group}/ids/{shares._name}:{topic.name}"
    kazoo.delete(path)  # as if an operator had cleaned up
    polled([first, second], shared([first, second], 2, 2))


def test_a_partition_that_was_half_released_becomes_free(join: Join, kazoo: Any, topic: Topic) -> None:
    """Each owner stands in two places; an answer that comes too late may leave one of them."""
    first = join()
    polled([first], shared([first], 4))
    path = f"/consumers/{options_of(first).consumer_group}/owners/{topic.name}"
    for name in kazoo.get_children(path):
        kazoo.delete(f"{path}/{name}")
    second = join()
    polled([first, second], shared([first, second], 2, 2))


def test_a_forked_child_is_a_member_of_its_own(client: KafkaClient, join: Join, topic: Topic) -> None:
    """It loses what its parent has, and gets a share beside it; nothing of the parent's goes when it ends."""
    fill(topic, 40)
    parent = join()
    polled([parent], shared([parent], 4))
    system: Any = gevent.os if client.cluster.handler.cooperative else os
    pid = system.fork()
    if pid == 0:
        try:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and len(parent.assignment()) != 2:
                parent.poll(timeout=0.1)
            os._exit(0 if len(parent.assignment()) == 2 else 1)
        finally:  # the child of a test must not go on with pytest
            os._exit(2)
    deadline = time.monotonic() + 40
    while not (ended := system.waitpid(pid, os.WNOHANG))[0]:
        assert time.monotonic() < deadline
        parent.poll(timeout=0.1)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
    polled([parent], shared([parent], 4))


def test_patterns_find_new_topics(client: KafkaClient, join: Join) -> None:
    prefix = f"p-{uuid.uuid4().hex[:8]}"
    create_topic(client, 2, name=f"{prefix}-a")
    consumer = join(f"^{prefix}-.*", metadata_max_age_ms=500)
    polled([consumer], shared([consumer], 2))
    create_topic(client, 3, name=f"{prefix}-b")
    polled([consumer], shared([consumer], 5))


def test_calls_keep_their_time(client: KafkaClient, join: Join, topic: Topic) -> None:
    with client.consumer(
        topic.name, group="nobody", protocol="zookeeper", zookeeper_hosts="127.0.0.1:1", session_timeout_ms=1500
    ) as consumer:
        began = time.monotonic()
        assert consumer.poll(timeout=0.3) == []
        assert time.monotonic() - began < 1.2
        with pytest.raises(ZooKeeperError, match="127.0.0.1:1 did not answer"):
            consumer.poll(timeout=10)


def test_what_it_refuses(client: KafkaClient, place: Place, topic: Topic) -> None:
    options: dict[str, Any] = {"group": "nobody", "protocol": "zookeeper"}
    with pytest.raises(ValueError, match='zookeeper_hosts="host:port"'):
        client.consumer(topic.name, **options)
    options["zookeeper_hosts"] = place.zookeeper
    with pytest.raises(ValueError, match="must have the same: give assignor='range' or 'roundrobin'"):
        client.consumer(topic.name, assignor="sticky", **options)
    with pytest.raises(ValueError, match="no static members"):
        client.consumer(topic.name, group_instance_id="host-1", **options)


@pytest.mark.lacks("groups")
def test_auto_takes_zookeeper_where_brokers_keep_no_groups(client: KafkaClient, join: Join, topic: Topic) -> None:
    first = join(protocol="auto")
    polled([first], shared([first], 4))
    with client.consumer(topic.name, group="nobody", protocol="auto") as consumer:
        with pytest.raises(ValueError, match="zookeeper_hosts="):
            consumer.poll(timeout=5)


def test_calls_that_are_too_short_for_answers_get_them_in_the_end(
    client: KafkaClient, join: Join, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "LEAST_S", 0.0005)
    monkeypatch.setattr(membership, "RETRY_S", 0.02)
    other = create_topic(client, 4)
    first, second = join(topic.name, other.name), join(topic.name, other.name)
    deadline = time.monotonic() + 40
    while not shared([first, second], 4, 4)(None):
        assert time.monotonic() < deadline, [sorted(one.assignment()) for one in (first, second)]
        for consumer in (first, second):
            consumer.poll(timeout=0)
        client.cluster.handler.sleep(0.005)
