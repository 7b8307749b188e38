"""The tasks of the sink: they write the Arrow batches from Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, UnknownTopicOrPartition
from pykafka.spark import sender, session
from pykafka.spark.epochs import Digest, Duty, Part, Plan, Prepared, Task, check_repeated, duty, task_id
from pykafka.spark.errors import SinkError
from pykafka.spark.options import WriteOptions
from pykafka.spark.rows import BytesColumn, Headers, TopicBatches
from pykafka.spark.sender import BatchSender
from pykafka.utils import is_legal_name

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.producer.core import Transaction

#: Batches of this size are sent at once; smaller ones wait for the rows of the next Arrow batch...
GOOD_BATCH_BYTES = 256 * 1024
#: ...unless they are this much together.
MAX_OPEN_BYTES = 32 * 1024 * 1024
#: How long to ask for partitions that rows name, or for any, as an answer may leave them out (s).
LEFT_OUT_S = 3.0


def write_rows(iterator: Iterator[pa.RecordBatch], options: WriteOptions, columns: frozenset[str]) -> dict[str, int]:
    """Write a task's rows and return how many each topic got.

    :param iterator: of Arrow batches
    :param options: of the write
    :param columns: those to write
    :raises SinkError: a row cannot be written, or was not acknowledged in time
    """
    writer = None
    try:
        for batch in iterator:
            if batch.num_rows:
                if writer is None:  # many a task of a micro-batch has no rows, and needs no producer then
                    writer = RowWriter(session.cluster_for(options.client), options, columns)
                writer.add(batch)
        return writer.finish() if writer is not None else {}
    except Exception as error:
        _add_outcome(error, writer)
        raise


def _add_outcome(error: Exception, writer: RowWriter | None) -> None:
    """Add a note about the outcome of a task's rows to an error, unless it is about sending and has that itself."""
    if writer is not None and not (isinstance(error, SinkError) and isinstance(error.__cause__, KafkaException)):
        error.add_note(f"pykafka: {writer.describe_outcome()}")


def prepare_rows(
    iterator: Iterator[pa.RecordBatch], options: WriteOptions, columns: frozenset[str], plan: Plan, task: Task
) -> tuple[Part, dict[str, int]]:
    """Write a task's rows in a transaction that stays open for the driver to commit; return it, and the rows by topic.

    :param iterator: of Arrow batches
    :param options: of the write
    :param columns: those to write
    :param plan: of the driver
    :param task: that this is
    :raises SinkError: a row cannot be written, or there is no record of whether the rows are committed; nothing is committed
    """
    from pykafka.spark.task_transaction import TaskTransaction

    settings = options.transactions
    assert settings is not None
    what = duty(plan, task, settings.first)
    digest, writer = Digest(columns), None
    identity = task_id(plan.prefix, task.number, task.attempt)
    transaction: TaskTransaction | None = None
    try:
        for batch in iterator:
            if batch.num_rows == 0 or what is Duty.SKIP:
                continue  # also of what is skipped, all is taken: Spark uses its worker again
            if writer is None:
                cluster = session.cluster_for(options.client)
                begun = TaskTransaction(cluster, identity, settings, options.delivery_timeout_ms / 1000)
                begun.begin(plan)
                transaction = begun
                writer = RowWriter(cluster, options, columns, begun)
            digest.add(batch)
            writer.add(batch)
        rows = {} if writer is None else writer.finish()
        if what is Duty.REPEAT:
            check_repeated(plan, task.number, digest.value)
    except BaseException as error:
        if isinstance(error, Exception):
            _add_outcome(error, writer)
        if transaction is not None:
            transaction.abort()
        raise
    prepared = None if transaction is None else Prepared(task.number, task.attempt, transaction.at, digest.value)
    return Part(plan, task.query, task.epoch, prepared, what is Duty.SKIP), rows


class RowWriter:
    """A writer that turns Arrow batches into record batches and sends them; used by one task alone.

    :param cluster: to write to
    :param options: of the write
    :param columns: those to write
    :param transaction: that the rows are part of; None: none
    """

    def __init__(
        self,
        cluster: BaseCluster,
        options: WriteOptions,
        columns: frozenset[str],
        transaction: Transaction | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._columns = columns
        self._sender = BatchSender(cluster, options, transaction)
        self._topics: dict[str, TopicBatches] = {}
        self._looked_again: set[str] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Append the rows of an Arrow batch.

        :raises SinkError: a row cannot be written, or one before it was not acknowledged in time
        """
        values = _bytes_column(batch.column("value"))
        keys = _bytes_column(batch.column("key")) if "key" in self._columns else None
        headers = _headers(batch.column("headers")) if "headers" in self._columns else None
        partitions = batch.column("partition").to_pylist() if "partition" in self._columns else None
        highest = _highest(batch.column("partition")) if partitions is not None else -1
        timestamp = session.handler.time_ms()
        for topic, rows in self._rows_by_topic(batch):
            self._batches(topic, highest).append(rows, timestamp, keys, values, headers, partitions)
        left = sum(batches.flush(GOOD_BATCH_BYTES) for batches in self._topics.values())
        if left > MAX_OPEN_BYTES:
            self._flush()

    def finish(self) -> dict[str, int]:
        """Send the rest and wait for all acknowledgements; return the number of rows per topic.

        :raises SinkError: rows were not acknowledged in time
        """
        self._flush()
        self._sender.finish()
        return dict(self._sender.acknowledged)

    def describe_outcome(self) -> str:
        """Return a sentence about the outcome of the rows so far, for a failed task."""
        return self._sender.describe_outcome()

    def _flush(self) -> None:
        for batches in self._topics.values():
            batches.flush()

    def _rows_by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Any]]:
        if self._options.topic is not None:
            yield self._options.topic, range(batch.num_rows)
            return
        column = batch.column("topic")
        if column.null_count:
            raise SinkError(
                "a row has a null in the column 'topic': fill it, or name one topic for all rows by the option 'topic'"
            )
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            yield names[0], range(batch.num_rows)
            return
        rows: list[list[int]] = [[] for _ in names]
        for row, number in enumerate(encoded.indices.to_pylist()):
            rows[number].append(row)
        yield from zip(names, rows, strict=True)

    def _batches(self, topic: str, highest: int) -> TopicBatches:
        # `highest` of the partitions that rows name: if the topic had not so many yet, it may have grown since.
        batches = self._topics.get(topic)
        if batches is None:
            batches = self._opened(topic, self._partition_count(topic) or self._grown(topic, 1))
        if highest >= batches.partitions and topic not in self._looked_again:
            self._looked_again.add(topic)
            count = self._grown(topic, highest + 1)
            if count > batches.partitions:
                batches.flush()
                batches = self._opened(topic, count)
        limit = sender.limit_of(self._options.client, topic)
        if limit is not None:
            batches.cut_bytes = min(limit, self._options.max_request_bytes)
        return batches

    def _grown(self, topic: str, least: int) -> int:
        """Ask until a topic has so many partitions, which one answer may leave out; return how many it has after a while.

        :raises SinkError: it has none
        """
        handler, failures = session.handler, 0
        deadline = handler.now() + LEFT_OUT_S
        while True:
            self._cluster.update([topic])
            count = self._partition_count(topic)
            failures += 1
            pause = self._cluster.retry_backoff.seconds(failures)
            if count >= least or handler.now() + pause >= deadline:
                break
            handler.sleep(pause)
        if not count:
            raise SinkError("the topic has no partitions: see that its creation has ended", topic=topic)
        return count

    def _opened(self, topic: str, count: int) -> TopicBatches:
        first = session.handler.random.randrange(count)
        batches = TopicBatches(topic, count, self._options.max_request_bytes, self._sender.submit, first)
        self._topics[topic] = batches
        return batches

    def _partition_count(self, topic: str) -> int:
        if not is_legal_name(topic):
            raise SinkError(
                f"a row has {topic!r} in the column 'topic', which cannot be a topic: names are 1 to 249 letters, digits, "
                "dots, dashes and underscores"
            )
        cluster = self._cluster
        # This process may have been at work for days, and all that write one key must agree on its partition.
        cluster.refresh_if_old()
        metadata = cluster.find_topic(topic)
        if metadata is None:
            try:
                metadata = cluster.wait_for_topic(topic)
            except UnknownTopicOrPartition as error:
                raise SinkError(
                    f"the topic {topic!r} does not exist on {self._options.client.hosts} and was not created; create "
                    "it, or correct the name",
                    topic=topic,
                ) from error
        return max(metadata.partitions, default=-1) + 1


def _bytes_column(column: pa.Array) -> BytesColumn:
    import pyarrow as pa

    if (
        column.type != pa.binary()
    ):  # string as it stands; large ones if spark.sql.execution.arrow.useLargeVarTypes is set
        column = column.cast(pa.binary())
    return BytesColumn(column.buffers(), column.offset)


def _highest(column: pa.Array) -> int:
    import pyarrow.compute as pc

    found = pc.max(column).as_py()
    return -1 if found is None else int(found)


def _headers(column: pa.Array) -> list[Headers | None] | None:
    if column.null_count == len(column):
        return None
    found: list[Headers | None] = []
    for entry in column.to_pylist():
        if entry and any(header is None or header["key"] is None for header in entry):
            raise SinkError("a row has a header without a key in the column 'headers': Kafka's headers need one")
        found.append([(header["key"], header["value"]) for header in entry] if entry else None)
    return found
