"""A WSGI application for prefork servers: POST counts a record in the process that answers, GET /metrics is the scrape.

DIRECTORY names the directory that the processes share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, make_wsgi_app

from pykafka.metrics.metric import COUNTER, Metric
from pykafka.prometheus import KafkaCollector
from tests.support.some_metrics import HasSome, metric


class Counting:
    """The count of one process."""

    def __init__(self) -> None:
        self.sent = 0
        self.client = HasSome(read=self._read)
        registry = CollectorRegistry()
        self.collector = KafkaCollector(
            self.client, registry=registry, directory=os.environ["DIRECTORY"], write_interval_ms=100
        )
        self.scrape = make_wsgi_app(registry)

    def _read(self) -> list[Metric]:
        return [
            metric("producer-metrics", "record-send-total", self.sent, COUNTER),
            metric("producer-metrics", "connection-count", 1),
        ]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request; every answer names the process."""

        def start(status: str, headers: list[tuple[str, str]]) -> Any:
            return start_response(status, [*headers, ("X-Process", str(os.getpid()))])

        if environ["REQUEST_METHOD"] == "POST":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            self.sent += 1
            start("201 Created", [("Content-Type", "text/plain")])
            return [b"counted\n"]
        body: Iterable[bytes] = self.scrape(environ, start)
        return body


#: uWSGI looks for this name.
application = Counting()
