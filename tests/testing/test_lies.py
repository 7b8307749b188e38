"""Brokers that lie, or are in trouble, in ways that no plan of faults draws: the client holds, and ends by its deadlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import CorruptResponseError, FrameTooLargeError, KafkaException
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.protocol.schema import Response
from pykafka.testing import FakeCluster
from pykafka.testing.call import Call
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

TOPIC = "orders"
#: How long a call may take that nothing keeps from success (s).
BOUND_S = 30.0
#: Written, though not by as many replicas as min.insync.replicas asks for.
AFTER_APPEND = 20
Program = Callable[[FakeCluster, KafkaClient, Handler], None]


def run(program: Program, seed: int = 1, as_version: str = "4.4", **options: Any) -> None:
    """Run a program in virtual time, with a topic of one partition that has three replicas."""
    scheduler = Scheduler(seed, busy_limit=20)
    handler = VirtualHandler(scheduler, Network(scheduler))

    def main() -> None:
        with (
            FakeCluster(3, handler=handler, racks=("a", "b", "c"), as_version=as_version) as cluster,
            KafkaClient(cluster.hosts, handler=handler, socket_timeout_ms=2_000, **options) as client,
        ):
            cluster.create_topic(TOPIC, 1, 3)
            program(cluster, client, handler)

    scheduler.run(main)
    assert not scheduler.errors


def _read(client: KafkaClient, handler: Handler, count: int, **options: Any) -> list[bytes | None]:
    """Return the values of so many records."""
    values: list[bytes | None] = []
    with client.consumer(auto_offset_reset="earliest", **options) as consumer:
        until = handler.now() + BOUND_S
        while len(values) < count and handler.now() < until:
            with suppress(FrameTooLargeError, CorruptResponseError):  # of a broker that is none: raised once for each
                if not consumer.assignment():
                    consumer.assign([TopicPartition(TOPIC, 0)])
                values += [record.value for record in consumer.poll(timeout=1)]
    return values


def _fill(client: KafkaClient, count: int) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    with client.producer(linger_ms=0) as producer:
        for value in values:
            producer.produce(TOPIC, value).get(BOUND_S)
    return values


def _later(handler: Handler, seconds: float, call: Callable[[], None]) -> None:
    def wait() -> None:
        handler.sleep(seconds)
        call()

    handler.spawn(wait, name="later")


@contextmanager
def _answering(cluster: FakeCluster, kind: type, times: int, change: Callable[[Any], None]) -> Iterator[list[int]]:
    """Change the next answers of a kind; yield how many are left."""
    left = [times]

    def look(_call: Any, response: Any) -> None:
        if isinstance(response, kind) and left[0]:
            left[0] -= 1
            change(response)

    end = cluster.on_answer(look)
    yield left
    end()


@pytest.mark.parametrize("times", [1, 3])
def test_written_and_refused(times: int) -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND: it is written all the same, so it is sent again under the same number."""

    def refuse(response: wire.ProduceResponse) -> None:
        response.responses[0].partition_responses[0].error_code = AFTER_APPEND

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        with _answering(cluster, wire.ProduceResponse, times, refuse) as left:
            values = _fill(client, 3)
        assert left == [0]
        assert [record.value for record in cluster.records(TOPIC)] == values == _read(client, handler, 3)

    run(program)


@pytest.mark.parametrize("idempotent", [True, False])
def test_no_broker_tells_a_producer_of_an_unclean_election(idempotent: bool) -> None:
    """Later messages are stored once and in order, at offsets that other messages have had."""

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        with client.producer(linger_ms=0, enable_idempotence=idempotent) as producer:
            for number in range(5):
                producer.produce(TOPIC, b"%d" % number).get(BOUND_S)
            cluster.truncate(TOPIC, 0, 2)
            later = [producer.produce(TOPIC, b"%d" % number).get(BOUND_S).offset for number in range(5, 8)]
        assert later == [2, 3, 4]
        assert [record.value for record in cluster.records(TOPIC)] == [b"0", b"1", b"5", b"6", b"7"]

    run(program)


@pytest.mark.parametrize("as_version", ["0.11", "1.1", "2.4"])
def test_a_producer_writes_on_after_its_records_are_deleted(as_version: str) -> None:
    """Brokers before 2.4 know the producer no more then (UNKNOWN_PRODUCER_ID): all is stored once and in order."""

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        with client.producer(linger_ms=0, enable_idempotence=True) as producer:
            for number in range(6):
                assert producer.produce(TOPIC, b"%d" % number).get(BOUND_S).offset == number
                if number % 2:
                    client.admin.delete_records({TopicPartition(TOPIC, 0): number + 1})
            producer.produce(TOPIC, b"6").get(BOUND_S)
        assert [record.value for record in cluster.records(TOPIC)] == [b"6"]

    run(program, as_version=as_version)


@pytest.mark.parametrize("api", ["Produce", "Fetch", "ListOffsets"])
@pytest.mark.parametrize("moves", [False, True])
def test_a_disk_fails(api: str, moves: bool) -> None:
    """KAFKA_STORAGE_ERROR, until another broker leads, or for a while."""

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        _fill(client, 1)
        fault = cluster.fail(api, "KAFKA_STORAGE_ERROR", 1_000 if moves else 2, broker=1)
        if moves:
            _later(handler, 1, partial(cluster.set_leader, TOPIC, 0, 2))
        _fill(client, 1)
        assert len(_read(client, handler, 2)) == 2
        assert fault.met

    run(program)


@pytest.mark.parametrize("noticed", [True, False])
def test_the_closest_replica_goes_away(noticed: bool) -> None:
    """The leader is asked again, which names it no more, or still does."""

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        values = _fill(client, 2)
        cluster.set_follower(TOPIC, 0, 2)
        with client.consumer(auto_offset_reset="earliest", client_rack="b") as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            found: list[bytes | None] = []
            while len(found) < 2:
                found += [record.value for record in consumer.poll(timeout=1)]
            cluster.stop(2, noticed=noticed)
            _later(handler, 3, partial(cluster.start, 2))
            values += _fill(client, 2)
            until = handler.now() + BOUND_S
            while len(found) < 4 and handler.now() < until:
                found += [record.value for record in consumer.poll(timeout=1)]
        assert found == values

    run(program)


def test_records_are_deleted_between_the_look_up_and_the_fetch() -> None:
    """The start that ListOffsets has named is before the log by then."""

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        values = _fill(client, 5)
        with _answering(cluster, wire.ListOffsetsResponse, 1, lambda _: cluster.delete_before(TOPIC, 0, 3)) as left:
            assert _read(client, handler, 2) == values[3:]
        assert left == [0]

    run(program)


def test_answers_without_records_and_a_high_watermark_that_moves() -> None:
    """Nothing is skipped: the offset does not move by a high watermark."""

    def strip(response: wire.FetchResponse) -> None:
        for topic in response.responses:
            for partition in topic.partitions:
                partition.records = b""

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        values = _fill(client, 5)
        with _answering(cluster, wire.FetchResponse, 8, strip) as left:
            assert _read(client, handler, 5, fetch_max_wait_ms=100) == values
        assert left == [0]

    run(program)


def _numbered(frame: bytes, number: int) -> bytes:
    return frame[:4] + number.to_bytes(4, "big", signed=True) + frame[8:]


def _sized(frame: bytes, size: int) -> bytes:
    return size.to_bytes(4, "big", signed=True) + frame[4:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "twice": lambda frame: frame * 2,
    "of no request": lambda frame: _numbered(frame, 1_000_000),
    "of no request, then the right one": lambda frame: _numbered(frame, -1) + frame,
    "of the request before": lambda frame: _numbered(frame, int.from_bytes(frame[4:8], "big") - 1),
    "of 2 GiB": lambda frame: _sized(frame, 2**31 - 1),
    "of a negative length": lambda frame: _sized(frame, -1),
    "of no length": lambda frame: _sized(frame, 0),
    "a byte short": lambda frame: _sized(frame[:-1], len(frame) - 5),
    "a byte long": lambda frame: _sized(frame + b"x", len(frame) - 3),
}


@pytest.mark.parametrize("api", ["ApiVersions", "Metadata", "Produce", "ListOffsets", "Fetch"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_frames_that_are_not_the_answer(damage: str, api: str) -> None:
    """The client ends the connection, and asks again: all is written once, and read once and in order.

    A consumer says by a named error what came, and reads on at the next call.
    """
    kind = getattr(wire, f"{api}Response")

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        left = [2]

        def look(call: Call, response: Response) -> None:
            if isinstance(response, kind) and left[0]:
                left[0] -= 1
                call.damage = DAMAGES[damage]

        values = _fill(client, 1)
        end = cluster.on_answer(look)
        if api in ("ApiVersions", "Metadata"):
            for broker in cluster.broker_ids:
                cluster.hang_up(broker)
            client.cluster.update()
        values += _fill(client, 3)
        assert _read(client, handler, 4) == values
        assert left[0] < 2
        end()
        assert [record.value for record in cluster.records(TOPIC)] == values

    run(program)


@pytest.mark.parametrize(
    "api", ["ApiVersions", "Metadata", "FindCoordinator", "InitProducerId", "Produce", "ListOffsets"]
)
def test_calls_end_though_an_api_is_throttled_for_minutes(api: str) -> None:
    """Each call ends by its own deadline, by success or by a named error."""

    def program(cluster: FakeCluster, client: KafkaClient, handler: Handler) -> None:
        cluster.throttle(api, 600_000)

        def produce() -> None:
            with client.producer(linger_ms=0, max_block_ms=3_000, delivery_timeout_ms=5_000) as producer:
                for _ in range(2):
                    producer.produce(TOPIC, b"x").get(10)

        def consume() -> None:
            with client.consumer() as consumer:
                consumer.assign([TopicPartition(TOPIC, 0)])
                consumer.poll(timeout=2)

        for call in (produce, consume):
            began = handler.now()
            with suppress(KafkaException):
                call()
            assert handler.now() - began < BOUND_S

    run(program)
