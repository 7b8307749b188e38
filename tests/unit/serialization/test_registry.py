"""Schema registry serializers of confluent-kafka, unchanged: formats, framings, failures, and the hub meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from pykafka.exceptions import DeserializationError, SerializationError
from pykafka.handlers import Handler
from pykafka.record import Record
from pykafka.serialization import deserializer_of, serializer_of
from pykafka.serialization.offloading import may_wait
from pykafka.serialization.reading import RecordReader
from pykafka.utils.loglimit import LogLimiter
from tests.support.registrystub import Other, RegistryStub

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
)
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
    }
)
ORDER = {"id": 5, "note": "a note"}


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="pykafka_tests/order.proto", package="pykafka_tests", syntax="proto3"
    )
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    message.field.add(name="note", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL")
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pykafka_tests.Order"))


OrderMessage: Any = _message_class()


class Format(NamedTuple):
    """A format's serializer and deserializer, made with a client of the registry; and a value."""

    serializer: Callable[[SchemaRegistryClient], Any]
    deserializer: Callable[[SchemaRegistryClient], Any]
    value: Any


_BY_HEADER = {"schema.id.serializer": header_schema_id_serializer}
_BY_BOTH = {"schema.id.deserializer": dual_schema_id_deserializer}
FORMATS = {
    "avro": Format(lambda client: AvroSerializer(client, AVRO), AvroDeserializer, ORDER),
    "avro-header": Format(
        lambda client: AvroSerializer(client, AVRO, conf=_BY_HEADER),
        lambda client: AvroDeserializer(client, conf=_BY_BOTH),
        ORDER,
    ),
    "json": Format(
        lambda client: JSONSerializer(JSON, client),
        lambda client: JSONDeserializer(JSON, schema_registry_client=client),
        ORDER,
    ),
    "protobuf": Format(
        lambda client: ProtobufSerializer(OrderMessage, client),
        lambda client: ProtobufDeserializer(OrderMessage, schema_registry_client=client),
        OrderMessage(**ORDER),
    ),
}


@pytest.fixture(name="stub")
def _stub() -> Iterator[RegistryStub]:
    with RegistryStub() as stub:
        yield stub


@pytest.fixture(name="client")
def _client(stub: RegistryStub) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": stub.url, "max.retries": 0, "timeout": 1}) as client:
        yield client


class Offloads:
    """Counts the calls that a handler offloads."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.calls = 0

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        self.calls += 1
        return self.handler.offload(function, *args)


@pytest.mark.parametrize("form", FORMATS)
def test_values_go_there_and_back(form: str, client: SchemaRegistryClient, handler: Handler) -> None:
    serialize = serializer_of(FORMATS[form].serializer(client), False, handler.offload)
    deserialize = deserializer_of(FORMATS[form].deserializer(client), False, handler.offload)
    assert serialize is not None
    assert deserialize is not None
    value = FORMATS[form].value
    headers: list[Any] = [("own", b"1")]
    data = serialize("orders", value, headers)
    assert data is not None
    assert headers[0] == ("own", b"1")
    assert [name for name, _ in headers[1:]] == (["__value_schema_id"] if form == "avro-header" else [])
    assert deserialize("orders", data, tuple(headers)) == value
    assert serialize("orders", None, []) is None
    assert deserialize("orders", None, ()) is None


@pytest.mark.parametrize("form", FORMATS)
def test_only_the_first_call_for_a_schema_is_offloaded(
    form: str, stub: RegistryStub, client: SchemaRegistryClient, handler: Handler
) -> None:
    offloads = Offloads(handler)
    serialize = serializer_of(FORMATS[form].serializer(client), False, offloads)
    assert serialize is not None
    records = []
    for topic in ("orders", "orders", "payments", "orders"):
        headers: list[Any] = []
        records.append((topic, serialize(topic, FORMATS[form].value, headers), headers))
    assert offloads.calls == 2
    deserialize = deserializer_of(FORMATS[form].deserializer(client), False, offloads)
    assert deserialize is not None
    for topic, data, headers in records:
        deserialize(topic, data, headers)
    assert offloads.calls == 4
    asked = len(stub.asked)
    for topic, data, headers in records:
        deserialize(topic, data, headers)
        serialize(topic, FORMATS[form].value, [])
    assert (offloads.calls, len(stub.asked)) == (4, asked)
    assert (may_wait(serialize), may_wait(deserialize)) == (True, True)


def test_other_serializers_are_not_offloaded(handler: Handler) -> None:
    offloads = Offloads(handler)
    for given in (str.encode, lambda value, ctx: value.encode()):
        serialize = serializer_of(given, False, offloads)
        assert serialize is not None
        assert serialize("orders", "a", []) == b"a"
        assert not may_wait(serialize)
    assert (offloads.calls, may_wait(None)) == (0, False)


def test_a_slow_registry_does_not_hold_up_other_workers(
    stub: RegistryStub, client: SchemaRegistryClient, handler: Handler
) -> None:
    serialize = serializer_of(AvroSerializer(client, AVRO), False, handler.offload)
    assert serialize is not None
    stub.behave(Other.SILENT)
    done: list[Any] = []

    def wait() -> None:
        try:
            serialize("orders", ORDER, [])
        except SerializationError as error:
            done.append(error)

    worker = handler.spawn(wait, name="waits-for-the-registry")
    turns = 0
    while not stub.asked:
        handler.sleep(0.01)
    while turns < 20:
        handler.sleep(0.01)
        turns += 1
    assert not done
    worker.join(30)
    assert isinstance(done[0].__cause__, Exception)
    stub.behave(None)
    assert serialize("orders", ORDER, []) is not None  # and what failed is tried again


def test_failures_of_the_registry_name_topic_and_part(stub: RegistryStub, client: SchemaRegistryClient) -> None:
    serialize = serializer_of(AvroSerializer(client, AVRO), True)
    assert serialize is not None
    stub.fail(500, 5)
    with pytest.raises(SerializationError, match="the key was not sent: AvroSerializer failed by ") as caught:
        serialize("orders", ORDER, [])
    assert (caught.value.topic, caught.value.part) == ("orders", "key")


@pytest.mark.parametrize("bad", [b"", b"\x00", b"no frame", b"\x00\x00\x00\x00\x63xyz"])
@pytest.mark.parametrize("form", FORMATS)
def test_records_without_a_schema_are_bad(
    form: str, bad: bytes, client: SchemaRegistryClient, handler: Handler
) -> None:
    reader = RecordReader(
        None, FORMATS[form].deserializer(client), "raise", LogLimiter(handler), offload=handler.offload
    )
    assert reader.may_wait
    error = reader.read([Record("orders", 0, 1, None, bad)]).error
    assert isinstance(error, DeserializationError)
    assert (error.offset, error.part, error.raw_value) == (1, "value", bad)


def test_a_value_that_is_not_of_the_schema_is_refused(client: SchemaRegistryClient, handler: Handler) -> None:
    for given in (AvroSerializer(client, AVRO), JSONSerializer(JSON, client)):
        serialize = serializer_of(given, False, handler.offload)
        assert serialize is not None
        with pytest.raises(SerializationError, match=f"{type(given).__name__} failed"):
            serialize("orders", {"id": "no number"}, [])
