"""The debug log: requests, rebalances and positions; never what messages, keys, headers or commits' metadata say."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from pykafka import EmbeddedCluster, KafkaClient, KafkaException, Message, Topic
from pykafka.handlers import Handler
from pykafka.network import requestlog
from pykafka.network.requestlog import error_codes
from pykafka.protocol import wire
from tests.support.waiting import until

SECRETS = {b"pAyLoAd-never-shown", b"kEy-never-shown", b"hEaDeR-never-shown"}
VALUE, KEY, HEADER = sorted(SECRETS, reverse=True)


@pytest.fixture
def hosts() -> Iterator[str]:
    with EmbeddedCluster(brokers=1, topics={"clicks": 2}) as cluster:
        yield cluster.hosts


def session(hosts: str, handler: Handler, count: int) -> None:
    """Do what applications do, and some of it wrong."""
    with KafkaClient(hosts, handler=handler) as client:
        topic = client.topics["clicks"]
        with topic.get_producer(linger_ms=50, required_acks=-1) as producer:
            for _ in range(count):
                producer.produce(VALUE, partition_key=KEY, headers=[("trace", HEADER)])
        with topic.get_sync_producer(max_request_size=2000) as producer, pytest.raises(KafkaException):
            producer.produce(100 * VALUE, partition_key=KEY)
        with topic.get_simple_consumer("simple", consumer_timeout_ms=10_000) as consumer:
            received = [consumer.consume() for _ in range(count)]
            assert all(isinstance(one, Message) and one.value == VALUE for one in received)
            consumer.seek(topic.partitions[0], 1)
            consumer.commit_offsets()
        managed(topic, count)


def managed(topic: Topic, count: int) -> None:
    with topic.get_balanced_consumer(
        "managed", managed=True, consumer_timeout_ms=10_000, auto_commit_enable=True, heartbeat_interval_ms=100
    ) as consumer:
        for _ in range(count):
            message = consumer.consume()
            assert message is not None
            assert message.partition_key == KEY


def test_it_tells_requests_rebalances_and_positions(
    hosts: str, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pykafka")
    session(hosts, handler, 10)
    lines = [record.getMessage() for record in caplog.records]

    for api in (
        "Metadata",
        "InitProducerId",
        "Produce",
        "FindCoordinator",
        "OffsetFetch",
        "ListOffsets",
        "Fetch",
        "JoinGroup",
    ):
        sent = rf"^to 127\.0\.0\.1:\d+ \([^)]+\): {api} v\d+, request \d+, \d+ bytes$"
        answered = rf"^from 127\.0\.0\.1:\d+ \([^)]+\): {api} v\d+, request \d+, \d+ bytes after \d+\.\d ms: no error$"
        assert any(re.match(sent, line) for line in lines), api
        assert any(re.match(answered, line) for line in lines), api
    for told in (
        r"^connected to 127\.0\.0\.1:\d+$",
        r"^disconnected from 127\.0\.0\.1:\d+: the connection was closed by this client",
        r"^group managed: generation \d+, member \S+, led by \S+, range$",
        r"^group managed: partitions \[0, 1\] of clicks$",
        r"^clicks-0 begins at offset 0: group simple has committed nothing; auto_offset_reset is earliest$",
        r"^clicks-0 goes to offset 1$",
        r"^group simple: committed offset 1 of clicks-0$",
    ):
        assert any(re.search(told, line) for line in lines), told
    caplog.clear()
    with KafkaClient(hosts, handler=handler) as client, client.topics["clicks"].get_simple_consumer("simple"):
        pass
    assert any(line.startswith("clicks-0 begins at offset 1: committed by group simple") for line in caplog.messages)


def test_it_shows_no_contents(hosts: str, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    session(hosts, handler, 10)
    assert caplog.records
    for record in caplog.records:
        shown = f"{record.getMessage()} {record.args!r} {record.exc_text or ''} {record.exc_info!r}"
        assert [secret for secret in SECRETS if secret.decode() in shown] == []


def test_messages_add_nothing_to_it(hosts: str, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pykafka")
    session(hosts, handler, 1000)
    assert len([record for record in caplog.records if "Fetch" not in record.getMessage()]) < 300


def test_where_it_is_off_each_request_asks_once(
    hosts: str, handler: Handler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "pykafka")
    asked: list[bool] = []
    is_enabled = requestlog.log.isEnabledFor

    def counted(level: int) -> bool:
        asked.append(is_enabled(level))
        return asked[-1]

    monkeypatch.setattr(requestlog.log, "isEnabledFor", counted)
    with KafkaClient(hosts, handler=handler) as client, client.topics["clicks"].get_producer(linger_ms=50) as producer:
        before = len(asked)
        for _ in range(1000):
            producer.produce(VALUE)
        producer.flush()
    assert not any(asked)
    assert len(asked) - before < 50
    assert [record for record in caplog.records if record.name == requestlog.log.name] == []


def test_a_request_without_a_response_is_told(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    told = re.compile(r"^from \S+ \(main\): Metadata v\d+, request \d+: no response after [\d.]+ ms: ")
    with EmbeddedCluster(brokers=1, topics={"clicks": 1}) as cluster:
        with KafkaClient(cluster.hosts, handler=handler, socket_timeout_ms=500) as client:
            client.update_cluster()  # over a connection that stays
            caplog.set_level(logging.DEBUG, "pykafka")
            cluster.set_latency(1, 5000)
            with pytest.raises(KafkaException):
                client.update_cluster()
            until(handler, lambda: any(told.search(line) for line in caplog.messages))
            cluster.set_latency(1, 0)


def test_errors_are_found_however_deep_they_are() -> None:
    partition = wire.ProduceResponse.Topic.Partition(index=0, error_code=6)
    topic = wire.ProduceResponse.Topic(name="clicks", partition_responses=[partition])
    assert error_codes(wire.ProduceResponse(responses=[topic])) == {6}
    assert error_codes(wire.FindCoordinatorResponse(error_code=15)) == {15}
    assert error_codes(wire.MetadataResponse()) == set()
