"""FindCoordinator: which broker coordinates a group or a transactional id; and the check that a request came to it."""

from __future__ import annotations

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.exceptions import (
    GroupCoordinatorNotAvailable,
    InvalidGroupId,
    InvalidRequest,
    NotCoordinatorForGroup,
)
from pykafka.protocol import wire
from pykafka.testing.authorization import require
from pykafka.testing.call import Call, api, refusing

#: By key_type; the share coordinator has the state of share groups (KIP-932).
KINDS = {0: "group", 1: "transaction", 2: "share"}
_RIGHTS = {
    "group": (Operation.DESCRIBE, ResourceType.GROUP),
    "transaction": (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
}
_Found = wire.FindCoordinatorResponse.Coordinator


@api(wire.FindCoordinatorRequest)
def find_coordinator(call: Call, request: wire.FindCoordinatorRequest) -> wire.FindCoordinatorResponse:
    """Say which brokers coordinate what the keys name."""
    if call.version >= 4:
        found = [_coordinator(call, request.key_type, key) for key in request.coordinator_keys]
        return wire.FindCoordinatorResponse(coordinators=found)
    one = _coordinator(call, request.key_type, request.key)
    return wire.FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(call: Call, key_type: int, key: str) -> _Found:
    found = _Found(key=key, node_id=-1, host="", port=-1)
    with refusing(found):
        _find(call, key_type, key, found)
    return found


def _find(call: Call, key_type: int, key: str, found: _Found) -> None:
    kind = KINDS.get(key_type)
    if kind is None or (kind == "share" and (call.version < 6 or key.count(":") < 2)):
        raise InvalidRequest("The coordinator type or its key is not valid.")
    if kind in _RIGHTS:
        require(call, *_RIGHTS[kind], key)
    else:
        require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    node = call.state.coordinator(kind, key)
    if node is None:
        raise GroupCoordinatorNotAvailable("The coordinator is not available.")
    found.node_id, found.host, found.port, found.error_message = node.node_id, node.host, node.port, ""


def check_coordinator(call: Call, kind: str, key: str) -> None:
    """Raise the error of a request that did not come to the coordinator of its key.

    :param kind: "group", "transaction" or "share"
    :param key: the group's name, or the transactional id
    :raises NotCoordinatorForGroup: another broker is it
    :raises GroupCoordinatorNotAvailable: no broker is it
    """
    node = call.state.coordinator(kind, key)
    if node is None:
        raise GroupCoordinatorNotAvailable(f"no broker coordinates {kind} {key}")
    if node is not call.node:
        raise NotCoordinatorForGroup(f"broker {node.node_id} coordinates {kind} {key}")


def check_group(call: Call, name: str, *, may_be_empty: bool = False) -> None:
    """Raise the error of a request for a group with a bad name, or one that this broker does not coordinate.

    :param may_be_empty: whether the name may be "", as OffsetCommit and OffsetFetch allow
    """
    if not name and not may_be_empty:
        raise InvalidGroupId("The configured group id is invalid.")
    check_coordinator(call, "group", name)
