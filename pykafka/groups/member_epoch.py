"""`EpochMembership`: a member whose heartbeats carry an epoch (KIP-848, KIP-932), as a table without I/O.

Consumer groups of the next-generation protocol and share groups use it.
"""

from __future__ import annotations

import enum

from pykafka.exceptions import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupCoordinatorNotAvailable,
    GroupIdNotFound,
    GroupLoadInProgress,
    NotCoordinatorForGroup,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedVersion,
)

#: The epoch of a heartbeat that joins, of one that leaves, and of one of a static member that will come back.
JOINS = 0
LEAVES = -1
PAUSES = -2


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


class Verdict(enum.Enum):
    """The meaning of an error for a member."""

    FENCED = "the member is out, and joins again under the same id"
    MOVED = "the coordinator has moved; the membership continues there"
    WAITS = "the same heartbeat may succeed later"
    ENDED = "another member has this one's place for good"
    FOREIGN = "the group, or the coordinator, has another protocol"
    REFUSED = "the application has to change something"


#: The verdict on an error code; other retriable codes are MOVED, the rest REFUSED.
VERDICTS: dict[int, Verdict] = {
    UnknownMemberId.ERROR_CODE: Verdict.FENCED,
    FencedMemberEpoch.ERROR_CODE: Verdict.FENCED,
    NotCoordinatorForGroup.ERROR_CODE: Verdict.MOVED,
    GroupCoordinatorNotAvailable.ERROR_CODE: Verdict.MOVED,
    GroupLoadInProgress.ERROR_CODE: Verdict.MOVED,
    UnreleasedInstanceId.ERROR_CODE: Verdict.WAITS,
    FencedInstanceId.ERROR_CODE: Verdict.ENDED,
    GroupIdNotFound.ERROR_CODE: Verdict.FOREIGN,
    UnsupportedVersion.ERROR_CODE: Verdict.FOREIGN,
}


def verdict(code: int, retriable: bool, is_member: bool = False) -> Verdict:
    """Return the verdict on an error code.

    :param code: of an answer
    :param retriable: as Kafka declares the error
    :param is_member: whether the coordinator has had the member: then a group that it does not know was deleted, or lost with a
        coordinator, and joining makes it again; if it is of another protocol, the coordinator says so once more
    """
    if is_member and code == GroupIdNotFound.ERROR_CODE:
        return Verdict.FENCED
    return VERDICTS.get(code, Verdict.MOVED if retriable else Verdict.REFUSED)


class EpochMembership:
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
