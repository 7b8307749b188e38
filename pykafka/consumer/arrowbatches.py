"""`ArrowBatches`: fetched messages as Arrow columns, with no Python object for each message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.consumer.arrow import COLUMNS, ArrowDecoder
from pykafka.exceptions import InvalidMessageError

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.consumer.loans import Loan

#: The default size of a batch, as in the Spark source: rows, and bytes of keys, values and headers.
ARROW_MESSAGES = 65_536
ARROW_BYTES = 8 * 1024 * 1024
#: Greenlets: a batch with more than this is decoded off the hub (rows, bytes).
OFFLOAD_ROWS = 1000
OFFLOAD_BYTES = 128 * 1024
#: The largest number of Kafka batches in an Arrow batch: each costs some Python code.
CURSORS_MAX = 512


class ArrowBatches:
    """The decoder of the messages that an engine has buffered of one topic.

    :param engine: that has the messages
    :param topic: the topic's name, for the column
    """

    def __init__(self, engine: ConsumerEngine, topic: str) -> None:
        self._engine = engine
        self._topic = topic
        self._decoder: ArrowDecoder | None = None
        self._columns: tuple[str, ...] = ()

    def next(
        self, max_messages: int, columns: Sequence[str] | None, max_bytes: int, block: bool, unblock_event: Any
    ) -> pa.RecordBatch | None:
        """Return the next messages as columns; parameters and errors as of `SimpleConsumer.consume_arrow`."""
        decoder = self._decoder_of(COLUMNS if columns is None else _names(columns))
        self._engine.buffers.begin_call()
        batch = self._take(decoder, max_messages, max_bytes)
        if batch is None:
            batch = self._engine.wait_for(lambda: self._take(decoder, max_messages, max_bytes), block, unblock_event)
        return batch

    def _decoder_of(self, columns: tuple[str, ...]) -> ArrowDecoder:
        decoder = self._decoder
        if decoder is None or columns != self._columns:
            decoder = self._decoder = ArrowDecoder(self._topic, None, columns)
            self._columns = columns
        return decoder

    def _take(self, decoder: ArrowDecoder, max_messages: int, max_bytes: int) -> pa.RecordBatch | None:
        """Return buffered messages as columns; None if there are none."""
        handler = self._engine.handler
        while True:
            loans = self._borrow(max_messages, max_bytes)
            if not loans:
                return None
            rows, nbytes = sum(loan.rows for loan in loans), sum(loan.nbytes for loan in loans)
            readers = [reader for loan in loans for reader in loan.readers]
            try:
                if handler.cooperative and (rows > OFFLOAD_ROWS or nbytes > OFFLOAD_BYTES):
                    batch, last_offsets = handler.offload(decoder.take, readers, max_messages, max_bytes)
                else:
                    batch, last_offsets = decoder.take(readers, max_messages, max_bytes)
            except InvalidMessageError:  # of the first record
                self._settle(loans, {})
                raise
            except BaseException:  # such as a greenlet's timeout: the pool may go on reading these cursors
                self._abandon(loans)
                raise
            # where all partitions were moved meanwhile, as by stop(), the next turn reads them again
            if self._settle(loans, last_offsets) and batch is not None:
                return batch

    def _settle(self, loans: list[Loan], last_offsets: dict[int, int]) -> bool:
        counted = False
        for loan in reversed(loans):  # partitions of which nothing was taken come first next time
            counted = self._engine.buffers.settle(loan, last_offsets.get(loan.owned.partition_id, -1)) or counted
        self._engine.arrived()  # another consume() may have found nothing meanwhile
        return counted

    def _abandon(self, loans: list[Loan]) -> None:
        for loan in loans:
            self._engine.buffers.abandon(loan)
            if loan.owned.wake is not None:
                loan.owned.wake.set()

    def _borrow(self, rows: int, nbytes: int) -> list[Loan]:
        """Borrow messages for an Arrow batch, of as many partitions as that takes."""
        loans: list[Loan] = []
        cursors = CURSORS_MAX
        while rows > 0 and nbytes > 0 and cursors > 0:
            loan = self._engine.buffers.lend(rows, cursors)
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
