"""`Reauthentication`: a new login on a connection before the broker ends the session (KIP-368), with requests in flight.

A broker handles the requests of a connection one after another, so the new login is a few requests among the others. Behind the
first of them it takes nothing else until the login is complete: requests made meanwhile are held, and follow it.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, SocketDisconnectedError, WorkerNotStartedError
from pykafka.metrics.listener import NOT_RENEWED, REAUTHENTICATED
from pykafka.network.authentication import RENEW_PAUSE_S, Ask, Login, run_step, session_of
from pykafka.network.in_flight import InFlightRequest, InFlightRequests

if TYPE_CHECKING:
    from pykafka.handlers.base import Buffer, Handler
    from pykafka.network.authentication import Session
    from pykafka.network.connection import BrokerConnection
    from pykafka.network.turns import WriteTurn
    from pykafka.security import Mechanism

log = logging.getLogger(__name__)

#: How soon a re-authentication is tried again whose credentials are not ready (s).
AGAIN_S = 0.25
#: The longest pause where they cannot be had (s).
AGAIN_MAX_S = 10.0
#: The worker that reads writes so much of what was held at most (bytes), which the system takes at once: a broker that sends
#: reads nothing meanwhile, and waits for that worker. The rest is written by a worker of its own.
WRITTEN_HERE_MAX = 32 * 1024


class Reauthentication:
    """The re-authentication of one connection's login.

    The worker whose request finds it due begins it. The worker that reads the connection takes each answer and sends the next
    request. No worker waits for the others, unless the session is over.

    State: `under_way`, `_held` and `_held_bytes` belong to the holder of the turn to write; `_login` to the worker that has the
    last answer. `due` is a single store.

    :param handler: supplies clock, chance and lock
    :param requests: the requests in flight
    :param connection: what they are written to
    :param turn: the turn to write
    :param end: ends the connection with an error
    :param session: the present login; None without one
    """

    def __init__(
        self,
        handler: Handler,
        requests: InFlightRequests,
        connection: BrokerConnection,
        turn: WriteTurn,
        end: Callable[[KafkaException], object],
        session: Session | None,
    ) -> None:
        self._handler = handler
        self._requests = requests
        self._connection = connection
        self._turn = turn
        self._end = end
        self._session = session
        #: When a re-authentication is due, on the handler's clock (s).
        self.due = math.inf if session is None else session.renew_at
        #: Whether requests must be held.
        self.under_way = False
        self._held: deque[Sequence[Buffer]] = deque()
        self._held_bytes = 0
        self._beginning = handler.Lock()
        self._login: Login | None = None
        self._timeout = 0.0
        self._since = 0.0
        # When the attempt began, or its first request was sent, and when the broker has answered that (s).
        self._sent = self._begun = 0.0
        self._pause = AGAIN_S

    def begin(self, timeout: float) -> None:
        """Send the first request of a re-authentication, unless another worker does that, or the credentials are not ready yet.

        If the session is over it waits for both: the broker hangs up on any other request.

        :param timeout: for each request of the login (s)
        :raises KafkaException: the connection has ended, by this or before
        """
        if not self._beginning.acquire(timeout=timeout if self._is_over() else 0.0):
            return
        try:
            if self.under_way or self._handler.now() < self.due:
                return
            session = self._session
            assert session is not None
            wait_s = timeout if self._is_over() else 0.0
            self._sent = self._handler.now()
            # The application may have replaced the mechanism of the session.
            mechanism = self._connection.mechanism or session.mechanism
            if _user_of(mechanism) != _user_of(session.mechanism):  # which brokers refuse on a connection that exists
                raise self._failed(
                    KafkaException("the application has replaced the credentials by those of another user or mechanism")
                )
            try:
                while (early := session.not_before - self._handler.now()) > 0:  # sessions of about a second
                    self._handler.sleep(early)
                if not mechanism.prepare(self._handler, wait_s, self._is_wanted) and not wait_s:
                    self.due = self._handler.now() + AGAIN_S
                    return
                login = run_step(self._handler, mechanism, Login, mechanism, session.peer, session.ranges)
                ask = run_step(self._handler, mechanism, login.first)
                assert ask is not None
            except Exception as error:  # noqa: BLE001 - also one of the mechanism's own
                if wait_s or self._requests.error is not None:
                    raise self._failed(error) from None
                # The session holds: the requests need not suffer yet.
                log.info("the login at %s cannot be renewed yet: %s", self._connection.address, _text_of(error))
                self.due = min(self._handler.now() + self._pause, session.ends_at)
                self._pause = min(2 * self._pause, AGAIN_MAX_S)
                return
            self._login, self._timeout, self._pause = login, timeout, AGAIN_S
            self._sent = self._handler.now()
            self._send(ask, first=True)
        finally:
            self._beginning.release()

    def _is_over(self) -> bool:
        """Return whether the broker has ended the session."""
        session = self._session
        return session is not None and self._handler.now() >= session.ends_at

    def _is_wanted(self) -> bool:
        """Return whether the connection has not ended."""
        return self._requests.error is None

    def hold(self, frame: Sequence[Buffer]) -> None:
        """Keep a frame until the re-authentication is complete; its request is in the table of those in flight already."""
        self._held.append(frame)
        self._held_bytes += sum(memoryview(buffer).nbytes for buffer in frame)

    def _failed(self, error: Exception) -> KafkaException:
        """End the connection, as its login could not be renewed, and return the error of its requests."""
        # An error of the connection: the next one logs in anew, and says by name why it cannot.
        ended = SocketDisconnectedError(
            f"the connection was ended as its login could not be renewed: {_text_of(error)}",
            broker=self._connection.address,
        )
        if self._requests.listener is not None:
            seconds = self._handler.now() - self._sent
            self._requests.listener.on_event(NOT_RENEWED, self._connection.address, seconds, ended)
        self._end(ended)
        return ended

    def _send(self, ask: Ask, first: bool = False) -> None:
        """Send one request of the login.

        :param first: whether it goes behind requests in flight; else it goes before those that are held
        """
        request: InFlightRequest[Any] = InFlightRequest(self._handler, ask)
        request.correlation_id = self._requests.next_id()
        self._since = self._handler.now()
        deadline = request.deadline = self._since + self._timeout
        request.silence_s = self._timeout
        request.add_done_callback(self._answered)  # before all else: an interrupt must not cost the answer its reader
        frame = request.encode()
        self._turn.take(deadline)
        try:
            self._turn.begin()
            if first:
                self._requests.add(request)
                self.under_way = True
            else:
                self._requests.add_first(request)
            self._write(frame, deadline)
        except BaseException:
            # Half a frame may be out, or none of a request in the table. One that the table does not take, as the connection
            # is being closed, costs no answer that is on its way.
            if self._requests.has(request):
                self._connection.disconnect()
            raise
        finally:
            self._turn.is_written = False
            self._turn.leave()
        self._requests.turn.answer_due()

    def _write(self, frame: Sequence[Buffer], deadline: float) -> None:
        self._connection.send(frame, max(deadline - self._handler.now(), 0.001))

    def _answered(self, future: InFlightRequest[Any]) -> None:
        """Go on with the answer to a request of the login; in the worker that reads the connection."""
        if future.error is not None:  # the connection has ended
            self._held.clear()
            return
        login, session = self._login, self._session
        assert login is not None
        assert session is not None
        if login.stage == "handshake":
            self._begun = self._handler.now()
        try:
            try:
                ask = run_step(self._handler, login.mechanism, login.answered, future.response)
                if ask is not None:
                    self._send(ask)
                    return
            except Exception as error:  # noqa: BLE001 - also one of the mechanism's own
                self._failed(error)
                return
            session = session_of(login, session.peer, self._handler, self._since)
            self._finish(session._replace(not_before=self._begun + RENEW_PAUSE_S))
        except BaseException:
            # Its worker was interrupted: nobody could go on, and the requests behind it would never be sent.
            self._connection.disconnect()
            raise

    def _finish(self, session: Session) -> None:
        """Send the requests that were held, here or in a worker of its own."""
        if self._held_bytes > WRITTEN_HERE_MAX:
            try:
                self._handler.spawn(
                    self._send_held, session, name=f"pykafka.Reauthentication.{self._connection.address}"
                )
                return
            except WorkerNotStartedError as error:
                log.info("%s; the worker that reads writes the requests that were held", error)
        self._send_held(session)

    def _send_held(self, session: Session) -> None:
        deadline = self._handler.now() + self._timeout
        try:
            self._turn.take(deadline)
            try:
                self._turn.begin()
                while self._held:
                    self._write(self._held.popleft(), deadline)
                self._login, self._session = None, session
                self.due = session.renew_at
                self._held_bytes = 0
                self.under_way = False
            except BaseException:
                self._connection.disconnect()  # half a frame may be out, or requests that were held are not
                raise
            finally:
                self._turn.is_written = False
                self._turn.leave()
        except KafkaException as error:
            self._end(error)
            return
        if self._requests.listener is not None:
            self._requests.listener.on_event(
                REAUTHENTICATED, self._connection.address, self._handler.now() - self._sent
            )
        log.debug("renewed the login at %s", self._connection.address)


def _user_of(mechanism: Mechanism) -> tuple[str, object]:
    """Return a mechanism's name and the user that it names; None for one that names none, as tokens do."""
    return mechanism.name, None if type(mechanism).__name__ == "DelegationToken" else getattr(
        mechanism, "username", None
    )


def _text_of(error: Exception) -> str:
    """Return what to say of an error; of a mechanism's own one its kind alone, since its text may have secrets."""
    return error.text if isinstance(error, KafkaException) else f"the mechanism has failed with {type(error).__name__}"
