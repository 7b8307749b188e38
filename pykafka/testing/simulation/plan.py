"""`Plan`: the faults of a simulation, drawn from its seed: when each begins, and how long it lasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.history import Fault, Seen
from pykafka.testing.simulation import share_faults
from pykafka.testing.simulation.leaderships import Leaderships
from pykafka.testing.simulation.storms import early_batches, forget, forget_often, late, length, move_leader, storm
from pykafka.testing.simulation.world import World
from pykafka.testing.virtual import NetworkFaults
from pykafka.testing.witness import THROTTLED

Undo = Callable[[], object]

#: Errors, and APIs that may answer with them. All but INVALID_RECORD are retriable.
ERRORS: tuple[tuple[str, str], ...] = (
    ("Produce", "NOT_LEADER_OR_FOLLOWER"),
    ("Produce", "NOT_ENOUGH_REPLICAS"),
    ("Produce", "REQUEST_TIMED_OUT"),
    ("Produce", "INVALID_RECORD"),
    ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
    ("Fetch", "FENCED_LEADER_EPOCH"),
    ("Fetch", "UNKNOWN_LEADER_EPOCH"),
    ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
    ("Metadata", "LEADER_NOT_AVAILABLE"),
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
    ("AddPartitionsToTxn", "NOT_COORDINATOR"),
    ("EndTxn", "COORDINATOR_NOT_AVAILABLE"),
    ("EndTxn", "CONCURRENT_TRANSACTIONS"),
    ("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetCommit", "NOT_COORDINATOR"),
    ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetFetch", "NOT_COORDINATOR"),
    ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("SyncGroup", "NOT_COORDINATOR"),
    ("Heartbeat", "COORDINATOR_NOT_AVAILABLE"),
    ("ConsumerGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
)
PRODUCE_ERRORS = tuple(error for error in ERRORS if error[0] == "Produce")
PLACES = ("before", "middle", "after")
#: How likely several faults meet, instead of one that comes alone (0 to 1).
STORMS = 0.5
#: When calls that programs make after the last fault are on their way (ms).
CALM_MS = 5_000
#: How long a fault lasts that only the end of the run puts right (ms).
FOR_GOOD_MS = 600_000


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault.

    :param at_ms: when it begins (ms)
    :param lasts_ms: when it is put right, after that (ms)
    :param name: a function of `FAULTS`
    :param arguments: of that
    """

    at_ms: int
    lasts_ms: int
    name: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))}) at {self.at_ms} ms for {self.lasts_ms} ms"

    @property
    def words(self) -> tuple[str, ...]:
        """Its name and its arguments, by which `simulation.ordinary` names the errors that it may cause."""
        return self.name, *map(str, self.arguments)


def _stop(world: World, broker: int, noticed: bool) -> Undo:
    world.cluster.stop(broker, noticed=noticed)
    return lambda: world.cluster.start(broker)


def _pause(world: World, broker: int) -> Undo:
    world.cluster.pause(broker)
    return lambda: world.cluster.resume(broker)


def _hang_up(world: World, broker: int) -> None:
    world.cluster.hang_up(broker)


def _isolate(world: World, broker: int) -> Undo:
    world.cluster.isolate(broker)
    return lambda: world.cluster.rejoin(broker)


def _set_leader(world: World, topic: str, partition: int, broker: int) -> None:
    """Move a leadership, if that loses nothing."""
    with world.cluster._locked() as state:
        found = state.topics[topic].partitions[partition]
        is_clean = broker in found.isr and state.nodes[broker].is_up and found.copied_by(broker) == found.log.end
    if is_clean:
        world.cluster.set_leader(topic, partition, broker)


def _unclean(world: World, topic: str, partition: int) -> Undo:
    """Hold a follower back, and make it the leader later, unless it is down by then: what it lacks is lost."""
    with world.cluster._locked() as state:
        found = state.topics[topic].partitions[partition]
        followers = [one for one in found.replicas if one != found.leader and state.nodes[one].is_up]
    if not followers:
        return lambda: None
    follower = followers[0]
    world.cluster.lag(topic, partition, follower)

    def end() -> None:
        with world.cluster._locked() as state:
            if state.nodes[follower].is_up:
                state.replicas.elect(state.topics[topic].partitions[partition], follower)
            else:  # a controller elects none that is down
                state.replicas.release(state.topics[topic].partitions[partition], follower)

    return end


def _throttle(world: World, api: str, milliseconds: int) -> Undo:
    fault = world.cluster.throttle(api, milliseconds)

    def end() -> None:
        fault.end()
        if fault.met:
            world.history.note("cluster", Seen(THROTTLED))

    return end


def _fail(world: World, api: str, error: str, times: int, broker: int | None = None, latency_ms: int = 0) -> Undo:
    when = share_faults.ends_no_session if error in share_faults.SESSION_ERRORS else None
    return world.cluster.fail(api, error, times, broker, when, latency_ms).end


def _cut(world: World, api: str, place: str, times: int, broker: int | None = None) -> Undo:
    return world.cluster.cut(api, place, times, broker).end


def _hold(world: World, api: str, broker: int | None = None) -> Undo:
    return world.cluster.hold(api, broker).release


def _latency(world: World, broker: int, milliseconds: int) -> Undo:
    world.cluster.latency(broker, milliseconds)
    return lambda: world.cluster.latency(broker, 0)


def _move_coordinator(world: World, kind: str, key: str, broker: int) -> None:
    world.cluster.set_coordinator(key, broker, kind)


def _hold_markers(world: World) -> Undo:
    world.cluster.hold_markers()
    return world.cluster.release_markers


def _network(world: World, faults: NetworkFaults) -> Undo:
    """Break connections that are made from now on."""
    network = world.network
    if network is None:
        return lambda: None
    network.faults = faults
    return network.heal


def _limit(world: World, topic: str, size: int) -> Undo:
    """Lower what a topic takes as a batch (bytes)."""
    with world.cluster._locked() as state:
        configs = state.topics[topic].configs
    configs["max.message.bytes"] = str(size)
    return lambda: configs.pop("max.message.bytes", None)


def _cut_all(world: World) -> None:
    if world.network is not None:
        world.network.cut_all()


#: Each fault by name: it begins, and returns how to put it right, or None.
FAULTS: dict[str, Callable[..., Undo | None]] = {
    "stop": _stop,
    "pause": _pause,
    "hang_up": _hang_up,
    "isolate": _isolate,
    "set_leader": _set_leader,
    "unclean": _unclean,
    "throttle": _throttle,
    "fail": _fail,
    "cut": _cut,
    "hold": _hold,
    "latency": _latency,
    "move_coordinator": _move_coordinator,
    "hold_markers": _hold_markers,
    "network": _network,
    "cut_all": _cut_all,
    "limit": _limit,
    "lose_group": share_faults.lose_group,
    "damage": share_faults.damage,
    "late": late,
    "move_leader": move_leader,
    "early_batches": early_batches,
    "forget": forget,
    "forget_often": forget_often,
}
#: Faults that only concern share groups.
_SHARED = ("lose_group", "damage")
#: Faults that only some topics allow, or that only storms have.
_SPECIAL = ("unclean", "forget", "forget_often", "move_leader")


#: Those of programs that only some seeds have: `draw` does not draw them.
MORE_FAULTS: dict[str, Callable[..., Undo | None]] = {}


@dataclass(frozen=True, slots=True)
class Targets:
    """The things that faults may concern.

    :param topics: their numbers of partitions; `lossy` ones may lose records, `forgetful` ones may forget producers
    :param coordinated: (kind, name) of groups and transactional ids
    :param shared: share groups
    :param errors: answers of APIs; connections of these APIs are cut, and their answers held
    """

    brokers: Sequence[int]
    topics: dict[str, int]
    lossy: Sequence[str]
    coordinated: Sequence[tuple[str, str]]
    forgetful: Sequence[str] = ()
    shared: Sequence[str] = ()
    errors: Sequence[tuple[str, str]] = ERRORS

    @property
    def apis(self) -> list[str]:
        """The APIs whose connections are cut, and whose answers are held; one with many errors comes more often."""
        return sorted(api for api, _ in self.errors)

    @property
    def faults(self) -> list[str]:
        """The names of the faults that may come."""
        return [name for name in FAULTS if name not in _SPECIAL and (name not in _SHARED or self.shared)]


def draw(chance: Random, targets: Targets, count: int, until_ms: int) -> list[PlannedFault]:
    """Return a plan.

    :param count: how many faults
    :param until_ms: when all have begun (ms)
    """
    names = targets.faults
    plan: list[PlannedFault] = []
    while len(plan) < count:
        at_ms = chance.randrange(until_ms)
        if chance.random() < STORMS:
            steps = storm(
                chance, targets.topics, targets.brokers, targets.coordinated, targets.lossy, targets.forgetful
            )
            plan += [PlannedFault(at_ms + later_ms, *more) for later_ms, more in steps]
            continue
        name, lasts_ms = chance.choice(names), chance.choice((300, 1_000, 3_000, 6_000, 12_000))
        arguments = _arguments(chance, targets, name)
        plan.append(PlannedFault(at_ms, length(lasts_ms, name, arguments), name, arguments))
    return sorted(plan, key=lambda fault: fault.at_ms)


def draw_calm(chance: Random, targets: Targets) -> list[PlannedFault]:
    """Return what happens after the last fault, and must not make a call fail: a change that brokers announce."""
    at_ms, broker = chance.choice((0, CALM_MS)), chance.choice(targets.brokers)
    moves = [(topic, index) for topic, count in targets.topics.items() for index in range(count)]
    changes: list[tuple[str, tuple[Any, ...]]] = []
    kind = chance.choice(("none", "stop", "stop", "coordinators", "coordinators", "leaders", "hang_up"))
    if kind == "stop":
        changes = [("stop", (broker, True))]
    elif kind == "coordinators":
        changes = [("move_coordinator", (*one, broker)) for one in targets.coordinated]
    elif kind == "laggards":
        changes = [("isolate", (number,)) for number in chance.sample(targets.brokers, len(targets.brokers) // 2)]
    elif kind == "hang_up":
        changes = [("hang_up", (broker,))]
    if kind in ("leaders", "laggards"):
        changes += [("move_leader", move) for move in moves]
    return [PlannedFault(at_ms, FOR_GOOD_MS, *change) for change in changes]


def _arguments(chance: Random, targets: Targets, name: str) -> tuple[Any, ...]:
    broker = chance.choice(targets.brokers)
    if name == "stop":
        return broker, chance.random() < 0.8
    if name == "set_leader":
        topic = chance.choice(sorted(targets.topics))
        return topic, chance.randrange(targets.topics[topic]), broker
    if name == "early_batches":
        return (chance.choice(sorted(targets.topics)),)
    if name == "throttle":
        return chance.choice(("Produce", "Fetch")), chance.choice((100, 1_000))
    if name == "fail":
        errors = PRODUCE_ERRORS if chance.random() < 0.3 else targets.errors
        return *chance.choice(errors), chance.randint(1, 5), *_somewhere(chance, broker)
    if name == "cut":
        return chance.choice(targets.apis), chance.choice(PLACES), chance.randint(1, 5), *_somewhere(chance, broker)
    if name == "late":
        return chance.choice(targets.apis), chance.choice((300, 1_500, 4_000)), chance.randint(1, 3)
    if name == "network":
        return (_network_faults(chance),)
    if name == "hold":
        return chance.choice(targets.apis), *_somewhere(chance, broker)
    if name == "limit":
        return chance.choice(sorted(targets.topics)), chance.choice((90, 150, 400, 1_200))
    if name == "lose_group":
        return (chance.choice(targets.shared),)
    if name == "damage":
        return (chance.randint(1, 5),)
    if name == "latency":
        return broker, chance.choice((5, 50, 500))
    if name == "move_coordinator":
        return *chance.choice(targets.coordinated), broker
    return () if name in ("hold_markers", "cut_all") else (broker,)


def _somewhere(chance: Random, broker: int) -> tuple[int, ...]:
    """Return the broker that a fault concerns, as an argument; none: it concerns all."""
    return (broker,) if chance.random() < 0.5 else ()


def _network_faults(chance: Random) -> NetworkFaults:
    split, cut, half_open, hang = (chance.choice((0.0, 0.0, 0.2, 0.5)) for _ in range(4))
    jitter_ms = chance.choice((0.0, 5.0, 50.0))
    return NetworkFaults(jitter_ms=jitter_ms, split=split, cut=cut, half_open=half_open, hang=hang, within_ms=3_000)


class Injector:
    """Applies a plan to a cluster, and puts it right.

    :param plan: in the order of time
    """

    def __init__(self, world: World, plan: Sequence[PlannedFault]) -> None:
        self._world = world
        self._stopped = world.handler.Event()
        self._steps: list[tuple[int, int, PlannedFault, bool]] = []
        for number, fault in enumerate(plan):
            self._steps += [(fault.at_ms, number, fault, True), (fault.at_ms + fault.lasts_ms, number, fault, False)]
        self._steps.sort(key=lambda step: step[:2])
        self._undo: dict[int, Undo] = {}
        cluster: object = world.cluster  # or real brokers, which do not show it
        self._leaderships = Leaderships(world, len(plan)) if isinstance(cluster, FakeCluster) else None

    def run(self) -> None:
        """Apply the plan, until it is over or stopped; then put all right."""
        begun_s = self._world.handler.now()
        if self._leaderships is not None:
            self._world.note_leaders = self._leaderships.look
        for at_ms, number, fault, begins in self._steps:
            wait_s = begun_s + at_ms / 1000 - self._world.handler.now()
            if self._stopped.wait(max(wait_s, 0)):
                break
            if begins:
                self._world.history.note("faults", Fault(str(fault), fault.words, number))
                undo = (FAULTS.get(fault.name) or MORE_FAULTS[fault.name])(self._world, *fault.arguments)
                if undo is not None:
                    self._undo[number] = undo
                else:
                    self._world.history.note("faults", Fault("it has passed", number=number, ends=True))
            elif number in self._undo:
                self._undo.pop(number)()
                self._world.history.note("faults", Fault(f"end of {fault.name}{fault.arguments!r}", (), number, True))
            if self._leaderships is not None:
                self._leaderships.look()
        for undo in self._undo.values():
            undo()
        self._heal()

    def stop(self) -> None:
        """End the plan now."""
        self._stopped.set()

    def _heal(self) -> None:
        if self._world.network is not None:
            self._world.network.heal()
            if self._world.network.zookeeper is not None:
                self._world.network.zookeeper.heal()
        self._note_moves()
        self._world.cluster.heal()
        self._world.history.note("faults", Fault("all is well from now on", ends=True))
        self._world.well.set()

    def _note_moves(self) -> None:
        """Note the coordinators that move back as all is put right: answers that were held name the former ones."""
        if self._leaderships is None:  # real brokers, whose coordinators stay
            return
        with self._world.cluster._locked() as state:
            moved = list(state.coordinators)
        for kind, key in moved:
            words = ("move_coordinator", kind, key, "back")
            self._world.history.note("faults", Fault(f"the coordinator of the {kind} {key} moves back", words))
