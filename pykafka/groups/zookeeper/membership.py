"""`ZooKeeperShares`: the membership of `KafkaConsumer` in a group that ZooKeeper keeps, for brokers that keep none."""

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
from pykafka.groups.assignment_change import CooperativeHandover
from pykafka.groups.group_topics import SharedTopics
from pykafka.groups.heartbeat_sender import Activity
from pykafka.groups.polled_membership import Identity, PolledMembership
from pykafka.groups.subscription import TopicWatch
from pykafka.groups.zookeeper.nodes import ANSWER_S, DIVISIONS, MemberNodes, parts
from pykafka.groups.zookeeper.session import ZooKeeperSession
from pykafka.handlers.interrupts import FinalSteps

if TYPE_CHECKING:
    from pykafka.groups.assignment_change import AssignmentHooks
    from pykafka.groups.subscription import Subscription, Topics
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: How often a member looks for partitions without an owner (s), which no watch tells of.
CHECK_S = 10.0
#: The pause before a partition that another member has still is asked for again (s), unless a watch comes first.
RETRY_S = 1.0
#: How long leaving may take (s): it is a few requests to ZooKeeper.
LEAVING_S = 20.0
#: The least time that an answer of ZooKeeper has (s), however short the call's time is.
LEAST_S = 0.1
#: What ZooKeeper refuses for good.
REFUSED = (AuthFailedError, InvalidACLError, NoAuthError)


class _Standing:
    """The membership as the handover of shares depends on it: each session in ZooKeeper is a generation."""

    def __init__(self) -> None:
        self.generation_id = -1
        self.member_id = ""
        self.breaks = 0


class NodesHandover(CooperativeHandover):
    """The share of a member that gives partitions away before it takes others."""

    def shrink(self, to: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Relieve the hooks of all but these partitions; return those that went."""
        gone = self.share - set(to)
        self._relieve(gone)
        return gone

    def missed(self, held: Collection[TopicPartition]) -> None:
        """Lose the partitions that this member does not own any more, against what it believed."""
        self._lose(self.share - set(held))

    def end_generation(self, standing: _Standing) -> None:
        """Lose all of the share, as the session has ended."""
        standing.generation_id = -1
        self.prepare(())


class ZooKeeperShares(PolledMembership):
    """The membership of a consumer of many topics in a group that ZooKeeper keeps.

    A member registers in ZooKeeper once for each topic, and computes its share from the members of each, as `BalancedConsumer`
    does; both may be in one group. It reads a partition only while it owns its node. Partitions that stay are read on.
    Everything happens inside the calls of the application, but for one worker that ends the session of a member whose
    application makes no call for `max_poll_interval_ms`.

    State: belongs to the worker that serves; watches of kazoo's workers store `_wanted`.

    :param cluster: that has the topics and the offsets
    :param hooks: the consumer
    :param member: what commits name: no membership; `may_commit` of it is set
    :param configs: `group_id`, `zookeeper_hosts`, `assignor`, `session_timeout_ms`, `max_poll_interval_ms`,
        `metadata_max_age_ms`; others are ignored
    :raises RuntimeError: the client runs on an event loop
    """

    def __init__(self, cluster: BaseCluster, hooks: AssignmentHooks, member: Identity, **configs: Any) -> None:
        self._cluster = cluster
        self._handler = cluster.handler
        self._hooks = hooks
        self.member = member
        self.group_id = configs["group_id"]
        self._decide = DIVISIONS[configs["assignor"]]
        self.activity = Activity()
        self._topics = SharedTopics(cluster)
        self._max_age_s = configs["metadata_max_age_ms"] / 1000
        self._outlook = TopicWatch(cluster, self.group_id, self._topics, self._max_age_s)
        #: Set by watches, and when the session's state changes: shares may have to change.
        self._wanted = False
        self._called = partial(_call, weakref.ref(self))
        self._session = ZooKeeperSession(
            self._handler,
            self.group_id,
            configs["zookeeper_hosts"],
            configs["session_timeout_ms"] / 1000,
            partial(_pulse, weakref.ref(self)),
            configs["max_poll_interval_ms"] / 1000,
            self._called,
        )
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._set_up_serving()
        self._generations = 0
        self._forget()
        self._handler.at_fork(self._after_fork)

    def _forget(self) -> None:
        before = getattr(self, "_handover", None)
        self._standing = _Standing()
        self._handover: NodesHandover = NodesHandover(self._hooks, self._standing, self._topics.is_missing)
        if before is not None:
            before.end(self._handover)
        #: This member's nodes in the present session.
        self._nodes: MemberNodes | None = None
        #: Common to this member's ids in all topics, so that partitions of one number stay together.
        self._name = f"{os.uname().nodename}:{uuid.UUID(int=self._handler.random.getrandbits(128), version=4)}"
        self._next_at = -math.inf
        self._deadline: float | None = None
        #: How long an answer may take in a call that has no time left (s).
        self._hurried_s = LEAST_S
        #: Whether the hooks were given a share in this session.
        self._joined = False
        #: A partition that another member has still.
        self._late: PartitionOwnedError | None = None
        self._closing = False
        self.member.may_commit = None
        self._outlook.forget()

    def _after_fork(self) -> None:
        # The member is the parent's; the next call makes one of this process.
        self._session.leave_to_parent()
        self._serve_after_fork()
        self._standing.generation_id = -1
        self._nodes = None
        self._name = f"{os.uname().nodename}:{uuid.uuid4()}"  # the handler's random numbers are the parent's
        self._wanted = True
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")

    # -- the application's side ----------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether `serve` has something to do; costs no more than a look at the clock."""
        if self._selection is None:
            return False
        if self._wanted or self._handler.now() >= self._next_at or self._handover.errors:
            return True
        # in an outage nobody looks there
        return (self._session.state is None or self._session.connected) and self._outlook.is_due()

    @property
    def look_s(self) -> float:
        """How long a worker may wait before it reads `due` again (s)."""
        return min(super().look_s, max(self._next_at - self._handler.now(), LEAST_S))

    @property
    def settled(self) -> bool:
        """Whether this member has its share, and no other one has still some of it."""
        return self._joined and self._late is None and not self._wanted and self._standing.generation_id >= 0

    @property
    def is_fenced(self) -> bool:
        """Never: brokers do not know the group, and take the offsets of a member whose session has ended."""
        return False

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others: from the next `serve` on. Parameters and errors as of `Subscription`."""
        super().subscribe(topics)
        self._wanted = True

    def abort(self) -> None:
        """End what another worker waits for in `serve`, and let nothing of it begin; call `close` next."""
        self._closing = True
        self._session.interrupt()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Release all partitions, leave the group, and end the session.

        :param timeout_ms: how long this waits; it goes on by itself after that
        """
        self._closing = True
        self.member.may_commit = None
        self._ending.take(self._close, LEAVING_S if timeout_ms is None else timeout_ms / 1000)

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

    def _relieve_here(self) -> None:
        if not self._session.may_own():
            self._standing.generation_id = -1
        super()._relieve_here()

    # -- taking part -----------------------------------------------------------------------------------------------------

    def _serve(self, deadline: float | None) -> None:
        self.activity.count += 1
        self._deadline = deadline
        selection = self._selection
        if selection is None or self._closing:
            return
        self._wanted = False
        now = self._handler.now()
        self._next_at = now + CHECK_S
        try:
            nodes = self._standing_nodes(deadline)
            if nodes is None:
                self._next_at = now + LEAST_S
                return
            self._look(selection)
            self._take_share(selection, nodes)
            self._hurried_s = LEAST_S
        except (NoNodeError, NodeExistsError, ZooKeeperError) as error:
            if isinstance(error.__cause__, REFUSED) or self._session.client is None:
                raise
            # an application whose calls are short must not keep this member from ever getting its answers
            self._hurried_s = min(2 * self._hurried_s, ANSWER_S)
            # without an answer, there may not be much time left to give partitions up
            self._next_at = self._handler.now() + (RETRY_S if self._session.connected else LEAST_S)
            text = "group %s: %s; trying again"
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, error)

    def _standing_nodes(self, deadline: float | None) -> MemberNodes | None:
        """Return this member's nodes, if they can be relied on; give partitions up if other members may have them."""
        session, standing = self._session, self._standing
        if session.lost:
            log.warning("group %s: %s; joining again", self.group_id, session.lost)
            self._handover.end_generation(standing)
            session.renew()
        elif session.stale and self._handover.share:
            log.warning("group %s: %s; giving all partitions up", self.group_id, session.stale)
            self._handover.shrink(())
        if not session.connect(deadline) or session.state is None:
            return None
        if standing.generation_id < 0 or self._nodes is None:
            self._handover.end_generation(standing)  # of the parent process, after a fork
            self._nodes = MemberNodes(
                self._handler, self.group_id, self._name, session.state, self._decide, self._called, self._answer_s
            )
            self._generations += 1
            standing.generation_id = self._generations
            self._joined = False
            self.member.may_commit = session.may_own
        return self._nodes

    def _answer_s(self) -> float:
        """Return how long an answer of ZooKeeper may take (s)."""
        left_s = ANSWER_S if self._deadline is None else self._deadline - self._handler.now()
        return min(max(left_s, self._hurried_s), ANSWER_S)

    def _look(self, selection: Subscription) -> None:
        """Look at topics and partitions, every now and then."""
        names = selection.topics
        try:
            self._cluster.refresh_older(self._max_age_s, names, self._left_ms())
        except KafkaException as error:
            self._cluster.limiter.warn(log, self.group_id, "group %s: no metadata: %s", self.group_id, error)
        if self._outlook.is_due():
            self._outlook.have_changed(selection, self._left_ms)
            self._handover.errors += self._outlook.refused(selection)

    def _left_ms(self) -> int | None:
        return None if self._deadline is None else max(100, round((self._deadline - self._handler.now()) * 1000))

    def _take_share(self, selection: Subscription, nodes: MemberNodes) -> None:
        """Give partitions up that go to other members, then take those of this member's share."""
        known = {name: parts(name, self._cluster.topic_metadata(name)) for name in sorted(selection.topics)}
        self._topics.divided = {name: len(ids) for name, ids in known.items()}
        shares = {name: nodes.decided(name, ids) for name, ids in known.items()}
        gone = self._handover.shrink({TopicPartition(name, id_) for name, ids in shares.items() for id_ in ids})
        nodes.keep(shares)
        mine, late = nodes.take(shares)
        self._handover.missed(mine)
        if gone or not self._joined or mine != self._handover.share:
            self._handover.pending = frozenset(mine)
            self._handover.hand_over()
            log.info("group %s: the share of %s: %s", self.group_id, self._name, sorted(mine))
        self._joined = True
        self._late = late[0] if late else None
        if late:
            self._next_at = self._handler.now() + self._handler.random.uniform(RETRY_S / 2, RETRY_S)
            text = "group %s: %s; trying again"
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, late[0], level=logging.INFO)

    # -- what other workers call -----------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Make the next call look at the group: for watches; it waits for nothing."""
        self._wanted = True
        self._hooks.attend()
        self._hooks.wake()

    def pulse(self) -> tuple[int, bool]:
        """Return a number that grows with the application's calls, and whether it waits for messages."""
        return self.activity.count + self._hooks.calls, bool(self.activity.waiting)


def _call(reference: weakref.ref[ZooKeeperShares], *_: Any) -> bool:
    """Tell a membership of a change, if it is still there; kazoo's workers call this."""
    shares = reference()
    if shares is None:
        return False
    shares.changed()
    return True


def _pulse(reference: weakref.ref[ZooKeeperShares]) -> tuple[int, bool] | None:
    shares = reference()
    return None if shares is None else shares.pulse()
