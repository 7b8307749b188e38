"""The command pipeline: topics to Parquet or to other topics, by Spark, as one TOML file declares it."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from rich.live import Live
from rich.text import Text

import pykafka.exceptions
from pykafka.cli import show
from pykafka.cli.exit_status import Status, explain, status_of
from pykafka.cli.options import REDACT
from pykafka.cli.shutdown_watchdog import STDERR, STDOUT, ShutdownWatchdog, write_at_once
from pykafka.exceptions import KafkaException, RegistryUnavailableError
from pykafka.handlers import ThreadingHandler

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pykafka.spark.pipeline import Declaration, Pipeline, StopRequest
    from pykafka.spark.pipeline.checks import Check
    from pykafka.spark.pipeline.events import Event, Progress
    from pykafka.spark.pipeline.watching import Watch

#: The line with an error of this package, in a stack of Python, Java and Scala.
_OWN_ERROR = re.compile(r"pykafka\.[\w.]*?(\w+): (.*)")
#: An error that a pipeline's step raises itself, for example about a malformed record.
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE.*)?$", re.MULTILINE)

#: Spark's words if the Python that it asked has no such format, and if there is no such Python.
_NO_FORMAT = re.compile(r"DATA_SOURCE_NOT_FOUND\].*pykafka")
_NO_PROGRAM = re.compile(r'Cannot run program "')
#: Spark's own words if an executor's Python lacks it: it loads that before anything of ours.
_NO_ARROW = re.compile(r"No module named 'pyarrow'")
_EXECUTOR = re.compile(r"\((\S+ executor \S+)\)")

#: How long Spark may take to end when its micro-batch has, or may not continue longer (s): it waits for its own parts.
SPARK_END_S = 90.0
NOT_WAITED_FOR = (
    "Spark did not end in time and was left behind; nothing is lost: the checkpoint has the progress, and the next run "
    "continues from there"
)


@click.command("pipeline")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option(
    "--dry-run", is_flag=True, help="Check the pipeline against the live cluster, and read one record at most."
)
@click.option(
    "--once", is_flag=True, help="Read the records that are there now and end, whatever the file's trigger is."
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a value of FILE; may be repeated."
)
@click.option(
    "--master", default="", metavar="URL", help="Spark's master, as spark://host:7077; by default this machine."
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="How long the micro-batch may take to end after Ctrl-C or SIGTERM (s); a second one ends it at once, a third "
    "one the program.",
)
@click.option(
    "--progress",
    "form",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="How to print what happens: for people, or one object of JSON a line for each micro-batch and event.",
)
@click.option(
    "--metrics", default="", metavar="HOST:PORT", help="Serve metrics for Prometheus there, as 127.0.0.1:9400."
)
@click.option("--explain", "drawn", is_flag=True, help="Draw what FILE declares, without Spark and brokers.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the drawing of --explain to this file, as a picture (SVG).",
)
@click.option("--compact", is_flag=True, help="Join the small files of the pipeline's tables, also while it runs.")
@click.option("--init", is_flag=True, help="Print an example of a FILE, with comments.")
@click.option("--script", is_flag=True, help="Print the path of this program, for spark-submit.")
@click.pass_context
def pipeline(
    ctx: click.Context,
    file: Path | None,
    dry_run: bool,
    once: bool,
    overrides: tuple[str, ...],
    master: str,
    grace: float,
    form: str,
    metrics: str,
    drawn: bool,
    svg: Path | None,
    compact: bool,
    init: bool,
    script: bool,
) -> None:
    """Take topics to files, tables or other topics. FILE (TOML) declares the pipeline.

    A pipeline continues where its last run ended. On a cluster of Spark: --master, or
    `spark-submit $(kafka-tools pipeline --script) FILE`. FILE names the brokers.
    """
    with _needing_spark(ctx):
        from pykafka.spark.pipeline import Declaration, DeclarationError, StopRequest
        from pykafka.spark.pipeline.example import EXAMPLE

    if init or script:
        click.echo(EXAMPLE if init else _script(), nl=script)
        return
    if file is None:
        raise click.UsageError("give the FILE that declares the pipeline; --init prints an example")
    if once:
        overrides = (*overrides, "trigger=available_now")
    if metrics:
        overrides = (*overrides, f"metrics.address={metrics}")
    redact: Callable[[str], str] = str
    try:
        declaration = Declaration.load(file, overrides)
        redact = ctx.meta[REDACT] = declaration.redact
        if drawn or svg is not None:
            _explain(declaration, svg)
            return
        stop = StopRequest(grace)
        with warnings_shown(redact):
            if compact:
                status = _compact(declaration, master)
            else:
                status = (
                    _dry_run(declaration, master, stop) if dry_run else _run(declaration, master, stop, form == "json")
                )
    except DeclarationError as error:
        click.echo(f"kafka-tools: {redact(str(error))}", err=True)
        status = _refusal(error)
    ctx.exit(status)


def _refusal(error: Exception) -> Status:
    """Return the status of a declaration that is refused; a registry that is down is no fault of it."""
    return Status.FAILED if isinstance(error.__cause__, RegistryUnavailableError) else Status.USAGE


@contextmanager
def _needing_spark(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "py4j", "pyarrow"):
            raise
        missing = error.name.partition(".")[0]
        click.echo(f"kafka-tools: {missing} is not installed; pipelines need it: pip install pyspark pyarrow", err=True)
        ctx.exit(Status.FAILED)


class _Warnings(logging.Handler):
    """Prints warnings to stderr, as sentences of this program.

    :param redact: takes secrets out of a text
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        click.echo(f"kafka-tools: {self._redact(record.getMessage())}", err=True)


@contextmanager
def warnings_shown(redact: Callable[[str], str]) -> Iterator[None]:
    """Print the warnings of a pipeline's watchers, as of a webhook that failed; with --verbose the log has them.

    :param redact: takes secrets out of a text
    """
    log = logging.getLogger("pykafka.spark.pipeline")
    if logging.getLogger().handlers:
        yield
        return
    shown = _Warnings(redact)
    log.addHandler(shown)
    # A library may give the root logger a handler meanwhile, as PySpark does: it would print each once more, with its secrets.
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = True
        log.removeHandler(shown)


# -- --explain


def _explain(declaration: Declaration, svg: Path | None) -> None:
    """Print the flow, and write its picture."""
    from pykafka.spark.pipeline.flow import as_svg, as_text

    click.echo(as_text(declaration))
    if svg is not None:
        try:
            svg.write_text(as_svg(declaration), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(svg), hint=error.strerror) from error


# -- --dry-run


def _dry_run(declaration: Declaration, master: str, stop: StopRequest) -> int:
    """Print what a run would do and its problems; return the status of the first problem."""
    from pykafka.spark.pipeline import checks
    from pykafka.spark.pipeline.errors import SparkMissingError
    from pykafka.spark.pipeline.launch import kill, session

    out = show.console()
    statuses: list[int] = []

    def find_out(check: Check) -> None:
        if not stop.asked:
            statuses.append(_make(check, declaration.redact))

    with _Signals(kill) as signals:
        for check in checks.cluster_checks(declaration):
            find_out(check)
        try:
            with session(declaration, master) as spark:
                signals.ask(stop, times=1)
                for check in (*checks.storage_checks(declaration, spark), checks.plan_check(declaration, spark)):
                    find_out(check)
                if not any(statuses):
                    find_out(checks.task_check(declaration, spark))
        except SparkMissingError as error:
            statuses.append(_print_problem("[spark]", error, declaration.redact))
    if stop.asked:
        out.print(Text(f"{declaration.name}: interrupted after {len(statuses)} checks"))
        return signals.status()
    wrong = [status for status in statuses if status]
    verdict = (
        f"{len(wrong)} of {len(statuses)} checks failed"
        if wrong
        else f"nothing is wrong; trigger: {declaration.trigger}"
    )
    out.print(Text(f"{declaration.name}: {verdict}"))
    return wrong[0] if wrong else Status.OK


def _make(check: Check, redact: Callable[[str], str]) -> int:
    """Make a check and print what it finds; return its status."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        show.console().print(Text(f"  right  {check.place}: {check.find_out()}"))
    except (KafkaException, PySparkException, Py4JError) as error:
        return _print_problem(check.place, error, redact)
    return Status.OK


def _print_problem(place: str, error: Exception, redact: Callable[[str], str]) -> int:
    """Print a problem; return its status."""
    from pykafka.spark.pipeline import DeclarationError

    if isinstance(error, DeclarationError):
        for problem in error.problems:
            show.console().print(Text(f"  WRONG  {redact(str(problem))}"))
        return _refusal(error)
    status, sentence = reason(error)
    show.console().print(Text(f"  WRONG  {place}: {redact(sentence)}"))
    return status


# -- --compact


def _compact(declaration: Declaration, master: str) -> int:
    """Join the small files of each sink; return the exit status."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from pykafka.spark.pipeline import lake_tables
    from pykafka.spark.pipeline.launch import kill, session

    for output in declaration.outputs:
        lake_tables.check(output)
    try:
        # A signal ends it at once: the formats make a change whole, or not at all.
        with _Signals(kill), session(declaration, master) as spark:
            for output in declaration.outputs:
                show.console().print(Text(lake_tables.compact(spark, output)))
    except (PySparkException, Py4JError) as error:
        status, sentence = reason(error)
        click.echo(f"kafka-tools: {declaration.redact(sentence)}", err=True)
        return status
    return Status.OK


# -- a run


def _run(declaration: Declaration, master: str, stop: StopRequest, as_json: bool) -> int:
    """Run to the end, or until a signal; return the exit status.

    :param as_json: whether the output is lines of JSON
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from pykafka.spark.pipeline.checks import cluster_checks
    from pykafka.spark.pipeline.launch import session
    from pykafka.spark.pipeline.watching import watched

    run = _Run(declaration, stop, as_json)
    watchers = (run.print_event,) if as_json else (_print_restart,)
    try:
        with (
            _Signals(run.end_at_once) as signals,
            watched(
                declaration, run.handler, stop, lambda error: declaration.redact(reason(error)[1]), watchers
            ) as watch,
        ):
            if not declaration.operation.restart.attempts:
                for check in cluster_checks(declaration):  # at once: Spark takes seconds to start
                    check.find_out()
            with (
                ShutdownWatchdog(stop.grace_s + SPARK_END_S, NOT_WAITED_FOR, run.end_at_once) as watchdog,
                session(declaration, master) as spark,
                _progress(declaration, stop, silent=as_json) as advance,
            ):
                signals.ask(stop, times=2, watchdog=watchdog)
                watch.restarts.run(lambda: run.start(watch, spark, advance))
    except (PySparkException, Py4JError) as error:
        status, sentence = reason(error)
        click.echo(f"kafka-tools: {declaration.redact(sentence)}", err=True)
        return status
    if not as_json:
        done = () if run.pipeline is None else run.pipeline.progress
        text = _summary(declaration, done) if done else f"{declaration.name}: stopped before it read anything"
        show.console().print(Text(text))
    return signals.status()


class _Run:
    """The starts of a pipeline, and its last words.

    :param declaration: the pipeline
    :param stop: ends it
    :param as_json: whether the output is lines of JSON
    """

    def __init__(self, declaration: Declaration, stop: StopRequest, as_json: bool) -> None:
        self._declaration = declaration
        self._stop = stop
        self._as_json = as_json
        self._printed: set[str] = set()
        self.handler = ThreadingHandler()
        #: One for all starts, as it keeps the counts.
        self.pipeline: Pipeline | None = None
        # Not in a signal handler, which may interrupt an import.
        from pykafka.spark.pipeline.events import ENDED, Event
        from pykafka.spark.pipeline.launch import kill

        self._kill, self._ended, self._event = kill, ENDED, Event

    def start(self, watch: Watch, spark: SparkSession, advance: Callable[[Progress], None]) -> None:
        """Check the clusters and directories, and run the pipeline."""
        from pykafka.spark.pipeline import Pipeline
        from pykafka.spark.pipeline.checks import check_aside, cluster_checks, storage_checks

        if watch.restarts.starts > 1:
            watch.publish_start()
        for check in cluster_checks(self._declaration):
            check_aside(self.handler, check, self._stop)
        for check in storage_checks(self._declaration, spark):
            if not self._stop.asked:
                check.find_out()
        if self._stop.asked:
            return
        if self.pipeline is None:
            self.pipeline = Pipeline(self._declaration, spark, advance, self._stop, watch.journal)
        self.pipeline.run()

    def print_event(self, event: Event) -> None:
        """Print an event as a line of JSON, unless only watchers within the program need it."""
        if event.kind not in ("lag", "query_failed"):
            self._printed.add(event.kind)
            click.echo(event.as_json())

    def end_at_once(self) -> None:
        """Kill Spark, and print the last line of JSON; a signal handler calls it."""
        self._kill()
        if self._as_json and self._ended not in self._printed:
            event = self._event(self._ended, self._declaration.name, self.handler.time_ms(), {"status": "stopped"})
            write_at_once(STDOUT, f"{event.as_json()}\n".encode())


def _print_restart(event: Event) -> None:
    """Print a restart: the progress shows the rest."""
    facts = event.facts
    if event.kind == "failed" and facts["restarts"]:
        click.echo(f"kafka-tools: {facts['reason']}", err=True)
    elif event.kind == "restarting":
        pause, number, most = facts["pause_s"], facts["restart"], facts["of"]
        click.echo(f"{event.pipeline}: restart {number} of {most} in {pause:.1f} s", err=True)


class _Signals:
    """Handlers of Ctrl-C and SIGTERM for the length of a `with` block.

    They end the program at once, as nothing has begun until Spark runs; after `ask`, they request a stop.

    :param kill: ends Spark, with a program that ends at once
    """

    def __init__(self, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._stop: StopRequest | None = None
        self._times = 0
        self._watchdog: ShutdownWatchdog | None = None
        self._received: list[int] = []

    def __enter__(self) -> _Signals:
        """Install the signal handlers."""
        self._before = {number: signal.signal(number, self._take) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the signal handlers."""
        for number, handler in self._before.items():
            if handler is not None:  # else it is not Python's
                signal.signal(number, handler)

    def ask(self, stop: StopRequest, times: int, watchdog: ShutdownWatchdog | None = None) -> None:
        """Turn the next `times` signals into stop requests; one more ends the program.

        :param watchdog: the first request begins its countdown
        """
        self._stop, self._times, self._watchdog = stop, times, watchdog

    def status(self) -> int:
        """Return the exit status: of the first signal that requested a stop, or of success."""
        return 128 + self._received[0] if self._received else Status.OK

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)
        over = len(self._received) > self._times
        if over and self._watchdog is not None:
            self._watchdog.give_up(self.status())
        if over or self._stop is None:
            # Not by an exception: py4j logs one that leaves a call to Spark's JVM, with its stack.
            self._kill()
            write_at_once(STDERR, f"kafka-tools: ended at once by {signal.Signals(number).name}\n".encode())
            os._exit(self.status())
        if len(self._received) == 1 and self._watchdog is not None:
            self._watchdog.begin(self.status())
        self._stop.ask()


@contextmanager
def _progress(declaration: Declaration, stop: StopRequest, silent: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress: in place on a terminal, else as a line for each report with news.

    :param silent: whether it shows nothing
    """
    if silent:
        yield lambda progress: None
        return
    out = show.console()
    if out.is_terminal:
        lines = {
            declaration.query_of(output): f"{declaration.query_of(output)}: waiting for the first micro-batch"
            for output in declaration.outputs
        }
        with Live(Text("\n".join(lines.values())), console=out, auto_refresh=False) as live:

            def show_in_place(progress: Progress) -> None:
                ending = "; stopping after this micro-batch, Ctrl-C again stops at once" if stop.asked == 1 else ""
                lines[progress.query] = _line(progress) + ending
                live.update(Text("\n".join(lines.values())), refresh=True)

            yield show_in_place
        return
    last: dict[str, Progress] = {}

    def show_line(progress: Progress) -> None:
        if progress.batches and progress != last.get(progress.query):
            out.print(Text(_line(progress)))
        last[progress.query] = progress

    yield show_line


def _line(progress: Progress) -> str:
    parts = [
        f"{progress.query}: micro-batch {show.cell(progress.batch if progress.batches else None)}",
        f"{progress.records:,} records",
        f"{progress.records_per_s:,.0f} records/s",
        f"lag {show.cell(progress.lag)}",
    ]
    if progress.malformed:
        parts.append(f"{progress.malformed:,} malformed")
    if progress.dead_letters:
        parts.append(f"{progress.dead_letters:,} dead letters")
    return ", ".join(parts)


def _summary(declaration: Declaration, done: Sequence[Progress]) -> str:
    kept = [f"{one.malformed}" for one in declaration.inputs if one.malformed is not None]
    lines = []
    for output, progress in zip(declaration.outputs, done, strict=True):
        text = f"{progress.query}: {progress.records:,} records read in {progress.batches:,} micro-batches, to {output.sink}"
        if kept:
            text += f"; {progress.malformed:,} of them malformed, to {' and '.join(kept)}"
        if declaration.dead_letters is not None:
            text += f"; {progress.dead_letters:,} of them dead letters, to {declaration.dead_letters}"
        lines.append(text)
    return "\n".join(lines)


# -- errors


def reason(error: Exception) -> tuple[int, str]:
    """Return status and sentence of an error: of this package's own, deep in a stack too, or its first line and cause."""
    if isinstance(error, KafkaException):
        return status_of(error), explain(error)
    text = str(error)
    raised = _RAISED.search(text)
    if raised is not None:
        return Status.FAILED, raised[1]
    own = _OWN_ERROR.findall(text)
    if own:
        name, sentence = own[-1]
        kind: Any = getattr(pykafka.exceptions, name, None)
        known = isinstance(kind, type) and issubclass(kind, KafkaException)
        return status_of(kind.__new__(kind)) if known else Status.FAILED, sentence
    from pykafka.spark.pipeline.errors import first_and_last
    from pykafka.spark.pythons import why_not_found

    if _NO_FORMAT.search(text):
        return Status.FAILED, f"Spark does not find format('pykafka'). {why_not_found()}"
    if _NO_ARROW.search(text):
        found = _EXECUTOR.search(text)
        where = "Spark's Python" if found is None else f"the Python of {found[1]}"
        return Status.FAILED, f"{where} lacks pyarrow, and perhaps this package. {why_not_found()}"
    if _NO_PROGRAM.search(text):
        return Status.FAILED, f"{first_and_last(error)}. {why_not_found()}"
    return Status.FAILED, first_and_last(error)


def _script() -> str:
    """Return the path of the program that spark-submit can run."""
    spec = find_spec("pykafka.spark.__main__")
    assert spec is not None
    return str(spec.origin)


COMMANDS = (pipeline,)
