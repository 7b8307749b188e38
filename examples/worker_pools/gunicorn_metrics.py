"""gunicorn: each worker makes its own client, and /metrics shows what all of them have counted, whichever answers.

gunicorn --workers 4 --threads 8 examples.worker_pools.gunicorn_metrics:app
gunicorn --workers 4 --worker-class gevent examples.worker_pools.gunicorn_metrics:app
"""

import os

from flask import Flask, request
from prometheus_client import CollectorRegistry, make_wsgi_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from pykafka import KafkaClient
from pykafka.prometheus import KafkaCollector

app = Flask(__name__)
client = KafkaClient(os.environ["KAFKA"], client_id="events")
producer = client.producer()
registry = CollectorRegistry()
collector = KafkaCollector(client, registry=registry, directory=os.environ["METRICS"])
app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/metrics": make_wsgi_app(registry)})


@app.post("/events/<customer>")
def event(customer: str) -> tuple[dict[str, int], int]:
    delivery = producer.produce(os.environ["TOPIC"], request.get_data(), key=customer.encode())
    delivery.get(timeout=30)
    return {"partition": delivery.partition, "offset": delivery.offset}, 201
