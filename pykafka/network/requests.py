"""RequestHandler: one pipelined connection; requests are written by whoever makes them, answers read by one worker."""

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
from pykafka.handlers.guards import guard
from pykafka.network.futures import ResponseFuture, fresh
from pykafka.network.pending import Pending, PendingRequests, Throttle

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Worker

log = logging.getLogger(__name__)

#: How often the reader looks up from the connection to see whether a deadline has passed (s).
TICK_S = 1.0
#: How often a worker that reads for itself looks whether what it waits for came another way (s).
HELP_TICK_S = 0.05
#: Deadline of a request that names none (s): the documented default of socket_timeout_ms.
DEFAULT_TIMEOUT_S = 30.0
#: How long `stop` lets answers arrive that are on their way (s).
DRAIN_S = 1.0
#: How long `stop` waits for the reader, who has nothing left to wait for then (s).
JOIN_S = 5.0
#: After how long nobody who has the turn to write, and does not know it, is believed to come back (s).
LOST_TURN_S = 1.0


class Connection(Protocol):
    """What a RequestHandler needs of a connection; `pykafka.connection.BrokerConnection` has it."""

    @property
    def connected(self) -> bool: ...
    @property
    def address(self) -> str: ...
    def send(self, buffers: Sequence[Buffer], timeout: float) -> None: ...
    def receive(self, timeout: float) -> memoryview: ...
    def disconnect(self) -> None: ...


class Sendable(Protocol):
    """A request that knows its bytes on the wire, length prefix included."""

    def encode(self, correlation_id: int, /) -> Sequence[Buffer]: ...


OnClose = Callable[[KafkaException], object]


class RequestHandler:
    """Sends requests on one connection and hands out their answers, any number of them in flight.

    A broker answers the requests of one connection one after another, so what must not wait behind a long poll needs a
    connection of its own. Requests are written at once, in the caller's worker; a reader worker completes their
    futures. When the connection ends, for whatever reason, every future that is not done gets an error that says why.

    A worker that waits for each answer may read in the reader's stead: `help_read`.

    Ownership: the reader holds `Shared`, never this object, so that dropping the last reference to it ends the reader.
    State: `_writing` is held while a frame is written, so that frames do not mix and are in the order of the table;
    futures are completed with no lock held, since their callbacks may send.

    :param handler: supplies reader, locks and clock
    :param connection: connected; belongs to this object from now on
    :param on_close: called once, with the error, when the connection has ended; a bound method is held weakly
    """

    class Shared(NamedTuple):
        """What this object shares with its reader."""

        connection: Connection
        requests: PendingRequests
        ending: EventType

    class Task(NamedTuple):
        """A request and the future of its answer."""

        request: Any
        future: ResponseFuture

    def __init__(self, handler: Handler, connection: Connection, on_close: OnClose | None = None) -> None:
        self.handler = handler
        self.shared = self.Shared(connection, PendingRequests(handler), handler.Event())
        self._end = _Ending(handler, self.shared, on_close)
        self._writing = handler.Lock()
        #: Whether whoever has that lock knows it, and how many have had it.
        self._is_written = False
        self._writers = 0
        self._worker: Worker | None = None
        self._inside = handler.local()
        self._guard: Generator[None] | None = guard(partial(_let_go, self.shared))
        handler.at_fork(self._after_fork)

    def __repr__(self) -> str:
        state = "alive" if self.alive else "ended"
        return f"<{type(self).__name__} {self.shared.connection.address} {state}, {self.pending} pending>"

    @property
    def alive(self) -> bool:
        """Whether requests can be sent and answers be read, as far as is known."""
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
        """What ended the connection; None as long as it has not ended."""
        return self.shared.requests.error

    @property
    def pending(self) -> int:
        """How many requests have been sent and not been answered."""
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
    ) -> ResponseFuture:
        """Send a request and return the future of its answer: the frame, from the correlation id on.

        It is sent at once, unless the peer throttles this client: then when that is over, which counts against no timeout.

        Never raises for the request's or the connection's sake: what goes wrong is the future's error. An error while
        the request is encoded concerns that future only.

        :param request: has `encode(correlation_id)`, or the documented `get_bytes()`; and `throttle(frame)`, where the
            answer may tell of throttling: a `Throttle` or None
        :param has_response: False for what the broker does not answer (acks=0): the future is done when it is written
        :param timeout: deadline for writing it and for the answer (s); when it passes unanswered the connection is
            ended, as no answer behind it can be trusted to come; None for DEFAULT_TIMEOUT_S
        :param latest: the caller's own deadline, on the handler's clock (s): throttling does not put it off
        :param patient: False: where the peer throttles this client, the future fails with ThrottledError at once
        """
        if timeout is None:
            timeout = DEFAULT_TIMEOUT_S
        future = ResponseFuture(self.handler)
        requests = self.shared.requests
        correlation_id = requests.next_id()
        try:
            frame = _frame(request, correlation_id)
        except Exception as error:  # noqa: BLE001 - the future's, so that a bad request looks the same as a bad answer
            future.set_error(error)
            return future
        latest = math.inf if latest is None else latest
        while True:
            try:
                self._wait_until_heard(latest, patient)
                deadline = future.due = min(self.handler.now() + timeout + requests.late, latest)
                task = Pending(self.Task(request, future), future, deadline, timeout, latest)
                broken = self._write(frame, correlation_id, task if has_response else None, deadline)
                break
            except ThrottledError as error:
                if not patient:
                    future.set_error(error)
                    return future
            except KafkaException as error:  # not written at all
                future.set_error(error)
                return future
        if broken is not None:
            self._end(broken)
            future.set_error(fresh(self.shared.requests.error or broken))  # the reader may have met the reason before
        elif not has_response:
            future.set_response(None)
        else:
            self.shared.requests.turn.answer_due()
        return future

    @property
    def muted_for(self) -> float:
        """For how long nothing may be sent, since the peer throttles this client (s); 0: it does not."""
        until = self.shared.requests.muted_until
        return max(until - self.handler.now(), 0.0) if until else 0.0

    def _wait_until_heard(self, latest: float, patient: bool) -> None:
        """Wait until the peer reads again from this connection.

        :raises ThrottledError: the caller does not want to wait
        :raises ResponseTimeoutError: it would be later than `latest`
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

    def help_read(self) -> bool:
        """Take the turn to read answers in this worker, where no other one reads; then `read_until` and `leave`."""
        return not getattr(self._inside, "reading", False) and self.shared.requests.turn.help()

    def read_until(self, done: Callable[[], bool]) -> None:
        """Read answers, whosever they are, until `done()`, or none is due on this connection any more."""
        shared = self.shared
        try:
            self._inside.reading = True
            while len(shared.requests) and not done():
                _read_one(self.handler, shared, HELP_TICK_S)
        except KafkaException as error:
            self._end(error)
        finally:
            self._inside.reading = False

    def leave(self) -> None:
        """Give the turn to read back."""
        self.shared.requests.turn.leave()

    def _write(
        self, frame: Sequence[Buffer], correlation_id: int, task: Pending | None, deadline: float
    ) -> KafkaException | None:
        """Enter and write one request; return what broke the connection, if anything did.

        :raises ThrottledError: the peer throttles this client since a moment
        :raises KafkaException: nothing has been written, and the connection is as good or as bad as before
        """
        shared = self.shared
        if shared.requests.inherited:
            raise _inherited(shared.connection.address)
        self._take_turn(deadline)
        try:
            self._writers += 1
            self._is_written = True
            if self.muted_for:  # since the caller has looked
                raise ThrottledError(
                    shared.requests.about_throttling(self.handler.now()), broker=shared.connection.address
                )
            if task is None:
                shared.requests.check()
            else:
                shared.requests.add(correlation_id, task)
            try:
                shared.connection.send(frame, max(deadline - self.handler.now(), 0.001))
            except KafkaException as error:
                return error
            except BaseException:
                # Somebody else's timeout or Ctrl-C: perhaps half a frame is out, and nothing can follow it.
                shared.connection.disconnect()
                raise
        finally:
            self._is_written = False
            self._writing.release()
        return None

    def _take_turn(self, deadline: float) -> None:
        """Take the turn to write.

        On threads Ctrl-C may come when the lock is taken and nothing knows it yet. Nobody would ever write again: such a
        connection is ended.

        :raises KafkaException: others were writing all the time, or nobody was
        """
        while True:
            before = None if self._is_written else self._writers
            left = max(deadline - self.handler.now(), 0.0)
            if self._writing.acquire(timeout=min(left, LOST_TURN_S)):
                return
            if left > LOST_TURN_S and not self._is_written and self._writers == before:
                error = SocketDisconnectedError(
                    "a request was interrupted before it was written", broker=self.shared.connection.address
                )
                self._end(error)
                raise error.again()
            if left <= LOST_TURN_S:
                raise ResponseTimeoutError(
                    "other requests were being written all the time; the broker reads too slowly",
                    broker=self.shared.connection.address,
                )

    def stop(self, timeout: float = DRAIN_S) -> None:
        """End the connection and the reader, after answers that are on their way have come.

        What has not been answered by then gets an error. May be called from any worker, a callback's included, and more
        than once; never waits longer than `timeout` and the moment that the reader needs to end.

        :param timeout: how long to wait for answers (s)
        """
        shared, worker = self.shared, self._worker
        inside = getattr(self._inside, "reading", False)
        if not shared.requests.inherited:
            reading = worker is not None and worker.is_alive() and not inside
            if reading and shared.requests.error is None:
                shared.requests.drain(timeout)
            shared.ending.set()
            self._end(
                SocketDisconnectedError("the connection was closed by this client", broker=shared.connection.address)
            )
        shared.connection.disconnect()
        held, self._guard = self._guard, None
        if held is not None:
            held.close()
        if worker is not None and not inside:
            worker.join(0.0 if shared.requests.inherited else JOIN_S)

    def _after_fork(self) -> None:
        # The descriptor is shared with the parent: nothing may be read from it or written to it here. No lock is taken:
        # the worker that held it may not exist in this process.
        self.shared.requests.error = _inherited(self.shared.connection.address)
        self.shared.connection.disconnect()


def _let_go(shared: RequestHandler.Shared) -> None:
    """End a reader whose RequestHandler is gone."""
    if shared.requests.error is None:
        shared.ending.set()
        shared.connection.disconnect()


class _Ending:
    """Ends a connection once: tells every future why, then whoever wants to know.

    :param handler: reports what `on_close` raises
    :param shared: the connection and its requests
    :param on_close: see RequestHandler
    """

    def __init__(self, handler: Handler, shared: RequestHandler.Shared, on_close: OnClose | None) -> None:
        self._handler = handler
        self._shared = shared
        self._on_close = WeakCall(on_close) if isinstance(on_close, MethodType) else lambda: on_close

    def __call__(self, error: KafkaException) -> None:
        """Fail what is pending and close the connection; only the first call does anything."""
        left = self._shared.requests.end(error)
        if left is None:
            return
        self._shared.requests.turn.end()
        self._shared.connection.disconnect()
        try:
            for task in left:
                task.future.set_error(fresh(error))
        except BaseException:  # as in `_hand_out`, and nobody reads any more
            for task in left:
                task.future.set_error(fresh(error))
            raise
        on_close = self._on_close()
        if on_close is not None:
            try:
                on_close(error)
            except Exception as failure:  # noqa: BLE001 - handed to report
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
        while shared.requests.error is None and shared.requests.turn.take():
            try:
                _read_one(handler, shared, TICK_S)
            finally:
                shared.requests.turn.release()
    except KafkaException as error:
        end(error)
    finally:
        # Whatever ended this worker, its death included: nobody may wait for answers that nobody reads.
        end(SocketDisconnectedError("the connection's reader has ended", broker=shared.connection.address))


def _read_one(handler: Handler, shared: RequestHandler.Shared, tick: float) -> None:
    """Read one answer, or wait a tick (s) for it, and look after the deadlines."""
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
            return  # nothing yet
    _hand_out(handler, shared, frame)
    handler.breathe()


def _heed_throttle(handler: Handler, requests: PendingRequests, task: Any, frame: memoryview) -> None:
    """Find out whether the peer throttles this client, before anybody sends again."""
    find = getattr(task.request.request, "throttle", None)
    if find is None:
        return
    throttle: Throttle | None = find(frame)
    if throttle is not None or requests.late:
        requests.throttled(throttle, handler.now())


def _hand_out(handler: Handler, shared: RequestHandler.Shared, frame: memoryview) -> None:
    """Complete the future that a frame answers.

    :raises CorrelationIdError: there is none, or it is not its turn: brokers answer in order, and who believed an answer that
        belongs to an earlier request would take for done what is still on its way
    """
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    task = shared.requests.peek(correlation_id) if len(frame) >= 4 else None
    if task is None:
        raise CorrelationIdError(
            f"an answer of {len(frame)} bytes to request {correlation_id}, which nobody waits for; "
            "what answers there is no Kafka broker, or a proxy mixes connections up",
            broker=shared.connection.address,
        )
    oldest = shared.requests.oldest()
    if correlation_id != oldest:
        raise CorrelationIdError(
            f"an answer to request {correlation_id} came where one to request {oldest} was due; a proxy mixes answers up, or "
            "they have been garbled",
            broker=shared.connection.address,
        )
    _heed_throttle(handler, shared.requests, task, frame)
    try:
        if shared.requests.take(correlation_id) is not None:
            task.future.set_response(frame)
    except BaseException:
        # Somebody's timeout or Ctrl-C, in a worker that reads for itself: whoever reads next does it over.
        if not shared.requests.put_back(correlation_id, task, frame):
            task.future.set_response(frame)
        raise


def _give_up(handler: Handler, shared: RequestHandler.Shared, now: float) -> None:
    """Fail the requests whose deadline has passed, and with them the connection.

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
