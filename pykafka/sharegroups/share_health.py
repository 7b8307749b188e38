"""`ShareView`: the state of a share consumer as its engine keeps it: its report, and what is wrong. It sends no request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka.groups.member_epoch import State
from pykafka.handlers.whereabouts import stack_of
from pykafka.health.explanation import Explanation, Reason, Why, connecting, problem_of, reason_of_error, silent
from pykafka.health.progress import IDLE_S
from pykafka.health.report import MemberHealth, Problem, ShareConsumerHealth
from pykafka.health.view import Stalled, View
from pykafka.sharegroups.acquired_records import State as Acquired

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.sharegroups.engine import ShareEngine
    from pykafka.sharegroups.session_worker import SessionWorker

#: A broker that owes an answer to a fetch for so long (s), beyond what it may wait for records, counts as silent.
SILENT_S = 3.0
#: A coordinator that has taken no heartbeat for so many intervals counts as away.
MISSED = 3
#: What lasts for so long (s) is a problem if `stall_report_ms` is 0.
SLOW_S = 30.0


class ShareView(View):
    """A `ShareConsumer` as reports see it. It takes no lock of the handler's, so that a native thread may use it.

    :param consumer: a `ShareConsumer`
    :param asking: what stands for the worker that asks, whose own stack says nothing; None for none
    """

    def __init__(self, consumer: Any, asking: object = None) -> None:
        self.engine: ShareEngine = consumer._engine
        self._asking = asking
        self._is_open: bool = consumer._is_open
        self._now: float = self.engine.handler.now()
        self._is_inside: bool = consumer._reading.locked()
        self._slow_s = self.engine.cluster.metrics_settings.stall_report_ms / 1000 or SLOW_S

    @property
    def name(self) -> str:
        """The consumer's name, for texts."""
        return f"share consumer of {', '.join(self.engine.topics) or 'nothing'}, group {self.engine.options.group}"

    @property
    def _idle_s(self) -> float:
        """Since when the application has made no call that reads (s); 0.0 while one waits for records."""
        called_at = self.engine.called_at
        waits = self._is_inside and not self.engine.buffered
        return 0.0 if called_at is None or waits else max(self._now - called_at, 0.0)

    def report(self) -> ShareConsumerHealth:
        """Return the report of the consumer."""
        engine = self.engine
        acquired = sum(session.session_records.count for session in engine.sessions)
        buffered = engine.buffered
        return ShareConsumerHealth(
            problems=tuple(self._problems()),
            name=", ".join(engine.topics),
            group=str(engine.options.group),
            member=self._member() if engine.member.has_begun else None,
            partitions=tuple(str(key) for key in sorted(self._partitions())),
            buffered=buffered,
            unacknowledged=max(acquired - buffered, 0),
            lock_timeout_ms=engine.lock_timeout_ms,
            last_poll_s=None if engine.called_at is None else self._idle_s,
            errors=tuple(_text(error) for error in engine.pending_errors),
        )

    def _partitions(self) -> dict[TopicPartition, SessionWorker]:
        return {key: session for session in self.engine.sessions for key in session.wanted.copy()}

    def _member(self) -> MemberHealth:
        member = self.engine.member
        coordinator, heard_at = member.connection.coordinator, member.heard_at
        is_member = member.membership.state is State.MEMBER
        return MemberHealth(
            group=str(self.engine.options.group),
            protocol="share",
            member_id=member.member_id,
            generation=member.membership.epoch if is_member else -1,
            stable=is_member,
            coordinator=None if coordinator is None else coordinator.address,
            heartbeat_s=None if heard_at is None else max(self._now - heard_at, 0.0),
        )

    def _problems(self) -> list[Problem]:
        if not self._is_open:
            return [Problem("closed", "the share consumer is closed", "make another")]
        about = f"share group {self.engine.options.group}"
        whole = self.whole()
        found = [] if whole is None or not self._is_problem(whole) else [problem_of(whole, about, None)]
        for key, reason in sorted(self._reasons().items()):
            if not reason.is_fine:
                found.append(problem_of(reason, str(key), None))
        texts = {problem.text for problem in found}
        for error in self.engine.pending_errors:
            problem = problem_of(reason_of_error(error), about, None)
            if problem.text not in texts:
                found.append(problem)
        return found

    def _is_problem(self, reason: Reason) -> bool:
        """Return whether a reason is a problem already: handling records takes its time."""
        return not reason.is_fine and (reason.why not in (Why.NOT_POLLED, Why.HELD) or self._idle_s >= self._slow_s)

    # -- reasons ---------------------------------------------------------------------------------------------------

    def whole(self) -> Reason | None:
        """Return what keeps the consumer from its records as a whole; None for nothing."""
        if not self._is_open:
            return Reason(Why.CLOSED, "the share consumer is closed", "make another")
        return self._ended() or self._membership() or self._unread()

    def _ended(self) -> Reason | None:
        """Return the reason for a worker that has ended by an error."""
        for session in self.engine.sessions:
            if (error := session.worker_error) is not None:
                text = f"the worker that reads from broker {session.broker.id} has ended by {_text(error)}"
                return Reason(Why.WORKER_ENDED, text, "close the share consumer and make another", True)
        error = self.engine.member.worker_error
        if error is None:
            return None
        text = f"the worker that sends heartbeats has ended by {_text(error)}, so the group goes on without this member"
        return Reason(Why.WORKER_ENDED, text, "close the share consumer and make another", True)

    def _membership(self) -> Reason | None:
        member = self.engine.member
        if member.last_error is not None:
            reason = reason_of_error(member.last_error)
            if reason.why is not Why.UNREACHABLE:
                return reason
            text = f"the coordinator takes no heartbeat: {reason.text}"
            return Reason(Why.NO_COORDINATOR, text, "see that the brokers which have __consumer_offsets are up")
        heard_at, coordinator = member.heard_at, member.connection.coordinator
        if heard_at is None or coordinator is None:
            return None
        late = self._now - heard_at
        if late < max(member.interval_s * MISSED, SILENT_S):
            return None
        text = f"coordinator {coordinator.address} has taken no heartbeat for {late:.0f} s"
        return Reason(Why.NO_COORDINATOR, text, "see that this broker is up; the member joins again by itself")

    def _unread(self) -> Reason | None:
        """Return why acquired records are not handed out or acknowledged; None if none wait, or the application polls."""
        count, idle = self.engine.buffered, self._idle_s
        if idle < IDLE_S:
            return None
        delivered = [
            one
            for session in self.engine.sessions
            for one in session.session_records
            if one.state is Acquired.DELIVERED
        ]
        if not count and not delivered:
            return None
        stack = "" if self.engine.caller == self._asking else stack_of(self.engine.caller)
        where = f" (its worker is at {stack})" if stack else ""
        if self._is_inside:
            text = f"a callback (on_acknowledge or a deserializer) has held the call that reads for {idle:.0f} s"
            return Reason(Why.HELD, text + where, "have it return sooner")
        late = sum(one.expires_at < self._now for one in delivered)
        if late:
            text = f"the application has not polled for {idle:.0f} s, and the locks of {late} of its records have timed out"
            return Reason(Why.HELD, text + where, "others may have them by now: handle records sooner, or renew them")
        what = f"{count} records are acquired" if count else f"{len(delivered)} records are not acknowledged"
        text = f"{what}, and the application has not polled for {idle:.0f} s{where}"
        return Reason(Why.NOT_POLLED, text, "poll, or handle records sooner")

    def _reasons(self) -> dict[TopicPartition, Reason]:
        """Return how each partition is read."""
        found = {key: self._of_session(session) for key, session in self._partitions().items()}
        if self._idle_s < IDLE_S:  # else they were not tried again
            found |= {key: reason_of_error(error) for key, (error, _) in self.engine.trouble.items()}
        return found

    def stalls(self, threshold_s: float) -> Iterable[tuple[object, Stalled]]:
        """Return the partitions that brokers have not let be read for so long (s) although the application asks for records."""
        for key, (error, since) in self.engine.trouble.items() if self._idle_s < IDLE_S else ():
            seconds = self._now - since
            if seconds >= threshold_s:
                reason = reason_of_error(error)
                yield key, Stalled(self.name, key.topic, key.partition, seconds, reason.why, str(reason))

    def _of_session(self, session: SessionWorker) -> Reason:
        channel, broker = session.connection, session.broker
        throttled = 0.0 if channel is None else max(channel.throttled_until - self._now, 0.0)
        if throttled > 0:
            text = f"broker {broker.id} ({broker.address}) throttles this client for {throttled * 1000:.0f} ms more"
            return Reason(Why.THROTTLED, text, "raise its quota, or read less")
        error = None if channel is None or self._idle_s >= IDLE_S else channel.last_error
        if error is not None:
            return reason_of_error(error)
        owed = 0.0 if channel is None else channel.silent_for()
        if owed > SILENT_S + self.engine.options.fetch_max_wait_ms / 1000:
            return silent(broker, owed)
        waits = self.engine.waiting_s if self._is_inside else 0.0
        if channel is not None and channel.is_connecting and waits > SILENT_S:
            return connecting(broker, waits)
        return Reason(Why.READS_ON, f"taken from broker {broker.id} ({broker.address})")

    def explain(self) -> Explanation:
        """Return what keeps the consumer, and each of its partitions, from being read; `print()` shows a line for each."""
        whole = self.whole()
        lines = [] if whole is None else [("the share consumer", whole)]
        lines += [(str(key), reason) for key, reason in sorted(self._reasons().items())]
        return Explanation(self.name, tuple(lines))


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
