"""`RealSimulation`: the programs of a seed on real brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from time import process_time
from typing import cast

from pykafka.handlers.base import Handler
from pykafka.testing.checker import Checker
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.history import History, OpenTopic
from pykafka.testing.simulation import against
from pykafka.testing.simulation.extras import Extras
from pykafka.testing.simulation.simulation import LOSING, REMADE, Phases, Result, Simulation
from pykafka.testing.simulation.world import World
from pykafka.testing.virtual import Network


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
        self.forgets = self.forgets_often = False

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
