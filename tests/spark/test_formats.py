"""Avro, Protobuf and JSON Schema in DataFrames, with a real registry and another client's serializers as the peer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession

from pykafka.exceptions import RegistryError
from pykafka.handlers import ThreadingHandler
from pykafka.registry import protobuf
from pykafka.registry.client import Registry
from pykafka.registry.schemas import Schema, with_id
from pykafka.spark.formats import make_decoder, make_encoder
from pykafka.spark.formats.columns import decoded, encoded
from pykafka.spark.pipeline import Declaration, DeclarationError, Pipeline, StopRequest
from pykafka.spark.pipeline.restarts import is_lasting
from tests.spark.test_pipeline import Directory
from tests.support.formats import (
    CLICK,
    JSON_SCHEMA,
    NEWER,
    PROTO,
    arrow_of,
    avro_bytes,
    file,
    order,
    proto_class,
    values,
)
from tests.support.jsonrows import DEFINITIONS, NULL, PROPERTIES, differences
from tests.support.registry import register, running_registry
from tests.support.registrystub import RegistryStub
from tests.support.spark.topics import Record, Topics


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """Yield the address of a real registry, which the whole module shares: use subjects of your own."""
    with running_registry() as url:
        yield url


Peers = Callable[[str], SchemaRegistryClient]
#: The registry does not know what the peer asks for by default.
BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


@pytest.fixture
def peers() -> Iterator[Peers]:
    """Yield what makes clients of the other kind for an address; close them at the end."""
    made: list[SchemaRegistryClient] = []

    def make(url: str) -> SchemaRegistryClient:
        made.append(SchemaRegistryClient({"url": url}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_columns_of_a_frame(spark: SparkSession) -> None:
    with RegistryStub() as stub:
        stub.add("clicks-value", NEWER)
        options = {"registry": stub.url, "topic": "clicks", "framing": "header"}
        rows = spark.sql("SELECT id, CAST(id AS STRING) AS who, CAST(id AS INT) AS pages, 'k' AS key FROM range(100)")
        frame = encoded(rows, make_encoder("avro", options), keep=("key",))
        assert frame.columns == ["key", "headers", "value"]
        garbage = spark.sql(
            "SELECT 'k' AS key, CAST(NULL AS array<struct<key: string, value: binary>>) AS headers, X'07' AS value"
        )
        parsed = decoded(frame.union(garbage), make_decoder("avro", options))
        found = parsed.selectExpr("parsed.*", "reason", "key").collect()
    assert sorted(tuple(row) for row in found if row["reason"] is None) == [
        (n, str(n), n, None, "k") for n in range(100)
    ]
    (bad,) = [row for row in found if row["reason"] is not None]
    assert bad["id"] is None
    assert "begins with the byte 7" in bad["reason"]


def plain(value: Any) -> Any:
    """Return a value of a row as Arrow has it."""
    if isinstance(value, Row):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return [plain(one) for one in value] if isinstance(value, list) else value


def test_columns_of_json_schema_in_a_frame(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All properties that people's tools write, as rows and as Arrow, equal the JSON; and are written back."""
    schema = {
        **{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "definitions": DEFINITIONS},
        "properties": {name: one.schema for name, one in PROPERTIES.items()},
    }
    records = [{name: one.values[0] for name, one in PROPERTIES.items()}, {}]
    records += [{name: value} for name, one in PROPERTIES.items() for value in one.values[1:]]
    options = file(tmp_path, schema)
    with caplog.at_level(logging.WARNING, "pykafka.spark"):
        decoder = make_decoder("json-schema", options)
        encoder = make_encoder("json-schema", options)
    texts = {f"{name}{inside}" for name, one in PROPERTIES.items() for inside in one.texts}
    assert [
        set(re.findall(r"([\w.{}\[\]]+) \(", one.partition("quotes: ")[2])) >= texts for one in caplog.messages
    ] == [
        True,
        True,
    ]
    data = [(number, bytearray(json.dumps(one).encode())) for number, one in enumerate(records)]
    frame = decoded(spark.createDataFrame(data, "number INT, value BINARY").coalesce(1), decoder)
    back = decoded(encoded(frame.select("number", "parsed.*"), encoder, keep=("number",)), decoder)
    arrow = frame.toArrow()
    found = [[plain(row.parsed) for row in frame.collect()], arrow["parsed"].to_pylist(maps_as_pydicts="strict")]
    found.append([plain(row.parsed) for row in back.collect()])
    assert arrow["reason"].null_count == len(records)
    for rows in found:
        for record, row in zip(records, rows, strict=True):
            assert not list(differences(arrow["parsed"].type, row, record, "", texts))


@pytest.mark.matrix
def test_a_pipeline_of_json_schema(
    topics: Topics, tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create(1)
    maybe = {"oneOf": [NULL, {"type": "string"}]}
    schema = {
        **{"type": "object", "properties": {"name": maybe, "extra": {}, "list": {"type": "array", "items": maybe}}},
        "allOf": [{"properties": {"id": {"type": "integer"}}}],
    }
    with RegistryStub() as stub:
        number = stub.add(f"{topic}-value", schema, "JSON")["id"]
        texts = ['{"id":1,"name":"a","extra":"b","list":["c",null]}', '{"id":2,"name":null}', '{"id":"3"}']
        topics.produce(topic, [Record(with_id(number) + text.encode(), b"k", 0) for text in texts])
        made = Directory(tmp_path, topics.hosts, spark)
        parse = f'[parse]\nformat = "json-schema"\nregistry = "{stub.url}"\n'
        step = "[[transform]]\nsql = \"SELECT id, name, get_json_object(extra, '$') AS extra, list FROM records\""
        made.declare(topic, parse, made.keep(), step)
        with caplog.at_level(logging.WARNING, "pykafka.spark"):
            done = made.run()
    assert (done.records, done.malformed) == (3, 1)
    assert sorted(tuple(row) for row in made.rows()) == [(1, "a", "b", ["c", None]), (2, None, None, None)]
    warnings = [one for one in caplog.messages if "JSON text" in one]
    assert len(warnings) == 1
    assert f"version 1 of {topic}-value" in warnings[0]
    assert "extra (no type)" in warnings[0]


@pytest.mark.matrix
def test_a_pipeline_of_avro(registry: str, topics: Topics, tmp_path: Path, spark: SparkSession) -> None:
    """Versions become one table; what is no Avro is kept apart, or ends the pipeline with its place and reason."""
    topic = topics.create(2)
    old, new = (register(registry, f"{topic}-value", json.dumps(schema)) for schema in (CLICK, NEWER))
    good = [
        *(with_id(old) + avro_bytes(CLICK, {"id": n, "who": "me"}) for n in range(50)),
        *(with_id(new) + avro_bytes(NEWER, {"id": n, "who": None, "pages": 1}) for n in range(50, 100)),
    ]
    bad = [b"garbage", with_id(4711) + b"x", with_id(old)]
    topics.produce(topic, [Record(value, b"k", n % 2) for n, value in enumerate([*good, *bad, None])])
    made = Directory(tmp_path, topics.hosts, spark)
    parse = f'[parse]\nformat = "avro"\nregistry = "{registry}"\n'
    step = '[[transform]]\nsql = "SELECT id, who, pages, kafka.offset FROM records WHERE kafka.value IS NOT NULL"'
    made.declare(topic, parse, made.keep(), step)
    done = made.run()
    assert (done.records, done.malformed) == (104, 3)
    assert sorted((row.id, row.pages) for row in made.rows()) == [(n, 7 if n < 50 else 1) for n in range(100)]
    assert sorted(bytes(row.value) for row in made.rows("malformed")) == sorted(bad)
    sums = topics.create(1)
    register(registry, f"{sums}-value", json.dumps(CLICK))
    copied = Directory(tmp_path / "copied", topics.hosts, spark)
    copied.path.mkdir()
    copied.declare(
        topic,
        parse,
        copied.keep(),
        '[[transform]]\nsql = "SELECT id + 1 AS id, who, kafka.key FROM records WHERE kafka.value IS NOT NULL"',
        sink=f'[sink]\nformat = "topic"\ntopic = "{sums}"\n'
        f'[sink.serialize]\nformat = "avro"\nregistry = "{registry}"\n',
    )
    copied.run()
    written = topics.read(sums)
    rows, reasons = make_decoder("avro", {"registry": registry, "topic": sums}).decode(
        values(*(one.value for one in written)), None
    )
    assert sorted(row["id"] for row in rows.to_pylist()) == list(range(1, 101)), reasons
    assert {one.key for one in written} == {b"k"}
    other = Directory(tmp_path / "other", topics.hosts, spark)
    other.path.mkdir()
    other.declare(topic, parse, step)
    with pytest.raises(StreamingQueryException, match="is no AVRO of the schema: (no schema id|schema 4711|EOFError)"):
        other.run()
    other.declare(topic, parse.replace("ccompat", "nowhere"), step)
    with pytest.raises(DeclarationError, match="answers 404"):
        other.run()


@pytest.mark.matrix
def test_another_run_of_a_pipeline_takes_the_newest_schema(topics: Topics, tmp_path: Path, spark: SparkSession) -> None:
    topic = topics.create(1)
    with RegistryStub() as stub:
        old = stub.add(f"{topic}-value", CLICK)["id"]
        topics.produce(topic, [Record(with_id(old) + avro_bytes(CLICK, {"id": 1, "who": "me"}), b"k", 0)])
        made = Directory(tmp_path, topics.hosts, spark)
        made.declare(topic, f'[parse]\nformat = "avro"\nregistry = "{stub.url}"\n')
        pipeline = Pipeline(Declaration.load(made.file), spark, made.seen.append, StopRequest(grace_s=30))
        (done,) = pipeline.run()
        assert done.records == 1
        new = stub.add(f"{topic}-value", NEWER)["id"]
        topics.produce(topic, [Record(with_id(new) + avro_bytes(NEWER, {"id": 2, "who": None, "pages": 9}), b"k", 0)])
        (done,) = pipeline.run()
        assert done.records == 2
        rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "landed")).collect()
        assert sorted((row.id, row.pages) for row in rows) == [(1, None), (2, 9)]
        # One that is down now is no reason to give up.
        stub.fail(503, 1000)
        made.declare(topic, f'[parse]\nformat = "avro"\nregistry = "{stub.url}"\nregistry_timeout_ms = 300\n')
        with pytest.raises(DeclarationError, match="answers 503") as caught:
            made.run()
    assert not is_lasting(caught.value)


def test_messages_without_fields_in_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    text = 'syntax = "proto3"; message Empty { Empty e = 1; } message A { Empty e = 1; map<uint64, string> m = 2; }'
    (tmp_path / "schema").write_text(text)
    options = {"schema_file": str(tmp_path / "schema")}
    records = spark.sql("SELECT CAST(CAST(id AS STRING) AS BINARY) AS value FROM range(3)").where("value = X'30'")
    records = records.unionAll(spark.sql("SELECT X'' AS value UNION ALL SELECT CAST(NULL AS BINARY)"))
    # Nothing remains of the first message: its rows have no columns, and are there nevertheless.
    parsed = decoded(records, make_decoder("protobuf", options))
    assert parsed.schema["parsed"].dataType.simpleString() == "struct<>"
    found = [(row["value"], row["parsed"] is None, row["reason"] is None) for row in parsed.collect()]
    assert found == [(b"0", True, False), (b"", False, True), (None, True, True)]
    assert decoded(records, make_decoder("protobuf", options)).selectExpr("parsed.*", "reason").columns == ["reason"]
    nothing = encoded(spark.sql("SELECT 'k' AS key"), make_encoder("protobuf", options), keep=("key",))
    assert [tuple(row) for row in nothing.collect()] == [("k", b"")]
    # Keys without a sign, and a field that is left out, come back.
    options["message"] = "A"
    rows = spark.sql("SELECT map(CAST(18446744073709551615 AS DECIMAL(20,0)), 'x') AS m, struct() AS e")
    data = encoded(rows, make_encoder("protobuf", options))
    back = decoded(data, make_decoder("protobuf", options)).selectExpr("parsed.*").collect()
    assert [row.asDict() for row in back] == [{"m": {2**64 - 1: "x"}}]
    assert data.collect()[0]["value"].startswith(b"\n\0") or data.collect()[0]["value"].endswith(b"\n\0")


@pytest.mark.matrix
def test_the_api_of_a_real_registry(registry: str) -> None:
    client = Registry(registry, ThreadingHandler())
    schema = Schema("AVRO", json.dumps(CLICK))
    made = client.register("api-value", schema)
    assert client.look_up("api-value", schema) == made == client.latest("api-value") == client.version("api-value", 1)
    assert Registry(registry, ThreadingHandler()).schema(made.id).kind == "AVRO"
    broken = Schema("AVRO", '{"type": "record"}')
    with pytest.raises(RegistryError, match="answers 4"):
        client.register("api-value", broken)


@pytest.mark.matrix
def test_the_peer_writes_avro_and_reads_ours(registry: str, peers: Peers) -> None:
    client = peers(registry)
    old, new = ({"id": 1, "who": "me"}, {"id": 2, "who": None, "pages": 3})
    data = values(
        AvroSerializer(client, json.dumps(CLICK), conf=BY_TOPIC)(old, context("clicks")),
        AvroSerializer(client, json.dumps(NEWER), conf=BY_TOPIC)(new, context("clicks")),
    )
    options = {"registry": registry, "topic": "clicks"}
    rows, reasons = make_decoder("avro", options).decode(data, None)
    assert rows.to_pylist() == [{**old, "pages": 7}, new], reasons
    ours = make_encoder("avro", options).encode(rows)
    read = AvroDeserializer(client, conf=BY_TOPIC)
    assert [read(one, context("clicks")) for one in ours.to_pylist()] == rows.to_pylist()


@pytest.mark.matrix
def test_the_peer_writes_protobuf_and_reads_ours(registry: str, peers: Peers) -> None:
    from google.protobuf import message_factory

    client = peers(registry)
    file = protobuf.of_set(protobuf.compile_schema((), PROTO))
    for topic, name in (("orders", "shop.Order"), ("others", "shop.Other")):
        kind = message_factory.GetMessageClass(file.named(name))
        message = kind(id=5, who="me") if topic == "orders" else kind(z=3)
        data = ProtobufSerializer(kind, client, BY_TOPIC)(message, context(topic))
        options = {"registry": registry, "topic": topic, "message": name}
        decoder = make_decoder("protobuf", options)
        rows, reasons = decoder.decode(values(data), None)
        assert reasons.null_count == 1, reasons
        ours = make_encoder("protobuf", options).encode(rows)
        assert ProtobufDeserializer(kind, BY_TOPIC, client)(ours[0].as_py(), context(topic)) == message
    register(registry, "text-value", PROTO, "PROTOBUF")  # as text, as Java's clients do
    options = {"registry": registry, "topic": "text"}
    decoder = make_decoder("protobuf", options)
    rows = pa.array([order()], arrow_of(decoder))
    assert decoder.decode(make_encoder("protobuf", options).encode(rows), None)[0].to_pylist() == [order()]


@pytest.mark.matrix
@pytest.mark.parametrize("text", ["as the peer registers it", "as text"])
def test_the_peer_writes_protobuf_that_imports_without_references(registry: str, peers: Peers, text: str) -> None:
    client, topic = peers(registry), f"payments-{text.replace(' ', '-')}"
    schema = """
        syntax = "proto3"; package pay;
        import "google/type/money.proto"; import "google/type/date.proto"; import "confluent/meta.proto";
        import "confluent/type/decimal.proto"; import "google/protobuf/empty.proto"; import "google/protobuf/wrappers.proto";
        message Payment {
          google.type.Money price = 1; confluent.type.Decimal tax = 2 [(confluent.field_meta).doc = "d"];
          oneof due { google.type.Date day = 3; google.protobuf.Empty never = 4; } map<uint64, google.type.Money> parts = 5;
          google.protobuf.StringValue note = 6;
        }
    """
    kind = proto_class(schema, "Payment")
    message = kind(price={"units": 5, "currency_code": "EUR"}, tax={"value": b"\7", "precision": 1, "scale": 2})
    message.day.year = 2024
    message.parts[2**64 - 1].units = 3
    options = {"registry": registry, "topic": topic}
    if text == "as text":
        number = register(registry, f"{topic}-value", schema, "PROTOBUF")
        data = with_id(number) + b"\0" + message.SerializeToString()
    else:
        data = ProtobufSerializer(kind, client, BY_TOPIC)(message, context(topic))
    rows, reasons = make_decoder("protobuf", options).decode(values(data), None)
    assert reasons.null_count == 1, reasons
    row = rows[0].as_py()
    assert (row["price"]["units"], row["day"]["year"], row["parts"][0][0]) == (5, 2024, 2**64 - 1)
    assert "never" not in row
    ours = make_encoder("protobuf", options).encode(rows)[0].as_py()
    assert (ours[:6], kind.FromString(ours[6:])) == (data[:6], message)
    if text != "as text":  # which the peer cannot read
        assert ProtobufDeserializer(kind, BY_TOPIC, client)(ours, context(topic)) == message


@pytest.mark.matrix
def test_the_peer_writes_json_and_reads_ours(registry: str, peers: Peers) -> None:
    client = peers(registry)
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "T", **JSON_SCHEMA}
    row: dict[str, Any] = {"id": 1, "score": 2.5, "tags": ["a"], "at": "2024-01-02T03:04:05+00:00"}
    data = JSONSerializer(json.dumps(schema), client, conf=BY_TOPIC)(row, context("scores"))
    options = {"registry": registry, "topic": "scores"}
    rows, reasons = make_decoder("json-schema", options).decode(values(data), None)
    assert reasons.null_count == 1, reasons
    assert rows[0].as_py()["at"] == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    ours = make_encoder("json-schema", options).encode(rows)
    read = JSONDeserializer(json.dumps(schema), conf=BY_TOPIC, schema_registry_client=client)(
        ours[0].as_py(), context("scores")
    )
    assert {name: value for name, value in read.items() if value is not None} == row


@pytest.mark.matrix
def test_the_peer_writes_ids_into_headers(peers: Peers) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer

    with RegistryStub() as stub:
        client = peers(stub.url)
        write = AvroSerializer(client, json.dumps(CLICK), conf={"schema.id.serializer": header_schema_id_serializer})
        written: list[tuple[str, Any]] = []
        where = SerializationContext("clicks", MessageField.VALUE, headers=written)
        data = write({"id": 1, "who": "me"}, where)
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        headers = pa.array([[{"key": name, "value": value} for name, value in written]], kind)
        options = {"registry": stub.url, "topic": "clicks", "framing": "header"}
        rows, reasons = make_decoder("avro", options).decode(values(data), headers)
        assert rows.to_pylist() == [{"id": 1, "who": "me"}], reasons
        name, value = make_encoder("avro", options).header or ("", b"")
        assert [(name, value)] == [(one, bytes(its)) for one, its in written]
