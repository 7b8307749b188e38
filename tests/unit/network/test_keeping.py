"""How long connections are kept, and how soon they are made again: idle ones, broken ones, and addresses that fail."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.broker import Broker
from pykafka.exceptions import KafkaException, SaslAuthenticationFailed, SocketDisconnectedError
from pykafka.handlers import Address, Handler
from pykafka.handlers.base import Listener
from pykafka.network.channel import Channel, Channels
from pykafka.network.connection import BrokerConnection
from pykafka.network.dialing import Route
from pykafka.network.options import ConnectionSettings
from pykafka.network.requests import RequestHandler
from pykafka.protocol import wire
from pykafka.security import Plain
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from tests.support.loops import Concurrency
from tests.support.peers import Ask
from tests.support.sasl import USERS, SaslBroker
from tests.support.scripted import ScriptedBroker, batch
from tests.support.waiting import until


def node(handler: Handler, address: str, **settings: Any) -> Broker:
    host, _, port = address.partition(":")
    return Broker(1, host, int(port), handler, 5000, 5000, settings=ConnectionSettings(**settings))


def up(broker: Broker) -> RequestHandler | None:
    requests = broker.channel("main").requests
    return requests if requests is not None and requests.alive else None


# -- idle connections --------------------------------------------------------------------------------------------------


def test_an_idle_connection_is_closed_and_made_again_when_it_is_needed(
    handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedBroker() as server:
        broker = node(handler, server.hosts, connections_max_idle_ms=300)
        broker.call(wire.MetadataRequest())
        first = up(broker)
        assert first is not None
        until(handler, lambda: up(broker) is None)
        assert "connections_max_idle_ms" in str(first.error)
        broker.call(wire.MetadataRequest())
        assert up(broker) not in (None, first)
        broker.close()
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_connection_that_waits_for_an_answer_is_not_idle(handler: Handler, peers: dict[str, int]) -> None:
    made = BrokerConnection("127.0.0.1", peers["broker"], handler)
    made.connect(5000)
    requests = RequestHandler(handler, made, max_idle_s=0.2)
    requests.start()
    assert requests.request(Ask(size=10, delay=1.0)).get(timeout=20)
    assert requests.request(Ask(size=10)).get(timeout=20)
    until(handler, lambda: not requests.alive)
    late = requests.request(Ask(size=10))
    assert late.unsent
    with pytest.raises(SocketDisconnectedError, match="connections_max_idle_ms"):
        late.get(timeout=20)
    requests.stop()


def test_no_request_is_lost_where_connections_idle_out_at_each_moment(handler: Handler) -> None:
    with ScriptedBroker() as server:
        broker = node(handler, server.hosts, connections_max_idle_ms=20)
        chance = random.Random(1)
        for _ in range(60):
            broker.send(wire.MetadataRequest()).get(timeout=20)
            handler.sleep(chance.uniform(0.015, 0.03))
        broker.close()


class Fickle(ScriptedBroker):
    """A broker that closes connections when it is told to."""

    def hang_up(self) -> None:
        for sock in self._connections:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    @property
    def accepted(self) -> int:
        return len(self._connections)


def test_a_connection_that_the_broker_found_idle_costs_no_attempt(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request after it failed, if this client had not read the end of the connection yet."""
    monkeypatch.setattr("pykafka.network.requests.CHECK_AFTER_S", 0.0)
    with Fickle() as server:
        broker = node(handler, server.hosts)
        broker.call(wire.MetadataRequest())
        requests = up(broker)
        assert requests is not None
        until(handler, requests.help_read)  # so that no worker reads the end of the connection
        server.hang_up()
        until(handler, lambda: requests.shared.connection.is_hung_up)
        requests.leave()
        assert broker.send(wire.MetadataRequest()).get(timeout=20).brokers
        broker.close()


def test_consumers_and_producers_do_not_notice_idle_connections(
    handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        ScriptedBroker(batch([b"one"])) as server,
        KafkaClient(server.hosts, handler=handler, connections_max_idle_ms=100) as client,
        client.topics["scripted"].get_sync_producer() as producer,
    ):
        for _ in range(4):
            producer.produce(b"x")
            until(handler, lambda: not client.brokers[1].channel("produce").connected)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def _read(client: KafkaClient) -> None:
    with client.topics["scripted"].get_simple_consumer(
        auto_offset_reset="earliest", consumer_timeout_ms=20_000, fetch_wait_max_ms=50
    ) as consumer:
        assert consumer.consume() is not None


def _read_any(client: KafkaClient) -> None:
    with client.consumer("scripted", auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        assert consumer.one(20) is not None


def _write(client: KafkaClient) -> None:
    client.topics["scripted"].get_sync_producer().produce(b"x")


def _ask(client: KafkaClient) -> None:
    client.brokers[1].call(wire.MetadataRequest(), reads=True)


def _ask_at_once(client: KafkaClient) -> None:
    client.brokers[1].send(wire.MetadataRequest(), "offsets").get_when_due()


@pytest.mark.on_asyncio
@pytest.mark.parametrize("use", [_read, _read_any, _write, _ask, _ask_at_once])
def test_a_connection_that_the_broker_found_idle_costs_no_time(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch, use: Callable[[KafkaClient], None]
) -> None:
    """The worker that took a new one waited a second for the old one's reader, which waited for this worker's turn to read."""
    monkeypatch.setattr("pykafka.network.requests.CHECK_AFTER_S", 0.0)
    monkeypatch.setattr("pykafka.network.requests.JOIN_S", 60.0)
    monkeypatch.setattr("pykafka.network.turns.READ_POLL_INTERVAL_S", 20.0)
    with Fickle(batch([b"one"])) as server, KafkaClient(server.hosts, **concurrency()) as client:
        handler = client.cluster.handler
        for number in range(3):
            began = handler.now()
            for _ in range(3):  # the reader of a connection leaves it to workers that read for themselves
                use(client)
            assert handler.now() - began < 10, f"connection {number}"
            handler.sleep(0.2)
            server.hang_up()
            handler.sleep(0.2)


# -- backoff -----------------------------------------------------------------------------------------------------------


class Rude:
    """A peer that accepts connections and closes each, `after` it has got that many bytes."""

    def __init__(self, after: int = 0) -> None:
        self._after = after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.accepted = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Rude:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            with peer, suppress(OSError):
                peer.settimeout(5)
                if self._after:
                    peer.recv(self._after)


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.later("threads-1", "gevent-0")
def test_a_broker_that_accepts_and_hangs_up_has_the_client_wait(handler: Handler, after: int) -> None:
    """A connect that succeeded ended the backoff, though no request ever did."""
    settings = ConnectionSettings(reconnect_backoff_ms=100, reconnect_backoff_max_ms=60_000)
    with Rude(after) as server:
        host, _, port = server.hosts.partition(":")

        def connection() -> BrokerConnection:
            return BrokerConnection(host, int(port), handler, settings=settings)

        channel = Channel(handler, connection, lambda _: None, 5000, settings=settings)
        end = handler.now() + 2.5
        while handler.now() < end:
            with suppress(KafkaException):
                channel.open().request(Ask()).get(timeout=20)
            handler.sleep(0.005)
        # 100, 200, 400, 800 ms between them, give or take
        assert 3 <= server.accepted <= 8
        channel.close()


def _channel_to(host: str, port: int, handler: Handler, settings: ConnectionSettings) -> Channel:
    """Return a channel of a broker, which is not connected yet."""

    def connection() -> BrokerConnection:
        return BrokerConnection(host, port, handler, settings=settings)

    return Channel(handler, connection, lambda _: None, 5000, settings=settings)


def test_a_broker_that_hangs_up_before_a_request_or_behind_one_has_the_client_wait() -> None:
    """Each other connection was made without a pause: one that ended unused was no failure next to one that had a request."""
    scheduler = Scheduler(1)
    handler = VirtualHandler(scheduler, Network(scheduler))
    settings = ConnectionSettings(reconnect_backoff_ms=100, reconnect_backoff_max_ms=60_000)
    accepted: list[float] = []

    def serve(listener: Listener) -> None:
        with suppress(OSError):  # closed
            while True:
                stream = listener.accept(600)
                accepted.append(handler.now())
                if len(accepted) % 2:
                    stream.recv_into(bytearray(100), 600)
                stream.close()

    def program() -> None:
        listener = handler.listen(Address(2, ("127.0.0.1", 0)))
        host, port = listener.address.sockaddr[:2]
        server = handler.spawn(serve, listener)
        channel = _channel_to(host, port, handler, settings)
        end = handler.now() + 60
        while handler.now() < end:
            with suppress(KafkaException):
                requests = channel.open()
                handler.sleep(0.02)  # the client reads the end of a connection before its request
                requests.request(Ask()).get(timeout=20)
            handler.sleep(0.005)
        channel.close()
        listener.close()
        server.join(10)

    scheduler.run(program)
    # 0.1, 0.2, 0.4, ... 25.6 s between them, give or take
    assert 8 <= len(accepted) <= 12, accepted


def test_a_connection_that_stood_unused_ends_the_count_of_failures() -> None:
    """Without answers, as with acks=0, failures of days ago had a connection that ended early be followed by a long pause."""
    scheduler = Scheduler(1)
    network = Network(scheduler)
    handler = VirtualHandler(scheduler, network)
    settings = ConnectionSettings(reconnect_backoff_ms=100, reconnect_backoff_max_ms=60_000)

    def opened(channel: Channel) -> bool:
        with suppress(KafkaException):
            return channel.open().alive
        return False

    def program() -> float:
        listener = handler.listen(Address(2, ("127.0.0.1", 0)))
        address = listener.address
        host, port = address.sockaddr[:2]
        listener.close()
        channel = _channel_to(host, port, handler, settings)
        for _ in range(6):  # the broker is away
            assert not opened(channel)
            handler.sleep(10)
        listener = handler.listen(address)
        for stands_s in (3600, 0.1):
            assert opened(channel)
            handler.sleep(stands_s)
            network.cut_all()
            handler.sleep(0.01)
        began = handler.now()
        while not opened(channel):
            handler.sleep(0.01)
        channel.close()
        listener.close()
        return handler.now() - began

    assert scheduler.run(program) < 0.1


def test_a_channel_that_reaches_the_broker_ends_the_pauses_of_the_others(handler: Handler) -> None:
    """A consumer could not be made, as the broker was down a moment ago, though a producer had reached it again."""
    settings = ConnectionSettings(reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
    with socket.socket() as bound, Fickle() as server:
        bound.bind(("127.0.0.1", 0))  # nobody listens there
        address = ["127.0.0.1", bound.getsockname()[1]]

        def channel(_: str) -> Channel:
            return Channel(handler, connection, lambda _: None, 5000, settings=settings, reached=channels.try_again)

        def connection() -> BrokerConnection:
            return BrokerConnection(str(address[0]), int(address[1]), handler, settings=settings)

        channels = Channels(handler, channel)
        with pytest.raises(KafkaException):
            channels.get("main").open()
        address[1] = server.hosts.partition(":")[2]
        with pytest.raises(KafkaException):  # it waits
            channels.get("main").open()
        channels.get("fetch").open()
        assert channels.get("main").open().alive
        channels.close()


@pytest.mark.parametrize("name", ["main", "lent:1"])
def test_other_credentials_end_the_pause_after_a_refused_login(handler: Handler, name: str) -> None:
    """The old refusal was raised for another pause, though nobody had tried the new password."""
    settings = ConnectionSettings(
        sasl=Plain("alice", "wrong"), reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000
    )
    with SaslBroker() as server:
        host, _, port = server.hosts.partition(":")
        broker = Broker(1, host, int(port), handler, 5000, 5000, settings=settings)
        channel = broker.channel(name)
        for _ in range(2):
            with pytest.raises(SaslAuthenticationFailed):
                channel.open()
        assert server.logins == 0
        settings.set_credentials(Plain("alice", USERS["alice"]), None, server.hosts)
        assert channel.open().alive
        assert server.logins == 1
        broker.close()


def test_a_proven_connection_ends_the_backoff(handler: Handler) -> None:
    with Fickle() as server:
        broker = node(handler, server.hosts, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
        for _ in range(4):
            broker.call(wire.MetadataRequest())
            server.hang_up()
            until(handler, lambda: up(broker) is None)
        broker.close()


def test_a_worker_that_is_interrupted_as_it_writes_has_nobody_wait(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection that ended by that counted as one that the broker had closed."""

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with ScriptedBroker() as server:
        broker = node(handler, server.hosts, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
        requests = broker.channel("main").open()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(requests.shared.connection, "send", interrupted)
            broker.call(wire.MetadataRequest())
        until(handler, lambda: up(broker) is None)
        broker.call(wire.MetadataRequest())
        broker.close()


def test_pauses_between_attempts_are_options(handler: Handler, peers: dict[str, int]) -> None:
    address = f"127.0.0.1:{peers['refused']}"
    tries: list[float] = []
    really = handler.connect

    def note(*args: Any, **options: Any) -> Any:
        tries.append(handler.now())
        return really(*args, **options)

    broker = node(handler, address, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "connect", note)
        for _ in range(3):
            with pytest.raises(SocketDisconnectedError, match="Connection refused"):
                broker.call(wire.MetadataRequest())
        assert len(tries) == 1
    broker.close()


# -- addresses ---------------------------------------------------------------------------------------------------------

HERE, THERE, ELSEWHERE = (Address(2, (f"127.0.0.{number}", 9092)) for number in (1, 2, 3))


def test_addresses_that_failed_come_last() -> None:
    route = Route(ConnectionSettings(), random.Random(1))
    assert route.order([HERE, THERE, ELSEWHERE]) == [HERE, THERE, ELSEWHERE]
    route.failed(HERE, late=False)
    assert route.order([HERE, THERE, ELSEWHERE]) == [THERE, ELSEWHERE, HERE]
    route.failed(THERE, late=False)
    assert route.order([HERE, THERE, ELSEWHERE]) == [ELSEWHERE, HERE, THERE]
    route.worked(HERE)
    assert route.order([HERE, THERE]) == [HERE, THERE]


def test_the_time_for_a_setup_doubles_with_each_time_out() -> None:
    settings = ConnectionSettings(socket_connection_setup_timeout_ms=1000, socket_connection_setup_timeout_max_ms=5000)
    route = Route(settings, random.Random(1))
    for expected in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert expected * 0.8 <= route.setup_timeout() <= expected * 1.2
        route.failed(HERE, late=True)
    route.worked(HERE)
    assert route.setup_timeout() <= 1.2
    route.failed(HERE, late=False)
    assert route.setup_timeout() <= 1.2


@pytest.fixture
def names(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that sets the addresses of "moving.example", and returns the list of look-ups."""
    found: list[Address] = []
    asked: list[str] = []
    really = handler.resolve

    def resolve(host: str, port: int, *args: Any, **options: Any) -> list[Address]:
        if host != "moving.example":
            return really(host, port, *args, **options)
        asked.append(host)
        return list(found)

    def lead(*ports: int) -> list[str]:
        found[:] = [Address(2, ("127.0.0.1", port)) for port in ports]
        return asked

    monkeypatch.setattr(handler, "resolve", resolve)
    return lead


def test_names_are_looked_up_at_each_connect_and_every_address_is_tried(
    handler: Handler, peers: dict[str, int], names: Callable[..., list[str]]
) -> None:
    with Fickle() as one, Fickle() as other:
        ports = [int(server.hosts.split(":")[1]) for server in (one, other)]
        asked = names(peers["swallows"], peers["refused"], ports[0])
        broker = node(handler, "moving.example:9092", socket_connection_setup_timeout_ms=200)
        broker.call(wire.MetadataRequest())
        assert one.accepted == 1
        assert len(asked) == 1
        names(ports[1])
        one.hang_up()
        until(handler, lambda: up(broker) is None)
        broker.call(wire.MetadataRequest())
        assert other.accepted == 1
        assert len(asked) == 2
        broker.close()


def test_names_of_addresses_are_looked_up_without_waiting_for_ever(handler: Handler) -> None:
    for one in (handler, handler.native):
        assert one.name_of(Address(2, ("127.0.0.1", 9092)), 20.0)


def test_a_stream_knows_whether_its_peer_has_hung_up(handler: Handler) -> None:
    with Fickle() as server:
        stream = handler.connect(Address(2, ("127.0.0.1", int(server.hosts.split(":")[1]))), 20.0)
        ask: Callable[[], bool] = stream.is_hung_up  # type: ignore[attr-defined]
        assert not ask()
        until(handler, lambda: server.accepted)
        server.hang_up()
        until(handler, ask)
        stream.close()
        assert ask()
