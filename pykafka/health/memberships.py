"""`MemberView`: a membership in a group, of whatever protocol: its report, and what keeps the member out of its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import KafkaException, RebalanceInProgress, error_for
from pykafka.groups.coordinator_connection import MOVED
from pykafka.groups.member_epoch import Verdict
from pykafka.health.explanation import Reason, Why, reason_of_error
from pykafka.health.progress import IDLE_S
from pykafka.health.report import MemberHealth

if TYPE_CHECKING:
    from pykafka.consumer.committed_offsets import Membership
    from pykafka.metadata.cluster import BaseCluster

#: A member whose heartbeats have had no answer for this part of its session counts as out of touch.
_OVERDUE = 0.5
#: The codes of heartbeats' answers by which the group does not refuse the member; 0: there was no answer.
_PASSING = MOVED | {0, RebalanceInProgress.ERROR_CODE}


class Calls(Protocol):
    """The calls of an application, as the view of its consumer knows them."""

    @property
    def idle_s(self) -> float: ...  # since the last call that reads; 0.0 while one is under way
    @property
    def has_partitions(self) -> bool: ...
    @property
    def rebalancing_s(self) -> float: ...  # for how long the member has had no stable assignment
    def stack(self) -> str: ...  # where the worker is that has called last, as the end of a sentence


class MemberView:
    """A membership as reports see it.

    :param membership: a `GroupMembership`, or what has its attributes
    :param group: the name of the group
    :param cluster: of the client
    :param calls: of the application
    :param limit_ms: `max_poll_interval_ms`
    :param refused: why the group has refused the member last; None if it is one
    """

    def __init__(
        self,
        membership: Any,
        group: str,
        cluster: BaseCluster,
        calls: Calls,
        limit_ms: int,
        refused: KafkaException | None,
    ) -> None:
        self._membership = membership
        self._chosen: Any = getattr(membership, "chosen", None) or membership  # of "auto" the chosen one
        self._group = group
        self._cluster = cluster
        self._calls = calls
        self._limit_ms = limit_ms
        self._refused = refused
        self._sender: Any = getattr(self._chosen, "heartbeats", None) or getattr(self._chosen, "sender", None)

    def report(self, identity: Membership) -> MemberHealth:
        """Return the report.

        :param identity: generation and member id
        """
        connection = getattr(self._chosen, "connection", None)
        coordinator = None if connection is None else connection.coordinator
        beats = self._heartbeat()
        now = self._cluster.handler.native.now()
        return MemberHealth(
            group=self._group,
            protocol=getattr(self._membership, "protocol", "") or _protocol(self._chosen),
            member_id=str(identity.member_id or ""),
            generation=int(identity.generation_id),
            stable=bool(self._membership.is_stable),
            coordinator=None if coordinator is None else coordinator.address,
            heartbeat_s=None if beats is None else max(now - beats.last_receive, 0.0),
        )

    def refused_topics(self) -> list[tuple[str, Reason]]:
        """Return the topics of the subscription that this client may not read; the member reads the others."""
        watch = getattr(self._chosen, "_topic_watch", None)
        found = []
        for name in sorted(watch.refused_names if watch is not None else ()):
            error = self._cluster.topic_error(name)
            if error is not None:
                found.append((f"topic {name}", reason_of_error(error)))
        return found

    def reason(self) -> Reason | None:
        """Return what keeps the member out of its group; None if nothing does."""
        membership, chosen, calls = self._membership, self._chosen, self._calls
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        connection = getattr(chosen, "connection", None) or getattr(membership, "_connection", None)
        if connection is not None and connection.coordinator is None and not membership.is_stable:
            return self._no_coordinator()
        overdue = self._overdue(connection) or self._outage()
        if overdue is not None:
            return overdue
        if membership.is_stable or (calls.has_partitions and getattr(chosen, "owns_assignment", True)):
            return None
        if calls.idle_s >= IDLE_S:
            text = "the member is not in its group, and joins in the next call that reads"
            return Reason(Why.NOT_A_MEMBER, text + calls.stack(), "call poll() or iterate")
        lasts = f", for {calls.rebalancing_s:.0f} s by now" if calls.rebalancing_s >= IDLE_S else ""
        return Reason(Why.REBALANCING, f"the group rebalances{lasts}", "wait; see the log of other members if it lasts")

    def _refusal(self) -> Reason | None:
        """Return why the group does not have the member; None if it has, or says nothing about it."""
        ended = getattr(self._chosen, "_ended_by", None)
        if isinstance(ended, KafkaException):
            return reason_of_error(ended)
        if self._sender is not None and _has_left(self._sender):
            limit = f"max_poll_interval_ms ({self._limit_ms})"
            text = f"the member has left its group, as the application has not polled for {limit}"
            remedy = "poll more often, handle fewer records between polls, or raise max_poll_interval_ms"
            stack = self._calls.stack()
            return Reason(Why.NOT_A_MEMBER, text + stack, remedy, bool(stack))
        if self._refused is not None and not self._membership.is_stable:
            return reason_of_error(self._refused)
        error = None if self._sender is None or self._calls.idle_s < IDLE_S else _reported(self._sender, self._chosen)
        if error is not None:  # else the call that is under way looks at it
            return reason_of_error(error)
        if getattr(self._sender, "is_waiting_for_instance", False):
            text = "another member has the group_instance_id of this one, which waits until that leaves or its session ends"
            return Reason(Why.NOT_A_MEMBER, text, "give members that run at the same time ids of their own")
        return None

    def _no_coordinator(self) -> Reason:
        if self._calls.idle_s >= IDLE_S:
            text = "the application has not polled" + self._calls.stack()
            return Reason(Why.NOT_POLLED, text, "call poll() or iterate")
        error = self._cluster.metadata_error
        if error is None and self._calls.rebalancing_s < IDLE_S:
            text = "the member joins its group, and asks which broker coordinates it"
            return Reason(
                Why.REBALANCING, text, "wait; see that the brokers which have __consumer_offsets are up if it lasts"
            )
        text = f"the coordinator of group {self._group} is not known" + (f": {error}" if error is not None else "")
        return Reason(Why.NO_COORDINATOR, text, "see that the brokers which have __consumer_offsets are up")

    def _overdue(self, connection: Any) -> Reason | None:
        """Return the reason for a coordinator that takes no heartbeats."""
        beats = self._heartbeat()
        if beats is None or connection is None or connection.coordinator is None:
            return None
        late = self._cluster.handler.native.now() - max(beats.last_receive, beats.last_reset)
        if late < max(beats.timeout * _OVERDUE, beats.interval * 2):
            return None
        text = f"coordinator {connection.coordinator.address} has taken no heartbeat for {late:.0f} s"
        return Reason(
            Why.NO_COORDINATOR, text, "see that this broker is up; after the session the group goes on without us"
        )

    def _outage(self) -> Reason | None:
        """Return the reason for ZooKeeper, if that keeps the group and does not answer."""
        session = getattr(self._chosen, "_session", None)
        state = None if session is None else session.state
        if state is None or not state.is_silent:
            return None
        text = f"ZooKeeper, which keeps the group, has not answered for {state.away_s:.0f} s"
        return Reason(Why.NO_COORDINATOR, text, "see that ZooKeeper is up; the member joins again by itself")

    def _heartbeat(self) -> Any:
        """Return the timer of the member's heartbeats while they go out; None otherwise."""
        sender = self._sender
        return sender.heartbeat if sender is not None and sender.is_sending else None


def _has_left(sender: Any) -> bool:
    """Return whether a member has left because the application took no records for too long."""
    reports = getattr(sender, "reports", None)
    return bool(getattr(sender, "idle", False)) or any(report.idle for report in (reports.copy() if reports else ()))


def _reported(sender: Any, chosen: Any) -> KafkaException | None:
    """Return the last error of heartbeats by which the group refuses the member, which no call has looked at yet."""
    for report in reversed(sender.reports.copy()):
        code = getattr(report, "code", None)
        if code is None:  # KIP-848
            of_now = report.join == sender.joins and report.verdict not in (Verdict.MOVED, Verdict.WAITS)
            if of_now and report.error is not None:
                error: KafkaException = report.error
                return error
        elif code not in _PASSING and chosen.membership.is_present(report.generation_id, report.member_id):
            return error_for(code, broker=report.broker, api="Heartbeat")
    return None


def _protocol(chosen: Any) -> str:
    home = type(chosen).__module__
    return next((name for part, name in _PROTOCOLS.items() if part in home), "auto")


_PROTOCOLS = {"classic": "classic", "kip848": "consumer", "zookeeper": "zookeeper"}
