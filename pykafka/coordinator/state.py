"""Membership of a group as a table: in which state what may happen, and what follows. Does no I/O.

    UNJOINED --JOIN--> JOINING --JOINED--> SYNCING --SYNCED--> STABLE
                          ^                                      |
                          +------JOIN------ STALE <--REBALANCE---+

LOST (the coordinator does not know the member) and LEFT lead to UNJOINED from everywhere, and the member id is forgotten;
so does OUTDATED (it does not know the generation), but the id is kept: as another member this one would have to wait until
the session of its former self has ended. A request that FAILED for other reasons makes the member join again as well.
"""

from __future__ import annotations

from enum import Enum

from pykafka.exceptions import (
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    IllegalGeneration,
    NotCoordinatorForGroup,
    RebalanceInProgress,
    UnknownMemberId,
)

NO_GENERATION = -1
NO_MEMBER = ""


class State(Enum):
    """Where a member stands."""

    UNJOINED = "no member"
    JOINING = "waits for all members to join"
    SYNCING = "waits for its share"
    STABLE = "has its share"
    STALE = "is a member, and must join again"


class Event(Enum):
    """What happens to a member."""

    JOIN = "asks to join"
    NAMED = "was given an id, before its generation"
    JOINED = "was told its generation"
    SYNCED = "was told its share"
    REBALANCE = "the shares are to be found anew"
    OUTDATED = "is a member, but not of this generation"
    LOST = "is no member"
    FAILED = "got no answer that helps"
    LEFT = "has left, or was never there"


#: {state: {event: next state}}; what is missing here cannot happen.
TABLE: dict[State, dict[Event, State]] = {
    State.UNJOINED: {
        Event.JOIN: State.JOINING,
        Event.REBALANCE: State.UNJOINED,
        Event.OUTDATED: State.UNJOINED,
        Event.LOST: State.UNJOINED,
        Event.FAILED: State.UNJOINED,
        Event.LEFT: State.UNJOINED,
    },
    State.JOINING: {
        Event.NAMED: State.JOINING,
        Event.JOINED: State.SYNCING,
        Event.REBALANCE: State.STALE,
        Event.OUTDATED: State.UNJOINED,
        Event.LOST: State.UNJOINED,
        Event.FAILED: State.STALE,
        Event.LEFT: State.UNJOINED,
    },
    State.SYNCING: {
        Event.SYNCED: State.STABLE,
        Event.REBALANCE: State.STALE,
        Event.OUTDATED: State.UNJOINED,
        Event.LOST: State.UNJOINED,
        Event.FAILED: State.STALE,
        Event.LEFT: State.UNJOINED,
    },
    State.STABLE: {
        Event.REBALANCE: State.STALE,
        Event.OUTDATED: State.UNJOINED,
        Event.LOST: State.UNJOINED,
        # another coordinator takes the member over as it is
        Event.FAILED: State.STABLE,
        Event.LEFT: State.UNJOINED,
    },
    State.STALE: {
        # the answer to a request to join that nobody waits for any more
        Event.NAMED: State.STALE,
        Event.JOIN: State.JOINING,
        Event.REBALANCE: State.STALE,
        Event.OUTDATED: State.UNJOINED,
        Event.LOST: State.UNJOINED,
        Event.FAILED: State.STALE,
        Event.LEFT: State.UNJOINED,
    },
}

#: What an error code means for a member that may join again; other codes do not pass by themselves.
EVENT_OF_ERROR: dict[int, Event] = {
    IllegalGeneration.ERROR_CODE: Event.OUTDATED,
    UnknownMemberId.ERROR_CODE: Event.LOST,
    RebalanceInProgress.ERROR_CODE: Event.REBALANCE,
    GroupCoordinatorNotAvailable.ERROR_CODE: Event.FAILED,
    NotCoordinatorForGroup.ERROR_CODE: Event.FAILED,
    GroupLoadInProgress.ERROR_CODE: Event.FAILED,
}

#: The codes after which the coordinator is to be looked for anew.
MOVED = frozenset({GroupCoordinatorNotAvailable.ERROR_CODE, NotCoordinatorForGroup.ERROR_CODE})


class ImpossibleEvent(RuntimeError):
    """Tell that something happened to a member that cannot happen in its state: a mistake in this client."""


class Membership:
    """Where a member stands, and as who; changed by `apply` alone."""

    def __init__(self) -> None:
        self.state = State.UNJOINED
        self.generation_id = NO_GENERATION
        self.member_id = NO_MEMBER
        self.protocol = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.name} generation={self.generation_id} member={self.member_id!r}>"

    def apply(
        self,
        event: Event,
        generation_id: int | None = None,
        member_id: str | None = None,
        protocol: str | None = None,
    ) -> State:
        """Go where the table says, and return that state.

        :param event: what happened
        :param generation_id: what the coordinator said with it
        :param member_id: likewise
        :param protocol: likewise
        :raises ImpossibleEvent: the table has no such event in the present state
        """
        follows = TABLE[self.state].get(event)
        if follows is None:
            raise ImpossibleEvent(f"{event.name} in state {self.state.name}; please report this with the log")
        self.state = follows
        if event in {Event.OUTDATED, Event.LOST, Event.LEFT}:
            self.generation_id, self.protocol = NO_GENERATION, ""
        if event in {Event.LOST, Event.LEFT}:
            self.member_id = NO_MEMBER
        if generation_id is not None:
            self.generation_id = generation_id
        if member_id is not None:
            self.member_id = member_id
        if protocol is not None:
            self.protocol = protocol
        return follows

    def is_present(self, generation_id: int, member_id: str) -> bool:
        """Return whether that is this membership, so that news of it still matter."""
        return (generation_id, member_id) == (self.generation_id, self.member_id)
