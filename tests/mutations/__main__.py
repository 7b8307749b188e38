"""Whether tests and simulations find the defects of the past that are in `patches/`, each put back into a copy.

python -m tests.mutations verify [NAME ...]             # each is killed by its test, which passes without it
python -m tests.mutations hunt [NAME ...] --seeds 100   # after how many seeds a simulation finds it
python -m tests.mutations table                         # the rows of docs/development/mutations.md
python -m tests.mutations mutants [MODULE ...]          # how many mutants of the state machines their unit tests kill
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.apply import ROOT, Mutation, all_mutations, mutated_copy

#: How long one test may take (s): a mutation that makes it hang is found by then.
TEST_S = 60
#: How long a seed may take on the average (s): virtual time costs no more. And how long a process may take to begin, and to end
#: the slowest of its seeds, when others need the machine, too (s).
SEED_S, MORE_S = 5, 60


def environment(copy: Path) -> dict[str, str]:
    """Return the environment of a process that imports the package from a copy, and the tests from here."""
    return {
        **os.environ,
        "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}",
        "PYTHONSAFEPATH": "1",  # else this directory comes first, also for the children of the tests
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYKAFKA_PURE_PYTHON": "1",
    }


def run(command: Sequence[str], copy: Path, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that imports the package from a copy.

    :param timeout: after which it is killed (s)
    :raises subprocess.TimeoutExpired: it was
    """
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(copy),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )


def run_tests(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests on a copy; return pytest's exit status, and what it printed."""
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=append", f"--timeout={TEST_S}", "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    done = run(command, copy)
    return done.returncode, done.stdout


def verify(mutations: Sequence[Mutation], verbose: bool = False) -> bool:
    """Print which mutations are killed by their tests; return whether all are, and the tests pass without them.

    :param verbose: print what pytest prints of tests that do as they should, too
    """
    tests = sorted({mutation.test for mutation in mutations})
    with mutated_copy() as copy:
        status, text = run_tests(copy, tests)
    good = status == 0
    print(f"{len(tests)} tests on the clean copy: {'pass' if good else 'FAIL'}")
    if verbose or not good:
        print(text)
    for mutation in mutations:
        began = time.monotonic()
        with mutated_copy(mutation) as copy:
            status, text = run_tests(copy, [mutation.test])
        killed = status == 1  # others: pytest found no such test, or was interrupted
        good = good and killed
        seconds = time.monotonic() - began
        print(
            f"{mutation.name:55} {'killed' if killed else f'NOT KILLED ({status})':15} {seconds:5.1f} s  {mutation.test}"
        )
        if verbose or status > 1:
            print(text)
    return good


def first_failing(copy: Path, seeds: range, programs: str) -> tuple[int, int, str] | None:
    """Return the first seed of which a simulation on a copy fails, how many it took, and the reason; None if there is none.

    :param programs: only seeds that have these (`tests.mutations.seeds.KINDS`)
    :raises SystemExit: the simulation ended by another error
    """
    arguments = ["-m", "tests.mutations.seeds", str(seeds.start), str(seeds.stop), "--programs", programs]
    printed = ""
    try:
        printed = run([sys.executable, *arguments], copy, MORE_S + SEED_S * len(seeds)).stdout
    except subprocess.TimeoutExpired:  # a mutation that computes for ever
        return seeds.start, 1, "it does not end"
    if found := re.search(r"^seed (\d+) the (\d+) (.*)", printed, re.MULTILINE):
        return int(found[1]), int(found[2]), found[3]
    if not re.search(r"^none of \d+", printed, re.MULTILINE):
        raise SystemExit(f"the simulation has ended by an error:\n{printed}")
    return None


def hunt_one(clean: Path, copy: Path, count: int, programs: str) -> tuple[int, int, str] | None:
    """Return the first seed that fails with a mutation and not without it, as `first_failing`."""
    ran = 0
    seeds = range(count)
    while (found := first_failing(copy, seeds, programs)) is not None:
        seed, number, reason = found
        ran += number
        if first_failing(clean, range(seed, seed + 1), programs) is None:
            return seed, ran, reason
        seeds = range(seed + 1, count)
    return None


def hunt(mutations: Sequence[Mutation], count: int, programs: str) -> bool:
    """Print after how many seeds a simulation finds each mutation; return whether it finds all.

    A seed that fails without the mutation, too, does not count.

    :param programs: only seeds that have these (`tests.mutations.seeds.KINDS`)
    """
    missed = 0
    with mutated_copy() as clean:
        for mutation in mutations:
            with mutated_copy(mutation) as copy:
                found = hunt_one(clean, copy, count, programs)
            missed += found is None
            outcome = "not found" if found is None else f"seed {found[0]}, the {found[1]}. {found[2]}"
            print(f"{mutation.name:45} {mutation.header['Damage']:15} {outcome}", flush=True)
    print(f"{len(mutations) - missed} of {len(mutations)} found in {count} seeds")
    return not missed


def chosen(names: Sequence[str]) -> list[Mutation]:
    """Return the mutations of some names; all without one.

    :raises SystemExit: there is none of a name
    """
    known = {mutation.name: mutation for mutation in all_mutations()}
    if missing := [name for name in names if name not in known]:
        raise SystemExit(f"no mutation {', '.join(missing)}; there are {', '.join(known)}")
    return [known[name] for name in names or known]


def kind(name: str) -> str:
    """Return the name of a kind of seeds.

    :raises ArgumentTypeError: there is no such kind
    """
    from tests.mutations.seeds import KINDS  # it imports the package, which mutants need as Python source

    if name not in KINDS:
        raise argparse.ArgumentTypeError(f"no kind {name!r} of seeds; there are {', '.join(sorted(KINDS))}")
    return name


def judge_mutants(names: Sequence[str], sample: int, seed: int, numbers: Sequence[int]) -> None:
    """Print the mutants of some modules that survive, and the share that was killed.

    :raises SystemExit: mutmut is not installed, or there is no such module
    """
    from tests.mutations.judging import SUBJECTS, judge  # it imports pytest

    if unknown := [name for name in names if name not in SUBJECTS]:
        raise SystemExit(f"no module {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    if importlib.util.find_spec("mutmut") is None:
        raise SystemExit("mutmut, which makes the mutants, is not installed here: pip install '.[mutants]'")
    for name in names or SUBJECTS:
        print(judge(name, sample, seed, numbers), flush=True)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    commands = parser.add_subparsers(dest="command", required=True)
    verifying = commands.add_parser("verify", help="run the test of each mutation with and without it")
    verifying.add_argument("names", nargs="*", metavar="NAME")
    verifying.add_argument("-v", "--verbose", action="store_true", help="print what pytest prints")
    hunting = commands.add_parser("hunt", help="find each mutation by a simulation")
    hunting.add_argument("names", nargs="*", metavar="NAME")
    hunting.add_argument("--seeds", type=int, default=100, metavar="N", help="the most seeds for each (100)")
    hunting.add_argument(
        "--programs", type=kind, default="any", metavar="KIND", help="only seeds with these programs (any)"
    )
    commands.add_parser("table", help="print the rows of docs/development/mutations.md")
    judging = commands.add_parser("mutants", help="try mutants of the state machines with their unit tests")
    judging.add_argument("names", nargs="*", metavar="MODULE", help="such as producer/in_flight_window")
    judging.add_argument("--sample", type=int, default=0, metavar="N", help="the most mutants of each module (all)")
    judging.add_argument("--seed", type=int, default=0, help="which ones a sample takes (0)")
    judging.add_argument("--numbers", type=int, nargs="+", default=(), metavar="N", help="only these mutants")
    arguments = parser.parse_args()
    if arguments.command == "mutants":
        judge_mutants(arguments.names, arguments.sample, arguments.seed, arguments.numbers)
        return 0
    if arguments.command == "table":
        print("\n".join(mutation.row for mutation in all_mutations()))
        return 0
    mutations = chosen(arguments.names)
    if arguments.command == "hunt":
        return 0 if hunt(mutations, arguments.seeds, arguments.programs) else 1
    return 0 if verify(mutations, arguments.verbose) else 1


if __name__ == "__main__":
    sys.exit(main())
