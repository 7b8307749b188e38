"""dramatiq: one producer a process, closed when the process stops its threads.

dramatiq examples.worker_pools.dramatiq_actors --processes 2 --threads 8
"""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from pykafka import KafkaClient

client = KafkaClient(os.environ["KAFKA"])
producer = client.producer(linger_ms=50)


class CloseClient(dramatiq.Middleware):
    """Delivers what is queued when a worker process ends."""

    def after_worker_shutdown(self, broker: object, worker: object) -> None:
        client.close()


dramatiq.set_broker(RedisBroker(url=os.environ["QUEUE"]))
dramatiq.get_broker().add_middleware(CloseClient())


@dramatiq.actor
def report(number: int) -> None:
    producer.produce(os.environ["TOPIC"], b"actor %d" % number)
