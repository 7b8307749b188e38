"""The sink that a query has written to so far: one that is declared again could lose rows, or have them twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass

from pykafka.spark.pipeline.errors import PipelineError, TableMismatchError
from pykafka.spark.pipeline.model import NOT_SHOWN, OF, FileSink, FormatSink, JdbcSink, Sink, TableSink
from pykafka.spark.pipeline.storage import SINK_LOG, storage_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pykafka.spark.pipeline.storage import Storage


#: The file in a query's checkpoint; Spark ignores it.
NAME = "pykafka-sink.json"
_FACTS = ("format", "place", "partition_by", "merge", "output_mode")


def described(sink: Sink, mode: str, storage: Storage) -> dict[str, Any]:
    """Return what rows of a sink depend on, without secrets.

    Another topic is no loss: rows go there from then on, as Spark allows it.

    :param mode: Spark's output mode
    """
    about: dict[str, Any] = {"output_mode": mode}
    if isinstance(sink, FileSink):
        # Spark expects the same columns of all: it finds no file beside their directories, and refuses other columns.
        place = storage.qualified(sink.path)
        about |= {"format": sink.format, "place": place, "partition_by": list(sink.partition_by)}
    elif isinstance(sink, FormatSink):  # its path may be no path of a file system
        about |= {"format": sink.format, "place": sink.place}
    elif isinstance(sink, TableSink):
        about |= {"format": sink.format, "place": sink.table or storage.qualified(sink.path)}
    elif isinstance(sink, JdbcSink):
        about |= {"format": "jdbc", "place": sink.place}
    if isinstance(sink, TableSink | JdbcSink):
        about["merge"] = list(sink.merge.keys) if sink.merge is not None else []
    return about


def check(storage: Storage, sink: Sink, mode: str, checkpoint: str) -> None:
    """Raise if the query has written to another sink, or in another way.

    :param mode: Spark's output mode
    :param checkpoint: of the query
    :raises TableMismatchError: says what was changed, and what to do
    """
    done, text = storage.last_number(f"{checkpoint}/commits"), storage.read(f"{checkpoint}/{NAME}")
    if done is None or text is None:
        return
    before, now = _parsed(text, f"{checkpoint}/{NAME}"), described(sink, mode, storage)
    # The mode means nothing to a query without state: its rows are new ones in each mode.
    ignored = set() if storage.exists(f"{checkpoint}/state") else {"output_mode"}
    if now.get("format") == before.get("format") and "partition_by" not in before:  # as it was noted at first
        ignored.add("partition_by")
    changed = [
        f"{name} was {_shown(before.get(name))} and is {_shown(now.get(name))}"
        for name in _FACTS
        if not _is_same(before.get(name), now.get(name)) and name not in ignored
    ]
    if changed:
        raise TableMismatchError(
            f"{sink} is not what the checkpoint {checkpoint} belongs to: {'; '.join(changed)}. Rows up to micro-batch {done} "
            "were written that way, so some would be missing or there twice. Put it back, or take a new checkpoint and a new "
            f"place for the rows; if the sink is right as it is, delete {checkpoint}/{NAME}"
        )


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TableMismatchError(
            f"{path} does not say what the query has written to, so it was changed: bring it back; or, if the sink "
            "is the same as before, delete it"
        )
    return found


def note(storage: Storage, sink: Sink, mode: str, checkpoint: str) -> None:
    """Write down what a query writes to; parameters as in `check`."""
    path, text = f"{checkpoint}/{NAME}", json.dumps(described(sink, mode, storage))
    if storage.read(path) != text:
        storage.write(path, text)


def _is_same(before: Any, now: Any) -> bool:
    """Return whether a fact is the same, as far as it is known."""
    if before != now and any(str(one).endswith(NOT_SHOWN) for one in (before, now)):
        # A password may be another one now: it decides whether the URL of a database is shown. The table is known.
        return str(before).partition(OF)[0] == str(now).partition(OF)[0]
    return bool(before == now)


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) and value else str(value or "nothing")


class FileLog:
    """The log of one directory, by Spark's own class: Spark's sink may continue with it, and the other way round.

    :param spark: the session of the query
    :param directory: of the files; it is made if it is missing
    :raises StorageError: the file system does not respond
    """

    def __init__(self, spark: SparkSession, directory: str) -> None:
        jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        with storage_errors():
            at = jvm.org.apache.hadoop.fs.Path(directory)
            self._system = at.getFileSystem(spark._jsc.hadoopConfiguration())
            self._directory = self._system.makeQualified(at)
            self._path = jvm.org.apache.hadoop.fs.Path
            package = jvm.org.apache.spark.sql.execution.streaming
            if not isinstance(package.FileStreamSinkLog, JavaClass):  # since 4.1
                package = package.sinks
            self._status = package.SinkFileStatus
            kind = package.FileStreamSinkLog
            where = self._path(self._directory, SINK_LOG).toString()
            self._log = kind(kind.VERSION(), spark._jsparkSession, where, jvm.scala.Option.empty())

    def has(self, number: int) -> bool:
        """Return whether a micro-batch is written, as Spark's sink does: if this one is, or a later one.

        :raises StorageError: the file system does not respond
        """
        with storage_errors():
            last = self._log.getLatestBatchId()
        return bool(last.isDefined()) and number <= int(last.get())

    def add(self, number: int, files: Iterable[str]) -> None:
        """Enter the files of a micro-batch, all or none.

        :param number: of the micro-batch
        :param files: their paths on the executors
        :raises PipelineError: the driver sees another directory
        :raises TableMismatchError: another query writes to it
        :raises StorageError: the file system does not respond
        """
        names = sorted(PurePosixPath(file).name for file in files)
        entries = self._gateway.new_array(self._status, len(names))
        with storage_errors():
            for index, name in enumerate(names):
                at = self._path(self._directory, name)
                if not self._system.exists(at):
                    raise PipelineError(
                        f"an executor has written {name}, and the driver does not see it in {self._directory.toString()}: with "
                        'writer = "arrow" all must share this directory; else remove writer, and Spark writes the files'
                    )
                entries[index] = self._status.apply(self._system.getFileStatus(at))
            is_ours = self._log.add(number, entries)
        if not is_ours:
            raise self.taken(number)

    def taken(self, number: int) -> TableMismatchError:
        """Return the error of a micro-batch that another run has entered.

        :param number: of the micro-batch
        """
        # A restart would take the entry for one of its own.
        return TableMismatchError(
            f"another query has written micro-batch {number} to {self._directory.toString()} at the same time, and this one's "
            "rows would be missing: let one pipeline write to a directory, and take a new checkpoint and a new directory for "
            "the other one"
        )
