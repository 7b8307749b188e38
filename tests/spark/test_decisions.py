"""Micro-batches in transactions on a real broker, without Spark: a crash at each step, other drivers, late attempts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pykafka import KafkaClient
from pykafka.admin.transactions import TransactionsAdmin, TransactionState
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, ResponseTimeoutError
from pykafka.network.node import Node
from pykafka.protocol import wire
from pykafka.spark import session
from pykafka.spark.decisions import Decisions
from pykafka.spark.epochs import BATCH, Part, Plan, Record, Task
from pykafka.spark.errors import (
    EpochMismatchError,
    EpochRecordMissingError,
    FencedWriteError,
    PrefixInUseError,
    SinkError,
    StaleCheckpointError,
    UnknownOutcomeError,
)
from pykafka.spark.options import WriteOptions, write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.task_transaction import coordinator_of
from pykafka.spark.writer import prepare_rows
from pykafka.transactions.coordinator import Coordinator
from tests.brokers import KafkaCluster
from tests.support.spark.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.needs("listed transactions"), pytest.mark.timeout(120)]
COLUMNS = frozenset({"value"})
QUERY = "b7f9a1c2-0000-4000-8000-000000000001"
TASKS = 2


@pytest.fixture(autouse=True)
def clients_closed() -> Iterator[None]:
    yield
    session.close_all()


class Sink:
    """One query's sink, whose driver and tasks are here.

    :param kafka: the cluster
    :param topics: of it
    :param more: further options
    """

    def __init__(self, kafka: KafkaCluster, topics: Topics, **more: str) -> None:
        self.hosts = kafka.hosts
        self.topic = topics.create(partitions=3)
        self.prefix = f"flights-{uuid.uuid4().hex[:8]}"
        self._more = more

    def options(self, **more: str) -> WriteOptions:
        """Return the options of the write."""
        raw = {"kafka.bootstrap.servers": self.hosts, "topic": self.topic, "transactionalIdPrefix": self.prefix}
        return write_options({**raw, **self._more, **more}, Mode.STREAM_WRITE)

    def driver(self) -> Decisions:
        """Return a driver, as after a restart."""
        return Decisions(self.options())

    def run(self, plan: Plan, number: int, epoch: int, attempt: int = 0, query: str = QUERY, text: str = "") -> Part:
        """Run a task, which writes ten rows; return what it would tell the driver."""
        rows = pa.record_batch({"value": [f"{text}{epoch}.{number}.{row}" for row in range(10)]})
        task = Task(query, epoch, number, attempt)
        return prepare_rows(iter([rows]), self.options(), COLUMNS, plan, task)[0]

    def tasks(self, plan: Plan, epoch: int) -> list[Part]:
        """Run all tasks of a micro-batch."""
        return [self.run(plan, number, epoch) for number in range(TASKS)]

    def write(self, epoch: int) -> None:
        """Write a micro-batch as it should go."""
        driver = self.driver()
        driver.commit(self.tasks(driver.plan(), epoch))

    def sees(self, wanted: list[str], level: str = "read_committed") -> None:
        """Check what a reader sees: this, and no more."""
        found: list[str] = []
        end = time.monotonic() + 30
        with KafkaClient(self.hosts) as client, client.consumer(self.topic, isolation_level=level) as consumer:
            while len(found) < len(wanted) and time.monotonic() < end:
                found += [(message.value or b"").decode() for message in consumer.poll(timeout=1)]
            found += [(message.value or b"").decode() for message in consumer.poll(timeout=0.3)]
        assert sorted(found) == sorted(wanted)

    def open(self) -> list[str]:
        """Return the transactional ids that have a transaction open."""
        with KafkaClient(self.hosts) as client:
            listed = TransactionsAdmin(client.cluster).list_transactions(states=TransactionState.ONGOING)
            return [one.transactional_id for one in listed if one.transactional_id.startswith(self.prefix)]

    def coordinator(self, number: int, part: Part | None = None) -> Coordinator:
        """Return what asks the coordinator of a task's transactional id."""
        at = None if part is None or part.prepared is None else part.prepared.at
        return coordinator_of(session.cluster_for(self.options().client), f"{self.prefix}-task-{number}-0", at)


def expected(*epochs: int) -> list[str]:
    """Return the rows of micro-batches, each once."""
    return sorted(f"{epoch}.{task}.{row}" for epoch in epochs for task in range(TASKS) for row in range(10))


@pytest.fixture
def sink(kafka: KafkaCluster, topics: Topics) -> Sink:
    return Sink(kafka, topics)


def test_micro_batches_one_after_another(sink: Sink) -> None:
    for epoch in range(3):
        sink.write(epoch)
    sink.sees(expected(0, 1, 2))
    sink.sees(expected(0, 1, 2), "read_uncommitted")


def test_a_crash_before_the_decision(sink: Sink) -> None:
    """The rows are invisible, and become so for good; the micro-batch is written again, whoever has which rows."""
    sink.write(0)
    sink.tasks(sink.driver().plan(), 1)
    sink.sees(expected(0))
    assert len(sink.open()) == TASKS
    driver = sink.driver()
    plan = driver.plan()
    assert sink.open() == []
    driver.commit([sink.run(plan, 1 - number, 1) for number in range(TASKS)])
    sink.sees(expected(0, 1))
    sink.sees(expected(0, 1, 1), "read_uncommitted")


@pytest.mark.parametrize("committed", [0, 1, 2], ids=["none", "one", "all"])
def test_a_crash_after_the_decision(sink: Sink, committed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next plan completes it, and tasks skip their rows, whatever these are now."""
    driver = sink.driver()
    parts = sink.tasks(driver.plan(), 0)
    calls = 0
    commit_one = Decisions._commit_one

    def crashing(self: Decisions, *arguments: object) -> None:
        nonlocal calls
        if calls == committed:
            raise SystemExit
        calls += 1
        commit_one(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Decisions, "_commit_one", crashing)
    if committed == TASKS:
        monkeypatch.setattr(Decisions, "_abort_leftovers", crashing)
    with pytest.raises(SystemExit):
        driver.commit(parts)
    monkeypatch.undo()
    driver = sink.driver()
    plan = driver.plan()
    sink.sees(expected(0))
    driver.commit([sink.run(plan, number, 0, text="other") for number in range(3 * TASKS)])
    sink.write(1)
    sink.sees(expected(0, 1))
    sink.sees(expected(0, 1), "read_uncommitted")


def test_the_end_of_a_decision_that_comes_late(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """In version 1 of transactions it ended the next record's, whose offset then stayed undecided: no plan could read it."""
    monkeypatch.setattr(Coordinator, "_is_implicit", lambda *_: False)
    call, late = Node.call, list[Any]()

    def meddling(node: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(request, wire.EndTxnRequest) and request.transactional_id == sink.prefix and not late:
            late.append(request)
            raise ResponseTimeoutError("no answer")
        if isinstance(request, wire.TxnOffsetCommitRequest) and late:
            call(node, late[0], ceiling=4)
        return call(node, request, *args, **kwargs)

    monkeypatch.setattr(Node, "call", meddling)
    sink.write(0)
    assert late
    monkeypatch.setattr(Node, "call", call)
    sink.write(1)
    sink.sees(expected(0, 1))


def test_a_crash_after_the_commit(sink: Sink) -> None:
    """Spark has not written its own log yet, and repeats the micro-batch."""
    for _ in range(3):
        sink.write(0)
    sink.write(1)
    sink.sees(expected(0, 1))
    sink.sees(expected(0, 1), "read_uncommitted")


def test_another_driver_fences_the_first_and_its_tasks(sink: Sink) -> None:
    first = sink.driver()
    plan = first.plan()
    parts = sink.tasks(plan, 0)
    second = sink.driver()
    other = second.plan()
    with pytest.raises(FencedWriteError, match="another run of this query"):
        sink.run(plan, 5, 0)
    with pytest.raises(SinkError, match="not open any more"):
        first.commit(parts)
    with pytest.raises(FencedWriteError):
        first.commit([Part(plan, QUERY, 0)])  # tasks without rows: nothing but the decision itself
    second.commit(sink.tasks(other, 0))
    sink.sees(expected(0))


def test_a_decision_of_the_first_driver_counts_for_the_second(sink: Sink) -> None:
    """It came just before the second driver fenced it."""
    first = sink.driver()
    parts = sink.tasks(first.plan(), 0)
    cluster = session.cluster_for(sink.options().client)
    prepared = tuple(one.prepared for one in parts if one.prepared is not None)
    first._recorded(cluster, parts[0].plan.at, Record(QUERY, 0, prepared))
    second = sink.driver()
    second.commit(sink.tasks(second.plan(), 0))
    sink.sees(expected(0))


def test_attempts_that_lose(sink: Sink) -> None:
    """Of two attempts of a task one counts, and the other's rows are aborted, whichever ends first."""
    driver = sink.driver()
    plan = driver.plan()
    late = sink.run(plan, 0, 0, attempt=1)
    parts = [sink.run(plan, 0, 0), sink.run(plan, 1, 0)]
    assert late.prepared is not None
    driver.commit(parts)
    assert sink.open() == []
    sink.sees(expected(0))
    driver = sink.driver()
    plan = driver.plan()
    sink.run(plan, 0, 1)
    driver.commit([sink.run(plan, 0, 1, attempt=1), sink.run(plan, 1, 1)])
    sink.sees(expected(0, 1))


def test_an_attempt_that_fails_aborts(sink: Sink) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": ["x"] * 10})
        raise ArithmeticError("of the query")

    driver = sink.driver()
    plan = driver.plan()
    with pytest.raises(ArithmeticError) as caught:
        prepare_rows(rows(), sink.options(), COLUMNS, plan, Task(QUERY, 0, 0, 0))
    assert "None of this task's rows is committed" in caught.value.__notes__[0]
    assert sink.open() == []
    driver.commit(sink.tasks(plan, 0))
    sink.sees(expected(0))


def test_a_transaction_that_has_run_out_before_the_decision(sink: Sink) -> None:
    driver = sink.driver()
    parts = sink.tasks(driver.plan(), 0)
    sink.coordinator(1, parts[1]).end(False, session.handler.now() + 30)
    with pytest.raises(SinkError, match=r"task 1 is not open any more .* 'kafka.transaction.timeout.ms' = 900000"):
        driver.commit(parts)
    sink.write(0)
    sink.sees(expected(0))


def lost(sink: Sink) -> None:
    """Decide on a micro-batch, and let one of its transactions run out before it is committed."""
    driver = sink.driver()
    parts = sink.tasks(driver.plan(), 0)
    prepared = tuple(one.prepared for one in parts if one.prepared is not None)
    driver._recorded(session.cluster_for(sink.options().client), parts[0].plan.at, Record(QUERY, 0, prepared))
    sink.coordinator(1, parts[1]).end(False, session.handler.now() + 30)


def test_a_part_that_was_lost_is_repeated(sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    lost(sink)
    driver = sink.driver()
    plan = driver.plan()
    assert list(plan.missing) == [1]
    sink.sees([value for value in expected(0) if value.startswith("0.0.")])
    assert "the transactions of tasks 1 ran out" in caplog.text
    sink.tasks(plan, 0)  # and the driver dies once more
    driver = sink.driver()
    plan = driver.plan()
    assert list(plan.missing) == [1]
    driver.commit(sink.tasks(plan, 0))
    sink.write(1)
    sink.sees(expected(0, 1))


@pytest.mark.matrix
def test_a_part_that_runs_out(kafka: KafkaCluster, topics: Topics) -> None:
    """By the brokers' own clock, which they look at every ten seconds."""
    sink = Sink(kafka, topics, **{"kafka.transaction.timeout.ms": "1000"})
    driver = sink.driver()
    parts = sink.tasks(driver.plan(), 0)
    prepared = tuple(one.prepared for one in parts if one.prepared is not None)
    driver._recorded(session.cluster_for(sink.options().client), parts[0].plan.at, Record(QUERY, 0, prepared))
    end = time.monotonic() + 60
    while sink.open():
        assert time.monotonic() < end
        time.sleep(0.2)
    driver = sink.driver()
    plan = driver.plan()
    assert list(plan.missing) == [0, 1]
    driver.commit(sink.tasks(plan, 0))
    sink.sees(expected(0))


def test_a_part_that_was_lost_and_is_not_the_same(sink: Sink) -> None:
    lost(sink)
    driver = sink.driver()
    plan = driver.plan()
    with pytest.raises(EpochMismatchError, match="tasks 1 .* its rows are others now"):
        sink.run(plan, 1, 0, text="other")
    with pytest.raises(EpochMismatchError, match="there are no such tasks now"):
        driver.commit([sink.run(plan, 0, 0)])
    with pytest.raises(EpochMismatchError, match="the checkpoint is at 1 already"):
        sink.run(plan, 0, 1)
    sink.sees([value for value in expected(0) if value.startswith("0.0.")])
    driver.commit(sink.tasks(driver.plan(), 0))
    sink.sees(expected(0))


def test_an_outcome_that_nobody_knows(sink: Sink) -> None:
    driver = sink.driver()
    parts = sink.tasks(driver.plan(), 0)
    prepared = tuple(one.prepared for one in parts if one.prepared is not None)
    driver._recorded(session.cluster_for(sink.options().client), parts[0].plan.at, Record(QUERY, 0, prepared))
    sink.coordinator(1).init(60_000, session.handler.now() + 30, False)  # another attempt, out of nowhere
    with pytest.raises(UnknownOutcomeError, match="task 1 was committed.*'transactionsFrom' = 0"):
        sink.driver().plan()


def test_what_a_failed_write_has_left(sink: Sink) -> None:
    driver = sink.driver()
    parts = sink.tasks(driver.plan(), 0)
    driver.clean()
    assert sink.open() == []
    with pytest.raises(SinkError):
        driver.commit(parts)
    sink.write(0)
    sink.sees(expected(0))


def test_other_queries_and_checkpoints(sink: Sink) -> None:
    plan = sink.driver().plan()
    with pytest.raises(EpochRecordMissingError, match="Set 'transactionsFrom' = 4"):
        sink.run(plan, 0, 4)
    sink.write(0)
    sink.write(1)
    plan = sink.driver().plan()
    with pytest.raises(PrefixInUseError, match=f"the query {QUERY} uses .* and this is the query else"):
        sink.run(plan, 0, 2, query="else")
    with pytest.raises(PrefixInUseError, match="and this is a batch write"):
        sink.run(plan, 0, 2, query=BATCH)
    with pytest.raises(StaleCheckpointError, match="checkpoint is at micro-batch 0, and micro-batch 1"):
        sink.run(plan, 0, 0)
    with pytest.raises(EpochRecordMissingError, match="the last one in Kafka's record is 1"):
        sink.run(plan, 0, 7)
    sink.sees(expected(0, 1))


def test_a_query_that_begins_to_write_in_transactions(kafka: KafkaCluster, topics: Topics) -> None:
    sink = Sink(kafka, topics, transactionsFrom="7")
    for epoch in (7, 7, 8):
        sink.write(epoch)
    sink.sees(expected(7, 8))


def test_a_group_that_is_something_else(sink: Sink) -> None:
    with KafkaClient(sink.hosts) as client, client.consumer(sink.topic, group=sink.prefix) as consumer:
        consumer.commit({TopicPartition(sink.topic, 0): 0})
    with pytest.raises(PrefixInUseError, match="no name of a consumer group"):
        sink.driver().plan()


def test_batch_writes(sink: Sink) -> None:
    driver = sink.driver()
    plan = driver.plan()
    parts = [sink.run(plan, number, 0, query=BATCH) for number in range(TASKS)]
    sink.sees([])
    driver.commit(parts)
    driver = sink.driver()
    plan = driver.plan()
    driver.commit([sink.run(plan, number, 1, query=BATCH) for number in range(TASKS)])
    sink.sees(expected(0, 1))
    with pytest.raises(PrefixInUseError, match="batch writes use"):
        sink.run(sink.driver().plan(), 0, 0)


def test_what_the_cluster_refuses(kafka: KafkaCluster, topics: Topics) -> None:
    sink = Sink(kafka, topics, **{"kafka.transaction.timeout.ms": str(24 * 3600 * 1000)})
    with pytest.raises(
        SinkError, match=r"do not allow transactions of 86400000 ms: set 'kafka.transaction.timeout.ms'"
    ):
        sink.driver().plan()


def test_a_topic_that_is_not_there(sink: Sink) -> None:
    options = sink.options(topic="not-made.by.anybody", **{"kafka.delivery.timeout.ms": "3000"})
    try:
        Decisions(options).plan()  # where brokers make topics
    except KafkaException as error:
        assert "not-made.by.anybody" in str(error)  # noqa: PT017 - either is right
