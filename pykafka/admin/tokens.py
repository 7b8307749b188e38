"""Delegation tokens: create, renew, expire, describe (since Kafka 1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several
from pykafka.admin.releases import need
from pykafka.admin.results import outcome
from pykafka.admin.routing import AnyBroker, Controller, RequestFactory
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire
from pykafka.security import DelegationToken as TokenLogin

if TYPE_CHECKING:
    from pykafka.network.node import Node

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

        def request(items: Sequence[str], broker: Node, left: int) -> wire.CreateDelegationTokenRequest:
            make = wire.CreateDelegationTokenRequest.Renewer
            made = wire.CreateDelegationTokenRequest(
                renewers=[make(principal_type=kind, principal_name=name) for kind, name in map(_principal, others)],
                max_lifetime_ms=_DEFAULT if max_lifetime_ms is None else max_lifetime_ms,
            )
            if owner is not None:
                need(broker, wire.CreateDelegationTokenRequest, _OWNER, "a token for another owner", "3.3")
                made.owner_principal_type, made.owner_principal_name = _principal(owner)
            return made

        def read(
            response: wire.CreateDelegationTokenResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, DelegationToken | KafkaException]:
            error = outcome(response.error_code, broker=broker, api="CreateDelegationToken")
            return {
                "": error
                or DelegationToken(
                    response.token_id,
                    bytes(response.hmac),
                    f"{response.principal_type}:{response.principal_name}",
                    _requester(response),
                    tuple(others),
                    response.issue_timestamp_ms,
                    response.expiry_timestamp_ms,
                    response.max_timestamp_ms,
                )
            }

        asked: RequestFactory[str, DelegationToken] = RequestFactory(
            wire.CreateDelegationTokenRequest, request, read, once=True, waits=True
        )
        return self._ask([""], Controller(self._cluster), asked, timeout_ms, True)[""]

    def renew_delegation_token(
        self, token: DelegationToken | bytes, period_ms: int | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> int:
        """Put off the end of a token, and return it (ms since 1970).

        :param token: the token, or its HMAC
        :param period_ms: from now on; by default as the brokers have it
        :param timeout_ms: of the whole call
        :raises DelegationTokenNotFound: there is no such token
        """
        hmac = token.hmac if isinstance(token, DelegationToken) else token

        def request(items: Sequence[str], broker: Node, left: int) -> wire.RenewDelegationTokenRequest:
            period = _DEFAULT if period_ms is None else period_ms
            return wire.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)

        return self._expiry(RequestFactory(wire.RenewDelegationTokenRequest, request, _expiry, waits=True), timeout_ms)

    def expire_delegation_token(
        self, token: DelegationToken | bytes, period_ms: int | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> int:
        """Bring a token's end forward, and return it (ms since 1970).

        :param token: the token, or its HMAC
        :param period_ms: from now on; by default it ends at once
        :param timeout_ms: of the whole call
        :raises DelegationTokenNotFound: there is no such token
        """
        hmac = token.hmac if isinstance(token, DelegationToken) else token

        def request(items: Sequence[str], broker: Node, left: int) -> wire.ExpireDelegationTokenRequest:
            period = _DEFAULT if period_ms is None else period_ms
            return wire.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)

        return self._expiry(RequestFactory(wire.ExpireDelegationTokenRequest, request, _expiry, waits=True), timeout_ms)

    def _expiry(self, question: RequestFactory[str, int], timeout_ms: int) -> int:
        return self._ask([""], Controller(self._cluster), question, timeout_ms, True)[""]

    def describe_delegation_tokens(
        self, owners: str | Iterable[str] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> list[DelegationToken]:
        """Return the tokens that this user may see, the oldest first.

        :param owners: a principal, or several; None for all
        :param timeout_ms: of the whole call
        """
        wanted: list[str] | None = None if owners is None else several(owners, "owners", str)

        def request(items: Sequence[str], broker: Node, left: int) -> wire.DescribeDelegationTokenRequest:
            make = wire.DescribeDelegationTokenRequest.Owner
            principals = None if wanted is None else [_principal(one) for one in wanted]
            return wire.DescribeDelegationTokenRequest(
                owners=None
                if principals is None
                else [make(principal_type=kind, principal_name=name) for kind, name in principals]
            )

        def read(
            response: wire.DescribeDelegationTokenResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, list[DelegationToken] | KafkaException]:
            error = outcome(response.error_code, broker=broker, api="DescribeDelegationToken")
            found = [_described(token) for token in response.tokens]
            return {"": error or sorted(found, key=lambda token: (token.issued_ms, token.token_id))}

        asked: RequestFactory[str, list[DelegationToken]] = RequestFactory(
            wire.DescribeDelegationTokenRequest, request, read
        )
        return self._ask([""], AnyBroker(self._cluster), asked, timeout_ms, True)[""]


def _principal(text: str) -> tuple[str, str]:
    """Return type and name of a principal; a name alone is a user's."""
    kind, colon, name = text.partition(":")
    return (kind, name) if colon else (_USER, text)


def _requester(
    token: wire.CreateDelegationTokenResponse | wire.DescribeDelegationTokenResponse.Token,
) -> str | None:
    name = token.token_requester_principal_name
    return f"{token.token_requester_principal_type}:{name}" if name else None


def _described(token: wire.DescribeDelegationTokenResponse.Token) -> DelegationToken:
    return DelegationToken(
        token.token_id,
        bytes(token.hmac),
        f"{token.principal_type}:{token.principal_name}",
        _requester(token),
        tuple(f"{one.principal_type}:{one.principal_name}" for one in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )


def _expiry(
    response: wire.RenewDelegationTokenResponse | wire.ExpireDelegationTokenResponse,
    items: Sequence[str],
    broker: Node,
) -> Mapping[str, int | KafkaException]:
    api = type(response).__name__.removesuffix("Response")
    return {"": outcome(response.error_code, broker=broker, api=api) or response.expiry_timestamp_ms}
