"""Producers on scripted brokers: leaders that a broker names beside its error, and topics told by their ids."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import MessagesNotDelivered, TopicRecreatedError
from pykafka.handlers import Handler
from pykafka.protocol import wire
from tests.support import scripted
from tests.support.scripted import TOPIC, ScriptedBroker

NOT_LEADER, UNKNOWN_TOPIC_ID = 6, 100
FIRST, SECOND = UUID(int=1), UUID(int=2)
PARTITIONS = 3
Response = wire.ProduceResponse


class Cluster:
    """The cluster of two scripted brokers: what they have in common.

    :param hints: whether brokers that do not lead name the leader
    """

    def __init__(self, hints: bool = True) -> None:
        self.hints = hints
        self.brokers: dict[int, str] = {}
        self.leader = 1
        self.epoch = 5
        self.id = FIRST
        self.lock = threading.Lock()
        #: How often metadata was asked for.
        self.asked = 0
        #: (topic id, partition, whether it was taken) of each batch.
        self.batches: list[tuple[UUID, int, bool]] = []

    @property
    def taken(self) -> int:
        """How many batches were taken."""
        return sum(taken for _, _, taken in self.batches)


class Member(ScriptedBroker):
    """One of the brokers.

    :param id_: its number
    """

    def __init__(self, id_: int, cluster: Cluster) -> None:
        super().__init__()
        self.id = id_
        self.cluster = cluster
        cluster.brokers[id_] = self.hosts

    def _metadata(self) -> wire.MetadataResponse:
        cluster = self.cluster
        topic, broker = wire.MetadataResponse.Topic, wire.MetadataResponse.Broker
        with cluster.lock:
            cluster.asked += 1
            parts = [
                topic.Partition(partition_index=index, leader_id=cluster.leader, leader_epoch=cluster.epoch)
                for index in range(PARTITIONS)
            ]
            brokers = [
                broker(node_id=id_, host="127.0.0.1", port=int(at.split(":")[1])) for id_, at in cluster.brokers.items()
            ]
            return wire.MetadataResponse(
                brokers=brokers, controller_id=1, topics=[topic(name=TOPIC, topic_id=cluster.id, partitions=parts)]
            )

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.InitProducerIdRequest):
            return wire.InitProducerIdResponse(producer_id=1, producer_epoch=0)
        if not isinstance(request, wire.ProduceRequest):
            return super()._respond(request)
        with self.cluster.lock:
            asked = request.topic_data[0]
            parts = [self._take(asked.topic_id, part.index) for part in asked.partition_data]
            topic = Response.Topic(name=asked.name, topic_id=asked.topic_id, partition_responses=parts)
            host, port = self.cluster.brokers[self.cluster.leader].split(":")
            node = Response.Node(node_id=self.cluster.leader, host=host, port=int(port))
            named = self.cluster.hints and any(part.error_code == NOT_LEADER for part in parts)
            return Response(responses=[topic], node_endpoints=[node] if named else [])

    def _take(self, id_: UUID, index: int) -> Any:
        cluster = self.cluster
        code = NOT_LEADER if self.id != cluster.leader else UNKNOWN_TOPIC_ID if id_ != cluster.id else 0
        cluster.batches.append((id_, index, not code))
        leader = Response.Topic.Partition.Leader()
        if code == NOT_LEADER and cluster.hints:
            leader = Response.Topic.Partition.Leader(leader_id=cluster.leader, leader_epoch=cluster.epoch)
        return Response.Topic.Partition(index=index, error_code=code, base_offset=0, current_leader=leader)


@pytest.fixture(params=[True, False], ids=["hints", "no hints"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setitem(scripted.VERSIONS, wire.MetadataRequest, 12)
    monkeypatch.setitem(scripted.VERSIONS, wire.ProduceRequest, 13)
    monkeypatch.setitem(scripted.VERSIONS, wire.InitProducerIdRequest, 4)
    cluster = Cluster(request.param)
    with Member(1, cluster), Member(2, cluster):
        yield cluster


@pytest.mark.parametrize("sync", [False, True])
def test_batches_go_to_the_leader_that_a_broker_names(cluster: Cluster, handler: Handler, sync: bool) -> None:
    """They waited for a pause and for metadata."""
    with KafkaClient(cluster.brokers[1], handler=handler) as client:
        topic = client.topics[TOPIC]
        with topic.get_producer(required_acks=-1, linger_ms=0, sync=sync, retry_backoff_ms=300) as producer:
            for _ in range(PARTITIONS):
                producer.produce(b"x")
            producer.flush()
            with cluster.lock:
                cluster.leader, cluster.epoch, asked = 2, 6, cluster.asked
            start = handler.now()
            for _ in range(PARTITIONS):
                producer.produce(b"x")
            producer.flush()
            took = handler.now() - start
        assert cluster.taken == 2 * PARTITIONS
        assert client.cluster.leader_epoch(TOPIC, 0) == 6
        if cluster.hints:
            assert cluster.asked == asked
            assert took < 5
        else:
            assert cluster.asked > asked


def test_messages_go_on_in_a_topic_made_anew(cluster: Cluster, handler: Handler, caplog: Any) -> None:
    with KafkaClient(cluster.brokers[1], handler=handler) as client:
        with client.topics[TOPIC].get_producer(required_acks=-1, linger_ms=0) as producer:
            producer.produce(b"x")
            producer.flush()
            with cluster.lock:
                cluster.id, cluster.epoch = SECOND, 0
            producer.produce(b"x")
            producer.flush()
        assert [(id_, taken) for id_, _, taken in cluster.batches] == [(FIRST, True), (FIRST, False), (SECOND, True)]
        assert client.cluster.leader_epoch(TOPIC, 0) == 0
    assert f"its id was {FIRST} and is {SECOND} now" in caplog.text


def test_messages_for_a_topic_made_anew_fail_if_so_told(cluster: Cluster, handler: Handler) -> None:
    with KafkaClient(cluster.brokers[1], handler=handler) as client:
        producer = client.topics[TOPIC].get_producer(linger_ms=0, on_topic_recreated="fail")
        producer.produce(b"x")
        producer.flush()
        with cluster.lock:
            cluster.id = SECOND
        for _ in range(2):
            producer.produce(b"x")
            with pytest.raises(MessagesNotDelivered) as caught:
                producer.flush()
            error = caught.value.failures[0][1]
            assert isinstance(error, TopicRecreatedError)
            assert (error.old_id, error.new_id, error.topic) == (FIRST, SECOND, TOPIC)
        producer.stop()
        assert cluster.taken == 1
        producer.start()
        producer.produce(b"x")
        producer.stop()
        assert cluster.taken == 2
