"""Names that applications of PyKafka 2 import, and what they do."""

from __future__ import annotations

from typing import Any

import pytest

import pykafka
from pykafka import membershipprotocol, protocol
from pykafka.utils import compat


@pytest.mark.parametrize(
    ("given", "as_bytes", "as_text"),
    [
        (b"a", b"a", "a"),
        ("\xe4", b"\xc3\xa4", "\xe4"),
        (b"\xc3\xa4", b"\xc3\xa4", "\xe4"),
        (b"\xff", b"\xff", b"\xff"),
        (bytearray(b"x"), bytearray(b"x"), "x"),
        (5, 5, "5"),
        (None, None, "None"),
    ],
)
def test_bytes_and_text_as_two_eight_has_them(given: Any, as_bytes: Any, as_text: Any) -> None:
    assert compat.get_bytes(given) == as_bytes
    assert compat.get_string(given) == as_text


def test_what_python_two_called_otherwise() -> None:
    assert compat.PY3
    assert compat.range is range
    assert compat.buffer is memoryview
    assert isinstance("", compat.string_types)
    assert isinstance(1, compat.integer_types)
    given = {1: "one"}
    assert next(compat.iteritems(given)) == (1, "one")
    assert next(compat.iterkeys(given)) == 1
    assert next(compat.itervalues(given)) == "one"


def test_the_package_has_the_membership_protocols() -> None:
    assert pykafka.RangeProtocol is membershipprotocol.RangeProtocol
    assert pykafka.RoundRobinProtocol is membershipprotocol.RoundRobinProtocol
    assert {"RangeProtocol", "RoundRobinProtocol"} <= set(dir(pykafka))


def test_the_protocols_names_are_listed() -> None:
    assert {"FetchResponseV1", "FetchResponseV2", "MetadataResponseV5"} <= set(dir(protocol))
    assert all(getattr(protocol, name) is not None for name in vars(protocol)["__getattr__"]("__all__"))
