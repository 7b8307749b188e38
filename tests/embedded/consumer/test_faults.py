"""Consumers where something goes wrong in the middle: nothing that nobody was given, or told of, counts as consumed."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import gevent
import pytest
from crc32c import crc32c

from pykafka import KafkaClient
from pykafka.common import OffsetType
from pykafka.consumer.arrow import ArrowDecoder
from pykafka.consumer.options import ConsumerOptions
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    ClientClosedError,
    ConsumerStoppedException,
    DeserializationError,
    InvalidMessageError,
    KafkaException,
    OffsetOutOfRangeError,
    OffsetsNotCommitted,
    ResponseTimeoutError,
)
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.topic import Topic
from tests.support.inside import engine_of, membership_of, worker_of
from tests.support.scripted import TOPIC, ScriptedBroker, batch
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

both = pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1, {"t": 1}) as cluster:
        yield cluster


def fill(topic: Topic, count: int, size: int = 20) -> None:
    with topic.get_producer(linger_ms=5, max_queued_messages=count + 1) as producer:
        for number in range(count):
            producer.produce(b"%0*d" % (size, number))


def handler_of(client: KafkaClient) -> Handler:
    return client.cluster.handler


def buffered(consumer: Any, count: int) -> None:
    """Wait until a consumer of one partition has buffered that many messages."""
    until(engine_of(consumer).handler, lambda: consumer._partitions[consumer.partitions[0]].messages >= count)


def committed(topic: Topic, group: str) -> int:
    return topic.get_simple_consumer(group, auto_start=False, reset_offset_on_fetch=False).fetch_offsets()[0][1].offset


def one_by_one(consumer: Any) -> list[int]:
    message = consumer.consume()
    return [] if message is None else [message.offset]


def in_batches(consumer: Any) -> list[int]:
    return [message.offset for message in consumer.consume_batch(1000)]


def in_columns(consumer: Any) -> list[int]:
    found = consumer.consume_arrow(10_000, ["offset", "value"])
    return [] if found is None else list(found.column(0).to_pylist())


@pytest.mark.parametrize("take", [one_by_one, in_batches])
@pytest.mark.parametrize("deserializer", [None, lambda value, key: (value, key)], ids=["bytes", "deserialized"])
def test_a_greenlet_that_is_ended_where_the_hub_turns_costs_no_message(
    cluster: EmbeddedCluster, take: Callable[[Any], list[int]], deserializer: Any
) -> None:
    with KafkaClient(cluster.hosts, use_greenlets=True) as client:
        topic = client.topics["t"]
        fill(topic, 2000, 100)
        with topic.get_simple_consumer(consumer_timeout_ms=2000, deserializer=deserializer) as consumer:
            buffered(consumer, 2000)
            turns: list[None] = []

            def turn() -> None:
                turns.append(None)
                if len(turns) % 2:
                    raise gevent.Timeout

            engine_of(consumer).buffers.breathe = turn
            seen: list[int] = []
            while len(seen) < 2000:
                try:
                    found = take(consumer)
                except gevent.Timeout:
                    continue
                assert found
                seen += found
            assert len(turns) > 2
            assert seen == list(range(2000))


def test_what_the_pool_still_reads_is_nobody_elses(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with KafkaClient(cluster.hosts, use_greenlets=True) as client:
        topic = client.topics["t"]
        fill(topic, 5000)
        with topic.get_simple_consumer(consumer_timeout_ms=1000, queued_max_messages=5000) as consumer:
            buffered(consumer, 5000)
            real = ArrowDecoder.take

            def slow(self: Any, *args: Any) -> Any:
                found = real(self, *args)
                native.sleep(0.2)
                return found

            native = handler_of(client).native
            monkeypatch.setattr(ArrowDecoder, "take", slow)
            with gevent.Timeout(0.05, False):
                consumer.consume_arrow(1 << 20, ["offset"])
            assert consumer.held_offsets == {0: -2}
            monkeypatch.undo()
            seen: list[int] = []
            while found := in_columns(consumer):
                seen += found
            assert seen == list(range(5000))
            assert engine_of(consumer).buffers.nbytes == 0


def texts(consumer: Any) -> list[str]:
    return [message.value for message in consumer.consume_batch(10)]


def damaged_second_of_three() -> bytes:
    """Return a batch whose checksum is right, and whose second record says that it is longer than the batch."""
    raw = bytearray(batch([b"first", b"second", b"third"]))
    raw[raw.index(b"second") - 1] = 0x7E
    raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
    return bytes(raw)


@both
def test_a_batch_that_waited_for_its_first_message_keeps_it(greenlets: bool) -> None:
    with ScriptedBroker() as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        consumer = client.topics[TOPIC].get_simple_consumer(consumer_timeout_ms=5000)

        def come_later() -> None:
            handler_of(client).sleep(0.3)
            broker.records = damaged_second_of_three()

        worker = handler_of(client).spawn(come_later)
        assert [message.value for message in consumer.consume_batch(10)] == [b"first"]
        with pytest.raises(InvalidMessageError):
            consumer.consume_batch(10)
        assert consumer.held_offsets == {0: 0}
        worker.join()


def test_what_could_not_be_deserialized_is_not_committed_before_anybody_hears_of_it(client: KafkaClient) -> None:
    topic = client.topics["t"]
    with topic.get_producer() as producer:
        for value in (b"one", b"two", b"\xff", b"four"):
            producer.produce(value)
    consumer = topic.get_simple_consumer(
        "g", deserializer=lambda value, key: (value.decode(), key), consumer_timeout_ms=3000, auto_commit_enable=True
    )
    buffered(consumer, 4)
    assert texts(consumer) == ["one", "two"]
    assert consumer.held_offsets == {0: 1}
    consumer.stop()
    assert committed(topic, "g") == 2
    consumer.start()
    with pytest.raises(DeserializationError):
        consumer.consume_batch(10)
    assert consumer.held_offsets == {0: 1}  # until the next call, or who stops here would lose it
    assert texts(consumer) == ["four"]
    assert consumer.held_offsets == {0: 3}
    consumer.seek(topic.partitions[0], 0)
    assert texts(consumer) == ["one", "two"]
    with pytest.raises(DeserializationError):
        consumer.consume_batch(10)
    assert consumer.held_offsets == {0: 1}
    assert texts(consumer) == ["four"]
    consumer.stop()


def test_a_failing_deserializer_is_told_with_the_place_and_not_with_the_message(client: KafkaClient) -> None:
    """The error of a deserializer did not name the message's topic, partition and offset."""
    topic = client.topics["t"]
    with topic.get_producer() as producer:
        producer.produce(b"fine")
        producer.produce(b"secret \xff", partition_key=b"key")
    with topic.get_simple_consumer(deserializer=utf_8, consumer_timeout_ms=5000) as consumer:
        assert consumer.consume() is not None
        with pytest.raises(DeserializationError) as caught:
            consumer.consume()
        error = caught.value
        assert (error.topic, error.partition, error.offset) == ("t", 0, 1)
        assert (error.value, error.partition_key) == (b"secret \xff", b"key")
        assert isinstance(error.__cause__, UnicodeDecodeError)
        assert "secret" not in str(error)
        assert "key" not in str(error)
        again = pickle.loads(pickle.dumps(error))
        assert (again.offset, again.value, str(again)) == (1, b"secret \xff", str(error))
    wrong: Any = lambda *_: None  # noqa: E731
    with topic.get_simple_consumer(deserializer=wrong, consumer_timeout_ms=5000) as consumer:
        with pytest.raises(DeserializationError, match="TypeError"):
            consumer.consume()


def utf_8(value: Any, key: Any) -> Any:
    return value.decode(), key


@pytest.mark.parametrize("take", [one_by_one, in_batches])
def test_who_goes_on_after_a_failing_deserializer_gets_behind_it_and_who_stops_does_not(
    client: KafkaClient, take: Callable[[Any], list[int]]
) -> None:
    """A plain consume() counted the message that failed: stop() committed it though nobody had it."""
    topic = client.topics["t"]
    with topic.get_producer() as producer:
        for value in (b"\xff", b"one", b"\xff"):
            producer.produce(value)
    options: dict[str, Any] = {"deserializer": utf_8, "consumer_timeout_ms": 5000, "auto_commit_enable": True}
    for _ in range(2):  # whoever stops at it finds it again
        consumer = topic.get_simple_consumer("g", **options)
        with pytest.raises(DeserializationError):
            take(consumer)
        consumer.stop()
        assert committed(topic, "g") == 0
    with topic.get_simple_consumer("g", **options) as consumer:
        failed = [-1]
        seen: list[int] = []
        while len(failed) < 3:
            try:
                seen += take(consumer)
            except DeserializationError as error:
                failed.append(error.offset)
        assert (seen, failed[1:]) == ([1], [0, 2])
        assert consumer.held_offsets == {0: 1}
        assert consumer.consume(block=False) is None  # the last one is done with when the next call comes
        assert consumer.held_offsets == {0: 2}
    assert committed(topic, "g") == 3


@pytest.mark.parametrize("take", [one_by_one, in_batches])
def test_a_message_whose_deserializer_is_ended_by_a_timeout_is_handed_out_again(
    cluster: EmbeddedCluster, take: Callable[[Any], list[int]]
) -> None:
    """A plain consume() counted the message whose deserializer a greenlet's timeout had ended."""
    with KafkaClient(cluster.hosts, use_greenlets=True) as client:
        topic = client.topics["t"]
        fill(topic, 20)
        calls: list[int] = []

        def slow_at_times(value: Any, key: Any) -> Any:
            calls.append(1)
            if len(calls) in (1, 7, 16):
                gevent.sleep(10)
            return value, key

        with topic.get_simple_consumer(deserializer=slow_at_times, consumer_timeout_ms=5000) as consumer:
            seen: list[int] = []
            ended = 0
            while len(seen) < 20:
                found: list[int] = []
                with gevent.Timeout(0.3, False):
                    found = take(consumer)
                if not found:
                    ended += 1
                    continue
                seen += found
            assert seen == list(range(20))
            assert ended > 0


def test_a_seek_has_the_last_word_over_a_reset_under_way(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    topic = client.topics["t"]
    fill(topic, 100)
    latest: dict[str, Any] = {"auto_offset_reset": OffsetType.LATEST, "reset_offset_on_start": True}
    with topic.get_simple_consumer(consumer_timeout_ms=5000, **latest) as consumer:
        real, asked = engine_of(consumer).find_each_offset, []

        def slow(wanted: Any, timeout_ms: int = 0) -> Any:
            asked.append(wanted)
            found = real(wanted, timeout_ms)
            handler_of(client).sleep(0.5)
            return found

        engine_of(consumer).find_each_offset = slow
        consumer.seek(topic.partitions[0], 5000)
        until(handler_of(client), lambda: asked)
        consumer.seek(topic.partitions[0], 10)
        assert one_by_one(consumer) == [10]


@pytest.mark.parametrize("reset", [OffsetType.LATEST, OffsetType.EARLIEST], ids=["latest", "earliest"])
def test_what_is_buffered_is_read_before_a_reset(cluster: EmbeddedCluster, client: KafkaClient, reset: int) -> None:
    topic = client.topics["t"]
    fill(topic, 100)
    consumer = topic.get_simple_consumer(
        consumer_timeout_ms=2000, auto_offset_reset=reset, auto_start=False, fetch_error_backoff_ms=50
    )
    consumer.seek(topic.partitions[0], 0)
    with consumer:
        buffered(consumer, 100)
        cluster.inject_errors("Fetch", "OFFSET_OUT_OF_RANGE")
        until(handler_of(client), lambda: worker_of(engine_of(consumer).recovery) is not None)
        handler_of(client).sleep(0.2)
        assert [message.offset for message in islice(consumer, 100)] == list(range(100))
        until(handler_of(client), lambda: worker_of(engine_of(consumer).recovery) is None)  # it has reset
        fill(topic, 1)
        assert one_by_one(consumer) == [100]


def test_stop_waits_for_the_columns_that_are_being_made(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, handler = client.topics["t"], handler_of(client)
    fill(topic, 5000)
    consumer = topic.get_simple_consumer("g", queued_max_messages=5000, auto_commit_enable=True)
    buffered(consumer, 5000)
    real = ArrowDecoder.take
    begun: list[None] = []

    def slow(self: Any, *args: Any) -> Any:
        begun.append(None)
        handler.native.sleep(0.3)
        return real(self, *args)

    monkeypatch.setattr(ArrowDecoder, "take", slow)
    seen: list[int] = []

    def take() -> None:
        try:
            while True:
                seen.extend(in_columns(consumer))
        except ConsumerStoppedException:
            return

    worker = handler.spawn(take)
    until(handler, lambda: begun)
    consumer.stop()
    assert worker.join(10)
    assert seen == list(range(5000))
    assert committed(topic, "g") == 5000


def test_rows_of_partitions_that_moved_meanwhile_are_taken_again(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = client.topics["t"]
    fill(topic, 5000)
    with topic.get_simple_consumer(consumer_timeout_ms=5000, queued_max_messages=5000) as consumer:
        buffered(consumer, 5000)
        real = ArrowDecoder.take

        def interrupted(self: Any, *args: Any) -> Any:
            monkeypatch.undo()
            consumer.seek(topic.partitions[0], 4990)
            return real(self, *args)

        monkeypatch.setattr(ArrowDecoder, "take", interrupted)
        assert in_columns(consumer) == list(range(4990, 5000))
        assert consumer.held_offsets == {0: 4999}


def test_a_commit_that_is_tried_again_does_not_undo_a_later_one(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    topic, handler = client.topics["t"], handler_of(client)
    fill(topic, 100)
    consumer = topic.get_simple_consumer("g", consumer_timeout_ms=5000, offsets_channel_backoff_ms=700)
    with consumer:
        assert len([consumer.consume() for _ in range(90)]) == 90
        consumer.commit_offsets()
        consumer.consume()
        cluster.inject_errors("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS")
        worker = handler.spawn(consumer._auto_commit)
        until(handler, lambda: not cluster.pending_errors("OffsetCommit", 1))
        handler.sleep(0.1)
        consumer.reset_offsets([(topic.partitions[0], OffsetType.EARLIEST)])
        assert worker.join(10)
        assert committed(topic, "g") == 0


def test_stop_does_not_ask_for_ever(cluster: EmbeddedCluster) -> None:
    with KafkaClient(cluster.hosts, socket_timeout_ms=500, offsets_channel_socket_timeout_ms=500) as client:
        topic = client.topics["t"]
        fill(topic, 10)
        consumer = topic.get_simple_consumer("g", consumer_timeout_ms=5000, auto_commit_enable=True)
        assert consumer.consume() is not None
        cluster.set_latency(1, 60_000)
        before = handler_of(client).now()
        with pytest.raises(OffsetsNotCommitted):
            consumer.stop()
        assert handler_of(client).now() - before < 10
        cluster.set_latency(1, 0)


def test_a_closed_client_is_not_asked_again(client: KafkaClient) -> None:
    topic = client.topics["t"]
    fill(topic, 1)
    consumer = topic.get_simple_consumer("g", consumer_timeout_ms=5000)
    assert consumer.consume() is not None
    client.close()
    before = handler_of(client).now()
    with pytest.raises(OffsetsNotCommitted) as caught:
        consumer.commit_offsets()
    assert isinstance(caught.value.__cause__, ClientClosedError)
    assert handler_of(client).now() - before < 4


@both
def test_an_answer_that_leaves_a_partition_out_is_not_asked_for_for_ever(greenlets: bool) -> None:
    class Forgetful(ScriptedBroker):
        def _respond(self, request: Any) -> Any:
            return (
                wire.ListOffsetsResponse()
                if isinstance(request, wire.ListOffsetsRequest)
                else super()._respond(request)
            )

    with Forgetful() as broker, KafkaClient(broker.hosts, socket_timeout_ms=500, use_greenlets=greenlets) as client:
        with pytest.raises(ResponseTimeoutError, match="left this partition out"):
            client.topics[TOPIC].earliest_available_offsets()


@both
def test_a_leader_at_odds_with_itself_is_asked_at_leisure_and_told_of(greenlets: bool) -> None:
    fetches: list[wire.FetchRequest] = []

    class Contrary(ScriptedBroker):
        def _respond(self, request: Any) -> Any:
            if not isinstance(request, wire.FetchRequest):
                return super()._respond(request)
            fetches.append(request)
            partition = wire.FetchResponse.Topic.Partition(partition_index=0, error_code=1)
            return wire.FetchResponse(responses=[wire.FetchResponse.Topic(topic=TOPIC, partitions=[partition])])

    with Contrary() as broker, KafkaClient(broker.hosts, socket_timeout_ms=500, use_greenlets=greenlets) as client:
        with client.topics[TOPIC].get_simple_consumer(fetch_error_backoff_ms=100) as consumer:
            with pytest.raises(OffsetOutOfRangeError):
                consumer.consume()
        assert len(fetches) < 30


def test_what_recovery_attaches_while_the_consumer_stops_is_let_go(
    cluster: EmbeddedCluster, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, handler = client.topics["t"], handler_of(client)
    fill(topic, 1)
    consumer = topic.get_simple_consumer(consumer_timeout_ms=5000)
    assert consumer.consume() is not None
    real = ConsumerOptions.fetch_settings
    entered: list[None] = []

    def slow(*args: Any) -> Any:
        entered.append(None)
        handler.sleep(0.3)
        return real(*args)

    monkeypatch.setattr(ConsumerOptions, "fetch_settings", slow)
    cluster.inject_errors("Fetch", "NOT_LEADER_OR_FOLLOWER")
    until(handler, lambda: entered)
    consumer.stop()
    assert consumer._partitions[consumer.partitions[0]].fetcher is None


MANAGED: dict[str, Any] = {"managed": True, "heartbeat_interval_ms": 200, "session_timeout_ms": 3000}


@pytest.mark.later("greenlets")
def test_a_callback_may_stop_a_managed_consumer(client: KafkaClient) -> None:
    topic, handler = client.topics["t"], handler_of(client)
    calls: list[Any] = []

    def stop_at_the_second(consumer: Any, *_: Any) -> None:
        calls.append(None)
        if len(calls) == 2:
            consumer.stop()
            calls.append("stopped")

    first: Any = topic.get_balanced_consumer(
        "g", post_rebalance_callback=stop_at_the_second, consumer_timeout_ms=200, **MANAGED
    )
    worker = worker_of(first)
    # as a change of shares does, in the member's own worker
    handler.spawn(lambda: membership_of(first).handle_error(27)).join()
    membership_of(first).changed.set()

    def stopped() -> bool:
        try:
            first.consume()
        except ConsumerStoppedException:
            return True
        return False

    with first:
        with first._rebalancing_lock:
            first._halt()
        until(handler, stopped)
        until(handler, lambda: calls[1:] == [None, "stopped"])
    assert worker.join(10)


def test_a_callback_may_stop_a_managed_consumer_at_its_start(client: KafkaClient) -> None:
    consumer = client.topics["t"].get_balanced_consumer(
        "g", post_rebalance_callback=lambda consumer, *_: consumer.stop(), consumer_timeout_ms=200, **MANAGED
    )
    with pytest.raises(ConsumerStoppedException):
        consumer.consume()
    assert worker_of(consumer) is None


@pytest.mark.later("threads")
def test_time_to_wait_is_not_counted_anew_with_each_share(client: KafkaClient) -> None:
    topic, handler = client.topics["t"], handler_of(client)
    with topic.get_balanced_consumer("g", consumer_timeout_ms=3000, **MANAGED) as consumer:

        def change() -> None:
            handler.sleep(2.0)
            with consumer._rebalancing_lock:
                consumer._halt()
                consumer._setup_internal_consumer([topic.partitions[0]])

        worker = handler.spawn(change)
        before = handler.now()
        assert consumer.consume() is None
        assert 2.9 < handler.now() - before < 4.8
        worker.join()


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [({7: 3}, KafkaException, r"partitions \[7\].*\[0\]"), ([(0, 3)], TypeError, "must return {partition id: offset}")],
)
def test_a_callback_that_answers_nonsense_is_told_so(client: KafkaClient, answer: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):  # a callback that fails at the start keeps the consumer from starting
        client.topics["t"].get_balanced_consumer(
            "g", post_rebalance_callback=lambda *_: answer, consumer_timeout_ms=2000, **MANAGED
        )


def test_a_broker_that_has_left_is_not_the_client(client: KafkaClient) -> None:
    topic = client.topics["t"]
    fill(topic, 3)
    with topic.get_simple_consumer("left", consumer_timeout_ms=5000) as consumer:
        assert consumer.consume() is not None
        consumer.commit_offsets()
        client.cluster._known_brokers.part_with(
            [client.cluster.brokers.pop(1)]
        )  # as when it has moved to another address
        assert topic.latest_available_offsets()[0].offset == [3]
        client.cluster._known_brokers.part_with([client.cluster.brokers.pop(1)])
        consumer.commit_offsets()
