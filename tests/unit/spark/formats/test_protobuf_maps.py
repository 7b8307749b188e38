"""Maps of Protobuf: all types of keys with all types of values, to rows and back, at their limits."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.spark.errors import SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import arrow_of, file, proto_class, values

SIGNED32, SIGNED64 = [-(2**31), -1, 0, 2**31 - 1], [-(2**63), 0, 2**63 - 1]
UNSIGNED32, UNSIGNED64 = [0, 1, 2**31, 2**32 - 1], [0, 1, 2**63, 2**64 - 1]
KEYS: dict[str, list[Any]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), SIGNED32),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), SIGNED64),
    **dict.fromkeys(("uint32", "fixed32"), UNSIGNED32),
    **dict.fromkeys(("uint64", "fixed64"), UNSIGNED64),
    "bool": [True, False],
    "string": ["", "k", "\0", "ä\U0001f600"],
}
AT = datetime(2024, 1, 2, 3, 4, 5, 678901, UTC)
#: By the types of values: values in rows.
VALUES: dict[str, list[Any]] = {
    **KEYS,
    "float": [0.0, -0.5, 3.4028234663852886e38, float("inf")],
    "double": [0.0, 1e300, float("-inf")],
    "bytes": [b"", b"\0\xff"],
    "E": ["Z", "NEG", "12345"],
    "M": [{"number": 0, "own": []}, {"number": 2**64 - 1, "own": [(2**64 - 1, 5)]}],
    "google.protobuf.Timestamp": [AT, datetime(1, 1, 1, tzinfo=UTC)],
    "google.protobuf.Duration": [{"seconds": 5, "nanos": 6}, {"seconds": 0, "nanos": 0}],
    **{
        f"google.protobuf.{name}Value": found
        for name, found in (
            ("Double", [0.0, 1e300]),
            ("Float", [0.0, 0.5]),
            ("Int64", SIGNED64),
            ("UInt64", UNSIGNED64),
            ("Int32", SIGNED32),
            ("UInt32", UNSIGNED32),
            ("Bool", [True, False]),
            ("String", ["", "x"]),
            ("Bytes", [b"", b"\xff"]),
        )
    },
}
HEAD = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum E { Z = 0; NEG = -7; }
message M { uint64 number = 1; map<fixed64, int32> own = 2; }
"""


def same(value: Any) -> Any:
    """Return a value without what differs between a row that is given and one that is read."""
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, dict):
        return {name: same(one) for name, one in value.items()}
    return {same(key): same(one) for key, one in value} if isinstance(value, list) else value


@pytest.mark.parametrize("key", KEYS)
def test_maps(tmp_path: Path, key: str) -> None:
    text = HEAD + "message A {" + "".join(f"map<{key}, {kind}> f{n} = {n};" for n, kind in enumerate(VALUES, 1)) + "}"
    options = {**file(tmp_path, text), "message": "A"}
    decoder, encoder = make_decoder("protobuf", options), make_encoder("protobuf", options)
    row: dict[str, list[Any]] = {f"f{number}": [] for number in range(1, len(VALUES) + 1)}
    for number, found in enumerate(VALUES.values(), 1):
        count = max(len(KEYS[key]), len(found))
        # Each value, and each key, as often as there are different keys.
        row[f"f{number}"] = list({KEYS[key][n % len(KEYS[key])]: found[n % len(found)] for n in range(count)}.items())
    data = encoder.encode(pa.array([row], arrow_of(decoder)))
    rows, reasons = decoder.decode(data, None)
    assert reasons.null_count == 1
    assert same(rows[0].as_py()) == same(row)
    # The library reads the same keys, and what it writes itself is the same row.
    made = proto_class(text).FromString(data[0].as_py())
    for name, items in row.items():
        assert set(getattr(made, name)) == {name for name, _ in items}, name
    assert same(decoder.decode(values(made.SerializeToString()), None)[0][0].as_py()) == same(row)


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    encoder = make_encoder("protobuf", file(tmp_path, 'syntax = "proto3"; message A { map<uint64, string> a = 1; }'))
    for key, kind, words in (
        (Decimal(2**64), pa.decimal128(20, 0), "a: Value out of range: 18446744073709551616"),
        (Decimal(-1), pa.decimal128(20, 0), "a: Value out of range: -1"),
        (Decimal("1.5"), pa.decimal128(20, 2), r"a: 1\.50 is no whole number"),
        ("1", pa.string(), "a: the field is map in the schema, and the row has dict of str"),
    ):
        with pytest.raises(SinkError, match=words):
            encoder.encode(pa.array([{"a": [(key, "x")]}], pa.struct([("a", pa.map_(kind, pa.string()))])))
    # A smaller number of digits, or a BIGINT, is a whole number, too.
    for kind in (pa.decimal128(38, 0), pa.decimal128(5, 2), pa.int64()):
        rows = pa.array([{"a": [(7, "x")]}], pa.struct([("a", pa.map_(kind, pa.string()))]))
        assert encoder.encode(rows).to_pylist() == [b"\n\x05\x08\x07\x12\x01x"]
