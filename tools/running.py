"""Execution of a part of the tests. One bad test costs one test: a test that fails, hangs or crashes runs once more, alone.

Each part is a process of pytest; its plugin `tests/support/record.py` records the start and the end of each test. If that
process dies early, the running test counts as its cause, and another process runs the rest. Each failed test then runs again
alone, in a new process and so with new brokers: if it passes, it is flaky, and the part has passed. No wait here is endless:
neither for a test, nor for a part, nor for the end of a process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tools.cpu import CpuTimes
from tools.parts import Part

TICK_S = 0.2
#: The environment variable that marks all descendants of a process.
MARK = "PYKAFKA_TEST_PROCESS"
#: The mark on the command line of the process that cleans up after brokers (tests/brokers/process.py).
WATCHDOG = b"pykafka-watchdog"
#: The length of a process's last output that is stored with the test that ended it (characters).
LAST_WORDS = 20_000
#: Lines of a stack that do not concern the test, each perhaps with its source.
PYTEST_FRAMES = re.compile(
    r'^  File "(?:<frozen runpy>|[^"]*/(?:_pytest|pluggy|pytest)/[^"]*)", line \d+,? in .*\n(?:    .*\n)?', re.MULTILINE
)
_making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class Limits(NamedTuple):
    """The limits of a part.

    :param times: the runner ends a part after so many times its minutes
    :param again: with more failures than this, none runs again: they are not flaky tests
    :param grace_s: the runner ends a test so long after pytest-timeout should have ended it
    :param exit_s: the time for pytest to start the first test, and to continue or end after each
    """

    times: float = 2.5
    again: int = 10
    grace_s: float = 60.0
    exit_s: float = 180.0


LIMITS = Limits()


class Progress:
    """The progress of a part; written by the thread that runs it, read by the one that prints.

    :param name: of the part
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = time.monotonic()
        self.total: int | None = None
        self.done = 0
        self.failed = 0
        #: News to print at once.
        self.news: deque[str] = deque()
        self.doing = "begins"
        self.doing_since = self.began

    def now(self, doing: str) -> None:
        """Set the present activity."""
        self.doing = doing
        self.doing_since = time.monotonic()

    def fail(self, test: str) -> None:
        """Count a test that did not pass."""
        self.failed += 1
        self.news.append(f"{self.name}: {test} failed")

    def told(self) -> str:
        """Return the progress as a line."""
        now = time.monotonic()
        minutes, seconds = divmod(int(now - self.began), 60)
        of = "" if self.total is None else f" of {self.total}"
        doing = f"{self.doing} ({now - self.doing_since:.0f} s)"
        return f"{self.name} {minutes}:{seconds:02}  {self.done}{of} tests, {self.failed} failed  {doing}"


class Outcome(NamedTuple):
    """The result of a part.

    :param name: of the part
    :param seconds: its duration
    :param passed: number of tests that passed in the end
    :param failed: the tests that did not, and their output
    :param flaky: the tests that passed when run alone, and their first output
    :param broken: other problems; empty for none
    :param log: the file with the whole output
    :param cpu_s: CPU time of its processes
    """

    name: str
    seconds: float
    passed: int
    failed: dict[str, str]
    flaky: dict[str, str]
    broken: str
    log: str
    cpu_s: float = 0.0

    @property
    def failures(self) -> int:
        """Return the number of failures that fail the run."""
        return len(self.failed) + bool(self.broken)

    def told(self) -> str:
        """Return the result as a line."""
        verdict = "FAILED" if self.failures else "passed"
        flaky = f", {len(self.flaky)} flaky" if self.flaky else ""
        broken = f"; {self.broken}" if self.broken else ""
        counts = f"{self.passed} passed, {len(self.failed)} failed{flaky}{broken}"
        return f"{self.name}: {verdict} after {self.seconds:.0f} s ({self.cpu_s:.0f} s of CPU): {counts}"


class Run:
    """The results of one process of pytest.

    :param record: the file that tells it
    """

    def __init__(self, record: Path) -> None:
        self.collected: list[str] | None = None
        self.uncollected: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.whys: dict[str, str] = {}
        #: Errors of fixtures that several tests share.
        self.causes: dict[str, str] = {}
        self.under_way: str | None = None
        self.finished: int | None = None
        self.status: int | None = None
        #: Why the runner has ended it.
        self.ended = ""
        self.said = ""
        self.limit = 0.0
        self.since = time.monotonic()
        self._record = record
        self._read = 0

    def follow(self) -> list[dict[str, Any]]:
        """Read new lines of the record."""
        try:
            with self._record.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return []
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        events = [json.loads(line) for line in whole.splitlines()]
        for event in events:
            self._take(event)
        return events

    def _take(self, event: dict[str, Any]) -> None:
        self.since = time.monotonic()
        match event:
            case {"event": "collected", "tests": tests}:
                self.collected = tests
            case {"event": "uncollected", "test": test, "why": why}:
                self.uncollected[test] = why
            case {"event": "begin", "test": test, "limit": limit}:
                self.under_way, self.limit = test, limit
            case {"event": "end"}:
                self.under_way = None
            case {"event": "finished", "status": status}:
                self.finished = status
            case {"event": "failed", "test": test, "why": why, "shared": cause}:
                self.results[test] = "failed"
                self.causes |= {test: cause} if cause else {}
                self.whys[test] = "\n".join(filter(None, [self.whys.get(test), why]))
            case {"event": result, "test": test}:
                self.results.setdefault(test, result)

    @property
    def done(self) -> list[str]:
        """Return the finished tests."""
        return [test for test in self.results if test != self.under_way]

    @property
    def wrong(self) -> str:
        """Return the problem of the process as a whole; empty for none."""
        if self.ended:
            return self.ended
        if self.finished is None or self.status is None or self.status < 0 or self.status != self.finished:
            by = f"by {signal.Signals(-self.status).name}" if self.status and self.status < 0 else f"with {self.status}"
            return f"its process was gone, {by}"
        if self.status not in (0, 1) or (self.status == 1) != bool(self.whys):
            return f"pytest ended with {self.status}"
        return ""


class Runner:
    """A runner of parts, each in a thread of the caller.

    :param directory: for logs and records, one of each a part
    :param limits: of each part
    :param end_by: when all ends (`time.monotonic()`); None: never
    """

    def __init__(self, directory: Path, limits: Limits = LIMITS, end_by: float | None = None) -> None:
        self.directory = directory
        self.limits = limits
        self.end_by = float("inf") if end_by is None else end_by
        self.stopped = threading.Event()
        self.cpu = CpuTimes(MARK)

    def stop(self) -> None:
        """End all running parts."""
        self.stopped.set()

    def run(self, name: str, part: Part, progress: Progress) -> Outcome:
        """Run a part to its end.

        :param progress: which is kept up to date
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        return _PartRun(self, name, part, progress).outcome()


class _PartRun:
    """A part in execution."""

    def __init__(self, runner: Runner, name: str, part: Part, progress: Progress) -> None:
        self.runner = runner
        self.name = name
        self.part = part
        self.progress = progress
        self.limits = runner.limits
        self.log = runner.directory / f"{name}.log"
        self.log.write_bytes(b"")
        for old in runner.directory.glob(f"{name}.*record"):
            old.unlink()
        self.results: dict[str, str] = {}
        #: The output about each test that did not pass at first.
        self.suspects: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.broken = ""
        self._processes = 0
        self.ends = 0.0
        self.cpu_s = 0.0

    def outcome(self) -> Outcome:
        """Run everything, and the failed tests once more."""
        began = time.monotonic()
        failed: dict[str, str] = {}
        flaky: dict[str, str] = {}
        if self._prepared():
            self.ends = time.monotonic() + self.part.minutes * 60 * self.limits.times
            self._run_all()
            if self.broken or len(self._failures()) > self.limits.again:
                failed = self.suspects
            else:
                for tests in self._failures():
                    again = self._alone(tests)
                    for test in tests:
                        # One report is enough for a fixture that failed for all of them.
                        why = self.suspects[test] if test == tests[0] else f"as {tests[0]}"
                        if test in again:
                            failed[test] = f"{why}\n\nand run again alone:\n{again[test]}"
                        else:
                            flaky[test] = why
                            self.results[test] = "passed"
        passed = [test for test, result in self.results.items() if result == "passed" and test not in failed]
        seconds = time.monotonic() - began
        return Outcome(self.name, seconds, len(passed), failed, flaky, self.broken, str(self.log), round(self.cpu_s, 1))

    def _failures(self) -> list[list[str]]:
        """Return the failures, each with its tests: one, or all those that share a fixture."""
        failures: dict[str, list[str]] = {}
        for test in self.suspects:
            failures.setdefault(self.causes.get(test, test), []).append(test)
        return list(failures.values())

    def _prepared(self) -> bool:
        """Return whether the Makefile could create the virtual environment."""
        if self.part.directory is None:
            return True
        self.progress.now(f"makes {self.part.directory}")
        # Two parts may need the same environment.
        with _making[self.part.directory]:
            run = self._process(["make", f"{self.part.directory}/.ready"], Run(Path(os.devnull)), self._too_late)
            if run.status == 0 and not run.ended:
                # Another Python has compiled modules of its own, beside those of the first.
                command = [f"{self.part.directory}/bin/python", "tools/build.py"]
                run = self._process(command, Run(Path(os.devnull)), self._too_late)
        if run.status != 0 or run.ended:
            self.broken = run.ended or f"{self.part.directory} could not be made: {_tail(run.said, 500)}"
        return not self.broken

    def _run_all(self) -> None:
        """Run all tests, in as many processes as necessary."""
        left: list[str] | None = None
        while True:
            run = self._pytest(left, self.part.arguments, self._overdue)
            self.results |= {test: run.results[test] for test in run.done}
            self.suspects |= run.whys
            self.causes |= run.causes
            if left is None and run.collected is not None:
                left = run.collected
            if run.uncollected or run.collected is None or not left:
                told = "; ".join(run.uncollected) or _tail(run.said, 500)
                self.broken = run.ended or f"its tests were not collected: {told}"
                return
            if run.wrong and (blamed := run.under_way or next(reversed(run.results), None)) is not None:
                # Without a running test, the process broke after its last test.
                if run.under_way:
                    self.progress.done += 1
                    self.progress.fail(blamed)
                self.suspects[blamed] = "\n".join(
                    [run.whys.get(blamed, ""), run.wrong, without_pytest(run.said)]
                ).strip()
                # The process had no time to print the other failures.
                self._note("\n\n".join([run.wrong, *(f"{test}:\n{why}" for test, why in run.whys.items())]))
            before = len(left)
            left = [test for test in left if test not in self.results and test not in self.suspects]
            if why := self._overdue(run):
                self.broken = f"{why}, in {run.under_way}" if run.under_way else why if left else ""
                return
            if not left:
                return
            if len(left) == before or len(self._failures()) > self.limits.again:
                self.broken = f"{len(left)} tests were not run: {run.wrong or 'pytest has left them out'}"
                return
            self._note(f"another process runs the {len(left)} tests that are left")

    def _alone(self, tests: list[str]) -> dict[str, str]:
        """Run a test by itself, or the tests of one fixture; return the output of those that fail again."""
        self._note(f"{', '.join(tests)}: run again, alone")
        run = self._pytest(tests, list(dict.fromkeys(test.partition("::")[0] for test in tests)), self._too_late)
        said = [run.wrong, "" if run.whys else without_pytest(run.said)]
        return {
            test: "\n".join([run.whys.get(test, ""), *said]).strip()
            for test in tests
            if run.results.get(test) != "passed" or run.wrong
        }

    def _pytest(self, only: list[str] | None, arguments: list[str], late: Callable[[Run], str]) -> Run:
        self._processes += 1
        number = "" if self._processes == 1 else f"{self._processes}."
        record = self.runner.directory / f"{self.name}.{number}record"
        python = f"{self.part.directory}/bin/python" if self.part.directory else sys.executable
        command = [python, "-m", "pytest", "-p", "tests.support.record", "--record", str(record), "-q", *arguments]
        if only is not None:
            chosen = self.runner.directory / f"{self.name}.only"
            chosen.write_text(json.dumps(only))
            command += ["--only", str(chosen)]
        return self._process(command, Run(record), lambda run: late(run) or self._hanging(run))

    def _process(self, command: list[str], run: Run, late: Callable[[Run], str]) -> Run:
        """Run a process, and end it when it is late, with its process group.

        :param late: tells why it is
        """
        mark = uuid.uuid4().hex
        environment = {**os.environ, MARK: mark, "KAFKA_VERSION": self.part.release, "REBALANCES": "1000"}
        # Hundreds of processes import the same modules: each would compile them anew, and a part its tests.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if self.part.pure:
            environment["PYKAFKA_PURE_PYTHON"] = "1"
        if self.part.members is not None:
            environment["GROUP_PROTOCOL"] = self.part.members
        with self.log.open("ab") as output:
            begin = output.tell()
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A process group, to end it as a whole; brokers have groups of their own, and end with their parent.
                start_new_session=True,
            )
        try:
            while not _ended(process):
                self._follow(run)
                self.runner.cpu.sample()
                if why := late(run):
                    run.ended = why
                    break
                self.runner.stopped.wait(TICK_S)
        finally:
            self.cpu_s += _end(process, mark, self.runner.cpu)
            self._follow(run)
            run.status = process.returncode
        with self.log.open("rb") as file:
            file.seek(begin)
            run.said = file.read()[-LAST_WORDS:].decode(errors="replace")
        return run

    def _follow(self, run: Run) -> None:
        for event in run.follow():
            test = event.get("test", "")
            match event["event"]:
                case "collected" if self.progress.total is None:
                    self.progress.total = len(event["tests"])
                case "begin":
                    self.progress.now(f"again, alone: {test}" if test in self.suspects else test)
                case "end" if test not in self.suspects:
                    self.progress.done += 1
                    if test in run.whys:
                        self.progress.fail(test)

    def _too_late(self, run: Run) -> str:
        """Return why everything has to end; empty if not."""
        if self.runner.stopped.is_set():
            return "ended with the whole run"
        return "ended since the time of the whole run is up" if time.monotonic() > self.runner.end_by else ""

    def _overdue(self, run: Run) -> str:
        """Return why this part has to end; empty if not."""
        late = time.monotonic() > self.ends
        return self._too_late(run) or (
            f"ended since it took {self.limits.times:g} times its {self.part.minutes} minutes" if late else ""
        )

    def _hanging(self, run: Run) -> str:
        """Return why pytest counts as hanging although pytest-timeout does not see it; empty if not."""
        idle = time.monotonic() - run.since
        if run.under_way is not None:
            limit = run.limit + self.limits.grace_s
            return f"ended since a test hung for {limit:.0f} s" if run.limit and idle > limit else ""
        return f"ended since nothing happened for {self.limits.exit_s:.0f} s" if idle > self.limits.exit_s else ""

    def _note(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(f"\nmatrix: {what}\n")


def _ended(process: subprocess.Popen[bytes]) -> bool:
    # Not reaped yet: while it is a zombie, no other process gets its number, by which its group is ended.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes], mark: str, cpu: CpuTimes) -> float:
    """End a process (pytest prints its stacks on SIGABRT) and all its descendants; return their CPU time (s)."""
    if not _ended(process):
        os.kill(process.pid, signal.SIGABRT)
        deadline = time.monotonic() + 5
        while not _ended(process) and time.monotonic() < deadline:
            time.sleep(0.02)
    cpu_s = cpu.take(mark)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # Descendants in groups of their own mostly end by themselves: give them a moment.
    deadline = time.monotonic() + 2
    while (left := list(_marked(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return cpu_s


def _marked(mark: str) -> Iterator[int]:
    """Yield the processes with a mark in their environment, except those that clean up after brokers and then end."""
    wanted = f"{MARK}={mark}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                wanted in (path / "environ").read_bytes().split(b"\0")
                and WATCHDOG not in (path / "cmdline").read_bytes()
            ):
                yield int(path.name)


def without_pytest(text: str) -> str:
    """Return a text of stacks without the frames of pytest's own functions."""
    return PYTEST_FRAMES.sub("", text)


def _tail(text: str, size: int) -> str:
    return text.strip()[-size:]


def failed(outcomes: list[Outcome]) -> list[str]:
    """Return the names of failed tests, and of broken parts, with their logs."""
    tests = [f"{test} ({outcome.name}; {outcome.log})" for outcome in outcomes for test in outcome.failed]
    return tests + [f"{outcome.name}: {outcome.broken} ({outcome.log})" for outcome in outcomes if outcome.broken]


def closing(outcomes: Iterable[Outcome], others: Iterable[str] = (), rotation: Iterable[Outcome] = ()) -> list[str]:
    """Return the last lines of a run: the parts, flaky tests with logs, and the sum that agrees with the exit code.

    :param others: what else has failed
    :param rotation: parts that were run besides. What fails there is told, and is no failure of the run: a part that
        was not run for a week says nothing of the last commit
    """
    outcomes, others, rotation = list(outcomes), list(others), list(rotation)
    every = [*outcomes, *rotation]
    lines = ["", "PARTS", *(outcome.told() for outcome in sorted(every, key=lambda outcome: outcome.failures > 0))]
    if besides := failed(rotation):
        lines += ["", "FAILED IN ROTATION: holds nothing up, and is the next thing to be mended", *besides]
    if names := [*failed(outcomes), *others]:
        lines += ["", "FAILED", *names]
    flaky = [(outcome, test, why) for outcome in every for test, why in outcome.flaky.items()]
    if flaky:
        lines += ["", "FLAKY: failed, and passed when run again alone; each is a defect to be looked into"]
    for outcome, test, why in flaky:
        lines += [f"FLAKY {test} ({outcome.name}; {outcome.log})", *(f"    {line}" for line in why.splitlines())]
    failures = sum(outcome.failures for outcome in outcomes) + len(others)
    lines += ["", f"{sum(outcome.cpu_s for outcome in every):.0f} s of CPU"]
    return [*lines, f"{sum(outcome.passed for outcome in every)} passed, {failures} failed"]
