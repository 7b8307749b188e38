"""A fake cluster without sockets or workers: a test asks its state, and moves its clock."""

from __future__ import annotations

from typing import TypeVar, cast

import pykafka.testing.apis  # noqa: F401  (registers them)
from pykafka.handlers import ThreadingHandler
from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolSubscription
from pykafka.protocol.schema import Request, Response
from pykafka.testing.call import APIS, Call, Session
from pykafka.testing.groups.pending_answer import Client, PendingAnswer
from pykafka.testing.state import ClusterState, Node
from pykafka.testing.topics import Topic

R = TypeVar("R", bound=Response)


class StillHandler(ThreadingHandler):
    """Threads, and a clock that stands still."""

    now = staticmethod(lambda: 0.0)

    def time_ms(self) -> int:
        return 1_700_000_000_000


class DirectCluster:
    """The state of a cluster, and what its brokers answer.

    :param topics: to create, with their numbers of partitions
    :param nodes: how many brokers there are
    """

    def __init__(self, topics: dict[str, int] | None = None, nodes: int = 1) -> None:
        self.state = ClusterState(StillHandler())
        for number in range(1, nodes + 1):
            node = Node(number)
            node.is_up = node.is_listening = True
            self.state.nodes[number] = node
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    def create_topic(self, name: str, partitions: int) -> Topic:
        topic = Topic(name, self.state.new_uuid(), [[1]] * partitions)
        self.state.topics[name] = self.state.topic_ids[topic.id] = topic
        return topic

    def delete_topic(self, name: str) -> None:
        del self.state.topic_ids[self.state.topics.pop(name).id]

    def ask(self, request: Request[R], version: int | None = None, node: int = 1) -> R:
        """Return a broker's answer, after request and answer have gone through their bytes."""
        api = APIS[request.api_key]
        chosen = api.versions[-1] if version is None else version
        read = type(request).decode(request.prepared(chosen).encode(chosen), chosen)
        call = Call(self.state, self.state.nodes[node], Session(), read, chosen, "test")
        with self.state.lock:
            answer = api.answer(call, read)
        assert answer is not None
        return cast("R", type(answer).decode(answer.encode(chosen), chosen))

    def advance(self, milliseconds: int) -> None:
        """Move the clock forward, and run what is due by then, in its order."""
        waiters = self.state.waiters
        with self.state.lock:
            waiters.advance(milliseconds)
            waiters._run_due()


class ClassicPeer:
    """A client that takes part in a group by the classic protocol; it answers nothing by itself.

    :param cluster: to ask
    :param topics: that it reads
    :param instance_id: of a static member
    :param assignors: that it offers
    :param group: its group
    """

    def __init__(
        self,
        cluster: DirectCluster,
        topics: tuple[str, ...] = ("orders",),
        instance_id: str | None = None,
        assignors: tuple[str, ...] = ("range",),
        group: str = "g",
    ) -> None:
        self.cluster = cluster
        self.topics = topics
        self.instance_id = instance_id
        self.assignors = assignors
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.session_timeout_ms = 10_000
        self.rebalance_timeout_ms = 60_000
        self.owned: list[tuple[str, list[int]]] = []
        self.protocol_type = "consumer"

    def join_request(self) -> wire.JoinGroupRequest:
        metadata = bytes(ConsumerProtocolSubscription(1, self.topics, b"", self.owned, self.generation).get_bytes())
        return wire.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[wire.JoinGroupRequest.Protocol(name=name, metadata=metadata) for name in self.assignors],
        )

    def join(self, version: int = 9) -> PendingAnswer[wire.JoinGroupResponse]:
        """Send JoinGroup, the second one too if the broker asks for a member id."""
        groups = self.cluster.state.groups
        with self.cluster.state.lock:
            held = groups.join(self.join_request(), Client("peer", "/127.0.0.1", version))
            if held.answer is not None and held.answer.error_code == 79:
                self.member_id = held.answer.member_id
                held = groups.join(self.join_request(), Client("peer", "/127.0.0.1", version))
        return held

    def joined(self, held: PendingAnswer[wire.JoinGroupResponse]) -> wire.JoinGroupResponse:
        """Take the answer to JoinGroup."""
        assert held.answer is not None
        assert held.answer.error_code == 0
        self.member_id, self.generation = held.answer.member_id, held.answer.generation_id
        return held.answer

    def sync(self, assignments: dict[str, bytes] | None = None) -> PendingAnswer[wire.SyncGroupResponse]:
        assignment = wire.SyncGroupRequest.Assignment
        request = wire.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[assignment(member_id=key, assignment=value) for key, value in (assignments or {}).items()],
        )
        with self.cluster.state.lock:
            return self.cluster.state.groups.sync(request)

    def heartbeat(self) -> int:
        request = wire.HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return self.cluster.ask(request).error_code

    def leave(self) -> int:
        member = wire.LeaveGroupRequest.Member(member_id=self.member_id, group_instance_id=self.instance_id)
        answer = self.cluster.ask(wire.LeaveGroupRequest(group_id=self.group, members=[member]))
        return answer.error_code or answer.members[0].error_code


class ConsumerPeer:
    """A client that takes part in a group by KIP-848.

    :param cluster: to ask
    :param topics: that it reads; None: those that the pattern matches
    :param regex: of the topics
    :param instance_id: of a static member
    :param member_id: that it has chosen
    """

    def __init__(
        self,
        cluster: DirectCluster,
        member_id: str,
        topics: list[str] | None = None,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.topics = ["orders"] if topics is None and regex is None else topics
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()

    def request(self) -> wire.ConsumerGroupHeartbeatRequest:
        request = wire.ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if self.epoch == 0:
            self.owned = set()
            request.rebalance_timeout_ms = 30_000
            request.subscribed_topic_names, request.subscribed_topic_regex = self.topics, self.regex
            request.server_assignor = self.assignor
        topics = self.cluster.state.topics
        request.topic_partitions = [
            wire.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topics[topic].id, partitions=[index])
            for topic, index in sorted(self.owned)
        ]
        return request

    def send(self, request: wire.ConsumerGroupHeartbeatRequest | None = None) -> wire.ConsumerGroupHeartbeatResponse:
        return self.cluster.ask(self.request() if request is None else request)

    def heartbeat(self) -> int:
        """Send a heartbeat, take the assignment of the answer, and return the error code."""
        answer = self.send()
        if answer.error_code:
            return answer.error_code
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            names = self.cluster.state.topic_ids
            self.owned = {
                (names[one.topic_id].name, index)
                for one in answer.assignment.topic_partitions
                for index in one.partitions
            }
        return 0

    def settle(self, rounds: int = 3) -> None:
        """Send a few heartbeats."""
        for _ in range(rounds):
            assert self.heartbeat() == 0
