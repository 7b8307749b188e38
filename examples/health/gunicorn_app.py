"""A WSGI application with a consumer in each worker of gunicorn, and probes.

KAFKA=127.0.0.1:9092 TOPIC=orders gunicorn --workers 2 --threads 4 examples.health.gunicorn_app:app

Each worker makes its own client when its first request comes, which is the first probe. The probe reports the worker that
answers it: with several workers, an unreachable broker shows in each of them. A worker whose consumer has ended by an error
shows in its own answers alone, so it ends itself, and gunicorn starts another.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.health import Problem, wsgi_app

log = logging.getLogger(__name__)

#: Between two attempts to reach brokers, and before a worker ends, so that it is not started in a circle (s).
PAUSE_S = 2.0


class Worker:
    """The client and the consumer of one process, in a thread: the brokers may be away when it starts."""

    def __init__(self) -> None:
        self.client: KafkaClient | None = None
        self.error: Exception | None = None
        self.has_ended = False
        self.orders: list[str] = []
        threading.Thread(target=self.run, name="consumer", daemon=True).start()

    def run(self) -> None:
        """Handle records until the client is closed, at the end of the process."""
        try:
            self.client = self.connect()
            with self.client.consumer(os.environ["TOPIC"], group="orders", auto_commit=True) as consumer:
                for record in consumer:
                    self.orders.append((record.value or b"").decode())
        except Exception as error:
            log.exception("the consumer has ended, so this worker ends")
            self.error, self.has_ended = error, True
            time.sleep(PAUSE_S)
            os.kill(os.getpid(), signal.SIGTERM)  # gunicorn's worker answers its requests first

    def connect(self) -> KafkaClient:
        """Return a client once brokers can be reached."""
        while True:
            try:
                return KafkaClient(os.environ["KAFKA"])
            except KafkaException as error:
                self.error = error
                time.sleep(PAUSE_S)

    def problems(self) -> list[Problem]:
        """Return what the client does not know: that it is not there yet, or that its consumer has ended."""
        if self.has_ended:
            # its name alone: the text of an error may have the record in it, and anybody may ask
            text = f"the consumer has ended: {type(self.error).__name__}"
            return [Problem("intake-ended", text, "see the log", None, True)]
        if self.client is None:
            text = "there is no client yet" + (f": {self.error}" if self.error else "")
            return [Problem("starting", text, "see that brokers are up; it tries again by itself")]
        return []


class App:
    """The application: probes, and how many records this worker has handled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._probes = wsgi_app(self.clients, self.problems)

    @property
    def worker(self) -> Worker:
        """The worker of this process."""
        with self._lock:
            if self._worker is None:
                self._worker = Worker()
            return self._worker

    def clients(self) -> list[KafkaClient]:
        """Return the client of this process, once it is there."""
        client = self.worker.client
        return [] if client is None else [client]

    def problems(self) -> list[Problem]:
        """Return what the client of this process does not know."""
        return self.worker.problems()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if environ["PATH_INFO"] in ("/livez", "/readyz"):
            return self._probes(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/plain"), ("X-Process", str(os.getpid()))])
        return [b"%d\n" % len(self.worker.orders)]


app = App()
