"""`ManagedBalancedConsumer`: a consumer that shares a topic's partitions with a group, which the brokers keep."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.common import OffsetType
from pykafka.compat import messages
from pykafka.compat.balanced_consumer import BalancedConsumer
from pykafka.compat.group_consumer import GroupConsumer
from pykafka.compat.membership_protocol import GroupMembershipProtocol, RangeProtocol
from pykafka.compat.options import GroupOptions, RebalanceCallback
from pykafka.compat.topic_member import TopicMember
from pykafka.consumer.options import ConsumerOptions, OffsetReset
from pykafka.exceptions import (
    FencedInstanceId,
    KafkaException,
    ProtocolClientError,
    UnknownTopicOrPartition,
    error_for,
)
from pykafka.groups.classic.state import EVENT_OF_ERROR, Event
from pykafka.groups.options import MemberOptions
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, assignment_bytes
from pykafka.utils import get_string, old_attributes
from pykafka.utils.name import Name
from pykafka.utils.option_table import collected

if TYPE_CHECKING:
    from pykafka.compat.deserializing import Deserializer
    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How often the worker checks metadata (s); reports of the heartbeat thread wake it.
METADATA_POLL_INTERVAL_S = 1.0
#: How long the worker asks for the offsets of its partitions at a time (ms): it has to notice rebalances in between.
OFFSETS_TIMEOUT_MS = 3000


@old_attributes("_group_coordinator _heartbeat_interval_ms")
class ManagedBalancedConsumer(GroupConsumer):
    """A consumer that shares a topic with its group, which the brokers (0.9 and later) keep; one member assigns partitions.

    It balances in one group with all consumers that know its membership protocol: all clients know `range` and `roundrobin`.
    An OS thread sends heartbeats, also while the application computes and on greenlets. A consumer that takes no message
    for `max_poll_interval_ms` loses its partitions all the same, and gets others with the next `consume()`.

    During a rebalance `consume()` returns no messages; if auto-commit is on, the consumer first commits what it has returned
    before. If its assignment stays the same, it continues to read as if nothing had happened.

    Options that are not listed mean what they mean for `SimpleConsumer`.

    :param topic: the topic of the group
    :param cluster: that has it
    :param consumer_group: whose members share the topic
    :param auto_commit_enable: commit regularly and at rebalances the messages that the calls before the last one have
        returned (consume in one worker), and at `stop()` all that were returned; after an error that ends the `with`
        block, all but those of the last call
    :param rebalance_max_retries: how many backoffs long a rebalance may go on failing before that is an error; a join
        that was never answered, which takes longer, is tried once more all the same, unless this is 0
    :param rebalance_backoff_ms: the longest pause between attempts (ms)
    :param auto_start: join at once; else with `start()`
    :param reset_offset_on_start: begin at `auto_offset_reset` even if the group has committed offsets; not again at
        rebalances
    :param post_rebalance_callback: `(consumer, old {partition id: offset}, new {...})`, called for a new assignment
        before it is consumed; may return {partition id: offset} to hold, as `reset_offsets()` takes them. Nothing of it
        is consumed until it has returned. If it raises, `start()`, later `consume()`, raises that, and the consumer
        calls it again after a pause; an error that is not an `Exception` (gevent.Timeout, SystemExit) ends the
        consumer, which leaves the group
    :param use_rdkafka: consume by librdkafka
    :param heartbeat_interval_ms: how often heartbeats go out (ms); below the session timeout
    :param membership_protocol: how members divide partitions; the same for all members of the group
    :param session_timeout_ms: the coordinator removes a member without a heartbeat for this long (ms); brokers have
        limits for it
    :param max_poll_interval_ms: a member that takes no message for this long loses its partitions (ms)
    :param group_instance_id: makes a static member (KIP-345; Kafka 2.3 and later): `stop()` does not leave the group,
        and a consumer that starts with the same id within the session timeout gets the same partitions, without a
        rebalance
    :param metadata_max_age_ms: how often to ask for metadata (ms), which shows added partitions: they are shared out,
        and read from their beginning, or where the group has committed
    :raises UnsupportedVersion: the brokers are older than 0.9 (when started at once)
    :raises KafkaException: it got no assignment (likewise)
    """

    __module__ = "pykafka.managedbalancedconsumer"  # its documented place

    def _build(self, topic: TopicView, cluster: BaseCluster, given: dict[str, Any]) -> None:
        self._configure(topic, cluster, given)
        self._consumer_id = Name.of("")
        options = MemberOptions.of(given)
        self._group_instance_id = options.group_instance_id
        self._member = TopicMember(
            topic,
            cluster,
            self._membership_protocol,
            group_id=get_string(self._consumer_group),
            metadata_max_age_ms=self._options.metadata_max_age_ms,
            **asdict(options),
        )
        self._default_error_handlers = self._build_default_error_handlers()
        if self._own.auto_start:
            self.start()

    @collected(_build, ConsumerOptions, GroupOptions)
    def __init__(
        self,
        topic: TopicView,
        cluster: BaseCluster,
        consumer_group: str | bytes,
        fetch_message_max_bytes: int = 1024 * 1024,
        num_consumer_fetchers: int = 1,
        auto_commit_enable: bool = False,
        auto_commit_interval_ms: int = 60 * 1000,
        queued_max_messages: int = 2000,
        fetch_min_bytes: int = 1,
        fetch_error_backoff_ms: int = 500,
        fetch_wait_max_ms: int = 100,
        offsets_channel_backoff_ms: int = 1000,
        offsets_commit_max_retries: int = 5,
        auto_offset_reset: OffsetReset = OffsetType.EARLIEST,
        consumer_timeout_ms: int = -1,
        rebalance_max_retries: int = 5,
        rebalance_backoff_ms: int = 2000,
        auto_start: bool = True,
        reset_offset_on_start: bool = False,
        post_rebalance_callback: RebalanceCallback | None = None,
        use_rdkafka: bool = False,
        compacted_topic: bool = True,
        heartbeat_interval_ms: int = 3000,
        membership_protocol: GroupMembershipProtocol = RangeProtocol,
        deserializer: Deserializer | None = None,
        reset_offset_on_fetch: bool = True,
        session_timeout_ms: int = 30 * 1000,
        max_poll_interval_ms: int = 5 * 60 * 1000,
        group_instance_id: str | bytes | None = None,
        *,
        isolation_level: str = "read_uncommitted",
        queued_max_bytes: int = 64 * 1024 * 1024,
        auto_commit_timeout_ms: int = 5 * 60 * 1000,
        metadata_max_age_ms: int = 60 * 1000,
        client_rack: str | None = None,
        unpacked_max_bytes: int | None = None,
    ) -> None: ...

    def _begin_afresh(self) -> None:
        super()._begin_afresh()
        #: The ids of the assignment while some of it is not consumed yet, and since when consuming it has failed.
        self._due: frozenset[int] | None = None
        self._trouble_since: float | None = None
        self._reported_gone = False

    # -- life --------------------------------------------------------------------------------------------------------

    def _await_leaving(self) -> None:
        self._member.close()

    def _enter(self) -> None:
        self._member.activity.count += 1

    def _interrupt(self) -> None:
        self._member.changed.set()
        self._member.abort()

    @property
    def _stop_timeout_s(self) -> float:
        return 2 * self._cluster.socket_timeout_ms / 1000

    def _leave(self, wait: bool = True) -> None:
        self._member.close(wait=None if wait else 0.0)
        self._generation_id, self._consumer_id = -1, Name.of("")
        self._due = self._trouble_since = None

    def _start_worker(self) -> None:
        self._setup_heartbeat_worker()

    def _setup_heartbeat_worker(self) -> None:
        """Start the worker that acts on the answers to heartbeats; a native thread sends these."""
        self._spawn_worker(self._member.close, f"pykafka.Membership.{self._topic.name}")

    def _turn(self, stopping: Any) -> tuple[EventType, float] | None:
        """Join again when the group rebalances, and survive failures."""
        member = self._member
        # another event: this is a greenlet of the process that this one was forked from
        if stopping is not self._stopping or stopping.is_set():
            return None
        member.changed.clear()
        try:
            member.refresh_if_old()
            if member.need_rejoin():
                if not self._is_idle():
                    self._rebalance()
            elif self._due is not None:
                self._consume_what_is_due()
            self._report_deletion()
            self._last_error = None
        except FencedInstanceId as error:  # joining again would put out the member that has taken its place
            self._end_by(error)
            return None
        except Exception as error:  # noqa: BLE001 - consume() raises it, and this worker continues
            if self._stopping.is_set():
                return None
            self._last_error = error
            self._report(error)
            self._stopping.wait(max(0.1, self._group_options.rebalance_backoff_ms / 1000))
        if self._stopping.is_set():
            return None
        return member.changed, METADATA_POLL_INTERVAL_S

    def _report(self, error: Exception) -> None:
        """Report an error to `consume()`; of a new assignment that is not consumed yet, a retriable one only if it lasts."""
        now, level = self._handler.now(), logging.ERROR
        if self._due is not None and isinstance(error, KafkaException) and self._cluster.may_pass(error):
            since = now if self._trouble_since is None else self._trouble_since
            if now - since < self._cluster.socket_timeout_ms / 1000:
                now, level = since, logging.WARNING
            self._trouble_since = now
        group, text = self._consumer_group, "group %s: %s; trying again"
        self._cluster.limiter.warn(log, group, text, group, error, level=level)
        if level == logging.ERROR:
            self._worker_failed(error)

    def _report_deletion(self) -> None:
        """Report to `consume()`, once, that the topic is gone; this member stays in the group, in case the topic returns."""
        gone = self._member.topic_is_gone
        if gone and not self._reported_gone:
            error = UnknownTopicOrPartition(
                "the topic was deleted; this consumer consumes nothing until the topic exists again",
                topic=self._topic.name,
            )
            log.error("group %s: %s", self._consumer_group, error)
            self._worker_failed(error)
        self._reported_gone = gone

    def _is_idle(self) -> bool:
        """Return whether the application takes no messages, so that it needs no partitions; give up the present ones."""
        if not self._member.sender.idle:
            return False
        self._give_up()
        return not self._member.sender.active_again

    def _give_up(self) -> None:
        """Stop consuming: other members may have the partitions by now."""
        with self._rebalancing_lock:
            if self._consumer is not None:
                self._halt_or_report()
            self._forget_positions()

    # -- consuming ---------------------------------------------------------------------------------------------------

    def _at_once(self) -> Message | None:
        """Return the next message if that needs no wait; a sign of life: see `max_poll_interval_ms`."""
        self._member.activity.count += 1
        return super()._at_once()

    @property
    def _readable(self) -> SimpleConsumer | None:
        """The internal consumer; None after `max_poll_interval_ms`, until the worker has given it up and joined again."""
        return None if self._member.sender.idle else self._consumer

    def _consume_many(
        self, take: Callable[[SimpleConsumer, bool, Any], T | None], block: bool, unblock_event: Any
    ) -> T | None:
        self._member.activity.count += 1
        return super()._consume_many(take, block, unblock_event)

    def _consume_slowly(
        self, take: Callable[[SimpleConsumer, bool, Any], T | None], block: bool, unblock_event: Any
    ) -> T | None:
        waiting = self._member.activity.waiting
        waiting.append(None)
        try:
            return super()._consume_slowly(take, block, unblock_event)
        finally:
            waiting.pop()

    # -- the assignment ------------------------------------------------------------------------------------------------

    def _update_member_assignment(self) -> None:
        """Join the group and read the partitions that the leader assigns; start again if the group changes meanwhile.

        :raises KafkaException: the member got no assignment, for a reason that is not retriable, or after all retries
        """
        self._pause()
        try:
            self._join_until_settled()
        finally:
            self._resume()

    def _join_until_settled(self) -> None:
        backoff_s = self._group_options.rebalance_backoff_ms / 1000
        deadline = self._handler.now() + self._group_options.rebalance_max_retries * backoff_s
        pause = 0.1
        again = False
        while True:
            if self._stopping.is_set():  # the coordinator refuses stop()'s commit once the group has gone on
                raise self._stopped()
            if self._member.generation < 0:
                self._give_up()  # other members may have had it meanwhile
            if self._is_idle():
                return
            try:
                self._take_assignment()
                return
            except KafkaException as error:
                if self._stopping.is_set():
                    raise self._stopped() from error
                if self._due is not None:  # the assignment is known, so that joining again would not help
                    if not self._member.need_rejoin():
                        raise
                elif not self._member.connection.may_try_again(error):
                    raise
                log.info("group %s: %s; joining again", self._consumer_group, error)
                if _moves_on(error):
                    continue
                # a join without an answer has taken longer than all retries may: one more, if retries are wanted
                if self._handler.now() > deadline and (again or not self._group_options.rebalance_max_retries):
                    raise
                again = True
            self._stopping.wait(min(pause, backoff_s))
            pause *= 2

    def _take_assignment(self) -> None:
        self._due = None
        group_assignments = self._join_group()
        # from here on the coordinator refuses commits of the old generation
        with self._rebalancing_lock:
            assigned = self._sync_group(group_assignments)
            ids = {id_ for name, topic_ids in assigned if name == self._topic.name for id_ in topic_ids}
            log.info("group %s: partitions %s of %s", self._consumer_group, sorted(ids), self._topic.name)
            kept = self._has_missed_nothing()
            present = self._consumer
            if present is not None and (not kept or ids != set(present.partitions)):
                # it has been committed, and may be another member's by now
                present._engine.never_commit()
                self._halt_or_report()
            self._forget_positions(ids if kept else ())
            self._generation_id, self._consumer_id = self._member.generation, Name.of(self._member.member_id)
            self._due = frozenset(ids)
            self._consume_due()

    def _has_missed_nothing(self) -> bool:
        """Return whether the present assignment was this member's until now.

        If this member has joined a generation without an assignment, other members may have consumed, and committed, beyond
        its positions.
        """
        member = self._member
        same = member.member_id == self._consumer_id
        return same and member.generation in {self._generation_id, self._generation_id + 1}

    def _consume_due(self) -> None:
        """Consume the new assignment, as far as the cluster's metadata knows it; the worker tries the rest again.

        :raises KafkaException: the brokers did not report offsets
        :raises Exception: the callback has raised it
        """
        wanted = self._due
        if wanted is None:
            return
        partitions = self._partitions_of(wanted)
        self._setup_internal_consumer(partitions)
        missing = wanted - {partition.id for partition in partitions}
        if missing:
            log.warning(
                "group %s: metadata does not know partitions %s of %s yet",
                self._consumer_group,
                sorted(missing),
                self._topic.name,
            )
        else:
            self._due = self._trouble_since = None

    def _consume_what_is_due(self) -> None:
        """Try again to consume the assignment, in the worker; for more errors see `_consume_due`.

        :raises UnknownTopicOrPartition: metadata still lacks some of it
        """
        with self._rebalancing_lock:
            self._consume_due()
            missing = (self._due or frozenset()) - set(self._topic.partitions)
        if missing:
            raise UnknownTopicOrPartition(
                f"the group's leader has assigned partitions {sorted(missing)}, which the cluster's metadata does not have; "
                "this consumer looks for them again",
                topic=self._topic.name,
            )

    def _partitions_of(self, ids: Iterable[int]) -> list[Partition]:
        wanted = sorted(ids)
        if any(id_ not in self._topic.partitions for id_ in wanted):
            self._cluster.update([get_string(self._topic.name)])  # the leader has seen new partitions
        return [self._topic.partitions[id_] for id_ in wanted if id_ in self._topic.partitions]

    def _get_internal_consumer(self, partitions: Iterable[Partition], start: bool = True) -> SimpleConsumer:
        """Make the internal consumer; in the worker it asks for offsets for a short time only: the worker tries again."""
        consumer = super()._get_internal_consumer(partitions, start=False)
        if getattr(self._here, "is_worker", False):
            consumer._engine.search_timeout_ms = min(OFFSETS_TIMEOUT_MS, self._cluster.socket_timeout_ms)
        if start:
            consumer.start()
        return consumer

    def _set_membership(self, consumer: SimpleConsumer) -> None:
        super()._set_membership(consumer)
        consumer._engine.membership.out = self._member.sender.commit_refused

    def _join_group(self) -> list[tuple[str, messages.MemberAssignment]]:
        """Join the group once, and return each member's assignment; an empty list if this member is not the leader.

        :raises KafkaException: it failed
        """
        joined = self._await_group(self._member.join)
        if joined.leader != joined.member_id:
            return []
        members = [(member.member_id, bytes(member.metadata)) for member in joined.members]
        return list(self._member.divide(members).items())

    def _sync_group(
        self, group_assignments: Sequence[tuple[str, messages.MemberAssignment]]
    ) -> list[tuple[str, list[int]]]:
        """Return this member's assignment: (topic name, partition ids) pairs.

        :param group_assignments: the result of `_join_group`
        :raises KafkaException: it failed
        """
        assignments = {member: assignment_bytes(assignment) for member, assignment in group_assignments}
        assignment = self._await_group(partial(self._member.sync, assignments))
        return ConsumerProtocolAssignment.from_bytestring(assignment).partition_assignment

    def _await_group(self, ask: Callable[[], T]) -> T:
        """Return the coordinator's answer; an application that waits for it in `start()` counts as alive meanwhile."""
        if getattr(self._here, "is_worker", False):
            return ask()
        activity = self._member.activity
        waiting = activity.waiting  # `consume()` of a forked child starts the consumer, and waits further
        waiting.append(None)
        try:
            return ask()
        finally:
            waiting.pop()
            activity.count += 1

    def _pause(self) -> None:
        """Return no messages for now, and commit those that the application is done with, if auto-commit is on."""
        consumer = self._consumer
        if consumer is None or self._member.generation < 0:
            return
        self._await_processed(consumer)
        with self._rebalancing_lock:
            wanted = self._options.auto_commit_enable and not self._member.topic_is_gone
            if wanted and self._consumer is consumer:
                consumer._auto_commit()

    def _resume(self) -> None:
        consumer = self._consumer
        if consumer is not None and consumer._engine.running:
            consumer._engine.buffers.closed = False
            consumer._engine.arrived()

    # -- errors ------------------------------------------------------------------------------------------------------

    def _build_default_error_handlers(self) -> dict[int, Callable[[], None]]:
        """Return the handler of each error code after which the member continues."""
        return {code: partial(self._member.handle_error, code) for code in EVENT_OF_ERROR}

    def _handle_error(self, error_code: int) -> None:
        """Change the membership as an error code of the coordinator demands.

        :param error_code: not 0
        :raises ProtocolClientError: the error does not pass
        """
        handle = self._default_error_handlers.get(error_code)
        if handle is None:
            raise error_for(error_code, api="group membership")
        handle()


# Old code asks isinstance(consumer, BalancedConsumer) of both kinds.
BalancedConsumer.register(ManagedBalancedConsumer)


def _moves_on(error: KafkaException) -> bool:
    """Return whether an error means that the group has moved on, so that the member joins again at once."""
    return isinstance(error, ProtocolClientError) and EVENT_OF_ERROR.get(error.ERROR_CODE) in {
        Event.OUTDATED,
        Event.LOST,
        Event.REBALANCE,
    }
