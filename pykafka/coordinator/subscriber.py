"""`Subscriber`: a member of a group that reads many topics, by names or by patterns; `KafkaConsumer` has one."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pykafka.common import TopicPartition
from pykafka.coordinator.assigning import Assigning
from pykafka.coordinator.assignors.known import assignors_of
from pykafka.coordinator.base import BaseCoordinator
from pykafka.coordinator.selection import Selection, Topics
from pykafka.coordinator.state import State
from pykafka.exceptions import FencedInstanceId, KafkaException
from pykafka.metadata.topicdict import INTERNAL_PREFIX

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: How often a member looks at metadata for partitions and topics that have come or gone (s).
LOOK_S = 1.0
#: The same for news of heartbeats, where their thread cannot wake the application's workers (s).
LOOK_FOR_NEWS_S = 0.1
#: How often a call looks whether another worker still takes part in a rebalance (s).
TURN_S = 0.01


class ShareHooks(Protocol):
    """The consumer that reads what its member is given: the hooks run on the worker that calls `Subscriber.serve`.

    A hook that raises an `Exception` counts as run: `serve` raises the exception when the rebalance has come to its end.
    After any other exception (gevent.Timeout, KeyboardInterrupt) the next `serve` runs the same hook again.
    """

    @property
    def calls(self) -> int:
        """A number that grows with each call of the application: its sign of life; any thread may read it."""

    @property
    def is_called_back(self) -> bool:
        """Whether a call that takes part in a rebalance is to end now, and the next one is to go on with it."""

    def attend(self) -> object:
        """Read `Subscriber.due` at the next call of the application, also one that waits now.

        Any thread may call this, also the one of heartbeats beside a hub: it may only store.
        """

    def revoke(self, keys: Collection[TopicPartition]) -> object:
        """Stop reading the whole share, which is still this member's; commit it, and keep its positions for `assign`."""

    def assign(self, keys: Collection[TopicPartition], kept: Collection[TopicPartition]) -> object:
        """Read a new share.

        :param keys: all of it
        :param kept: those that no other member can have had since `revoke`: they go on where they were
        """

    def release(self, gone: Collection[TopicPartition]) -> object:
        """Stop reading a part of the share, which is still this member's; commit it, and forget its positions.

        :param gone: never empty; the rest of the share is read on meanwhile
        """

    def extend(self, added: Collection[TopicPartition]) -> object:
        """Read partitions besides the present share.

        :param added: what is new; perhaps none: then the share is as it should be
        """

    def lose(self, keys: Collection[TopicPartition]) -> object:
        """Stop reading partitions, and forget their positions: others may read them, or their topic was deleted."""


class Identity(Protocol):
    """The generation and member id that commits name; `pykafka.consumer.offsets.Membership` is one."""

    generation_id: int
    member_id: str


class Subscriber(BaseCoordinator):
    """The membership of a consumer of many topics.

    It has no worker of its own beside the native one of heartbeats: the application's calls read `due`, and call `serve`,
    which takes part in rebalances. All of the share is revoked before each of them (the eager protocol of Kafka's clients).

    State: changes under `_serving`, one worker at a time; `due` and `leave` may be called from any.

    :param cluster: that has the group
    :param hooks: the consumer
    :param member: what its commits name, which this changes
    :param configs: as for `BaseCoordinator`; `assignor`: one, or several, the best first; `client_rack`
    :raises TypeError, ValueError: one of the configs is wrong
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        **BaseCoordinator.DEFAULT_CONFIG,
        "assignor": "range",
        "client_rack": "",
    }

    def __init__(self, cluster: BaseCluster, hooks: ShareHooks, member: Identity, **configs: Any) -> None:
        super().__init__(cluster, None, **configs)
        self._hooks = hooks
        self.member = member
        assignors = assignors_of(self.config["assignor"], "assignor")
        self._assigning = Assigning(cluster, self.group_id, assignors)
        self._topics = self._assigning.topics
        self.sender.attendant = weakref.ref(hooks)
        self.open_request.interrupted = lambda: hooks.is_called_back
        self._selection: Selection | None = None
        self._forget()
        self._here = self._handler.local()
        self._serving = self._handler.Lock()

    def _forget(self) -> None:
        #: The partitions that the hooks have been given and not been relieved of.
        self._share: frozenset[TopicPartition] = frozenset()
        #: The partitions that the hooks were relieved of in good order, and as which member of which generation.
        self._kept: frozenset[TopicPartition] = frozenset()
        self._kept_as = ("", -1)
        #: A new share, until the hooks have been given all of it.
        self._pending: frozenset[TopicPartition] | None = None
        self._joined_for: frozenset[str] = frozenset()
        #: Why this member does not join again.
        self._ended_by: KafkaException | None = None
        #: What `serve` has still to raise.
        self._errors: deque[Exception] = deque()
        #: The topics of which the application was told that it may not read them.
        self._refused: frozenset[str] = frozenset()
        self._look_at = self._match_at = -1.0

    def _after_fork(self) -> None:
        super()._after_fork()
        self._here = self._handler.local()
        self._serving = self._handler.Lock()
        self._ended_by = None
        self._kept = frozenset()

    # -- the application's side ----------------------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """The topics that this member reads now: those named, and those that its patterns have matched."""
        return frozenset() if self._selection is None else self._selection.topics

    @property
    def share(self) -> frozenset[TopicPartition]:
        """The partitions that the group has given to this member."""
        return self._share

    @property
    def look_s(self) -> float:
        """How long a worker may wait before it reads `due` again (s)."""
        return LOOK_S if self.sender.shares_events else LOOK_FOR_NEWS_S

    @property
    def due(self) -> bool:
        """Whether `serve` has something to do; costs no more than a look at the clock."""
        return self._selection is not None and (
            self.membership.state is not State.STABLE
            or bool(self.sender.news)
            or self._pending is not None
            or bool(self._errors)
            or self._handler.now() >= self._look_at
        )

    @property
    def settled(self) -> bool:
        """Whether the group has given this member its share, and no rebalance goes on as far as it knows."""
        return self.membership.state is State.STABLE and self._pending is None

    @property
    def is_in_hook(self) -> bool:
        """Whether the caller is one of the hooks."""
        return self._enters_again

    def idle(self, waiting: bool) -> None:
        """Take a sign of life of the application.

        :param waiting: whether it waits for messages from now on; while it does, it counts as alive
        """
        self.activity.count += 1
        self.activity.waiting = [None] if waiting else []

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others: from the next `serve` on. Parameters and errors as of `Selection`."""
        selection = Selection(topics)
        if selection == self._selection:
            return
        self._selection = selection
        self._look_at = self._match_at = -1.0
        log.info("group %s: subscribed to %r", self.group_id, selection)
        self._hooks.attend()

    def serve(self, deadline: float | None) -> None:
        """Take part in the group: join if need be, and give the share to the hooks. A sign of life.

        It returns when this member has its share, when time is up or the hooks are called back (the next call goes on), or when
        another worker calls `leave`. A hook that calls it gets nothing done.

        :param deadline: of the handler's clock (s); None: as long as it takes
        :raises FencedInstanceId: another member has this one's `group_instance_id`; each call raises it from then on
        :raises TopicAuthorizationFailed: the principal may not read a named topic; the member reads the others
        :raises KafkaException: the coordinator refuses for good; the next call tries again
        :raises Exception: a hook has raised it
        """
        if self._enters_again or not self._await_turn(deadline):
            return
        with self._serving:
            self._here.serves = True
            try:
                self._serve(deadline)
            finally:
                self._here.serves = False
        if self._errors:
            raise self._errors.popleft()

    def leave(self, timeout_ms: int | None = None) -> None:
        """Revoke the share, leave the group, and end the subscription; end a `serve` of another worker before.

        A static member does not leave: it is expected back within the session's time.

        :param timeout_ms: how long leaving may take; by default 5,000
        :raises Exception: a hook has raised it; the group was left all the same
        """
        self._selection = None
        try:
            if not self._enters_again:
                self.abort()
                self._await_turn(None)
                with self._serving:
                    self._relieve_here()
        finally:  # also after a timeout or Ctrl-C, and where a hook calls this
            self.close(timeout_ms=timeout_ms)
            errors = self._errors
            self._forget()
            self.member.generation_id, self.member.member_id = -1, ""
        if errors:
            first = errors.popleft()
            for error in errors:
                first.add_note(f"besides: {error!r}")
            raise first

    def _relieve_here(self) -> None:
        self._here.serves = True
        try:
            self._relieve()
        finally:
            self._here.serves = False

    # -- one worker at a time --------------------------------------------------------------------------------------------

    @property
    def _enters_again(self) -> bool:
        return getattr(self._here, "serves", False)

    def _await_turn(self, deadline: float | None) -> bool:
        """Wait while another worker serves; return whether there was time enough."""
        # not `acquire(timeout=...)`: Ctrl-C could come before the `try` behind it
        while self._serving.locked():
            if deadline is not None and self._handler.now() >= deadline:
                return False
            self._handler.sleep(TURN_S)
        return True

    def _serve(self, deadline: float | None) -> None:
        self.activity.count += 1
        self._deadline = deadline
        if self._ended_by is not None:
            raise self._ended_by.again()
        self._look()
        try:
            late = self.take_part(deadline)
        except FencedInstanceId as error:  # joining again would put out the member that has taken its place
            self._ended_by = error
            self._relieve()
            raise
        except KafkaException:
            if self._selection is None:  # `leave` has ended it
                return
            raise
        if late is None:
            self._hand_over()
        else:
            text = "group %s: not a member yet: %s"
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, late, level=logging.INFO)

    def need_rejoin(self) -> bool:
        """Return whether this member has to join again: the group rebalances, or this member's topics are others now."""
        if self._selection is None:
            return False
        if self._joined_for != self._selection.topics:
            self.request_rejoin()
        return super().need_rejoin()

    # -- the hooks -------------------------------------------------------------------------------------------------------

    def _relieve(self) -> None:
        """Relieve the hooks of the share: in good order if it is still this member's, else as lost."""
        self._pending = None
        share = self._share
        if not share:
            return
        if self.generation < 0:
            lost = share
        else:  # the coordinator takes no commits for topics that are gone
            lost = frozenset(key for key in share if self._topics.is_missing(key.topic))
        if lost:
            self._call(self._hooks.lose, sorted(lost))
            self._share = share - lost
        if self._share:
            kept, kept_as = self._share, (self.member_id, self.generation)
            self._call(self._hooks.revoke, sorted(kept))
            self._share, self._kept, self._kept_as = frozenset(), kept, kept_as

    def _hand_over(self) -> None:
        """Give the hooks the new share."""
        keys = self._pending
        if keys is None:
            return
        member_id, generation = self._kept_as
        # In a generation that this member joined without getting its share, others may have had these partitions.
        missed_nothing = member_id == self.member_id and self.generation in {generation, generation + 1}
        kept = keys & self._kept if missed_nothing else frozenset()
        self._share = keys
        self._call(self._hooks.assign, sorted(keys), sorted(kept))
        self._pending = None
        self._kept = frozenset()

    def _call(self, hook: Callable[..., object], *keys: Collection[TopicPartition]) -> None:
        try:
            hook(*keys)
        except Exception as error:  # noqa: BLE001 - the application's listener; `serve` raises it at its end
            self._errors.append(error)

    # -- what a group of consumers has -----------------------------------------------------------------------------------

    def protocol_type(self) -> str:
        """Return the kind of the group's members: "consumer"."""
        return "consumer"

    def group_protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the name of each assignor, the best first, with the metadata that names this member's topics."""
        self._joined_for = self.topics
        return self._assigning.protocols(self._joined_for, self.config["client_rack"])

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        self._relieve()

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, bytes]:
        return self._assigning.share_out(protocol, members, self._left_ms())

    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        self._pending = frozenset(self._assigning.taken(protocol, member_assignment, generation))
        self.member.generation_id, self.member.member_id = generation, member_id
        log.info("group %s: the share of generation %d: %s", self.group_id, generation, sorted(self._pending))

    # -- metadata --------------------------------------------------------------------------------------------------------

    def _left_ms(self) -> int | None:
        return None if self._deadline is None else self.link.left_ms(self._deadline)

    def _look(self) -> None:
        """Look, every now and then, whether topics or partitions have come or gone."""
        now = self._handler.now()
        selection = self._selection
        if selection is None or now < self._look_at:
            return
        self.refresh_if_old()
        if selection.patterns and now >= self._match_at:
            self._match(selection, now)
        if self._topics.have_changed(selection.topics, self._left_ms()):
            log.info("group %s: topics or partitions have come or gone", self.group_id)
            self.request_rejoin()
        self._tell_refused(selection)
        self._look_at = now + LOOK_S

    def _tell_refused(self, selection: Selection) -> None:
        """Tell of topics that the brokers do not let this client read: once, until they do."""
        errors = {name: self._cluster.topic_error(name) for name in sorted(selection.names)}
        refused = {name: error for name, error in errors.items() if error is not None and not error.retriable}
        self._errors += [error for name, error in refused.items() if name not in self._refused]
        self._refused = frozenset(refused)

    def _match(self, selection: Selection, now: float) -> None:
        """Compare patterns with the topics of the cluster."""
        try:
            found = self._cluster.ask_metadata(None, self._left_ms()).topics
        except KafkaException as error:
            if not self._cluster.may_pass(error):
                raise
            text = "group %s: the cluster's topics cannot be compared with the pattern: %s"
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, error)
            return
        names = [
            one.name for one in found if one.name and not one.is_internal and not one.name.startswith(INTERNAL_PREFIX)
        ]
        # a broker that has just started, or is cut off, knows fewer: those known stay until they are gone for sure
        stay = {name for name in selection.matched if not self._topics.is_gone(name)}
        matched = selection.matches(names) | stay
        if matched != selection.matched:
            log.info("group %s: %r matches %s", self.group_id, selection, ", ".join(sorted(matched)))
        for pattern, name in selection.only_begun(names):
            text = "group %s: the pattern %r matches no whole name of a topic, as it has to; it matches the beginning of %s"
            self._cluster.limiter.warn(log, f"{self.group_id} {pattern}", text, self.group_id, pattern, name)
        selection.matched = matched
        self._match_at = now + self.config["metadata_max_age_ms"] / 1000

    def _refresh(self) -> None:
        # the topics of other members too, which this one has shared out as the leader
        names = {*self.topics, *self._topics.divided}
        try:
            self._cluster.refresh_older(self.config["metadata_max_age_ms"] / 1000, names, self._left_ms())
        except KafkaException as error:
            self._cluster.limiter.warn(log, self.group_id, "group %s: no metadata: %s", self.group_id, error)
