"""`Node`: one Kafka server as this client uses it: connections by role, API versions, requests and answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pykafka.exceptions import (
    ClientClosedError,
    KafkaException,
    ResponseTimeoutError,
    SocketDisconnectedError,
    ThrottledError,
)
from pykafka.handlers.base import WeakCall
from pykafka.metrics.listener import CONNECTION, THROTTLED, kind_of
from pykafka.network import requestlog
from pykafka.network.api_versions import ApiVersions
from pykafka.network.channel import Channel, Channels
from pykafka.network.connection import BrokerConnection
from pykafka.network.dialing import Route
from pykafka.network.in_flight import InFlightRequest, Peer
from pykafka.network.known_versions import KnownVersions
from pykafka.network.options import ConnectionSettings
from pykafka.network.requests import DRAIN_S
from pykafka.protocol import wire
from pykafka.protocol.versions import RANGES_0_9_0
from pykafka.utils import get_string
from pykafka.utils.error_handlers import left_ms
from pykafka.utils.loglimit import LogLimiter

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.requests import RequestHandler
    from pykafka.protocol.schema import Request
    from pykafka.protocol.versions import ApiRanges
    from pykafka.security import SslConfigLike

log = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S", bound="Stoppable")

#: How brokers' logs and quotas know this client.
CLIENT_ID = "pykafka"
#: How long the client does not repeat its warning about a broker's throttling (s), which may go on for long.
THROTTLE_AGAIN_S = 600.0


class Stoppable(Protocol):
    """A worker that `Broker.shared` holds."""

    @property
    def connection_count(self) -> int: ...  # of those that no channel has, the ones that are up
    def stop(self, drain_s: float = DRAIN_S) -> None: ...  # for answers on their way (s)
    def abandon(self) -> None: ...  # end soon, without touching a lock or a socket


class Node:
    """A Kafka server, with a connection for each role it plays for this client.

    A broker answers the requests of one connection one after another, so a request that must not wait behind a long poll has
    another connection: "main" (metadata and the like), "offsets", "produce", one for each distinct set of fetch settings, and
    those of group members, see `_get_unique_req_handler`.

    :param id_: the broker's number in its cluster; -1 for a bootstrap address
    :param host: DNS name or IP address
    :param port: TCP port
    :param handler: supplies workers, locks, sockets and clock
    :param socket_timeout_ms: how long a connect or an answer may take
    :param offsets_channel_socket_timeout_ms: the same for commits and fetches of offsets
    :param buffer_size: initial size of the buffer for answers (bytes)
    :param source_host: local address to connect from
    :param source_port: local port to connect from; a second connection takes any free one
    :param ssl_config: an SslConfig or ssl.SSLContext; None speaks plaintext
    :param broker_version: a hint that is not needed: brokers are asked. "0.8.2" saves some seconds where they are that old
    :param api_versions: the broker's API versions where the caller knows them: {API key: (lowest, highest)}, or as
        `pykafka.protocol.API_VERSIONS_090`
    :param client_id: how the broker's logs and quotas know this client
    :param limiter: leaves out warnings that only repeat others; the client's
    :param known_versions: the known versions of its cluster's brokers, which share this object
    :param settings: how connections are made and kept; replaces `ssl_config`
    """

    #: Hears of connections, answers and throttling; None: nobody listens.
    listener: ClientListener | None = None

    def __init__(
        self,
        id_: int,
        host: str | bytes,
        port: int,
        handler: Handler,
        socket_timeout_ms: int,
        offsets_channel_socket_timeout_ms: int,
        buffer_size: int = 1024 * 1024,
        source_host: str = "",
        source_port: int = 0,
        ssl_config: SslConfigLike | None = None,
        broker_version: str = "0.9.0",
        api_versions: Mapping[int, tuple[int, ...]] | None = None,
        client_id: str = CLIENT_ID,
        limiter: LogLimiter | None = None,
        *,
        known_versions: KnownVersions | None = None,
        settings: ConnectionSettings | None = None,
    ) -> None:
        self._id = int(id_)
        self._host = get_string(host, "host")
        self._port = int(port)
        #: Host and port as "host:port".
        self.address = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        self._handler = handler
        self._socket_timeout_ms = socket_timeout_ms
        self._offsets_channel_socket_timeout_ms = offsets_channel_socket_timeout_ms
        self._buffer_size = buffer_size
        self._source = (source_host, int(source_port))
        self._settings = settings or ConnectionSettings(ssl_config=ssl_config)
        self._route = Route(self._settings, handler.random)
        self._client_id = client_id
        known = KnownVersions(broker_version) if known_versions is None else known_versions
        # 0.9.0 is the documented default, which says nothing.
        self._is_0_9 = broker_version.startswith("0.9") and broker_version != "0.9.0"
        #: The API versions of this broker.
        self.versions = ApiVersions(self, handler, client_id, known, api_versions)
        self._peer = Peer(self.address, client_id, handler.breathe, self._report_throttle)
        self._channels = Channels(handler, self._new_channel)
        # Guards `_shared`, the workers.
        self._lock = handler.Lock()
        self._shared: dict[Any, Any] = {}
        self._left_to_parent: list[Any] = []
        self._limiter = limiter or LogLimiter(handler)
        #: How often in a row the broker closed the connection on Metadata, and answered it in the version `metadata_ceiling`.
        self.metadata_hang_ups = 0
        self.metadata_ceiling = wire.MetadataRequest.max_version

    def __repr__(self) -> str:
        return (
            f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} "
            f"(id={self._id}, host={self._host}, port={self._port})>"
        )

    # -- identity --------------------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        """The broker's number in its cluster."""
        return self._id

    @property
    def host(self) -> str:
        """The host that the client connects to."""
        return self._host

    @property
    def port(self) -> int:
        """The TCP port that the client connects to."""
        return self._port

    @property
    def socket_timeout_ms(self) -> int:
        """How long a connect or an answer may take (ms)."""
        return self._socket_timeout_ms

    def warn(self, text: str, *args: object) -> None:
        """Log a warning about this broker, and the same one again only every ten seconds, with a count.

        :param text: a logger's format for `args`; equal texts count as the same warning
        """
        self._limiter.warn(log, self.address, text, *args)

    def _report_throttle(self, api: str, seconds: float) -> None:
        text = (
            "broker %s throttles this client by a quota: %s, for %d ms now; requests wait for that time "
            "(raise the quota of client %s, or send and fetch less)"
        )
        ms = round(seconds * 1000)
        args = (self.address, api, ms, self._client_id)
        self._limiter.warn(log, self.address, text, *args, again_s=THROTTLE_AGAIN_S)
        if self.listener is not None:
            # Of this broker, whichever of its connections it was.
            part = self.listener.part(CONNECTION, (self._id, "throttling"))
            part.on_event(kind_of(THROTTLED, api), self.address, seconds)

    @property
    def reach(self) -> int:
        """The likelihood that a request must wait, from 0 (main connection up) to 3 (in trouble, or without an answer)."""
        return self._channels.reach

    @property
    def stands(self) -> bool:
        """Whether a connection is up, as far as this client knows."""
        return self._channels.stands

    @property
    def connected_since(self) -> float | None:
        """Since when a connection has been up (s of the handler's clock); None if there is none."""
        times = [since for _, channel in self._channels if (since := channel.connected_since) is not None]
        return min(times, default=None)

    @property
    def connect_error(self) -> KafkaException | None:
        """Why a connection could not be made, or ended; None if one is up, or none was needed."""
        if self.stands:
            return None
        return next((error for _, channel in self._channels if (error := channel.last_error) is not None), None)

    @property
    def failed_at(self) -> float:
        """When a connection failed or ended last (s of the handler's clock)."""
        return max((channel.failed_at for _, channel in self._channels), default=0.0)

    @property
    def failing_since(self) -> float | None:
        """Since when no connection has been up, at least (s of the handler's clock); None without a `connect_error`."""
        if self.connect_error is None:
            return None
        return max((one.failing_since for _, one in self._channels if one.last_error is not None), default=None)

    @property
    def connection_count(self) -> int:
        """The number of connections that are up, as far as this client knows."""
        workers: list[Stoppable] = list(self._shared.values())
        return sum(channel.connected for _, channel in self._channels) + sum(one.connection_count for one in workers)

    @property
    def pending(self) -> int:
        """The number of requests that wait for their answers."""
        return sum(channel.requests.pending for _, channel in self._channels if channel.requests is not None)

    # -- connections -----------------------------------------------------------------------------------------------

    def drop_channel(self, name: str, drain_s: float = DRAIN_S) -> None:
        """End the connection of a channel for good; workers that wait for answers there get an error.

        :param drain_s: how long to wait for answers on their way (s)
        """
        reason = SocketDisconnectedError("this client has given the connection up", broker=self.address)
        self._channels.drop(name, reason, drain_s)

    def drop_connections(self) -> None:
        """End all connections; the next request on each channel makes a new one, with the host's name looked up anew."""
        self._channels.drop_connections()

    def detach_connections(self) -> list[RequestHandler]:
        """As `drop_connections`, but leave the connections to the caller, who ends them."""
        return self._channels.detach()

    def throttled_for(self, name: str = "main") -> float:
        """Return for how long this client must send nothing on a channel, since the broker throttles it (s)."""
        channel = self._channels.find(name)
        until = 0.0 if channel is None else channel.throttled_until
        return max(until - self._handler.now(), 0.0) if until else 0.0

    def is_connected(self, name: str) -> bool:
        """Return whether the channel of this name is connected, as far as this client knows."""
        return self._channels.is_up(name)

    def channel(self, name: str) -> Channel:
        """Return the channel of this name, making it (unconnected) if there is none."""
        return self._channels.get(name)

    def find_channel(self, name: str) -> Channel | None:
        """Return the channel of this name; None if there is none yet. This takes no lock."""
        return self._channels.find(name)

    def _new_channel(self, name: str) -> Channel:
        return Channel(
            self._handler,
            self.new_connection,
            self.versions.prepare,
            self.timeout_ms(name),
            self.versions.doubt,
            self._settings,
            self._channels.try_again,
            # by role: members and sessions have ever new names
            None if self.listener is None else self.listener.part(CONNECTION, (self._id, name.partition(":")[0])),
            name,
        )

    def timeout_ms(self, name: str) -> int:
        """Return how long an answer may take on a channel (ms), where a call says nothing else."""
        return self._offsets_channel_socket_timeout_ms if name == "offsets" else self._socket_timeout_ms

    def new_connection(self, handler: Handler | None = None) -> BrokerConnection:
        """Return a connection of the caller's own, not yet connected.

        :param handler: supplies its sockets; by default that of the client, and heartbeats have that of native threads
        """
        host, port = self._source
        connection = self._connection_class(  # with the arguments of PyKafka 2: programs replace this constructor
            self._host,
            self._port,
            handler or self._handler,
            buffer_size=self._buffer_size,
            source_host=host,
            source_port=port,
            ssl_config=self._settings.ssl_config,
        )
        ranges = _weakly(self._ranges_for_login)
        connection.configure(self._settings, self._client_id, self._id >= 0, ranges, self._route)
        return connection

    @property
    def _connection_class(self) -> type[BrokerConnection]:
        """The class of connections."""
        return BrokerConnection

    def _ranges_for_login(self) -> ApiRanges | None:
        """Return the versions if they are certain: brokers of 0.9 cannot be asked for them before a login."""
        return self.versions.certain() or (RANGES_0_9_0 if self._is_0_9 else None)

    def forget_versions(self) -> None:
        """Ask for the API versions anew at the next connect: another version of Kafka may run there by then."""
        self.versions.doubt()

    def after_fork(self) -> None:
        """Start afresh in a forked child: connections and workers are the parent's, and nobody would release its locks."""
        self._left_to_parent.append(self._shared)
        for worker in self._shared.values():
            worker.abandon()
        self._channels.after_fork()
        self.versions.after_fork()
        self._lock = self._handler.Lock()
        self._shared = {}

    def close(self, reason: KafkaException | None = None, drain_s: float = DRAIN_S) -> None:
        """End every connection and fetch worker of this broker.

        :param reason: the error of later calls; by default that the client was closed
        :param drain_s: how long to wait for answers on their way, of all connections together (s)
        """
        deadline = self._handler.now() + drain_s
        self._end(reason)
        with self._lock:  # a worker that is made meanwhile is there, or its maker sees the reason
            shared = dict(self._shared)
        for key, worker in shared.items():
            worker.stop(max(0.0, deadline - self._handler.now()))
            self._shared.pop(key, None)  # not before: an interrupted `close` is called again
        self._channels.close(max(0.0, deadline - self._handler.now()))

    def part(self) -> None:
        """Refuse new work and end attempts to connect: the broker has left the cluster, or moved.

        This does not wait; `close` does the rest, which may take a while.
        """
        self._end(
            SocketDisconnectedError("the broker left the cluster, or moved to another address", broker=self.address)
        )
        self._channels.abort()

    def _end(self, reason: KafkaException | None) -> None:
        self._channels.end(
            reason or ClientClosedError("this client was closed; make a new KafkaClient", broker=self.address)
        )

    def forsake(self) -> None:
        """End all connections and fetch workers as `close` does, but take no lock and do not wait for their ends."""
        self._end(None)
        for worker in list(self._shared.values()):
            worker.abandon()
        self._channels.forsake()

    # -- requests --------------------------------------------------------------------------------------------------

    @property
    def knows_versions(self) -> bool:
        """Whether the broker's API versions are known without asking it."""
        return self.versions.found is not None

    def api_ranges(self) -> ApiRanges:
        """Return {api key: (lowest version, highest version)} of this broker, connecting if that is needed."""
        return self.versions.ranges()

    def api_version(
        self, request_cls: type[Request[Any]], ceiling: int | None = None, timeout_ms: int | None = None
    ) -> int:
        """Return the highest version of an API that the broker and this client speak.

        :param ceiling: no version above this one
        :param timeout_ms: for asking the broker, if it has to be asked; None: as long as it takes
        :raises UnsupportedVersion: there is none, and the broker has said so twice
        """
        return self.versions.choose(request_cls, ceiling, timeout_ms)

    def connect_within(self, timeout_ms: int) -> None:
        """Ask for the broker's versions if they are not known, or in doubt, so that `api_version` need not wait for them.

        :param timeout_ms: for connecting, and for the broker's answer
        :raises SocketDisconnectedError: the broker cannot be reached
        """
        self.versions.ranges(timeout_ms)

    def has(self, request_cls: type[Request[Any]], timeout_ms: int | None = None) -> bool:
        """Return whether the broker has an API, in whatever version; parameters and errors: see `api_version`."""
        return self.versions.has(request_cls, timeout_ms)

    def send(
        self,
        request: Request[R],
        channel: str = "main",
        *,
        timeout_ms: int | None = None,
        version: int | None = None,
        ceiling: int | None = None,
        has_response: bool = True,
        latest: float | None = None,
        patient: bool = True,
        keep: bool = False,
        connection: RequestHandler | None = None,
        until: float | None = None,
        reconnects: bool = True,
    ) -> InFlightRequest[R]:
        """Send a request and return at once; answers of one channel come in the order of its requests.

        If the broker throttles this client, this worker waits for the end of that first, which counts against no deadline.

        :param request: a wire message
        :param channel: the role whose connection to use
        :param timeout_ms: for the answer; if it is not above the socket timeout of the channel, which is the default, also
            for connecting, if that is needed, and both together
        :param version: of the API; by default the highest that both sides speak
        :param ceiling: no version above this one
        :param has_response: False for a request that the broker does not answer (Produce with acks=0)
        :param latest: the caller's own deadline (on the handler's clock, s), which throttling does not put off
        :param patient: False: raise rather than wait for the end of throttling
        :param keep: where `timeout_ms` is below the socket timeout of the channel, only the caller of `get_when_due` gives up
            by then: the connection, which others use too, stands until the socket timeout; by default it ends
        :param connection: that of the channel, if the caller has opened it just now
        :param until: when the caller gives up (on the handler's clock, s): it waits no longer for a connection, nor for the end
            of throttling. By default `latest` bounds the latter
        :param reconnects: False: if `connection` has ended unused, do not connect again: the request returns `unsent`
        :raises ThrottledError: the broker throttles this client, and the caller is not patient
        :raises UnsupportedVersion: the broker lacks the API
        :raises SocketDisconnectedError: the broker cannot be reached
        """
        usual_ms = self._offsets_channel_socket_timeout_ms if channel == "offsets" else self._socket_timeout_ms
        bounds_all = timeout_ms is not None and timeout_ms <= usual_ms
        timeout_ms = usual_ms if timeout_ms is None else timeout_ms
        due = self._handler.now() + timeout_ms / 1000
        before = self.versions.found
        for _ in range(2):
            if connection is None:
                connection = self._channels.get(channel).open(
                    self._connect_ms(timeout_ms if bounds_all else None, until)
                )
            if version is None:
                within_ms = self._connect_ms(self._left_ms(due) if bounds_all else None, until)
                chosen = self.versions.choose(type(request), ceiling, within_ms)
            else:
                chosen = version
                if before is not None and before is not self.versions.found:
                    self.versions.check(type(request), version)
            if bounds_all:
                timeout_ms = self._left_ms(due)
            sent: InFlightRequest[R] = InFlightRequest(self._handler, request, chosen, self._peer)
            if keep and timeout_ms < usual_ms:
                sent.early = (usual_ms - timeout_ms) / 1000
            if requestlog.log.isEnabledFor(logging.DEBUG):
                self._log(sent, channel)
            connection.send(sent, timeout_ms / 1000, has_response, latest, patient, until)
            if not sent.unsent or not reconnects:
                break
            connection = None  # it ended since it was used last, by an idle timeout at either end: that is no error
        if not patient and isinstance(sent.error, ThrottledError):
            raise sent.error
        return sent

    def _connect_ms(self, timeout_ms: int | None, until: float | None) -> int | None:
        """Return how long to connect at most (ms); None: as long as the channel does.

        :param until: when the caller gives up; None: that is no bound
        """
        if until is None:
            return timeout_ms
        rest_ms = self._left_ms(until)
        return rest_ms if timeout_ms is None else min(timeout_ms, rest_ms)

    def _log(self, request: InFlightRequest[Any], channel: str) -> None:
        log = request.log = requestlog.RequestLog(
            request.request, request.version, self.address, channel, self._handler.now
        )
        request.add_done_callback(lambda done: None if done.error is None else log.failed(done.error))

    def call(
        self,
        request: Request[R],
        channel: str = "main",
        *,
        timeout_ms: int | None = None,
        version: int | None = None,
        ceiling: int | None = None,
        reads: bool = False,
        once: bool = False,
        strict: bool = False,
        on_sent: Callable[[InFlightRequest[R]], object] | None = None,
    ) -> R:
        """Send a request and wait for its answer; parameters and errors: see `send`.

        A connection that turns out to have been closed while it was idle is replaced once.

        :param timeout_ms: for all of it: a connection, the answer, and a second try; by default connection and answer have
            the socket timeout of the channel each. If it is below that, only this call gives up by then, and the connection
            stands
        :param strict: throttling does not put that time off
        :param reads: read the answer in this worker where no other one reads: for a channel that is used by calls alone, and
            often
        :param once: never send it twice: the caller has to know of each attempt that got no answer
        :param on_sent: called with each request as it is sent, for an answer that comes when this call has given up
        :raises ResponseTimeoutError: no answer in time
        """
        used = self._channels.find(channel)
        was_up = used is not None and used.connected and not once
        until = None if timeout_ms is None else self._handler.now() + timeout_ms / 1000
        try:
            return self._call_once(request, channel, until, version, ceiling, reads, strict, on_sent)
        except ResponseTimeoutError:
            raise
        except SocketDisconnectedError:
            # not on a channel that this client itself has given up meanwhile
            if not was_up or self._channels.ended is not None or self._channels.find(channel) is not used:
                raise
            return self._call_once(request, channel, until, version, ceiling, reads, strict, on_sent)
        except KafkaException as error:
            raise error.with_context(broker=self.address, api=type(request).__name__) from None

    def _left_ms(self, until: float) -> int:
        return left_ms(until, self._handler.now(), 1)

    def _call_once(
        self,
        request: Request[R],
        channel: str,
        until: float | None,
        version: int | None,
        ceiling: int | None,
        reads: bool,
        strict: bool,
        on_sent: Callable[[InFlightRequest[R]], object] | None,
    ) -> R:
        requests = self.channel(channel).requests if reads else None
        helps = requests is not None and requests.help_read(lasting=True)
        now = self._handler.now
        timeout_ms = None if until is None else self._left_ms(until)
        until = until if strict else None
        try:
            pending = self.send(
                request, channel, timeout_ms=timeout_ms, version=version, ceiling=ceiling, keep=True, until=until
            )
            if on_sent is not None:
                on_sent(pending)
            if helps and requests is not None:
                requests.read_until(lambda: pending.is_over or (until is not None and now() >= until))
        finally:
            if helps and requests is not None:
                requests.leave()
        return pending.get_when_due(until)

    def shared(self, key: Any, make: Callable[[], S]) -> S:
        """Return this broker's worker for a key, making it if there is none; `close()` stops it.

        :param key: hashable
        :param make: makes the worker
        """
        worker = self._shared.get(key)  # mostly it is there, and a thousand members need not wait for a lock
        if worker is None:
            with self._lock:
                worker = self._shared.get(key)
                if worker is None:
                    if self._channels.ended is not None:
                        raise self._channels.ended.again()
                    worker = self._shared[key] = make()
        return worker


def _weakly(ranges: Callable[[], ApiRanges | None]) -> Callable[[], ApiRanges | None]:
    """Return a method that does not hold its object: the connection's reader lives as long as the connection is not ended."""
    reference = WeakCall(ranges)

    def call() -> ApiRanges | None:
        found = reference()
        answer: ApiRanges | None = None if found is None else found()
        return answer

    return call
