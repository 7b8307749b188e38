"""FrameReader: frames come out whole, however the bytes came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.exceptions import KafkaException, SocketDisconnectedError
from pykafka.handlers import ThreadingHandler
from pykafka.network.frames import FRAME_MAX, READ_AHEAD_MAX, READ_AHEAD_MIN, FrameReader

HANDLER = ThreadingHandler()


class Pieces:
    """A stream that brings given pieces: an empty one means that nothing came in time; in the end the peer closes."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = list(pieces)

    def recv_into(self, buffer: Any, timeout: float) -> int:
        """Bring as much of the next piece as there is room for."""
        assert len(buffer), "a read must have room"
        if not self._pieces:
            return 0
        piece = self._pieces.pop(0)
        if not piece:
            raise TimeoutError
        count = min(len(buffer), len(piece))
        buffer[:count] = piece[:count]
        if count < len(piece):
            self._pieces.insert(0, piece[count:])
        return count


def _reader(pieces: Sequence[bytes], read_ahead: int = READ_AHEAD_MAX) -> FrameReader:
    stream: Any = Pieces(pieces)
    return FrameReader(stream, HANDLER, read_ahead, is_tls=False)


def _frames(reader: FrameReader) -> tuple[list[bytes], KafkaException]:
    found = []
    while True:
        try:
            found.append(bytes(reader.next(1)))
        except TimeoutError:
            continue
        except KafkaException as error:
            return found, error


SIZES = st.one_of(
    st.integers(0, 30), st.integers(4_080, 4_110), st.integers(16_370, 16_400), st.integers(65_520, 65_560)
)


@given(
    sizes=st.lists(SIZES, max_size=8),
    cuts=st.lists(st.integers(1, 70_000), max_size=30),
    late=st.sets(st.integers(0, 30)),
    read_ahead=st.sampled_from([0, 4_096, 20_000, 1 << 20]),
)
def test_frames_come_out_whole(sizes: list[int], cuts: list[int], late: set[int], read_ahead: int) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    whole = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    pieces = []
    for number, cut in enumerate(cuts):
        if number in late:
            pieces.append(b"")
        if whole[:cut]:
            pieces.append(whole[:cut])
        whole = whole[cut:]
    if whole:
        pieces.append(whole)
    found, error = _frames(_reader(pieces, read_ahead))
    assert found == bodies
    assert type(error) is SocketDisconnectedError
    assert "mid-answer" not in str(error)


def test_the_buffer_grows_when_more_comes_at_once() -> None:
    """Most connections have small answers alone, so they take little memory; others read as far ahead as they may."""

    class Bounded(Pieces):
        rooms: list[int] = []

        def recv_into(self, buffer: Any, timeout: float) -> int:
            self.rooms.append(len(buffer))
            return super().recv_into(buffer, timeout)

    small = b"\0\0\0\x01x"
    stream: Any = Bounded([small, small * 1_000, small, small])
    found, _ = _frames(FrameReader(stream, HANDLER, READ_AHEAD_MAX, is_tls=False))
    assert found == [b"x"] * 1_003
    assert stream.rooms[:2] == [READ_AHEAD_MIN, READ_AHEAD_MIN]
    assert stream.rooms[-1] == READ_AHEAD_MAX


@given(st.binary(max_size=200))
def test_garbage_ends_by_name(garbage: bytes) -> None:
    # Whatever comes, it ends in a KafkaException, with no more memory than a frame may have.
    _frames(_reader([garbage]))


@pytest.mark.parametrize("size", [FRAME_MAX, FRAME_MAX - 1])
def test_the_largest_frame_is_accepted(size: int) -> None:
    found, error = _frames(_reader([size.to_bytes(4, "big"), b"x" * 10]))
    assert found == []
    assert f"(10 of {size} bytes" in str(error)


def test_a_tls_alert_behind_a_frame_is_a_length() -> None:
    found, error = _frames(_reader([b"\0\0\0\1x", b"\x15\3\3\0\2\2\x28"]))
    assert found == [b"x"]
    assert f"of {0x15030300} bytes" in str(error)
