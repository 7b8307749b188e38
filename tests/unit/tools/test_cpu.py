"""CPU time of processes, as samples of /proc show it: no time counts twice, and none is lost for want of a parent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import cpu

PYTEST, COMMAND, WORKER = 100, 90, 80
OTHER = 101


class Processes:
    """A directory like /proc.

    :param directory: for it
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def have(self, pid: int, parent: int, own: float, waited: float = 0, mark: str = "part") -> None:
        """Begin a process, or change its times (s)."""
        (self.directory / str(pid)).mkdir(exist_ok=True)
        times = [round(s * cpu.TICKS) for s in (own, 0, waited, 0)]
        fields = ["S", parent, *range(9), *times]
        (self.directory / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(map(str, fields))} 0 0\n")
        (self.directory / str(pid) / "environ").write_bytes(f"A=1\0MARK={mark}\0".encode())

    def end(self, *pids: int) -> None:
        """End processes, all between the same two samples."""
        for pid in pids:
            shutil.rmtree(self.directory / str(pid))


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    monkeypatch.setattr(cpu, "PROC", tmp_path)
    return Processes(tmp_path)


@pytest.mark.parametrize("apart", [(), (WORKER,), (WORKER, COMMAND)], ids=["together", "worker_first", "one_by_one"])
@pytest.mark.parametrize("numbers", [(PYTEST, COMMAND, WORKER), (80, 90, 100), (90, 100, 80)])
def test_a_worker_of_a_command_counts_once(
    processes: Processes, apart: tuple[int, ...], numbers: tuple[int, int, int]
) -> None:
    """Whichever ends first, and whatever order of numbers: the command waits for its worker, and pytest for the command."""
    named = dict(zip((PYTEST, COMMAND, WORKER), numbers, strict=True))
    root, command, worker = numbers
    times = cpu.CpuTimes("MARK")
    processes.have(root, 1, 2)
    processes.have(command, root, 1)
    processes.have(worker, command, 40)
    times.sample(at_once=True)
    for pid in apart:
        processes.end(named[pid])
        if pid == WORKER:
            processes.have(command, root, 1, waited=40)
        else:
            processes.have(root, 1, 2, waited=41)
        times.sample(at_once=True)
    processes.end(*(named[pid] for pid in (WORKER, COMMAND) if pid not in apart))
    processes.have(root, 1, 3, waited=41)
    assert times.take("part") == pytest.approx(44)


def test_children_that_no_sample_has_seen_count(processes: Processes) -> None:
    times = cpu.CpuTimes("MARK")
    processes.have(PYTEST, 1, 2)
    processes.have(WORKER, PYTEST, 5)
    processes.have(OTHER, 1, 7, mark="another")
    times.sample(at_once=True)
    processes.end(WORKER)
    processes.have(PYTEST, 1, 2, waited=5 + 11)
    assert times.take("part") == pytest.approx(2 + 5 + 11)
    assert times.take("another") == pytest.approx(7)


def test_who_waits_for_nobody_loses_nothing(processes: Processes) -> None:
    """As Spark's daemon of workers, which does not wait for them."""
    times = cpu.CpuTimes("MARK")
    processes.have(PYTEST, 1, 2)
    processes.have(COMMAND, PYTEST, 1)
    processes.have(WORKER, COMMAND, 40)
    times.sample(at_once=True)
    processes.end(WORKER)
    times.sample(at_once=True)
    processes.end(COMMAND)
    processes.have(PYTEST, 1, 2, waited=1)
    assert times.take("part") == pytest.approx(43)


def test_time_that_nobody_waited_for_hides_no_other(processes: Processes) -> None:
    """A command ends together with a worker that it did not wait for: what pytest gets later is of other children."""
    times = cpu.CpuTimes("MARK")
    processes.have(PYTEST, 1, 2)
    processes.have(COMMAND, PYTEST, 1)
    processes.have(WORKER, COMMAND, 40)
    times.sample(at_once=True)
    processes.end(COMMAND, WORKER)
    processes.have(PYTEST, 1, 2, waited=1)
    times.sample(at_once=True)
    processes.have(PYTEST, 1, 2, waited=1 + 11)
    assert times.take("part") == pytest.approx(2 + 1 + 40 + 11)
