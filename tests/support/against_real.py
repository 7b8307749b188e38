"""Simulations against three real brokers of a release, which are started here, and killed in the course of it.

python -m tests.support.against_real --seeds 1..5 --handler gevent
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pykafka.testing.simulate import report
from pykafka.testing.simulation.against import HANDLERS, Control
from pykafka.testing.simulation.real import RealSimulation
from pykafka.testing.simulation.simulation import Result, Simulation
from tests.brokers import LATEST, KafkaCluster

#: Members of simulations have short sessions, which brokers refuse by default.
CONFIG = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.initial.rebalance.delay.ms": "0",
}


def control_of(kafka: KafkaCluster) -> Control:
    """Return what kills, starts, pauses and resumes the brokers of a cluster."""
    calls = {"kill": kafka.kill, "start": kafka.start, "pause": kafka.pause, "resume": kafka.resume}
    return lambda what, broker: calls[what](broker)


def run_seed(seed: int, kafka: KafkaCluster, handler: str = "threads") -> Result:
    """Run one seed against a cluster, with kills."""
    return RealSimulation(seed, hosts=kafka.hosts, control=control_of(kafka), make_handler=HANDLERS[handler]).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Start brokers, and run seeds against them; print each."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.against_real", description=__doc__)
    parser.add_argument("--seeds", default="1..3", metavar="A..B")
    parser.add_argument("--release", default=LATEST)
    parser.add_argument("--handler", choices=sorted(HANDLERS), default="threads")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("..")
    failed = []
    with KafkaCluster(options.release, 3, CONFIG) as kafka:
        for seed in range(int(first), int(last or first) + 1):
            if Simulation(seed).keeps:
                continue  # its groups are those of ZooKeeper
            result = run_seed(seed, kafka, options.handler)
            lasted_s = result.history.operations[-1].time_ms / 1000
            faults = [str(fault) for fault in result.simulation.plan or ()]
            sys.stdout.write(f"seed {seed}: {len(result.history)} operations in {lasted_s:.0f} s, faults: {faults}\n")
            if result.failed:
                failed.append(seed)
                sys.stdout.write(report(result) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"failed: {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
