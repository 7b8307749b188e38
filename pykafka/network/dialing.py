"""`Dialer`: makes connections to a broker, and explains failures."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from pykafka.exceptions import (
    ConnectionRefused,
    ConnectTimeoutError,
    KafkaException,
    NameResolutionError,
    ProxyError,
    SocketDisconnectedError,
    TlsError,
)
from pykafka.handlers.base import Address
from pykafka.network.authentication import LowerLogin, Peer, Session, log_in
from pykafka.security import SslConfig, SslConfigLike, explain_refusal, explain_tls_error
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from pykafka.handlers import Address, Handler, Stream
    from pykafka.network.options import ConnectionSettings
    from pykafka.network.proxies import Proxy
    from pykafka.protocol.versions import ApiRanges
    from pykafka.security import Mechanism


#: How many addresses of a host are remembered: names of moving brokers lead to ever new ones.
FAILED_MAX = 64

ADVERTISED = (
    "the broker advertises this address: where it is wrong from here, correct advertised.listeners of that broker"
)
PORT_MAX = 65535
#: The method as it is here: programs replace or override it, and then it wraps the socket.
_WRAP_SOCKET = SslConfig.wrap_socket
#: The family of an address that is a name (AF_UNSPEC).
ANY_FAMILY = 0


class Route:
    """The order in which the addresses of a host are tried, and how long each may take.

    Names are looked up at each connect, so addresses come and go. State: single stores, by any worker that connects.

    :param settings: how long a setup may take
    :param chance: by which times differ: the handler's
    """

    def __init__(self, settings: ConnectionSettings, chance: random.Random) -> None:
        first_ms = settings.socket_connection_setup_timeout_ms
        self._setup = Backoff(first_ms, settings.socket_connection_setup_timeout_max_ms, chance)
        # How many setups in a row have timed out.
        self._timeouts = 0
        # Addresses whose last connect failed, the latest last.
        self._failed: tuple[Address, ...] = ()
        #: The versions of the login's APIs to use instead of the broker's, since it closes the connection on higher ones.
        self.lowered: ApiRanges = {}

    def order(self, addresses: Iterable[Address]) -> list[Address]:
        """Return the addresses in the order to try them in: as the system prefers them, those that failed last."""
        failed = self._failed
        if not failed:
            return list(addresses)
        return sorted(addresses, key=lambda address: failed.index(address) if address in failed else -1)

    def setup_timeout(self) -> float:
        """Return how long the setup of a connection may take now (s)."""
        return self._setup.seconds(self._timeouts + 1)

    def worked(self, address: Address) -> None:
        """Note that a connection was made."""
        self._timeouts = 0
        if address in self._failed:
            self._failed = tuple(one for one in self._failed if one != address)

    def failed(self, address: Address, late: bool) -> None:
        """Note that no connection could be made.

        :param late: whether it took too long
        """
        if late:
            self._timeouts += 1
        self._failed = (*(one for one in self._failed if one != address), address)[-FAILED_MAX:]


class Attempt(NamedTuple):
    """One step of connecting that failed: a line in the `attempts` of the error."""

    stage: str  # "DNS", "TCP", "PROXY", "TLS", "SASL" or "ApiVersions"
    address: str
    error: str
    ms: int

    def __str__(self) -> str:
        return f"{self.stage} {self.address}: {self.error} ({self.ms} ms)"


class Dialer:
    """The way to one broker: name lookup, TCP, a proxy's tunnel, TLS, login by SASL.

    :param host: DNS name or IP address of the broker
    :param port: its TCP port
    :param handler: supplies sockets and clock
    :param source: local address and port to connect from; ("", 0) for any
    :param settings: TLS, SASL, proxy and times
    :param advertised: whether the cluster named this address, which errors then say
    :param client_id: how the broker's logs know this client, at the login
    :param ranges: returns the broker's API versions, if they are certain, or None: a login asks for them
    :param route: what is known about the addresses of the host; by default nothing
    """

    def __init__(
        self,
        host: str,
        port: int,
        handler: Handler,
        source: tuple[str, int],
        settings: ConnectionSettings,
        advertised: bool = False,
        client_id: str = "pykafka",
        ranges: Callable[[], ApiRanges | None] = lambda: None,
        *,
        route: Route | None = None,
    ) -> None:
        self.host = host
        self.port = port
        #: Host and port as "host:port".
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._handler = handler
        self._source = source
        self.settings = settings
        self._origin = f"; {ADVERTISED}" if advertised else ""
        #: Whether `give_up` was called.
        self.given_up = False
        self._client_id = client_id
        self._ranges = ranges
        self._route = route or Route(settings, handler.random)
        self._proxy: Proxy | None = settings.proxy if not isinstance(settings.proxy, str) else None
        # The stream of a handshake under way: `give_up` closes it.
        self._opening: Stream | None = None
        #: The login of the connection that `open` returned last; None without one.
        self.session: Session | None = None

    def give_up(self) -> None:
        """End an `open` under way in another worker and refuse later ones, without taking a lock or waiting."""
        self.given_up = True
        stream = self._opening
        if stream is not None:
            stream.close()

    def _wanted(self) -> bool:
        return not self.given_up

    def open(self, timeout: float, attempts: list[Attempt]) -> Stream:
        """Try each address of the host in turn and return the first connection that succeeds, with TLS and login if configured.

        :param timeout: for all of it (s)
        :param attempts: gets an `Attempt` for each step that failed
        :raises NameResolutionError: the host has no address
        :raises ConnectionRefused: nothing listens there, or there is no way there
        :raises ConnectTimeoutError: no answer in time
        :raises TlsError: TLS could not be agreed on, or the certificate is not trusted
        :raises SaslAuthenticationFailed: the broker refuses the credentials
        :raises UnsupportedSaslMechanism, IllegalSaslState: it does not take such a login here
        :raises SocketDisconnectedError: anything else
        """
        deadline = self._handler.now() + timeout
        self._check_wanted()
        addresses = self._route.order(self._targets(timeout, attempts))
        worst: SocketDisconnectedError | None = None
        for number, address in enumerate(addresses):
            # An address that swallows packets must leave time for the others.
            left = max(deadline - self._handler.now(), 0.0) / (len(addresses) - number)
            try:
                return self._open_one(address, left, attempts)
            except SocketDisconnectedError as error:
                self._check_wanted()
                if not isinstance(worst, TlsError):  # it came furthest
                    worst = error
        raise worst or NameResolutionError(f"the host name {self.host!r} has no address", broker=self.address)

    def _check_wanted(self) -> None:
        if self.given_up:
            raise SocketDisconnectedError("the connection was given up by this client", broker=self.address)

    def _targets(self, timeout: float, attempts: list[Attempt]) -> list[Address]:
        """Return the addresses of the broker; its name, if a proxy looks that up."""
        # The system would cut them off, and connect elsewhere; a proxy would get nonsense.
        if not self.host or "\0" in self.host or not 0 <= self.port <= PORT_MAX:
            raise NameResolutionError(
                f"{self.host!r} and {self.port} are no host and port to connect to; correct the address{self._origin}",
                broker=self.address,
            )
        if self._proxy is not None and self._proxy.resolves:
            return [Address(ANY_FAMILY, (self.host, self.port))]
        started = self._handler.now()
        try:
            return self._handler.resolve(self.host, self.port, timeout=timeout, wanted=self._wanted)
        except (OSError, ValueError) as error:
            self._check_wanted()
            attempts.append(self._attempt("DNS", self.address, error, started))
            late = isinstance(error, TimeoutError)
            raise (ConnectTimeoutError if late else NameResolutionError)(
                f"the host name {self.host!r} cannot be resolved: {reason_of(error)}; "
                f"{'the name has to be known on this machine' if self._origin else 'check the name'}{self._origin}",
                broker=self.address,
            ) from error

    def _attempt(self, stage: str, where: str, error: BaseException, started: float) -> Attempt:
        return Attempt(stage, where, reason_of(error), round((self._handler.now() - started) * 1000))

    def _open_one(self, address: Address, timeout: float, attempts: list[Attempt]) -> Stream:
        """Connect to one address; again with a login in lower versions, if the broker hangs up on a request of the login."""
        started = self._handler.now()
        deadline = started + timeout
        lowered = self._route.lowered
        while True:
            try:
                stream = self._open_once(address, deadline, attempts, lowered)
            except LowerLogin as lower:
                attempts.append(self._attempt("SASL", address.text, lower.__cause__ or lower, started))
                self._check_wanted()
                lowered = {**lowered, **lower.ranges}
            except SocketDisconnectedError as error:
                if type(error) is SocketDisconnectedError:  # the lower versions did not help
                    self._route.lowered = {}
                raise
            else:
                self._route.lowered = lowered
                return stream

    def _open_once(self, address: Address, deadline: float, attempts: list[Attempt], lowered: ApiRanges) -> Stream:
        left = max(deadline - self._handler.now(), 0.0)
        stream = self._reach(address, min(left, self._route.setup_timeout()), attempts)
        self._opening = stream
        try:
            self._check_wanted()
            stream = self._opening = self._secure(stream, address, deadline, attempts)
            self._check_wanted()  # `give_up` may have closed the stream below TLS meanwhile
            self._log_in(stream, address, deadline, attempts, lowered)
        except BaseException:
            stream.close()
            raise
        finally:
            self._opening = None
        return stream

    def _secure(self, stream: Stream, address: Address, deadline: float, attempts: list[Attempt]) -> Stream:
        """Return the stream with TLS, if that is configured."""
        ssl_config = self.settings.ssl_config
        if ssl_config is None:
            return stream
        started = self._handler.now()
        try:
            return self._wrap_tls(stream, ssl_config, max(deadline - started, 0.0))
        except Exception as error:  # any: other libraries' errors are no OSErrors
            attempts.append(self._attempt("TLS", address.text, error, started))
            if isinstance(error, SocketDisconnectedError):  # named already
                raise error.with_context(broker=self.address) from None
            raise TlsError(explain_tls_error(error, self.host, self.identity_note()), broker=self.address) from error

    def _log_in(
        self, stream: Stream, address: Address, deadline: float, attempts: list[Attempt], lowered: ApiRanges
    ) -> None:
        """Log in, if that is configured, and set `session`."""
        self.session = None
        mechanism = self.settings.sasl
        if mechanism is None:
            return
        started = self._handler.now()
        peer = Peer(self.host, self.address, self._client_id, self._origin)
        is_tls = self.settings.ssl_config is not None
        left = max(deadline - started, 0.0)
        try:
            session = log_in(
                stream, is_tls, mechanism, peer, self._handler, left, self._ranges(), self._wanted, lowered
            )
            self.session = session._replace(took=self._handler.now() - started)
        except (OSError, KafkaException) as error:
            stage = "SASL" if explain_refusal(error) is None else "TLS"
            attempts.append(self._attempt(stage, address.text, error, started))
            self._check_wanted()
            if isinstance(error, KafkaException) and type(error) is not SocketDisconnectedError:  # named already
                raise error.with_context(broker=self.address) from error.__cause__
            raise self._explain_sasl(error, mechanism, left) from error

    def _explain_sasl(self, error: OSError | KafkaException, mechanism: Mechanism, timeout: float) -> KafkaException:
        if isinstance(error, TimeoutError):
            return ConnectTimeoutError(
                f"the login by {mechanism.name} was not answered within {timeout * 1000:.0f} ms; the broker may be overloaded, "
                f"or this is no Kafka port{self._origin}",
                broker=self.address,
            )
        refused = explain_refusal(error, self.identity_note())
        if refused is not None:
            return TlsError(refused, broker=self.address)
        return SocketDisconnectedError(
            f"the connection was lost during the login by {mechanism.name}: {reason_of(error)}; the broker may be stopping, or "
            f"the port may not be that of a SASL listener{self._origin}",
            broker=self.address,
        )

    def _reach(self, target: Address, timeout: float, attempts: list[Attempt]) -> Stream:
        """Connect to an address of the broker, through the proxy if there is one."""
        proxy = self._proxy
        try:
            if proxy is None:
                stream = self._connect(target, timeout, attempts)
            else:
                stream = self._connect_by(proxy, target, timeout, attempts)
        except SocketDisconnectedError as error:
            self._route.failed(target, isinstance(error, ConnectTimeoutError))
            raise
        self._route.worked(target)
        return stream

    def _connect(self, address: Address, timeout: float, attempts: list[Attempt]) -> Stream:
        started = self._handler.now()
        try:
            return self._connect_tcp(address, timeout)
        except OSError as error:
            attempts.append(self._attempt("TCP", address.text, error, started))
            raise self._explain_tcp(error, address, timeout) from error

    def _connect_by(self, proxy: Proxy, target: Address, timeout: float, attempts: list[Attempt]) -> Stream:
        """Connect to each address of a proxy in turn, until one answers, and open a tunnel to the broker."""
        deadline = self._handler.now() + timeout
        addresses = self._resolve_proxy(proxy, timeout, attempts)
        last: SocketDisconnectedError | None = None
        for number, address in enumerate(addresses):
            share = max(deadline - self._handler.now(), 0.0) / (len(addresses) - number)
            try:
                stream = self._connect(address, share, attempts)
            except SocketDisconnectedError as error:
                self._check_wanted()
                last = error
                continue
            return self._open_tunnel(stream, proxy, target, deadline, attempts)
        raise last or ProxyError(f"{proxy} has no address; check proxy=", broker=self.address)

    def _resolve_proxy(self, proxy: Proxy, timeout: float, attempts: list[Attempt]) -> list[Address]:
        started = self._handler.now()
        try:
            return self._handler.resolve(proxy.host, proxy.port, timeout=timeout, wanted=self._wanted)
        except (OSError, ValueError) as error:
            self._check_wanted()
            attempts.append(self._attempt("DNS", f"{proxy.host}:{proxy.port}", error, started))
            raise ProxyError(
                f"the host name of {proxy} cannot be resolved: {reason_of(error)}; check proxy=", broker=self.address
            ) from error

    def _open_tunnel(
        self, stream: Stream, proxy: Proxy, target: Address, deadline: float, attempts: list[Attempt]
    ) -> Stream:
        """Perform the handshake with the proxy that a stream leads to."""
        started = self._handler.now()
        self._opening = stream
        try:
            self._check_wanted()
            self._shake_hands(stream, proxy, target, deadline)
        except BaseException as error:
            stream.close()
            if not isinstance(error, (OSError, ProxyError)):
                raise
            self._check_wanted()
            attempts.append(self._attempt("PROXY", str(proxy), error, started))
            if isinstance(error, ProxyError):
                raise error.with_context(broker=self.address) from None
            if isinstance(error, TimeoutError):
                text = (
                    f"{proxy} has not connected to {target.text} in time; check that it reaches the broker, and proxy="
                )
                raise ConnectTimeoutError(f"{text}{self._origin}", broker=self.address) from error
            text = (
                f"{proxy} hung up ({reason_of(error)}); check scheme and port of proxy=, and that it may connect there"
            )
            raise ProxyError(text, broker=self.address) from error
        finally:
            self._opening = None
        return stream

    def _shake_hands(self, stream: Stream, proxy: Proxy, target: Address, deadline: float) -> None:
        host, port = target.sockaddr[:2]
        tunnel = proxy.tunnel(host, port)
        while True:
            data = tunnel.next_bytes()
            if data:
                stream.send([data], max(deadline - self._handler.now(), 0.0))
            if not tunnel.wants:
                return
            buffer = bytearray(tunnel.wants)
            count = stream.recv_into(buffer, max(deadline - self._handler.now(), 0.0))
            if not count:
                raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")
            tunnel.received(bytes(buffer[:count]))

    def _connect_tcp(self, address: Address, timeout: float) -> Stream:
        host, port = self._source
        if not host and not port:
            return self._handler.connect(address, timeout, wanted=self._wanted)
        try:
            return self._handler.connect(address, timeout, self._source, self._wanted)
        except OSError as error:
            if not port or error.errno not in {errno.EADDRINUSE, errno.EADDRNOTAVAIL}:
                raise
        # One port serves one connection to an address, and a broker is given several.
        return self._handler.connect(address, timeout, (host, 0), self._wanted)

    def _explain_tcp(self, error: OSError, address: Address, timeout: float) -> SocketDisconnectedError:
        via = "" if self._proxy is None else f" ({self._proxy})"
        origin = self._origin if self._proxy is None else "; check proxy="
        if isinstance(error, TimeoutError):
            return ConnectTimeoutError(
                f"{address.text}{via} did not answer within {timeout * 1000:.0f} ms; a firewall may drop the packets, "
                f"or the host may be down{origin}",
                broker=self.address,
            )
        # getaddrinfo's numbers are negative, and the broker's own name is resolved by now.
        unknown = error.errno is not None and error.errno < 0
        if self._source[0] and (unknown or error.errno == errno.EADDRNOTAVAIL):
            return SocketDisconnectedError(
                f"cannot connect from {self._source[0]!r}: no address of this machine; correct source_address",
                broker=self.address,
            )
        peer = "broker" if self._proxy is None else "proxy"
        advice = (
            f"is the {peer} running, and is that its port?"
            if isinstance(error, ConnectionRefusedError)
            else "check the address and the network between"
        )
        text = f"cannot connect to {address.text}{via}: {reason_of(error)}; {advice}{origin}"
        return ConnectionRefused(text, broker=self.address)

    def identity_note(self) -> str:
        """Return what may be wrong with the client's certificate; "" where nothing is."""
        config = self.settings.ssl_config
        return config.identity_note(self._handler.time_ms()) if isinstance(config, SslConfig) else ""

    def _wrap_tls(self, stream: Stream, config: SslConfigLike, timeout: float) -> Stream:
        whole = isinstance(config, SslConfig) and getattr(config.wrap_socket, "__func__", None) is _WRAP_SOCKET
        context = config.context if isinstance(config, SslConfig) and whole else config
        return self._handler.wrap_tls(stream, context, self.host.rstrip("."), timeout)


def reason_of(error: BaseException) -> str:
    """Return an error's text, without its number."""
    if isinstance(error, KafkaException):
        return error.text
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
