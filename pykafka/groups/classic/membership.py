"""`Subscriber`: a member of a group that reads many topics, by names or by patterns; `KafkaConsumer` has one."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pykafka.common import TopicPartition
from pykafka.exceptions import FencedInstanceId, KafkaException, RebalanceInProgress
from pykafka.groups.assignment_change import AssignmentChange, AssignmentHooks, CooperativeHandover, EagerHandover
from pykafka.groups.assignors.known import assignors_of
from pykafka.groups.classic.assignment import Assigning
from pykafka.groups.classic.coordinator import BaseCoordinator
from pykafka.groups.classic.state import State
from pykafka.groups.coordinator_connection import LEAVE_TIMEOUT_MS
from pykafka.groups.polled_membership import Identity, PolledMembership, Renewed
from pykafka.groups.subscription import TopicWatch

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

__all__ = ["Identity", "AssignmentHooks", "Subscriber"]


class BackgroundJoin:
    """One attempt to take part in a rebalance, by a worker of its own, until the member has its share or is out.

    From `start` until `done`, the membership belongs to that worker.

    :param handler: supplies the worker
    :param join: called with this object; ends soon after `given_up` is set
    :param ended: called on that worker at its end
    :param name: of the worker
    """

    def __init__(
        self, handler: Handler, join: Callable[[BackgroundJoin], None], ended: Callable[[], object], name: str
    ) -> None:
        self._handler = handler
        self._join = join
        self._tell = ended
        self._name = name
        self._ended = handler.Event()
        self._worker: Worker | None = None
        #: Set by the member that leaves, or could not start the worker.
        self.given_up = False
        #: What has ended it, but for the member's share.
        self.error: Exception | None = None

    def start(self) -> None:
        """Start the worker.

        :raises RuntimeError: the system cannot start a thread at present
        """
        try:
            self._worker = self._handler.spawn(self._run, name=self._name)
        except BaseException:
            self.given_up = True
            raise

    @property
    def done(self) -> bool:
        """Whether the worker has ended."""
        return self._ended.is_set() or (self.given_up and self._worker is None)

    def wait(self, seconds: float) -> bool:
        """Wait until the worker has ended; return False if the time (s) is up before."""
        return self.done or self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            if not self.given_up:
                self._join(self)
        except Exception as error:  # noqa: BLE001 - `serve` raises it in a call of the application
            self.error = error
        finally:
            self._ended.set()
            self._tell()


class Subscriber(BaseCoordinator, PolledMembership):
    """The membership of a consumer of many topics.

    The application's calls read `due`, and call `serve`, which takes part in rebalances, and alone calls the hooks. Eager
    members give up all of the share before each rebalance. Cooperative ones, whose assignors all are, go on with it: a worker
    of their own, `BackgroundJoin`, joins and syncs meanwhile. Beside these there is the native worker of heartbeats.

    State: changes under `_serving`, one worker at a time; `due` and `leave` may be called from any. While `_aside` is not
    done, the base class's state is that worker's.

    :param cluster: that has the group
    :param hooks: the consumer
    :param member: what its commits name, which this changes
    :param configs: as for `BaseCoordinator`; `assignor`: one, or several, the best first; `client_rack`
    :raises TypeError, ValueError: one of the configs is wrong
    """

    has_topics = True
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        **BaseCoordinator.DEFAULT_CONFIG,
        "assignor": "range",
        "client_rack": "",
    }

    def __init__(self, cluster: BaseCluster, hooks: AssignmentHooks, member: Identity, **configs: Any) -> None:
        super().__init__(cluster, None, **configs)
        self._hooks = hooks
        self.member = member
        assignors = assignors_of(self.config["assignor"], "assignor")
        self._assigning = Assigning(cluster, self.group_id, assignors)
        self._topics = self._assigning.topics
        self._outlook = TopicWatch(cluster, self.group_id, self._topics, self.config["metadata_max_age_ms"] / 1000)
        self._kind = CooperativeHandover if all(one.cooperative for one in assignors) else EagerHandover
        self.sender.attendant = weakref.ref(hooks)
        self.open_request.interrupted = lambda: self._aside is None and hooks.is_called_back
        self._aside: BackgroundJoin | None = None
        self._set_up_serving()
        self._forget()

    def _forget(self) -> None:
        before = getattr(self, "_handover", None)
        self._handover: AssignmentChange = self._kind(self._hooks, self.membership, self._topics.is_missing)
        if before is not None:
            before.end(self._handover)
        self.member.renew = self._renewed if self._handover.cooperative else None
        self.member.out = self.sender.commit_refused
        self._joined_for: frozenset[str] = frozenset()
        #: Why this member does not join again.
        self._ended_by: KafkaException | None = None
        self._outlook.forget()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._ended_by = None
        self._aside = None
        self._serve_after_fork()

    # -- the application's side ----------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether `serve` has something to do; costs no more than a look at the clock."""
        if self._selection is None:
            return False
        handover, aside = self._handover, self._aside
        if aside is not None:
            return aside.done or bool(handover.errors)
        return (
            self.membership.state is not State.STABLE
            or bool(self.sender.news)
            or handover.pending is not None
            or handover.joins_again
            or bool(handover.errors)
            or self._outlook.is_due()
        )

    @property
    def settled(self) -> bool:
        """Whether the group has given this member its share, and no rebalance goes on as far as it knows."""
        handover = self._handover
        stable = self.membership.state is State.STABLE and self._aside is None
        return stable and handover.pending is None and not handover.joins_again

    # -- taking part -----------------------------------------------------------------------------------------------------

    def _serve(self, deadline: float | None) -> None:
        self.activity.count += 1
        if self._ended_by is not None:
            raise self._ended_by.again()
        aside = self._aside
        if aside is not None and not aside.done:
            return
        self._deadline = deadline
        try:
            late = self._participate(deadline)
        except FencedInstanceId as error:  # joining again would put out the member that has taken its place
            self._ended_by = error
            self._handover.give_up()
            raise
        except KafkaException:
            if self._selection is None:  # `leave` has ended it
                return
            raise
        if late is not None:
            text = "group %s: not a member yet: %s"
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, late, level=logging.INFO)

    def _participate(self, deadline: float | None) -> KafkaException | None:
        """Take part until this member has its share, and the hooks have it, or `BackgroundJoin` goes on.

        :returns: why this member has no share yet, where the deadline came first
        """
        aside, self._aside = self._aside, None
        if aside is not None and aside.error is not None:
            raise aside.error
        self._look()
        while True:
            if self._handover.cooperative and self._goes_on():
                return None
            late = self.take_part(deadline)
            if late is not None:
                return late
            self._hand_over()
            if not self.need_rejoin():
                return None

    def _goes_on(self) -> bool:
        """Give the hooks what a cooperative member has got; if it has to join again, do so aside, and return True."""
        rejoins = self.need_rejoin()
        while self._handover.pending is not None and self.generation >= 0:
            self._hand_over()  # also what came before another rebalance: it joins with all that it was given
            rejoins = self.need_rejoin()
        if not rejoins:
            return False
        self._handover.prepare(self.topics)
        return bool(self.share) and self._begin_aside()

    def _hand_over(self) -> None:
        """Give the hooks the new assignment, but for topics that were unsubscribed since this member joined."""
        handover, topics = self._handover, self.topics
        if handover.pending is not None:
            handover.pending = frozenset(key for key in handover.pending if key.topic in topics)
        handover.hand_over()

    def _begin_aside(self) -> bool:
        """Join and sync by a worker; return whether it was started."""
        self._deadline = None
        self._aside = aside = BackgroundJoin(
            self._handler, self._join_aside, self._wake_hooks, f"pykafka.Joining.{self.group_id}"
        )
        try:
            aside.start()
        except RuntimeError as error:
            log.error("group %s: no worker can join, so reading waits for the rebalance: %s", self.group_id, error)
            self._aside = None
            return False
        return True

    def _wake_hooks(self) -> None:
        self._hooks.attend()
        self._hooks.wake()

    def _join_aside(self, aside: BackgroundJoin) -> None:
        failures = 0
        while self.membership.state is not State.STABLE:
            try:
                self.link.find()
                if aside.given_up:
                    return
                self.join_and_sync()
            except KafkaException as error:
                if aside.given_up:
                    return
                if not self.link.may_try_again(error):
                    raise
                if self.generation < 0:  # the hooks have to know first
                    return
                log.info("group %s: %s; joining again", self.group_id, error)
                failures = 1 if isinstance(error, RebalanceInProgress) else failures + 1
                self.link.pause(failures)

    def _end_aside(self) -> None:
        """End the worker that joins; `abort` has ended what it waits for."""
        aside, self._aside = self._aside, None
        if aside is not None:
            aside.given_up = True
            aside.wait(LEAVE_TIMEOUT_MS / 1000)

    def _renewed(self, identity: tuple[int, str], keys: Collection[TopicPartition]) -> Renewed | None:
        """Wait until a rebalance in which this member keeps its share is over, for a commit that was refused meanwhile.

        :param identity: that the commit named
        :param keys: what it is of
        :returns: what to name now, and those of `keys` that this member has had without a break; None: it is out of the group
        :raises RebalanceInProgress: it takes longer than the client's socket timeout
        """
        aside, handover = self._aside, self._handover
        if aside is not None and not aside.wait(self._cluster.socket_timeout_ms / 1000):
            raise RebalanceInProgress(f"group {self.group_id}: the rebalance goes on; commit again later")
        now = self.member.generation_id, self.member.member_id
        if not isinstance(handover, CooperativeHandover) or now == identity or now[1] != identity[1]:
            return None
        return None if handover.is_broken else (now, handover.owned_since(keys, identity[0]))

    def need_rejoin(self) -> bool:
        """Return whether this member has to join again: the group rebalances, or this member's topics are others now."""
        if self._selection is None:
            return False
        if self._joined_for != self._selection.topics or self._handover.joins_again:
            self.request_rejoin()
        return super().need_rejoin()

    # -- what a group of consumers has -----------------------------------------------------------------------------------

    def protocol_type(self) -> str:
        """Return the kind of the group's members: "consumer"."""
        return "consumer"

    def group_protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the name of each assignor, the best first, with the metadata that names this member's topics."""
        self._joined_for = self.topics
        handover = self._handover
        handover.joins_again = False
        owned = handover.share if handover.cooperative else ()
        return self._assigning.protocols(self._joined_for, self.config["client_rack"], owned)

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        self._handover.prepare(self.topics)

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, bytes]:
        return self._assigning.share_out(protocol, members, self._left_ms(), self.instance_ids)

    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        pending = frozenset(self._assigning.taken(protocol, member_assignment, generation, self._joined_for))
        self.member.generation_id, self.member.member_id = generation, member_id
        self._handover.pending = pending
        log.info("group %s: the share of generation %d: %s", self.group_id, generation, sorted(pending))

    # -- metadata --------------------------------------------------------------------------------------------------------

    def _left_ms(self) -> int | None:
        return None if self._deadline is None else self.link.left_ms(self._deadline)

    def _look(self) -> None:
        """Look, every now and then, whether topics or partitions have come or gone."""
        selection = self._selection
        if selection is None or not self._outlook.is_due():
            return
        self.refresh_if_old()
        if self._outlook.have_changed(selection, self._left_ms):
            self.request_rejoin()
        self._handover.errors += self._outlook.refused(selection)

    def _refresh(self) -> None:
        # the topics of other members too, which this one has shared out as the leader
        names = {*self.topics, *self._topics.divided}
        try:
            self._cluster.refresh_older(self.config["metadata_max_age_ms"] / 1000, names, self._left_ms())
        except KafkaException as error:
            self._cluster.limiter.warn(log, self.group_id, "group %s: no metadata: %s", self.group_id, error)
