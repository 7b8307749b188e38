"""Avro by the classes of pykafka.registry: framings, schemas, failures, bytes of others, and the hub meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry import avro as confluent

from pykafka.exceptions import (
    DeserializationError,
    RegistryError,
    RegistryUnavailableError,
    SchemaError,
    SchemaNotFoundError,
    SerializationError,
)
from pykafka.handlers import Handler
from pykafka.record import Record
from pykafka.registry import AvroDeserializer, AvroSerializer, Reference, Registry
from pykafka.serialization import SerializationContext, deserializer_of, may_wait, serializer_of
from pykafka.serialization.reading import RecordReader
from pykafka.utils.loglimit import LogLimiter
from tests.support.registrystub import RegistryStub
from tests.unit.serialization.test_registry import AVRO, ORDER, Offloads

VALUE = SerializationContext("orders", "value", [])
KEY = SerializationContext("orders", "key", [])


@pytest.fixture(name="stub")
def _stub() -> Iterator[RegistryStub]:
    with RegistryStub() as stub:
        yield stub


@pytest.fixture(name="registry")
def _registry(stub: RegistryStub) -> Registry:
    return Registry(stub.url, timeout_ms=1000)


def test_values_go_there_and_back(stub: RegistryStub, registry: Registry) -> None:
    serializer = AvroSerializer(registry, AVRO)
    deserializer = AvroDeserializer(registry)
    data = serializer(ORDER, VALUE)
    assert data is not None
    assert data[0] == 0
    assert deserializer(data, VALUE) == ORDER
    assert (serializer(None, VALUE), deserializer(None, VALUE)) == (None, None)
    asked = len(stub.asked)
    assert deserializer(serializer(ORDER, VALUE), VALUE) == ORDER
    assert len(stub.asked) == asked
    assert list(stub.subjects) == ["orders-value"]
    serializer(ORDER, KEY)
    assert list(stub.subjects) == ["orders-value", "orders-key"]


def test_the_bytes_are_those_of_confluent_kafka(stub: RegistryStub, registry: Registry) -> None:
    with SchemaRegistryClient({"url": stub.url}) as client:
        theirs = confluent.AvroSerializer(client, AVRO)
        data = theirs(ORDER, VALUE)
        assert AvroSerializer(registry, AVRO)(ORDER, VALUE) == data
        assert AvroDeserializer(registry)(data, VALUE) == ORDER
        assert confluent.AvroDeserializer(client)(data, VALUE) == ORDER


@pytest.mark.parametrize("side", ["key", "value"])
def test_the_schema_of_a_header_is_read(stub: RegistryStub, registry: Registry, side: str) -> None:
    from confluent_kafka.serialization import MessageField
    from confluent_kafka.serialization import SerializationContext as TheirContext

    with SchemaRegistryClient({"url": stub.url}) as client:
        theirs = confluent.AvroSerializer(client, AVRO, conf={"schema.id.serializer": header_schema_id_serializer})
        ctx = TheirContext("orders", MessageField(side), [])
        data = theirs(ORDER, ctx)
    assert ctx.headers
    assert data[0] != 0
    assert AvroDeserializer(registry)(data, ctx) == ORDER


LOGICAL = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "long", "string"]}},
    ],
}


def test_logical_types(registry: Registry) -> None:
    value = {
        "at": datetime(2026, 11, 26, 12, 0, 0, 5000, tzinfo=UTC),
        "amount": Decimal("12.50"),
        "id": UUID(int=7),
        "tags": {"a": None, "b": 7, "c": "x"},
    }
    assert AvroDeserializer(registry)(AvroSerializer(registry, LOGICAL)(value, VALUE), VALUE) == value


@dataclass
class Order:
    """A value of a program's own."""

    id: int
    note: str | None


def test_classes_of_a_program(registry: Registry) -> None:
    serializer = AvroSerializer(registry, json.loads(AVRO), to_avro=asdict)
    deserializer = AvroDeserializer(registry, from_avro=lambda found: Order(**found))
    assert deserializer(serializer(Order(7, None), VALUE), VALUE) == Order(7, None)


def test_a_readers_schema_converts(registry: Registry) -> None:
    data = AvroSerializer(registry, AVRO)(ORDER, VALUE)
    newer = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "double"}, {"name": "city", "type": "string", "default": "Oslo"}],
    }
    assert AvroDeserializer(registry, newer)(data, VALUE) == {"id": 5.0, "city": "Oslo"}


def test_references(stub: RegistryStub, registry: Registry) -> None:
    stub.add("money", {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]})
    schema = {"type": "record", "name": "Bill", "fields": [{"name": "total", "type": "Money"}]}
    serializer = AvroSerializer(registry, schema, references=[Reference("Money", "money", 1)])
    value = {"total": {"cents": 1250}}
    assert AvroDeserializer(registry)(serializer(value, VALUE), VALUE) == value


LOGO = {"type": "record", "name": "Logo", "fields": [{"name": "bytes", "type": "bytes", "default": "\xff"}]}
OPENED = {"type": "record", "name": "Opened", "fields": [{"name": "logo", "type": "Logo"}]}
CLOSED = {
    "type": "record",
    "name": "shop.Closed",
    "fields": [{"name": "why", "type": "string"}, {"name": "cause", "type": ["null", "shop.Closed"], "default": None}],
}
LOGO_VALUE, CLOSED_VALUE = {"bytes": b"ab"}, {"why": "rain", "cause": {"why": "clouds", "cause": None}}
OF_REFERRED: dict[str, tuple[Any, list[Any]]] = {
    "union": (["Opened", "shop.Closed"], [{"logo": LOGO_VALUE}, CLOSED_VALUE]),
    "union with its own": ([LOGO | {"name": "Own"}, "null", "Logo"], [LOGO_VALUE, ("Own", LOGO_VALUE)]),
    "array": ({"type": "array", "items": "Opened"}, [[{"logo": LOGO_VALUE}], []]),
    "array of a union": ({"type": "array", "items": ["shop.Closed", "Logo"]}, [[LOGO_VALUE, CLOSED_VALUE]]),
    "map": ({"type": "map", "values": "shop.Closed"}, [{"a": CLOSED_VALUE}]),
    "name": ('"Opened"', [{"logo": LOGO_VALUE}]),
    "name without quotes": ("Logo", [LOGO_VALUE]),
}


@pytest.mark.parametrize("kind", OF_REFERRED)
@pytest.mark.parametrize("register", [True, False], ids=["its own schema", "the newest"])
def test_schemas_that_are_no_records_refer_to_others(
    kind: str, register: bool, stub: RegistryStub, registry: Registry
) -> None:
    """Such as a union of several kinds of events for one topic."""
    stub.add("logo", LOGO)
    stub.add("opened", OPENED, references=[asdict(Reference("Logo", "logo", 1))])
    stub.add("closed", CLOSED)
    schema, values = OF_REFERRED[kind]
    references = [Reference("Opened", "opened", 1), Reference("shop.Closed", "closed", 1)]
    if kind in {"name without quotes", "union with its own"}:
        references.append(Reference("Logo", "logo", 1))
    if register:
        serializer = AvroSerializer(registry, schema, references=references)
    else:
        stub.add("orders-value", schema, references=[asdict(one) for one in references])
        serializer = AvroSerializer(registry)
    deserializer, again = AvroDeserializer(registry), AvroDeserializer(Registry(stub.url))
    for value in values:
        read = deserializer(serializer(value, VALUE), VALUE)
        assert read == again(serializer(value, VALUE), VALUE) == (value[1] if isinstance(value, tuple) else value)
    with pytest.raises(ValueError, match="does not fit|no match"):
        serializer(7, VALUE)


def test_the_newest_version_of_a_subject(stub: RegistryStub, registry: Registry) -> None:
    stub.add("orders-value", AVRO)
    serializer = AvroSerializer(registry)
    assert AvroDeserializer(registry)(serializer(ORDER, VALUE), VALUE) == ORDER
    with pytest.raises(SchemaNotFoundError):
        serializer(ORDER, SerializationContext("payments", "value", []))


def test_a_schema_that_must_be_there(stub: RegistryStub, registry: Registry) -> None:
    serializer = AvroSerializer(registry, AVRO, register=False, subject=lambda topic, side: f"{side}.{topic}")
    with pytest.raises(SchemaNotFoundError):
        serializer(ORDER, VALUE)
    assert not stub.subjects
    stub.add("value.orders", AVRO)
    assert AvroDeserializer(registry)(serializer(ORDER, VALUE), VALUE) == ORDER


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"id": 1.5, "note": "secret"}, r"Order\.id takes long, and this float does not fit"),
        ({"note": "secret"}, r"Order\.id takes long"),
        ({"id": 2**70, "note": "secret"}, r"Order\.id takes long, and this int does not fit"),
        ({"id": 1, "note": 7}, r"Order\.note takes null.*; Order\.note takes string"),
        ("secret", "it takes Order, and this str does not fit"),
    ],
    ids=["fraction", "missing", "too large", "union", "no record"],
)
def test_a_value_that_does_not_fit_is_refused_without_its_contents(registry: Registry, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        AvroSerializer(registry, AVRO)(value, VALUE)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("schema", ['{"type": "recrd"}', "{", {"type": "record", "name": "x", "fields": 7}])
def test_a_bad_schema_is_refused_at_once(registry: Registry, schema: Any) -> None:
    with pytest.raises(SchemaError):
        AvroSerializer(registry, schema)
    with pytest.raises(SchemaError):
        AvroDeserializer(registry, schema)


def test_bytes_that_are_no_value(registry: Registry, handler: Handler) -> None:
    deserializer = AvroDeserializer(registry)
    data = AvroSerializer(registry, AVRO)(ORDER, VALUE)
    assert data is not None
    for bad in (b"", b"\0", b"no frame", b"\0\0\0\0\x63xyz", data[:-1], data[:5], data[:5] + b"\xff" * 30):
        read = RecordReader(None, deserializer, "raise", LogLimiter(handler)).read([Record("orders", 0, 1, None, bad)])
        assert isinstance(read.error, DeserializationError), bad
    with pytest.raises(ValueError, match="3 bytes are left behind"):
        deserializer(data + b"abc", VALUE)
    assert deserializer(data, VALUE) == ORDER


DEEP = """
import sys
from pykafka.registry import AvroDeserializer, AvroSerializer, Registry
from pykafka.serialization import SerializationContext
ctx = SerializationContext("deep", "value", [])
registry = Registry(sys.argv[1])
schema = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
data = AvroSerializer(registry, schema)({"next": {"next": None}}, ctx)
deserializer = AvroDeserializer(registry)
print(deserializer(data, ctx))
try:
    deserializer(data[:5] + b"\\2" * 3_000_000 + b"\\0", ctx)
except RecursionError:
    print("refused")
"""


def test_a_record_that_nests_without_end_does_not_end_the_process(stub: RegistryStub) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEEP, stub.url], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split("\n") == ["{'next': {'next': None}}", "refused", ""], done


def test_only_the_first_call_for_a_schema_is_offloaded(registry: Registry, handler: Handler) -> None:
    offloads = Offloads(handler)
    serialize = serializer_of(AvroSerializer(registry, AVRO), False, offloads)
    deserialize = deserializer_of(AvroDeserializer(registry), False, offloads)
    assert serialize is not None
    assert deserialize is not None
    for _ in range(3):
        assert deserialize("orders", serialize("orders", ORDER, []), ()) == ORDER
    assert offloads.calls == 2
    assert (may_wait(serialize), may_wait(deserialize)) == (True, True)


def test_a_registry_that_is_away(stub: RegistryStub, registry: Registry) -> None:
    serialize = serializer_of(AvroSerializer(registry, AVRO))
    assert serialize is not None
    stub.fail(503, 100)
    with pytest.raises(SerializationError, match="AvroSerializer failed by RegistryUnavailableError") as raised:
        serialize("orders", ORDER, [])
    assert isinstance(raised.value.__cause__, RegistryUnavailableError)


@pytest.mark.parametrize("status", [503, 401])
@pytest.mark.parametrize("policy", ["skip", "raise"])
def test_a_record_is_not_bad_since_the_registry_is_away(
    stub: RegistryStub, registry: Registry, handler: Handler, status: int, policy: Any
) -> None:
    good: Record[Any, Any] = Record("orders", 0, 8, None, AvroSerializer(registry, AVRO)(ORDER, VALUE))
    bad = Record("orders", 0, 7, None, b"no frame")
    deserializer = AvroDeserializer(Registry(stub.url, timeout_ms=1000))
    reader = RecordReader(None, deserializer, policy, LogLimiter(handler), offload=handler.offload)
    stub.fail(status, 100)
    read = reader.read([bad, good] if policy == "skip" else [good])
    assert (read.good, read.done) == ([], 1 if policy == "skip" else 0)
    assert isinstance(read.error, DeserializationError)
    assert isinstance(read.error.__cause__, RegistryError)
    assert "the record is not to blame" in str(read.error)
    with pytest.raises(DeserializationError, match="is not to blame"):
        reader.read_one(good)
    stub._failures.clear()
    assert reader.read_one(good)
    assert (good.key, good.value) == (None, ORDER)


def test_a_schema_that_the_registry_lacks_is_the_records_fault(registry: Registry, handler: Handler) -> None:
    reader = RecordReader(None, AvroDeserializer(registry), "skip", LogLimiter(handler), offload=handler.offload)
    assert reader.read([Record("orders", 0, 7, None, b"\0\0\0\0\x63xyz")]) == ([], 1, None)
    assert reader.skipped == 1


GARBAGE = {
    "an id that is no int32": Record("orders", 0, 7, None, b"\0\xff\xff\xff\xff garbage"),
    "a GUID": Record("orders", 0, 7, None, b"x", headers=[("__value_schema_id", b"\1" + b"g" * 16)]),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_that_looks_like_an_id_does_not_hold_the_consumer_up(kind: str, handler: Handler) -> None:
    with RegistryStub(guids=False) as stub:
        registry = Registry(stub.url, timeout_ms=1000)
        good: Record[Any, Any] = Record("orders", 0, 8, None, AvroSerializer(registry, AVRO)(ORDER, VALUE))
        reader = RecordReader(
            None, AvroDeserializer(Registry(stub.url)), "skip", LogLimiter(handler), offload=handler.offload
        )
        assert reader.read([GARBAGE[kind], good]) == ([good], 2, None)
        assert reader.skipped == 1
        assert not reader.read_one(GARBAGE[kind])


def test_no_secret_is_shown(stub: RegistryStub) -> None:
    serializer = AvroSerializer(Registry(stub.url, token="very-secret", allow_cleartext_credentials=True), AVRO)
    assert "very-secret" not in repr(serializer)
    assert stub.url in repr(serializer)


def test_without_fastavro(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ImportError, match="the extra avro"):
        AvroSerializer(registry, AVRO)
    with pytest.raises(ImportError, match="the extra avro"):
        AvroDeserializer(registry)
