"""`Simulation`: one seed: a fake cluster, programs, faults, a history, and what the checker says of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from time import process_time
from typing import Any

from pykafka.exceptions import RecordNotHandledError
from pykafka.handlers.base import Handler, Worker
from pykafka.network.known_versions import forget_hints
from pykafka.testing.checker import Anomaly, Checker
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.history import Drained, Fault, History, Left, OpenTopic
from pykafka.testing.simulation import racks, remaking, zookeeping
from pykafka.testing.simulation.administering import Administering, Subjects, draw_faults
from pykafka.testing.simulation.calm import CalmError, failures
from pykafka.testing.simulation.consumers import HEARTBEAT_MS, SESSION_MS, Handling, Member, Reading
from pykafka.testing.simulation.dead_letters import RefusedError
from pykafka.testing.simulation.extras import ORDERS, PARCELS, Extras, Settling
from pykafka.testing.simulation.members import Keeping, Pooling, Visiting, unreliable
from pykafka.testing.simulation.ordinary import ORDINARY
from pykafka.testing.simulation.plan import ERRORS, Injector, PlannedFault, Targets, draw, draw_calm
from pykafka.testing.simulation.producers import Producing, Transacting
from pykafka.testing.simulation.remade import Remade
from pykafka.testing.simulation.scale import scale_of
from pykafka.testing.simulation.storms import Step, forgetting, late_ends, limits, lost_sessions, returns, subscriptions
from pykafka.testing.simulation.transforming import Transforming
from pykafka.testing.simulation.world import World
from pykafka.testing.virtual import Network, Scheduler, SchedulerError, VirtualHandler
from pykafka.testing.witness import Witness

#: How much later than its deadline a call may end (ms).
SLACK_MS = 1_000
#: After the last fault, all that was acknowledged has to be read within this time (ms).
LIVE_MS = 60_000
#: How long workers that wait for a last answer may go on after all clients are closed (ms).
REST_MS = 5_000
#: How long after the last fault heartbeats are lost or late, while members change their topics (ms).
RETURNS_MS = 3_000
#: How long programs may take to end (ms).
END_MS = 120_000
#: How old the metadata of an isolated broker may be (ms).
STALE_MS = 120_000
_LOOK_S = 0.1
#: How much of the processor's time a worker may take between two waits (s): fifty times as much as a whole seed takes.
BUSY_S = 5.0
SOURCE, TARGET, LOSSY = "source", "target", "lossy"
TRIMMED, REMADE = "trimmed", "remade"
#: The second topic of members whose subscription changes.
EXTRA = "extra"
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
        self.scale = scale = scale_of(self.seed)
        self.brokers = chance.randint(*scale.brokers)
        self.is_live = chance.random() < 0.5
        self.lasts_ms = chance.choice(scale.lasts_ms)
        self.handles = chance.random() < scale.handles
        self.loses = chance.random() < scale.loses
        self.forgets = chance.random() < 0.2
        self.forgets_often = self.forgets and Random(f"forgets {self.seed}").random() < 0.5
        self.changes_topics = chance.random() < scale.changes_topics
        self.topics = {ORDERS: chance.randint(1, 4)}
        if self.handles:
            self.topics |= dict.fromkeys((SOURCE, TARGET), chance.randint(1, 2))
        if self.loses:
            self.topics[LOSSY] = 1
        if self.changes_topics:
            self.topics[EXTRA] = chance.randint(1, 2)
        zookeeping_chance = Random(f"zookeeper {self.seed}")
        self.keeps = zookeeping_chance.random() < 0.1
        self.preemption = chance.choice((0.0, 0.0, 0.1))
        self.release = chance.choice(("4.4", "4.4", "4.4", "3.9", "2.8"))
        self.transactions = chance.randint(1, 2)
        self._choices = chance.random()
        self.extras = Extras(self.seed, scale.kinds, self.release, self.lasts_ms)
        if self.handles and self.extras.replaces:
            self.handles = False
            del self.topics[SOURCE], self.topics[TARGET]
        self.topics |= self.extras.topics
        administration = Random(f"administration {self.seed}")
        self.administers = administration.random() < scale.administers
        if self.keeps:
            self.release = zookeeping_chance.choice(zookeeping.RELEASES)
            self.handles = self.loses = self.administers = self.changes_topics = False
            self.forgets = self.forgets_often = False
            self.topics = {ORDERS: self.topics[ORDERS]}
            self.extras = Extras.none(self.seed)
        if self.administers:
            self.topics |= {TRIMMED: 1, REMADE: 1}
        #: Whether brokers and clients have racks.
        self.has_racks = not self.keeps and racks.drawn(self.seed)
        targets = self._targets()
        #: What happens after the last fault of a live run.
        self.calm_plan = self._calm_plan(targets) if self.is_live else []
        if self.plan is None:
            plan = draw(chance, targets, chance.choice((0, 2, 4, 8, 12, 20)), self.lasts_ms)
            plan += self._more_faults()
            if self.administers:
                plan += draw_faults(administration, administration.choice((0, 2, 5)), self.lasts_ms)
                plan += remaking.draw(Random(f"remakes {self.seed}"), REMADE, min(3, self.brokers), self.lasts_ms)
            if self.keeps:
                count = zookeeping_chance.choice((0, 1, 2, 4, 8))
                plan += zookeeping.draw_faults(zookeeping_chance, count, self.lasts_ms)
            self.plan = sorted(plan, key=lambda fault: fault.at_ms)

    def _calm_plan(self, targets: Targets) -> list[PlannedFault]:
        targets = replace(targets, coordinated=[*targets.coordinated, ("group", "keepers")])
        plan = draw_calm(Random(f"calm {self.seed}"), targets)
        if self.changes_topics:
            steps = returns(Random(f"returns {self.seed}"), RETURNS_MS)
            plan += [PlannedFault(at_ms, *step) for at_ms, step in steps]
        return sorted(plan, key=lambda fault: fault.at_ms)

    def _more_faults(self) -> list[PlannedFault]:
        """Return faults that go on through a run, if its programs are such that they do harm."""
        chance = Random(f"more faults {self.seed}")
        steps: list[Step] = []
        if self.changes_topics and chance.random() < 0.5:
            steps += subscriptions(chance, self.lasts_ms)
        if self.forgets_often:
            steps += forgetting(chance, ORDERS, self.topics[ORDERS], self.lasts_ms)
        if chance.random() < 0.2:
            steps += late_ends(chance, self.lasts_ms)
        if self.extras.kind == "share" and chance.random() < 0.3:
            steps += lost_sessions(chance, self.lasts_ms)
        limited = Random(f"limits {self.seed}")
        if self.extras.kind == "sizes" and limited.random() < self.scale.limits:
            steps += limits(limited, PARCELS, self.lasts_ms)
        plan = [PlannedFault(at_ms, *step) for at_ms, step in steps]
        if self.has_racks:
            topics = {topic: count for topic, count in self.topics.items() if topic not in LOSING}
            plan += racks.draw(self.seed, topics, self.lasts_ms)
        return plan

    def _targets(self) -> Targets:
        coordinated = [("group", "readers"), ("group", "handlers"), ("transaction", "t1"), ("transaction", "x1")]
        return Targets(
            range(1, self.brokers + 1),
            {topic: count for topic, count in self.topics.items() if topic != REMADE},
            [LOSSY] * self.loses,
            [*coordinated, *self.extras.coordinated],
            [ORDERS] * self.forgets,
            self.extras.shared,
            [*ERRORS, *self.extras.errors],
        )

    def run(self) -> Result:
        """Run it in virtual time."""
        begun_s = process_time()
        forget_hints()  # the history must not depend on the seeds before
        scheduler = Scheduler(self.seed, busy_limit=BUSY_S, preemption=self.preemption)
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
            if not self.keeps:  # brokers take commits of members that own partitions in ZooKeeper from all
                cluster.on_answer(world.owners.look)
            if self.administers:
                world.remade = Remade(cluster, REMADE)
            if self.has_racks:
                racks.set_up(world, cluster, self.brokers)
            world.is_live = self.is_live
            world.stale_ms = STALE_MS if any(fault.name == "isolate" for fault in self.plan or ()) else 0
            if self.keeps:
                if network is None:
                    raise ValueError(f"seed {self.seed} needs ZooKeeper, which there is in virtual time alone")
                zookeeper = zookeeping.keep(world, network)
            Phases(self, world).run()
            if self.keeps:
                zookeeper.close()
        return world.errors + failures(history, world.calm_ms, world.grace_ms)

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
        bursts = chance.choice((0.0, 0.8))
        if self.forgets:
            options, bursts = {}, 0.8
        count = chance.randint(5, 30)
        writers: list[Any] = [
            Producing(world, "p1", named(ORDERS), count, lasts_ms, bursts, not self.forgets, **options)
        ]
        if chance.random() < self.scale.transacts:
            writers.append(Transacting(world, named("t1"), named(ORDERS), chance.randint(5, 30), lasts_ms))
        committed, seeks = chance.random() < 0.5, chance.choice((0.0, 0.05))
        readers: list[Any] = [Reading(world, "c1", named(ORDERS), committed, seeks)]
        if chance.random() < 0.3:
            readers = [Keeping(world, "c1", named(ORDERS), named("keepers"), committed, seeks)]
        if chance.random() < self.scale.joins or self.changes_topics:
            readers += self._members(world, chance)
        if self.handles:
            writers.append(Producing(world, "p2", named(SOURCE), chance.randint(5, 20), lasts_ms))
            for number in range(chance.randint(1, 2)):
                handling = Transforming if chance.random() < 0.5 else Handling
                readers.append(
                    handling(world, named(f"x{number + 1}"), named(SOURCE), named(TARGET), named("handlers"))
                )
            readers.append(Reading(world, "c2", named(TARGET), committed=True))
        if self.changes_topics:
            writers.append(Producing(world, "p6", named(EXTRA), 10, lasts_ms))
        if self.loses:
            writers.append(Producing(world, "p3", named(LOSSY), 20, lasts_ms))
            readers.append(Reading(world, "c3", named(LOSSY), committed=False))
        if self.administers:
            self._administer(world, writers, readers)
        breaks = any(fault.name in ("network", "cut_all") for fault in self.plan or ())
        more_writers, more_readers = self.extras.programs(world, breaks)
        return [*writers, *more_writers], [*readers, *more_readers]

    def _members(self, world: World, chance: Random) -> list[Any]:
        """Return the members of the group that all read one topic, and perhaps another one."""
        topic, group = self.named(ORDERS), self.named("readers")
        restarts, committed = chance.choice((0.0, 0.05)), chance.random() < 0.5
        member: dict[str, Any] = chance.choice(
            (
                *[{"protocol": "consumer" if self.release == "4.4" else "auto"}] * 2,
                {"protocol": "classic", "assignor": "range"},
                {"protocol": "classic", "assignor": "cooperative-sticky"},
                {"protocol": "classic", "assignor": unreliable(world)},
            )
        )
        if self.changes_topics and self.release == "4.4":
            member = {"protocol": "consumer"}
        kind: Any = Member
        habits: dict[str, Any] = {"deaths": chance.choice((0, 0, 2)), "auto_commit": chance.random() < 0.4}
        habits["asynchronous"] = chance.random() < 0.4
        if self.changes_topics:
            habits["other_topic"] = self.named(EXTRA)
        elif chance.random() < 0.15:
            kind, habits = Pooling, {}
        static = self._static()
        if any(static):
            restarts = 0.1
        members = [
            kind(world, f"m{number}", topic, group, committed, restarts, static=static[number], **habits, **member)
            for number in range(chance.randint(1, 3))
        ]
        if chance.random() < 0.2 or kind is Pooling:  # a pool needs partitions that go and come back
            # The history has commits of all members, or of none.
            by_itself = habits.get("auto_commit", kind is Pooling)
            visitor = Visiting(world, "g1", topic, group, committed, auto_commit=by_itself, **member)
            visitor.stays_away = kind is Pooling
            members.append(visitor)
        return members

    def _static(self) -> list[bool]:
        """Return which members of the ordinary group are static."""
        chance = Random(f"static {self.seed}")
        stays = chance.random() < self.scale.stays
        return [stays and chance.random() < 0.7 for _ in range(3)]

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
            Administering(world, named("a1"), chance.randint(5, 30), lasts_ms, min(3, self.brokers), subjects),
            Producing(world, "p4", named(TRIMMED), chance.randint(5, 20), lasts_ms),
            Producing(world, "p5", named(REMADE), chance.randint(5, 20), lasts_ms, chance.choice((0.0, 0.8))),
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


class Phases:
    """The phases of a simulation: programs under faults; if it is a live one, all is well and they read to the end; the end."""

    def __init__(self, simulation: Simulation, world: World) -> None:
        self._simulation = simulation
        self._world = world
        self._handler = world.handler
        self._injector = Injector(world, simulation.plan or ())
        # The values that are in the log of the topic that has lost others.
        self._kept: set[int] = set()
        # What happens after the last fault.
        self._changes: list[tuple[Injector, Worker]] = []
        self._writers, self._readers = simulation.programs(world)

    def run(self) -> None:
        """Run all phases."""
        faults = self._handler.spawn(self._world.guarded("faults", self._injector.run), name="faults")
        writers = [self._start(program) for program in self._writers]
        readers = [self._start(program) for program in self._readers]
        if self._simulation.is_live:
            self._handler.sleep(self._simulation.lasts_ms / 1000)
            self._end(self._injector, faults)
            self._begin_calm()
            self._join(writers)
            self._drain()
        else:
            self._join(writers)
        self._world.stopping.set()
        self._join(readers)
        self._look_for_members()
        remade = self._world.remade
        if remade is not None and (error := remade.check(self._world.acknowledged[REMADE])) is not None:
            self._world.errors.append(("p5", error))
        self._end(self._injector, faults)
        for injector, changes in self._changes:
            self._end(injector, changes)

    def _begin_calm(self) -> None:
        """Say that calls have to succeed, which is judged in virtual time alone: only there it is known how long they take."""
        if self._world.network is not None:
            text = "from here on calls have to succeed"
            self._world.calm_ms = self._world.history.note("simulation", Fault(text, ends=True)).time_ms
            injector = Injector(self._world, self._simulation.calm_plan)
            self._changes.append(
                (injector, self._handler.spawn(self._world.guarded("changes", injector.run), name="changes"))
            )
        self._world.calm.set()

    def _look_for_members(self) -> None:
        """Look for members that have not left, though they were closed when all was well."""
        if self._world.calm_ms >= 0 and self._has_members():
            self._handler.sleep(2 * SESSION_MS / 1000)  # one that was killed stays for its session's time
            if self._has_members():
                self._world.history.note("simulation", Left(("members of group readers",)))

    def _has_members(self) -> bool:
        with self._world.cluster._locked() as state:
            group = state.groups.get(self._simulation.named("readers"))
            return group is not None and not group.is_empty

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
        if self._world.network is not None and self._simulation.loses:
            records = self._world.cluster.records(self._simulation.named(LOSSY))
            self._kept = {int(record.value) for record in records}
        until = self._handler.now() + self._simulation.live_ms / 1000
        while not all(map(self._is_drained, self._readers)) and self._handler.now() < until:
            self._handler.sleep(_LOOK_S)
        for reader in self._readers:
            if reader.name in ("c3", "c5") and not self._is_drained(reader):
                missing = self._kept_of(reader) - self._world.seen[reader.reader]
                self._world.errors.append((reader.name, CalmError(f"never read {sorted(missing)}, which the log has")))
            if isinstance(reader, (Handling, Transforming)):
                continue  # who reads their results has to see all
            if isinstance(reader, Settling):
                reader.note_drained()
                continue
            named = self._simulation.named
            results_of = (named(SOURCE),) if reader.topic == named(TARGET) else ()
            group = reader.group if isinstance(reader, (Member, zookeeping.BalancedMember)) else ""
            self._world.history.note(reader.name, Drained(reader.topics, group, results_of=results_of))

    def _kept_of(self, reader: Any) -> set[int]:
        """Return the values that the log of a topic has that loses others."""
        remade = self._world.remade
        if remade is None or reader.name != "c5":
            return self._kept
        return remade.readable(reader.numbers)  # the topic may have more of them by now

    def _is_drained(self, reader: Any) -> bool:
        world = self._world
        if isinstance(reader, Settling):
            return reader.is_drained()
        if isinstance(reader, (Handling, Transforming)):
            return world.expected(reader.source) <= world.handled
        seen = world.seen[reader.reader]
        if reader.topic in map(self._simulation.named, LOSING):
            return reader.name not in ("c3", "c5") or self._kept_of(reader) <= seen
        return all(world.expected(topic) <= seen for topic in reader.topics)
