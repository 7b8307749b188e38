"""The names of OpenTelemetry's conventions for messaging, as of semantic conventions 1.42 (status: development)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
TOPIC = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
GROUP = "messaging.consumer.group.name"
CLIENT_ID = "messaging.client.id"
COUNT = "messaging.batch.message_count"
KEY = "messaging.kafka.message.key"
OFFSET = "messaging.kafka.offset"
TOMBSTONE = "messaging.kafka.message.tombstone"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"
#: Of a batch of Spark: how many traces its records belong to. No convention has a name for it.
TRACES = "messaging.kafka.batch.trace_count"

#: Types of operations.
SEND, RECEIVE, PROCESS, SETTLE = "send", "receive", "process", "settle"

#: Metrics.
OPERATION_DURATION = "messaging.client.operation.duration"
SENT = "messaging.client.sent.messages"
CONSUMED = "messaging.client.consumed.messages"
PROCESS_DURATION = "messaging.process.duration"
#: The bounds of histograms of durations that the conventions advise (s).
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

#: The attributes of spans that metrics have, too: partitions, offsets and clients would make too many series.
OF_METRICS = (OPERATION_NAME, TOPIC, GROUP, ERROR_TYPE, SERVER_ADDRESS, SERVER_PORT)


def labels(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that the metrics of a span have."""
    found = {name: attributes[name] for name in OF_METRICS if name in attributes}
    found[SYSTEM] = "kafka"
    return found


def error_type(error: BaseException) -> str:
    """Return the name of an error for `error.type`: Kafka's own, else that of its class.

    :param error: its text is never used, as it may quote records
    """
    for one in (error, error.__cause__):
        name = getattr(one, "NAME", "")
        if isinstance(name, str) and name:
            return name
    kind = type(error)
    own = kind.__module__ == "builtins" or kind.__module__.startswith("pykafka.")
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"
