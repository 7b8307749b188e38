"""`ZooKeeperMembership`: the membership of `KafkaConsumer` in a group that ZooKeeper keeps, for brokers that keep no groups."""

from __future__ import annotations

import logging
import math
import os
import uuid
import weakref
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import AuthFailedError, InvalidACLError, NoAuthError, NodeExistsError, NoNodeError

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, PartitionOwnedError, ZooKeeperError
from pykafka.groups.assignment_change import CooperativeAssignmentChange, Generation
from pykafka.groups.heartbeat_sender import Activity
from pykafka.groups.polled_membership import PolledMembership
from pykafka.groups.subscription import GroupTopics, TopicWatch
from pykafka.groups.zookeeper.nodes import ANSWER_S, DIVISIONS, MemberNodes, node_names
from pykafka.groups.zookeeper.session import ZooKeeperSession
from pykafka.handlers.interrupts import FinalSteps
from pykafka.metrics.listener import JOINED, LEFT, REBALANCE_FAILED, REBALANCED
from pykafka.utils.error_handlers import QUICK_ANSWER_MS, left_ms

if TYPE_CHECKING:
    from pykafka.consumer.committed_offsets import Membership
    from pykafka.groups.membership import AssignmentHooks
    from pykafka.groups.subscription import Subscription, Topics
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: How often a member looks for partitions without an owner (s), which no watch reports.
OWNER_POLL_INTERVAL_S = 10.0
#: The pause before the next attempt to own a partition of another member (s), unless a watch comes first.
RETRY_S = 1.0
#: How long the first connection may take (s).
CONNECT_S = 10.0
#: How long leaving may take (s): it is a few requests to ZooKeeper.
LEAVING_S = 20.0
#: The shortest time limit for an answer of ZooKeeper (s), whatever the deadline of the call.
LEAST_S = 0.1
#: What ZooKeeper refuses for good.
REFUSED = (AuthFailedError, InvalidACLError, NoAuthError)


class ZooKeeperAssignmentChange(CooperativeAssignmentChange):
    """The change of a member that revokes partitions before it takes others."""

    def revoke_all_but(self, to: Collection[TopicPartition]) -> None:
        """Revoke all but these partitions."""
        self._revoke_part(self.assignment - set(to))

    def lose_all_but(self, held: Collection[TopicPartition]) -> None:
        """Report partitions as lost that this member does not own any more, unexpectedly."""
        self._lose(self.assignment - set(held))

    def end_generation(self) -> None:
        """Lose the whole assignment, as the session has ended."""
        self._membership.generation_id = -1
        self.prepare(())


class ZooKeeperMembership(PolledMembership):
    """The membership of a consumer of many topics in a group that ZooKeeper keeps.

    A member registers in ZooKeeper once for each topic, and computes its assignment from the members of each, as
    `BalancedConsumer` does; both may be in one group. It reads a partition only while it owns its node, and keeps the
    partitions of its next assignment. Everything happens inside the calls of the application, but for one worker that ends the
    session of a member whose application makes no call for `max_poll_interval_ms`.

    Each session in ZooKeeper is a generation.

    State: belongs to the worker that polls; watches of kazoo's workers store `_poll_requested`.

    :param cluster: that has the topics and the offsets
    :param hooks: the consumer
    :param identity: of commits, without generation; `may_commit` of it is set
    :param configs: `group_id`, `zookeeper_hosts`, `assignor`, `session_timeout_ms`, `max_poll_interval_ms`,
        `metadata_max_age_ms`; others are ignored
    :raises RuntimeError: the client runs on an event loop
    """

    def __init__(self, cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, **configs: Any) -> None:
        self._cluster = cluster
        self._handler = cluster.handler
        self._hooks = hooks
        self.identity = identity
        self.group_id = configs["group_id"]
        self._divide = DIVISIONS[configs["assignor"]]
        self.activity = Activity()
        self._topics = GroupTopics(cluster)
        self._max_age_s = configs["metadata_max_age_ms"] / 1000
        self._topic_watch = TopicWatch(cluster, self.group_id, self._topics, self._max_age_s)
        #: Set by watches, and when the session's state changes: the assignment may have to change.
        self._poll_requested = False
        self._called = partial(_call, weakref.ref(self))
        timeout_s = configs["session_timeout_ms"] / 1000
        self._session = ZooKeeperSession(
            self._handler,
            self.group_id,
            configs["zookeeper_hosts"],
            timeout_s,
            min(timeout_s, CONNECT_S),
            self._called,
            'protocol="classic"',
            partial(_signs_of_life, weakref.ref(self)),
            configs["max_poll_interval_ms"] / 1000,
        )
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._set_up_polling()
        self._generations = 0
        self._forget()
        self._handler.at_fork(self._after_fork)

    def _forget(self) -> None:
        before = getattr(self, "_change", None)
        self._generation = Generation()
        self._change: ZooKeeperAssignmentChange = ZooKeeperAssignmentChange(
            self._hooks, self._generation, self._topics.is_missing, self.activity
        )
        if before is not None:
            before.end(self._change)
        #: This member's nodes in the present session.
        self._nodes: MemberNodes | None = None
        #: Common to this member's ids in all topics, so that partitions of one number stay together.
        self._name = f"{os.uname().nodename}:{uuid.UUID(int=self._handler.random.getrandbits(128), version=4)}"
        self._next_at = -math.inf
        self._deadline: float | None = None
        #: The time limit for an answer in a call past its deadline (s).
        self._hurried_s = LEAST_S
        #: Whether the hooks have got an assignment in this session.
        self._joined = False
        #: A partition of the assignment that another member has not released yet.
        self._late: PartitionOwnedError | None = None
        self._closing = False
        self.identity.may_commit = None
        self._topic_watch.forget()

    def _after_fork(self) -> None:
        # The member is the parent's; the next call makes one of this process.
        self._session.leave_to_parent()
        self._leave_to_parent()
        if self.identity.may_commit is not None:
            self.identity.may_commit = bool  # until it has nodes of its own: the brokers know no members
        self._generation.generation_id = -1
        self._nodes = None
        self._name = f"{os.uname().nodename}:{uuid.uuid4()}"  # the handler's random numbers are the parent's
        self._poll_requested = True
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")

    # -- the application's side ----------------------------------------------------------------------------------------

    @property
    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; costs no more than a look at the clock."""
        if self._subscription is None:
            return False
        if self._poll_requested or self._handler.now() >= self._next_at or self._change.errors:
            return True
        # in an outage the check would fail
        return (self._session.state is None or self._session.connected) and self._topic_watch.is_due()

    @property
    def next_poll_s(self) -> float:
        """How long a worker may wait before it reads `needs_poll` again (s)."""
        return min(super().next_poll_s, max(self._next_at - self._handler.now(), LEAST_S))

    @property
    def is_stable(self) -> bool:
        """Whether this member owns its whole assignment."""
        return self._joined and self._late is None and not self._poll_requested and self._generation.generation_id >= 0

    @property
    def fences_commits(self) -> bool:
        """Never: brokers do not know the group, and accept offsets of a member whose session has ended."""
        return False

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others, from the next `poll` on. Parameters and errors: see `Subscription`."""
        super().subscribe(topics)
        self._poll_requested = True

    def abort(self) -> None:
        """End a wait of another worker in `poll`, and let it begin none; call `close` next."""
        self._closing = True
        self._session.interrupt()

    def close(
        self, *, timeout_ms: int | None = None, leave_group: bool | None = None, wait: float | None = None
    ) -> None:
        """Release all partitions, leave the group, and end the session.

        :param timeout_ms: how long this waits; leaving continues without it
        :param leave_group: False logs that the member leaves all the same: its nodes end with its session
        :param wait: how long this waits (s), if that is shorter
        """
        self._closing = True
        self.identity.may_commit = None
        self._session.give_up()
        if leave_group is False:
            log.warning(
                "group %s: leave_group=False has no effect: ZooKeeper keeps no member without a session", self.group_id
            )
        seconds = LEAVING_S if timeout_ms is None else timeout_ms / 1000
        self._ending.take(self._close, seconds if wait is None else min(wait, seconds))

    def _close(self) -> None:
        nodes, self._nodes = self._nodes, None
        try:
            if nodes is not None:
                nodes.give_back()
        except (NoNodeError, ZooKeeperError) as error:
            text = "group %s: this member's nodes stay in ZooKeeper until its session ends: %s"
            log.log(logging.INFO if self._session.lost else logging.WARNING, text, self.group_id, error)
        finally:
            self._session.end()

    def _revoke_all(self) -> None:
        if not self._session.may_own():
            self._generation.generation_id = -1
        super()._revoke_all()

    # -- taking part -----------------------------------------------------------------------------------------------------

    def _poll(self, deadline: float | None) -> None:
        self._deadline = deadline
        subscription = self._subscription
        if subscription is None or self._closing:
            return
        self._poll_requested = False
        now = self._handler.now()
        self._next_at = now + OWNER_POLL_INTERVAL_S
        try:
            nodes = self._current_nodes(deadline)
            if nodes is None:
                self._next_at = now + LEAST_S
                return
            self._check_topics(subscription)
            self._take_assignment(subscription, nodes)
            self._hurried_s = LEAST_S
        except (NoNodeError, NodeExistsError, ZooKeeperError) as error:
            if isinstance(error.__cause__, REFUSED) or self._session.client is None:
                raise
            # an application whose calls are short must not keep this member from ever getting its answers
            self._hurried_s = min(2 * self._hurried_s, ANSWER_S)
            # without an answer, there may not be much time left to revoke partitions
            self._next_at = self._handler.now() + (RETRY_S if self._session.connected else LEAST_S)
            text = "group %s: %s; trying again"
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, error)
            self._report(REBALANCE_FAILED, error)
        except BaseException as error:
            if not isinstance(error, Exception):  # a timeout or Ctrl-C: the next call does what is left
                self._poll_requested = True
            raise

    def _report(self, kind: str, detail: object, seconds: float = 0.0) -> None:
        """Report a step to the listener of the client."""
        if self.identity.listener is not None:
            self.identity.listener.on_event(kind, f"group {self.group_id}", seconds, detail)

    def _current_nodes(self, deadline: float | None) -> MemberNodes | None:
        """Return this member's nodes, if its session is certain; revoke partitions if other members may have them."""
        session, generation, began = self._session, self._generation, self._handler.now()
        change = self._change
        if session.lost:
            log.warning("group %s: %s; joining again", self.group_id, session.lost)
            self._report(LEFT, session.lost)
            change.end_generation()
            if self._has_left(change):
                return None
            session.renew()
        elif session.stale and change.assignment:
            log.warning("group %s: %s; revoking all partitions", self.group_id, session.stale)
            change.revoke_all_but(())
        if self._has_left(change) or not session.connect(deadline) or session.state is None:
            return None
        if generation.generation_id < 0 or self._nodes is None:
            change.end_generation()  # of the parent process, after a fork
            if self._has_left(change):
                return None
            tenure = session.state.tenure()
            self._nodes = MemberNodes(
                self.group_id, self._name, session.state, self._divide, self._called, self._answer_s
            )
            self._generations += 1
            generation.generation_id = self._generations
            self._joined = False
            self.identity.may_commit = tenure.may_commit
            self._report(JOINED, f"generation {self._generations}, member {self._name}", self._handler.now() - began)
        return self._nodes

    def _has_left(self, change: ZooKeeperAssignmentChange) -> bool:
        """Return whether a hook of this change has left the group, so that the step which called it ends."""
        return change is not self._change

    def _answer_s(self) -> float:
        """Return how long an answer of ZooKeeper may take (s)."""
        left_s = ANSWER_S if self._deadline is None else self._deadline - self._handler.now()
        return min(max(left_s, self._hurried_s), ANSWER_S)

    def _check_topics(self, subscription: Subscription) -> None:
        """Check topics and partitions regularly."""
        names = subscription.topics
        try:
            self._cluster.refresh_older(self._max_age_s, names, self._left_ms())
        except KafkaException as error:
            self._cluster.limiter.warn(log, self.group_id, "group %s: no metadata: %s", self.group_id, error)
        if self._topic_watch.is_due():
            self._topic_watch.have_changed(subscription, self._left_ms)
            self._change.errors += self._topic_watch.refused(subscription)

    def _left_ms(self) -> int | None:
        return None if self._deadline is None else left_ms(self._deadline, self._handler.now(), QUICK_ANSWER_MS)

    def _take_assignment(self, subscription: Subscription, nodes: MemberNodes) -> None:
        """Revoke partitions of other members, then take those of this member's assignment."""
        began = self._handler.now()
        known = {name: node_names(name, self._cluster.topic_metadata(name)) for name in sorted(subscription.topics)}
        self._topics.assigned_topics = {name: len(ids) for name, ids in known.items()}
        assignments = {name: nodes.decided(name, ids) for name, ids in known.items()}
        change = self._change
        wanted = {TopicPartition(name, id_) for name, ids in assignments.items() for id_ in ids}
        if not change.assignment <= wanted:
            self._joined = False  # also for the calls that finish the revocation
        change.revoke_all_but(wanted)
        if self._has_left(change):
            return
        nodes.keep(assignments)
        mine, late = nodes.take(assignments)
        change.lose_all_but(mine)
        is_due = not self._joined or change.is_adding or mine != change.assignment
        if not self._has_left(change) and is_due:
            change.pending = frozenset(mine)
            change.assign_pending()
            log.info("group %s: the assignment of %s: %s", self.group_id, self._name, sorted(mine))
            self._report(REBALANCED, f"{len(mine)} partitions", self._handler.now() - began)
        if self._has_left(change):
            return
        self._joined = True
        self._late = late[0] if late else None
        if late:
            self._next_at = self._handler.now() + self._handler.random.uniform(RETRY_S / 2, RETRY_S)
            text = "group %s: %s; trying again"
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, late[0], level=logging.INFO)

    # -- what other workers call -----------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Make the next call check the group: for watches; it does not wait."""
        self._poll_requested = True
        self._hooks.request_poll()
        self._hooks.wake()

    def signs_of_life(self) -> tuple[int, bool]:
        """Return a number that grows with the application's calls, and whether it waits for messages."""
        return self.activity.count + self._hooks.poll_count, bool(self.activity.waiting)


def _call(reference: weakref.ref[ZooKeeperMembership], *_: Any) -> bool:
    """Notify a membership of a change, if it still exists; kazoo's workers call this."""
    membership = reference()
    if membership is None:
        return False
    membership.changed()
    return True


def _signs_of_life(reference: weakref.ref[ZooKeeperMembership]) -> tuple[int, bool] | None:
    membership = reference()
    return None if membership is None else membership.signs_of_life()
