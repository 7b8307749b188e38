"""A program that elects a leader by a group of its own kind, as schema registries do: it subclasses BaseCoordinator.

It calls `ensure_active_group()`, `poll_heartbeat()` and `time_to_next_heartbeat()`, as kafka-python 1.4 and later have them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any
from uuid import uuid4

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.coordinator.base import BaseCoordinator
from tests.support.waiting import until


class Election(BaseCoordinator):
    """A member that offers itself as leader by a name; the lowest name leads."""

    leader: str | None = None

    def __init__(self, client: KafkaClient, name: str, **configs: Any) -> None:
        super().__init__(client=client, metrics=None, **configs)
        self.name = name

    def protocol_type(self) -> str:
        return "election"

    def group_protocols(self) -> Sequence[tuple[str, Any]]:
        return [("v0", json.dumps({"name": self.name}))]

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        self.leader = None

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, Any]:
        leader = min(json.loads(metadata)["name"] for _, metadata in members)
        return {member_id: json.dumps({"leader": leader}) for member_id, _ in members}

    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        self.leader = json.loads(member_assignment)["leader"]

    def turn(self) -> float:
        """Take part once, and return how long the program may sleep (s)."""
        self.ensure_active_group()
        self.poll_heartbeat()
        interval: float = self.config["heartbeat_interval_ms"] / 1000
        return min(interval, self.time_to_next_heartbeat())


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield the cluster of this module."""
    with EmbeddedCluster() as cluster:
        yield cluster


Elect = Callable[..., Election]


@pytest.fixture
def elect(client: KafkaClient) -> Iterator[Elect]:
    """Yield a function that makes a member of the test's own group."""
    group, made = f"election-{uuid4()}", []

    def elect(name: str, **configs: Any) -> Election:
        settings = {"session_timeout_ms": 3000, "heartbeat_interval_ms": 200, "group_id": group, **configs}
        made.append(Election(client, name, **settings))
        return made[-1]

    yield elect
    for member in made:
        member.close()


def test_members_elect_a_leader(elect: Elect, client: KafkaClient) -> None:
    handler = client.cluster.handler
    one, other = elect("b"), elect("a")
    assert one.time_to_next_heartbeat() == inf
    one.poll_heartbeat()  # of no member: nothing happens
    assert 0.0 <= one.turn() <= 0.2
    assert one.leader == "b"
    assert 0.0 <= one.time_to_next_heartbeat() <= 0.2
    joining = handler.spawn(other.ensure_active_group)
    until(handler, lambda: one.turn() >= 0.0 and one.leader == "a")
    assert joining.join(20)
    assert other.turn() <= 0.2
    assert (one.leader, other.leader) == ("a", "a")
    other.close()
    assert other.time_to_next_heartbeat() == inf
    until(handler, lambda: one.turn() >= 0.0 and one.leader == "b")


@pytest.mark.later("greenlets")
def test_polling_heartbeats_keeps_a_member(elect: Elect, client: KafkaClient) -> None:
    handler = client.cluster.handler
    member = elect("a", max_poll_interval_ms=1500)
    member.ensure_active_group()
    began, generation = handler.now(), member.generation
    while handler.now() < began + 3:
        member.poll_heartbeat()
        handler.sleep(0.1)
    assert (member.need_rejoin(), member.generation) == (False, generation)
    until(handler, member.need_rejoin)  # without it the member leaves
    assert member.time_to_next_heartbeat() == inf
    member.turn()
    assert not member.need_rejoin()
