"""The module by which PySpark finds `format("pykafka")`: it looks for data sources in top-level modules named pyspark_*."""

from pykafka.spark import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
