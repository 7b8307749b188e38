"""`AssignmentFollower`: makes a consumer read its group's assignment. Calls `GroupMembership`; is its `AssignmentHooks`.

`make_membership` makes the membership of each protocol.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException
from pykafka.groups.auto_membership import AutoMembership
from pykafka.groups.kip848.membership import ConsumerGroupMembership
from pykafka.groups.listener import ListenerMethod, Listeners, valid_listener
from pykafka.groups.options import CLASSIC, CONSUMER, NO_STATIC_MEMBERS, ZOOKEEPER, check_pattern
from pykafka.metrics.listener import ASSIGNED, LOST, NAMED_MAX, REVOKED
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.common import SubscriptionPattern, TopicPartition
    from pykafka.consumer.committed_offsets import Membership
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.groups.membership import AssignmentHooks, GroupMembership, RevocationHooks
    from pykafka.groups.options import SubscriberOptions
    from pykafka.groups.revocation import Revocation
    from pykafka.groups.subscription import Topics
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import TopicMetadata

log = logging.getLogger(__name__)

#: Stops reading partitions.
Stop = Callable[[Collection["TopicPartition"]], object]

#: The pause before metadata is asked again for partitions of the assignment that it does not know (s).
RETRY_S = 1.0
#: How long a call waits if the membership has requested a poll since it polled (s).
POLL_AGAIN_S = 0.01
#: How long one step of a call may wait for brokers (s): between steps the call notices `wakeup()`, and `close()` by another
#: worker. The next step continues what this one has begun.
STEP_S = 1.0
#: What a member needs that agrees with others through ZooKeeper.
NO_HOSTS = (
    'members that agree through ZooKeeper (protocol="zookeeper", or "auto" if brokers before 0.9 keep no groups) need '
    'zookeeper_hosts="host:port", of the consumer or of the client'
)


class AssignmentFollower:
    """The partitions of a consumer as its group assigns and revokes them; without a membership it does nothing.

    State: `_assigned` and `_counts` belong to the worker that polls; the worker that closes stores `_midway`.

    :param engine: that reads them
    :param listener: a `RebalanceListener`, or None
    :param options: of the membership
    :param await_commits: waits until the commits of `commit_async()` are made, as they are of the revoked assignment, or until
        a deadline; returns whether they are
    :raises TypeError: the listener has none of the methods of one
    """

    def __init__(
        self, engine: ConsumerEngine, listener: Any, options: SubscriberOptions, await_commits: Callable[[float], bool]
    ) -> None:
        self._engine = engine
        self._await_commits = await_commits
        self._options = options
        self._listener = Listeners(valid_listener(listener, "listener"))
        #: How many partitions each topic had when this member saw it first; none for topics that came later.
        self._counts: dict[str, int] = {}
        #: The assignment, of which metadata may not know all partitions yet.
        self._assigned: frozenset[TopicPartition] = frozenset()
        # Those of `_assigned` that metadata does not know: each call checks them, so it must not compare thousands.
        self._unassigned: frozenset[TopicPartition] = frozenset()
        self._retry_at = 0.0
        # Of the call that takes part in the group (s).
        self._deadline: float | None = None
        self._midway = False
        #: Set by `wakeup()`, by any worker: the call that reads, or the next one, ends also while it waits for the group.
        self.wakeup_requested = False
        #: The membership; None for none.
        self.membership: GroupMembership | None = None
        #: Why the group has refused the member, in the last call that took part; None once it is a member.
        self.refused: KafkaException | None = None
        # The revocation that has begun, from the return of the listener until the partitions are given up.
        self._revocation: Revocation | None = None
        #: The membership that `leave` is leaving; after an interrupt the next call finishes that, as the first one said.
        self._leaving: GroupMembership | None = None
        self._leave_group: bool | None = None
        #: Whether a worker is in `leave`, and until when it waits for the listener, of the handler's clock (s).
        self._is_left = False
        self._waits_until = math.inf
        #: The method of the listener that runs, and since when, of the handler's clock (s); None for none.
        self.called: tuple[str, float] | None = None
        #: The parallel run that reads the consumer, called before the listener; None for none.
        self.run: RevocationHooks | None = None

    # -- the consumer calls, on the worker of the application ------------------------------------------------------

    def subscribe(self, topics: Collection[str | re.Pattern[str] | SubscriptionPattern]) -> None:
        """Take part in the group, from the next call that reads on; for errors see `Subscription`."""
        membership = self.membership
        if membership is None:
            engine = self._engine
            engine.membership.group_instance_id = self._options.group_instance_id
            assert engine.commits is not None  # a consumer without a group subscribes to nothing here
            engine.commits.pinned = True
            configs = dict(vars(self._options))
            membership = make_membership(
                configs.pop("protocol"),
                engine.cluster,
                self,
                engine.membership,
                topics,
                group_id=engine.options.consumer_group,
                client_rack=engine.cluster.client_rack
                if engine.options.client_rack is None
                else engine.options.client_rack,
                metadata_max_age_ms=engine.options.metadata_max_age_ms,
                **configs,
            )
            if engine.topics:
                engine.forget_topics(())  # the partitions of `assign()`
            self._counts = {}
            self._midway = False
            self.membership = membership
        else:
            membership.subscribe(topics)
        self.request_poll()

    def poll(self, deadline: float | None) -> None:
        """Take part in the group for a step, if there is something to do; for errors see `GroupMembership.poll`."""
        membership = self.membership
        if membership is None:
            return
        self._engine.buffers.held = False  # first: a request from now on sets it again
        needs_poll = membership.needs_poll or self._revocation is not None
        if needs_poll or self._unassigned:
            ends = self._engine.handler.now() + STEP_S
            deadline = ends if deadline is None else min(deadline, ends)
        if needs_poll:
            before, self._deadline = self._deadline, deadline
            try:
                membership.poll(deadline)
                if self.refused is not None and membership.is_stable:
                    self.refused = None
            except KafkaException as error:
                self.refused = error.again()  # without the traceback, which would keep the caller's objects
                raise
            finally:
                self._deadline = before
                if membership.needs_poll or self._revocation is not None:  # partitions that go yield no records
                    self.request_poll()
        if self._unassigned and self._engine.handler.now() >= self._retry_at:
            self._assign_known(deadline)

    def wait(self, deadline: float | None) -> bool:
        """Wait until there may be records; return False if the time is up. It takes none, and may be cancelled."""
        engine, membership = self._engine, self.membership
        if membership is None:
            return engine.await_records(deadline)
        # a request since `poll` may have set `has_arrived` before `engine.look()` has cleared it
        soon = engine.handler.now() + (POLL_AGAIN_S if engine.buffers.held else membership.next_poll_s)
        with membership.awaiting():
            engine.await_records(soon if deadline is None else min(soon, deadline))
        return deadline is None or engine.handler.now() < deadline

    def leave(
        self, midway: bool = False, keeping: Collection[TopicPartition] = (), *, leave_group: bool | None = None
    ) -> None:
        """Revoke all partitions, and leave the group.

        :param midway: whether the application may still process the records of its last call: those are not committed
        :param keeping: partitions that the consumer reads further, without the group
        :param leave_group: whether to tell the coordinator; None: unless the member is static
        """
        before, self._is_left = self._is_left, True
        self._engine.buffers.held = True  # another worker's call gets nothing, see `leaves_elsewhere`
        try:
            self._begin_leaving(midway, keeping, leave_group)
        finally:
            self._is_left = before
            self._engine.buffers.held = self.membership is not None
            self.wake()

    def _begin_leaving(self, midway: bool, keeping: Collection[TopicPartition], leave_group: bool | None) -> None:
        self._set_patience()
        membership, self.membership = self.membership, None
        if membership is None:
            leaving = self._leaving  # once: the call that it belongs to may end
            if leaving is not None and not leaving.in_callback:
                self._leave(leaving, keeping)
            return
        self._leaving = membership
        self.refused = None
        self._midway, self._leave_group = midway, leave_group
        try:
            if membership.in_callback:  # the listener ends the membership, so `on_revoked_all` is not called
                every = self._revocation_of(list(self._engine.partitions))
                self._finish(every, self._engine.suspend_assignment, None)
        finally:
            self._leave(membership, keeping)

    def _set_patience(self) -> None:
        """Set until when this waits for the listener that another worker calls: half of the time that all commits have."""
        engine, now = self._engine, self._engine.handler.now()
        until = engine.revocation_deadline()
        if engine.commits is not None:
            until = min(until, engine.commits.until)
        self._waits_until = now + max(until - now, 0.0) / 2

    def _leave(self, membership: GroupMembership, keeping: Collection[TopicPartition]) -> None:
        try:
            membership.leave(leave_group=self._leave_group)
            self._leaving = None
        except KafkaException:
            self._leaving = None
            raise
        finally:
            self._assigned = self._unassigned = frozenset()
            self._end_revocation(self._revocation)
            self._engine.resume_assignment(keeping)
            self._engine.buffers.held = False

    @property
    def leaves_elsewhere(self) -> bool:
        """Whether another worker leaves the group now: the listener knows of the revocation, so no record may follow."""
        leaving = self._leaving
        return self._is_left and not (leaving is not None and leaving.in_callback)

    @property
    def is_stable(self) -> bool:
        """Whether the consumer has its whole assignment, with the offsets to start at."""
        membership, engine = self.membership, self._engine
        joined = membership is None or (membership.is_stable and not self._unassigned)
        return joined and self._revocation is None and not engine.start_lookup.waiting()

    # -- `AssignmentHooks` ----------------------------------------------------------------------------------------------

    @property
    def poll_count(self) -> int:
        """A number that grows with each call of the application, also within iterations."""
        return int(self._engine.buffers.calls)

    def request_poll(self) -> None:
        """Make the next call of the application read `GroupMembership.needs_poll`."""
        self._engine.buffers.held = True

    def wake(self) -> None:
        """End the wait of a call of the application."""
        self._engine.has_arrived.set()

    def on_revoked_all(self, keys: Collection[TopicPartition]) -> None:
        """Stop reading the assignment, and keep its positions; before, call the listener, and commit if auto-commit is on."""
        self._revoke(keys, self._engine.suspend_assignment)

    def on_revoked(self, part: Collection[TopicPartition]) -> None:
        """Stop reading a part of the assignment; before, call the listener, and commit if auto-commit is on."""
        self._revoke(part, self._engine.give_up)

    def on_added(self, added: Collection[TopicPartition]) -> None:
        """Read partitions besides the present assignment, and call the listener."""
        self._end_revocation(self._revocation)  # an interrupt may have left it
        self._assigned |= frozenset(added)
        self._unassigned = self._assigned
        self._assign_known(self._deadline)
        self._call(ASSIGNED, self._listener.on_assigned, added)

    def on_assigned(self, keys: Collection[TopicPartition], kept: Collection[TopicPartition]) -> None:
        """Read a new assignment, in which `kept` keeps its positions, and call the listener."""
        self._end_revocation(self._revocation)  # an interrupt may have left it
        self._engine.resume_assignment(kept)
        self._assigned = self._unassigned = frozenset(keys)
        self._assign_known(self._deadline)
        self._call(ASSIGNED, self._listener.on_assigned, keys)

    @property
    def _held_by(self) -> tuple[str, float] | None:
        return self.called if self.called is not None or self.run is None else self.run._called

    @property
    def is_held_up(self) -> bool:
        """Whether the listener has not returned in the time that `leave` waits for it."""
        return self._held_by is not None and self._engine.handler.now() >= self._waits_until

    def give_up_all(self) -> None:
        """Commit if auto-commit is on, and stop reading, without the listener: it is held up in another worker."""
        engine, membership = self._engine, self._leaving
        text = "group %s: %s has not returned, and is waited for no longer; the member leaves the group"
        held_by = self._held_by
        log.warning(text, engine.options.consumer_group, "a function" if held_by is None else held_by[0])
        if membership is not None and membership.owns_assignment:
            self._finish(self._revocation_of(list(engine.partitions)), engine.suspend_assignment, None)

    def on_lost(self, keys: Collection[TopicPartition]) -> None:
        """Stop reading partitions that others may have by now, and call the listener."""
        self._end_revocation(self._revocation)  # an interrupt may have left it
        if self.run is not None:
            self.run.lose(keys)
        self._remove(keys)
        self._engine.give_up(keys)
        self._call(LOST, self._listener.on_lost, keys)

    def _call(self, kind: str, method: ListenerMethod | None, keys: Collection[TopicPartition]) -> None:
        """Call a method of the application's listener, and report how long it took."""
        engine, partitions = self._engine, sorted(keys)
        began = engine.handler.now()
        before, self.called = self.called, (f"on_{kind}()", began)
        try:
            if method is not None:
                method(partitions)
        finally:
            self.called = before
            if engine.listener is not None:
                text = f"{len(partitions)} partitions"
                for topic, partition in partitions[:NAMED_MAX]:
                    text += f" {topic}/{partition}"
                group, seconds = f"group {engine.options.consumer_group}", engine.handler.now() - began
                engine.listener.on_event(kind, group, seconds, text)

    def _remove(self, keys: Collection[TopicPartition]) -> None:
        gone = set(keys)
        self._assigned -= gone
        self._unassigned -= gone

    def _revoke(self, keys: Collection[TopicPartition], stop: Stop) -> None:
        """Call the listener, commit if auto-commit is on, and stop reading partitions that are still this member's.

        :raises RevocationUnfinished: the call has to end before the commit is made; the listener is not called again
        """
        revocation = self._revocation
        if revocation is None or revocation.keys != frozenset(keys):
            before = self.membership
            listener_error = None
            self._remove(keys)
            try:
                if self.run is not None:
                    self.run.revoke(keys)
                self._call(REVOKED, self._listener.on_revoked, keys)
            except Exception as error:  # noqa: BLE001 - the application's; raised when the partitions are given up
                listener_error = error
            if self.membership is not before:  # the listener has left the group, and may read partitions by `assign()`
                if listener_error is not None:
                    raise listener_error
                return
            self._revocation = revocation = self._revocation_of(keys)  # not before: the listener may take long
            revocation.listener_error = listener_error
        self._finish(revocation, stop, None if self.membership is None else self._deadline)

    def _revocation_of(self, keys: Collection[TopicPartition]) -> Revocation:
        from pykafka.groups.revocation import Revocation  # loaded by the first rebalance

        return Revocation(self._engine, keys, self._await_commits, self._options.max_poll_interval_ms / 1000)

    def _finish(self, revocation: Revocation, stop: Stop, deadline: float | None) -> None:
        """Commit if auto-commit is on, and then stop reading."""
        membership = self.membership or self._leaving
        try:
            # the hook's time is the application's, but not that of commits
            with nullcontext() if membership is None else membership.awaiting():
                revocation.commit(deadline, self._midway, self.membership is None)
        except Exception as error:
            self._end_revocation(revocation)
            stop(revocation.keys)
            if revocation.listener_error is not None:
                error.add_note(f"besides: {revocation.listener_error!r}")
            raise
        except BaseException:
            if not revocation.is_unfinished:  # a timeout or Ctrl-C: the whole hook runs again
                self._end_revocation(revocation)
            raise
        self._end_revocation(revocation)
        stop(revocation.keys)
        if revocation.listener_error is not None:
            raise revocation.listener_error

    def _end_revocation(self, revocation: Revocation | None) -> None:
        """Forget a revocation; its worker, if it still runs, commits no more."""
        self._revocation = None
        if revocation is not None:
            revocation.is_over = True

    def await_revocation(self) -> None:
        """Make the hook that has raised `RevocationUnfinished` wait for its commit, whatever the deadline of `poll`."""
        if self._revocation is not None:
            self._revocation.is_unlimited = True

    def after_fork(self) -> None:
        """Leave a revocation under way to the parent process."""
        self._revocation = None

    def _assign_known(self, deadline: float | None) -> None:
        """Read the partitions that metadata knows; the next calls try again with the others, without a rejoin.

        :param deadline: of the call, by the handler's clock (s)
        """
        engine = self._engine

        def time_left() -> int | None:
            return None if deadline is None else left_ms(deadline, engine.handler.now())

        missing = sorted(self._assigned - engine.partitions.keys())
        ready: list[TopicPartition] = []
        unknown: list[TopicPartition] = []
        known: dict[str, TopicMetadata | None] = {}
        try:
            for key in missing:
                if key.topic not in known:
                    # unlike a look-up, this creates no topic
                    known[key.topic] = engine.cluster.find_topic(key.topic, time_left())
                if (topic := known[key.topic]) is not None:
                    (ready if key.partition in topic.partitions else unknown).append(key)
            if unknown:
                engine.cluster.update({key.topic for key in unknown}, time_left())
                for key in unknown:
                    topic = engine.cluster.topic_metadata(key.topic)
                    if topic is not None and key.partition in topic.partitions:
                        ready.append(key)
            engine.assign(engine.find(ready), self._new_partitions(ready))
        except KafkaException as error:
            group, text = engine.options.consumer_group, "group %s: the assignment cannot be read yet: %s; trying again"
            engine.cluster.limiter.warn(log, str(group), text, group, error)
        self._unassigned = left = self._assigned - engine.partitions.keys()
        if left:
            self._retry_at = engine.handler.now() + RETRY_S
            group, text = engine.options.consumer_group, "group %s: metadata does not know the whole assignment yet: %s"
            engine.cluster.limiter.warn(log, str(group), text, group, ", ".join(map(str, sorted(left))))

    def _new_partitions(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions that were added since this member saw their topics first."""
        membership, cluster = self.membership, self._engine.cluster
        names = set(() if membership is None else membership.topics)
        for key in keys:
            names.add(key.topic)
        is_first = not self._counts
        for name in names:
            found = cluster.topic_metadata(name)
            count = 0 if found is None else len(found.partitions)
            self._counts.setdefault(name, count if is_first else 0)
        new = set()
        for key in keys:
            if key.partition >= self._counts[key.topic]:
                new.add(key)
        return new


def make_membership(
    protocol: str, cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, topics: Topics, **configs: Any
) -> GroupMembership:
    """Return a membership that subscribes to topics.

    :param protocol: one of `PROTOCOLS`
    :param hooks: the consumer
    :param identity: generation and member id of its commits
    :param configs: of the membership
    :raises TypeError, ValueError: see `Subscription`; or the protocol has no patterns for the broker
    """
    check_pattern(protocol, topics)
    membership = _make(protocol, cluster, hooks, identity, **configs)
    membership.subscribe(topics)
    return membership


def _make(
    protocol: str, cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, **configs: Any
) -> GroupMembership:
    """Return a membership; protocols other than the usual ones are loaded when they are used."""
    if protocol == CONSUMER:
        return ConsumerGroupMembership(cluster, hooks, identity, **configs)
    if protocol == CLASSIC:
        from pykafka.groups.classic.membership import ClassicMembership

        return ClassicMembership(cluster, hooks, identity, **configs)
    if protocol == ZOOKEEPER:
        return _by_zookeeper(cluster, hooks, identity, **configs)
    return AutoMembership(_make, cluster, hooks, identity, **configs)


def _by_zookeeper(
    cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, **configs: Any
) -> GroupMembership:
    """Return a membership of a group that ZooKeeper keeps.

    :raises ValueError: no option has the address of ZooKeeper, or the member has a `group_instance_id`
    :raises ImportError: kazoo is not installed (extra `zookeeper`)
    :raises RuntimeError: the client runs on an event loop
    """
    hosts = configs["zookeeper_hosts"] or cluster.zookeeper_hosts
    if not hosts:
        raise ValueError(NO_HOSTS)
    if configs["group_instance_id"] is not None:
        raise ValueError(NO_STATIC_MEMBERS)
    from pykafka.groups.zookeeper.membership import ZooKeeperMembership  # needs kazoo

    cluster.handler.kazoo()
    return ZooKeeperMembership(cluster, hooks, identity, **{**configs, "zookeeper_hosts": hosts})
