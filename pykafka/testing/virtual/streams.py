"""`VirtualStream`: one end of a connection in virtual time; `Link`: what both ends have in common."""

from __future__ import annotations

import errno
import hashlib
import struct
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from pykafka.handlers.base import Address, Buffer
from pykafka.testing.virtual.primitives import Line, Numbered
from pykafka.testing.virtual.turns import Turns, Waiter

#: How many bytes may be under way to a stream, or unread by it, before its peer waits.
WINDOW = 256 * 1024
#: How many pieces one write may be cut into.
PIECES_MAX = 5
_EVENT = struct.Struct(">cqqq").pack
#: A time of the clock that never comes (µs).
NEVER = 1 << 62


class Connections:
    """The open connections of a network, and the digest of all that they have carried.

    :param scheduler: has the clock
    """

    def __init__(self, scheduler: Turns) -> None:
        self.scheduler = scheduler
        #: By number.
        self.links: dict[int, Link] = {}
        self._number = 0
        self._history = hashlib.sha256()

    @property
    def digest(self) -> str:
        """A digest of all bytes that were sent, with their times."""
        return self._history.hexdigest()

    def next_number(self) -> int:
        """Return a number for a stream or connection."""
        self._number += 1
        return self._number

    def note(self, what: bytes, number: int, data: bytes = b"") -> None:
        """Add an event of a stream or connection to the digest.

        :param what: the kind, one byte
        :param number: of the stream or connection
        :param data: its bytes
        """
        self._history.update(_EVENT(what, self.scheduler.clock_us, number, len(data)) + data)


class Link:
    """A connection. Times are those of the clock (µs).

    :param connections: of its network
    :param latency_us: how long bytes take in one direction
    :param seed: of what it draws
    """

    __slots__ = (
        *(
            "_ends",
            "_connections",
            "cut_at",
            "jitter_us",
            "latency_us",
            "loses_of_client",
            "lost_from",
            "number",
            "_random",
        ),
        *("_seed", "split"),
    )

    def __init__(self, connections: Connections, latency_us: int, seed: float) -> None:
        self._connections = connections
        self.number = connections.next_number()
        self.latency_us = latency_us
        self._seed = seed
        self._random: Random | None = None
        self.jitter_us = 0.0
        #: The chance of a write to arrive in pieces.
        self.split = 0.0
        #: When it is reset.
        self.cut_at = NEVER
        #: From when on it loses what one end sends, and which end that is.
        self.lost_from = NEVER
        self.loses_of_client = False
        self._ends: list[VirtualStream] = []

    def draw(self) -> float:
        """Return a number from 0 to 1."""
        if self._random is None:  # to make one costs more than most connections draw
            self._random = Random(self._seed)
        return self._random.random()

    def join(self, source: Address, target: Address) -> tuple[VirtualStream, VirtualStream]:
        """Return both ends: that of the client and that of the server."""
        client = VirtualStream(self._connections, self, source, target)
        server = VirtualStream(self._connections, self, target, source)
        client.is_client = True
        client.peer, server.peer = server, client
        self._ends = [client, server]
        self._connections.links[self.number] = self
        self._connections.note(b"C", self.number, f"{source.text} {target.text}".encode())
        return client, server

    def cut(self) -> None:
        """Reset it now."""
        self.cut_at = min(self.cut_at, self._connections.scheduler.clock_us)
        for end in self._ends:
            end.look_again()

    def heal(self) -> None:
        """End its faults, also those that it has yet to meet; if one end has lost the other, it is reset."""
        now = self._connections.scheduler.clock_us
        if self.cut_at > now:
            self.cut_at = NEVER
        if self.lost_from > now:
            self.lost_from = NEVER
        else:  # bytes may be missing: the ends cannot go on
            self.cut()
        self.jitter_us = self.split = 0.0

    def on_closed(self) -> None:
        """Leave the network if both ends are closed."""
        if all(end.is_closed for end in self._ends):
            self._connections.links.pop(self.number, None)


class VirtualStream(Numbered):
    """One end of a connection. As `Stream`.

    :param connections: of its network
    :param link: what it has in common with the other end
    :param own: the address at this end
    :param other: the address at the other end
    """

    __slots__ = (
        *(
            "_end_at",
            "_id",
            "_last_at",
            "_link",
            "_connections",
            "_other",
            "_own",
            "_pieces",
            "_reader",
            "_reset_at",
            "_room",
        ),
        *("_unread", "is_client", "is_closed", "peer"),
    )

    def __init__(self, connections: Connections, link: Link, own: Address, other: Address) -> None:
        super().__init__(connections.scheduler)
        self._connections = connections
        self._id = connections.next_number()
        self._link = link
        self._own = own
        self._other = other
        self.is_client = False
        self.is_closed = False
        #: The other end; `Link.join` sets it.
        self.peer: VirtualStream = self
        # What comes in: (when it arrives, bytes); how much that is; when the last of it arrives.
        self._pieces: deque[tuple[int, memoryview]] = deque()
        self._unread = 0
        self._last_at = 0
        # When the end arrives that the peer has sent, and the reset.
        self._end_at = self._reset_at = NEVER
        self._reader: Waiter | None = None
        # The peer's worker that waits for room here.
        self._room = Line(connections.scheduler)

    def __repr__(self) -> str:
        return f"<VirtualStream {self._own.text} to {self._other.text} {'closed' if self.is_closed else 'open'}>"

    def fileno(self) -> int:
        """Return a number that is no descriptor, -1 when it is closed."""
        return -1 if self.is_closed else self._id

    def getsockname(self) -> Any:
        """Return the address at this end."""
        return self._own.sockaddr

    def getpeername(self) -> Any:
        """Return the address at the other end."""
        return self._other.sockaddr

    def is_hung_up(self) -> bool:
        """Return whether the end or a reset of the connection has arrived."""
        return min(self._end_at, self._reset_at, self._link.cut_at) <= self._scheduler.clock_us

    def recv_into(self, buffer: bytearray | memoryview, timeout: float) -> int:
        """Read what has arrived. As `Stream.recv_into`."""
        scheduler = self._scheduler
        until = scheduler.deadline(timeout)
        while True:
            self._check_open()
            now, pieces, cut_at = scheduler.clock_us, self._pieces, self._link.cut_at
            if cut_at <= now:
                raise ConnectionResetError(errno.ECONNRESET, f"Connection reset by peer: {self!r} was cut")
            next_at = pieces[0][0] if pieces else self._end_at
            if next_at <= now:
                return self._take(buffer, now) if pieces else 0
            if self._reset_at <= now:  # it may overtake bytes, which never come then
                raise ConnectionResetError(errno.ECONNRESET, f"Connection reset by peer: {self!r}")
            if until <= now:
                raise TimeoutError("nothing has come in time")
            self._await(min(until, next_at, self._reset_at, cut_at))

    def _await(self, until: int) -> None:
        scheduler = self._scheduler
        scheduler.check_inside()  # before it counts as the reader
        self._reader = scheduler.current
        try:
            scheduler.park(until)
        finally:
            self._reader = None

    def _take(self, buffer: bytearray | memoryview, now: int) -> int:
        """Move what has arrived into the buffer; return how much that is."""
        pieces, filled, size = self._pieces, 0, len(buffer)
        while filled < size and pieces and pieces[0][0] <= now:
            at, piece = pieces.popleft()
            count = min(len(piece), size - filled)
            buffer[filled : filled + count] = piece[:count]
            filled += count
            if count < len(piece):
                pieces.appendleft((at, piece[count:]))
        self._unread -= filled
        self._room.wake()
        return filled

    def send(self, buffers: Sequence[Buffer], timeout: float) -> None:
        """Write all of the buffers, as soon as the peer has room for them. As `Stream.send`."""
        until = self._scheduler.until(timeout)
        data = memoryview(b"".join(buffers))
        while True:
            self._check_writable()
            room = WINDOW - self.peer._unread
            if room > 0:
                self._send(data[:room])
                data = data[room:]
            if not data:
                return
            if not self.peer._room.wait(until):
                raise TimeoutError(f"the peer has not read in time: {self!r}")

    def _check_writable(self) -> None:
        self._check_open()
        now = self._scheduler.clock_us
        if self._link.cut_at <= now:
            raise ConnectionResetError(errno.ECONNRESET, f"Connection reset by peer: {self!r} was cut")
        if self._reset_at <= now:
            raise BrokenPipeError(errno.EPIPE, f"Broken pipe: {self!r}")

    def _send(self, data: memoryview) -> None:
        """Send bytes for which the peer has room."""
        self._connections.note(b"S", self._id, bytes(data))
        link, peer, now = self._link, self.peer, self._scheduler.clock_us
        if peer.is_closed:  # a system answers this with a reset
            self._reset_at = min(self._reset_at, now + 2 * link.latency_us)
            self.look_again()
        elif link.lost_from <= now and self.is_client == link.loses_of_client:
            peer._unread += len(data)  # they fill the buffers on the way
        elif data:
            gap_us = 0
            while link.split and len(data) > 1 and link.draw() < link.split:
                size = 1 + int(link.draw() * min(len(data) - 1, max(len(data) // PIECES_MAX, 16)))
                peer._arrive(data[:size], gap_us)
                data, gap_us = data[size:], int(link.draw() * link.latency_us)
            peer._arrive(data, gap_us)

    def _arrival(self, gap_us: int = 0) -> int:
        """Return when something arrives that is sent now.

        :param gap_us: how long after what was sent before it at least
        """
        link = self._link
        at = self._scheduler.clock_us + link.latency_us
        if link.jitter_us:
            at += int(link.draw() * link.jitter_us)
        self._last_at = at = max(at, self._last_at + gap_us)
        return at

    def _arrive(self, data: memoryview, gap_us: int) -> None:
        at = self._arrival(gap_us)
        self._pieces.append((at, data))
        self._unread += len(data)
        if self._reader is not None and len(self._pieces) == 1:
            self._scheduler.wake_at(self._reader, at)

    def look_again(self) -> None:
        """Wake the workers that wait for this end: something has happened to it."""
        if self._reader is not None:
            self._scheduler.wake(self._reader)
        self.peer._room.wake_all()

    def _check_open(self) -> None:
        if self.is_closed:
            raise OSError(errno.EBADF, f"the stream is closed: {self!r}")

    def close(self) -> None:
        """End the connection and wake its reader and writer; bytes that were not read reset it, as systems do."""
        if self.is_closed:
            return
        self.is_closed = True
        self._connections.note(b"E", self._id)
        self.look_again()
        link, peer, now = self._link, self.peer, self._scheduler.clock_us
        if link.lost_from > now or self.is_client != link.loses_of_client:
            at = peer._arrival()
            if self._pieces and self._pieces[0][0] <= now:
                peer._reset_at = min(peer._reset_at, at)
            else:
                peer._end_at = min(peer._end_at, at)
            peer.look_again()
        self._pieces.clear()
        link.on_closed()

    def abort(self) -> None:
        """End the connection by a reset."""
        self._pieces.append((0, memoryview(b"\0")))
        self.close()
