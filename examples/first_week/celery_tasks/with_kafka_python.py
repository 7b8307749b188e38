import os

from celery.signals import worker_process_init
from kafka import KafkaProducer

from examples.first_week.celery_tasks import make_app

app = make_app()
producer = None


@worker_process_init.connect
def connect(**_):
    global producer  # its thread does not survive a fork
    producer = KafkaProducer(bootstrap_servers=os.environ["KAFKA"])


@app.task
def tell(number):
    producer.send(os.environ["TOPIC"], b"%d" % number).get(10)
