"""Run the tests, cut into named parts (tools/parts.py): `python -m tools.matrix [--jobs N] [PART ...]`.

`test` stands for the parts of `make test`. Without names, all other parts run; with --at-most, those that will likely end in
time, from another one on after each commit, and the script prints the parts that it left out. Logs are in
build/tests, one file per part. Tests that fail or hang run again alone (tools/running.py); the last line sums up.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NoReturn

from tools.parts import MATRIX, PARTS, TEST, UNLISTED, Part
from tools.running import Outcome, Progress, Runner, closing

LOGS = Path("build") / "tests"
#: Seconds between two lines about a part; on a terminal one line changes every second.
TELL_S = 20.0
#: What a part takes on average, with brokers, or Spark and a broker (GiB); many take less.
GIGABYTES_EACH = 2.5
#: More at a time does not help: eight keep both cores busy to the end.
JOBS_MAX = 8


class Board:
    """A display of the progress of all parts.

    :param parts: number of parts
    :param tell_s: see `TELL_S`
    """

    def __init__(self, parts: int, tell_s: float = TELL_S) -> None:
        self.parts = parts
        self.ended = 0
        self.running: list[Progress] = []
        self._terminal = sys.stdout.isatty()
        self._every = 1.0 if self._terminal else tell_s
        self._told_at = time.monotonic()
        self._lock = threading.Lock()

    def begin(self, name: str) -> Progress:
        """Add a part."""
        progress = Progress(name)
        self.say(f"matrix: {name} begins")
        with self._lock:
            self.running.append(progress)
        return progress

    def end(self, progress: Progress, words: str) -> None:
        """Remove a part, and print its result."""
        with self._lock:
            self.running.remove(progress)
            self.ended += 1
        self.say(words)

    def say(self, words: str) -> None:
        """Print lines at once."""
        with self._lock:
            print(f"\r\033[K{words}" if self._terminal else words, flush=True)

    def tell(self) -> None:
        """Print failures, and the progress if it is due."""
        for progress in list(self.running):
            while progress.news:
                self.say(f"matrix: {progress.news.popleft()}; it is run again, alone, after its part")
        if time.monotonic() - self._told_at < self._every:
            return
        self._told_at = time.monotonic()
        with self._lock:
            lines = [f"[{self.ended} of {self.parts} parts ended] {progress.told()}" for progress in self.running]
        if not lines:
            return
        if self._terminal:
            columns = shutil.get_terminal_size().columns
            room = (columns - 10) // len(lines)
            short = " | ".join(line.partition("] ")[2].replace("tests/", "")[:room] for line in lines)
            print(f"\r\033[K{f'[{self.ended}/{self.parts}] {short}'[: columns - 1]}", end="", flush=True)
        else:
            self.say("\n".join(lines))


def run_part(runner: Runner, board: Board, name: str, part: Part) -> Outcome:
    """Run one part, and print its result."""
    progress = board.begin(name)
    outcome = None
    try:
        outcome = runner.run(name, part, progress)
    finally:
        words = [f"matrix: {name} is over"] if outcome is None else last_words(outcome)
        board.end(progress, "\n".join(words))
    return outcome


def last_words(outcome: Outcome) -> list[str]:
    """Return the log of a failed part, else pytest's summary."""
    said = Path(outcome.log).read_text(errors="replace").splitlines()
    if outcome.failures:
        said = [f"matrix: {outcome.name} said:", *said]
    else:
        said = [line for line in said[-20:] if line.startswith("left out ") or (" passed" in line and " in " in line)]
    return [*said, f"matrix: {outcome.told()}"]


def run_parts(
    runner: Runner, parts: dict[str, Part], jobs: int, fits: Callable[[Part], bool], tell_s: float = TELL_S
) -> Iterator[Outcome]:
    """Run parts in order, several at a time; skip a part that does not fit into the remaining time.

    :param fits: tells whether it does
    :param tell_s: see `TELL_S`
    """
    board = Board(len(parts), tell_s)
    waiting = list(parts)
    left_out: list[str] = []
    running: set[Future[Outcome]] = set()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    name = waiting.pop(0)
                    if fits(parts[name]):
                        running.add(pool.submit(run_part, runner, board, name, parts[name]))
                    else:
                        left_out.append(name)
                        board.parts -= 1
                ended, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield future.result()
                board.tell()
        finally:
            runner.stop()
    if left_out:
        print(f"matrix: left out for lack of time: {', '.join(left_out)}")


def rotated() -> list[str]:
    """Return the parts of the matrix, from another one on after each commit."""
    count = subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False).stdout
    begin = int(count or 0) % len(MATRIX)
    names = list(MATRIX)
    return names[begin:] + names[:begin]


def fitting_jobs() -> int:
    """Return how many parts this machine can run at a time: tests mostly wait, brokers and Spark take memory."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return max(2, min(4 * (os.cpu_count() or 1), int(gigabytes / GIGABYTES_EACH), JOBS_MAX))


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="names of parts, or `test`; by default the matrix")
    parser.add_argument(
        "--jobs",
        type=lambda text: fitting_jobs() if text == "auto" else int(text),
        default=1,
        help="how many parts run at a time; auto: as many as memory and processors allow",
    )
    parser.add_argument("--at-most", type=float, help="begin no part that would likely end after this time (minutes)")
    parser.add_argument("--end-by", type=float, help="end whatever still runs then (minutes)")
    parser.add_argument(
        "--since", type=float, metavar="EPOCH", help="the time counts from there (s); by default from now"
    )
    parser.add_argument("--outcomes", type=Path, metavar="FILE", help="add there how the parts went, and sum up later")
    parser.add_argument("--sum-up", type=Path, metavar="FILE", help="run nothing: sum up what is written there")
    parser.add_argument(
        "--rotation",
        type=Path,
        metavar="FILE",
        help="with --sum-up: outcomes whose failures are printed, and do not fail the run",
    )
    parser.add_argument(
        "--failed",
        action="append",
        default=[],
        metavar="TEXT",
        help="with --sum-up: what else ended the run",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the parts")
    args = parser.parse_args()
    unknown = [part for part in args.parts if part not in (*PARTS, "test")]
    for part in unknown:
        if part in UNLISTED:
            parser.error(f"{part} is not listed on this machine: it {UNLISTED[part]}")
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; --list names them")
    return args


def sum_up(outcomes: list[Outcome], others: list[str], rotation: Iterable[Outcome] = ()) -> int:
    """Print the closing lines; return the exit code.

    :param others: what else has failed
    :param rotation: parts whose failures are printed only
    """
    print("\n".join(closing(outcomes, others, rotation)), flush=True)
    return 1 if others or any(outcome.failures for outcome in outcomes) else 0


def tell_unlisted() -> None:
    """Print the parts that this machine cannot run, beside the list of those that it can."""
    for name, why in UNLISTED.items():
        print(f"matrix: {name} is not listed on this machine: it {why}", file=sys.stderr)


def written(file: Path) -> list[Outcome]:
    """Return the outcomes in a file."""
    return [Outcome(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def run(args: argparse.Namespace) -> int:
    """Run the requested parts; return 1 if one failed."""
    names = [name for part in args.parts for name in (TEST if part == "test" else [part])]
    if not names:
        names = list(MATRIX) if args.at_most is None else rotated()
        tell_unlisted()
    # Minutes of the wall clock, converted to the monotonic clock.
    start = time.monotonic() - (0 if args.since is None else time.time() - args.since)

    def fits(part: Part) -> bool:
        return args.at_most is None or (time.monotonic() - start) / 60 + part.minutes <= args.at_most

    runner = Runner(LOGS, end_by=None if args.end_by is None else start + args.end_by * 60)
    outcomes: list[Outcome] = []
    others: list[str] = []
    try:
        for outcome in run_parts(runner, {name: PARTS[name] for name in names}, args.jobs, fits):
            outcomes.append(outcome)
            if args.outcomes is not None:
                with args.outcomes.open("a") as file:
                    file.write(json.dumps(outcome._asdict()) + "\n")
    except KeyboardInterrupt:
        others.append("interrupted")
    if args.outcomes is None:
        sum_up(outcomes, others)
    if others:
        return 130
    return 1 if any(outcome.failures for outcome in outcomes) else 0


def interrupted(number: int, frame: object) -> NoReturn:
    """Exit as after Ctrl-C, with all child processes, on SIGHUP or SIGTERM."""
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line."""
    args = parsed()
    if args.list:
        print("\n".join(PARTS))
        tell_unlisted()
        return 0
    if args.sum_up is not None:
        outcomes = written(args.sum_up)
        # A step of make fails if one of its parts failed.
        others = [] if any(outcome.failures for outcome in outcomes) else args.failed
        return sum_up(outcomes, others, written(args.rotation) if args.rotation is not None else [])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    return run(args)


if __name__ == "__main__":
    raise SystemExit(main())
