"""Answers of a peer that is no broker, or means harm: few bytes must not become many objects."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from pykafka.exceptions import CorruptResponseError
from pykafka.protocol import wire
from pykafka.protocol.fields import array, int8, string
from pykafka.protocol.primitives import BYTES_PER_ELEMENT, ELEMENTS_MAX, NUMBERS_PER_ELEMENT, TAGS_MAX, uvarint
from pykafka.protocol.schema import Message, Struct


class Shelf(Struct):
    """A struct with an array."""

    names: list[str] | None = array("string", "0+", nullable="0+")
    more: list[int] = array("int8", "1+", tag=0)


class Store(Message, versions="0-1", flexible="1+"):
    """Arrays of each kind."""

    shelves: list[Shelf] | None = array(Shelf, "0+", nullable="0+")
    numbers: list[int] = array("int8", "0+")
    label: str = string("0+")
    kind: int = int8("0+")


def refused(cls: type[Message], body: bytes, version: int) -> str:
    """Return the error of a body."""
    with pytest.raises(CorruptResponseError) as raised:
        cls.decode(body, version)
    return str(raised.value)


def refused_early(cls: type[Message], body: bytes, version: int) -> str:
    """Return the error of a body, for which no memory was taken."""
    cls.decode(cls().encode(version), version)  # its functions are generated
    tracemalloc.start()
    try:
        error = refused(cls, body, version)
        assert tracemalloc.get_traced_memory()[1] < 100_000
        return error
    finally:
        tracemalloc.stop()


def compact(count: int) -> bytes:
    return uvarint(count + 1)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("count", [ELEMENTS_MAX + 1, 2**31 - 2], ids=["one too many", "most"])
def test_an_array_of_too_many_elements_is_refused_before_they_are_made(version: int, count: int) -> None:
    head = compact(count) if version else count.to_bytes(4, "big")
    error = refused_early(Store, head + bytes(5 * ELEMENTS_MAX), version)
    assert "at shelves" in error, error
    assert f"{count} elements in its arrays" in error or f"{count} elements where" in error, error


def test_arrays_count_together() -> None:
    half = ELEMENTS_MAX // 2
    # Two shelves with names without a letter; the second one is refused as it is announced.
    shelf = compact(half) + b"\1" * half + b"\0"
    error = refused(Store, compact(2) + shelf + shelf, 1)
    assert "shelves[1].names" in error, error
    assert f"{2 + 2 * half} elements in its arrays" in error, error


@pytest.mark.parametrize("fits", [True, False])
def test_a_large_answer_has_elements_by_its_size(fits: bool) -> None:
    """All groups' offsets, or all topics' configurations, come in one answer."""
    size = BYTES_PER_ELEMENT if fits else BYTES_PER_ELEMENT - 1
    name = uvarint(size) + b"a" * (size - 1)
    count = ELEMENTS_MAX + 100_000
    shelf = compact(count // 2) + name * (count // 2) + b"\0"
    label = b"a" * 100  # for the shelves themselves
    body = compact(2) + shelf + shelf + compact(0) + compact(100) + label + b"\7\0"
    if fits:
        shelves = Store.decode(body, 1).shelves
        assert shelves is not None
        assert [len(shelf.names or ()) for shelf in shelves] == [count // 2] * 2
    else:
        error = refused(Store, body, 1)
        assert f"{count + 2} elements in its arrays, where {ELEMENTS_MAX} are the most" in error, error


@pytest.mark.parametrize("fits", [True, False])
def test_the_bound_is_that_of_the_whole_answer_within_tagged_fields(fits: bool) -> None:
    most = NUMBERS_PER_ELEMENT * ELEMENTS_MAX
    numbers = compact(most) + bytes(most)
    tagged = b"\1\0" + uvarint(len(numbers)) + numbers
    filling = b"a" * 0x7FFF
    names = compact(400) + (uvarint(len(filling) + 1) + filling) * 400 if fits else compact(0)
    body = compact(1) + names + tagged + compact(0) + compact(0) + b"\7\0"
    if fits:
        shelves = Store.decode(body, 1).shelves
        assert shelves is not None
        assert len(shelves[0].more) == most
    else:
        assert f"{ELEMENTS_MAX + 2} elements in its arrays" in refused(Store, body, 1)


def test_a_null_gives_nothing_back() -> None:
    nulls = 1000
    full = ELEMENTS_MAX - nulls - 1
    body = compact(nulls + 1) + b"\0\0" * nulls + compact(full + 1) + b"\1" * (full + 1)
    error = refused(Store, body, 1)
    assert f"{ELEMENTS_MAX + 1} elements in its arrays" in error, error


@pytest.mark.parametrize("version", [0, 1])
def test_numbers_count_by_their_memory(version: int) -> None:
    none, count = (
        (b"\0", compact) if version else ((-1).to_bytes(4, "big", signed=True), lambda n: n.to_bytes(4, "big"))
    )
    most = NUMBERS_PER_ELEMENT * ELEMENTS_MAX
    error = refused_early(Store, none + count(most + NUMBERS_PER_ELEMENT) + bytes(most + 100), version)
    assert f"numbers: {ELEMENTS_MAX + 1} elements" in error, error


def test_tagged_fields_are_bounded() -> None:
    def body(tags: int) -> bytes:
        written = b"".join(uvarint(tag + 1) + b"\0" for tag in range(tags))
        return compact(0) + compact(0) + compact(0) + b"\7" + uvarint(tags) + written

    assert len(Store.decode(body(TAGS_MAX), 1).unknown_tags) == TAGS_MAX
    error = refused_early(Store, body(TAGS_MAX + 1), 1)
    assert f"{TAGS_MAX + 1} tagged fields" in error, error


def test_tagged_fields_count_with_the_elements_of_arrays() -> None:
    most = NUMBERS_PER_ELEMENT * (ELEMENTS_MAX - 100)
    numbers = compact(most) + bytes(most)
    first = b"\0" + b"\1\0" + uvarint(len(numbers)) + numbers
    tags = b"".join(uvarint(tag + 1) + b"\0" for tag in range(200))
    error = refused(Store, compact(2) + first + b"\0" + uvarint(200) + tags, 1)
    assert "shelves[1].tagged fields" in error, error
    assert f"{ELEMENTS_MAX + 103} elements in its arrays" in error, error


NONSENSE: dict[str, Callable[[int], bytes]] = {
    "zeros": bytes,
    "ones": lambda size: b"\1" * size,
    "twos": lambda size: b"\2" * size,
    "counts": lambda size: (b"\0\1\0\0" + b"\xff\xff\x03" * 3) * (size // 13),
    "null and full": lambda size: (b"\0\0\x80\x80\x08" + b"\1" * 1000) * (size // 1005),
}
#: An empty element of the smallest struct takes one or two bytes, and becomes an object of some hundred.
GROWTH = 400


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_takes_memory_by_its_size(nonsense: str) -> None:
    """Each answer that the client reads, in its first and its last version."""
    size = 20_000
    body = NONSENSE[nonsense](size)
    kinds = [
        cls for name in wire.__all__ if issubclass(cls := getattr(wire, name), Message) and name.endswith("Response")
    ]
    for cls in kinds:
        for version in {cls.versions[0], cls.versions[-1]}:
            cls.decode(cls().encode(version), version)  # its functions are generated
            tracemalloc.start()
            try:
                cls.decode(body, version)
            except CorruptResponseError:
                pass
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert peak < 200_000 + GROWTH * size, (cls, version, peak)
