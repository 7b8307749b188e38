"""All errors of the library, as one tree::

    KafkaException
      ConsumerStoppedException
        NoPartitionsForConsumerException
      ProducerStoppedException
      ClientClosedError
      NoMessagesConsumedError
      OffsetRequestFailedError
      OffsetResetNeededError
        LogTruncationError
      DeserializationError
      SerializationError
      DeadLetterError
      RecordNotHandledError
      OffsetsNotCommitted
      PartitionOwnedError
      ZooKeeperError
      ProduceFailureError
        MessagesNotDelivered
        DeliveryUnknownError
      ProducerQueueFullError
      LeaderNotFoundError
      TopicNotFoundError                     (also KeyError)
      TopicRecreatedError
      NoBrokersAvailableError
      MessageSetDecodeFailure
      CodecNotAvailableError
      FieldNotAvailableError
      FieldValueError                        (also ValueError)
      ConfigurationError                     (also ValueError)
      SocketDisconnectedError
        ConnectionRefused
        NameResolutionError
        ConnectTimeoutError                  (also TimeoutError)
        ProxyError
        WrongBrokerError
          ForeignClusterError
        TlsError
        NotKafkaError
        CorrelationIdError
        FrameTooLargeError
      ResponseTimeoutError                   (also TimeoutError)
        IncompleteResponseError
      TelemetryUnavailableError
      ThrottledError
      SaslRequiredError
      TokenUnavailableError
        TokenTimeoutError
      RegistryError
        RegistryUnavailableError
        SchemaNotFoundError
      SchemaError                            (also ValueError)
      IdempotenceLostError
      TransactionError
        TransactionStateError
        TransactionAbortableError
        TransactionAbortedError
        TransactionUnfinishedError
        TransactionOutcomeUnknownError
        TransactionFatalError
          ProducerFencedError
      AdminError
      WorkerNotStartedError                  (also RuntimeError)
      PatchedTooLateError                    (also RuntimeError)
      UnnoticedForkError                     (also RuntimeError)
      WouldBlockError                        (also RuntimeError)
      CorruptResponseError                   (also struct.error)
      RdKafkaException
        RdKafkaStoppedException
        ProtocolClientError                    an error code of a broker: one class per code, in pykafka.errors.codes
        UnknownError                         -1
                UnknownErrorCode                   a code that this client does not know
        InvalidMessageError                    2
          UnpackedTooLargeError
        OffsetOutOfRangeError, UnknownTopicOrPartition, ...
    UnicodeException                         no KafkaException, as in PyKafka 2

Old spellings are the same classes: ConsumerCoordinatorNotAvailable is GroupCoordinatorNotAvailable,
NotCoordinatorForConsumer is NotCoordinatorForGroup, OffsetsLoadInProgress is GroupLoadInProgress.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

# This module re-exports everything of these, for type checkers too.
from pykafka.errors.base import *  # noqa: F403
from pykafka.errors.base import KafkaException
from pykafka.errors.client import *  # noqa: F403
from pykafka.errors.codes import *  # noqa: F403
from pykafka.errors.codes import (
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    InvalidMessageError,
    NotCoordinatorForGroup,
)


class ConsumerStoppedException(KafkaException):
    """Raised when a stopped consumer is asked for messages. Start it, or create a new one."""


class NoPartitionsForConsumerException(ConsumerStoppedException):
    """Raised when a group has more consumers than the topic has partitions; kept for old `except` clauses."""


class ProducerStoppedException(KafkaException):
    """Raised when a stopped producer is given a message. Start it, or create a new one."""


class ClientClosedError(KafkaException):
    """Raised when a closed client is used. Create a new KafkaClient."""


class NoMessagesConsumedError(KafkaException):
    """Raised when no message arrives before the deadline."""


class OffsetRequestFailedError(KafkaException):
    """Raised when the brokers do not return offsets after all retries."""


class OffsetResetNeededError(KafkaException):
    """Raised when the consumer's position cannot be read and `auto_offset_reset="none"` forbids a reset.

    :param offset: the consumer's position; None if the group committed nothing and the caller gave no position
    :param earliest: the partition's first offset; None if it is unknown
    :param latest: the offset after the partition's last message
    :param context: as for KafkaException
    """

    def __init__(
        self, offset: int | None = None, earliest: int | None = None, latest: int | None = None, **context: Any
    ) -> None:
        self.offset = offset
        self.earliest = earliest
        self.latest = latest
        there = "" if earliest is None else f", the partition has {earliest} to {latest}"
        super().__init__(
            f'{self._what()}{there}, and auto_offset_reset ("none", "raise") forbids a reset: choose the next offset by seek()',
            **context,
        )

    def _what(self) -> str:
        return "nothing is committed" if self.offset is None else f"offset {self.offset} is not there (any more)"


class LogTruncationError(OffsetResetNeededError):
    """Raised when records that the consumer has read are lost, and `auto_offset_reset="none"` forbids a reset.

    An unclean leader election does that: the new leader lacks records, and may have others at their offsets.

    :param offset: the consumer's position
    :param divergent_offset: the offset from which on the leader's log is another one; None if the broker does not know
    :param earliest: the partition's first offset; None if it is unknown
    :param latest: the offset after the partition's last message
    :param context: as for KafkaException
    """

    def __init__(
        self,
        offset: int | None,
        divergent_offset: int | None,
        earliest: int | None = None,
        latest: int | None = None,
        **context: Any,
    ) -> None:
        self.divergent_offset = divergent_offset
        super().__init__(offset, earliest, latest, **context)

    def _what(self) -> str:
        if self.divergent_offset is None:
            return f"the leader's log does not have the records before offset {self.offset} that were read (any more)"
        return (
            f"offsets {self.divergent_offset} to {(self.offset or 0) - 1} were read and are lost: the leader's log differs "
            f"from offset {self.divergent_offset} on, as after an unclean leader election"
        )


class RecordNotHandledError(KafkaException):
    """Raised when a record of parallel work failed for good; `__cause__` is what `handle()` raised.

    :param text: what happened and what to do
    :param offset: of the record
    :param attempts: how often it was handled
    :param context: as for KafkaException
    """

    attempts: int = 0

    def __init__(self, text: str, offset: int, attempts: int, **context: Any) -> None:
        self.offset = offset
        self.attempts = attempts
        super().__init__(text, **context)


class OffsetsNotCommitted(KafkaException):
    """Raised when offsets could not be committed; `.failures` lists them.

    :param text: what happened and what to do
    :param failures: {(topic, partition): offset that was not committed}
    :param context: as for KafkaException
    """

    #: The text lists so many partitions.
    PARTITIONS_SHOWN = 20

    def __init__(self, text: str, failures: Mapping[tuple[str, int], Any], **context: Any) -> None:
        self.failures = dict(failures)
        shown = [
            f"{topic}/{partition} at {getattr(offset, 'offset', offset)}"
            for (topic, partition), offset in sorted(self.failures.items())[: self.PARTITIONS_SHOWN]
        ]
        more = len(self.failures) - len(shown)
        told = ", ".join(shown) + (f" and {more} more" if more else "")
        super().__init__(f"{text}; not committed: {told}" if told else text, **context)


class ShareLostError(OffsetsNotCommitted):
    """Raised when the coordinator refuses a commit because the member that read the messages is out of its group.

    Other members may read them again. Parameters and `.failures` as of OffsetsNotCommitted.
    """


class PartitionOwnedError(KafkaException):
    """Raised when another consumer of the group owns the partition.

    :param partition: that partition; also in `.partition`
    :param args: as for KafkaException
    :param context: as for KafkaException
    """

    partition: Any

    def __init__(self, partition: Any, *args: Any, **context: Any) -> None:
        super().__init__(*args, **{**context, "partition": partition})

    def _state(self) -> dict[str, Any]:
        # A `Partition` belongs to the client of this process: another one has its number.
        return super()._state() | {"partition": getattr(self.partition, "id", self.partition)}


class ZooKeeperError(KafkaException):
    """Raised when the client cannot reach or query ZooKeeper, which coordinates the group."""

    retriable = True


class ProduceFailureError(KafkaException):
    """Base of errors about messages that could not be produced."""


class MessagesNotDelivered(ProduceFailureError):
    """Raised with the messages that no broker acknowledged. The client never drops messages silently.

    :param topic: the messages' topic; None where they are for several
    :param failures: (message, error) pairs
    :param context: as for KafkaException
    """

    #: The text lists so many different reasons.
    REASONS_SHOWN = 3

    def __init__(self, topic: str | None, failures: Sequence[tuple[Any, Exception]], **context: Any) -> None:
        self.failures = list(failures)
        super().__init__(self._tell(self.failures), topic=topic, **context)

    @classmethod
    def _tell(cls, failures: Sequence[tuple[Any, Exception]]) -> str:
        counts: dict[str, int] = {}
        for _, error in failures:
            reason = f"{type(error).__name__}: {error}"
            counts[reason] = counts.get(reason, 0) + 1
        shown = sorted(counts.items(), key=lambda item: -item[1])[: cls.REASONS_SHOWN]
        reasons = "; ".join(f"{count} by {reason}" for reason, count in shown)
        more = f"; and {len(counts) - len(shown)} reasons more" if len(counts) > len(shown) else ""
        text = f"{len(failures)} messages were not acknowledged and may be lost; `.failures` lists them"
        return f"{text} ({reasons}{more})"


class DeliveryUnknownError(ProduceFailureError):
    """Raised when an idempotent producer gives up messages that the broker may have stored; `__cause__` has the reason.

    If you send them again, the broker may store them twice; if that matters, read the partition first.
    """


class IdempotenceLostError(KafkaException):
    """Raised when a broker does not support the sequence numbers that messages already have: it could store them twice."""

    retriable = True
    invalid_metadata = True


class ProducerQueueFullError(KafkaException):
    """Raised when the producer's queue is full and `block_on_queue_full` is False."""

    retriable = True


class ProducerPurgedError(KafkaException):
    """The error of a message that `purge()` dropped before it was sent."""


class OnDeliveryError(KafkaException):
    """Raised by `flush()` and `close()` when functions given as `on_delivery` have raised; `__cause__` is the first error.

    The messages themselves are settled. Each such error was logged, with topic, partition and offset.

    :param text: what happened
    :param count: how many calls have raised
    :param context: as for KafkaException
    """

    def __init__(self, text: str, count: int, **context: Any) -> None:
        super().__init__(text, **context)
        self.count = count


class LeaderNotFoundError(KafkaException):
    """Raised when the client knows no leader of a partition."""

    retriable = True
    invalid_metadata = True


class TopicNotFoundError(KafkaException, KeyError):
    """Raised when `client.topics[name]` finds no topic. Create the topic, or correct the name.

    :param args: a sentence that says what happened and what to do
    :param similar: an existing topic with nearly the same name; None if there is none
    :param context: as for KafkaException
    """

    def __init__(self, *args: Any, similar: str | None = None, **context: Any) -> None:
        super().__init__(*args, **context)
        self.similar = similar


class TopicRecreatedError(KafkaException):
    """Raised when a topic was deleted and recreated, and the caller wanted no other topic under its name.

    :param text: what happened and what to do
    :param old_id: the id of the topic that is gone
    :param new_id: the id of the topic that has its name now; None if it is not known
    :param context: as for KafkaException
    """

    def __init__(self, text: str, old_id: UUID | None = None, new_id: UUID | None = None, **context: Any) -> None:
        super().__init__(text, **context)
        self.old_id = old_id
        self.new_id = new_id


class NoBrokersAvailableError(KafkaException):
    """Raised when no broker can be reached; `.attempts` lists each attempt."""

    retriable = True


class MessageSetDecodeFailure(KafkaException):
    """Raised when messages cannot be read, for example one larger than `fetch_message_max_bytes`."""


class CodecNotAvailableError(KafkaException):
    """Raised when the package for a compression codec is not installed, or the codec is unknown."""


class UnpackedTooLargeError(InvalidMessageError):
    """Raised when a compressed batch would unpack to more than the consumer allows: it is not unpacked.

    Raise the option that the text names, or go on behind the batch by `seek()`: `.next_offset` says where.

    :param codec: the name of its compression
    :param limit: what a batch may unpack to (bytes)
    :param unpacked: what it unpacks to (bytes); None if only an attempt would show
    :param context: as for KafkaException
    """

    retriable = False
    #: The name of the option that limits it.
    option: str = "unpacked_max_bytes"
    #: The first offset of the batch; of message formats 0 and 1 the last one. -1 if it is unknown.
    offset: int = -1
    #: The offset behind the batch; -1 if it is unknown.
    next_offset: int = -1
    #: The size of the batch as it was fetched (bytes); 0 if it is unknown.
    size: int = 0

    def __init__(self, codec: str, limit: int, unpacked: int | None = None, **context: Any) -> None:
        super().__init__(**context)
        self.codec = codec
        self.limit = limit
        self.unpacked = unpacked

    @property
    def text(self) -> str:
        """The error's sentence, without the context."""
        batch = "data" if self.offset < 0 else f"the batch at offsets {self.offset} to {self.next_offset - 1}"
        size = f" of {self.size:,} bytes" if self.size else ""
        unpacked = f"{self.unpacked:,} bytes" if self.unpacked is not None else f"more than {self.limit:,} bytes"
        behind = "" if self.offset < 0 else f", or go on behind the batch at offset {self.next_offset}"
        return (
            f"{batch}{size}, compressed with {self.codec}, unpacks to {unpacked}, and {self.option} allows {self.limit:,} "
            f"bytes: raise it{behind}"
        )


class FieldNotAvailableError(KafkaException):
    """Raised when a request uses a field that its version does not have."""


class FieldValueError(KafkaException, ValueError):
    """Raised when a value does not fit into its field of a request."""


class ConfigurationError(KafkaException, ValueError):
    """Raised when a configuration file, mapping or environment variable has a key or value that cannot be used."""


class RegistryError(KafkaException):
    """Raised when a schema registry refuses a request, or answers what no registry does."""

    #: The status of the HTTP answer that refuses; None if the error is another one.
    status: int | None = None


class RegistryUnavailableError(RegistryError):
    """Raised when a schema registry did not answer in time, however often it was asked."""

    retriable = True
    #: How long the registry has asked to wait (s); 0 if it did not.
    retry_after_s: float = 0.0


class SchemaNotFoundError(RegistryError):
    """Raised when a schema registry has no schema of this id, or no such subject or version."""


class SchemaError(KafkaException, ValueError):
    """Raised when a schema is none of its format, or has what cannot be read or written here."""


class AdminError(KafkaException):
    """Raised when a call of `client.admin` was given several items, and some of them failed.

    The brokers have done what was asked for the other items. A call for one item raises that item's own error instead.

    :param results: the outcome of each item; `.errors` lists those that failed
    """

    #: The text lists so many items.
    ITEMS_SHOWN = 5

    def __init__(self, results: Any) -> None:
        self.results = results
        #: {item: error} of the items that failed.
        self.errors: dict[Any, KafkaException] = dict(results.errors)
        told = [f"{item}: {error}" for item, error in list(self.errors.items())[: self.ITEMS_SHOWN]]
        more = len(self.errors) - len(told)
        super().__init__(
            f"{len(self.errors)} of {len(self.errors) + len(results)} items failed; `.errors` lists them, `.results` has all "
            f"({'; '.join(told)}{f'; and {more} more' if more else ''})"
        )


class WorkerNotStartedError(KafkaException, RuntimeError):
    """Raised when the system starts no thread. Raise its limits (`ulimit -u`, a container's pids), or end other threads."""

    retriable = True


class PatchedTooLateError(KafkaException, RuntimeError):
    """Raised when gevent.monkey or eventlet patched this process after its client was made, with real threads and locks."""


class UnnoticedForkError(KafkaException, RuntimeError):
    """Raised when this process was forked without Python's hook for forks, so that a client of the parent cannot work in it."""


class WouldBlockError(KafkaException, RuntimeError):
    """Raised when a call would block an event loop: make it with `await`, on the objects of `pykafka.aio`."""


class CorruptResponseError(KafkaException, struct.error):
    """Raised when a response cannot be decoded: it is cut off, or is not such a message."""


class RdKafkaException(KafkaException):
    """Raised when librdkafka reports an error."""


class RdKafkaStoppedException(RdKafkaException):
    """Raised when a stopped librdkafka client is used."""


class UnicodeException(Exception):
    """Raised when text is given in place of bytes, or bytes in place of text."""


ConsumerCoordinatorNotAvailable = GroupCoordinatorNotAvailable
NotCoordinatorForConsumer = NotCoordinatorForGroup
OffsetsLoadInProgress = GroupLoadInProgress
