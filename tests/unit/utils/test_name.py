"""`Name`: text that code written for PyKafka 2 treats as bytes."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import operator
import os
import pickle
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pykafka.utils import compat, get_bytes, get_string
from pykafka.utils.name import Name

RAW = b"orders.eu-west-1"
TEXT = RAW.decode()


def named(text: str | bytes) -> Any:
    return Name.of(text)


NAME = named(RAW)


def same(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and found == expected


def test_it_equals_and_hashes_as_text_and_as_bytes() -> None:
    assert type(named(RAW)) is Name
    assert [RAW == NAME, NAME == RAW, TEXT == NAME, NAME == TEXT] == [True] * 4
    assert bytearray(RAW) == NAME
    assert memoryview(RAW) == NAME
    assert (NAME != RAW, RAW != NAME) == (False, False)
    assert NAME != b"other"
    assert NAME != b"other"
    assert NAME != b"\xff"
    assert NAME != 1
    assert hash(NAME) == hash(RAW) == hash(TEXT)
    assert hash(Name.of("")) == hash(b"") == hash("")


@pytest.mark.parametrize("stored", [NAME, RAW, TEXT], ids=["name", "bytes", "text"])
def test_dicts_and_sets_find_it(stored: Any) -> None:
    for key in (NAME, stored) if stored is not NAME else (NAME, RAW, TEXT):
        assert {stored: 1}[key] == 1
        held = {stored: 1}
        assert key in held
        assert key in held.keys()  # noqa: SIM118
        assert key in set(held)
        assert key in list(held)
        assert {stored: 1} == {key: 1}
        assert {stored} - {key} == set()
        assert (stored, 0) == (key, 0)
        assert {(stored, 0): 1}[key, 0] == 1


def test_it_is_sorted_among_bytes_and_among_text() -> None:
    names = [named(one) for one in ("b", "a", "aa")]
    assert sorted([*names, b"ab", b"B"]) == [b"B", b"a", b"aa", b"ab", b"b"]
    assert sorted([*names, "ab", "B"]) == ["B", "a", "aa", "ab", "b"]
    assert max(NAME, b"a") == RAW
    assert NAME <= RAW <= NAME
    assert not NAME < RAW
    assert not RAW > NAME
    with pytest.raises(TypeError):
        sorted([NAME, 1])


def test_what_bytes_return() -> None:
    assert same(NAME.decode(), TEXT)
    assert same(NAME.decode("ascii", "replace"), TEXT)
    assert same(NAME.hex(), RAW.hex())
    assert same(bytes(NAME), RAW)
    assert same(b"<%s>" % NAME, b"<%s>" % RAW)
    assert same(b"%b" % NAME, RAW)
    assert same(NAME + b"!", RAW + b"!")
    assert same(b"!" + NAME, b"!" + RAW)
    assert same(bytearray(b"!") + NAME, bytearray(b"!") + RAW)
    grown = bytearray(b"!")
    grown += NAME
    assert same(grown, bytearray(b"!" + RAW))
    assert b"eu" in NAME
    assert ord("e") in NAME
    assert b"us" not in NAME
    assert len(NAME) == len(RAW)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("split", (b"-",)),
        ("split", (b"-", 1)),
        ("rsplit", (b"-", 1)),
        ("partition", (b".",)),
        ("rpartition", (b"-",)),
        ("strip", (b"o1",)),
        ("lstrip", (b"o",)),
        ("rstrip", (b"1",)),
        ("replace", (b"-", b"_")),
        ("replace", (b"-", b"_", 1)),
        ("startswith", (b"orders",)),
        ("startswith", ((b"x", b"orders"),)),
        ("startswith", (b"eu", 7)),
        ("endswith", (b"-1",)),
        ("find", (b"eu",)),
        ("rfind", (b"-",)),
        ("index", (b"eu",)),
        ("rindex", (b"-",)),
        ("count", (b"-",)),
        ("removeprefix", (b"orders.",)),
        ("removesuffix", (b"-1",)),
        ("ljust", (30, b"_")),
        ("rjust", (30, b"_")),
        ("center", (30, b"_")),
        ("translate", (bytes(range(256)),)),
        ("join", ([b"a", b"b"],)),
    ],
)
def test_methods_of_bytes(method: str, arguments: tuple[Any, ...]) -> None:
    assert same(getattr(NAME, method)(*arguments), getattr(RAW, method)(*arguments))


@pytest.mark.parametrize("method", ["upper", "title", "capitalize", "swapcase", "lower", "strip", "lstrip", "rstrip"])
def test_what_it_becomes_can_be_decoded(method: str) -> None:
    found = getattr(NAME, method)()
    assert type(found) is Name
    assert same(found.decode(), getattr(RAW, method)().decode())


def test_parts_of_it_can_be_decoded() -> None:
    assert NAME[7:].decode() == RAW[7:].decode()
    assert NAME[::-1] == RAW[::-1]
    assert NAME * 2 == RAW * 2
    assert (2 * NAME).decode() == (2 * RAW).decode()
    assert [part.decode() for part in named("a b\nc").split()] == ["a", "b", "c"]
    assert [part.decode() for part in named("a\nb").splitlines()] == ["a", "b"]
    assert NAME.split(sep=b"-", maxsplit=1) == RAW.split(sep=b"-", maxsplit=1)
    assert NAME.replace(b"-", Name.of("_")) == RAW.replace(b"-", b"_")
    assert named("7").zfill(3).decode() == "007"
    assert NAME.ljust(20).decode() == RAW.ljust(20).decode()
    assert named(",").join([NAME, NAME]).decode() == f"{TEXT},{TEXT}"
    assert same(named(",").join([NAME, b"x"]), RAW + b",x")


def test_text_gives_plain_text() -> None:
    for found, expected in [
        (NAME + "!", TEXT + "!"),
        ("!" + NAME, "!" + TEXT),
        (f"{NAME}", TEXT),
        (f"{NAME:>20}", f"{TEXT:>20}"),
        (operator.mod("%s", NAME), TEXT),
        (str(NAME), TEXT),
        (",".join([NAME]), TEXT),
        (NAME.split("-"), TEXT.split("-")),
        (NAME.split(sep="-"), TEXT.split("-")),
        (NAME.partition("."), TEXT.partition(".")),
        (NAME.replace("-", "_"), TEXT.replace("-", "_")),
        (NAME.ljust(20, "_"), TEXT.ljust(20, "_")),
        (NAME.encode(), RAW),
        (NAME[0], "o"),
        (list(NAME), list(TEXT)),
        (repr(NAME), repr(TEXT)),
        (os.path.join("/data", NAME), "/data/" + TEXT),
        (os.fsencode(NAME), RAW),
        (re.sub("-.*", "", NAME), "orders.eu"),
        (NAME.translate({ord("-"): "_"}), TEXT.replace("-", "_")),
    ]:
        assert found == expected
        parts = found if isinstance(found, (list, tuple)) else [found]
        assert all(type(part) in (str, bytes) for part in parts) or found == TEXT.replace("-", "_")
    assert "eu" in NAME
    assert NAME.startswith(("x", "orders"))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_have_plain_text(protocol: int) -> None:
    pickled = pickle.dumps({NAME: [NAME, (NAME, 1)]}, protocol)
    assert b"pykafka" not in pickled
    ((key, (value, (inner, _))),) = pickle.loads(pickled).items()
    assert same(key, TEXT)
    assert same(value, TEXT)
    assert same(inner, TEXT)


def test_copies_are_names_and_json_is_text() -> None:
    assert copy.copy(NAME) is NAME
    assert copy.deepcopy([NAME])[0] is NAME
    assert json.dumps({NAME: NAME}) == json.dumps({TEXT: TEXT})
    assert json.loads(Name.of('{"a": 1}')) == {"a": 1}


def test_logs_show_text(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("names").warning("topic %s, %r", NAME, NAME)
    assert caplog.messages == [f"topic {TEXT}, {TEXT!r}"]


@pytest.mark.parametrize("text", ["ü", "日本", "ü".encode()])
def test_text_that_is_not_ascii_stays_plain(text: str | bytes) -> None:
    assert same(Name.of(text), text if isinstance(text, str) else text.decode())
    assert type(Name.of("x").translate({ord("x"): "ü"})) is str


def test_helpers_return_plain_text() -> None:
    assert same(get_string(NAME), TEXT)
    assert same(get_bytes(NAME), RAW)
    assert same(compat.get_string(NAME), TEXT)
    assert same(compat.get_bytes(NAME), RAW)


def test_it_has_a_buffer() -> None:
    assert NAME.__buffer__(0) == RAW
    if sys.version_info >= (3, 12):  # PEP 688
        assert same(b"".join([NAME, b"!"]), RAW + b"!")
        assert memoryview(NAME) == RAW
    else:
        with pytest.raises(TypeError):
            b"".join([NAME, b"!"])


@pytest.mark.parametrize(
    "call",
    [
        lambda name: struct.pack("10s", name),
        hashlib.sha1,
        lambda name: re.match(rb"or.*", name),
        bytearray,
        lambda name: str(name, "utf-8"),
    ],
    ids=["struct", "hashlib", "re", "bytearray", "str"],
)
def test_what_docs_say_of_calls_that_take_only_bytes(call: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, struct.error)):
        call(NAME)
    assert call(RAW) is not None
    assert not isinstance(NAME, bytes)


def test_bb_raises_nothing_for_a_name() -> None:
    program = """
from pykafka.utils.name import Name
name = Name.of("orders")
assert name == b"orders" and not name != b"orders" and name != b"x" and b"orders" in [name] and b"orders" in {name: 1}
assert {name: 1}[b"orders"] and sorted([b"z", name, b"a"]) and name + b"x" and name.split(b"-") and bytes(name)
assert name.decode() == "orders" and "%s" % name and b"%s" % name and hash(name)
"""
    subprocess.run([sys.executable, "-bb", "-W", "error", "-c", program], check=True, timeout=60)
