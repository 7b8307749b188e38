"""`ShareSession`: the partitions that a broker knows of from earlier requests of a member (KIP-932). No I/O.

The member and the broker are the session's name; each request has the next epoch. A request changes the session at once, as the
broker does when it reads it; `failed()` follows if that is uncertain.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, NamedTuple, TypeVar

from pykafka.exceptions import InvalidShareSessionEpoch, ShareSessionNotFound

P = TypeVar("P", bound=Hashable)

#: The epoch of a request that opens a session, and of one that ends it.
FIRST_EPOCH = 0
FINAL_EPOCH = -1
#: After the highest epoch comes the one after the first.
LAST_EPOCH = 2**31 - 1
#: The errors of an answer that mean that the session is over.
SESSION_ERRORS = frozenset(kind.ERROR_CODE for kind in (ShareSessionNotFound, InvalidShareSessionEpoch))


class Step(NamedTuple, Generic[P]):
    """The content of a fetch: its epoch, the partitions to name, and those to remove."""

    epoch: int
    added: list[P]
    forgotten: list[P]


class ShareSession(Generic[P]):
    """The session with one broker. One worker owns it."""

    def __init__(self) -> None:
        self._epoch = FIRST_EPOCH
        self._known: dict[P, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether the broker has a session, as far as this member knows."""
        return self._epoch != FIRST_EPOCH

    def fetch(self, wanted: Collection[P]) -> Step[P]:
        """Return the next fetch; without a session it opens one.

        :param wanted: the partitions to fetch
        """
        added = [one for one in wanted if one not in self._known]
        forgotten = [one for one in self._known if one not in wanted]
        step = Step(self._epoch, added, forgotten)
        self._known = dict.fromkeys(wanted)
        self._advance()
        return step

    def acknowledge(self) -> int:
        """Return the epoch of a request that only acknowledges; the session has to be open."""
        epoch = self._epoch
        self._advance()
        return epoch

    def failed(self) -> None:
        """Begin anew: the session is over, or a request may have reached the broker or not."""
        self._epoch = FIRST_EPOCH
        self._known = {}

    def _advance(self) -> None:
        self._epoch = FIRST_EPOCH + 1 if self._epoch == LAST_EPOCH else self._epoch + 1
