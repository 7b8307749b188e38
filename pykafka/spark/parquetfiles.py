"""Parquet files that the tasks of the source write themselves, from Arrow, in the place of handing rows to Spark.

A task hands on one null for each record, so that Spark counts records, and at the end what it has written. Spark keeps no
file of a task that failed, or that ran twice: only files that the query's driver enters into the directory's log count.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pykafka.spark.errors import OptionError, SinkError
from pykafka.spark.references import here

if TYPE_CHECKING:
    import random

    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql.types import StructType

#: The private option of a streaming read whose tasks write files.
INTO = "writefilesinto"
#: The schema of such a read: the path of a file, and null for each record but the last of a file.
FILE = "file"
DDL = f"{FILE} string"
#: The codecs by the names of Spark's option `compression`, with those of pyarrow and what files are called.
CODECS = {
    "none": ("none", ""),
    "uncompressed": ("none", ""),
    "snappy": ("snappy", ".snappy"),
    "gzip": ("gzip", ".gz"),
    "lz4": ("lz4", ".lz4raw"),
    "lz4_raw": ("lz4", ".lz4raw"),
    "zstd": ("zstd", ".zstd"),
}
#: Rows are gathered up to this size, as each row group has statistics and pages of its own.
ROW_GROUP_BYTES = 32 * 1024 * 1024
ROW_GROUP_ROWS = 1024 * 1024
#: Values differ from each other: a dictionary of them costs CPU, and is given up when it is full.
_NO_DICTIONARY = ("value",)
#: Numbers that grow are small as differences.
_GROWING = ("offset", "timestamp")


@dataclass(frozen=True)
class ParquetFiles:
    """The files that the tasks of a read write.

    :param directory: path of a directory that the driver and all executors share
    :param columns: Kafka's columns, in order
    :param compression: one of CODECS
    """

    directory: str
    columns: tuple[str, ...]
    compression: str = "snappy"

    def __post_init__(self) -> None:
        if self.compression not in CODECS:
            raise OptionError(f"compression {self.compression!r} is not known; known are {', '.join(CODECS)}")

    @classmethod
    def from_option(cls, text: str) -> ParquetFiles:
        """Return what `option` wrote."""
        directory, columns, compression = json.loads(text)
        return cls(directory, tuple(columns), compression)

    def option(self) -> str:
        """Return the value of the option INTO."""
        return json.dumps([self.directory, self.columns, self.compression])

    def chosen(self, schema: StructType) -> tuple[str, ...]:
        """Return the columns to read.

        :param schema: of the read
        :raises OptionError: it is not that of files, so it is not a pipeline that has set the private option
        """
        if schema.simpleString() != f"struct<{FILE}:string>":
            raise OptionError(f"option {INTO!r} is for pipelines alone: remove it")
        return self.columns

    def written(
        self, batches: Iterator[pa.RecordBatch], partition: int, start: int, generator: random.Random
    ) -> Iterator[pa.RecordBatch]:
        """Write the records of a task into one file; yield nulls, and the file's path at the end.

        :param batches: the records
        :param partition: number of the partition, for the name
        :param start: first offset, for the name
        :param generator: source of a name that no other attempt has
        :raises SinkError: the file cannot be written
        """
        import pyarrow as pa

        codec, suffix = CODECS[self.compression]
        name = f"part-{partition:05d}-{start}-{generator.getrandbits(128):032x}{suffix}.parquet"
        file = _File(Path(self.directory) / name, codec)
        try:
            for batch in batches:
                # The row with the path stands for the first record.
                rows = batch.num_rows - (file.rows == 0)
                file.add(batch)
                if rows > 0:
                    yield pa.RecordBatch.from_arrays([pa.nulls(rows, pa.string())], names=[FILE])
            path = file.close()
        except BaseException:
            file.discard()
            raise
        if path is not None:
            yield pa.RecordBatch.from_arrays([pa.array([path], pa.string())], names=[FILE])


class _File:
    """One file, which is made when the first records come.

    :param path: its path, where nothing may be
    :param codec: by pyarrow's name
    """

    def __init__(self, path: Path, codec: str) -> None:
        self.rows = 0
        self._path = path
        self._codec = codec
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._is_made = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Take records, and write those that make a row group."""
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES or self._waiting_rows >= ROW_GROUP_ROWS:
            self._write()

    def close(self) -> str | None:
        """Write the rest; return the path, or None if there were no records."""
        if self._waiting:
            self._write()
        if self._writer is None:
            return None
        try:
            self._writer.close()
        except OSError as error:
            raise self._failed(error) from error
        return str(self._path)

    def discard(self) -> None:
        """Delete the file, as far as it is there."""
        import pyarrow as pa

        writer, self._writer = self._writer, None
        # A full disk, as an example: the error that led here is raised.
        if writer is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                writer.close()
        if self._is_made:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        import pyarrow as pa

        batches, self._waiting = self._waiting, []
        self._waiting_rows = self._waiting_bytes = 0
        table = pa.Table.from_batches(batches)
        try:
            if self._writer is None:
                self._writer = self._opened(table.schema)
            self._writer.write_table(table, ROW_GROUP_ROWS)
        except OSError as error:
            raise self._failed(error) from error

    def _opened(self, schema: pa.Schema) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        # Never the file of another attempt.
        self._path.touch(exist_ok=False)
        self._is_made = True
        repeated = [name for name in schema.names if name not in (*_NO_DICTIONARY, *_GROWING)]
        growing = {name: "DELTA_BINARY_PACKED" for name in schema.names if name in _GROWING}
        return pq.ParquetWriter(
            str(self._path), schema, compression=self._codec, use_dictionary=repeated, column_encoding=growing or None
        )

    def _failed(self, error: OSError) -> SinkError:
        if not self._path.parent.is_dir():
            return SinkError(
                f'{here()} has no directory {self._path.parent}: with writer = "arrow" tasks write files themselves, so it '
                "must be mounted there as on the driver; else remove writer, and Spark writes them"
            )
        return SinkError(f"{here()} cannot write {self._path}: {error.strerror or error}")
