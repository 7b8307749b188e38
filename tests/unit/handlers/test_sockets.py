"""Acknowledging at once what other programs send: Spark's JVM waits 40 ms a task for it otherwise."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator

import pytest

from pykafka.handlers.sockets import acknowledge_now
from pykafka.spark.shipping import Shipped

QUICK = (socket.IPPROTO_TCP, socket.TCP_QUICKACK)


@pytest.fixture
def talking() -> Iterator[socket.socket]:
    """Yield a connection on which the system waits before it acknowledges, as it has had answers to send along."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        peer, _ = server.accept()
        with peer:
            ours.setsockopt(*QUICK, 0)
            assert not ours.getsockopt(*QUICK)
            yield ours


def test_every_connection_acknowledges_at_once(talking: socket.socket) -> None:
    """All TCP connections do, and stay open; other sockets are left alone."""
    first, second = socket.socketpair()
    with first, second:
        acknowledge_now()
        first.send(b"as before")
        assert second.recv(100) == b"as before"
    assert talking.getsockopt(*QUICK)
    assert talking.fileno() > 0


def test_a_copy_for_a_worker_hurries_the_sender(talking: socket.socket) -> None:
    """Unpickling is the moment: the task's rest is on its way then."""
    reader = Shipped()
    reader.__dict__["wanted"] = 3
    copy = pickle.loads(pickle.dumps(reader))
    assert copy.__dict__ == {"wanted": 3}
    assert talking.getsockopt(*QUICK)


def test_descriptors_keep_their_mode(monkeypatch: pytest.MonkeyPatch, talking: socket.socket) -> None:
    """A default timeout would make what is touched non-blocking: nothing is touched then."""
    monkeypatch.setattr(socket, "getdefaulttimeout", lambda: 10.0)
    acknowledge_now()
    assert not talking.getsockopt(*QUICK)


def test_systems_without_the_option(monkeypatch: pytest.MonkeyPatch, talking: socket.socket) -> None:
    """Nothing is done where the system has no such option."""
    monkeypatch.delattr(socket, "TCP_QUICKACK")
    acknowledge_now()
    assert not talking.getsockopt(*QUICK)
