"""Records of other versions become rows of one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.registry.schemas import with_id
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import CLICK, NEWER, avro_bytes, field, file, values
from tests.support.registrystub import RegistryStub


def test_records_of_other_versions_become_rows_of_one(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    stub.add("clicks-value", NEWER)
    old = with_id(1) + avro_bytes(CLICK, {"id": 1, "who": "me"})
    new = with_id(2) + avro_bytes(NEWER, {"id": 2, "who": None, "pages": 3})
    decoder = make_decoder("avro", {"registry": stub.url, "subject": "clicks-value"})
    assert decoder.ddl == "`id` BIGINT, `who` STRING, `pages` INT"
    rows, _ = decoder.decode(values(old, new), None)
    assert rows.to_pylist() == [{"id": 1, "who": "me", "pages": 7}, {"id": 2, "who": None, "pages": 3}]
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks", "version": "1"})
    rows, reasons = decoder.decode(values(old, new), None)
    assert rows.to_pylist() == [{"id": 1, "who": "me"}, {"id": 2, "who": None}]
    # A schema that is registered after the start is found by its id, and does not change the rows.
    changed = {**CLICK, "fields": [{"name": "id", "type": "string"}]}
    stub.add("clicks-value", changed)
    rows, reasons = decoder.decode(values(with_id(3) + avro_bytes(changed, {"id": "x"}), old), None)
    assert rows.to_pylist() == [None, {"id": 1, "who": "me"}]
    assert "id is string in the schema of the record, and long in that of the rows" in reasons[0].as_py()


@pytest.mark.parametrize("units", [("millis", "micros"), ("micros", "millis")])
def test_versions_that_count_time_in_other_units(stub: RegistryStub, units: tuple[str, str]) -> None:
    at = datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)
    first, second = (field("at", {"type": "long", "logicalType": f"timestamp-{unit}"}) for unit in units)
    stub.add("t-value", first)
    stub.add("t-value", second)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    rows, reasons = decoder.decode(
        values(with_id(1) + avro_bytes(first, {"at": at}), with_id(2) + avro_bytes(second, {"at": at})), None
    )
    assert rows.to_pylist() == [{"at": at}] * 2, reasons


def test_versions_of_protobuf(stub: RegistryStub) -> None:
    first = 'syntax = "proto3"; message A { int32 a = 1; }'
    second = 'syntax = "proto3"; message New { int32 n = 1; } message A { int32 a = 1; string b = 2; }'
    stub.add("t-value", first, "PROTOBUF")
    options = {"registry": stub.url, "topic": "t"}
    old, old_encoder = make_decoder("protobuf", options), make_encoder("protobuf", options)
    stub.add("t-value", second, "PROTOBUF")
    options["message"] = "A"
    new, new_encoder = make_decoder("protobuf", options), make_encoder("protobuf", options)
    one, two = old_encoder.encode(pa.array([{"a": 1}])), new_encoder.encode(pa.array([{"a": 2, "b": "x"}]))
    both = pa.concat_arrays([one, two])
    assert old.decode(both, None)[0].to_pylist() == [{"a": 1}, {"a": 2}]
    assert new.decode(both, None)[0].to_pylist() == [{"a": 1, "b": ""}, {"a": 2, "b": "x"}]


MILLIS, MICROS, NANOS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros", "nanos"))
AT = datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)


@pytest.mark.parametrize(
    ("written", "number", "wanted", "value"),
    [
        # A plain number is taken as it was written, and in the unit of the rows.
        (MILLIS, 1500, "long", 1500),
        (MICROS, 1_500_000, "long", 1_500_000),
        (MILLIS, 1500, "double", 1500.0),
        ("long", 1500, MILLIS, AT),
        ("long", 1_500_000, MICROS, AT),
        ("int", 1500, MILLIS, AT),
        # A time stays the same time.
        (MILLIS, 1500, MICROS, AT),
        (MICROS, 1_500_000, MILLIS, AT),
        (NANOS, 1_500_000_999, MILLIS, AT),
        (NANOS, -1, NANOS, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        (MILLIS, 1500, {"type": "long", "logicalType": "local-timestamp-micros"}, AT.replace(tzinfo=None)),
        (
            {"type": "int", "logicalType": "time-millis"},
            1500,
            {"type": "long", "logicalType": "time-micros"},
            1_500_000,
        ),
        ({"type": "int", "logicalType": "time-millis"}, 1500, "long", 1500),
        ("int", 1500, {"type": "int", "logicalType": "date"}, date(1974, 2, 9)),
    ],
)
def test_numbers_and_times_become_each_other_in_one_schema_with_both_units(
    stub: RegistryStub, written: Any, number: int, wanted: Any, value: Any
) -> None:
    def schema(kind: Any) -> Any:
        more = [{"name": "millis", "type": MILLIS}, {"name": "micros", "type": MICROS}]
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}, *more]}

    plain = {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"} for name in ("a", "m", "n")]}
    stub.add("t-value", schema(written))
    stub.add("t-value", schema(wanted))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    data = with_id(1) + avro_bytes(plain, {"a": number, "m": 1500, "n": 1_500_000})
    rows, reasons = decoder.decode(values(data), None)
    assert rows.to_pylist() == [{"a": value, "millis": AT, "micros": AT}], reasons


@pytest.mark.parametrize(
    ("written", "wanted", "numbers"),
    [
        (MILLIS, MICROS, {2**63 // 1000: 2**63 // 1000 * 1000, 2**63 // 1000 + 1: None, -(2**63) // 1000: None}),
        (MILLIS, MICROS, {-(2**63 // 1000): -(2**63 // 1000) * 1000, 2**63 - 1: None, -(2**63): None, -1: -1000}),
        (NANOS, MICROS, {2**63 - 1: (2**63 - 1) // 1000, -(2**63): -(2**63) // 1000, -1: -1, -1000: -1, -1001: -2}),
    ],
)
def test_times_at_the_limits_of_their_columns(
    stub: RegistryStub, written: Any, wanted: Any, numbers: dict[int, int | None]
) -> None:
    stub.add("t-value", field("a", written))
    stub.add("t-value", field("a", wanted))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    data = [with_id(1) + avro_bytes(field("a", "long"), {"a": number}) for number in numbers]
    rows, reasons = decoder.decode(values(*data), None)
    assert rows.field("a").cast(pa.int64()).to_pylist() == list(numbers.values()), reasons


@pytest.mark.parametrize(
    ("written", "number", "wanted", "words"),
    [
        (
            {"type": "int", "logicalType": "date"},
            1,
            MILLIS,
            "a counts days in the schema of the record, and timestamps",
        ),
        ("long", 1, "int", "a is long in the schema of the record, and int in that of the rows"),
        (MILLIS, 2**60, MICROS, "out of bounds"),
        ({"type": "long", "logicalType": "time-micros"}, 1, {"type": "int", "logicalType": "time-millis"}, "a is long"),
    ],
)
def test_what_cannot_become_each_other_has_a_reason(
    stub: RegistryStub, written: Any, number: int, wanted: Any, words: str
) -> None:
    stub.add("t-value", field("a", written))
    stub.add("t-value", field("a", wanted))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    rows, reasons = decoder.decode(values(with_id(1) + avro_bytes(field("a", "long"), {"a": number})), None)
    assert rows.to_pylist() == [None]
    assert words in reasons[0].as_py()


def decimal_of(precision: int, scale: int) -> Any:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("written", "value", "wanted", "row"),
    [
        ("string", "\u00e4", "bytes", "\u00e4".encode()),
        ("bytes", b"\xc3\xa4", "string", "\u00e4"),
        ("int", 3, "float", 3.0),
        (["null", "string"], "a", "string", "a"),
        ("string", "a", ["null", "string"], "a"),
        (["int", "string"], 3, ["null", "long"], 3),
        (decimal_of(6, 2), Decimal("-1.25"), decimal_of(9, 4), Decimal("-1.2500")),
        (decimal_of(9, 4), Decimal("1.2500"), decimal_of(6, 2), Decimal("1.25")),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            "B",
            {"type": "enum", "name": "E", "symbols": ["A", "X"], "default": "X"},
            "X",
        ),
        ({"type": "array", "items": "int"}, [1], {"type": "array", "items": "long"}, [1]),
        ({"type": "map", "values": "int"}, {"k": 1}, {"type": "map", "values": "double"}, [("k", 1.0)]),
        (field("x", "int") | {"name": "old.X"}, {"x": 1}, field("x", "long") | {"name": "new.X"}, {"x": 1}),
        (
            field("x", "int") | {"name": "X"},
            {"x": 1},
            {"type": "record", "name": "X", "fields": [{"name": "y", "aliases": ["x"], "type": "long"}]},
            {"y": 1},
        ),
    ],
)
def test_types_that_avro_resolves(stub: RegistryStub, written: Any, value: Any, wanted: Any, row: Any) -> None:
    stub.add("t-value", field("a", written))
    stub.add("t-value", field("a", wanted))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    rows, reasons = decoder.decode(values(with_id(1) + avro_bytes(field("a", written), {"a": value})), None)
    assert rows.to_pylist() == [{"a": row}], reasons


@pytest.mark.parametrize(
    ("written", "value", "wanted", "words"),
    [
        (["int", "string"], "a", ["null", "long"], "a is string in the schema of the record, and union of null, long"),
        ("bytes", b"\xff", "string", "UnicodeDecodeError"),
        (
            decimal_of(9, 4),
            Decimal("1.2501"),
            decimal_of(6, 2),
            "more than the 2 digits behind the point of its column",
        ),
        (decimal_of(9, 2), Decimal("12345.67"), decimal_of(6, 2), "more than the 6 digits of its column"),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            "B",
            {"type": "enum", "name": "E", "symbols": ["A"]},
            "a has symbol 1, which the enum of the rows lacks",
        ),
    ],
)
def test_values_that_avro_does_not_resolve(
    stub: RegistryStub, written: Any, value: Any, wanted: Any, words: str
) -> None:
    stub.add("t-value", field("a", written))
    stub.add("t-value", field("a", wanted))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    rows, reasons = decoder.decode(values(with_id(1) + avro_bytes(field("a", written), {"a": value})), None)
    assert rows.to_pylist() == [None]
    assert words in reasons[0].as_py()


def test_a_field_that_is_gone_is_skipped_whatever_is_in_it(stub: RegistryStub) -> None:
    parts = {
        **{"null": None, "boolean": True, "int": 1, "float": 0.5, "double": 0.5, "bytes": b"b", "string": "s"},
        "fixed": b"ff",
        "enum": "B",
        "array": [1, 2],
        "map": {"k": 1},
        "union": "u",
    }
    kinds: dict[str, Any] = {
        **{name: name for name in ("null", "boolean", "int", "float", "double", "bytes", "string")},
        "fixed": {"type": "fixed", "name": "F", "size": 2},
        "enum": {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        "array": {"type": "array", "items": "long"},
        "map": {"type": "map", "values": "long"},
        "union": ["null", "string"],
    }
    inner = {
        "type": "record",
        "name": "Gone",
        "fields": [{"name": f"f_{n}", "type": kind} for n, kind in kinds.items()],
    }
    before, last = {"name": "gone", "type": inner}, {"name": "id", "type": "long"}
    again = {"name": "again", "type": "Gone"}
    old = {"type": "record", "name": "R", "fields": [before, again, last]}
    stub.add("t-value", old)
    stub.add("t-value", field("id", "long"))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    gone = {f"f_{name}": value for name, value in parts.items()}
    data = avro_bytes(old, {"gone": gone, "again": gone, "id": 7})
    rows, reasons = decoder.decode(values(with_id(1) + data), None)
    assert rows.to_pylist() == [{"id": 7}], reasons


def test_a_field_without_a_default_that_the_record_lacks(stub: RegistryStub) -> None:
    stub.add("t-value", field("a", "long"))
    stub.add("t-value", field("b", "long"))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    _, reasons = decoder.decode(values(with_id(1) + b"\2"), None)
    assert reasons.to_pylist() == [
        "ValueError: b is not in the schema of the record, and has no default in that of the rows"
    ]


def test_rows_of_lists_and_structs_that_fail_in_the_middle_leave_nothing(tmp_path: Path) -> None:
    pair = {"type": "record", "name": "P", "fields": [{"name": "k", "type": "long"}, {"name": "v", "type": "string"}]}
    schema = field("a", {"type": "array", "items": ["null", {"type": "map", "values": pair}]})
    decoder = make_decoder("avro", file(tmp_path, schema))
    rows = [{"a": [{"x": {"k": n, "v": "é"}}, None, {}]} for n in range(3)]
    good = [avro_bytes(schema, row) for row in rows]
    data = [one for each in good for one in (each, each[:-1], None, each + b"\0", each[:-3])]
    found, reasons = decoder.decode(values(*data), None)
    assert [row for row in found.to_pylist() if row is not None] == [
        {"a": [[("x", {"k": n, "v": "é"})], None, []]} for n in range(3)
    ]
    assert [why is None for why in reasons.to_pylist()] == [True, False, True, False, False] * 3
