"""`History`: what programs did and were answered, in order, with the time: the input of `Checker`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, NamedTuple, TextIO

from pykafka.common import TopicPartition


class Outcome(Enum):
    """The kinds of lines: the begin of a call, one of its three ends, or a note of something that happened."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOTE = "note"


class Place(NamedTuple):
    """An offset of a partition."""

    topic: str
    partition: int
    offset: int


class Read(NamedTuple):
    """The records of one partition that one poll has returned: offsets and values, in that order."""

    topic: str
    partition: int
    offsets: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """The subject of an operation. Its fields that are None or empty are left out of the lines of a history."""

    name: ClassVar[str]


@dataclass(frozen=True, slots=True)
class OpenTopic(Action):
    """A topic, as the cluster keeps it.

    :param may_lose: the plan of faults loses acknowledged records of it, as in an unclean election
    :param compacted: a record may go if a later one of the partition has its key
    """

    name = "topic"
    topic: str
    may_lose: bool = False
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class OpenProducer(Action):
    """A producer starts: from now on, sends of this process are judged by what it promises.

    :param idempotent: each send is stored once, in order
    :param durable: an acknowledged record survives (acks=all, or acks=1 in a cluster that loses none of those)
    :param ordered: acknowledged sends to a partition are stored in order, even if some are stored twice
    """

    name = "producer"
    idempotent: bool = True
    durable: bool = True
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class OpenConsumer(Action):
    """A consumer starts.

    :param group: its group; "" for none
    :param committed: it reads committed records alone
    :param latest: it begins at the ends of partitions, so it does not show what is before
    :param auto_commit: it commits by itself, so the history does not show what its group has committed
    :param notices_ms: within this time a member notices that another one has its partitions, if no fault is active (ms);
        None: no bound
    :param instance_id: of a static member; "": it is none
    """

    name = "consumer"
    group: str = ""
    committed: bool = False
    latest: bool = False
    auto_commit: bool = False
    notices_ms: int | None = None
    instance_id: str = ""


@dataclass(frozen=True, slots=True)
class Crash(Action):
    """The process was ended midway; it may start again under its name."""

    name = "crash"


@dataclass(frozen=True, slots=True)
class Send(Action):
    """A record is sent.

    :param value: no two records of a history have the same, unless a program sends one again
    :param offset: None: not known
    :param cause: the value of the record that it results from, for programs that promise one result for each; None: none
    """

    name = "send"
    topic: str
    value: int
    partition: int | None = None
    offset: int | None = None
    key: str = ""
    cause: int | None = None


@dataclass(frozen=True, slots=True)
class Poll(Action):
    """A consumer is asked for records."""

    name = "poll"
    reads: tuple[Read, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit(Action):
    """A consumer commits offsets, by itself or as part of a transaction."""

    name = "commit"
    group: str
    offsets: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Committed(Action):
    """A consumer asks for the offsets that its group has committed."""

    name = "committed"
    group: str
    offsets: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscribe(Action):
    """A consumer begins to read topics."""

    name = "subscribe"
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assign(Action):
    """A consumer begins to read partitions that the program chose."""

    name = "assign"
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Seek(Action):
    """A consumer goes on at another offset."""

    name = "seek"
    place: Place


@dataclass(frozen=True, slots=True)
class Assigned(Action):
    """A member of a group has partitions.

    :param generation: or epoch
    :param partitions: all that it has now
    """

    name = "assigned"
    group: str
    generation: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Revoked(Action):
    """A member of a group has given partitions up.

    :param partitions: those alone
    :param lost: others may have had them already
    """

    name = "revoked"
    group: str
    generation: int
    partitions: tuple[TopicPartition, ...]
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Owner(Action):
    """ZooKeeper has a member as the owner of a partition, or no more.

    :param owner: its process
    :param forced: its session was ended for no reason, so it cannot know that yet
    """

    name = "owner"
    group: str
    partition: TopicPartition
    owner: str
    is_owner: bool
    forced: bool = False


@dataclass(frozen=True, slots=True)
class BeginTransaction(Action):
    """A producer begins a transaction: what its process sends from now on is part of it."""

    name = "begin"


@dataclass(frozen=True, slots=True)
class CommitTransaction(Action):
    """A producer commits its transaction."""

    name = "commit-transaction"


@dataclass(frozen=True, slots=True)
class AbortTransaction(Action):
    """A producer aborts its transaction, which puts the consumer of its process back to the committed offsets."""

    name = "abort-transaction"


@dataclass(frozen=True, slots=True)
class Acquire(Action):
    """A share consumer is asked for records.

    :param values: of the records at `places`, in their order; empty: not known
    :param asked_ms: when the member asked the broker for each of them (ms), which may be before the call, as members ask in
        advance; empty: not known
    :param lock_ms: how long the group keeps them for the member after that (ms); None: not known
    """

    name = "acquire"
    group: str
    places: tuple[Place, ...] = ()
    values: tuple[int, ...] = ()
    asked_ms: tuple[int, ...] = ()
    lock_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Acknowledge(Action):
    """A share consumer acknowledges records.

    :param kind: "accept", "release", "reject", or "renew", after which its lock begins anew
    """

    name = "acknowledge"
    group: str
    places: tuple[Place, ...]
    kind: str = "accept"


@dataclass(frozen=True, slots=True)
class DeadLetter(Action):
    """A record is given up, and written to a topic for dead letters. A note says that it was read there.

    :param place: where the record was read
    """

    name = "dead-letter"
    group: str
    place: Place


@dataclass(frozen=True, slots=True)
class Handled(Action):
    """A program of a group has handled a record, once or again.

    :param place: where the record was read
    """

    name = "handled"
    group: str
    place: Place
    value: int


@dataclass(frozen=True, slots=True)
class Call(Action):
    """Any other call: close, flush, one of the administration."""

    name = "call"
    what: str


class State(NamedTuple):
    """The state of a subject of administration: a topic's number of partitions, a setting, an offset of a group.

    :param value: "absent" if there is none, by custom
    """

    subject: str
    value: str


#: The value of a `State` that is not known any more.
ANY = "?"


@dataclass(frozen=True, slots=True)
class Change(Action):
    """A change by administration. As a note: what something is like at the beginning.

    :param what: the call
    :param states: what it makes of its subjects
    """

    name = "change"
    what: str
    states: tuple[State, ...]


@dataclass(frozen=True, slots=True)
class Observe(Action):
    """An answer that shows subjects of administration.

    :param what: the call
    :param age_ms: how old the answer may be (ms)
    """

    name = "observe"
    what: str
    states: tuple[State, ...] = ()
    age_ms: int = 0


@dataclass(frozen=True, slots=True)
class BufferedBytes(Action):
    """How many bytes something holds, and how many it may."""

    name = "held"
    what: str
    held: int
    limit: int


@dataclass(frozen=True, slots=True)
class Fault(Action):
    """Something goes wrong on purpose, or is put right.

    :param words: its name and what it concerns, by which the checker knows which errors it may cause
    :param number: of the fault; it is the same when the fault ends
    :param ends: the fault ends now; without a number: all do
    """

    name = "fault"
    text: str
    words: tuple[str, ...] = ()
    number: int | None = None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Seen(Action):
    """Something happened that no call shows, for `Sometimes`."""

    name = "seen"
    what: str


@dataclass(frozen=True, slots=True)
class Deleted(Action):
    """The records of a partition before an offset were deleted, as by retention."""

    name = "deleted"
    place: Place


@dataclass(frozen=True, slots=True)
class Drained(Action):
    """A group, or a process that has none, has read topics to their ends: all that was acknowledged before has been read.

    :param group: "" for the process alone
    :param results_of: topics each acknowledged record of which has its result (`Send.cause`) in those topics
    """

    name = "drained"
    topics: tuple[str, ...]
    group: str = ""
    results_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled(Action):
    """A group has dealt with topics: each record that was acknowledged before is handled, given up, accepted, or rejected.

    :param spent: records whose deliveries the group has used up
    """

    name = "settled"
    topics: tuple[str, ...]
    group: str
    spent: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Left(Action):
    """Workers and connections that were still there after all programs had ended."""

    name = "left"
    workers: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of a history.

    :param number: its place, from 0 on
    :param time_ms: when (ms)
    :param process: the program; a program that crashed and starts again keeps its name
    :param call: the number of the operation that began the call; that of the operation itself for notes
    :param deadline_ms: when the call has to have ended (ms); None: no bound
    :param error: what it has failed with
    """

    number: int
    time_ms: int
    process: str
    outcome: Outcome
    call: int
    action: Action
    deadline_ms: int | None = None
    error: str = ""

    def line(self) -> str:
        """Return it as JSON, in one line, with its fields in a fixed order."""
        found: dict[str, Any] = {"n": self.number, "ms": self.time_ms, "who": self.process, "is": self.outcome.value}
        if self.call != self.number:
            found["call"] = self.call
        found["what"] = self.action.name
        for field in fields(self.action):
            value = getattr(self.action, field.name)
            if _is_told(value):
                found[field.name] = value
        if self.deadline_ms is not None:
            found["deadline"] = self.deadline_ms
        if self.error:
            found["error"] = self.error
        return json.dumps(found, separators=(",", ":"))

    def __str__(self) -> str:
        told = " ".join(
            f"{field.name}={_short(getattr(self.action, field.name))}"
            for field in fields(self.action)
            if _is_told(getattr(self.action, field.name))
        )
        tail = f" ({self.error})" if self.error else ""
        verb = f"{self.action.name} {self.outcome.value}" if self.outcome is not Outcome.NOTE else self.action.name
        return f"{self.time_ms / 1000:9.3f} s  #{self.number:<5} {self.process:<14} {verb:<22} {told}{tail}".rstrip()


def _is_told(value: Any) -> bool:
    """Return whether a field says anything."""
    return value is not None and value is not False and value not in ("", ())


def _short(value: Any) -> str:
    """Return a value as a line of a timeline has it."""
    if isinstance(value, Read):
        span = f"{value.offsets[0]}..{value.offsets[-1]}" if value.offsets else ""
        return f"{value.topic}-{value.partition}@{span}:{','.join(map(str, value.values))}"
    if isinstance(value, Place):
        return f"{value.topic}-{value.partition}@{value.offset}"
    if isinstance(value, tuple) and not isinstance(value, TopicPartition):
        return "[" + " ".join(map(_short, value)) + "]"
    return str(value)


class History:
    """The calls of programs with their answers, in the order in which they happened.

        call = history.invoke("p1", Send("orders", value=7), deadline_ms=30_000)
        history.ok("p1", call, Send("orders", value=7, partition=0, offset=12))

    :param now_ms: returns the time (ms)
    :param lock: held while a line is added, if programs run on threads; None: they do not
    """

    def __init__(self, now_ms: Callable[[], int], lock: AbstractContextManager[Any] | None = None) -> None:
        self._now_ms = now_ms
        self._lock = lock or nullcontext()
        self.operations: list[Operation] = []

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    def invoke(self, process: str, action: Action, timeout_ms: int | None = None) -> Operation:
        """Add the begin of a call.

        :param timeout_ms: after which it has to have ended (ms); None: no bound
        """
        return self._add(process, Outcome.INVOKE, action, None, timeout_ms)

    def ok(self, begun: Operation, action: Action | None = None) -> Operation:
        """Add the end of a call that has succeeded.

        :param action: with what was answered; None: as it began
        """
        return self._add(begun.process, Outcome.OK, action or begun.action, begun)

    def fail(self, begun: Operation, error: object = "") -> Operation:
        """Add the end of a call that certainly had no effect."""
        return self._add(begun.process, Outcome.FAIL, begun.action, begun, error=str(error))

    def unknown(self, begun: Operation, error: object = "") -> Operation:
        """Add the end of a call that may have had its effect."""
        return self._add(begun.process, Outcome.UNKNOWN, begun.action, begun, error=str(error))

    def note(self, process: str, action: Action) -> Operation:
        """Add something that happened, and is no call."""
        return self._add(process, Outcome.NOTE, action, None)

    def _add(
        self,
        process: str,
        outcome: Outcome,
        action: Action,
        begun: Operation | None,
        timeout_ms: int | None = None,
        error: str = "",
    ) -> Operation:
        with self._lock:
            number, now_ms = len(self.operations), self._now_ms()
            call = number if begun is None else begun.number
            deadline_ms = None if timeout_ms is None else now_ms + timeout_ms
            added = Operation(number, now_ms, process, outcome, call, action, deadline_ms, error)
            self.operations.append(added)
        return added

    def lines(self) -> Iterator[str]:
        """Return the operations as JSON, one a line: the same bytes for the same history."""
        return (operation.line() for operation in self.operations)

    def write(self, file: TextIO) -> None:
        """Write the lines to a file."""
        file.writelines(line + "\n" for line in self.lines())
