"""Peers that a client may meet at the other end: echoes, obedient brokers, and everything that is no broker.

They live in a process of their own (`python -m tests.support.peers DIRECTORY`), on plain threads, so that they answer whatever
the test's own process does to its threads, its hub or the standard library.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.certs import Pems

HOST = "127.0.0.1"


class Ask:
    """A request that contains the obedient peer's answer, with the methods that RequestHandler and BrokerConnection call.

    :param answer: `size`: bytes besides the correlation id; `delay` (s) before; `silent`: nothing; `close`: hang up;
        `cut`: hang up after so many bytes; `number`: another correlation id; `raw`: these bytes (hex) as they stand
    """

    def __init__(self, **answer: Any) -> None:
        self.answer = answer

    def encode(self, correlation_id: int) -> Sequence[bytes]:
        """Return the frame as two buffers."""
        body = struct.pack(">hhi", 3, 0, correlation_id) + json.dumps(self.answer).encode()
        return [struct.pack(">i", len(body)), body]

    def get_bytes(self) -> bytes:
        """Return the frame as documented classes do, numbered 0."""
        return b"".join(self.encode(0))


def _receive(peer: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = peer.recv(min(size - len(found), 1 << 20))
        if not piece:
            raise EOFError
        found += piece
    return found


def _obey(peer: socket.socket) -> None:
    while True:
        frame = _receive(peer, int.from_bytes(_receive(peer, 4), "big"))
        number, answer = frame[4:8], json.loads(frame[8:])
        time.sleep(answer.get("delay", 0))
        if answer.get("close"):
            return _say_no_more(peer)
        if answer.get("silent"):
            continue
        if "raw" in answer:
            peer.sendall(bytes.fromhex(answer["raw"]))
            continue
        if "number" in answer:
            number = struct.pack(">i", answer["number"])
        size = answer.get("size", 0)
        whole = struct.pack(">i", 4 + size) + number + bytes(i % 251 for i in range(min(size, 251))) * (size // 251 + 1)
        peer.sendall(whole[: answer.get("cut", 8 + size)])
        if "cut" in answer:
            return _say_no_more(peer)


def _say_no_more(peer: socket.socket) -> None:
    """Close our half only: closing with unread requests would reset the connection and lose the last answers."""
    peer.shutdown(socket.SHUT_WR)
    while peer.recv(1 << 16):
        pass


def _echo(peer: socket.socket) -> None:
    while data := peer.recv(1 << 16):
        peer.sendall(data)


def _http(peer: socket.socket) -> None:
    peer.recv(1 << 16)
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def _silent(peer: socket.socket) -> None:
    time.sleep(120)


def _hang_up(peer: socket.socket) -> None:
    peer.recv(1)


def _reset(peer: socket.socket) -> None:
    peer.recv(1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _serve(listener: socket.socket, behave: Callable[[Any], None], context: ssl.SSLContext | None) -> None:
    def run(peer: socket.socket) -> None:
        with suppress(OSError, EOFError), peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is None:
                behave(peer)
                return
            with context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False) as wrapped:
                try:
                    wrapped.do_handshake()
                except ssl.SSLError:
                    # Closing at once would let a reset overtake the alert that says what was wrong.
                    time.sleep(0.2)
                    raise
                behave(wrapped)

    while True:
        peer, _ = listener.accept()
        threading.Thread(target=run, args=(peer,), daemon=True).start()


def _server_context(pems: Pems, name: str, ask_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pems.path(f"{name}.pem"), pems.path(f"{name}.key"))
    if ask_client:
        context.load_verify_locations(pems.path("ca.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _main(pems: Pems) -> None:
    tls = _server_context(pems, "server")
    old_tls = _server_context(pems, "server")
    old_tls.maximum_version = ssl.TLSVersion.TLSv1_2
    old_asking = _server_context(pems, "server", ask_client=True)
    old_asking.maximum_version = ssl.TLSVersion.TLSv1_2
    behaviours: dict[str, tuple[Callable[[Any], None], ssl.SSLContext | None]] = {
        "echo": (_echo, None),
        "tls_echo": (_echo, tls),
        "tls12_echo": (_echo, old_tls),
        "broker": (_obey, None),
        "tls_broker": (_obey, tls),
        "tls_broker_elsewhere": (_obey, _server_context(pems, "elsewhere")),
        "tls_broker_asking": (_obey, _server_context(pems, "server", ask_client=True)),
        "tls_broker_12_asking": (_obey, old_asking),
        "tls_broker_expired": (_obey, _server_context(pems, "expired")),
        "tls_broker_early": (_obey, _server_context(pems, "early")),
        "tls_broker_revoked": (_obey, _server_context(pems, "revoked")),
        "http": (_http, None),
        "silent": (_silent, None),
        "hang_up": (_hang_up, None),
        "reset": (_reset, None),
    }
    ports = {}
    for name, (behave, context) in behaviours.items():
        listener = socket.create_server((HOST, 0))
        ports[name] = listener.getsockname()[1]
        threading.Thread(target=_serve, args=(listener, behave, context), daemon=True).start()
    if socket.has_ipv6:
        with suppress(OSError):
            listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
            ports["broker6"] = listener.getsockname()[1]
            threading.Thread(target=_serve, args=(listener, _obey, None), daemon=True).start()
    held = [*_refusing(ports), *_swallowing(ports)]
    print(json.dumps(ports), flush=True)
    sys.stdin.read()  # until whoever started this closes its end, or dies
    assert held
    os._exit(0)


def _refusing(ports: dict[str, int]) -> list[socket.socket]:
    closed = socket.socket()
    closed.bind((HOST, 0))
    ports["refused"] = closed.getsockname()[1]
    return [closed]


def _swallowing(ports: dict[str, int]) -> list[socket.socket]:
    """Return a port whose queue is full: the system drops connections to it."""
    full = socket.socket()
    full.bind((HOST, 0))
    full.listen(0)
    ports["swallows"] = full.getsockname()[1]
    waiting = [full]
    for _ in range(3):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex((HOST, ports["swallows"]))
        waiting.append(sock)
    time.sleep(0.1)
    return waiting


@contextmanager
def running_peers(pems: Pems) -> Iterator[dict[str, int]]:
    """Run the peers and give their ports by name."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.peers", str(pems.directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(10)


if __name__ == "__main__":
    _main(Pems(Path(sys.argv[1])))
