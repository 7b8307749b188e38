"""Kafka for PySpark: `format("pykafka")`, a data source and sink in Python that needs no connector jar.

PySpark finds it by itself where this package is installed (through `pyspark_pykafka`); a checkout that is not installed
registers it: ``spark.dataSource.register(KafkaDataSource)``.
"""

from pykafka.spark.errors import DataLossError, OptionError, PollTimeoutError, SinkError
from pykafka.spark.source import KafkaDataSource

__all__ = ["DataLossError", "KafkaDataSource", "OptionError", "PollTimeoutError", "SinkError"]
