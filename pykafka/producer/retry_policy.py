"""The retries of Produce: the meaning of each error as a table, and the pauses. No I/O.

Three questions are asked of each error. Is the cluster not ready, or is it about the messages? What waits for the cluster, or
for a login that it accepts, is bounded by the delivery timeout alone; what is about the messages counts against
`max_retries`. Is it certain that nothing was written? Where it is not, and nothing numbers the batches, each further try may
store them once more, so that it counts, too.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pykafka.exceptions import (
    ConcurrentTransactions,
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    KafkaException,
    KafkaStorageError,
    LeaderNotAvailable,
    LeaderNotFoundError,
    MessageSizeTooLarge,
    NetworkException,
    NoBrokersAvailableError,
    NotCoordinatorForGroup,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderForPartition,
    ProtocolClientError,
    RecordListTooLarge,
    ReplicaNotAvailable,
    RequestTimedOut,
    ResponseTimeoutError,
    SocketDisconnectedError,
    ThrottlingQuotaExceeded,
    TopicRecreatedError,
    TransactionError,
    UnknownError,
    UnknownTopicOrPartition,
)
from pykafka.network.authentication import LOGIN_ERRORS
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.options import ProducerOptions

#: Errors of a metadata request that another one may mend.
PASSING = (NoBrokersAvailableError, ResponseTimeoutError, LeaderNotFoundError)


class Kind(Enum):
    """The meaning of an error for the batch in question."""

    #: The cluster is not ready, and nothing was written.
    NOT_READY = "not ready"
    #: Another broker leads the partition, or will. What a leader has written that was deposed meanwhile may stay: once for
    #: each that was deposed, as the others refuse at once.
    MOVED = "moved"
    #: The cluster is not ready, or gone; it may have written the batch.
    OPEN = "open"
    #: It is about the batch, though it may pass.
    BATCH = "batch"
    #: The batch is too large: its parts may not be.
    TOO_LARGE = "too large"
    #: No sending again helps, and nothing was written.
    FINAL = "final"
    #: No sending again helps, and it may have been written.
    FINAL_OPEN = "final, open"


#: The kinds of errors; of an error whose class is not here, its nearest ancestor's. Last come those decided by
#: `retriable` and `invalid_metadata`.
KINDS: dict[type[KafkaException], Kind] = {
    NotEnoughReplicas: Kind.NOT_READY,
    ThrottlingQuotaExceeded: Kind.NOT_READY,
    NoBrokersAvailableError: Kind.NOT_READY,
    **dict.fromkeys(LOGIN_ERRORS, Kind.NOT_READY),
    # of InitProducerId
    GroupLoadInProgress: Kind.NOT_READY,
    GroupCoordinatorNotAvailable: Kind.NOT_READY,
    NotCoordinatorForGroup: Kind.NOT_READY,
    LeaderNotAvailable: Kind.MOVED,
    NotLeaderForPartition: Kind.MOVED,
    ReplicaNotAvailable: Kind.MOVED,
    UnknownTopicOrPartition: Kind.MOVED,
    KafkaStorageError: Kind.MOVED,
    NotEnoughReplicasAfterAppend: Kind.OPEN,
    RequestTimedOut: Kind.OPEN,
    NetworkException: Kind.OPEN,
    SocketDisconnectedError: Kind.OPEN,
    ResponseTimeoutError: Kind.OPEN,
    MessageSizeTooLarge: Kind.TOO_LARGE,
    RecordListTooLarge: Kind.TOO_LARGE,
    TopicRecreatedError: Kind.FINAL,
    TransactionError: Kind.FINAL,
    ConcurrentTransactions: Kind.NOT_READY,
    UnknownError: Kind.FINAL_OPEN,
}


def kind_of(error: KafkaException) -> Kind:
    """Return the meaning of an error for its batch."""
    found = next((KINDS[cls] for cls in type(error).__mro__ if cls in KINDS), None)
    if found is Kind.OPEN and not error.retriable:
        return Kind.BATCH  # as an answer larger than this client allows: the next one will be, too
    if found is not None:
        return found
    if error.invalid_metadata:
        return Kind.MOVED
    if error.retriable or not isinstance(error, ProtocolClientError):
        return Kind.BATCH
    return Kind.FINAL


def counts(kind: Kind, numbered: bool) -> bool:
    """Return whether an error counts against `max_retries`.

    :param kind: the error's
    :param numbered: whether the batch has sequence numbers, by which brokers store it once
    """
    return kind not in (Kind.NOT_READY, Kind.MOVED) and not (kind is Kind.OPEN and numbered)


def with_remark(error: KafkaException, remark: str) -> KafkaException:
    """Return the same error with a remark behind what happened."""
    restated = error.again()
    said = " ".join(str(arg) for arg in error.args) or getattr(error, "description", "")
    restated.args = (f"{said}; {remark}" if said else remark,)
    return restated


class RetryPolicy:
    """The pauses before a batch is sent again, and its bounds: age and number of attempts.

    :param handler: supplies clock and chance
    :param options: of the producer
    """

    def __init__(self, handler: Handler, options: ProducerOptions) -> None:
        self._handler = handler
        self._options = options
        self.backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, handler.random)

    def expires_at(self, batch: ProducerBatch) -> float:
        """Return when a batch expires (s of the handler's clock)."""
        return batch.created + self._options.delivery_timeout_s

    def expired(self, batch: ProducerBatch) -> bool:
        """Return whether a batch is as old as the delivery timeout; a try that fails at that very time was the last."""
        return self._handler.now() >= self.expires_at(batch)

    def back_off(self, batch: ProducerBatch) -> None:
        """Set the time of a batch's next attempt: later after each failure; the caller holds the lock."""
        now = self._handler.now()
        batch.failures += 1
        until = now + self.backoff.seconds(batch.failures)
        # its last try is when its time is over
        batch.retry_at = min(until, max(now, self.expires_at(batch)))

    def may_retry(self, batch: ProducerBatch, error: KafkaException) -> bool:
        """Count a failed attempt, and return whether the batch may be sent again."""
        batch.attempts += counts(kind_of(error), batch.in_flight.numbered)
        return not self.expired(batch) and batch.attempts <= self._options.max_retries

    def explained(self, batch: ProducerBatch, error: KafkaException) -> KafkaException:
        """Return the last error of a failed batch, with a remark about its attempts."""
        options = self._options
        late = self.expired(batch)
        bound = f"delivery_timeout_ms={options.delivery_timeout_ms}" if late else f"max_retries={options.max_retries}"
        remark = f"not delivered in {batch.failures} tries, within {bound}"
        return with_remark(error, remark).with_context(topic=batch.topic, partition=batch.partition_id)
