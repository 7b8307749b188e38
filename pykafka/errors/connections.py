"""Errors of connections, logins and requests under way. Import them from `pykafka.exceptions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykafka.errors.base import KafkaException

__all__ = [
    "ConnectTimeoutError",
    "ConnectionRefused",
    "CorrelationIdError",
    "ForeignClusterError",
    "FrameTooLargeError",
    "IncompleteResponseError",
    "NameResolutionError",
    "NotKafkaError",
    "ProxyError",
    "ResponseTimeoutError",
    "SaslRequiredError",
    "SocketDisconnectedError",
    "ThrottledError",
    "TlsError",
    "TokenTimeoutError",
    "TokenUnavailableError",
]


class SocketDisconnectedError(KafkaException):
    """Raised when a connection is lost, or cannot be made."""

    retriable = True
    invalid_metadata = True


class ConnectionRefused(SocketDisconnectedError):
    """Raised when nothing listens at an address, or the address cannot be reached."""


class NameResolutionError(SocketDisconnectedError):
    """Raised when a broker's host name has no address."""


class ConnectTimeoutError(SocketDisconnectedError, TimeoutError):
    """Raised when a connection cannot be made in time."""


class ProxyError(SocketDisconnectedError):
    """Raised when the proxy of `proxy=` refuses a connection, or is no such proxy."""


class ForeignClusterError(SocketDisconnectedError):
    """Raised when an address leads to another cluster than the one the client began with: their ids differ.

    The client takes nothing over from the other cluster. Correct the addresses or the DNS; if a new cluster has replaced the
    old one on purpose, make a new KafkaClient.
    """


class TlsError(SocketDisconnectedError):
    """Raised when the TLS handshake with a broker fails, or its certificate is not trusted."""

    retriable = False


class NotKafkaError(SocketDisconnectedError):
    """Raised when an address has no Kafka listener: an HTTP server, or a TLS port addressed without TLS."""

    retriable = False


class CorrelationIdError(SocketDisconnectedError):
    """Raised when a response does not match the request that is due. The connection cannot be used any more."""


class FrameTooLargeError(SocketDisconnectedError):
    """Raised when a response claims to be larger than this client allows."""

    retriable = False


class ResponseTimeoutError(KafkaException, TimeoutError):
    """Raised when a response, or another event, does not arrive in time."""

    retriable = True


class IncompleteResponseError(ResponseTimeoutError):
    """Raised when a response leaves out something that the request named. Its outcome is unknown.

    :param what: the kind of thing left out, such as "partition"
    :param context: as for KafkaException
    """

    def __init__(self, what: str = "partition", **context: Any) -> None:
        super().__init__(f"the broker's answer left this {what} out", **context)


class SaslRequiredError(KafkaException):
    """Raised when a listener wants a login by SASL, and the client has no credentials: give `sasl=`.

    :param text: what happened and what to do
    :param mechanisms: those that the listener offers
    :param context: as for KafkaException
    """

    def __init__(self, text: str, mechanisms: Sequence[str] = (), **context: Any) -> None:
        self.mechanisms = list(mechanisms)
        super().__init__(text, **context)


class TokenUnavailableError(KafkaException):
    """Raised when there is no OAuth token, or no ticket of Kerberos: who gives it fails, or does not answer in time."""

    retriable = True


class TokenTimeoutError(TokenUnavailableError):
    """Raised when no OAuth token, or no ticket of Kerberos, came in time; it may still come."""


class ThrottledError(KafkaException):
    """Raised when a request was not sent because the broker throttles this client. Raise the quota, or send less."""

    retriable = True
