"""`Simulation`: one seed: a fake cluster, programs, faults, a history, and what the checker says of it.

python -m pykafka.testing.simulate --seeds 100
python -m pykafka.testing.simulate --seeds 400..500 --log simulated.log
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import process_time
from typing import Any

from pykafka.handlers.base import Handler, Worker
from pykafka.testing.checker import Anomaly, Checker
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.history import Drained, Fault, History, Left, OpenTopic, Operation
from pykafka.testing.simulation.calm import CalmError, failures
from pykafka.testing.simulation.consumers import HEARTBEAT_MS, SESSION_MS, Handling, Member, Reading
from pykafka.testing.simulation.members import Keeping, Pooling, Visiting, unreliable
from pykafka.testing.simulation.plan import Injector, PlannedFault, Targets, draw, draw_calm
from pykafka.testing.simulation.producers import Producing, Transacting
from pykafka.testing.simulation.transforming import Transforming
from pykafka.testing.simulation.world import World
from pykafka.testing.sometimes import Sometimes
from pykafka.testing.virtual import Network, Scheduler, SchedulerError, VirtualHandler

#: How much later than its deadline a call may end (ms).
SLACK_MS = 1_000
#: After the last fault, all that was acknowledged has to be read within this time (ms).
LIVE_MS = 60_000
#: How long workers that wait for a last answer may go on after all clients are closed (ms).
REST_MS = 5_000
#: How long programs may take to end (ms).
END_MS = 120_000
#: From so many seeds on, each of `sometimes.THINGS` has to have happened.
ENOUGH_SEEDS = 200
#: The most lines of a timeline.
_LINES = 80
_LOOK_S = 0.1
ORDERS, SOURCE, TARGET, LOSSY = "orders", "source", "target", "lossy"
#: The second topic of members whose subscription changes.
EXTRA = "extra"


@dataclass
class Result:
    """The outcome of one run of a simulation.

    :param errors: what has ended a program, or the run
    :param cpu_s: how much of the processor's time it took (s)
    """

    simulation: Simulation
    history: History
    anomalies: list[Anomaly]
    errors: list[tuple[str, BaseException]]
    cpu_s: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.anomalies or self.errors)

    @property
    def signs(self) -> set[str]:
        """The kinds of what is wrong."""
        return {one.kind.value for one in self.anomalies} | {type(error).__name__ for _, error in self.errors}


@dataclass
class Simulation:
    """The cluster, programs and faults that a seed chooses.

    :param plan: faults, instead of those that the seed chooses; None: those
    """

    seed: int
    plan: Sequence[PlannedFault] | None = None
    topics: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = Random(f"simulation {self.seed}")
        self.brokers = chance.randint(3, 5)
        self.is_live = chance.random() < 0.6
        self.lasts_ms = chance.choice((2_000, 5_000, 10_000))
        self.handles = chance.random() < 0.3
        self.loses = chance.random() < 0.2
        self.forgets = chance.random() < 0.2
        self.changes_topics = chance.random() < 0.15
        self.topics = {ORDERS: chance.randint(1, 4)}
        if self.handles:
            self.topics |= dict.fromkeys((SOURCE, TARGET), chance.randint(1, 2))
        if self.loses:
            self.topics[LOSSY] = 1
        if self.changes_topics:
            self.topics[EXTRA] = chance.randint(1, 2)
        self.preemption = chance.choice((0.0, 0.0, 0.1))
        self.release = chance.choice(("4.4", "4.4", "4.4", "3.9", "2.8"))
        self.transactions = chance.randint(1, 2)
        self._choices = chance.random()
        coordinated = [("group", "readers"), ("group", "handlers"), ("transaction", "t1"), ("transaction", "x1")]
        targets = Targets(
            range(1, self.brokers + 1), self.topics, [LOSSY] * self.loses, coordinated, [ORDERS] * self.forgets
        )
        drawn = draw(chance, targets, chance.choice((0, 2, 4, 8, 12, 20)), self.lasts_ms)
        self.plan = drawn if self.plan is None else self.plan
        self.calm_plan = draw_calm(chance, targets) if self.is_live else []

    def run(self) -> Result:
        """Run it in virtual time."""
        begun_s = process_time()
        scheduler = Scheduler(self.seed, preemption=self.preemption)
        network = Network(scheduler)
        history = History(scheduler.now_ms)
        errors: list[tuple[str, BaseException]] = []
        try:
            errors += scheduler.run(self._run_virtually, VirtualHandler(scheduler, network), history, network)
        except SchedulerError as error:
            errors.append(("scheduler", error))
        errors += scheduler.errors
        if not errors:
            connections = (f"{network.open_connections} connections",) if network.open_connections else ()
            history.note("simulation", Left(tuple(scheduler.leftovers), connections))
        return Result(self, history, Checker(SLACK_MS).check(history), errors, process_time() - begun_s)

    def run_on(
        self, handler: Handler, history: History, network: Network | None = None
    ) -> list[tuple[str, BaseException]]:
        """Run it on any handler; return the errors that have ended programs."""
        with FakeCluster(self.brokers, as_version=self.release, handler=handler) as cluster:
            if self.transactions == 1 and self.release == "4.4":
                with cluster._locked() as state:
                    state.features.set("transaction.version", 1)
            for topic, partitions in self.topics.items():
                cluster.create_topic(topic, partitions, min(3, self.brokers))
                history.note("simulation", OpenTopic(topic, may_lose=topic == LOSSY))
            cluster.set_group_settings(
                min_session_timeout_ms=SESSION_MS,
                consumer_session_timeout_ms=SESSION_MS,
                consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            )
            world = World(self.seed, handler, cluster, history, network)
            world.is_live = self.is_live
            _Run(self, world).run()
        return world.errors + failures(history, world.calm_ms)

    def _run_virtually(self, handler: Handler, history: History, network: Network) -> list[tuple[str, BaseException]]:
        errors = self.run_on(handler, history, network)
        handler.sleep(REST_MS / 1000)
        return errors

    def programs(self, world: World) -> tuple[list[Any], list[Any]]:
        """Return the programs that write, and those that read."""
        chance, lasts_ms = Random(self._choices), self.lasts_ms
        options = chance.choice(({}, {}, {"enable_idempotence": False}, {"acks": 1}))
        options = {} if self.forgets else options
        bursts = 0.8 if self.forgets else chance.choice((0.0, 0.8))
        remembered = not self.forgets
        writers: list[Any] = [
            Producing(world, "p1", ORDERS, chance.randint(5, 40), lasts_ms, bursts, remembered, **options)
        ]
        if chance.random() < 0.6:
            writers.append(Transacting(world, "t1", ORDERS, chance.randint(5, 40), lasts_ms))
        readers: list[Any] = [Reading(world, "c1", ORDERS, chance.random() < 0.5, chance.choice((0.0, 0.05)))]
        if chance.random() < 0.3:
            readers = [Keeping(world, "c1", ORDERS, "keepers", chance.random() < 0.5, chance.choice((0.0, 0.05)))]
        if chance.random() < 0.6 or self.changes_topics:
            restarts, committed = chance.choice((0.0, 0.05)), chance.random() < 0.5
            member: dict[str, Any] = chance.choice(
                (
                    *[{"protocol": "consumer" if self.release == "4.4" else "auto"}] * 2,
                    {"protocol": "classic", "assignor": "range"},
                    {"protocol": "classic", "assignor": "cooperative-sticky"},
                    {"protocol": "classic", "assignor": unreliable(world)},
                )
            )
            habits: dict[str, Any] = {"deaths": chance.choice((0, 0, 2)), "auto_commit": chance.random() < 0.4}
            habits["asynchronous"] = chance.random() < 0.4
            if self.changes_topics:
                habits["other_topic"] = EXTRA
            kind: Any = Member
            if chance.random() < 0.15 and not self.changes_topics:
                kind, habits = Pooling, {}
            for number in range(chance.randint(1, 3)):
                readers.append(kind(world, f"m{number}", ORDERS, "readers", committed, restarts, **habits, **member))
            if chance.random() < 0.2:
                by_itself = habits.get(
                    "auto_commit", kind is Pooling
                )  # as the history has commits of all members, or none
                readers.append(Visiting(world, "v1", ORDERS, "readers", committed, auto_commit=by_itself, **member))
        if self.handles:
            writers.append(Producing(world, "p2", SOURCE, chance.randint(5, 20), lasts_ms))
            for number in range(chance.randint(1, 2)):
                handling = Transforming if chance.random() < 0.5 else Handling
                readers.append(handling(world, f"x{number + 1}", SOURCE, TARGET, "handlers"))
            readers.append(Reading(world, "c2", TARGET, committed=True))
        if self.changes_topics:
            writers.append(Producing(world, "p5", EXTRA, 10, lasts_ms))
        if self.loses:
            writers.append(Producing(world, "p3", LOSSY, 20, lasts_ms))
            readers.append(Reading(world, "c3", LOSSY, committed=False))
        return writers, readers


class _Run:
    """The phases of a simulation: programs under faults; if it is a live one, all is well and they read to the end; the end."""

    def __init__(self, simulation: Simulation, world: World) -> None:
        self._simulation = simulation
        self._world = world
        self._handler = world.handler
        self._injector = Injector(world, simulation.plan or ())
        self._writers, self._readers = simulation.programs(world)

    def run(self) -> None:
        """Run all phases."""
        faults = self._handler.spawn(self._world.guarded("faults", self._injector.run), name="faults")
        writers = [self._start(program) for program in self._writers]
        readers = [self._start(program) for program in self._readers]
        if self._simulation.is_live:
            self._handler.sleep(self._simulation.lasts_ms / 1000)
            self._end(self._injector, faults)
            self._world.calm_ms = self._world.history.note(
                "simulation", Fault("from here on calls have to succeed")
            ).time_ms
            self._world.calm.set()
            injector = Injector(self._world, self._simulation.calm_plan)
            changes = self._handler.spawn(self._world.guarded("changes", injector.run), name="changes")
            self._join(writers)
            self._drain()
        else:
            self._join(writers)
        self._world.stopping.set()
        self._join(readers)
        self._look_for_members()
        self._end(self._injector, faults)
        if self._simulation.is_live:
            self._end(injector, changes)

    def _look_for_members(self) -> None:
        """Look for members that have not left, though they were closed when all was well."""
        if self._simulation.is_live:
            with self._world.cluster._locked() as state:
                group = state.groups.get("readers")
                is_empty = group is None or group.is_empty
            if not is_empty:
                self._world.history.note("simulation", Left(("members of group readers",)))

    def _start(self, program: Any) -> Worker:
        return self._handler.spawn(self._world.guarded(program.name, program.run), name=program.name)

    def _end(self, injector: Injector, faults: Worker) -> None:
        injector.stop()
        self._join([faults])

    def _join(self, workers: Iterable[Worker]) -> None:
        deadline = self._handler.now() + END_MS / 1000
        for worker in workers:
            if not worker.join(max(deadline - self._handler.now(), 0)):
                self._world.history.note("simulation", Left(workers=(worker.name,)))

    def _drain(self) -> None:
        """Wait until all that was acknowledged was read, and say that it should be by now."""
        until = self._handler.now() + LIVE_MS / 1000
        while not all(map(self._is_drained, self._readers)) and self._handler.now() < until:
            self._handler.sleep(_LOOK_S)
        for reader in self._readers:
            if reader.name == "c3" and not self._is_drained(reader):
                missing = self._kept(LOSSY)[LOSSY] - self._world.seen[reader.reader]
                self._world.errors.append((reader.name, CalmError(f"never read {sorted(missing)}, which the log has")))
        for reader in self._readers:
            if isinstance(reader, (Handling, Transforming)):
                continue  # who reads their results has to see all
            results_of = (SOURCE,) if reader.topic == TARGET else ()
            group = reader.group if isinstance(reader, Member) else ""
            self._world.history.note(reader.name, Drained(reader.topics, group, results_of=results_of))

    def _is_drained(self, reader: Any) -> bool:
        world = self._world
        if isinstance(reader, (Handling, Transforming)):
            return world.acknowledged[reader.source] <= world.handled
        values = self._kept(LOSSY) if reader.topic == LOSSY else world.acknowledged
        return all(values[topic] <= world.seen[reader.reader] for topic in reader.topics)

    def _kept(self, topic: str) -> dict[str, set[int]]:
        """Return the values that are in the log of a topic, though others were lost."""
        return {topic: {int(record.value) for record in self._world.cluster.records(topic)}}


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
    """Return what a failed run shows, as text."""
    lines = [f"seed {result.simulation.seed} has failed, with these faults:"]
    lines += [f"    {fault}" for fault in result.simulation.plan or ()]
    lines += [f"{name} has raised {type(error).__name__}: {error}" for name, error in result.errors]
    lines += [str(anomaly) for anomaly in result.anomalies[:5]]
    return "\n".join([*lines, "what happened:", *timeline(result)])


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else range(int(first))


def main(arguments: Sequence[str] | None = None, write: Callable[[str], object] = sys.stdout.write) -> int:
    """Run seeds, and report those that fail, each with the fewest faults that still make it fail."""
    parser = argparse.ArgumentParser(prog="python -m pykafka.testing.simulate", description=main.__doc__)
    parser.add_argument("--seeds", type=_seeds, default=range(100), metavar="N | A..B", help="0 to N-1, or A to B")
    parser.add_argument("--log", metavar="FILE", help="append a line for each run of this program")
    parser.add_argument(
        "--history", metavar="FILE", help="write the history of the last seed, a line for each operation"
    )
    options = parser.parse_args(arguments)
    sometimes, failed, cpu_s = Sometimes(), [], 0.0
    result: Result | None = None
    for seed in options.seeds:
        result = Simulation(seed).run()
        cpu_s += result.cpu_s
        sometimes.look(result.history)
        if result.failed:
            failed.append(seed)
            write(report(shrink(result)) + "\n")
    count = len(options.seeds)
    missing = sometimes.missing() if count >= ENOUGH_SEEDS else []
    for thing in missing:
        write(f"this has happened in no seed: {thing}\n")
    text = f"{count} seeds, {len(failed)} failed {failed}, {1000 * cpu_s / max(count, 1):.0f} ms of CPU each\n"
    write(text)
    if options.log:
        with open(options.log, "a", encoding="utf-8") as file:
            file.write(f"{options.seeds.start}..{options.seeds.stop - 1}: {text}")
    if options.history and result is not None:
        with open(options.history, "w", encoding="utf-8") as file:
            result.history.write(file)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
