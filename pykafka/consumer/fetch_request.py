"""`FetchRequests`: the Fetch requests of one worker, each from a plan and the session so far. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from uuid import UUID

from pykafka.common import TopicPartition
from pykafka.consumer.leader_epochs import FETCH_COMPARES_FROM, NO_EPOCH
from pykafka.exceptions import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from pykafka.protocol import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pykafka.consumer.fetch_plan import Plan


K = TypeVar("K")
V = TypeVar("V")

#: Brokers have sessions from this version of Fetch on.
SESSIONS_FROM = 7
#: The number that stands for no session.
NO_SESSION = 0
#: The epoch of a request that begins a session, and of one that ends it, or is of none.
FIRST_EPOCH = 0
FINAL_EPOCH = -1
#: After the highest epoch comes the one after the first.
LAST_EPOCH = 2**31 - 1
#: The errors of an answer that mean that the session is over, and that the same is to be asked by a full request.
SESSION_ERRORS = frozenset(
    kind.ERROR_CODE for kind in (FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError)
)
#: So many sessions in a row that end before an answer comes: brokers behind one address do not share sessions.
REFUSED_AT_MOST = 3

#: While a partition waits to be read, requests for others wait this long at first (ms), so that it can join again soon.
SHORT_WAIT_MS = 5
#: From this version on Fetch names topics by id, and the highest version that the client uses for that.
IDS_FROM = 13
IDS_CEILING = 18
NO_ID = UUID(int=0)
#: What identifies a partition in a session: the id is None if requests name topics.
Key = tuple[TopicPartition, "UUID | None"]
#: The part of a request that is about one partition, which is named again when that has changed: offset, the leader epoch of
#: the record before it, the epoch of the known leader, and how much to fetch (bytes).
Wanted = tuple[int, int, int, int]


class Step(NamedTuple):
    """The number and the epoch of a request."""

    session_id: int
    epoch: int


class Request(NamedTuple, Generic[K, V]):
    """The content of a request.

    :param step: which request of which session it is
    :param named: the partitions to name
    :param forgotten: the partitions to remove from the session, each as it was named last
    :param full: whether the answer has all partitions, also those without news
    """

    step: Step
    named: Mapping[K, V]
    forgotten: Mapping[K, V]
    full: bool


class FetchSession(Generic[K, V]):
    """The session of one connection. One worker owns it.

    `K` is a partition, and `V` what requests say of it; a partition is named again when that has changed.
    """

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[K, V] = {}
        self._by_id = False
        self._refused = 0

    @property
    def id(self) -> int:
        """The broker's number of the session; `NO_SESSION` without one."""
        return self._id

    @property
    def is_open(self) -> bool:
        """Whether the broker has a session to end."""
        return self._id != NO_SESSION

    def next(self, wanted: Mapping[K, V], by_id: bool) -> Request[K, V]:
        """Return the next request.

        :param wanted: the partitions to fetch
        :param by_id: whether the request names topics by id: all requests of a session do, or none
        """
        if self._refused >= REFUSED_AT_MOST:
            return Request(Step(NO_SESSION, FINAL_EPOCH), wanted, {}, full=True)
        if by_id != self._by_id:
            self.failed()
        self._by_id = by_id
        step = Step(self._id, self._epoch)
        if self._epoch == FIRST_EPOCH:
            self._known = dict(wanted)
            return Request(step, wanted, {}, full=True)
        known = self._known
        named: dict[K, V] = {}
        added = 0
        for key, value in wanted.items():
            before = known.get(key)
            if before != value:
                named[key] = value
                added += before is None
        # as many as before, and all of those: nothing to forget
        forgotten: dict[K, V] = {}
        if len(known) + added != len(wanted):
            forgotten = {key: value for key, value in known.items() if key not in wanted}
            for key in forgotten:
                del known[key]
        known.update(named)
        self._advance()
        return Request(step, named, forgotten, full=False)

    def repeat(self) -> Step | None:
        """Return the step of a request that wants what the one before did; None: the session has to begin."""
        if self._epoch == FIRST_EPOCH or self._refused >= REFUSED_AT_MOST:
            return None
        step = Step(self._id, self._epoch)
        self._advance()
        return step

    def answered(self, session_id: int) -> None:
        """Process an answer without an error.

        :param session_id: that it has; 0: the broker has no session for this connection
        """
        self._refused = 0
        if session_id == NO_SESSION:
            self._begin_anew(NO_SESSION)
        elif self._epoch == FIRST_EPOCH or session_id != self._id:
            self._id = session_id
            self._epoch = FIRST_EPOCH
            self._advance()

    def refused(self) -> bool:
        """Process an answer that says that the session is over.

        :returns: whether to ask for the same by another request at once; False: the request was of no session
        """
        self._refused += 1
        self._begin_anew(NO_SESSION)
        return self._refused <= REFUSED_AT_MOST

    def failed(self) -> None:
        """Begin again: a request may have reached the broker or not. The next one ends the session that may still be there."""
        self._epoch, self._known = FIRST_EPOCH, {}

    def _begin_anew(self, session_id: int) -> None:
        self._id = session_id
        self._epoch = FIRST_EPOCH
        self._known = {}

    def _advance(self) -> None:
        self._epoch = FIRST_EPOCH + 1 if self._epoch == LAST_EPOCH else self._epoch + 1


class FetchSettings(NamedTuple):
    """The settings that must be equal for consumers to share a fetch worker.

    :param max_wait_ms: how long the broker may wait for data (ms)
    :param min_bytes: how much data the broker waits for (bytes)
    :param isolation_level: 0 reads all, 1 only what was committed
    :param slot: the number of the worker, among several with the same settings
    :param rack: of the consumers; the broker may name a replica there
    """

    max_wait_ms: int = 100
    min_bytes: int = 1
    isolation_level: int = 0
    slot: int = 0
    rack: str = ""

    @property
    def channel(self) -> str:
        """The name of the connection that these settings use."""
        name = f"fetch:{self.max_wait_ms}:{self.min_bytes}:{self.isolation_level}:{self.slot}"
        return f"{name}:{self.rack}" if self.rack else name


class FetchRequests:
    """The requests of one fetch worker, which alone uses them: its session, and how long the broker may wait.

    :param settings: those of all partitions
    """

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        self._short_wait_ms = SHORT_WAIT_MS
        self.session: FetchSession[Key, Wanted] = FetchSession()
        #: The plan and the version of the last request.
        self.plan: Plan | None = None
        self.version = -1
        # The request that repeats it within a session, naming no partition.
        self._repeated: wire.FetchRequest | None = None

    def repeat(self) -> wire.FetchRequest | None:
        """Return a request that wants what the last one did, in the same version; None: only `next` can make one."""
        if self.version < SESSIONS_FROM or self.plan is None or (step := self.session.repeat()) is None:
            return None
        request = self._repeated
        if request is None or request.session_id != step.session_id:
            request = self._repeated = self._request(self.plan, step)
            request.keep_body(self.version)
        request.session_epoch = step.epoch
        return request

    def next(self, plan: Plan, version: int) -> tuple[wire.FetchRequest, bool]:
        """Return the next request, and whether its answer has all partitions of the plan.

        :param plan: that of the request before, if nothing has changed since
        :param version: of the request; up to `IDS_CEILING` if the plan has ids, and else up to the one before `IDS_FROM`
        """
        by_id = version >= IDS_FROM
        if plan is self.plan and version == self.version and (repeated := self.repeat()) is not None:
            return repeated, False
        self.plan, self.version, self._repeated = plan, version, None
        wanted: dict[Key, Wanted] = {}
        for key, asked in plan.partitions.items():
            # A session by name knows nothing of ids: a name that is fetched on and forgotten in one request is forgotten.
            wanted[key, asked.topic_id if by_id else None] = asked[:4]
        if version >= SESSIONS_FROM:
            sent = self.session.next(wanted, by_id)
        else:
            sent = Request(Step(NO_SESSION, FINAL_EPOCH), wanted, {}, full=True)
        request = self._request(plan, sent.step)
        request.topics = _topics(sent.named, version >= FETCH_COMPARES_FROM)
        if sent.forgotten:
            request.forgotten_topics_data = _forgotten_topics(sent.forgotten)
        return request, sent.full

    def _request(self, plan: Plan, step: Step) -> wire.FetchRequest:
        """Return a request that names no partition."""
        wait_ms = longest = self._settings.max_wait_ms
        if not plan.held_back:
            self._short_wait_ms = SHORT_WAIT_MS
        else:
            wait_ms = min(longest, self._short_wait_ms)
            self._short_wait_ms = min(self._short_wait_ms * 2, max(longest, SHORT_WAIT_MS))
        return wire.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=self._settings.min_bytes,
            max_bytes=plan.max_bytes,
            isolation_level=self._settings.isolation_level,
            session_id=step.session_id,
            session_epoch=step.epoch,
            rack_id=self._settings.rack,
        )

    def last(self) -> wire.FetchRequest:
        """Return the request that ends the session."""
        return wire.FetchRequest(session_id=self.session.id, session_epoch=FINAL_EPOCH, min_bytes=0)


def _topics(named: Mapping[Key, Wanted], compares: bool) -> list[wire.FetchRequest.Topic]:
    """Return the partitions to name.

    :param compares: whether the broker compares logs, and so wants the epoch of the record before the offset
    """
    topics: dict[tuple[str, UUID | None], wire.FetchRequest.Topic] = {}
    for ((name, partition), id_), (offset, log_epoch, leader_epoch, size) in named.items():
        topic = topics.get((name, id_))
        if topic is None:
            topic = topics[name, id_] = wire.FetchRequest.Topic(topic=name, topic_id=id_ or NO_ID, partitions=[])
        topic.partitions.append(
            wire.FetchRequest.Topic.Partition(
                partition=partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=log_epoch if compares else NO_EPOCH,
                partition_max_bytes=size,
            )
        )
    return list(topics.values())


def _forgotten_topics(forgotten: Iterable[Key]) -> list[wire.FetchRequest.ForgottenTopic]:
    by_topic: dict[tuple[str, UUID | None], list[int]] = defaultdict(list)
    for (topic, partition), id_ in forgotten:
        by_topic[topic, id_].append(partition)
    return [
        wire.FetchRequest.ForgottenTopic(topic=topic, topic_id=id_ or NO_ID, partitions=ids)
        for (topic, id_), ids in by_topic.items()
    ]
