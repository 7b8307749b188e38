"""`ConsumerView`: a consumer's state as its engine keeps it: its report, and why each partition stands still. No request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka.consumer.lag import lag_of
from pykafka.handlers.whereabouts import stack_of
from pykafka.health.explanation import Reason, Why, connecting, problem_of, reason_of_error, silent
from pykafka.health.memberships import MemberView
from pykafka.health.progress import IDLE_S, Progress, buffered, is_behind
from pykafka.health.report import ConsumerHealth, MemberHealth, PartitionHealth, Problem
from pykafka.health.view import Stalled, View

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.exceptions import KafkaException

#: A broker that owes an answer to a fetch for so long (s), beyond what it may wait for records, counts as silent.
SILENT_S = 3.0
#: What is a problem only once it lasts for `stall_report_ms`, or if that is 0 so long (s): handling records takes its time.
SLOW, SLOW_S = frozenset({Why.NOT_POLLED, Why.BUFFERS_FULL, Why.HELD}), 30.0


class ConsumerView(View):
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
        self._now: float = self.engine.handler.now()
        if consumer._progress is None:
            consumer._progress = Progress(self._now)
        self._progress: Progress = consumer._progress
        self.engine.progress = self._progress
        self._read_committed = self.engine.options.isolation_level == "read_committed"
        self._is_inside = self._find_inside()
        self._progress.observe(self.engine, self._now, self._is_inside)
        self._member = self._find_member()

    def _find_inside(self) -> bool:
        """Return whether a call of the application is under way that reads."""
        return bool(self.consumer._reading.locked())

    def _find_member(self) -> MemberView | None:
        """Return the membership; None for none. This takes a sample of it."""
        follower = self.consumer._follower
        membership: Any = follower.membership
        self._progress.settle(membership is None or membership.is_stable or self.has_partitions, self._now)
        if membership is None:
            return None
        group, limit_ms = str(self.engine.options.consumer_group), follower._options.max_poll_interval_ms
        return MemberView(membership, group, self.engine.cluster, self, limit_ms, follower.refused)

    @property
    def name(self) -> str:
        """The consumer's name, for texts."""
        group = self.engine.options.consumer_group
        return f"consumer of {self._topics or 'nothing'}" + (f", group {group}" if group else "")

    @property
    def _topics(self) -> str:
        """The topics that the consumer reads, or has subscribed to while it has no partition of them."""
        names, pattern = self.consumer._subscribed
        return self.engine.name or ", ".join(names) or (f"{pattern.pattern!r}" if pattern is not None else "")

    @property
    def starts_later(self) -> bool:
        """Whether the next call that reads starts the consumer, in a forked child."""
        return not self.engine.running and self.engine.starts.due

    # -- the calls of the application ------------------------------------------------------------------------------

    @property
    def idle_s(self) -> float:
        """Since when the application has made no call that reads (s); 0.0 while one is under way."""
        return 0.0 if self._is_inside else self._progress.idle_for(self._now)

    @property
    def has_partitions(self) -> bool:
        """Whether the consumer reads any partition."""
        return bool(self.engine.partitions)

    @property
    def rebalancing_s(self) -> float:
        """For how long the member has had no stable assignment (s)."""
        return self._progress.unsettled_for(self._now)

    def stack(self) -> str:
        """Return where the worker is that has polled last, as the end of a sentence; "" if that is not known."""
        if self._where is None:  # once for all partitions
            reader = self.consumer._reader
            self._where = "" if reader == self._asking else _at(reader)
        return self._where

    @property
    def _slow_s(self) -> float:
        """How long that may last which is a problem only once it lasts (s)."""
        return self.engine.cluster.metrics_settings.stall_report_ms / 1000 or SLOW_S

    @property
    def _limit_s(self) -> float:
        """How long the application may take between calls before a restart mends it (s)."""
        return float(self.consumer._follower._options.max_poll_interval_ms / 1000)

    @property
    def _handle_limit_s(self) -> float:
        """How long a call of a handler of `parallel()` may take before a restart mends it (s)."""
        limit = None if self._run is None else self._run._handle_timeout
        return math.inf if limit is None else float(limit)

    @property
    def _run(self) -> Any:
        """The run of `parallel()` that reads the consumer; None for none."""
        run = self.consumer._run
        return run if run is not None and run.running else None

    # -- the report ------------------------------------------------------------------------------------------------

    def report(self) -> ConsumerHealth:
        """Return the report of the consumer; `problems` names partitions that have stood still for a while."""
        engine, commits = self.engine, self.engine.commits
        last_commit = None if commits is None else commits.last_at
        return ConsumerHealth(
            problems=tuple(self._problems()),
            name=self._topics,
            group=engine.options.consumer_group,
            member=self._member_report(),
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

    def _member_report(self) -> MemberHealth | None:
        return None if self._member is None else self._member.report(self.engine.membership)

    def _problems(self) -> list[Problem]:
        engine, found = self.engine, []
        if not engine.running:
            return [] if self.starts_later else [Problem("closed", "the consumer is closed", "make another")]
        membership = self.membership_reason()
        is_problem = membership is not None and (not membership.is_fine or self.rebalancing_s >= self._slow_s)
        if membership is not None and is_problem:
            found.append(problem_of(membership, f"group {engine.options.consumer_group}", self.rebalancing_s or None))
        for about, reason in () if self._member is None else self._member.refused_topics():
            found.append(problem_of(reason, about, None))
        hung = self._hung()
        if hung is not None:
            found.append(problem_of(hung, "parallel()", self._oldest_call()[0]))
        for key, owned in sorted(engine.partitions.items()):
            still = self._progress.still_for(key, self._now)
            if not is_behind(owned) or (still < IDLE_S and self._is_attached(owned)):
                continue
            reason = self.reason(owned)
            if reason.why in SLOW and still < self._slow_s:
                continue
            if not reason.is_fine and (membership is None or reason.text != membership.text):
                found.append(problem_of(reason, str(key), still))
        commits = engine.commits
        if commits is not None and commits.failing_since is not None:
            text = "auto-commit fails, so records would be handed out again after a restart"
            since = self._now - commits.failing_since
            found.append(Problem("commits-fail", text, "see the log for the coordinator's answer", since))
        return found

    def stalls(self, threshold_s: float) -> Iterable[tuple[object, Stalled]]:
        """Return the partitions behind their end that have stood still for so long (s), but for paused ones."""
        for key, owned in self.engine.partitions.items() if self.engine.running else ():
            seconds = self._progress.still_for(key, self._now)
            if seconds < threshold_s or not is_behind(owned):
                continue
            reason = self.reason(owned)
            if reason.why is not Why.PAUSED:
                yield key, Stalled(self.name, key.topic, key.partition, seconds, reason.why, str(reason))

    # -- reasons ---------------------------------------------------------------------------------------------------

    def whole(self) -> Reason | None:
        """Return why the consumer stands still as a whole: its group does not have it, or a handler has hung."""
        hung = self._hung()
        if hung is not None and hung.unready:
            return hung
        if self.has_partitions:
            return None
        # before its first call an application may take its time
        return self.membership_reason() if self._progress.has_called else None

    def reason(self, owned: OwnedPartition) -> Reason:
        """Return why a partition stands where it stands, from what the client knows."""
        if self.starts_later:
            return Reason(
                Why.STARTING, "the next call that reads starts the consumer in this process, which was forked"
            )
        if not self.engine.running or owned.given_up:
            return Reason(Why.CLOSED, "the consumer is closed, or reads the partition no more", "make another")
        if not is_behind(owned) and not owned.paused:
            return self._trouble(owned) or Reason(Why.AT_END, f"at its end, offset {owned.position}")
        if owned.paused:
            return self._paused()
        if not self._member_reason:
            self._member_reason.append(self.membership_reason())
        return self._member_reason[0] or self._unread(owned) or self._trouble(owned) or self._fetched(owned)

    def membership_reason(self) -> Reason | None:
        """Return what keeps the member out of its group; None if nothing does, or the consumer is no member."""
        return None if self._member is None or self.starts_later else self._member.reason()

    def _is_attached(self, owned: OwnedPartition) -> bool:
        return owned.fetcher is not None and owned.trouble_since is None

    def _paused(self) -> Reason:
        if self._run is None:
            return Reason(Why.PAUSED, "the application has paused it", "call resume()")
        seconds, where = self._oldest_call()
        is_late = seconds > self._handle_limit_s
        text = "parallel() has paused it: max_unacknowledged records of it, or bytes, are with handlers"
        if seconds >= IDLE_S:
            text += f", the oldest for {seconds:.0f} s{where}"
        remedy = "make handlers quicker, or give more workers or a larger max_unacknowledged"
        # what no handler has at present waits for its ack() or another attempt: that is not work
        return Reason(Why.HELD, text, remedy, bool(where) and is_late, is_late or not seconds)

    def _oldest_call(self) -> tuple[float, str]:
        """Return how long the longest of the present calls of handlers has lasted (s), and where it is."""
        run = self._run
        call = None if run is None else run._oldest_call
        if call is None:
            return 0.0, ""
        began, worker = call
        return max(self._now - began, 0.0), _at(worker)

    def _hung(self) -> Reason | None:
        """Return the reason for a handler of `parallel()` that has had one record for long.

        It is at work: only if it takes longer than `handle_timeout`, anything is wrong with the consumer.
        """
        (seconds, where), limit_s = self._oldest_call(), self._handle_limit_s
        if seconds <= min(limit_s, self._slow_s):
            return None
        text = f"a handler has had one record for {seconds:.0f} s{where}"
        if seconds <= limit_s:
            remedy = "nothing, if that is its work; handle_timeout of parallel() says from when on it counts as hung"
            return Reason(Why.HELD, text, remedy, unready=False)
        text += f", longer than handle_timeout ({limit_s:g} s)"
        return Reason(Why.HELD, text, "find out what it waits for, and give that a timeout", bool(where))

    def _unread(self, owned: OwnedPartition) -> Reason | None:
        """Return why buffered records are not handed out; None if none are buffered."""
        count = buffered(owned)
        if not count and not owned.readers:
            return None
        idle = self._progress.idle_for(self._now)
        if idle < IDLE_S:
            return Reason(Why.READS_ON, f"{count} records are buffered, and the application polls")
        stack = self.stack()
        helps = bool(stack) and self._member is not None and idle > self._limit_s
        if self._is_inside:
            text = f"a callback (listener, deserializer or interceptor) has held the call that reads for {idle:.0f} s"
            return Reason(Why.HELD, text + stack, "have it return sooner", helps)
        if owned.buffer_full or self.engine.buffers.nbytes >= self.engine.buffers.max_bytes:
            text = f"the buffers are full ({count} records), and the application has not polled for {idle:.0f} s"
            return Reason(Why.BUFFERS_FULL, text + stack, "poll, or handle records sooner", helps)
        text = f"{count} records are buffered, and the application has not polled for {idle:.0f} s"
        return Reason(Why.NOT_POLLED, text + stack, "poll, or handle records sooner", helps)

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
            return Reason(Why.BUFFERS_FULL, text + self.stack(), "poll, or raise queued_max_bytes")
        channel = broker.find_channel(name)
        error = None if channel is None else channel.last_error
        if error is not None:
            return reason_of_error(error)
        owed = 0.0 if channel is None else channel.silent_for()
        if owed > SILENT_S + engine.options.fetch_wait_max_ms / 1000:
            return silent(broker, owed)
        still = self._progress.still_for(owned.key, self._now)
        if channel is not None and channel.is_connecting and still > SILENT_S:
            return connecting(broker, still)
        stable, end = owned.last_stable_offset, owned.high_watermark
        if self._read_committed and 0 <= stable < end and owned.position >= stable:
            text = f"a transaction of another producer is open from offset {stable} on: records up to {end} wait for its end"
            return Reason(Why.OPEN_TRANSACTION, text, "end it, or see `kafka-tools transactions` for one that hangs")
        return Reason(Why.READS_ON, f"fetched from broker {broker.id} ({broker.address})")


def _at(worker: object) -> str:
    """Return where a worker is, as the end of a sentence; "" if that is not known."""
    stack = "" if worker is None else stack_of(worker)
    return f" (its worker is at {stack})" if stack else ""
