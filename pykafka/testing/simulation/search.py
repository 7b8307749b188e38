"""`Search`: a range of seeds, in pieces that several processes share, each piece a line of a log."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from pykafka.exceptions import KafkaException
from pykafka.handlers import ThreadingHandler
from pykafka.handlers.interrupts import FinalSteps
from pykafka.testing.simulation.tally import SeedLog, Tally, commit, seeds_text

#: How many lines of a process that has failed an error shows.
_LAST_LINES = 20


#: The processes that run seeds for this one.
running: list[_Process] = []


class SeedsNotRunError(KafkaException):
    """Raised when a process has not run its seeds to their end; the text has its last words."""


class Search:
    """Runs seeds.

    :param run: runs seeds in this process
    :param write: prints what other processes have printed
    :param jobs: how many processes run them; 1: this one alone
    :param piece: how many seeds are a line of the log
    :param log: None for no log
    :param minutes: no piece begins later than that; None for no limit
    """

    def __init__(
        self,
        run: Callable[[range], Tally],
        write: Callable[[str], object],
        *,
        jobs: int = 1,
        piece: int = 1000,
        log: SeedLog | None = None,
        minutes: float | None = None,
    ) -> None:
        self._run = run
        self._write = write
        self._jobs = jobs
        self._piece = piece
        self._log = log
        self._now = ThreadingHandler().now
        self._until = None if minutes is None else self._now() + 60 * minutes

    def run(self, seeds: range) -> Tally:
        """Run seeds, until their end or that of the time; return what those have shown that were run.

        :raises SeedsNotRunError: a process was killed, or has failed otherwise; the pieces before are in the log
        """
        total = Tally(range(seeds.start, seeds.start))
        for piece in parts(seeds, -(-len(seeds) // self._piece)):
            if self._until is not None and self._now() >= self._until:
                self._write(f"the time is over: {seeds_text(range(piece.start, seeds.stop))} were not run\n")
                break
            tally = self._run(piece) if self._jobs == 1 else in_processes(piece, self._jobs, self._write)
            if self._log is not None:
                self._log.append(tally, commit())
            total.add(tally)
        return total


def parts(seeds: range, count: int) -> Iterator[range]:
    """Cut a range into so many parts, of nearly one size; none is empty."""
    begin = seeds.start
    for number in range(1, count + 1):
        end = seeds.start + len(seeds) * number // count
        if end > begin:
            yield range(begin, end)
        begin = end


class _Process:
    """A process that runs some seeds; `start` it. An interrupt meanwhile does not hide it from `end`.

    :param directory: of its output
    """

    def __init__(self, seeds: range, directory: Path) -> None:
        self._seeds = seeds
        self._tally = directory / f"{seeds.start}.tally"
        self._output = directory / f"{seeds.start}.output"
        self._starting = FinalSteps(ThreadingHandler(), "seeds")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to run the seeds."""
        self._starting.take(self._start)

    def _start(self) -> None:
        command = [sys.executable, "-m", "pykafka.testing.simulate", "--seeds", seeds_text(self._seeds)]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "--tally", str(self._tally), "--parent", str(os.getpid())],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def result(self) -> tuple[Tally, str]:
        """Wait for its end, and return its tally, and what it has printed."""
        assert self._process is not None
        status = self._process.wait()
        text = self._output.read_text(encoding="utf-8")
        if not self._tally.exists():
            last = "\n".join(text.splitlines()[-_LAST_LINES:])
            raise SeedsNotRunError(
                f"the process of seeds {seeds_text(self._seeds)} has ended with status {status} before their end; run them "
                f"again, with fewer --jobs if memory was short. Its last words:\n{last}"
            )
        return Tally.of_line(self._tally.read_text(encoding="utf-8"))[1], text

    def end(self) -> None:
        """Kill it if it still runs, and wait for that."""
        self._starting.wait()
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def in_processes(seeds: range, jobs: int, write: Callable[[str], object]) -> Tally:
    """Run seeds in several processes at once; return what all have shown.

    :param jobs: how many processes
    :param write: prints what they have printed, one after the other
    :raises SeedsNotRunError: one has not reached its end
    """
    total = Tally(range(seeds.start, seeds.start))
    with TemporaryDirectory(prefix="pykafka-seeds-") as directory, ExitStack() as ends:
        ends.callback(running.clear)
        processes = [_Process(part, Path(directory)) for part in parts(seeds, jobs)]
        for process in processes:
            ends.callback(process.end)
        running.extend(processes)
        for process in processes:
            process.start()
        for process in processes:
            tally, text = process.result()
            write(text)
            total.add(tally)
    return total
