"""`DocumentedGroupRequests`: the requests of `Broker` by which members of groups deal with their coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.documented import DocumentedRequests
from pykafka.membershipprotocol import RangeProtocol
from pykafka.protocol import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
    messages,
)

if TYPE_CHECKING:
    from pykafka.protocol import schema
    from pykafka.protocol.groups import MembershipProtocol

R = TypeVar("R")

#: What a coordinator answers to a new member from version 4 on: here is your id, join again with it (KIP-394).
MEMBER_ID_REQUIRED = 79


class DocumentedGroupRequests(DocumentedRequests):
    """Be the part of `Broker` that members of a group use.

    Each connection id has a connection of its own, since a coordinator lets a JoinGroup wait for the other members, and
    with it whatever was sent behind it: a member takes one id for joining and another for heartbeats. Error codes come
    back as `.error_code`, for the caller to judge. All raise `UnsupportedVersion` on brokers before 0.9, which know no
    members; the rest as `DocumentedRequests`.
    """

    def join(self, request: messages.JoinGroupRequest, channel: str) -> messages.JoinGroupResponse:
        """Join a group by a wire message, again with the member id that the coordinator gives where it insists on one.

        :param request: as a new member has it, or an old one
        :param channel: whose connection to use
        """
        version = self.api_version(messages.JoinGroupRequest)
        patience = request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms
        timeout_ms = self._socket_timeout_ms + patience
        response = self.ask_once(request, channel, timeout_ms, version)
        if response.error_code == MEMBER_ID_REQUIRED:
            request.member_id = response.member_id
            response = self.ask_once(request, channel, timeout_ms, version)
        return response

    def ask_once(self, request: schema.Request[R], channel: str, timeout_ms: int, version: int) -> R:
        """Send a wire message and return the answer; unlike `call`, never over a second connection.

        A member that stops ends the connection on which it waits for the others: that must not make it join again.
        """
        answer: R = self.send(request, channel, timeout_ms=timeout_ms, version=version).get_when_due()
        return answer

    def join_group(
        self,
        connection_id: Any,
        consumer_group: str | bytes,
        member_id: str | bytes,
        topic_name: str | bytes | None = None,
        membership_protocol: MembershipProtocol = RangeProtocol,
        session_timeout_ms: int = 30000,
        rebalance_timeout_ms: int | None = None,
    ) -> JoinGroupResponse:
        """Join a group, or take part in its rebalance; this broker must be its coordinator.

        :param connection_id: whose connection to use
        :param consumer_group: name of the group
        :param member_id: empty for a new member
        :param topic_name: what the member wants; None leaves to the protocol's metadata what it says
        :param membership_protocol: how partitions are shared out
        :param session_timeout_ms: a member that is not heard of for this long is out
        :param rebalance_timeout_ms: how long members may take to join again; None: as long as that
        """
        request = JoinGroupRequest(
            consumer_group, member_id, topic_name, membership_protocol, session_timeout_ms, rebalance_timeout_ms
        )
        wire = request.wire(self.api_version(messages.JoinGroupRequest))
        return JoinGroupResponse.of(self.join(wire, group_channel(connection_id)))

    def sync_group(
        self,
        connection_id: Any,
        consumer_group: str | bytes,
        generation_id: int,
        member_id: str | bytes,
        group_assignment: Iterable[tuple[str | bytes, MemberAssignment]] = (),
    ) -> SyncGroupResponse:
        """Ask for this member's share; the leader brings those of all.

        :param connection_id: whose connection to use
        :param consumer_group: name of the group
        :param generation_id: as the answer to joining told it
        :param member_id: likewise
        :param group_assignment: (member id, MemberAssignment) pairs; empty but for the leader
        """
        request = SyncGroupRequest(consumer_group, generation_id, member_id, group_assignment)
        # later versions want to be told the protocol again, which the documented signature does not know
        version = self.api_version(messages.SyncGroupRequest, ceiling=4)
        timeout_ms = 2 * self._socket_timeout_ms
        return SyncGroupResponse.of(
            self.ask_once(request.wire(version), group_channel(connection_id), timeout_ms, version)
        )

    def heartbeat(
        self, connection_id: Any, consumer_group: str | bytes, generation_id: int, member_id: str | bytes
    ) -> HeartbeatResponse:
        """Keep a membership alive; parameters as of `sync_group`."""
        request = HeartbeatRequest(consumer_group, generation_id, member_id)
        return self._ask(request, messages.HeartbeatRequest, HeartbeatResponse, group_channel(connection_id))

    def leave_group(
        self, connection_id: Any, consumer_group: str | bytes, member_id: str | bytes
    ) -> LeaveGroupResponse:
        """Leave a group, so that the others need not wait until the session times out; parameters as of `sync_group`."""
        request = LeaveGroupRequest(consumer_group, member_id)
        return self._ask(request, messages.LeaveGroupRequest, LeaveGroupResponse, group_channel(connection_id))


def group_channel(connection_id: Any) -> str:
    """Return the name of the channel that this connection id stands for."""
    return f"group:{connection_id}"
