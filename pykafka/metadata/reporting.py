"""`Reporting`: the producers and consumers of a cluster's client, and what the client reports of itself and of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka.metadata.lifecycle import Closables
from pykafka.metrics.flight_recorder import FlightRecorder
from pykafka.metrics.listener import METADATA, ClientListener
from pykafka.metrics.options import MetricsSettings
from pykafka.metrics.recorder import Recorder

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.metadata.brokers import Brokers
    from pykafka.metrics.metric import Metric
    from pykafka.metrics.tracing import RecordTracer
    from pykafka.network.node import Node


class Reporting:
    """The base of `BaseCluster` for what its client reports.

    :param handler: of the client
    :param client_id: of the client
    :param settings: what it reports; None for the defaults
    """

    _known_brokers: Brokers

    if TYPE_CHECKING:

        @property
        def brokers(self) -> Mapping[int, Node]: ...

    def __init__(self, handler: Handler, client_id: str, settings: MetricsSettings | None) -> None:
        #: The concurrency handler of this cluster and all that is made from it.
        self.handler = handler
        #: How brokers' logs and quotas know this client.
        self.client_id = client_id
        self.made_at_ms = handler.time_ms()
        #: How the client reports on itself.
        self.metrics_settings = settings = settings or MetricsSettings()
        #: The last events, and the listener, which hears of all that this client does; None for none.
        self.flight = FlightRecorder.of(handler, settings, client_id)
        self.listener: ClientListener | None = Recorder(handler, self.flight) if settings.record_metrics else None
        #: Starts the pushes of metrics (KIP-714), once a broker takes them; None: the client pushes none.
        self.start_telemetry: Callable[[Any], object] | None = None
        #: Objects of higher rooms that live as long as this cluster, by name. State: single steps.
        self.kept: dict[str, Any] = {}
        #: Sees single records, if the application asked for it; None for nothing. `trace()` sets it.
        self.tracer: RecordTracer | None = None
        self._closables = Closables()
        #: Called when a producer or a consumer starts, perhaps in a forked child: `stats_cb` has a worker.
        self.on_part_start: Callable[[], object] = int
        #: Called when the cluster is closed: the watch for stalls looks whether it has work left.
        self.at_end: Callable[[], object] = int

    @property
    def connection_count(self) -> int:
        """The number of connections that are up, those to first addresses included, as far as this client knows."""
        return sum(node.connection_count for node in self._known_brokers.every())

    @property
    def members(self) -> list[Any]:
        """The producers and consumers that were made from it, and are not dropped."""
        return self._closables.owners()

    def leave_to_owner(self, stoppable: Any) -> None:
        """Deregister `stoppable` from `close()`: its owner, which `close()` stops, stops it."""
        self._closables.discard(stoppable)

    def trace(self, tracer: RecordTracer | None) -> None:
        """Give records to a tracer from now on, of producers and consumers that exist, too; None: to none."""
        self.tracer = tracer
        self._closables.trace(tracer)

    def read_metrics(self) -> list[Metric]:
        """Return the metrics of this client, of its producers and of its consumers now."""
        from pykafka.metadata.client_metrics import read_client

        parts = self.listener.living() if isinstance(self.listener, Recorder) else []
        own: list[Metric] = read_client(self).metrics
        return [*own, *(metric for _, part in parts for metric in part.read_metrics())]

    def _report_update(self, began: float, outcome: str | KafkaException, is_first: bool = False) -> None:
        """Report an answer about metadata, or the error instead of one.

        :param began: when it was asked for, of the handler's clock (s)
        :param is_first: whether the client cannot begin without
        """
        if self.listener is None:
            return
        self.listener.on_event(METADATA, "cluster", self.handler.now() - began, outcome)
        if is_first and not isinstance(outcome, str):
            self.listener.on_fatal(outcome)
