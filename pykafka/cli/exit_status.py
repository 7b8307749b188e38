"""Exit statuses for scripts, and the messages with them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from pykafka.exceptions import (
    AdminError,
    BrokerIdNotRegistered,
    DelegationTokenNotFound,
    GroupIdNotFound,
    KafkaException,
    LogDirNotFound,
    NoBrokersAvailableError,
    ResourceNotFound,
    ResponseTimeoutError,
    SocketDisconnectedError,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    ZooKeeperError,
)


class Status(IntEnum):
    """The exit statuses. 2 is click's for a wrong command line; 130 and 143 follow Ctrl-C and SIGTERM."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    UNSUPPORTED = 5
    LAGGING = 6


#: The alternative on brokers that lack an API.
INSTEAD = {
    "ListGroups": "groups of older brokers are known to ZooKeeper alone",
    "CreateTopics": "on older brokers give --zookeeper to create_topic: there it is done",
    "DeleteTopics": "on older brokers give --zookeeper to delete_topic: there it is done",
}
#: How the sentence of an error begins if the broker lacks the API, and not a part of it.
_LACKING = "the broker does not have "

_STATUSES: tuple[tuple[type[KafkaException], Status], ...] = (
    (UnknownTopicOrPartition, Status.NOT_FOUND),
    (GroupIdNotFound, Status.NOT_FOUND),
    (ResourceNotFound, Status.NOT_FOUND),
    (TransactionalIdNotFound, Status.NOT_FOUND),
    (DelegationTokenNotFound, Status.NOT_FOUND),
    (BrokerIdNotRegistered, Status.NOT_FOUND),
    (LogDirNotFound, Status.NOT_FOUND),
    (UnsupportedVersion, Status.UNSUPPORTED),
    (NoBrokersAvailableError, Status.UNREACHABLE),
    (SocketDisconnectedError, Status.UNREACHABLE),
    (ResponseTimeoutError, Status.UNREACHABLE),
    (ZooKeeperError, Status.UNREACHABLE),
)


def status_of(error: KafkaException) -> Status:
    """Return the exit status for an error; for several items that failed, the one that all have, or 1."""
    if isinstance(error, AdminError):
        found = {status_of(one) for one in error.errors.values()}
        return found.pop() if len(found) == 1 else Status.FAILED
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), Status.FAILED)


def explain(error: KafkaException) -> str:
    """Return the message for an error: a sentence, and a line for each failed step of connecting, or each failed item."""
    if isinstance(error, AdminError):
        return "\n".join(explain(one) for one in error.errors.values())
    if isinstance(error, UnsupportedVersion) and error.text.startswith(_LACKING) and error.api in INSTEAD:
        return f"{error}; {INSTEAD[error.api]}"
    return "\n".join([in_options(str(error)), *(f"  {line}" for line in _steps(error))])


def in_options(text: str) -> str:
    """Return a sentence of the library, with kafka-tools' options added if it names parameters for TLS, SASL or ZooKeeper.

    An error of a pipeline names the options of its file itself.
    """
    if " As options: " in text:
        return text
    if "ssl_config" in text or "SslConfig" in text:
        return f"{text} (of kafka-tools: --tls, --cafile, --certfile, --keyfile)"
    if "zookeeper_hosts=" in text:
        return f"{text} (of kafka-tools: --zookeeper HOST:PORT)"
    if "sasl=" in text or "sasl_" in text:
        return f"{text} (of kafka-tools: --config FILE with security.protocol, sasl.mechanism, sasl.username, sasl.password)"
    return text


def _steps(error: KafkaException) -> Iterator[Any]:
    """Yield the attempts of this error, and of the errors of single brokers inside it."""
    for step in error.ledger:
        inner = step[1] if isinstance(step, tuple) and len(step) == 2 else None
        if isinstance(inner, KafkaException):
            yield from _steps(inner)
        elif not isinstance(inner, Exception):
            yield step
