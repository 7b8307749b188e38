"""Delegation tokens (KIP-48)."""

from __future__ import annotations

from pykafka.protocol.fields import array, binary, int16, int32, int64, string
from pykafka.protocol.schema import Request, Response, Struct


class CreateDelegationTokenResponse(Response, api_key=38, versions="0-3", flexible="2+", early="1+"):
    """The new token."""

    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+", secret=True)
    throttle_time_ms: int = int32("0+")


class CreateDelegationTokenRequest(Request[CreateDelegationTokenResponse], api_key=38, versions="0-3", flexible="2+"):
    """A request that creates a token; for another owner from version 3 on (KIP-373)."""

    class Renewer(Struct):
        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[Renewer] = array(Renewer, "0+")
    max_lifetime_ms: int = int64("0+")


class RenewDelegationTokenResponse(Response, api_key=39, versions="0-2", flexible="2+", early="1+"):
    """The new expiry."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")


class RenewDelegationTokenRequest(Request[RenewDelegationTokenResponse], api_key=39, versions="0-2", flexible="2+"):
    """A request that renews a token."""

    hmac: bytes = binary("0+", secret=True)
    renew_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(Response, api_key=40, versions="0-2", flexible="2+", early="1+"):
    """The new expiry."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")


class ExpireDelegationTokenRequest(Request[ExpireDelegationTokenResponse], api_key=40, versions="0-2", flexible="2+"):
    """A request that lets a token expire; at once with a negative period."""

    hmac: bytes = binary("0+", secret=True)
    expiry_time_period_ms: int = int64("0+")


class DescribeDelegationTokenResponse(Response, api_key=41, versions="0-3", flexible="2+", early="1+"):
    """The tokens that this user may see."""

    class Token(Struct):
        class Renewer(Struct):
            principal_type: str = string("0+")
            principal_name: str = string("0+")

        principal_type: str = string("0+")
        principal_name: str = string("0+")
        token_requester_principal_type: str = string("3+")
        token_requester_principal_name: str = string("3+")
        issue_timestamp: int = int64("0+")
        expiry_timestamp: int = int64("0+")
        max_timestamp: int = int64("0+")
        token_id: str = string("0+")
        hmac: bytes = binary("0+", secret=True)
        renewers: list[Renewer] = array(Renewer, "0+")

    error_code: int = int16("0+")
    tokens: list[Token] = array(Token, "0+")
    throttle_time_ms: int = int32("0+")


class DescribeDelegationTokenRequest(
    Request[DescribeDelegationTokenResponse], api_key=41, versions="0-3", flexible="2+"
):
    """A request for the tokens of owners; None asks for all."""

    class Owner(Struct):
        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owners: list[Owner] | None = array(Owner, "0+", nullable="0+")
