"""Directories as Spark sees them, on local disks or any file system of Hadoop."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from pykafka.spark.pipeline.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The log of Spark's file sink with the files of each micro-batch.
SINK_LOG = "_spark_metadata"


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise what a file system of Hadoop says as a StorageError."""
    try:
        yield
    except Py4JJavaError as error:
        raise StorageError(str(error.java_exception.toString()).strip()) from error


class Storage:
    """Access to directories: lists them, and tests whether they are writable.

    :param spark: the session whose file systems are used
    """

    def __init__(self, spark: SparkSession) -> None:
        # Spark's public API lacks this; sessions of Spark Connect have no JVM at hand.
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """Return whether a path exists.

        :raises StorageError: the file system does not respond
        """
        return bool(self._asked(path, lambda system, at: system.exists(at)))

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; [] if there is none; errors as in `exists`."""

        def look(system: Any, at: Any) -> list[str]:
            if not system.exists(at):
                return []
            return [status.getPath().getName() for status in system.listStatus(at)]

        found: list[str] = self._asked(path, look)
        return found

    def last_number(self, path: str) -> int | None:
        """Return the highest number among the names in a directory; None if there is none; errors as in `exists`."""
        # Now and then the sink compacts several entries into one, as "9.compact".
        numbers = [int(name.partition(".")[0]) for name in self.names(path) if re.fullmatch(r"\d+(\.compact)?", name)]
        return max(numbers, default=None)

    def qualified(self, path: str) -> str:
        """Return a path as a whole URL; errors as in `exists`."""
        return str(self._asked(path, lambda _system, at: at.toString()))

    def read(self, path: str) -> str | None:
        """Return the text of a small file; None if there is none; errors as in `exists`."""

        def content(system: Any, at: Any) -> str | None:
            if not system.exists(at):
                return None
            with closing(system.open(at)) as stream:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))

        found: str | None = self._asked(path, content)
        return found

    def write(self, path: str, text: str) -> None:
        """Write a small file, in place of one that is there: it is whole, or not there at all; errors as in `exists`."""

        def put(system: Any, at: Any) -> None:
            beside = self._jvm.org.apache.hadoop.fs.Path(at.getParent(), f".pykafka-{uuid.uuid4().hex}")
            with closing(system.create(beside, False)) as stream:
                stream.write(text.encode())
            system.delete(at, False)
            if not system.rename(beside, at):
                raise StorageError(f"{at.toString()} cannot be written")

        self._asked(path, put)

    def mounted(self, path: str) -> str:
        """Return the path of a directory as programs on this machine know it.

        :raises StorageError: it is on a file system of Hadoop that is not mounted; the file system does not respond
        """
        at = self._asked(path, lambda _, at: at)
        scheme = at.toUri().getScheme()
        if scheme != "file":
            raise StorageError(
                f'{path} is on {scheme}:, and with writer = "arrow" tasks write to a directory that is mounted, as file:/path: '
                "remove writer, and Spark writes the files"
            )
        return str(at.toUri().getPath())

    def try_writing(self, path: str) -> None:
        """Write a file to a directory, or to its nearest existing parent, and delete it again.

        :raises StorageError: writing fails
        """

        def probe(system: Any, at: Any) -> None:
            above = next(one for one in _upwards(at) if system.exists(one))
            if not system.getFileStatus(above).isDirectory():
                raise StorageError(f"{above.toString()} is no directory")
            file = self._jvm.org.apache.hadoop.fs.Path(above, f".pykafka-{uuid.uuid4().hex}")
            system.create(file, False).close()
            system.delete(file, False)

        self._asked(path, probe)

    def _asked(self, path: str, ask: Any) -> Any:
        with storage_errors():
            at = self._jvm.org.apache.hadoop.fs.Path(path)
            system = at.getFileSystem(self._conf)
            return ask(system, system.makeQualified(at))


def _upwards(path: Any) -> Iterator[Any]:
    while path is not None:
        yield path
        path = path.getParent()
