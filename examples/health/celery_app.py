"""Celery with a consumer in the main process, and probes on a port of their own.

KAFKA=127.0.0.1:9092 TOPIC=orders QUEUE=redis://127.0.0.1 PORT=8080 \
    celery -A examples.health.celery_app worker --concurrency 4
"""

from __future__ import annotations

import os
import threading
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from celery import Celery, bootsteps

from pykafka import KafkaClient
from pykafka.health import wsgi_app

app = Celery("tasks", broker=os.environ["QUEUE"], broker_connection_retry_on_startup=True)


@app.task
def handle(text: str) -> None:
    """Handle a record."""
    print(f"handled {text}", flush=True)


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log no probe."""


class Intake(bootsteps.StartStopStep):
    """A thread of the main process that takes records, and one that answers probes; they start after the pool has forked."""

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: object) -> None:
        """Begin."""
        self.stopping = threading.Event()
        self.client = KafkaClient(os.environ["KAFKA"])
        self.thread = threading.Thread(target=self.run, name="intake")
        self.thread.start()
        port = int(os.environ["PORT"])
        self.server = make_server("", port, wsgi_app(self.client), handler_class=_Quiet)
        threading.Thread(target=self.server.serve_forever, name="probes", daemon=True).start()

    def stop(self, worker: object) -> None:
        """End."""
        self.stopping.set()
        self.thread.join()
        self.server.shutdown()
        self.client.close()

    def run(self) -> None:
        """Make a task of each record, and commit it when the queue has the task."""
        with self.client.consumer(os.environ["TOPIC"], group="intake") as consumer:
            while not self.stopping.is_set():
                for record in consumer.poll(timeout=0.5):
                    handle.delay((record.value or b"").decode())
                    consumer.commit(record)


app.steps["worker"].add(Intake)
