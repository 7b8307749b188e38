"""Streams in virtual time, and what goes wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pykafka.handlers.base import Address, Stream
from pykafka.testing.virtual import Network, NetworkFaults, Scheduler, VirtualHandler

SERVER = Address(2, ("127.0.0.1", 9092))


@contextmanager
def _pair(virtual: VirtualHandler) -> Iterator[tuple[Stream, Stream]]:
    listener = virtual.listen(SERVER)
    client = virtual.connect(SERVER, 10)
    server = listener.accept(10)
    try:
        yield client, server
    finally:
        for closable in (client, server, listener):
            closable.close()


def _read(stream: Stream) -> bytes:
    buffer = bytearray(100_000)
    return bytes(buffer[: stream.recv_into(buffer, 1000)])


def test_bytes_take_the_latency_of_their_connection(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler
) -> None:
    network.faults = NetworkFaults(latency_ms=(100, 100))

    def program() -> None:
        with _pair(virtual) as (client, server):
            assert scheduler.now_ms() == 200
            client.send([b"ping"], 10)
            assert scheduler.now_ms() == 200
            assert _read(server) == b"ping"
            assert scheduler.now_ms() == 300
            server.close()
            assert _read(client) == b""
            assert scheduler.now_ms() == 400
        assert network.open_connections == 0

    scheduler.run(program)


def test_writes_arrive_in_pieces_and_in_order(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> None:
    network.faults = NetworkFaults(split=0.9, jitter_ms=50)
    data = bytes(range(256)) * 8
    pieces: list[bytes] = []

    def program() -> None:
        with _pair(virtual) as (client, server):
            client.send([data], 10)
            while sum(map(len, pieces)) < len(data):
                pieces.append(_read(server))

    scheduler.run(program)
    assert b"".join(pieces) == data
    assert len(pieces) > 3


@pytest.mark.parametrize("by", ["chance", "command"])
def test_a_connection_that_is_cut(scheduler: Scheduler, network: Network, virtual: VirtualHandler, by: str) -> None:
    def cut_soon() -> None:
        virtual.sleep(1)
        network.cut_all()

    def program() -> None:
        network.faults = NetworkFaults(cut=1.0 if by == "chance" else 0.0)
        with _pair(virtual) as (client, server):
            if by == "command":
                virtual.spawn(cut_soon)
            with pytest.raises(ConnectionResetError):
                _read(client)
            with pytest.raises(ConnectionResetError):
                server.send([b"x"], 1)

    scheduler.run(program)


def test_a_half_open_connection_loses_one_direction(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler
) -> None:
    network.faults = NetworkFaults(half_open=1.0, within_ms=0.0)
    lost: list[bool] = []

    def program() -> None:
        for _ in range(8):
            with _pair(virtual) as (client, server):
                for sender, receiver in ((client, server), (server, client)):
                    sender.send([b"x"], 1)
                    try:
                        lost.append(receiver.recv_into(bytearray(1), 60) != 1)
                    except TimeoutError:
                        lost.append(True)

    scheduler.run(program)
    assert sum(lost) == 8  # of each pair one
    assert {tuple(lost[at : at + 2]) for at in range(0, 16, 2)} == {(True, False), (False, True)}


def test_what_is_healed_works(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> None:
    network.faults = NetworkFaults(half_open=1.0, cut=1.0, split=1.0, jitter_ms=10)

    def program() -> None:
        with _pair(virtual) as (client, server):
            network.heal()
            virtual.sleep(100)
            for sender, receiver in ((client, server), (server, client)):
                sender.send([bytes(50_000)], 1)
                assert len(_read(receiver)) == 50_000

    scheduler.run(program)


def test_what_was_half_open_is_reset(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> None:
    """Bytes may be missing, so its ends cannot go on."""
    network.faults = NetworkFaults(half_open=1.0, within_ms=1_000)

    def program() -> None:
        with _pair(virtual) as (client, server):
            virtual.sleep(1)
            network.heal()
            for stream in (client, server):
                with pytest.raises(ConnectionResetError):
                    stream.recv_into(bytearray(1), 10)

    scheduler.run(program)


@pytest.mark.parametrize("by", ["chance", "firewall"])
def test_a_connect_that_hangs(scheduler: Scheduler, network: Network, virtual: VirtualHandler, by: str) -> None:
    asked: list[int] = []

    def wanted() -> bool:
        asked.append(scheduler.now_ms())
        return len(asked) < 8

    def program() -> None:
        if by == "chance":
            network.faults = NetworkFaults(hang=1.0)
        else:
            network.unreachable.add(SERVER.text)
        virtual.listen(SERVER)
        with pytest.raises(TimeoutError, match="did not answer"):
            virtual.connect(SERVER, 5)
        assert scheduler.now_ms() == 5000
        with pytest.raises(ConnectionAbortedError):
            virtual.connect(SERVER, 5, wanted=wanted)
        assert asked[-1] == 5800

    scheduler.run(program)


def test_names(network: Network, virtual: VirtualHandler) -> None:
    network.names["kafka.example"] = ["127.0.0.5", "::1"]
    assert [address.text for address in virtual.resolve("Kafka.example", 9092)] == ["127.0.0.5:9092", "[::1]:9092"]
    assert virtual.name_of(virtual.resolve("kafka.example", 1)[0], 1) == "kafka.example"
    assert virtual.name_of(SERVER, 1) == "localhost"
    assert virtual.name_of(virtual.resolve("10.1.2.3", 1)[0], 1) == "10.1.2.3"
    network.faults = NetworkFaults(unresolved=1.0)
    with pytest.raises(virtual.GaiError, match=r"kafka\.example"):
        virtual.resolve("kafka.example", 9092)
    assert virtual.resolve("127.0.0.1", 9092) == [SERVER]


def _leave_unread(client: Stream, server: Stream, virtual: VirtualHandler) -> None:
    client.send([b"unread"], 1)
    virtual.sleep(1)
    server.close()


def _leave(_client: Stream, server: Stream, _virtual: VirtualHandler) -> None:
    server.close()


@pytest.mark.parametrize(("leave", "first"), [(_leave_unread, "reset"), (_leave, "end")])
def test_a_peer_that_leaves_unread_bytes_resets(
    scheduler: Scheduler,
    virtual: VirtualHandler,
    leave: Callable[[Stream, Stream, VirtualHandler], None],
    first: str,
) -> None:
    def program() -> None:
        with _pair(virtual) as (client, server):
            leave(client, server, virtual)
            if first == "reset":
                with pytest.raises(ConnectionResetError):
                    _read(client)
            else:
                assert _read(client) == b""
                assert client.is_hung_up()  # type: ignore[attr-defined]  # as streams of sockets have it
                client.send([b"into nothing"], 1)
                virtual.sleep(1)
            with pytest.raises(BrokenPipeError):
                client.send([b"x"], 1)

    scheduler.run(program)


def test_a_reset_overtakes_bytes(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> None:
    """The reader does not look for them again and again: the clock would stand still."""
    network.faults = NetworkFaults(latency_ms=(1, 1), jitter_ms=100_000)

    def program() -> None:
        with _pair(virtual) as (client, server):
            server.send([b"late"], 10)
            server.close()
            client.send([b"to nobody"], 10)
            with pytest.raises(ConnectionResetError):
                _read(client)
            assert scheduler.now_ms() < 100

    scheduler.turns_max = 10_000
    scheduler.run(program)


def test_what_a_handler_in_virtual_time_refuses(virtual: VirtualHandler) -> None:
    for refused, why in (
        (virtual.kazoo, "ZooKeeper"),
        (virtual.Socket, "sockets"),
        (lambda: virtual.wrap_tls(None, None, None, 1), "OpenSSL"),  # type: ignore[arg-type]
    ):
        with pytest.raises(NotImplementedError, match=why):
            refused()
