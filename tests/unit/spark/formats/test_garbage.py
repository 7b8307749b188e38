"""What is none of its schema has a reason, within a bounded time and memory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.registry.framing import with_id
from pykafka.spark.formats import make_decoder
from tests.support.formats import CLICK, avro_bytes, field, file, values
from tests.support.registrystub import RegistryStub


def test_garbage_is_told_by_record(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    stub.add("other-value", "{}", "JSON")
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks"})
    good = with_id(1) + avro_bytes(CLICK, {"id": 1, "who": "me"})
    rows, reasons = decoder.decode(
        values(
            good, None, good[:-1], good + b"!", b"", b'{"id": 1}', b"\0\0", with_id(9) + b"x", with_id(2) + b"{}", good
        ),
        None,
    )
    assert rows.to_pylist() == [{"id": 1, "who": "me"}, *[None] * 8, {"id": 1, "who": "me"}]
    for why, words in zip(
        reasons.to_pylist(),
        [
            None,
            None,
            "EOFError",
            "1 of 6 bytes are left",
            "is empty",
            "begins with the byte 123",
            "ends after 2 bytes",
            "schema 9 is not in",
            "schema 2: the schema is of JSON, not of Avro",
            None,
        ],
        strict=True,
    ):
        assert (why is None) == (words is None)
        assert words is None or words in why
    rows, reasons = decoder.decode(values(good, good), None)
    assert rows.null_count == 0
    assert reasons.null_count == 2
    assert stub.asked.count("GET /schemas/ids/9") == 1


def test_records_that_nest_without_end_are_refused(stub: RegistryStub) -> None:
    # A hundred thousand levels end the process in fastavro, which has no limit.
    old = {**CLICK, "fields": [*CLICK["fields"], field("next", ["null", "shop.Click"])["fields"][0]]}
    stub.add("clicks-value", old)
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks"})
    rows, reasons = decoder.decode(values(with_id(1) + b"\2\0\2" * 100_000 + b"\2\0\0"), None)
    assert rows.to_pylist() == [None]
    assert "schema 1: it has a shop.Click within a shop.Click" in reasons[0].as_py()


def test_times_that_microseconds_cannot_count_are_told(tmp_path: Path) -> None:
    schema = field("a", {"type": "long", "logicalType": "timestamp-millis"})
    plain = field("a", "long")
    rows, reasons = make_decoder("avro", file(tmp_path, schema)).decode(
        values(avro_bytes(plain, {"a": 2**55}), avro_bytes(plain, {"a": 1000})), None
    )
    assert rows.to_pylist() == [None, {"a": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    assert "out of bounds" in reasons[0].as_py()


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
DIGITS = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (ENUM, b"\1", "a has symbol -1 of an enum of 2"),
        (ENUM, b"\4", "a has symbol 2 of an enum of 2"),
        (["null", "long"], b"\1\2", "a has branch -1 of a union of 2"),
        (["null", "long"], b"\3", "a has branch -2 of a union of 2"),
        (["null", "long"], b"\4", "a has branch 2 of a union of 2"),
        ("boolean", b"\2", "a has 2, which is no boolean"),
        ("int", b"\x80\x80\x80\x80\x20", "a has 4294967296, which is no int"),
        ("long", b"\xff" * 9 + b"\2", "more than 64 bits"),
        ("long", b"\xff" * 20, "more than 64 bits"),
        ("string", b"\1", "a length is -1"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "the record ends after 0 of"),
        ("string", b"\2\xff", "UnicodeDecodeError"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", "0 bytes left for"),
        ({"type": "array", "items": "long"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "0 bytes left for -922"),
        ({"type": "array", "items": "long"}, b"\1\1\2\0", "negative size"),
        ({"type": "map", "values": "long"}, b"\4\2a\2\2a\2\0", "a map has a key twice"),
        (DIGITS, b"\4\x30\x39", "a has more than the 4 digits of its decimal"),
        (DIGITS, b"\0", "a is a decimal without bytes"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\1", "out of bounds"),
    ],
)
def test_bytes_that_no_writer_of_avro_makes(tmp_path: Path, kind: Any, data: bytes, words: str) -> None:
    decoder = make_decoder("avro", file(tmp_path, field("a", kind)))
    rows, reasons = decoder.decode(values(data), None)
    assert rows.to_pylist() == [None]
    assert words in reasons[0].as_py()


def test_blocks_of_an_array_with_their_size(tmp_path: Path) -> None:
    decoder = make_decoder("avro", file(tmp_path, field("a", {"type": "array", "items": "long"})))
    assert decoder.decode(values(b"\3\4\2\4\2\6\0"), None)[0].to_pylist() == [{"a": [1, 2, 3]}]


def test_times_beyond_those_of_python_stay_what_they_are(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    decoder = make_decoder("avro", file(tmp_path, schema))
    data = b"\xfe\xff\xff\xff\x0f" + b"\xfe" + b"\xff" * 8 + b"\1"
    rows, reasons = decoder.decode(values(data), None)
    assert reasons.to_pylist() == [None]
    numbers = [rows.field("day").cast(pa.int32()).to_pylist(), rows.field("at").cast(pa.int64()).to_pylist()]
    assert numbers == [[2**31 - 1], [2**63 - 1]]
