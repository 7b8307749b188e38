"""`Encoder`: serializes a struct column to bytes; the base of the encoders of all formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pykafka.exceptions import RegistryError
from pykafka.registry.schemas import HEADERS, Registered, with_guid, with_id
from pykafka.spark.errors import SinkError
from pykafka.spark.formats.arrowtypes import check_zones, python_rows, reason
from pykafka.spark.formats.options import CONFLUENT, HEADER, NONE, Side, resolve, warn_of
from pykafka.spark.pythons import formats_needed

#: Returns the bytes of a row, without those that say the schema; raises whatever is wrong with the row.
Write = Callable[[Any], bytes]


class Encoder(ABC):
    """A serializer of a struct column, by one schema: made on the driver, and pickled for the workers without its writer.

    :param side: the options
    :ivar header: name and value of the header that each record must have; None if the value says its schema
    :raises SchemaError: the schema cannot be written here
    :raises RegistryError: the registry refuses, or does not answer
    """

    header: tuple[str, bytes] | None = None
    #: Whether the schema has times without a zone.
    takes_local_times = False
    #: Sentences about columns that have no type in the schema; set by `_names`.
    notes: tuple[str, ...] = ()

    def __init__(self, side: Side) -> None:
        self.side = side
        registry, self.registered, self.schema, self.needed = resolve(side)
        self._fields = self._names()
        warn_of(side, self.registered, self.notes)
        if self.registered is None and registry is not None and side.framing != NONE and self.schema is not None:
            ask = registry.register if side.register else registry.look_up
            self.registered = ask(side.subject, self.schema)
        self._prefix = b"" if side.framing != CONFLUENT else with_id(self._version().id) + self._path()
        if side.framing == HEADER:
            guid = self._version().guid
            if guid is None:
                raise RegistryError(
                    "the registry gives schemas no GUID, which framing 'header' writes: write framing 'confluent'"
                )
            self.header = (HEADERS[side.column].decode(), with_guid(guid) + self._path())
        self._write: Write | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_write": None}

    def check(self, fields: list[str]) -> None:
        """Check the names of the rows' fields against the schema.

        :raises SinkError: one is not in the schema
        """
        for name in fields:
            if name not in self._fields:
                raise SinkError(
                    f"column {name!r} is not in the schema, whose fields are {', '.join(self._fields)}: leave it out, or "
                    "register a schema that has it"
                )

    def encode(self, rows: pa.StructArray) -> pa.Array:
        """Return the bytes of the rows, null if a row is.

        :raises SinkError: a row does not fit the schema
        """
        self.check([rows.type.field(number).name for number in range(rows.type.num_fields)])
        if not self.takes_local_times:
            check_zones(rows.type)
        if self._write is None:
            with formats_needed():
                self._write = self._writer()
        write, prefix = self._write, self._prefix
        found: list[bytes | None] = []
        for number, row in enumerate(python_rows(rows)):
            try:
                found.append(None if row is None else prefix + write(row))
            except Exception as error:
                raise SinkError(
                    f"row {number} of {len(rows)} in a batch cannot be written as {self.side.format}: {reason(error)}; correct "
                    "it in a step, or take a schema that it fits"
                ) from error
        return pa.array(found, pa.binary())

    @abstractmethod
    def _names(self) -> list[str]:
        """Return the names of the schema's fields.

        :raises SchemaError: the schema is none
        """

    @abstractmethod
    def _writer(self) -> Write:
        """Return what serializes a row."""

    def _path(self) -> bytes:
        """Return what follows the schema's id."""
        return b""

    def _version(self) -> Registered:
        assert self.registered is not None
        return self.registered
