"""Defects that PyKafka 2 had, by reading: each test is named after the number it has in the team's list of them."""

from __future__ import annotations

import itertools
import queue
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient, connection
from pykafka.broker import Broker
from pykafka.consumer.fetcher import Fetcher
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    ConsumerStoppedException,
    CorrelationIdError,
    DeserializationError,
    GroupAuthorizationFailed,
    InvalidMessageError,
    KafkaException,
    MessagesNotDelivered,
    NoBrokersAvailableError,
    OffsetsNotCommitted,
    ResponseTimeoutError,
    TopicAuthorizationFailed,
    UnsupportedVersion,
    ZooKeeperError,
)
from pykafka.handlers import GEventHandler, Handler, ResponseFuture, ThreadingHandler
from pykafka.managedbalancedconsumer import ManagedBalancedConsumer
from pykafka.network import node
from pykafka.protocol import BrokerMetadata, MetadataRequest, versions, wire
from pykafka.security import SslConfig
from pykafka.simpleconsumer import SimpleConsumer
from pykafka.topic import Topic
from tests.support.certs import make_pems
from tests.support.scripted import TOPIC, ScriptedBroker, batch


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, topics={"t": 2}) as cluster:
        # It claims later versions of these, and hangs up on them.
        for api, highest in (("JoinGroup", 5), ("SyncGroup", 3), ("Heartbeat", 3), ("LeaveGroup", 1)):
            cluster.set_api_versions(api, 0, highest)
        yield cluster


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def client(request: pytest.FixtureRequest, cluster: EmbeddedCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=cluster.hosts, use_greenlets=request.param, socket_timeout_ms=5000) as client:
        yield client


@pytest.fixture
def topic(client: KafkaClient) -> Topic:
    return client.topics["t"]


def fill(topic: Topic, count: int) -> None:
    with topic.get_producer(linger_ms=5) as producer:
        for number in range(count):
            producer.produce(b"%d" % number)


def test_u01_metadata_comes_over_connections_that_are_there(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.update_cluster()
    made: list[str] = []
    connect = connection.BrokerConnection.connect

    def recorded(self: connection.BrokerConnection, *args: Any, **kwargs: Any) -> None:
        made.append(self.address)
        connect(self, *args, **kwargs)

    monkeypatch.setattr(connection.BrokerConnection, "connect", recorded)
    for _ in range(5):
        client.update_cluster()
    assert made == []


def test_u02_a_future_that_is_late_says_so(handler: Handler) -> None:
    future = ResponseFuture(handler)
    with pytest.raises(ResponseTimeoutError, match="no answer"):
        future.get(timeout=0.01)
    future.set_response(b"late")
    assert future.get(timeout=0.01) == b"late"


def test_u03_a_lock_excludes_its_own_greenlet(handler: Handler) -> None:
    lock = handler.Lock()
    assert lock.acquire()
    assert not lock.acquire(timeout=0.01)
    lock.release()


def longest_standstill(work: Callable[[], object]) -> float:
    """Run something in a greenlet, and return how long the hub stood still meanwhile (s)."""
    clock = ThreadingHandler()
    worker = gevent.spawn(work)
    longest, last = 0.0, clock.now()
    while not worker.ready():
        gevent.sleep(0.005)
        longest, last = max(longest, clock.now() - last), clock.now()
    worker.get()
    return longest


def test_u04_no_pause_holds_the_hub(cluster: EmbeddedCluster) -> None:
    with KafkaClient(hosts=cluster.hosts, use_greenlets=True, socket_timeout_ms=5000) as client:
        cluster.inject_errors("FindCoordinator", *["COORDINATOR_NOT_AVAILABLE"] * 5)
        assert longest_standstill(lambda: client.cluster.get_group_coordinator("g")) < 1.0


@pytest.mark.parametrize("sync", [True, False])
def test_u05_each_greenlet_gets_its_own_reports(cluster: EmbeddedCluster, sync: bool) -> None:
    with KafkaClient(hosts=cluster.hosts, use_greenlets=True) as client:
        topic = client.topics["t"]
        with topic.get_producer(sync=sync, delivery_reports=not sync, linger_ms=1) as producer:

            def work(name: int) -> None:
                wanted = [b"%d of %d" % (number, name) for number in range(20)]
                if sync:
                    assert all(producer.produce(value).offset >= 0 for value in wanted)
                    return
                for value in wanted:
                    producer.produce(value)
                reports = [producer.get_delivery_report(timeout=10) for _ in wanted]
                assert sorted(str(message.value) for message, _ in reports) == sorted(map(str, wanted))
                with pytest.raises(queue.Empty):
                    producer.get_delivery_report(block=False)

            workers = [gevent.spawn(work, name) for name in range(4)]
            for worker in workers:
                worker.get(timeout=30)


def test_u06_stop_waits_no_longer_than_there_is_something_pending(client: KafkaClient, topic: Topic) -> None:
    handler = client.cluster.handler
    producer = topic.get_producer(pending_timeout_ms=60_000, min_queued_messages=1, linger_ms=1)
    for _ in range(500):
        producer.produce(b"v")
    started = handler.now()
    producer.stop()
    assert handler.now() - started < 10


def test_u07_stop_says_what_was_lost(cluster: EmbeddedCluster, topic: Topic) -> None:
    producer = topic.get_producer(linger_ms=60_000, pending_timeout_ms=300)
    cluster.broker_down(1)
    for number in range(7):
        producer.produce(b"%d" % number)
    with pytest.raises(MessagesNotDelivered, match="7 messages") as caught:
        producer.stop()
    assert {message.value for message, _ in caught.value.failures} == {b"%d" % number for number in range(7)}


@pytest.fixture
def scripted() -> Iterator[Callable[..., SimpleConsumer]]:
    """Yield what makes a consumer of a broker that holds certain records."""
    ends: list[Any] = []

    def make(records: bytes, damage: Any = None, **options: Any) -> SimpleConsumer:
        server = ScriptedBroker(records, damage)
        ends.append(server.__enter__())
        client = KafkaClient(hosts=server.hosts, socket_timeout_ms=5000)
        ends.append(client)
        return client.topics[TOPIC].get_simple_consumer(**{"consumer_timeout_ms": 3000, **options})

    yield make
    for end in reversed(ends):
        end.__exit__(None, None, None)


def test_u08_gaps_between_offsets_do_not_stall(scripted: Callable[..., SimpleConsumer]) -> None:
    records = batch([b"a", b"b"]) + batch([b"c"], base_offset=10) + batch([b"d"], base_offset=50)
    consumer = scripted(records)
    found = [(message.offset, message.value) for message in itertools.islice(consumer, 4)]
    assert found == [(0, b"a"), (1, b"b"), (10, b"c"), (50, b"d")]


def test_u09_a_deserializer_is_not_asked_about_nothing(topic: Topic) -> None:
    def never(value: Any, key: Any) -> Any:
        raise AssertionError("there is nothing to deserialize")

    with topic.get_simple_consumer(deserializer=never, consumer_timeout_ms=50) as consumer:
        assert consumer.consume(block=False) is None
        assert consumer.consume() is None
        assert list(consumer) == []


@pytest.mark.parametrize("retries", [0, 1])
def test_u10_a_commit_that_fails_raises(cluster: EmbeddedCluster, topic: Topic, retries: int) -> None:
    fill(topic, 4)
    options: dict[str, Any] = {"offsets_commit_max_retries": retries, "offsets_channel_backoff_ms": 1}
    with topic.get_simple_consumer("g", consumer_timeout_ms=10_000, **options) as consumer:
        for _ in range(4):
            assert consumer.consume() is not None
        consumer.commit_offsets()  # no retries are one attempt, not none
        assert sum(committed.offset for _, committed in consumer.fetch_offsets()) == 4
        cluster.inject_errors("OffsetCommit", *["NOT_COORDINATOR"] * (retries + 1))
        with pytest.raises(OffsetsNotCommitted) as caught:
            consumer.commit_offsets()
        assert set(caught.value.failures) == {("t", 0), ("t", 1)}
        consumer.commit_offsets()


def test_u11_an_error_is_raised_once_and_starting_again_helps(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    cluster.create_topic("one", 1)  # each partition that cannot be fetched has an error of its own
    topic = client.topics["one"]
    fill(topic, 4)
    cluster.inject_errors("Fetch", "TOPIC_AUTHORIZATION_FAILED")
    consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000, fetch_error_backoff_ms=1)
    with pytest.raises(TopicAuthorizationFailed):
        list(consumer)
    consumer.stop()
    with pytest.raises(ConsumerStoppedException):
        consumer.consume()
    consumer.start()
    assert len(list(itertools.islice(consumer, 4))) == 4
    consumer.stop()


@pytest.fixture
def managed(topic: Topic) -> Iterator[Callable[..., ManagedBalancedConsumer]]:
    """Yield what makes a member of a group that the brokers keep, of `t` unless another topic is given."""
    made: list[ManagedBalancedConsumer] = []

    def make(of: Topic | None = None, **options: Any) -> ManagedBalancedConsumer:
        settings = {"consumer_timeout_ms": 10_000, "heartbeat_interval_ms": 200, **options}
        wanted = of or topic
        consumer = ManagedBalancedConsumer(wanted, topic._cluster, f"group of {wanted.name}", **settings)
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.stop()


def test_u12_a_start_that_fails_says_why(
    cluster: EmbeddedCluster, managed: Callable[..., ManagedBalancedConsumer]
) -> None:
    cluster.inject_errors("JoinGroup", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(GroupAuthorizationFailed):
        managed()


def test_u12_without_zookeeper_that_is_said(topic: Topic) -> None:
    with pytest.raises(ZooKeeperError, match="managed=True"):
        topic.get_balanced_consumer("g", zookeeper_connect="127.0.0.1:1", zookeeper_connection_timeout_ms=300)


def test_u13_a_bug_in_a_deserializer_is_heard_of(topic: Topic, managed: Callable[..., ManagedBalancedConsumer]) -> None:
    fill(topic, 2)

    def broken(value: Any, key: Any) -> Any:
        raise AttributeError("a bug of the user's")

    with pytest.raises(DeserializationError) as caught:
        managed(deserializer=broken).consume()
    assert isinstance(caught.value.__cause__, AttributeError)
    assert str(caught.value.__cause__) == "a bug of the user's"


def test_u14_members_read_their_own_topics(
    cluster: EmbeddedCluster, client: KafkaClient, topic: Topic, managed: Callable[..., ManagedBalancedConsumer]
) -> None:
    cluster.create_topic("other", partitions=1)
    other = client.topics["other"]
    fill(topic, 2)
    fill(other, 2)
    one, two = managed(), managed(of=other)
    for consumer, name in ((one, "t"), (two, "other")):
        message = consumer.consume()
        assert message is not None
        assert message.topic is not None
        assert message.topic.name == consumer.topic.name == name


def test_u15_a_share_that_is_the_same_is_kept(managed: Callable[..., ManagedBalancedConsumer]) -> None:
    consumer = managed()
    internal = consumer._consumer
    assert internal is not None
    assert internal.partitions == consumer.topic.partitions
    # as every rebalance ends
    assert not consumer._setup_internal_consumer(list(consumer.partitions.values()))
    assert consumer._consumer is internal


def test_u14_protocols_are_nobodys_property() -> None:
    from pykafka.membershipprotocol import RangeProtocol
    from pykafka.protocol import JoinGroupRequest

    before = bytes(RangeProtocol.metadata.get_bytes())
    one, other = (JoinGroupRequest("g", "", name, RangeProtocol) for name in ("first", "second"))
    assert b"first" in one.get_bytes()
    assert b"second" in other.get_bytes()
    assert bytes(RangeProtocol.metadata.get_bytes()) == before


def test_u16_connections_of_group_members_speak_tls(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Recorded(connection.BrokerConnection):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(kwargs["ssl_config"])

    monkeypatch.setattr(node, "BrokerConnection", Recorded)
    context = ssl.create_default_context()
    one = Broker(1, "127.0.0.1", 1, handler, 500, 500, ssl_config=context, api_versions={})
    for connect in (one.connect, one.connect_offsets_channel):
        with pytest.raises(KafkaException):
            connect(1)
    with pytest.raises(KafkaException):
        one._get_unique_req_handler("member")
    assert made == [context] * 3
    one.close()


def test_u17_versions_are_each_clusters_own() -> None:
    with EmbeddedCluster(brokers=1) as new, EmbeddedCluster(brokers=1) as old:
        old.set_api_versions("Fetch", 0, 4)
        for hosts, expected in ((new.hosts, False), (old.hosts, True), (new.hosts, False)):
            with KafkaClient(hosts=hosts) as client:
                version = next(iter(client.brokers.values())).api_version(wire.FetchRequest)
                assert (version == 4) is expected


def test_u18_names_of_hosts_are_checked(tmp_path: Path) -> None:
    context = SslConfig(cafile=make_pems(tmp_path).path("ca.pem")).context
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_u18_answers_to_other_requests_are_refused() -> None:
    def renumber(request_cls: type[Any], frame: bytes) -> bytes:
        return (99).to_bytes(4, "big") + frame[4:] if request_cls is wire.MetadataRequest else frame

    with ScriptedBroker(damage=renumber) as server:
        with pytest.raises(NoBrokersAvailableError) as caught:
            KafkaClient(hosts=server.hosts, socket_timeout_ms=2000)
    assert any(isinstance(error, CorrelationIdError) for _, error in caught.value.ledger)


def test_u19_requests_do_not_wait_for_answers(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    handler = client.cluster.handler
    one = client.brokers[1]
    one.connect()
    cluster.set_latency(1, 600)
    started = handler.now()
    version = one.api_version(wire.MetadataRequest)
    pending = [one.send(MetadataRequest(["t"]).wire(version)) for _ in range(5)]
    assert handler.now() - started < 0.5
    assert all(answer.get(timeout=10).topics for answer in pending)
    assert handler.now() - started < 2.5
    cluster.set_latency(1, 0)


def test_u20_damaged_records_are_refused(scripted: Callable[..., SimpleConsumer]) -> None:
    records = bytearray(batch([b"a" * 50]))
    records[-5] ^= 1
    with pytest.raises(InvalidMessageError):
        scripted(bytes(records)).consume()


def test_u21_a_broker_may_move(cluster: EmbeddedCluster) -> None:
    # What is not moved is the mock broker, so the other address has to be another one of its names.
    with KafkaClient(hosts=cluster.hosts) as client:
        before = client.brokers[1]
        other = "localhost" if before.host == "127.0.0.1" else "127.0.0.1"
        client.cluster._update_brokers({1: BrokerMetadata(1, other, before.port)})
        moved = client.brokers[1]
        assert moved is not before
        assert (moved.host, moved.port) == (other, before.port)
        assert "t" in moved.request_metadata().topics
        with pytest.raises(KafkaException):
            before.request_metadata()
        client.update_cluster()
        fill(client.topics["t"], 2)


def test_u22_an_unforeseen_error_leaves_nothing_locked(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(topic, 4)
    read = Fetcher._read
    failures = iter([True])

    def fails_once(self: Fetcher, *args: Any) -> Any:
        if next(failures, False):
            raise ZeroDivisionError("unforeseen")
        return read(self, *args)

    monkeypatch.setattr(Fetcher, "_read", fails_once)
    consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000, fetch_error_backoff_ms=1)
    with pytest.raises(KafkaException, match="unforeseen"):
        list(consumer)
    assert len(list(itertools.islice(consumer, 4))) == 4
    consumer.stop()


#: What Kafka 4.0 says that it takes; Produce below 3 it refuses all the same.
KAFKA_4 = {0: (0, 12), 1: (4, 17), 2: (1, 10), 3: (0, 13), 8: (2, 9), 9: (1, 9), 11: (2, 9), 19: (2, 7)}


@pytest.mark.parametrize(
    ("request_cls", "lowest"),
    [
        (wire.ProduceRequest, 3),
        (wire.FetchRequest, 4),
        (wire.ListOffsetsRequest, 1),
        (wire.OffsetCommitRequest, 2),
        (wire.JoinGroupRequest, 2),
        (wire.CreateTopicsRequest, 2),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_u23_what_kafka_4_takes_is_what_it_gets(request_cls: Any, lowest: int) -> None:
    assert versions.choose(request_cls, KAFKA_4) >= lowest
    assert versions.choose(request_cls, KAFKA_4, ceiling=lowest) == lowest
    with pytest.raises(UnsupportedVersion, match=f"accepts {lowest} and higher|has versions {lowest}"):
        versions.choose(request_cls, KAFKA_4, ceiling=lowest - 1)


def test_u03_greenlets_have_reentrant_locks_by_their_name() -> None:
    lock = GEventHandler().RLock()
    assert lock.acquire()
    assert lock.acquire()
