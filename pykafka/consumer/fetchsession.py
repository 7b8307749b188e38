"""`FetchSession`: the partitions that a broker knows of from earlier fetches of a connection (KIP-227). No I/O.

In a session a request names only the partitions that have changed since the one before, and the answer only those with news.
The broker gives the session a number with its first answer; each request has the next epoch. Brokers have room for some
sessions only: they may give none, and forget one at any time. Then a full request begins another one.

A request changes the session at once, as the broker does when it reads it; `failed()` follows if that is uncertain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from pykafka.exceptions import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch

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


class Step(NamedTuple):
    """The number and the epoch of a request."""

    session_id: int
    epoch: int


@dataclass(frozen=True)
class Request(Generic[K, V]):
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
        named = {key: value for key, value in wanted.items() if known.get(key) != value}
        # as many as before, and all of those: nothing to forget
        forgotten: dict[K, V] = {}
        if len(known) + sum(key not in known for key in named) != len(wanted):
            forgotten = {key: value for key, value in known.items() if key not in wanted}
            for key in forgotten:
                del known[key]
        known.update(named)
        self._advance()
        return Request(step, named, forgotten, full=False)

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
        """Begin anew: a request may have reached the broker or not. The next one ends the session that may still be there."""
        self._begin_anew(self._id)

    def _begin_anew(self, session_id: int) -> None:
        self._id = session_id
        self._epoch = FIRST_EPOCH
        self._known = {}

    def _advance(self) -> None:
        self._epoch = FIRST_EPOCH + 1 if self._epoch == LAST_EPOCH else self._epoch + 1
