"""ACLs: create, describe, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several
from pykafka.admin.releases import need, version_of
from pykafka.admin.results import AclOperation, Results, response_error
from pykafka.admin.routing import Controller, RequestFactory
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request

F = TypeVar("F", wire.DescribeAclsRequest, wire.DeleteAclsRequest.Filter)

#: The name of the one resource of type CLUSTER.
CLUSTER_NAME = "kafka-cluster"
#: From which version on ACLs may be about names that begin alike (KIP-290).
_PATTERNS = 1


class ResourceType(IntEnum):
    """A kind of resource that ACLs protect; the numbers are the protocol's. ANY is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a resource's name is compared; the numbers are the protocol's. ANY and MATCH are for filters alone."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL allows or denies; the numbers are the protocol's. ANY is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True)
class AclBinding:
    """An ACL: one principal may, or may not, do one thing with one resource.

    :param resource: its type
    :param name: of the resource; ``*`` for all; "kafka-cluster" for the cluster
    :param principal: "User:alice"; ``User:*`` for all
    :param operation: what the ACL is about
    :param permission: ALLOW or DENY
    :param host: the client's address; ``*`` for all
    :param pattern: LITERAL, or PREFIXED for all names that begin with `name` (since Kafka 2.0)
    """

    resource: ResourceType
    name: str
    principal: str
    operation: AclOperation
    permission: Permission = Permission.ALLOW
    host: str = "*"
    pattern: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        prefix = "names beginning with " if self.pattern == PatternType.PREFIXED else ""
        return (
            f"{self.permission.name} {self.principal} from {self.host} {self.operation.name} on "
            f"{self.resource.name} {prefix}{self.name}"
        )


@dataclass(frozen=True)
class AclFilter:
    """The ACLs that have all of these; None matches anything.

    :param resource: the type of resource
    :param name: its name
    :param principal: "User:alice"
    :param operation: what the ACL is about
    :param permission: ALLOW or DENY
    :param host: the client's address
    :param pattern: LITERAL or PREFIXED; MATCH finds every ACL that concerns the name
    """

    resource: ResourceType = ResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY
    host: str | None = None
    pattern: PatternType = PatternType.ANY

    def __str__(self) -> str:
        given = {
            "resource": self.resource.name if self.resource != ResourceType.ANY else None,
            "name": self.name,
            "principal": self.principal,
            "operation": self.operation.name if self.operation != AclOperation.ANY else None,
            "permission": self.permission.name if self.permission != Permission.ANY else None,
            "host": self.host,
            "pattern": self.pattern.name if self.pattern != PatternType.ANY else None,
        }
        return "ACLs with " + (", ".join(f"{name} {value}" for name, value in given.items() if value) or "anything")


class AclsAdmin(AdminBase):
    """The access control lists of the cluster. They need an authorizer; without one the brokers answer SecurityDisabled."""

    def describe_acls(self, acls: AclFilter | None = None, *, timeout_ms: int = TIMEOUT_MS) -> list[AclBinding]:
        """Return the ACLs that match a filter (since Kafka 0.11).

        :param acls: the filter; None matches all
        :param timeout_ms: of the whole call
        :raises SecurityDisabled: the cluster has no authorizer
        """
        wanted = acls or AclFilter()

        def request(broker: Node, left: int) -> wire.DescribeAclsRequest:
            return _filter(wire.DescribeAclsRequest, wanted, broker, wire.DescribeAclsRequest)

        def read(response: wire.DescribeAclsResponse) -> list[AclBinding]:
            found = [
                _binding(resource.resource_type, resource.resource_name, resource.pattern_type, acl)
                for resource in response.resources
                for acl in resource.acls
            ]
            return sorted(found, key=str)

        return self._ask_one(wire.DescribeAclsRequest, request, read, timeout_ms)

    def create_acls(
        self, acls: AclBinding | Iterable[AclBinding], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[AclBinding, None]:
        """Create ACLs; one that is there already counts as created (since Kafka 0.11).

        :param acls: an AclBinding, or several
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for ACLs that failed, see `Results`
        :raises SecurityDisabled: the cluster has no authorizer
        """

        def request(items: Sequence[AclBinding], broker: Node, left: int) -> wire.CreateAclsRequest:
            return wire.CreateAclsRequest(creations=[_creation(item, broker) for item in items])

        def read(
            response: wire.CreateAclsResponse, items: Sequence[AclBinding], broker: Node
        ) -> Mapping[AclBinding, KafkaException | None]:
            return {
                item: response_error(one, what=str(item)) for item, one in zip(items, response.results, strict=False)
            }

        factory = RequestFactory(wire.CreateAclsRequest, request, read, waits=True)
        bindings: list[AclBinding] = several(acls, "acls", AclBinding)
        return self._ask(bindings, Controller(self._cluster), factory, timeout_ms, raise_errors)

    def delete_acls(
        self, acls: AclFilter | Iterable[AclFilter], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[AclFilter, list[AclBinding]]:
        """Delete the ACLs that match filters, and return them (since Kafka 0.11).

        :param acls: an AclFilter, or several; `AclFilter()` matches all
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for filters that failed, see `Results`
        :raises SecurityDisabled: the cluster has no authorizer
        """

        def request(items: Sequence[AclFilter], broker: Node, left: int) -> wire.DeleteAclsRequest:
            make = wire.DeleteAclsRequest.Filter
            return wire.DeleteAclsRequest(
                filters=[_filter(make, item, broker, wire.DeleteAclsRequest) for item in items]
            )

        def read(
            response: wire.DeleteAclsResponse, items: Sequence[AclFilter], broker: Node
        ) -> Mapping[AclFilter, list[AclBinding] | KafkaException]:
            return {item: _deleted(item, one) for item, one in zip(items, response.filter_results, strict=False)}

        factory = RequestFactory(wire.DeleteAclsRequest, request, read, waits=True)
        filters: list[AclFilter] = several(acls, "acls", AclFilter)
        return self._ask(filters, Controller(self._cluster), factory, timeout_ms, raise_errors)


def _pattern(broker: Node, api: type[Request[Any]], pattern: PatternType) -> int | None:
    """Return the number of a pattern; None for a broker that has literal ones alone.

    :raises UnsupportedVersion: the broker has no such pattern
    """
    if version_of(broker, api) >= _PATTERNS:
        return int(pattern)
    if pattern not in (PatternType.LITERAL, PatternType.ANY):
        need(broker, api, _PATTERNS, f"the pattern type {pattern.name}", "2.0")
    return None


def _creation(item: AclBinding, broker: Node) -> wire.CreateAclsRequest.Creation:
    made = wire.CreateAclsRequest.Creation(
        resource_type=int(item.resource),
        resource_name=item.name,
        principal=item.principal,
        host=item.host,
        operation=int(item.operation),
        permission_type=int(item.permission),
    )
    pattern = _pattern(broker, wire.CreateAclsRequest, item.pattern)
    if pattern is not None:
        made.resource_pattern_type = pattern
    return made


def _filter(make: type[F], item: AclFilter, broker: Node, api: type[Request[Any]]) -> F:
    """Return a filter as requests of an API have it."""
    made = make(
        resource_type_filter=int(item.resource),
        resource_name_filter=item.name,
        principal_filter=item.principal,
        host_filter=item.host,
        operation=int(item.operation),
        permission_type=int(item.permission),
    )
    pattern = _pattern(broker, api, item.pattern)
    if pattern is not None:
        made.pattern_type_filter = pattern
    return made


def _binding(
    resource: int,
    name: str,
    pattern: int,
    acl: wire.DescribeAclsResponse.Resource.Acl | wire.DeleteAclsResponse.FilterResult.MatchingAcl,
) -> AclBinding:
    return AclBinding(
        ResourceType(resource),
        name,
        acl.principal,
        AclOperation(acl.operation),
        Permission(acl.permission_type),
        acl.host,
        PatternType(pattern),
    )


def _deleted(item: AclFilter, result: wire.DeleteAclsResponse.FilterResult) -> list[AclBinding] | KafkaException:
    error = response_error(result, what=str(item))
    found = []
    for acl in result.matching_acls:
        found.append(_binding(acl.resource_type, acl.resource_name, acl.pattern_type, acl))
        error = error or response_error(acl, what=str(found[-1]))
    return error or sorted(found, key=str)
