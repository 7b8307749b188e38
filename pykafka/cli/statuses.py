"""Exit statuses for scripts, and the messages with them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from pykafka.exceptions import (
    GroupIdNotFound,
    KafkaException,
    NoBrokersAvailableError,
    ResponseTimeoutError,
    SocketDisconnectedError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
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


#: The first release of Kafka with an API.
SINCE = {
    "ListGroups": "0.9",
    "DescribeGroups": "0.9",
    "CreateTopics": "0.10.1",
    "DeleteTopics": "0.10.1",
    "DescribeConfigs": "0.11",
}
#: The alternative on older brokers.
INSTEAD = {
    "ListGroups": "; groups of older brokers are known to ZooKeeper alone",
    "CreateTopics": "; on an older one give --zookeeper: there it is done",
    "DeleteTopics": "; on an older one give --zookeeper: there it is done",
}

_STATUSES: tuple[tuple[type[KafkaException], Status], ...] = (
    (UnknownTopicOrPartition, Status.NOT_FOUND),
    (GroupIdNotFound, Status.NOT_FOUND),
    (UnsupportedVersion, Status.UNSUPPORTED),
    (NoBrokersAvailableError, Status.UNREACHABLE),
    (SocketDisconnectedError, Status.UNREACHABLE),
    (ResponseTimeoutError, Status.UNREACHABLE),
)


def status_of(error: KafkaException) -> Status:
    """Return the exit status for an error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), Status.FAILED)


def explain(error: KafkaException) -> str:
    """Return the message for an error: a sentence, and a line for each failed step of connecting."""
    if isinstance(error, UnsupportedVersion) and error.api in SINCE:
        where = f"the broker {error.broker}" if error.broker else "the broker"
        return (
            f"{where} does not support {error.api}, which needs Kafka {SINCE[error.api]} or later"
            f"{INSTEAD.get(error.api, '')}"
        )
    return "\n".join([in_options(str(error)), *(f"  {line}" for line in _steps(error))])


def in_options(text: str) -> str:
    """Return a sentence of the library, with kafka-tools' options added if it names parameters for TLS."""
    if "ssl_config" in text or "SslConfig" in text:
        return f"{text} (of kafka-tools: --tls, --cafile, --certfile, --keyfile)"
    return text


def _steps(error: KafkaException) -> Iterator[Any]:
    """Yield the attempts of this error, and of the errors of single brokers inside it."""
    for step in error.ledger:
        inner = step[1] if isinstance(step, tuple) and len(step) == 2 else None
        if isinstance(inner, KafkaException):
            yield from _steps(inner)
        elif not isinstance(inner, Exception):
            yield step
