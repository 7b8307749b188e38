"""A collector's clients made by hand, and what it shows of them."""

from __future__ import annotations

from pykafka.handlers import Handler
from pykafka.metadata.lifecycle import Closables
from pykafka.metrics.metric import COUNTER, Buckets, Metric
from pykafka.prometheus import KafkaCollector
from tests.support.some_metrics import HasSome, metric

SENT = "kafka_client_producer_record_send_total"
OPEN = "kafka_client_producer_connections"
BUCKETS = Buckets((5.0, 10.0), (1, 2, 1), 40.0)


def some(sent: float, connections: float = 1, client_id: str = "c") -> list[Metric]:
    return [
        metric("producer-metrics", "record-send-total", sent, COUNTER, client_id=client_id),
        metric("producer-metrics", "connection-count", connections, client_id=client_id),
    ]


def values(collector: KafkaCollector) -> dict[str, float]:
    """Return {name of a series: value}, of names with one series."""
    return {sample.name: sample.value for family in collector.collect() for sample in family.samples}


class Closed(HasSome):
    """A client with a cluster that can be closed."""

    def __init__(self, handler: Handler, *metrics: Metric) -> None:
        super().__init__(*metrics)
        self.cluster = ClosedCluster(handler)


class ClosedCluster:
    """A cluster as far as a collector knows it."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self._closables = Closables()
        self.stop_at_close = self._closables.add

    def close(self) -> None:
        """Stop what is to be stopped."""
        self._closables.stop(midway=False)
