"""The bytes by which a record says its schema."""

from __future__ import annotations

import pytest

from pykafka.registry.schemas import (
    FramingError,
    read_header,
    read_id,
    read_indexes,
    with_guid,
    with_id,
    with_indexes,
)

GUID = "89791762-2336-4186-9674-299b90a802e2"


def test_an_id_is_four_bytes_behind_a_zero() -> None:
    assert with_id(258) == b"\0\0\0\1\2"
    assert read_id(b"\0\0\0\1\2rest") == (258, 5)


@pytest.mark.parametrize("data", [b"", b"\0\0\0\1", b'{"a": 1}', b"\1\0\0\0\0"])
def test_what_is_no_id_is_said(data: bytes) -> None:
    with pytest.raises(FramingError, match="no schema id is before it"):
        read_id(data)


def test_a_header_has_a_guid_or_an_id() -> None:
    # The bytes are those of Confluent's own tests, which its documentation shows.
    assert with_guid(GUID).hex() == "01" + GUID.replace("-", "")
    assert read_header(with_guid(GUID) + b"\0") == (GUID, 17)
    assert read_header(with_id(7)) == (7, 5)
    with pytest.raises(FramingError, match="neither an id nor a GUID"):
        read_header(b"7")


@pytest.mark.parametrize("path", [(0,), (1,), (3, 0), (0, 200, 1)])
def test_the_path_to_a_message_comes_back(path: tuple[int, ...]) -> None:
    written = with_indexes(path)
    assert read_indexes(b"abc" + written + b"rest", 3) == (path, 3 + len(written))


def test_the_first_message_has_a_short_form() -> None:
    assert with_indexes((0,)) == b"\0"
    assert read_indexes(b"\2\0", 0) == ((0,), 2)  # and its long form is read, too


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x02", b"\xff\xff\xff\xff\xff\xff\1", b"\1", b"\x7e\0"])
def test_a_path_that_is_cut_off_is_said(data: bytes) -> None:
    with pytest.raises(FramingError, match="the path to its message"):
        read_indexes(data, 0)
