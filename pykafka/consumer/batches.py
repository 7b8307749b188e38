"""`BatchConsumer`: what `SimpleConsumer` has for taking many messages in one call, as objects or as Arrow columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykafka.consumer.arrow import COLUMNS, ArrowDecoder
from pykafka.consumer.documented import DocumentedConsumer
from pykafka.exceptions import DeserializationError, InvalidMessageError
from pykafka.utils.error_handlers import valid_int

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka.consumer.buffers import Buffers, Loan, OwnedPartition
    from pykafka.handlers import Handler
    from pykafka.protocol.message import Message

T = TypeVar("T")

#: How many messages `consume_batch` gives by default: Kafka's own max.poll.records.
BATCH_MESSAGES = 500
#: Where `consume_arrow` cuts by default, as the Spark source does: rows, and bytes of keys, values and headers.
ARROW_MESSAGES = 65_536
ARROW_BYTES = 8 * 1024 * 1024
#: Greenlets: more than this is decoded off the hub (rows, bytes).
OFFLOAD_ROWS = 1000
OFFLOAD_BYTES = 128 * 1024
#: No Arrow batch is made of more Kafka batches than this, each of which costs a stretch of Python.
CURSORS_MAX = 512


class _PutOff(NamedTuple):
    """A message that could not be deserialized.

    :param owned: its partition
    :param moves: how often that had been moved
    :param offset: of the message
    :param error: what the next call raises; None where it was raised
    """

    owned: OwnedPartition
    moves: int
    offset: int
    error: DeserializationError | None


class BatchConsumer(DocumentedConsumer):
    """Take many messages at a time; positions count what was returned, as with `consume()`."""

    _buffers: Buffers
    _handler: Handler
    _deserializer: Callable[[Any, Any], tuple[Any, Any]] | None
    _partitions_by_id: dict[int, OwnedPartition]
    #: Messages that could not be deserialized.
    _put_off: tuple[_PutOff, ...] = ()
    _decoder: ArrowDecoder | None = None
    _decoder_columns: tuple[str, ...] = ()

    @abstractmethod
    def consume(self, block: bool = True, unblock_event: Any = None) -> Message | None:
        """Return the next message."""

    @abstractmethod
    def _consume_slowly(self, block: bool, unblock_event: Any) -> Message | None:
        """Return the next message where none was at hand."""

    @abstractmethod
    def _wait_for(self, take: Callable[[], T | None], block: bool, unblock_event: Any) -> T | None:
        """Return what `take` gives, waiting until it gives something."""

    @abstractmethod
    def _move(self, id_: int, position: int, last_offset_consumed: int) -> None:
        """Go on elsewhere in a partition."""

    @abstractmethod
    def arrived(self) -> None:
        """Wake `consume()`."""

    @abstractmethod
    def _raise_worker_exceptions(self) -> None:
        """Raise what went wrong in a worker, once."""

    def consume_batch(
        self, max_messages: int = BATCH_MESSAGES, block: bool = True, unblock_event: Any = None
    ) -> list[Message]:
        """Return the next messages: those that are there, waiting only for the first.

        Those of a partition are in order; those of several come one partition after another. On greenlets it returns
        fewer where the hub is to turn before more are taken.

        :param max_messages: the most to return
        :param block: whether to wait for the first, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :returns: an empty list where there is none (in time)
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: what keeps it from fetching; raised once, fetching goes on where it can
        """
        valid_int(max_messages, name="max_messages")
        if self._deserializer is not None:
            return self._consume_deserialized(max_messages, block, unblock_event)
        self._buffers.begin_call()
        batch = self._take_batch(max_messages)
        if not batch:
            message = self._consume_slowly(block, unblock_event)
            if message is not None:
                batch = [message, *self._take_more(max_messages - 1, [message])]
        return batch

    def _take_batch(self, max_messages: int) -> list[Message]:
        batch: list[Message] = self._buffers.take(max_messages)
        return batch

    def _take_more(self, max_messages: int, held: list[Message]) -> list[Message]:
        """Return what is there besides what the caller holds already, which an error is not to cost."""
        if self._buffers.turn_is_due():
            return []
        try:
            return self._take_batch(max_messages)
        except InvalidMessageError:  # the next call raises it
            return []
        except BaseException:  # a greenlet's timeout, say
            self._give_back(held)
            raise

    def _give_back(self, messages: Iterable[Message]) -> None:
        """Go back to messages that were taken and reach nobody: they are fetched again."""
        first: dict[int, int] = {}
        for message in messages:
            first.setdefault(message.partition_id, message.offset)
        for id_, offset in first.items():
            self._move(id_, offset, offset - 1)

    def _consume_one_deserialized(self, block: bool, unblock_event: Any) -> Message | None:
        """Return the next message after the user's deserializer has been over it."""
        if self._put_off:
            self._deal_with_put_off()
        message: Message | None = self._buffers.next()
        if message is None:
            message = self._consume_slowly(block, unblock_event)
            if message is None:
                return None
        try:
            return self._deserialized(message)
        except DeserializationError:
            self._put_off_until_called_again(message, None)
            raise
        except BaseException:  # a greenlet's timeout, say
            self._give_back([message])
            raise

    def _consume_deserialized(self, max_messages: int, block: bool, unblock_event: Any) -> list[Message]:
        """Take messages one by one, so that one which cannot be deserialized costs no other."""
        self._buffers.begin_call()
        if self._put_off:
            self._deal_with_put_off()
        self._raise_worker_exceptions()
        batch: list[Message] = []
        message = self._consume_one_deserialized(block, unblock_event)
        while message is not None:
            batch.append(message)
            more = self._take_more(1, batch) if len(batch) < max_messages else []
            if not more:
                break
            try:
                message = self._deserialized(more[0])
            except DeserializationError as error:  # the next call raises it
                self._put_off_until_called_again(more[0], error)
                break
            except BaseException:
                self._give_back(batch + more)
                raise
        return batch

    def _deserialized(self, message: Message) -> Message:
        """Return a message after the user's deserializer has been over it.

        :raises DeserializationError: the deserializer failed, or gave no pair
        """
        if self._deserializer is None:
            return message
        try:
            value, key = self._deserializer(message.value, message.partition_key)
        except Exception as error:
            raise DeserializationError(
                f"the deserializer failed at offset {message.offset} by {type(error).__name__}; the next call goes on behind "
                "that message",
                message.offset,
                message.value,
                message.partition_key,
                topic=self._topic.name,
                partition=message.partition_id,
            ) from error
        message.value, message.partition_key = value, key
        return message

    def _put_off_until_called_again(self, message: Message, error: DeserializationError | None) -> None:
        """Have a message count as not consumed until the call after the one that raises its error.

        Who stops at the error finds the message again, and who goes on does not.

        :param error: raised by the next call; None where this one raises it
        """
        owned, offset = self._partitions_by_id[message.partition_id], message.offset
        if self._buffers.correct(owned, owned.moves, offset + 1, offset):
            self._put_off += (_PutOff(owned, owned.moves, offset, error),)

    def _deal_with_put_off(self) -> None:
        """Go on behind messages whose error was raised, and raise one that waits.

        :raises DeserializationError: of a message that came behind others
        """
        self._buffers.begin_call()
        put_off, self._put_off = self._put_off, ()
        waiting: DeserializationError | None = None
        for one in put_off:
            if one.owned.moves != one.moves:
                continue
            if one.error is not None and waiting is None:
                waiting = one.error
                self._put_off += (one._replace(error=None),)
            elif one.error is not None:
                self._put_off += (one,)
            else:
                self._buffers.correct(one.owned, one.moves, one.offset, one.offset + 1)
        if waiting is not None:
            raise waiting

    def consume_arrow(
        self,
        max_messages: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        block: bool = True,
        unblock_event: Any = None,
    ) -> pa.RecordBatch | None:
        """Return the next messages as Arrow columns, without an object for each; waits only for the first.

        The columns are those of the Spark source: key and value (binary), topic (string), partition (int32), offset
        (int64), timestamp (microseconds, UTC), timestampType (int32; 0 create time, 1 append time, -1 none) and
        headers (list of struct of key, value). Messages of a partition are in order; those of several come one
        partition after another.

        :param max_messages: the most rows to return
        :param columns: which, in the order wanted; by default all
        :param max_bytes: of keys, values and headers as far as they are asked for; a single message may have more
        :param block: whether to wait for the first, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :returns: None where there is no message (in time)
        :raises ImportError: pyarrow is not installed (extra `arrow`)
        :raises ValueError: there is no such column, or the consumer has a deserializer, which columns know nothing of
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: what keeps it from fetching; raised once, fetching goes on where it can
        """
        valid_int(max_messages, name="max_messages")
        valid_int(max_bytes, name="max_bytes")
        if self._deserializer is not None:
            raise ValueError(
                "consume_arrow() gives bytes as they were sent: make the consumer without a deserializer, or use "
                "consume_batch()"
            )
        decoder = self._decoder_of(COLUMNS if columns is None else _names(columns))
        self._buffers.begin_call()
        batch = self._take_arrow(decoder, max_messages, max_bytes)
        if batch is None:
            batch = self._wait_for(lambda: self._take_arrow(decoder, max_messages, max_bytes), block, unblock_event)
        return batch

    def _decoder_of(self, columns: tuple[str, ...]) -> ArrowDecoder:
        decoder = self._decoder
        if decoder is None or columns != self._decoder_columns:
            decoder = self._decoder = ArrowDecoder(self._topic.name, None, columns)
            self._decoder_columns = columns
        return decoder

    def _take_arrow(self, decoder: ArrowDecoder, max_messages: int, max_bytes: int) -> pa.RecordBatch | None:
        """Return what is buffered as columns; None where nothing is."""
        while True:
            loans = self._borrow(max_messages, max_bytes)
            if not loans:
                return None
            rows, nbytes = sum(loan.rows for loan in loans), sum(loan.nbytes for loan in loans)
            readers = [reader for loan in loans for reader in loan.readers]
            try:
                if self._handler.cooperative and (rows > OFFLOAD_ROWS or nbytes > OFFLOAD_BYTES):
                    batch, last_offsets = self._handler.offload(decoder.take, readers, max_messages, max_bytes)
                else:
                    batch, last_offsets = decoder.take(readers, max_messages, max_bytes)
            except InvalidMessageError:  # of the first record
                self._settle(loans, {})
                raise
            except BaseException:  # a greenlet's timeout, say: the pool may go on reading these cursors
                self._abandon(loans)
                raise
            # where all partitions were moved meanwhile, as by stop(), what was read of them is taken again
            if self._settle(loans, last_offsets) and batch is not None:
                return batch

    def _settle(self, loans: list[Loan], last_offsets: dict[int, int]) -> bool:
        counted = False
        for loan in reversed(loans):  # those that nothing was taken of come first next time
            counted = self._buffers.settle(loan, last_offsets.get(loan.owned.partition_id, -1)) or counted
        self.arrived()  # others may have found nothing meanwhile
        return counted

    def _abandon(self, loans: list[Loan]) -> None:
        for loan in loans:
            self._buffers.abandon(loan)
            if loan.owned.wake is not None:
                loan.owned.wake.set()

    def _borrow(self, rows: int, nbytes: int) -> list[Loan]:
        """Borrow what makes up an Arrow batch, of as many partitions as that takes."""
        loans: list[Loan] = []
        cursors = CURSORS_MAX
        while rows > 0 and nbytes > 0 and cursors > 0:
            loan = self._buffers.lend(rows, cursors)
            if loan is None:
                break
            loans.append(loan)
            rows -= loan.rows
            nbytes -= loan.nbytes
            cursors -= len(loan.readers)
        return loans


def _names(columns: Any) -> tuple[str, ...]:
    names = None if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"columns must be a list of names of columns ({', '.join(COLUMNS)}), not {columns!r}")
    return names
