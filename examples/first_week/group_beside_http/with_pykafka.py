import sys
from collections.abc import Callable
from typing import Any

import gevent
from gevent.pywsgi import WSGIServer

from pykafka import KafkaClient


def main(brokers: str, topic: str, port: str) -> None:
    seen = 0

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(seen).encode()]

    def consume() -> None:
        nonlocal seen
        for record in consumer:
            seen += 1
            consumer.commit_async(record)

    with KafkaClient(brokers, use_greenlets=True) as client, client.consumer(topic, group=topic) as consumer:
        gevent.spawn(consume)
        WSGIServer(("127.0.0.1", int(port)), application, log=None).serve_forever()


main(*sys.argv[1:4])
