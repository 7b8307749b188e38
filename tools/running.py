"""Running a part of the tests so that one bad test costs one test: what fails, hangs or crashes is run once more, alone.

A part is run by pytest in a process of its own, which `tests/support/record.py` has write down what begins and ends. Where that
process is gone before its time, the test that was under way has ended it, and the rest is run by another one. Each test
that failed is then run again alone, in a new process, hence with new brokers: if it passes, it is flaky, and the part
has passed. Nothing here waits without an end: not for a test, nor for a part, nor for a process to go.
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

from tools.parts import Part

TICK_S = 0.2
#: The environment variable by which all that a process has started is known.
MARK = "PYKAFKA_TEST_PROCESS"
#: What clears up after brokers (tests/brokers/process.py) has on its command line.
WATCHDOG = b"pykafka-watchdog"
#: How much of a process's last words is kept with a test that has ended it (characters).
LAST_WORDS = 20_000
#: Lines of a stack that say nothing of the test, each maybe with its source.
PYTEST_FRAMES = re.compile(
    r'^  File "(?:<frozen runpy>|[^"]*/(?:_pytest|pluggy|pytest)/[^"]*)", line \d+,? in .*\n(?:    .*\n)?', re.MULTILINE
)
_making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class Limits(NamedTuple):
    """What a part may take.

    :param times: its minutes may be exceeded so many times; then it is ended
    :param again: of more failures than this none is run again: it is not they that are flaky
    :param grace_s: a test is ended so much later than pytest-timeout should have done it
    :param exit_s: for pytest to begin with the first test, and to go on or end after each
    """

    times: float = 2.5
    again: int = 10
    grace_s: float = 60.0
    exit_s: float = 180.0


LIMITS = Limits()


class Progress:
    """How far a part is; written by the thread that runs it, read by the one that tells.

    :param name: of the part
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = time.monotonic()
        self.total: int | None = None
        self.done = 0
        self.failed = 0
        #: What is to be said at once.
        self.news: deque[str] = deque()
        self.doing = "begins"
        self.doing_since = self.began

    def now(self, doing: str) -> None:
        """Say what it does from now on."""
        self.doing = doing
        self.doing_since = time.monotonic()

    def fail(self, test: str) -> None:
        """Count a test that did not pass."""
        self.failed += 1
        self.news.append(f"{self.name}: {test} failed")

    def told(self) -> str:
        """Say it in a line."""
        now = time.monotonic()
        minutes, seconds = divmod(int(now - self.began), 60)
        of = "" if self.total is None else f" of {self.total}"
        doing = f"{self.doing} ({now - self.doing_since:.0f} s)"
        return f"{self.name} {minutes}:{seconds:02}  {self.done}{of} tests, {self.failed} failed  {doing}"


class Outcome(NamedTuple):
    """How a part went.

    :param name: of the part
    :param seconds: that it took
    :param passed: how many tests did, at last
    :param failed: those that did not, and what was said
    :param flaky: those that passed when they were run alone, and what was said the first time
    :param broken: what else was wrong with it; empty: nothing
    :param log: the file with all that was said
    """

    name: str
    seconds: float
    passed: int
    failed: dict[str, str]
    flaky: dict[str, str]
    broken: str
    log: str

    @property
    def failures(self) -> int:
        """Count what makes the run fail."""
        return len(self.failed) + bool(self.broken)

    def told(self) -> str:
        """Say it in a line."""
        verdict = "FAILED" if self.failures else "passed"
        flaky = f", {len(self.flaky)} flaky" if self.flaky else ""
        broken = f"; {self.broken}" if self.broken else ""
        counts = f"{self.passed} passed, {len(self.failed)} failed{flaky}{broken}"
        return f"{self.name}: {verdict} after {self.seconds:.0f} s: {counts}"


class Run:
    """What one process of pytest has done.

    :param record: the file that tells it
    """

    def __init__(self, record: Path) -> None:
        self.collected: list[str] | None = None
        self.uncollected: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.whys: dict[str, str] = {}
        #: What kept several tests from beginning.
        self.causes: dict[str, str] = {}
        self.under_way: str | None = None
        self.finished: int | None = None
        self.status: int | None = None
        #: Why we have ended it.
        self.ended = ""
        self.said = ""
        self.limit = 0.0
        self.since = time.monotonic()
        self._record = record
        self._read = 0

    def follow(self) -> list[dict[str, Any]]:
        """Read what is new in the record."""
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
        """List the tests that came to an end."""
        return [test for test in self.results if test != self.under_way]

    @property
    def wrong(self) -> str:
        """Say what was wrong with the process as a whole; empty: nothing."""
        if self.ended:
            return self.ended
        if self.finished is None or self.status is None or self.status < 0 or self.status != self.finished:
            by = f"by {signal.Signals(-self.status).name}" if self.status and self.status < 0 else f"with {self.status}"
            return f"its process was gone, {by}"
        if self.status not in (0, 1) or (self.status == 1) != bool(self.whys):
            return f"pytest ended with {self.status}"
        return ""


class Runner:
    """Run parts, each in a thread of the caller's.

    :param directory: for logs and records, one of each a part
    :param limits: of each part
    :param end_by: when all ends (`time.monotonic()`); None: never
    """

    def __init__(self, directory: Path, limits: Limits = LIMITS, end_by: float | None = None) -> None:
        self.directory = directory
        self.limits = limits
        self.end_by = float("inf") if end_by is None else end_by
        self.stopped = threading.Event()

    def stop(self) -> None:
        """End all that is running."""
        self.stopped.set()

    def run(self, name: str, part: Part, progress: Progress) -> Outcome:
        """Run a part to its end.

        :param progress: which is kept up to date
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        return _PartRun(self, name, part, progress).outcome()


class _PartRun:
    """One part on its way."""

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
        #: What was said of each test that did not pass at first.
        self.suspects: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.broken = ""
        self._processes = 0
        self.ends = 0.0

    def outcome(self) -> Outcome:
        """Run everything, and what failed once more."""
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
                        # Of a fixture that failed for all of them, it is enough to read once.
                        why = self.suspects[test] if test == tests[0] else f"as {tests[0]}"
                        if test in again:
                            failed[test] = f"{why}\n\nand run again alone:\n{again[test]}"
                        else:
                            flaky[test] = why
                            self.results[test] = "passed"
        passed = [test for test, result in self.results.items() if result == "passed" and test not in failed]
        seconds = time.monotonic() - began
        return Outcome(self.name, seconds, len(passed), failed, flaky, self.broken, str(self.log))

    def _failures(self) -> list[list[str]]:
        """List what failed, each with its tests: one, or all those of a fixture that they share."""
        failures: dict[str, list[str]] = {}
        for test in self.suspects:
            failures.setdefault(self.causes.get(test, test), []).append(test)
        return list(failures.values())

    def _prepared(self) -> bool:
        """Have the Makefile make the virtual environment."""
        if self.part.directory is None:
            return True
        self.progress.now(f"makes {self.part.directory}")
        # Two parts may want the same one.
        with _making[self.part.directory]:
            run = self._process(["make", f"{self.part.directory}/.ready"], Run(Path(os.devnull)), self._too_late)
        if run.status != 0 or run.ended:
            self.broken = run.ended or f"{self.part.directory} could not be made: {_tail(run.said, 500)}"
        return not self.broken

    def _run_all(self) -> None:
        """Run all tests, in as many processes as it takes."""
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
                # Where nothing was under way, it is after its last test that the process broke.
                if run.under_way:
                    self.progress.done += 1
                    self.progress.fail(blamed)
                self.suspects[blamed] = "\n".join(
                    [run.whys.get(blamed, ""), run.wrong, without_pytest(run.said)]
                ).strip()
                # It had no time to print why others have failed.
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
        """Run a test by itself, or those of one fixture; gives what was said of those that fail again."""
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
        """Run a process, and end it when it is late; what it leaves in its group ends with it.

        :param late: tells why it is
        """
        mark = uuid.uuid4().hex
        environment = {**os.environ, MARK: mark, "KAFKA_VERSION": self.part.release, "REBALANCES": "1000"}
        if self.part.pure:
            environment["PYKAFKA_PURE_PYTHON"] = "1"
        with self.log.open("ab") as output:
            begin = output.tell()
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group that can be ended as a whole; brokers have groups of their own, and go when their starter does.
                start_new_session=True,
            )
        try:
            while not _ended(process):
                self._follow(run)
                if why := late(run):
                    run.ended = why
                    break
                self.runner.stopped.wait(TICK_S)
        finally:
            _end(process, mark)
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
        """Tell whether all has to end."""
        if self.runner.stopped.is_set():
            return "ended with the whole run"
        return "ended since the time of the whole run is up" if time.monotonic() > self.runner.end_by else ""

    def _overdue(self, run: Run) -> str:
        """Tell whether this part has to end."""
        late = time.monotonic() > self.ends
        return self._too_late(run) or (
            f"ended since it took {self.limits.times:g} times its {self.part.minutes} minutes" if late else ""
        )

    def _hanging(self, run: Run) -> str:
        """Tell whether pytest hangs where pytest-timeout does not see it."""
        idle = time.monotonic() - run.since
        if run.under_way is not None:
            limit = run.limit + self.limits.grace_s
            return f"ended since a test hung for {limit:.0f} s" if run.limit and idle > limit else ""
        return f"ended since nothing happened for {self.limits.exit_s:.0f} s" if idle > self.limits.exit_s else ""

    def _note(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(f"\nmatrix: {what}\n")


def _ended(process: subprocess.Popen[bytes]) -> bool:
    # Not reaped yet: as long as it is a zombie, nobody else gets its number, by which its group is ended.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a process, which may say what it was doing (pytest has it do so on SIGABRT), and all that it has started."""
    if not _ended(process):
        os.kill(process.pid, signal.SIGABRT)
        deadline = time.monotonic() + 5
        while not _ended(process) and time.monotonic() < deadline:
            time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # Some are in groups of their own, and most of those end by themselves: give them a moment.
    deadline = time.monotonic() + 2
    while (left := list(_marked(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _marked(mark: str) -> Iterator[int]:
    """Find the processes with a mark in their environment, except those that clear up after brokers and then end."""
    wanted = f"{MARK}={mark}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                wanted in (path / "environ").read_bytes().split(b"\0")
                and WATCHDOG not in (path / "cmdline").read_bytes()
            ):
                yield int(path.name)


def without_pytest(text: str) -> str:
    """Take the frames of pytest's own functions, which are all the same, out of the stacks in a text."""
    return PYTEST_FRAMES.sub("", text)


def _tail(text: str, size: int) -> str:
    return text.strip()[-size:]


def failed(outcomes: list[Outcome]) -> list[str]:
    """Name the tests that have failed, and the parts that broke, with their logs."""
    tests = [f"{test} ({outcome.name}; {outcome.log})" for outcome in outcomes for test in outcome.failed]
    return tests + [f"{outcome.name}: {outcome.broken} ({outcome.log})" for outcome in outcomes if outcome.broken]


def closing(outcomes: Iterable[Outcome], others: Iterable[str] = (), rotation: Iterable[Outcome] = ()) -> list[str]:
    """Give the last lines of a run: the parts, what was flaky, with its log, and the sum, which agrees with the exit code.

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
    return [*lines, "", f"{sum(outcome.passed for outcome in every)} passed, {failures} failed"]
