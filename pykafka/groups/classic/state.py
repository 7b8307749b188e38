"""Membership of a group as a table: in which state what may happen, and what follows. Does no I/O.

    UNJOINED --JOIN--> JOINING --JOINED--> SYNCING --SYNCED--> STABLE
                          ^                                      |
                          +------JOIN------ STALE <--REBALANCE---+

LOST (the coordinator does not know the member) and LEFT lead to UNJOINED from everywhere, and the member forgets its id.
OUTDATED (the coordinator does not know the generation) does so too, but the member keeps its id: with a new one it would have
to wait until its former session has ended. After a request that FAILED for another reason the member joins again as well.
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
from pykafka.groups.assignment_change import Generation

NO_GENERATION = -1
NO_MEMBER = ""


class State(Enum):
    """The state of a member."""

    UNJOINED = "is not a member"
    JOINING = "waits for all members to join"
    SYNCING = "waits for its assignment"
    STABLE = "has its assignment"
    STALE = "is a member, and must join again"


class Event(Enum):
    """An event in the life of a member."""

    JOIN = "asks to join"
    NAMED = "got an id, before its generation"
    JOINED = "got its generation"
    SYNCED = "got its assignment"
    REBALANCE = "the group rebalances"
    OUTDATED = "is a member, but not of this generation"
    LOST = "is not a member"
    FAILED = "got no usable answer"
    LEFT = "has left, or was never there"


#: {state: {event: next state}}; events that are missing here cannot happen.
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
        # another coordinator takes the member over unchanged
        Event.FAILED: State.STABLE,
        Event.LEFT: State.UNJOINED,
    },
    State.STALE: {
        # the answer to an abandoned request to join
        Event.NAMED: State.STALE,
        Event.JOIN: State.JOINING,
        Event.REBALANCE: State.STALE,
        Event.OUTDATED: State.UNJOINED,
        Event.LOST: State.UNJOINED,
        Event.FAILED: State.STALE,
        Event.LEFT: State.UNJOINED,
    },
}

#: The event that an error code means, for a member that may join again; other errors are not retriable.
EVENT_OF_ERROR: dict[int, Event] = {
    IllegalGeneration.ERROR_CODE: Event.OUTDATED,
    UnknownMemberId.ERROR_CODE: Event.LOST,
    RebalanceInProgress.ERROR_CODE: Event.REBALANCE,
    GroupCoordinatorNotAvailable.ERROR_CODE: Event.FAILED,
    NotCoordinatorForGroup.ERROR_CODE: Event.FAILED,
    GroupLoadInProgress.ERROR_CODE: Event.FAILED,
}


class ImpossibleEvent(RuntimeError):
    """An event that cannot happen in the state of a member: a mistake in this client."""


class MemberState(Generation):
    """The state of a member with its generation and id; only `apply` changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.state = State.UNJOINED
        self.protocol = ""
        self._last_generation = NO_GENERATION

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.name} generation={self.generation_id} member={self.member_id!r}>"

    def apply(
        self,
        event: Event,
        generation_id: int | None = None,
        member_id: str | None = None,
        protocol: str | None = None,
    ) -> State:
        """Change to the state that the table has for an event, and return that state.

        :param event: the event
        :param generation_id: from the coordinator's answer, if it has one
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
            self._last_generation = NO_GENERATION
            self.breaks += 1
        if event in {Event.LOST, Event.LEFT}:
            self.member_id = NO_MEMBER
        if generation_id is not None:
            self.generation_id = generation_id
        if member_id is not None:
            self.member_id = member_id
        if protocol is not None:
            self.protocol = protocol
        if event is Event.JOINED:
            last, self._last_generation = self._last_generation, self.generation_id
            # The present one again: the request to join caused no rebalance, or a new coordinator does not know the generation
            # whose assignments the former one never sent.
            self.breaks += last != NO_GENERATION and self.generation_id not in {last, last + 1}
        return follows

    def is_present(self, generation_id: int, member_id: str) -> bool:
        """Return whether generation and member id are the present ones, so that reports about them still matter."""
        return (generation_id, member_id) == (self.generation_id, self.member_id)
