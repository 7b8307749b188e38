"""Errors of connections, logins and requests under way. Import them from `pykafka.exceptions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykafka.errors.base import KafkaException

__all__ = [
    "ConnectTimeoutError",
    "ConnectionRefused",
    "CorrelationIdError",
    "DeadLetterError",
    "DeserializationError",
    "ForeignClusterError",
    "FrameTooLargeError",
    "IncompleteResponseError",
    "NameResolutionError",
    "NotKafkaError",
    "ProducerFencedError",
    "ProxyError",
    "ResponseTimeoutError",
    "SaslRequiredError",
    "SerializationError",
    "SocketDisconnectedError",
    "TelemetryUnavailableError",
    "ThrottledError",
    "TlsError",
    "TokenTimeoutError",
    "TokenUnavailableError",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionFatalError",
    "TransactionOutcomeUnknownError",
    "TransactionStateError",
    "TransactionUnfinishedError",
    "WrongBrokerError",
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


class WrongBrokerError(SocketDisconnectedError):
    """Raised when an address leads to another broker than the one that the client means, or to another cluster (KIP-1242).

    The broker there has refused the connection before any other request, but behind a login by SASL, if there is one. The
    client asks for metadata at its first addresses, and tries again; the request was not sent.
    """


class ForeignClusterError(WrongBrokerError):
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


class TelemetryUnavailableError(KafkaException):
    """Raised when no broker takes metrics of this client (KIP-714), or the client is not to send any."""


class ThrottledError(KafkaException):
    """Raised when a request was not sent because the broker throttles this client. Raise the quota, or send less."""

    retriable = True


class SerializationError(KafkaException):
    """Raised by `produce()` when a serializer fails or does not return bytes; `__cause__` is the serializer's error.

    The message is not sent. The text leaves out key and value, as they may be secret.

    :param text: what happened and what to do
    :param part: what could not be serialized: "key" or "value"
    :param context: as for KafkaException
    """

    def __init__(self, text: str, part: str, **context: Any) -> None:
        self.part = part
        super().__init__(text, **context)


class DeserializationError(KafkaException):
    """Raised when a deserializer of the consumer fails; `__cause__` is the deserializer's error.

    The text leaves out key and value, as they may be secret.

    :param text: what happened and what to do
    :param offset: of the message
    :param value: the message's value, as bytes
    :param partition_key: its key, as bytes
    :param part: what could not be deserialized: "key" or "value"; None where one function deserializes both
    :param context: as for KafkaException
    """

    def __init__(
        self,
        text: str,
        offset: int,
        value: bytes | None,
        partition_key: bytes | None,
        part: str | None = None,
        **context: Any,
    ) -> None:
        self.offset = offset
        self.value = value
        self.partition_key = partition_key
        self.part = part
        super().__init__(text, **context)

    @property
    def raw_value(self) -> bytes | None:
        """The message's value, as bytes."""
        return self.value

    @property
    def raw_key(self) -> bytes | None:
        """The message's key, as bytes."""
        return self.partition_key


class DeadLetterError(KafkaException):
    """Raised when a record could be neither read or handled, nor written as dead letter. The consumer stays at the record.

    :param text: what happened and what to do
    :param offset: of the record
    :param error: why it was to be a dead letter; `__cause__` says why there is none
    :param context: as for KafkaException
    """

    def __init__(self, text: str, offset: int, error: BaseException, **context: Any) -> None:
        self.offset = offset
        self.error = error
        super().__init__(text, **context)


class TransactionError(KafkaException):
    """Base of the errors of transactions."""


class TransactionStateError(TransactionError):
    """Raised when a call does not fit the state of the transaction; the text names the call that does."""


class TransactionAbortableError(TransactionError):
    """Raised when the transaction can only be aborted; the producer goes on after that. `__cause__` is the reason."""


class TransactionAbortedError(TransactionError):
    """The error of messages that were not sent when their transaction was aborted."""


class TransactionUnfinishedError(TransactionError):
    """Raised when a commit, an abort, a begin or `init_transactions()` is not complete in time. Call the same method again.

    It is not known whether the transaction has ended, unless the text says that it is aborted: then the producer lacks the
    epoch of the next one, which `begin_transaction()` asks for, too. After a begin, no transaction is open. `__cause__` is
    the last error of a broker, or of the way to it.
    """

    retriable = True


class TransactionOutcomeUnknownError(TransactionError):
    """Raised when a commit was sent, and neither an answer nor another attempt can tell whether it was made.

    Do not write the messages again before you know: docs/transactions.md says how to learn it. Its consumers are put back to
    their committed offsets, and the producer can begin the next transaction. `__cause__` is the last answer.
    """


class TransactionFatalError(TransactionError):
    """Raised when the producer can make no more transactions: close it, and make another. `__cause__` is the reason."""


class ProducerFencedError(TransactionFatalError):
    """Raised when another producer has taken over the transactional id: this one has to stop.

    From `commit_transaction()`: nothing is committed, unless the text says that the answer of an earlier attempt was lost.
    """
