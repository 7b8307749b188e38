"""`assert_delivered` and `consume_all` on a fake cluster, and on one that they know by its address only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, TopicNotFoundError
from pykafka.testing import FakeCluster
from pykafka.testing.plugin.clusters import KafkaClock, RealCluster, connect
from pykafka.testing.plugin.deliveries import Deliveries

#: How long what is not there is waited for (s).
SHORT_S = 0.1


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=1, topics={"orders": 1, "many": 3}) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts) as client:
        yield client


@pytest.fixture(params=["threads", "gevent"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["fake", "real"])
def deliveries(request: pytest.FixtureRequest, cluster: FakeCluster, kind: str) -> Deliveries:
    return Deliveries(cluster if request.param == "fake" else RealCluster(cluster.hosts), kind)


def send(client: KafkaClient, *values: bytes | None, topic: str = "orders", key: bytes | None = None) -> None:
    with client.producer() as producer:
        for value in values:
            producer.produce(topic, value, key=key)


def failure(deliveries: Deliveries, *args: Any, **named: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        deliveries.assert_delivered(*args, **{"timeout": SHORT_S, **named})
    return str(caught.value)


def test_all_records_of_a_topic(client: KafkaClient, deliveries: Deliveries) -> None:
    with client.producer() as producer:
        for number in range(300):
            headers = [("source", b"test")]
            producer.produce("many", b"%d" % number, key=b"%d" % (number % 7), headers=headers)
    records = deliveries.consume_all("many")
    assert sorted(int(record.value or b"") for record in records) == list(range(300))
    assert [(record.partition, record.offset) for record in records] == sorted(
        (record.partition, record.offset) for record in records
    )
    assert {(record.topic, *record.headers) for record in records} == {("many", ("source", b"test"))}
    assert all(record.timestamp for record in records)
    assert deliveries.consume_all("orders") == []


def test_transactions(client: KafkaClient, deliveries: Deliveries) -> None:
    with client.producer(transactional_id="t") as producer:
        for value, commits in (b"aborted", False), (b"committed", True), (b"aborted too", False):
            producer.begin_transaction()
            producer.produce("orders", value).get(timeout=10)
            (producer.commit_transaction if commits else producer.abort_transaction)()
        producer.begin_transaction()
        producer.produce("orders", b"open").get(timeout=10)
        assert [record.value for record in deliveries.consume_all("orders")] == [b"committed"]
        values = [record.value for record in deliveries.consume_all("orders", committed=False)]
        assert values == [b"aborted", b"committed", b"aborted too", b"open"]
        producer.abort_transaction()


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ([b"1", "2", None], {}),
        ([None, b"2", b"1"], {}),
        ([("k", "1"), (b"k", b"2"), None], {}),
        (["1", "2", None], {"in_order": True}),
        (["2"], {"others": True}),
        ([1, 2, None], {"decode": json.loads}),
        (None, {"count": 3}),
        (None, {"count": 2, "others": True}),
    ],
)
def test_what_is_there(client: KafkaClient, cluster: FakeCluster, expected: Any, options: dict[str, Any]) -> None:
    send(client, b"1", b"2", None, key=b"k")
    records = Deliveries(cluster, "threads").assert_delivered("orders", expected, **options)
    assert [record.value for record in records] == [b"1", b"2", None]


@pytest.mark.parametrize(
    ("expected", "options", "text"),
    [
        (["1", "2", "3"], {}, "topic 'orders' lacks 1 of 3 records after 0.1 s\n  missing:\n    b'3'"),
        (["1"], {}, "topic 'orders' has 1 that is not expected\n  not expected:\n    b'2' (partition 0, offset 1)"),
        ([("a", "1"), "2"], {}, "missing:\n    b'a': b'1'\n  not expected:\n    b'1' (partition 0, offset 0)"),
        (["1", "20"], {}, "first difference: byte 1: b'20' is expected, b'2' is there"),
        (["2", "1"], {"in_order": True}, "has its records in another order\n  first difference: record 0 (partition 0"),
        (["9"] * 7, {"others": True}, "    b'9'\n    ... and 2 more"),
        (None, {"count": 3}, "lacks 1 of 3 records after 0.1 s"),
        (None, {"count": 1}, "has 1 that is not expected"),
    ],
)
def test_what_is_wrong(
    client: KafkaClient, cluster: FakeCluster, expected: Any, options: dict[str, Any], text: str
) -> None:
    send(client, b"1", b"2")
    assert text in failure(Deliveries(cluster, "threads"), "orders", expected, **options)


def test_records_that_come_later(client: KafkaClient, cluster: FakeCluster, deliveries: Deliveries) -> None:
    producer = client.producer(linger_ms=200)
    producer.produce("orders", b"late")
    with cluster.hold("Produce"):  # only its answers wait
        assert [record.value for record in deliveries.assert_delivered("orders", ["late"])] == [b"late"]
    producer.close()


def test_a_topic_that_is_not_there(deliveries: Deliveries, cluster: FakeCluster) -> None:
    with pytest.raises(TopicNotFoundError, match="nowhere"):
        deliveries.consume_all("nowhere")
    assert "lacks 1 of 1 records" in failure(deliveries, "nowhere", ["1"])
    assert "nowhere" in failure(deliveries, "nowhere", []), "an absent topic is not an empty one"
    assert not cluster.has_topic("nowhere")


@pytest.mark.parametrize("arguments", [{}, {"values": b"1"}, {"values": "1"}, {"values": ["1"], "count": 1}])
def test_misuse(cluster: FakeCluster, arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="a list of values, or count="):
        Deliveries(cluster, "threads").assert_delivered("orders", **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"values": [("a", "b", "c")]}, "a pair of key and value"),
        ({"values": [1]}, "1 is expected, but values are bytes, text or None"),
        ({"values": [("a", 1)]}, "give decode="),
        ({"values": 3}, "a list of values, or count="),
        ({"count": "3"}, "count is '3'"),
        ({"count": -1}, "count is -1"),
    ],
)
def test_what_no_record_can_meet_is_refused_at_once(cluster: FakeCluster, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        Deliveries(cluster, "threads").assert_delivered("orders", **arguments)


def test_a_record_that_cannot_be_decoded_is_named(client: KafkaClient, cluster: FakeCluster) -> None:
    send(client, b"no json")
    with pytest.raises(json.JSONDecodeError) as caught:
        Deliveries(cluster, "threads").assert_delivered("orders", [{}], decode=json.loads)
    assert caught.value.__notes__ == ["decode failed for b'no json' (partition 0, offset 0)"]


@pytest.mark.parametrize("seconds", [-1, "5", float("nan"), float("inf"), None, True])
def test_clocks_do_not_go_back(cluster: FakeCluster, seconds: Any) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        KafkaClock(cluster).advance(seconds)


def test_an_unknown_handler(cluster: FakeCluster) -> None:
    with pytest.raises(ValueError, match="kafka_handler is 'asyncio'"):
        connect(cluster, "asyncio")


def test_order_is_that_of_one_partition(client: KafkaClient, cluster: FakeCluster) -> None:
    for key in b"a", b"b", b"c", b"d":
        send(client, b"1", topic="many", key=key)
    with pytest.raises(ValueError, match="one partition"):
        Deliveries(cluster, "threads").assert_delivered("many", ["1"] * 4, in_order=True)


def test_an_event_loop_is_not_blocked(client: KafkaClient, cluster: FakeCluster) -> None:
    send(client, b"1")
    deliveries = Deliveries(cluster, "threads")

    async def main() -> None:
        deliveries.assert_delivered("orders", ["1"])  # it has not to wait
        with pytest.raises(RuntimeError, match=r"await asyncio.to_thread\(assert_delivered"):
            deliveries.assert_delivered("orders", ["1", "2"])
        waiting = asyncio.create_task(asyncio.to_thread(deliveries.assert_delivered, "orders", ["1", "2"]))
        await asyncio.to_thread(send, client, b"2")
        assert len(await waiting) == 2

    asyncio.run(main())
