"""`RequestHandler`: one pipelined connection. Each worker writes its own requests; one worker reads all answers."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykafka.exceptions import (
    CorrelationIdError,
    KafkaException,
    ResponseTimeoutError,
    SocketDisconnectedError,
    ThrottledError,
)
from pykafka.handlers.base import Buffer, EventType, WeakCall
from pykafka.handlers.interrupts import guard
from pykafka.network.in_flight import Pending, PendingRequests, ResponseFuture, Task, Throttle, fresh
from pykafka.network.reauthentication import Renewal
from pykafka.network.turns import WritingTurn

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Worker
    from pykafka.network.authentication import Session

log = logging.getLogger(__name__)

#: How often the reader checks whether a deadline has passed (s).
TICK_S = 1.0
#: The same on a connection that was not used for a while (s), and for how long (s).
IDLE_TICK_S = 5.0
IDLE_AFTER_S = 2.0
#: How often a worker that reads for itself checks whether another worker has read its answer (s).
HELP_TICK_S = 0.05
#: Deadline of a request without one of its own (s): the documented default of socket_timeout_ms.
DEFAULT_TIMEOUT_S = 30.0
#: How long `stop` waits for answers that are on their way (s).
DRAIN_S = 1.0
#: How long `stop` waits for the reader to end, once the connection is closed (s).
JOIN_S = 5.0
#: Before a request goes out on a connection that was not used for so long (s), the client checks that it still stands.
CHECK_AFTER_S = 1.0
HUNG_UP = "the peer closed the connection while nothing was in flight; the broker may have found it idle"


class Connection(Protocol):
    """A connection as a RequestHandler uses it; `pykafka.connection.BrokerConnection` is one."""

    @property
    def connected(self) -> bool: ...
    @property
    def address(self) -> str: ...
    @property
    def is_hung_up(self) -> bool: ...
    def send(self, buffers: Sequence[Buffer], timeout: float) -> None: ...
    def receive(self, timeout: float) -> memoryview: ...
    def disconnect(self) -> None: ...


class Sendable(Protocol):
    """A request that encodes itself, length prefix included."""

    def encode(self, correlation_id: int, /) -> Sequence[Buffer]: ...


OnClose = Callable[[KafkaException], object]


class RequestHandler:
    """The requests of one connection and their answers; any number of requests may be in flight.

    A broker answers the requests of one connection one after another, so a request that must not wait behind a long poll needs
    another connection. The caller's worker writes each request at once; a reader worker completes the futures. When the
    connection ends, for whatever reason, each future that is not done gets an error with that reason.

    A worker that waits for each answer may read in the reader's stead: `help_read`.

    Ownership: the reader holds `Shared`, never this object, so that dropping the last reference to it ends the reader.
    State: `_writing` is held while a frame is written; futures are completed with no lock held, since their callbacks may send.
    A login that ends is renewed by `_renewal`.

    :param handler: supplies reader, locks and clock
    :param connection: connected; belongs to this object from now on
    :param on_close: called once, with the error, when the connection has ended; a bound method is held weakly
    :param max_idle_s: the reader ends a connection that was not used for so long (s); 0 for never
    """

    class Shared(NamedTuple):
        """The state that this object shares with its reader."""

        connection: Connection
        requests: PendingRequests
        ending: EventType

    Task = Task

    def __init__(
        self, handler: Handler, connection: Connection, on_close: OnClose | None = None, max_idle_s: float = 0.0
    ) -> None:
        self.handler = handler
        self.shared = self.Shared(connection, PendingRequests(handler, max_idle_s), handler.Event())
        self._end = _Ending(handler, self.shared, on_close)
        self._writing = WritingTurn(handler, connection.address, self._end)
        session: Session | None = getattr(connection, "session", None)
        self._renewal = Renewal(handler, self.shared.requests, connection, self._writing, self._end, session)
        self._worker: Worker | None = None
        self._inside = handler.local()
        self._guard: Generator[None] | None = guard(partial(_let_go, self.shared))
        handler.at_fork(self._after_fork)

    def __repr__(self) -> str:
        state = "alive" if self.alive else "ended"
        return f"<{type(self).__name__} {self.shared.connection.address} {state}, {self.pending} pending>"

    @property
    def alive(self) -> bool:
        """Whether requests can be sent and answers be read, as far as this client knows."""
        shared, worker = self.shared, self._worker
        return (
            shared.requests.error is None
            and worker is not None
            and worker.is_alive()
            and not shared.ending.is_set()
            and shared.connection.connected
        )

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
        answer_timeout: float | None = None,
    ) -> ResponseFuture:
        """Send a request and return the future of its answer: the frame, from the correlation id on.

        This worker sends it at once. Where the peer throttles this client it waits for the end of that first, which counts
        against no timeout.

        Errors of the request or the connection are not raised here: the future gets them. An error while the request is
        encoded concerns its future only.

        :param request: has `encode(correlation_id)`, or the documented `get_bytes()`; and `throttle(frame)`, where the
            answer may tell of throttling: a `Throttle` or None
        :param has_response: False for a request that the broker does not answer (acks=0): its future is done when it is
            written
        :param timeout: deadline for writing the request and for the answer (s); when it passes, the handler ends the
            connection, since later answers may never come either; None for DEFAULT_TIMEOUT_S
        :param latest: the caller's own deadline, on the handler's clock (s): throttling does not put it off
        :param patient: False: where the peer throttles this client, the future fails with ThrottledError at once
        :param answer_timeout: deadline for the answer (s), where it is another than that for writing
        """
        if timeout is None:
            timeout = DEFAULT_TIMEOUT_S
        if answer_timeout is None:
            answer_timeout = timeout
        future = ResponseFuture(self.handler)
        requests = self.shared.requests
        correlation_id = requests.next_id()
        try:
            frame = _frame(request, correlation_id)
        except Exception as error:  # noqa: BLE001 - goes to the future, like the error of an answer
            future.set_error(error)
            return future
        latest = math.inf if latest is None else latest
        while True:
            try:
                if requests.muted_until:
                    self._wait_until_heard(latest, patient)
                now = self.handler.now()
                if now >= self._renewal.due:
                    self._renewal.begin(timeout)
                    now = self.handler.now()
                deadline = min(now + timeout + requests.late, latest)
                future.due = min(now + answer_timeout + requests.late, latest)
                task = Pending(self.Task(request, future), future, future.due, answer_timeout, latest)
                broken = self._write(frame, correlation_id, task if has_response else None, deadline)
                break
            except ThrottledError as error:
                if not patient:
                    future.set_error(error)
                    return future
            except KafkaException as error:  # nothing was written
                future.unsent = requests.ended_unused
                future.set_error(error)
                return future
        if broken is not None:
            self._end(broken)
            future.set_error(fresh(self.shared.requests.error or broken))  # the reader may have found the reason first
        elif not has_response:
            future.set_response(None)
        else:
            self.shared.requests.turn.answer_due()
        return future

    @property
    def muted_for(self) -> float:
        """For how long this client must send nothing, since the peer throttles it (s); 0 where it does not."""
        until = self.shared.requests.muted_until
        return max(until - self.handler.now(), 0.0) if until else 0.0

    def _wait_until_heard(self, latest: float, patient: bool) -> None:
        """Wait until the peer's throttling is over, so that it reads from this connection again.

        :raises ThrottledError: the caller is not patient
        :raises ResponseTimeoutError: the throttling lasts longer than until `latest`
        :raises KafkaException: the connection has ended meanwhile
        """
        shared = self.shared
        while left := self.muted_for:
            shared.requests.check()
            told = shared.requests.about_throttling(self.handler.now())
            if not patient:
                raise ThrottledError(f"{told}; the request waits", broker=shared.connection.address)
            if self.handler.now() + left > latest:
                raise ResponseTimeoutError(f"{told}; the request was not sent", broker=shared.connection.address)
            shared.ending.wait(min(left, TICK_S))

    def help_read(self, lasting: bool = False) -> bool:
        """Take the turn to read answers in this worker, unless another one reads; then call `read_until` and `leave`.

        :param lasting: whether this worker reads nearly all answers of the connection, so that the reader looks seldom
        """
        return not getattr(self._inside, "reading", False) and self.shared.requests.turn.help(lasting)

    def read_until(self, done: Callable[[], bool], tick: float = HELP_TICK_S) -> None:
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

    def leave(self) -> None:
        """Return the turn to read."""
        self.shared.requests.turn.leave()

    def _write(
        self, frame: Sequence[Buffer], correlation_id: int, task: Pending | None, deadline: float
    ) -> KafkaException | None:
        """Register and write one request; return the error that broke the connection, if one did.

        :raises ThrottledError: the peer has begun to throttle this client
        :raises KafkaException: nothing was written, and the connection is in the same state as before
        """
        shared = self.shared
        if shared.requests.inherited:
            raise _inherited(shared.connection.address)
        self._writing.take(deadline)
        try:
            self._writing.begin()
            if shared.requests.muted_until and self.muted_for:  # the peer began to after the caller had checked
                raise ThrottledError(
                    shared.requests.about_throttling(self.handler.now()), broker=shared.connection.address
                )
            if shared.requests.idle_for() > CHECK_AFTER_S and shared.connection.is_hung_up:
                gone = SocketDisconnectedError(HUNG_UP, broker=shared.connection.address)
                self._end(gone)
                raise gone.again()
            try:
                if task is None:
                    shared.requests.check()
                else:
                    shared.requests.add(correlation_id, task)
                if self._renewal.under_way:
                    self._renewal.hold(frame)
                    return None
                return self._send(frame, deadline)
            except KafkaException:  # the table takes no more requests
                raise
            except BaseException:
                # The caller's own timeout, or Ctrl-C: half a frame may be out, or none of a request in the table, and nothing
                # can follow it.
                if task is None or shared.requests.peek(correlation_id) is not None:
                    shared.requests.interrupted = True
                    shared.connection.disconnect()
                raise
        finally:
            self._writing.is_written = False
            self._writing.leave()

    def _send(self, frame: Sequence[Buffer], deadline: float) -> KafkaException | None:
        try:
            self.shared.connection.send(frame, max(deadline - self.handler.now(), 0.001))
        except KafkaException as error:
            return error
        return None

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
        held, self._guard = self._guard, None
        if held is not None:
            held.close()

    def _after_fork(self) -> None:
        # The parent shares the descriptor: this child must neither read from it nor write to it. It takes no lock, since the
        # worker that held that lock may not exist in this process.
        self.shared.requests.error = _inherited(self.shared.connection.address)
        self.shared.connection.disconnect()


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
            for task in left:
                task.future.set_error(fresh(error))
        except BaseException:  # as in `_hand_out`, but no worker reads any more
            for task in left:
                task.future.set_error(fresh(error))
            raise
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


def _frame(request: Any, correlation_id: int) -> Sequence[Buffer]:
    """Return the buffers of a request's frame, with this correlation id in it."""
    if hasattr(request, "encode"):
        buffers: Sequence[Buffer] = request.encode(correlation_id)
        return buffers
    # The documented classes number themselves 0: length (4 bytes), API key (2), version (2), correlation id (4).
    frame = bytearray(request.get_bytes())
    frame[8:12] = correlation_id.to_bytes(4, "big", signed=True)
    return [frame]


def _read(handler: Handler, shared: RequestHandler.Shared, end: _Ending, inside: Any) -> None:
    """Read answers until the connection ends; the reader's main function."""
    inside.reading = True
    try:
        max_idle_s = shared.requests.max_idle_s or IDLE_TICK_S
        while shared.requests.error is None and shared.requests.turn.take():
            tick = TICK_S if shared.requests.idle_for() < IDLE_AFTER_S else IDLE_TICK_S
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
    deadline = shared.requests.next_deadline()
    now = handler.now()
    if deadline is not None and deadline <= now:
        _give_up(handler, shared, now)
    patience = tick if deadline is None else min(tick, deadline - now)
    frame = shared.requests.left_over()
    if frame is None:
        try:
            frame = shared.connection.receive(patience)
        except ResponseTimeoutError:
            return False  # nothing yet
    _hand_out(handler, shared, frame)
    handler.breathe()
    return True


def _heed_throttle(handler: Handler, requests: PendingRequests, task: Any, frame: memoryview) -> None:
    """Read from an answer whether the peer throttles this client, before another worker sends."""
    find = getattr(task.request.request, "throttle", None)
    if find is None:
        return
    throttle: Throttle | None = find(frame)
    if throttle is not None or requests.late:
        requests.throttled(throttle, handler.now())


def _hand_out(handler: Handler, shared: RequestHandler.Shared, frame: memoryview) -> None:
    """Complete the future that a frame answers.

    :raises CorrelationIdError: no request has this id, or an older one is not answered yet: brokers answer in order
    """
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    task = shared.requests.peek(correlation_id) if len(frame) >= 4 else None
    if task is None:
        raise CorrelationIdError(
            f"an answer of {len(frame)} bytes to request {correlation_id} came, which this client has not sent; "
            "the peer is no Kafka broker, or a proxy mixes connections up",
            broker=shared.connection.address,
        )
    oldest = shared.requests.oldest()
    if correlation_id != oldest:
        raise CorrelationIdError(
            f"an answer to request {correlation_id} came where one to request {oldest} was due; a proxy mixes answers up, or "
            "the answers have been garbled",
            broker=shared.connection.address,
        )
    _heed_throttle(handler, shared.requests, task, frame)
    try:
        shared.requests.proven = True
        if shared.requests.take(correlation_id) is not None:
            task.future.set_response(frame)
    except BaseException:
        # The timeout of a worker that reads for itself, or Ctrl-C: the next reader completes the future.
        if not shared.requests.put_back(correlation_id, task, frame):
            task.future.set_response(frame)
        raise


def _give_up(handler: Handler, shared: RequestHandler.Shared, now: float) -> None:
    """Fail the requests whose deadline has passed, and then the connection.

    :raises SocketDisconnectedError: always
    """
    where = shared.connection.address
    why = shared.requests.about_throttling(now) or "the broker may be overloaded, or socket_timeout_ms too short"
    overdue = shared.requests.take_overdue(now)
    for task in overdue:
        task.future.set_error(ResponseTimeoutError(f"no answer in time; {why}", broker=where))
    raise SocketDisconnectedError(
        f"the connection was given up after {len(overdue)} of its requests had got no answer in time", broker=where
    )
