"""`Instrumentation`: what `instrument()` has given to a client, and takes from it again."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from pykafka.otel import names
from pykafka.otel.headers import TraceHeaders
from pykafka.otel.spans import Spans
from pykafka.otel.tracer import ClientTracer

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import TracerProvider

    from pykafka.metadata.cluster import BaseCluster


class Instrumentation:
    """The spans and metrics of one client; `instrument()` makes it.

    Parameters: see `instrument`.
    """

    def __init__(
        self,
        client: Any,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        propagator: TextMapPropagator | None,
        record_keys: bool,
        links_only: bool,
    ) -> None:
        cluster = _cluster_of(client)
        self._cluster = weakref.ref(cluster)
        common = {names.SYSTEM: "kafka", names.CLIENT_ID: cluster.client_id}
        self._spans = Spans(cluster.handler, tracer_provider, meter_provider, common)
        self.tracer: ClientTracer | None = ClientTracer(
            cluster, self._spans, TraceHeaders(propagator, self._spans.failed), record_keys, links_only
        )
        self.tracer.owner = self
        cluster.stop_at_close(self._spans.finisher)
        cluster.trace(self.tracer)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until all spans that have ended by now have reached the span processors; return whether they have.

        On an event loop this has to run where blocking calls may wait; `client.close()` flushes, too.

        :param timeout: how long to wait (s)
        """
        return self._spans.finisher.join(timeout)

    def remove(self) -> None:
        """Take it from its client, unless that has another one by now."""
        tracer, self.tracer = self.tracer, None
        cluster = self._cluster()
        if cluster is not None and tracer is not None and cluster.tracer is tracer:
            cluster.trace(None)


def instrumentation_of(client: Any) -> Instrumentation | None:
    """Return what instruments a client; None if nothing does."""
    tracer = _cluster_of(client).tracer
    return tracer.owner if isinstance(tracer, ClientTracer) else None


def _cluster_of(client: Any) -> BaseCluster:
    """Return the cluster of a client.

    :raises TypeError: it is no client
    """
    inner = client._inner if type(client).__module__.startswith("pykafka.aio") else client
    cluster: BaseCluster | None = getattr(inner, "cluster", None)
    if cluster is None or not callable(getattr(cluster, "trace", None)):
        raise TypeError(f"instrument() takes a KafkaClient, not {type(client).__name__}")
    return cluster
