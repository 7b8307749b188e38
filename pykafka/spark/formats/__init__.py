"""Avro, Protobuf and JSON Schema in columns of Spark, with a schema registry or with a file of the schema."""

from __future__ import annotations

from collections.abc import Mapping
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
    :raises SchemaError: the schema has what Spark has no type for, or cannot be written here
    :raises RegistryError: the registry refuses, or does not answer
    :raises PackageMissingError: the extra formats is not installed
    """
    from pykafka.spark.formats.options import Side

    made, _ = _classes(format)
    with formats_needed():
        return made(Side.read(format, options))


def make_encoder(format: str, options: Mapping[str, str]) -> Encoder:
    """Return what serializes a struct column; on the driver, which asks the registry for the id of the schema.

    Parameters and errors as in `make_decoder`.
    """
    from pykafka.spark.formats.options import Side

    _, made = _classes(format)
    with formats_needed():
        return made(Side.write(format, options))


def _classes(format: str) -> tuple[type[Decoder], type[Encoder]]:
    from pykafka.spark.formats import avro, json_schema, protobuf

    if format not in FORMATS:
        raise OptionError(f"the format {format!r} is not known here; known are {', '.join(FORMATS)}")
    return {
        "avro": (avro.AvroDecoder, avro.AvroEncoder),
        "protobuf": (protobuf.ProtobufDecoder, protobuf.ProtobufEncoder),
        "json-schema": (json_schema.JsonDecoder, json_schema.JsonEncoder),
    }[format]
