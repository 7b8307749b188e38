"""`Decoder`: parses a column of bytes to rows; the base of the decoders of all formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

import pyarrow as pa

from pykafka.exceptions import SchemaError, SchemaNotFoundError
from pykafka.registry.schemas import HEADERS, FramingError, Schema, read_header, read_id
from pykafka.spark.formats.arrowtypes import ListRows, ddl_of_fields, reason, settled
from pykafka.spark.formats.options import CONFLUENT, HEADER, Side, registry_for, resolve, warn_of
from pykafka.spark.pythons import formats_needed

#: Parses a record's bytes from a position on; raises whatever is wrong with them.
Read = Callable[[bytes, int], Any]
_ID_END = 5
#: So many parsers are kept: strangers can put any bytes behind an id in a header.
READERS_MAX = 1_000


class Rows(Protocol):
    """The rows of a batch, one by one; afterwards it is used again."""

    def add(self, row: Any) -> None:
        """Add what a parser returns."""

    def follow(self, read: Read, records: list[bytes | None], number: int, prefix: bytes) -> int:
        """Add the rows of records that begin alike and can be parsed, if the parser can read many; return how many.

        :param read: their parser
        :param number: of the first of them
        :param prefix: their first bytes, before the value
        """

    def lose(self, number: int) -> None:
        """Add null as the row of this number, and forget what a parser has added of it."""

    def finish(self, reasons: list[str | None]) -> pa.Array:
        """Return the rows.

        :param reasons: of each row, which takes more of them
        """

    def clear(self) -> None:
        """Forget all rows."""


class Decoder(ABC):
    """A parser of a column of bytes: made on the driver, and pickled for the workers.

    Its rows have one schema, which it fixes when it is made. Parsers by schema belong to the process: a pickled decoder has
    none.

    :param side: the options
    :ivar ddl: the fields of the rows, as Spark's DDL
    :raises SchemaError: Spark has no type for a part of the schema
    :raises RegistryError: the registry refuses, or does not answer
    """

    ddl: str
    #: Sentences about what of the schema does not become typed columns; set by `_arrow`.
    notes: tuple[str, ...] = ()

    def __init__(self, side: Side) -> None:
        self.side = side
        _, self.registered, self.schema, self.needed = resolve(side)
        self._kind: pa.StructType = self._arrow()
        warn_of(side, self.registered, self.notes)
        self.ddl = ddl_of_fields(settled(self._kind))
        self._readers: dict[bytes, Read] = {}
        self._rows: Rows | None = None
        #: Has one item while no thread decodes; taking it away is one step for all threads.
        self._free = [True]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readers": {}, "_rows": None, "_free": [True]}

    def __repr__(self) -> str:
        of = self.registered
        where = "a file" if of is None else f"version {of.version} of {of.subject}"
        return f"<{type(self).__name__} to rows of {where}>"

    def decode(self, values: pa.Array, headers: pa.Array | None) -> tuple[pa.StructArray, pa.StringArray]:
        """Return the rows, null if it failed or the value is null, and the reasons of failures, null for the others.

        :param values: binary
        :param headers: of the records, as Spark's column `headers` has them; None if they were not read
        :raises RegistryError: the registry refuses, or does not answer
        """
        try:
            self._free.pop()
        except IndexError:  # a thread or a greenlet decodes, whose rows these are
            return copy(self).decode(values, headers)
        try:
            return self._decoded(values, headers)
        finally:
            self._free.append(True)

    def _decoded(self, values: pa.Array, headers: pa.Array | None) -> tuple[pa.StructArray, pa.StringArray]:
        if self._rows is None:
            with formats_needed():
                self._rows = self._new_rows()
        rows, reasons = self._rows, list[str | None]()
        rows.clear()
        records, by_header = values.to_pylist(), self._by_headers(len(values), headers)
        find = self._by_id if self.side.framing == CONFLUENT else self._own
        while (number := len(reasons)) < len(records):
            data, why, count = records[number], None, 0
            if data is None:
                rows.lose(number)
            else:
                try:
                    read, start = (find if by_header is None else by_header[number])(data)
                    rows.add(read(data, start))
                    if by_header is None:
                        count = rows.follow(read, records, number + 1, data[:start])
                except (FramingError, SchemaNotFoundError, SchemaError) as error:
                    why = str(error)
                except _Elsewhere as error:
                    raise error.error from None
                except Exception as error:  # noqa: BLE001 - libraries raise anything at the bytes of strangers
                    why = reason(error)
                if why is not None:
                    rows.lose(number)
            reasons.append(why)
            reasons += [None] * count
        array = rows.finish(reasons)  # first, for it adds reasons
        rows.clear()
        return array, pa.array(reasons, pa.string())

    def _new_rows(self) -> Rows:
        """Return an empty collection of rows."""
        return ListRows(self._kind)

    @abstractmethod
    def _arrow(self) -> pa.StructType:
        """Return the type of the rows.

        :raises SchemaError: Spark has no type for what is in the schema
        """

    @abstractmethod
    def _reader(self, schema: Schema | None, path: bytes | None) -> Read:
        """Return what parses values of a schema.

        :param schema: the writer's; None for the rows' own
        :param path: what follows the schema's id in a header; None if it is in the value
        :raises SchemaError: values of it cannot be rows
        """

    def _by_headers(self, count: int, headers: pa.Array | None) -> list[Callable[[bytes], tuple[Read, int]]] | None:
        """Return what finds the parser and the beginning of each value; None if headers have no part in it.

        :param count: of the values
        """
        if self.side.framing != HEADER:
            return None
        if headers is None:
            raise SchemaError("framing 'header' needs the column headers: read it with the records")
        name = HEADERS[self.side.column].decode()
        named = [[one["value"] for one in its or () if one["key"] == name] for its in headers.to_pylist()]
        assert len(named) == count
        return [self._by_header(found[-1] if found else None) for found in named]

    def _own(self, _: bytes) -> tuple[Read, int]:
        found = self._readers.get(b"")
        if found is None:
            found = self._readers[b""] = self._parser(None, None)
        return found, 0

    def _by_id(self, data: bytes) -> tuple[Read, int]:
        found = self._readers.get(data[:_ID_END])
        if found is None:
            number, _ = read_id(data)
            found = self._readers[data[:_ID_END]] = self._made(number, None)
        return found, _ID_END

    def _by_header(self, header: bytes | None) -> Callable[[bytes], tuple[Read, int]]:
        """Return what finds the parser by a header; if there is none, by the bytes before the value."""
        if header is None:
            return self._by_id

        def find(_: bytes) -> tuple[Read, int]:
            found = self._readers.get(header)
            if found is None:
                key, end = read_header(header)
                found = self._readers[header] = self._made(key, header[end:])
            return found, 0

        return find

    def _made(self, key: int | str, path: bytes | None) -> Read:
        """Return the parser of a schema; for one that cannot be read, a parser that says so of each record."""
        schema = self._asked(lambda: self._registry().schema(key))
        own = () if self.registered is None else (self.registered.id, self.registered.guid)
        if key in own and self.schema is not None and not schema.says_the_same(self.schema):
            raise _Elsewhere(self._registry().replaced(key))
        if len(self._readers) >= READERS_MAX:
            self._readers.clear()
        try:
            return self._parser(schema, path)
        except SchemaError as error:
            return _refusing(f"schema {key}: {error}")

    def _parser(self, schema: Schema | None, path: bytes | None) -> Read:
        """Return the parser of a schema.

        :raises SchemaError: it is one that cannot be read
        :raises SchemaNotFoundError: the registry lacks what it refers to
        :raises FramingError: the header does not say its message
        :raises _Elsewhere: anything else, such as a package that this worker lacks, ends the task
        """
        try:
            with formats_needed():
                return self._reader(schema, path)
        except (SchemaError, SchemaNotFoundError, FramingError, _Elsewhere):
            raise
        except Exception as error:  # noqa: BLE001 - passed on
            raise _Elsewhere(error) from None

    def _needed(self, schema: Schema) -> dict[str, Schema]:
        return self._asked(lambda: self._registry().needed(schema)) if schema.references else {}

    def _registry(self) -> Any:
        assert self.side.registry is not None
        return registry_for(self.side.registry)

    @staticmethod
    def _asked(ask: Callable[[], Any]) -> Any:
        """Return the registry's answer.

        :raises SchemaNotFoundError: it has no such schema
        :raises _Elsewhere: anything else is no record's fault, and ends the task
        """
        try:
            return ask()
        except SchemaNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001 - passed on
            raise _Elsewhere(error) from None


class _Elsewhere(Exception):
    """Something that is not about a record.

    :param error: what the task ends with
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _refusing(text: str) -> Read:
    def read(data: bytes, start: int) -> Any:
        raise SchemaError(text)

    return read
