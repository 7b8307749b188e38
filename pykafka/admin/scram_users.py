"""The credentials of users who log in by SCRAM: describe, set, delete (since Kafka 2.7)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several
from pykafka.admin.results import Results, checked, response_error
from pykafka.admin.routing import Controller, RequestFactory
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node

#: Brokers take 4096 to 16384 iterations.
ITERATIONS = 8192
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
_SALT_BYTES = 24


class ScramMechanism(IntEnum):
    """A SCRAM mechanism; the numbers are the protocol's."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        """The name of its hash function."""
        return "sha256" if self == ScramMechanism.SCRAM_SHA_256 else "sha512"

    def __str__(self) -> str:
        return self.name.replace("_", "-")


@dataclass(frozen=True)
class ScramCredentialInfo:
    """A credential of a user; brokers never return the password.

    :param mechanism: of the login
    :param iterations: of the hash function
    """

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True)
class UserScramCredentialUpsertion:
    """A credential to set. Its password is in no `repr`, and never leaves this process: brokers get its salted hash.

    :param user: name of the user
    :param mechanism: of the login
    :param password: of the user
    :param iterations: of the hash function, 4096 to 16384
    :param salt: by default a random one
    """

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = ITERATIONS
    salt: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.mechanism == ScramMechanism.UNKNOWN:
            raise ValueError("the mechanism must be SCRAM_SHA_256 or SCRAM_SHA_512")
        if not self.user or not self.password:
            raise ValueError("user and password must not be empty")
        if not MIN_ITERATIONS <= self.iterations <= MAX_ITERATIONS:
            raise ValueError(f"iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {self.iterations}")

    def salted(self) -> tuple[bytes, bytes]:
        """Return the salt, and the salted password of RFC 5802. This takes a few milliseconds of CPU."""
        salt = secrets.token_bytes(_SALT_BYTES) if self.salt is None else self.salt
        return salt, hashlib.pbkdf2_hmac(self.mechanism.hash_name, self.password.encode(), salt, self.iterations)


@dataclass(frozen=True)
class UserScramCredentialDeletion:
    """A credential to delete.

    :param user: name of the user
    :param mechanism: of the login
    """

    user: str
    mechanism: ScramMechanism


_Change = UserScramCredentialUpsertion | UserScramCredentialDeletion
_Entry = wire.AlterUserScramCredentialsRequest.Upsertion | wire.AlterUserScramCredentialsRequest.Deletion


class ScramUsersAdmin(AdminBase):
    """The users who log in by SCRAM."""

    def describe_user_scram_credentials(
        self,
        users: str | Iterable[str] | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """Return mechanisms and iterations of users (since Kafka 2.7).

        :param users: a name, or several; None for all users
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for users that failed, see `Results`
        :raises ResourceNotFound: there is no such user
        """
        names: list[str] | None = None if users is None else list(dict.fromkeys(several(users, "users", str)))
        if names == []:  # brokers would take it for all users
            return Results({})

        api = wire.DescribeUserScramCredentialsRequest
        wanted = None if names is None else [api.User(name=name) for name in names]

        def read(
            response: wire.DescribeUserScramCredentialsResponse,
        ) -> dict[str, tuple[ScramCredentialInfo, ...] | KafkaException]:
            return {result.user: described(result) for result in response.results}

        found = self._ask_one(api, lambda broker, left: api(users=wanted), read, timeout_ms)
        return checked(Results(found), raise_errors)

    def alter_user_scram_credentials(
        self,
        changes: UserScramCredentialUpsertion
        | UserScramCredentialDeletion
        | Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Set and delete users' credentials (since Kafka 2.7).

        Brokers in KRaft mode follow some milliseconds after the answer: try a login again that is refused before.

        :param changes: a UserScramCredentialUpsertion or UserScramCredentialDeletion, or several
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for users that failed, see `Results`
        :return: by user
        :raises ResourceNotFound: there is no such credential to delete
        """
        wanted: list[UserScramCredentialUpsertion | UserScramCredentialDeletion] = several(
            changes, "changes", (UserScramCredentialUpsertion, UserScramCredentialDeletion)
        )
        deadline = self._deadline(timeout_ms)
        found: dict[str, KafkaException | None] = {}
        for batch in _batches(wanted):
            # Each takes milliseconds: not on a hub.
            entries = {one.user: self._cluster.handler.offload(_entry, one) for one in batch}
            target = Controller(self._cluster)
            answers = self._router.ask(entries, target, _alteration(entries), self._left_ms(deadline))
            found |= {user: found.get(user) or error for user, error in answers.items()}
        results: Results[str, None] = Results(found)
        return checked(results, raise_errors)


def _batches(changes: Iterable[_Change]) -> list[list[_Change]]:
    """Cut changes into requests: brokers refuse a request with two changes of one user."""
    batches: list[list[_Change]] = []
    for change in changes:
        batch = next((batch for batch in batches if all(other.user != change.user for other in batch)), None)
        if batch is None:
            batches.append(batch := [])
        batch.append(change)
    return batches


def _entry(change: _Change) -> _Entry:
    """Return a change as the request has it; this takes a few milliseconds of CPU."""
    message = wire.AlterUserScramCredentialsRequest
    if isinstance(change, UserScramCredentialDeletion):
        return message.Deletion(name=change.user, mechanism=int(change.mechanism))
    salt, salted = change.salted()
    return message.Upsertion(
        name=change.user,
        mechanism=int(change.mechanism),
        iterations=change.iterations,
        salt=salt,
        salted_password=salted,
    )


def _alteration(entries: Mapping[str, _Entry]) -> RequestFactory[str, None]:
    message = wire.AlterUserScramCredentialsRequest

    def request(items: Sequence[str], broker: Node, left: int) -> wire.AlterUserScramCredentialsRequest:
        its = [entries[item] for item in items]
        return message(
            deletions=[one for one in its if isinstance(one, message.Deletion)],
            upsertions=[one for one in its if isinstance(one, message.Upsertion)],
        )

    def read(
        response: wire.AlterUserScramCredentialsResponse, items: Sequence[str], broker: Node
    ) -> Mapping[str, KafkaException | None]:
        return {result.user: response_error(result, f"user {result.user}") for result in response.results}

    return RequestFactory(message, request, read, waits=True)


def described(
    result: wire.DescribeUserScramCredentialsResponse.Result,
) -> tuple[ScramCredentialInfo, ...] | KafkaException:
    """Return a user's credentials, by mechanism."""
    known = set(ScramMechanism)
    return response_error(result, f"user {result.user}") or tuple(
        ScramCredentialInfo(ScramMechanism(info.mechanism if info.mechanism in known else 0), info.iterations)
        # Brokers keep them in a hash map, whose order differs from run to run.
        for info in sorted(result.credential_infos, key=lambda one: one.mechanism)
    )
