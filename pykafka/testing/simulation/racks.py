"""Racks: brokers in several zones, clients that fetch from the replica in their own one, and followers that lag behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from pykafka.testing.simulation.plan import MORE_FAULTS, PlannedFault

if TYPE_CHECKING:
    from pykafka.testing.fakecluster import FakeCluster
    from pykafka.testing.simulation.world import World

#: The zones; the brokers are spread over them.
RACKS = ("a", "b", "c")
#: How many of the seeds have racks (0 to 1).
SHARE = 0.1
#: How many followers lag in a run, at most, and for how long (ms).
LAGS, LAGS_MS = 5, (300, 1_000, 3_000, 6_000)


def drawn(seed: int) -> bool:
    """Return whether a seed has racks."""
    return Random(f"racks {seed}").random() < SHARE


def rack_of(seed: int, process: str) -> str:
    """Return the rack of a process."""
    return Random(f"rack of {process} {seed}").choice(RACKS)


def set_up(world: World, cluster: FakeCluster, brokers: int) -> None:
    """Give brokers and clients a rack each, and let leaders refer consumers to replicas (KIP-392)."""
    for number in range(1, brokers + 1):
        cluster.set_rack(number, RACKS[number % len(RACKS)])
    with cluster._locked() as state:
        state.reads_by_rack = True
    world.rack_of = partial(rack_of, world.seed)


def lag(world: World, topic: str, partition: int) -> Callable[[], object]:
    """Hold a follower back, which is out of sync then, until the end of the fault."""
    cluster = world.cluster
    with cluster._locked() as state:
        found = state.topics[topic].partitions[partition]
        followers = [one for one in found.replicas if one != found.leader and state.nodes[one].is_up]
    if not followers:
        return lambda: None
    cluster.lag(topic, partition, followers[0])
    return lambda: cluster.catch_up(topic, partition, followers[0])


MORE_FAULTS["lag"] = lag


def draw(seed: int, topics: Mapping[str, int], until_ms: int) -> list[PlannedFault]:
    """Return faults by which followers lag.

    :param topics: their numbers of partitions
    :param until_ms: when all have begun (ms)
    """
    chance = Random(f"lags {seed}")
    plan: list[PlannedFault] = []
    for _ in range(chance.randint(0, LAGS)):
        topic = chance.choice(sorted(topics))
        where = topic, chance.randrange(topics[topic])
        plan.append(PlannedFault(chance.randrange(until_ms), chance.choice(LAGS_MS), "lag", where))
    return plan
