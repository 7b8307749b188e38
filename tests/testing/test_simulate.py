"""Simulations: seeds pass, a seed is one history, and a planted defect is found, with the faults that it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.testing import simulate
from pykafka.testing.checker import Checker
from pykafka.testing.history import History
from pykafka.testing.simulate import ORDERS, Simulation, report, shrink
from pykafka.testing.simulation.plan import FAULTS, PlannedFault, Targets, draw
from pykafka.testing.simulation.world import World
from pykafka.testing.sometimes import THINGS, Sometimes
from tests.testing.stories import P0, Story

ROOT = Path(__file__).resolve().parents[2]


#: Seeds that have found defects: 105, a sender that tried a batch without a pause when its time was over; 10231, a program that
#: ended when no broker answered its first question; 20006, two workers and one coordinator that is forgotten; 10006, a request
#: that outlived its batches.
FOUND = [105, 10231, 20006, 10006]


@pytest.mark.parametrize("seed", [*range(12), *FOUND])
def test_seeds(seed: int) -> None:
    result = Simulation(seed).run()
    assert not result.failed, report(result)
    assert len(result.history) > 20


def in_another_process(seed: int, path: Path, environment: dict[str, str]) -> bytes:
    """Return the history of a seed, as another process writes it."""
    command = [sys.executable, "-m", "pykafka.testing.simulate", "--seeds", f"{seed}..{seed}", "--history", str(path)]
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    subprocess.run(command, env=whole, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("seed", "environment"),
    [
        (3, {"PYTHONHASHSEED": "1"}),
        (7, {"PYTHONHASHSEED": "2"}),
        # Compiled modules take fewer locks, so that histories are the same only if nobody gives way before a lock.
        (8, {"PYKAFKA_PURE_PYTHON": "1"}),
    ],
)
def test_a_seed_is_one_history(seed: int, environment: dict[str, str], tmp_path: Path) -> None:
    """It is the same byte for byte, also in another process with other hashes, and by the Python sources alone."""
    simulation = Simulation(seed)
    assert simulation.preemption == 0 or "PYKAFKA_PURE_PYTHON" not in environment
    lines = [line.encode() + b"\n" for line in simulation.run().history.lines()]
    assert in_another_process(seed, tmp_path / "history", environment).splitlines(keepends=True) == lines


def test_on_threads() -> None:
    """The programs take any handler: here real threads, sockets and time."""
    handler = ThreadingHandler()
    simulation = Simulation(2, plan=[])
    simulation.lasts_ms = 500
    history = History(lambda: int(handler.now() * 1000), handler.Lock())
    assert simulation.run_on(handler, history) == []
    # On a busy machine calls end later; all else has to hold.
    assert Checker(60_000).check(history) == []
    assert len(history) > 20


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Simulation]:
    """A simulation in which a fault, among others, loses what was acknowledged."""

    def lose(world: World) -> None:
        for index in range(len(world.cluster._state.topics[ORDERS].partitions)):
            world.cluster.truncate(ORDERS, index, 0)

    monkeypatch.setitem(FAULTS, "lose", lose)
    harmless = [PlannedFault(at_ms, 50, "hang_up", (1,)) for at_ms in (100, 200, 300, 900, 950)]
    plan = [*harmless[:3], PlannedFault(800, 50, "lose", ()), *harmless[3:]]
    return lambda: Simulation(1, plan)


def test_a_loss_is_found(losing: Callable[[], Simulation]) -> None:
    """Of the faults, the one that it takes is left; the report has the sentence, the operations, and the fault."""
    result = losing().run()
    assert result.failed
    shrunk = shrink(result)
    assert [fault.name for fault in shrunk.simulation.plan or ()] == ["lose"]
    assert shrunk.signs & result.signs
    text = report(shrunk)
    assert text.startswith("seed 1 has failed, with these faults:\n    lose() at 800 ms for 50 ms\n")
    assert shrunk.anomalies[0].sentence in text
    assert "> " in text
    assert "faults         fault" in text


def test_an_error_of_a_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(world: World) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(FAULTS, "broken", broken)
    result = Simulation(1, [PlannedFault(10, 10, "broken", ())]).run()
    assert result.signs >= {"ZeroDivisionError"}
    assert "faults has raised ZeroDivisionError: planted" in report(result)


def test_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints failures and what has not happened, appends a line to the log, and returns whether all is well."""
    written: list[str] = []
    log = tmp_path / "log"
    assert simulate.main(["--seeds", "5..6", "--log", str(log)], written.append) == 0
    assert written[0].startswith("2 seeds, 0 failed [], ")
    assert simulate.main(["--seeds", "1", "--log", str(log)], written.append) == 0
    assert [line.split(":")[0] for line in log.read_text().splitlines()] == ["5..6", "0..0"]
    monkeypatch.setattr(simulate, "ENOUGH_SEEDS", 1)
    assert simulate.main(["--seeds", "1"], written.append) == 1
    assert any(text.startswith("this has happened in no seed: ") for text in written)


def test_main_reports_failures(losing: Callable[[], Simulation], monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    plan = losing().plan

    def planted(seed: int, other: Any = None) -> Simulation:
        return Simulation(seed, plan if other is None else other)

    monkeypatch.setattr(simulate, "Simulation", planted)
    assert simulate.main(["--seeds", "1..1"], written.append) == 1
    assert written[0].startswith("seed 1 has failed, with these faults:\n    lose() at 800 ms")
    assert written[1].startswith("1 seeds, 1 failed [1], ")


def test_plan() -> None:
    """A seed has one plan; faults that lose records, or what logs know of producers, are for topics that allow that."""
    targets = Targets((1, 2, 3), {"a": 2}, (), (("group", "g"),))
    plan = draw(Random(3), targets, 300, 1_000)
    assert plan == draw(Random(3), targets, 300, 1_000)
    assert {fault.name for fault in plan} == set(FAULTS) - {"unclean", "forget"}
    lossy = draw(Random(3), Targets((1,), {"a": 1, "b": 1}, ("b",), (("group", "g"),)), 300, 1_000)
    assert {fault.arguments for fault in lossy if fault.name == "unclean"} == {("b", 0)}
    forgetful = draw(Random(3), Targets((1,), {"a": 1, "b": 1}, (), (("group", "g"),), ("b",)), 300, 1_000)
    assert {fault.arguments for fault in forgetful if fault.name == "forget"} == {("b", 0)}


def test_sometimes() -> None:
    sometimes, story = Sometimes(), Story()
    assert sometimes.missing() == list(THINGS)
    story.send(1, 0)
    story.send(2, outcome="unknown")
    story.assigned(1)
    story.revoked(1, P0)
    sometimes.look(story)
    sometimes.look(story)
    seen = ["a send succeeds", "a send has an unknown outcome", "a member gets no partition", "partitions are revoked"]
    assert sorted(sometimes.counts) == sorted(seen)
    assert sometimes.counts["a send succeeds"] == 2
    assert sometimes.missing() == [thing for thing in THINGS if thing not in seen]
