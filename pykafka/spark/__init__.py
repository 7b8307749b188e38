"""Kafka for PySpark: `format("pykafka")`, a data source and sink in Python that needs no connector jar.

PySpark finds the format automatically if this package is installed (through `pyspark_pykafka`). A checkout that is not
installed registers it: ``spark.dataSource.register(KafkaDataSource)``. A server of Spark Connect that lacks the package
gets it with the session: ``ship(spark, "pykafka.tar.gz")``.

If nothing sets the Python of Spark's workers, an import of this package before Spark starts sets it to the driver's own
(PYSPARK_PYTHON), instead of the ``python3`` of the PATH.
"""

from pykafka.spark.errors import (
    DataLossError,
    OpenTransactionError,
    OptionError,
    PackageMissingError,
    PollTimeoutError,
    RecreatedTopicError,
    ShippedVersionError,
    SinkError,
    UnresolvedReferenceError,
)
from pykafka.spark.pythons import offer_python

try:
    from pykafka.spark.connect import ship
    from pykafka.spark.source import KafkaDataSource
except ModuleNotFoundError as error:
    if error.name != "pyspark.sql.datasource":
        raise
    import sys

    from pyspark import __version__

    raise PackageMissingError(
        f"format('pykafka') needs PySpark 4.0 or later, and {sys.executable} has {__version__}: "
        "pip install 'pyspark>=4'"
    ) from error

__all__ = [
    "DataLossError",
    "KafkaDataSource",
    "OpenTransactionError",
    "OptionError",
    "PackageMissingError",
    "PollTimeoutError",
    "RecreatedTopicError",
    "ShippedVersionError",
    "SinkError",
    "UnresolvedReferenceError",
    "ship",
]

offer_python()
