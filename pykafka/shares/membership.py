"""`ShareMembership`: the state of a member of a share group, as a table without I/O (KIP-932)."""

from __future__ import annotations

import enum

from pykafka.exceptions import (
    FencedMemberEpoch,
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    NotCoordinatorForGroup,
    UnknownMemberId,
)

#: The epoch of a heartbeat that joins, and of one that leaves.
JOINS = 0
LEAVES = -1


class State(enum.Enum):
    """The state of a member."""

    OUT = "is out of the group"
    MEMBER = "is a member"
    LEFT = "has left the group"


class Event(enum.Enum):
    """An event that changes the state."""

    ANSWERED = "a heartbeat was answered"
    FENCED = "the coordinator does not know the member, or its epoch"
    LEFT = "the member leaves"


TABLE: dict[State, dict[Event, State]] = {
    State.OUT: {Event.ANSWERED: State.MEMBER, Event.FENCED: State.OUT, Event.LEFT: State.LEFT},
    State.MEMBER: {Event.ANSWERED: State.MEMBER, Event.FENCED: State.OUT, Event.LEFT: State.LEFT},
    # an answer that comes late changes nothing
    State.LEFT: {Event.ANSWERED: State.LEFT, Event.FENCED: State.LEFT, Event.LEFT: State.LEFT},
}

#: The member joins anew, under the same id.
FENCED = frozenset({UnknownMemberId.ERROR_CODE, FencedMemberEpoch.ERROR_CODE})
#: Another broker coordinates the group by now.
MOVED = frozenset(
    {
        NotCoordinatorForGroup.ERROR_CODE,
        GroupCoordinatorNotAvailable.ERROR_CODE,
        GroupLoadInProgress.ERROR_CODE,
    }
)


class ShareMembership:
    """One member. The worker of its heartbeats changes it.

    :param member_id: made by the client, for the life of the member
    """

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.state = State.OUT
        #: The epoch of the next heartbeat.
        self.epoch = JOINS

    def apply(self, event: Event, epoch: int = JOINS) -> None:
        """Change the state.

        :param epoch: with `ANSWERED`: of the answer
        """
        self.state = TABLE[self.state][event]
        self.epoch = {State.OUT: JOINS, State.MEMBER: epoch, State.LEFT: LEAVES}[self.state]
