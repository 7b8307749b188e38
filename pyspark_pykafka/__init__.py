"""PySpark finds data sources in top-level modules named pyspark_*: this one gives it `format("pykafka")`."""

from pykafka.spark import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
