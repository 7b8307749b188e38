"""Faults of share groups: a coordinator that loses a group, and records whose bytes cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.testing.call import Call
from pykafka.testing.groups.share_group import ShareGroup
from pykafka.testing.share_sessions import FINAL
from pykafka.testing.simulation.world import World

#: Errors, and APIs of share groups that may answer with them.
SHARE_ERRORS: tuple[tuple[str, str], ...] = (
    ("ShareFetch", "SHARE_SESSION_NOT_FOUND"),
    ("ShareFetch", "INVALID_SHARE_SESSION_EPOCH"),
    ("ShareAcknowledge", "SHARE_SESSION_NOT_FOUND"),
    ("ShareAcknowledge", "INVALID_SHARE_SESSION_EPOCH"),
    ("ShareGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("ShareGroupHeartbeat", "NOT_COORDINATOR"),
    ("ShareGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
    ("ShareGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
)
#: Answers to a request that continues a session. A broker never refuses so the end of a session that it has, at any epoch:
#: the records of the session would stay locked, and the client could not know it.
SESSION_ERRORS = ("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH")
#: How much is cut off the records of an answer that cannot be read (bytes).
_CUT = 5


def ends_no_session(request: Request[Any]) -> bool:
    """Return whether a request may be refused for its session: it does not end one."""
    return getattr(request, "share_session_epoch", 0) != FINAL


def lose_group(world: World, group: str) -> None:
    """Remove the members of a share group at its coordinator, as if an administrator had deleted it; its records stay."""
    with world.cluster._locked() as state:
        found = state.groups.get(group)
        if isinstance(found, ShareGroup):
            found.close()
            del state.groups._groups[group]


def damage(world: World, times: int) -> Callable[[], object]:
    """Damage the records in some answers to ShareFetch: those of the last batch cannot be read."""
    left = [times]

    def on_answer(call: Call, response: Any) -> None:
        if left[0] > 0 and isinstance(response, wire.ShareFetchResponse):
            for topic in response.responses:
                for part in topic.partitions:
                    if part.records and left[0] > 0:
                        left[0] -= 1
                        part.records = _damaged(part.records)

    return world.cluster.on_answer(on_answer)


def _damaged(records: Any) -> list[bytes]:
    """Return the bytes with the last one of the last batch changed, so that its checksum does not fit."""
    batches = [bytes(batch) for batch in ([records] if isinstance(records, bytes | memoryview) else records)]
    last = batches[-1]
    return [*batches[:-1], last[:-1] + bytes([last[-1] ^ 0xFF])]
