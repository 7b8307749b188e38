"""`ZooKeeperSession`: a member's session in ZooKeeper, and whether the member can rely on it."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import AuthFailedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState

from pykafka.exceptions import ZooKeeperError
from pykafka.handlers.interrupts import FinalSteps, OwnedWorker
from pykafka.metadata.zookeeper import KAZOO_S, agreed_timeout_s, answered, end_session, new_client

if TYPE_CHECKING:
    from pykafka.handlers import Handler

#: The exceptions that kazoo itself sets as the outcome of a request, without an answer from ZooKeeper.
UNANSWERED = (AuthFailedError, ConnectionLoss, SessionExpiredError)
#: The name of an attribute of a KazooClient: its session states.
SESSION_STATES = "_pykafka_session_states"

log = logging.getLogger(__name__)

#: How often the session's worker checks for signs of life of the application (s).
ACTIVITY_POLL_INTERVAL_S = 1.0
#: The shortest pause between these checks (s).
SHORTEST_PAUSE_S = 0.05
#: For how long an answer to `Tenure.may_read` holds (s): an application may ask for each message.
READ_CHECK_S = 0.001
#: Returns a number that grows with each call of the application, and whether it waits; None after the consumer's end.
SignsOfLife = Callable[[], "tuple[int, bool] | None"]


class _SentRequests:
    """Requests that went out together; ZooKeeper answers in order, so the last one's answer ends them.

    :param sent_at: when the first went out, of the handler's clock (s)
    :param heard_at: the moment before, at which ZooKeeper has certainly heard of the session
    :param result: of the last one
    """

    def __init__(self, sent_at: float, heard_at: float, result: Any) -> None:
        self.sent_at = sent_at
        self.heard_at = heard_at
        self.result = result
        #: Whether a caller has waited for an answer in vain.
        self.missed = False

    @property
    def is_answered(self) -> bool:
        return bool(self.result.ready()) and not isinstance(self.result.exception, UNANSWERED)


class Tenure:
    """The partitions that a member has taken in one session: over once that has ended, also if there is another by then.

    State: `_until` is stored by any worker that reads.

    :param state: of the session
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._session = state.session
        self._until = -math.inf

    def may_commit(self) -> bool:
        """Return whether this member still owns its partitions, so that its positions may be committed."""
        return self._session is self._state.session and self._state.may_own()

    def may_read(self) -> bool:
        """Return whether messages may be handed out; False from the moment on at which partitions have to be revoked."""
        now = self._state.now()
        if now < self._until:
            return True
        if not self.may_commit() or self._state.sure_s <= 0:
            return False
        self._until = now + READ_CHECK_S
        return True


class SessionState:
    """A session in ZooKeeper: whether it is lost, and how long it certainly lasts.

    ZooKeeper ends a session when it has heard nothing of it for its timeout, T. kazoo sends something every T/3 at the
    latest, and reports the connection lost if a ping has no answer after another T/3: 2T/3 after ZooKeeper has last heard of
    it. But each request puts kazoo's ping off, so that a client that continues to ask would learn nothing from kazoo. So a
    request without an answer counts as well, from the moment when it was sent; and while an answer is due, nothing is sent,
    so that kazoo pings, and connects to another server of the ensemble. That holds for all session states of one client
    together, as kazoo pings for all of them.

    State: changes by single assignments: kazoo's workers store `suspended_since`, `lost` and `session`, the worker that asks
    the rest; both store `_sent`, kazoo's when a connection is there again or the session is lost. The session states of a
    client are in a dict of its, of which each call is atomic.

    :param handler: supplies the clock
    :param client: a KazooClient
    :param changed: called when the session's state changes, and by an answer that was given up; must not wait
    :param heard_at: a moment before kazoo has connected, of the handler's clock (s)
    """

    def __init__(
        self, handler: Handler, client: Any, changed: Callable[[], object], heard_at: float = -math.inf
    ) -> None:
        self._handler = handler
        self.client = client
        self._changed = changed
        self._heard_at = heard_at
        self._sent: _SentRequests | None = None
        self._ended = False
        self.now = handler.now
        #: Why the session's nodes are gone; "" while they are there, and again when the member has begun anew.
        self.lost = ""
        #: Stands for the session: another object from its loss on.
        self.session = object()
        #: Since when the connection has been lost, of the handler's clock (s); None while it is there.
        self.suspended_since: float | None = None
        #: All session states of the client, by identity.
        self._of_client: dict[int, SessionState] = vars(client).setdefault(SESSION_STATES, {})
        self._of_client[id(self)] = self
        client.add_listener(self._session_changed)

    # -- the session -----------------------------------------------------------------------------------------------------

    @property
    def timeout_s(self) -> float:
        """The session timeout (s): as agreed, or as asked for if the application has connected."""
        return agreed_timeout_s(self.client)

    @property
    def connected(self) -> bool:
        """Whether there is a connection, as far as kazoo knows."""
        return bool(self.client.connected)

    @property
    def is_silent(self) -> bool:
        """Whether the connection is lost, or a caller has waited in vain for an answer that is due."""
        return (
            self.suspended_since is not None
            or not self.connected
            or any(request.missed for request in self._all_unanswered())
        )

    @property
    def away_s(self) -> float:
        """How long ZooKeeper has not answered (s); 0 while it does."""
        suspended, now = self.suspended_since, self._handler.now()
        return now - min(
            [now if suspended is None else suspended, *(request.sent_at for request in self._all_unanswered())]
        )

    @property
    def sure_s(self) -> float:
        """The time until partitions have to be revoked (s): a twelfth of T before the session may end, for commits."""
        return self._left_s - self.timeout_s / 12

    def may_own(self) -> bool:
        """Return whether this member still owns its partitions: when its session has ended, other members may take them."""
        return not self.lost and self._left_s >= 0

    def tenure(self) -> Tenure:
        """Return what stands for the partitions that the member takes from now on: before it asks which are its own."""
        return Tenure(self)

    def lose(self, why: str) -> None:
        """Note that the session's nodes are gone, with each tenure."""
        self.session = object()  # first: a tenure of this moment has to wait for the next `lost = ""`
        self.lost = why

    def give_up(self) -> None:
        """End each tenure, as this member releases its partitions: a commit that is tried again then must not be made."""
        self.session = object()

    @property
    def _left_s(self) -> float:
        """How long the session certainly lasts (s); infinite while ZooKeeper answers."""
        timeout_s, suspended = self.timeout_s, self.suspended_since
        ends = math.inf if suspended is None else suspended + timeout_s / 3
        return min([ends, *(request.heard_at + timeout_s for request in self._all_unanswered())]) - self._handler.now()

    @property
    def _unanswered(self) -> _SentRequests | None:
        """The requests of this state that ZooKeeper has not answered."""
        sent = self._sent
        if sent is None or sent.is_answered:
            return None
        # kazoo ends requests when it loses a connection: before it says so, but after it has marked itself unconnected
        return None if sent.result.ready() and self.connected else sent

    def _all_unanswered(self) -> list[_SentRequests]:
        """Return the requests of all session states of the client that ZooKeeper has not answered, the oldest first."""
        requests = []
        for key, state in list(self._of_client.items()):
            request = state._unanswered
            if request is not None:
                requests.append(request)
            elif state._ended:
                self._of_client.pop(key, None)
        return sorted(requests, key=lambda request: request.sent_at)

    def session_id(self, topic: str) -> int:
        """Return the session's number, which the nodes of this session have.

        :param topic: for errors
        :raises ZooKeeperError: there is no connection
        """
        session = self.client.client_id
        if session is None:
            raise ZooKeeperError("the connection to ZooKeeper was lost", topic=topic)
        return int(session[0])

    # -- requests --------------------------------------------------------------------------------------------------------

    def ask(
        self, name: str, paths: Sequence[str], timeout_s: float, *args: Any, topic: str, **kwargs: Any
    ) -> list[Any]:
        """Send the same request about some paths, and return kazoo's results; first wait for an answer that is due.

        :param name: of the request, such as "get"
        :param timeout_s: how long to wait for the answer that is due (s)
        :param args: of the request, after the path
        :param topic: for errors
        :param kwargs: as `args`
        :raises ZooKeeperError: an earlier request has no answer yet
        """
        unanswered = self._all_unanswered()
        if unanswered:
            unanswered[-1].result.wait(self._limit_s(timeout_s))
            late = next((request for request in unanswered if not request.is_answered), None)
            if late is not None:
                self._miss(late)
                raise ZooKeeperError(
                    f"ZooKeeper has not answered for {self.away_s:.1f} s; check that it is up and can be reached",
                    topic=topic,
                )
        sent = self._sent
        if sent is not None and sent.is_answered:
            self._heard_at = sent.sent_at
        request = getattr(self.client, f"{name}_async")
        sent_at = self._handler.now()
        heard_at = self._last_heard(sent_at)
        results = [request(path, *args, **kwargs) for path in paths]
        if results:
            self._sent = _SentRequests(sent_at, heard_at, results[-1])
        return results

    def _last_heard(self, now: float) -> float:
        """Return a moment at which ZooKeeper has heard of this session: from kazoo's pings at the latest.

        While an answer to another state is due, its request has put the ping off: its moment counts.
        """
        if unanswered := self._all_unanswered():
            return max(self._heard_at, unanswered[0].heard_at)
        ping = getattr(self.client._connection, "ping_outstanding", None)
        is_quiet = ping is not None and not ping.is_set() and not self.client._pending
        return max(self._heard_at, now - self.timeout_s / 3 * (1 if is_quiet else 2))

    def answer(self, result: Any, timeout_s: float, name: str, path: str, topic: str) -> Any:
        """Wait for the answer to one of the requests that were sent last, and return it.

        :param timeout_s: how long to wait (s); no longer than this member is sure of its session, if it still is
        :raises NoNodeError, NodeExistsError: as ZooKeeper says
        :raises ZooKeeperError: there was no answer in time, or another error
        """
        try:
            return answered(result, self._limit_s(timeout_s), name, path, topic=topic)
        finally:
            sent = self._sent
            if sent is not None and not result.ready():
                self._miss(sent)

    def _limit_s(self, timeout_s: float) -> float:
        """Return how long to wait for an answer: while this member is sure of its session, no longer than that."""
        sure_s = self.sure_s
        return min(timeout_s, sure_s) if sure_s > 0 else timeout_s

    def _miss(self, sent: _SentRequests) -> None:
        if not sent.missed:
            sent.missed = True
            sent.result.rawlink(self._answered_late)

    def _answered_late(self, _: Any) -> None:
        for state in list(self._of_client.values()):  # also those that wait with their requests
            state._changed()

    # -- life --------------------------------------------------------------------------------------------------------------

    def _session_changed(self, state: str) -> None:
        if state == KazooState.SUSPENDED:
            self.suspended_since = self._handler.now()
        else:
            if state == KazooState.LOST:
                self.lose("the ZooKeeper session ended")
            sent = self._sent
            # requests that were made without a connection go out now
            waiting = state == KazooState.CONNECTED and sent is not None and not sent.result.ready()
            now = self._handler.now()
            if sent is not None and self._sent is sent:  # else something was sent just now
                self._sent = _SentRequests(now, now, sent.result) if waiting else None
            self.suspended_since = None
        self._changed()

    def end(self) -> None:
        """Stop listening to kazoo; a member that may have lost its partitions by now stays without them."""
        if not self.may_own():
            self.lost = self.lost or "ZooKeeper did not answer until the end"
        self.give_up()
        self.client.remove_listener(self._session_changed)
        self._ended = True  # its unanswered requests still count for the others
        if self._unanswered is None:
            self._of_client.pop(id(self), None)

    def leave_to_parent(self, cooperative: bool) -> None:
        """Disable this process' copy of the connection after a fork: copied greenlets would use it otherwise."""
        client = self.client
        self.end()
        vars(client)["_pykafka_parent"] = os.getppid()
        connection = client._connection
        nowhere = os.open(os.devnull, os.O_RDWR)
        for inherited in (connection._socket, connection._read_sock, connection._write_sock):
            if inherited is not None and inherited.fileno() >= 0:
                os.dup2(nowhere, inherited.fileno(), inheritable=False)
        os.close(nowhere)
        if cooperative:  # the event of a thread may be locked, with no thread left to unlock it
            client._stopped.set()


class ZooKeeperSession:
    """A member's session, and the state of its connection.

    If it knows the application's signs of life, a worker ends the session of an application that makes no calls, and requests
    a poll of one that reads from its buffers when partitions have to be revoked.

    State: belongs to the worker that polls; the session's own worker stores `state.lost`, and ends the connection.

    :param handler: supplies kazoo's handler, the clock and the worker
    :param group: the group, for logs and errors
    :param hosts: "host:port,host:port/chroot"
    :param timeout_s: the session timeout asked for (s)
    :param connect_s: how long the first connection may take (s)
    :param changed: called when the session's state changes, and when partitions have to be revoked; must not wait
    :param instead: how to have the brokers keep the group, for errors
    :param signs_of_life: the application's signs of life; must not wait. None: the session has no worker
    :param limit_s: how long the application may make no call (s)
    """

    def __init__(
        self,
        handler: Handler,
        group: str,
        hosts: str,
        timeout_s: float,
        connect_s: float,
        changed: Callable[[], object],
        instead: str,
        signs_of_life: SignsOfLife | None = None,
        limit_s: float = math.inf,
    ) -> None:
        self._handler = handler
        self._group = group
        self._hosts = hosts
        self._timeout_s = timeout_s
        self._connect_s = connect_s
        self._changed = changed
        self._instead = instead
        self._signs_of_life = signs_of_life
        self._limit_s = limit_s
        self._forget()

    def _forget(self) -> None:
        self.client: Any = None
        #: Whether the session is lost, and since when the connection; None before the first connection.
        self.state: SessionState | None = None
        self._is_given = False
        self._started: Any = None
        self._began = 0.0
        self._stop = self._handler.Event()
        self._worker: OwnedWorker | None = None
        self._ending = FinalSteps(self._handler, "pykafka.ZooKeeper.end")

    @property
    def lost(self) -> str:
        """Why the session's nodes are gone; empty while they are there, or before the first connection."""
        state = self.state  # once: `end`, on another worker, takes it away
        return "" if state is None else state.lost

    @property
    def connected(self) -> bool:
        """Whether there is a connection now, and ZooKeeper answers."""
        state = self.state
        return state is not None and not state.is_silent

    @property
    def stale(self) -> str:
        """Why partitions have to be revoked: ZooKeeper is silent for so long that the session may end; else empty."""
        state = self.state
        if state is None or state.sure_s > 0:
            return ""
        return f"ZooKeeper has not answered for {state.away_s:.1f} s, and may end the session"

    def may_own(self) -> bool:
        """Return whether this member still owns its partitions, as far as it knows."""
        state = self.state
        return state is not None and state.may_own()

    def give_up(self) -> None:
        """End each tenure; see `SessionState.give_up`."""
        state = self.state
        if state is not None:
            state.give_up()

    def connect(self, deadline: float | None) -> bool:
        """Connect, or continue to; return whether there is a connection; without a deadline, False means an interrupt.

        :param deadline: of the handler's clock (s); the next call continues
        :raises ZooKeeperError: no host answered in time
        """
        if self.state is not None:
            self._watch(self.state)  # if an interrupt has come before its worker began
            return self.connected
        if self.client is None:
            self.client = new_client(self._hosts, self._handler, self._timeout_s)
            self._stop = self._handler.Event()
            self._began = self._handler.now()
            self._started = self.client.start_async()
        latest = self._began + self._connect_s
        until = latest if deadline is None else min(latest, deadline)
        client, started, stop = self.client, self._started, self._stop
        # kazoo may lose a new connection before this worker runs, and connects again by itself
        while not stop.is_set():
            now = self._handler.now()
            if client.connected:
                self._begin()
                return True
            if now >= latest:
                self.end()
                raise ZooKeeperError(
                    f"group {self._group}: ZooKeeper at {self._hosts} did not answer within {self._connect_s:g} s; check that "
                    f"it is up, and zookeeper_hosts=; brokers from 0.9 on keep groups themselves, by {self._instead}"
                )
            if now >= until:
                break
            started.wait(until - now)
        return False

    def use(self, client: Any) -> None:
        """Use a connection that the application has opened and will close.

        :param client: a KazooClient, started, on a kazoo handler of the same kind of concurrency
        :raises ZooKeeperError: it is not connected
        """
        given = f"group {self._group}: the KazooClient given as zookeeper="
        if "_pykafka_parent" in vars(client):
            raise ZooKeeperError(
                f"{given} belongs to the parent process; after a fork make another, and a consumer with it"
            )
        if not client.connected:
            raise ZooKeeperError(f"{given} is not connected; start() it first, or give zookeeper_hosts=")
        self.client, self._is_given = client, True
        self.state = SessionState(self._handler, client, self._changed)

    def _begin(self) -> None:
        self._worker = None
        self.state = SessionState(self._handler, self.client, self._changed, self._began)
        self._watch(self.state)

    def _watch(self, state: SessionState) -> None:
        """Start the worker that checks for signs of life, unless it was started, or there are none to check for."""
        if self._signs_of_life is None or self._is_given or (self._worker is not None and self._worker.is_started):
            return
        silent = partial(self._silent, state)
        watch = partial(_watch, self._stop, state, self._signs_of_life, self._limit_s, silent, self._changed)
        self._worker = worker = OwnedWorker(self._handler, watch, f"pykafka.ZooKeeper.{self._group}")
        worker.start()

    def _silent(self, state: SessionState, why: str) -> None:
        """End the session for an application that makes no calls; its own worker calls this."""
        log.warning("group %s: %s; this member leaves, and the next call joins again", self._group, why)
        state.lose(why)
        if self.state is state:
            end_session(state.client)
        self._changed()

    def renew(self) -> None:
        """Continue after the session was lost: on kazoo's new session, or by a new connection."""
        state = self.state
        if state is not None and state.connected:
            state.lost = ""
        else:
            self.end()

    def interrupt(self) -> None:
        """End a `connect` that waits in another worker."""
        started = self._started
        self._stop.set()
        if started is not None:
            started.set()

    def end(self) -> None:
        """End the session, which deletes its nodes, unless it is the application's; a second call does nothing."""
        client, state = self.client, self.state
        self._stop.set()
        self.client = self.state = self._started = None
        if state is not None:
            state.end()
        if client is not None and not self._is_given:
            self._ending.take(partial(end_session, client), self._timeout_s + KAZOO_S)

    def leave_to_parent(self) -> None:
        """Forget the session after a fork, and close this process' copy of its connection."""
        if self.state is not None:
            self.state.leave_to_parent(self._handler.cooperative)
        self._forget()


def _watch(
    stop: Any,
    state: SessionState,
    signs_of_life: SignsOfLife,
    limit_s: float,
    silent: Callable[[str], object],
    changed: Callable[[], object],
) -> None:
    """Check for signs of life until `stop` is set, or there are none for too long: the worker's main function.

    It calls `changed` once in each outage that lasts until partitions have to be revoked: nothing else reports that
    moment to an application that takes buffered records. It does not keep the consumer alive.
    """
    last, quiet_s, reported = -1, 0.0, False
    while True:
        left_s = state.sure_s
        if left_s <= 0 and not reported:
            changed()
        reported = left_s <= 0
        # an outage leaves a quarter of the session's time when it is noticed
        pause_s = min(
            ACTIVITY_POLL_INTERVAL_S,
            state.timeout_s / 4,
            ACTIVITY_POLL_INTERVAL_S if reported else max(left_s, SHORTEST_PAUSE_S),
        )
        if stop.wait(pause_s):
            return
        seen = signs_of_life()
        if seen is None:
            silent("the consumer was dropped without close()")
            return
        count, waits = seen
        quiet_s = 0.0 if waits or count != last else quiet_s + pause_s
        last = count
        if quiet_s > limit_s:
            silent(f"no call for messages within max_poll_interval_ms ({limit_s * 1000:.0f})")
            return
