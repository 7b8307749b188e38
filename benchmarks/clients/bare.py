"""A blocking socket with a request that is ready: what the broker and the system take, without a client."""

from __future__ import annotations

import socket
import time
from typing import ClassVar

from benchmarks.clients.base import Client, Job, Stopwatch
from benchmarks.job import payloads
from pykafka import KafkaClient
from pykafka.protocol import wire
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.protocol.schema import encode_request

WARM_UP = 200


class BareSocket(Client):
    """Send the same bytes again and again, and read the response as it comes."""

    distributions = ("pykafka",)
    tunings: ClassVar = {"sync_latency": "the same frame each time; sendall() and recv()"}

    def sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each request with its response (s)."""
        with KafkaClient(hosts=job.hosts) as client:
            partition = client.topics[job.topic].partitions[0]
            leader = partition.leader
            assert leader is not None
            address = (leader.host, leader.port)
            version = leader.api_version(wire.ProduceRequest)
        builder = RecordBatchBuilder()
        builder.append(-1, None, payloads(job.size)[0], None)
        part = wire.ProduceRequest.Topic.Partition(index=0, records=builder.build(0))
        topic = wire.ProduceRequest.Topic(name=job.topic, partition_data=[part])
        request = wire.ProduceRequest(acks=job.acks, timeout_ms=10_000, topic_data=[topic])
        frame = b"".join(bytes(piece) for piece in encode_request(request, version, 1, "bare"))
        taken = []
        with socket.create_connection(address) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for number in range(WARM_UP + job.messages):
                if number == WARM_UP:
                    watch.start()
                start = time.perf_counter()
                sock.sendall(frame)
                answer = sock.recv(4096)
                taken.append(time.perf_counter() - start)
                assert len(answer) > 8, answer
            watch.stop()
        return taken[WARM_UP:]
