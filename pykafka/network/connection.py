"""BrokerConnection: one TCP or TLS connection to a broker, framed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    CorrelationIdError,
    KafkaException,
    ResponseTimeoutError,
    SocketDisconnectedError,
    TlsError,
)
from pykafka.handlers.interrupts import finalizer
from pykafka.network.dialing import Attempt, Dialer, Route, reason_of
from pykafka.network.frames import FrameReader
from pykafka.network.in_flight import fresh
from pykafka.network.options import ConnectionSettings
from pykafka.security import SslConfigLike, explain_refusal
from pykafka.security.mechanism import for_host
from pykafka.utils import get_string, old_attributes
from pykafka.utils.error_handlers import left_ms
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Stream
    from pykafka.network.authentication import Session
    from pykafka.protocol.versions import ApiRanges
    from pykafka.security import Mechanism

#: The documented default of socket_timeout_ms, for calls before the first connect (s).
DEFAULT_TIMEOUT_S = 30.0
#: Pause before another attempt (s).
RETRY_PAUSE_S = 0.1
#: Buffers smaller than this are joined before they are written (bytes): copying them costs less than a gathered write.
JOIN_BELOW = 4096

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True)
class _Setup:
    """The arguments of `BrokerConnection.configure`."""

    settings: ConnectionSettings
    client_id: str = "pykafka"
    advertised: bool = False
    ranges: Callable[[], ApiRanges | None] = lambda: None
    route: Route | None = None


@dataclass(frozen=True)
class _Wrapper:
    """A `_wrap_socket` that a program has set, as an `ssl_config`."""

    wrap_socket: Callable[[Any], Any]


def _ssl_config_of(wrap: Callable[[Any], Any]) -> SslConfigLike | None:
    """Return the object that has a `_wrap_socket`; None if it returns its socket, as for plaintext in PyKafka 2."""
    owner = getattr(wrap, "__self__", None)
    if wrap == getattr(owner, "wrap_socket", None):
        return owner
    probe = object()
    try:
        return None if wrap(probe) is probe else _Wrapper(wrap)
    except Exception:  # noqa: BLE001 - whatever it raises, it needs a socket, and so does something
        return _Wrapper(wrap)


#: The settings of a connection that was given none.
_PLAINTEXT = ConnectionSettings()


@old_attributes("_wrap_socket")
class BrokerConnection:
    """A connection to one broker. One worker may read while another writes; any may disconnect.

    State: `_stream` and `_frames` are set by `connect` and taken away by `disconnect`; readers and writers keep their
    own reference, and notice the end by an error of the stream.

    Programs written for PyKafka 2 replace `__init__` by a function that takes the parameters up to `ssl_config`, and sets
    attributes. So the state begins as attributes of the class, the client gives its own settings to `configure`, and
    connecting looks at the attributes of PyKafka 2: `host`, `port`, `source_host`, `source_port`, `_wrap_socket`.

    :param host: DNS name or IP address of the broker
    :param port: its TCP port
    :param handler: supplies sockets and clock
    :param buffer_size: how much may be read ahead of what is asked for (bytes), once so much comes; more than 64 KiB makes no
        difference
    :param source_host: local address to connect from; "" for any
    :param source_port: local port to connect from; where it is taken, any
    :param ssl_config: an SslConfig or ssl.SSLContext, or with threads any object with `wrap_socket(sock)`; None for
        plaintext
    :param advertised: whether the cluster named this address, which errors then say
    :param settings: see `configure`
    """

    host: str
    port: int
    source_host: str = ""
    source_port: int = 0
    _handler: Handler
    _buffer_size: int = 1024 * 1024
    _ssl_config: SslConfigLike | None
    _setup: _Setup | None = None
    _made: Dialer | None = None
    _timeout: float = DEFAULT_TIMEOUT_S
    _due: float = 0.0
    _stream: Stream | None = None
    _frames: FrameReader | None = None
    # The stream that is being closed.
    _unclosed: Stream | None = None
    # Closes the stream, when it is told to or dropped.
    _finalizer: Generator[None] | None = None
    # What ended it, for workers that only notice that it has ended.
    _cause: KafkaException | None = None
    #: Whether it is made for a call with a time limit.
    hurried: bool = False
    # Correlation ids of what `request` sent and `response` has not read; None before the first `connect`.
    _expected: deque[int] | None = None

    def __init__(
        self,
        host: str | bytes,
        port: int,
        handler: Handler,
        buffer_size: int = 1024 * 1024,
        source_host: str = "",
        source_port: int = 0,
        ssl_config: SslConfigLike | None = None,
        advertised: bool = False,
        *,
        settings: ConnectionSettings | None = None,
        client_id: str = "pykafka",
    ) -> None:
        self.host = Name.of(host)
        self.port = int(port)
        self.source_host = source_host
        self.source_port = int(source_port)
        self._handler = handler
        self._buffer_size = buffer_size
        if settings is None:
            settings = _PLAINTEXT if ssl_config is None else ConnectionSettings(ssl_config=ssl_config)
        self._ssl_config = settings.ssl_config
        self.configure(settings, client_id, advertised)

    def configure(
        self,
        settings: ConnectionSettings,
        client_id: str = "pykafka",
        advertised: bool = False,
        ranges: Callable[[], ApiRanges | None] = lambda: None,
        route: Route | None = None,
    ) -> None:
        """Set what the constructor of PyKafka 2 did not have; before the connection is made.

        :param settings: TLS, SASL, proxy and times
        :param client_id: how the broker's logs know this client, at a login
        :param advertised: whether the cluster named this address, which errors then say
        :param ranges: returns the broker's API versions, if they are certain, or None: a login asks for them
        :param route: what is known about the addresses of the host
        """
        self._setup = _Setup(settings, client_id, advertised, ranges, route)
        self._made = None

    @property
    def _dialer(self) -> Dialer:
        """The maker of connections, as the attributes say when it is first needed."""
        made = self._made
        if made is None:
            source = (self.source_host, int(self.source_port))
            setup = self._setup or _Setup(_PLAINTEXT)
            settings, own = setup.settings, vars(self)
            ssl_config = own.get("_ssl_config", settings.ssl_config)
            wrap = own.get("_wrap_socket")  # as a program's own `__init__` may have set it
            if wrap is not None and wrap != getattr(ssl_config, "wrap_socket", None):
                ssl_config = _ssl_config_of(wrap)
            if ssl_config is not settings.ssl_config:
                settings = replace(settings, ssl_config=ssl_config)
            made = self._made = Dialer(
                get_string(self.host),
                int(self.port),
                self._handler,
                source,
                settings,
                setup.advertised,
                setup.client_id,
                setup.ranges,
                route=setup.route,
            )
        return made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address} {'connected' if self.connected else 'not connected'}>"

    # Documented, and C because what is raised in a `__del__` is lost, the error of a signal's handler too. Connections come
    # and go by themselves where a cluster is dead, so those that are closed go without a step of Python: see `finalizer`.
    __del__ = object.__init__

    @property
    def _reason(self) -> KafkaException:
        """Why there is no connection."""
        return self._cause or SocketDisconnectedError("not connected; call connect() first", broker=self.address)

    @property
    def address(self) -> str:
        """Host and port as people write them."""
        return self._dialer.address

    @property
    def is_tls(self) -> bool:
        """Whether the connection speaks TLS."""
        return self._dialer.settings.ssl_config is not None

    @property
    def logs_in(self) -> bool:
        """Whether connecting includes a login."""
        return self._dialer.settings.sasl is not None

    @property
    def mechanism(self) -> Mechanism | None:
        """The credentials for the next login at this broker; None without a login."""
        mechanism = self._dialer.settings.sasl
        return None if mechanism is None else for_host(mechanism, self._dialer.host)

    @property
    def _socket(self) -> Any:
        """The connected socket, as PyKafka 2 had it: programs set options of it. None without a connection."""
        stream: Any = self._stream
        while stream is not None and not hasattr(stream, "socket"):
            stream = getattr(stream, "_stream", None)
        return None if stream is None else stream.socket

    @_socket.setter
    def _socket(self, value: None) -> None:
        if value is not None:
            raise TypeError(
                "this client makes its sockets itself: give KafkaClient proxy=, ssl_config= or source_address=, or let "
                "BrokerConnection.connect() connect and then change its _socket"
            )

    @property
    def connected(self) -> bool:
        """Whether the connection has been made and not been found broken."""
        return self._stream is not None

    @property
    def session(self) -> Session | None:
        """The login of the present connection; None without one."""
        return self._dialer.session

    @property
    def login_due(self) -> bool:
        """Whether the broker is about to end the session of this login; a RequestHandler renews it, others connect anew."""
        session = self._dialer.session
        return session is not None and self._handler.now() >= session.renew_at

    @property
    def login_over(self) -> bool:
        """Whether the broker has ended the session of this login: it hangs up on the next request."""
        session = self._dialer.session
        return session is not None and self._handler.now() >= session.ends_at

    @property
    def is_hung_up(self) -> bool:
        """Whether the peer has closed its end already, as far as this machine knows; it asks the system."""
        ask = getattr(self._stream, "is_hung_up", None)
        return ask is not None and ask()

    # -- making and ending it ----------------------------------------------------------------------------------------

    def connect(self, timeout: int, attempts: int = 1) -> None:
        """Connect, trying each address of the host in turn.

        :param timeout: for each attempt, all addresses, TLS and login included; also how long later calls may take (ms)
        :param attempts: how often to try
        :raises NameResolutionError: the host has no address
        :raises ConnectionRefused: nothing listens there, or there is no way there
        :raises ConnectTimeoutError: no answer in time
        :raises TlsError: TLS could not be agreed on, or the certificate is not trusted
        :raises SaslAuthenticationFailed: the broker refuses the credentials; UnsupportedSaslMechanism, IllegalSaslState: it
            does not take such a login here. There is no further attempt then
        :raises SocketDisconnectedError: anything else; each of them has a list of `Attempt` as `.attempts`
        """
        self.disconnect()
        self._timeout = timeout / 1000
        failed: list[Attempt] = []
        for attempt in range(1, max(attempts, 1) + 1):
            self._due = self._handler.now() + self._timeout
            try:
                stream = self._dialer.open(self._timeout, failed)
                break
            except KafkaException as error:
                if attempt >= attempts or not isinstance(error, SocketDisconnectedError):
                    error.ledger = list(failed)
                    raise
            self._handler.sleep(RETRY_PAUSE_S * attempt)
        self._expected = deque()
        self._frames = FrameReader(stream, self._handler, self._buffer_size, self.is_tls)
        self._finalizer = finalizer(stream.close)
        self._stream = stream
        if self._dialer.given_up:  # meanwhile, and `give_up` may have looked for a stream before there was one
            self.disconnect()
            raise fresh(self._reason)

    @property
    def timeout_ms(self) -> int:
        """How long the last `connect` might take, and calls may take since then (ms)."""
        return round(self._timeout * 1000)

    @property
    def setup_left_ms(self) -> int:
        """How much of the time of the last attempt to connect is left for what belongs to it, as the broker's versions (ms)."""
        return left_ms(self._due, self._handler.now(), 1)

    def disconnect(self) -> None:
        """End the connection and wake whoever reads or writes; nothing happens if there is none."""
        held = self._finalizer  # read first, so that it is never that of a later stream
        stream, self._stream, self._frames = self._stream, None, None
        if stream is not None:
            self._unclosed = stream
            self._cause = SocketDisconnectedError("the connection was closed by this client", broker=self.address)
            self._close(stream, held)
        elif self._unclosed is not None:  # an interrupt may have ended the call that was to close it
            self._unclosed.close()

    def give_up(self) -> None:
        """End the connection for good: a `connect` under way in another worker ends now, and none begins.

        Takes no lock, and waits for nobody.
        """
        self._dialer.give_up()
        self.disconnect()

    @property
    def given_up(self) -> bool:
        """Whether `give_up` was called."""
        return self._dialer.given_up

    def reconnect(self) -> None:
        """End the connection and make a new one; errors: see `connect`."""
        self.disconnect()
        self.connect(round(self._timeout * 1000))

    # -- frames ------------------------------------------------------------------------------------------------------

    def send(self, buffers: Sequence[Buffer], timeout: float | None = None) -> None:
        """Write buffers one after another; large ones are not copied.

        :param buffers: length prefix included
        :param timeout: for all of it (s); None for the timeout of `connect`
        :raises SocketDisconnectedError: not everything could be written; the connection has been ended
        """
        stream = self._stream
        if stream is None:
            raise fresh(self._reason)
        limit = self._timeout if timeout is None else timeout
        try:
            # views: their text, in reports of errors, has no contents
            stream.send([memoryview(buffers[0])] if len(buffers) == 1 else join_small(buffers), limit)
        except TimeoutError as error:
            text = f"the broker did not take a request within {limit:.3g} s; it may be overloaded"
            raise self._broken(SocketDisconnectedError(text, broker=self.address)) from error
        except OSError as error:
            raise self._broken(self._lost(error)) from error

    def receive(self, timeout: float | None = None) -> memoryview:
        """Read one frame and return it without its length prefix; it stays valid for as long as it is referred to.

        :param timeout: how long to wait (s); None for the timeout of `connect`
        :raises ResponseTimeoutError: it has not come completely; the next call goes on where this one stopped
        :raises NotKafkaError: something other than a Kafka broker answers
        :raises FrameTooLargeError: the length cannot be right
        :raises SocketDisconnectedError: the connection is lost; it has been ended, as with every error but the first
        """
        limit = self._timeout if timeout is None else timeout
        frame = self.poll(limit)
        if frame is None:
            raise ResponseTimeoutError(f"no answer within {limit:.3g} s", broker=self.address)
        return frame

    def poll(self, timeout: float) -> memoryview | None:
        """Read one frame. As `receive`, but None if it has not come: a reader that looks again and again needs no error.

        :param timeout: how long to wait (s)
        """
        frames = self._frames
        if frames is None:
            raise fresh(self._reason)
        try:
            return frames.next(timeout)
        except KafkaException as error:
            raise self._broken(error.with_context(broker=self.address)) from None
        except TimeoutError:
            return None
        except OSError as error:
            raise self._broken(self._lost(error, frames.hint)) from error

    def _broken(self, error: KafkaException) -> KafkaException:
        """End the connection for this error, and return what it really was: another worker may have met it first."""
        held = self._finalizer
        stream, self._stream, self._frames = self._stream, None, None
        if stream is None:
            return fresh(self._reason)
        self._unclosed = stream
        self._cause = fresh(error)  # whose traceback would hold its callers, and what they hold, in its place
        self._close(stream, held)
        return error

    def _close(self, stream: Stream, held: Generator[None] | None) -> None:
        stream.close()
        if held is not None:
            held.close()
        self._unclosed = None

    def _lost(self, error: OSError, hint: str = "") -> SocketDisconnectedError:
        refused = explain_refusal(error, self._dialer.identity_note())
        if refused is not None:
            return TlsError(refused, broker=self.address)
        return SocketDisconnectedError(
            f"the connection was lost ({reason_of(error)}); the broker may have been stopped or cut off{hint}",
            broker=self.address,
        )

    # -- one request after the other, as documented ------------------------------------------------------------------

    def request(self, request: Any) -> None:
        """Send a request, for `response` to read its answer; over a new connection if the login of this one is about to end.

        :param request: has `get_bytes()`, the whole frame
        :raises SocketDisconnectedError: it could not be written
        """
        frame = request.get_bytes()
        if self.login_due and not self._expected:
            self.reconnect()
        self.send([frame])
        if self._expected is not None:
            # Behind length (4 bytes), API key (2) and version (2).
            self._expected.append(int.from_bytes(frame[8:12], "big", signed=True))

    def response(self) -> memoryview:
        """Wait for the answer to the oldest request and return it, from behind the correlation id on.

        :raises CorrelationIdError: the answer is to another request; the connection has been ended
        :raises ResponseTimeoutError: no answer in time
        :raises SocketDisconnectedError: the connection is lost
        """
        frame = self.receive()
        expected = self._expected.popleft() if self._expected else None
        found = int.from_bytes(frame[:4], "big", signed=True)
        if found != expected:
            self.disconnect()
            raise CorrelationIdError(
                f"an answer to request {found} came where {expected} was due; the connection has been garbled",
                broker=self.address,
            )
        return frame[4:]


def join_small(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return the buffers with small neighbours joined, as views."""
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for buffer in buffers:
        if len(buffer) < JOIN_BELOW:
            small.append(buffer)
            continue
        if small:
            joined.append(memoryview(b"".join(small)))
            small = []
        joined.append(buffer)
    if small:
        joined.append(memoryview(b"".join(small)))
    return joined
