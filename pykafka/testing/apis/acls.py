"""CreateAcls, DescribeAcls, DeleteAcls: who may do what, as administrators see and change it."""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from typing import Any

from pykafka.admin.acls import AclBinding, PatternType, Permission, ResourceType
from pykafka.admin.results import AclOperation
from pykafka.exceptions import InvalidRequest, SecurityDisabled, UnknownError
from pykafka.protocol import wire
from pykafka.testing.acls import CLUSTER, Authorizer, concerns
from pykafka.testing.call import Call, HungUpError, api, refusing

_Described = wire.DescribeAclsResponse.Resource
_Created = wire.CreateAclsResponse.Result
_Filter = wire.DescribeAclsRequest | wire.DeleteAclsRequest.Filter
_Deleted = wire.DeleteAclsResponse.FilterResult


def _authorizer(call: Call) -> Authorizer:
    if call.state.authorizer is None:
        raise SecurityDisabled("No Authorizer is configured.")
    return call.state.authorizer


@api(wire.CreateAclsRequest)
def create_acls(call: Call, request: wire.CreateAclsRequest) -> wire.CreateAclsResponse:
    """Create ACLs; one that is there already counts as created."""
    results = []
    for asked in request.creations:
        result = _Created(error_message=None)
        with refusing(result):
            _authorizer(call).acls[_binding(call, asked)] = None
        results.append(result)
    return wire.CreateAclsResponse(results=results)


def _binding(call: Call, asked: wire.CreateAclsRequest.Creation) -> AclBinding:
    try:
        made = AclBinding(
            ResourceType(asked.resource_type),
            asked.resource_name,
            asked.principal,
            AclOperation(asked.operation),
            Permission(asked.permission_type),
            asked.host,
            PatternType(asked.resource_pattern_type),
        )
    except ValueError as error:
        raise InvalidRequest(f"Invalid ACL: {error}") from None
    if made.resource == ResourceType.CLUSTER and made.name != CLUSTER:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER}")
    if not made.name:
        raise InvalidRequest("Resource name should not be empty")
    if (
        made.pattern not in (PatternType.LITERAL, PatternType.PREFIXED)
        or made.permission not in (Permission.DENY, Permission.ALLOW)
        or made.resource <= ResourceType.ANY
        or made.operation <= AclOperation.ANY
    ):
        raise UnknownError  # brokers fail when they make the ACL
    if ":" not in made.principal:
        raise (InvalidRequest if call.state.admin_path.explains_principals else UnknownError)(
            f"Could not parse principal from `{made.principal}` (no colon is present separating the type)"
        )
    return made


@api(wire.DescribeAclsRequest)
def describe_acls(call: Call, request: wire.DescribeAclsRequest) -> wire.DescribeAclsResponse:
    """Describe the ACLs that a filter matches."""
    _check_readable(request, request.resource_type_filter)
    found = [acl for acl in _authorizer(call).acls if _matches(acl, request)]
    return wire.DescribeAclsResponse(
        error_message=None,
        resources=[
            _Described(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[_Described.Acl(**_rule(acl)) for acl in acls],
            )
            for (kind, name, pattern), acls in groupby(sorted(found, key=_resource), _resource)
        ],
    )


def _resource(acl: AclBinding) -> tuple[ResourceType, str, PatternType]:
    return acl.resource, acl.name, acl.pattern


def _rule(acl: AclBinding) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _check_readable(wanted: _Filter, kind: int) -> None:
    if 0 in (kind, wanted.pattern_type_filter, wanted.permission_type, wanted.operation):
        raise HungUpError  # brokers cannot read such a request


def _check_known(wanted: wire.DeleteAclsRequest.Filter) -> None:
    known: tuple[tuple[type[IntEnum], int], ...] = (
        (ResourceType, wanted.resource_type_filter),
        (PatternType, wanted.pattern_type_filter),
        (AclOperation, wanted.operation),
        (Permission, wanted.permission_type),
    )
    if any(number not in list(kind) for kind, number in known):
        raise InvalidRequest("The filter has an unknown component")


def _matches(acl: AclBinding, wanted: _Filter) -> bool:
    name, pattern = wanted.resource_name_filter, wanted.pattern_type_filter
    if name is not None:
        is_named = concerns(acl, name) if pattern == PatternType.MATCH else acl.name == name
    else:
        is_named = True
    return (
        is_named
        and pattern in (PatternType.ANY, PatternType.MATCH, acl.pattern)
        and wanted.resource_type_filter in (ResourceType.ANY, acl.resource)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (AclOperation.ANY, acl.operation)
        and wanted.permission_type in (Permission.ANY, acl.permission)
    )


@api(wire.DeleteAclsRequest)
def delete_acls(call: Call, request: wire.DeleteAclsRequest) -> wire.DeleteAclsResponse:
    """Delete the ACLs that filters match, and list them."""
    for wanted in request.filters:
        _check_readable(wanted, wanted.resource_type_filter)
    results = []
    deleted: set[AclBinding] = set()
    for wanted in request.filters:
        result = _Deleted(error_message=None)
        with refusing(result):
            acls = _authorizer(call).acls
            if call.state.admin_path.checks_filters:
                _check_known(wanted)
            for acl in [acl for acl in acls if _matches(acl, wanted)]:
                deleted.add(acl)
                kind, name, pattern = _resource(acl)
                result.matching_acls.append(
                    _Deleted.MatchingAcl(
                        error_message=None, resource_type=kind, resource_name=name, pattern_type=pattern, **_rule(acl)
                    )
                )
        results.append(result)
    for acl in deleted:
        del _authorizer(call).acls[acl]
    return wire.DeleteAclsResponse(filter_results=results)
