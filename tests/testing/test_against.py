"""Simulations in real time against brokers that somebody else runs: here those of a fake cluster, over sockets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.testing import simulate
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.history import Fault
from pykafka.testing.simulate import report
from pykafka.testing.simulation import against
from pykafka.testing.simulation.against import HANDLERS, RealCluster, command_control, draw
from pykafka.testing.simulation.real import RealSimulation
from pykafka.testing.simulation.simulation import Simulation

LASTS_MS = 1_000


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3) as cluster:
        cluster.set_group_settings(min_session_timeout_ms=1_000)
        yield cluster


@pytest.mark.parametrize("kind", sorted(HANDLERS))
def test_seed_with_kills(cluster: FakeCluster, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are killed and come back; nothing is wrong, and the run's topics are gone afterwards."""
    done: list[str] = []

    def control(what: str, broker: int) -> None:
        done.append(what)
        calls = {"kill": cluster.stop, "start": cluster.start, "pause": cluster.pause, "resume": cluster.resume}
        calls[what](broker)

    seed = next(seed for seed in range(100) if not (one := Simulation(seed)).keeps and one.is_live)
    simulation = RealSimulation(seed, hosts=cluster.hosts, control=control, make_handler=HANDLERS[kind])
    simulation.lasts_ms = LASTS_MS
    monkeypatch.setattr(against, "_BETWEEN_MS", 200)
    result = simulation.run()
    assert not result.failed, report(result)
    assert len(done) % 2 == 0
    assert {"kill", "pause"} & set(done)
    assert any(isinstance(one.action, Fault) for one in result.history)
    assert not [topic for topic in cluster._state.topics if simulation.suffix in topic]


def test_main(cluster: FakeCluster) -> None:
    """Without a command, no broker is killed."""
    written: list[str] = []
    assert simulate.main(["--against", cluster.hosts, "--seeds", "6..6", "--handler", "threads"], written.append) == 0
    assert written[0].startswith("seed 6: ")
    assert written[-1] == "1 seeds, 0 failed []\n"


def test_a_seed_with_zookeeper_is_refused(cluster: FakeCluster) -> None:
    seed = next(seed for seed in range(1_000) if Simulation(seed).keeps)
    with pytest.raises(ValueError, match=f"seed {seed} has a fake ZooKeeper"):
        RealSimulation(seed, hosts=cluster.hosts)


def test_command(tmp_path: Path) -> None:
    """The words of the command, then what to do, and the broker."""
    path = tmp_path / "said"
    program = f"import sys; open({str(path)!r}, 'a').write(' '.join(sys.argv[1:]) + ';')"
    control = command_control(f'{sys.executable} -c "{program}" -v')
    control("kill", 2)
    control("start", 2)
    assert path.read_text() == "-v kill 2;-v start 2;"


def test_plan(cluster: FakeCluster) -> None:
    """A seed has one plan; without a control nothing is killed; one broker is away at a time."""
    with (
        RealCluster(cluster.hosts, ThreadingHandler()) as alone,
        RealCluster(cluster.hosts, ThreadingHandler(), lambda what, broker: None) as controlled,
    ):
        assert {one.name for one in draw(Random(3), alone, {"a": 2}, 20_000)} == {"real_move_leader"}
        plan = draw(Random(3), controlled, {"a": 2}, 60_000)
        assert plan == draw(Random(3), controlled, {"a": 2}, 60_000)
        away = [one for one in plan if one.name != "real_move_leader"]
        assert len(away) > 3
        assert all(one.at_ms + one.lasts_ms < other.at_ms for one, other in pairwise(away))
