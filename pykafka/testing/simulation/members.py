"""Members of groups with habits of their own: `Visiting` comes and goes, `Pooling` handles records by many workers,
`Keeping` has a group for its offsets alone, and `unreliable` is an assignor that fails.
"""

from __future__ import annotations

from random import Random
from typing import Any

from pykafka.client import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment
from pykafka.record import Record
from pykafka.testing.history import Call, Poll, Read
from pykafka.testing.simulation.calm import CalmError
from pykafka.testing.simulation.consumers import LEAVE_MS, POLL_MS, Member, Reading
from pykafka.testing.simulation.world import CALL_MS, World

#: How long a visitor stays at most, and how long it is away (s), and after the last fault (s).
STAY_S, AWAY_S, LAST_AWAY_S = 0.6, 3.0, 1.0
#: How many workers a pool has, and how long it waits for them when partitions go, and at its end (s).
WORKERS, REVOKE_S, STOP_S = 3, 0.5, 6.0
#: How long a worker handles a record: seldom longer than a revocation waits (s).
QUICK_S, LONG_S, LONG = 0.02, 3.0, 0.1
#: How often an assignor fails (0 to 1).
FAILS = 0.3


class AssignorError(KafkaException):
    """Raised by an unreliable assignor."""


def unreliable(world: World) -> type[RangePartitionAssignor]:
    """Return an assignor that fails at times when a member has got its assignment, until the last fault is over."""
    chance: Random = world.random("assignor")

    class Unreliable(RangePartitionAssignor):
        name = "unreliable"

        @classmethod
        def on_assignment(cls, assignment: ConsumerProtocolAssignment) -> None:
            if not world.calm.is_set() and not world.stopping.is_set() and chance.random() < FAILS:
                raise AssignorError("the assignor of this simulation fails at times")

    return Unreliable


class Visiting(Member):
    """A member that joins, is closed by another worker at any moment, and comes again; it reads next to nothing."""

    #: Whether it does not come again after the last fault: what the others do not read is not read then.
    stays_away = False

    def run(self) -> None:
        """Come and go until the simulation ends."""
        with self.world.client(self.name) as client:
            while client is not None and not self._waits():
                try:
                    consumer = self.open(client)
                except KafkaException:  # the call is in the history
                    continue
                self._visit(consumer)

    def _waits(self) -> bool:
        """Stay away; return whether it comes no more."""
        if self.stays_away and self.world.calm.is_set():
            return True
        most_s = LAST_AWAY_S if self.world.calm.is_set() else AWAY_S
        return self.world.stopping.wait(self.random.random() * most_s)

    def _visit(self, consumer: Any) -> None:
        begun = self.world.history.invoke(self.name, Call("visit"), POLL_MS + CALL_MS + LEAVE_MS)
        leaving = self.world.handler.Event()

        def read() -> None:
            while not leaving.is_set():
                self.poll(consumer)

        reader = self.world.handler.spawn(self.world.guarded(self.name, read), name=f"{self.name} reads")
        self.world.handler.sleep(self.random.random() * STAY_S)
        leaving.set()
        self.close(consumer)
        reader.join()
        self.world.history.ok(begun)
        if 0 <= self.world.calm_ms <= begun.time_ms - self.world.grace_ms and self._is_member():
            text = f"{self.name} was closed, and is still a member of group {self.group}"
            self.world.errors.append((self.name, CalmError(text)))

    def _is_member(self) -> bool:
        """Return whether the coordinator has it as a member; only the classic protocol puts its name into the member's id."""
        with self.world.cluster._locked() as state:
            group: Any = state.groups.get(self.group)
            return group is not None and any(id_.startswith(f"{self.name}-") for id_ in group.members)


class Keeping(Member):
    """A consumer that chooses its partitions itself, and keeps its offsets as those of a group without members."""

    def open(self, client: KafkaClient) -> Any:
        """Make a consumer, and choose its partitions."""
        for option in ("listener", "session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms"):
            self.options.pop(option, None)
        return Reading.open(self, client)


class Pooling(Member):
    """A member whose records are handled by several workers, in the order of each partition."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.auto_commit = True  # its pool commits, as far as records are handled

    def work(self, consumer: Any) -> None:
        """Handle records until the simulation ends, or it is time to start again."""
        pool = consumer.parallel(
            self._handle,
            workers=WORKERS,
            order="partition",
            commit_interval=0.3,
            revoke_timeout=REVOKE_S,
            stop_timeout=STOP_S,
        )
        begun = self.world.history.invoke(self.name, Call("pool"))
        try:
            with pool:
                while not pool.wait(POLL_MS / 1000) and not self.world.stopping.is_set():
                    if self.random.random() < self.restarts:
                        break
        except KafkaException as error:  # as a supervisor, it begins anew
            self.world.history.unknown(begun, type(error).__name__)
        else:
            self.world.history.ok(begun)

    def commit(self, consumer: Any) -> None:
        """Do nothing: the pool commits."""

    def _handle(self, record: Record) -> None:
        history, value = self.world.history, int(record.value or b"")
        begun = history.invoke(self.name, Poll())
        history.ok(begun, Poll((Read(record.topic, record.partition, (record.offset,), (value,)),)))
        self.world.saw(self.reader, value)
        is_long = not self.world.calm.is_set() and self.random.random() < LONG
        self.world.handler.sleep(self.random.random() * (LONG_S if is_long else QUICK_S))
