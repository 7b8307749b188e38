"""Avro, Protobuf and JSON Schema in columns of Spark, with a schema registry or with a file of the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pykafka.spark.errors import OptionError
from pykafka.spark.pythons import formats_needed

if TYPE_CHECKING:
    from pykafka.spark.formats.decoder import Decoder
    from pykafka.spark.formats.encoder import Encoder

#: The formats, by their names in declarations.
FORMATS = ("avro", "protobuf", "json-schema")


def make_decoder(format: str, options: Mapping[str, str]) -> Decoder:
    """Return what parses a column of bytes; on the driver, which asks the registry for the schema of the rows.

    :param format: "avro", "protobuf" or "json-schema"
    :param options: see `pykafka.spark.formats.options`
    :raises OptionError: an option is unknown, wrong or missing
    :raises SchemaError: the schema has what Spark has no type for
    :raises RegistryError: the registry refuses, or does not answer
    :raises PackageMissingError: the extra formats is not installed
    """
    from pykafka.spark.formats import avro, json_schema, protobuf
    from pykafka.spark.formats.options import Side

    made: dict[str, Callable[[Side], Decoder]] = {
        "avro": avro.AvroDecoder,
        "protobuf": protobuf.ProtobufDecoder,
        "json-schema": json_schema.JsonDecoder,
    }
    with formats_needed():
        return made[_known(format)](Side.read(format, options))


def make_encoder(format: str, options: Mapping[str, str]) -> Encoder:
    """Return what serializes a struct column; on the driver, which asks the registry for the id of the schema.

    :param format: "avro", "protobuf" or "json-schema"
    :param options: see `pykafka.spark.formats.options`
    :raises OptionError: an option is unknown, wrong or missing
    :raises SchemaError: the schema cannot be written here
    :raises RegistryError: the registry refuses, or does not answer
    :raises PackageMissingError: the extra formats is not installed
    """
    from pykafka.spark.formats import avro, json_schema, protobuf
    from pykafka.spark.formats.options import Side

    made: dict[str, Callable[[Side], Encoder]] = {
        "avro": avro.AvroEncoder,
        "protobuf": protobuf.ProtobufEncoder,
        "json-schema": json_schema.JsonEncoder,
    }
    with formats_needed():
        return made[_known(format)](Side.write(format, options))


def _known(format: str) -> str:
    if format not in FORMATS:
        raise OptionError(f"the format {format!r} is not known here; known are {', '.join(FORMATS)}")
    return format
