"""Consumers whose next records are deleted, or never were, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer, KafkaProducer, Record
from pykafka.common import TopicPartition
from pykafka.consumer.buffers import OwnedPartition
from pykafka.exceptions import (
    GroupLoadInProgress,
    OffsetOutOfRangeError,
    OffsetResetNeededError,
    OffsetsNotCommitted,
    TopicRecreatedError,
    TransactionAbortableError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from pykafka.testing.call import Call
from pykafka.testing.virtual import Scheduler, VirtualHandler

ORDERS = TopicPartition("orders", 0)
#: The time-out of requests (s), how long an outage lasts, and how long a consumer may take then to read on.
SOCKET_S, OUTAGE_S, SOON_S = 1.0, 5.0, 3.0
Outage = Callable[[FakeCluster], Callable[[], object]]


def _stop(cluster: FakeCluster) -> Callable[[], object]:
    """Stop the leader; the consumer connects in vain."""
    cluster.stop(1, noticed=False)
    return lambda: cluster.start(1)


def _pause(cluster: FakeCluster) -> Callable[[], object]:
    """Pause the leader, which answers nothing."""
    cluster.pause(1)
    return lambda: cluster.resume(1)


def _lose_lookups(cluster: FakeCluster) -> Callable[[], object]:
    """Cut the connections of all look-ups of offsets; fetches are answered."""
    cluster.cut("ListOffsets", "before", times=1_000)
    return cluster.clear_faults


def _move_leader(cluster: FakeCluster) -> Callable[[], object]:
    """Refuse to fetch and to look offsets up, as a broker does that is not the leader."""
    for api in ("Fetch", "ListOffsets"):
        cluster.fail(api, "NOT_LEADER_OR_FOLLOWER", times=1_000)
    return cluster.clear_faults


@pytest.mark.parametrize("outage", [_stop, _pause, _lose_lookups, _move_leader], ids=lambda fn: fn.__name__.strip("_"))
def test_a_position_that_was_deleted_in_an_outage_is_no_error(
    scheduler: Scheduler, virtual: VirtualHandler, outage: Outage
) -> None:
    """However long the outage was: `auto_offset_reset` says where the consumer goes, and it goes there when it can ask."""

    def program() -> list[int]:
        options: dict[str, Any] = {"socket_timeout_ms": int(SOCKET_S * 1000), "reconnect_backoff_max_ms": 400}
        with (
            FakeCluster(brokers=1, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, **options) as client,
        ):
            cluster.create_topic(ORDERS.topic, 1)
            consumer = client.consumer(auto_offset_reset="earliest")
            consumer.assign([ORDERS])
            with client.producer() as producer:
                for value in range(3):
                    producer.produce(ORDERS.topic, b"%d" % value).get()
                read = [record.offset for record in consumer.poll(1, timeout=SOON_S)]
                consumer.seek(ORDERS, 1)
                consumer.pause(ORDERS)
                for value in range(3, 6):
                    producer.produce(ORDERS.topic, b"%d" % value).get()
            over = outage(cluster)
            cluster.delete_before(*ORDERS, 4)
            consumer.resume(ORDERS)
            until = virtual.now() + OUTAGE_S
            while virtual.now() < until:
                read += [record.offset for record in consumer.poll(100, timeout=0.5)]
            over()
            until = virtual.now() + SOON_S
            while len(read) < 3 and virtual.now() < until:
                read += [record.offset for record in consumer.poll(100, timeout=0.5)]
            consumer.close()
            return read

    assert scheduler.run(program) == [0, 4, 5]


@contextmanager
def _reading(virtual: VirtualHandler, partitions: int = 1) -> Iterator[tuple[KafkaClient, Any]]:
    """Yield a client, and a consumer of it that has no start of its own; the topic is there, and empty."""
    with (
        FakeCluster(brokers=1, topics={ORDERS.topic: partitions}, handler=virtual) as cluster,
        KafkaClient(cluster.hosts, handler=virtual) as client,
        client.consumer(auto_offset_reset="none") as consumer,
    ):
        yield client, consumer


def test_a_position_that_only_the_application_can_move_is_explained_by_that_position(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """Nobody has asked for a committed offset: at no time does the consumer say that none is there."""

    def program() -> set[str]:
        with _reading(virtual) as (_, consumer):
            consumer.assign([ORDERS])
            consumer.seek(ORDERS, 10_000)
            with pytest.raises(OffsetResetNeededError, match="offset 10000 is not there"):
                consumer.poll(timeout=SOON_S)
            texts = set()
            until = virtual.now() + OUTAGE_S
            while virtual.now() < until:
                texts.add(consumer.explain().of(str(ORDERS)).text.partition(":")[2])
                virtual.sleep(0.02)
            return texts

    texts = scheduler.run(program)
    assert any("offset 10000 is not there" in text for text in texts)
    assert not any("nothing is committed" in text for text in texts), texts


@pytest.mark.parametrize("move", ["seek", "seek_to_beginning", "unassign"])
def test_an_offset_out_of_range_for_long_is_no_error_once_the_application_has_named_another(
    scheduler: Scheduler, virtual: VirtualHandler, move: str
) -> None:
    """The broker refuses each offset for longer than the socket timeout; the next call raised that after `seek()`, too."""

    def program() -> list[int]:
        with (
            FakeCluster(brokers=1, topics={ORDERS.topic: 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=int(SOCKET_S * 1000)) as client,
            client.consumer(auto_offset_reset="earliest") as consumer,
        ):
            with client.producer() as producer:
                producer.produce(ORDERS.topic, b"1").get()
            cluster.fail("Fetch", "OFFSET_OUT_OF_RANGE", times=10_000)
            consumer.assign([ORDERS])
            virtual.sleep(OUTAGE_S)
            assert [type(error) for error in consumer._engine.errors] == [OffsetOutOfRangeError]
            cluster.clear_faults()
            if move == "seek":
                consumer.seek(ORDERS, 0)
            elif move == "seek_to_beginning":
                consumer.seek_to_beginning(ORDERS)
            else:
                consumer.assign([])
            return [record.offset for record in consumer.poll(timeout=SOON_S)]

    assert scheduler.run(program) == ([] if move == "unassign" else [0])


@pytest.mark.parametrize("later_s", [0.0, 0.001, 0.004, 0.05, 1.0])
@pytest.mark.parametrize("move", ["seek", "seek_to_beginning", "seek_to_time"])
def test_the_application_that_names_a_position_in_time_hears_of_no_error(
    scheduler: Scheduler, virtual: VirtualHandler, move: str, later_s: float
) -> None:
    """The consumer looks for a position at once; the application may name it before the next call that reads."""

    def program() -> list[int]:
        with _reading(virtual) as (client, consumer):
            with client.producer() as producer:
                producer.produce(ORDERS.topic, b"1").get()
            consumer.assign([ORDERS])
            virtual.sleep(later_s)
            if move == "seek":
                consumer.seek(ORDERS, 0)
            elif move == "seek_to_beginning":
                consumer.seek_to_beginning(ORDERS)
            else:
                consumer.seek_to_time(0, ORDERS)
            return [record.offset for record in consumer.poll(timeout=SOON_S)]

    assert scheduler.run(program) == [0]


def test_the_application_that_gives_a_partition_up_hears_of_it_no_more(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    def program() -> int | None:
        with _reading(virtual, partitions=2) as (_, consumer):
            consumer.assign([ORDERS])
            virtual.sleep(1)
            consumer.assign([TopicPartition(ORDERS.topic, 1)])
            with pytest.raises(OffsetResetNeededError) as raised:
                consumer.poll(timeout=SOON_S)
            return raised.value.partition

    assert scheduler.run(program) == 1


@pytest.mark.parametrize("move", ["seek", "seek_to_end", "seek_to_beginning"])
@pytest.mark.parametrize("tried", [False, True], ids=["at first", "tried again"])
def test_the_search_for_a_start_that_is_wanted_no_more_raises_nothing(
    scheduler: Scheduler, virtual: VirtualHandler, move: str, tried: bool
) -> None:
    """The refused look-up of a committed offset was raised, though the application had named a position meanwhile."""

    def program() -> list[int]:
        with (
            FakeCluster(brokers=1, topics={ORDERS.topic: 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            client.consumer(group="readers", auto_commit=False) as consumer,
        ):
            with client.producer() as producer:
                producer.produce(ORDERS.topic, b"0").get()
            with cluster.hold("OffsetFetch"):
                cluster.fail("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", times=1_000)
                consumer.assign([ORDERS])
                virtual.sleep(2.5 if tried else 0.3)
                getattr(consumer, move)(ORDERS, *([0] if move == "seek" else []))
            virtual.sleep(SOON_S)
            return [record.offset for record in consumer.poll(timeout=SOON_S)]

    assert scheduler.run(program) == ([] if move == "seek_to_end" else [0])


def test_a_position_that_is_named_while_recovery_finds_none_is_no_error(
    scheduler: Scheduler, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`seek()` may come between the two looks of recovery, at the position and at the search for one."""

    def program() -> list[int]:
        with (
            FakeCluster(brokers=1, topics={ORDERS.topic: 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            client.consumer(auto_offset_reset="none") as consumer,
        ):
            with client.producer() as producer:
                producer.produce(ORDERS.topic, b"0").get()
            engine = consumer._engine
            is_starting = engine.is_starting

            def seek_before(owned: OwnedPartition) -> bool:
                if owned.position < 0:
                    consumer.seek(ORDERS, 0)
                return is_starting(owned)

            monkeypatch.setattr(engine, "is_starting", seek_before)
            consumer.assign([ORDERS])
            virtual.sleep(SOON_S)
            return [record.offset for record in consumer.poll(timeout=SOON_S)]

    assert scheduler.run(program) == [0]


def read_to(consumer: KafkaConsumer, virtual: VirtualHandler, last: bytes) -> list[bytes | None]:
    """Return what a consumer reads until it has read a message, or for some time."""
    read: list[bytes | None] = []
    until = virtual.now() + 10 * SOON_S
    while last not in read and virtual.now() < until:
        read.extend(record.value for record in consumer.poll(timeout=0.5))
    return read


def write_and_read(
    producer: KafkaProducer, consumer: KafkaConsumer, virtual: VirtualHandler, values: Sequence[bytes]
) -> list[bytes | None]:
    """Write messages, and read them from the start."""
    consumer.assign([ORDERS])
    consumer.seek(ORDERS, 0)
    for value in values:
        producer.produce(ORDERS.topic, value).get()
    return read_to(consumer, virtual, values[-1])


def read_one_of_each(producer: KafkaProducer, consumer: KafkaConsumer, keys: Sequence[TopicPartition]) -> None:
    """Write a message to each partition, and read them all."""
    for key in keys:
        producer.produce(key.topic, b"old", partition=key.partition).get()
    consumer.assign(keys)
    read = 0
    while read < len(keys):
        read += len(consumer.poll(timeout=SOON_S))


@pytest.mark.parametrize("release", ["2.8.2", "4.4"])
@pytest.mark.parametrize("is_behind", [False, True], ids=["offset in the new log", "offset behind it"])
def test_a_topic_made_anew_is_read_from_its_start_while_metadata_lacks_it(
    scheduler: Scheduler, virtual: VirtualHandler, release: str, is_behind: bool
) -> None:
    """The former leader led the new topic, too, and got requests without its id, at the offset of the old one.

    If that offset is behind the end of the new log, the consumer went where `auto_offset_reset` says.
    """
    lacking = [True] if is_behind else [True, True]
    news = [b"new 0"] if is_behind else [b"new 0", b"new 1", b"new 2"]

    def lack(call: Call, response: Any) -> Any:
        """Answer the reader as a broker that was cut off while there was no such topic."""
        if call.client_id == "reader" and isinstance(response, wire.MetadataResponse) and lacking:
            lacking.pop()
            for topic in response.topics:
                topic.error_code, topic.partitions = UnknownTopicOrPartition.ERROR_CODE, []
        return response

    def program() -> list[bytes | None]:
        with (
            FakeCluster(brokers=1, topics={ORDERS.topic: 1}, handler=virtual, as_version=release) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, client_id="reader") as client,
            KafkaClient(cluster.hosts, handler=virtual, client_id="writer") as other,
            client.consumer(auto_offset_reset="latest") as consumer,
            other.producer() as producer,
        ):
            read = write_and_read(producer, consumer, virtual, (b"old 0", b"old 1"))
            if is_behind:  # no fetch is under way, whose answer would say that the topic is gone
                consumer.pause(ORDERS)
                virtual.sleep(SOON_S)
            cluster.on_answer(lack)
            other.admin.delete_topics([ORDERS.topic])
            cluster.create_topic(ORDERS.topic, 1)
            for value in news:
                producer.produce(ORDERS.topic, value).get()
            consumer.resume(ORDERS)
            return read + read_to(consumer, virtual, news[-1])

    assert scheduler.run(program) == [b"old 0", b"old 1", *news]


def test_partitions_that_are_assigned_by_hand_are_asked_about_at_the_age_of_metadata(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """No fetch said that the topic was another one, and the consumer asked for metadata only after an error."""

    def program() -> list[bytes | None]:
        with (
            FakeCluster(brokers=1, topics={ORDERS.topic: 1}, handler=virtual, as_version="2.8") as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
            client.consumer(auto_offset_reset="earliest", metadata_max_age_ms=2_000) as consumer,
        ):
            read: list[bytes | None] = []
            consumer.assign([ORDERS])
            with other.producer() as producer:
                producer.produce(ORDERS.topic, b"old").get()
                read.extend(record.value for record in consumer.poll(timeout=SOON_S))
                consumer.pause(ORDERS)
                virtual.sleep(SOON_S)  # the last fetch is answered
                other.admin.delete_topics([ORDERS.topic])
                cluster.create_topic(ORDERS.topic, 1)
            with other.producer() as producer:
                for value in (b"new 0", b"new 1"):
                    producer.produce(ORDERS.topic, value).get()
            consumer.resume(ORDERS)
            until = virtual.now() + SOON_S
            while virtual.now() < until:
                read.extend(record.value for record in consumer.poll(timeout=0.5))
            return read

    read = scheduler.run(program)
    assert read[0] == b"old"
    assert read[-2:] == [b"new 0", b"new 1"]


@pytest.mark.parametrize("release", ["2.8.2", "4.4"])
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_topic_that_goes_while_its_consumer_is_paused_is_read_from_its_start(
    scheduler: Scheduler, virtual: VirtualHandler, release: str, reset: str
) -> None:
    """No fetch was under way, whose answer says that the topic is gone: resumed, it went on at the old offset by name."""
    old, new = [b"old 0", b"old 1"], [b"new 0", b"new 1", b"new 2"]

    def program() -> list[bytes | None]:
        with (
            FakeCluster(brokers=1, topics={ORDERS.topic: 1}, handler=virtual, as_version=release) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
            client.consumer(auto_offset_reset=reset) as consumer,
            other.producer() as producer,
        ):
            read = write_and_read(producer, consumer, virtual, old)
            consumer.pause(ORDERS)
            virtual.sleep(SOON_S)
            other.admin.delete_topics([ORDERS.topic])
            client.cluster.update([ORDERS.topic])
            virtual.sleep(SOON_S)
            cluster.create_topic(ORDERS.topic, 1)
            for value in new:
                producer.produce(ORDERS.topic, value).get()
            consumer.resume(ORDERS)
            return read + read_to(consumer, virtual, new[-1])

    assert scheduler.run(program) == [*old, *new]


@pytest.mark.parametrize("release", ["2.8.2", "4.4"])
def test_an_offset_of_a_topic_that_is_gone_is_not_committed_to_the_next_one(
    scheduler: Scheduler, virtual: VirtualHandler, release: str
) -> None:
    """Brokers before 4.1 take commits by name. Metadata lacked the topic, so nothing showed that another one has its name."""
    stays = TopicPartition("stays", 0)

    def program() -> tuple[OffsetsNotCommitted, dict[TopicPartition, int | None]]:
        with (
            FakeCluster(1, {ORDERS.topic: 1, stays.topic: 1}, handler=virtual, as_version=release) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
            client.consumer(group="readers", auto_commit=False, auto_offset_reset="earliest") as consumer,
            other.producer() as producer,
        ):
            read_one_of_each(producer, consumer, [ORDERS, stays])
            other.admin.delete_topics([ORDERS.topic])
            client.cluster.update([ORDERS.topic])
            cluster.create_topic(ORDERS.topic, 1)
            producer.produce(ORDERS.topic, b"new").get()
            with pytest.raises(OffsetsNotCommitted) as caught:
                consumer.commit()
            found = other.admin.list_group_offsets("readers")["readers"]
            return caught.value, {key: found[key].offset for key in found}

    error, found = scheduler.run(program)
    assert isinstance(error.__cause__, TopicRecreatedError)
    assert error.failures == {ORDERS: 1}
    assert found == {stays: 1}


def test_an_offset_that_is_committed_is_committed_though_its_topic_goes_before_the_next_attempt(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """The second attempt, for the other topic, failed by the first one's, which it did not name."""
    stays = TopicPartition("stays", 0)

    def program() -> list[dict[TopicPartition, int]]:
        with (
            FakeCluster(1, {ORDERS.topic: 1, stays.topic: 1}, handler=virtual, as_version="2.8.2") as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
            client.consumer(group="readers", auto_commit=False, auto_offset_reset="earliest") as consumer,
        ):
            consumer._engine.commits_of("commit()").group._max_retries = 1
            with other.producer() as producer:
                read_one_of_each(producer, consumer, [ORDERS, stays])
            commits: list[dict[TopicPartition, int]] = []

            def refuse_one(call: Call, response: Any) -> Any:
                if isinstance(response, wire.OffsetCommitResponse):
                    commits.append({})
                    for topic in response.topics:
                        if len(commits) == 1 and topic.name == stays.topic:
                            topic.partitions[0].error_code = GroupLoadInProgress.ERROR_CODE
                        commits[-1][TopicPartition(topic.name, 0)] = topic.partitions[0].error_code
                    virtual.spawn(lose)
                return response

            def lose() -> None:
                other.admin.delete_topics([ORDERS.topic])
                client.cluster.update([ORDERS.topic])

            cluster.on_answer(refuse_one)
            consumer.commit()
            return commits

    assert scheduler.run(program) == [{ORDERS: 0, stays: GroupLoadInProgress.ERROR_CODE}, {stays: 0}]


@pytest.mark.parametrize("release", ["2.8.2", "4.3.1", "4.4"])
@pytest.mark.parametrize("returns", [True, False], ids=["made anew", "gone"])
def test_a_transaction_commits_no_offset_of_a_topic_that_is_gone(
    scheduler: Scheduler, virtual: VirtualHandler, release: str, returns: bool
) -> None:
    """Brokers before 4.4 take it by name: the group passed over the first records of the topic made anew."""
    lacks = [True]

    def lack(call: Call, response: Any) -> Any:
        """Answer the reader as a broker that was cut off while there was no such topic."""
        if call.client_id == "reader" and isinstance(response, wire.MetadataResponse) and lacks:
            for topic in response.topics:
                if topic.name == ORDERS.topic:
                    topic.error_code, topic.partitions = UnknownTopicOrPartition.ERROR_CODE, []
        return response

    def program() -> tuple[BaseException | None, float, dict[TopicPartition, int | None]]:
        with (
            FakeCluster(1, {ORDERS.topic: 1, "results": 1}, handler=virtual, as_version=release) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, client_id="reader") as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
            client.consumer(group="readers", auto_commit=False, auto_offset_reset="earliest") as consumer,
            client.producer(transactional_id="results") as producer,
        ):
            with other.producer() as first:
                first.produce(ORDERS.topic, b"old").get()
            consumer.assign([ORDERS])
            assert consumer.poll(timeout=SOON_S)
            producer.init_transactions()
            other.admin.delete_topics([ORDERS.topic])
            cluster.on_answer(lack)
            client.cluster.update([ORDERS.topic])
            if returns:
                cluster.create_topic(ORDERS.topic, 1)

            def return_soon() -> None:
                virtual.sleep(OUTAGE_S / 5)
                lacks.clear()

            virtual.spawn(return_soon)
            began = virtual.now()
            with pytest.raises(TransactionAbortableError) as caught, producer.transaction():
                producer.produce("results", b"of old")
                producer.send_offsets(consumer)
            found = other.admin.list_group_offsets("readers")["readers"]
            return caught.value.__cause__, virtual.now() - began, {key: found[key].offset for key in found}

    error, took, found = scheduler.run(program)
    assert isinstance(error, TopicRecreatedError if returns else UnknownTopicId)
    assert found == {}
    assert took < 2 * OUTAGE_S


def go_to_the_new_topic(
    cluster: FakeCluster, consumer: KafkaConsumer, other: KafkaClient, virtual: VirtualHandler
) -> None:
    """Read nine records, recreate the topic, and wait until the consumer is at the start of the new one."""
    with other.producer() as producer:
        producer.produce_many(ORDERS.topic, [b"old"] * 9)
    consumer.assign([ORDERS])
    read = 0
    while read < 9:
        read += len(consumer.poll(timeout=SOON_S))
    other.admin.delete_topics([ORDERS.topic])
    cluster.create_topic(ORDERS.topic, 1)
    until = virtual.now() + 10 * SOON_S
    while consumer.position(ORDERS) != 0 and virtual.now() < until:
        assert not consumer.poll(timeout=0.5)
    assert consumer.position(ORDERS) == 0


@pytest.mark.parametrize("how", ["commit", "commit_async", "record", "transaction"])
@pytest.mark.parametrize("release", ["2.8.2", "4.4"])
def test_an_offset_that_the_application_names_is_of_the_topic_whose_records_it_has(
    scheduler: Scheduler, virtual: VirtualHandler, release: str, how: str
) -> None:
    """The consumer had gone to the new topic by then, so offset 9 counted for that one, of which nobody had read anything."""

    def program() -> tuple[BaseException | None, list[int | None]]:
        with (
            FakeCluster(1, {ORDERS.topic: 1}, handler=virtual, as_version=release) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, metadata_max_age_ms=2_000) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
            client.consumer(group="readers", auto_commit=False, auto_offset_reset="earliest") as consumer,
            client.producer(transactional_id="results") as producer,
        ):
            go_to_the_new_topic(cluster, consumer, other, virtual)
            record = Record(ORDERS.topic, 0, 8, None, b"old", [], None)
            error: BaseException | None = None
            if how == "transaction":
                with pytest.raises(TransactionAbortableError) as aborted, producer.transaction():
                    producer.send_offsets(consumer, {ORDERS: 9})
                error = aborted.value
            elif how == "commit_async":
                errors: list[BaseException | None] = []
                consumer.commit_async({ORDERS: 9}, lambda found, _: errors.append(found))
                virtual.sleep(SOON_S)
                error = errors[0]
            else:
                with pytest.raises(OffsetsNotCommitted) as refused:
                    consumer.commit(record if how == "record" else {ORDERS: 9})
                error = refused.value
            found = [other.admin.list_group_offsets("readers")["readers"].get(ORDERS)]
            consumer.commit({ORDERS: consumer.position(ORDERS)})  # the start of the new one
            with other.producer() as writer:
                writer.produce_many(ORDERS.topic, [b"new"] * 3)
            assert read_to(consumer, virtual, b"new")[0] == b"new"
            consumer.commit({ORDERS: 1})
            found.append(other.admin.list_group_offsets("readers")["readers"][ORDERS])
            return None if error is None else error.__cause__, [one and one.offset for one in found]

    error, found = scheduler.run(program)
    assert isinstance(error, TopicRecreatedError)
    assert found == [None, 1]


def test_an_offset_that_is_named_after_a_seek_is_of_the_topic_that_there_is_now(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    def program() -> int | None:
        with (
            FakeCluster(1, {ORDERS.topic: 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
            client.consumer(group="readers", auto_commit=False, auto_offset_reset="earliest") as consumer,
        ):
            go_to_the_new_topic(cluster, consumer, other, virtual)
            consumer.seek(ORDERS, 0)
            consumer.commit({ORDERS: 2})
            return other.admin.list_group_offsets("readers")["readers"][ORDERS].offset

    assert scheduler.run(program) == 2
