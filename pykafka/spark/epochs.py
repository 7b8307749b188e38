"""Micro-batches in transactions, without I/O: what is prepared, what is decided, and what a task has to do."""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import re
import struct
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykafka.common import TopicPartition
from pykafka.spark.errors import (
    EpochMismatchError,
    EpochRecordMissingError,
    PrefixInUseError,
    SinkError,
    StaleCheckpointError,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: The text of a record begins with the version of its form.
FORM = "1"
#: The query of records that batch writes make.
BATCH = "batch"
#: The brokers' default limit of a text beside an offset is 4096 (offset.metadata.max.bytes).
MOST_TEXT = 4000
_PREPARED = struct.Struct(">IIqhB8s")
#: What the text of a record unpacks to at most (bytes): a digest of 8 bytes each is not compressible.
_MOST_PACKED = MOST_TEXT * _PREPARED.size
DIGEST_BYTES = 8
#: The end of the text of a record whose transactions are lost.
_LOST = " lost"
#: Transactional ids of tasks. A prefix must not look like one: its tasks would be another prefix's.
_TASK_ID = re.compile(r"(?P<prefix>.+)-task-\d+-\d+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProducerEpoch:
    """The identity that a coordinator gave a transactional id.

    :param producer_id: the number that brokers know the producer by
    :param epoch: counts the producers with the transactional id
    :param implicit: brokers add partitions to the transaction by themselves (KIP-890)
    """

    producer_id: int
    epoch: int
    implicit: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """The transaction of a task whose rows are all in Kafka, and which is neither committed nor aborted.

    :param task: number of the task
    :param attempt: of the task
    :param at: of the transaction
    :param digest: of the task's rows
    """

    task: int
    attempt: int
    at: ProducerEpoch
    digest: bytes

    def transactional_id(self, prefix: str) -> str:
        """Return the transactional id."""
        return task_id(prefix, self.task, self.attempt)


@dataclass(frozen=True, slots=True)
class Record:
    """The last micro-batch that was decided, as the group of the prefix has it.

    :param query: id of the query
    :param epoch: number of the micro-batch
    :param decided: the transactions that are to be committed; none: all of them are
    :param lost: these have been aborted instead, so that their tasks have to repeat their rows; all others are committed
    """

    query: str
    epoch: int
    decided: tuple[Prepared, ...] = ()
    lost: bool = False

    @property
    def missing(self) -> dict[int, bytes]:
        """The digests of the rows that have to be repeated, by task."""
        return {one.task: one.digest for one in self.decided} if self.lost else {}

    def text(self) -> str:
        """Return the text beside the offset, which is that of the next micro-batch.

        :raises SinkError: the tasks are too many for it
        """
        if not self.decided:
            return f"{FORM} {self.query}"
        packed = b"".join(
            _PREPARED.pack(one.task, one.attempt, one.at.producer_id, one.at.epoch, one.at.implicit, one.digest)
            for one in self.decided
        )
        # By columns, which differ little from row to row.
        size = _PREPARED.size
        turned = b"".join(packed[at::size] for at in range(size))
        text = f"{FORM} {self.query} {base64.b64encode(zlib.compress(turned, 9)).decode()}{_LOST if self.lost else ''}"
        if len(text) > MOST_TEXT:
            raise SinkError(
                f"{len(self.decided)} tasks have rows for micro-batch {self.epoch}, and their transactions do not fit into one "
                f"record of {MOST_TEXT} bytes (about 200 do): write fewer partitions, as by coalesce(100)"
            )
        return text

    @classmethod
    def parse(cls, offset: int, text: str) -> Record:
        """Return the record of an offset and the text beside it.

        :raises PrefixInUseError: it is not of this sink
        """
        words = text.split(" ")
        try:
            lost = text.endswith(_LOST)
            if words[0] != FORM or not 2 <= len(words) <= 3 + lost or offset < 1:
                raise ValueError(text)
            packed = _unpacked(base64.b64decode(words[2])) if len(words) > 2 else b""
            size = _PREPARED.size
            count, left = divmod(len(packed), size)
            if left:
                raise ValueError(text)
            rows = (packed[at::count] for at in range(count))
            decided = tuple(
                Prepared(task, attempt, ProducerEpoch(producer_id, epoch, bool(implicit)), digest)
                for task, attempt, producer_id, epoch, implicit, digest in map(_PREPARED.unpack, rows)
            )
        except (ValueError, binascii.Error, zlib.error) as error:
            raise PrefixInUseError(
                f"the group of 'transactionalIdPrefix' has an offset {offset} with the text {text[:80]!r}, which this sink "
                "has not committed: give a prefix that is no name of a consumer group"
            ) from error
        return cls(words[1], offset - 1, decided, lost)


def _unpacked(data: bytes) -> bytes:
    """Return the rows of a record; few bytes of another writer must not fill the memory.

    :raises ValueError: they are more than any record has
    :raises zlib.error: the data is corrupt
    """
    stream = zlib.decompressobj()
    found = stream.decompress(data, _MOST_PACKED)
    if not stream.eof:
        raise ValueError(f"more than {_MOST_PACKED} bytes, or cut off")
    return found


@dataclass(frozen=True, slots=True)
class Plan:
    """The state that the driver finds when it plans a micro-batch, for the tasks.

    :param prefix: of the transactional ids
    :param at: of the driver's own transactional id, which is the prefix: the tasks of others are fenced
    :param record: the last micro-batch that was decided; None: there is none
    """

    prefix: str
    at: ProducerEpoch
    record: Record | None

    @property
    def missing(self) -> dict[int, bytes]:
        """The digests of the rows that have to be repeated, by task."""
        return {} if self.record is None else self.record.missing


@dataclass(frozen=True, slots=True)
class Part:
    """The result of a task for its micro-batch.

    :param plan: that it followed
    :param query: id of the query
    :param epoch: number of the micro-batch
    :param prepared: its transaction; None if it had no rows to write
    :param skipped: its rows are committed already
    """

    plan: Plan
    query: str
    epoch: int
    prepared: Prepared | None = None
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a write, as Spark's context has it.

    :param query: id of the query, which is that of its checkpoint; BATCH for a batch write
    :param epoch: number of the micro-batch
    :param number: of the task
    :param attempt: of the task
    """

    query: str
    epoch: int
    number: int
    attempt: int


class Duty(enum.Enum):
    """The duty of a task with its rows."""

    WRITE = "write them"
    SKIP = "leave them: they are committed"
    REPEAT = "write them again, if they are the same"


def check_prefix(prefix: str) -> None:
    """Raise for a prefix whose ids could be another one's.

    :raises ValueError: it ends like the id of a task
    """
    if _TASK_ID.fullmatch(prefix):
        raise ValueError("must not end like the transactional id of a task, '-task-0-0'")


def task_id(prefix: str, task: int, attempt: int) -> str:
    """Return the transactional id of an attempt of a task: few ids, which micro-batches use in turn."""
    return f"{prefix}-task-{task}-{attempt}"


def is_task_of(prefix: str, transactional_id: str) -> bool:
    """Return whether a transactional id is one of a prefix's tasks."""
    found = _TASK_ID.fullmatch(transactional_id)
    return found is not None and found["prefix"] == prefix


def duty(plan: Plan, task: Task, first: int) -> Duty:
    """Return what a task has to do with its rows.

    :param first: the first micro-batch that is written in transactions (transactionsFrom)
    :raises PrefixInUseError: another query uses the prefix
    :raises StaleCheckpointError: later micro-batches are committed
    :raises EpochRecordMissingError: there is no record of whether the micro-batch is committed
    """
    record, epoch = plan.record, task.epoch
    check_query(plan, task.query)
    if task.query == BATCH:
        return Duty.WRITE
    if record is None:
        if epoch > first:
            raise _missing(plan.prefix, epoch, "Kafka has no record of it")
        return Duty.WRITE
    if epoch < record.epoch:
        raise StaleCheckpointError(
            f"the checkpoint is at micro-batch {epoch}, and micro-batch {record.epoch} of this query is committed already: the "
            "checkpoint was put back. What is to be written again would come twice; if that may be, give another "
            f"'transactionalIdPrefix', and 'transactionsFrom' = {epoch}"
        )
    if epoch == record.epoch:
        return Duty.REPEAT if task.number in plan.missing else Duty.SKIP
    if plan.missing:
        raise EpochMismatchError(
            f"rows of micro-batch {record.epoch} are lost, and the checkpoint is at {epoch} already; transactions of tasks "
            f"{_listed(plan.missing)} were decided on and ran out before they were committed"
        )
    if epoch > max(record.epoch + 1, first):
        raise _missing(plan.prefix, epoch, f"the last one in Kafka's record is {record.epoch}")
    return Duty.WRITE


def following(plan: Plan) -> int:
    """Return the number of a batch write: Spark does not count them."""
    return 0 if plan.record is None else plan.record.epoch + 1


def check_query(plan: Plan, query: str) -> None:
    """Raise if another query has the record.

    :raises PrefixInUseError: another query uses the prefix, or did
    """
    record = plan.record
    if record is not None and record.query != query:
        theirs = "batch writes use" if record.query == BATCH else f"the query {record.query} uses"
        raise PrefixInUseError(
            f"{theirs} 'transactionalIdPrefix' = {plan.prefix!r}, and this is {_named(query)}: give each query a prefix of its "
            "own. If the checkpoint was deleted, give another prefix, or delete the consumer group of that name"
        )


def _named(query: str) -> str:
    return "a batch write" if query == BATCH else f"the query {query}"


def _missing(prefix: str, epoch: int, what: str) -> EpochRecordMissingError:
    return EpochRecordMissingError(
        f"'transactionalIdPrefix' = {prefix!r}: it is unknown whether micro-batch {epoch} is committed, as {what}. Either the "
        "query has not written in transactions so far, or the brokers have forgotten it (offsets.retention.minutes, or the "
        f"topic was deleted). Set 'transactionsFrom' = {epoch} to write this micro-batch; if it was written before, its rows "
        "come twice"
    )


def decided(parts: Collection[Part]) -> tuple[Prepared, ...] | None:
    """Return the transactions to commit for a micro-batch; None if it is committed already.

    :raises EpochMismatchError: tasks whose rows are to be repeated have not repeated them
    """
    prepared = sorted((part.prepared for part in parts if part.prepared is not None), key=lambda one: one.task)
    missing = next(iter(parts)).plan.missing
    if lacking := sorted(set(missing) - {one.task for one in prepared}):
        raise EpochMismatchError(_differs(lacking, "there are no such tasks now"))
    if not missing and all(one.skipped for one in parts):
        return None
    return tuple(prepared)


def check_repeated(plan: Plan, task: int, digest: bytes) -> None:
    """Raise if a task that repeats its rows has others than before.

    :raises EpochMismatchError: they differ
    """
    if plan.missing[task] != digest:
        raise EpochMismatchError(_differs([task], "its rows are others now, or in another order"))


def _differs(tasks: Iterable[int], why: str) -> str:
    return (
        f"the transactions of tasks {_listed(tasks)} were decided on, and ran out before they were committed, while others of "
        f"their micro-batch are committed; they cannot be repeated: {why}. To write the whole micro-batch again, with rows "
        "that come twice, give another 'transactionalIdPrefix', and 'transactionsFrom' = the number of this micro-batch"
    )


def _listed(tasks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(tasks)))


class Digest:
    """A digest of the rows of a task, in their order.

    :param columns: that are written
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self._columns = sorted(columns)
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of an Arrow batch."""
        self._hash.update(batch.select(self._columns).serialize())

    @property
    def value(self) -> bytes:
        """The digest of all so far."""
        return self._hash.digest()


def marker_of(topic: str | None) -> TopicPartition:
    """Return the partition under which the group has the record: of the topic that is written, or of the group's own."""
    return TopicPartition(topic or "__consumer_offsets", 0)
