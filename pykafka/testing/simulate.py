"""Runs seeds: each is a `Simulation`, and what fails is reported with the fewest faults that still make it fail.

python -m pykafka.testing.simulate --seeds 100
python -m pykafka.testing.simulate --next 10000 --jobs 2 --log simulated.log
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence

from pykafka.testing.history import Fault, Operation
from pykafka.testing.simulation import against
from pykafka.testing.simulation.arguments import ClosedOutputError, CommandError, parsed, parser, using
from pykafka.testing.simulation.plan import PlannedFault
from pykafka.testing.simulation.plans import as_test, line_of
from pykafka.testing.simulation.plans import read as read_plan
from pykafka.testing.simulation.real import RealSimulation
from pykafka.testing.simulation.search import Search, SeedsNotRunError, running
from pykafka.testing.simulation.simulation import Result, Simulation
from pykafka.testing.simulation.tally import SeedLogError, Tally
from pykafka.testing.sometimes import Sometimes

#: From so many seeds on, each thing of `Sometimes` has to have happened.
ENOUGH_SEEDS = 1_000
#: So many failures are printed with the fewest faults that it takes.
SHRUNK_MAX = 3
#: The most lines of a timeline.
_LINES = 80


def shrink(result: Result, runs: int = 100) -> Result:
    """Return a run of the same seed with as few faults as possible that fails in the same way.

    :param runs: the most that it may take
    """
    best, size = result, max(len(result.simulation.plan or ()) // 2, 1)
    while runs > 0 and best.simulation.plan:
        plan = list(best.simulation.plan)
        for start in range(0, len(plan), size):
            fewer = Simulation(result.simulation.seed, plan[:start] + plan[start + size :]).run()
            runs -= 1
            if fewer.signs & result.signs:
                best = fewer
                break
        else:
            if size == 1:
                break
            size = max(size // 2, 1)
    return best


def timeline(result: Result) -> list[str]:
    """Return what explains the first anomaly, as lines for a person: its operations, those of its programs, and the faults."""
    if not result.anomalies:
        return [str(one) for one in result.history.operations[-_LINES:]]
    first = result.anomalies[0].operations
    own, processes = {one.number for one in first}, {one.process for one in first}
    about = [one for one in result.history if _concerns(one, own, processes)]
    last = first[-1].number
    before = [one for one in about if one.number <= last]
    return [("> " if one.number in own else "  ") + str(one) for one in before[-_LINES:]]


def _concerns(operation: Operation, own: set[int], processes: set[str]) -> bool:
    return operation.number in own or isinstance(operation.action, Fault) or operation.process in processes


def report(result: Result) -> str:
    """Return what a failed run shows, as text: its faults, its timeline, and how to run it again."""
    seed, plan = result.simulation.seed, list(result.simulation.plan or ())
    lines = [f"seed {seed} has failed, with these faults:"]
    lines += [f"    {fault}" for fault in plan]
    found = [f"{name} has raised {type(error).__name__}: {error}" for name, error in result.errors]
    found += [str(anomaly) for anomaly in result.anomalies[:5]]
    lines += [*found, "what happened:", *timeline(result)]
    lines += ["with this line in a file, --plan FILE runs it again:", line_of(seed, plan)]
    first = found[0].splitlines()[0] if found else "It passes."
    return "\n".join([*lines, "as a test:", as_test(seed, plan, first)])


def _read_plan(path: str, number: int, line: str) -> tuple[int, list[PlannedFault]]:
    try:
        return read_plan(line)
    except ValueError as error:
        raise CommandError(f"{path}, line {number}: {error}") from error


class _Runs:
    """Runs seeds in this process, and prints those that fail, the first ones with the fewest faults that it takes.

    :param parent: the process that has begun this one, without which it stops; None: it does not matter
    """

    def __init__(self, write: Callable[[str], object], parent: int | None = None) -> None:
        self._write = write
        self._parent = parent
        self._shrunk = 0
        self.last: Result | None = None

    def run(self, seeds: range) -> Tally:
        """Run seeds; return what they have shown."""
        sometimes, tally = Sometimes(), Tally(seeds)
        for seed in seeds:
            if self._parent not in (None, os.getppid()):
                raise CommandError(
                    f"seed {seed} and those behind it are not run: the process that wants them has ended"
                )
            result = self.last = Simulation(seed).run()
            tally.cpu_s += result.cpu_s
            sometimes.look(result.history)
            if result.failed:
                tally.failed.append(seed)
                self._report(result)
        tally.counts = sometimes.counts
        return tally

    def _report(self, result: Result) -> None:
        self._shrunk += 1
        if self._shrunk <= SHRUNK_MAX:
            self._write(report(shrink(result)) + "\n")
        else:  # to make plans shorter takes a hundred times as long as a seed
            seed, signs = result.simulation.seed, ", ".join(sorted(result.signs))
            self._write(f"seed {seed} has failed, too ({signs}): --seeds {seed}..{seed} shows how\n")

    def again(self, path: str) -> int:
        """Run the seeds of a file with their plans; return the status."""
        failed = []
        with using(path), open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        rows = [_read_plan(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
        if not rows:
            raise CommandError(f"{path}: there is no plan in it")
        for seed, plan in rows:
            result = self.last = Simulation(seed, plan).run()
            if result.failed:
                failed.append(seed)
                self._write(report(result) + "\n")
        self._write(f"{len(rows)} seeds with plans, {len(failed)} failed {failed}\n")
        return 1 if failed else 0


def _run_against(options: argparse.Namespace, write: Callable[[str], object]) -> int:
    """Run seeds on real brokers, and report each; those with ZooKeeper are left out."""
    control = against.command_control(options.broker_command) if options.broker_command else None
    make_handler, failed, count = against.HANDLERS[options.handler], [], 0
    for seed in (seed for seed in options.seeds if not Simulation(seed).keeps):
        result = RealSimulation(seed, hosts=options.against, control=control, make_handler=make_handler).run()
        count += 1
        lasted_s = result.history.operations[-1].time_ms / 1000
        faults = len(result.simulation.plan or ())
        write(f"seed {seed}: {len(result.history)} operations and {faults} faults in {lasted_s:.0f} s\n")
        if result.failed:
            failed.append(seed)
            write(report(result) + "\n")
    write(f"{count} seeds, {len(failed)} failed {failed}\n")
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None, write: Callable[[str], object] = sys.stdout.write) -> int:
    """Run seeds, and report those that fail, each with the fewest faults that still make it fail.

    The status is 0 if none has failed, 1 if one has, or a thing of `Sometimes` has not happened, and 2 if the seeds could not
    be run, or the command line or a file is wrong.
    """
    made = parser()
    try:
        return _run(parsed(made, None if arguments is None else list(arguments)), write)
    except ClosedOutputError:
        raise
    except (CommandError, SeedLogError, SeedsNotRunError) as error:
        sys.stderr.write(f"{made.prog}: error: {error}\n")
        return 2


def _run(options: argparse.Namespace, write: Callable[[str], object]) -> int:
    if options.sum is not None:
        write(options.sum.summed())
        return 0
    if options.against:
        return _run_against(options, write)
    if options.next is not None:
        first = options.log.next_seed()
        options.seeds = range(first, first + options.next)
    runs = _Runs(write, options.parent)
    if options.plan is not None:
        status = runs.again(options.plan)
    elif options.tally is not None:
        line = runs.run(options.seeds).line("")
        with using(options.tally), open(options.tally, "w", encoding="utf-8") as file:
            file.write(line + "\n")
        status = 0
    else:
        search = Search(
            runs.run, write, jobs=options.jobs, piece=options.piece, log=options.log, minutes=options.minutes
        )
        status = _summed_up(search.run(options.seeds), write)
    if options.history and runs.last is not None:
        with using(options.history), open(options.history, "w", encoding="utf-8") as file:
            runs.last.history.write(file)
    return status


def _summed_up(total: Tally, write: Callable[[str], object]) -> int:
    """Print what seeds have shown; return the status."""
    missing = total.missing() if len(total.seeds) >= ENOUGH_SEEDS else []
    for thing in missing:
        write(f"this has happened in no seed: {thing}\n")
    write(f"{total}\n")
    return 1 if total.failed or missing else 0


def _print(text: str) -> None:
    """Print at once, so that a reader that has gone is noticed."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left would be an error at the exit
        if isinstance(error, BrokenPipeError):
            raise ClosedOutputError("the reader of the output has gone") from error
        raise CommandError(f"the output cannot be written: {error.strerror}") from error


def _terminate(number: int, _frame: object) -> None:
    """End the processes that run seeds for this one, and then this one."""
    if running:
        raise SystemExit(128 + number)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def command() -> int:
    """Run `main` as a command.

    It returns 130 after Ctrl-C, 143 after SIGTERM, and 141 if the reader of the output has gone, as shells do.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return main(write=_print)
    except KeyboardInterrupt:
        return 130
    except ClosedOutputError:
        return 141


if __name__ == "__main__":
    raise SystemExit(command())
