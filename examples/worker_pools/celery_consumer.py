"""Celery with a consumer in the main process: each record becomes a task, and is committed when the queue has it.

celery -A examples.worker_pools.celery_consumer worker --pool prefork --concurrency 4
"""

import os
import threading

from celery import Celery, bootsteps

from pykafka import KafkaClient

app = Celery("tasks", broker=os.environ["QUEUE"], broker_connection_retry_on_startup=True)


@app.task
def handle(text: str) -> None:
    print(f"handled {text}", flush=True)


class Intake(bootsteps.StartStopStep):
    """A thread of the main process that takes records until the worker shuts down; it starts after the pool has forked."""

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: object) -> None:
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, name="intake")
        self.thread.start()

    def stop(self, worker: object) -> None:
        self.stopping.set()
        self.thread.join()

    def run(self) -> None:
        client = KafkaClient(os.environ["KAFKA"])
        with client, client.consumer(os.environ["TOPIC"], group="intake", auto_offset_reset="earliest") as consumer:
            while not self.stopping.is_set():
                for record in consumer.poll(timeout=0.5):
                    handle.delay(record.value.decode())
                    consumer.commit(record)


app.steps["worker"].add(Intake)
