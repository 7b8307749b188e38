"""What the Spark source and sink raise beyond the client's own errors."""

from __future__ import annotations

from pykafka.exceptions import KafkaException


class OptionError(KafkaException, ValueError):
    """An option of `format("pykafka")` is missing, unknown, malformed or contradicts another."""


class DataLossError(KafkaException):
    """Records between the offsets that Spark asked for are no longer in Kafka, and failOnDataLoss is true."""


class OpenTransactionError(KafkaException):
    """Records are to be read as committed that lie behind the begin of a transaction that is open."""


class PollTimeoutError(KafkaException, TimeoutError):
    """A task got no records of its range within kafkaConsumer.pollTimeoutMs."""


class SinkError(KafkaException):
    """Rows cannot be written: a column, a value or a topic is not what Kafka takes."""
