"""The rights that each API requires, by ACLs; and the answers to clients that lack them."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.exceptions import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    ProtocolClientError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from pykafka.protocol import wire
from pykafka.testing.acls import CLUSTER, OPERATIONS
from pykafka.testing.call import Call, HungUpError
from pykafka.testing.refusals import refusal

if TYPE_CHECKING:
    from pykafka.protocol.schema import Request, Response
    from pykafka.testing.call import Api

#: Where the brokers of a fake cluster see all of their clients.
HOST: Final = "127.0.0.1"
_ERRORS: Final[dict[ResourceType, type[ProtocolClientError]]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}


class Rule(NamedTuple):
    """A right that an API requires.

    :param operation: that has to be allowed
    :param kind: of the resource
    :param path: of its name in the request: "" is the cluster; "group_id" a field, without which the whole request is refused;
        "topics[].name" or "groups[]" elements, of which those alone are refused that lack it
    :param or_cluster: the operation on the cluster that is enough
    """

    operation: Operation
    kind: ResourceType
    path: str = ""
    or_cluster: Operation | None = None


def _cluster(operation: Operation) -> tuple[Rule, ...]:
    return (Rule(operation, ResourceType.CLUSTER),)


def _group(operation: Operation, path: str = "group_id") -> Rule:
    return Rule(operation, ResourceType.GROUP, path)


def _topics(operation: Operation, path: str = "topics[].name", or_cluster: Operation | None = None) -> Rule:
    return Rule(operation, ResourceType.TOPIC, path, or_cluster)


def _transaction(operation: Operation = Operation.WRITE, path: str = "transactional_id") -> Rule:
    return Rule(operation, ResourceType.TRANSACTIONAL_ID, path)


#: By class of request. What depends on more than a name stands in the function that answers: Metadata, Fetch, and so on.
_RULES: Final[dict[type[Request[Any]], tuple[Rule, ...]]] = {
    wire.ProduceRequest: (_transaction(), _topics(Operation.WRITE, "topic_data[].name")),
    wire.ListOffsetsRequest: (_topics(Operation.DESCRIBE),),
    wire.OffsetForLeaderEpochRequest: (_topics(Operation.DESCRIBE, "topics[].topic", Operation.CLUSTER_ACTION),),
    wire.OffsetCommitRequest: (_group(Operation.READ), _topics(Operation.READ)),
    wire.OffsetDeleteRequest: (_group(Operation.DELETE), _topics(Operation.READ)),
    wire.TxnOffsetCommitRequest: (_transaction(), _group(Operation.READ), _topics(Operation.READ)),
    wire.SyncGroupRequest: (_group(Operation.READ),),
    wire.HeartbeatRequest: (_group(Operation.READ),),
    wire.LeaveGroupRequest: (_group(Operation.READ),),
    wire.DescribeGroupsRequest: (_group(Operation.DESCRIBE, "groups[]"),),
    wire.ConsumerGroupDescribeRequest: (_group(Operation.DESCRIBE, "group_ids[]"),),
    wire.ConsumerGroupHeartbeatRequest: (_group(Operation.READ),),
    wire.ShareGroupHeartbeatRequest: (_group(Operation.READ),),
    wire.ShareGroupDescribeRequest: (_group(Operation.DESCRIBE, "group_ids[]"),),
    wire.ShareFetchRequest: (_group(Operation.READ), _topics(Operation.READ, "topics[].topic_id")),
    wire.ShareAcknowledgeRequest: (_group(Operation.READ), _topics(Operation.READ, "topics[].topic_id")),
    wire.DescribeShareGroupOffsetsRequest: (_group(Operation.DESCRIBE, "groups[].group_id"),),
    wire.AlterShareGroupOffsetsRequest: (_group(Operation.READ), _topics(Operation.READ, "topics[].topic_name")),
    wire.DeleteShareGroupOffsetsRequest: (_group(Operation.DELETE), _topics(Operation.READ, "topics[].topic_name")),
    wire.DeleteGroupsRequest: (_group(Operation.DELETE, "groups_names[]"),),
    wire.AddOffsetsToTxnRequest: (_transaction(), _group(Operation.READ)),
    wire.EndTxnRequest: (_transaction(),),
    wire.DescribeTransactionsRequest: (_transaction(Operation.DESCRIBE, "transactional_ids[]"),),
    wire.DescribeProducersRequest: (_topics(Operation.READ),),
    wire.CreateTopicsRequest: (_topics(Operation.CREATE, or_cluster=Operation.CREATE),),
    wire.CreatePartitionsRequest: (_topics(Operation.ALTER),),
    wire.DeleteRecordsRequest: (_topics(Operation.DELETE),),
    wire.ElectLeadersRequest: _cluster(Operation.ALTER),
    wire.AlterPartitionReassignmentsRequest: _cluster(Operation.ALTER),
    wire.ListPartitionReassignmentsRequest: _cluster(Operation.DESCRIBE),
    wire.DescribeLogDirsRequest: _cluster(Operation.DESCRIBE),
    wire.DescribeQuorumRequest: _cluster(Operation.DESCRIBE),
    wire.UpdateFeaturesRequest: _cluster(Operation.ALTER),
    wire.ListConfigResourcesRequest: _cluster(Operation.DESCRIBE_CONFIGS),
    wire.DescribeAclsRequest: _cluster(Operation.DESCRIBE),
    wire.CreateAclsRequest: _cluster(Operation.ALTER),
    wire.DeleteAclsRequest: _cluster(Operation.ALTER),
    wire.DescribeClientQuotasRequest: _cluster(Operation.DESCRIBE_CONFIGS),
    wire.AlterClientQuotasRequest: _cluster(Operation.ALTER_CONFIGS),
    wire.DescribeUserScramCredentialsRequest: _cluster(Operation.DESCRIBE),
    wire.AlterUserScramCredentialsRequest: _cluster(Operation.ALTER),
}


def may(call: Call, operation: Operation, kind: ResourceType, name: str = CLUSTER) -> bool:
    """Return whether the client may do something.

    :param operation: to do
    :param kind: of the resource
    :param name: of the resource
    """
    authorizer = call.state.authorizer
    return authorizer is None or authorizer.permits(call.session.principal, HOST, operation, kind, name)


def may_any(call: Call, operation: Operation, kind: ResourceType) -> bool:
    """Return whether the client may do something with one resource of a type at least."""
    authorizer = call.state.authorizer
    return authorizer is None or authorizer.permits_any(call.session.principal, HOST, operation, kind)


def require(call: Call, operation: Operation, kind: ResourceType, name: str = CLUSTER) -> None:
    """Raise the error of a client that may not do something; as `may`.

    :raises ProtocolClientError: of that type of resource
    """
    if not may(call, operation, kind, name):
        raise _ERRORS[kind](f"{kind.name.replace('_', ' ').capitalize()} authorization failed.")


def operations(call: Call, kind: ResourceType, name: str = CLUSTER) -> int:
    """Return the operations that the client may do with a resource, as bits (KIP-430)."""
    return sum(1 << operation for operation in OPERATIONS[kind] if may(call, operation, kind, name))


def authorized(call: Call, api: Api) -> Response | None:
    """Answer a request, less what its client may not do: that is answered with an error.

    :raises HungUpError: the error has no answer, as there is none
    """
    if call.state.authorizer is None:
        return api.answer(call, call.request)
    request, refused = call.request, []
    for rule in _RULES.get(type(request), ()):
        if rule.or_cluster is not None and may(call, rule.or_cluster, ResourceType.CLUSTER):
            continue
        is_of_cluster = rule.or_cluster == Operation.CREATE and not call.state.admin_path.creates_single
        needed = _cluster(Operation.CREATE)[0] if is_of_cluster else rule
        denied, allowed = _parted(call, request, needed)
        if denied is None:
            continue
        code = _ERRORS[needed.kind].ERROR_CODE
        if allowed is None:
            has_code = _has_error(denied, call.version)
            whole = denied.response(error_code=code) if has_code else refusal(denied, call.version, code)
            return _answer(request, None, [whole])
        refused.append(refusal(denied, call.version, code))
        request = allowed
    return _answer(request, api.answer(call, request), refused)


def _has_error(request: Request[Any], version: int) -> bool:
    return any(field.name == "error_code" and version in field.versions for field in request.response.fields)


def _answer(request: Request[Any], response: Response | None, refused: list[Response]) -> Response | None:
    if refused and isinstance(request, wire.ProduceRequest) and request.acks == 0:
        raise HungUpError
    if response is None:
        return refused[0] if refused else None
    for one in refused:
        for field in one.fields:
            if field.is_array and (more := getattr(one, field.name)):
                setattr(response, field.name, [*getattr(response, field.name), *more])
    return response


def _parted(call: Call, request: Request[Any], rule: Rule) -> tuple[Request[Any] | None, Request[Any] | None]:
    """Return what of a request is denied, and what is allowed; None for nothing."""
    array, brackets, field = rule.path.partition("[]")
    if not brackets:
        name = getattr(request, array) if array else CLUSTER
        is_denied = name is not None and not may(call, rule.operation, rule.kind, name)
        return (request, None) if is_denied else (None, request)
    elements = getattr(request, array) or ()
    denied = [one for one in elements if not _may(call, rule, one, field[1:])]
    if not denied:
        return None, request
    return _with(request, array, denied), _with(request, array, [one for one in elements if one not in denied])


def _may(call: Call, rule: Rule, element: Any, field: str) -> bool:
    name = getattr(element, field) if field else element
    if isinstance(name, UUID) or (not name and hasattr(element, "topic_id")):
        topic = call.state.topic_ids.get(element.topic_id)
        if topic is None:
            return True  # the API itself says that there is none
        name = topic.name
    return may(call, rule.operation, rule.kind, name)


def _with(request: Request[Any], array: str, elements: list[Any]) -> Request[Any]:
    part = copy(request)
    setattr(part, array, elements)
    return part
