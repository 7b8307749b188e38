"""A connection to a fake broker, which sends and reads whole requests and answers, without a client's retries."""

from __future__ import annotations

from contextlib import closing
from typing import Any, TypeVar, cast

from pykafka.exceptions import SocketDisconnectedError
from pykafka.handlers import ThreadingHandler
from pykafka.network.frames import FrameReader
from pykafka.protocol import wire
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.protocol.schema import Request, Response, decode_response, encode_request
from pykafka.testing import FakeCluster

R = TypeVar("R", bound=Response)
LIMIT = 10.0
handler = ThreadingHandler()


class Connection:
    """A connection to one broker.

    :param cluster: it belongs to
    :param broker: its number
    """

    def __init__(self, cluster: FakeCluster, broker: int = 1) -> None:
        host, port = cluster.hosts.split(",")[broker - 1].split(":")
        self.stream = handler.connect(handler.resolve(host, int(port))[0], LIMIT)
        self._frames = FrameReader(self.stream, handler, 4096, False)
        self._requests: list[tuple[type[Request[Any]], int]] = []

    def close(self) -> None:
        self.stream.close()

    def send(self, request: Request[R], version: int | None = None) -> None:
        """Send a request, in its newest version if none is named."""
        chosen = request.max_version if version is None else version
        self.stream.send(encode_request(request, chosen, len(self._requests), "test"), LIMIT)
        self._requests.append((type(request), chosen))

    def read(self, timeout: float = LIMIT) -> tuple[int, Response]:
        """Return the next answer, with the number of its request."""
        frame = self._frames.next(timeout)
        number = int.from_bytes(frame[:4], "big")
        kind, version = self._requests[number]
        found, response = decode_response(kind, version, frame)
        assert found == number
        return number, response

    def ask(self, request: Request[R], version: int | None = None) -> R:
        """Return the answer to a request."""
        self.send(request, version)
        response = self.read()[1]
        assert isinstance(response, request.response)
        return cast("R", response)

    def is_cut(self) -> bool:
        """Return whether the broker has ended the connection, after waiting for that."""
        try:
            self._frames.next(LIMIT)
        except (SocketDisconnectedError, ConnectionResetError):
            return True
        return False


def connected(cluster: FakeCluster, broker: int = 1) -> closing[Connection]:
    """Return a connection as a context manager."""
    return closing(Connection(cluster, broker))


def produce(topic: str, *values: bytes, partition: int = 0, acks: int = -1) -> wire.ProduceRequest:
    """Return a request that writes values, for a version that has the topic's name."""
    batch = RecordBatchBuilder()
    for value in values:
        batch.append(handler.time_ms(), None, value, None)
    part = wire.ProduceRequest.Topic.Partition(index=partition, records=b"".join(batch.build(0)))
    data = [wire.ProduceRequest.Topic(name=topic, partition_data=[part])]
    return wire.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data)
