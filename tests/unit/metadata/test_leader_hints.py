"""`Cluster.take_leader_hint`: leaders that brokers name beside their errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.handlers import Handler
from pykafka.protocol import wire
from tests.support import scripted
from tests.support.scripted import TOPIC, ScriptedBroker

ID, OTHER = UUID(int=7), UUID(int=8)
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
        assert cluster.take_leader_hint(TOPIC, 0, 2, 4, {2: PLACE})
        assert (leader_of(topic), cluster.leader_epoch(TOPIC, 0)) == (2, 4)
        assert (cluster.leader(TOPIC, 0).host, cluster.leader(TOPIC, 0).port) == PLACE
        assert broker.asked == asked
        cluster.update([TOPIC])  # this broker still tells of epoch 3, and of itself alone
        assert cluster.leader_epoch(TOPIC, 0) == 4
        assert leader_of(topic) is None  # of broker 2 nothing is known any more: it is not taken for the old leader


def test_hints_that_tell_nothing_new_are_left_aside(broker: Epochs, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler) as client:
        topic, cluster = client.topics[TOPIC], client.cluster
        assert cluster.take_leader_hint(TOPIC, 0, 1, 3)  # what is known already
        assert not cluster.take_leader_hint(TOPIC, 0, 2, 3, {2: PLACE})
        assert not cluster.take_leader_hint(TOPIC, 0, 2, 2, {2: PLACE})
        assert not cluster.take_leader_hint(TOPIC, 0, -1, 9)
        assert not cluster.take_leader_hint(TOPIC, 0, 2, 9)  # without an address
        assert not cluster.take_leader_hint(TOPIC, 0, 2, 9, {2: PLACE}, OTHER)  # of another topic of this name
        assert (leader_of(topic), sorted(cluster.brokers), cluster.leader_epoch(TOPIC, 0)) == (1, [1], 3)
        assert cluster.take_leader_hint(TOPIC, 0, 2, 9, {2: PLACE}, ID)
        assert leader_of(topic) == 2


def test_a_hint_tells_of_a_broker_that_moved(broker: Epochs, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler) as client:
        topic, cluster = client.topics[TOPIC], client.cluster
        assert cluster.take_leader_hint(TOPIC, 0, 1, 4, {1: PLACE})
        leader = topic.partitions[0].leader
        assert leader is not None
        assert (leader.id, leader.host, leader.port) == (1, *PLACE)
