"""Long searches: pieces, processes, the log and its sums; plans of faults as lines and as source."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykafka import __version__
from pykafka.testing import simulate
from pykafka.testing.simulation import search
from pykafka.testing.simulation.plan import PlannedFault, Targets, draw
from pykafka.testing.simulation.plans import as_test, line_of, read
from pykafka.testing.simulation.scale import SMALL_FROM
from pykafka.testing.simulation.search import Search, SeedsNotRunError, in_processes, parts
from pykafka.testing.simulation.tally import SeedLog, Tally, commit, parsed_seeds, seeds_text
from pykafka.testing.sometimes import STATIC, THINGS, TOGETHER
from pykafka.testing.virtual import NetworkFaults
from tests.support.interrupts import Interrupted, interrupting

ROOT = Path(__file__).resolve().parents[2]
#: What has to happen in some seed.
WANTED = [*THINGS, *TOGETHER]


@pytest.fixture
def log(tmp_path: Path) -> SeedLog:
    """A log that does not exist yet."""
    return SeedLog(tmp_path / "seeds.log")


@pytest.mark.parametrize(("text", "seeds"), [("3", range(3)), ("5..7", range(5, 8)), ("7..7", range(7, 8))])
def test_seeds_as_text(text: str, seeds: range) -> None:
    assert parsed_seeds(text) == parsed_seeds(seeds_text(seeds)) == seeds


@pytest.mark.parametrize(("count", "sizes"), [(1, [7]), (2, [3, 4]), (3, [2, 2, 3]), (9, [1] * 7)])
def test_parts_of_a_range(count: int, sizes: list[int]) -> None:
    cut = list(parts(range(10, 17), count))
    assert [len(part) for part in cut] == sizes
    assert [seed for part in cut for seed in part] == list(range(10, 17))


def test_each_piece_is_a_line_of_the_log(log: SeedLog) -> None:
    def run(seeds: range) -> Tally:
        return Tally(seeds, [seed for seed in seeds if seed == 4], 0.1 * len(seeds), Counter({WANTED[0]: len(seeds)}))

    total = Search(run, print, piece=3, log=log).run(range(7))
    assert (total.seeds, total.failed, round(total.cpu_s, 3)) == (range(7), [4], 0.7)
    assert [(one.seeds, one.failed) for _, one in log.entries()] == [
        (range(2), []),
        (range(2, 4), []),
        (range(4, 7), [4]),
    ]
    assert {at for at, _ in log.entries()} == {commit()}
    assert log.next_seed() == 7
    assert str(total) == "7 seeds, 1 failed [4], 100 ms of CPU each"
    assert total.missing() == [thing for thing in WANTED[1:] if thing != STATIC]  # large seeds have no static member


def test_small_seeds_have_to_show_a_static_member() -> None:
    assert Tally(range(SMALL_FROM, SMALL_FROM + 1)).missing() == WANTED


def test_no_piece_begins_when_the_time_is_over(log: SeedLog) -> None:
    written: list[str] = []
    total = Search(Tally, written.append, piece=3, log=log, minutes=0).run(range(7))
    assert (len(total.seeds), log.entries()) == (0, [])
    assert written == ["the time is over: 0..6 were not run\n"]


def test_sums_of_a_log(log: SeedLog) -> None:
    """By commit; seeds that ran twice count once; what happened in no seed is named."""
    everything = Counter(dict.fromkeys(WANTED, 1))
    for at, seeds, failed in [("a", range(10), [3]), ("a", range(5, 15), [7]), ("b", range(4), [])]:
        log.append(Tally(seeds, failed, 0.05 * len(seeds), everything if at == "a" else Counter()), at)
    assert log.next_seed() == 15
    written: list[str] = []
    assert simulate.main(["--sum", str(log.path)], written.append) == 0
    first, second, whole = "".join(written).splitlines()
    assert first == "a: 15 seeds in 2 pieces, 2 failed [3, 7], 50 ms of CPU each"
    assert second == f"b: 4 seeds in 1 pieces, 0 failed [], 50 ms of CPU each; never: {', '.join(WANTED)}"
    assert whole == "all: 19 seeds, 2 failed, at 2 commits"


def test_a_log_that_does_not_exist_is_empty(log: SeedLog) -> None:
    assert (log.entries(), log.next_seed()) == ([], 0)
    assert log.summed() == "all: 0 seeds, 0 failed, at 0 commits\n"


def test_several_processes(log: SeedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The total is the sum of their tallies, the same as in one process."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    written: list[str] = []
    assert simulate.main(["--seeds", "20..23", "--jobs", "2", "--log", str(log.path)], written.append) == 0
    assert written[-1].startswith("4 seeds, 0 failed [], ")
    (_, shared), (_, alone) = log.entries()[0], ("", simulate._Runs(written.append).run(range(20, 24)))
    assert (shared.seeds, shared.counts) == (alone.seeds, alone.counts)


def test_a_process_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch, log: SeedLog) -> None:
    """Its seeds are not in the log, and its last words are in the error."""
    monkeypatch.setattr(search, "seeds_text", lambda seeds: "none")
    with pytest.raises(SeedsNotRunError, match=r"(?s)status 2 before their end.*'none' is neither a number"):
        Search(Tally, print, jobs=2, log=log).run(range(4))
    assert log.entries() == []


def test_an_interrupt_at_any_step_leaves_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The ones that had begun ran on: `end` did not know them, or stopped at the first one."""
    begun: list[Begun] = []

    class Begun:
        """A process: it has its tally when it is waited for, unless it was killed."""

        def __init__(self, command: list[str], **_: object) -> None:
            self.runs = True
            self._tally = Path(command[command.index("--tally") + 1])
            self._line = Tally(parsed_seeds(command[command.index("--seeds") + 1])).line("a")
            begun.append(self)

        def kill(self) -> None:
            self.runs = False

        def wait(self) -> int:
            if self.runs:
                self._tally.write_text(self._line)
                self.runs = False
            return 0

    monkeypatch.setattr(subprocess, "Popen", Begun)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    completed = []
    for call in interrupting("search.py", "interrupts.py"):
        begun.clear()
        with suppress(Interrupted):
            completed.append(len(call(lambda: in_processes(range(6), 3, lambda _: None)).seeds))
        assert [one for one in begun if one.runs] == []
        assert search.running == []
    assert completed == [6]


def test_the_commit_of_an_installed_package_is_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_git(*_arguments: object, **_options: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", no_git)
    assert commit() == __version__


def test_plans_as_lines() -> None:
    """Each plan that can be drawn is the same when it is read."""
    targets = Targets((1, 2, 3), {"a": 2, "b": 1}, ("b",), (("group", "g"),))
    plan = draw(Random(4), targets, 300, 1_000)
    assert read(line_of(12, plan)) == (12, plan)
    with pytest.raises(ValueError, match="not a seed with a plan, such as"):
        read('{"seed": 1}')


def test_plans_as_source() -> None:
    """Faults of the network are named by what they change."""
    plan = [
        PlannedFault(5, 10, "network", (NetworkFaults(cut=0.5),)),
        PlannedFault(7, 10, "stop", (1, True)),
        PlannedFault(9, 10, "cut_all", ()),
    ]
    source = as_test(3, plan, "It loses what was acknowledged.")
    assert '        PlannedFault(5, 10, "network", (NetworkFaults(cut=0.5),)),\n' in source
    assert '        PlannedFault(7, 10, "stop", (1, True)),\n' in source
    assert '        PlannedFault(9, 10, "cut_all", ()),\n' in source
    compile(source, os.devnull, "exec")
