"""The columns of a read: names, order and types as in Spark's own Kafka connector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HEADERS = "headers"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"

#: Names and Spark types, in the connector's order.
COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: HEADERS_TYPE,
}


def ddl(include_headers: bool) -> str:
    """Return the schema of a read without a schema of the user."""
    return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items() if include_headers or name != HEADERS)


def chosen(schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns of a schema: any of ours in any order.

    :param schema: the schema of the read: ours, or the user's
    :raises OptionError: a column that a read does not have, or has with another type
    """
    given = ddl(include_headers=True)
    for field in schema.fields:
        kind = COLUMNS.get(field.name)
        if kind is None:
            raise OptionError(f"a read has no column {field.name!r}; choose among those of: {given}")
        if field.dataType.simpleString() != kind:
            raise OptionError(
                f"column {field.name!r} cannot be read as {field.dataType.simpleString()}, only as {kind}: read it so "
                "and cast it"
            )
        if not field.nullable:
            raise OptionError(f"column {field.name!r} cannot be declared NOT NULL; filter the nulls out after reading")
    if not schema.fields:
        raise OptionError(f"the schema has no column; choose among those of: {given}")
    return tuple(field.name for field in schema.fields)
