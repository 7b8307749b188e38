"""A gevent server: each POSTed request becomes a message, and GET /events streams the topic as server-sent events.

    python -m examples.gevent_server --hosts 127.0.0.1:9092 --topic requests
    curl --data hello http://127.0.0.1:8000/
    curl --no-buffer http://127.0.0.1:8000/events

Nothing is monkey-patched: with `use_greenlets=True` the client's workers are greenlets of the same hub, so waiting for Kafka
never blocks other requests.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gevent
from gevent.pool import Pool
from gevent.pywsgi import WSGIServer

from pykafka import KafkaClient, KafkaException

#: A stream without events sends a sign of life this often (s), by which proxies and this server notice a closed peer.
KEEP_ALIVE_S = 5.0
MAX_BODY_BYTES = 512 * 1024
MAX_CONNECTIONS = 1000
#: How long streams may take to end when the server stops (s).
STOP_TIMEOUT_S = 1.0


class Application:
    """The WSGI application over one topic.

    :param client: of the cluster
    :param topic: the topic of all requests and events
    """

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.producer = client.producer()  # one for all requests

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        route = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if route == ("POST", "/"):
            status, body = self.produce(environ)
            start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [body.encode()]
        if route == ("GET", "/events"):
            start_response("200 OK", [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")])
            return self.events()
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"POST / or GET /events\n"]

    def produce(self, environ: dict[str, Any]) -> tuple[str, str]:
        """Produce the body of a request; return status and body of the response."""
        body = environ["wsgi.input"].read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            return "413 Content Too Large", f"at most {MAX_BODY_BYTES} bytes\n"
        try:
            # It waits for the acknowledgement, so 201 means that Kafka has the message.
            delivery = self.producer.produce(self.topic, body).get()
        except KafkaException as error:
            return "503 Service Unavailable", f"{error}\n"
        return "201 Created", f"partition {delivery.partition}, offset {delivery.offset}\n"

    def events(self) -> Iterator[bytes]:
        """Yield new messages until the listener disconnects: the server then closes this generator."""
        with self.client.consumer(self.topic, auto_offset_reset="latest") as consumer:
            yield b": listening\n\n"
            while True:
                record = consumer.one(KEEP_ALIVE_S)
                yield b": still here\n\n" if record is None else as_event(record.value or b"")


def as_event(value: bytes) -> bytes:
    """Return a value as one server-sent event, with a data line for each of its lines."""
    return b"".join(b"data: " + line + b"\n" for line in value.splitlines() or [b""]) + b"\n"


def main() -> None:
    """Serve until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="127.0.0.1:9092", help="host:port,host:port of Kafka brokers")
    parser.add_argument("--topic", default="requests")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any that is free")
    options = parser.parse_args()
    with KafkaClient(options.hosts, use_greenlets=True) as client:
        application = Application(client, options.topic)
        # A pool, so that stop() ends the streams as well; without one, gevent leaves running requests alone.
        pool = Pool(MAX_CONNECTIONS)
        server = WSGIServer(("127.0.0.1", options.port), application, spawn=pool, log=None)
        # These two lines turn a signal into an orderly end: the server stops, then the client delivers and closes.
        for number in (signal.SIGTERM, signal.SIGINT):
            gevent.signal_handler(number, server.stop, STOP_TIMEOUT_S)
        server.start()
        print(f"listening at http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever(STOP_TIMEOUT_S)


if __name__ == "__main__":
    main()
