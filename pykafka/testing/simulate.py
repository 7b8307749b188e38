"""`Simulation`: one seed: a fake cluster, programs, faults, a history, and what the checker says of it.

python -m pykafka.testing.simulate --seeds 100
python -m pykafka.testing.simulate --next 10000 --jobs 2 --log simulated.log
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import process_time
from typing import Any, cast

from pykafka.exceptions import RecordNotHandledError
from pykafka.handlers.base import Handler, Worker
from pykafka.network.api_versions import forget_hints
from pykafka.testing.checker import Anomaly, Checker
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.history import Drained, Fault, History, Left, OpenTopic, Operation
from pykafka.testing.simulation import against, zookeeping
from pykafka.testing.simulation.administering import Administering, Subjects, draw_faults
from pykafka.testing.simulation.consumers import HEARTBEAT_MS, SESSION_MS, Handling, Member, Reading
from pykafka.testing.simulation.dead_letters import RefusedError
from pykafka.testing.simulation.extras import ORDERS, Extras, Settling
from pykafka.testing.simulation.ordinary import ORDINARY
from pykafka.testing.simulation.plan import ERRORS, Injector, PlannedFault, Targets, draw
from pykafka.testing.simulation.plans import as_test, line_of
from pykafka.testing.simulation.plans import read as read_plan
from pykafka.testing.simulation.producers import Producing, Transacting
from pykafka.testing.simulation.search import Search
from pykafka.testing.simulation.tally import SeedLog, Tally, parsed_seeds
from pykafka.testing.simulation.transforming import Transforming
from pykafka.testing.simulation.world import World
from pykafka.testing.sometimes import Sometimes
from pykafka.testing.virtual import Network, Scheduler, SchedulerError, VirtualHandler
from pykafka.testing.witness import Witness

#: How much later than its deadline a call may end (ms).
SLACK_MS = 1_000
#: After the last fault, all that was acknowledged has to be read within this time (ms).
LIVE_MS = 60_000
#: How long workers that wait for a last answer may go on after all clients are closed (ms).
REST_MS = 5_000
#: How long programs may take to end (ms).
END_MS = 120_000
#: How old the metadata of an isolated broker may be (ms).
STALE_MS = 120_000
#: From so many seeds on, each of `sometimes.THINGS` has to have happened.
ENOUGH_SEEDS = 200
#: So many failures are printed with the fewest faults that it takes.
SHRUNK_MAX = 3
#: The most lines of a timeline.
_LINES = 80
_LOOK_S = 0.1
SOURCE, TARGET, LOSSY = "source", "target", "lossy"
TRIMMED, REMADE = "trimmed", "remade"
#: Topics that lose what was acknowledged.
LOSING = (LOSSY, REMADE)


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
        #: What the names of this run end with, if others have left theirs.
        self.suffix = ""
        self.live_ms = LIVE_MS
        chance = Random(f"simulation {self.seed}")
        self.brokers = chance.randint(3, 5)
        self.is_live = chance.random() < 0.5
        self.lasts_ms = chance.choice((2_000, 5_000, 10_000))
        self.handles = chance.random() < 0.3
        self.loses = chance.random() < 0.2
        self.topics = {ORDERS: chance.randint(1, 4)}
        if self.handles:
            self.topics |= dict.fromkeys((SOURCE, TARGET), chance.randint(1, 2))
        if self.loses:
            self.topics[LOSSY] = 1
        zookeeping_chance = Random(f"zookeeper {self.seed}")
        self.keeps = zookeeping_chance.random() < 0.1
        self.preemption = chance.choice((0.0, 0.0, 0.1))
        self.release = chance.choice(("4.4", "4.4", "4.4", "3.9", "2.8"))
        self.transactions = chance.randint(1, 2)
        self._choices = chance.random()
        self.extras = Extras(self.seed, self.release, self.lasts_ms)
        if self.handles and self.extras.replaces:
            self.handles = False
            del self.topics[SOURCE], self.topics[TARGET]
        self.topics |= self.extras.topics
        administration = Random(f"administration {self.seed}")
        self.administers = administration.random() < 0.2
        if self.keeps:
            self.release = zookeeping_chance.choice(zookeeping.RELEASES)
            self.handles = self.loses = self.administers = False
            self.topics = {ORDERS: self.topics[ORDERS]}
            self.extras = Extras.none(self.seed)
        if self.administers:
            self.topics |= {TRIMMED: 1, REMADE: 1}
        if self.plan is None:
            coordinated = [("group", "readers"), ("group", "handlers"), ("transaction", "t1"), ("transaction", "x1")]
            targets = Targets(
                range(1, self.brokers + 1),
                {topic: count for topic, count in self.topics.items() if topic != REMADE},
                [LOSSY] if self.loses else [],
                [*coordinated, *self.extras.coordinated],
                self.extras.shared,
                [*ERRORS, *self.extras.errors],
            )
            plan = draw(chance, targets, chance.choice((0, 2, 4, 8, 12, 20)), self.lasts_ms)
            if self.administers:
                plan += draw_faults(administration, administration.choice((0, 2, 5)), self.lasts_ms)
            if self.keeps:
                count = zookeeping_chance.choice((0, 1, 2, 4, 8))
                plan += zookeeping.draw_faults(zookeeping_chance, count, self.lasts_ms)
            self.plan = sorted(plan, key=lambda fault: fault.at_ms)

    def run(self) -> Result:
        """Run it in virtual time."""
        begun_s = process_time()
        forget_hints()  # the history must not depend on the seeds before
        scheduler = Scheduler(self.seed, preemption=self.preemption)
        network = Network(scheduler)
        history = History(scheduler.now_ms)
        errors: list[tuple[str, BaseException]] = []
        try:
            errors += scheduler.run(self._run_virtually, VirtualHandler(scheduler, network), history, network)
        except SchedulerError as error:
            errors.append(("scheduler", error))
        # A program may refuse a record that its run has lost meanwhile, and the dead letters of several records may fail at
        # once, of which one is raised: the client reports both.
        errors += [one for one in scheduler.errors if not isinstance(one[1], RefusedError | RecordNotHandledError)]
        if not errors:
            connections = (f"{network.open_connections} connections",) if network.open_connections else ()
            history.note("simulation", Left(tuple(scheduler.leftovers), connections))
        return Result(self, history, Checker(SLACK_MS, ORDINARY).check(history), errors, process_time() - begun_s)

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
                history.note("simulation", OpenTopic(topic, may_lose=topic in LOSING))
            cluster.set_group_settings(
                min_session_timeout_ms=SESSION_MS,
                consumer_session_timeout_ms=SESSION_MS,
                consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            )
            cluster.on_answer(Witness(history).on_answer)
            world = World(self.seed, handler, cluster, history, network)
            world.is_live = self.is_live
            world.stale_ms = STALE_MS if any(fault.name == "isolate" for fault in self.plan or ()) else 0
            if self.keeps:
                if network is None:
                    raise ValueError(f"seed {self.seed} needs ZooKeeper, which there is in virtual time alone")
                zookeeper = zookeeping.keep(world, network)
            Phases(self, world).run()
            if self.keeps:
                zookeeper.close()
        return world.errors

    def _run_virtually(self, handler: Handler, history: History, network: Network) -> list[tuple[str, BaseException]]:
        errors = self.run_on(handler, history, network)
        handler.sleep(REST_MS / 1000)
        return errors

    def named(self, name: str) -> str:
        """Return the name of a topic, group or transactional id, as this run has it."""
        return name + self.suffix

    def programs(self, world: World) -> tuple[list[Any], list[Any]]:
        """Return the programs that write, and those that read."""
        chance, lasts_ms, named = Random(self._choices), self.lasts_ms, self.named
        if self.keeps:
            return zookeeping.programs(world, chance, named(ORDERS), lasts_ms)
        options = chance.choice(({}, {}, {"enable_idempotence": False}, {"acks": 1}))
        writers: list[Any] = [
            Producing(world, "p1", named(ORDERS), chance.randint(5, 40), lasts_ms, chance.choice((0.0, 0.8)), **options)
        ]
        if chance.random() < 0.6:
            writers.append(Transacting(world, named("t1"), named(ORDERS), chance.randint(5, 40), lasts_ms))
        readers: list[Any] = [Reading(world, "c1", named(ORDERS), chance.random() < 0.5, chance.choice((0.0, 0.05)))]
        if chance.random() < 0.6:
            restarts, committed = chance.choice((0.0, 0.05)), chance.random() < 0.5
            member: dict[str, Any] = chance.choice(
                (
                    {"protocol": "consumer" if self.release == "4.4" else "auto"},
                    {"protocol": "classic", "assignor": "range"},
                    {"protocol": "classic", "assignor": "cooperative-sticky"},
                )
            )
            habits: dict[str, Any] = {"deaths": chance.choice((0, 0, 2)), "auto_commit": chance.random() < 0.4}
            for number in range(chance.randint(1, 3)):
                readers.append(
                    Member(
                        world, f"m{number}", named(ORDERS), named("readers"), committed, restarts, **habits, **member
                    )
                )
        if self.handles:
            writers.append(Producing(world, "p2", named(SOURCE), chance.randint(5, 20), lasts_ms))
            for number in range(chance.randint(1, 2)):
                handling = Transforming if chance.random() < 0.5 else Handling
                readers.append(
                    handling(world, named(f"x{number + 1}"), named(SOURCE), named(TARGET), named("handlers"))
                )
            readers.append(Reading(world, "c2", named(TARGET), committed=True))
        if self.loses:
            writers.append(Producing(world, "p3", named(LOSSY), 20, lasts_ms))
            readers.append(Reading(world, "c3", named(LOSSY), committed=False))
        if self.administers:
            self._administer(world, writers, readers)
        more_writers, more_readers = self.extras.programs(world)
        return [*writers, *more_writers], [*readers, *more_readers]

    def _administer(self, world: World, writers: list[Any], readers: list[Any]) -> None:
        """Add the program that administers, and those that use its topics."""
        chance, lasts_ms, named = Random(f"administers {self.seed}"), self.lasts_ms, self.named
        subjects = Subjects(
            named(ORDERS),
            named(TRIMMED),
            named(REMADE),
            (named("readers"), named("handlers")),
            (named("t1"), named("x1")),
        )
        writers += [
            Administering(world, named("a1"), chance.randint(5, 40), lasts_ms, min(3, self.brokers), subjects),
            Producing(world, "p4", named(TRIMMED), chance.randint(5, 30), lasts_ms),
            Producing(world, "p5", named(REMADE), chance.randint(5, 30), lasts_ms),
        ]
        seeks = chance.choice((0.0, 0.05))
        readers += [
            chance.choice(
                (
                    Reading(world, "c4", named(TRIMMED), False, seeks),
                    Member(world, "m4", named(TRIMMED), named("trimmers"), False),
                )
            ),
            chance.choice(
                (
                    Reading(world, "c5", named(REMADE), False),
                    Member(world, "m5", named(REMADE), named("remakers"), False),
                )
            ),
        ]


@dataclass
class RealSimulation(Simulation):
    """The programs of a seed on real brokers, in real time. Its faults are those that can be had there.

    :param hosts: "host:port,host:port"
    :param control: stops and starts brokers; None: nothing can do that
    :param make_handler: of all programs
    """

    hosts: str = ""
    control: against.Control | None = None
    make_handler: Callable[[], Handler] = against.HANDLERS["threads"]

    def __post_init__(self) -> None:
        given = self.plan
        super().__post_init__()
        if self.keeps:
            raise ValueError(f"seed {self.seed} has a fake ZooKeeper, and no real one: take another seed")
        self.plan, self.release, self.live_ms = given, "4.4", against.LIVE_MS
        self.topics = {topic: count for topic, count in self.topics.items() if topic not in self.extras.topics}
        self.extras = Extras.none(self.seed)  # they read the state of a fake cluster

    def run(self) -> Result:
        """Run it; its topics, groups and transactional ids have names of their own."""
        begun_s, handler = process_time(), self.make_handler()
        self.suffix = f"-{handler.time_ms():x}-{self.seed}"
        start = handler.now()
        history = History(lambda: round(1000 * (handler.now() - start)), handler.Lock())
        errors = self.run_on(handler, history)
        return Result(self, history, Checker(against.SLACK_MS).check(history), errors, process_time() - begun_s)

    def run_on(
        self, handler: Handler, history: History, network: Network | None = None
    ) -> list[tuple[str, BaseException]]:
        """Run it on any handler with real time; return the errors that have ended programs."""
        topics = {self.named(topic): partitions for topic, partitions in self.topics.items()}
        with against.RealCluster(self.hosts, handler, self.control) as cluster:
            self.brokers = len(cluster.broker_ids)
            if self.plan is None:
                there = {topic: count for topic, count in topics.items() if topic != self.named(REMADE)}
                self.plan = against.draw(Random(f"real {self.seed}"), cluster, there, self.lasts_ms)
            cluster.create_topics(topics)
            for topic in self.topics:
                history.note("simulation", OpenTopic(self.named(topic), may_lose=topic in LOSING))
            world = World(self.seed, handler, cast(FakeCluster, cluster), history, network)
            world.is_live, world.stale_ms, world.settles_ms = self.is_live, against.STALE_MS, against.SETTLES_MS
            try:
                Phases(self, world).run()
            finally:
                cluster.heal()
                cluster.delete_topics(self.suffix)
        return world.errors


class Phases:
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
            self._end(faults)
            self._join(writers)
            self._drain()
        else:
            self._join(writers)
        self._world.stopping.set()
        self._join(readers)
        self._end(faults)

    def _start(self, program: Any) -> Worker:
        return self._handler.spawn(self._world.guarded(program.name, program.run), name=program.name)

    def _end(self, faults: Worker) -> None:
        self._injector.stop()
        self._join([faults])

    def _join(self, workers: Iterable[Worker]) -> None:
        deadline = self._handler.now() + END_MS / 1000
        for worker in workers:
            if not worker.join(max(deadline - self._handler.now(), 0)):
                self._world.history.note("simulation", Left(workers=(worker.name,)))

    def _drain(self) -> None:
        """Wait until all that was acknowledged was read, and say that it should be by now."""
        until = self._handler.now() + self._simulation.live_ms / 1000
        while not all(map(self._is_drained, self._readers)) and self._handler.now() < until:
            self._handler.sleep(_LOOK_S)
        for reader in self._readers:
            if isinstance(reader, (Handling, Transforming)):
                continue  # who reads their results has to see all
            if isinstance(reader, Settling):
                reader.note_drained()
                continue
            named = self._simulation.named
            results_of = (named(SOURCE),) if reader.topic == named(TARGET) else ()
            group = reader.group if isinstance(reader, (Member, zookeeping.BalancedMember)) else ""
            self._world.history.note(reader.name, Drained((reader.topic,), group, results_of=results_of))

    def _is_drained(self, reader: Any) -> bool:
        world = self._world
        if isinstance(reader, Settling):
            return reader.is_drained()
        if isinstance(reader, (Handling, Transforming)):
            return world.expected(reader.source) <= world.handled
        return (
            reader.topic in map(self._simulation.named, LOSING)
            or world.expected(reader.topic) <= world.seen[reader.reader]
        )


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
    """Return what a failed run shows, as text: its faults, its timeline, and how to run it again."""
    seed, plan = result.simulation.seed, list(result.simulation.plan or ())
    lines = [f"seed {seed} has failed, with these faults:"]
    lines += [f"    {fault}" for fault in plan]
    found = [f"{name} has raised {type(error).__name__}: {error}" for name, error in result.errors]
    found += [str(anomaly) for anomaly in result.anomalies[:5]]
    lines += [*found, "what happened:", *timeline(result)]
    lines += ["with this line in a file, --plan FILE runs it again:", line_of(seed, plan)]
    first = found[0].splitlines()[0] if found else "It passes."
    return "\n".join([*lines, "as a test:", as_test(seed, plan, first)])


class _Runs:
    """Runs seeds in this process, and prints those that fail, the first ones with the fewest faults that it takes."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._shrunk = 0
        self.last: Result | None = None

    def run(self, seeds: range) -> Tally:
        """Run seeds; return what they have shown."""
        sometimes, tally = Sometimes(), Tally(seeds)
        for seed in seeds:
            result = self.last = Simulation(seed).run()
            tally.cpu_s += result.cpu_s
            sometimes.look(result.history)
            if result.failed:
                tally.failed.append(seed)
                self._report(result)
        tally.counts = sometimes.counts
        return tally

    def _report(self, result: Result) -> None:
        self._shrunk += 1
        if self._shrunk <= SHRUNK_MAX:
            self._write(report(shrink(result)) + "\n")
        else:  # to make plans shorter takes a hundred times as long as a seed
            seed, signs = result.simulation.seed, ", ".join(sorted(result.signs))
            self._write(f"seed {seed} has failed, too ({signs}): --seeds {seed}..{seed} shows how\n")

    def again(self, path: str) -> int:
        """Run the seeds of a file with their plans; return the status."""
        failed = []
        with open(path, encoding="utf-8") as file:
            rows = [read_plan(line) for line in file if line.strip()]
        for seed, plan in rows:
            result = self.last = Simulation(seed, plan).run()
            if result.failed:
                failed.append(seed)
                self._write(report(result) + "\n")
        self._write(f"{len(rows)} seeds with plans, {len(failed)} failed {failed}\n")
        return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pykafka.testing.simulate", description=main.__doc__)
    add = parser.add_argument
    add("--seeds", type=parsed_seeds, default=range(100), metavar="N | A..B", help="0 to N-1, or A to B")
    add("--next", type=int, metavar="N", help="instead: so many seeds behind those that are in the log")
    add("--jobs", type=int, default=1, metavar="N", help="how many processes run them; 1 by default")
    add("--log", type=SeedLog, metavar="FILE", help="append a line for each piece of the seeds")
    add("--piece", type=int, default=1000, metavar="N", help="how many seeds are a piece; 1000 by default")
    add("--minutes", type=float, metavar="M", help="begin no piece after this time")
    add("--sum", type=SeedLog, metavar="FILE", help="run nothing: print the sums of a log, by commit")
    add("--plan", metavar="FILE", help="instead: run the seeds of a file with their plans, as failures are printed")
    add("--history", metavar="FILE", help="write the history of the last seed of one job, a line for each operation")
    add("--against", metavar="HOST:PORT,...", help="real brokers, in real time, instead of fake ones")
    add("--broker-command", metavar="COMMAND", help="with --against: COMMAND kill|start|pause|resume ID does that")
    add("--handler", choices=("threads", "gevent"), default="threads", help="with --against")
    add("--tally", metavar="FILE", help="for --jobs: write the line of the log to this file, and return no failure")
    return parser


def _run_against(options: argparse.Namespace, write: Callable[[str], object]) -> int:
    """Run seeds on real brokers, and report each; those with ZooKeeper are left out."""
    control = against.command_control(options.broker_command) if options.broker_command else None
    make_handler, failed, count = against.HANDLERS[options.handler], [], 0
    for seed in (seed for seed in options.seeds if not Simulation(seed).keeps):
        result = RealSimulation(seed, hosts=options.against, control=control, make_handler=make_handler).run()
        count += 1
        lasted_s = result.history.operations[-1].time_ms / 1000
        faults = len(result.simulation.plan or ())
        write(f"seed {seed}: {len(result.history)} operations and {faults} faults in {lasted_s:.0f} s\n")
        if result.failed:
            failed.append(seed)
            write(report(result) + "\n")
    write(f"{count} seeds, {len(failed)} failed {failed}\n")
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None, write: Callable[[str], object] = sys.stdout.write) -> int:
    """Run seeds, and report those that fail, each with the fewest faults that still make it fail."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.sum is not None:
        write(options.sum.summed())
        return 0
    if options.against:
        return _run_against(options, write)
    if options.next is not None:
        if options.log is None:
            parser.error("--next needs --log FILE, which says what was run")
        first = options.log.next_seed()
        options.seeds = range(first, first + options.next)
    runs = _Runs(write)
    if options.plan is not None:
        status = runs.again(options.plan)
    elif options.tally is not None:
        with open(options.tally, "w", encoding="utf-8") as file:
            file.write(runs.run(options.seeds).line("") + "\n")
        status = 0
    else:
        search = Search(
            runs.run, write, jobs=options.jobs, piece=options.piece, log=options.log, minutes=options.minutes
        )
        status = _summed_up(search.run(options.seeds), write)
    if options.history and runs.last is not None:
        with open(options.history, "w", encoding="utf-8") as file:
            runs.last.history.write(file)
    return status


def _summed_up(total: Tally, write: Callable[[str], object]) -> int:
    """Print what seeds have shown; return the status."""
    missing = total.missing() if len(total.seeds) >= ENOUGH_SEEDS else []
    for thing in missing:
        write(f"this has happened in no seed: {thing}\n")
    write(f"{total}\n")
    return 1 if total.failed or missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
