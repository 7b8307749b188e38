"""`TlsStream`: TLS over memory buffers, on top of any handler's stream."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from pykafka.handlers.base import Buffer
from pykafka.handlers.streams import SocketStream, WrappedStream

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Stream

#: How much ciphertext one system call may read, and how much plaintext is encrypted at a time (bytes): large enough that the
#: cost of calls does not matter, small enough not to block a hub.
CHUNK = 256 * 1024


class TlsStream:
    """A TLS connection over a stream; one worker may read while another writes.

    State: each call into the TLS engine or its two memory buffers holds `_lock`. A worker that sends ciphertext holds
    `_writing`, also while it waits for the peer, so that records stay in order. A worker that needs both takes `_writing`
    first.

    :param handler: supplies locks and clock
    :param stream: connected; this object owns it once the handshake has succeeded
    :param context: any SSLContext
    :param server_hostname: the host name that the certificate must contain
    :param timeout: for the handshake (s)
    :raises ssl.SSLError: the handshake failed
    :raises TimeoutError: the handshake did not end in time
    :raises ConnectionResetError: the peer closed the connection during the handshake
    """

    def __init__(
        self, handler: Handler, stream: Stream, context: ssl.SSLContext, server_hostname: str | None, timeout: float
    ) -> None:
        self._handler = handler
        self._stream = stream
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        self._lock = handler.Lock()
        self._writing = handler.Lock()
        self._received = bytearray(CHUNK)
        self._error: ssl.SSLError | None = None
        self._shake_hands(handler.now() + timeout)

    def _shake_hands(self, deadline: float) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush(deadline)
                if not self._receive(deadline):
                    raise ConnectionResetError("the peer closed the connection during the TLS handshake") from None
            except ssl.SSLError:
                self._flush(deadline)  # the alert that tells the peer the reason
                raise
            else:
                self._flush(deadline)
                return

    def _left(self, deadline: float) -> float:
        return max(deadline - self._handler.now(), 0.0)

    def _flush(self, deadline: float) -> None:
        """Send the engine's output; only before other workers know this stream, or under `_writing`."""
        if self._outgoing.pending:
            with self._lock:
                records = self._outgoing.read()
            self._stream.send([records], self._left(deadline))

    def _receive(self, deadline: float) -> bool:
        """Read input for the engine once; return False when the peer has closed the connection."""
        count = self._stream.recv_into(self._received, self._left(deadline))
        with self._lock:
            if count:
                self._incoming.write(memoryview(self._received)[:count])
            else:
                self._incoming.write_eof()
        return count > 0

    def recv_into(self, buffer: bytearray | memoryview, timeout: float) -> int:
        """Read at least one byte of plaintext; 0 when the peer has closed. As `Stream.recv_into`."""
        deadline = self._handler.now() + timeout
        view = memoryview(buffer).cast("B")
        while True:
            count, ended = self._decrypt(view)
            if self._outgoing.pending:
                self._flush_aside(deadline)
            if count or ended:
                return count
            self._receive(deadline)

    def _decrypt(self, view: memoryview) -> tuple[int, bool]:
        """Return how much plaintext the engine had (bytes), and whether it will never have more."""
        done = 0
        with self._lock:
            if self._error is not None:
                raise self._error
            # With a buffer it returns the number of bytes, which typeshed does not know.
            read = cast("Callable[[int, memoryview], int]", self._tls.read)
            size = len(view)
            try:
                while done < size:
                    count = read(size - done, view[done:])  # one TLS record, 16 KiB, at most
                    if not count:
                        return done, True
                    done += count
            except ssl.SSLWantReadError:
                return done, False
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # With or without TLS's closing alert: frames have lengths, so their reader notices a truncated one.
                return done, True
            except ssl.SSLError as error:
                self._error = error  # the engine itself may raise another error the next time
                if not done:
                    raise
        return done, False

    def _flush_aside(self, deadline: float) -> None:
        """Send the output that reading has caused, unless a writer is at work, who then sends it."""
        if self._writing.acquire(blocking=False):
            try:
                self._flush(deadline)
            finally:
                self._writing.release()

    def send(self, buffers: Sequence[Buffer], timeout: float) -> None:
        """Encrypt and write all of the buffers. As `Stream.send`."""
        deadline = self._handler.now() + timeout
        if not self._writing.acquire(timeout=max(timeout, 0.0)):
            raise TimeoutError("another worker was writing until the deadline")
        try:
            for piece in _pieces(buffers):
                self._encrypt(piece, deadline)
                self._flush(deadline)
                self._handler.breathe()
        finally:
            self._writing.release()

    def _encrypt(self, piece: Buffer, deadline: float) -> None:
        while True:
            try:
                with self._lock:
                    self._tls.write(piece)
                return
            except ssl.SSLWantReadError:
                # TLS 1.2 renegotiation: the reader has to read the peer's answer first.
                self._flush(deadline)
                if self._left(deadline) <= 0:
                    raise TimeoutError("the peer did not complete a TLS renegotiation in time") from None
                self._handler.sleep(0.01)

    def close(self) -> None:
        """End the connection, without TLS's closing alert, which might have to wait. As `Stream.close`."""
        self._stream.close()

    def is_hung_up(self) -> bool:
        """Return whether the peer has closed its end. As `SocketStream.is_hung_up`."""
        ask = getattr(self._stream, "is_hung_up", None)
        return ask is not None and ask()

    def fileno(self) -> int:
        """Return the descriptor, -1 when it is closed."""
        return self._stream.fileno()

    def getsockname(self) -> Any:
        """Return the address at this end."""
        return self._stream.getsockname()

    def getpeername(self) -> Any:
        """Return the address at the other end."""
        return self._stream.getpeername()


def open_tls(handler: Handler, stream: Stream, context: Any, server_hostname: str | None, timeout: float) -> Stream:
    """Speak TLS over a connected stream. As `Handler.wrap_tls`.

    :param context: an ssl.SSLContext; in OS threads also any other object with `wrap_socket(sock)`
    :raises TypeError: the context has only `wrap_socket()`, which would block the hub
    """
    if hasattr(context, "wrap_bio"):
        return TlsStream(handler, stream, context, server_hostname, timeout)
    if handler.cooperative:
        raise TypeError(
            f"{type(context).__name__} has wrap_socket() only, which would block every greenlet; "
            "give an SslConfig or an ssl.SSLContext"
        )
    if not isinstance(stream, SocketStream):
        raise TypeError(f"wrap_socket() needs a socket, not a {type(stream).__name__}")
    return WrappedStream(handler, stream, context, timeout)


def _pieces(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the bytes of the buffers in pieces of at most CHUNK, small neighbours joined.

    They are views, whose text has no contents: reports of errors show the locals of the functions that send them.
    """
    small: list[Buffer] = []
    size = 0
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        if size + len(view) <= CHUNK:
            small.append(view)
            size += len(view)
            continue
        if small:
            yield memoryview(b"".join(small))
        small, size = [], 0
        whole = len(view) - len(view) % CHUNK
        for start in range(0, whole, CHUNK):
            yield view[start : start + CHUNK]
        if whole < len(view):
            small, size = [view[whole:]], len(view) - whole
    if small:
        yield memoryview(b"".join(small))
