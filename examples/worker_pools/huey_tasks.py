"""huey: one producer a process, with workers that are threads or processes.

huey_consumer examples.worker_pools.huey_tasks.huey --workers 4 --worker-type process
"""

import os

from huey import RedisHuey

from pykafka import KafkaClient

huey = RedisHuey("tasks", url=os.environ["QUEUE"])
client = KafkaClient(os.environ["KAFKA"])
producer = client.producer(linger_ms=50)


@huey.task()
def report(number: int) -> None:
    producer.produce(os.environ["TOPIC"], b"task %d" % number)


@huey.on_shutdown()  # called in each worker
def deliver() -> None:
    producer.flush(timeout=30)
