"""`ShareMember`: the worker that keeps a member in its share group, by heartbeats (KIP-932)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException, UnsupportedVersion, error_for
from pykafka.groups.coordinator_connection import LEAVE_TIMEOUT_MS, CoordinatorConnection
from pykafka.groups.member_epoch import EpochMembership, Event, State, Verdict, verdict
from pykafka.handlers.interrupts import OwnedWorker
from pykafka.metadata.internal_topics import SHARES
from pykafka.metrics.listener import ASSIGNED, FAILED, HEARTBEAT, JOINED
from pykafka.protocol import wire

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: The pause before a heartbeat that failed is sent again (ms); it doubles with each failure.
RETRY_BACKOFF_MS = 100
#: The pause before a member without partitions asks again (s); it doubles, up to the coordinator's interval.
FIRST_HEARTBEAT_S = 0.1
#: Partitions by the id of their topic.
Assignment = dict["UUID", list[int]]


def error_of_worker(worker: OwnedWorker | None) -> BaseException | None:
    """Return the error by which a worker has ended before its time; None if it runs, or was not started."""
    if worker is None or not worker.is_started or worker.is_alive():
        return None
    return worker.error or KafkaException(f"{worker.name} was ended from outside")


class ShareMember:
    """One member of a share group.

    State: `membership` is the worker's. Others read `error` and `member_id`, and set `_topics`.

    :param cluster: that has the group
    :param group: the group
    :param rack: of the member; None for none
    :param assigned: called with each new assignment, by the worker
    :param wake: called when there is an error to read
    :param listener: hears of heartbeats and assignments; None: nobody listens
    """

    def __init__(
        self,
        cluster: BaseCluster,
        group: str,
        rack: str | None,
        assigned: Callable[[Assignment], object],
        wake: Callable[[], object],
        listener: ClientListener | None = None,
    ) -> None:
        self._cluster = cluster
        self._handler = cluster.handler
        self._rack = rack or None
        self._assigned = assigned
        self._notify = wake
        number = self._handler.random.getrandbits(128)
        self.membership = EpochMembership(str(uuid.UUID(int=number, version=4)))
        self.listener = listener
        self.connection = CoordinatorConnection(cluster, group, RETRY_BACKOFF_MS, listener)
        self._topics: list[str] = []
        self._sent_topics: list[str] | None = None
        # Whether the coordinator may have this member: it is one, or an answer to its joining has not come.
        self._may_be_member = False
        self._interval = 0.0
        self._failures = 0
        # Consecutive heartbeats without a partition for this member.
        self._empty_heartbeats, self._has_no_partition = 0, True
        #: Why the group refuses this member; the next call of the application raises it.
        self.error: KafkaException | None = None
        #: Why the last heartbeat has failed; None since one has succeeded.
        self.last_error: KafkaException | None = None
        #: When the coordinator has taken a heartbeat last (s, of the handler's clock); None before the first.
        self.heard_at: float | None = None
        self._wake = self._handler.Event()
        self._stopping = False
        # Whether the worker stops waiting for a response.
        self._stops_waiting = False
        self._worker: OwnedWorker | None = None

    @property
    def member_id(self) -> str:
        """The member's id, for its life."""
        return self.membership.member_id

    @property
    def interval_s(self) -> float:
        """How often the coordinator wants a heartbeat (s); 0.0 before its first answer."""
        return self._interval

    @property
    def has_begun(self) -> bool:
        """Whether the member has ever subscribed."""
        return self._worker is not None and self._worker.is_started

    @property
    def worker_error(self) -> BaseException | None:
        """The error that has ended the worker, which sends no heartbeat any more; None while it runs, or was stopped."""
        return None if self._stopping else error_of_worker(self._worker)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics; the first call joins the group."""
        self._topics = sorted(set(topics))
        if not self.has_begun:
            self._worker = worker = OwnedWorker(
                self._handler, self._run, f"pykafka.ShareMember.{self.connection.group_id}"
            )
            worker.start()
        self._wake.set()

    def take_error(self) -> KafkaException | None:
        """Return the error that was not raised yet, and have the worker try again."""
        error, self.error = self.error, None
        if error is not None:
            self._wake.set()
        return error

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            pause = None if self.error is not None else self._send_heartbeat()
            if not self._stopping:
                self._wake.wait(pause)

    def _send_heartbeat(self) -> float | None:
        """Send one heartbeat; return the pause before the next one (s)."""
        topics = self._topics
        fresh = self.membership.state is not State.MEMBER or topics != self._sent_topics
        began = self._handler.now()
        try:
            broker = self.connection.find()
            if self.connection.closing:  # `leave` may be under way by now, and a heartbeat behind it would join again
                return None
            began = self._handler.now()
            self._may_be_member = True
            response = self._send(broker, topics if fresh else None)
            if self._stopping:
                return None
            if response.error_code:
                raise error_for(
                    response.error_code, response.error_message, broker=broker.address, api="ShareGroupHeartbeat"
                )
        except KafkaException as error:
            return None if self._stopping else self._failed(error)
        self._failures = 0
        self.last_error, self.heard_at = None, self._handler.now()
        self._sent_topics = topics
        if self.listener is not None:
            self._notify_listener(self.listener, response, self._handler.now() - began)
        self.membership.apply(Event.ANSWERED, response.member_epoch)
        self._interval = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            found = {one.topic_id: list(one.partitions) for one in response.assignment.topic_partitions}
            log.info("share group %s: %s has %s", self.connection.group_id, self.member_id, found)
            self._has_no_partition = not found
            self._assigned(found)
        # The coordinator assigns partitions of a new group after a moment, and the next heartbeat returns them.
        self._empty_heartbeats = self._empty_heartbeats + 1 if self._has_no_partition else 0
        if self._has_no_partition:
            self._cluster.internal_topics.waits(SHARES, f"share group {self.connection.group_id}")
        return (
            min(self._interval, FIRST_HEARTBEAT_S * 2.0 ** min(self._empty_heartbeats, 10))
            if self._has_no_partition
            else self._interval
        )

    def _notify_listener(
        self, listener: ClientListener, response: wire.ShareGroupHeartbeatResponse, seconds: float
    ) -> None:
        """Notify the listener of the answer to a heartbeat.

        :param seconds: that the broker took
        """
        about = f"share group {self.connection.group_id}"
        listener.on_event(HEARTBEAT, about, seconds)
        if self.membership.state is not State.MEMBER:
            listener.on_event(JOINED, about, seconds, f"epoch {response.member_epoch}, member {self.member_id}")
        if response.assignment is not None:
            count = sum(len(part.partitions) for part in response.assignment.topic_partitions)
            listener.on_event(ASSIGNED, about, 0.0, f"{count} partitions")

    def _send(
        self, broker: Node, topics: list[str] | None, deadline: float | None = None
    ) -> wire.ShareGroupHeartbeatResponse:
        if not broker.has(wire.ShareGroupHeartbeatRequest, self.connection.limit_ms(deadline)):
            raise UnsupportedVersion(
                f"share group {self.connection.group_id}: brokers keep share groups from Kafka 4.1 on, by default from 4.2 on "
                "(feature share.version 1)",
                broker=broker.address,
                api="ShareGroupHeartbeat",
            )
        request = wire.ShareGroupHeartbeatRequest(
            group_id=self.connection.group_id,
            member_id=self.member_id,
            member_epoch=self.membership.epoch,
            rack_id=self._rack if topics is not None else None,
            subscribed_topic_names=topics,
        )
        is_last = deadline is not None
        return self.connection.call(request, broker, deadline, is_needed=lambda: is_last or not self._stops_waiting)

    def _failed(self, error: KafkaException) -> float | None:
        """Handle an error; return the pause before the next heartbeat (s)."""
        self.last_error = error.again()
        if self.listener is not None:
            self.listener.on_event(FAILED, f"share group {self.connection.group_id}", 0.0, error)
        code = getattr(error, "ERROR_CODE", 0)
        is_member = self.membership.state is State.MEMBER
        found = verdict(code, error.retriable, is_member) if code else Verdict.MOVED
        if found is not Verdict.MOVED:
            self._may_be_member = False
        if found is Verdict.FENCED:
            log.warning("share group %s: %s; joining again", self.connection.group_id, error)
            self.membership.apply(Event.FENCED)
            self._assigned({})
            return 0.0 if self._count() == 1 else self._pause()
        if found is Verdict.MOVED:
            self._count()
            self._cluster.limiter.warn(
                log, self.connection.group_id, "share group %s: %s; trying again", self.connection.group_id, error
            )
            self.connection.mark_unknown(error)
            return self._pause()
        self._on_fatal_error(error)
        return None

    def _on_fatal_error(self, error: KafkaException) -> None:
        self.membership.apply(Event.FENCED)
        self._assigned({})
        self.error = error.again()
        self._notify()

    def _count(self) -> int:
        self._failures += 1
        return self._failures

    def _pause(self) -> float:
        return min(1.0, RETRY_BACKOFF_MS / 1000 * 2.0 ** min(self._failures, 10))

    # -- the end ---------------------------------------------------------------------------------------------------

    def leave(self, deadline: float) -> None:
        """End the heartbeats, and leave the group; if that fails, the session times out.

        :param deadline: until when (s)
        """
        self._stopping = self.connection.closing = True
        self._wake.set()
        worker = self._worker
        if worker is not None and not worker.join(max(0.0, min(0.5, deadline - self._handler.now()))):
            self._stops_waiting = True
            # Half of the time is for leaving: the worker may look for a coordinator behind brokers that do not answer.
            worker.join(max(0.0, (deadline - self._handler.now()) / 2))
        self.membership.apply(Event.LEFT)
        if not self._may_be_member or self._cluster.closed:
            return
        left_ms = round((deadline - self._handler.now()) * 1000)
        if left_ms > 0:
            self.connection.leave_by(self._leave_once, self.member_id, min(left_ms, LEAVE_TIMEOUT_MS))
        else:
            text = "share group %s: there was no time left for leaving, so the session of %s has to time out"
            log.warning(text, self.connection.group_id, self.member_id)

    def _leave_once(self, coordinator: Node, deadline: float) -> int:
        return self._send(coordinator, None, deadline).error_code

    def abandon(self) -> None:
        """End soon, without waiting."""
        self._stopping = self.connection.closing = True
        self._wake.set()
