"""Addresses as users write them."""

from __future__ import annotations

import pytest

from pykafka.network.addresses import parse_hosts, parse_source


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        (b"a:1,b:2", [("a", 1), ("b", 2)]),
        ("a, b:2 ,", [("a", 9092), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("::1", [("::1", 9092)]),
        ("[fe80::1]", [("fe80::1", 9092)]),
        ("PLAINTEXT://kafka:9092", [("kafka", 9092)]),
    ],
)
def test_hosts(text: str | bytes, wanted: list[tuple[str, int]]) -> None:
    assert parse_hosts(text) == wanted


@pytest.mark.parametrize(
    "text", ["", " , ", ":9092", "host:port", "host:99999", "[::1:9092", "[::1]9092", "host:²", "host:" + "1" * 5_000]
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is no address|names no broker"):
        parse_hosts(text)


def test_source_addresses() -> None:
    assert parse_source("") == ("", 0)
    assert parse_source("127.0.0.1") == ("127.0.0.1", 0)
    assert parse_source(b"127.0.0.1:5000") == ("127.0.0.1", 5000)
