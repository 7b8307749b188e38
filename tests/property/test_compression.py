"""Codecs over frames of any number and size: what is read, and where the bound lies."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.exceptions import InvalidMessageError, UnpackedTooLargeError
from pykafka.utils.compression import decompress
from tests.unit.utils.test_compression import CODECS, concatenated

PIECES = st.lists(
    st.one_of(
        st.binary(max_size=200),
        st.builds(lambda byte, size: byte * size, st.binary(max_size=2), st.integers(0, 90_000)),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("codec", CODECS)
@given(pieces=PIECES, skippable=st.booleans(), short=st.integers(0, 100))
def test_the_bound_holds_over_all_frames(codec: int, pieces: list[bytes], skippable: bool, short: int) -> None:
    data = b"".join(pieces)
    packed = concatenated(codec, pieces, skippable)
    assert bytes(decompress(codec, packed)) == data
    assert bytes(decompress(codec, packed, max_size=len(data))) == data
    if 0 < short <= len(data):
        with pytest.raises(UnpackedTooLargeError, match="unpacked_max_bytes allows"):
            decompress(codec, packed, max_size=len(data) - short)


@pytest.mark.parametrize("codec", CODECS)
@given(pieces=PIECES, cut=st.integers(1, 60), noise=st.binary(max_size=60))
def test_damaged_frames_are_refused_by_name_or_bounded(codec: int, pieces: list[bytes], cut: int, noise: bytes) -> None:
    packed = concatenated(codec, pieces)
    for hurt in (packed[:-cut], packed + noise, packed[: len(packed) // 2] + noise + packed[len(packed) // 2 :]):
        with suppress(InvalidMessageError):
            assert len(decompress(codec, hurt, max_size=100_000)) <= 100_000
