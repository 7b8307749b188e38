"""`RequestHandler`: one pipelined connection. Each worker writes its own requests; one worker reads all answers."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykafka.exceptions import (
    CorrelationIdError,
    KafkaException,
    ResponseTimeoutError,
    SocketDisconnectedError,
    ThrottledError,
)
from pykafka.handlers.base import Buffer, EventType, WeakCall
from pykafka.handlers.interrupts import finalizer
from pykafka.metrics.listener import DISCONNECTED
from pykafka.network.in_flight import InFlightRequest, InFlightRequests, fresh
from pykafka.network.turns import WriteTurn

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Worker
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.authentication import Session
    from pykafka.network.connection import BrokerConnection
    from pykafka.network.in_flight import ResponseFuture
    from pykafka.network.reauthentication import Reauthentication

log = logging.getLogger(__name__)

R = TypeVar("R")

#: How often the reader checks whether a deadline has passed (s).
DEADLINE_POLL_INTERVAL_S = 1.0
#: The same on a connection that was not used for a while (s), and for how long (s).
IDLE_POLL_INTERVAL_S = 5.0
IDLE_AFTER_S = 2.0
#: How often a worker that reads for itself checks whether another worker has read its answer (s).
HELP_POLL_INTERVAL_S = 0.05
#: The length before each request and answer (bytes).
LENGTH_BYTES = 4
#: Deadline of a request without one of its own (s): the documented default of socket_timeout_ms.
DEFAULT_TIMEOUT_S = 30.0
#: How long `stop` waits for answers that are on their way (s).
DRAIN_S = 1.0
#: How long `stop` waits for the reader to end, once the connection is closed (s).
JOIN_S = 5.0
#: Before a request goes out on a connection that was not used for so long (s), the client checks that it still stands.
CHECK_AFTER_S = 1.0
HUNG_UP = "the peer closed the connection while nothing was in flight; the broker may have found it idle"


OnClose = Callable[[KafkaException], object]


class RequestHandler:
    """The requests of one connection and their answers; any number of requests may be in flight.

    A broker answers the requests of one connection one after another, so a request that must not wait behind a long poll needs
    another connection. The caller's worker writes each request at once; a reader worker completes the futures. When the
    connection ends, for whatever reason, each future that is not done gets an error with that reason.

    A worker that waits for each answer may read in the reader's stead: `help_read`.

    Ownership: the reader holds `Shared`, never this object, so that dropping the last reference to it ends the reader.
    State: `_writing` is held while a frame is written; futures are completed with no lock held, since their callbacks may send.
    A login that ends is renewed by `_reauthentication`, which is None on connections without a login.

    :param handler: supplies reader, locks and clock
    :param connection: connected; belongs to this object from now on
    :param on_close: called once, with the error, when the connection has ended; a bound method is held weakly
    :param max_idle_s: the reader ends a connection that was not used for so long (s); 0 for never
    :param listener: hears of each request and answer, and of the end of the connection; None: nobody listens
    """

    class Shared(NamedTuple):
        """The state that this object shares with its reader."""

        connection: BrokerConnection
        requests: InFlightRequests
        ending: EventType

    class Task(NamedTuple):
        """A request and the future of its answer, as PyKafka 2 had them; `InFlightRequest` is both."""

        request: Any
        future: ResponseFuture

    def __init__(
        self,
        handler: Handler,
        connection: BrokerConnection,
        on_close: OnClose | None = None,
        max_idle_s: float = 0.0,
        listener: ClientListener | None = None,
    ) -> None:
        self.handler = handler
        requests = InFlightRequests(handler, max_idle_s, listener)
        self.shared = self.Shared(connection, requests, handler.Event())
        self._end = _Ending(handler, self.shared, on_close)
        self._writing = WriteTurn(handler, connection.address, self._end)
        #: Return the turn to read.
        self.leave = requests.turn.leave
        session: Session | None = getattr(connection, "session", None)  # programs bring connections of their own
        self._reauthentication: Reauthentication | None = None
        if session is not None:
            from pykafka.network.reauthentication import Reauthentication

            self._reauthentication = Reauthentication(
                handler, self.shared.requests, connection, self._writing, self._end, session
            )
        self._worker: Worker | None = None
        self._inside = handler.local()
        self._finalizer: Generator[None] | None = finalizer(partial(_let_go, self.shared))
        handler.at_fork(self._after_fork)

    def __repr__(self) -> str:
        state = "alive" if self.alive else "ended"
        return f"<{type(self).__name__} {self.shared.connection.address} {state}, {self.pending} pending>"

    @property
    def alive(self) -> bool:
        """Whether requests can be sent and answers be read, as far as this client knows."""
        connection, requests, _ = self.shared
        worker = self._worker
        return requests.error is None and worker is not None and worker.is_alive() and connection.connected

    @property
    def error(self) -> KafkaException | None:
        """The error that ended the connection; None as long as it has not ended."""
        return self.shared.requests.error

    @property
    def pending(self) -> int:
        """The number of requests that wait for their answers."""
        return len(self.shared.requests)

    def start(self) -> None:
        """Start the reader; a second call does nothing."""
        if self._worker is None:
            self._worker = self._start_thread()

    def _start_thread(self) -> Worker:
        name = f"pykafka.RequestHandler.{self.shared.connection.address}"
        return self.handler.spawn(_read, self.handler, self.shared, self._end, self._inside, name=name)

    def request(
        self,
        request: Any,
        has_response: bool = True,
        timeout: float | None = None,
        latest: float | None = None,
        patient: bool = True,
    ) -> InFlightRequest[Any]:
        """Send a request and return the future of its answer: the frame, from the correlation id on.

        This worker sends it at once. If the peer throttles this client, it waits for the end of that first, which counts
        against no timeout.

        Errors of the request or the connection are not raised here: the future gets them. An error while the request is
        encoded concerns its future only.

        :param request: has `encode(correlation_id)`, or the documented `get_bytes()`; and `throttle(frame)`, if the answer
            may announce throttling: that returns a `Throttle` or None
        :param has_response: False for a request that the broker does not answer (acks=0): its future is done when it is
            written
        :param timeout: deadline for writing the request and for the answer (s); when it passes, the handler ends the
            connection, since later answers may never come either; None for DEFAULT_TIMEOUT_S
        :param latest: the caller's own deadline, on the handler's clock (s): throttling does not put it off
        :param patient: False: if the peer throttles this client, the future fails with ThrottledError at once
        """
        sent: InFlightRequest[Any] = InFlightRequest(self.handler, request)
        return self.send(sent, DEFAULT_TIMEOUT_S if timeout is None else timeout, has_response, latest, patient)

    def send(
        self,
        request: InFlightRequest[R],
        timeout: float,
        has_response: bool = True,
        latest: float | None = None,
        patient: bool = True,
        until: float | None = None,
    ) -> InFlightRequest[R]:
        """Send a request and return it; parameters: see `request`.

        :param timeout: until the caller gives up (s); the connection waits for the answer `request.early` longer
        :param until: when the caller waits no longer for the end of throttling (on the handler's clock, s); by default `latest`
        """
        latest = math.inf if latest is None else latest
        return _send(self, request, timeout, has_response, latest, patient, latest if until is None else until)

    def _await_throttle(self, until: float, patient: bool) -> None:
        """Wait until the peer's throttling is over, so that it reads from this connection again.

        :raises ThrottledError: the caller is not patient
        :raises ResponseTimeoutError: the throttling lasts longer than until `until`
        :raises KafkaException: the connection has ended meanwhile
        """
        connection, requests, ending = self.shared
        while (left := requests.throttled_until - self.handler.now()) > 0:
            requests.check()
            text = requests.about_throttling(self.handler.now())
            if not patient:
                raise ThrottledError(f"{text}; the request waits", broker=connection.address)
            if self.handler.now() + left > until:
                raise ResponseTimeoutError(f"{text}; the request was not sent", broker=connection.address)
            ending.wait(min(left, DEADLINE_POLL_INTERVAL_S))

    def help_read(self, lasting: bool = False) -> bool:
        """Take the turn to read answers in this worker, unless another one reads; then call `read_until` and `leave`.

        :param lasting: whether this worker reads nearly all answers of the connection, so that the reader looks seldom
        """
        return not getattr(self._inside, "reading", False) and self.shared.requests.turn.help(lasting)

    def read_until(self, done: Callable[[], bool], tick: float = HELP_POLL_INTERVAL_S) -> None:
        """Read answers to any worker's requests, until `done()` or until no answer is due on this connection.

        :param tick: how often to ask `done` while nothing comes (s)
        """
        shared = self.shared
        try:
            self._inside.reading = True
            while len(shared.requests) and not done():
                _read_one(self.handler, shared, tick)
        except KafkaException as error:
            self._end(error)
        finally:
            self._inside.reading = False

    def stop(self, timeout: float = DRAIN_S) -> None:
        """End the connection and the reader, once the answers on their way have come.

        Requests without an answer by then get an error. Any worker may call this, also in a callback, and more than once. It
        waits no longer than `timeout` and the moment that the reader needs to end.

        :param timeout: how long to wait for answers (s)
        """
        requests, worker = self.shared.requests, self._worker
        inside = getattr(self._inside, "reading", False)
        try:
            reading = worker is not None and worker.is_alive() and not inside
            if reading and requests.error is None and not requests.inherited:
                requests.drain(timeout)
        finally:  # also when an interrupt ends the wait
            self.cut()
        if worker is not None and not inside:
            worker.join(0.0 if requests.inherited else JOIN_S)

    def cut(self) -> None:
        """End the connection now, and its reader soon; wait for neither.

        The caller may have the turn to read this connection, for which the reader waits.
        """
        shared = self.shared
        if not shared.requests.inherited:
            shared.ending.set()
            self._end(
                SocketDisconnectedError("the connection was closed by this client", broker=shared.connection.address)
            )
        shared.connection.disconnect()
        held, self._finalizer = self._finalizer, None
        if held is not None:
            held.close()

    def _after_fork(self) -> None:
        # The parent shares the descriptor: this child must neither read from it nor write to it. It takes no lock, since the
        # worker that held that lock may not exist in this process.
        self.shared.requests.error = _inherited(self.shared.connection.address)
        self.shared.connection.disconnect()


def _send(
    owner: RequestHandler,
    request: InFlightRequest[R],
    timeout: float,
    has_response: bool,
    latest: float,
    patient: bool,
    until: float,
) -> InFlightRequest[R]:
    """Send a request and return it. As `RequestHandler.send`."""
    requests, now = owner.shared.requests, owner.handler.now
    request.correlation_id = requests.next_id()
    try:
        frame = request.encode()
    except Exception as error:  # noqa: BLE001 - goes to the future, like the error of an answer
        request.set_error(error)
        return request
    if requests.listener is not None:
        request.sent_bytes = int.from_bytes(frame[0][:LENGTH_BYTES], "big") + LENGTH_BYTES
    request.silence_s = timeout + request.early
    request.latest = latest
    while True:
        try:
            if requests.throttled_until:
                owner._await_throttle(until, patient)
            at = now()
            renewal = owner._reauthentication
            if renewal is not None and at >= renewal.due:
                renewal.begin(timeout)
                at = now()
            deadline = at + timeout + requests.late
            request.deadline = min(latest, deadline + request.early)
            broken = _write(owner, frame, request if has_response else None, min(latest, deadline))
            break
        except ThrottledError as error:
            if not patient:
                request.set_error(error)
                return request
        except KafkaException as error:  # nothing was written
            request.unsent = requests.ended_unused
            request.set_error(error)
            return request
    if broken is not None:
        owner._end(broken)
        request.set_error(fresh(requests.error or broken))  # the reader may have found the reason first
    elif not has_response:
        request.sent_at = at
        if requests.listener is not None:
            requests.listener.on_request(type(request.request), request.sent_bytes, at)
            requests.listener.on_answer(type(request.request), request.sent_bytes, 0, 0.0, at)
        request.set_response(None)
    else:
        requests.turn.answer_due()
        if requests.listener is not None:
            requests.listener.on_request(type(request.request), request.sent_bytes, at)
    return request


def _write(
    owner: RequestHandler, frame: Sequence[Buffer], request: InFlightRequest[Any] | None, deadline: float
) -> KafkaException | None:
    """Write one request; return the error that broke the connection, if one did.

    :param request: added to those in flight; None if the peer does not answer it
    :raises ThrottledError: the peer has begun to throttle this client
    :raises KafkaException: nothing was written, and the connection is in the same state as before
    """
    connection, requests, _ = owner.shared
    writing = owner._writing
    if requests.error is not None and requests.inherited:  # its locks may be taken for good
        raise _inherited(connection.address)
    writing.take(deadline)
    writes = False
    try:
        writing.begin()
        at = owner.handler.now()
        if requests.throttled_until > at:  # the peer began to after the caller had checked
            raise ThrottledError(requests.about_throttling(at), broker=connection.address)
        if at - requests.used_at > CHECK_AFTER_S and not len(requests) and connection.is_hung_up:
            gone = SocketDisconnectedError(HUNG_UP, broker=connection.address)
            owner._end(gone)
            raise gone.again()
        if request is None:
            requests.check()
        else:
            requests.add(request)
        writes = True
        renewal = owner._reauthentication
        if renewal is not None and renewal.under_way:
            renewal.hold(frame)
        else:
            connection.send(frame, max(0.001, deadline - at))
        return None
    except KafkaException as error:
        if writes:
            return error
        raise
    except BaseException:
        # The caller's own timeout, or Ctrl-C: half a frame may be out, or none of a request in the table, and nothing
        # can follow it.
        if writes if request is None else requests.has(request):
            requests.interrupted = True
            connection.disconnect()
        raise
    finally:
        writing.is_written = False
        writing.leave()


def _let_go(shared: RequestHandler.Shared) -> None:
    """End the reader of a RequestHandler that was freed."""
    if shared.requests.error is None:
        shared.ending.set()
        shared.connection.disconnect()


class _Ending:
    """The end of a connection, once: each future gets the error, then `on_close`.

    :param handler: reports exceptions of `on_close`
    :param shared: the connection and its requests
    :param on_close: see RequestHandler
    """

    def __init__(self, handler: Handler, shared: RequestHandler.Shared, on_close: OnClose | None) -> None:
        self._handler = handler
        self._shared = shared
        self._on_close = WeakCall(on_close) if isinstance(on_close, MethodType) else lambda: on_close

    def __call__(self, error: KafkaException) -> None:
        """Fail the pending requests and close the connection; only the first call has an effect."""
        left = self._shared.requests.end(error)
        if left is None:
            return
        try:
            self._shared.requests.turn.end()
            self._shared.connection.disconnect()
            for request in left:
                request.set_error(fresh(error))
        except BaseException:  # as in `_deliver`, but no worker reads any more
            for request in left:
                request.set_error(fresh(error))
            raise
        listener = self._shared.requests.listener
        if listener is not None:
            listener.on_event(DISCONNECTED, self._shared.connection.address, 0.0, error.text)
        on_close = self._on_close()
        if on_close is not None:
            try:
                on_close(error)
            except Exception as failure:  # noqa: BLE001 - reported
                self._handler.report(f"on_close of {self._shared.connection.address}", failure)
        log.debug("disconnected from %s: %s", self._shared.connection.address, error)


def _inherited(where: str) -> SocketDisconnectedError:
    return SocketDisconnectedError(
        "the connection belongs to the process that this one was forked from; a new one is needed here", broker=where
    )


def _read(handler: Handler, shared: RequestHandler.Shared, end: _Ending, inside: Any) -> None:
    """Read answers until the connection ends; the reader's main function."""
    inside.reading = True
    try:
        max_idle_s = shared.requests.max_idle_s or IDLE_POLL_INTERVAL_S
        while shared.requests.error is None and shared.requests.turn.take():
            tick = DEADLINE_POLL_INTERVAL_S if shared.requests.idle_for() < IDLE_AFTER_S else IDLE_POLL_INTERVAL_S
            try:
                got = _read_one(handler, shared, min(tick, max_idle_s))
            finally:
                shared.requests.turn.release()
            if not got:
                shared.requests.retire_if_idle()
    except KafkaException as error:
        end(error)
    finally:
        # Whatever has ended this worker, also a kill: no other worker may wait for answers that none reads.
        end(SocketDisconnectedError("the connection's reader has ended", broker=shared.connection.address))


def _read_one(handler: Handler, shared: RequestHandler.Shared, tick: float) -> bool:
    """Read one answer, waiting one tick at most (s), and enforce the deadlines; return whether there was one."""
    requests, now = shared.requests, handler.now()
    if requests.is_overdue(now):
        _give_up(handler, shared, now)
    left = requests.none_due_before - now
    frame = requests.unread.popleft() if requests.unread else shared.connection.poll(min(tick, left))
    if frame is None:
        return False  # nothing yet
    _deliver(handler, shared, frame)
    if handler.cooperative:
        handler.breathe()
    return True


def _deliver(handler: Handler, shared: RequestHandler.Shared, frame: memoryview) -> None:
    """Complete the request that a frame answers.

    :raises CorrelationIdError: no request has this id, or an older one is not answered yet: brokers answer in order
    """
    requests = shared.requests
    try:
        request = requests.pop_if_oldest(int.from_bytes(frame[:4], "big", signed=True) if len(frame) >= 4 else 0)
        if request is not None:
            throttle = request.throttle(frame)  # before another worker sends
            if throttle is not None or requests.late:
                requests.throttle(throttle, handler.now())
            listener, at = requests.listener, requests.used_at
            if listener is not None and request.sent_bytes:  # it is none of a login
                seconds, received = at - request.sent_at, LENGTH_BYTES + len(frame)
                listener.on_answer(type(request.request), request.sent_bytes, received, seconds, at)
            request.set_response(frame)
    except BaseException:
        # The timeout of a worker that reads for itself, or Ctrl-C: the next reader completes the future.
        request = requests.answering
        if request is None:
            requests.unread.append(frame)
        elif not requests.put_back(request, frame):
            request.set_response(frame)
        raise
    finally:
        requests.answering = None
    if request is None:
        raise _misplaced(shared, frame)


def _misplaced(shared: RequestHandler.Shared, frame: memoryview) -> CorrelationIdError:
    """Return the error about an answer to another request than the oldest one."""
    number, oldest = int.from_bytes(frame[:4], "big", signed=True), shared.requests.oldest()
    if len(frame) >= 4 and oldest is not None and number in {one.correlation_id for one in shared.requests.all()}:
        return CorrelationIdError(
            f"an answer to request {number} came where one to request {oldest.correlation_id} was due; a proxy mixes answers "
            "up, or the answers have been garbled",
            broker=shared.connection.address,
        )
    return CorrelationIdError(
        f"an answer of {len(frame)} bytes to request {number} came, which this client has not sent; the peer is no Kafka "
        "broker, or a proxy mixes connections up",
        broker=shared.connection.address,
    )


def _give_up(handler: Handler, shared: RequestHandler.Shared, now: float) -> None:
    """Fail the requests whose deadline has passed, and then the connection.

    :raises SocketDisconnectedError: always
    """
    where = shared.connection.address
    why = shared.requests.about_throttling(now) or "the broker may be overloaded, or socket_timeout_ms too short"
    overdue = shared.requests.take_overdue(now)
    for request in overdue:
        request.set_error(ResponseTimeoutError(f"no answer in time; {why}", broker=where))
    raise SocketDisconnectedError(
        f"the connection was given up after {len(overdue)} of its requests had got no answer in time", broker=where
    )
