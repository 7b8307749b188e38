"""The tests, cut into named parts: `python tools/matrix.py [--jobs N] [--minutes N] [PART ...]`.

`test` stands for the parts of `make test`. Without names all the other parts are run; with --minutes, those in rotation
(the number of commits says where to begin) until that time has passed since --since, and what was left out is printed.
With --jobs, what a part says is printed when it ends.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import IO, NamedTuple

RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.2", "4.3.1")
INTEGRATION = "tests/integration"
#: What every release must do: produce, consume, offsets, codecs, groups through ZooKeeper and through the brokers, the
#: documented requests; on threads and on greenlets.
CORE = [f"{INTEGRATION}/test_{name}.py" for name in ("produce_consume", "balanced", "managed", "documented")]
CORE += ["-m", "not slow"]
#: The releases that the whole suite is run on, besides the latest, on which `make test` runs it.
WHOLE = ("0.9.0.1", "2.8.2")
#: All that the age of the shared brokers makes a difference to.
SUITE = [INTEGRATION, "-m", "kafka and not matrix"]
SUITE += [f"--ignore={INTEGRATION}/test_{name}.py" for name in ("brokers", "java_records")]
#: Groups together with other clients, through outages and minutes of computing.
GROUPS = [
    f"{INTEGRATION}/test_{name}.py"
    for name in (
        "balanced_outages",
        "balanced_mixed",
        "managed_mixed",
        "managed_static",
        "managed_heartbeats",
        "closing",
    )
]
#: What PySpark before 4.2 can do as well; the Makefile knows how to install it.
EARLIER_SPARK = [f"tests/spark/test_{name}.py" for name in ("batch_read", "stream_read", "sink", "lag", "kill")]
EARLIER_SPARK += ["-m", "not matrix"]
#: Reading from PySpark.
SPARK = [f"tests/spark/test_{name}.py" for name in ("batch_read", "positions", "transactions")]
#: Source and sink, and what Spark's own connector says of the same topics.
SOURCE_AND_SINK = [
    f"tests/spark/test_{name}.py"
    for name in ("batch_read", "jvm_connector", "lag", "positions", "sink", "stream_read", "transactions")
]
#: What needs no broker, in seconds each.
QUICK = [f"tests/{name}" for name in ("unit", "property", "contract", "regressions")]
#: Against real brokers: what goes through the modules that are compiled elsewhere.
PURE = [
    f"{INTEGRATION}/test_{name}.py"
    for name in ("produce_consume", "batches", "isolation", "idempotence", "failures", "damage", "fork", "managed")
]


#: What pytest says of tests that failed, and of all together.
LAST_WORDS = re.compile(r"^(?:(?:FAILED|ERROR) tests/.*|(?:=+ )?\d+ .* in \d[\d.]*s.*)$", re.MULTILINE)


class Part(NamedTuple):
    """One run of pytest.

    :param release: of the shared brokers
    :param arguments: of pytest
    :param minutes: that it takes on two cores, rounded up
    :param directory: of the virtual environment, which the Makefile makes; None: the one that runs this
    :param pure: with the uncompiled sources
    """

    release: str
    arguments: list[str]
    minutes: int
    directory: str | None = None
    pure: bool = False


#: What `make test` runs, the longest first.
TEST = {
    "kafka": Part("4.3.1", ["tests", "--ignore=tests/spark", "--ignore=tests/examples", "-m", "not matrix"], 16),
    "spark": Part("4.3.1", ["tests/spark", "tests/examples", "-m", "not matrix"], 15),
    "pure": Part("4.3.1", [*QUICK, *PURE, "-m", "not slow and not matrix"], 7, pure=True),
    "spark-4.2": Part("2.8.2", [*SOURCE_AND_SINK, "-m", "not matrix"], 6, ".venv-spark42"),
    "core-0.9.0.1": Part("0.9.0.1", CORE, 2),
    "core-2.8.2": Part("2.8.2", CORE, 2),
}
MATRIX = {
    **{f"core-{release}": Part(release, CORE, 2) for release in RELEASES if f"core-{release}" not in TEST},
    **{f"whole-{release}": Part(release, SUITE, 8) for release in WHOLE},
    **{f"spark-on-{release}": Part(release, SPARK, 3) for release in RELEASES},
    "whole-pure": Part("4.3.1", SUITE, 8, pure=True),
    "churn-4.3.1": Part("4.3.1", [f"{INTEGRATION}/test_balanced_churn.py"], 10),
    "groups": Part("4.3.1", ["-m", "matrix", *GROUPS], 10),
    "idempotence": Part("4.3.1", ["-m", "matrix", f"{INTEGRATION}/test_idempotence.py"], 8),
    "spark-4.0": Part("4.3.1", EARLIER_SPARK, 5, ".venv-spark40"),
    "spark-4.1": Part("4.3.1", EARLIER_SPARK, 5, ".venv-spark41"),
    "whole-spark-4.2": Part("4.3.1", ["tests/spark", "-m", "not matrix"], 13, ".venv-spark42"),
    "spark-pipeline": Part(
        "4.3.1", ["tests/spark/test_pipeline_programs.py", "tests/spark/test_pipeline_terminal.py", "-m", "matrix"], 6
    ),
    "spark-killed": Part("4.3.1", ["tests/spark/test_kill.py", "-m", "matrix"], 5),
    "tools": Part("4.3.1", [f"{INTEGRATION}/test_cli_old_brokers.py"], 1),
    "rdkafka": Part("4.3.1", [f"{INTEGRATION}/test_rdkafka.py"], 5),
}
PARTS = TEST | MATRIX


class Outcome(NamedTuple):
    """How a part went that ran beside others.

    :param name: of the part
    :param passed: whether it did
    :param seconds: that it took
    :param last_words: how pytest sums it up, after the tests that failed
    """

    name: str
    passed: bool
    seconds: float
    last_words: list[str]

    def told(self) -> list[str]:
        """Say it in lines."""
        *failed, summary = self.last_words or [""]
        verdict = "passed" if self.passed else "FAILED"
        return [*failed, f"{self.name}: {verdict} after {self.seconds:.0f} s{summary and ': ' + summary.strip('= ')}"]


def run(name: str, output: IO[str] | None = None) -> bool:
    """Run a part; tell whether it passed.

    :param output: where all that it says goes; None: where ours does
    """
    part = PARTS[name]
    command = ["sh", "-c", 'make "$0" && exec "$@"', f"{part.directory}/.ready"] if part.directory else []
    python = f"{part.directory}/bin/python" if part.directory else sys.executable
    command += [python, "-m", "pytest", "-q", *part.arguments]
    environment = {**os.environ, "KAFKA_VERSION": part.release, "REBALANCES": "1000"}
    if part.pure:
        environment["PYKAFKA_PURE_PYTHON"] = "1"
    return subprocess.run(command, env=environment, stdout=output, stderr=output, check=False).returncode == 0


def run_aside(name: str) -> Outcome:
    """Run a part beside others, and print all that it says in one go."""
    print(f"matrix: {name} begins", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        passed = run(name, output)
        output.seek(0)
        said = output.read()
    print(f"matrix: {name} ended, and said:\n{said}", flush=True)
    return Outcome(name, passed, time.monotonic() - began, LAST_WORDS.findall(said))


def run_together(names: list[str], jobs: int) -> list[Outcome]:
    """Run parts, some at a time, and sum up; what failed stands at the end."""
    outcomes = []
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(run_aside, name) for name in names]):
            outcomes.append(future.result())
    for outcome in sorted(outcomes, key=lambda outcome: not outcome.passed):
        print("\n".join(outcome.told()), flush=True)
    return outcomes


def rotated() -> list[str]:
    """List the parts of the matrix, beginning at another one after each commit."""
    count = subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False).stdout
    begin = int(count or 0) % len(MATRIX)
    names = list(MATRIX)
    return names[begin:] + names[:begin]


def run_in_turn(names: list[str], start: float, minutes: float | None, at_most: float | None) -> list[str]:
    """Run one part after the other while there is time; gives those that failed."""
    left_out, failed = [], []
    for name in names:
        passed = (time.time() - start) / 60
        late = minutes is not None and passed >= minutes
        long = at_most is not None and passed + PARTS[name].minutes > at_most
        if late or long:
            left_out.append(name)
            continue
        print(f"matrix: {name}", flush=True)
        if not run(name):
            failed.append(name)
    if left_out:
        print(f"matrix: left out for lack of time: {', '.join(left_out)}")
    return failed


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="names of parts, or `test`; by default the matrix")
    parser.add_argument("--jobs", type=int, default=1, help="how many parts run at a time")
    parser.add_argument("--minutes", type=float, help="begin no part after this time")
    parser.add_argument("--at-most", type=float, help="begin no part that would likely end after this time (minutes)")
    parser.add_argument(
        "--since", type=float, metavar="EPOCH", help="the time counts from there (s); by default from now"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the parts")
    args = parser.parse_args()
    unknown = [part for part in args.parts if part not in (*PARTS, "test")]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; --list names them")
    if args.jobs > 1 and (args.minutes is not None or args.at_most is not None):
        parser.error("--minutes and --at-most are for parts that run one after the other")
    return args


def main() -> int:
    """Run what was asked for; give 1 where a part failed."""
    args = parsed()
    if args.list:
        print("\n".join(PARTS))
        return 0
    names = [name for part in args.parts for name in (TEST if part == "test" else [part])]
    if not names:
        names = list(MATRIX) if args.minutes is None else rotated()
    if args.jobs > 1:
        failed = [outcome.name for outcome in run_together(names, args.jobs) if not outcome.passed]
    else:
        failed = run_in_turn(names, args.since or time.time(), args.minutes, args.at_most)
    if failed:
        print(f"matrix: failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
