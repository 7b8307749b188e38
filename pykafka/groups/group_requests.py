"""The requests of a member, as wire messages of the version that goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykafka.groups.classic.state import MemberState
from pykafka.protocol import wire
from pykafka.utils import is_legal_name

#: The first version of JoinGroup with static members (KIP-345).
STATIC_SINCE = 5


def check_instance_id(instance_id: object) -> None:
    """Check that brokers accept a `group_instance_id`; None means that the member is not static.

    :raises ValueError: they do not
    """
    if instance_id is None:
        return
    if not isinstance(instance_id, str) or not is_legal_name(instance_id):
        raise ValueError(
            f"group_instance_id must be 1 to 249 letters, digits, dots, underscores or hyphens, not {instance_id!r}"
        )


def encoded(content: Any) -> bytes:
    """Return content as bytes; it is bytes-like, or has `encode()`."""
    return bytes(content) if isinstance(content, (bytes, bytearray, memoryview)) else bytes(content.encode())


def join_request(
    config: Mapping[str, Any],
    version: int,
    member_id: str,
    protocol_type: str,
    protocols: Sequence[tuple[str, Any]],
) -> wire.JoinGroupRequest:
    """Return a JoinGroup request.

    :param config: group_id, group_instance_id, session_timeout_ms and max_poll_interval_ms
    :param protocols: (name, metadata) pairs, the best first
    """
    return wire.JoinGroupRequest(
        group_id=config["group_id"],
        session_timeout_ms=config["session_timeout_ms"],
        rebalance_timeout_ms=max(config["max_poll_interval_ms"], config["session_timeout_ms"]),
        member_id=member_id,
        group_instance_id=config["group_instance_id"] if version >= STATIC_SINCE else None,
        protocol_type=protocol_type,
        protocols=[
            wire.JoinGroupRequest.Protocol(name=name, metadata=encoded(metadata)) for name, metadata in protocols
        ],
    )


def sync_request(
    config: Mapping[str, Any],
    version: int,
    membership: MemberState,
    protocol_type: str,
    shares: Mapping[str, bytes],
) -> wire.SyncGroupRequest:
    """Return a SyncGroup request, whose answer brings the member's share.

    :param config: group_id and group_instance_id
    :param shares: of all members, from the leader
    """
    return wire.SyncGroupRequest(
        group_id=config["group_id"],
        generation_id=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=config["group_instance_id"] if version >= 3 else None,
        protocol_type=protocol_type,
        protocol_name=membership.protocol,
        assignments=[
            wire.SyncGroupRequest.Assignment(member_id=member, assignment=share) for member, share in shares.items()
        ],
    )


def heartbeat_request(
    group: str, generation_id: int, member_id: str, instance_id: str | None, version: int
) -> wire.HeartbeatRequest:
    """Return a Heartbeat request."""
    return wire.HeartbeatRequest(
        group_id=group,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance_id if version >= 3 else None,
    )


def leave_request(group: str, member_id: str, version: int, instance_id: str | None = None) -> wire.LeaveGroupRequest:
    """Return a LeaveGroup request for one member."""
    if version >= 3:  # several at once, since then
        member = wire.LeaveGroupRequest.Member(member_id=member_id, group_instance_id=instance_id)
        return wire.LeaveGroupRequest(group_id=group, members=[member])
    return wire.LeaveGroupRequest(group_id=group, member_id=member_id)
