"""Spark Connect: a session sends this package to its Pythons, and registers a class there that finds it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from pykafka import _version
from pykafka.spark.arrival import FOLDER, prepare
from pykafka.spark.errors import PackageMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class ArrivingSource(DataSource):
    """`format("pykafka")` if Pythons of Spark have this package only in an archive of the session.

    It travels by value, and hands everything to `KafkaDataSource`, which it finds there.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(dict(options))
        self._source()

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "pykafka"

    def _source(self) -> DataSource:
        prepare(self.version, self.__dict__.get("_origin", ""))
        # That of the Python that this runs in, which is not the one that has pickled the class.
        from pykafka.spark.shipping import origin
        from pykafka.spark.source import KafkaDataSource

        # A process on the same machine that does not start in the session's directory finds the archive by this.
        self._origin = origin()
        return KafkaDataSource(self.options)

    #: Of this package in the Python that registers the class.
    version = _version.__version__

    def schema(self) -> Any:
        """Return the columns; the same as in `KafkaDataSource`, as all below."""
        return self._source().schema()

    def reader(self, schema: StructType) -> Any:
        """Return the reader of a batch."""
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        """Return the reader of a stream."""
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Return the writer of a batch."""
        return self._source().writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        """Return the writer of a stream."""
        return self._source().streamWriter(schema, overwrite)


# Pythons that do not have this package unpickle the class.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def ship(spark: SparkSession, archive: str | Path) -> None:
    """Send this package to the Pythons of a session of Spark Connect, and register the format there.

    The Pythons need pyarrow, which Spark's planner imports before it takes anything from a session.

    :param spark: the session
    :param archive: made by `kafka-tools spark-pack`, with this version of the package, for the Python of the server and its
        executors
    :raises PackageMissingError: there is no such archive
    """
    path = Path(archive)
    if not path.is_file():
        raise PackageMissingError(f"there is no archive {path}: make it with `kafka-tools spark-pack -o {path}`")
    spark.addArtifacts(f"{path.resolve()}#{FOLDER}", archive=True)
    spark.dataSource.register(ArrivingSource)
