"""`ArrowBatches`: fetched messages as Arrow columns, with no Python object for each message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.consumer.arrow import COLUMNS, ArrowDecoder
from pykafka.exceptions import InvalidMessageError

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka.consumer.buffers import Borrow
    from pykafka.consumer.engine import ConsumerEngine

#: Greenlets: a batch with more than this is decoded off the hub (rows, bytes).
OFFLOAD_ROWS = 1000
OFFLOAD_BYTES = 128 * 1024
#: The largest number of Kafka batches in an Arrow batch: each costs some Python code.
CURSORS_MAX = 512


class ArrowBatches:
    """The decoder of the messages that an engine has buffered; a batch has those of one topic.

    :param engine: that has the messages
    """

    def __init__(self, engine: ConsumerEngine) -> None:
        self._engine = engine
        # By topic.
        self._decoders: dict[str, ArrowDecoder] = {}
        self._columns: tuple[str, ...] = ()

    def taker(self, max_messages: int, columns: Sequence[str] | None, max_bytes: int) -> Callable[[], Any]:
        """Return a function that returns buffered messages as columns, and None if there are none; it does not wait.

        Parameters and errors as for `SimpleConsumer.consume_arrow`.
        """
        self._choose(columns)
        return lambda: self._take(max_messages, max_bytes)

    def _choose(self, columns: Sequence[str] | None) -> None:
        names = COLUMNS if columns is None else _names(columns)
        if names != self._columns:
            self._decoders = {}
            ArrowDecoder("", None, names)  # it refuses columns that there are not
            self._columns = names

    def _decoder_of(self, topic: str) -> ArrowDecoder:
        decoder = self._decoders.get(topic)
        if decoder is None:
            decoder = self._decoders[topic] = ArrowDecoder(topic, None, self._columns)
        return decoder

    def _take(self, max_messages: int, max_bytes: int) -> pa.RecordBatch | None:
        """Return buffered messages as columns; None if there are none."""
        handler = self._engine.handler
        while True:
            borrowed = self._borrow(max_messages, max_bytes)
            if not borrowed:
                return None
            decoder = self._decoder_of(borrowed[0].owned.key.topic)
            rows, nbytes = sum(borrow.rows for borrow in borrowed), sum(borrow.nbytes for borrow in borrowed)
            readers = [reader for borrow in borrowed for reader in borrow.readers]
            try:
                if handler.cooperative and (rows > OFFLOAD_ROWS or nbytes > OFFLOAD_BYTES):
                    batch, last_offsets = handler.offload(decoder.take, readers, max_messages, max_bytes)
                else:
                    batch, last_offsets = decoder.take(readers, max_messages, max_bytes)
            except InvalidMessageError:  # of the first record
                self._settle(borrowed, {})
                raise
            except BaseException:  # such as a greenlet's timeout: the pool may continue to read these cursors
                self._abandon(borrowed)
                raise
            # if all partitions were moved meanwhile, as by stop(), the next turn reads them again
            if self._settle(borrowed, last_offsets) and batch is not None:
                return batch

    def _settle(self, borrowed: list[Borrow], last_offsets: dict[int, int]) -> bool:
        counted = False
        for borrow in reversed(borrowed):  # partitions of which nothing was taken come first next time
            counted = (
                self._engine.buffers.return_borrowed(borrow, last_offsets.get(borrow.owned.partition_id, -1)) or counted
            )
        self._engine.arrived()  # another consume() may have found nothing meanwhile
        return counted

    def _abandon(self, borrowed: list[Borrow]) -> None:
        for borrow in borrowed:
            self._engine.buffers.abandon(borrow)
            if borrow.owned.wake is not None:
                borrow.owned.wake.set()

    def _borrow(self, rows: int, nbytes: int) -> list[Borrow]:
        """Borrow messages for an Arrow batch, of as many partitions of one topic as that takes."""
        borrowed: list[Borrow] = []
        cursors = CURSORS_MAX
        while rows > 0 and nbytes > 0 and cursors > 0:
            borrow = self._engine.buffers.borrow(rows, cursors)
            if borrow is None:
                break
            if borrowed and borrow.owned.key.topic != borrowed[0].owned.key.topic:
                self._engine.buffers.return_borrowed(borrow, -1)
                break
            borrowed.append(borrow)
            rows -= borrow.rows
            nbytes -= borrow.nbytes
            cursors -= len(borrow.readers)
        return borrowed


class ArrowTables(ArrowBatches):
    """The same for consumers of many topics: a table has batches of several topics."""

    def taker(self, max_messages: int, columns: Sequence[str] | None, max_bytes: int) -> Callable[[], pa.Table | None]:
        """Return a function that returns buffered messages as a table; parameters and errors as for `KafkaConsumer.arrow`."""
        self._choose(columns)
        return lambda: self._table(max_messages, max_bytes)

    def _table(self, rows: int, nbytes: int) -> pa.Table | None:
        found: list[pa.RecordBatch] = []
        before = self._engine.positions()
        while rows > 0 and nbytes > 0:
            try:
                batch = self._take(rows, nbytes)
            except InvalidMessageError:
                if not found:
                    raise
                break  # the next call raises it
            except BaseException:  # such as a greenlet's timeout: it must not cost the batches before
                for key, owned in list(self._engine.partitions.items()):
                    if found and before.get(key, owned.position) != owned.position:
                        self._engine.move(key, before[key], before[key] - 1)
                raise
            if batch is None:
                break
            found.append(batch)
            rows -= batch.num_rows
            nbytes -= batch.nbytes
        if not found:
            return None
        import pyarrow as pa  # not everybody has it, and `_take` has imported it

        return pa.Table.from_batches(found)


def _names(columns: Any) -> tuple[str, ...]:
    names = None if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"columns must be a list of names of columns ({', '.join(COLUMNS)}), not {columns!r}")
    return names
