"""The command line of `python -m pykafka.testing.simulate`: its options, and errors of what it names."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager

from pykafka.exceptions import KafkaException
from pykafka.testing.simulation.tally import SeedLog, parsed_seeds


class CommandError(KafkaException):
    """Raised when a file of the command line, or its output, cannot be used; the text has its name and the reason."""


class ClosedOutputError(CommandError):
    """Raised when the reader of the output has gone, as `head` does."""


@contextmanager
def using(path: object) -> Iterator[None]:
    """Read or write a file in this context.

    :raises CommandError: it cannot be read, or written
    """
    try:
        yield
    except (OSError, UnicodeError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _seeds(text: str) -> range:
    try:
        seeds = parsed_seeds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of seeds nor A..B") from None
    if not seeds or seeds.start < 0:
        raise argparse.ArgumentTypeError(f"{text!r} names no seed: N is 1 or more, and A..B has 0 <= A <= B")
    return seeds


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return count


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not minutes > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return minutes


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m pykafka.testing.simulate",
        description="Run seeds, and report those that fail, each with the fewest faults that still make it fail.",
    )
    add = made.add_argument
    add("--seeds", type=_seeds, default=range(100), metavar="N | A..B", help="0 to N-1, or A to B")
    add("--next", type=_count, metavar="N", help="instead: so many seeds behind those that are in the log")
    add("--jobs", type=_count, default=1, metavar="N", help="how many processes run them; 1 by default")
    add("--log", type=SeedLog, metavar="FILE", help="append a line for each piece of the seeds")
    add("--piece", type=_count, default=1000, metavar="N", help="how many seeds are a piece; 1000 by default")
    add("--minutes", type=_minutes, metavar="M", help="begin no piece after this time")
    add("--sum", type=SeedLog, metavar="FILE", help="run nothing: print the sums of a log, by commit")
    add("--plan", metavar="FILE", help="instead: run the seeds of a file with their plans, as failures are printed")
    add("--history", metavar="FILE", help="write the history of the last seed of one job, a line for each operation")
    add("--against", metavar="HOST:PORT,...", help="real brokers, in real time, instead of fake ones")
    add("--broker-command", metavar="COMMAND", help="with --against: COMMAND kill|start|pause|resume ID does that")
    add("--handler", choices=("threads", "gevent"), default="threads", help="with --against")
    add("--tally", metavar="FILE", help="for --jobs: write the line of the log to this file, and return no failure")
    # The process that has begun this one: it stops when that one has gone.
    add("--parent", type=_count, help=argparse.SUPPRESS)
    return made


def parsed(made: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of a command line; print an error and exit with status 2 if they do not fit together.

    :raises CommandError: a file cannot be used, which is known before the first seed runs
    """
    options = made.parse_args(arguments)
    if options.sum is not None and not options.sum.path.is_file():
        raise CommandError(f"{options.sum.path}: there is no such log")
    if options.history and options.jobs > 1:
        made.error("--history has the last seed of one process: leave --jobs out")
    if options.next is not None and options.log is None:
        made.error("--next needs --log FILE, which says what was run")
    if options.log is not None:
        options.log.check()
    if options.history:
        with using(options.history), open(options.history, "w", encoding="utf-8"):
            pass
    return options
