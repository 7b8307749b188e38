"""Micro-batches in transactions, without brokers: records as texts, what a task has to do, and digests of rows."""

from __future__ import annotations

import base64
import random
import zlib

import pyarrow as pa
import pytest

from pykafka.spark.epochs import (
    BATCH,
    MOST_TEXT,
    Digest,
    Duty,
    Part,
    Plan,
    Prepared,
    ProducerEpoch,
    Record,
    Task,
    decided,
    duty,
    following,
    is_task_of,
    marker_of,
    task_id,
)
from pykafka.spark.errors import (
    EpochMismatchError,
    EpochRecordMissingError,
    OptionError,
    PrefixInUseError,
    SinkError,
    StaleCheckpointError,
)
from pykafka.spark.options import TransactionOptions, write_options
from pykafka.spark.optiontable import Mode

HOSTS = {"kafka.bootstrap.servers": "a:1"}
AT = ProducerEpoch(4242, 7, True)
QUERY = "493be5b6-4f7e-40e3-89d6-94e1fe93828e"
CHANCE = random.Random(1)


def prepared(tasks: int) -> tuple[Prepared, ...]:
    return tuple(
        Prepared(task, task % 3, ProducerEpoch(10_000 + task, task, task % 2 == 0), CHANCE.randbytes(8))
        for task in range(tasks)
    )


def plan(record: Record | None) -> Plan:
    return Plan("p", AT, record)


@pytest.mark.parametrize("tasks", [0, 1, 3, 200])
@pytest.mark.parametrize("lost", [False, True])
def test_records_are_texts(tasks: int, lost: bool) -> None:
    record = Record(QUERY, 41, prepared(tasks), lost and tasks > 0)
    assert Record.parse(42, record.text()) == record
    assert len(record.text()) <= MOST_TEXT


def test_too_many_tasks() -> None:
    with pytest.raises(SinkError, match=r"400 tasks have rows for micro-batch 41.*coalesce\(100\)"):
        Record(QUERY, 41, prepared(400)).text()


#: A few kB that unpack to 200,000 rows.
BOMB = f"1 q {base64.b64encode(zlib.compress(bytes(27 * 200_000))).decode()}"


@pytest.mark.parametrize(
    "text", ["", "x", "1", "2 q", "1 q ###", "1 q AAAA", "1 q a b c", "1 q eNoDAAAAAAE= what", BOMB]
)
def test_texts_of_others(text: str) -> None:
    with pytest.raises(PrefixInUseError, match="no name of a consumer group"):
        Record.parse(7, text)


def test_ids_of_tasks() -> None:
    assert task_id("a-task", 3, 0) == "a-task-task-3-0"
    assert is_task_of("a-task", "a-task-task-3-0")
    assert is_task_of("a", "a-task-12-7")
    assert not is_task_of("a", "a-b-task-12-7")
    assert not is_task_of("a", "a")
    assert not is_task_of("a", "a-task-12")
    assert marker_of("t") == ("t", 0)
    assert marker_of(None) == ("__consumer_offsets", 0)


@pytest.mark.parametrize(
    ("record", "epoch", "first", "expected"),
    [
        (None, 0, 0, Duty.WRITE),
        (None, 7, 7, Duty.WRITE),
        (None, 3, 7, Duty.WRITE),
        (Record(QUERY, 4), 5, 0, Duty.WRITE),
        (Record(QUERY, 4), 4, 0, Duty.SKIP),
        (Record(QUERY, 4), 9, 9, Duty.WRITE),
        (Record(QUERY, 4, prepared(2), True), 4, 0, Duty.REPEAT),
        (Record(QUERY, 4, prepared(1), True), 4, 0, Duty.SKIP),
    ],
)
def test_what_a_task_does(record: Record | None, epoch: int, first: int, expected: Duty) -> None:
    assert duty(plan(record), Task(QUERY, epoch, 1, 0), first) is expected


@pytest.mark.parametrize(
    ("record", "query", "epoch", "kind"),
    [
        (None, QUERY, 1, EpochRecordMissingError),
        (Record(QUERY, 4), QUERY, 6, EpochRecordMissingError),
        (Record(QUERY, 4), QUERY, 3, StaleCheckpointError),
        (Record(QUERY, 4), "another", 5, PrefixInUseError),
        (Record(BATCH, 4), QUERY, 5, PrefixInUseError),
        (Record(QUERY, 4, prepared(1), True), QUERY, 5, EpochMismatchError),
    ],
)
def test_what_keeps_a_task_from_it(record: Record | None, query: str, epoch: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        duty(plan(record), Task(query, epoch, 0, 0), 0)


def test_batch_writes_are_never_skipped() -> None:
    assert following(plan(None)) == 0
    assert following(plan(Record(BATCH, 4))) == 5
    assert duty(plan(Record(BATCH, 4)), Task(BATCH, 4, 0, 0), 0) is Duty.WRITE
    with pytest.raises(PrefixInUseError, match="and this is a batch write"):
        duty(plan(Record(QUERY, 4)), Task(BATCH, 4, 0, 0), 0)


def test_what_is_decided() -> None:
    first, second = prepared(2)
    nothing = plan(None)
    parts = [Part(nothing, QUERY, 0, second), Part(nothing, QUERY, 0, first), Part(nothing, QUERY, 0)]
    assert decided(parts) == (first, second)
    assert decided([Part(nothing, QUERY, 0)]) == ()
    assert decided([Part(nothing, QUERY, 0, skipped=True)]) is None
    lost = plan(Record(QUERY, 0, (second,), True))
    assert decided([Part(lost, QUERY, 0, skipped=True), Part(lost, QUERY, 0, second)]) == (second,)
    with pytest.raises(EpochMismatchError, match="tasks 1 were decided"):
        decided([Part(lost, QUERY, 0, skipped=True)])


def test_digests() -> None:
    def digest(*values: str | None) -> bytes:
        found = Digest({"value", "key"})
        column = pa.array(values, pa.string())
        found.add(pa.record_batch({"key": column, "other": pa.array(range(len(values))), "value": column}))
        return found.value

    assert digest("a", None) == digest("a", None)
    assert len({digest(), digest("a"), digest("a", "b"), digest("b", "a"), digest("ab"), digest("a", None)}) == 6


def test_options() -> None:
    given = {
        **HOSTS,
        "transactionalIdPrefix": "flights",
        "transactionsFrom": "7",
        "kafka.transaction.timeout.ms": "5000",
    }
    assert write_options(given, Mode.STREAM_WRITE).transactions == TransactionOptions("flights", 5000, 7)
    default = write_options({**HOSTS, "transactionalIdPrefix": "flights"}, Mode.STREAM_WRITE).transactions
    assert default == TransactionOptions("flights", 900_000, 0)
    assert write_options(HOSTS, Mode.STREAM_WRITE).transactions is None
    foreach = {**HOSTS, "transactionalIdPrefix": "flights", "foreachBatch": "true"}
    made = write_options(foreach, Mode.BATCH_WRITE).transactions
    assert made is not None
    assert made.micro_batch
    told: list[str] = []
    del given["transactionalIdPrefix"]
    assert write_options(given, Mode.STREAM_WRITE, told.append).transactions is None
    assert told == [
        f"option '{name}' has no effect without 'transactionalIdPrefix'"
        for name in ("kafka.transaction.timeout.ms", "transactionsFrom")
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"transactionalIdPrefix": " "}, "'transactionalIdPrefix' is empty"),
        ({"transactionalIdPrefix": "a-task-0-0"}, "must not end like the transactional id of a task"),
        ({"transactionsFrom": "-1"}, "'transactionsFrom' must be at least 0"),
        ({"kafka.transactional.id": "x"}, "refused: each task needs an id of its own; 'transactionalIdPrefix'"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        write_options({**HOSTS, **options}, Mode.STREAM_WRITE)
