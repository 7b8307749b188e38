"""Celery with a consumer in the main process, and probes on a port of their own.

KAFKA=127.0.0.1:9092 TOPIC=orders QUEUE=redis://127.0.0.1 PORT=8080 \
    celery -A examples.health.celery_app worker --concurrency 4

It starts without brokers, too: /livez is fine, and /readyz fails until they come. When the intake has ended by an error, as at
a record that is no text, /livez fails, so that Kubernetes starts the container again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from celery import Celery, bootsteps

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.health import Problem, wsgi_app

log = logging.getLogger(__name__)

#: Between two attempts to reach brokers (s).
PAUSE_S = 2.0
#: For a connection to send its request, and for the intake to end (s).
REQUEST_S, STOP_S = 5.0, 10.0

app = Celery("tasks", broker=os.environ["QUEUE"], broker_connection_retry_on_startup=True)


@app.task
def handle(text: str) -> None:
    """Handle a record."""
    print(f"handled {text}", flush=True)


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection: one that sends nothing keeps no probe from its answer."""

    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = REQUEST_S

    def handle(self) -> None:
        """Answer a request, if one comes in time."""
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Log no probe."""


class Intake(bootsteps.StartStopStep):
    """A thread of the main process that takes records, and one that answers probes; they start after the pool has forked."""

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: object) -> None:
        """Begin."""
        self.stopping = threading.Event()
        self.client: KafkaClient | None = None
        self.error: Exception | None = None
        self.has_ended = False
        self.thread = threading.Thread(target=self.run, name="intake", daemon=True)
        self.thread.start()
        probes = wsgi_app(self.clients, self.problems)
        self.server = make_server("", int(os.environ["PORT"]), probes, _Server, _Quiet)
        threading.Thread(target=self.server.serve_forever, name="probes", daemon=True).start()

    def stop(self, worker: object) -> None:
        """End, within seconds: closing the client ends a call of the intake that still waits."""
        self.stopping.set()
        self.thread.join(STOP_S)
        self.server.shutdown()
        self.server.server_close()
        if self.client is not None:
            self.client.close()

    def run(self) -> None:
        """Make a task of each record, and commit it when the queue has the task."""
        try:
            self.client = self.connect()
            if self.client is not None:
                self.take(self.client)
        except Exception as error:
            log.exception("the intake has ended")
            self.error, self.has_ended = error, True

    def connect(self) -> KafkaClient | None:
        """Return a client once brokers can be reached; None if the worker stops before."""
        while not self.stopping.is_set():
            try:
                return KafkaClient(os.environ["KAFKA"])
            except KafkaException as error:
                self.error = error
                self.stopping.wait(PAUSE_S)
        return None

    def take(self, client: KafkaClient) -> None:
        """Take records until the worker stops."""
        with client.consumer(os.environ["TOPIC"], group="intake") as consumer:
            while not self.stopping.is_set():
                for record in consumer.poll(timeout=0.5):
                    handle.delay((record.value or b"").decode())
                    consumer.commit(record)

    def clients(self) -> list[KafkaClient]:
        """Return the client, once it is there."""
        return [] if self.client is None else [self.client]

    def problems(self) -> list[Problem]:
        """Return what the client does not know: that it is not there yet, or that the intake has ended."""
        if self.has_ended:
            # its name alone: the text of an error may have the record in it, and anybody may ask
            text = f"the intake has ended: {type(self.error).__name__}"
            return [Problem("intake-ended", text, "see the log", None, True)]
        if self.client is None:
            text = "there is no client yet" + (f": {self.error}" if self.error else "")
            return [Problem("starting", text, "see that brokers are up; it tries again by itself")]
        return []


app.steps["worker"].add(Intake)
