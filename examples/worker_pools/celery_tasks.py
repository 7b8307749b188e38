"""Celery: one producer for all tasks, in the pools prefork, gevent and threads; it closes itself when a process ends.

celery -A examples.worker_pools.celery_tasks worker --pool prefork --concurrency 4
"""

import os

from celery import Celery

from pykafka import KafkaClient

app = Celery("tasks", broker=os.environ["QUEUE"], broker_connection_retry_on_startup=True)
client = KafkaClient(os.environ["KAFKA"])
producer = client.producer(linger_ms=50)


@app.task
def report(number: int) -> None:
    producer.produce(os.environ["TOPIC"], b"task %d" % number)
