"""Schemas as packages of Maven and PyPI ship them, read as their libraries do."""

from __future__ import annotations

import json
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import json_format, message_factory, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from pykafka.spark.formats import make_decoder, make_encoder
from tests.brokers import maven_jar
from tests.support.formats import avro_bytes, file, proto_class, values
from tests.support.realschemas import CASES, DEPTH
from tests.unit.spark.formats.test_protobuf_language import as_dicts, plain

CLOUD_EVENTS = "io.cloudevents:cloudevents-protobuf:4.0.1"
#: Messages of PyPI's packages: module, name, and one in the text format.
MESSAGES = {
    "trace": (
        "opentelemetry.proto.trace.v1.trace_pb2",
        "TracesData",
        """resource_spans { resource { attributes { key: "service.name" value { string_value: "shop" } } }
        scope_spans { scope { name: "s" } spans { trace_id: "0123456789abcdef" span_id: "01234567" name: "buy" kind: 2
          start_time_unix_nano: 18446744073709551615 status { code: STATUS_CODE_OK }
          attributes { key: "list" value { array_value { values { int_value: 7 } values { double_value: 0.5 } } } }
          attributes { key: "map" value { kvlist_value { values { key: "k" value { bool_value: true } } } } }
          events { time_unix_nano: 5 name: "e" attributes { key: "raw" value { bytes_value: "\\001" } } } } } }""",
    ),
    "metrics": (
        "opentelemetry.proto.metrics.v1.metrics_pb2",
        "MetricsData",
        """resource_metrics { scope_metrics { metrics { name: "m" unit: "1"
          sum { is_monotonic: true aggregation_temporality: AGGREGATION_TEMPORALITY_DELTA
            data_points { as_int: -3 attributes { key: "a" value { int_value: 1 } } exemplars { as_double: 0.5 } } } }
        metrics { name: "h" histogram { data_points { count: 3 sum: 1.5 bucket_counts: [1, 2] explicit_bounds: [0.5] } } }
        metrics { name: "g" gauge { data_points { as_double: 2.5 } } } } }""",
    ),
    "logs": (
        "opentelemetry.proto.logs.v1.logs_pb2",
        "LogsData",
        """resource_logs { scope_logs { log_records { severity_number: SEVERITY_NUMBER_WARN severity_text: "W"
          body { kvlist_value { values { key: "k" value { array_value { values { string_value: "x" } } } } } } } } }""",
    ),
    "rules of Confluent": (
        "confluent_kafka.schema_registry.confluent.meta_pb2",
        "Meta",
        'doc: "d" params { key: "a" value: "b" } tags: ["PII"]',
    ),
    "a decimal of Confluent": (
        "confluent_kafka.schema_registry.confluent.type.decimal_pb2",
        "Decimal",
        'value: "\\001" precision: 3 scale: -2',
    ),
    "a call of Google": (
        "google.rpc.context.attribute_context_pb2",
        "AttributeContext",
        """request { method: "GET" time { seconds: 5 }
          auth { principal: "me" claims { fields { key: "n" value { number_value: 1 } } } } }""",
    ),
}


def descriptor_file(path: Path, described: Any) -> Path:
    """Write a file with those that it imports, as protoc does."""
    made = FileDescriptorSet()

    def add(one: Any) -> None:
        for inner in one.dependencies:
            add(inner)
        copied = FileDescriptorProto()
        one.CopyToProto(copied)
        if copied.name not in {other.name for other in made.file}:
            made.file.append(copied)

    add(described)
    path.write_bytes(made.SerializeToString())
    return path


def as_library(message: Any) -> Any:
    """Return a message as the library's JSON has it."""
    return plain(
        json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=message.DESCRIPTOR.file.pool,
        )
    )


def differences(ours: Any, theirs: Any) -> list[Any]:
    """Return what of a row is not in the library's JSON, or is another value."""
    if isinstance(theirs, dict):
        missing = [name for name in theirs if name not in ours and theirs[name] not in ({}, [])]
        return missing + [one for name in ours for one in differences(ours[name], theirs.get(name))]
    if isinstance(theirs, list):
        return [one for mine, his in zip(ours, theirs, strict=True) for one in differences(mine, his)]
    return [] if ours == theirs else [(ours, theirs)]


@pytest.mark.parametrize("case", MESSAGES)
def test_a_message_of_a_package(tmp_path: Path, case: str) -> None:
    module, name, content = MESSAGES[case]
    described = import_module(module).DESCRIPTOR
    message = text_format.Parse(content, message_factory.GetMessageClass(described.message_types_by_name[name])())
    options = {
        **{"descriptor_file": str(descriptor_file(tmp_path / "file", described))},
        **{"message": message.DESCRIPTOR.full_name, DEPTH: "3"},
    }
    decoder = make_decoder("protobuf", options)
    rows, reasons = decoder.decode(values(message.SerializeToString()), None)
    assert reasons.null_count == 1, reasons
    if "google" in module:  # in JSON, Struct is the object that it stands for
        claims = rows[0].as_py(maps_as_pydicts="strict")["request"]["auth"]["claims"]
        assert claims["fields"]["n"]["number_value"] == 1
    else:
        assert not differences(plain(as_dicts(rows.type, rows[0].as_py())), as_library(message))
    (back,) = make_encoder("protobuf", options).encode(rows).to_pylist()
    assert type(message).FromString(back) == message


@pytest.mark.parametrize("any_as_json", ["true", "false"])
def test_an_event_of_cloud_events(tmp_path: Path, any_as_json: str) -> None:
    with ZipFile(maven_jar(CLOUD_EVENTS)) as jar:
        text = jar.read("spec.proto").decode()
    options = {**file(tmp_path, text), "message": "CloudEvent", "convert.any.fields.to.json": any_as_json}
    made = proto_class(text, "CloudEvent")
    event: Any = made(id="1", source="/shop", spec_version="1.0", type="bought")
    event.attributes["time"].ce_timestamp.seconds = 5
    event.attributes["n"].ce_integer = 7
    event.proto_data.Pack(proto_class(text, "CloudEvent.CloudEventAttributeValue")(ce_string="x"))
    decoder = make_decoder("protobuf", options)
    rows, reasons = decoder.decode(values(event.SerializeToString()), None)
    assert reasons.to_pylist() == [None]
    row = rows[0].as_py(maps_as_pydicts="strict")
    assert (row["id"], row["source"], row["attributes"]["n"]["ce_integer"]) == ("1", "/shop", 7)
    assert row["attributes"]["time"]["ce_timestamp"].timestamp() == 5
    assert (row["binary_data"], row["text_data"]) == (None, None)
    full = "io.cloudevents.v1.CloudEvent.CloudEventAttributeValue"
    if any_as_json == "true":
        assert json.loads(row["proto_data"]) == {"@type": f"type.googleapis.com/{full}", "ceString": "x"}
    else:
        assert row["proto_data"] == {"type_url": f"type.googleapis.com/{full}", "value": b"\x1a\x01x"}
    (back,) = make_encoder("protobuf", options).encode(rows).to_pylist()
    assert made.FromString(back) == event


def without_members(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a row as fastavro has it: values of unions, and dicts for maps."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: without_members(one, kind.item_type) for key, one in value}
    if pa.types.is_list(kind):
        return [without_members(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        fields = {one.name: without_members(value[one.name], one.type) for one in kind}
        there = [one for one in fields.values() if one is not None]
        return (there[0] if there else None) if "member0" in fields else fields
    return value


@pytest.mark.parametrize("name", ["questionnaire of RADAR-base", "event of CloudEvents"])
def test_avro_in_the_shape_of_known_schemas(tmp_path: Path, name: str) -> None:
    schema, records, _ = CASES[name]
    data = [avro_bytes(json.loads(json.dumps(schema)), one) for one in records]
    decoder = make_decoder("avro", {**file(tmp_path, schema), DEPTH: "3"})
    rows, _ = decoder.decode(values(*data), None)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    theirs = [fastavro.schemaless_reader(BytesIO(one), parsed, None) for one in data]
    assert [without_members(one, rows.type) for one in rows.to_pylist()] == theirs
