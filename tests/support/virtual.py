"""Tests in virtual time: each runs with its fixtures in a scheduler of its own; peers at the other end of its network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pykafka.handlers.base import Address, Handler, Listener, Stream
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.streams import VirtualStream
from tests.support.peers import HOST

#: What a parameter is called that stands for the handler in virtual time.
NAME = "virtual"
_running: list[Scheduler] = []


def is_virtual(item: pytest.Item) -> bool:
    """Return whether a test runs in virtual time, by its parameters."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("handler") == NAME


def obstacle(item: pytest.Item) -> str | None:
    """Return why a test cannot run in virtual time; None if it can."""
    reason: str | None = next((mark.args[0] for mark in item.iter_markers("real_system")), None)
    params: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]  # it has a handler
    if reason is None and any(isinstance(value, str) and value.startswith("tls") for value in params.values()):
        reason = "speak TLS, whose random numbers are OpenSSL's"
    return reason


def run(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a scheduler of its own."""
    scheduler = Scheduler(1)
    _running.append(scheduler)
    try:
        return scheduler.run(fn, *args)
    finally:
        _running.remove(scheduler)


def make_handler() -> VirtualHandler:
    """Return a handler of the scheduler that runs the test."""
    scheduler = _running[-1]
    return VirtualHandler(scheduler, Network(scheduler))


@contextmanager
def thrown_after(handler: Handler, seconds: float, kind: type[BaseException]) -> Iterator[None]:
    """Raise an exception in the worker that runs the block, after a time (s)."""
    scheduler = _running[-1]
    worker = scheduler.current
    assert worker is not None

    def throw() -> None:
        handler.sleep(seconds)
        scheduler.throw(worker, kind())

    thrower = handler.spawn(throw)
    try:
        yield
    finally:
        thrower.interrupt()


def _receive(stream: Stream) -> bytes:
    buffer = bytearray(1 << 16)
    return bytes(buffer[: stream.recv_into(buffer, 3600)])


def _echo(stream: Stream) -> None:
    while data := _receive(stream):
        stream.send([data], 3600)


def _reset(stream: Stream) -> None:
    _receive(stream)
    assert isinstance(stream, VirtualStream)
    stream.abort()


_BEHAVIOURS: dict[str, Callable[[Handler, Stream], object]] = {
    "echo": lambda _, stream: _echo(stream),
    "silent": lambda handler, _: handler.sleep(120),
    "hang_up": lambda _, stream: _receive(stream),
    "reset": lambda _, stream: _reset(stream),
}


@contextmanager
def running_peers(handler: VirtualHandler) -> Iterator[dict[str, int]]:
    """Run peers in the network of a handler, as `tests.support.peers` does on real sockets, and give their ports by name."""
    network = handler._network
    ports, listeners = {"refused": 1, "swallows": 2}, []
    network.unreachable.add(f"{HOST}:2")

    def serve(listener: Listener, behave: Callable[[Handler, Stream], object]) -> None:
        def talk(stream: Stream) -> None:
            with suppress(OSError):
                behave(handler, stream)
            stream.close()

        with suppress(OSError):  # closed
            while True:
                handler.spawn(talk, listener.accept(3600))

    for name, behave in _BEHAVIOURS.items():
        listener = handler.listen(Address(2, (HOST, 0)))
        listeners.append(listener)
        ports[name] = listener.address.sockaddr[1]
        handler.spawn(serve, listener, behave)
    try:
        yield ports
    finally:
        for listener in listeners:
            listener.close()
