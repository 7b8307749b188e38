"""`remake`: a topic that is deleted and made anew under its users, while requests for it fail, and its leader moves."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from pykafka.testing.simulation.plan import MORE_FAULTS, PlannedFault

if TYPE_CHECKING:
    from pykafka.testing.simulation.world import World

#: How long the topic is away (ms).
AWAY_MS = (0, 0, 50, 1_000)
#: How long before that its requests begin to fail, at most (ms), and how late those are answered then (ms).
BEFORE_MS, LATE_MS = 200, (0, 500, 800)


def remake(world: World, topic: str, replication: int) -> Callable[[], object]:
    """Delete a topic, and make it anew at the end of the fault, unless another has done so."""
    if world.remade is not None:
        world.remade.keep()
    with world.cluster._locked() as state:
        if topic in state.topics:
            state.remove_topic(state.topics[topic])

    def end() -> None:
        with world.cluster._locked() as state:
            there = topic in state.topics
        if not there:
            world.cluster.create_topic(topic, 1, replication)

    return end


MORE_FAULTS["remake"] = remake


def draw(chance: Random, topic: str, replication: int, until_ms: int) -> list[PlannedFault]:
    """Return faults by which a topic is made anew, while requests for it fail, and its leader moves.

    :param replication: how many replicas the new one has
    :param until_ms: when all have begun (ms)
    """
    plan: list[PlannedFault] = []
    for _ in range(chance.choice((0, 1, 1, 3))):
        at_ms = chance.randrange(until_ms)
        for name, arguments in _troubles(chance, topic):
            before_ms = chance.randrange(BEFORE_MS)
            plan.append(PlannedFault(max(at_ms - before_ms, 0), 1_000, name, arguments))
        plan.append(PlannedFault(at_ms, chance.choice(AWAY_MS), "remake", (topic, replication)))
    return plan


def _troubles(chance: Random, topic: str) -> list[tuple[str, tuple[Any, ...]]]:
    api, late_ms, times = chance.choice(("Fetch", "Produce")), chance.choice(LATE_MS), chance.randint(1, 5)
    kind = chance.choice(("none", "moves", "lost", "gone"))
    if kind == "moves":
        moves: list[tuple[str, tuple[Any, ...]]] = [("move_leader", (topic, 0))] * chance.randint(1, 3)
        return [*moves, ("fail", (api, "NOT_LEADER_OR_FOLLOWER", times, None, late_ms))]
    if kind == "lost":
        return [("cut", ("Produce", chance.choice(("before", "after")), times))]
    if kind == "gone":
        return [("fail", ("Produce", "UNKNOWN_TOPIC_OR_PARTITION", times, None, late_ms))]
    return []
