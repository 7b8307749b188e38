"""A scripted broker: one partition of one topic, whose answers a test may replace or damage."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from pykafka.protocol import wire
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.protocol.schema import Request

TOPIC = "scripted"
#: What it speaks: versions without tagged fields, so that frames are easy to damage; tests may add others.
VERSIONS: dict[type[Request[Any]], int] = {
    wire.ProduceRequest: 7,
    wire.FetchRequest: 10,
    wire.ListOffsetsRequest: 2,
    wire.MetadataRequest: 5,
    wire.HeartbeatRequest: 0,
    wire.ApiVersionsRequest: 2,
}


def batch(values: list[bytes], base_offset: int = 0, codec: int = 0) -> bytes:
    """Return a record batch as a broker stores it."""
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(1_600_000_000_000, None, value, None)
    sent = b"".join(bytes(piece) for piece in builder.build(codec))
    return base_offset.to_bytes(8, "big") + sent[8:]


class ScriptedBroker:
    """Answer requests on 127.0.0.1 during the `with` block.

    :param records: what the partition holds: record batches, one after another, from offset 0 on
    :param damage: called with (request class, frame without its length), returns what to send instead; None hangs up
    :param produce_error: the error code for each Produce
    """

    def __init__(
        self,
        records: bytes = b"",
        damage: Callable[[type[Any], bytes], bytes | None] | None = None,
        produce_error: int = 0,
    ) -> None:
        self.records = records
        self.damage = damage or (lambda _, frame: frame)
        self.produce_error = produce_error
        #: Called with (API key, version): whether to hang up on a request.
        self.closes_on: Callable[[int, int], bool] = lambda key, version: False
        #: What clients have called themselves.
        self.client_ids: set[str] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the client was first
                continue
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while len(size := stream.read(4)) == 4:
                    answer = self._answer(stream.read(int.from_bytes(size, "big")))
                    if answer is None:
                        return
                    connection.sendall(answer)
            except OSError:
                return

    def _answer(self, frame: bytes) -> bytes | None:
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        if self.closes_on(key, version):
            return None
        client_id = int.from_bytes(frame[8:10], "big")
        self.client_ids.add(frame[10 : 10 + client_id].decode())
        request_cls = next(cls for cls in VERSIONS if cls.api_key == key)
        if version > VERSIONS[request_cls]:  # only ApiVersions is asked for before it is known
            body = wire.ApiVersionsResponse(error_code=35).encode(0)
        else:
            # headers have tagged fields too, in flexible versions: none
            flexible = request_cls.is_flexible(version)
            request = request_cls.decode(frame[10 + client_id + flexible :], version)
            # of ApiVersions alone, the answer's header has none in any version
            body = bytes(flexible and request_cls is not wire.ApiVersionsRequest) + self._respond(request).encode(
                version
            )
        damaged = self.damage(request_cls, frame[4:8] + body)
        return None if damaged is None else len(damaged).to_bytes(4, "big") + damaged

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.ApiVersionsRequest):
            keys = [
                wire.ApiVersionsResponse.ApiVersion(api_key=cls.api_key, min_version=0, max_version=version)
                for cls, version in VERSIONS.items()
            ]
            return wire.ApiVersionsResponse(api_keys=keys)
        if isinstance(request, wire.HeartbeatRequest):
            return wire.HeartbeatResponse(error_code=25)
        if isinstance(request, wire.MetadataRequest):
            return self._metadata()
        if isinstance(request, wire.ListOffsetsRequest):
            partition = wire.ListOffsetsResponse.Topic.Partition(partition_index=0, offset=0)
            return wire.ListOffsetsResponse(topics=[wire.ListOffsetsResponse.Topic(name=TOPIC, partitions=[partition])])
        if isinstance(request, wire.ProduceRequest):
            result = wire.ProduceResponse.Topic.Partition(index=0, error_code=self.produce_error, base_offset=0)
            return wire.ProduceResponse(
                responses=[wire.ProduceResponse.Topic(name=TOPIC, partition_responses=[result])]
            )
        return self._fetch(request)

    def _metadata(self) -> wire.MetadataResponse:
        host, port = self.hosts.split(":")
        partition = wire.MetadataResponse.Topic.Partition(
            partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        return wire.MetadataResponse(
            brokers=[wire.MetadataResponse.Broker(node_id=1, host=host, port=int(port))],
            controller_id=1,
            topics=[wire.MetadataResponse.Topic(name=TOPIC, partitions=[partition])],
        )

    def _fetch(self, request: wire.FetchRequest) -> wire.FetchResponse:
        wanted = request.topics[0].partitions[0].fetch_offset
        at = 0
        while at < len(self.records):
            base = int.from_bytes(self.records[at : at + 8], "big")
            if base + int.from_bytes(self.records[at + 23 : at + 27], "big") >= wanted:
                break
            at += 12 + int.from_bytes(self.records[at + 8 : at + 12], "big")
        else:
            threading.Event().wait(request.max_wait_ms / 1000)
        partition = wire.FetchResponse.Topic.Partition(partition_index=0, high_watermark=100, records=self.records[at:])
        return wire.FetchResponse(responses=[wire.FetchResponse.Topic(topic=TOPIC, partitions=[partition])])


class NamesItself(ScriptedBroker):
    """A leader that names itself as the closest replica, to all who name a rack."""

    def __init__(self) -> None:
        super().__init__(batch([b"message"]))
        self.fetches = 0

    def _fetch(self, request: wire.FetchRequest) -> wire.FetchResponse:
        self.fetches += 1
        if not request.rack_id:
            return super()._fetch(request)
        part = wire.FetchResponse.Topic.Partition(partition_index=0, preferred_read_replica=1)
        return wire.FetchResponse(responses=[wire.FetchResponse.Topic(topic=TOPIC, partitions=[part])])


class ManyPartitions(ScriptedBroker):
    """A broker that leads any number of partitions of one topic, and has fetch sessions.

    :param count: of the partitions
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        #: The partitions that metadata leaves out; how often still, where that is limited.
        self.hidden: frozenset[int] = frozenset()
        self.hides = -1
        #: The error codes that ListOffsets has for partitions.
        self.refused: dict[int, int] = {}
        #: What partitions hold, from offset 0 on.
        self.logs: dict[int, bytes] = {}
        self.listed = 0
        self._sessions: dict[int, dict[int, int]] = {}

    def _metadata(self) -> wire.MetadataResponse:
        response = super()._metadata()
        kind = wire.MetadataResponse.Topic.Partition
        hidden = self.hidden if self.hides else frozenset()
        self.hides -= self.hides > 0
        response.topics[0].partitions = [
            kind(partition_index=id_, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for id_ in range(self.count)
            if id_ not in hidden
        ]
        return response

    def _respond(self, request: Any) -> Any:
        if not isinstance(request, wire.ListOffsetsRequest):
            return super()._respond(request)
        self.listed += 1
        kind = wire.ListOffsetsResponse.Topic
        ids = [part.partition_index for topic in request.topics for part in topic.partitions]
        parts = [
            kind.Partition(partition_index=id_, offset=0, timestamp=-1, error_code=self.refused.get(id_, 0))
            for id_ in ids
        ]
        return wire.ListOffsetsResponse(topics=[kind(name=TOPIC, partitions=parts)])

    def _fetch(self, request: wire.FetchRequest) -> wire.FetchResponse:
        number = request.session_id or len(self._sessions) + 1
        session = self._sessions.setdefault(number, {})
        for forgotten in request.forgotten_topics_data:
            for id_ in forgotten.partitions:
                session.pop(id_, None)
        session |= {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}
        kind = wire.FetchResponse.Topic
        parts = [
            kind.Partition(partition_index=id_, high_watermark=100, records=log)
            for id_, log in list(self.logs.items())
            if session.get(id_, 100) < int.from_bytes(log[23:27], "big") + 1
        ]
        if not parts:
            threading.Event().wait(request.max_wait_ms / 1000)
        topics = [kind(topic=TOPIC, partitions=parts)] if parts else []
        return wire.FetchResponse(session_id=number, responses=topics)
