"""Run the whole job: brokers, producers, Spark, report, checks. `make demo` does this."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from examples.flights.job import ROOT, Job, add_common_arguments
from examples.flights.requirements import RequirementMissingError, check_requirements
from examples.flights.supervision import Interrupts, session

#: How often to look whether a stage has ended (s).
POLL_S = 0.2
EXIT_FAILED, EXIT_MISSING = 1, 2


class StageFailedError(RuntimeError):
    """Raised when a stage ends with a status other than 0; the text says where to look."""


@dataclass
class Clock:
    """A printer of lines with the time since the start of the job."""

    started: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Print a line."""
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)


def main() -> int:
    """Run the job that the command line describes.

    :returns: 0; 1 if a stage failed or a check found a difference; 2 if this machine lacks something
    """
    interrupts = Interrupts()
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument(
        "--broker", default="embedded", help="embedded (default), kafka, kafka-sasl, or host:port of your own"
    )
    parser.add_argument(
        "--cluster",
        default="local",
        help="local (default): Spark in one process; spark: a master and two workers that get this package as an archive, "
        "one of which is killed on the way",
    )
    add_common_arguments(parser)
    options = parser.parse_args()
    if options.cluster not in ("", "local", "spark"):
        parser.error(f"CLUSTER={options.cluster} is neither local nor spark")
    job = Job("", options.directory.resolve(), limit=options.limit)
    try:
        check_requirements()
        with claimed(job):
            run(options.broker or "embedded", options.cluster == "spark", job, interrupts)
    except RequirementMissingError as error:
        print(f"flights: {error}", file=sys.stderr)
        return EXIT_MISSING
    except StageFailedError as error:
        print(f"flights: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


@contextmanager
def claimed(job: Job) -> Iterator[None]:
    """Lock the directory of the results for this run, and remove an earlier run's results.

    :raises RequirementMissingError: another run has it
    """
    job.directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(job.directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequirementMissingError(
                f"another run is using {shown(job.directory)}: wait for its end, or name another --directory"
            ) from None
        for old in (job.landed, job.checkpoints, job.work):
            shutil.rmtree(old, ignore_errors=True)
        for file in (job.plot, job.spark_log):
            file.unlink(missing_ok=True)
        job.work.mkdir()
        yield
    finally:
        shutil.rmtree(job.work, ignore_errors=True)
        os.close(lock)


def run(broker: str, on_cluster: bool, job: Job, interrupts: Interrupts) -> None:
    """Start the brokers, then one stage after another.

    :param broker: see `brokers`
    :param on_cluster: run Spark on a master and two workers
    :raises RequirementMissingError: no brokers are available
    :raises StageFailedError: a stage failed
    """
    # Only after the requirements are checked.
    from examples.flights.brokers import brokers

    clock = Clock()
    clock.say(f"brokers: {broker}")
    with brokers(broker, job, interrupts) as ready:
        clock.say(f"produce: greenlets replay flights and weather to {ready.hosts}")
        stage("produce", ready, interrupts)
        if on_cluster:
            pipeline_on_cluster(ready, interrupts, clock)
        else:
            clock.say("pipeline: Spark joins, lands and aggregates")
            stage("pipeline", ready, interrupts, log=ready.spark_log)
        clock.say("report: what the topic of the delays says")
        stage("report", ready, interrupts)
        clock.say("check: against the CSV")
        stage("check", ready, interrupts)
        if ready.suffix:
            clock.say(f"your brokers keep the topics {', '.join(ready.topics)}; delete them when you like")
    clock.say(f"done: plot in {shown(job.plot)}, flights in {shown(job.landed)}")


def pipeline_on_cluster(job: Job, interrupts: Interrupts, clock: Clock) -> None:
    """Run the pipeline on a cluster, and kill a worker when the first flights have landed.

    :raises RequirementMissingError: there can be no cluster
    :raises StageFailedError: the pipeline failed, or ended before a worker could be killed
    """
    from examples.flights.standalone import standalone

    clock.say("cluster: packs the archive, and starts a master and two workers")
    with standalone(job, interrupts, lambda text: print(f"  {text}", flush=True)) as cluster:
        clock.say(f"pipeline: Spark joins, lands and aggregates, on {cluster.url}")
        environment = {**cluster.environment, "PYTHONPATH": cluster.python_path}
        killed = False
        with (
            job.spark_log.open("ab") as errors,
            session(
                interrupts,
                cluster.submission(job),
                environment=environment,
                directory=cluster.directory,
                stderr=errors,
            ) as process,
        ):
            while process.poll() is None:
                if not killed and any((job.landed / "_spark_metadata").glob("[0-9]*")):
                    clock.say(f"kill: {cluster.kill_a_worker()}, by SIGKILL; the first flights have landed")
                    killed = True
                time.sleep(POLL_S)
        _check_status("pipeline", process.wait(), job.spark_log)
    if not killed:
        raise StageFailedError("the pipeline ended before a worker could be killed: replay more flights")


def stage(name: str, job: Job, interrupts: Interrupts, log: Path | None = None) -> None:
    """Run one stage to its end.

    :param log: file for the standard error stream; None: ours
    :raises StageFailedError: its exit status is not 0
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "TMPDIR": str(job.work),
        "SPARK_LOCAL_DIRS": str(job.work),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    # Use the Spark of the installed pyspark, and no other on this machine.
    for variable in ("SPARK_HOME", "SPARK_CONF_DIR"):
        environment.pop(variable, None)
    command = [sys.executable, "-m", f"examples.flights.{name}", *job.arguments()]
    errors = log.open("ab") if log is not None else None
    try:
        with session(interrupts, command, environment=environment, stderr=errors) as process:
            status = process.wait()
    finally:
        if errors is not None:
            errors.close()
    _check_status(name, status, log)


def _check_status(name: str, status: int, log: Path | None) -> None:
    if status:
        where = "the lines above say why" if log is None else f"the lines above, or {shown(log)}, say why"
        raise StageFailedError(f"{name} failed with exit status {status}; {where}")


def shown(path: Path) -> str:
    """Return a path as a user in the checkout would write it."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


if __name__ == "__main__":
    raise SystemExit(main())
