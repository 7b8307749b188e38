"""`Extras`: programs that a seed has besides the common ones, on topics of their own: of one kind in each seed, or of none."""

from __future__ import annotations

from random import Random
from typing import Any, Protocol, runtime_checkable

from pykafka.testing.simulation import sharing
from pykafka.testing.simulation.committing import Committing
from pykafka.testing.simulation.dead_letters import Letters, Parallel
from pykafka.testing.simulation.producers import Producing, Transacting
from pykafka.testing.simulation.share_faults import SHARE_ERRORS
from pykafka.testing.simulation.sharing import Habits, Sharing
from pykafka.testing.simulation.sizes import Bounded, Varying
from pykafka.testing.simulation.world import World

#: The topic that all seeds have.
ORDERS = "orders"
#: The topic and the group of members of a share group, and the group of members that commit by hand.
JOBS, WORKERS, CLERKS = "jobs", "workers", "clerks"
#: The topic of a group that handles records in parallel, that of its dead letters, and the group.
TASKS, TASKS_DLQ, CREW = "tasks", "tasks.dlq", "crew"
#: The topic of records of all sizes.
PARCELS = "parcels"


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

    :param kinds: one of these is drawn (`Scale.kinds`)
    :param release: that the cluster plays
    :param lasts_ms: how long programs write (ms)
    """

    def __init__(self, seed: int, kinds: tuple[str, ...], release: str, lasts_ms: int) -> None:
        self._chance = Random(f"extras of {seed}")
        self._lasts_ms = lasts_ms
        self.kind = self._chance.choice(kinds)
        if self.kind == "share" and release != "4.4":
            self.kind = "none"  # releases before 4.2 have no share groups
        #: Whether they take the place of the programs that handle records exactly once, so that the seed costs no more.
        self.replaces = self.kind != "none" and self._chance.random() < 0.7
        #: Their topics, with the numbers of partitions.
        self.topics: dict[str, int] = {}
        if self.kind == "share":
            self.topics = {JOBS: self._chance.randint(1, 2)}
        elif self.kind == "letters":
            self.topics = {TASKS: self._chance.randint(1, 3), TASKS_DLQ: 1}
        elif self.kind == "sizes":
            self.topics = {PARCELS: self._chance.randint(1, 4)}

    @classmethod
    def none(cls, seed: int) -> Extras:
        """Return those of a seed that has no room for any."""
        return cls(seed, ("none",), "", 0)

    @property
    def shared(self) -> tuple[str, ...]:
        """The share groups."""
        return (WORKERS,) if self.kind == "share" else ()

    @property
    def coordinated(self) -> list[tuple[str, str]]:
        """The groups and transactional ids, with their kind."""
        groups = {"share": WORKERS, "commits": CLERKS, "letters": CREW}
        return [("group", groups[self.kind])] if self.kind in groups else []

    @property
    def errors(self) -> tuple[tuple[str, str], ...]:
        """The answers with an error that concern these programs."""
        return SHARE_ERRORS * 2 if self.kind == "share" else ()

    def programs(self, world: World, breaks_connections: bool) -> tuple[list[Any], list[Any]]:
        """Return the programs that write, and those that read.

        :param breaks_connections: a broker may not learn that a connection has ended, and keep the locks of its member
        """
        if self.kind == "share":
            return self._sharing(world, breaks_connections)
        if self.kind == "commits":
            return [], self._committing(world)
        if self.kind == "letters":
            return self._handling(world)
        if self.kind == "sizes":
            return self._varying(world)
        return [], []

    def _varying(self, world: World) -> tuple[list[Any], list[Any]]:
        """Return a producer of records of all sizes, and a reader with little memory."""
        chance = self._chance
        has_keys = chance.random() < 0.4
        if has_keys:
            with world.cluster._locked() as state:
                state.topics[PARCELS].configs["cleanup.policy"] = "compact"
        writer = Varying(world, "v1", PARCELS, chance.randint(10, 40), self._lasts_ms, has_keys)
        return [writer], [Bounded(world, "b1", PARCELS, chance.random() < 0.5, chance.choice((0.0, 0.3)))]

    def _handling(self, world: World) -> tuple[list[Any], list[Any]]:
        """Return members that handle records in parallel and give some up, and a reader of the dead letters."""
        chance = self._chance
        habits: dict[str, Any] = {
            "restarts": chance.choice((0.0, 0.05)),
            "deaths": chance.choice((0, 0, 1)),
            "order": chance.choice(("key", "partition", None)),
            "idempotent": chance.random() < 0.7,
            **self._protocol(),
        }
        writer = Producing(world, "q1", TASKS, chance.randint(5, 25), self._lasts_ms)
        numbers = range(chance.randint(1, 2))
        members = [Parallel(world, f"h{number}", TASKS, CREW, **habits) for number in numbers]
        return [writer], [*members, Letters(world, "l1", TASKS_DLQ, CREW)]

    def _protocol(self) -> dict[str, Any]:
        """Return the protocol and the assignor of a group."""
        choices: tuple[dict[str, Any], ...] = (
            {"protocol": "auto"},
            {"protocol": "classic", "assignor": "range"},
            {"protocol": "classic", "assignor": "cooperative-sticky"},
        )
        return self._chance.choice(choices)

    def _committing(self, world: World) -> list[Any]:
        """Return members that read what others write, and commit by hand."""
        chance = self._chance
        habits: dict[str, Any] = {
            "committed": chance.random() < 0.5,
            "restarts": chance.choice((0.0, 0.05)),
            "deaths": chance.choice((0, 0, 1)),
            **self._protocol(),
        }
        numbers = range(chance.randint(2, 3))
        return [Committing(world, f"k{number}", ORDERS, CLERKS, **habits) for number in numbers]

    def _sharing(self, world: World, breaks_connections: bool) -> tuple[list[Any], list[Any]]:
        chance = self._chance
        patient = chance.random() < 0.5 and not breaks_connections
        habits = Habits(
            explicit=chance.random() < 0.7,
            deaths=0 if patient else chance.choice((0, 1, 2)),
            restarts=chance.choice((0.0, 0.05)),
            patient=patient,
            strict=chance.random() < 0.3,
        )
        sharing.set_up(world, WORKERS, patient)
        count = chance.randint(5, 30)
        if chance.random() < 0.2:
            writer: Producing = Transacting(world, "j1", JOBS, count, self._lasts_ms)
        else:
            writer = Producing(world, "j1", JOBS, count, self._lasts_ms, chance.choice((0.0, 0.8)))
        members = chance.choice((2, 2, 3))
        # One that retires must not be the only one with a partition.
        retires = patient and habits.explicit and self.topics[JOBS] == 1 and chance.random() < 0.5
        readers = [
            Sharing(world, f"w{number}", JOBS, WORKERS, habits, retires and number == 0) for number in range(members)
        ]
        return [writer], readers
