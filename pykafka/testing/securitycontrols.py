"""`SecurityControls`: what a test says about who may log in to a fake cluster, and what they may do there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from pykafka.admin.acls import AclBinding, PatternType, Permission, ResourceType
from pykafka.admin.results import AclOperation
from pykafka.protocol import wire
from pykafka.testing.acls import CLUSTER, OPERATIONS, Authorizer, principal_of
from pykafka.testing.arguments import is_text
from pykafka.testing.controls import Controls
from pykafka.testing.faults import FakeClusterError
from pykafka.testing.quotas import CLIENT, KEYS, USER
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


def _applicable(name: AclOperation | str, kinds: Iterable[ResourceType]) -> AclOperation:
    """Return an operation that there is on one of the types of resources at least, as an ACL without effect is a mistake.

    :raises ValueError: there is none of this name, or it is for other types
    """
    operation = _operation(name)
    possible = set().union(*(OPERATIONS[kind] for kind in kinds)) | {AclOperation.ALL}
    if operation not in possible:
        types = " or ".join(kind.name.lower() for kind in kinds)
        others = [
            key for key in ("topic", "group", "transactional_id") if operation in OPERATIONS[ResourceType[key.upper()]]
        ]
        hint = f"; name {' or '.join(f'{key}=' for key in others)} for it" if others else ""
        listed = ", ".join(one.name for one in sorted(possible))
        raise ValueError(f"there is no operation {operation.name} on a {types}: {listed}{hint}")
    return operation


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
        if not isinstance(authorizer, bool | Authorizer):
            raise ValueError(f"authorizer is {authorizer!r}: True, False or an Authorizer")
        if isinstance(super_users, str):
            raise ValueError(f"super_users is {super_users!r}: a list of names")
        if super_users and authorizer is not True:
            raise ValueError(
                f"super_users is {super_users!r}, but they need authorizer=True; an Authorizer names its own"
            )
        if tls is not None and not hasattr(tls, "wrap_bio"):
            raise ValueError(f"tls is {tls!r}: an ssl.SSLContext of a server")
        if not isinstance(sasl, Mapping | Sasl | None):
            raise ValueError(f"sasl is {sasl!r}: a dict of users and passwords, or a Sasl")
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
        :raises FakeClusterError: the cluster asks for no login
        """
        for name, value, known in (("user", user, str), ("password", password, str | None)):
            if not isinstance(value, known):
                raise ValueError(f"{name} is {value!r}: a text")
        with self._locked() as state:
            if not state.sasl.mechanisms:
                raise FakeClusterError("the cluster asks for no login: start it with sasl={user: password}")
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

        Each user, client id or pair of them has the rate for itself. `user`, `client_id` or both have to be given, as brokers
        have no quota for all clients together.

        :param key: "producer_byte_rate", "consumer_byte_rate" (bytes/s), "controller_mutation_rate" (partitions/s)
        :param rate: per second; None removes the quota
        :param user: its name; "*" is each user without an own quota; None: the quota is for the client id alone
        :param client_id: of the client; "*" is each one without an own quota; None: the quota is for the user alone
        :raises ValueError: there is no such quota or rate, or neither a user nor a client id
        """
        names = {"user": user, "client_id": client_id}
        for name, value in names.items():
            if value is not None and not is_text(value):
                raise ValueError(f'{name} is {value!r}: a name, "*" for each one without an own quota, or None')
        if user is None and client_id is None:
            raise ValueError(
                'a quota is for a user or a client id: set user= or client_id=; client_id="*" is each client id without '
                "an own quota"
            )
        if key not in KEYS:
            raise ValueError(f"key is {key!r}: one of {', '.join(sorted(KEYS))}")
        if rate is not None and (type(rate) not in (int, float) or not 0 < rate < float("inf")):
            raise ValueError(f"rate is {rate!r}: a number above 0, or None to remove the quota")
        kinds = {USER: user, CLIENT: client_id}
        entity = frozenset((kind, None if name == "*" else name) for kind, name in kinds.items() if name is not None)
        with self._locked() as state:
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
        known_operations = [_applicable(operation, chosen) for operation in operations or (AclOperation.ALL,)]
        if not is_text(user):
            raise ValueError(f'user is {user!r}: a name, a principal such as "User:alice", or "*" for all users')
        with self._locked() as state:
            if state.authorizer is None:
                raise FakeClusterError("the cluster has no authorizer: start it with authorizer=True")
            for known in known_operations:
                for kind, name in chosen.items():
                    host = where.get("host", "*")
                    state.authorizer.acls[
                        AclBinding(kind, name, principal_of(user), known, permission, host, pattern)
                    ] = None
