"""A proxy between client and server that closes, refuses and mutes connections, and a way to lead a client through it."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from pykafka.handlers import Address, GEventHandler, Handler, Stream, ThreadingHandler

HOST = "127.0.0.1"


class CuttingProxy:
    """Forward connections to a server during the `with` block, until a test cuts, refuses or mutes them.

    :param port: the server's, on 127.0.0.1
    """

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._ended = False
        self._loud = threading.Event()
        self._loud.set()
        #: How many of the next connections are closed as soon as they are made.
        self.close_next = 0
        self.accepted = 0

    def __enter__(self) -> Self:
        self._spawn(self._accept, self._listener)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self.unmute()
        self.refuse()
        self.cut()
        for thread in list(self._threads):
            thread.join(10)

    def _spawn(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive() or one.ident is None]
        self._threads.append(thread)
        thread.start()

    def refuse(self) -> None:
        """Stop listening: the system refuses connections until `listen`."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def listen(self) -> None:
        """Accept connections again, at the same port."""
        self._listener = socket.create_server((HOST, self.port))
        self._spawn(self._accept, self._listener)

    def cut(self, share: float = 1.0) -> None:
        """Close connections.

        :param share: of those that there are, chosen at random
        """
        with self._lock:
            chosen = [pair for pair in self._pairs if random.random() < share]
        for pair in chosen:
            _end(pair)

    def mute(self) -> None:
        """Forward nothing until `unmute`, and keep all connections: as where the network is cut."""
        self._loud.clear()

    def unmute(self) -> None:
        """Forward what has come meanwhile, and go on."""
        self._loud.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.close_next > 0:
                self.close_next -= 1
                client.close()
                continue
            try:
                broker = socket.create_connection((HOST, self._upstream), 10)
                broker.settimeout(None)
            except OSError:  # it is down
                client.close()
                continue
            pair = client, broker
            with self._lock:
                self._pairs.append(pair)
            self._spawn(self._pump, client, broker, pair)
            self._spawn(self._pump, broker, client, pair)
            if self._ended:
                _end(pair)

    def _pump(self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._loud.wait()
                sink.sendall(data)
        _end(pair)
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
                return
        for sock in pair:  # whoever comes last closes
            sock.close()


class FrameProxy(CuttingProxy):
    """A proxy that sees whole requests and answers, and may change, hold or lose them.

    :param port: the server's, on 127.0.0.1
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._asked: dict[Any, tuple[int, int]] = {}
        #: Called with (API key, request without its length): what to forward; None hangs up, and the request is not forwarded.
        self.request: Callable[[int, bytes], bytes | None] = lambda _, frame: frame
        #: Called with (API key, version, answer without its length): what to forward; None hangs up.
        self.answer: Callable[[int, int, bytes], bytes | None] = lambda _, __, frame: frame

    def send_late(self, frame: bytes) -> bytes:
        """Send a request, without its length, over a connection of its own; return the answer without its length."""
        with socket.create_connection((HOST, self._upstream), 10) as late, late.makefile("rb") as stream:
            late.sendall(len(frame).to_bytes(4, "big") + frame)
            return stream.read(int.from_bytes(stream.read(4), "big"))

    def _pump(self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        asks = source is pair[0]
        with suppress(OSError), source.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                frame: bytes | None = stream.read(int.from_bytes(size, "big"))
                assert frame is not None
                number = frame[4:8] if asks else frame[:4]
                if asks:
                    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
                    self._asked[pair, number] = key, version
                    frame = self.request(key, frame)
                else:
                    frame = self.answer(*self._asked.pop((pair, number)), frame)
                if frame is None:
                    break
                self._loud.wait()
                sink.sendall(len(frame).to_bytes(4, "big") + frame)
        _end(pair)
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
                return
        for sock in pair:  # whoever comes last closes
            sock.close()


def _end(pair: tuple[socket.socket, socket.socket]) -> None:
    for sock in pair:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def detour(kind: str, ports: dict[int, int]) -> Handler:
    """Return a handler that connects to other ports than those that the brokers advertise.

    :param kind: "threads" or "gevent"
    :param ports: {the broker's: the proxy's}
    """
    base: Any = {"threads": ThreadingHandler, "gevent": GEventHandler}[kind]

    class Detour(base):  # type: ignore[misc]
        def connect(self, address: Address, *args: Any, **kwargs: Any) -> Stream:
            host, port, *rest = address.sockaddr
            stream: Stream = super().connect(
                Address(address.family, (host, ports.get(port, port), *rest)), *args, **kwargs
            )
            return stream

    made: Handler = Detour()
    return made
