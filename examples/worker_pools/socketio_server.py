"""Flask-SocketIO: browsers see each record as it comes. The server runs on gevent, without monkey patching.

python -m examples.worker_pools.socketio_server 8080
"""

import os
import sys

from flask import Flask
from flask_socketio import SocketIO

from pykafka import KafkaClient

app = Flask(__name__)
server = SocketIO(app, async_mode="gevent")
client = KafkaClient(os.environ["KAFKA"], use_greenlets=True)


def forward() -> None:
    with client.consumer(os.environ["TOPIC"], auto_offset_reset="earliest") as consumer:
        for record in consumer:
            server.emit("record", record.value.decode())


if __name__ == "__main__":
    server.start_background_task(forward)
    server.run(app, port=int(sys.argv[1]))
