"""Kafka for PySpark: `format("pykafka")`, a data source and sink in Python that needs no connector jar.

PySpark finds it by itself where this package is installed (through `pyspark_pykafka`); a checkout that is not installed
registers it: ``spark.dataSource.register(KafkaDataSource)``.

Where nobody has said which Python Spark's workers run, importing this package before Spark is started has them run the
driver's own (PYSPARK_PYTHON), and not the ``python3`` of the PATH.
"""

from pykafka.spark.errors import DataLossError, OptionError, PollTimeoutError, SinkError
from pykafka.spark.interpreter import offer_python
from pykafka.spark.source import KafkaDataSource

__all__ = ["DataLossError", "KafkaDataSource", "OptionError", "PollTimeoutError", "SinkError"]

offer_python()
