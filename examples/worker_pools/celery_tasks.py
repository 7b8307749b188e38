"""Celery: one producer for all tasks, in the pools prefork, gevent, eventlet and threads.

celery -A examples.worker_pools.celery_tasks worker --pool prefork --concurrency 4
"""

import os

from celery import Celery
from celery.signals import worker_process_shutdown, worker_shutdown

from pykafka import KafkaClient

app = Celery("tasks", broker=os.environ["QUEUE"], broker_connection_retry_on_startup=True)
client = KafkaClient(os.environ["KAFKA"])
producer = client.producer(linger_ms=50)


@app.task
def report(number: int) -> None:
    producer.produce(os.environ["TOPIC"], b"task %d" % number)


@worker_process_shutdown.connect  # in each process of the pool prefork, which ends without the interpreter's end
@worker_shutdown.connect  # in the one process of the other pools
def close(**_: object) -> None:
    client.close()
