"""`client.producer()`: messages for any topic, on threads, greenlets and asyncio."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pykafka
from pykafka import Delivery, KafkaClient, KafkaProducer, MessagesNotDelivered, ProducerRecord, TopicNotFoundError
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    InvalidRecord,
    MessageSizeTooLarge,
    ProducerPurgedError,
    ProducerQueueFullError,
    ProducerStoppedException,
    ResponseTimeoutError,
    SerializationError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka.producer.leader_requests import LeaderRequests
from pykafka.utils.hints import Elsewhere
from pykafka.utils.murmur2 import partition_for
from tests.support.inside import engine_of
from tests.support.waiting import CutOff, cut_off, until

pytestmark = pytest.mark.on_asyncio

REFUSED = "INVALID_RECORD"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, topics={"a": 3, "b": 7, "one": 1}) as cluster:
        yield cluster


def contents(client: KafkaClient, topic: str) -> dict[int, list[bytes | None]]:
    """Return the values in each partition of a topic."""
    found: dict[int, list[bytes | None]] = {}
    consumer = client.topics[topic].get_simple_consumer(consumer_timeout_ms=500)
    for message in consumer:
        found.setdefault(message.partition_id, []).append(message.value)
    consumer.stop()
    return found


# -- what becomes of messages ------------------------------------------------------------------------------------------


def test_deliveries_tell_where_messages_are(client: KafkaClient) -> None:
    with client.producer() as producer:
        made = [producer.produce(topic, b"%d" % n) for n in range(200) for topic in ("a", "b")]
        producer.flush()
        assert all(one.done and one.error is None and one.offset >= 0 for one in made)
    for topic in ("a", "b"):
        found = contents(client, topic)
        assert all(found[one.partition][one.offset] == one.value for one in made if one.topic == topic)


@pytest.mark.parametrize("linger_ms", [0, 30_000])
def test_get_waits_and_does_not_linger(client: KafkaClient, linger_ms: int) -> None:
    with client.producer(linger_ms=linger_ms) as producer:
        for number in range(3):
            delivery = producer.produce("one", b"x", key=b"k", headers={"h": b"1"}, timestamp=5)
            assert delivery.get(timeout=10) is delivery
            assert (delivery.topic, delivery.partition, delivery.offset) == ("one", 0, number)
            assert (delivery.key, delivery.value, delivery.headers) == (b"k", b"x", [("h", b"1")])


def test_get_gives_up_in_time(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    with client.producer() as producer:
        producer.produce("one", b"first").get(10)
        for broker in (1, 2):
            cluster.set_latency(broker, 600)
        delivery = producer.produce("one", b"x")
        with pytest.raises(ResponseTimeoutError, match="still under way"):
            delivery.get(timeout=0.1)
        assert not delivery.done
        assert delivery.get(timeout=10).offset == 1


def test_get_raises_what_went_wrong_and_flush_does_not_once_more(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    producer = client.producer()
    producer.produce("one", b"first").get(10)
    cluster.inject_errors("Produce", REFUSED)
    delivery = producer.produce("one", b"x")
    for _ in range(2):
        with pytest.raises(InvalidRecord):
            delivery.get(10)
    assert isinstance(delivery.error, InvalidRecord)
    producer.flush()
    producer.close()


@pytest.fixture
def senders(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether each request was sent by the worker that runs the test."""
    here: Any = client.cluster.handler.local()
    found: list[bool] = []
    here.is_test = True

    class Noting(LeaderRequests):
        def send(self, batches: list[Any], waits: bool = True) -> bool:
            found.append(getattr(here, "is_test", False))
            return super().send(batches, waits)

    monkeypatch.setattr("pykafka.producer.sender.LeaderRequests", Noting)
    return found


def test_the_caller_of_flush_sends_what_is_for_one_broker(client: KafkaClient, senders: list[bool]) -> None:
    with client.producer(linger_ms=30_000) as producer:
        producer.produce("one", b"connects").get(10)
        senders.clear()
        for number in range(20):
            made = [producer.produce("one", b"%d" % number) for number in range(10)]
            producer.flush()
            assert [one.offset for one in made] == list(range(1 + 10 * number, 11 + 10 * number))
        assert len(senders) == 20
        assert True in senders  # the sender, woken by a first message, may be quicker
        producer.produce("one", bytes(200_000))  # the connection may not take that at once
        producer.flush()
    assert not senders[-1]


def test_a_flush_that_reads_gives_up_in_time(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    with client.producer(linger_ms=30_000) as producer:
        producer.produce("one", b"first").get(10)
        for broker in (1, 2):
            cluster.set_latency(broker, 600)
        delivery = producer.produce("one", b"x")
        began = client.cluster.handler.now()
        with pytest.raises(ResponseTimeoutError, match="1 messages are still queued"):
            producer.flush(timeout=0.1)
        assert client.cluster.handler.now() - began < 0.5
        producer.flush(timeout=10)
        assert delivery.offset == 1


def test_flush_raises_what_nobody_was_told_of(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    producer = client.producer(linger_ms=200)
    producer.produce("one", b"first").get(10)
    cluster.inject_errors("Produce", REFUSED)
    producer.produce("one", b"1", key=b"k")
    producer.produce("one", b"2", on_delivery=lambda error, delivery: None)
    with pytest.raises(MessagesNotDelivered, match="1 messages") as caught:
        producer.flush()
    ((delivery, error),) = caught.value.failures
    assert (delivery.topic, delivery.value, delivery.key, delivery.partition) == ("one", b"1", b"k", 0)
    assert isinstance(error, InvalidRecord)
    producer.close()


# -- partitions --------------------------------------------------------------------------------------------------------


def test_keys_choose_partitions_as_in_java(client: KafkaClient) -> None:
    with client.producer() as producer:
        for number in range(100):
            key = b"key %d" % number
            assert producer.produce("b", b"x", key=key).partition == partition_for(key, 7)


def test_messages_without_a_key_fill_batches_and_reach_all_partitions(client: KafkaClient) -> None:
    with client.producer(batch_size=50_000) as producer:
        few = {producer.produce("b", bytes(100)).partition for _ in range(100)}
        assert len(few) == 1
        producer.flush()
        made = [producer.produce("b", bytes(1000)) for _ in range(20_000)]
        producer.flush()
        assert {one.partition for one in made} == set(range(7))
        switches = sum(one.partition != other.partition for one, other in pairwise(made))
        assert switches < 1500


def test_partitions_of_ones_own_choice(client: KafkaClient) -> None:
    with client.producer(partitioner=lambda partitions, key: partitions[-1], max_block_ms=1000) as producer:
        assert producer.partitions_for("b") == list(range(7))
        assert {producer.produce("b", b"x").partition for _ in range(10)} == {6}
        assert producer.produce("b", b"x", partition=2).get(10).partition == 2
        with pytest.raises(UnknownTopicOrPartition, match="7 partitions, 0 to 6"):
            producer.produce("b", b"x", partition=7)
        for bad in (-1, "1", 1.5):
            with pytest.raises((TypeError, ValueError), match="partition"):
                producer.produce("b", b"x", partition=bad)  # type: ignore[arg-type]


# -- memory ------------------------------------------------------------------------------------------------------------


def slow_down(cluster: EmbeddedCluster, ms: int) -> None:
    for broker in (1, 2):
        cluster.set_latency(broker, ms)


def test_messages_take_no_more_memory_than_they_may(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    with client.producer(buffer_memory=100_000, linger_ms=60_000) as producer:
        for _ in range(500):
            producer.produce("a", bytes(1000))
            assert 0 <= producer.room() <= 100_000
        producer.flush()
        assert producer.room() == 100_000


@pytest.mark.later("greenlets")
@pytest.mark.later("asyncio")
def test_without_room_it_raises_at_once_or_in_time(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    slow_down(cluster, 400)
    with client.producer(buffer_memory=3000, on_full="raise") as producer:
        producer.produce("a", bytes(2500))
        with pytest.raises(ProducerQueueFullError, match="buffer_memory=3000 has room for"):
            producer.produce("a", bytes(2500))
        with pytest.raises(MessageSizeTooLarge, match="buffer_memory"):
            producer.produce("a", bytes(3000))
    with client.producer(buffer_memory=3000, max_block_ms=50) as producer:
        producer.partitions_for("a")
        producer.produce("a", bytes(2500), partition=0)
        with pytest.raises(ProducerQueueFullError, match="max_block_ms=50"):
            producer.produce("a", bytes(2500), partition=0)


def test_the_step_that_cannot_wait_takes_nothing_without_room(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    with client.producer(buffer_memory=3000) as producer:
        rest = producer._try_produce("a", b"first", partition=0)  # nobody has asked for the topic
        assert callable(rest)
        assert rest().get(10).offset == 0
        slow_down(cluster, 300)
        full = producer._try_produce("a", bytes(2500), partition=0)
        assert isinstance(full, Delivery)
        rest = producer._try_produce("a", bytes(2600), partition=0)
        assert callable(rest)
        assert rest().get(10).offset == 2


@pytest.mark.later("greenlets")
@pytest.mark.later("asyncio")
def test_a_close_that_is_cut_off_goes_on_where_it_is_called_again(
    cluster: EmbeddedCluster, client: KafkaClient
) -> None:
    told: list[Any] = []
    producer = client.producer(linger_ms=0, on_delivery=lambda error, delivery: told.append((error, delivery.value)))
    producer.produce("one", b"first").get(10)
    slow_down(cluster, 300)
    made = [producer.produce("one", b"%d" % number) for number in range(5)]
    for _ in range(2):
        with pytest.raises(CutOff), cut_off(client.cluster.handler, 0.05):
            producer.close()
        with pytest.raises(ProducerStoppedException):
            producer.produce("one", b"too late")
    assert not made[-1].done
    producer.close()
    assert [delivery.offset for delivery in made] == [1, 2, 3, 4, 5]
    assert told == [(None, b"first"), *((None, b"%d" % number) for number in range(5))]
    producer.close()


# -- topics ------------------------------------------------------------------------------------------------------------


def test_unknown_topics(cluster: EmbeddedCluster) -> None:
    with KafkaClient(cluster.hosts, allow_auto_create_topics=False) as client, client.producer() as producer:
        with pytest.raises(TopicNotFoundError, match="creates no topics"):
            producer.produce("unheard-of", b"x")
        producer.produce("a", b"x").get(10)


def test_a_topic_is_created_at_its_first_message(client: KafkaClient) -> None:
    with client.producer() as producer:
        assert producer.produce("fresh", b"x").get(10).offset == 0


def test_many_topics_share_senders_and_requests(
    cluster: EmbeddedCluster, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pykafka.producer.sender.IDLE_POLL_INTERVAL_S", 0.2
    )  # an idle sender lets go of its queues then
    for number in range(60):
        cluster.create_topic(f"many-{number}", 2)
    client.update_cluster()
    with client.producer(linger_ms=20) as producer:
        made = [producer.produce(f"many-{n % 60}", b"%d" % n) for n in range(1200)]
        producer.flush()
        assert all(one.offset >= 0 for one in made)
        assert len(engine_of(producer).routing.owned_brokers) == 2
        until(
            client.cluster.handler,
            lambda: not any(o.active for o in engine_of(producer).routing.owned_brokers.values()),
            5,
        )


def test_idle_topics_are_left_and_taken_in_again(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka.producer.record_placement.IDLE_S", 0.05)
    with client.producer() as producer:
        producer.produce("a", b"1", partition=0).get(10)
        client.cluster.handler.sleep(0.1)
        producer.produce("one", b"1").get(10)
        engine_of(producer).set_up()
        assert set(engine_of(producer).routing.topics) == {"one"}
        assert producer.produce("a", b"2", partition=0).get(10).offset == 1
        assert contents(client, "a") == {0: [b"1", b"2"]}


# -- serializers, interceptors, many messages --------------------------------------------------------------------------


def test_serializers(client: KafkaClient) -> None:
    def digits(number: int) -> bytes:
        return b"%d" % number

    made: KafkaProducer[str, int] = client.producer(key_serializer=str.encode, value_serializer=digits)
    with made as producer:
        delivery = producer.produce("one", 12, key="k")
        delivery.get(10)
        assert (delivery.value, delivery.key) == (12, "k")
        with pytest.raises(SerializationError) as caught:
            producer.produce("one", "no number")  # type: ignore[arg-type]
        assert caught.value.topic == "one"
        assert producer.produce("one").get(10).value is None
    assert contents(client, "one") == {0: [b"12", None]}


class Watching:
    """Interceptor that counts, changes values, and may raise."""

    def __init__(self, raises: bool = False) -> None:
        self.raises = raises
        self.sent: list[Any] = []
        self.acknowledged: list[Any] = []

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any] | None:
        self.sent.append(record.value)
        if self.raises:
            raise RuntimeError("of on_send")
        return ProducerRecord(bytes(record.value or b"") + b"!", record.key, record.headers, topic=record.topic)

    def on_acknowledgement(self, delivery: Delivery, error: Any) -> None:
        self.acknowledged.append((delivery.value, error))
        if self.raises:
            raise RuntimeError("of on_acknowledgement")


def test_interceptors(client: KafkaClient, caplog: pytest.LogCaptureFixture) -> None:
    broken, watching = Watching(raises=True), Watching()
    told: list[Any] = []
    with client.producer(interceptors=[broken, watching]) as producer:
        producer.produce("one", b"1")
        producer.produce("one", b"2", on_delivery=lambda error, delivery: told.append(delivery.value))
    assert contents(client, "one") == {0: [b"1!", b"2!"]}
    assert broken.sent == watching.sent == [b"1", b"2"]
    assert broken.acknowledged == watching.acknowledged == [(b"1!", None), (b"2!", None)]
    assert told == [b"2!"]
    assert "of on_send" in caplog.text
    assert "of on_acknowledgement" in caplog.text


def test_interceptors_tell_nobody_of_failures(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    producer = client.producer(interceptors=[Watching()])
    producer.produce("one", b"first").get(10)
    cluster.inject_errors("Produce", REFUSED)
    producer.produce("one", b"1")
    with pytest.raises(MessagesNotDelivered):
        producer.flush()
    producer.close()


def test_many_at_once(client: KafkaClient) -> None:
    with client.producer() as producer:
        assert producer.produce_many("one", (b"%d" % n for n in range(1000))) == 1000
        assert (
            producer.produce_many("one", [ProducerRecord(b"k", key=b"1"), ProducerRecord(b"l", topic="a"), None]) == 3
        )
        with pytest.raises(TypeError, match="value must be bytes"):
            producer.produce_many("one", [b"last", "text"])  # type: ignore[list-item]
    assert contents(client, "one") == {0: [*(b"%d" % n for n in range(1000)), b"k", None, b"last"]}


def test_purge_drops_what_was_not_sent(client: KafkaClient) -> None:
    told: list[Any] = []
    with client.producer(linger_ms=60_000, on_delivery=lambda error, delivery: told.append(error)) as producer:
        producer.produce("one", b"kept").get(10)
        delivery = producer.produce("one", b"dropped")
        assert producer.purge() == 1
        with pytest.raises(ProducerPurgedError):
            delivery.get(10)
        producer.flush()
        assert [type(error) for error in told] == [type(None), ProducerPurgedError]
        producer.produce("one", b"kept, too")
    assert contents(client, "one") == {0: [b"kept", b"kept, too"]}


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_closed_producer_takes_nothing(client: KafkaClient) -> None:
    producer: KafkaProducer = client.producer(linger_ms=60_000)
    delivery = producer.produce("one", b"x")
    producer.close()
    assert delivery.offset == 0
    producer.close()
    with pytest.raises(ProducerStoppedException):
        producer.produce("one", b"x")


def test_the_client_closes_its_producers(cluster: EmbeddedCluster) -> None:
    with KafkaClient(cluster.hosts) as client:
        delivery = client.producer(linger_ms=60_000).produce("one", b"x")
    assert delivery.offset == 0


def test_close_gives_up_in_time(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    producer = client.producer()
    producer.produce("one", b"first").get(10)
    slow_down(cluster, 2000)
    delivery = producer.produce("one", b"x")
    with pytest.raises(MessagesNotDelivered):
        producer.close(timeout=0.1)
    assert delivery.error is not None


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"acks": "some"}, ValueError),
        ({"acks": 2.5}, TypeError),
        ({"acks": 1, "enable_idempotence": True}, ValueError),
        ({"compression": "lzma"}, ValueError),
        ({"compression": "gzip", "compression_level": 77}, ValueError),
        ({"buffer_memory": 0}, ValueError),
        ({"on_full": "drop"}, ValueError),
        ({"interceptors": [1]}, TypeError),
        ({"on_delivery": 1}, TypeError),
        ({"value_serializer": 1}, TypeError),
        ({"bach_size": 1}, TypeError),
    ],
    ids=str,
)
def test_bad_options_are_refused_by_name(client: KafkaClient, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        client.producer(**options)


def test_options_of_the_configuration(cluster: EmbeddedCluster) -> None:
    config = {
        "bootstrap.servers": cluster.hosts,
        "acks": "1",
        "linger.ms": "7",
        "compression.type": "zstd",
        "buffer.memory": "123456",
    }
    with KafkaClient.from_config(config) as client, client.producer(linger_ms=8) as producer:
        options = engine_of(producer).front
        assert (options.required_acks, options.linger_ms, options.compression, options.max_queued_bytes) == (
            1,
            8,
            4,
            123456,
        )
        producer.produce("one", bytes(1000)).get(10)


# -- one budget for a client -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_greenlets", [False, True], ids=["threads", "greenlets"])
def test_producers_of_a_client_share_a_budget(cluster: EmbeddedCluster, use_greenlets: bool) -> None:
    """One that lingers gives way to one that waits; the documented producer counts as well."""
    with KafkaClient(cluster.hosts, use_greenlets=use_greenlets, buffer_memory=10_000) as client:
        old = client.topics["one"].get_producer(linger_ms=60_000)
        one, other = client.producer(linger_ms=60_000), client.producer(linger_ms=60_000)
        with old, one, other:
            old.produce(bytes(4000))
            lingering = one.produce("a", bytes(4000))
            assert one.room() == other.room() == 10_000 - 8064
            assert not lingering.done
            assert other.produce("b", bytes(5000)).get(20).offset == 0
            assert lingering.get(10).offset == 0
            with pytest.raises(MessageSizeTooLarge, match="buffer_memory=10000"):
                other.produce("b", bytes(11_000))
            for number in range(200):
                (one if number % 2 else other).produce("b", bytes(900))
        assert client.cluster.memory.used == 0


@pytest.mark.parametrize("value", [0, -1, "1", 1.5])
def test_a_bad_budget_is_refused_by_name(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="buffer_memory"):
        KafkaClient("127.0.0.1:1", buffer_memory=value)


# -- clusters in trouble -----------------------------------------------------------------------------------------------


def test_a_topic_that_an_acl_denies(
    cluster: EmbeddedCluster, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_topic = client.cluster.wait_for_topic

    def deny(name: str, timeout_ms: int | None = None) -> Any:
        if name == "denied":
            raise TopicAuthorizationFailed(topic=name, api="Metadata")
        return wait_for_topic(name, timeout_ms)

    monkeypatch.setattr(client.cluster, "wait_for_topic", deny)
    with client.producer() as producer:
        with pytest.raises(TopicAuthorizationFailed) as caught:
            producer.produce("denied", b"x")
        assert caught.value.topic == "denied"
        producer.produce("a", b"x", partition=0).get(10)
        cluster.inject_errors("Produce", "TOPIC_AUTHORIZATION_FAILED")
        with pytest.raises(TopicAuthorizationFailed):
            producer.produce("a", b"x", partition=0).get(10)


@pytest.mark.parametrize("numbered", [True, False])
def test_leaders_move_under_many_topics(cluster: EmbeddedCluster, client: KafkaClient, numbered: bool) -> None:
    with client.producer(linger_ms=1, retry_backoff_ms=10, enable_idempotence=numbered) as producer:
        made = []
        for turn in range(6):
            for partition in range(3):
                cluster.set_leader("a", partition, 1 + turn % 2)
            made += [producer.produce(topic, b"%d" % turn, partition=n) for topic in ("a", "b") for n in range(3)]
            made[-1].get(20)
        producer.flush()
    assert all(one.offset >= 0 for one in made)
    for topic in ("a", "b"):
        assert contents(client, topic) == {n: [b"%d" % turn for turn in range(6)] for n in range(3)}


def test_a_partition_without_a_leader_is_waited_for(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    cluster.set_leader("one", 0, None)
    with client.producer(retry_backoff_ms=20, max_block_ms=20_000) as producer:
        producer.produce("a", b"x").get(10)
        delivery = producer.produce("one", b"x")
        with pytest.raises(ResponseTimeoutError):
            delivery.get(0.2)
        cluster.set_leader("one", 0, 1)
        assert delivery.get(20).offset == 0


def test_a_leader_that_goes_under_a_producer_ends_no_process(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    with client.producer(linger_ms=0, retry_backoff_ms=20) as producer:
        producer.produce("one", b"x").get(10)
        cluster.set_leader("one", 0, None)
        delivery = producer.produce("one", b"x")
        with pytest.raises(ResponseTimeoutError):
            delivery.get(0.2)
        cluster.set_leader("one", 0, 1)
        assert delivery.get(20).offset == 1


def test_messages_without_a_key_avoid_partitions_without_a_leader(
    cluster: EmbeddedCluster, client: KafkaClient
) -> None:
    cluster.set_leader("a", 1, None)
    with client.producer() as producer:
        made = [producer.produce("a", bytes(1000)) for _ in range(3000)]
        producer.flush()
    assert {one.partition for one in made} == {0, 2}


def test_a_producer_that_nobody_holds_delivers_what_is_queued(client: KafkaClient) -> None:
    told: list[Any] = []
    client.producer(linger_ms=50).produce("one", b"x", on_delivery=lambda error, delivery: told.append(error))
    gc.collect()
    until(client.cluster.handler, lambda: told, 10)
    assert told == [None]


def test_stub_and_class_have_the_same_members() -> None:
    for name in ("delivery", "fastpath"):
        path = Path(pykafka.__file__).with_name("producer") / f"{name}.pyi"
        (declared,) = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        found = getattr(import_module(f"pykafka.producer.{name}"), declared.name)
        members = {
            node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node.target)
            for node in declared.body
            if isinstance(node, (ast.FunctionDef, ast.AnnAssign))
        }
        assert {one for one in members if not hasattr(found, one) and one not in getattr(found, "__slots__", ())} <= (
            {"_plain", "_accumulator", "_callback", "_last_callback"}  # set by KafkaProducer
        )
        public = {
            one for one, what in vars(found).items() if not one.startswith("_") and not isinstance(what, Elsewhere)
        }
        assert public <= members
