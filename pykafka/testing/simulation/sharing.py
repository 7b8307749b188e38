"""`Sharing`: a member of a share group, which accepts, releases and rejects records, is killed, and rests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from math import floor
from typing import Any

from pykafka.client import KafkaClient
from pykafka.exceptions import InvalidRecordState, KafkaException
from pykafka.record import Record
from pykafka.sharegroups.acquired_records import Acknowledged
from pykafka.testing.history import Acknowledge, Acquire, Call, Operation, Place, Settled
from pykafka.testing.simulation.consumers import HANDLING_S, LEAVE_MS, POLL_MS, Reading
from pykafka.testing.simulation.world import CALL_MS, BrokenPromiseError, World

#: How long a share group waits for a silent member, and how often members send heartbeats (ms).
SHARE_SESSION_MS, SHARE_HEARTBEAT_MS = 2_000, 500
#: How long records are locked for a member that crashes and rests (ms), and for one that does neither.
LOCK_MS, LONG_LOCK_MS = 2_000, 600_000
#: How long an outcome of an acknowledgement may take (ms): it waits for a fetch, and the client connects twice at most.
OUTCOME_MS = 30_000
#: How long a member rests with records in its hands (s): some of these times are longer than `LOCK_MS`.
RESTS_S = (0.0, 0.0, 0.3, 2.5)
#: How many polls a member makes before it only holds its membership.
POLLS_OF_RETIRED = 12
#: After so many seconds without a record and without an acknowledgement under way it does nothing any more.
QUIET = 3


@dataclass(frozen=True)
class Habits:
    """The behaviour of a share group's members in a simulation.

    :param explicit: they acknowledge each record by itself; otherwise the next call accepts those of the last one
    :param deaths: how many times each is killed at most
    :param restarts: how likely one is closed and starts again, after a poll (0 to 1)
    :param patient: locks outlast the simulation, so each record that a member does not acknowledge has to be released: no
        member is killed, rests, or forgets a record
    :param strict: they take no more records than they ask for
    """

    explicit: bool = True
    deaths: int = 0
    restarts: float = 0.0
    patient: bool = False
    strict: bool = False


class Sharing(Reading):
    """A program that takes records as a member of a share group, and acknowledges them.

    :param group: the share group
    :param retires: it stops polling after a while, and keeps its membership
    """

    def __init__(self, world: World, name: str, topic: str, group: str, habits: Habits, retires: bool = False) -> None:
        super().__init__(world, name, topic, committed=False)
        self.group = group
        self.habits = habits
        self.retires = retires
        self.deaths = habits.deaths
        self.options = {
            "group": group,
            "acknowledgement": "explicit" if habits.explicit else "implicit",
            "acquire_mode": "record_limit" if habits.strict else "batch_optimized",
            "max_records": self.random.choice((1, 5, 500)),
            "fetch_max_wait_ms": POLL_MS,
            "on_acknowledge": self._acknowledged,
        }
        self._consumer: Any = None
        self._delivered: list[Record] = []
        #: Acknowledgements without an outcome, of each record in their order; renewals without one; the values of records.
        self._open: dict[Place, list[Operation]] = defaultdict(list)
        self._values: dict[Place, int] = {}

    @property
    def reader(self) -> str:
        """The group."""
        return self.group

    # Its consumer

    def open(self, client: KafkaClient) -> Any:
        """Make a share consumer."""
        self._open.clear()
        self._delivered.clear()
        self._consumer = consumer = client.share_consumer(**self.options)
        begun = self.world.history.invoke(self.name, Call("subscribe"), CALL_MS)
        try:
            consumer.subscribe(self.topic, timeout=CALL_MS / 1000)
        except KafkaException as error:
            self.world.history.fail(begun, type(error).__name__)
            consumer.close(CALL_MS / 1000)
            raise
        self.world.history.ok(begun)
        return consumer

    def close(self, consumer: Any) -> None:
        """Close the consumer. What has no outcome then has none for good."""
        self._accept_delivered()
        self.world.call(self.name, "close consumer", lambda: consumer.close(CALL_MS / 1000), CALL_MS + LEAVE_MS)
        for operations in self._open.values():
            for begun in operations:
                self.world.history.unknown(begun, "closed")
        self._note_values(self._open)
        self._open.clear()

    def work(self, consumer: Any) -> None:
        """Take records until the simulation ends, or it is time to start again."""
        polls = 0
        while not self.world.stopping.is_set():
            self.poll(consumer)
            polls += 1
            if self.crashes_now:
                self.world.stopping.wait(HANDLING_S)
                return
            if self.random.random() < 0.3:
                self.commit(consumer)
            if self.retires and polls >= POLLS_OF_RETIRED:
                self._retire(consumer)
                return
            if self.random.random() < self.habits.restarts:
                return

    def _retire(self, consumer: Any) -> None:
        """Acknowledge the records in hand one by one, and wait for the end without another poll."""
        quiet = 0
        self._accept_in_turn(consumer, POLL_MS)
        while quiet < QUIET and not self.world.stopping.wait(1.0):
            # An answer that was under way; no poll of no time, which would ask for more.
            quiet = 0 if consumer._engine.buffered or any(self._open.values()) else quiet + 1
            if consumer._engine.buffered:
                self._accept_in_turn(consumer, 1)
            elif not quiet:
                self.commit(consumer, waits=True)
        self.world.stopping.wait(None)

    def _accept_in_turn(self, consumer: Any, timeout_ms: int) -> None:
        """Take records, and accept one after the other, each by a commit of its own."""
        records: list[Record] = []
        self.poll(consumer, timeout_ms, records)
        for record in records:
            self.acknowledge(consumer, record, "accept")
            self.commit(consumer, waits=True)
            self.world.stopping.wait(self.random.choice((0.0, 0.05, 0.5)))

    def dies(self) -> bool:
        """Draw whether it is killed while it has what it has just got."""
        self.crashes_now = self.deaths > 0 and self.random.random() < 0.1
        self.deaths -= self.crashes_now
        return self.crashes_now

    # Records

    def poll(self, consumer: Any, timeout_ms: int = POLL_MS, keeps: list[Record] | None = None) -> None:
        """Take records, and decide what becomes of each.

        :param keeps: gets the records, of which nothing is decided; None: that is done now
        """
        history = self.world.history
        self._accept_delivered()
        begun, begun_s = history.invoke(self.name, Acquire(self.group), timeout_ms), self.world.handler.now()
        try:
            records = consumer.poll(self.random.choice((1, 5, 100)), timeout_ms / 1000)
        except KafkaException as error:
            history.fail(begun, type(error).__name__)
            if not error.retriable:
                raise  # no fault explains it
            self.world.pause()
            return
        if records and self.dies():
            history.unknown(begun, "Crash")
            return
        places = tuple(map(_place, records))
        values = tuple(int(record.value) for record in records)
        self._values.update(zip(places, values, strict=True))
        since_s = begun_s + (consumer.lock_timeout_ms or 0) / 1000
        # rounded down, as the time of the call is: the lock lasts at least until so much later
        asked_ms = tuple(begun.time_ms + floor((record._held().expires_at - since_s) * 1000) for record in records)
        history.ok(begun, Acquire(self.group, places, values, asked_ms, consumer.lock_timeout_ms))
        if keeps is not None:
            keeps += records
        else:
            self._delivered = list(records)
            self._decide(consumer)

    def _decide(self, consumer: Any) -> None:
        """Acknowledge each record, sooner or later, in one way or another, unless the next call does that."""
        if not self.habits.explicit or not self._delivered:
            return
        if not self.habits.patient:
            self.world.stopping.wait(self.random.choice(RESTS_S))
        delivered, self._delivered = self._delivered, []
        for record in delivered:
            drawn = self.random.random()
            if drawn < 0.05 and not self.habits.patient and not self._renew(consumer, record):
                continue  # its lock ends by itself
            self.acknowledge(consumer, record, "release" if drawn > 0.9 else "reject" if drawn > 0.85 else "accept")
            if self.random.random() < 0.1:
                self.commit(consumer)

    def _renew(self, consumer: Any, record: Record) -> bool:
        """Renew the lock of a record; return whether that is known to have succeeded."""
        begun = self.world.history.invoke(self.name, Call("renew"), 2 * CALL_MS + self.world.socket_ms)
        try:
            is_done = consumer.renew(record) and not any(consumer.commit(CALL_MS / 1000).values())
        except KafkaException as error:
            self.world.history.unknown(begun, type(error).__name__)
            return False
        self.world.history.ok(begun)
        return bool(is_done)

    def acknowledge(self, consumer: Any, record: Record, kind: str) -> None:
        """Acknowledge a record; the outcome comes later."""
        self._begin(record, kind)
        getattr(consumer, kind)(record)

    def _begin(self, record: Record, kind: str) -> None:
        place = _place(record)
        acknowledging = Acknowledge(self.group, (place,), kind)
        self._open[place].append(self.world.history.invoke(self.name, acknowledging, OUTCOME_MS))

    def _accept_delivered(self) -> None:
        """Note that the next call accepts what the last one has returned, if that is so."""
        delivered, self._delivered = self._delivered, []
        if not self.habits.explicit:
            for record in delivered:
                self._begin(record, "accept")

    def _acknowledged(self, outcome: Acknowledged) -> None:
        """Note the outcome of acknowledgements; that of a renewal belongs to none of them."""
        history = self.world.history
        for offset in outcome.offsets:
            place = Place(*outcome.partition, offset)
            if not self._open[place]:
                continue
            begun = self._open[place].pop(0)
            if isinstance(outcome.error, InvalidRecordState):
                if self.habits.patient:
                    text = f"{self.name} acknowledged {place} in a session that does not have it, though its lock lasts"
                    self.world.errors.append((self.name, BrokenPromiseError(text)))
                history.fail(begun, type(outcome.error).__name__)
            elif outcome.error is not None:
                history.unknown(begun, type(outcome.error).__name__)
                self._note_value(begun)
            else:
                history.ok(begun)
                self._note_value(begun)

    def _note_values(self, places: Collection[Place]) -> None:
        for place in places:
            for begun in self._open[place]:
                self._note_value(begun)

    def _note_value(self, begun: Operation) -> None:
        action = begun.action
        if isinstance(action, Acknowledge) and action.kind != "release":
            for place in action.places:
                self.world.saw(self.group, self._values[place])

    def commit(self, consumer: Any, waits: bool = False) -> None:
        """Send acknowledgements, and wait for their outcomes or not.

        :param waits: it does; False: that is drawn
        """
        self._accept_delivered()
        if waits or self.random.random() < 0.5:
            deadline_ms = CALL_MS + self.world.socket_ms
            self.world.call(self.name, "commit", lambda: consumer.commit(CALL_MS / 1000), deadline_ms)
            return
        begun = self.world.history.invoke(self.name, Call("commit_async"), OUTCOME_MS)
        consumer.commit_async(lambda _: self.world.history.ok(begun))

    # The end of a live run

    def is_drained(self) -> bool:
        """Return whether the group has dealt with all that was acknowledged."""
        missing = self.world.acknowledged[self.topic] - self.world.seen[self.group]
        return not missing or missing <= self._spent_values()

    def note_drained(self) -> None:
        """Say that the group has dealt with all that was acknowledged."""
        self.world.history.note(self.name, Settled((self.topic,), self.group, tuple(self._spent())))

    def _spent(self) -> list[Place]:
        """Return the records whose deliveries are used up. Clients do not learn of all deliveries, so the cluster says it."""
        with self.world.cluster._locked() as state:
            names = {topic.id: topic.name for topic in state.topics.values()}
            found = state.groups.shares.of_group(self.group)
            return sorted(
                Place(names[topic], index, offset)
                for (topic, index), share in found.items()
                if topic in names
                for offset in share.spent
            )

    def _spent_values(self) -> set[int]:
        return {
            int(record.value)
            for place in self._spent()
            for record in self.world.cluster.records(place.topic, place.partition)
            if record.offset == place.offset
        }


def _place(record: Record) -> Place:
    return Place(record.topic, record.partition, record.offset)


def set_up(world: World, group: str, patient: bool) -> None:
    """Give a share group settings that suit a simulation: shorter times than brokers allow."""
    with world.cluster._locked() as state:
        state.configs.groups[group] = {
            "share.auto.offset.reset": "earliest",
            "share.session.timeout.ms": str(SHARE_SESSION_MS),
            "share.heartbeat.interval.ms": str(SHARE_HEARTBEAT_MS),
            "share.record.lock.duration.ms": str(LONG_LOCK_MS if patient else LOCK_MS),
            "share.delivery.count.limit": "10",
        }
