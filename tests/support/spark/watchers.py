"""Facts of micro-batches, a webhook and a scraper: for tests of what watches a pipeline."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from pykafka.common import TopicPartition
from pykafka.exceptions import SocketDisconnectedError
from pykafka.handlers import Address as Place
from pykafka.handlers import Handler
from pykafka.spark.lag import QueryLag
from pykafka.spark.pipeline.events import batch_facts
from pykafka.spark.pipeline.operation import Address

REPORT = {
    "batchId": 7,
    "numInputRows": 12,
    "processedRowsPerSecond": 3.04,
    "observedMetrics": {
        "pykafka": {"rows": 10, "malformed": 2},
        "pykafka_late": {"dead_letters": 3},
        "own": {"rows": 99},
    },
    "sources": [{"endOffset": {"a": {"0": 5}}}, {"endOffset": '{"a": {"1": 6}, "b": {"0": 7}}'}, {"endOffset": "None"}],
    "stateOperators": [{"numRowsTotal": 4, "memoryUsedBytes": 100}, {"numRowsTotal": 5, "memoryUsedBytes": 200}],
    "durationMs": {"triggerExecution": 1500, "addBatch": 1200},
}
LAG = QueryLag("clicks", 7, {TopicPartition("a", 0): 1, TopicPartition("a", 1): 2})


def facts(**changed: Any) -> dict[str, Any]:
    return batch_facts("clicks", {**REPORT, **changed}, LAG)


def ask(handler: Handler, address: Address, request: bytes) -> bytes:
    """Return all that a server answers to a request."""
    found = handler.resolve(address.host, address.port, timeout=10)[0]
    stream = handler.connect(Place(*found), 10)
    try:
        stream.send([request], 10)
        answer, buffer = b"", bytearray(65536)
        while count := stream.recv_into(buffer, 10):
            answer += buffer[:count]
        return answer
    finally:
        stream.close()


class Endpoint:
    """A webhook on this machine: notes what it gets, and answers with the next status."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.got = threading.Semaphore(0)
        endpoint = self

        class Take(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(endpoint.statuses.pop(0) if endpoint.statuses else 204)
                self.send_header("Content-Length", "0")
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                endpoint.got.release()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Take)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/s3cret?token=s3cret"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()


def broken() -> SocketDisconnectedError:
    return SocketDisconnectedError("the broker hung up")
