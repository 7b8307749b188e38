"""`ShareSessions`: what one broker remembers of members of share groups, from request to request (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykafka.exceptions import InvalidRequest, InvalidShareSessionEpoch, ShareSessionNotFound

if TYPE_CHECKING:
    from pykafka.protocol import wire
    from pykafka.testing.groups.consumer_member import Key

INITIAL, FINAL = 0, -1
_LAST_EPOCH = 2**31 - 1
#: The longest id of a member.
_MEMBER_ID_MAX = 36


@dataclass(eq=False, slots=True)
class ShareSession:
    """The session of one member with one broker."""

    #: Of the next request.
    epoch: int = 1
    #: The partitions to read, and whether no answer has named them yet.
    is_new: dict[Key, bool] = field(default_factory=dict)

    def update(self, request: wire.ShareFetchRequest) -> None:
        """Add and forget the partitions that a request names."""
        for topic in request.topics:
            for part in topic.partitions:
                self.is_new.setdefault((topic.topic_id, part.partition_index), True)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self.is_new.pop((forgotten.topic_id, index), None)

    def advance(self) -> None:
        """Count a request."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def order(self) -> list[Key]:
        """Return the partitions, another one first with each request."""
        keys = list(self.is_new)
        first = self.epoch % max(len(keys), 1)
        return keys[first:] + keys[:first]


class ShareSessions:
    """The sessions of one broker, by group and member. Their end releases what the member has acquired.

    :param release: called with group and member
    """

    def __init__(self, release: Callable[[str, str], object]) -> None:
        self._release = release
        self._by_member: dict[tuple[str, str], ShareSession] = {}

    def for_fetch(self, request: wire.ShareFetchRequest, on_closed: list[Callable[[], object]]) -> ShareSession | None:
        """Return the session that a fetch begins or continues; None if it ends one.

        :param request: the fetch
        :param on_closed: of its connection, whose end ends the session
        :raises InvalidRequest: it acknowledges before it has acquired, or names no member
        :raises ShareSessionNotFound: it has to begin one
        :raises InvalidShareSessionEpoch: its epoch is not the next one
        """
        key = _key(request)
        if request.share_session_epoch != INITIAL:
            session = self._find(request, key)
            if request.share_session_epoch == FINAL:
                return None
            session.update(request)
            session.advance()
            return session
        if any(part.acknowledgement_batches for topic in request.topics for part in topic.partitions):
            raise InvalidRequest("The first fetch of a share session cannot acknowledge.")
        session = self._by_member[key] = ShareSession()
        session.update(request)
        on_closed.append(lambda: self.end(*key, session))
        return session

    def for_acknowledgement(self, request: wire.ShareAcknowledgeRequest) -> None:
        """Continue a session by acknowledgements.

        :raises ShareSessionNotFound: there is none
        :raises InvalidShareSessionEpoch: its epoch is not the next one
        """
        if request.share_session_epoch == INITIAL:
            raise InvalidShareSessionEpoch("An acknowledgement cannot begin a share session.")
        session = self._find(request, _key(request))
        if request.share_session_epoch != FINAL:
            session.advance()

    def _find(
        self, request: wire.ShareFetchRequest | wire.ShareAcknowledgeRequest, key: tuple[str, str]
    ) -> ShareSession:
        session = self._by_member.get(key)
        if session is None:
            raise ShareSessionNotFound("The share session was not found.")
        if request.share_session_epoch not in (FINAL, session.epoch):
            raise InvalidShareSessionEpoch(f"The epoch of the share session is {session.epoch}.")
        return session

    def end(self, group: str, member_id: str, session: ShareSession | None = None) -> None:
        """End the session of a member, unless it has another one by now than the given one."""
        if session in (None, self._by_member.get((group, member_id))):
            self._by_member.pop((group, member_id), None)
            self._release(group, member_id)


def _key(request: wire.ShareFetchRequest | wire.ShareAcknowledgeRequest) -> tuple[str, str]:
    if not request.member_id or len(request.member_id) > _MEMBER_ID_MAX:
        raise InvalidRequest("The member's id is empty, or too long.")
    return request.group_id or "", request.member_id
