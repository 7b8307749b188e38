# ruff: noqa: N802 - the names of methods and arguments are Spark's
"""`KafkaDataSource`: the class behind `format("pykafka")`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark import __version__
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader

from pykafka.spark.columns import chosen, ddl
from pykafka.spark.errors import OptionError
from pykafka.spark.shipping import Shipped

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
    from pyspark.sql.types import StructType


# All else is imported on use: Spark imports this module to look any format's name up.


#: What Spark runs in the process that pickles the reader of a stream; another one has made the same reader, and keeps it.
_PICKLING = "pyspark.sql.worker.plan_data_source_read"
#: What it runs in the process that plans a write; another one makes the same writer to commit a micro-batch.
_PLANNING_WRITES = "pyspark.sql.worker.write_into_data_source"


def _is_in(module: str) -> bool:
    """Return whether this process is one of Spark's that run a module."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return module in sys.argv or (spec is not None and spec.name == module)


class KafkaDataSource(Shipped, DataSource):
    """Topics of Kafka as a source and a sink of DataFrames, in batches and in streams.

    Options are those of Spark's own Kafka connector; docs/spark.md lists them.

    :raises PackageMissingError: the Python in which Spark makes it, and which reads and writes, lacks a package
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        from pykafka.spark.pythons import need_all

        need_all()
        super().__init__(dict(options))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A task has a reader beside it, whose copy has the system acknowledge the rest of the task; planners get all at once.
        self.__dict__.update(state)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "pykafka"

    def schema(self) -> str:
        """Return the columns of a read without a schema of the user.

        :raises OptionError: an option that no kind of read accepts, so that load() already raises it
        """
        from pykafka.spark.options import check_read, includes_headers

        check_read(self.options)
        return ddl(includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch.

        :raises OptionError: names the wrong option or column
        """
        from pykafka.spark.batch import KafkaBatchReader
        from pykafka.spark.data_loss import warn
        from pykafka.spark.options import read_options
        from pykafka.spark.optiontable import INSPECTION, Mode

        if (tasks := self.options.get(INSPECTION)) is not None:
            from pykafka.spark.inspection import InspectionReader

            return InspectionReader(int(tasks))

        options, columns = read_options(self.options, Mode.BATCH_READ, warn), chosen(schema)
        if not options.push_down_filters:
            return KafkaBatchReader(options, columns)
        try:
            from pykafka.spark.filters import FilteringBatchReader
        except ImportError as error:
            raise OptionError(
                f"option 'pushDownFilters' needs PySpark 4.1 or later, and this is {__version__}: remove it"
            ) from error
        return FilteringBatchReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream; errors as in `reader`."""
        from pykafka.spark.data_loss import warn
        from pykafka.spark.options import read_options
        from pykafka.spark.optiontable import Mode
        from pykafka.spark.parquetfiles import INTO, ParquetFiles
        from pykafka.spark.pythons import limits_micro_batches

        given = dict(self.options)
        files = None if (text := given.pop(INTO, None)) is None else ParquetFiles.from_option(text)
        # Options without effect are reported once a query.
        report: Callable[[str], object] = (lambda _: None) if _is_in(_PICKLING) else warn
        options = read_options(given, Mode.STREAM_READ, report)
        columns = chosen(schema) if files is None else files.chosen(schema)
        if not limits_micro_batches():
            from pykafka.spark.stream41 import SelfLimitingStreamReader

            return SelfLimitingStreamReader(options, columns, files)
        from pykafka.spark.stream import KafkaStreamReader

        return KafkaStreamReader(options, columns, files)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch.

        :raises OptionError: names the wrong option
        :raises SinkError: names the wrong column, or the save mode
        """
        from pykafka.spark.data_loss import warn
        from pykafka.spark.options import write_options
        from pykafka.spark.optiontable import Mode
        from pykafka.spark.sink import KafkaBatchWriter, check_mode, check_schema

        options = write_options(self.options, Mode.BATCH_WRITE, warn)
        check_mode(overwrite)
        made = KafkaBatchWriter(options, check_schema(schema, options))
        if _is_in(_PLANNING_WRITES):
            made.plan()
        return made

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream; errors as in `writer`."""
        from pykafka.spark.options import write_options
        from pykafka.spark.optiontable import Mode
        from pykafka.spark.sink import KafkaStreamWriter, check_schema

        idle: list[str] = []
        options = write_options(self.options, Mode.STREAM_WRITE, idle.append)
        made = KafkaStreamWriter(options, check_schema(schema, options), tuple(idle))
        if _is_in(_PLANNING_WRITES):
            made.plan()
        return made
