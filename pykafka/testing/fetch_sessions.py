"""`FetchSessions`: what one broker remembers of its readers, so that requests and answers name only what changed (KIP-227)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pykafka.exceptions import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch

if TYPE_CHECKING:
    from pykafka.protocol.wire import FetchRequest, FetchResponse

#: max.incremental.fetch.session.cache.slots, and how long a session is safe from larger ones (ms).
SLOTS = 1000
EVICTION_MS = 120_000
#: The first version with sessions, and the first with topic ids.
_FIRST_WITH_SESSIONS = 7
_FIRST_WITH_IDS = 13
_INITIAL, _FINAL = 0, -1
_LAST_EPOCH = 2**31 - 1


@dataclass(eq=False, slots=True)
class Wanted:
    """A partition that a reader asks for.

    :param name: of the topic, as in the request; "" if it has an id
    :param topic_id: of the topic
    :param asked: offset, sizes, epochs
    """

    name: str
    topic_id: UUID
    asked: Any
    #: What the reader was told last.
    high_watermark: int = -1
    log_start: int = -1

    @property
    def topic(self) -> str | UUID:
        """The topic's name, or id if the request has no names."""
        return self.name or self.topic_id

    def has_news(self, answer: FetchResponse.Topic.Partition) -> bool:
        """Return whether an incremental answer has to have this partition, and remember what it says."""
        news = bool(
            answer.records
            or answer.error_code
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start
            or answer.preferred_read_replica >= 0
            or answer.diverging_epoch.epoch >= 0
        )
        self.high_watermark = -1 if answer.error_code else answer.high_watermark
        self.log_start = answer.log_start_offset
        return news


class FetchSession:
    """A session: the partitions of one reader.

    :param session_id: as the broker named it
    :param has_ids: whether its requests name topics by id
    :param now_ms: the time (ms)
    """

    __slots__ = ("created_ms", "epoch", "has_ids", "id", "used_ms", "wanted")

    def __init__(self, session_id: int, has_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.has_ids = has_ids
        #: Of the next request.
        self.epoch = 1
        self.created_ms = self.used_ms = now_ms
        self.wanted: dict[tuple[str | UUID, int], Wanted] = {}

    def update(self, request: FetchRequest) -> None:
        """Add, change and remove the partitions that an incremental request names."""
        for wanted in wanted_of(request):
            key = wanted.topic, wanted.asked.partition
            known = self.wanted.get(key)
            if known is None:
                self.wanted[key] = wanted
            else:
                known.asked = wanted.asked
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self.wanted.pop((forgotten.topic or forgotten.topic_id, index), None)


@dataclass(eq=False, slots=True)
class FetchContext:
    """How one request is answered.

    :param wanted: the partitions to read
    :param session_id: for the answer; 0: there is no session
    :param session: if the answer has only what changed
    :param error: that of the whole answer
    """

    wanted: list[Wanted]
    session_id: int = 0
    session: FetchSession | None = None
    error: int = 0

    def to_send(
        self, answers: list[FetchResponse.Topic.Partition]
    ) -> list[tuple[Wanted, FetchResponse.Topic.Partition]]:
        """Return the answers to send, each with what was asked.

        :param answers: one for each wanted partition
        """
        pairs = list(zip(self.wanted, answers, strict=True))
        changed = [pair for pair in pairs if pair[0].has_news(pair[1])]
        if self.session is None:
            return pairs
        # Who had records is last the next time, so that a full answer starves no partition.
        for wanted, answer in changed:
            key = wanted.topic, wanted.asked.partition
            if answer.records and key in self.session.wanted:  # it may have been forgotten meanwhile
                self.session.wanted[key] = self.session.wanted.pop(key)
        return changed


def wanted_of(request: FetchRequest) -> list[Wanted]:
    """Return the partitions that a request names, in its order."""
    return [Wanted(topic.topic, topic.topic_id, part) for topic in request.topics for part in topic.partitions]


class FetchSessions:
    """The sessions of one broker; a restart forgets them.

    :param new_id: returns a random number of 31 bits
    """

    def __init__(self, new_id: Callable[[], int]) -> None:
        self._new_id = new_id
        self.by_id: dict[int, FetchSession] = {}

    def context(self, request: FetchRequest, version: int, now_ms: int) -> FetchContext:
        """Return how to answer a request, and remember what its session has to.

        :param request: to be answered
        :param version: of it
        :param now_ms: the time (ms)
        """
        if version < _FIRST_WITH_SESSIONS:
            return FetchContext(wanted_of(request))
        if request.session_epoch in (_INITIAL, _FINAL):
            self.by_id.pop(request.session_id, None)
            wanted = wanted_of(request)
            if request.session_epoch == _FINAL or not wanted:
                return FetchContext(wanted)
            return FetchContext(wanted, self._create(wanted, version, now_ms))
        return self._continued(request, version, now_ms)

    def _continued(self, request: FetchRequest, version: int, now_ms: int) -> FetchContext:
        session = self.by_id.get(request.session_id)
        error = 0
        if session is None:
            error = FetchSessionIdNotFound.ERROR_CODE
        elif session.epoch != request.session_epoch:
            error = InvalidFetchSessionEpoch.ERROR_CODE
        elif session.has_ids != (version >= _FIRST_WITH_IDS):
            error = FetchSessionTopicIdError.ERROR_CODE
        if session is None or error:
            return FetchContext([], error=error)
        session.update(request)
        if not session.wanted:
            del self.by_id[session.id]
            return FetchContext([])
        session.used_ms = now_ms
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        return FetchContext(list(session.wanted.values()), session.id, session)

    def _create(self, wanted: list[Wanted], version: int, now_ms: int) -> int:
        # 0 if there are too many sessions.
        if len(self.by_id) >= SLOTS and not self._evict(len(wanted), now_ms):
            return 0
        session_id = 0
        while session_id == 0 or session_id in self.by_id:
            session_id = self._new_id()
        session = self.by_id[session_id] = FetchSession(session_id, version >= _FIRST_WITH_IDS, now_ms)
        session.wanted = {(one.topic, one.asked.partition): one for one in wanted}
        return session_id

    def _evict(self, size: int, now_ms: int) -> bool:
        # Stale sessions go first; then one with fewer partitions that has had its time.
        oldest = min(self.by_id.values(), key=lambda session: session.used_ms)
        smallest = min(self.by_id.values(), key=lambda session: (len(session.wanted), session.used_ms))
        if now_ms - oldest.used_ms > EVICTION_MS:
            del self.by_id[oldest.id]
            return True
        if len(smallest.wanted) < size and now_ms - smallest.created_ms > EVICTION_MS:
            del self.by_id[smallest.id]
            return True
        return False
