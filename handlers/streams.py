"""`SocketStream`: a connected socket that one worker reads and another writes, each with a deadline of its own."""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.handlers.base import Address, Buffer, check_process, process_number
from pykafka.handlers.deadline import Deadline
from pykafka.handlers.patching import of_system

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

#: How many buffers one system call may gather (POSIX's IOV_MAX on Linux and macOS).
GATHER_MAX = 1024
#: How much one system call may send on a hub (bytes): the system copies it, and on loopback delivers it, during the call.
HUB_SEND_MAX = 128 * 1024
#: How long poll(2) can wait at most (ms): the maximum of a C int, 24.8 days.
POLL_MAX_MS = 2**31 - 1
#: The peer has closed its end; poll(2) always reports errors besides.
HUNG_UP: int = getattr(select, "POLLRDHUP", 0)
#: The system probes a silent peer after this time, and then at this interval (s); this many lost probes end the connection.
KEEPALIVE_IDLE_S = 60
KEEPALIVE_INTERVAL_S = 15
KEEPALIVE_PROBES = 4


class Waiter(Protocol):
    """One kind of concurrency's way to wait for a descriptor."""

    def wait(self, timeout: float) -> bool:
        """Return whether the descriptor became ready (or broke) in time (s)."""

    def close(self) -> None:
        """Free the resources that waiting took."""


#: Makes a Waiter of a descriptor and a direction (True: for writing).
WaiterFactory = Callable[[int, bool], Waiter]


class PollWaiter:
    """A waiter on poll(2), during which other threads run.

    :param fd: the descriptor
    :param writing: for which direction
    """

    __slots__ = ("_poll",)

    def __init__(self, fd: int, writing: bool) -> None:
        poll = of_system("select", "poll")()
        poll.register(fd, select.POLLOUT if writing else select.POLLIN)
        self._poll = poll.poll

    def wait(self, timeout: float) -> bool:
        """Return whether the descriptor became ready (or broke) in time (s)."""
        # Rounded up: a wait that ends a fraction early would become a busy loop.
        return bool(self._poll(min(math.ceil(max(timeout, 0.0) * 1000), POLL_MAX_MS)))

    def close(self) -> None:
        """Return at once: a poll object holds no descriptor."""


class SocketStream:
    """A connected, non-blocking socket of the system, and a way to wait for it.

    A socket's own timeout covers both directions, and setting it takes a system call. So the caller of each method gives a
    deadline, and this class keeps it. The last worker that leaves the stream closes its descriptor, so that no other socket
    can get the same number while a worker still waits for it.

    :param sock: connected or about to be; the stream owns it from now on
    :param make_waiter: makes what waits for the socket
    :param breathe: the handler's, called between the system calls of a large write
    :param send_max: how much one system call may send if all workers share one hub (bytes)
    :param has_ended: returns whether no worker can leave the stream any more: `Handler.has_ended`
    """

    def __init__(
        self,
        sock: socket.socket,
        make_waiter: WaiterFactory,
        breathe: Callable[[], None],
        send_max: int | None = None,
        has_ended: Callable[[], bool] = bool,
    ) -> None:
        sock.setblocking(False)
        self._has_ended = has_ended
        self._send_max = send_max
        # Whether waiting is a system call: then a read that expects nothing waits first, which saves a failing call.
        self._polls = make_waiter is PollWaiter
        # Whether the last read left room in its buffer, so that the system had no more bytes.
        self._emptied = False
        #: The socket itself.
        self.socket = sock
        self._make_waiter = make_waiter
        self._breathe = breathe
        self._reader: Waiter | None = None
        self._writer: Waiter | None = None
        # Polls for the end of the connection; made when `is_hung_up` is first called.
        self._end_poll: Callable[[int], list[Any]] | None = None
        self._reading = False
        self._writing = False
        self._closed = False
        self._pid = process_number()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.socket!r}>"

    def fileno(self) -> int:
        """Return the descriptor, -1 when it is closed."""
        return self.socket.fileno()

    def getsockname(self) -> Any:
        """Return the address at this end."""
        return self.socket.getsockname()

    def getpeername(self) -> Any:
        """Return the address at the other end."""
        return self.socket.getpeername()

    def is_hung_up(self) -> bool:
        """Return whether the peer has closed its end, or the connection has failed, as far as the system knows by now.

        One worker at a time may call this: the one that is about to write.

        Bytes that it sent before may still be unread. False if the system does not report it (outside of Linux).
        """
        number = self.socket.fileno()
        if number < 0 or self._closed or self._pid != process_number():  # another worker may close it at any moment
            return True
        if self._end_poll is None:
            poll = of_system("select", "poll")()
            poll.register(number, HUNG_UP)
            self._end_poll = poll.poll
        return bool(self._end_poll(0))

    def recv_into(self, buffer: bytearray | memoryview, timeout: float) -> int:
        """Read at least one byte; 0 when the peer has closed. As `Stream.recv_into`."""
        self._reading = True
        try:
            self._check_open()
            deadline = 0.0
            while True:
                if deadline or (self._emptied and timeout > 0):
                    deadline = deadline or time.monotonic() + timeout
                    self._wait_readable(deadline)
                try:
                    count = self._recv_into(buffer)
                except BlockingIOError:
                    deadline = deadline or time.monotonic() + timeout
                    continue
                self._emptied = self._polls and count < len(buffer)
                return count
        finally:
            self._reading = False
            if self._closed:
                self._let_go()

    def send(self, buffers: Sequence[Buffer], timeout: float) -> None:
        """Write all of the buffers. As `Stream.send`."""
        self._writing = True
        try:
            self._check_open()
            first = buffers[0] if len(buffers) == 1 else None
            if isinstance(first, memoryview) and first.itemsize == 1 and first:
                left = [first]
            else:
                left = [view for buffer in buffers if (view := memoryview(buffer).cast("B"))]
            deadline = 0.0
            while left:
                try:
                    some = left[:GATHER_MAX]
                    sent = self._send(some if self._send_max is None else _at_most(some, self._send_max))
                except BlockingIOError:
                    deadline = deadline or time.monotonic() + timeout
                    self._wait_writable(deadline)
                    continue
                if len(left) == 1 and sent == len(left[0]):
                    return
                _drop(left, sent)
                if left:
                    self._breathe()
                    self._check_open()
        finally:
            self._writing = False
            if self._closed:
                self._let_go()

    # A wrapped socket overrides these two.

    def _recv_into(self, buffer: bytearray | memoryview) -> int:
        return self.socket.recv_into(buffer)

    def _send(self, views: list[memoryview]) -> int:
        return self.socket.send(views[0]) if len(views) == 1 else self.socket.sendmsg(views)

    def _wait_readable(self, deadline: float) -> None:
        reader = self._reader
        if reader is None:
            reader = self._reader = self._make_waiter(self.socket.fileno(), False)
        self._wait(reader, deadline, "read from")

    def _wait_writable(self, deadline: float) -> None:
        writer = self._writer
        if writer is None:
            writer = self._writer = self._make_waiter(self.socket.fileno(), True)
        self._wait(writer, deadline, "written to")

    def _wait(self, waiter: Waiter, deadline: float, what: str) -> None:
        left = deadline - time.monotonic()
        ready = waiter.wait(left) if left > 0 else False
        if not self._polls or self._closed:  # a child that was forked meanwhile has a copy of a greenlet, but no thread
            self._check_open()
        if not ready:
            raise TimeoutError(errno.ETIMEDOUT, f"nothing could be {what} the socket in time")

    def _check_open(self) -> None:
        """Raise an error if the stream was closed, or belongs to another process, which is a system call."""
        if self._closed:
            raise OSError(errno.EBADF, "the stream was closed")
        if self._pid != os.getpid():
            check_process()
            raise OSError(errno.EBADF, "the stream belongs to the process that this one was forked from")

    def close(self) -> None:
        """End the connection and wake whoever reads or writes. As `Stream.close`."""
        if self._closed:
            return
        self._closed = True
        # shutdown() would end the connection for the parent process, too: a forked child must not call it.
        if self._pid == process_number():
            try:
                self.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # not connected, or no longer: no worker can be waiting for it
        if self._pid != process_number() or self._has_ended():
            self._reading = self._writing = False  # they were workers of the parent, or of a loop that is closed
        self._let_go()

    def _let_go(self) -> None:
        if self._reading or self._writing:
            return
        self.socket.close()
        for waiter in (self._reader, self._writer):
            if waiter is not None:
                waiter.close()
        self._reader = self._writer = None


class WrappedStream(SocketStream):
    """A socket inside another library's object, such as pyOpenSSL's, that its `wrap_socket()` returned; for OS threads.

    Such objects seldom support one worker that reads while another writes, so each call into them holds `_lock`; waiting does
    not.

    :param handler: supplies the lock
    :param stream: connected; this object owns its socket from now on
    :param wrapper: has `wrap_socket(sock)`, which performs the handshake
    :param timeout: for the handshake (s)
    """

    def __init__(self, handler: Handler, stream: SocketStream, wrapper: Any, timeout: float) -> None:
        sock = stream.socket
        sock.settimeout(timeout)
        super().__init__(wrapper.wrap_socket(sock), stream._make_waiter, handler.breathe)
        self._polls = False  # the engine may have bytes of which the system knows nothing
        self._lock = handler.Lock()

    def _recv_into(self, buffer: bytearray | memoryview) -> int:
        return self._try(self.socket.recv_into, buffer)

    def _send(self, views: list[memoryview]) -> int:
        return self._try(self.socket.send, views[0])

    def _try(self, call: Callable[[Any], int], data: Any) -> int:
        try:
            with self._lock:
                return call(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError(errno.EAGAIN, "the TLS engine wants more") from error


def _at_most(views: list[memoryview], size: int) -> list[memoryview]:
    """Return the first `size` bytes of the views."""
    some: list[memoryview] = []
    for view in views:
        if len(view) >= size:
            some.append(view[:size])
            break
        some.append(view)
        size -= len(view)
    return some


def _drop(views: list[memoryview], sent: int) -> None:
    """Take the first `sent` bytes off the views."""
    done = 0
    for view in views:
        if sent < len(view):
            break
        sent -= len(view)
        done += 1
    del views[:done]
    if sent:
        views[0] = views[0][sent:]


def connect_stream(
    handler: Handler,
    address: Address,
    deadline: Deadline,
    source_address: tuple[str, int] | None,
    make_waiter: WaiterFactory,
) -> SocketStream:
    """Connect to an address. As `Handler.connect`.

    :param handler: the handler that the calling worker belongs to
    :param deadline: how long to wait for the peer
    :param make_waiter: makes what waits for the socket
    """
    sock = of_system("socket", "socket")(address.family, socket.SOCK_STREAM)
    try:
        prepare_socket(sock)
        if source_address is not None and source_address != ("", 0):
            sock.bind(source_address)
        _connect(sock, address, deadline, make_waiter)
        send_max = HUB_SEND_MAX if handler.cooperative else None
        return SocketStream(sock, make_waiter, handler.breathe, send_max, lambda: handler.has_ended)
    except BaseException:
        sock.close()
        raise


def prepare_socket(sock: socket.socket) -> None:
    # Without Nagle's delay, and with keep-alive.
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # The system's own default is two hours, after which most firewalls have long forgotten the connection.
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _connect(sock: socket.socket, address: Address, deadline: Deadline, make_waiter: WaiterFactory) -> None:
    code = sock.connect_ex(address.sockaddr)
    if code in {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR}:
        waiter = make_waiter(sock.fileno(), True)
        try:
            # A socket that is not connected yet cannot be woken: closing it would give its number to another one.
            if not deadline.wait(waiter.wait):
                raise TimeoutError(errno.ETIMEDOUT, f"no answer within {deadline.timeout:.3g} s")
        finally:
            waiter.close()
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))  # OSError itself picks ConnectionRefusedError and the like
