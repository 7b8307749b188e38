"""The metrics of clients for Prometheus, by prometheus_client; README.md has the map of this room."""

from __future__ import annotations

try:
    from pykafka.prometheus.collector import KafkaCollector
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise ImportError(
        "pykafka.prometheus needs the package prometheus_client: install the extra `prometheus`"
    ) from error

__all__ = ["KafkaCollector"]
