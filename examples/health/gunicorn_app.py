"""A WSGI application with a consumer in each worker of gunicorn, and probes.

KAFKA=127.0.0.1:9092 TOPIC=orders gunicorn --workers 2 --threads 4 examples.health.gunicorn_app:app

Each worker makes its own client when its first request comes, which is the first probe. The probe reports the worker that
answers it: with several workers, an unreachable broker shows in each of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from pykafka import KafkaClient
from pykafka.health import wsgi_app


class Worker:
    """The client and the consumer of one process."""

    def __init__(self) -> None:
        self.client = KafkaClient(os.environ["KAFKA"])
        self.handled = 0
        threading.Thread(target=self.consume, name="consumer", daemon=True).start()

    def consume(self) -> None:
        """Handle records until the client is closed, at the end of the process."""
        with self.client.consumer(os.environ["TOPIC"], group="orders", auto_commit=True) as consumer:
            for _ in consumer:
                self.handled += 1


class App:
    """The application: probes, and how many records this worker has handled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._probes = wsgi_app(lambda: self.worker.client)

    @property
    def worker(self) -> Worker:
        """The worker of this process."""
        with self._lock:
            if self._worker is None:
                self._worker = Worker()
            return self._worker

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if environ["PATH_INFO"] in ("/livez", "/readyz"):
            return self._probes(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"%d\n" % self.worker.handled]


app = App()
