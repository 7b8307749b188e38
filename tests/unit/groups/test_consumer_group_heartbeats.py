"""The fields of a KIP-848 member's heartbeats, and the answers that are news."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from pykafka.exceptions import SocketDisconnectedError
from pykafka.groups.heartbeat_sender import Activity
from pykafka.groups.heartbeat_thread import Call
from pykafka.groups.kip848.heartbeats import ConsumerGroupHeartbeats, ConsumerGroupTarget, HeartbeatSubscription
from pykafka.handlers import Handler
from pykafka.protocol.wire import ConsumerGroupHeartbeatResponse

ORDERS = UUID(int=1)


class Member:
    """A member without a thread, whose coordinator is the test."""

    def __init__(self, handler: Handler) -> None:
        self.heartbeats = ConsumerGroupHeartbeats(handler, "m", Activity(), 300_000, lambda: None)
        broker: Any = SimpleNamespace(address="a:9092", socket_timeout_ms=5000)
        self._target = self.heartbeats._target = ConsumerGroupTarget(broker, "g", 1, None, None, 300_000, None)
        self.heartbeats.joins = 1
        self.heartbeats.subscription = HeartbeatSubscription(("orders",))

    def send(self) -> Call:
        call = self.heartbeats._heartbeat_call(self._target)
        assert call is not None
        return call

    def answer(self, call: Call, epoch: int, assignment: Mapping[UUID, tuple[int, ...]] | None = None) -> None:
        kind = ConsumerGroupHeartbeatResponse.Assignment
        made = None
        if assignment is not None:
            topics = [kind.TopicPartitions(topic_id=id_, partitions=list(ids)) for id_, ids in assignment.items()]
            made = kind(topic_partitions=topics)
        call.answered(ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=5000, assignment=made))


@pytest.fixture
def member(handler: Handler) -> Member:
    member = Member(handler)
    member.answer(member.send(), 1, {ORDERS: (0, 1)})
    return member


def named(call: Call) -> dict[UUID, list[int]] | None:
    found = vars(call.request)["topic_partitions"]
    return None if found is None else {one.topic_id: list(one.partitions) for one in found}


def test_a_revocation_of_what_was_never_reported_is_answered(member: Member) -> None:
    member.answer(member.send(), 1, {ORDERS: (0,)})
    assert named(member.send()) == {}  # the coordinator waits for that


def test_after_a_lost_heartbeat_the_next_has_all_fields(member: Member) -> None:
    member.heartbeats.owned = {ORDERS: (0, 1)}
    member.heartbeats.subscription = HeartbeatSubscription(("orders", "returns"))
    member.answer(member.send(), 1)
    request: Any = member.send().request
    assert (request.subscribed_topic_names, request.topic_partitions) == (None, None)
    member.send().failed(SocketDisconnectedError("the answer was lost"))
    call = member.send()
    request = call.request
    assert request.subscribed_topic_names == ["orders", "returns"]
    assert named(call) == {ORDERS: [0, 1]}


@pytest.mark.parametrize(("owned", "is_news"), [({}, True), ({ORDERS: (0,)}, True), ({ORDERS: (0, 1)}, False)])
def test_an_unchanged_assignment_is_news_for_a_member_that_lacks_part_of_it(
    member: Member, owned: dict[UUID, tuple[int, ...]], is_news: bool
) -> None:
    before = member.heartbeats.answer
    member.heartbeats.owned = owned
    member.answer(member.send(), 1, {ORDERS: (0, 1)})
    assert (member.heartbeats.answer is not before) is is_news
