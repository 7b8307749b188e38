"""Access control lists: bindings and filters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pykafka.admin.operations import AclOperation


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


#: The name of the one resource of type CLUSTER.
CLUSTER_NAME = "kafka-cluster"


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
