"""The log of a directory of Spark's file sink, with the files of each micro-batch; readers take those files alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass

from pykafka.spark.pipeline.errors import PipelineError, TableMismatchError
from pykafka.spark.pipeline.storage import SINK_LOG, storage_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FileLog:
    """The log of one directory, by Spark's own class: Spark's sink may go on with it, and the other way round.

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
        """Return the error of a micro-batch that somebody else has entered.

        :param number: of the micro-batch
        """
        # A restart would take the entry for one of its own.
        return TableMismatchError(
            f"another query has written micro-batch {number} to {self._directory.toString()} at the same time, and this one's "
            "rows would be missing: let one pipeline write to a directory, and take a new checkpoint and a new directory for "
            "the other one"
        )
