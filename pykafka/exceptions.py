"""All errors, as one tree.

    KafkaException
      ConsumerStoppedException
        NoPartitionsForConsumerException
      ProducerStoppedException
      ClientClosedError
      NoMessagesConsumedError
      OffsetRequestFailedError
      OffsetResetNeededError
      DeserializationError
      OffsetsNotCommitted
      PartitionOwnedError
      ZooKeeperError
      ProduceFailureError
        MessagesNotDelivered
        DeliveryUnknownError
      ProducerQueueFullError
      LeaderNotFoundError
      NoBrokersAvailableError
      MessageSetDecodeFailure
      CodecNotAvailableError
      FieldNotAvailableError
      FieldValueError                        (also ValueError)
      SocketDisconnectedError
        ConnectionRefused
        NameResolutionError
        ConnectTimeoutError                  (also TimeoutError)
        TlsError
        NotKafkaError
        CorrelationIdError
        FrameTooLargeError
      ResponseTimeoutError                   (also TimeoutError)
        IncompleteResponseError
      ThrottledError
      WorkerNotStartedError                  (also RuntimeError)
      CorruptResponseError
      RdKafkaException
        RdKafkaStoppedException
      ProtocolClientError                    what a broker answers by number: one class a code, in pykafka.errors.codes
        UnknownError                         -1
          UnknownErrorCode                   a number that is not known here
        OffsetOutOfRangeError, InvalidMessageError, UnknownTopicOrPartition, ...
    UnicodeException                         no KafkaException, as ever

Old spellings are the same classes: ConsumerCoordinatorNotAvailable is GroupCoordinatorNotAvailable,
NotCoordinatorForConsumer is NotCoordinatorForGroup, OffsetsLoadInProgress is GroupLoadInProgress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Everything of both is public here, for type checkers too.
from pykafka.errors.base import *  # noqa: F403
from pykafka.errors.base import KafkaException
from pykafka.errors.codes import *  # noqa: F403
from pykafka.errors.codes import GroupCoordinatorNotAvailable, GroupLoadInProgress, NotCoordinatorForGroup


class ConsumerStoppedException(KafkaException):
    """Tell that a stopped consumer was asked for messages: start it, or make a new one."""


class NoPartitionsForConsumerException(ConsumerStoppedException):
    """Tell that the group has more consumers than the topic has partitions; kept for old `except` clauses."""


class ProducerStoppedException(KafkaException):
    """Tell that a stopped producer was given a message: start it, or make a new one."""


class ClientClosedError(KafkaException):
    """Tell that the client was closed: make a new KafkaClient."""


class NoMessagesConsumedError(KafkaException):
    """Tell that no message came within the time to wait for one."""


class OffsetRequestFailedError(KafkaException):
    """Tell that offsets could not be had from the brokers, after all retries."""


class OffsetResetNeededError(KafkaException):
    """Tell that a partition cannot be read from where the consumer stands, and `auto_offset_reset="none"` moves nothing.

    :param offset: where it stands; None where nothing is committed, and nobody has said where to begin
    :param earliest: the first offset there is; None where that could not be found out
    :param latest: the one behind the last
    :param context: as for KafkaException
    """

    def __init__(
        self, offset: int | None = None, earliest: int | None = None, latest: int | None = None, **context: Any
    ) -> None:
        self.offset = offset
        self.earliest = earliest
        self.latest = latest
        what = "nothing is committed" if offset is None else f"offset {offset} is not there (any more)"
        there = "" if earliest is None else f", the partition has {earliest} to {latest}"
        super().__init__(
            f'{what}{there}, and auto_offset_reset is "none": say where to go on, by seek() or reset_offsets()',
            **context,
        )


class DeserializationError(KafkaException):
    """Tell that the consumer's `deserializer` failed at a message; `__cause__` is what it raised.

    The message counts as handed out with the next call, which goes on behind it. Key and value are not in the text, as
    they may be secret.

    :param text: what happened and what to do
    :param offset: of the message
    :param value: as it was sent
    :param partition_key: likewise
    :param context: as for KafkaException
    """

    def __init__(
        self, text: str, offset: int, value: bytes | None, partition_key: bytes | None, **context: Any
    ) -> None:
        self.offset = offset
        self.value = value
        self.partition_key = partition_key
        super().__init__(text, **context)


class OffsetsNotCommitted(KafkaException):
    """Tell that offsets were not committed.

    :param text: what happened and what to do
    :param failures: {(topic, partition): offset that was not committed}
    :param context: as for KafkaException
    """

    #: Partitions that the text names.
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


class PartitionOwnedError(KafkaException):
    """Tell that another consumer of the group has the partition.

    :param partition: that one; `.partition` has it
    :param args: as for KafkaException
    :param context: as for KafkaException
    """

    partition: Any

    def __init__(self, partition: Any, *args: Any, **context: Any) -> None:
        super().__init__(*args, **{**context, "partition": partition})


class ZooKeeperError(KafkaException):
    """Tell that ZooKeeper, through which a group is balanced, could not be reached or asked."""

    retriable = True


class ProduceFailureError(KafkaException):
    """Tell that messages could not be produced."""


class MessagesNotDelivered(ProduceFailureError):
    """Tell which messages were not acknowledged: nothing is dropped silently.

    :param topic: they were meant for
    :param failures: (message, error) pairs
    :param context: as for KafkaException
    """

    #: Different reasons that the text spells out.
    REASONS_SHOWN = 3

    def __init__(self, topic: str, failures: Sequence[tuple[Any, Exception]], **context: Any) -> None:
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
    """Tell that messages of an idempotent producer were given up while the broker may have them; `__cause__` says why.

    Sending them again may store them twice: read the partition first where that matters.
    """


class IdempotenceLostError(KafkaException):
    """Tell that a broker takes no sequence numbers, which messages have: without, some might be stored twice."""

    retriable = True
    invalid_metadata = True


class ProducerQueueFullError(KafkaException):
    """Tell that the producer's queue is full, where it was told not to wait for room."""

    retriable = True


class LeaderNotFoundError(KafkaException):
    """Tell that no leader of a partition is known."""

    retriable = True
    invalid_metadata = True


class NoBrokersAvailableError(KafkaException):
    """Tell that no broker could be reached; `.ledger` has each attempt."""

    retriable = True


class MessageSetDecodeFailure(KafkaException):
    """Tell that messages could not be read, as one larger than `fetch_message_max_bytes`."""


class CodecNotAvailableError(KafkaException):
    """Tell that messages are compressed with a codec whose package is not installed, or that nobody has."""


class FieldNotAvailableError(KafkaException):
    """Tell that a request asks for something that the version to be sent cannot express."""


class FieldValueError(KafkaException, ValueError):
    """Tell that a value does not fit into its field of a request."""


class SocketDisconnectedError(KafkaException):
    """Tell that a connection was lost, or could not be made."""

    retriable = True
    invalid_metadata = True


class ConnectionRefused(SocketDisconnectedError):
    """Tell that nothing listens at that address, or that it cannot be reached."""


class NameResolutionError(SocketDisconnectedError):
    """Tell that a broker's host name has no address."""


class ConnectTimeoutError(SocketDisconnectedError, TimeoutError):
    """Tell that a connection could not be made in time."""


class TlsError(SocketDisconnectedError):
    """Tell that TLS could not be agreed on with a broker, or that its certificate is not trusted."""

    retriable = False


class NotKafkaError(SocketDisconnectedError):
    """Tell that what answers at that address is no Kafka listener: an HTTP server, or a TLS port spoken to in plain."""

    retriable = False


class CorrelationIdError(SocketDisconnectedError):
    """Tell that an answer does not belong to the request that was to be answered; the connection is of no use then."""


class FrameTooLargeError(SocketDisconnectedError):
    """Tell that an answer claims to be larger than this client allows."""

    retriable = False


class ResponseTimeoutError(KafkaException, TimeoutError):
    """Tell that there was no answer, or no end of what was waited for, in time."""

    retriable = True


class IncompleteResponseError(ResponseTimeoutError):
    """Tell that a broker's answer leaves out something that it was asked for: what became of it is not known.

    :param what: that
    :param context: as for KafkaException
    """

    def __init__(self, what: str = "partition", **context: Any) -> None:
        super().__init__(f"the broker's answer left this {what} out", **context)


class ThrottledError(KafkaException):
    """Tell that a request was not sent, since the broker throttles this client: ask for a larger quota, or be slower."""

    retriable = True


class WorkerNotStartedError(KafkaException, RuntimeError):
    """Tell that the system starts no thread at present: raise its limits (`ulimit -u`, a container's pids), or end others."""

    retriable = True


class CorruptResponseError(KafkaException):
    """Tell that an answer cannot be read: it is cut off, or no such message at all."""


class RdKafkaException(KafkaException):
    """Tell that librdkafka reports an error."""


class RdKafkaStoppedException(RdKafkaException):
    """Tell that a stopped librdkafka client was used."""


class UnicodeException(Exception):
    """Tell that text was wanted as bytes, or the other way round."""


ConsumerCoordinatorNotAvailable = GroupCoordinatorNotAvailable
NotCoordinatorForConsumer = NotCoordinatorForGroup
OffsetsLoadInProgress = GroupLoadInProgress
