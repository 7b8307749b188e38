"""`ZooKeeperSession`: a member's own session in ZooKeeper, which ends when the application no longer calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import ZooKeeperError
from pykafka.groups.zookeepercontact import Contact
from pykafka.handlers.ending import Ending
from pykafka.metadata.zookeeper import KAZOO_S, end_session, new_client

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker

log = logging.getLogger(__name__)

#: How often the application's signs of life are looked at (s).
LOOK_S = 1.0
#: The shortest pause between looks (s).
LEAST_S = 0.05
#: How long the first connection may take (s).
CONNECT_S = 10.0

#: Returns a number that grows with each call of the application, and whether it waits; None if the consumer is gone.
Pulse = Callable[[], "tuple[int, bool] | None"]


class ZooKeeperSession:
    """A session, the state of its connection, and the worker that looks after both: it ends the session of an application
    that makes no calls, and tells one that reads on from its buffers when partitions have to be given up.

    State: belongs to the worker that serves; the session's own worker stores `state.lost`, and ends the connection.

    :param handler: supplies kazoo's handler, the clock and the worker
    :param group: the group, for logs
    :param hosts: "host:port,host:port/chroot"
    :param timeout_s: the session timeout asked for (s)
    :param pulse: the application's signs of life; must not wait
    :param patience_s: how long the application may make no call (s)
    :param changed: called when the session's state changes, and when partitions have to be given up; must not wait
    """

    def __init__(
        self,
        handler: Handler,
        group: str,
        hosts: str,
        timeout_s: float,
        pulse: Pulse,
        patience_s: float,
        changed: Callable[[], object],
    ) -> None:
        self._handler = handler
        self._group = group
        self._hosts = hosts
        self._timeout_s = timeout_s
        self._pulse = pulse
        self._patience_s = patience_s
        self._changed = changed
        self._forget()

    def _forget(self) -> None:
        self.client: Any = None
        #: What is known of the session: whether it is lost, since when the connection is away.
        self.state: Contact | None = None
        self._started: Any = None
        self._began = 0.0
        self._stop = self._handler.Event()
        self._worker: Worker | None = None
        self._ending = Ending(self._handler, "pykafka.ZooKeeper.end")

    @property
    def lost(self) -> str:
        """Why the session's nodes are gone; empty while they are there, or before the first connection."""
        return "" if self.state is None else self.state.lost

    @property
    def connected(self) -> bool:
        """Whether there is a connection now, and ZooKeeper answers."""
        return self.state is not None and not self.state.is_silent

    @property
    def stale(self) -> str:
        """Why partitions are to be given up: ZooKeeper is away for so long that the session may end; else empty."""
        state = self.state
        if state is None or state.sure_s > 0:
            return ""
        return f"ZooKeeper has not answered for {state.away_s:.1f} s, and may end the session"

    def may_own(self) -> bool:
        """Return whether this member still owns its partitions, as far as it can tell."""
        return self.state is not None and self.state.may_own()

    def connect(self, deadline: float | None) -> bool:
        """Connect, or go on with it; return whether there is a connection.

        :param deadline: of the handler's clock (s); the next call goes on
        :raises ZooKeeperError: no host answered in time
        """
        if self.state is not None:
            return self.connected
        now = self._handler.now()
        if self.client is None:
            self.client = new_client(self._hosts, self._handler, self._timeout_s)
            self._began = now
            self._started = self.client.start_async()
        patience = self._began + min(self._timeout_s, CONNECT_S)
        self._started.wait(max(0.0, min(patience, patience if deadline is None else deadline) - now))
        if self.client.connected:
            self._begin()
            return True
        if self._handler.now() >= patience:
            self.end()
            raise ZooKeeperError(
                f"group {self._group}: ZooKeeper at {self._hosts} did not answer within {min(self._timeout_s, CONNECT_S):g} s; "
                'check that it is up, and zookeeper_hosts=; brokers from 0.9 on keep groups themselves, by protocol="classic"'
            )
        return False

    def _begin(self) -> None:
        state = self.state = Contact(self._handler, self.client, self._changed, self._began)
        self._stop = self._handler.Event()
        silent = partial(self._silent, state)
        watch = partial(_watch, self._stop, state, self._pulse, self._patience_s, silent, self._changed)
        self._worker = self._handler.spawn(watch, name=f"pykafka.ZooKeeper.{self._group}")

    def _silent(self, state: Contact, why: str) -> None:
        """End the session for an application that makes no calls; its own worker calls this."""
        log.warning("group %s: %s; this member leaves, and the next call joins again", self._group, why)
        state.lost = why
        if self.state is state:
            end_session(state.client)
        self._changed()

    def renew(self) -> None:
        """Begin anew after the session was lost: on its new session, or by a new connection."""
        state = self.state
        if state is not None and state.connected:
            state.lost = ""
        else:
            self.end()

    def interrupt(self) -> None:
        """End a `connect` that waits in another worker."""
        started = self._started
        if started is not None:
            started.set()

    def end(self) -> None:
        """End the session, so that its nodes go; may be repeated."""
        client, state = self.client, self.state
        self._stop.set()
        self.client = self.state = self._started = None
        if state is not None:
            state.end()
        if client is not None:
            self._ending.take(partial(end_session, client), self._timeout_s + KAZOO_S)

    def leave_to_parent(self) -> None:
        """Forget the session after a fork, and close this process' copy of its connection."""
        if self.state is not None:
            self.state.leave_to_parent(self._handler.cooperative)
        self._forget()


def _watch(
    stop: Any,
    state: Contact,
    pulse: Pulse,
    patience_s: float,
    silent: Callable[[str], object],
    changed: Callable[[], object],
) -> None:
    """Look for signs of life until `stop` is set, or there are none for too long: the worker's main function.

    It calls `changed` once in each outage that lasts until partitions have to be given up: nothing else reports that
    moment to an application that takes what is buffered. It does not keep the consumer alive.
    """
    last, quiet_s, told = -1, 0.0, False
    while True:
        left_s = state.sure_s
        if left_s <= 0 and not told:
            changed()
        told = left_s <= 0
        # an outage leaves a quarter of the session's time when it is noticed
        pause_s = min(LOOK_S, state.timeout_s / 4, LOOK_S if told else max(left_s, LEAST_S))
        if stop.wait(pause_s):
            return
        found = pulse()
        if found is None:
            silent("the consumer was dropped without close()")
            return
        count, waits = found
        quiet_s = 0.0 if waits or count != last else quiet_s + pause_s
        last = count
        if quiet_s > patience_s:
            silent(f"no call for messages within max_poll_interval_ms ({patience_s * 1000:.0f})")
            return
