"""`InFlightRequest`: a request and the answer to it. `InFlightRequests`: those of one connection, in order."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from pykafka.exceptions import KafkaException, ResponseTimeoutError, SocketDisconnectedError
from pykafka.handlers.base import process_number
from pykafka.network.turns import ReadTurn
from pykafka.protocol.schema import decode_response, read_throttle_ms

if TYPE_CHECKING:
    from pykafka.handlers.base import Buffer, Handler
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.requestlog import RequestLog


E = TypeVar("E", bound=KafkaException)
R = TypeVar("R")

#: Why a connection was retired.
IDLE = (
    "this client closed the connection, which was not used for connections_max_idle_ms; the next request makes another"
)
#: Correlation ids are signed 32-bit numbers on the wire.
ID_MAX = 2**31 - 1
#: The client ignores a longer throttle (ms): a damaged answer may announce weeks, and the client would send nothing until then.
#: Brokers have no limit of their own: 100 MB under a quota of 10 kB/s make nearly three hours.
THROTTLE_MAX_MS = 24 * 3_600_000


def fresh(error: E) -> E:
    """Return a copy of an error to raise: several workers would add their tracebacks to a shared one."""
    copied = error.again()
    copied.args = error.args  # OSError, the base of our timeouts, leaves them out of a copy
    return copied


class Throttle(NamedTuple):
    """The throttling that an answer announces.

    :param seconds: its duration
    :param over: True: the peer has waited that long before it answered; False: it reads nothing for that long from now on
    """

    seconds: float
    over: bool


class Peer(NamedTuple):
    """The broker at the other end of a connection.

    :param address: "host:port", for errors
    :param client_id: how the broker's logs and quotas know this client
    :param breathe: the handler's, so that decoding a large answer does not block its hub
    :param report_throttle: called with (API, duration in s) when the broker throttles this client
    """

    address: str
    client_id: str
    breathe: Callable[[], object]
    report_throttle: Callable[[str, float], object]


class ResponseFuture:
    """A result that one worker waits for and another one sets, once.

    State: `response` and `error` are written before `done` is set and never after. Exactly one worker takes each callback off
    the list, so there is no lock. A worker that waits is a callback as well, the first one.

    :param handler: supplies the event of a worker that waits
    """

    __slots__ = ("__weakref__", "_callbacks", "_handler", "done", "error", "response")

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._callbacks: list[Callable[[Any], object]] = []
        #: Whether the response or an error is there.
        self.done = False
        #: The argument of `set_response`.
        self.response: Any = None
        #: The argument of `set_error`.
        self.error: BaseException | None = None

    def set_response(self, response: Any) -> None:
        """Set the response and run the callbacks; a future that is done only runs those that were interrupted."""
        if not self.done:
            self.response = response
            self.done = True
        if self._callbacks:
            self._call_back()

    def set_error(self, error: BaseException) -> None:
        """Set the exception that `get` raises; otherwise as `set_response`."""
        if not self.done:
            self.error = error
            self.done = True
        if self._callbacks:
            self._call_back()

    def _call_back(self) -> None:
        while True:
            try:
                fn = self._callbacks.pop(0)
            except IndexError:
                return
            try:
                fn(self)
            except Exception as error:  # noqa: BLE001 - it must not end the reader, which all other answers depend on
                self._handler.report(f"callback {fn!r}", error)
            except BaseException:  # the timeout of a worker that reads for itself, or Ctrl-C
                self._callbacks.insert(0, fn)
                raise

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Register `fn(future)`: the worker that completes the future calls it; this one does if the future is done already.

        That worker is usually the connection's reader, so `fn` must not wait for another answer. The handler logs its
        exceptions.
        """
        self._callbacks.append(fn)
        if self.done:
            self._call_back()

    def wait(self, timeout: float | None) -> bool:
        """Wait until the response or an error is there; return False if the time (s) is up before."""
        event = self._handler.Event()

        def wake(_: object) -> None:
            event.set()

        self._callbacks.insert(0, wake)
        try:
            # whoever sets `done` looks for callbacks afterwards; a greenlet's time may be up in the turn that completes it
            return self.done or event.wait(timeout) or self.done
        finally:
            with suppress(ValueError):  # it was called
                self._callbacks.remove(wake)

    def get(self, response_cls: Callable[..., Any] | None = None, timeout: float | None = None, **kwargs: Any) -> Any:
        """Wait for the response and return it.

        :param response_cls: called with the response and `kwargs`, and its result returned; None returns the response itself
        :param timeout: how long to wait (s); None until the request's own deadline
        :raises ResponseTimeoutError: no answer came in time; the request itself goes on
        """
        if not self.done and not self.wait(timeout):
            raise ResponseTimeoutError(
                f"no answer within {timeout:.3g} s; the broker may be overloaded, or the timeout too short"
            )
        error = self.error
        if error is not None:
            raise fresh(error) if isinstance(error, KafkaException) else error
        return self.response if response_cls is None else response_cls(self.response, **kwargs)


class RequestState(ResponseFuture):
    """The state of an `InFlightRequest`, which a writer, the reader and callers share."""

    __slots__ = (
        "_decoded",
        "correlation_id",
        "deadline",
        "early",
        "latest",
        "log",
        "peer",
        "request",
        "sent_at",
        "sent_bytes",
        "silence_s",
        "unsent",
        "version",
    )

    def __init__(self, handler: Handler, request: Any, version: int = -1, peer: Peer | None = None) -> None:
        super().__init__(handler)
        self.request = request
        self.version = version
        self.peer = peer
        self.correlation_id = 0
        #: The answer is overdue at this time of the handler's clock (s); throttling puts it off, but not beyond `latest`.
        self.deadline = math.inf
        self.latest = math.inf
        #: How long before the deadline the caller of `get_when_due` gives up (s), which ends no connection.
        self.early = 0.0
        #: When it was sent (on the handler's clock, s), and its size (bytes), if a listener asks for it.
        self.sent_at = 0.0
        self.sent_bytes = 0
        #: How long the peer may be silent (s).
        self.silence_s = 0.0
        #: Whether the request met a connection that had ended with nothing in flight, so that it was not sent.
        self.unsent = False
        #: Logs it, if requests are logged.
        self.log: RequestLog | None = None
        self._decoded: Any = None


class InFlightRequest(RequestState, Generic[R]):
    """A request and, once it has come, the answer to it, which is the frame from the correlation id on.

    :param handler: supplies the clock, and the event of a worker that waits
    :param request: a wire message; or, without a peer, an object that has `encode(correlation_id)`, or the documented
        `get_bytes()`, and `throttle(frame)` if its answer may announce throttling: that returns a `Throttle` or None
    :param version: of the wire message
    :param peer: the broker that the wire message goes to; `get` then decodes the answer
    """

    __slots__ = ()

    def encode(self) -> Sequence[Buffer]:
        """Return the frame as buffers, its length first."""
        request = self.request
        if self.peer is not None:
            frame: Sequence[Buffer] = request.frame(self.version, self.correlation_id, self.peer.client_id)
        elif hasattr(request, "encode"):
            frame = request.encode(self.correlation_id)
        else:
            # The documented classes number themselves 0: length (4 bytes), API key (2), version (2), correlation id (4).
            documented = bytearray(request.get_bytes())
            documented[8:12] = self.correlation_id.to_bytes(4, "big", signed=True)
            frame = [documented]
        if self.log is not None:
            self.log.sent(self.correlation_id, frame)
        return frame

    def throttle(self, frame: memoryview) -> Throttle | None:
        """Return the throttling that an answer announces; None if it announces none."""
        version, peer = self.version, self.peer
        if peer is None:
            read: Callable[[memoryview], Throttle | None] | None = getattr(self.request, "throttle", None)
            return None if read is None else read(frame)
        request_cls = type(self.request)
        quick = request_cls.quick_response
        answer = None if quick is None else quick(version, frame)
        if answer is not None:
            self._decoded = answer
            ms: int | None = answer.throttle_time_ms
        else:
            ms = read_throttle_ms(request_cls, version, frame)
        if ms is None:  # it stands deep in the answer
            try:
                self._decoded = answer = decode_response(request_cls, version, frame)[1]
            except KafkaException:  # the worker that waits for the answer decodes it, too
                return None
            ms = answer.throttle_time_ms
        if not 0 < ms <= THROTTLE_MAX_MS:
            return None
        peer.report_throttle(request_cls.__name__.removesuffix("Request"), ms / 1000)
        return Throttle(ms / 1000, version not in request_cls.response.early_versions)

    @property
    def is_over(self) -> bool:
        """Whether the answer or an error is there, or `get_when_due` would give up."""
        return self.done or self._handler.now() >= self.deadline - self.early

    def get(self, response_cls: Callable[..., Any] | None = None, timeout: float | None = None, **kwargs: Any) -> R:
        """Wait for the answer and return it, decoded if it is one to a wire message.

        :param timeout: how long to wait (s); None until the request's own deadline
        :raises ResponseTimeoutError: no answer in time
        :raises SocketDisconnectedError: the connection ended first
        :raises CorruptResponseError: the answer cannot be read
        """
        decoded = self._decoded
        if decoded is not None and self.done and self.error is None and self.log is None and response_cls is None:
            return cast("R", decoded)
        frame, peer = super().get(response_cls, timeout, **kwargs), self.peer
        if peer is None or frame is None:
            return cast("R", frame)
        response: Any = self._decoded
        if response is None:
            try:
                response = decode_response(type(self.request), self.version, frame, peer.breathe)[1]
            except KafkaException as error:
                raise error.with_context(broker=peer.address, api=type(self.request).__name__) from None
        if self.log is not None:
            self.log.answered(frame, response)
        return cast("R", response)

    def get_when_due(self, until: float | None = None) -> R:
        """Wait for the answer until it is overdue, or its caller gives up; throttling puts both off. Errors: see `get`.

        :param until: when the caller gives up whatever throttling says (on the handler's clock, s)
        """
        limit = math.inf if until is None else until
        while not self.done:
            deadline = self.deadline
            due = min(deadline - self.early, limit)
            left = None if due == math.inf else max(due - self._handler.now(), 0.0)
            if not self.wait(left) and (deadline == self.deadline or self._handler.now() >= limit):
                raise ResponseTimeoutError("no answer in time; the broker may be overloaded, or the timeout too short")
        return self.get()


class InFlightRequests:
    """The table that a connection's writers and its reader share.

    State: changes under `_lock`, which no worker holds while it waits or completes a request. Once `error` is set it stays, and
    the table takes no more requests. `answering` and `unread` belong to the worker that has the turn to read.

    :param handler: supplies lock, event, clock and fork hook
    :param max_idle_s: a connection that was not used for so long is retired; 0 for never
    :param listener: hears of each answer; None: nobody listens
    """

    def __init__(self, handler: Handler, max_idle_s: float = 0.0, listener: ClientListener | None = None) -> None:
        self.listener = listener
        self._now = handler.now
        self.max_idle_s = max_idle_s
        self._lock = handler.Lock()
        self._requests: dict[int, InFlightRequest[Any]] = {}  # in the order in which they were sent
        self._ids = itertools.count()
        self._drained = handler.Event()
        self._closing = False
        self._pid = process_number()
        #: No request is overdue before this time of the handler's clock (s). The first one may be due later.
        self.none_due_before = math.inf
        #: The request whose answer is being delivered; None between answers.
        self.answering: InFlightRequest[Any] | None = None
        #: Answers whose delivery was interrupted, for the next worker that reads.
        self.unread: deque[memoryview] = deque()
        #: Decides which worker reads the answers.
        self.turn = ReadTurn(handler, self)
        #: The reason why no answer can come any more; None while answers can.
        self.error: KafkaException | None = None
        #: Whether the peer has answered a request.
        self.proven = False
        #: Whether this client has ended the connection, since a worker was interrupted while it wrote.
        self.interrupted = False
        #: Whether the connection has ended, or is retired, with nothing in flight.
        self.ended_unused = False
        #: Since when there is the connection, and when a request or an answer used it last (on the handler's clock, s).
        self.since = self.used_at = self._now()
        #: The peer, which throttles this client, reads nothing from this connection until then (on the handler's clock, s).
        self.throttled_until = 0.0
        #: By how much throttling delayed the peer's last answer (s).
        self.late = 0.0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's copy, whose connection is the parent's."""
        return self._pid != process_number()

    def all(self) -> list[InFlightRequest[Any]]:
        """Return the requests, the oldest first."""
        return list(self._requests.values())

    def next_id(self) -> int:
        """Return the number of the next request; counting takes no lock, as it is one step of C."""
        return next(self._ids) % ID_MAX + 1

    def add(self, request: InFlightRequest[Any]) -> None:
        """Add a request that its worker is about to send.

        :raises KafkaException: the connection has ended or is closing
        """
        with self._lock:
            if self.error is not None or self.ended_unused or self._closing:
                raise self._refusal()
            self._requests[request.correlation_id] = request
            self.none_due_before = min(self.none_due_before, request.deadline)
            request.sent_at = self.used_at = self._now()

    def add_first(self, request: InFlightRequest[Any]) -> None:
        """Add a request that goes before all others, none of which has been sent; also while the connection is closing.

        :raises KafkaException: the connection has ended
        """
        with self._lock:
            if self.error is not None:
                raise fresh(self.error)
            self._requests = {request.correlation_id: request, **self._requests}
            self.none_due_before = min(self.none_due_before, request.deadline)
            request.sent_at = self._now()

    def check(self) -> None:
        """Raise the error that ended the connection, if it has ended."""
        with self._lock:
            if self.error is not None or self.ended_unused or self._closing:
                raise self._refusal()
            self.used_at = self._now()

    def _refusal(self) -> KafkaException:
        if self.error is not None:
            return fresh(self.error)
        if self.ended_unused:
            return SocketDisconnectedError(IDLE)
        return SocketDisconnectedError("this client is closing the connection and sends nothing more on it")

    def has(self, request: InFlightRequest[Any]) -> bool:
        """Return whether a request waits for its answer."""
        return request.correlation_id in self._requests

    def oldest(self) -> InFlightRequest[Any] | None:
        """Return the request that is answered next; None if no request is in flight."""
        with self._lock:
            return next(iter(self._requests.values()), None)

    def pop_if_oldest(self, correlation_id: int) -> InFlightRequest[Any] | None:
        """Remove the oldest request and return it; None if it has another number, or no request is in flight."""
        with self._lock:
            request = next(iter(self._requests.values()), None)
            if request is None or request.correlation_id != correlation_id:
                return None
            self.answering = request  # first, so that an interrupt behind this loses nothing
            self.proven = True
            del self._requests[correlation_id]
            self.used_at = self._now()
            if not self._requests:
                self.none_due_before = math.inf
                if self._closing:
                    self._drained.set()
        return request

    def put_back(self, request: InFlightRequest[Any], frame: memoryview) -> bool:
        """Keep an answer whose delivery was interrupted for the next reader; return False if the connection has ended."""
        with self._lock:
            if self.error is not None:
                return False
            self._requests = {request.correlation_id: request, **self._requests}  # it is the oldest
            self.unread.append(frame)
        return True

    def throttle(self, throttle: Throttle | None, now: float) -> None:
        """Put the deadlines of later requests off by the throttling that an answer announces (None: it announces none)."""
        with self._lock:
            if throttle is None:
                self.late = 0.0
                return
            if throttle.over:
                self.late = throttle.seconds
            else:
                self.throttled_until = max(self.throttled_until, now + throttle.seconds)
            begin = max(self.throttled_until, now) + self.late
            for request in self._requests.values():
                request.deadline = min(max(request.deadline, begin + request.silence_s), request.latest)

    def about_throttling(self, now: float) -> str:
        """Return the sentence about throttling for an error about time; "" if the peer does not throttle."""
        if self.throttled_until > now:
            return f"the broker throttles this client by a quota, for {(self.throttled_until - now) * 1000:.0f} ms more"
        if self.late:
            return f"the broker throttles this client by a quota: its last answer was {self.late * 1000:.0f} ms late for it"
        return ""

    def is_overdue(self, now: float) -> bool:
        """Return whether the deadline of a request has passed (s of the handler's clock)."""
        if now < self.none_due_before:
            return False
        with self._lock:
            first = math.inf
            for request in self._requests.values():
                first = min(first, request.deadline)
            self.none_due_before = first
        return now >= first

    def silent_for(self) -> float:
        """Return for how long the oldest request has waited for its answer, throttling not counted (s); 0 for no request."""
        try:
            oldest = next(iter(self._requests.values()), None)
        except RuntimeError:  # requests come and go just now: the peer answers
            return 0.0
        return 0.0 if oldest is None else max(0.0, self._now() - (oldest.deadline - oldest.silence_s))

    def take_overdue(self, now: float) -> list[InFlightRequest[Any]]:
        """Remove and return the requests whose deadline has passed."""
        with self._lock:
            overdue = [number for number, request in self._requests.items() if request.deadline <= now]
            return [self._requests.pop(number) for number in overdue]

    def idle_for(self) -> float:
        """Return for how long the connection was not used (s); 0 while requests are in flight."""
        return 0.0 if self._requests else self._now() - self.used_at

    def retire_if_idle(self) -> None:
        """Take no more requests if the connection was not used for `max_idle_s`.

        :raises SocketDisconnectedError: it is retired now; its reader ends it
        """
        with self._lock:
            if not self.max_idle_s or self._closing or self.idle_for() < self.max_idle_s:
                return
            self.ended_unused = True
        raise SocketDisconnectedError(IDLE)

    def drain(self, timeout: float) -> bool:
        """Refuse new requests, wait for the answers that are due, and return whether all came in time (s)."""
        with self._lock:
            self._closing = True
            if not self._requests:
                return True
        return self._drained.wait(timeout)

    def end(self, error: KafkaException) -> list[InFlightRequest[Any]] | None:
        """Keep the first error that ends the connection and return the requests to be failed; None at later calls."""
        with self._lock:
            if self.error is not None:
                return None
            self.error = fresh(error)  # it lives as long as the connection: a traceback would keep frames alive
            left = list(self._requests.values())
            self.ended_unused = not left
            self._requests.clear()
            self._drained.set()
        return left
