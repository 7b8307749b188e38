"""RQ: each job runs in a process of its own, which ends without the interpreter's end. So each job delivers what it produced.

rq worker --url redis://localhost jobs
"""

import os

from pykafka import KafkaClient

client = KafkaClient(os.environ["KAFKA"])  # RQ imports this module in each job's process
producer = client.producer()


def report(number: int) -> None:
    producer.produce(os.environ["TOPIC"], b"job %d" % number)
    producer.flush(timeout=30)  # raises if a message was not delivered, and RQ says that the job failed
