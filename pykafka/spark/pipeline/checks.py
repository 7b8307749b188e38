"""Checks of a pipeline before it runs: its clusters, its directories, its SQL, its executors."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pykafka.exceptions import UnknownTopicOrPartition
from pykafka.handlers import ThreadingHandler
from pykafka.spark import inspection
from pykafka.spark.cluster import OffsetReader
from pykafka.spark.data_loss import LossReporter
from pykafka.spark.offsets import Bounds, clamp_start, resolve
from pykafka.spark.options import ReadOptions, read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.pipeline import history
from pykafka.spark.pipeline.databases import DatabaseWriter
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.frames import build, read_nothing
from pykafka.spark.pipeline.landing import fitting, start
from pykafka.spark.pipeline.model import (
    FileSink,
    FormatSink,
    Input,
    JdbcSink,
    Output,
    Sink,
    TableSink,
    TopicSink,
    client_options,
    is_written_by_tasks,
)
from pykafka.spark.pipeline.running import AVAILABLE_NOW
from pykafka.spark.pipeline.storage import SINK_LOG, Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pykafka.handlers import Handler, Worker
    from pykafka.spark.pipeline.running import StopRequest

#: How long a task may take to read one record (s).
TASK_TIMEOUT_S = 120
#: How long the queries over empty streams may take (s).
_PLAN_TIMEOUT_S = 120
#: The interval of checks for a stop request while a cluster is checked (s).
_POLL_INTERVAL_S = 0.1


@dataclass(frozen=True)
class Check:
    """One check of a pipeline.

    :param place: the part of the declaration
    :param find_out: returns a line about the result, or raises the problem
    """

    place: str
    find_out: Callable[[], str]


def cluster_checks(declaration: Declaration) -> Iterator[Check]:
    """Yield the checks that ask brokers and need no Spark.

    They raise NoBrokersAvailableError, UnknownTopicOrPartition and OptionError.
    """
    for one in declaration.inputs:
        options = read_options(one.source.options, Mode.STREAM_READ)
        yield Check(one.place, lambda options=options: _source(options))  # type: ignore[misc]
    for output in declaration.outputs:
        if isinstance(output.sink, TopicSink):
            reads = declaration.input_of(output)
            yield Check(output.place, lambda sink=output.sink, reads=reads: _topic(sink, reads))  # type: ignore[misc]
    if (letters := declaration.dead_letters) is not None:
        yield Check("[dead_letters]", lambda: _topic(letters, None))
    for one in declaration.inputs:
        if isinstance(one.malformed, TopicSink):
            yield Check(one.malformed_place, lambda sink=one.malformed: _topic(sink, None))  # type: ignore[misc]


def check_aside(handler: Handler, check: Check, stop: StopRequest) -> None:
    """Make a check of a cluster in a worker of its own, and leave it there at a stop request: brokers may not answer for long.

    :param handler: makes the worker
    :param check: raises the problem
    :param stop: ends the wait
    """
    if stop.asked:
        return
    worker, errors = _spawned(handler, check.find_out)
    while not worker.join(_POLL_INTERVAL_S):
        if stop.asked > 0:  # in the meantime, which mypy cannot know
            return
    if errors:
        raise errors[0]


def _spawned(handler: Handler, function: Callable[[], object]) -> tuple[Worker, list[Exception]]:
    """Call a function in a worker; return the worker, and a list that takes the function's error."""
    errors: list[Exception] = []

    def call() -> None:
        try:
            function()
        except Exception as error:  # noqa: BLE001 - the caller raises it
            errors.append(error)

    return handler.spawn(call, name="pykafka-check"), errors


def storage_checks(declaration: Declaration, spark: SparkSession) -> Iterator[Check]:
    """Yield the checks of directories; they raise PipelineError and StorageError."""
    storage = Storage(spark)
    yield Check("checkpoint", lambda: _checkpoint(storage, declaration))
    sinks = [(output.place, output.directory, output.sink) for output in declaration.outputs]
    sinks += [
        (one.malformed_place, one.malformed_directory, one.malformed)
        for one in declaration.inputs
        if one.malformed is not None
    ]
    for place, directory, sink in sinks:
        if isinstance(sink, FileSink):
            checkpoint = declaration.checkpoint_of(directory)
            yield Check(f"{place} path", lambda sink=sink, at=checkpoint: directory_check(storage, sink, at))  # type: ignore[misc]
        if isinstance(sink, TableSink) and (at := sink.path or sink.warehouse):
            key = "path" if sink.path else "warehouse"
            yield Check(f"{place} {key}", lambda sink=sink, at=at: _writable(storage, sink, at))  # type: ignore[misc]
        if isinstance(sink, JdbcSink):
            yield Check(f"{place} url", lambda sink=sink: _database(spark, sink))  # type: ignore[misc]


def plan_check(declaration: Declaration, spark: SparkSession) -> Check:
    """Return the check that lets Spark plan and start everything on empty streams; it raises DeclarationError."""
    return Check("[transform]", lambda: _plan(declaration, spark))


def task_check(declaration: Declaration, spark: SparkSession) -> Check:
    """Return the check that reads a record on an executor; it raises PipelineError."""
    return Check("[spark]", lambda: _task(declaration, spark))


def _source(options: ReadOptions) -> str:
    with closing(OffsetReader(options)) as offsets:
        partitions = offsets.partitions()
        missing = offsets.missing(partitions)
        if missing:
            what = f"{', '.join(missing)} does not exist"
            raise UnknownTopicOrPartition(f"{what} on {options.client.hosts}: create it, or correct the name")
        if not partitions:
            return f"{options.subscription} matches no topic on {options.client.hosts} yet: the stream waits for the first one"
        bounds = offsets.bounds(partitions)
        start = resolve(offsets.located(options.starting, partitions), bounds, "startingOffsets")
        # A start behind an open transaction makes the stream wait there: no loss, and nothing to read yet.
        waiting = offsets.behind_transactions(start, {tp: at.latest for tp, at in bounds.items()})
        bounds |= {tp: Bounds(bounds[tp].earliest, start[tp]) for tp in waiting}
        begin = clamp_start(start, bounds, LossReporter(True))
    count = sum(bounds[tp].latest - offset for tp, offset in begin.items())
    topics = ", ".join(sorted({tp.topic for tp in partitions}))
    return f"{topics} on {options.client.hosts}: {len(partitions)} partitions, {count:,} records from the start on"


def _topic(sink: TopicSink, reads: Input | None) -> str:
    """Check a sink's topic.

    :param reads: the source whose records go there as they are
    """
    if sink.topic is None:
        return "the topics that rows name, known only at run time"
    options = read_options({**client_options(sink.options), "subscribe": sink.topic}, Mode.BATCH_READ)
    with closing(OffsetReader(options)) as reader:
        found = reader.partitions()
    if not found:
        raise UnknownTopicOrPartition(
            f"{sink.topic} does not exist on {options.client.hosts}: create it, or correct the name"
        )
    if reads is not None and reads.parsing is None and "partition" in reads.source.columns:
        _check_partitions(sink.topic, len(found), reads)
    return f"{sink}: {len(found)} partitions"


def _check_partitions(topic: str, count: int, reads: Input) -> None:
    with closing(OffsetReader(read_options(reads.source.options, Mode.STREAM_READ))) as reader:
        highest = max((tp.partition for tp in reader.partitions()), default=0)
    if highest >= count:
        raise PipelineError(
            f"{topic} has {count} partitions, and records of partition {highest} would go to the same one there: give it "
            f"more, or leave 'partition' out of {reads.place} columns"
        )


def _checkpoint(storage: Storage, declaration: Declaration) -> str:
    path = declaration.checkpoint.rstrip("/")
    storage.try_writing(path)
    for output in declaration.outputs:
        history.check(storage, output.sink, output.mode, declaration.checkpoint_of(output.directory))
    for one in declaration.inputs:
        if one.malformed is not None:
            history.check(storage, one.malformed, "append", declaration.checkpoint_of(one.malformed_directory))
    numbers = [
        storage.last_number(f"{declaration.checkpoint_of(output.directory)}/offsets") for output in declaration.outputs
    ]
    if all(number is None for number in numbers):
        return f"{path} is new"
    return f"continues from {path}, after micro-batch {', '.join('none' if n is None else str(n) for n in numbers)}"


def directory_check(storage: Storage, sink: FileSink, checkpoint: str) -> str:
    """Check that a directory can take the sink's files; return what a check prints."""
    storage.try_writing(sink.path)
    if is_written_by_tasks(sink):
        storage.mounted(sink.path)
    written, known = storage.last_number(f"{sink.path}/{SINK_LOG}"), storage.last_number(f"{checkpoint}/offsets")
    if written is not None and (known is None or known < written):
        # Spark leaves out a micro-batch whose number is in the directory's log, as it counts as written.
        raise PipelineError(
            f"{sink.path} has been written up to micro-batch {written} by a pipeline with another checkpoint; Spark would "
            f"leave new records out, up to that number: name the checkpoint that belongs to it instead of {checkpoint}, "
            "or another path"
        )
    # If the checkpoint has only a first micro-batch that was never written, the files are the rest of that.
    if written is None and known != 0 and any(not name.startswith((".", "_")) for name in storage.names(sink.path)):
        raise PipelineError(
            f"{sink.path} has other files, which Spark would ignore beside the pipeline's: name a "
            "directory that is empty or new"
        )
    # Spark plans a micro-batch when the one before is done.
    if known is not None and known - 1 > (-1 if written is None else written):
        has = "none" if written is None else f"micro-batch {written}"
        raise PipelineError(
            f"{sink.path} has {has}, and the checkpoint {checkpoint} says that it has micro-batch {known - 1}: rows in between "
            "would be missing. Bring the directory back, or correct its name; or take a new checkpoint, with a start in "
            "[source] if older rows are not wanted"
        )
    return str(sink)


def _writable(storage: Storage, sink: TableSink, path: str) -> str:
    storage.try_writing(path)
    return str(sink)


def _database(spark: SparkSession, sink: JdbcSink) -> str:
    DatabaseWriter(spark, sink).check()
    return str(sink)


def _plan(declaration: Declaration, spark: SparkSession) -> str:
    with tempfile.TemporaryDirectory(prefix="pykafka-pipeline-") as directory:
        root = Path(directory)
        (root / "nothing").mkdir()
        frames = build(declaration, lambda source: read_nothing(spark, (root / "nothing").as_uri(), source))
        for output, frame in frames.rows:
            _run_once(frame, output.sink, root / output.directory, output.mode)
        for one, frame in frames.malformed:
            if one.malformed is not None:
                _run_once(frame, one.malformed, root / one.malformed_directory)
    columns = [
        ", ".join(f"{name} {kind}" for name, kind in frame.dtypes) + _lacking(declaration, output, frame)
        for output, frame in frames.rows
    ]
    if len(columns) == 1:
        return f"rows have the columns {columns[0]}"
    return "; ".join(
        f"rows of {output.place} have the columns {named}"
        for (output, _), named in zip(frames.rows, columns, strict=True)
    )


def _lacking(declaration: Declaration, output: Output, frame: DataFrame) -> str:
    """Return what the table of a sink has and the rows lack, as the end of a sentence.

    :raises TableMismatchError: rows would be lost, or parts of them
    """
    done = Storage(frame.sparkSession).last_number(f"{declaration.checkpoint_of(output.directory)}/commits")
    fit = fitting(frame, output.sink, done, output.mode)
    if fit is None or not fit.lacking:
        return ""
    return f" (and not {', '.join(fit.lacking)}, as the table has: null, or the default, in new rows)"


def _run_once(frame: DataFrame, sink: Sink, directory: Path, mode: str = "append") -> None:
    """Run the query once, into a directory of ours: some errors Spark raises only when a query starts."""
    if isinstance(sink, FileSink):
        sink = replace(sink, path=(directory / "sink").as_uri())
    elif isinstance(sink, TableSink | JdbcSink):
        # Their tables would be made, and what else they can refuse they refuse as a format.
        sink = FormatSink("noop", "", (), {})
    checkpoint, name = (directory / "checkpoint").as_uri(), f"{directory.name}-of-nothing"
    query = start(frame, sink, checkpoint, name, AVAILABLE_NOW, mode)
    try:
        if not query.awaitTermination(_PLAN_TIMEOUT_S):
            raise PipelineError(
                f"Spark has not planned it within {_PLAN_TIMEOUT_S} s: check whether this machine is overloaded"
            )
    finally:
        query.stop()


def _task(declaration: Declaration, spark: SparkSession) -> str:
    """Read one record in a task: its Python must find this package and reach the brokers."""
    frames = [_first_record(spark, one) for one in declaration.inputs]
    worker, errors = _spawned(ThreadingHandler(), lambda: [frame.collect() for frame in frames])
    if not worker.join(TASK_TIMEOUT_S):
        spark.sparkContext.cancelAllJobs()
        worker.join(TASK_TIMEOUT_S)
        raise PipelineError(
            f"no executor of {spark.sparkContext.master} has read a record within {TASK_TIMEOUT_S} s: check whether it has "
            "workers with free cores and memory"
        )
    if errors:
        raise errors[0]
    said = f"Spark {spark.version} on {spark.sparkContext.master}: an executor reads the source"
    return "\n         ".join((said, *inspection.lines(inspection.this_python(), inspection.ask_workers(spark))))


def _first_record(spark: SparkSession, reads: Input) -> DataFrame:
    options = reads.source.options
    reader = spark.read.format("pykafka").schema("offset bigint").options(**client_options(options))
    names = ("subscribe", "subscribePattern", "assign")
    return reader.options(**{name: text for name, text in options.items() if name in names}).load().limit(1)
