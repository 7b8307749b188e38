"""The metrics of a share consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pykafka.consumer.consumer_metrics import add_fetches, add_polls, add_rebalances, add_records
from pykafka.metadata.client_metrics import begin_reading
from pykafka.metrics.listener import ASSIGNED

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.metrics.reading import Reading
    from pykafka.metrics.sensors import Sensor

GROUP, FETCH, COORDINATOR = (
    "consumer-share-metrics",
    "consumer-share-fetch-manager-metrics",
    "consumer-share-coordinator-metrics",
)


class Counting(Protocol):
    """A `ShareEngine`, as far as its metrics know it."""

    cluster: BaseCluster
    handler: Handler
    listener: ClientListener | None
    acknowledgements: Sensor
    failures: Sensor
    made_at_ms: int


def read_share(engine: Counting) -> Reading:
    """Return the metrics of a share consumer, with those of its client's connections."""
    reading, part = begin_reading(engine, "consumer")
    add_polls(reading, GROUP, part)
    reading.stalls(GROUP, part)
    add_fetches(reading, FETCH, engine.cluster, "ShareFetch")
    # A new assignment is all that there is to a rebalance: nothing is given away.
    add_rebalances(reading, COORDINATOR, part, ASSIGNED)
    if part is not None:
        add_records(reading, FETCH, [*part.topics.copy().values(), part.left], ends=("avg", "max"))
        reading.meter(FETCH, "acknowledgements-send", [engine.acknowledgements], of="total")
        reading.meter(FETCH, "acknowledgements-error", [engine.failures], of="total")
    return reading
