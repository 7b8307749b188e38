"""`Channel`: one connection to one broker for one role, opened when it is first needed; it backs off after failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    ClientClosedError,
    ConnectTimeoutError,
    IllegalSaslState,
    KafkaException,
    ResponseTimeoutError,
    SaslAuthenticationFailed,
    TokenTimeoutError,
    UnsupportedSaslMechanism,
)
from pykafka.metrics.listener import AUTHENTICATED, CONNECTED, REFUSED, UNREACHABLE
from pykafka.network.connection import BrokerConnection
from pykafka.network.options import ConnectionSettings
from pykafka.network.patience import Patience
from pykafka.network.requests import DRAIN_S, RequestHandler
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.metrics.listener import ClientListener


log = logging.getLogger(__name__)

#: The channels whose names begin so are lent to members of groups, and are closed when nobody has used them for so long (ms).
LENT = "lent:"
LENT_IDLE_MS = 5_000
#: The channel for short requests of all members at a coordinator.
SHARED = "members"

#: The channels whose requests a broker answers at once; on others it may wait for records, replicas or members.
PROMPT = ("main", "admin", "offsets")

#: The channel for asking a broker for its versions alone, for as long as that takes.
PROBE = "probe"

#: A connection that ends unused is no failure of the broker, unless it ends as soon as this (s), and the one before failed or
#: did the same.
BRIEF_S = 1.0
#: A broker that owes an answer for so long (s) is asked after the others: it may hang.
SILENT_S = 0.5
#: How often a call with a time of its own looks whether another worker still connects (s).
CONNECT_POLL_INTERVAL_S = 0.01
#: The errors of an attempt whose time was too short.
LATE = (ConnectTimeoutError, ResponseTimeoutError, TokenTimeoutError)

#: The errors of a login that the broker refuses.
LOGIN_REFUSED = (IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism)


class Channel:
    """The connection of one role; the channel makes a new one when the old one is gone.

    State: `requests`, the live request handler or None, changes under `_lock`, which a worker holds while it connects. Readers
    take no lock, and neither does `close`: it sets `_closed` first and then ends the connection; `_reopen` sets the connection
    first and then checks `_closed`.

    :param handler: supplies worker, lock and clock
    :param make_connection: makes an unconnected BrokerConnection
    :param prepare: called with each new connection, before anything else is sent on it
    :param timeout_ms: for connecting
    :param lost: called before the channel replaces a connection that has ended
    :param settings: pauses, and how long a connection may be idle
    :param reached: called when the channel has a new connection
    :param listener: hears of connections and answers; None: nobody listens
    :param name: the role
    """

    def __init__(
        self,
        handler: Handler,
        make_connection: Callable[[], BrokerConnection],
        prepare: Callable[[BrokerConnection], None],
        timeout_ms: int,
        lost: Callable[[], object] = int,
        settings: ConnectionSettings | None = None,
        reached: Callable[[], object] = int,
        listener: ClientListener | None = None,
        name: str = "",
    ) -> None:
        self._listener = listener
        self._name = name
        settings = settings or ConnectionSettings()
        self._reached = reached
        self._settings = settings
        # The credentials of the last attempt: an error of others has no meaning, and no pause.
        self._sasl, self._ssl_config = settings.sasl, settings.ssl_config
        idle_ms = settings.connections_max_idle_ms
        if name.startswith(LENT):
            idle_ms = min(idle_ms or LENT_IDLE_MS, LENT_IDLE_MS)
        self._max_idle_s = idle_ms / 1000
        self._lost = lost
        self._handler = handler
        self._make_connection = make_connection
        self._prepare = prepare
        self._timeout_ms = timeout_ms
        self._lock = handler.Lock()
        #: The request handler of the present connection, or None.
        self.requests: RequestHandler | None = None
        # The connection under way, for `close` to end.
        self._connecting: BrokerConnection | None = None
        # Connects for calls whose own time is too short.
        self._patience = Patience(handler, f"connecting {name}")
        # The reason why the channel makes no more connections; None as long as it does.
        self._closed: KafkaException | None = None
        # How many connections in a row failed, or ended without an answer.
        self._failures = 0
        # Whether the last connection ended unused, and at once.
        self._was_brief = False
        self._backoff = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, handler.random)
        self._retry_at = 0.0
        self._failed_at = 0.0
        # When the first of the attempts failed since which there has been no connection.
        self._failing_since = 0.0
        # Whether it pauses because no connection came about, and not because one ended.
        self._unreached = False
        self._last_error: KafkaException | None = None

    @property
    def connected(self) -> bool:
        """Whether the connection is up, as far as this client knows."""
        requests = self.requests
        return requests is not None and requests.alive

    @property
    def connected_since(self) -> float | None:
        """Since when the connection is up (s of the handler's clock); None if it is not."""
        requests = self.requests
        return requests.shared.requests.since if requests is not None and requests.alive else None

    @property
    def last_error(self) -> KafkaException | None:
        """Why the last attempt to connect failed, or the connection ended; None if it is up, or was not needed."""
        if self.connected:
            return None
        ended = self.requests
        if ended is None or ended.error is None:
            return self._last_error
        requests = ended.shared.requests
        return None if requests.ended_unused or requests.interrupted else ended.error

    @property
    def failed_at(self) -> float:
        """When the last attempt to connect failed, or the connection ended (s of the handler's clock)."""
        ended = self.requests
        if ended is not None and ended.error is not None:
            return max(self._failed_at, ended.shared.requests.used_at)
        return self._failed_at

    @property
    def failing_since(self) -> float:
        """Since when there has been no connection, if `last_error` is not None (s of the handler's clock)."""
        return self.failed_at if self._last_error is None else self._failing_since

    def silent_for(self) -> float:
        """Return for how long the broker has owed an answer (s); 0 if it owes none."""
        requests = self.requests
        return requests.shared.requests.silent_for() if requests is not None and requests.alive else 0.0

    @property
    def throttled_until(self) -> float:
        """Until when this client must send nothing, as the broker throttles it (s of the handler's clock); 0: it does not."""
        requests = self.requests
        return requests.shared.requests.throttled_until if requests is not None else 0.0

    @property
    def is_silent(self) -> bool:
        """Whether the connection is up, and the broker owes it an answer for a while."""
        requests = self.requests
        return requests is not None and requests.shared.requests.silent_for() > SILENT_S

    @property
    def is_connecting(self) -> bool:
        """Whether a worker is connecting now."""
        return self._connecting is not None

    @property
    def in_trouble(self) -> bool:
        """Whether a worker is connecting now, or the last attempt failed."""
        return self._connecting is not None or self._last_error is not None

    def open(self, timeout_ms: int | None = None) -> RequestHandler:
        """Return the live request handler, connecting first if there is none.

        A call whose time is too short for a connection leaves a worker that makes it: calls with less time than the way to
        the broker takes would never connect.

        :param timeout_ms: for connecting, by default that of the channel
        :raises SocketDisconnectedError: the broker cannot be reached, or a moment ago could not
        """
        requests = self.requests
        if requests is not None and requests.alive:
            return requests
        began = self._handler.now()
        if timeout_ms is not None:
            self._await_others(began + timeout_ms / 1000)
        with self._lock:
            requests = self.requests
            if requests is not None and requests.alive:
                return requests
            if timeout_ms is not None:
                timeout_ms -= round((self._handler.now() - began) * 1000)
                if timeout_ms <= 0 and self._last_error is not None:  # it has waited for another worker, in vain
                    raise self._last_error.again()
            try:
                return self._reopen(None if timeout_ms is None else max(1, timeout_ms))
            except LATE as error:
                if timeout_ms is not None and timeout_ms < self._timeout_ms:
                    self._patience.take_over(error, timeout_ms, self.open)
                raise

    def _await_others(self, deadline: float) -> None:
        """Wait until no other worker connects; one that has more time may take it.

        :param deadline: of the handler's clock (s)
        :raises SocketDisconnectedError: another worker connected until then; or the error of the attempt before
        """
        # Not `acquire(timeout=...)`: Ctrl-C could come before the `try` behind it, and nobody could connect any more.
        while self._lock.locked():
            left = deadline - self._handler.now()
            if left <= 0 and self._last_error is not None:
                raise self._last_error.again()
            if left <= 0:
                raise ConnectTimeoutError(
                    "another call of this client was connecting for all that time; the broker may be overloaded or silent, or "
                    "the timeout too short",
                    broker=self._make_connection().address,
                )
            self._handler.sleep(min(CONNECT_POLL_INTERVAL_S, left))

    def _reopen(self, timeout_ms: int | None) -> RequestHandler:
        self._check_open()
        ended, self.requests = self.requests, None
        if ended is not None:
            self._judge(ended)
            ended.cut()
            self._lost()
        sasl, ssl_config = self._settings.sasl, self._settings.ssl_config
        replaced = sasl is not self._sasl or ssl_config is not self._ssl_config
        if self._last_error is not None and not replaced and self._handler.now() < self._retry_at:
            raise self._last_error.again()
        self._sasl, self._ssl_config = sasl, ssl_config
        connection = self._connecting = self._make_connection()
        connection.hurried = timeout_ms is not None and self._name != PROBE
        began = self._handler.now()
        try:
            self._check_open()
            connection.connect(self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms))
            self._prepare(connection)
            requests = RequestHandler(self._handler, connection, max_idle_s=self._max_idle_s, listener=self._listener)
            requests.start()
        except KafkaException as error:
            connection.disconnect()
            self._check_open()
            self._back_off(error)
            self._unreached = True
            if timeout_ms is not None and isinstance(error, LATE):
                self._retry_at = 0.0  # this attempt had less than its full time
            raise
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._connecting = None
        self._last_error = None
        self.requests = requests
        if self._closed is not None:  # meanwhile, and `close` may have found no connection to end yet
            self.requests = None
            requests.stop()
            raise self._closed.again()
        self._reached()
        if self._listener is not None:
            self._listener.on_event(CONNECTED, connection.address, self._handler.now() - began, self._name)
            if connection.session is not None:
                self._listener.on_event(AUTHENTICATED, connection.address, connection.session.took)
        log.debug("connected to %s", connection.address)
        return requests

    def _judge(self, ended: RequestHandler) -> None:
        """Decide what the end of a connection says of the broker: one that accepts and hangs up has the next connect wait."""
        requests, error = ended.shared.requests, ended.error
        was_brief, self._was_brief = self._was_brief, False
        if requests.proven:
            self._failures = 0
        elif error is None or requests.interrupted:  # this client ended it
            return
        elif requests.ended_unused:
            self._was_brief = self._handler.now() - requests.since < BRIEF_S
            if not self._was_brief:
                self._failures = 0  # it has stood, though no request has shown that it works
            elif was_brief or self._failures:
                self._back_off(error)
        else:
            self._back_off(error)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed.again() from None

    def _back_off(self, error: KafkaException) -> None:
        self._failures += 1
        self._unreached = False
        self._failed_at = self._handler.now()
        if self._last_error is None:
            self._failing_since = self._failed_at
        self._retry_at = self._failed_at + self._backoff.seconds(self._failures)
        if self._listener is not None:
            kind = REFUSED if isinstance(error, LOGIN_REFUSED) else UNREACHABLE
            self._listener.on_event(kind, error.broker or "", 0.0, error)
        self._last_error = error.again()  # a copy: the traceback would keep all callers' objects alive
        log.debug("not connected: %s", error)

    def try_again(self) -> None:
        """End the pause after a failed connect: another channel has reached the broker. This takes no lock."""
        if self._unreached:
            self._retry_at = 0.0

    def close(self, reason: KafkaException | None = None, drain_s: float = DRAIN_S) -> None:
        """End the connection, or the attempt to make one; wait for no worker but the reader.

        :param reason: the error of an `open` that is under way, or comes later; by default that the client was closed
        :param drain_s: how long to wait for answers on their way (s)
        """
        requests = self._cut(reason)
        if requests is not None:
            requests.stop(drain_s)
        self.requests = None  # not before: an interrupted `close` is called again

    def abort(self, reason: KafkaException | None) -> None:
        """End an attempt to connect and refuse later ones, without waiting; a connection that is up stays up.

        :param reason: see `close`
        """
        self._cut(reason)

    def forsake(self) -> None:
        """End the connection as `close` does, without waiting for its reader."""
        requests = self._cut(None)
        if requests is not None:
            requests.shared.connection.disconnect()

    def _cut(self, reason: KafkaException | None) -> RequestHandler | None:
        if self._closed is None:
            self._closed = reason or ClientClosedError("this client was closed; make a new KafkaClient")
        connecting = self._connecting
        if connecting is not None:
            connecting.give_up()
        return self.requests

    def detach(self) -> RequestHandler | None:
        """Leave the present connection, if there is one, to the caller, who ends it; the next `open` makes a new one."""
        with self._lock:
            requests, self.requests = self.requests, None
            self._failures = 0
        return requests

    def drop(self) -> None:
        """End the present connection; the next `open` makes a new one."""
        requests = self.detach()
        if requests is not None:
            requests.stop()


def group_channel(connection_id: Any) -> str:
    """Return the name of the channel for a connection id of a group's member."""
    # str() of bytes is an error where Python was started with -bb.
    return f"group:{connection_id!r}" if isinstance(connection_id, bytes) else f"group:{connection_id}"


class Channels:
    """The channels of one broker.

    State: the dict by name changes under `_lock`; readers take none. `ended` is set before channels are closed: one that is
    made meanwhile is closed, too.

    :param handler: supplies the lock
    :param make: makes an unconnected channel of a name
    """

    def __init__(self, handler: Handler, make: Callable[[str], Channel]) -> None:
        self._handler = handler
        self._make = make
        self._lock = handler.Lock()
        self._by_name: dict[str, Channel] = {}
        self._left_to_parent: list[object] = []
        #: The reason why no channel connects any more; None as long as they do.
        self.ended: KafkaException | None = None

    def __iter__(self) -> Iterator[tuple[str, Channel]]:
        return iter(list(self._by_name.copy().items()))  # a copy is one step; a list of items is not

    def find(self, name: str) -> Channel | None:
        """Return the channel of this name; None if there is none yet."""
        return self._by_name.get(name)

    def get(self, name: str) -> Channel:
        """Return the channel of this name, making it (unconnected) if there is none."""
        channel = self._by_name.get(name)
        if channel is None:
            with self._lock:
                channel = self._by_name.get(name)
                if channel is None:
                    # in this order: `abort` and `forsake`, which take no lock, find it, or it finds `ended`
                    channel = self._by_name[name] = self._make(name)
                    if self.ended is not None:
                        channel.close(self.ended)
        return channel

    def try_again(self) -> None:
        """End the pauses of channels that could not connect: one of them has."""
        for _, channel in self:
            channel.try_again()

    def is_up(self, name: str) -> bool:
        """Return whether the channel of this name is connected."""
        channel = self._by_name.get(name)
        return channel is not None and channel.connected

    @property
    def reach(self) -> int:
        """The likelihood that a request must wait, from 0 (main connection up) to 3 (in trouble, or without an answer)."""
        main = self._by_name.get("main")
        if main is not None and main.connected:
            prompt = (self._by_name.get(name) for name in PROMPT)
            return 3 if any(channel.is_silent for channel in prompt if channel is not None) else 0
        if self.stands:
            return 1
        return 3 if any(channel.in_trouble for _, channel in self) else 2

    @property
    def stands(self) -> bool:
        """Whether a channel is connected, also if an answer is owed there."""
        return any(channel.connected for _, channel in self)

    def drop(self, name: str, reason: KafkaException, drain_s: float = DRAIN_S) -> None:
        """End the connection of a channel for good; workers that wait for answers there get the error.

        :param drain_s: see `Channel.close`
        """
        with self._lock:
            channel = self._by_name.pop(name, None)
        if channel is not None:
            channel.close(reason, drain_s)

    def drop_connections(self) -> None:
        """End all connections; the next request on each channel makes a new one."""
        for _, channel in self:
            channel.drop()

    def detach(self) -> list[RequestHandler]:
        """Leave all connections to the caller, who ends them; the next request on each channel makes a new one."""
        held = [channel.detach() for _, channel in self]
        return [requests for requests in held if requests is not None]

    def end(self, reason: KafkaException) -> None:
        """Refuse all later channels; the first reason stays. This neither takes a lock nor waits."""
        if self.ended is None:
            self.ended = reason

    def abort(self) -> None:
        """End attempts to connect, after `end`. This does not wait."""
        for _, channel in self:
            channel.abort(self.ended)

    def close(self, drain_s: float = DRAIN_S) -> None:
        """End every connection, after `end`.

        :param drain_s: how long to wait for answers on their way, of all together (s)
        """
        deadline = self._handler.now() + drain_s
        with self._lock:  # whoever makes a channel has put it there, or sees the reason
            channels = list(self._by_name.values())
        for channel in channels:
            channel.close(self.ended, max(0.0, deadline - self._handler.now()))

    def forsake(self) -> None:
        """End every connection, but take no lock and do not wait."""
        for _, channel in self:
            channel.forsake()

    def after_fork(self) -> None:
        """Start afresh in a forked child: connections are the parent's, and nobody would release its lock."""
        self._left_to_parent.append(self._by_name)
        self._lock = self._handler.Lock()
        self._by_name = {}
