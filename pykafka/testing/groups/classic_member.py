"""`ClassicMember`: a member of a group of the classic protocol, and how a group chooses among what its members offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.testing.deadline import Deadline
    from pykafka.testing.groups.pending_answer import Client, PendingAnswer

#: What a member offers: names of protocols and its metadata for each, the one that it prefers first.
Protocols = list[tuple[str, bytes]]


class ClassicMember:
    """One member.

    :param member_id: that the coordinator has given to it
    :param client: who it is
    :param request: its JoinGroup
    :param session: calls the group when the member has sent nothing for its session timeout
    """

    def __init__(self, member_id: str, client: Client, request: wire.JoinGroupRequest, session: Deadline) -> None:
        self.member_id = member_id
        self.instance_id = request.group_instance_id
        self.client = client
        self.session = session
        self.assignment = b""
        #: Whether it has not taken part in a rebalance yet.
        self.is_new = False
        #: Its JoinGroup or SyncGroup, if that waits.
        self.joining: PendingAnswer[wire.JoinGroupResponse] | None = None
        self.syncing: PendingAnswer[wire.SyncGroupResponse] | None = None
        self.update(request)

    def update(self, request: wire.JoinGroupRequest) -> None:
        """Take the timeouts and the protocols of another JoinGroup."""
        self.request = request
        self.session_timeout_ms = request.session_timeout_ms
        # version 0 has no timeout of its own for rebalances
        timeout = request.rebalance_timeout_ms
        self.rebalance_timeout_ms = request.session_timeout_ms if timeout < 0 else timeout
        self.protocols = protocols_of(request)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol; no bytes if it does not offer that one."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def keep(self) -> None:
        """Note a sign of life."""
        self.session.extend(self.session_timeout_ms)

    @property
    def is_kept(self) -> bool:
        """Whether it stays though its session is over: the group owes it an answer."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


def protocols_of(request: wire.JoinGroupRequest) -> Protocols:
    """Return what a JoinGroup offers."""
    return [(one.name, bytes(one.metadata)) for one in request.protocols]


def common_protocols(members: Iterable[ClassicMember]) -> set[str]:
    """Return the protocols that all members offer."""
    offered = [{name for name, _ in member.protocols} for member in members]
    return set.intersection(*offered) if offered else set()


def elected_protocol(members: Iterable[ClassicMember]) -> str | None:
    """Return the protocol that most members prefer among those that all offer; None if there is none."""
    members = list(members)
    common = common_protocols(members)
    votes = Counter(next(name for name, _ in member.protocols if name in common) for member in members if common)
    return votes.most_common(1)[0][0] if votes else None
