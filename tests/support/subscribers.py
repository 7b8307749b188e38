"""Members of one group that read many topics, for tests of memberships: hooks that record their calls."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets, Membership
from pykafka.groups.assignment_follower import make_membership
from pykafka.groups.options import AUTO, CLASSIC, assignor_for, valid_group_assignor
from pykafka.protocol import wire
from tests.support.protocols import QUICK
from tests.support.topics import create_topic

Keys = Collection[TopicPartition]


def put_out(membership: Any, timeout_ms: int = 5000) -> None:
    """Remove a member of the classic protocol from its group, as the coordinator does at the end of its session."""
    member_id = membership.member_id
    membership.connection.leave_by(partial(membership._leave_once, member_id), member_id, timeout_ms)


class Hooks:
    """A consumer that reads nothing, and records its calls as (name, keys, ...); `then` may raise, wait or commit."""

    def __init__(self) -> None:
        self.called: list[tuple[str, frozenset[TopicPartition]]] = []
        self.share: set[TopicPartition] = set()
        self.attended = 0
        self.woken = 0
        self.wakeup_requested = False
        self.kept: list[frozenset[TopicPartition]] = []
        self.then: dict[str, Callable[[Keys], object]] = {}

    def _called(self, name: str, keys: Keys) -> None:
        self.called.append((name, frozenset(keys)))
        if name in self.then:
            self.then[name](keys)

    @property
    def poll_count(self) -> int:
        return 0

    def request_poll(self) -> None:
        self.attended += 1

    def wake(self) -> None:
        self.woken += 1

    def on_revoked_all(self, keys: Keys) -> None:
        self.share -= set(keys)
        self._called("on_revoked_all", keys)

    def on_assigned(self, keys: Keys, kept: Keys) -> None:
        self.share = set(keys)
        self.kept.append(frozenset(kept))
        self._called("on_assigned", keys)

    def on_revoked(self, gone: Keys) -> None:
        assert gone
        self.share -= set(gone)
        self._called("on_revoked", gone)

    def on_added(self, added: Keys) -> None:
        assert not self.share & set(added)
        self.share |= set(added)
        self._called("on_added", added)

    def await_revocation(self) -> None:
        """Do nothing: these hooks commit nothing."""

    @property
    def is_held_up(self) -> bool:
        return False

    def give_up_all(self) -> None:
        self.share = set()

    def on_lost(self, keys: Keys) -> None:
        self.share -= set(keys)
        self._called("on_lost", keys)

    def names(self) -> list[str]:
        return [name for name, _ in self.called]


class Member:
    """One member: its hooks, subscription and offsets."""

    def __init__(self, client: KafkaClient, group: str, topics: Iterable[Any], **settings: Any) -> None:
        self.cluster = client.cluster
        self.hooks = Hooks()
        self.identity = Membership(group_instance_id=settings.get("group_instance_id"))
        self.offsets = GroupOffsets(self.cluster, group, 100, 5, self.identity)
        protocol = settings.pop("protocol", CLASSIC)
        # "auto" takes the classic protocol for members that set its times
        quick = {} if protocol == AUTO else QUICK
        settings = {"metadata_max_age_ms": 1000, **quick, **settings}
        assignor = settings.get("assignor")
        valid = None if assignor is None else valid_group_assignor(assignor, "assignor")
        settings["assignor"] = assignor_for(protocol, valid)
        self.subscriber: Any = make_membership(
            protocol, self.cluster, self.hooks, self.identity, topics, group_id=group, **settings
        )

    @property
    def share(self) -> set[TopicPartition]:
        return self.hooks.share

    def serve(self, seconds: float | None = 0.1) -> None:
        """Make a call for messages that waits so long (s)."""
        if self.subscriber.needs_poll:
            self.subscriber.poll(None if seconds is None else self.cluster.handler.now() + seconds)
        else:
            with self.subscriber.awaiting():
                pass  # a sign of life

    def commit(self, keys: Keys, offset: int = 1) -> None:
        self.offsets.commit(dict.fromkeys(keys, offset))


class Members:
    """A group of such members, whose calls the test makes in turn."""

    def __init__(
        self, client: KafkaClient, partitions: int = 3, topics: int = 2, defaults: dict[str, Any] | None = None
    ) -> None:
        self.client = client
        self.defaults = defaults or {}
        self.name = f"g-{uuid.uuid4().hex[:8]}"
        self.topics = [create_topic(client, partitions).name for _ in range(topics)]
        self.members: list[Member] = []

    def join(self, *topics: Any, **settings: Any) -> Member:
        member = Member(self.client, self.name, topics or self.topics, **{**self.defaults, **settings})
        self.members.append(member)
        return member

    def keys(self, *topics: str) -> set[TopicPartition]:
        found = self.client.cluster.topics
        return {TopicPartition(name, id_) for name in topics or self.topics for id_ in found[name].partitions}

    def until(self, happened: Callable[[], object], seconds: float = 30, among: Iterable[Member] | None = None) -> None:
        """Make calls on all members, or on some, until something has happened."""
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, [sorted(member.share) for member in self.members]
            for member in self.members if among is None else among:
                member.serve()
            self.client.cluster.handler.sleep(0.02)

    def settled(self, *sizes: int, keys: set[TopicPartition] | None = None) -> None:
        """Make calls on all members until their shares have these sizes, and divide all partitions."""
        wanted = self.keys() if keys is None else keys

        def divided() -> bool:
            shares = [member.share for member in self.members]
            found = [key for share in shares for key in share]
            same = len({member.subscriber.generation for member in self.members}) == 1
            return same and sorted(found) == sorted(wanted) and sorted(map(len, shares)) == sorted(sizes)

        self.until(divided)

    def forget(self, member: Member) -> None:
        """Make the coordinator drop a member of the next-generation protocol, as if its session had ended."""
        self.forget_at(member.subscriber.heartbeats.target, member)

    def forget_at(self, place: Any, member: Member) -> None:
        """Make a coordinator drop a member, whose heartbeats may have stopped."""
        request = wire.ConsumerGroupHeartbeatRequest(
            group_id=self.name, member_id=member.subscriber.member_id, member_epoch=-1, instance_id=place.instance_id
        )
        assert place.broker.call(request, "forget").error_code == 0

    def leave(self, *members: Member) -> None:
        for member in members or tuple(self.members):
            member.subscriber.leave()
            if member in self.members:
                self.members.remove(member)
