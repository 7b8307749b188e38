"""Errors of the Spark source and sink, besides the client's own errors."""

from __future__ import annotations

from pykafka.exceptions import KafkaException, TopicRecreatedError


class OptionError(KafkaException, ValueError):
    """An option of `format("pykafka")` is missing, unknown, malformed or contradicts another."""


class UnresolvedReferenceError(OptionError):
    """A reference in an option (`${env:NAME}`, `${file:/path}`) leads nowhere in the process that needs its value."""


class DataLossError(KafkaException):
    """Records between the offsets that Spark asked for are no longer in Kafka, and failOnDataLoss is true."""


class RecreatedTopicError(TopicRecreatedError, DataLossError):
    """A topic was deleted and recreated while a query or task read it, and failOnDataLoss is true; `.old_id`, `.new_id`."""


class OpenTransactionError(KafkaException):
    """Records that a read must return as committed lie behind the start of an open transaction."""


class PollTimeoutError(KafkaException, TimeoutError):
    """A task got no records of its range within kafkaConsumer.pollTimeoutMs."""


class SinkError(KafkaException):
    """Rows cannot be written: Kafka does not accept a column, a value or a topic."""


class PrefixInUseError(SinkError):
    """Another query, or something else, uses the transactionalIdPrefix of a write."""


class FencedWriteError(SinkError):
    """Another run of the query, or another query with its transactionalIdPrefix, has begun: this one writes no more."""


class EpochRecordMissingError(SinkError):
    """Kafka has no record of whether a micro-batch is committed; transactionsFrom says that it is not."""


class StaleCheckpointError(SinkError):
    """The checkpoint of a query is older than the micro-batches that the query has committed to Kafka."""


class EpochMismatchError(SinkError):
    """A part of a micro-batch was lost after it was decided on, and the rows to repeat are not the same."""


class UnknownOutcomeError(SinkError):
    """Brokers no longer know whether a transaction of a micro-batch was committed."""


class PackageMissingError(KafkaException, ImportError):
    """The Python of Spark's planner or of a worker lacks a package; the text names it, the host and the interpreter."""


class ShippedVersionError(KafkaException):
    """A worker's Python has another version of this package than the driver's, so it cannot take its objects."""
