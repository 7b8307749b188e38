"""Seeds of a simulation in a process of its own, that imports the package from a copy: `python -m tests.mutations.seeds`.

It prints each seed that fails, with what the checker says of it, until one fails that is not to be left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from random import Random
from unittest.mock import MagicMock

from pykafka.testing.simulation.members import Pooling, Visiting
from pykafka.testing.simulation.simulation import Result, Simulation


def has(simulation: Simulation, fault: str, api: str) -> bool:
    """Return whether the plan of a seed has a fault of an API three times or more."""
    return len([one for one in simulation.plan or () if one.name == fault and one.arguments[0] == api]) > 2


def runs(simulation: Simulation, program: type) -> bool:
    """Return whether a seed has a program of a kind, which it draws when it begins."""
    world = MagicMock()
    world.random.side_effect = Random
    writers, readers = Simulation(simulation.seed).programs(world)  # anew: some of its draws change its state
    return any(isinstance(one, program) for one in (*writers, *readers))


#: The seeds that have certain programs or faults: it is cheaper to run no others.
KINDS: dict[str, Callable[[Simulation], bool]] = {
    "admin": lambda one: one.administers,
    "exactly-once": lambda one: one.handles,
    "forgets": lambda one: one.forgets,
    "forgets-often": lambda one: one.forgets_often,
    "late-ends": lambda one: KINDS["version1"](one) and has(one, "late", "EndTxn"),
    "loses": lambda one: one.loses,
    "letters": lambda one: one.extras.kind == "letters",
    "pools": lambda one: runs(one, Pooling),
    "share": lambda one: one.extras.kind == "share",
    "commits": lambda one: one.extras.kind == "commits",
    "sizes": lambda one: one.extras.kind == "sizes",
    "visits": lambda one: runs(one, Visiting),
    "lost-heartbeats": lambda one: KINDS["topics"](one) and has(one, "cut", "ConsumerGroupHeartbeat"),
    "topics": lambda one: one.changes_topics and one.release == "4.4",
    "version1": lambda one: not one.keeps and (one.transactions == 1 or one.release != "4.4"),
    "any": lambda one: True,
}


def text(result: Result) -> str:
    """Return in one line why a seed has failed."""
    reasons = [f"{one.kind.value}: {one.sentence}" for one in result.anomalies]
    reasons += [f"{name}: {type(error).__name__}: {error}" for name, error in result.errors]
    return " ".join(reasons[0].split())[:300]


def main() -> int:
    """Run seeds until one fails; 1 if one has."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.seeds")
    parser.add_argument("first", type=int)
    parser.add_argument("behind", type=int)
    parser.add_argument("--programs", choices=sorted(KINDS), default="any")
    arguments = parser.parse_args()
    ran = 0
    for seed in range(arguments.first, arguments.behind):
        simulation = Simulation(seed)
        if not KINDS[arguments.programs](simulation):
            continue
        result = simulation.run()
        ran += 1
        if result.failed:
            print(f"seed {seed} the {ran} {text(result)}", flush=True)
            return 1
    print(f"none of {ran}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
