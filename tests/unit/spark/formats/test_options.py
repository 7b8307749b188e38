"""All formats have this in common: options, times without a zone, packages that a worker lacks."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.registry import protobuf
from pykafka.spark.errors import OptionError, PackageMissingError, SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import CLICK, JSON_SCHEMA, field, file, values


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "'registry' is missing, or 'schema_file'"),
        ({"registry": "here"}, "'registry' cannot be used"),
        ({"registry": "http://r"}, "'subject' is missing, or 'topic'"),
        ({"registry": "http://r", "topic": "t", "regstry": "x"}, "'regstry' is not known to avro"),
        ({"registry": "http://r", "topic": "t", "version": "0"}, "'version' must be"),
        ({"registry": "http://r", "topic": "t", "framing": "x"}, "'framing' must be"),
        ({"registry": "http://r", "topic": "t", "registry_user": "me"}, "go together"),
        ({"registry": "http://r", "topic": "t", "registry_timeout_ms": "1 s"}, "'registry_timeout_ms' must be"),
        ({"schema_file": "/nowhere"}, "/nowhere cannot be read"),
        ({"schema_file": "/nowhere", "framing": "confluent"}, "needs 'registry'"),
        ({"schema_file": "/nowhere", "version": "3"}, "'version' has no meaning without"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make_decoder("avro", options)


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ("avro", field("a", {"type": "long", "logicalType": "timestamp-millis"})),
        ("avro", field("a", field("b", {"type": "long", "logicalType": "timestamp-millis"}) | {"name": "B"})),
        ("json-schema", {"type": "object", "properties": {"a": {"type": "string", "format": "date-time"}}}),
    ],
)
def test_a_time_without_its_zone_is_not_taken_for_another(tmp_path: Path, format: str, schema: Any) -> None:
    at: Any = datetime(2024, 1, 2)
    if "'b'" in str(schema):
        at = {"b": at}
    with pytest.raises(SinkError, match="column 'a.*' is TIMESTAMP_NTZ.*cast it to TIMESTAMP"):
        make_encoder(format, file(tmp_path, schema)).encode(pa.array([{"a": at}]))


@pytest.mark.parametrize(
    ("format", "package", "schema"),
    [
        ("avro", "fastavro", CLICK),
        ("protobuf", "grpc_tools", 'syntax = "proto3"; message M { int32 z = 1; }'),
        ("json-schema", "referencing", JSON_SCHEMA),
    ],
)
def test_a_worker_without_the_package_ends_the_task_and_blames_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, package: str, schema: Any
) -> None:
    options = file(tmp_path, schema)
    decoder, encoder = make_decoder(format, options), make_encoder(format, options)
    monkeypatch.setitem(sys.modules, package, None)
    protobuf.compile_schema.cache_clear()  # as in a new process
    words = f"the Python of Spark on .* cannot import {package}"
    with pytest.raises(PackageMissingError, match=words):
        decoder.decode(values(b"\0"), None)
    with pytest.raises(PackageMissingError, match=words):
        encoder.encode(pa.array([], pa.struct([])))
    with pytest.raises(PackageMissingError, match=words):
        make_decoder(format, options)
