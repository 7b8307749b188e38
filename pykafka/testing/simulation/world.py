"""`World`: what the programs of a simulation share: the cluster, the history, and what has to be read in the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, TypeVar

from pykafka.client import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import AdminError, KafkaException
from pykafka.handlers.base import Handler
from pykafka.testing.checks.errors import AND
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.history import Call, Crash, History, Outcome, Send
from pykafka.testing.simulation.owners import Owners
from pykafka.testing.simulation.remade import Remade
from pykafka.testing.virtual import Network, VirtualHandler
from pykafka.testing.virtual.process import VirtualProcess

T = TypeVar("T")

#: How long programs wait for a call (ms).
CALL_MS = 5_000
#: How long a client may take to connect (ms): it asks each broker, twice.
CONNECT_MS = 60_000
#: The pause before a program tries again what has failed (s).
_PAUSE_S = 0.2
#: How long after the last fault calls may still fail (ms), besides the time-out of a request without an answer: some pauses.
GRACE_MS = 3_000


class BrokenPromiseError(Exception):
    """A call did not do what its documentation says, and no operation of a history can show that."""


def name_of(error: KafkaException) -> str:
    """Return the name of an error for the history; those of all items that a call of administration has failed for."""
    if isinstance(error, AdminError):
        return AND.join(sorted({name_of(one) for one in error.errors.values()}))
    return type(error).__name__


class World:
    """The cluster, the history and the aims of one simulation.

    :param cluster: a FakeCluster; programs also take a RealCluster (`simulation/against.py`), of which they know `hosts` alone
    :param seed: of all that programs draw
    :param network: of virtual time; None on other handlers, which have no faults of the network then
    """

    def __init__(
        self, seed: int, handler: Handler, cluster: FakeCluster, history: History, network: Network | None
    ) -> None:
        self.seed = seed
        self.handler = handler
        self.cluster = cluster
        self.history = history
        self.network = network
        self.hosts = cluster.hosts
        times = self.random("times")
        #: The time-out of the clients' requests, and how old a message may get (ms).
        self.socket_ms = times.choice((1_000, 3_000))
        self.delivery_ms = times.choice((2_000, 8_000))
        #: How long after the last fault calls may still fail (ms).
        self.grace_ms = self.socket_ms + GRACE_MS
        #: How long a commit of a transaction may take (ms): seldom long enough for an answer that is held.
        self.commit_ms = times.choice((500, CALL_MS))
        self.stopping = handler.Event()
        #: Set when the last fault has been put right.
        self.well = handler.Event()
        #: How old the metadata of a broker may be (ms): while faults last, and from then on.
        self.stale_ms = self.settles_ms = 0
        #: Whether the faults are over, in a run that has such a time; when they were (ms): -1 if calls may still fail then.
        self.calm = handler.Event()
        self.calm_ms = -1
        #: Whether the faults end before the programs do.
        self.is_live = False
        #: Returns the rack of a process, in a seed that has racks.
        self.rack_of: Callable[[str], str | None] = lambda process: None
        #: Notes what an election has done, which is no step of the plan of faults.
        self.note_leaders: Callable[[], object] = int
        #: Names and errors of programs that have failed.
        self.errors: list[tuple[str, BaseException]] = []
        #: The acknowledged values of each topic, and those that each reader (a group, or a process without one) has seen.
        self.acknowledged: dict[str, set[int]] = defaultdict(set)
        self.seen: dict[str, set[int]] = defaultdict(set)
        #: The causes of results, and the causes whose results were read.
        self.causes: dict[int, int] = {}
        self.handled: set[int] = set()
        #: The first offsets that are left of partitions whose records were deleted.
        self.first_offsets: dict[TopicPartition, int] = {}
        self._values = count(1)
        #: What the topic has had that is deleted and made anew, in a seed that has one.
        self.remade: Remade | None = None
        self.owners = Owners(cluster, self.errors)
        self._processes: dict[str, VirtualProcess] = {}
        # What a crash leaves is kept to the end: finalizers must not close what no process has any more.
        self._crashed: list[object] = []

    def random(self, name: str) -> Random:
        """Return a source of chance for one program: what it draws does not depend on others."""
        return Random(f"{name} of {self.seed}")

    def new_value(self) -> int:
        """Return a value that no other record has."""
        return next(self._values)

    def acknowledge(self, topic: str, values: Iterable[int]) -> None:
        """Note values that have to be read in the end."""
        self.acknowledged[topic].update(values)

    def forget_before(self, partition: TopicPartition, offset: int) -> None:
        """Note that the records before an offset are deleted, or may be."""
        self.first_offsets[partition] = offset

    def expected(self, topic: str) -> set[int]:
        """Return the acknowledged values of a topic but for those whose records may be deleted."""
        if not any(key.topic == topic for key in self.first_offsets):
            return self.acknowledged[topic]
        sent = [one.action for one in self.history if isinstance(one.action, Send) and one.outcome is Outcome.OK]
        gone = {one.value for one in sent if self._is_gone(one)}
        return self.acknowledged[topic] - gone

    def _is_gone(self, sent: Send) -> bool:
        first = self.first_offsets.get(TopicPartition(sent.topic, sent.partition or 0))
        return first is not None and (sent.offset is None or sent.offset < first)

    def saw(self, reader: str, value: int) -> None:
        """Note a value that was read."""
        self.seen[reader].add(value)
        if value in self.causes:
            self.handled.add(self.causes[value])

    def call(self, process: str, what: str, fn: Callable[[], T], timeout_ms: int = CALL_MS) -> T | None:
        """Make a call, with its begin and its end in the history; return its result, or None if it has failed."""
        begun = self.history.invoke(process, Call(what), timeout_ms)
        try:
            result = fn()
        except KafkaException as error:
            self.history.unknown(begun, name_of(error))
            return None
        self.history.ok(begun)
        return result

    def pause(self) -> bool:
        """Wait before another attempt; return whether there is one."""
        self.stopping.wait(_PAUSE_S)
        return not self.stopping.is_set()

    def dawdle(self, seconds: float) -> None:
        """Wait, but not into the calm time: the program's next calls may fail, as its group has put it out."""
        (self.calm if self.is_live else self.stopping).wait(seconds)

    def await_calm(self) -> bool:
        """Wait until the faults are over, and calls have to succeed; return whether there is such a time."""
        if self.is_live and not self.stopping.is_set():
            self.calm.wait()
            self.handler.sleep(self.grace_ms / 1000)
        return self.is_live and not self.stopping.is_set()

    @contextmanager
    def client(self, process: str, **options: Any) -> Iterator[KafkaClient | None]:
        """Yield a client, and close it; None if the simulation ends before one could connect."""
        client: KafkaClient | None = None
        while client is None and not self.stopping.is_set():
            client = self.call(process, "connect", lambda: self._connect(process, options), CONNECT_MS)
            if client is None:
                self.pause()
        try:
            yield client
        finally:
            if client is not None and not any(one is client for one in self._crashed):
                self.call(process, "close client", client.close, 2 * CALL_MS)

    def can_crash(self, process: str) -> bool:
        """Return whether the client of a process can be killed: only handlers of virtual time do that."""
        return process in self._processes

    def crash(self, process: str, *left: object) -> bool:
        """Kill the client of a process; return whether its handler can do that.

        :param left: the client, and what was made by it
        """
        killed = self._processes.pop(process, None)
        if killed is None:
            return False
        self.history.note(process, Crash())
        self._crashed += [killed, *left]
        killed.crash()
        return True

    def _connect(self, process: str, options: dict[str, Any]) -> KafkaClient:
        handler = self.handler
        if isinstance(handler, VirtualHandler):
            handler = self._processes[process] = VirtualProcess(handler, process)
        return KafkaClient(
            self.hosts,
            handler=handler,
            client_id=process,
            socket_timeout_ms=self.socket_ms,
            offsets_channel_socket_timeout_ms=self.socket_ms,
            retry_backoff_ms=50,
            retry_backoff_max_ms=400,
            reconnect_backoff_max_ms=400,
            enable_metrics_push=False,
            record_metrics=False,
            flight_recorder_bytes=0,
            stall_report_ms=0,
            hold_report_ms=0,
            client_rack=self.rack_of(process),
            **options,
        )

    def guarded(self, name: str, run: Callable[[], object]) -> Callable[[], None]:
        """Return a function that runs a program, and keeps the error that ends it."""

        def program() -> None:
            try:
                run()
            except Exception as error:  # noqa: BLE001  (the simulation reports it)
                self.errors.append((name, error))

        return program
