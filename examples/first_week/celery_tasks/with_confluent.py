import os

from celery.signals import worker_process_init
from confluent_kafka import KafkaException, Producer

from examples.first_week.celery_tasks import make_app

app = make_app()
producer = None


@worker_process_init.connect
def connect(**_):
    global producer  # librdkafka's threads do not survive a fork
    producer = Producer({"bootstrap.servers": os.environ["KAFKA"]})


@app.task
def tell(number):
    failed = []
    producer.produce(
        os.environ["TOPIC"], b"%d" % number, on_delivery=lambda error, _: failed.append(error) if error else None
    )
    if producer.flush(10):
        raise TimeoutError("not stored after 10 s")
    if failed:
        raise KafkaException(failed[0])
