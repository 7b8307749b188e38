"""uWSGI: each worker makes its own client, after the fork.

uwsgi --ini examples/worker_pools/uwsgi.ini
"""

import os

from flask import Flask, request

from pykafka import KafkaClient

app = Flask(__name__)
producer = KafkaClient(os.environ["KAFKA"]).producer()


@app.post("/events/<customer>")
def event(customer: str) -> tuple[dict[str, int], int]:
    delivery = producer.produce(os.environ["TOPIC"], request.get_data(), key=customer.encode())
    delivery.get(timeout=30)
    return {"partition": delivery.partition, "offset": delivery.offset}, 201
