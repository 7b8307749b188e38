"""`Cluster.take_current_leader`: leaders that brokers name beside their errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.admin import OffsetSpec
from pykafka.common import TopicPartition
from pykafka.handlers import Handler
from pykafka.protocol import wire
from tests.support import scripted
from tests.support.scripted import TOPIC, ScriptedBroker

ID, OTHER = UUID(int=7), UUID(int=8)
FENCED, UNKNOWN = 74, 75
PLACE = ("127.0.0.1", 4)


class Epochs(ScriptedBroker):
    """A broker that tells topic id and leader epoch, and counts how often it is asked."""

    asked = 0

    def _metadata(self) -> wire.MetadataResponse:
        self.asked += 1
        answer = super()._metadata()
        answer.topics[0].topic_id = ID
        answer.topics[0].partitions[0].leader_epoch = 3
        return answer


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Epochs]:
    monkeypatch.setitem(scripted.VERSIONS, wire.MetadataRequest, 12)
    with Epochs() as broker:
        yield broker


def leader_of(topic: Any) -> int | None:
    """Return the number of the broker that leads the partition."""
    leader = topic.partitions[0].leader
    return None if leader is None else int(leader.id)


def test_a_hint_leads_to_a_broker_that_nobody_has_heard_of(broker: Epochs, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler) as client:
        topic, cluster = client.topics[TOPIC], client.cluster
        assert (cluster.topic_id(TOPIC), cluster.leader_epoch(TOPIC, 0)) == (ID, 3)
        asked = broker.asked
        assert cluster.take_current_leader(TOPIC, 0, 2, 4, {2: PLACE})
        assert (leader_of(topic), cluster.leader_epoch(TOPIC, 0)) == (2, 4)
        assert (cluster.leader(TOPIC, 0).host, cluster.leader(TOPIC, 0).port) == PLACE
        assert broker.asked == asked
        cluster.update([TOPIC])  # this broker still tells of epoch 3, and of itself alone
        assert cluster.leader_epoch(TOPIC, 0) == 4
        assert leader_of(topic) is None  # of broker 2 nothing is known any more: it is not taken for the old leader


def test_hints_that_tell_nothing_new_are_left_aside(broker: Epochs, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler) as client:
        topic, cluster = client.topics[TOPIC], client.cluster
        assert cluster.take_current_leader(TOPIC, 0, 1, 3)  # what is known already
        assert not cluster.take_current_leader(TOPIC, 0, 2, 3, {2: PLACE})
        assert not cluster.take_current_leader(TOPIC, 0, 2, 2, {2: PLACE})
        assert not cluster.take_current_leader(TOPIC, 0, -1, 9)
        assert not cluster.take_current_leader(TOPIC, 0, 2, 9)  # without an address
        assert not cluster.take_current_leader(TOPIC, 0, 2, 9, {2: PLACE}, OTHER)  # of another topic of this name
        assert (leader_of(topic), sorted(cluster.brokers), cluster.leader_epoch(TOPIC, 0)) == (1, [1], 3)
        assert cluster.take_current_leader(TOPIC, 0, 2, 9, {2: PLACE}, ID)
        assert leader_of(topic) == 2


def test_a_hint_tells_of_a_broker_that_moved(broker: Epochs, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler) as client:
        topic, cluster = client.topics[TOPIC], client.cluster
        assert cluster.take_current_leader(TOPIC, 0, 1, 4, {1: PLACE})
        leader = topic.partitions[0].leader
        assert leader is not None
        assert (leader.id, leader.host, leader.port) == (1, *PLACE)


class Strict(Epochs):
    """A broker that compares leader epochs at ListOffsets: it is the leader of the third one, and hears of the fourth."""

    epoch = 3

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []

    def _metadata(self) -> wire.MetadataResponse:
        answer = super()._metadata()
        answer.topics[0].partitions[0].leader_epoch = self.epoch
        return answer

    def _respond(self, request: Any) -> Any:
        if not isinstance(request, wire.ListOffsetsRequest):
            return super()._respond(request)
        part = request.topics[0].partitions[0]
        self.epochs.append(part.current_leader_epoch)
        told = part.current_leader_epoch
        error = 0 if told in (-1, self.epoch) else FENCED if told < self.epoch else UNKNOWN
        if error == UNKNOWN:
            self.epoch += 1
        found = wire.ListOffsetsResponse.Topic.Partition(
            partition_index=0, error_code=error, offset=-1 if error else 42
        )
        return wire.ListOffsetsResponse(topics=[wire.ListOffsetsResponse.Topic(name=TOPIC, partitions=[found])])


@pytest.mark.parametrize("by", ["topic", "admin"])
@pytest.mark.parametrize(
    ("version", "known", "leads", "epochs"),
    [
        (3, 3, 3, [-1]),
        (4, 3, 3, [3]),
        (4, 3, 4, [3, 4]),  # another leader was elected: FENCED_LEADER_EPOCH
        (4, 4, 3, [4, 4]),  # the broker has not heard of its election: UNKNOWN_LEADER_EPOCH
    ],
)
def test_offsets_are_asked_of_the_leader_that_is_meant(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, version: int, known: int, leads: int, epochs: list[int], by: str
) -> None:
    """A former leader that has not heard of the election would tell the end of its own log."""
    monkeypatch.setitem(scripted.VERSIONS, wire.MetadataRequest, 12)
    monkeypatch.setitem(scripted.VERSIONS, wire.ListOffsetsRequest, version)
    with Strict() as broker:
        broker.epoch = known
        with KafkaClient(broker.hosts, handler=handler, retry_backoff_ms=1, retry_backoff_max_ms=1) as client:
            assert client.cluster.leader_epoch(TOPIC, 0) == known
            broker.epoch = leads
            if by == "topic":
                assert client.topics[TOPIC].latest_available_offsets()[0].offset == [42]
            else:
                assert (
                    client.admin.list_offsets({(TOPIC, 0): OffsetSpec.latest()})[TopicPartition(TOPIC, 0)].offset == 42
                )
        assert broker.epochs == epochs
