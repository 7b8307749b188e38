"""`Subscription`: which metrics a broker wants, and how. `choose_broker`: the broker that is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from pykafka.exceptions import KafkaException, TelemetryUnavailableError
from pykafka.protocol import wire
from pykafka.utils.compression import NAMES, NONE

if TYPE_CHECKING:
    from pykafka.network.node import Node

#: The id of a client that has none yet.
NO_ID = UUID(int=0)
#: How brokers write the prefix of all metrics, instead of the empty one that the protocol names.
_ALL = "*"
#: The limit of a push if the broker names none that is positive: Kafka's default of telemetry.max.bytes.
_DEFAULT_MAX_BYTES = 1024 * 1024


class Subscription(NamedTuple):
    """The metrics that a broker wants.

    :param id: of this set of subscriptions
    :param prefixes: of the names of metrics; an empty text means all, and no prefix at all means none
    :param interval_s: between two pushes
    :param is_delta: whether counters say what has come since the last push
    :param codec: by which a push is compressed
    :param max_bytes: of a push, before it is compressed
    """

    id: int
    prefixes: tuple[str, ...]
    interval_s: float
    is_delta: bool
    codec: int
    max_bytes: int

    @classmethod
    def of(cls, response: wire.GetTelemetrySubscriptionsResponse, default_interval_s: float) -> Subscription:
        """Return the subscription that a response has.

        :param default_interval_s: instead of an interval that is not positive
        """
        interval_s = response.push_interval_ms / 1000
        return cls(
            response.subscription_id,
            tuple("" if prefix == _ALL else prefix for prefix in response.requested_metrics),
            interval_s if interval_s > 0 else default_interval_s,
            response.delta_temporality,
            next((codec for codec in response.accepted_compression_types if codec in NAMES), NONE),
            response.telemetry_max_bytes if response.telemetry_max_bytes > 0 else _DEFAULT_MAX_BYTES,
        )


def choose_broker(nodes: Iterable[Node], avoided: Node | None, left: Callable[[], float]) -> Node:
    """Return a broker that takes metrics of clients: one that is connected, if there is any.

    :param avoided: is asked last
    :param left: returns how long brokers may still be asked for their versions (s)
    :raises TelemetryUnavailableError: no broker takes metrics
    :raises KafkaException: those that may take metrics cannot be reached
    """
    failure: KafkaException | None = None
    for node in sorted(nodes, key=lambda node: (node is avoided, node.reach)):
        try:
            if not node.knows_versions:
                node.connect_within(max(round(left() * 1000), 1))
            if wire.GetTelemetrySubscriptionsRequest.api_key in node.api_ranges():
                return node
        except KafkaException as error:
            failure = error.again()
        if left() <= 0:
            break
    if failure is not None:
        raise failure
    raise TelemetryUnavailableError(
        "no broker of this cluster takes metrics of clients: it needs Kafka 3.7, and a plugin in metric.reporters that "
        "receives them"
    )
