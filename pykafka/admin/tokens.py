"""Delegation tokens: create, renew, expire, describe (since Kafka 1.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several
from pykafka.admin.releases import need
from pykafka.admin.routing import Controller
from pykafka.protocol import wire
from pykafka.security import DelegationToken as TokenLogin

if TYPE_CHECKING:
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request

_USER = "User"
#: Stands for the brokers' own limits.
_DEFAULT = -1
_OWNER = 3


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token. Who has its HMAC can log in as its owner: it is in no `repr`.

    :param token_id: the user name of a login by SCRAM with this token
    :param hmac: proves the token
    :param owner: the principal that a login by the token has: "User:alice"
    :param requester: the principal that asked for it; None before Kafka 3.3
    :param renewers: the principals that may renew it
    :param issued_ms: ms since 1970
    :param expires_ms: when it ends unless it is renewed, ms since 1970
    :param max_ms: when it ends in any case, ms since 1970
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str | None
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def login(self, mechanism: str = "SCRAM-SHA-512") -> TokenLogin:
        """Return the credentials of this token, for `KafkaClient(sasl=...)`.

        :param mechanism: SCRAM-SHA-256 or SCRAM-SHA-512, as the listener has it
        """
        return TokenLogin(self.token_id, self.hmac, mechanism)


class TokensAdmin(AdminBase):
    """Delegation tokens. The client must have logged in, by another way than a token."""

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: str | Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> DelegationToken:
        """Create a token.

        Brokers in KRaft mode accept it some milliseconds after the answer: try a login again that is refused before.

        :param owner: "User:alice"; by default this user. Another one since Kafka 3.3
        :param renewers: principals that may renew it, besides its owner
        :param max_lifetime_ms: when it ends in any case; by default as the brokers have it
        :param timeout_ms: of the whole call
        :raises DelegationTokenAuthDisabled: the brokers have no `delegation.token.secret.key`
        :raises DelegationTokenRequestNotAllowed: this client has not logged in, or by a token
        """
        others: list[str] = several(renewers, "renewers", str)

        def request(broker: Node, left: int) -> wire.CreateDelegationTokenRequest:
            make = wire.CreateDelegationTokenRequest.Renewer
            made = wire.CreateDelegationTokenRequest(
                renewers=[make(principal_type=kind, principal_name=name) for kind, name in map(_principal, others)],
                max_lifetime_ms=_DEFAULT if max_lifetime_ms is None else max_lifetime_ms,
            )
            if owner is not None:
                need(broker, wire.CreateDelegationTokenRequest, _OWNER, "a token for another owner", "3.3")
                made.owner_principal_type, made.owner_principal_name = _principal(owner)
            return made

        def read(response: wire.CreateDelegationTokenResponse) -> DelegationToken:
            times = (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms)
            return _token(response, others, *times)

        controller = Controller(self._cluster)
        api = wire.CreateDelegationTokenRequest
        return self._ask_one(api, request, read, timeout_ms, controller, once=True, waits=True)

    def renew_delegation_token(
        self, token: DelegationToken | bytes, period_ms: int | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> int:
        """Put off the end of a token, and return it (ms since 1970).

        :param token: the token, or its HMAC
        :param period_ms: from now on; by default as the brokers have it
        :param timeout_ms: of the whole call
        :raises DelegationTokenNotFound: there is no such token
        """
        period = _DEFAULT if period_ms is None else period_ms
        return self._end(wire.RenewDelegationTokenRequest(hmac=_hmac(token), renew_period_ms=period), timeout_ms)

    def expire_delegation_token(
        self, token: DelegationToken | bytes, period_ms: int | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> int:
        """Bring a token's end forward, and return it (ms since 1970).

        :param token: the token, or its HMAC
        :param period_ms: from now on; by default it ends at once
        :param timeout_ms: of the whole call
        :raises DelegationTokenNotFound: there is no such token
        """
        period = _DEFAULT if period_ms is None else period_ms
        return self._end(wire.ExpireDelegationTokenRequest(hmac=_hmac(token), expiry_time_period_ms=period), timeout_ms)

    def _end(self, request: Request[Any], timeout_ms: int) -> int:
        """Return the end of a token that a request has changed (ms since 1970)."""
        return self._ask_one(
            type(request),
            lambda broker, left: request,
            lambda response: int(response.expiry_timestamp_ms),
            timeout_ms,
            Controller(self._cluster),
            waits=True,
        )

    def describe_delegation_tokens(
        self, owners: str | Iterable[str] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> list[DelegationToken]:
        """Return the tokens that this user may see, the oldest first.

        :param owners: a principal, or several; None for all
        :param timeout_ms: of the whole call
        """
        owner = wire.DescribeDelegationTokenRequest.Owner
        wanted = None
        if owners is not None:
            principals = map(_principal, several(owners, "owners", str))
            wanted = [owner(principal_type=kind, principal_name=name) for kind, name in principals]

        def read(response: wire.DescribeDelegationTokenResponse) -> list[DelegationToken]:
            found = []
            for token in response.tokens:
                renewers = [f"{one.principal_type}:{one.principal_name}" for one in token.renewers]
                times = (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp)
                found.append(_token(token, renewers, *times))
            return sorted(found, key=lambda token: (token.issued_ms, token.token_id))

        api = wire.DescribeDelegationTokenRequest
        return self._ask_one(api, lambda broker, left: api(owners=wanted), read, timeout_ms)


def _hmac(token: DelegationToken | bytes) -> bytes:
    return token.hmac if isinstance(token, DelegationToken) else token


def _principal(text: str) -> tuple[str, str]:
    """Return type and name of a principal; a name alone is a user's."""
    kind, colon, name = text.partition(":")
    return (kind, name) if colon else (_USER, text)


def _token(
    token: wire.CreateDelegationTokenResponse | wire.DescribeDelegationTokenResponse.Token,
    renewers: Iterable[str],
    issued_ms: int,
    expires_ms: int,
    max_ms: int,
) -> DelegationToken:
    requester = token.token_requester_principal_name
    return DelegationToken(
        token.token_id,
        bytes(token.hmac),
        f"{token.principal_type}:{token.principal_name}",
        f"{token.token_requester_principal_type}:{requester}" if requester else None,
        tuple(renewers),
        issued_ms,
        expires_ms,
        max_ms,
    )
