"""`ConsumerView`: a consumer's state as its engine keeps it: its report, and why each partition stands still. No request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.consumer.lag import lag_of
from pykafka.exceptions import KafkaException
from pykafka.handlers.whereabouts import stack_of
from pykafka.health.explanation import Reason, Why, reason_of_error, silent
from pykafka.health.progress import IDLE_S, Progress, buffered, is_behind
from pykafka.health.report import ConsumerHealth, MemberHealth, PartitionHealth, Problem

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.groups.assignment_follower import AssignmentFollower

#: A broker that owes an answer to a fetch for so long (s), beyond what it may wait for records, counts as silent.
SILENT_S = 3.0
#: What is a problem only once it lasts for `stall_report_ms`, or if that is 0 so long (s): handling records takes its time.
SLOW, SLOW_S = frozenset({Why.NOT_POLLED, Why.BUFFERS_FULL, Why.HELD}), 30.0
#: A member whose heartbeats have had no answer for this part of its session counts as out of touch.
_OVERDUE = 0.5


class ConsumerView:
    """A `KafkaConsumer` as reports see it. It takes no lock of the handler's, so that a native thread may use it.

    :param consumer: a `KafkaConsumer`
    :param asking: what stands for the worker that asks, whose own stack says nothing; None for none
    """

    def __init__(self, consumer: Any, asking: object = None) -> None:
        self._asking = asking
        self._where: str | None = None
        self._member_reason: list[Reason | None] = []
        self.consumer = consumer
        self.engine: ConsumerEngine = consumer._engine
        self._follower: AssignmentFollower = consumer._follower
        self._now: float = self.engine.handler.now()
        if consumer._progress is None:
            consumer._progress = Progress(self._now)
        self._progress: Progress = consumer._progress
        self.engine.progress = self._progress
        self._read_committed = self.engine.options.isolation_level == "read_committed"
        self._is_inside = bool(consumer._reading.locked())
        self._progress.observe(self.engine, self._now, self._is_inside)

    @property
    def name(self) -> str:
        """The consumer's name, for texts."""
        group = self.engine.options.consumer_group
        return f"consumer of {self.engine.name or 'nothing'}" + (f", group {group}" if group else "")

    # -- the report ------------------------------------------------------------------------------------------------

    def report(self) -> ConsumerHealth:
        """Return the report of the consumer; `problems` names partitions that have stood still for a while."""
        engine, commits = self.engine, self.engine.commits
        last_commit = None if commits is None else commits.last_at
        return ConsumerHealth(
            problems=tuple(self._problems()),
            name=engine.name,
            group=engine.options.consumer_group,
            member=self._member(),
            partitions=self._partitions(),
            last_poll_s=self._progress.idle_for(self._now) if self._progress.has_called else None,
            last_commit_s=None if last_commit is None else self._now - last_commit,
            buffered_bytes=engine.buffers.nbytes,
            buffer_limit_bytes=engine.buffers.max_bytes,
        )

    def _partitions(self) -> tuple[PartitionHealth, ...]:
        time_ms, known = self.engine.handler.time_ms(), self.engine.partitions
        return tuple(self._partition(known[key], time_ms) for key in sorted(known))

    def _partition(self, owned: OwnedPartition, time_ms: int) -> PartitionHealth:
        lag = lag_of(owned, self._read_committed, time_ms)
        commits = self.engine.commits
        behind = is_behind(owned)
        return PartitionHealth(
            topic=owned.key.topic,
            partition=owned.key.partition,
            position=owned.position if owned.position >= 0 else None,
            end=lag.end,
            lag=lag.records,
            lag_seconds=lag.seconds,
            committed=None if commits is None else commits.committed(owned.key),
            paused=owned.paused,
            buffered=buffered(owned),
            still_s=self._progress.still_for(owned.key, self._now) if behind else None,
        )

    def _member(self) -> MemberHealth | None:
        membership: Any = self._follower.membership
        if membership is None:
            return None
        chosen = _chosen(membership)
        identity = self.engine.membership
        connection = getattr(chosen, "connection", None)
        coordinator = None if connection is None else connection.coordinator
        beats = _heartbeat(chosen)
        return MemberHealth(
            group=str(self.engine.options.consumer_group),
            protocol=getattr(membership, "protocol", "") or _protocol(chosen),
            member_id=str(identity.member_id or ""),
            generation=int(identity.generation_id),
            stable=bool(membership.is_stable),
            coordinator=None if coordinator is None else coordinator.address,
            heartbeat_s=None if beats is None else max(self._now - beats.last_receive, 0.0),
        )

    def _problems(self) -> list[Problem]:
        engine, found = self.engine, []
        if not engine.running and not engine.starts.due:  # else the next call that reads starts it, in a forked child
            return [Problem("closed", "the consumer is closed", "make another")]
        slow_s = engine.cluster.metrics_settings.stall_report_ms / 1000 or SLOW_S
        membership = self.membership_reason()
        if membership is not None and not membership.is_fine:
            found.append(_problem(membership, f"group {engine.options.consumer_group}", None))
        for key, owned in sorted(engine.partitions.items()):
            still = self._progress.still_for(key, self._now)
            if not is_behind(owned) or (still < IDLE_S and self._is_attached(owned)):
                continue
            reason = self.reason(owned)
            if reason.why in SLOW and still < slow_s:
                continue
            if not reason.is_fine and (membership is None or reason.text != membership.text):
                found.append(_problem(reason, str(key), still))
        commits = engine.commits
        if commits is not None and commits.failing_since is not None:
            text = "auto-commit fails, so records would be handed out again after a restart"
            since = self._now - commits.failing_since
            found.append(Problem("commits-fail", text, "see the log for the coordinator's answer", since))
        return found

    # -- reasons ---------------------------------------------------------------------------------------------------

    def reason(self, owned: OwnedPartition) -> Reason:
        """Return why a partition stands where it stands, from what the client knows."""
        if not self.engine.running or owned.given_up:
            return Reason(Why.CLOSED, "the consumer is closed, or reads the partition no more", "make another")
        if not is_behind(owned) and not owned.paused:
            return self._trouble(owned) or Reason(Why.AT_END, f"at its end, offset {owned.position}")
        if owned.paused:
            return self._paused()
        if not self._member_reason:
            self._member_reason.append(self.membership_reason())
        return self._member_reason[0] or self._unread(owned) or self._trouble(owned) or self._fetched(owned)

    def stalled(self, owned: OwnedPartition, threshold_s: float) -> float | None:
        """Return for how long a partition behind its end has stood still (s); None if not for so long."""
        still = self._progress.still_for(owned.key, self._now)
        return still if still >= threshold_s and is_behind(owned) else None

    def _is_attached(self, owned: OwnedPartition) -> bool:
        return owned.fetcher is not None and owned.trouble_since is None

    def _paused(self) -> Reason:
        run = self.consumer._run
        if run is not None and run.running:
            text = "parallel() has paused it: max_unacknowledged records of it, or bytes, are with handlers"
            return Reason(Why.HELD, text, "make handlers quicker, or give more workers or a larger max_unacknowledged")
        return Reason(Why.PAUSED, "the application has paused it", "call resume()")

    def membership_reason(self) -> Reason | None:
        """Return what keeps the member out of its group; None if nothing does, or the consumer is no member."""
        membership: Any = self._follower.membership
        if membership is None:
            return None
        chosen = _chosen(membership)
        ended = getattr(chosen, "_ended_by", None)
        if isinstance(ended, KafkaException):
            return reason_of_error(ended)
        sender = _sender(chosen)
        if sender is not None and _has_left(sender):
            limit_ms = self._follower._options.max_poll_interval_ms
            text = f"the member has left its group, as the application has not polled for max_poll_interval_ms ({limit_ms})"
            remedy = "poll more often, handle fewer records between polls, or raise max_poll_interval_ms"
            stack = self._stack()
            return Reason(Why.NOT_A_MEMBER, text + stack, remedy, bool(stack))
        connection = getattr(chosen, "connection", None) or getattr(membership, "_connection", None)
        if connection is not None and connection.coordinator is None and not membership.is_stable:
            return self._no_coordinator(str(self.engine.options.consumer_group))
        overdue = self._overdue(chosen, connection)
        if overdue is not None:
            return overdue
        if membership.is_stable or self._has_assignment(chosen):
            return None
        if not self._is_inside and self._progress.idle_for(self._now) >= IDLE_S:
            text = "the member is not in its group, and joins in the next call that reads"
            return Reason(Why.NOT_A_MEMBER, text + self._stack(), "call poll() or iterate")
        return Reason(Why.REBALANCING, "the group rebalances", "wait; see the log of other members if it lasts")

    def _has_assignment(self, chosen: Any) -> bool:
        return bool(self.engine.partitions) and bool(getattr(chosen, "owns_assignment", True))

    def _no_coordinator(self, group: str) -> Reason:
        if not self._is_inside and self._progress.idle_for(self._now) >= IDLE_S:
            return Reason(Why.NOT_POLLED, "the application has not polled" + self._stack(), "call poll() or iterate")
        error = self.engine.cluster.metadata_error
        text = f"the coordinator of group {group} is not known" + (f": {error}" if error is not None else "")
        return Reason(Why.NO_COORDINATOR, text, "see that the brokers which have __consumer_offsets are up")

    def _overdue(self, chosen: Any, connection: Any) -> Reason | None:
        """Return the reason for a coordinator that takes no heartbeats."""
        beats = _heartbeat(chosen)
        if beats is None or connection is None or connection.coordinator is None:
            return None
        late = self.engine.handler.native.now() - max(beats.last_receive, beats.last_reset)
        if late < max(beats.timeout * _OVERDUE, beats.interval * 2):
            return None
        text = f"coordinator {connection.coordinator.address} has taken no heartbeat for {late:.0f} s"
        return Reason(
            Why.NO_COORDINATOR, text, "see that this broker is up; after the session the group goes on without us"
        )

    def _unread(self, owned: OwnedPartition) -> Reason | None:
        """Return why buffered records are not handed out; None if none are buffered."""
        count = buffered(owned)
        if not count and not owned.readers:
            return None
        idle = self._progress.idle_for(self._now)
        if idle < IDLE_S:
            return Reason(Why.READS_ON, f"{count} records are buffered, and the application polls")
        stack, limit_s = self._stack(), self._follower._options.max_poll_interval_ms / 1000
        helps = bool(stack) and self._follower.membership is not None and idle > limit_s
        if self._is_inside:
            text = f"a callback (listener, deserializer or interceptor) has held the call that reads for {idle:.0f} s"
            return Reason(Why.HELD, text + stack, "have it return sooner", helps)
        if owned.buffer_full or self.engine.buffers.nbytes >= self.engine.buffers.max_bytes:
            text = f"the buffers are full ({count} records), and the application has not polled for {idle:.0f} s"
            return Reason(Why.BUFFERS_FULL, text + stack, "poll, or handle records sooner", helps)
        text = f"{count} records are buffered, and the application has not polled for {idle:.0f} s"
        return Reason(Why.NOT_POLLED, text + stack, "poll, or handle records sooner", helps)

    def _stack(self) -> str:
        """Return where the worker is that has polled last, as the end of a sentence; "" if that is not known."""
        if self._where is None:  # once for all partitions
            reader = self.consumer._reader
            stack = "" if reader is None or reader == self._asking else stack_of(reader)
            self._where = f" (its worker is at {stack})" if stack else ""
        return self._where

    def _trouble(self, owned: OwnedPartition) -> Reason | None:
        """Return the error that keeps a partition from being fetched; None if there is none."""
        engine = self.engine
        error = engine.recovery.error_of(owned) or engine.start_lookup.error_of(owned.key)
        if error is not None and (error := self._of_leader(owned, error)) is not None:
            return reason_of_error(error)
        if owned.position < 0:
            return Reason(Why.STARTING, "the client looks up where it begins")
        if owned.fetcher is None and owned.partition.leader is None:
            return Reason(Why.NO_LEADER, "no broker leads it", "start the brokers that have its replicas")
        return None

    @staticmethod
    def _of_leader(owned: OwnedPartition, error: KafkaException) -> KafkaException:
        """Return the error of the leader's connection instead of one that only says that brokers are away."""
        leader = owned.partition.leader
        found = None if leader is None else leader.connect_error
        return found if found is not None and reason_of_error(error).why is Why.UNREACHABLE else error

    def _fetched(self, owned: OwnedPartition) -> Reason:
        """Return why a partition with a fetcher, and without buffered records, has not moved."""
        fetcher, engine = owned.fetcher, self.engine
        if fetcher is None:
            return Reason(Why.STARTING, "the client is about to fetch it")
        broker, name = fetcher.broker, fetcher.channel_name
        throttled = broker.throttled_for(name)
        if throttled > 0:
            text = f"broker {broker.id} ({broker.address}) throttles this client for {throttled * 1000:.0f} ms more"
            return Reason(Why.THROTTLED, text, "raise its quota, or read less")
        if engine.buffers.nbytes >= engine.buffers.max_bytes:
            idle = self._progress.idle_for(self._now)
            text = f"the buffers are full with other partitions; the application has polled {idle:.0f} s ago"
            return Reason(Why.BUFFERS_FULL, text + self._stack(), "poll, or raise queued_max_bytes")
        channel = broker.channel(name)
        error = channel.last_error
        if error is not None:
            return reason_of_error(error)
        owed = channel.silent_for()
        if owed > SILENT_S + engine.options.fetch_wait_max_ms / 1000:
            return silent(broker, owed)
        stable, end = owned.last_stable_offset, owned.high_watermark
        if self._read_committed and 0 <= stable < end and owned.position >= stable:
            text = f"a transaction of another producer is open from offset {stable} on: records up to {end} wait for its end"
            return Reason(Why.OPEN_TRANSACTION, text, "end it, or see `kafka-tools transactions` for one that hangs")
        return Reason(Why.READS_ON, f"fetched from broker {broker.id} ({broker.address})")


def _problem(reason: Reason, about: str, since: float | None) -> Problem:
    return Problem(reason.why.value, f"{about}: {reason.text}", reason.remedy, since, reason.restart_helps)


def _chosen(membership: Any) -> Any:
    """Return the membership of a protocol; of "auto" the chosen one, if there is one."""
    return getattr(membership, "chosen", None) or membership


def _sender(chosen: Any) -> Any:
    return getattr(chosen, "heartbeats", None) or getattr(chosen, "sender", None)


def _has_left(sender: Any) -> bool:
    """Return whether a member has left because the application took no records for too long."""
    reports = getattr(sender, "reports", None)
    return bool(getattr(sender, "idle", False)) or any(report.idle for report in (reports.copy() if reports else ()))


def _heartbeat(chosen: Any) -> Any:
    """Return the timer of a member's heartbeats while they go out; None otherwise."""
    sender = _sender(chosen)
    return sender.heartbeat if sender is not None and sender.is_sending else None


def _protocol(chosen: Any) -> str:
    home = type(chosen).__module__
    return next((name for part, name in _PROTOCOLS.items() if part in home), "auto")


_PROTOCOLS = {"classic": "classic", "kip848": "consumer", "zookeeper": "zookeeper"}
