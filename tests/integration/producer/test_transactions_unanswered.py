"""Transactions whose requests get no answer, or none that says what has happened: through a proxy in front of a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaProducer, ProducerRecord, TopicPartition, aio, exactly_once
from pykafka.exceptions import (
    ProducerFencedError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
    TransactionStateError,
)
from pykafka.protocol import wire
from pykafka.transactions.coordinator import Coordinator
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions import committed, unique
from tests.support.dead_producer import DeadProducer
from tests.support.features import KAFKA_VERSION
from tests.support.inside import coordinator_of, transactions_of
from tests.support.proxies import FrameProxy, detour
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("stable offsets"), pytest.mark.timeout(200)]
END, INIT = wire.EndTxnRequest.api_key, wire.InitProducerIdRequest.api_key
ADD_OFFSETS, COMMIT_OFFSETS = wire.AddOffsetsToTxnRequest.api_key, wire.TxnOffsetCommitRequest.api_key
ADD_PARTITIONS = wire.AddPartitionsToTxnRequest.api_key
#: Versions of EndTxn from this one on have headers with tagged fields.
FLEXIBLE = 3
UNKNOWN, FENCED, ABORTABLE = -1, 90, 120
#: Older coordinators of groups refuse late offsets, and drop those of the transaction that is open with them.
NEW_COORDINATOR = int(KAFKA_VERSION.partition(".")[0]) >= 4
NUMBERS = [b"%d" % number for number in range(20)]


@pytest.fixture
def proxy(kafka: KafkaCluster) -> Iterator[FrameProxy]:
    """Yield a proxy in front of the shared broker."""
    with FrameProxy(int(kafka.hosts.rsplit(":", 1)[1])) as proxy:
        yield proxy


@pytest.fixture(params=["threads", "gevent"])
def client(request: pytest.FixtureRequest, kafka: KafkaCluster, proxy: FrameProxy) -> Iterator[KafkaClient]:
    """Yield a client that goes through the proxy, on each handler."""
    port = int(kafka.hosts.rsplit(":", 1)[1])
    with KafkaClient(kafka.hosts, handler=detour(request.param, {port: proxy.port})) as client:
        yield client


@pytest.fixture
def version_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make producers write by version 1 of transactions, whose epoch stays, also where the brokers have version 2."""
    monkeypatch.setattr(Coordinator, "_is_implicit", lambda *_: False)


@contextmanager
def answering(proxy: FrameProxy, *codes: int | None, key: int = END) -> Iterator[list[int]]:
    """Replace the error codes of the next answers of EndTxn, which the broker has carried out; None loses the answer.

    :param key: the API: one whose answers begin as those of EndTxn do
    """
    left, seen = list(codes), []

    def answer(api: int, version: int, frame: bytes) -> bytes | None:
        if api != key or not left:
            return frame
        code = left.pop(0)
        seen.append(api)
        if code is None:
            return None
        at = 4 + (version >= FLEXIBLE) + 4
        return frame[:at] + code.to_bytes(2, "big", signed=True) + frame[at + 2 :]

    proxy.answer = answer
    yield seen
    assert not left


@contextmanager
def refusing(proxy: FrameProxy, key: int, times: int = 1) -> Iterator[list[bytes]]:
    """Hold the next requests of an API, and hang up; the value is what was held."""
    held: list[bytes] = []

    def request(api: int, frame: bytes) -> bytes | None:
        if api != key or len(held) >= times:
            return frame
        held.append(frame)
        return None

    proxy.request = request
    yield held
    assert len(held) == times


@contextmanager
def holding(proxy: FrameProxy, after: int = 0) -> Iterator[list[bytes]]:
    """Hold one EndTxn, and answer it by UNKNOWN_SERVER_ERROR; the value is what was held.

    :param after: how many go through before
    """
    held: list[bytes] = []
    numbers: list[bytes] = []

    def request(api: int, frame: bytes) -> bytes:
        nonlocal after
        if api != END or held:
            return frame
        after -= 1
        if after >= 0:
            return frame
        held.append(frame)
        numbers.append(frame[4:8])
        # a request that changes nothing, so that there is an answer to replace
        return b"\0\x12\0\0" + frame[4:8] + b"\xff\xff"

    def answer(api: int, version: int, frame: bytes) -> bytes:
        if api != END or frame[:4] not in numbers:
            return frame
        numbers.clear()
        tagged = b"\0" if version >= FLEXIBLE else b""
        ids = bytes(10) if version >= 5 else b""  # producer id and epoch
        return frame[:4] + tagged + bytes(4) + b"\xff\xff" + ids + tagged

    proxy.request, proxy.answer = request, answer
    yield held
    assert held


def write(producer: KafkaProducer, topic: str, value: bytes) -> None:
    """Write one message in a transaction."""
    with producer.transaction():
        producer.produce(topic, value)


@pytest.mark.later("threads-1234", "gevent--1")
@pytest.mark.parametrize("code", [UNKNOWN, 1234])
def test_an_answer_that_proves_nothing_is_an_error_of_its_own(
    client: KafkaClient, proxy: FrameProxy, code: int
) -> None:
    """The commit was made: a program that took the error for an abort wrote twice."""
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with answering(proxy, code), pytest.raises(TransactionOutcomeUnknownError) as caught:
            write(producer, topic, b"1")
        assert not caught.value.retriable
        assert caught.value.__cause__ is not None
        assert "docs/transactions.md" in str(caught.value)
        for call in (producer.commit_transaction, producer.abort_transaction, lambda: producer.produce(topic, b"x")):
            with pytest.raises(TransactionOutcomeUnknownError):
                call()
        epoch = transactions_of(producer).status.epoch
        write(producer, topic, b"2")
        assert transactions_of(producer).status.epoch > epoch
    assert committed(client, topic) == [b"1", b"2"]


@pytest.mark.later("gevent")
def test_a_refusal_after_a_lost_answer_proves_nothing_either(client: KafkaClient, proxy: FrameProxy) -> None:
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with answering(proxy, None, ABORTABLE), pytest.raises(TransactionOutcomeUnknownError):
            write(producer, topic, b"1")
        write(producer, topic, b"2")
    assert committed(client, topic) == [b"1", b"2"]


@pytest.mark.later("gevent")
def test_a_fence_after_a_lost_answer_says_so(client: KafkaClient, proxy: FrameProxy) -> None:
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with answering(proxy, None, FENCED), pytest.raises(ProducerFencedError, match="may be committed, or not"):
            write(producer, topic, b"1")
    with client.producer(transactional_id=unique()) as producer:
        with answering(proxy, FENCED), pytest.raises(ProducerFencedError) as caught:
            write(producer, topic, b"2")
        assert "may be committed" not in str(caught.value)


@pytest.mark.later("threads-begin", "gevent-close")
@pytest.mark.parametrize("ends", ["begin", "close"])
def test_a_commit_that_was_not_made_is_not_made_later(client: KafkaClient, proxy: FrameProxy, ends: str) -> None:
    """The next transaction, or `close()`, ends what is open, and the request that comes late after all is refused."""
    topic = create_topic(client).name
    producer = client.producer(transactional_id=unique())
    with holding(proxy) as held, pytest.raises(TransactionOutcomeUnknownError):
        write(producer, topic, b"lost")
    if ends == "begin":
        producer.begin_transaction()
        producer.produce(topic, b"next").get(20)
    else:
        producer.close()
    proxy.send_late(held[0])
    if ends == "begin":
        producer.abort_transaction()
        producer.close()
    assert committed(client, topic) == []


@pytest.mark.later("threads-abort", "gevent-commit")
@pytest.mark.usefixtures("version_1")
@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_a_late_end_does_not_end_the_next_transaction(client: KafkaClient, proxy: FrameProxy, commits: bool) -> None:
    """KAFKA-17754: an aborted message became visible, or a committed one was lost."""
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with refusing(proxy, END) as held:
            try:
                with producer.transaction():
                    producer.produce(topic, b"1").get(20)
                    if not commits:
                        raise KeyError
            except KeyError:
                pass
        try:
            with producer.transaction():
                producer.produce(topic, b"2").get(20)
                proxy.send_late(held[0])
                if commits:
                    raise KeyError
                producer.produce(topic, b"3").get(20)
        except KeyError:
            pass
        write(producer, topic, b"4")
    assert committed(client, topic) == ([b"1", b"4"] if commits else [b"2", b"3", b"4"])


@pytest.mark.later("gevent")
@pytest.mark.usefixtures("version_1")
def test_a_late_end_of_a_call_that_was_interrupted(client: KafkaClient, proxy: FrameProxy) -> None:
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        producer.begin_transaction()
        producer.produce(topic, b"1").get(20)
        broker: Any = transactions_of(producer)._coordinator._coordinator(1e9)
        call = broker.call
        held: list[Any] = []

        def interrupted(request: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(request, wire.EndTxnRequest) and not held:
                held.append(request)
                raise KeyboardInterrupt
            return call(request, *args, **kwargs)

        broker.call = interrupted
        try:
            with pytest.raises(KeyboardInterrupt):
                producer.commit_transaction()
            producer.commit_transaction()
            epoch = transactions_of(producer).status.epoch
            write(producer, topic, b"2")
            assert transactions_of(producer).status.epoch > epoch
        finally:
            del broker.call
    assert committed(client, topic) == [b"1", b"2"]


@pytest.mark.later("gevent", "partitions", "offsets")
@pytest.mark.usefixtures("version_1")
@pytest.mark.parametrize("key", [ADD_PARTITIONS, ADD_OFFSETS, COMMIT_OFFSETS], ids=["partitions", "offsets", "commit"])
def test_other_requests_that_come_late(client: KafkaClient, proxy: FrameProxy, key: int) -> None:
    """A late AddPartitionsToTxn opens a transaction that nothing ends; late offsets overwrite those of the next one."""
    given, made, group = create_topic(client).name, create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, NUMBERS)
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group) as consumer:
        copied = 0
        with refusing(proxy, key) as held:
            while copied < 20:
                records = consumer.poll(10, timeout=20)
                with producer.transaction(consumer):
                    for record in records:
                        producer.produce(made, record.value)
                    producer.send_offsets(consumer)
                    producer.flush()
                    if copied and (key != COMMIT_OFFSETS or NEW_COORDINATOR):
                        proxy.send_late(held[0])
                copied += len(records)
            consumer.committed()  # waits until the transaction has ended there
            proxy.send_late(held[0])
        epoch = transactions_of(producer).status.epoch
        assert epoch > 0
        write(producer, made, b"last")
        assert [one.offset for one in consumer.committed().values() if one is not None] == [20]
    assert committed(client, made) == [*NUMBERS, b"last"]


@pytest.mark.usefixtures("version_1")
def test_a_batch_that_comes_behind_its_abort(client: KafkaClient, proxy: FrameProxy) -> None:
    """Brokers before Kafka 3.6 would take it, and the next transaction would commit it."""
    made = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with refusing(proxy, wire.ProduceRequest.api_key, times=1) as held:
            producer.begin_transaction()
            producer.produce(made, b"aborted")
            until(client.cluster.handler, lambda: bool(held))
            proxy.request = lambda key, frame: None if key == wire.ProduceRequest.api_key else frame
            producer.abort_transaction()
        proxy.request = lambda _, frame: frame
        proxy.send_late(held[0])
        write(producer, made, b"last")
    assert committed(client, made) == [b"last"]


@pytest.mark.matrix
@pytest.mark.usefixtures("version_1")
@pytest.mark.parametrize("key", [ADD_PARTITIONS, ADD_OFFSETS], ids=["partitions", "offsets"])
def test_a_request_that_opens_a_transaction_late(client: KafkaClient, proxy: FrameProxy, key: int) -> None:
    """It comes between two transactions: what it opens is ended before the producer takes its new epoch."""
    given, made, group = create_topic(client).name, create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, NUMBERS)
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group) as consumer:
        with refusing(proxy, key) as held, producer.transaction(consumer):
            for record in consumer.poll(20, timeout=20):
                producer.produce(made, record.value)
            producer.send_offsets(consumer)
        proxy.send_late(held[0])
        write(producer, made, b"last")
    assert committed(client, made) == [*NUMBERS, b"last"]


@pytest.mark.matrix
@pytest.mark.usefixtures("version_1")
def test_brokers_that_give_no_new_epoch(
    client: KafkaClient, proxy: FrameProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before Kafka 2.5 the producer goes on in its epoch, and a warning says what may happen."""
    monkeypatch.setattr(Coordinator, "can_bump_epoch", lambda *_: False)
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with refusing(proxy, END):
            write(producer, topic, b"1")
        write(producer, topic, b"2")
        write(producer, topic, b"3")
    assert committed(client, topic) == [b"1", b"2", b"3"]
    assert caplog.text.count("before Kafka 2.5") == 1


@pytest.mark.later("gevent", "120")
@pytest.mark.parametrize("code", [UNKNOWN, ABORTABLE])
def test_an_abort_that_is_answered_strangely_is_made_all_the_same(
    client: KafkaClient, proxy: FrameProxy, code: int
) -> None:
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with answering(proxy, code), pytest.raises(KeyError) as caught, producer.transaction():
            producer.produce(topic, b"1").get(20)
            raise KeyError
        assert not getattr(caught.value, "__notes__", [])
        write(producer, topic, b"2")
    assert committed(client, topic) == [b"2"]


@pytest.mark.matrix
@pytest.mark.parametrize("lost", [False, True], ids=["strange", "lost"])
def test_offsets_that_are_answered_strangely(client: KafkaClient, proxy: FrameProxy, lost: bool) -> None:
    """No EndTxn was sent, so it is known: the transaction can be aborted, and nothing of it is committed."""
    given, made, group = create_topic(client).name, create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, NUMBERS)
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group) as consumer:
        seen: list[int] = []

        def answer(api: int, version: int, frame: bytes) -> bytes | None:
            if api != COMMIT_OFFSETS or len(seen) > lost:
                return frame
            seen.append(api)
            if lost and len(seen) == 1:
                return None
            end = 3 if version >= FLEXIBLE else 0
            return frame[: len(frame) - end - 2] + b"\xff\xff" + frame[len(frame) - end :]

        proxy.answer = answer
        with pytest.raises(TransactionAbortableError), producer.transaction(consumer):
            for record in consumer.poll(20, timeout=20):
                producer.produce(made, record.value)
            producer.send_offsets(consumer)
        assert not [one for one in consumer.committed().values() if one is not None]
        assert [record.value for record in consumer.poll(20, timeout=20)] == NUMBERS
    assert committed(client, made) == []


@pytest.mark.later("gevent")
def test_init_transactions_within_a_transaction_changes_nothing(client: KafkaClient) -> None:
    """It asked for another epoch before it raised: that aborted the transaction, and ended the producer."""
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with producer.transaction():
            producer.produce(topic, b"1").get(20)
            with pytest.raises(TransactionStateError, match="a transaction is open"):
                producer.init_transactions()
        write(producer, topic, b"2")
    assert committed(client, topic) == [b"1", b"2"]


@pytest.mark.later("threads-not made", "gevent-made")
@pytest.mark.parametrize("is_made", [True, False], ids=["made", "not made"])
def test_exactly_once_settles_it_alone(client: KafkaClient, proxy: FrameProxy, is_made: bool) -> None:
    given, made, group = create_topic(client).name, create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, NUMBERS)
    with (
        answering(proxy, 0, UNKNOWN) if is_made else holding(proxy, after=1),
        client.producer(transactional_id=group) as producer,
        client.consumer(given, group=group, isolation_level="read_committed", consumer_timeout_ms=1000) as consumer,
    ):
        done = exactly_once(consumer, producer, lambda one: ProducerRecord(one.value, topic=made), max_records=5)
    assert done == 20
    assert committed(client, made) == NUMBERS


def test_exactly_once_on_an_event_loop(kafka: KafkaCluster) -> None:
    async def main() -> None:
        async with aio.KafkaClient(kafka.hosts) as client:
            given, made, group = unique(), unique(), unique()
            async with client.producer() as plain:
                await plain.produce_many(given, NUMBERS)
            async with (
                client.producer(transactional_id=group) as producer,
                client.consumer(
                    given, group=group, isolation_level="read_committed", consumer_timeout_ms=1000
                ) as consumer,
            ):
                inner: Any = producer
                with unclear(inner._inner):
                    done = await aio.exactly_once(
                        consumer, producer, lambda one: ProducerRecord(one.value, topic=made), max_records=5
                    )
                assert done == 20
            async with client.consumer(made, isolation_level="read_committed", consumer_timeout_ms=1000) as reader:
                assert [record.value async for record in reader] == NUMBERS

    asyncio.run(main())


@pytest.mark.later("threads-not made", "gevent-made")
@pytest.mark.parametrize("is_made", [True, False], ids=["made", "not made"])
def test_a_loop_by_hand_needs_no_care(client: KafkaClient, proxy: FrameProxy, is_made: bool) -> None:
    """The consumer goes back to what is committed, and does not wait for the next transaction to learn that."""
    given, made, group = create_topic(client).name, create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, NUMBERS)
    unknown = 0
    with (
        answering(proxy, UNKNOWN) if is_made else holding(proxy),
        client.producer(transactional_id=group) as producer,
        client.consumer(given, group=group) as consumer,
    ):
        while records := consumer.poll(5, timeout=2):
            try:
                with producer.transaction(consumer):
                    for record in records:
                        producer.produce(made, record.value)
                    producer.send_offsets(consumer)
            except TransactionOutcomeUnknownError:
                unknown += 1
    assert unknown == 1
    assert committed(client, made) == NUMBERS


@contextmanager
def unclear(producer: KafkaProducer) -> Iterator[None]:
    """Make the second commit of a producer be answered by UNKNOWN_SERVER_ERROR."""
    assert transactions_of(producer) is not None
    coordinator: Any = coordinator_of(transactions_of(producer))
    error_of: Callable[[int, str], Any] = coordinator._error
    ends = 0

    def error(code: int, api: str) -> Any:
        nonlocal ends
        ends += api == "EndTxn"
        return error_of(UNKNOWN if api == "EndTxn" and ends == 2 else code, api)

    coordinator._error = error
    try:
        yield
    finally:
        del coordinator._error
    assert ends > 2


@pytest.mark.later("gevent")
def test_records_that_a_seek_repeats_are_not_counted_if_their_transaction_was_not_committed(
    client: KafkaClient, proxy: FrameProxy
) -> None:
    """The group has had later offsets since before, which looked like those of the transaction."""
    source, target = create_topic(client).name, create_topic(client).name
    with client.producer() as filler:
        for number in NUMBERS:
            filler.produce(source, number)
    options: Any = {"group": unique(), "isolation_level": "read_committed", "consumer_timeout_ms": 3000}
    with client.producer(transactional_id=unique()) as producer, client.consumer(source, **options) as consumer:

        def copied(record: Any) -> ProducerRecord[Any, Any]:
            return ProducerRecord(record.value, topic=target)

        assert exactly_once(consumer, producer, copied) == len(NUMBERS)
        consumer.seek(TopicPartition(source, 0), 0)
        with holding(proxy):
            assert exactly_once(consumer, producer, copied, 10) == 0
    assert committed(client, target) == NUMBERS


@pytest.mark.parametrize("comes", ["before", "after"])
def test_offsets_of_a_dead_process_hold_up_no_reader(kafka: KafkaCluster, comes: str) -> None:
    """Its TxnOffsetCommit comes late; Kafka 2.8.2 takes it, though the next producer has its epoch."""
    with KafkaClient(kafka.hosts) as client:
        given, made, group = create_topic(client).name, create_topic(client).name, unique()
        with client.producer() as plain:
            plain.produce_many(given, NUMBERS)
        dead = DeadProducer(client, group, group, TopicPartition(given, 0), 5)
        if comes == "before":
            dead.come()
        options: dict[str, Any] = {"isolation_level": "read_committed", "consumer_timeout_ms": 3_000}
        with (
            client.consumer(given, group=group, auto_commit=False, **options) as consumer,
            client.producer(transactional_id=group) as producer,
        ):
            producer.init_transactions(consumer=consumer)
            if comes == "after":
                assert dead.come() != 0
            assert exactly_once(consumer, producer, lambda record: ProducerRecord(record.value, topic=made)) == 15
        assert committed(client, made) == NUMBERS[5:]
