"""`FrameReader`: Kafka's length-prefixed frames out of a byte stream."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from pykafka.exceptions import FrameTooLargeError, NotKafkaError, SocketDisconnectedError

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Stream

#: The client refuses larger answers (bytes); a broker's default limit is 100 MiB.
FRAME_MAX = 512 * 1024 * 1024
#: How much is read ahead at most (bytes): whole small answers in one system call, while large ones are read in place.
READ_AHEAD_MAX = 64 * 1024
#: The buffer of a connection is as large as that (bytes) until more has come at once: most have small answers alone.
READ_AHEAD_MIN = 4 * 1024
#: An incomplete frame larger than this is read into a buffer of its own (bytes).
STAGED_MAX = 16 * 1024
#: From here on (bytes) memory comes straight from the system, since clearing it by hand would hold a hub up.
MAPPED_FROM = 4 * 1024 * 1024


class FrameReader:
    """The frames of one stream, for one worker; a read that times out keeps the bytes that have come.

    :param stream: connected
    :param handler: supplies the clock
    :param read_ahead: how large the buffer for small frames may get (bytes); READ_AHEAD_MIN at least, READ_AHEAD_MAX at most
    :param is_tls: whether the stream is encrypted already
    :param frame_max: the largest frame that is read (bytes)
    """

    def __init__(
        self, stream: Stream, handler: Handler, read_ahead: int, is_tls: bool, frame_max: int = FRAME_MAX
    ) -> None:
        self._stream = stream
        self._handler = handler
        self._is_tls = is_tls
        self._frame_max = frame_max
        self._read_ahead = max(min(read_ahead, READ_AHEAD_MAX), READ_AHEAD_MIN)
        self._staged = bytearray(READ_AHEAD_MIN)
        self._start = 0
        self._end = 0
        # The buffer of a large frame under way, and how much of it has come (bytes).
        self._frame: memoryview | None = None
        self._filled = 0
        self._any = False

    @property
    def is_within_frame(self) -> bool:
        """Whether a part of the next frame has come."""
        return self._frame is not None or self._end > self._start

    @property
    def hint(self) -> str:
        """The advice for an error if the connection ends now."""
        if self._any:
            return ""
        if self._is_tls:
            return "; if it asks for a client certificate, give SslConfig a certfile and keyfile that it trusts"
        return "; if this is a TLS port, give KafkaClient an ssl_config, or tls=True"

    def next(self, timeout: float) -> memoryview:
        """Return the next frame, without its length.

        :param timeout: how long to wait (s)
        :raises TimeoutError: it has not come completely; call again
        :raises SocketDisconnectedError: the peer has closed the connection
        :raises NotKafkaError: the peer speaks another protocol
        :raises FrameTooLargeError: its length cannot be right
        """
        frame = self._take()
        if frame is not None:
            return frame
        deadline = self._handler.now() + timeout
        while True:
            if self._frame is not None:
                count = self._stream.recv_into(self._frame[self._filled :], timeout)
                self._filled += count
            else:
                count = self._stream.recv_into(memoryview(self._staged)[self._end :], timeout)
                self._end += count
                if self._end == len(self._staged) < self._read_ahead:
                    self._grow()
            if not count:
                raise self._closed_by_peer()
            frame = self._take()
            if frame is not None:
                return frame
            self._handler.breathe()
            timeout = max(deadline - self._handler.now(), 0.0)

    def _take(self) -> memoryview | None:
        """Return a frame that is complete; None if there is none yet."""
        frame = self._frame
        if frame is not None:
            if self._filled < len(frame):
                return None
            self._frame = None
            return frame.toreadonly()
        start, have = self._start, self._end - self._start
        if have < 4:
            if start:
                self._make_room()
            return None
        head = self._staged
        if not head[start]:  # less than 16 MiB, and neither text nor TLS
            size = head[start + 1] << 16 | head[start + 2] << 8 | head[start + 3]
        else:
            size = self._check_size(start)
        self._any = True
        if have - 4 >= size:
            stop = start + 4 + size
            answer = memoryview(bytes(memoryview(self._staged)[start + 4 : stop]))
            # What was read to its end leaves all of the buffer for the next answer.
            self._start, self._end = (stop, self._end) if stop < self._end else (0, 0)
            return answer
        if size > min(STAGED_MAX, len(self._staged) - 4):
            self._begin_large(start + 4, size)
        else:
            self._make_room()
        return None

    def _grow(self) -> None:
        """Make the buffer as large as it may get: more has come at once than it has room for."""
        larger = bytearray(self._read_ahead)
        larger[: self._end] = self._staged[: self._end]
        self._staged = larger

    def _make_room(self) -> None:
        """Move the staged bytes to the beginning of the buffer."""
        if self._start:
            have = self._end - self._start
            self._staged[:have] = self._staged[self._start : self._end]
            self._start, self._end = 0, have

    def _begin_large(self, start: int, size: int) -> None:
        self._frame = memoryview(mmap.mmap(-1, size) if size >= MAPPED_FROM else bytearray(size))
        self._filled = self._end - start
        self._frame[: self._filled] = memoryview(self._staged)[start : self._end]
        self._start = self._end = 0

    def _check_size(self, start: int) -> int:
        """Return the length at this place in the buffer, if it can be one."""
        head = bytes(self._staged[start : start + 4])
        if head.isascii() and head.decode("ascii").isprintable():
            said = bytes(self._staged[start : min(self._end, start + 40)]).split(b"\r")[0]
            raise NotKafkaError(
                f"the peer answers {said!r}: it is no Kafka broker; look the broker's port up in its listeners"
            )
        if not self._any and not self._is_tls and head[0] == 0x15 and head[1] == 3 and head[2] <= 4:
            raise NotKafkaError(
                "the peer answers with a TLS alert: it is a TLS port; give KafkaClient an ssl_config, or tls=True"
            )
        size = int.from_bytes(head, "big", signed=True)
        if not 0 <= size <= self._frame_max:
            raise FrameTooLargeError(
                f"the peer announces an answer of {size} bytes (0x{head.hex()}), where {self._frame_max} are the most; "
                "it is no Kafka broker, or the connection has been garbled"
            )
        return size

    def _closed_by_peer(self) -> SocketDisconnectedError:
        if self._frame is not None:
            return SocketDisconnectedError(
                f"the peer closed the connection in mid-answer ({self._filled} of {len(self._frame)} bytes had come)"
            )
        if self._end > self._start:
            return SocketDisconnectedError(
                f"the peer closed the connection in mid-answer ({self._end - self._start} bytes had come)"
            )
        if not self._any:
            return SocketDisconnectedError(f"the peer closed the connection without an answer{self.hint}")
        return SocketDisconnectedError(
            "the peer closed the connection; the broker may have been stopped, or have found it idle"
        )
