"""`Extras`: programs that a seed has besides the common ones, on topics of their own: of one kind in each seed, or of none."""

from __future__ import annotations

from random import Random
from typing import Any, Protocol, runtime_checkable

from pykafka.testing.simulation import sharing
from pykafka.testing.simulation.producers import Producing, Transacting
from pykafka.testing.simulation.share_faults import SHARE_ERRORS
from pykafka.testing.simulation.sharing import Habits, Sharing
from pykafka.testing.simulation.world import World

#: The topic and the group of members of a share group.
JOBS, WORKERS = "jobs", "workers"
#: The kinds, each as often as it is there.
KINDS = ("share", "share", "none")


@runtime_checkable
class Settling(Protocol):
    """A program that says by itself in a live run whether it has dealt with all that was acknowledged."""

    def is_drained(self) -> bool:
        """Return whether it has."""
        ...

    def note_drained(self) -> None:
        """Say in the history that it should have by now."""
        ...


class Extras:
    """The extra programs of a seed.

    :param release: that the cluster plays
    :param lasts_ms: how long programs write (ms)
    """

    def __init__(self, seed: int, release: str, lasts_ms: int) -> None:
        self._chance = Random(f"extras of {seed}")
        self._lasts_ms = lasts_ms
        self.kind = self._chance.choice(KINDS)
        if self.kind == "share" and release != "4.4":
            self.kind = "none"  # releases before 4.2 have no share groups
        #: Their topics, with the numbers of partitions.
        self.topics: dict[str, int] = {}
        if self.kind == "share":
            self.topics = {JOBS: self._chance.randint(1, 2)}

    @property
    def shared(self) -> tuple[str, ...]:
        """The share groups."""
        return (WORKERS,) if self.kind == "share" else ()

    @property
    def coordinated(self) -> list[tuple[str, str]]:
        """The groups and transactional ids, with their kind."""
        return [("group", WORKERS)] if self.kind == "share" else []

    @property
    def errors(self) -> tuple[tuple[str, str], ...]:
        """The answers with an error that concern these programs."""
        return SHARE_ERRORS * 2 if self.kind == "share" else ()

    def programs(self, world: World) -> tuple[list[Any], list[Any]]:
        """Return the programs that write, and those that read."""
        if self.kind == "share":
            return self._sharing(world)
        return [], []

    def _sharing(self, world: World) -> tuple[list[Any], list[Any]]:
        chance = self._chance
        patient = chance.random() < 0.5
        habits = Habits(
            explicit=chance.random() < 0.7,
            deaths=0 if patient else chance.choice((0, 1, 2)),
            restarts=chance.choice((0.0, 0.05)),
            patient=patient,
            strict=chance.random() < 0.3,
        )
        sharing.set_up(world, WORKERS, patient)
        count = chance.randint(5, 40)
        if chance.random() < 0.2:
            writer: Producing = Transacting(world, "j1", JOBS, count, self._lasts_ms)
        else:
            writer = Producing(world, "j1", JOBS, count, self._lasts_ms, chance.choice((0.0, 0.8)))
        members = chance.randint(2, 3)
        # One that retires must not be the only one with a partition.
        retires = patient and habits.explicit and self.topics[JOBS] == 1 and chance.random() < 0.5
        readers = [
            Sharing(world, f"w{number}", JOBS, WORKERS, habits, retires and number == 0) for number in range(members)
        ]
        return [writer], readers
