"""Fake brokers without sockets: a test asks their data path, through the bytes of requests and answers."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import pykafka.testing.apis  # noqa: F401  (registers them)
from pykafka.handlers import ThreadingHandler
from pykafka.protocol import wire
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RecordBatchBuilder, scan
from pykafka.protocol.schema import Request, Response
from pykafka.testing.call import APIS, Call, Session
from pykafka.testing.state import ClusterState, Node
from pykafka.testing.topics import Partition, Topic

R = TypeVar("R", bound=Response)
#: The time of the first message of a batch (ms).
TIME_MS = 1_600_000_000_000
NEWEST_PRODUCE, NEWEST_FETCH = 13, 18


class Brokers:
    """The state of a cluster with one topic, "orders", and what its brokers answer.

    :param count: how many brokers; each has a replica of each partition
    :param partitions: of the topic
    :param configs: of the topic
    """

    def __init__(self, count: int = 1, partitions: int = 1, **configs: str) -> None:
        self.state = ClusterState(ThreadingHandler())
        for number in range(1, count + 1):
            node = self.state.nodes[number] = Node(number, f"rack-{number}")
            node.is_up = True
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.topic: Topic = self.state.add_topic("orders", self.state.place(partitions, count), named)

    @property
    def partition(self) -> Partition:
        """The first partition of the topic."""
        return self.topic.partitions[0]

    def answer(self, request: Request[R], version: int, node: int = 1) -> R | None:
        """Return what a broker answers; None: nothing. Both go through their bytes."""
        read = type(request).decode(request.encode(version), version)
        call = Call(self.state, self.state.nodes[node], Session(), read, version, "test")
        with self.state.lock:
            found = APIS[request.api_key].answer(call, read)
        if found is None:
            return None
        return cast("R", request.response.decode(found.encode(version), version))

    def ask(self, request: Request[R], version: int, node: int = 1) -> R:
        """Return what a broker answers."""
        found = self.answer(request, version, node)
        assert found is not None
        return found

    def produce(
        self,
        records: Any,
        version: int = NEWEST_PRODUCE,
        *,
        index: int = 0,
        node: int = 1,
        acks: int = -1,
        timeout_ms: int = 0,
    ) -> wire.ProduceResponse.Topic.Partition:
        """Write to a partition, and return its answer."""
        request = self.produce_request(records, version, index=index, acks=acks, timeout_ms=timeout_ms)
        return self.ask(request, version, node).responses[0].partition_responses[0]

    def produce_request(
        self, records: Any, version: int = NEWEST_PRODUCE, *, index: int = 0, acks: int = -1, timeout_ms: int = 0
    ) -> wire.ProduceRequest:
        """Return a request that writes to a partition."""
        part = wire.ProduceRequest.Topic.Partition(index=index, records=records)
        topic = wire.ProduceRequest.Topic(partition_data=[part])
        topic.name, topic.topic_id = ("orders", topic.topic_id) if version < 13 else ("", self.topic.id)
        return wire.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])

    def fetch_request(
        self, offset: int = 0, version: int = NEWEST_FETCH, indices: tuple[int, ...] = (0,), **more: Any
    ) -> wire.FetchRequest:
        """Return a request that reads partitions, and does not wait; `more` is set in the request or its partitions."""
        fields = {field.name for field in wire.FetchRequest.fields}
        whole: dict[str, Any] = {"max_bytes": 2**20, "min_bytes": 1} if version >= 3 else {"min_bytes": 1}
        whole |= {name: value for name, value in more.items() if name in fields}
        parts: dict[str, Any] = {"partition_max_bytes": 2**20, "fetch_offset": offset}
        parts |= {name: value for name, value in more.items() if name not in fields}
        wanted = [wire.FetchRequest.Topic.Partition(partition=index, **parts) for index in indices]
        topic = wire.FetchRequest.Topic(partitions=wanted)
        topic.topic, topic.topic_id = ("orders", topic.topic_id) if version < 13 else ("", self.topic.id)
        return wire.FetchRequest(topics=[topic], **whole)

    def fetch(
        self, offset: int = 0, version: int = NEWEST_FETCH, node: int = 1, **more: Any
    ) -> wire.FetchResponse.Topic.Partition:
        """Read a partition, and return its answer."""
        return self.ask(self.fetch_request(offset, version, **more), version, node).responses[0].partitions[0]


def batch(
    *values: str | None,
    codec: int = 0,
    time_ms: int = TIME_MS,
    keys: tuple[str | None, ...] = (),
    headers: bool = False,
    **producer: Any,
) -> bytes:
    """Return a batch of format 2; the messages are a millisecond apart.

    :param producer: producer_id, producer_epoch, base_sequence, transactional
    """
    return b"".join(builder_of(values, time_ms, keys, headers).build(codec, **producer))


def old_batch(*values: str | None, magic: int, codec: int = 0, keys: tuple[str | None, ...] = ()) -> bytes:
    """Return a message set of format 0 or 1."""
    return encode_message_set(builder_of(values, TIME_MS, keys, False), magic, codec)


def builder_of(
    values: tuple[str | None, ...], time_ms: int, keys: tuple[str | None, ...], headers: bool
) -> RecordBatchBuilder:
    """Return a builder with messages."""
    builder = RecordBatchBuilder()
    for number, value in enumerate(values):
        key = keys[number] if keys else None
        builder.append(
            time_ms + number,
            None if key is None else key.encode(),
            None if value is None else value.encode(),
            [("h", b"1")] if headers else None,
        )
    return builder


def read(records: Any) -> list[tuple[int, str]]:
    """Return offset and value of the messages in an answer."""
    found = []
    for raw in scan(bytes(records or b""))[0]:
        reader = raw.open()
        while (message := reader.next()) is not None:
            found.append((message.offset, (message.value or b"").decode()))
    return found


def formats(records: Any) -> set[tuple[int, int]]:
    """Return format and codec of the batches in an answer."""
    return {(raw.magic, raw.codec) for raw in scan(bytes(records or b""))[0]}
