"""`MetadataRefresh`: asks for metadata, one worker at a time. `RefreshSchedule`: about what; `MetadataQuestion`: whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, NamedTuple

from pykafka.exceptions import (
    FieldValueError,
    KafkaException,
    NoBrokersAvailableError,
    ResponseTimeoutError,
    SocketDisconnectedError,
)
from pykafka.handlers.interrupts import SingleCaller
from pykafka.metadata.brokers import countdown
from pykafka.metadata.elections import ASKED_IN_TIME
from pykafka.network.patience import Patience
from pykafka.protocol import wire
from pykafka.utils.error_handlers import QUICK_ANSWER_MS, left_ms

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node
    from pykafka.utils.backoff import Backoff


#: How long the client keeps a topic up to date after the application asked about it (s): Kafka's metadata.max.idle.ms.
IN_USE_S = 300.0
#: How long requests for other topics include a topic without leaders that no worker has wanted again (s).
LEADERLESS_KEPT_S = 5.0
#: The longest name that a request has room for (bytes), and how much of a longer one an error shows (characters).
NAME_MAX_BYTES = 32767
NAME_SHOWN = 20

#: How often a call that waits looks whether another one still updates (s).
UPDATE_POLL_INTERVAL_S = 0.01

#: The versions to ask in after a hang-up: the last one without tagged fields, and the first that can leave topics uncreated.
LOWER_VERSIONS = (8, 4)
#: How often in a row a broker must hang up on the higher version before the client begins with the lower one.
HANG_UPS = 2
#: The least time of each broker in a question with a limit (ms): more questions would be no help to a call with little time.
LEAST_SHARE_MS = 500
#: After how long the next broker is asked in a question without a limit (ms).
NEXT_BROKER_MS = 3000
#: How often a question that waits looks for answers, if no event reports them (s).
LOOK_S = 1.0


class _Leaderless(NamedTuple):
    """A topic without leaders: the number of such answers in a row, when to ask again, when a worker last wanted it."""

    times: int
    again_at: float
    wanted_at: float


class RefreshSchedule:
    """The record of when the client asked about each topic.

    State: changes under the cluster's lock, but for what `want` notes, which anybody may call.

    :param now: the handler's clock (s)
    :param backoff: pauses before topics without leaders are asked about again
    :param max_age_s: how old the metadata of topics in use becomes (s)
    """

    def __init__(self, now: Callable[[], float], backoff: Backoff, max_age_s: float) -> None:
        self.max_age_s = max_age_s
        self._now = now
        self._backoff = backoff
        #: How often the cluster took over fresh metadata.
        self.generation = 0
        #: Whether a question is under way.
        self.asking = False
        #: At which generation all topics in use were asked about last.
        self.complete_generation = 0
        # At which generation all topics that there are were asked about, and some of them since.
        self._all_generation = 0
        self._covered: dict[str, int] = {}
        #: When the topics in use were asked about (s).
        self.updated_at = -math.inf
        # When all topics that there are were asked about, and some of them since (s).
        self._all_at = -math.inf
        self._asked_at: dict[str, float] = {}
        # When a worker last wanted a topic (s).
        self._wanted_at: dict[str, float] = {}
        # Topics that were last found without leaders, or not at all.
        self._leaderless: dict[str, _Leaderless] = {}

    @property
    def is_old(self) -> bool:
        """Whether the answer about the topics in use is older than `metadata_max_age_ms`; there may be new partitions."""
        return self._now() - self.updated_at > self.max_age_s

    @property
    def coming_generation(self) -> int:
        """Which generation the answer to the question under way will make; the present one if there is none."""
        return self.asking + self.generation  # in this order: a question that begins in between is asked from now on

    @property
    def all_known(self) -> bool:
        """Whether all topics that there are were asked about within the last `metadata_max_age_ms`."""
        return self._now() - self._all_at <= self.max_age_s

    def age(self, names: Iterable[str]) -> float:
        """Return the age of the oldest answer about one of these topics (s)."""
        return self._now() - min(self._asked_at.get(name, self._all_at) for name in names)

    def want(self, names: Iterable[str]) -> None:
        """Mark topics as used, so that the client keeps them up to date for a while.

        :raises FieldValueError: a name cannot be written; no request that includes it could be, and so none for the others
        """
        now = self._now()
        for name in names:
            if name not in self._wanted_at:
                _check_name(name)
            self._wanted_at[name] = now

    def in_use(self, held: Iterable[str]) -> list[str]:
        """Return the topics to be kept up to date.

        :param held: the names of those that the application holds
        """
        since = self._now() - IN_USE_S
        self._wanted_at = {name: when for name, when in self._wanted_at.copy().items() if when > since}
        return list(dict.fromkeys([*held, *self._wanted_at]))

    def covers(self, seen: int, names: Sequence[str] | None) -> bool:
        """Return whether topics were asked about since a generation.

        :param seen: the generation
        :param names: of the topics; None: those in use
        """
        if self._all_generation > seen:
            return True
        if names is None:
            return self.complete_generation > seen
        return all(self._covered.get(name, 0) > seen for name in names)

    def due(self, names: Iterable[str]) -> list[str]:
        """Return which topics to ask about at once if these are wanted: them, and others without leaders.

        None if all of these were found without leaders a moment ago.
        """
        now = self._now()
        wanted = dict.fromkeys(names)
        for name in wanted:
            if name in self._leaderless:
                self._leaderless[name] = self._leaderless[name]._replace(wanted_at=now)
        if all(name in self._leaderless and self._leaderless[name].again_at > now for name in wanted):
            return []
        self._leaderless = {
            name: miss for name, miss in self._leaderless.items() if now - miss.wanted_at < LEADERLESS_KEPT_S
        }
        return [*wanted, *(name for name in self._leaderless if name not in wanted)]

    def asked(self, names: Sequence[str] | None, led: Callable[[str], bool], names_brokers: bool = True) -> None:
        """Note that topics were asked about.

        :param names: which; None: all there are
        :param led: returns whether each partition of a topic has a leader now
        :param names_brokers: whether the answer named brokers, so that it can be believed
        """
        self.generation += 1
        now = self._now()
        if names is None:
            self.updated_at = now
            if names_brokers:
                self._all_at = now
            self._asked_at = {}
            self.complete_generation = self._all_generation = self.generation
            self._covered = {}
        else:
            self._covered |= dict.fromkeys(names, self.generation)
            self._asked_at |= dict.fromkeys(names, now)
        for name in list(self._leaderless) if names is None else names:
            if led(name):
                self._leaderless.pop(name, None)
                continue
            times = self._leaderless[name].times + 1 if name in self._leaderless else 1
            wanted_at = self._leaderless[name].wanted_at if name in self._leaderless else now
            self._leaderless[name] = _Leaderless(times, now + self._backoff.seconds(times), wanted_at)

    def asked_in_use(self) -> None:
        """Note that the last request was for all topics in use."""
        self.updated_at = self._now()
        self.complete_generation = self.generation


def _check_name(name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        text = f"the topic name {name!r} has half of a surrogate pair, which UTF-8 cannot express"
        raise FieldValueError(text, api="Metadata") from None
    if size > NAME_MAX_BYTES:
        text = f"the topic name {name[:NAME_SHOWN]!r}... has {size} bytes; brokers take 249 characters"
        raise FieldValueError(text, api="Metadata")


class MetadataRefresh:
    """The updates of a cluster's metadata, one at a time.

    State: one call is in `_callers` during each update, so any number of workers that find a leader gone cause one request.

    :param handler: supplies the locks
    :param schedule: has the times of the updates
    :param update: asks the cluster for some topics (None: all), for so long (ms; None: as long as it takes), and takes the
        answer over; one call at a time
    :param held: gives the names of the topics that the application holds
    :param doubting: notes that a worker doubts the known leaders of topics while it updates them
    """

    def __init__(
        self,
        handler: Handler,
        schedule: RefreshSchedule,
        update: Callable[[list[str] | None, int | None], object],
        held: Callable[[], Iterable[str]],
        doubting: Callable[[Iterable[str]], AbstractContextManager[None]],
    ) -> None:
        self._handler = handler
        self._schedule = schedule
        self._update = update
        self._held = held
        self._doubting = doubting
        self.after_fork()

    def after_fork(self) -> None:
        """Begin anew in a forked child: a call of the parent may have been inside."""
        self._schedule.asking = False
        self._callers = SingleCaller(self._handler)
        # When the last call has asked, of the handler's clock (s).
        self._began = 0.0
        # Calls without a limit go one after the other: only the first one waits for its turn.
        self._line = self._handler.Lock()
        # Asks for calls whose own time is too short.
        self._patience = Patience(self._handler, "metadata")

    def all(self) -> None:
        """Update all topics in use."""
        self._alone(None, self._update_in_use)

    def topics(self, names: list[str] | None, timeout_ms: int | None = None) -> None:
        """Update some topics now.

        :param names: None for all topics of the cluster
        :param timeout_ms: how long this may take; None: as long as brokers take, one after the other. A call whose time is too
            short for an answer leaves a worker that asks, for the next call
        :raises NoBrokersAvailableError: no broker answered, or another worker asked them for all that time
        """
        self._schedule.want(names or ())
        self._alone(timeout_ms, lambda left_ms: self._ask(names, left_ms))

    def since(self, seen: int, names: list[str] | None, timeout_ms: int | None = None) -> None:
        """Update topics, unless that was done since a generation; all topics in use if the metadata is old.

        :param seen: the generation
        :param names: None for all topics in use
        :param timeout_ms: see `topics`
        """
        self._schedule.want(names or ())

        def ask(left_ms: int | None) -> None:
            if self._schedule.covers(seen, names):
                return
            with self._doubting(names or ()):
                if names is None or self._schedule.is_old:
                    self._update_in_use(left_ms)
                else:
                    self._update_if_due(names, left_ms)

        self._alone(timeout_ms, ask)

    def older(self, max_age_s: float, names: list[str], timeout_ms: int | None = None) -> None:
        """Update topics, and those that the application holds, if the oldest answer about them is this old (s).

        :param timeout_ms: see `topics`
        """
        if not names or self._schedule.age(names) < max_age_s:
            return

        def ask(left_ms: int | None) -> None:
            if self._schedule.age(names) >= max_age_s:
                self._ask(sorted({*names, *self._held()}), left_ms)

        self._alone(timeout_ms, ask)

    def lacking(self, find: Callable[[], list[str]], timeout_ms: int | None = None) -> None:
        """Update topics whose leaders are unknown, unless that was done a moment ago.

        :param find: gives their names; called before and under the lock, as another worker may update them meanwhile
        :param timeout_ms: see `topics`
        """
        if not find():
            return

        def ask(left_ms: int | None) -> None:
            names = find()
            if names:
                with self._doubting(names):
                    self._update_if_due(names, left_ms)

        self._alone(timeout_ms, ask)

    def _ask(self, names: list[str] | None, timeout_ms: int | None) -> None:
        self._schedule.asking = True
        self._began = self._handler.now()
        try:
            self._update(names, timeout_ms)
        except KafkaException as error:
            self._patience.take_over(error, timeout_ms, self.topics, names)
            raise
        finally:
            self._schedule.asking = False

    def _alone(self, timeout_ms: int | None, ask: Callable[[int | None], None]) -> None:
        """Ask when no other worker does.

        :param timeout_ms: how long all of this may take; None: no limit
        :param ask: gets how much of that time is left (ms)
        :raises NoBrokersAvailableError: others asked for all that time
        """
        if timeout_ms is None:
            # the turn ends first: the next in line finds it free
            with self._line, (turn := self._handler.Lock()):
                self._callers.await_entry(turn, math.inf, UPDATE_POLL_INTERVAL_S)
                ask(None)
            return
        left_ms = countdown(self._handler.now, timeout_ms)
        wait_s = timeout_ms / 1000
        if timeout_ms <= QUICK_ANSWER_MS:  # not for an answer that is slow already
            wait_s = min(wait_s, max(self._began + QUICK_ANSWER_MS / 1000 - self._handler.now(), 0.0))
        with (turn := self._handler.Lock()):
            if not self._callers.await_entry(turn, wait_s, UPDATE_POLL_INTERVAL_S):
                raise NoBrokersAvailableError(
                    f"another call of this client has asked brokers for metadata for {timeout_ms} ms, and none has answered; "
                    "check hosts=, the network, and that the brokers are up"
                )
            ask(left_ms() or 1)

    def _update_in_use(self, timeout_ms: int | None = None) -> None:
        """Update all topics that the application holds, or has asked about lately."""
        self._ask(self._schedule.in_use(self._held()), timeout_ms)
        self._schedule.asked_in_use()

    def _update_if_due(self, names: Iterable[str], timeout_ms: int | None) -> None:
        """Update topics, and others without leaders, unless all were found without leaders a moment ago."""
        due = self._schedule.due(names)
        if due:
            self._ask(due, timeout_ms)


class MetadataQuestion:
    """One question for metadata to one broker after another.

    A broker that hangs costs little: after its share of the time the next one is asked. Its answer counts all the same, for as
    long as a broker may take: brokers may be slow.

    :param handler: supplies events and the clock
    :param within_ms: the limit of the whole question; None for no limit
    :param brokers: how many there are
    :param check: raises an error if the answer of a broker cannot be used
    """

    def __init__(
        self,
        handler: Handler,
        within_ms: int | None,
        brokers: int,
        check: Callable[[Node, wire.MetadataResponse], object],
    ) -> None:
        self._handler = handler
        self._limited = within_ms is not None
        self._check = check
        self._share_ms: int | None = None
        if brokers > 1:
            share_ms = NEXT_BROKER_MS if within_ms is None else within_ms // min(ASKED_IN_TIME, brokers)
            self._share_ms = max(LEAST_SHARE_MS, share_ms)
        self._sent: dict[Node, InFlightRequest[wire.MetadataResponse]] = {}

    def ask(
        self, broker: Node, request: wire.MetadataRequest, timeout_ms: int | None, ceiling: int | None
    ) -> wire.MetadataResponse:
        """Return the answer of a broker, or of one that was asked before; parameters: see `call_metadata`."""
        if self._share_ms is not None:
            # A broker that has to be asked for its versions first, as 0.8.2 does for seconds, does not hang.
            until = None if timeout_ms is None else self._handler.now() + timeout_ms / 1000
            broker.api_version(wire.MetadataRequest, ceiling, timeout_ms)
            rest_ms = broker.socket_timeout_ms if until is None else left_ms(until, self._handler.now(), 1)
            timeout_ms = min(rest_ms, self._share_ms)

        def note(sent: InFlightRequest[wire.MetadataResponse]) -> None:
            self._sent[broker] = sent

        try:
            answer = call_metadata(broker, request, timeout_ms, ceiling, self._handler, self._limited, note)
        except ResponseTimeoutError:
            answers = list(self._arrived())
            if not answers:
                raise
            return answers[0]
        self._check(broker, answer)
        return answer

    def late(self) -> Iterator[wire.MetadataResponse]:
        """Yield the answers that come when all brokers were asked; in a question with a limit, those that have come."""
        arrived = self._handler.Event()
        for sent in self._sent.values():
            sent.add_done_callback(lambda _: arrived.set())
        while True:
            arrived.clear()
            yield from self._arrived()
            due = max((sent.deadline for sent in self._sent.values()), default=0.0)
            rest_s = due - self._handler.now()
            if self._limited or rest_s <= 0:
                return
            arrived.wait(min(rest_s, LOOK_S))

    def _arrived(self) -> Iterator[wire.MetadataResponse]:
        for broker, sent in list(self._sent.items()):
            if sent.done:
                del self._sent[broker]
                with suppress(KafkaException):  # or it gave none, and was asked again
                    answer = sent.get()
                    self._check(broker, answer)
                    yield answer


def call_metadata(
    broker: Node,
    request: wire.MetadataRequest,
    timeout_ms: int | None,
    ceiling: int | None,
    handler: Handler,
    strict: bool = False,
    on_sent: Callable[[InFlightRequest[wire.MetadataResponse]], object] | None = None,
) -> wire.MetadataResponse:
    """Ask one broker; again in lower versions if it closes the connection, as some proxies do instead of refusing.

    :param timeout_ms: for all of it; None for the socket timeout
    :param ceiling: no version above this one
    :param handler: supplies the clock
    :param strict: throttling does not put that time off
    :param on_sent: see `Node.call`
    """
    deadline = handler.now() + (broker.socket_timeout_ms if timeout_ms is None else timeout_ms) / 1000
    is_lowered = broker.metadata_hang_ups >= HANG_UPS
    if is_lowered:
        ceiling = min(broker.metadata_ceiling, broker.metadata_ceiling if ceiling is None else ceiling)
    try:
        answer = broker.call(request, timeout_ms=timeout_ms, ceiling=ceiling, strict=strict, on_sent=on_sent)
        broker.metadata_hang_ups = HANG_UPS if is_lowered else 0
        return answer
    except SocketDisconnectedError as error:
        if not _is_hang_up(broker, error):
            broker.metadata_hang_ups = 0
            raise
        hung_up = error
    asked = broker.api_version(wire.MetadataRequest, ceiling, left_ms(deadline, handler.now(), 1))
    for lower in LOWER_VERSIONS:
        timeout_ms = left_ms(deadline, handler.now(), 0)
        if lower >= asked or not timeout_ms:
            continue
        broker.drop_channel("main")  # its pause after a failure is for brokers that are away
        try:
            answer = broker.call(request, timeout_ms=timeout_ms, ceiling=lower, strict=strict)
        except SocketDisconnectedError as error:
            if not _is_hang_up(broker, error):
                raise
            continue
        broker.metadata_ceiling = lower
        broker.metadata_hang_ups += 1
        return answer
    broker.metadata_hang_ups = 0
    raise hung_up


def _is_hang_up(broker: Node, error: SocketDisconnectedError) -> bool:
    """Return whether the broker closed a connection that had come about."""
    return type(error) is SocketDisconnectedError and not error.attempts and broker.knows_versions
