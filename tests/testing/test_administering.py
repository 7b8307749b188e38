"""The program that administers in simulations: its seeds pass, lost changes are found, and its faults are of its own calls."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.testing.checker import Checker, Kind
from pykafka.testing.history import Change, Deleted, History, Observe, Outcome, State
from pykafka.testing.simulate import report
from pykafka.testing.simulation.administering import ERRORS, draw_faults
from pykafka.testing.simulation.plan import FAULTS, PlannedFault
from pykafka.testing.simulation.simulation import REMADE, TRIMMED, Result, Simulation
from pykafka.testing.simulation.world import World

#: Seeds with the program; 201 found that a send was taken for a deleted one before it had its offset.
SEEDS = [*[seed for seed in range(100) if Simulation(seed).administers][:6], 201]


def outcomes(result: Result) -> Counter[tuple[str, Outcome]]:
    """Return how often each kind of call had each outcome."""
    calls = [one for one in result.history if isinstance(one.action, (Change, Observe))]
    return Counter((one.action.name, one.outcome) for one in calls)


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds(seed: int) -> None:
    result = Simulation(seed).run()
    assert not result.failed, report(result)
    assert {TRIMMED, REMADE} <= set(result.simulation.topics)
    assert outcomes(result)["change", Outcome.OK] > 0


def test_what_seeds_show() -> None:
    """In a few seeds changes succeed and are refused, records are deleted, and answers show what has become of it all."""
    results = [Simulation(seed).run() for seed in SEEDS]
    found = sum((outcomes(result) for result in results), Counter())
    assert min(found["change", outcome] for outcome in (Outcome.OK, Outcome.FAIL, Outcome.NOTE)) > 5
    assert found["observe", Outcome.OK] > 20
    assert any(isinstance(one.action, Deleted) for result in results for one in result.history)


@pytest.fixture
def live() -> Simulation:
    """A simulation with the program, without faults, the end of which shows everything once more."""
    seed = next(seed for seed in range(1_000) if (one := Simulation(seed)).administers and one.is_live)
    return Simulation(seed, plan=[])


@pytest.mark.parametrize("what", ["topics", "settings"])
def test_a_lost_change_is_found(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The brokers forget what they have acknowledged."""

    def forget(world: World) -> None:
        with world.cluster._locked() as state:
            for topic in [name for name in state.topics if name.startswith("a1-")]:
                if what == "topics":
                    del state.topics[topic]
                else:
                    state.topics[topic].configs.clear()

    monkeypatch.setitem(FAULTS, "forget", forget)
    plan = [PlannedFault(at_ms, 10, "forget", ()) for at_ms in range(0, 5_000, 50)]
    found = [one.kind for seed in SEEDS for one in Simulation(seed, plan).run().anomalies]
    assert Kind.LOST_CHANGE in found


def test_records_that_no_request_deletes_are_there() -> None:
    """The checker knew only the offset that the first request of unknown outcome named, so 0 was no answer."""
    plan = [PlannedFault(0, 60_000, "cut", ("DeleteRecords", "before", 1_000))]
    results = [Simulation(seed, plan).run() for seed in SEEDS]
    assert [one for result in results for one in result.anomalies] == []
    shown = [one.action.states for result in results for one in result.history if isinstance(one.action, Observe)]
    assert (State(f"first offset of {TRIMMED}-0", "0"),) in shown


def test_on_threads(live: Simulation) -> None:
    handler = ThreadingHandler()
    live.lasts_ms = 500
    history = History(lambda: int(handler.now() * 1000), handler.Lock())
    assert live.run_on(handler, history) == []
    assert Checker(60_000).check(history) == []  # on a busy machine calls end later


def test_faults() -> None:
    """They are those of a seed, and within the time."""
    drawn = draw_faults(Random(1), 50, 1_000)
    assert drawn == draw_faults(Random(1), 50, 1_000)
    assert all(0 <= fault.at_ms < 1_000 and fault.name in FAULTS for fault in drawn)
    assert {fault.name for fault in drawn} == {"fail", "cut", "hold"}
    assert {fault.arguments[0] for fault in drawn} <= {api for api, _ in ERRORS}
