import os

from examples.first_week.celery_tasks import make_app
from pykafka import KafkaClient

app = make_app()
# Made once, before the workers fork: each worker gets a producer of its own from it.
producer = KafkaClient(os.environ["KAFKA"]).producer()


@app.task
def tell(number: int) -> None:
    producer.produce(os.environ["TOPIC"], b"%d" % number).get(timeout=10)
