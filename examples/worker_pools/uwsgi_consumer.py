"""Consuming in uWSGI: a mule, which is a process of its own that serves no requests.

uwsgi --ini examples/worker_pools/uwsgi.ini --mule=examples/worker_pools/uwsgi_consumer.py
"""

import os
import signal

from pykafka import KafkaClient

client = KafkaClient(os.environ["KAFKA"])


def stop(*_: object) -> None:
    raise SystemExit


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)  # uWSGI ends a mule by this one
with client, client.consumer(os.environ["TOPIC"], group="mule", auto_offset_reset="earliest") as consumer:
    for record in consumer:
        print(f"consumed {record.value.decode()}", flush=True)
