"""Hand-written histories: `Story` has one short call for each thing that happens."""

from __future__ import annotations

from collections.abc import Callable

from pykafka.common import TopicPartition
from pykafka.testing.history import (
    AbortTransaction,
    Acknowledge,
    Acquire,
    Action,
    Assigned,
    BeginTransaction,
    Call,
    Commit,
    CommitTransaction,
    DeadLetter,
    Fault,
    History,
    OpenConsumer,
    OpenProducer,
    Operation,
    Place,
    Poll,
    Read,
    Revoked,
    Seek,
    Send,
)

TOPIC = "t"
GROUP = "g"
P0 = TopicPartition(TOPIC, 0)
P1 = TopicPartition(TOPIC, 1)


class Story(History):
    """A history of one topic, in which each operation comes one millisecond after the one before."""

    def __init__(self) -> None:
        self.clock_ms = 0
        super().__init__(self._tick)

    def _tick(self) -> int:
        self.clock_ms += 1
        return self.clock_ms

    def end(self, begun: Operation, outcome: str, action: Action | None = None) -> Operation:
        """End a call by the name of its outcome."""
        return self.ok(begun, action) if outcome == "ok" else getattr(self, outcome)(begun, "Error")

    def send(
        self,
        value: int,
        offset: int | None = None,
        who: str = "p",
        outcome: str = "ok",
        key: str = "",
        partition: int = 0,
    ) -> None:
        """Send a value, with its end."""
        sent = Send(TOPIC, value, partition, None, key)
        self.end(self.invoke(who, sent), outcome, Send(TOPIC, value, partition, offset, key))

    def sends(self, *values: int, start: int = 0, who: str = "p") -> None:
        """Send values, which get one offset after the other."""
        for offset, value in enumerate(values, start):
            self.send(value, offset, who)

    def poll(self, *reads: tuple[int, int], who: str = "c", partition: int = 0) -> None:
        """Poll (offset, value) pairs of one partition."""
        offsets, values = tuple(offset for offset, _ in reads), tuple(value for _, value in reads)
        self.ok(self.invoke(who, Poll()), Poll((Read(TOPIC, partition, offsets, values),)))

    def consumer(self, who: str = "c", group: str = "", committed: bool = False, latest: bool = False) -> None:
        """Start a consumer."""
        self.note(who, OpenConsumer(group, committed, latest))

    def member(self, who: str = "c", auto_commit: bool = False, notices_ms: int | None = None) -> None:
        """Start a member of the group."""
        self.note(who, OpenConsumer(GROUP, auto_commit=auto_commit, notices_ms=notices_ms))

    def producer(self, who: str = "p", idempotent: bool = True, durable: bool = True) -> None:
        """Start a producer."""
        self.note(who, OpenProducer(idempotent, durable))

    def begin(self, who: str = "p") -> None:
        """Begin a transaction."""
        self.ok(self.invoke(who, BeginTransaction()))

    def commit_transaction(self, outcome: str = "ok", who: str = "p") -> None:
        """Commit a transaction."""
        self.end(self.invoke(who, CommitTransaction()), outcome)

    def abort(self, outcome: str = "ok", who: str = "p") -> None:
        """Abort a transaction."""
        self.end(self.invoke(who, AbortTransaction()), outcome)

    def assigned(self, generation: int, *partitions: TopicPartition, who: str = "c") -> None:
        """Give a member its partitions."""
        self.note(who, Assigned(GROUP, generation, partitions))

    def revoked(self, generation: int, *partitions: TopicPartition, who: str = "c", lost: bool = False) -> None:
        """Take partitions from a member."""
        self.note(who, Revoked(GROUP, generation, partitions, lost))

    def commit(self, offset: int, who: str = "c", outcome: str = "ok", partition: int = 0) -> None:
        """Commit an offset."""
        self.end(self.invoke(who, Commit(GROUP, (Place(TOPIC, partition, offset),))), outcome)

    def seek(self, offset: int, who: str = "c") -> None:
        """Go on at another offset."""
        self.note(who, Seek(Place(TOPIC, 0, offset)))

    def fault(self, *words: str, number: int | None = None, lasts_ms: int | None = None) -> None:
        """Make a fault; it ends after a time, or happens now if it has no number."""
        self.note("faults", Fault(" ".join(words), words, number))
        if lasts_ms is not None:
            self.clock_ms += lasts_ms
            self.note("faults", Fault("the end", number=number, ends=True))

    def acquire(self, *offsets: int, who: str = "s", before_ms: int | None = None, lock_ms: int | None = None) -> None:
        """Give records to a member of a share group, which has perhaps asked for them a while before."""
        places = tuple(Place(TOPIC, 0, offset) for offset in offsets)
        begun = self.invoke(who, Acquire(GROUP))
        asked_ms = () if before_ms is None else (begun.time_ms - before_ms,) * len(places)
        self.ok(begun, Acquire(GROUP, places, asked_ms=asked_ms, lock_ms=lock_ms))

    def acknowledge(self, *offsets: int, who: str = "s", kind: str = "accept", outcome: str = "ok") -> None:
        """Acknowledge records of a share group."""
        places = tuple(Place(TOPIC, 0, offset) for offset in offsets)
        self.end(self.invoke(who, Acknowledge(GROUP, places, kind)), outcome)

    def dead_letter(self, offset: int, who: str = "c") -> None:
        """Write a record to the topic for dead letters."""
        self.ok(self.invoke(who, DeadLetter(GROUP, Place(TOPIC, 0, offset))))

    def call(self, what: str, timeout_ms: int, lasts_ms: int | None) -> None:
        """Make a call that lasts a while; None: it never ends."""
        begun = self.invoke("c", Call(what), timeout_ms)
        if lasts_ms is not None:
            self.clock_ms += lasts_ms - 1
            self.ok(begun)


#: Writes one history.
Write = Callable[[Story], object]
