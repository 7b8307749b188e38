"""Authentication by SASL."""

from __future__ import annotations

from pykafka.protocol.fields import array, binary, int16, int64, string
from pykafka.protocol.schema import Request, Response


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    """The mechanisms that the broker offers."""

    error_code: int = int16("0+")
    mechanisms: list[str] = array("string", "0+")


class SaslHandshakeRequest(Request[SaslHandshakeResponse], api_key=17, versions="0-1"):
    """A request that chooses a mechanism; from version 1 on, SaslAuthenticate carries its tokens (KIP-152)."""

    mechanism: str = string("0+")


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    """The broker's token."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+", secret=True)
    session_lifetime_ms: int = int64("1+", ignorable=True)


class SaslAuthenticateRequest(Request[SaslAuthenticateResponse], api_key=36, versions="0-2", flexible="2+"):
    """The client's token (KIP-152)."""

    auth_bytes: bytes = binary("0+", secret=True)
