"""`Authorizer`: the ACLs of a cluster, and whether they let somebody do something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pykafka.admin.acls import AclBinding, PatternType, Permission, ResourceType
from pykafka.admin.results import AclOperation as Operation

CLUSTER: Final = "kafka-cluster"
ANONYMOUS: Final = "User:ANONYMOUS"
#: By operation: those that include the right to it.
_INCLUDED_IN: Final = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
#: The operations that there are on each type of resource.
_DESCRIBED_CONFIGS: Final = {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
OPERATIONS: Final = {
    ResourceType.TOPIC: {
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE),
        *_DESCRIBED_CONFIGS,
    },
    ResourceType.GROUP: {Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_DESCRIBED_CONFIGS},
    ResourceType.CLUSTER: {
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE),
        *_DESCRIBED_CONFIGS,
    },
    ResourceType.TRANSACTIONAL_ID: {Operation.DESCRIBE, Operation.WRITE},
}


class Authorizer:
    """The ACLs of a cluster, as Kafka's StandardAuthorizer judges by them.

    :param super_users: who may do everything: "User:alice"
    :param is_open: whether all may do everything with what no ACL is about (`allow.everyone.if.no.acl.found`)
    """

    def __init__(self, super_users: Iterable[str] = (), *, is_open: bool = False) -> None:
        self.super_users = frozenset(map(principal_of, super_users))
        self.is_open = is_open
        #: In the order of their creation.
        self.acls: dict[AclBinding, None] = {}

    def permits(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Return whether a principal may do something: what is denied to it counts more than what is allowed.

        :param principal: "User:alice"
        :param host: the address of the client
        :param operation: to do
        :param kind: of the resource
        :param name: of the resource
        """
        if principal in self.super_users:
            return True
        about = [acl for acl in self.acls if acl.resource == kind and concerns(acl, name)]
        if not about:
            return self.is_open
        return _judge(about, principal, host, operation)

    def permits_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Return whether a principal may do something with one resource of a type at least."""
        if principal in self.super_users or self.is_open:
            return True
        about = [acl for acl in self.acls if acl.resource == kind]
        return any(self.permits(principal, host, operation, kind, acl.name) for acl in about)


def _judge(acls: list[AclBinding], principal: str, host: str, operation: Operation) -> bool:
    mine = [acl for acl in acls if acl.principal in (principal, "User:*") and acl.host in (host, "*")]
    if any(acl.permission == Permission.DENY and acl.operation in (operation, Operation.ALL) for acl in mine):
        return False
    enough = {operation, Operation.ALL, *_INCLUDED_IN.get(operation, ())}
    return any(acl.permission == Permission.ALLOW and acl.operation in enough for acl in mine)


def concerns(acl: AclBinding, name: str) -> bool:
    """Return whether an ACL is about a resource of its type."""
    if acl.pattern == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, "*")


def principal_of(user: str) -> str:
    """Return the principal of a user: "User:alice" of "alice", and of itself."""
    return user if ":" in user else f"User:{user}"
