"""`exactly_once`: read, apply a function, write, and commit both together; aborted records are handled again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    FencedMemberEpoch,
    IllegalGeneration,
    InvalidProducerEpoch,
    KafkaException,
    OutOfOrderSequenceNumber,
    RebalanceInProgress,
    StaleMemberEpoch,
    TransactionAbortable,
    TransactionAbortableError,
    TransactionUnfinishedError,
    UnknownError,
    UnknownMemberId,
    UnknownProducerId,
)
from pykafka.producer.producer_record import ProducerRecord
from pykafka.transactions.states import State, check_consumer
from pykafka.utils.backoff import Backoff
from pykafka.utils.contexts import entered

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.commit_calls import InTransaction
    from pykafka.record import Record
    from pykafka.transactions.transactions import Transactions

log = logging.getLogger(__name__)

#: The result of a function for one record.
Made = ProducerRecord[Any, Any] | Iterable[ProducerRecord[Any, Any]] | None
#: A message, and the context to produce it in; None for the present one.
MadeIn = tuple[Context | None, ProducerRecord[Any, Any]]
#: The most records of a transaction, unless the caller says otherwise.
MAX_RECORDS = 500
#: The pauses after a transaction has failed, the first and the longest (ms).
PAUSE_MS, PAUSE_MAX_MS = 50, 2000
#: The errors besides retriable ones that the next transaction may not meet.
RETRIABLE = (
    RebalanceInProgress,
    IllegalGeneration,
    UnknownMemberId,
    StaleMemberEpoch,
    FencedMemberEpoch,
    TransactionAbortable,
    InvalidProducerEpoch,
    OutOfOrderSequenceNumber,
    UnknownProducerId,
)


class TransactionRetries:
    """Decides which errors of transactions are retried, and after which pause.

    :param consumer: of a group, that reads committed messages
    :param producer: with transactions
    :raises TypeError, ValueError: they do not fit, by name
    """

    def __init__(self, consumer: Any, producer: Any) -> None:
        check_consumer(consumer, "exactly_once()")
        if not hasattr(producer, "_transactions"):
            raise TypeError(f"producer must be one of client.producer(...), not {type(producer).__name__}")
        self._transactions: Transactions = producer._given("exactly_once()")
        level = consumer._options.isolation_level
        if level != "read_committed":
            raise ValueError(
                f'exactly_once() needs a consumer with isolation_level="read_committed", not {level!r}: it would else handle '
                "what other transactions have aborted"
            )
        self._consumer = consumer
        handler = consumer._handler
        self.sleep = handler.sleep
        self._pauses = Backoff(PAUSE_MS, PAUSE_MAX_MS, handler.random)
        self._failures = 0

    @property
    def outcome_unknown(self) -> bool:
        """Whether a commit may have been made or not."""
        return self._transactions.status.state in (State.COMMITTING, State.UNKNOWN)

    @property
    def ended(self) -> bool:
        """Whether the consumer was closed: other members handle the transaction's records."""
        return bool(self._consumer._closed)

    def done(self) -> None:
        """Record a committed transaction."""
        self._failures = 0

    def pause(self, error: KafkaException, records: int, passes: bool = False) -> float:
        """Return how long to wait before the next attempt (s).

        :param records: how many the transaction had
        :param passes: whether to retry after any error
        :raises KafkaException: this error, if it is not retriable, or the one that has ended the producer
        """
        status = self._transactions.status
        if status.state is State.FATAL:
            raise status.refusal("exactly_once()") from error
        cause = error.__cause__ if isinstance(error, TransactionAbortableError) else error
        passes |= isinstance(cause, RETRIABLE) or (isinstance(cause, KafkaException) and cause.retriable)
        if (not passes and not self.outcome_unknown) or self._consumer._cluster.closed:
            raise error
        self._failures += 1
        if records:
            what = "it is looked up whether it was committed" if self.outcome_unknown else "they are handled again"
            log.warning("a transaction of %d records has failed, and %s: %s", records, what, error)
        else:
            log.warning("the last transaction is not aborted yet, or its offsets may come late: %s", error)
        return self._pauses.seconds(self._failures)

    @property
    def is_unsettled(self) -> bool:
        """Whether the last transaction is being aborted, or brokers would take offsets of it that come late."""
        status = self._transactions.status
        return status.state is State.ABORTING or bool(status.late_groups)

    def settle(self) -> None:
        """End the last transaction for good, unless the consumer is closed: it may wait for what becomes of the offsets.

        :raises KafkaException: see `pause`
        """
        while self.is_unsettled and not self.ended:
            try:
                self._transactions.init()
            except KafkaException as error:
                self.sleep(self.pause(error, 0))

    def resolve(self, error: KafkaException, records: int) -> bool:
        """Wait before the next attempt, and until it is known whether the transaction is committed; return whether it is.

        :param error: of the transaction
        :param records: how many the transaction had
        :raises KafkaException: see `pause`
        """
        self.sleep(self.pause(error, records))
        while self.outcome_unknown:
            try:
                if self._transactions.status.state is State.UNKNOWN:
                    return self._look_up(records)
                self._transactions.commit()
                return True
            except TransactionAbortableError as refused:
                error = refused
                try:
                    self._transactions.abort()
                except TransactionUnfinishedError as unfinished:  # the next begin finishes it
                    error = unfinished
            except KafkaException as again:
                error = again
            self.sleep(self.pause(error, records))
        self.settle()
        return False

    def _look_up(self, records: int) -> bool:
        """Take a new epoch, which ends the transaction, and return whether the group has its offsets."""
        while True:
            try:
                self._transactions.init()
                return are_committed(self._transactions.sent_offsets)
            except KafkaException as error:
                self.sleep(self.pause(error, records, isinstance(error, UnknownError)))


def are_committed(sent: Iterable[InTransaction]) -> bool:
    """Return whether a transaction of unknown outcome is committed, by the offsets that it sent.

    Call it when the producer has a new epoch: then the transaction has ended. An offset beyond those that were sent proves
    nothing: after a seek backwards the group has had it since before.

    :raises KafkaException: the coordinator of a group did not answer in time
    """
    by_group: dict[Any, dict[TopicPartition, int]] = {}
    for one in sent:  # of what was sent twice, the last one counts
        by_group.setdefault(one.group, {}).update({key: found.offset for key, found in one.offsets.items()})
    return all(
        found[key].offset == offset
        for group, offsets in by_group.items()
        for found in (group.fetch(list(offsets)),)
        for key, offset in offsets.items()
    )


def messages_of(found: Any) -> list[ProducerRecord[Any, Any]]:
    """Return the messages that a function has returned for one record.

    :raises TypeError: it has returned something else
    :raises ValueError: one of them has no topic
    """
    if found is None:
        return []
    one_alone = isinstance(found, ProducerRecord) or not isinstance(found, Iterable)
    several = [found] if one_alone else list(found)
    for one in several:
        if not isinstance(one, ProducerRecord):
            raise TypeError(f"the function must return ProducerRecord, several, or None, not {one!r}")
        if one.topic is None:
            raise ValueError(
                f"the function must name the topic of each message: ProducerRecord(..., topic=...), not {one!r}"
            )
    return several


class Function:
    """The user's function, and its error, which ends the loop even if it is a `KafkaException`.

    :param fn: of one record
    """

    def __init__(self, fn: Callable[[Record[Any, Any]], Any], consumer: Any) -> None:
        self.fn = fn
        self.error: Exception | None = None
        self._consumer = consumer

    @property
    def is_traced(self) -> bool:
        """Whether a tracer sees the records."""
        return self._consumer._cluster.tracer is not None

    def handling(self, record: Record[Any, Any]) -> AbstractContextManager[object]:
        """Return the context in which a record is handled."""
        tracer = self._consumer._cluster.tracer
        if tracer is None:
            return nullcontext()
        context: AbstractContextManager[object] = tracer.processing(record, self._consumer._options.consumer_group)
        return context

    def apply(self, records: Iterable[Record[Any, Any]]) -> list[MadeIn]:
        """Return the messages that it makes of records: all, before one is produced, as the transaction begins with that."""
        results: list[MadeIn] = []
        for record in records:
            with self.handling(record):
                try:
                    made = messages_of(self.fn(record))
                except Exception as error:
                    self.error = error
                    raise
                results += self.made_here(made)
        return results

    def made_here(self, made: list[ProducerRecord[Any, Any]]) -> list[MadeIn]:
        """Return messages with the context that they belong to, if a tracer asks for it."""
        context = copy_context() if made and self.is_traced else None
        return [(context, one) for one in made]


def exactly_once(
    consumer: Any, producer: Any, fn: Callable[[Record[Any, Any]], Made], max_records: int = MAX_RECORDS
) -> int:
    """Write what a function makes of each record, and commit it with the offsets; return how many records were handled.

    It ends when the consumer is closed, or nothing has come for its `consumer_timeout_ms`. What fails is aborted, and its
    records are read and handled again, so the function may see a record twice, but its results are committed once. An
    error that no other attempt mends ends it, as does one of the function; all before it is committed.

    :param consumer: `client.consumer(..., group=..., isolation_level="read_committed")`, without auto_commit
    :param producer: `client.producer(transactional_id=...)`, with an id that no other running program has
    :param fn: returns a `ProducerRecord` that names its topic, several, or None
    :param max_records: of a transaction
    :raises TypeError, ValueError: an argument does not fit, by name
    :raises ProducerFencedError: another producer has the transactional id, or a transaction took too long
    :raises TransactionFatalError: the cluster refuses
    :raises KafkaException: the consumer cannot read, or no other attempt mends it
    """
    attempts = TransactionRetries(consumer, producer)
    producer.init_transactions(
        consumer=consumer
    )  # before anything is read: a predecessor's transaction is ended by now
    function, handled = Function(fn, consumer), 0
    for records in consumer.batches(max_records):
        try:
            with producer.transaction(consumer):
                for context, one in function.apply(records):
                    with entered(context):
                        producer._produce_record("", one)
                producer.send_offsets(consumer)
        except KafkaException as error:
            if error is function.error:
                raise
            if attempts.ended and not attempts.outcome_unknown:
                break
            if not attempts.resolve(error, len(records)):
                continue
        attempts.settle()
        attempts.done()
        handled += len(records)
    return handled
