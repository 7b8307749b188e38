"""The command line: `run` measures, `report` judges, `instructions` counts, `stream-memory` weighs, `avro` decodes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.workloads import SETS, select

if TYPE_CHECKING:
    from benchmarks.running import Access

ROOT = Path(__file__).resolve().parents[1]
BROKER_HEAP_MB = 1024
SPARK_PYTHON = ROOT / ".venvs" / "spark42" / "bin" / "python"


def main() -> int:
    """Run the command line's command; return the exit status."""
    options = parser().parse_args()
    command: Callable[[argparse.Namespace], int] = options.command
    return command(options)


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    program = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = program.add_subparsers(required=True)

    add = commands.add_parser("run", help="measure, a line of JSON a run")
    add.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="names, patterns with *, or sets; see `list`")
    add.add_argument("--all", action="store_true", help="all workloads")
    add.add_argument("--clients", type=lambda text: text.split(","), help="only these, comma-separated")
    add.add_argument("--repeat", type=int, default=5, help="how often each is run (default: 5)")
    add.add_argument("--hosts", help="brokers to use; by default a Kafka 4.3.1 is started")
    add.add_argument("--out", type=Path, help="append the lines to this file; by default they are printed")
    add.add_argument("--minutes", type=float, help="start no repetition after so many")
    add.add_argument("--spark-python", default=str(SPARK_PYTHON), help="a Python with PySpark 4.2 (%(default)s)")
    add.set_defaults(command=run)

    add = commands.add_parser("list", help="print workloads and clients")
    add.set_defaults(command=show)

    add = commands.add_parser("report", help="show medians, ratios, and which targets are met, in Markdown")
    add.add_argument("files", nargs="+", type=Path, metavar="FILE", help="that `run --out` has written")
    add.add_argument(
        "--into", type=Path, help="put it between the marks of this document, in the place of the last one"
    )
    add.add_argument("--renew", type=Path, help="replace only what was measured in this document's tables")
    add.add_argument("--plot", type=Path, help="draw the throughputs into this file (.svg or .png)")
    add.set_defaults(command=report)

    add = commands.add_parser("instructions", help="count instructions a message with callgrind, against the baseline")
    add.add_argument("--update", action="store_true", help="make these counts the baseline")
    add.set_defaults(command=instructions)

    add = commands.add_parser("stream-memory", help="measure the driver's process of a stream of Spark; Linux")
    add.set_defaults(command=stream_memory)

    add = commands.add_parser("avro", help="compare Avro with Spark's from_avro; by a Python with PySpark 4.0 or 4.1")
    add.add_argument("--messages", type=int, default=1_000_000)
    add.add_argument("--hosts", help="brokers to use; by default a Kafka 4.3.1 is started")
    add.set_defaults(command=avro)

    add = commands.add_parser("one", help="used by `run`: one run in this process")
    add.add_argument("request")
    add.set_defaults(command=one)
    return program


def run(options: argparse.Namespace) -> int:
    """Run the workloads."""
    from benchmarks.running import Line, Runner

    try:
        workloads = select(["*"] if options.all else options.workloads or ["throughput"], options.clients)
    except ValueError as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    failures = 0
    out = options.out.open("a") if options.out else sys.stdout

    def emit(line: Line) -> None:
        nonlocal failures
        failures += "error" in line
        print(json.dumps(line), file=out, flush=True)
        print(summary(line), file=sys.stderr)

    secure = any(workload.listener != "PLAINTEXT" for workload in workloads)
    with out, brokers(options.hosts, secure) as access:
        left_out = Runner(access, emit, options.spark_python).run(workloads, options.repeat, options.minutes)
    for name in left_out:
        print(f"left out after {options.minutes:g} minutes: {name}", file=sys.stderr)
    return 1 if failures else 0


def summary(line: dict[str, Any]) -> str:
    """Return the result of a run in one line."""
    head = f"{line['workload']} / {line['client']} / {line['repetition'] + 1}: "
    if "error" in line:
        return f"{head}FAILED: {line['error']}"
    return head + ", ".join(f"{name} {value:,.4g}" for name, value in line["measures"].items())


@contextmanager
def brokers(hosts: str | None, secure: bool) -> Iterator[Access]:
    """Yield the given brokers, or start one for the length of the block.

    :param secure: with listeners for TLS and SASL
    """
    from benchmarks.running import Access

    if hosts is not None:
        yield Access({"PLAINTEXT": hosts})
        return
    from tests.brokers import KafkaCluster, Sasl

    with KafkaCluster(heap_mb=BROKER_HEAP_MB, quick=False, sasl=Sasl() if secure else None) as kafka:
        if secure:
            yield Access(
                {name: kafka.hosts_of(name) for name in kafka.listeners}, kafka.cafile, (kafka.user, kafka.password)
            )
        else:
            yield Access({"PLAINTEXT": kafka.hosts})


def show(_options: argparse.Namespace) -> int:
    """Print sets, workloads and their clients."""
    for name, workloads in SETS.items():
        print(f"{name}:")
        for workload in workloads:
            print(f"  {workload.name:34} {', '.join(workload.clients)}")
    return 0


def report(options: argparse.Namespace) -> int:
    """Compare the measured results with the targets."""
    from benchmarks.reporting import draw, insert, markdown, read, renew

    lines = read(options.files)
    if options.renew:
        options.renew.write_text(renew(options.renew.read_text(), lines))
        return 0
    text = markdown(lines, options.plot and os.path.relpath(options.plot, (options.into or options.plot).parent))
    if options.plot:
        draw(lines, options.plot)
    if options.into:
        options.into.write_text(insert(options.into.read_text(), text))
    else:
        print(text)
    return 0


def instructions(options: argparse.Namespace) -> int:
    """Count instructions."""
    from benchmarks.instructions import check

    return check(options.update)


def stream_memory(_options: argparse.Namespace) -> int:
    """Measure the memory of a stream's process."""
    from benchmarks.streammemory import show as show_memory

    return show_memory()


def avro(options: argparse.Namespace) -> int:
    """Compare Avro by this package with Spark's own."""
    from benchmarks.avro import measure

    with brokers(options.hosts, secure=False) as access:
        measure(access.hosts["PLAINTEXT"], options.messages)
    return 0


def one(options: argparse.Namespace) -> int:
    """Run one job, for a process that waits for its line."""
    from benchmarks.running import one as run_one

    print(json.dumps(run_one(options.request)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
