"""Where PyKafka meets the kind of concurrency that it runs on; knows nothing of Kafka's messages."""

from pykafka.handlers.base import Address, Handler, Stream, Worker
from pykafka.handlers.futures import ResponseFuture
from pykafka.handlers.greenlets import GEventHandler
from pykafka.handlers.pending import Throttle
from pykafka.handlers.requests import RequestHandler
from pykafka.handlers.threads import ThreadingHandler

__all__ = [
    "Address",
    "GEventHandler",
    "Handler",
    "RequestHandler",
    "ResponseFuture",
    "Stream",
    "ThreadingHandler",
    "Throttle",
    "Worker",
]
