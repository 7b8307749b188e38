"""Faults that a test sets up, as clients see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import NotLeaderForPartition
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.testing import FakeCluster, FakeClusterError
from pykafka.testing.call import Call
from tests.testing.connection import LIMIT, connected, handler, produce

METADATA = wire.MetadataRequest(topics=None)
#: The newest version of Produce that names topics.
BY_NAME = 12


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2, topics={"t": 2}) as made:
        yield made


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_FOR_PARTITION", 6, NotLeaderForPartition])
def test_a_failure_is_met_as_often_as_it_was_set_up(cluster: FakeCluster, error: Any) -> None:
    fault = cluster.fail("Produce", error, times=2)
    with connected(cluster) as broker:
        answers = [broker.ask(produce("t", b"x"), BY_NAME).responses[0].partition_responses[0] for _ in range(3)]
    assert [answer.error_code for answer in answers] == [6, 6, 0]
    assert [answer.base_offset for answer in answers] == [-1, -1, 0]
    assert (fault.met, fault.left) == (2, 0)
    assert [record.value for record in cluster.records("t")] == [b"x"]


def test_failures_come_in_their_order_and_none_lets_one_pass(cluster: FakeCluster) -> None:
    for error in ("REQUEST_TIMED_OUT", "NONE", "MESSAGE_TOO_LARGE"):
        cluster.fail("Produce", error)
    assert [fault.left for fault in cluster.pending("Produce")] == [1, 1, 1]
    with connected(cluster) as broker:
        answers = [broker.ask(produce("t", b"x"), BY_NAME).responses[0].partition_responses[0] for _ in range(3)]
    assert [answer.error_code for answer in answers] == [7, 0, 10]
    assert cluster.pending("Produce") == []


def test_a_failure_may_be_of_one_broker_and_of_some_requests(cluster: FakeCluster) -> None:
    def names_u(request: Request[Any]) -> bool:
        return isinstance(request, wire.MetadataRequest) and [topic.name for topic in request.topics or ()] == ["u"]

    cluster.fail("Metadata", "LEADER_NOT_AVAILABLE", broker=2, when=names_u)
    cluster.create_topic("u")
    wanted = [wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name=name)]) for name in ("t", "u", "u")]
    with connected(cluster, 1) as first, connected(cluster, 2) as second:
        assert [first.ask(request).topics[0].error_code for request in wanted] == [0, 0, 0]
        assert [second.ask(request).topics[0].error_code for request in wanted] == [0, 5, 0]


def test_a_failed_metadata_request_still_names_brokers_and_topics(cluster: FakeCluster) -> None:
    cluster.fail("Metadata", "LEADER_NOT_AVAILABLE")
    with connected(cluster) as broker:
        answer = broker.ask(METADATA)
    assert [found.node_id for found in answer.brokers] == [1, 2]
    assert [(topic.name, topic.error_code, topic.partitions) for topic in answer.topics] == [("t", 5, [])]


def test_a_failed_fetch_has_the_error_at_each_partition_of_its_session(cluster: FakeCluster) -> None:
    parts = [wire.FetchRequest.Topic.Partition(partition=index, partition_max_bytes=1000) for index in (0, 1)]
    topics = [wire.FetchRequest.Topic(topic="t", partitions=parts)]
    with connected(cluster) as broker:
        opened = broker.ask(wire.FetchRequest(topics=topics, session_epoch=0), 12)
        assert opened.session_id
        cluster.fail("Fetch", "KAFKA_STORAGE_ERROR")
        failed = broker.ask(wire.FetchRequest(session_id=opened.session_id, session_epoch=1, max_wait_ms=60_000), 12)
        assert failed.error_code == 0
        assert [part.error_code for part in failed.responses[0].partitions] == [56, 56]
        after = broker.ask(wire.FetchRequest(session_id=opened.session_id, session_epoch=2), 12)
        assert (after.error_code, [part.error_code for part in after.responses[0].partitions]) == (0, [0, 6])
        cluster.fail("Fetch", "FETCH_SESSION_ID_NOT_FOUND")
        assert broker.ask(wire.FetchRequest(session_id=opened.session_id, session_epoch=3), 12).error_code == 70


def test_a_produce_without_answer_that_fails_ends_its_connection(cluster: FakeCluster) -> None:
    cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    with connected(cluster) as broker:
        broker.send(produce("t", b"x", acks=0), BY_NAME)
        assert broker.is_cut()
    assert cluster.records("t") == []


@pytest.mark.parametrize(("place", "values"), [("before", []), ("middle", [b"x"]), ("after", [b"x"])])
def test_a_cut(cluster: FakeCluster, place: str, values: list[bytes]) -> None:
    cluster.cut("Produce", place)
    with connected(cluster) as broker:
        broker.send(produce("t", b"x"), BY_NAME)
        assert broker.is_cut()
    with connected(cluster) as broker:
        assert broker.ask(METADATA).brokers
    assert [record.value for record in cluster.records("t")] == values


@pytest.mark.parametrize(("place", "rest"), [("before", False), ("middle", True), ("after", False)])
def test_a_cut_comes_behind_the_answers_on_a_long_line(cluster: FakeCluster, place: str, rest: bool) -> None:
    cluster.latency(1, 200)
    cluster.cut("Produce", place)
    with connected(cluster) as broker:
        broker.send(METADATA)
        broker.send(produce("t", b"x"), BY_NAME)
        received, buffer = b"", bytearray(4096)
        while size := broker.stream.recv_into(buffer, LIMIT):
            received += buffer[:size]
    whole = 4 + int.from_bytes(received[:4], "big")
    assert len(received) >= whole > 4
    assert (len(received) > whole) is rest


@pytest.mark.parametrize("place", ["before", "middle", "after"])
def test_an_idempotent_producer_writes_once_in_spite_of_a_cut(cluster: FakeCluster, place: str) -> None:
    cluster.cut("Produce", place, times=2)
    with KafkaClient(cluster.hosts) as client, client.producer() as producer:
        assert producer.produce("t", b"x", partition=0).get(timeout=LIMIT).offset == 0
    assert [record.value for record in cluster.records("t")] == [b"x"]


def test_held_answers_wait_although_the_requests_are_carried_out(cluster: FakeCluster) -> None:
    with connected(cluster) as broker, connected(cluster) as other:
        with cluster.hold("Produce", broker=1) as held:
            broker.send(produce("t", b"x"), BY_NAME)
            held.await_met()
            assert [record.value for record in cluster.records("t")] == [b"x"]
            with pytest.raises(TimeoutError):
                broker.read(0.05)
            assert other.ask(METADATA).brokers
        assert broker.read()[0] == 0
        assert broker.ask(produce("t", b"y"), BY_NAME).responses


def test_waiting_for_requests_that_do_not_come_ends(cluster: FakeCluster) -> None:
    held = cluster.hold("Produce")
    with pytest.raises(TimeoutError, match="0 of 2 requests"):
        held.await_met(2, timeout=0.01)


@pytest.mark.parametrize("end", ["stop", "close", "hang_up"])
def test_a_held_answer_ends_with_its_broker(cluster: FakeCluster, end: str) -> None:
    held = cluster.hold("Metadata")
    with connected(cluster) as broker:
        broker.send(METADATA)
        held.await_met()
        if end == "close":
            cluster.close()
        else:
            getattr(cluster, end)(1)
        assert broker.is_cut()


def test_a_throttled_connection_is_answered_and_then_not_read(cluster: FakeCluster) -> None:
    """As KIP-219: the answer says for how long."""
    throttle = cluster.throttle("Metadata", 60_000)
    with connected(cluster) as broker, connected(cluster) as other:
        assert broker.ask(METADATA).throttle_time_ms == 60_000
        throttle.end()
        broker.send(METADATA)
        with pytest.raises(TimeoutError):
            broker.read(0.05)
        assert other.ask(METADATA).throttle_time_ms == 0
        cluster.advance(60)
        assert broker.read()[0] == 1


def test_before_kip_219_a_throttled_answer_comes_late(cluster: FakeCluster) -> None:
    cluster.throttle("Metadata", 60_000, times=1)
    with connected(cluster) as broker:
        broker.send(METADATA, 3)
        with pytest.raises(TimeoutError):
            broker.read(0.05)
        cluster.advance(60)
        answer = broker.read()[1]
    assert isinstance(answer, wire.MetadataResponse)
    assert answer.throttle_time_ms == 60_000


def test_answers_over_a_long_line_follow_each_other(cluster: FakeCluster) -> None:
    """The second request is carried out while the first answer is on its way."""
    cluster.latency(1, 60_000)
    cluster.track_requests()
    with connected(cluster) as broker, connected(cluster, 2) as other:
        for _ in range(3):
            broker.send(METADATA)
        while len(cluster.requests("Metadata")) < 3:
            handler.sleep(0.001)
        with pytest.raises(TimeoutError):
            broker.read(0.05)
        assert other.ask(METADATA).brokers
        cluster.advance(60)
        assert [broker.read()[0] for _ in range(3)] == [0, 1, 2]


def test_a_line_that_has_become_short_keeps_the_order(cluster: FakeCluster) -> None:
    cluster.latency(1, 60_000)
    cluster.track_requests()
    with connected(cluster) as broker:
        broker.send(METADATA)
        while not cluster.requests("Metadata"):
            handler.sleep(0.001)
        cluster.latency(1, 0)
        broker.send(METADATA)
        with pytest.raises(TimeoutError):
            broker.read(0.05)
        cluster.advance(60)
        assert [broker.read()[0] for _ in range(2)] == [0, 1]


def test_hooks_see_requests_and_answers_and_may_replace_them(cluster: FakeCluster) -> None:
    seen: list[tuple[int, str | None, int]] = []

    def on_request(call: Call) -> None:
        seen.append((call.node.node_id, call.client_id, call.version))

    def on_answer(call: Call, response: Any) -> Any:
        response.cluster_id = "changed"

    ends: list[Callable[[], None]] = [cluster.on_request(on_request), cluster.on_answer(on_answer)]
    with connected(cluster, 2) as broker:
        assert broker.ask(METADATA).cluster_id == "changed"
        ends.append(cluster.on_request(lambda _: wire.MetadataResponse(cluster_id="instead")))
        ends[1]()
        assert broker.ask(METADATA).cluster_id == "instead"
        for end in ends:
            end()
            end()
        assert broker.ask(METADATA).cluster_id not in ("changed", "instead")
    assert seen == [(2, "test", 13)] * 2


@pytest.mark.parametrize("throttled", [False, True])
def test_an_answer_that_its_version_cannot_express(
    cluster: FakeCluster, throttled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(call: Call) -> Any:
        topic = wire.MetadataResponse.Topic(name=None, topic_id=UUID(int=1))
        return wire.MetadataResponse(topics=[topic]) if call.version < 10 else None

    cluster.on_request(answer)
    if throttled:
        cluster.throttle("Metadata", 1)
    with connected(cluster, 2) as broker:
        refused = broker.ask(wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name="t")]), 9)
        assert [(topic.name, topic.error_code) for topic in refused.topics] == [("t", -1)]
        assert broker.ask(METADATA).brokers
    said = "the answer of fake broker 2 to Metadata version 9 cannot be written, .*name.* defect of the fake cluster"
    with pytest.raises(FakeClusterError, match=said):
        cluster.close()
    assert "is no request" not in caplog.text
    assert "closes a connection" not in caplog.text


def test_a_hook_may_use_the_cluster(cluster: FakeCluster) -> None:
    def stop_it(call: Call) -> None:
        if isinstance(call.request, wire.ProduceRequest):
            cluster.set_leader("t", 0, 2)
            cluster.stop(1)

    cluster.on_request(stop_it)
    with connected(cluster) as broker:
        broker.send(produce("t", b"x"), BY_NAME)
        assert broker.is_cut()
    assert cluster.leader("t", 0) == 2


def test_requests_are_tracked(cluster: FakeCluster) -> None:
    with connected(cluster, 2) as broker:
        broker.ask(METADATA)
        assert cluster.requests() == []
        cluster.track_requests()
        broker.ask(METADATA, 9)
        broker.ask(wire.ApiVersionsRequest(), 3)
        assert [(one.broker, one.api, one.version, one.client_id) for one in cluster.requests()] == [
            (2, "Metadata", 9, "test"),
            (2, "ApiVersions", 3, "test"),
        ]
        assert [one.api for one in cluster.requests(wire.ApiVersionsRequest)] == ["ApiVersions"]
        cluster.untrack_requests()
        assert cluster.requests() == []


def test_faults_are_cleared_by_api_and_altogether(cluster: FakeCluster) -> None:
    cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    cluster.cut("Metadata")
    held = cluster.hold("Metadata")
    cluster.clear_faults("Metadata")
    assert held.is_released
    with connected(cluster) as broker:
        assert broker.ask(METADATA).brokers
        cluster.clear_faults()
        assert broker.ask(produce("t", b"x"), BY_NAME).responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda cluster: cluster.fail("Nonsense", 6), "unknown API 'Nonsense': one of Produce, "),
        (lambda cluster: cluster.fail("Prodcue", 6), "unknown API 'Prodcue': did you mean Produce"),
        (lambda cluster: cluster.hold(9999), "unknown API 9999"),
        (lambda cluster: cluster.fail("Fetch", 40_000), "no error has code 40000"),
        (lambda cluster: cluster.fail("Fetch", True), "unknown error True"),
        (lambda cluster: cluster.fail("Fetch", 6, times="2"), "times is '2': a whole number from 1 on"),
        (lambda cluster: cluster.fail("Fetch", 6, latency_ms=-1), "latency_ms is -1"),
        (lambda cluster: cluster.fail("Fetch", 6, when=3), "when is 3: a function"),
        (lambda cluster: cluster.fail("Fetch", 6, broker="1"), "no broker '1'"),
        (lambda cluster: cluster.stop(True), "no broker True"),
        (lambda cluster: cluster.throttle("Fetch", 1, times=0), "times is 0"),
        (lambda cluster: cluster.on_request(None), "fn is None: a function"),
        (lambda cluster: cluster.hold("Fetch").await_met(timeout=-1), "timeout is -1: a number of seconds"),
        (lambda cluster: cluster.truncate("t", 0, -1), "offset is -1"),
        (lambda cluster: cluster.delete_before("t", 0, -1), "offset is -1"),
        (lambda cluster: cluster.set_versions("Fetch", "0", 3), "lowest is '0'"),
        (lambda cluster: cluster.set_group_settings(migration_policy="up"), "migration_policy of groups is 'up'"),
        (lambda cluster: cluster.fail("Fetch", "NONSENSE"), "unknown error 'NONSENSE'"),
        (lambda cluster: cluster.fail("Fetch", ValueError), "ERROR_CODE"),
        (lambda cluster: cluster.fail("Fetch", 6, times=0), "times is 0: a whole number from 1 on"),
        (lambda cluster: cluster.fail("Fetch", 6, broker=3), "no broker 3"),
        (lambda cluster: cluster.cut("Fetch", "behind"), "before, middle, after"),
        (lambda cluster: cluster.throttle("Fetch", 0), "milliseconds is 0"),
        (lambda cluster: cluster.latency(1, -1), "milliseconds is -1"),
        (lambda cluster: cluster.latency(3, 1), "no broker 3"),
    ],
)
def test_wrong_arguments_are_refused(cluster: FakeCluster, call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(cluster)
