"""`SecurityControls`: what a test says about who may log in to a fake cluster, and what they may do there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from pykafka.admin.acls import AclBinding, PatternType, Permission, ResourceType
from pykafka.admin.results import AclOperation
from pykafka.exceptions import InvalidRequest
from pykafka.protocol import wire
from pykafka.testing.acls import CLUSTER, Authorizer, principal_of
from pykafka.testing.controls import Controls
from pykafka.testing.faults import FakeClusterError
from pykafka.testing.quotas import CLIENT, USER
from pykafka.testing.sasl import Sasl

if TYPE_CHECKING:
    from pykafka.testing.tls import ServerContext

#: Since these releases brokers have SCRAM, and OAUTHBEARER.
_SINCE = {"SCRAM-SHA-256": (0, 10, 2), "SCRAM-SHA-512": (0, 10, 2), "OAUTHBEARER": (2,)}


class Where(TypedDict, total=False):
    """The resource of an ACL, and the address of the client: see `SecurityControls.allow`."""

    topic: str
    group: str
    transactional_id: str
    prefixed: bool
    host: str


def _operation(name: AclOperation | str) -> AclOperation:
    try:
        return AclOperation[name.upper()] if isinstance(name, str) else name
    except KeyError:
        raise ValueError(f"there is no operation {name!r}: {', '.join(one.name for one in AclOperation)}") from None


class SecurityControls(Controls):
    """Logins, ACLs and quotas: a part of `FakeCluster`."""

    def _secure(
        self,
        sasl: Mapping[str, str] | Sasl | None,
        authorizer: Authorizer | bool,
        super_users: Sequence[str],
        tls: ServerContext | None,
    ) -> None:
        state = self._state
        state.tls = tls
        state.authorizer = Authorizer(super_users) if authorizer is True else authorizer or None
        if sasl is None:
            return
        chosen = sasl if isinstance(sasl, Sasl) else Sasl(sasl)
        played = state.release
        if wire.SaslHandshakeRequest.api_key not in state.versions:
            raise ValueError(f"Kafka {played.name} has logins by Kerberos at most, which fake brokers do not have")
        late = [name for name in chosen.mechanisms if played.numbers < _SINCE.get(name, ())]
        if late or not chosen.mechanisms:
            raise ValueError(f"Kafka {played.name} has no login by {late[0] if late else 'no mechanism: name one'}")
        state.sasl = chosen

    def set_password(self, user: str, password: str | None) -> None:
        """Set the password of a user, for PLAIN and SCRAM; connections of before stay until they log in again.

        :param password: None removes the user
        """
        with self._locked() as state:
            state.sasl.set_password(user, password)

    def allow(self, user: str, *operations: AclOperation | str, **where: Unpack[Where]) -> None:
        """Create ACLs that allow something.

            cluster.allow("alice", "READ", "WRITE", topic="orders")

        :param user: "alice", or a principal: "User:alice"; "*" is all users
        :param operations: "READ" or `AclOperation.READ`; none: all of them
        :param where: topic, group, transactional_id: a name, or "*" for all; without any of them: the cluster. prefixed: all
            names that begin so are meant. host: the address of the client; "*" is any
        :raises FakeClusterError: the cluster has no authorizer
        :raises ValueError: there is no such operation or kind of resource
        """
        self._add_acls(Permission.ALLOW, user, operations, where)

    def deny(self, user: str, *operations: AclOperation | str, **where: Unpack[Where]) -> None:
        """Create ACLs that deny something, whatever is allowed. As `allow`."""
        self._add_acls(Permission.DENY, user, operations, where)

    def set_quota(self, key: str, rate: float | None, *, user: str | None = None, client_id: str | None = None) -> None:
        """Set how fast clients may go: who is faster is throttled (KIP-219), after ten seconds' worth in advance.

        :param key: "producer_byte_rate", "consumer_byte_rate" (bytes/s), "controller_mutation_rate" (partitions/s)
        :param rate: per second; None removes the quota
        :param user: its name; "*" is each user without an own quota; None: whoever it is
        :param client_id: of the client; "*" is each one without an own quota; None: whichever
        :raises FakeClusterError: there is no such quota
        """
        names = {USER: user, CLIENT: client_id}
        entity = frozenset((kind, None if name == "*" else name) for kind, name in names.items() if name is not None)
        with self._locked() as state:
            try:
                state.quotas.check(entity, key)
            except InvalidRequest as error:
                raise FakeClusterError(f"cannot set {key}: {' '.join(error.args)}") from error
            state.quotas.set(entity, key, rate)

    def _add_acls(
        self, permission: Permission, user: str, operations: tuple[AclOperation | str, ...], where: Where
    ) -> None:
        for key, value in where.items():
            if key not in Where.__annotations__:
                raise ValueError(f"ACLs are about {', '.join(Where.__annotations__)}; not {key!r}")
            if not isinstance(value, bool if key == "prefixed" else str):
                raise ValueError(f"{key} is {value!r}: {'true or false' if key == 'prefixed' else 'a text'}")
        names = {
            ResourceType.TOPIC: where.get("topic"),
            ResourceType.GROUP: where.get("group"),
            ResourceType.TRANSACTIONAL_ID: where.get("transactional_id"),
        }
        chosen = {kind: name for kind, name in names.items() if name is not None} or {ResourceType.CLUSTER: CLUSTER}
        pattern = PatternType.PREFIXED if where.get("prefixed") else PatternType.LITERAL
        with self._locked() as state:
            if state.authorizer is None:
                raise FakeClusterError("the cluster has no authorizer: start it with authorizer=True")
            for operation in operations or (AclOperation.ALL,):
                known = _operation(operation)
                for kind, name in chosen.items():
                    host = where.get("host", "*")
                    state.authorizer.acls[
                        AclBinding(kind, name, principal_of(user), known, permission, host, pattern)
                    ] = None
