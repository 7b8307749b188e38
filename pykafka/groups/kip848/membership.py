"""`NextGenSubscriber`: a member of a group of the next-generation protocol (KIP-848), whose shares the broker works out."""

from __future__ import annotations

import logging
import uuid
import weakref
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    FencedInstanceId,
    KafkaException,
    ProtocolClientError,
    RebalanceInProgress,
    UnsupportedVersion,
    error_for,
)
from pykafka.groups.assignment_change import CooperativeHandover
from pykafka.groups.coordinator_connection import LEAVE_TIMEOUT_MS, CoordinatorConnection
from pykafka.groups.group_requests import check_instance_id
from pykafka.groups.group_topics import SharedTopics
from pykafka.groups.heartbeat_sender import OVERDUE, Activity
from pykafka.groups.kip848.heartbeats import API, SESSION_MS, Answer, ConsumerGroupHeartbeats, News, Place, Wanted
from pykafka.groups.member_epoch import Verdict
from pykafka.groups.polled_membership import TURN_S, Identity, PolledMembership, Renewed
from pykafka.groups.subscription import TopicWatch
from pykafka.groups.topic_ids import TopicIds
from pykafka.handlers.interrupts import FinalSteps
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.groups.assignment_change import AssignmentHooks
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: How often a call that waits for its first share looks whether it is to end (s).
SLICE_S = 0.05
#: How long a member that has a share goes on before it looks for its coordinator again (s).
FIND_AGAIN_S = 0.5
#: The first version of ConsumerGroupHeartbeat with patterns.
PATTERNS_SINCE = 1

#: What to do about an error that the coordinator answers, by its class's name.
ADVICE = {
    "FencedInstanceId": "another member has taken this group_instance_id; give each member that runs at the same time one of "
    "its own",
    "UnreleasedInstanceId": "another member has this group_instance_id; stop it, or give this one another",
    "GroupIdNotFound": "the group has members of the classic protocol, or is no group of consumers, and the cluster's "
    'group.consumer.migration.policy does not let it change; give protocol="auto" or "classic", or stop the other members',
    "UnsupportedVersion": "the brokers keep no groups of this protocol (group.version is 0, or Kafka is older than 4.0); "
    'give protocol="auto" or "classic"',
    "UnsupportedAssignor": "give assignor= a name of the broker's group.consumer.assignors; by default "
    '"uniform" and "range"',
    "GroupMaxSizeReached": "raise the broker's group.consumer.max.size, or run fewer members",
    "InvalidRegularExpression": "SubscriptionPattern takes the syntax of RE2/J",
}


@dataclass
class EpochStanding:
    """The membership as the hooks were told of it; the worker that serves changes it."""

    member_id: str
    generation_id: int = -1
    breaks: int = 0


class NextGenSubscriber(PolledMembership):
    """The membership of a consumer whose group shares out at the broker.

    A native worker sends heartbeats; the application's calls read its answers, release what goes, and extend by what comes.
    What stays is read all the while, and no call waits for other members.

    State: changes under `_serving`, one worker at a time; `due` and `leave` may be called from any.

    :param cluster: that has the group
    :param hooks: the consumer
    :param member: what its commits name, which this changes
    :param configs: those of `DEFAULT_CONFIG`; others are ignored
    :raises ValueError: the `group_instance_id` is not one
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        "group_id": "",
        "group_instance_id": None,
        "max_poll_interval_ms": 300000,
        "retry_backoff_ms": 100,
        "metadata_max_age_ms": 60000,
        "assignor": None,
        "client_rack": "",
    }

    def __init__(self, cluster: BaseCluster, hooks: AssignmentHooks, member: Identity, **configs: Any) -> None:
        self.config = config = {name: configs.get(name, default) for name, default in self.DEFAULT_CONFIG.items()}
        check_instance_id(config["group_instance_id"])
        self._cluster = cluster
        self._handler = cluster.handler
        self._hooks = hooks
        self.member = member
        self.group_id = config["group_id"]
        self.activity = Activity()
        self.link = CoordinatorConnection(cluster, self.group_id, config["retry_backoff_ms"])
        #: Set when there may be news.
        self.changed = self._handler.Event()
        self._topics = SharedTopics(cluster)
        self._outlook = TopicWatch(cluster, self.group_id, self._topics, config["metadata_max_age_ms"] / 1000)
        self._ids = TopicIds(cluster)
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._set_up_serving()
        self._forget()
        self._handler.at_fork(self._after_fork)

    def _forget(self) -> None:
        before: CooperativeHandover | None = getattr(self, "_handover", None)
        member_id = str(uuid.UUID(int=self._handler.random.getrandbits(128), version=4))
        self._standing = EpochStanding(member_id)
        self._handover: CooperativeHandover = CooperativeHandover(self._hooks, self._standing, self._topics.is_missing)
        if before is not None:
            before.end(self._handover)
        self.beats = self._new_beats()
        self.member.renew = self._renewed
        self.member.out = self._commit_refused
        #: The answer that the hooks have been given.
        self._seen: Answer | None = None
        #: Whether this member has to join.
        self._is_out = True
        #: Why this member does not join again.
        self._ended_by: KafkaException | None = None
        self._find_at = 0.0
        self._outlook.forget()

    def _new_beats(self) -> ConsumerGroupHeartbeats:
        patience_ms = self.config["max_poll_interval_ms"]
        beats = ConsumerGroupHeartbeats(self._handler, self._standing.member_id, self.activity, patience_ms, self._note)
        beats.attendant = weakref.ref(self._hooks)
        return beats

    def _note(self) -> None:
        self.changed.set()

    def _after_fork(self) -> None:
        # The member is the parent's; this process has to become one of its own.
        self._seen, self._ended_by, self._is_out = None, None, True
        self.link.after_fork()
        self.changed = self._handler.Event()
        self.activity.waiting = []
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._standing.member_id = str(uuid.uuid4())  # the handler's random numbers are the parent's
        self._standing.generation_id, self._standing.breaks = -1, self._standing.breaks + 1
        self.beats = self._new_beats()
        self._serve_after_fork()

    # -- the application's side ----------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The epoch of this member; -1 while it is out of the group."""
        return self._standing.generation_id

    @property
    def member_id(self) -> str:
        """The member's id, for its life."""
        return self._standing.member_id

    @property
    def topics(self) -> frozenset[str]:
        """The topics that this member reads now: those named, and those that patterns have matched, here or at the broker."""
        selection = self._selection
        if selection is None:
            return frozenset()
        given = {key.topic for key in self.share} if selection.broker_pattern is not None else set()
        return selection.topics | given

    @property
    def due(self) -> bool:
        """Whether `serve` has something to do; costs no more than a look at the clock."""
        if self._selection is None:
            return False
        beats = self.beats
        return (
            beats.present is not self._seen
            or self._seen is None
            or bool(beats.news)
            or self._handover.pending is not None
            or bool(self._handover.errors)
            or self._outlook.is_due()
        )

    @property
    def settled(self) -> bool:
        """Whether the group has given this member its share, and it has told the group so."""
        seen = self._seen
        return seen is not None and self.beats.present is seen and not self.beats.news and not self._ids.unknown

    # -- taking part -----------------------------------------------------------------------------------------------------

    def _serve(self, deadline: float | None) -> None:
        self.activity.count += 1
        if self._ended_by is not None:
            raise self._ended_by.again()
        try:
            self._participate(deadline)
        except FencedInstanceId as error:
            self._ended_by = error
            raise
        except KafkaException:
            if self._selection is None:  # `leave` has ended it
                return
            raise

    def _participate(self, deadline: float | None) -> None:
        failures = 0
        while (selection := self._selection) is not None:
            self.changed.clear()
            self._take_news()
            self._look(deadline)
            try:
                self._attend_coordinator(deadline)
            except KafkaException as error:
                if not self.link.may_try_again(error):
                    raise
                self.link.lose(error)
                failures += 1
                late = self.share or (deadline is not None and self._handler.now() >= deadline)
                if late or self._hooks.is_called_back:
                    text = "group %s: the coordinator cannot be found: %s; trying again"
                    self._cluster.limiter.warn(log, self.group_id, text, self.group_id, error)
                    return
                self.link.pause(failures, deadline)
                continue
            if selection is self._selection:
                self._reconcile(deadline)
            if self._has_settled() or not self._wait(deadline):
                return

    def _has_settled(self) -> bool:
        """Return whether a call need not wait: the member has a share, or the group has said that there is none for it."""
        return bool(self.share) or (self._seen is not None and not self.beats.news and not self._ids.unknown)

    def _wait(self, deadline: float | None) -> bool:
        """Wait for news; return False if the call is to end."""
        while not self.changed.is_set():
            left = SLICE_S if deadline is None else min(SLICE_S, deadline - self._handler.now())
            if left <= 0 or self._hooks.is_called_back or self.link.closing or self._selection is None:
                return False
            self.changed.wait(left)
        return True

    def _take_news(self) -> None:
        """Do what the heartbeats' worker has heard of."""
        news = self.beats.news
        while news:
            one = news[0]
            present = one.join == self.beats.joins
            if present and one.verdict not in (Verdict.MOVED, Verdict.WAITS):
                self._out(one)  # a timeout or Ctrl-C may end this: then the next call does it again
            if news and news[0] is one:
                news.popleft()
            if present:
                self._heed(one)

    def _heed(self, news: News) -> None:
        error = news.error
        if news.overdue:
            log.warning(OVERDUE, self.group_id, SESSION_MS, error)
        elif news.idle:
            log.error(
                "group %s: the application took no messages for %d ms, so this member has left the group; call poll() more "
                "often, or raise max_poll_interval_ms",
                self.group_id,
                self.config["max_poll_interval_ms"],
            )
        elif news.verdict is Verdict.FENCED:
            log.warning("group %s: %s is out of the group, and joins again: %s", self.group_id, self.member_id, error)
        elif news.verdict is Verdict.MOVED:
            self.link.lose(error)
        elif news.verdict is Verdict.WAITS:
            text = "group %s: another member has the group_instance_id %r: waiting until it leaves, or its session ends: %s"
            instance_id = self.config["group_instance_id"]
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, instance_id, error)
        elif error is not None:
            raise self._explained(error)

    def _out(self, news: News) -> None:
        """Lose the share, and be out of the group until the next join."""
        self._is_out = True
        self._standing.generation_id = -1
        self._standing.breaks += 1
        self._seen = None
        if news.idle or news.verdict is not Verdict.FENCED:
            self.beats.beat(None)
        self._handover.prepare(self.topics)

    def _explained(self, error: KafkaException) -> KafkaException:
        advice = ADVICE.get(type(error).__name__)
        if advice is None or not isinstance(error, ProtocolClientError):
            return error.again()
        return error_for(error.ERROR_CODE, f"group {self.group_id}: {advice}", broker=error.broker, api=API)

    # -- the coordinator -------------------------------------------------------------------------------------------------

    def _attend_coordinator(self, deadline: float | None) -> None:
        """Find the coordinator, if need be, and have heartbeats sent there; join, if this member is out."""
        place, coordinator = self.beats.place, self.link.coordinator
        known = not self.link.is_unknown() and place is not None and place.broker is coordinator
        if known and not self._is_out:
            return
        if self.link.closing:
            return
        if not self.link.is_unknown():
            found = self.link.found()
        elif self.share:
            if self._handler.now() < self._find_at:
                return
            self._find_at = self._handler.now() + FIND_AGAIN_S
            found = self.link.found(0)
        else:
            found = self.link.found(None if deadline is None else self.link.left_ms(deadline))
        place = self._place(found)
        if self._is_out:
            self._is_out = False
            self.beats.join()
            log.info("group %s: joining as %s", self.group_id, self.member_id)
        self.beats.beat(place)

    def _place(self, broker: Node) -> Place:
        config, selection = self.config, self._selection
        try:
            version = broker.api_version(wire.ConsumerGroupHeartbeatRequest)
        except UnsupportedVersion as error:
            raise self._explained(error) from error
        if version < PATTERNS_SINCE and selection is not None and selection.broker_pattern is not None:
            raise UnsupportedVersion(
                f"group {self.group_id}: brokers match a SubscriptionPattern from Kafka 4.0 on; give a compiled pattern",
                broker=broker.address,
                api=API,
            )
        return Place(
            broker,
            self.group_id,
            version,
            config["group_instance_id"],
            config["client_rack"] or None,
            config["max_poll_interval_ms"],
            config["assignor"],
        )

    # -- the share -------------------------------------------------------------------------------------------------------

    def _look(self, deadline: float | None) -> None:
        """Look, every now and then, whether topics have come or gone, and subscribe to what the selection is now."""
        selection = self._selection
        if selection is None:
            return
        if self._outlook.is_due():
            self._outlook.have_changed(selection, lambda: None if deadline is None else self.link.left_ms(deadline))
            self._handover.errors += self._outlook.refused(selection)
        names = selection.topics - self._outlook.refused_names
        wanted = Wanted(tuple(sorted(names)), selection.broker_pattern)
        if wanted == self.beats.wanted:
            return
        self.beats.want(wanted)
        if self._standing.generation_id >= 0:
            # at once, and not only when the group has heard of it; the broker gives back what a new pattern of its matches
            self._handover.prepare(names)
            self.beats.own(self._ids.assignment(self.share))

    def _reconcile(self, deadline: float | None) -> None:
        """Release what the group takes, and extend by what it gives; tell it so."""
        handover, answer = self._handover, self.beats.present
        if handover.pending is not None and not self.beats.news:
            self._hand_over(handover)  # a timeout or Ctrl-C has ended a hook
        if answer is None or self.beats.news or (answer is self._seen and not self._ids.unknown):
            return
        left_ms = None if deadline is None else self.link.left_ms(deadline)
        keys, remade = self._ids.keys(answer.assignment, 0 if self.share and left_ms is None else left_ms)
        selection = self._selection
        if selection is None or handover is not self._handover:
            return
        if selection.broker_pattern is None or answer.wanted != self.beats.wanted:
            keys = frozenset(key for key in keys if key.topic in selection.topics)
        self._standing.generation_id = answer.epoch
        self.member.generation_id, self.member.member_id = answer.epoch, self._standing.member_id
        handover.lose_remade(remade)
        if keys != self.share or self._seen is None:
            log.info("group %s: the share of epoch %d: %s", self.group_id, answer.epoch, sorted(keys))
            handover.pending = keys
            self._hand_over(handover)
        self._seen = answer

    def _hand_over(self, handover: CooperativeHandover) -> None:
        handover.hand_over()
        handover.joins_again = False
        if handover is self._handover:  # else a hook has left the group
            self.beats.own(self._ids.assignment(handover.share))

    def _renewed(self, identity: tuple[int, str], keys: Collection[TopicPartition]) -> Renewed | None:
        """Wait for the epoch that the coordinator has for this member, for a commit that named a former one.

        :param identity: that the commit named
        :param keys: what it is of
        :returns: what to name now, and those of `keys` that this member has had without a break; None: it is out of the group
        :raises RebalanceInProgress: it takes longer than the client's socket timeout
        """
        deadline = self._handler.now() + self._cluster.socket_timeout_ms / 1000
        handover, standing = self._handover, self._standing
        self.beats.hurry()
        while True:
            answer = self.beats.present
            if answer is None or handover.is_broken or identity[1] != standing.member_id:
                return None
            if answer.epoch != identity[0]:
                self.member.generation_id = answer.epoch
                return (answer.epoch, identity[1]), handover.owned_since(keys, identity[0])
            if self._handler.now() >= deadline:
                raise RebalanceInProgress(
                    f"group {self.group_id}: the epoch of this member is not known; commit again later"
                )
            self._handler.sleep(TURN_S)

    def _commit_refused(self, identity: tuple[int, str], error: KafkaException) -> None:
        """Take the answer to a commit that this member is out of the group: the next call joins again.

        :param identity: that the commit named
        """
        if identity == (self._standing.generation_id, self._standing.member_id):
            self.beats.commit_refused(error)

    # -- leaving -------------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """End what another worker waits for in `serve`, and let nothing of it begin; call `close` next."""
        self.link.closing = True
        self.changed.set()
        self.link.drop_connection()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """End heartbeats, and leave the group; a static member is expected back within the session's time.

        If a greenlet's timeout ends this call, the member leaves all the same.

        :param timeout_ms: how long leaving may take; by default 5,000
        """
        if self.beats.has_ended and not self.link.closing:
            self._ending.wait()
            return
        self.link.closing = True
        self._ending.take(partial(self._close, self.beats, LEAVE_TIMEOUT_MS if timeout_ms is None else timeout_ms))

    def _close(self, beats: ConsumerGroupHeartbeats, patience_ms: int) -> None:
        try:
            place = beats.place
            beats.stop()
            if place is not None and beats.may_be_member:
                request = beats.leaving(place)
                self.link.leave_by(partial(self._leave_once, request, place.version), self.member_id, patience_ms)
            self.link.drop_connection()
            self.link.coordinator = None
        finally:
            self.link.closing = False

    def _leave_once(self, request: Any, version: int, coordinator: Node, deadline: float) -> int:
        return int(self.link.call(request, coordinator, deadline, version=version).error_code)
