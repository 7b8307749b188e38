"""A SOCKS5 and an HTTP proxy on 127.0.0.1, which tests lead clients through."""

from __future__ import annotations

import base64
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
SOCKS_VERSION, LOGIN_VERSION = 5, 1


class TunnelProxy:
    """Answer SOCKS5 and CONNECT at one port during the `with` block, whichever a client speaks.

    :param user: and `password`: what clients have to log in with; "" for nothing
    :param names: {name: address} that this proxy knows, and no resolver of this machine
    """

    def __init__(self, user: str = "", password: str = "", names: dict[str, str] | None = None) -> None:
        self.user = user
        self.password = password
        self.names = names or {}
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._socks: list[socket.socket] = []
        #: The (host, port) of each tunnel that was asked for.
        self.asked: list[tuple[str, int]] = []
        #: Say nothing, hang up at once, or refuse each tunnel.
        self.silent = self.rude = self.refuses = False

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._listener)
        self._listener.close()
        for sock in list(self._socks):
            self._end(sock)
        for thread in list(self._threads):
            thread.join(5)

    def url(self, scheme: str, login: bool = True) -> str:
        """Return the address of this proxy for `proxy=`."""
        who = f"{self.user}:{self.password}@" if self.user and login else ""
        return f"{scheme}://{who}{HOST}:{self.port}"

    @staticmethod
    def _end(sock: socket.socket) -> None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._socks.append(client)
            self._spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, EOFError):
            if self.silent:
                client.recv(1 << 16)
                client.recv(1 << 16)
                return
            first = _exactly(client, 1)
            if self.rude:
                return
            broker = self._socks5(client) if first[0] == SOCKS_VERSION else self._connect(client, first)
            if broker is None:
                return
            self._socks.append(broker)
            with broker:
                self._spawn(_pump, broker, client)
                _pump(client, broker)

    def _reach(self, host: str, port: int) -> socket.socket | None:
        self.asked.append((host, port))
        if self.refuses:
            return None
        with suppress(OSError):
            return socket.create_connection((self.names.get(host, host), port), 5)
        return None

    def _socks5(self, client: socket.socket) -> socket.socket | None:
        methods = _exactly(client, _exactly(client, 1)[0])
        wanted = 2 if self.user else 0
        if wanted not in methods:
            client.sendall(b"\x05\xff")
            return None
        client.sendall(bytes([SOCKS_VERSION, wanted]))
        if self.user:
            assert _exactly(client, 1)[0] == LOGIN_VERSION
            user = _exactly(client, _exactly(client, 1)[0]).decode()
            password = _exactly(client, _exactly(client, 1)[0]).decode()
            right = (user, password) == (self.user, self.password)
            client.sendall(b"\x01\x00" if right else b"\x01\x01")
            if not right:
                return None
        kind = _exactly(client, 4)[3]
        if kind == 3:
            host = _exactly(client, _exactly(client, 1)[0]).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, _exactly(client, size))
        broker = self._reach(host, struct.unpack(">H", _exactly(client, 2))[0])
        client.sendall(b"\x05" + (b"\x00" if broker else b"\x05") + b"\x00\x01" + bytes(6))
        return broker

    def _connect(self, client: socket.socket, first: bytes) -> socket.socket | None:
        head = first
        while not head.endswith(b"\r\n\r\n"):
            head += _exactly(client, 1)
        target = head.split()[1].decode()
        login = base64.b64encode(f"{self.user}:{self.password}".encode())
        if self.user and b"Basic " + login not in head:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return None
        host, _, port = target.rpartition(":")
        broker = self._reach(host.strip("[]"), int(port))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n" if broker else b"HTTP/1.1 403 Forbidden\r\n\r\n")
        return broker


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = sock.recv(size - len(found))
        if not piece:
            raise EOFError
        found += piece
    return found


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for sock in (source, sink):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
